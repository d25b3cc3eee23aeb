//! Table: the connections of one event loop, by slot.
//!
//! A token names a slot and how often it was filled, so an event for a connection that is closed
//! never reaches the one that took its place.

use crate::server::event_loop::connection::Connection;

/// A slot and its generation.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

/// Connections by slot.
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

impl ConnectionTable {
    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// The slot that the next connection gets, and its token.
    pub(super) fn next(&mut self) -> (u32, u64) {
        if self.vacant.is_empty() {
            let slot = u32::try_from(self.slots.len()).expect("fewer connections than 2^32");
            self.slots.push(Slot::default());
            self.vacant.push(slot);
        }
        let slot = self.vacant[self.vacant.len() - 1];
        (slot, self.token(slot))
    }

    /// Fills the slot that [`ConnectionTable::next`] has returned.
    pub(super) fn fill(&mut self, connection: Connection) {
        let slot = self
            .vacant
            .pop()
            .expect("next() made sure of a vacant slot");
        self.slots[slot as usize].connection = Some(connection);
    }

    /// Takes a connection out.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Connection> {
        let place = &mut self.slots[slot as usize];
        let connection = place.connection.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.vacant.push(slot);
        Some(connection)
    }

    /// The token of a slot's current connection.
    pub(super) fn token(&self, slot: u32) -> u64 {
        u64::from(self.slots[slot as usize].generation) << 32 | u64::from(slot)
    }

    /// The slot that a token names, if its connection still exists.
    #[inline]
    pub(super) fn slot(&self, token: u64) -> Option<u32> {
        let slot = (token & u64::from(u32::MAX)) as u32;
        let place = self.slots.get(slot as usize)?;
        (u64::from(place.generation) == token >> 32 && place.connection.is_some()).then_some(slot)
    }

    /// The connection in a slot.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots[slot as usize].connection.as_mut()
    }

    /// Whether a connection has something to do and is not queued yet; marks it as queued.
    #[inline]
    pub(super) fn mark_queued(&mut self, slot: u32) -> bool {
        self.get_mut(slot).is_some_and(|connection| {
            let is_new = !connection.queued && connection.has_work();
            connection.queued |= is_new;
            is_new
        })
    }

    /// Slots from 0 to the last that was ever filled.
    pub(super) fn slots(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.slots.len()).expect("fewer connections than 2^32")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use cellar_execute::{Link, memcached};
    use cellar_net::stream::{Stream, Transport};

    fn connection() -> Connection {
        let (one, _) = UnixStream::pair().unwrap();
        Connection::new(
            Stream::plain(one.into(), Transport::Unix),
            Link::Memcached(memcached::Intake::default()),
            0,
        )
    }

    #[test]
    fn a_token_outlives_no_connection() {
        let mut table = ConnectionTable::default();
        let (slot, old) = table.next();
        table.fill(connection());
        assert_eq!(table.slot(old), Some(slot));
        assert!(table.remove(slot).is_some());
        assert_eq!(table.slot(old), None);
        let (again, new) = table.next();
        table.fill(connection());
        assert_eq!(
            (again, table.slot(old), table.slot(new)),
            (slot, None, Some(slot))
        );
        assert_eq!(table.len(), 1);
        assert!(table.remove(slot).is_some() && table.remove(slot).is_none());
        assert_eq!(table.len(), 0);
    }
}
