//! Length line: a character, a decimal number and a line end, as both codecs begin their values.

/// Numbers below this have a line in [`LINES`].
const SHORT_MAX: usize = 1000;

/// The lines of short numbers, first byte first, without the mark, for which the first byte is
/// free. The last byte is the line's length.
static LINES: [u64; SHORT_MAX] = {
    let mut lines = [0; SHORT_MAX];
    let mut number = 0;
    while number < SHORT_MAX {
        let digits = match number {
            0..10 => 1,
            10..100 => 2,
            _ => 3,
        };
        let mut bytes = [0; 8];
        let mut rest = number;
        let mut at = digits;
        while at > 0 {
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            at -= 1;
        }
        bytes[digits + 1] = b'\r';
        bytes[digits + 2] = b'\n';
        bytes[7] = digits as u8 + 3;
        lines[number] = u64::from_le_bytes(bytes);
        number += 1;
    }
    lines
};

/// Appends `mark`, `number` and a line end.
#[inline]
pub(crate) fn append(out: &mut Vec<u8>, mark: u8, number: usize) {
    // Most are short: these take no formatting.
    let Some(&line) = LINES.get(number) else {
        return append_long(out, mark, number);
    };
    let end = out.len() + (line >> 56) as usize;
    out.extend_from_slice(&(line | u64::from(mark)).to_le_bytes());
    out.truncate(end);
}

#[inline(never)]
fn append_long(out: &mut Vec<u8>, mark: u8, number: usize) {
    out.push(mark);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn every_number_has_its_digits() {
        let large = [usize::MAX, 1 << 32, (1 << 32) + 5, (1 << 32) + 100];
        for number in (0..2_000).chain(large) {
            let mut out = Vec::new();
            append(&mut out, b'$', number);
            assert_eq!(out, format!("${number}\r\n").as_bytes());
        }
    }
}
