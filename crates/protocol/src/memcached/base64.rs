//! Base64 keys, read as leniently as memcached reads them.
//!
//! Bytes outside the alphabet are skipped, reading stops after the first padded group, and spare
//! bits are ignored. General decoders refuse all three, which is why this is not a library call.

use super::KEY_BYTES_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Mark of a byte outside the alphabet.
const FOREIGN: u8 = 0x80;

/// Value of each byte; padding counts as zero.
const VALUES: [u8; 256] = {
    let mut values = [FOREIGN; 256];
    let mut i = 0;
    while i < ALPHABET.len() {
        #[expect(clippy::cast_possible_truncation, reason = "i is below 64")]
        let value = i as u8;
        values[ALPHABET[i] as usize] = value;
        i += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// A buffer that holds any decoded key.
pub type KeyBuffer = [u8; KEY_BYTES_MAX];

/// Decodes a key of at most [`KEY_BYTES_MAX`] encoded bytes; `None` if it is not base64.
#[must_use]
pub fn decode<'b>(text: &[u8], buffer: &'b mut KeyBuffer) -> Option<&'b [u8]> {
    let sextets = text
        .iter()
        .filter(|&&byte| VALUES[usize::from(byte)] != FOREIGN)
        .count();
    if sextets == 0 || sextets % 4 != 0 || sextets / 4 * 3 > buffer.len() {
        return None;
    }
    let mut used = 0;
    let mut known = text
        .iter()
        .copied()
        .filter(|&byte| VALUES[usize::from(byte)] != FOREIGN);
    for _ in 0..sextets / 4 {
        let mut group = 0u32;
        let mut padding = 0;
        for byte in known.by_ref().take(4) {
            padding += usize::from(byte == b'=');
            group = group << 6 | u32::from(VALUES[usize::from(byte)]);
        }
        if padding > 2 {
            return None;
        }
        buffer[used..used + 3].copy_from_slice(&group.to_be_bytes()[1..]);
        used += 3 - padding;
        if padding > 0 {
            break;
        }
    }
    Some(&buffer[..used])
}

/// Appends the base64 form of `key`.
pub fn encode(out: &mut Vec<u8>, key: &[u8]) {
    for chunk in key.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(bytes);
        for i in 0..4 {
            let sextet = ALPHABET[(group >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { sextet } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = [0; KEY_BYTES_MAX];
        decode(text, &mut buffer).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        for length in 1..180 {
            let key: Vec<u8> = (0..length).map(|i| (i * 37) as u8).collect();
            let mut text = Vec::new();
            encode(&mut text, &key);
            assert_eq!(decoded(&text), Some(key), "{length} bytes");
        }
    }

    #[test]
    fn foreign_bytes_are_skipped() {
        assert_eq!(decoded(b"Y!W-E\xff="), Some(b"aa".to_vec()));
    }

    #[test]
    fn wrong_counts_and_wrong_padding_are_refused() {
        for text in [
            b"".as_slice(),
            b"YQ",
            b"YQ=",
            b"====",
            b"A===",
            b"!!!!",
            b"YWFhY",
        ] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }

    #[test]
    fn reading_stops_after_padding() {
        assert_eq!(decoded(b"YQ==YQ=="), Some(b"a".to_vec()));
        assert_eq!(decoded(b"=AAA"), Some(vec![0, 0]));
    }
}
