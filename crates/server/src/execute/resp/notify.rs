//! Notify: events about keys, for who subscribed to them.

use super::call::Call;

/// What an event is about; who subscribes can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "not every group of commands tells of its events")]
pub(super) enum Class {
    /// Any kind of key.
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
    /// Tells who listens that something happened to a key of the session's database.
    pub(super) fn notify(&mut self, _class: Class, _event: &'static str, _key: &[u8]) {}
}
