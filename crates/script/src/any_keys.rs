//! Any keys: which scripts may touch keys that are not known before they run.
//!
//! A script that names a command on all keys is one from the start. Another one becomes one when it
//! is refused a key that it had not declared, because the script that had it waited for this one.

use std::sync::atomic::{AtomicBool, Ordering};

/// The commands that only hold while no other event loop executes, in lower case.
const COMMANDS: [&[u8]; 7] = [
    b"flushall",
    b"flushdb",
    b"swapdb",
    b"move",
    b"copy",
    b"sort",
    b"sort_ro",
];

/// Whether a script may touch keys that are not known before it runs.
#[derive(Debug, Default)]
pub struct AnyKeys(
    // Relaxed: it orders nothing; a thread that sees it late restarts the script once more.
    AtomicBool,
);

impl AnyKeys {
    /// Derives it from the source of a script.
    #[must_use]
    pub fn of(source: &[u8]) -> AnyKeys {
        AnyKeys(AtomicBool::new(AnyKeys::named_in(source)))
    }

    /// Whether a source has the name of such a command between quotes.
    #[must_use]
    pub fn named_in(source: &[u8]) -> bool {
        let words = source.split(|&byte| byte == b'"' || byte == b'\'');
        let mut words = words.filter(|word| word.len() <= 8);
        words.any(|word| COMMANDS.iter().any(|name| word.eq_ignore_ascii_case(name)))
    }

    /// Notes that it does.
    pub fn set(&self) {
        // Relaxed: as declared.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Relaxed: as declared.
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_names_a_command_on_all_keys_is_known() {
        for source in [
            "return redis.call('FLUSHALL')",
            "redis.pcall(\"swapdb\", 0, 1)",
            "local c = 'sort' return redis.call(c, KEYS[1], 'BY', 'w_*')",
        ] {
            assert!(AnyKeys::of(source.as_bytes()).is_set(), "{source}");
        }
        for source in [
            "return redis.call('get', KEYS[1])",
            "table.sort(t) return 'sorted'",
            "-- no flushall here",
        ] {
            assert!(!AnyKeys::of(source.as_bytes()).is_set(), "{source}");
        }
    }
}
