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
pub(super) struct Held {
    pub(super) items: u64,
    /// Bytes of their values.
    pub(super) value_bytes: u64,
    /// Requests that the server refused.
    pub(super) refused: u64,
}

/// One connection.
pub(super) struct Counter {
    client: Client,
    value: Vec<u8>,
    /// Replies that are to come to what was asked last.
    waiting: u64,
    tally: ReplyTally,
}

/// What has come of what was asked for.
#[derive(Default)]
struct ReplyTally {
    /// Length of the value that is arriving.
    value_bytes: Option<usize>,
    held: Held,
}

impl Counter {
    pub(super) fn connect(server: &Server) -> Result<Counter, Error> {
        Ok(Counter {
            client: Client::connect(server.address(), server.wire(), TIMEOUT)?,
            value: Vec::new(),
            waiting: 0,
            tally: ReplyTally::default(),
        })
    }

    /// Stores a value of so many bytes, for `ttl_s` seconds or without limit.
    pub(super) fn set(&mut self, key: &str, ttl_s: u32, bytes: usize) -> Result<(), Error> {
        if self.value.len() < bytes {
            self.value.resize(bytes, b'v');
        }
        let value = &self.value[..bytes];
        self.client.set(key.as_bytes(), ttl_s, value);
        self.asked(1)
    }

    /// Adds one to a number, which is created if it is missing.
    pub(super) fn count(&mut self, key: &str) -> Result<(), Error> {
        let replies = self.client.count(key.as_bytes());
        self.asked(replies)
    }

    /// Reads a value; what is found is counted.
    pub(super) fn get(&mut self, key: &str) -> Result<(), Error> {
        self.client.get(key.as_bytes());
        self.asked(1)
    }

    /// Asks for a value many times and reads nothing.
    pub(super) fn ask_and_leave(mut self, key: &str, requests: usize) -> Result<Stream, Error> {
        (0..requests).for_each(|_| self.client.get(key.as_bytes()));
        self.client.send_and_leave(SILENT_TIMEOUT)
    }

    /// The connection itself, when all is answered.
    pub(super) fn into_stream(self) -> Stream {
        self.client.into_stream()
    }

    fn asked(&mut self, replies: u64) -> Result<(), Error> {
        self.waiting += replies;
        if self.client.unsent_bytes() >= BATCH_BYTES || self.waiting >= BATCH_REPLIES {
            self.finish()?;
        }
        Ok(())
    }

    /// Waits for all replies; what all reads of this connection have found.
    pub(super) fn finish(&mut self) -> Result<Held, Error> {
        self.waiting = 0;
        self.client.exchange(|event| {
            self.tally.take(event);
            Ok(())
        })?;
        Ok(self.tally.held)
    }
}

impl ReplyTally {
    fn take(&mut self, event: Event<'_>) {
        let arriving = &mut self.value_bytes;
        match event {
            Event::Value { bytes, .. } => *arriving = Some(bytes),
            Event::Data(_) => {}
            Event::Refused(_) => {
                *arriving = None;
                self.held.refused += 1;
            }
            _ => {
                self.held.items += u64::from(arriving.is_some());
                self.held.value_bytes += arriving.take().unwrap_or(0) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_found_count_and_refusals_by_themselves() {
        let mut tally = ReplyTally::default();
        let value = |bytes| Event::Value { key: None, bytes };
        for event in [
            Event::SetDone { stored: true },
            value(5),
            Event::Data(b"hello"),
            Event::GetDone,
            Event::GetDone,
            Event::CountDone { number: Some(7) },
            value(9),
            Event::Refused(b"SERVER_ERROR no"),
        ] {
            tally.take(event);
        }
        let expected = Held {
            items: 1,
            value_bytes: 5,
            refused: 1,
        };
        assert_eq!(tally.held, expected);
    }
}
