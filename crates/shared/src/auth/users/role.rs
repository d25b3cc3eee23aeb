//! Role: the permissions of a user, and the keys, channels and databases that they apply to.

use std::sync::Arc;

/// The permissions of a user; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read keys and counts.
    Read,
    /// Change keys.
    Write,
    /// Run scripts, and see and change how the server works.
    Admin,
}

impl Role {
    /// Its name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: Arc<str>,
    /// Hashes of its passwords, any of which is sufficient.
    pub hashes: Vec<Arc<str>>,
    /// Names in certificates, any of which is sufficient.
    pub certificates: Vec<Box<str>>,
    /// User IDs for Unix sockets, any of which is sufficient.
    pub uids: Vec<u32>,
    /// Its role.
    pub role: Role,
    /// The prefixes of the keys that it may use; none for all. No prefix begins with another.
    pub prefixes: Vec<Box<[u8]>>,
    /// The databases that it may use; none for all.
    pub databases: Vec<u32>,
    /// Whether it may log in.
    pub enabled: bool,
    /// The number of the first roster since which it exists without interruption and is enabled.
    pub since: u64,
}

/// Beginning of channels of keyspace events named after keys, and of those named after events.
const KEYSPACE: &[u8] = b"__keyspace@";
const KEYEVENT: &[u8] = b"__keyevent@";
/// The beginning of both.
const EVENTS: &[u8] = b"__key";
/// The channel on which RESP2 clients get invalidations, which are sent to them alone.
const INVALIDATIONS: &[u8] = b"__redis__:invalidate";

impl User {
    /// A user who may do everything.
    #[must_use]
    pub fn everything(name: &str) -> User {
        User {
            name: name.into(),
            hashes: Vec::new(),
            certificates: Vec::new(),
            uids: Vec::new(),
            role: Role::Admin,
            prefixes: Vec::new(),
            databases: Vec::new(),
            enabled: true,
            since: 0,
        }
    }

    /// Whether it may use a key.
    #[inline]
    #[must_use]
    pub fn may_use(&self, key: &[u8]) -> bool {
        self.prefixes.is_empty() || self.begins_within(key)
    }

    /// Whether a name begins with one of its prefixes.
    fn begins_within(&self, name: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether it may use a database.
    #[inline]
    #[must_use]
    pub fn may_use_database(&self, database: u32) -> bool {
        self.databases.is_empty() || self.databases.contains(&database)
    }

    /// Whether it may use some keys, or databases, but not all.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !self.prefixes.is_empty() || !self.databases.is_empty()
    }

    /// Whether it may publish to a channel and subscribe to it.
    #[must_use]
    pub fn may_hear(&self, channel: &[u8]) -> bool {
        !self.is_limited() || channel != INVALIDATIONS && self.may_hear_of(channel, false)
    }

    /// Whether it may subscribe to a channel: one that it may read, or that of a client's own
    /// invalidations.
    #[must_use]
    pub fn may_subscribe(&self, channel: &[u8]) -> bool {
        channel == INVALIDATIONS || self.may_hear(channel)
    }

    /// Whether it may read all channels that a pattern matches.
    #[must_use]
    pub fn may_hear_pattern(&self, pattern: &[u8]) -> bool {
        let special = |byte: &u8| b"*?[\\".contains(byte);
        let plain = pattern.iter().position(special);
        let plain = &pattern[..plain.unwrap_or(pattern.len())];
        !self.is_limited() || self.may_hear_of(plain, plain.len() < pattern.len())
    }

    /// Whether it may read the channel of this name, or all channels with this prefix.
    fn may_hear_of(&self, name: &[u8], is_beginning: bool) -> bool {
        let could_be_events = name.starts_with(EVENTS) || is_beginning && EVENTS.starts_with(name);
        if !could_be_events {
            return self.prefixes.is_empty() || self.begins_within(name);
        }
        // Which key, or which database, is beyond what is known of the name.
        let (of_key, rest) = match (name.strip_prefix(KEYSPACE), name.strip_prefix(KEYEVENT)) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return false,
        };
        let Some(end) = rest.windows(3).position(|part| part == b"__:") else {
            return false;
        };
        let number = std::str::from_utf8(&rest[..end]).ok();
        let Some(database) = number.and_then(|number| number.parse().ok()) else {
            return false;
        };
        let within = match of_key {
            true => self.may_use(&rest[end + 3..]),
            false => self.prefixes.is_empty(),
        };
        within && self.may_use_database(database)
    }

    /// Whether it has the same permissions as another, so that its connections can stay.
    #[must_use]
    pub fn may_the_same(&self, other: &User) -> bool {
        let rights = |user: &User| {
            let User {
                role,
                prefixes,
                databases,
                enabled,
                ..
            } = user.clone();
            (role, prefixes, databases, enabled)
        };
        rights(self) == rights(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(prefixes: &[&str], databases: &[u32]) -> User {
        User {
            prefixes: prefixes
                .iter()
                .map(|prefix| prefix.as_bytes().into())
                .collect(),
            databases: databases.to_vec(),
            ..User::everything("u")
        }
    }

    #[test]
    fn channels_are_heard_where_their_keys_may_be_used() {
        let (all, app, one) = (user(&[], &[]), user(&["app:"], &[]), user(&[], &[1]));
        for (channel, expected) in [
            ("app:news", [true, true, true]),
            ("news", [true, false, true]),
            ("__redis__:invalidate", [true, false, false]),
            ("__keyspace@1__:app:k", [true, true, true]),
            ("__keyspace@0__:app:k", [true, true, false]),
            ("__keyspace@1__:k", [true, false, true]),
            ("__keyevent@1__:del", [true, false, true]),
            ("__keyevent@0__:del", [true, false, false]),
            ("__keyspace@x__:app:", [true, false, false]),
            ("__keyspace@1", [true, false, false]),
        ] {
            let heard = [&all, &app, &one].map(|user| user.may_hear(channel.as_bytes()));
            assert_eq!(heard, expected, "{channel}");
            let subscribes = app.may_subscribe(channel.as_bytes());
            let is_own = channel == "__redis__:invalidate";
            assert_eq!(subscribes, heard[1] || is_own, "{channel}");
        }
    }

    #[test]
    fn a_pattern_may_stand_for_nothing_beyond() {
        let (all, app, one) = (user(&[], &[]), user(&["app:"], &[]), user(&[], &[1]));
        for (pattern, expected) in [
            ("app:*", [true, true, true]),
            ("app:", [true, true, true]),
            ("ap*", [true, false, true]),
            ("app\\:*", [true, false, true]),
            ("[a]pp:*", [true, false, false]),
            ("*", [true, false, false]),
            ("__*", [true, false, false]),
            ("__keyspace@*", [true, false, false]),
            ("__keyspace@1__:*", [true, false, true]),
            ("__keyspace@1__:app:*", [true, true, true]),
            ("__keyspace@0__:app:*", [true, true, false]),
            ("__keyevent@1__:*", [true, false, true]),
        ] {
            let heard = [&all, &app, &one].map(|user| user.may_hear_pattern(pattern.as_bytes()));
            assert_eq!(heard, expected, "{pattern}");
        }
    }
}
