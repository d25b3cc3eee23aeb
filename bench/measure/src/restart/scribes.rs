//! Scribes: connections that write items of their own on and on, whatever becomes of the server,
//! and know what of that was acknowledged.
//!
//! A key is written by one connection alone, in versions that rise. So what is found under it has
//! to be the version acknowledged last, or a later one that was on its way.

// Relaxed: figures and a flag are all that is passed on.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

use crate::race::all_at_once;
use cellar_load::{Address, Client, Error, Event, Records, Server, Wire, now_ns, sleep_until};

/// Items of each connection.
pub(super) const KEYS_EACH: usize = 500;
const TTL_S: u32 = 7_200;
const TIMEOUT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(1);

/// All connections.
pub(super) struct Scribes {
    records: Records,
    each: Vec<Scribe>,
    /// Items in one write.
    batch: u32,
    /// From one write of a connection to its next; without it as soon as all are answered.
    interval_ns: Option<u64>,
}

/// One connection's.
struct Scribe {
    number: usize,
    vows: Vec<Vow>,
    /// Of the last write; also tells which item comes next.
    version: u32,
}

/// The versions of an item: the last one acknowledged and the last one sent, zero for none.
#[derive(Clone, Copy, Default)]
struct Vow {
    acknowledged: u32,
    sent: u32,
}

/// What all connections have seen.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) acknowledged: AtomicU64,
    connections_refused: AtomicU64,
    /// Connections at their clean end, and requests that were under way then.
    connections_closed: AtomicU64,
    unanswered_at_close: AtomicU64,
    /// Connections that were reset or silent, and requests that were under way.
    connections_broken: AtomicU64,
    unanswered: AtomicU64,
    /// Answers that are errors.
    errors: AtomicU64,
    /// When a write was acknowledged last, and the longest time without.
    #[serde(skip)]
    last_ns: AtomicU64,
    #[serde(skip)]
    longest_ns: AtomicU64,
}

/// What is found of what was acknowledged.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Losses {
    acknowledged_items: u64,
    pub(super) lost_items: u64,
    /// Values that are older than what was acknowledged, or were never written.
    pub(super) wrong_items: u64,
}

impl Scribes {
    /// Connections with [`KEYS_EACH`] of the records each.
    pub(super) fn new(records: Records, batch: u32, interval_ns: Option<u64>) -> Scribes {
        let connections = usize::try_from(records.keys()).unwrap_or(0) / KEYS_EACH;
        let scribe = |number| Scribe {
            number,
            vows: vec![Vow::default(); KEYS_EACH],
            version: 0,
        };
        Scribes {
            records,
            each: (0..connections).map(scribe).collect(),
            batch,
            interval_ns,
        }
    }

    /// Writes until it is over.
    pub(super) fn write(
        &mut self,
        (address, wire): &(Address, Wire),
        seen: &Seen,
        is_over: &AtomicBool,
    ) {
        let (batch, records, count) = (self.batch, &self.records, self.each.len() as u64);
        all_at_once(&mut self.each, |scribe| {
            let mut client = None;
            let start_ns = now_ns();
            let mut turn = 0;
            while !is_over.load(Relaxed) {
                if let Some(interval_ns) = self.interval_ns {
                    let first_ns = start_ns + interval_ns * scribe.number as u64 / count;
                    sleep_until(first_ns + interval_ns * turn);
                    // Turns that were missed are left out.
                    turn = (now_ns().saturating_sub(first_ns) / interval_ns + 1).max(turn + 1);
                }
                let connect = || Client::connect(address, *wire, TIMEOUT);
                let open = client.take().map_or_else(connect, Ok);
                client = match open {
                    Ok(open) => scribe.take_turn(open, batch, records, seen),
                    Err(_) => {
                        seen.connections_refused.fetch_add(1, Relaxed);
                        std::thread::sleep(AGAIN);
                        None
                    }
                };
            }
        });
    }

