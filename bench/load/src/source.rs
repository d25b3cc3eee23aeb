//! Gets and sets of one thread: which record comes next, and what became of the replies.

use crate::clock::now_ns;
use crate::drive::{Flight, Traffic, part};
use crate::error::Error;
use crate::latency::Latencies;
use crate::plan::{Keys, Plan};
use crate::popularity::{Picker, Popularity, Scatter};
use crate::random::Random;
use crate::wire::Event;

/// One get: when it was sent, or in an open loop due, and how long its reply took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// On the monotonic clock.
    pub start_ns: u64,
    /// From then to the whole reply.
    pub ns: u64,
}

/// A request without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    is_get: bool,
    /// The record's number.
    number: u64,
}

/// The value that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    is_there: bool,
    /// Whether it came under another key than was asked for.
    is_strange: bool,
    value: Vec<u8>,
}

/// What became of requests of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Values found, or stored.
    pub(crate) yes: u64,
    pub(crate) no: u64,
    pub(crate) refused: u64,
    pub(crate) latencies: Latencies,
}

impl Tally {
    pub(crate) fn requests(&self) -> u64 {
        self.yes + self.no + self.refused
    }

    #[inline]
    fn count(&mut self, is_yes: bool, ns: u64) {
        self.yes += u64::from(is_yes);
        self.no += u64::from(!is_yes);
        self.latencies.record(ns);
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.yes += other.yes;
        self.no += other.no;
        self.refused += other.refused;
        self.latencies.merge(&other.latencies);
    }
}

/// Makes the requests of one thread and counts its replies.
#[derive(Debug)]
pub(crate) struct Source<'p> {
    plan: &'p Plan,
    random: Random,
    picker: Picker,
    scatter: Scatter,
    /// The next of this thread's keys of each server, for [`Keys::Each`].
    next: Vec<u64>,
    version: u32,
    key: Vec<u8>,
    value: Vec<u8>,
    pub(crate) gets: Tally,
    pub(crate) sets: Tally,
    pub(crate) mismatches: u64,
    pub(crate) first_refusal: Option<String>,
    /// Every get by itself, if that is wanted.
    pub(crate) samples: Option<Vec<Sample>>,
}

impl<'p> Source<'p> {
    /// The source of thread `thread`, with room for so many samples if they are wanted.
    pub(crate) fn new(plan: &'p Plan, thread: usize, samples: Option<usize>) -> Source<'p> {
        let servers = plan.drive.servers();
        let keys = plan.numbers() / servers as u64;
        let popularity = match plan.keys {
            Keys::Each => Popularity::Uniform,
            Keys::Drawn(popularity) => popularity,
        };
        Source {
            plan,
            random: Random::seeded(plan.seed.wrapping_add(thread as u64)),
            picker: Picker::new(popularity, keys),
            scatter: Scatter::new(keys),
            next: vec![part(keys, thread, plan.threads).start; servers],
            // Threads count versions from different starts, to tell their values apart.
            version: (thread as u32) << 24,
            key: Vec::with_capacity(plan.records.key_bytes()),
            value: Vec::new(),
            gets: Tally::default(),
            sets: Tally::default(),
            mismatches: 0,
            first_refusal: None,
            samples: samples.map(room_for),
        }
    }

    #[inline]
    fn is_get(&mut self) -> bool {
        let share = self.plan.get_share;
        share >= 1.0 || (share > 0.0 && self.random.unit() < share)
    }

    fn begin_value(&mut self, number: u64, arriving: &mut Arriving, key: Option<&[u8]>) {
        arriving.is_there = true;
        if self.plan.verify {
            self.key.clear();
            self.plan.records.push_key(&mut self.key, number);
            arriving.is_strange = key.is_some_and(|key| key != self.key);
            arriving.value.clear();
        }
    }
}

impl Traffic for Source<'_> {
    type Request = Request;
    type Arriving = Arriving;

    #[inline]
    fn push_next(&mut self, out: &mut Vec<u8>, _now_ns: u64, server: usize) -> Request {
        let place = match self.plan.keys {
            Keys::Each => {
                let next = &mut self.next[server];
                *next += 1;
                self.scatter.place(*next - 1)
            }
            Keys::Drawn(_) => self.picker.pick(&mut self.random),
        };
        let servers = self.next.len() as u64;
        let number = self.plan.number(place * servers + server as u64);
        self.key.clear();
        self.plan.records.push_key(&mut self.key, number);
        let is_get = self.is_get();
        if is_get {
            self.plan.drive.wire.push_get(out, &self.key);
        } else {
            self.version = self.version.wrapping_add(1);
            self.value.clear();
            let records = &self.plan.records;
            records.push_value(&mut self.value, number, self.version);
            let ttl_s = self.plan.ttl.draw_s(&mut self.random);
            self.plan
                .drive
                .wire
                .push_set(out, &self.key, ttl_s, &self.value);
        }
        Request { is_get, number }
    }

    #[inline]
    fn take(
        &mut self,
        flight: Flight<Request>,
        arriving: &mut Arriving,
        event: Event<'_>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let Request { is_get, number } = flight.request;
        let ns = now_ns.saturating_sub(flight.start_ns);
        match event {
            Event::Value { key, .. } => self.begin_value(number, arriving, key),
            Event::Data(data) if self.plan.verify => arriving.value.extend_from_slice(data),
            Event::Data(_) => {}
            Event::GetDone if is_get => {
                let is_there = std::mem::take(&mut arriving.is_there);
                if self.plan.verify && is_there {
                    let version = self.plan.records.version_of(number, &arriving.value);
                    self.mismatches += u64::from(arriving.is_strange || version.is_none());
                }
                self.gets.count(is_there, ns);
                if let Some(samples) = &mut self.samples {
                    let start_ns = flight.start_ns;
                    samples.push(Sample { start_ns, ns });
                }
            }
            Event::SetDone { stored } if !is_get => self.sets.count(stored, ns),
            Event::Refused(line) => {
                let tally = if is_get {
                    &mut self.gets
                } else {
                    &mut self.sets
                };
                tally.refused += 1;
                tally.latencies.record(ns);
                arriving.is_there = false;
                let text = || String::from_utf8_lossy(line).into_owned();
                self.first_refusal.get_or_insert_with(text);
            }
            other => {
                let asked = if is_get { "get" } else { "set" };
                return Err(Error::Garbled(format!("{other:?} came for a {asked}")));
            }
        }
        Ok(())
    }
}

/// Memory for samples, touched: a fault later would delay a request.
fn room_for(samples: usize) -> Vec<Sample> {
    let start_ns = now_ns();
    let mut room = vec![Sample { start_ns, ns: 1 }; samples];
    room.clear();
    room
}
