//! Error stats: number of error replies to clients of the Redis protocol, by first word.
//!
//! Words that the server itself uses have a counter each. Those of scripts are counted as they
//! come, if they look like error codes and the limit is not reached; all others share one counter.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Codes that are counted always; the last is for what has no count of its own.
const CODES: [&str; 13] = [
    "ERR",
    "WRONGTYPE",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "NOPROTO",
    "EXECABORT",
    "NOSCRIPT",
    "BUSY",
    "NOTBUSY",
    "UNKILLABLE",
    "OOM",
    "OTHER",
];
/// Most codes of scripts' own.
const OWN_MAX: usize = 128;
/// Longest of them.
const OWN_BYTES_MAX: usize = 32;

/// The counts.
#[derive(Debug, Default)]
pub struct Errors {
    // Relaxed: counts order nothing.
    known: [AtomicU64; CODES.len()],
    /// A leaf lock: nothing is called while it is held.
    own: Mutex<BTreeMap<Box<str>, u64>>,
}

impl Errors {
    /// Counts an error reply that begins with this line.
    pub fn note(&self, line: &str) {
        let code = line.split(' ').next().unwrap_or_default();
        let place = CODES.iter().position(|known| *known == code);
        if place.is_none() && self.note_own(code) {
            return;
        }
        // Relaxed: a count orders nothing.
        self.known[place.unwrap_or(CODES.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new code; returns whether the limit allows it.
    #[cold]
    fn note_own(&self, code: &str) -> bool {
        let is_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if code.is_empty() || code.len() > OWN_BYTES_MAX || !code.bytes().all(is_code) {
            return false;
        }
        let mut own = self.own.lock();
        if let Some(count) = own.get_mut(code) {
            *count += 1;
            return true;
        }
        let has_room = own.len() < OWN_MAX;
        if has_room {
            own.insert(code.into(), 1);
        }
        has_room
    }

    /// Codes and counts of the errors that there were.
    pub fn counts(&self) -> impl Iterator<Item = (Cow<'static, str>, u64)> {
        let known = CODES.into_iter().zip(&self.known);
        let known = known.map(|(code, count)| (code.into(), count.load(Ordering::Relaxed)));
        let own = self.own.lock().clone().into_iter();
        let own = own.map(|(code, count)| (Cow::Owned(code.into()), count));
        own.chain(known).filter(|(_, count)| *count > 0)
    }

    /// Forgets all.
    pub fn reset(&self) {
        for count in &self.known {
            count.store(0, Ordering::Relaxed);
        }
        self.own.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let errors = Errors::default();
        for line in [
            "ERR syntax error",
            "ERR",
            "WRONGTYPE Operation",
            "MY_CODE x",
            "MY_CODE y",
            "no:code",
            "",
        ] {
            errors.note(line);
        }
        let counts: Vec<_> = errors.counts().collect();
        let expected = [("MY_CODE", 2), ("ERR", 2), ("WRONGTYPE", 1), ("OTHER", 2)];
        assert_eq!(counts, expected.map(|(code, count)| (code.into(), count)));
        errors.reset();
        assert_eq!(errors.counts().count(), 0);
    }

    #[test]
    fn codes_of_scripts_are_few_and_short() {
        let errors = Errors::default();
        for number in 0..2 * OWN_MAX {
            errors.note(&format!("CODE{number} x"));
        }
        errors.note(&"X".repeat(OWN_BYTES_MAX + 1));
        assert_eq!(errors.counts().count(), OWN_MAX + 1);
        let other = errors.counts().find(|(code, _)| code == "OTHER");
        assert_eq!(other.map(|(_, count)| count), Some(OWN_MAX as u64 + 1));
    }
}
