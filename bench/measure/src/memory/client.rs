//! A client that stores and reads in batches, and counts what it finds.

use std::time::Duration;

use cellar_load::{Client, Error, Event, Server, Stream};

/// Bytes sent, and replies asked for, before the replies are read.
const BATCH_BYTES: usize = 64 << 10;
const BATCH_REPLIES: u64 = 100;
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a silent reader waits for its requests to be taken.
const SILENT_TIMEOUT: Duration = Duration::from_millis(50);

/// What reads have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) items: u64,
    /// Bytes of their values.
    pub(crate) value_bytes: u64,
    /// Requests that the server refused.
    pub(crate) refused: u64,
}

/// One connection.
pub(crate) struct Counter {
    client: Client,
    value: Vec<u8>,
    held: Held,
}

impl Counter {
    pub(crate) fn connect(server: &Server) -> Result<Counter, Error> {
        Ok(Counter {
            client: Client::connect(server.address(), server.wire(), TIMEOUT)?,
            value: Vec::new(),
            held: Held::default(),
        })
    }

    /// Stores a value of so many bytes, for `ttl_s` seconds or without limit.
    pub(crate) fn set(&mut self, key: &str, ttl_s: u32, bytes: usize) -> Result<(), Error> {
        if self.value.len() < bytes {
            self.value.resize(bytes, b'v');
        }
        let value = &self.value[..bytes];
        self.client.set(key.as_bytes(), ttl_s, value);
        self.asked()
    }

    /// Adds one to a number, which is created if it is missing.
    pub(crate) fn count(&mut self, key: &str) -> Result<(), Error> {
        self.client.count(key.as_bytes());
        self.asked()
    }

    /// Reads a value; what is found is counted.
    pub(crate) fn get(&mut self, key: &str) -> Result<(), Error> {
        self.client.get(key.as_bytes());
        self.asked()
    }

    /// Asks for a value many times and reads nothing.
    pub(crate) fn ask_and_leave(mut self, key: &str, requests: usize) -> Result<Stream, Error> {
        (0..requests).for_each(|_| self.client.get(key.as_bytes()));
        self.client.send_and_leave(SILENT_TIMEOUT)
    }

    /// The connection itself, when all is answered.
    pub(crate) fn into_stream(self) -> Stream {
        self.client.into_stream()
    }

    fn asked(&mut self) -> Result<(), Error> {
        let (bytes, replies) = self.client.unsent();
        if bytes >= BATCH_BYTES || replies >= BATCH_REPLIES {
            self.finish()?;
        }
        Ok(())
    }

    /// Waits for all replies; what all reads of this connection have found.
    pub(crate) fn finish(&mut self) -> Result<Held, Error> {
        let held = &mut self.held;
        self.client.exchange(|event, value| {
            held.refused += u64::from(matches!(event, Event::Refused(_)));
            held.items += u64::from(value.is_some());
            held.value_bytes += value.map_or(0, <[u8]>::len) as u64;
            Ok(())
        })?;
        Ok(self.held)
    }
}
