//! A connection of Redis's protocol without a socket, with the server that it talks to.
#![allow(dead_code, reason = "each test file uses a part of it")]

use cellar_shared::clients::client::Seat;
use cellar_shared::state::State;

use super::session::Session;

/// One connection.
pub(crate) struct Talk<'s> {
    state: &'s State,
    session: Session,
}

impl<'s> Talk<'s> {
    /// A client that just came.
    pub(crate) fn new(state: &'s State) -> Talk<'s> {
        let session = Session::resp(Seat::default(), state);
        Talk { state, session }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.session.is_closed()
    }

    /// Receives `bytes` and returns all that is answered by now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.session.feed(bytes, self.state)
    }
}

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        self.session.end(self.state);
    }
}
