//! Scribes: connections that write items of their own on and on, whatever becomes of the server,
//! and know what of that was acknowledged.
//!
//! A key is written by one connection alone, in versions that rise. So what is found under it has
//! to be the version acknowledged last, or a later one that is on its way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::race::all_at_once;
use cellar_load::address::Address;
use cellar_load::client::Client;
use cellar_load::clock::{now_ns, sleep_until};
use cellar_load::error::Error;
use cellar_load::process::Server;
use cellar_load::record::{Records, ValueCheck};
use cellar_load::wire::{Event, Wire};

/// Items of each connection.
pub(super) const KEYS_EACH: usize = 500;
const TTL_S: u32 = 7_200;
const TIMEOUT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(1);

/// How each connection writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Items in one write.
    pub(super) batch: usize,
    /// From one write to the next; without it as soon as all are answered.
    pub(super) interval_ns: Option<u64>,
}

/// All connections.
pub(super) struct Scribes {
    records: Records,
    each: Vec<Scribe>,
}

/// One connection's.
struct Scribe {
    vows: Vec<Vow>,
    /// Of the last write; also tells which item comes next.
    version: u32,
    mishaps: Mishaps,
}

/// The versions of an item: the last one acknowledged and the last one sent, zero for none.
#[derive(Clone, Copy, Debug, Default)]
struct Vow {
    acknowledged: u32,
    sent: u32,
}

/// What clients see; the names say all but these.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Mishaps {
    pub(super) acknowledged: u64,
    pub(super) connections_refused: u64,
    /// Connections at their clean end, and requests that were under way then.
    connections_closed: u64,
    unanswered_at_close: u64,
    /// Connections that were reset or silent, and requests that were under way.
    connections_broken: u64,
    pub(super) unanswered: u64,
    /// Answers that are errors.
    pub(super) errors: u64,
}

/// What is found of what was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Losses {
    pub(super) acknowledged_items: u64,
    pub(super) lost_items: u64,
    /// Values that are older than what was acknowledged, or were never written.
    pub(super) wrong_items: u64,
}

/// When a write was acknowledged last, and the longest time without.
#[derive(Debug)]
pub(super) struct LastAnswer {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl LastAnswer {
    pub(super) fn new() -> LastAnswer {
        LastAnswer {
            last_ns: AtomicU64::new(now_ns()),
            longest_ns: AtomicU64::new(0),
        }
    }

    // Relaxed, as below: the figures are all that is passed on.
    fn is_now(&self) {
        let now = now_ns();
        let last = self.last_ns.fetch_max(now, Ordering::Relaxed);
        let ns = now.saturating_sub(last);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// The longest time in milliseconds since this was asked last.
    pub(super) fn longest_ms(&self) -> f64 {
        self.longest_ns.swap(0, Ordering::Relaxed) as f64 / 1e6
    }
}

impl Scribes {
    /// So many connections, which need [`KEYS_EACH`] records each.
    pub(super) fn new(records: Records) -> Scribes {
        let connections = records.keys() / KEYS_EACH as u64;
        let scribe = |_| Scribe {
            vows: vec![Vow::default(); KEYS_EACH],
            version: 0,
            mishaps: Mishaps::default(),
        };
        let each = (0..connections).map(scribe).collect();
        Scribes { records, each }
    }

    /// Writes until it is over; what the connections have seen.
    pub(super) fn write(
        &mut self,
        (address, wire): (&Address, Wire),
        pace: Pace,
        last: &LastAnswer,
        is_over: &AtomicBool,
    ) -> Mishaps {
        let (records, count) = (&self.records, self.each.len() as u64);
        let seen = all_at_once(self.each.iter_mut().enumerate(), |(own, scribe)| {
            scribe.mishaps = Mishaps::default();
            let mut client = None;
            let start_ns = now_ns();
            let mut turn = 0;
            while !is_over.load(Ordering::Relaxed) {
                if let Some(interval_ns) = pace.interval_ns {
                    let first_ns = start_ns + interval_ns * own as u64 / count;
                    sleep_until(first_ns + interval_ns * turn);
                    // Turns that were missed are left out.
                    turn = (now_ns().saturating_sub(first_ns) / interval_ns + 1).max(turn + 1);
                }
                let open = client.take().or_else(|| scribe.connect(address, wire));
                client =
                    open.and_then(|open| scribe.take_turn(open, pace.batch, (own, records), last));
            }
            scribe.mishaps
        });
        seen.into_iter().fold(Mishaps::default(), Mishaps::with)
    }

