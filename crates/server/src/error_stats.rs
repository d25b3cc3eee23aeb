//! Error stats: how many error replies clients of the Redis protocol got, by their first word.

use std::sync::atomic::{AtomicU64, Ordering};

/// Codes that are counted; the last is for all others.
const CODES: [&str; 12] = [
    "ERR",
    "WRONGTYPE",
    "NOAUTH",
    "WRONGPASS",
    "NOPROTO",
    "EXECABORT",
    "NOSCRIPT",
    "BUSY",
    "NOTBUSY",
    "UNKILLABLE",
    "OOM",
    "OTHER",
];

/// The counts.
#[derive(Debug, Default)]
// Relaxed: counts order nothing.
pub struct Errors([AtomicU64; CODES.len()]);

impl Errors {
    /// Counts an error reply that begins with this line.
    pub fn note(&self, line: &str) {
        let code = line.split(' ').next().unwrap_or_default();
        let place = CODES.iter().position(|known| *known == code);
        // Relaxed: a count orders nothing.
        self.0[place.unwrap_or(CODES.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Codes and counts of the errors that there were.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = CODES.into_iter().zip(&self.0);
        let counts = counts.map(|(code, count)| (code, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }

    /// Forgets all.
    pub fn reset(&self) {
        for count in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
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
            "STRANGE x",
        ] {
            errors.note(line);
        }
        let counts: Vec<_> = errors.counts().collect();
        assert_eq!(counts, [("ERR", 2), ("WRONGTYPE", 1), ("OTHER", 1)]);
        errors.reset();
        assert_eq!(errors.counts().count(), 0);
    }
}
