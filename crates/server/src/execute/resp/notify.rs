//! Keyspace events: telling of a change that a command made.

use super::call::Call;

/// What an event is about: which events a server tells of is chosen by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// What applies to any key.
    Generic,
    String,
    Hash,
    Set,
    SortedSet,
    Expired,
    Evicted,
    New,
}

impl Call<'_> {
    /// Tells that `event` happened to `key` of the session's database.
    #[inline]
    pub(super) fn notify(&mut self, _class: Class, _event: &'static str, _key: &[u8]) {}
}
