//! Replies to meta commands, read from bytes cut anywhere.
//!
//! Source: memcached doc/protocol.txt, "Meta Commands".

use memchr::memchr;

use crate::read_through::error::Error;

/// Longest line of a reply.
const LINE_BYTES_MAX: usize = 4096;

/// A whole reply to one meta command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    /// `HD`, `VA`, `EN`, `NF`, `NS`, `EX`, or the whole line of an error.
    pub(super) code: Vec<u8>,
    /// The value that follows a `VA` line.
    pub(super) value: Option<Vec<u8>>,
    /// Flag c: the version.
    pub(super) version: Option<u64>,
    /// Flag t: the seconds that are left; none for an item without a deadline.
    pub(super) ttl_s: Option<u64>,
    /// Flags W, X, Z: the item is only there for a lease, or is out of date.
    pub(super) leased: bool,
    /// Flag W: the client has the lease to make the value.
    pub(super) won: bool,
}

impl Reply {
    /// Nothing there to be read.
    pub(super) fn is_miss(&self) -> bool {
        self.code == b"EN"
    }

    /// Nothing there to be changed.
    pub(super) fn is_absent(&self) -> bool {
        self.code == b"NF"
    }

    /// Another version than the one that was named, or nothing.
    pub(super) fn is_other(&self) -> bool {
        matches!(&self.code[..], b"EX" | b"NF" | b"NS")
    }

    /// Done.
    pub(super) fn is_done(&self) -> bool {
        self.code == b"HD"
    }

    /// Makes it the answer of a server that does not send a value which is known.
    pub(super) fn confirm(&mut self) {
        self.code = b"HD".to_vec();
        self.value = None;
    }

    /// Nothing, or why it was not done.
    pub(super) fn expect_done(&self, command: &str) -> Result<(), Error> {
        if self.is_done() {
            Ok(())
        } else {
            Err(self.refusal(command))
        }
    }

    /// The reply as an error.
    pub(super) fn refusal(&self, command: &str) -> Error {
        let line = String::from_utf8_lossy(&self.code);
        Error::Refused(format!("{command}: {line}").into())
    }
}

/// Takes a whole reply off the front of `received`; `None` if it is not complete.
///
/// # Errors
/// [`Error::Protocol`] if the bytes are no reply; the connection is of no use any more.
pub(super) fn read(received: &mut Vec<u8>) -> Result<Option<Reply>, Error> {
    let Some(end) = memchr(b'\n', received) else {
        if received.len() > LINE_BYTES_MAX {
            return Err(nonsense("a line without an end"));
        }
        return Ok(None);
    };
    let line = received[..end].strip_suffix(b"\r");
    let line = line.ok_or_else(|| nonsense("a line that does not end with CR LF"))?;
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    let code = words.next().unwrap_or_default();
    let mut reply = Reply::default();
    let mut used = end + 1;
    if code == b"VA" {
        let bytes = words.next().and_then(number);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| nonsense("VA without a length"))?;
        let Some(whole) = received.get(used..used + bytes + 2) else {
            return Ok(None);
        };
        let value = whole.strip_suffix(b"\r\n");
        let value = value.ok_or_else(|| nonsense("a value that does not end with CR LF"))?;
        reply.value = Some(value.to_vec());
        used += bytes + 2;
    }
    match code {
        b"VA" | b"HD" | b"EN" | b"NF" | b"NS" | b"EX" => {
            reply.code = code.to_vec();
            words.for_each(|flag| reply.note(flag));
        }
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => reply.code = line.to_vec(),
        _ => return Err(nonsense(&String::from_utf8_lossy(line))),
    }
    received.drain(..used);
    Ok(Some(reply))
}

impl Reply {
    fn note(&mut self, flag: &[u8]) {
        match flag {
            [b'c', rest @ ..] => self.version = number(rest),
            // -1, for an item without a deadline, is no number.
            [b't', rest @ ..] => self.ttl_s = number(rest),
            [b'W'] => (self.leased, self.won) = (true, true),
            [b'X' | b'Z'] => self.leased = true,
            _ => {}
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn nonsense(what: &str) -> Error {
    Error::Protocol(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_read_the_same_however_they_are_cut() {
        let bytes =
            b"VA 4 c7 t60\r\na\r\nb\r\nHD c9 t-1\r\nEN\r\nNF\r\nVA 0 W\r\n\r\nSERVER_ERROR x\r\n";
        let mut whole = Vec::new();
        let mut received = bytes.to_vec();
        while let Some(reply) = read(&mut received).unwrap() {
            whole.push(reply);
        }
        assert!(received.is_empty());
        assert_eq!(whole.len(), 6);
        assert_eq!(whole[0].value.as_deref(), Some(b"a\r\nb".as_slice()));
        assert_eq!((whole[0].version, whole[0].ttl_s), (Some(7), Some(60)));
        assert_eq!((whole[1].version, whole[1].ttl_s), (Some(9), None));
        assert!(whole[2].is_miss() && whole[3].is_absent() && whole[4].leased);
        assert_eq!(whole[5].code, b"SERVER_ERROR x");
        for cut in 0..bytes.len() {
            let mut received = bytes[..cut].to_vec();
            let mut replies = Vec::new();
            for rest in [&[][..], &bytes[cut..]] {
                received.extend_from_slice(rest);
                while let Some(reply) = read(&mut received).unwrap() {
                    replies.push(reply);
                }
            }
            assert_eq!(replies, whole, "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [
            &b"HELLO\r\n"[..],
            b"VA x\r\n",
            b"HD\n",
            b"VA 1\r\nabcd",
            &[b'x'; 5000],
        ] {
            assert!(read(&mut bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }
}