    /// Reads everything; from then on what was found counts as acknowledged.
    pub(super) fn check(&mut self, server: &Server, losses: &mut Losses) -> Result<(), Error> {
        let mut client = Client::connect(server.address(), server.wire(), TIMEOUT)?;
        let mut key = Vec::new();
        for scribe in &mut self.each {
            for place in 0..KEYS_EACH {
                key.clear();
                self.records.push_key(&mut key, scribe.item(place));
                client.get(&key);
            }
            let mut place = 0;
            client.exchange(|event, value| {
                if event != Event::GetDone {
                    return Err(Error::Garbled(format!("{event:?} came for a get")));
                }
                let found = value.map(|it| self.records.version_of(scribe.item(place), it));
                scribe.vows[place] = losses.judge(scribe.vows[place], found);
                place += 1;
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Scribe {
    /// The number of an item of its own.
    fn item(&self, place: usize) -> u64 {
        (self.number * KEYS_EACH + place) as u64
    }

    /// Writes the next items, and gives the connection back unless it is over.
    fn take_turn(
        &mut self,
        mut client: Client,
        batch: u32,
        records: &Records,
        seen: &Seen,
    ) -> Option<Client> {
        let place = |version: u32| version as usize % KEYS_EACH;
        let (mut next, end) = (self.version + 1, self.version + 1 + batch);
        for version in next..end {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let item = self.item(place(version));
            records.push_key(&mut key, item);
            records.push_value(&mut value, item, version);
            client.set(&key, TTL_S, &value);
            self.vows[place(version)].sent = version;
        }
        self.version += batch;
        let exchanged = client.exchange(|event, _| {
            if event == (Event::SetDone { stored: true }) {
                self.vows[place(next)].acknowledged = next;
                seen.acknowledge();
            } else {
                seen.errors.fetch_add(1, Relaxed);
            }
            next += 1;
            Ok(())
        });
        let (connections, unanswered) = match exchanged {
            Ok(()) => return Some(client),
            Err(Error::Closed { .. }) => (&seen.connections_closed, &seen.unanswered_at_close),
            Err(_) => (&seen.connections_broken, &seen.unanswered),
        };
        connections.fetch_add(1, Relaxed);
        unanswered.fetch_add(u64::from(end - next), Relaxed);
        None
    }
}

impl Seen {
    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Relaxed);
        let now = now_ns();
        let ns = now.saturating_sub(self.last_ns.fetch_max(now, Relaxed));
        self.longest_ns.fetch_max(ns, Relaxed);
    }

    /// The longest time without an acknowledged write, in milliseconds, since this was asked last.
    pub(super) fn longest_ms(&self) -> f64 {
        self.longest_ns.swap(0, Relaxed) as f64 / 1e6
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
        let is_wrong = |version: Option<u32>| !version.is_some_and(|it| may_be.contains(&it));
        self.wrong_items += u64::from(found.is_some_and(is_wrong));
        let version = found.flatten().unwrap_or(0);
        Vow {
            acknowledged: version,
            sent: version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_what_was_acknowledged_or_was_on_its_way() {
        for ((acknowledged, sent), found, expected) in [
            ((3, 7), None, (1, 1, 0)),
            ((3, 7), Some(None), (1, 0, 1)),
            ((3, 7), Some(Some(2)), (1, 0, 1)),
            ((3, 7), Some(Some(3)), (1, 0, 0)),
            ((3, 7), Some(Some(7)), (1, 0, 0)),
            ((3, 7), Some(Some(8)), (1, 0, 1)),
            ((0, 0), None, (0, 0, 0)),
            ((0, 0), Some(Some(0)), (0, 0, 1)),
            ((0, 5), Some(Some(5)), (0, 0, 0)),
        ] {
            let mut it = Losses::default();
            it.judge(Vow { acknowledged, sent }, found);
            let judged = (it.acknowledged_items, it.lost_items, it.wrong_items);
            assert_eq!(judged, expected, "{found:?}");
        }
    }
}
