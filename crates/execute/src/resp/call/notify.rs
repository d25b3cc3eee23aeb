//! Keyspace events: telling of a change that a command made.

use crate::resp::call::Call;

pub(in crate::resp) use cellar_shared::clients::events::Class;

impl Call<'_> {
    /// Publishes that `event` happened to `key` of the session's database.
    #[inline]
    pub(in crate::resp) fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        let observer = &self.context.state.observer;
        observer.notify(class, event, key, self.session.database);
    }

    /// Publishes that `event` happened to these fields of the first key, a hash.
    #[inline]
    pub(in crate::resp) fn notify_fields<'f>(
        &mut self,
        event: &'static str,
        fields: impl Iterator<Item = &'f [u8]>,
    ) {
        let key = self.args[1];
        self.notify(Class::Hash, event, key);
        let observer = &self.context.state.observer;
        observer.notify_fields(event, key, fields, self.session.database);
    }

    /// The same as [`Call::notify`] for another database.
    #[inline]
    pub(in crate::resp) fn notify_in(
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
