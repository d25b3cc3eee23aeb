//! Length line: a character, a decimal number and a line end, as both codecs begin their values.

/// Appends `mark`, `number` and a line end.
#[inline]
pub(crate) fn append(out: &mut Vec<u8>, mark: u8, number: usize) {
    // Most are short: these take no formatting.
    let digit = |number: u32| b'0' + number as u8;
    match number as u32 {
        short @ 100..1000 if number < 1000 => {
            let (hundreds, rest) = (short / 100, short % 100);
            let (tens, ones) = (digit(rest / 10), digit(rest % 10));
            out.extend_from_slice(&[mark, digit(hundreds), tens, ones, b'\r', b'\n']);
        }
        short @ 10..100 if number < 100 => {
            let (tens, ones) = (digit(short / 10), digit(short % 10));
            out.extend_from_slice(&[mark, tens, ones, b'\r', b'\n']);
        }
        short @ 0..10 if number < 10 => {
            out.extend_from_slice(&[mark, digit(short), b'\r', b'\n']);
        }
        _ => append_long(out, mark, number),
    }
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
