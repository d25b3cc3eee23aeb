//! Keyspace events: telling of a change that a command made.

use crate::execute::resp::call::Call;

pub(in crate::execute::resp) use crate::events::Class;

impl Call<'_> {
    /// Tells that `event` happened to `key` of the session's database.
    #[inline]
    pub(in crate::execute::resp) fn notify(
        &mut self,
        class: Class,
        event: &'static str,
        key: &[u8],
    ) {
        let observer = &self.context.state.observer;
        observer.notify(class, event, key, self.session.database);
    }

    /// The same for another database.
    #[inline]
    pub(in crate::execute::resp) fn notify_in(
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
