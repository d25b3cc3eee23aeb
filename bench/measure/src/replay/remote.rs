//! Replaying over the network: the same requests to any server that speaks memcached or RESP.
//!
//! One connection, many requests in flight: a batch of rows with different keys leaves at once, and
//! before it the stores for the misses of the batch before. So a get never overtakes the store of
//! its own key; stores come at most a batch late. A batch is small enough that neither side waits
//! for the other to read. TTLs are not sent: a server's clock is not the trace's.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::stamp::Stamps;
use super::trace::{Row, Trace, number};
use cellar_load::{Address, Client, Error, Event, Wire, now_ns, seconds, sleep_until};

const BATCH_ROWS: usize = 64;
/// Keys and values of a batch, unless one row alone has more: less than sockets hold by themselves.
const BATCH_BYTES: usize = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(30);
const MEMCACHED_KEY_BYTES_MAX: usize = 250;

/// How a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) sets: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Stores, of misses and of set rows.
    pub(crate) stores: u64,
    /// Stores that the server refused.
    pub(crate) refused: u64,
    pub(crate) seconds: f64,
}

/// Plays `trace` at an even pace, for at least `lasting`, against the server at `target`, which
/// should be empty. Values are pieces of `text`, if there is one.
/// [`Error`] if the connection fails, a key does not fit the protocol, or the server serves
/// something that was not stored last.
pub(crate) fn play(
    (trace, text): (&Trace, Option<&[u8]>),
    wire: Wire,
    target: &Address,
    lasting: Duration,
) -> Result<Served, Error> {
    if wire == Wire::Memcached {
        check_keys(trace)?;
    }
    let started_ns = now_ns();
    let stamps = match text {
        Some(text) => Stamps::of_text(trace, text),
        None => Stamps::new(trace, usize::MAX),
    };
    let mut player = RemotePlayer::new((trace, stamps), wire, target)?;
    let mut at = 0;
    while at < trace.rows.len() {
        player.add_stores();
        at = player.add_batch(at);
        player.exchange()?;
        // Requests are spread evenly; a replay that is late does not wait.
        let due_ns = lasting.as_nanos() * at as u128 / trace.rows.len() as u128;
        sleep_until(started_ns + due_ns as u64);
    }
    player.add_stores();
    player.exchange()?;
    Ok(Served {
        seconds: seconds(now_ns() - started_ns),
        ..player.ledger.served
    })
}

fn check_keys(trace: &Trace) -> Result<(), Error> {
    let fits = |key: &[u8]| {
        key.len() <= MEMCACHED_KEY_BYTES_MAX
            && !key
                .iter()
                .any(|byte| byte.is_ascii_control() || *byte == b' ')
    };
    let keys = (0..trace.keys.len()).map(|at| trace.keys.get(number(at)));
    match keys.into_iter().find(|key| !fits(key)) {
        None => Ok(()),
        Some(key) => Err(Error::Usage(format!(
            "{}: the key {:?} is too long for memcached's protocol or has spaces in it",
            trace.name,
            String::from_utf8_lossy(key)
        ))),
    }
}

/// What was asked and what came back.
struct Ledger<'t> {
    trace: &'t Trace,
    /// Requests in flight: the row, and whether it is a get.
    asked: VecDeque<(u32, bool)>,
    /// Rows whose get missed and which are to be stored.
    missed: Vec<u32>,
    stamps: Stamps,
    served: Served,
}

impl Ledger<'_> {
    fn take(&mut self, event: Event<'_>, value: Option<&[u8]>) -> Result<(), Error> {
        match event {
            Event::GetDone => {
                let row = self.answered(true)?;
                self.got(row, value)?;
            }
            Event::SetDone { stored } => {
                let row = self.answered(false)?;
                self.set(row, stored);
            }
            Event::Refused(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                let row = self.answered(false).map_err(|_| Error::Garbled(text))?;
                self.set(row, false);
            }
            _ => return Err(Error::Garbled("a reply to what was not asked".to_owned())),
        }
        Ok(())
    }

    /// The row of the oldest request in flight, which must be of this kind.
    fn answered(&mut self, is_get: bool) -> Result<u32, Error> {
        match self.asked.pop_front() {
            Some((row, it)) if it == is_get => Ok(row),
            _ => Err(Error::Garbled("a reply to what was not asked".to_owned())),
        }
    }

    fn got(&mut self, number: u32, value: Option<&[u8]>) -> Result<(), Error> {
        let key = self.trace.rows[number as usize].key;
        let Some(value) = value else {
            self.served.misses += 1;
            self.missed.push(number);
            return Ok(());
        };
        if !self.stamps.is_last(key, value) {
            return Err(Error::Wrong(format!(
                "{}, request {}: the value is not what was stored last; was the server empty?",
                self.trace.name,
                u64::from(number) + 1
            )));
        }
        self.served.hits += 1;
        Ok(())
    }

    fn set(&mut self, number: u32, is_stored: bool) {
        if !is_stored {
            self.served.refused += 1;
            // Some servers drop the older value then, some keep it.
            self.stamps.distrust(self.trace.rows[number as usize].key);
        }
    }
}

struct RemotePlayer<'t> {
    trace: &'t Trace,
    client: Client,
    /// By key: the batch it was in last, for a key is once in a batch.
    seen: Vec<u32>,
    batch: u32,
    ledger: Ledger<'t>,
}

impl<'t> RemotePlayer<'t> {
    fn new(
        (trace, stamps): (&'t Trace, Stamps),
        wire: Wire,
        target: &Address,
    ) -> Result<RemotePlayer<'t>, Error> {
        Ok(RemotePlayer {
            trace,
            client: Client::connect(target, wire, TIMEOUT)?,
            seen: vec![0; trace.keys.len()],
            batch: 0,
            ledger: Ledger {
                trace,
                asked: VecDeque::new(),
                missed: Vec::new(),
                stamps,
                served: Served::default(),
            },
        })
    }

    /// Adds the next rows from `at` on; returns where the batch after it begins.
    fn add_batch(&mut self, at: usize) -> usize {
        self.batch += 1;
        let mut bytes = 0;
        let rows = &self.trace.rows[at..];
        for (place, &row) in rows.iter().take(BATCH_ROWS).enumerate() {
            bytes += self.trace.keys.get(row.key).len() + row.value_bytes as usize;
            let seen = &mut self.seen[row.key as usize];
            if place > 0 && (*seen == self.batch || bytes > BATCH_BYTES) {
                return at + place;
            }
            *seen = self.batch;
            self.ledger.served.requests += 1;
            if row.is_set {
                self.ledger.served.sets += 1;
                self.add_store(number(at + place), row);
            } else {
                self.client.get(self.trace.keys.get(row.key));
                self.ledger.asked.push_back((number(at + place), true));
            }
        }
        at + rows.len().min(BATCH_ROWS)
    }

    /// Adds the stores for the misses of the last batch.
    fn add_stores(&mut self) {
        for row in std::mem::take(&mut self.ledger.missed) {
            self.add_store(row, self.trace.rows[row as usize]);
        }
    }

    fn add_store(&mut self, number: u32, row: Row) {
        let key = self.trace.keys.get(row.key);
        let value = self.ledger.stamps.stamp(number, row);
        self.client.set(key, 0, value);
        self.ledger.served.stores += 1;
        self.ledger.asked.push_back((number, false));
    }

    /// Sends what was added and takes all replies to it.
    fn exchange(&mut self) -> Result<(), Error> {
        self.client
            .exchange(|event, value| self.ledger.take(event, value))
    }
}

#[cfg(test)]
mod tests;
