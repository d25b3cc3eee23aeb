//! ACL log: what clients of the Redis protocol were refused, for ACL LOG.
//!
//! A bounded list behind a lock that only refusals take. The same refusal within a minute is
//! counted, not listed again. No password is in it: of a login only the name that was given.
//!
//! Source: redis.io/docs/latest/commands/acl-log. Tests: server/tests/acl_log.rs.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Most entries: the oldest goes.
pub const ACL_LOG_MAX: usize = 128;
/// How long the same refusal is counted with the one before.
const SAME_MS: u64 = 60_000;
/// Bytes that are kept of a key, a channel or a name.
const TEXT_BYTES_MAX: usize = 128;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclLogReason {
    /// A login with a wrong name or password.
    Auth,
    /// A command that the user may not run.
    Command,
    /// A key that it may not use.
    Key,
    /// A channel that it may not use.
    Channel,
    /// A database that it may not use; Redis has no such reason.
    Database,
}

impl AclLogReason {
    /// As ACL LOG says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AclLogReason::Auth => "auth",
            AclLogReason::Command => "command",
            AclLogReason::Key => "key",
            AclLogReason::Channel => "channel",
            AclLogReason::Database => "database",
        }
    }
}

/// A refusal and its user; two that are equal are one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclLogCause {
    /// The reason.
    pub reason: AclLogReason,
    /// The context of the command: `toplevel`, `multi`, `lua`.
    pub context: &'static str,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    /// The user, or the name that a login gave.
    pub user: Vec<u8>,
}

/// One entry.
#[derive(Clone, Debug)]
pub struct AclLogEntry {
    /// The refusal.
    pub refused: AclLogCause,
    /// Its number, never used twice.
    pub id: u64,
    /// Number of refusals.
    pub count: u64,
    /// The client of the last time, as listings show it.
    pub client: String,
    /// When it happened first, as a Unix time in milliseconds.
    pub first_ms: u64,
    /// When it happened last.
    pub last_ms: u64,
}

#[derive(Debug, Default)]
struct AclLogEntries {
    last: u64,
    /// How often something was refused for each reason, since the start.
    totals: [u64; 5],
    newest_first: VecDeque<AclLogEntry>,
}

/// The log.
#[derive(Debug, Default)]
pub struct AclLog {
    entries: Mutex<AclLogEntries>,
}

impl AclLog {
    /// Records a refusal at a Unix time in milliseconds.
    pub fn note(&self, mut refused: AclLogCause, client: String, unix_ms: u64) {
        refused.object.truncate(TEXT_BYTES_MAX);
        refused.user.truncate(TEXT_BYTES_MAX);
        let mut entries = self.entries.lock();
        entries.totals[refused.reason as usize] += 1;
        let is_same = |one: &AclLogEntry| {
            one.refused == refused && unix_ms.saturating_sub(one.last_ms) <= SAME_MS
        };
        let known = entries.newest_first.iter().position(is_same);
        if let Some(mut entry) = known.and_then(|place| entries.newest_first.remove(place)) {
            entry.count += 1;
            (entry.client, entry.last_ms) = (client, unix_ms);
            return entries.newest_first.push_front(entry);
        }
        let id = entries.last;
        entries.last += 1;
        entries.newest_first.truncate(ACL_LOG_MAX - 1);
        entries.newest_first.push_front(AclLogEntry {
            refused,
            id,
            count: 1,
            client,
            first_ms: unix_ms,
            last_ms: unix_ms,
        });
    }

    /// The newest entries, at most `count`.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<AclLogEntry> {
        let entries = self.entries.lock();
        entries.newest_first.iter().take(count).cloned().collect()
    }

    /// How often something was refused for a reason, whatever is listed.
    #[must_use]
    pub fn total(&self, reason: AclLogReason) -> u64 {
        self.entries.lock().totals[reason as usize]
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.entries.lock().newest_first.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(object: &str) -> AclLogCause {
        AclLogCause {
            reason: AclLogReason::Key,
            context: "toplevel",
            object: object.into(),
            user: b"u".to_vec(),
        }
    }

    #[test]
    fn the_same_is_counted_for_a_minute_and_the_newest_are_kept() {
        let log = AclLog::default();
        for unix_ms in [1_000, 2_000, 62_000, 122_001] {
            log.note(refused("a"), unix_ms.to_string(), unix_ms);
        }
        let seen = log.newest(9);
        let seen: Vec<_> = seen.iter().map(|one| (one.count, one.first_ms)).collect();
        assert_eq!(seen, [(1, 122_001), (3, 1_000)]);
        for number in 0..1_000 {
            let long = format!("{number}{}", "x".repeat(1_000));
            log.note(refused(&long), String::new(), 122_001);
        }
        let seen = log.newest(usize::MAX);
        assert_eq!(seen.len(), ACL_LOG_MAX);
        assert_eq!(seen[0].refused.object.len(), TEXT_BYTES_MAX);
        assert!(seen[0].refused.object.starts_with(b"999x"));
        log.clear();
        assert!(log.newest(1).is_empty());
        assert_eq!(log.total(AclLogReason::Key), 1_004);
        assert_eq!(log.total(AclLogReason::Auth), 0);
    }
}