    /// Reads everything; from then on what was found counts as acknowledged.
    pub(super) fn check(&mut self, server: &Server) -> Result<Losses, Error> {
        let mut client = Client::connect(server.address(), server.wire(), TIMEOUT)?;
        let mut losses = Losses::default();
        let mut key = Vec::new();
        for (own, scribe) in self.each.iter_mut().enumerate() {
            for place in 0..KEYS_EACH {
                key.clear();
                self.records.push_key(&mut key, number(own, place));
                client.get(&key);
            }
            let mut place = 0;
            let mut value = None;
            client.exchange(|event| {
                match event {
                    Event::Value { bytes, .. } => {
                        let mut check = ValueCheck::default();
                        check.begin(number(own, place), bytes);
                        value = Some(check);
                    }
                    Event::Data(data) => value.iter_mut().for_each(|it| it.feed(data)),
                    Event::GetDone => {
                        let found = value.take();
                        let found =
                            found.map(|it| it.version().filter(|_| it.is_good(&self.records)));
                        scribe.vows[place] = losses.judge(scribe.vows[place], found);
                        place += 1;
                    }
                    other => return Err(Error::Garbled(format!("{other:?} came for a get"))),
                }
                Ok(())
            })?;
        }
        Ok(losses)
    }
}

/// The number of a connection's item.
fn number(own: usize, place: usize) -> u64 {
    (own * KEYS_EACH + place) as u64
}

impl Scribe {
    fn connect(&mut self, address: &Address, wire: Wire) -> Option<Client> {
        let connected = Client::connect(address, wire, TIMEOUT);
        if connected.is_err() {
            self.mishaps.connections_refused += 1;
            std::thread::sleep(AGAIN);
        }
        connected.ok()
    }

    /// Writes the next items, and gives the connection back unless it is over.
    fn take_turn(
        &mut self,
        mut client: Client,
        batch: usize,
        (own, records): (usize, &Records),
        last: &LastAnswer,
    ) -> Option<Client> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let first = self.version + 1;
        for version in first..first + batch as u32 {
            let place = version as usize % KEYS_EACH;
            self.vows[place].sent = version;
            (key.clear(), value.clear());
            records.push_key(&mut key, number(own, place));
            records.push_value(&mut value, number(own, place), version);
            client.set(&key, TTL_S, &value);
        }
        self.version += batch as u32;
        let mut next = first;
        let Scribe { vows, mishaps, .. } = self;
        let exchanged = client.exchange(|event| {
            if event == (Event::SetDone { stored: true }) {
                vows[next as usize % KEYS_EACH].acknowledged = next;
                mishaps.acknowledged += 1;
                last.is_now();
            } else {
                mishaps.errors += 1;
            }
            next += 1;
            Ok(())
        });
        let unanswered = u64::from(first + batch as u32 - next);
        match exchanged {
            Ok(()) => return Some(client),
            Err(Error::Closed { .. }) => {
                mishaps.connections_closed += 1;
                mishaps.unanswered_at_close += unanswered;
            }
            Err(_) => {
                mishaps.connections_broken += 1;
                mishaps.unanswered += unanswered;
            }
        }
        None
    }
}

impl Mishaps {
    fn with(self, other: Mishaps) -> Mishaps {
        Mishaps {
            acknowledged: self.acknowledged + other.acknowledged,
            connections_refused: self.connections_refused + other.connections_refused,
            connections_closed: self.connections_closed + other.connections_closed,
            unanswered_at_close: self.unanswered_at_close + other.unanswered_at_close,
            connections_broken: self.connections_broken + other.connections_broken,
            unanswered: self.unanswered + other.unanswered,
            errors: self.errors + other.errors,
        }
    }
}

impl Losses {
    /// Judges what is there of an item: nothing, a value with its version, or none that was ever
    /// written. What is to be there from now on.
    fn judge(&mut self, vow: Vow, found: Option<Option<u32>>) -> Vow {
        let is_vowed = vow.acknowledged > 0;
        self.acknowledged_items += u64::from(is_vowed);
        self.lost_items += u64::from(is_vowed && found.is_none());
        let may_be = vow.acknowledged.max(1)..=vow.sent;
        let is_right = |version: Option<u32>| version.is_some_and(|it| may_be.contains(&it));
        self.wrong_items += u64::from(found.is_some_and(|version| !is_right(version)));
        let version = found.flatten().unwrap_or(0);
        Vow {
            acknowledged: version,
            sent: version,
        }
    }

    pub(super) fn with(self, other: Losses) -> Losses {
        Losses {
            acknowledged_items: self.acknowledged_items + other.acknowledged_items,
            lost_items: self.lost_items + other.lost_items,
            wrong_items: self.wrong_items + other.wrong_items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_what_was_acknowledged_or_is_on_its_way() {
        let vow = Vow {
            acknowledged: 3,
            sent: 7,
        };
        for (found, lost_items, wrong_items) in [
            (None, 1, 0),
            (Some(None), 0, 1),
            (Some(Some(2)), 0, 1),
            (Some(Some(3)), 0, 0),
            (Some(Some(7)), 0, 0),
            (Some(Some(8)), 0, 1),
        ] {
            let mut losses = Losses::default();
            losses.judge(vow, found);
            let expected = Losses {
                acknowledged_items: 1,
                lost_items,
                wrong_items,
            };
            assert_eq!(losses, expected, "{found:?}");
        }
        let mut losses = Losses::default();
        losses.judge(Vow::default(), None);
        assert_eq!(losses, Losses::default(), "nothing was asked for");
        losses.judge(Vow::default(), Some(Some(1)));
        assert_eq!(losses.wrong_items, 1, "nothing was ever sent");
    }
}
