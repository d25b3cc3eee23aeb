//! Keyspace events: telling of a change that a command made.

use super::call::Call;

pub(super) use crate::events::Class;

impl Call<'_> {
    /// Tells that `event` happened to `key` of the session's database.
    #[inline]
    pub(super) fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        let observer = &self.context.state.observer;
        observer.notify(class, event, key, self.session.database);
    }

    /// The same for another database.
    #[inline]
    pub(super) fn notify_in(
        &mut self,
        database: u32,
        class: Class,
        event: &'static str,
        key: &[u8],
    ) {
        let observer = &self.context.state.observer;
        observer.notify(class, event, key, database);
    }
}
