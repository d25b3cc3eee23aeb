//! Ledger: what was written to which key and when, and which reads are too old by that.
//!
//! Every write of a key has a version; one writer at a time has the key, so the order of the
//! versions is the order at the server. A reader notes the time at which it begins. What it gets
//! is stale if a later version had been acknowledged to its writer more than the bound before
//! that. Caches write keys of their own too and read back what they wrote, at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::Stats;
use cellar_near::clock::{Clock, SystemClock};
use tokio::sync::RwLock;

use crate::subject::{Subject, name_of};
use crate::trouble::Trouble;
use crate::wait::{PATIENCE, comes_true};
use crate::writer::Failed;

/// Kept of each report.
const STALE_MAX: usize = 10;
/// How long it may take until caches have read what a fault waits for.
const READING: Duration = PATIENCE.saturating_mul(3);
/// So many changes of a key are remembered, or twice that; far more than a read can take.
const HISTORY: usize = 100_000;

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Stale reads, and writes that were not answered, the first of them.
    pub(crate) stale: Vec<String>,
    pub(crate) reads: u64,
    pub(crate) hits: u64,
    pub(crate) writes: u64,
    pub(crate) own_writes: u64,
    pub(crate) invalidations: u64,
    pub(crate) overtaken: u64,
    pub(crate) errors: u64,
    /// How often each trouble came.
    pub(crate) troubles: std::collections::BTreeMap<Trouble, u64>,
    /// How old the oldest value was that was read although a later one had been acknowledged.
    pub(crate) oldest: Duration,
}

impl Report {
    /// Adds what a cache has counted.
    pub(crate) fn add(&mut self, stats: &Stats) {
        self.hits += stats.hits;
        self.invalidations += stats.invalidations;
        self.overtaken += stats.overtaken;
        self.errors += stats.errors;
    }
}

/// A version and when its writer was told that it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    version: u64,
    begun_at: Duration,
    told_at: Duration,
    /// The end of everything; no value is right after it.
    flush: bool,
}

/// What has happened to one key, in the order of the versions.
type History = Vec<Stored>;

/// What all tasks share.
pub(crate) struct Ledger {
    clock: SystemClock,
    histories: Vec<Mutex<History>>,
    /// Held by the writer of a key.
    owners: Vec<tokio::sync::Mutex<()>>,
    /// Held for writing by who removes everything.
    pub(crate) flushing: RwLock<()>,
    versions: AtomicU64,
    /// How often everything was removed, or began to be.
    flushes: AtomicU64,
    /// How often that was noted in the histories.
    flushes_noted: AtomicU64,
    ended: AtomicBool,
    ends_early: bool,
    /// Whether who reads and writes rests now and then: what they wait for takes seconds.
    is_paced: bool,
    /// Keys that were read so far.
    reads: AtomicU64,
    pub(crate) report: Mutex<Report>,
    bound: Duration,
    /// When values may have been lost, each time from when on and until when.
    losses: Mutex<Vec<(Duration, Option<Duration>)>>,
}

impl Ledger {
    /// One of so many keys, by which no read is older than `bound`.
    pub(crate) fn new(keys: u64, bound: Duration, ends_early: bool) -> Ledger {
        Ledger {
            clock: SystemClock::new(),
            histories: (0..keys).map(|_| Mutex::default()).collect(),
            owners: (0..keys).map(|_| Default::default()).collect(),
            flushing: RwLock::default(),
            versions: AtomicU64::new(1),
            flushes: AtomicU64::new(0),
            flushes_noted: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            ends_early,
            is_paced: false,
            reads: AtomicU64::new(0),
            report: Mutex::default(),
            bound,
            losses: Mutex::default(),
        }
    }

    /// The same for readers and writers that rest now and then.
    pub(crate) fn paced(self) -> Ledger {
        Ledger {
            is_paced: true,
            ..self
        }
    }

    /// The time of all that is noted.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// What came of it, with how many keys were read.
    pub(crate) fn report(&self) -> Report {
        let mut report = self.report.lock().unwrap().clone();
        report.reads = self.reads.load(Ordering::SeqCst);
        report
    }

    /// Notes that values may be lost from now on, and others not.
    pub(crate) fn begin_loss(&self) {
        self.losses.lock().unwrap().push((self.now(), None));
    }

    /// Notes that none is lost any more.
    pub(crate) fn end_loss(&self) {
        let mut losses = self.losses.lock().unwrap();
        losses.last_mut().expect("it has begun").1 = Some(self.now());
    }

    /// Whether a value may have been lost from `from` to `to`.
    fn may_be_lost(&self, from: Duration, to: Duration) -> bool {
        let losses = self.losses.lock().unwrap();
        let mut losses = losses.iter();
        losses.any(|(begun, ended)| *begun <= to && ended.is_none_or(|ended| ended >= from))
    }

    /// Whether it is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits until so many more keys were read, or it is over.
    pub(crate) async fn wait_for_reads(&self, more: u64) {
        let enough = self.reads.load(Ordering::SeqCst) + more;
        let are_read = || self.reads.load(Ordering::SeqCst) >= enough || self.has_ended();
        let came_true = comes_true(READING, are_read).await;
        assert!(came_true, "the caches do not read {more} more keys");
    }

    /// Notes that everything was removed; nobody writes meanwhile.
    pub(crate) fn note_flush(&self, begun_at: Duration) {
        let version = self.versions.fetch_add(1, Ordering::SeqCst);
        for history in &self.histories {
            history.lock().unwrap().push(Stored {
                version,
                begun_at,
                told_at: self.clock.now(),
                flush: true,
            });
        }
        self.flushes_noted.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether everything may be gone already, and the histories do not tell.
    fn is_flushing(&self) -> bool {
        // In this order: a flush that begins between the two looks like one that is under way.
        let noted = self.flushes_noted.load(Ordering::SeqCst);
        self.flushes.load(Ordering::SeqCst) != noted
    }

    /// Announces that everything will be removed; the time at which that begins.
    pub(crate) fn begin_flush(&self) -> Duration {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }

    pub(crate) fn complain(&self, what: String) {
        let mut report = self.report.lock().unwrap();
        if report.stale.len() < STALE_MAX {
            report.stale.push(what);
        }
        if self.ends_early {
            self.ended.store(true, Ordering::SeqCst);
        }
    }
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// Low keys often, high keys seldom.
    fn key(&mut self, keys: u64) -> u64 {
        let sides = self.roll(keys) + 1;
        self.roll(sides)
    }
}

fn key_of(number: u64) -> String {
    format!("key:{number}")
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("few keys")
}

/// Whoever writes to the server, or to the node that has the key.
pub(crate) trait Pen: Send + 'static {
    /// Sets a key; an error leaves it open whether that happens.
    fn set(&mut self, name: &str, value: &str) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// Writes versions straight to the server, one key at a time.
pub(crate) async fn write(stage: Arc<Ledger>, mut pen: impl Pen, seed: u64) {
    let mut dice = Dice(seed);
    while !stage.has_ended() {
        let key = dice.key(stage.owners.len() as u64);
        let nobody_flushes = stage.flushing.read().await;
        let owned = stage.owners[index(key)].lock().await;
        let version = stage.versions.fetch_add(1, Ordering::SeqCst);
        let begun_at = stage.clock.now();
        let name = name_of(&key_of(key));
        let stored = pen.set(&name, &version.to_string()).await;
        if stored == Err(Failed::Silent) {
            stage.complain(format!("{key} written as {version}: no answer and no end"));
        }
        if stored.is_ok() {
            let told_at = stage.clock.now();
            stage.report.lock().unwrap().writes += 1;
            let mut history = stage.histories[index(key)].lock().unwrap();
            if history.len() > 2 * HISTORY {
                history.drain(..HISTORY);
            }
            history.push(Stored {
                version,
                begun_at,
                told_at,
                flush: false,
            });
        }
        drop((owned, nobody_flushes));
        if stage.is_paced {
            // paced: the load of the writers.
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else if stored.is_err() || dice.roll(4) == 0 {
            // paced: the load of the writers.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Reads through one cache and judges what comes.
pub(crate) async fn read(stage: Arc<Ledger>, near: Arc<dyn Subject>, seed: u64) {
    let mut dice = Dice(seed);
    while !stage.has_ended() {
        let keys: Vec<u64> = (0..1 + 4 * u64::from(dice.roll(8) == 0))
            .map(|_| dice.key(stage.owners.len() as u64))
            .collect();
        let begun_at = stage.clock.now();
        let names: Vec<String> = keys.iter().map(|&key| key_of(key)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let values = match names[..] {
            [name] => near.read(name).await.map(|value| vec![value]),
            _ => near.read_many(&names).await,
        };
        let ended_at = stage.clock.now();
        let is_error = values.is_err();
        // An error is no stale read.
        for (&key, value) in keys.iter().zip(values.into_iter().flatten()) {
            let version = value.map(|value| value.parse().expect("a version"));
            stage.judge(key, version, begun_at, ended_at);
            stage.reads.fetch_add(1, Ordering::SeqCst);
        }
        if is_error {
            // paced: a reader asks again a while after an error.
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else if dice.roll(16) == 0 {
            if stage.is_paced {
                // paced: the load of the readers.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Writes through one cache and reads back through it: there is no bound on that.
pub(crate) async fn write_own(stage: Arc<Ledger>, near: Arc<dyn Subject>, cache: u64) {
    let mut number = 0;
    let mut written = 0;
    while !stage.has_ended() {
        number += 1;
        let key = format!("own:{cache}:{}", number / 50);
        // One that is under way counts as one that comes.
        let noted = stage.flushes_noted.load(Ordering::SeqCst);
        let begun_at = stage.now();
        if near.write(&key, &number.to_string()).await.is_err() {
            // It may happen yet, so nothing is known of this key from here on.
            number += 50;
            continue;
        }
        let Ok(read) = near.read(&key).await else {
            continue;
        };
        written += 1;
        let read: Option<u64> = read.map(|read| read.parse().expect("a number"));
        let flushed = stage.flushes.load(Ordering::SeqCst) != noted
            || stage.may_be_lost(begun_at, stage.now());
        if read.is_some_and(|read| read < number) || (read.is_none() && !flushed) {
            stage.complain(format!("own {key} written as {number}, read as {read:?}"));
        }
        // paced: the load of the caches' own writers.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stage.report.lock().unwrap().own_writes += written;
}

impl Ledger {
    /// Notes a read that is older than it may be.
    fn judge(&self, key: u64, read: Option<u64>, begun_at: Duration, ended_at: Duration) {
        // Looked at before the history, which tells of every flush that is over by now.
        let is_flushing = self.is_flushing();
        let history = self.histories[index(key)].lock().unwrap();
        let settled = begun_at.saturating_sub(self.bound);
        let age = age_of(&history, read, begun_at);
        // The last one that every read from here on has to know of.
        let known = history.partition_point(|stored| stored.told_at <= settled);
        let Some(floor) = known.checked_sub(1).map(|place| history[place]) else {
            return;
        };
        let fits = match read {
            Some(version) => version >= floor.version,
            // Nothing is right if a flush is the last that counts, or has come since.
            None => {
                let mut since = history[known - 1..].iter();
                let flushed = since.any(|one| one.flush && one.begun_at <= ended_at);
                is_flushing || flushed || self.may_be_lost(floor.begun_at, ended_at)
            }
        };
        drop(history);
        if let Some(age) = age {
            let mut report = self.report.lock().unwrap();
            report.oldest = report.oldest.max(age);
        }
        if !fits {
            self.complain(format!(
                "{key} read as {read:?} at {begun_at:?}, known: {floor:?}"
            ));
        }
    }
}

/// For how long a later value than the one read had been acknowledged, if it had.
fn age_of(history: &History, read: Option<u64>, begun_at: Duration) -> Option<Duration> {
    let read = read?;
    let next = history.partition_point(|stored| stored.version <= read);
    let next = history.get(next)?;
    begun_at.checked_sub(next.told_at)
}

#[test]
fn the_checker_tells_old_reads_from_young_ones() {
    let second = Duration::from_secs(1);
    let stored = |version, at: u32, flush| Stored {
        version,
        begun_at: at * second,
        told_at: at * second,
        flush,
    };
    let ledger = Ledger::new(1, second, false);
    let is_stale = |history: &History, read, at: u32| {
        ledger.report.lock().unwrap().stale.clear();
        ledger.histories[0].lock().unwrap().clone_from(history);
        ledger.judge(0, read, at * second, at * second);
        !ledger.report.lock().unwrap().stale.is_empty()
    };
    let written = vec![stored(1, 10, false), stored(2, 20, false)];
    assert!(
        !is_stale(&written, Some(1), 20),
        "the news may be on its way"
    );
    assert!(is_stale(&written, Some(1), 21));
    assert!(!is_stale(&written, Some(2), 30));
    assert!(is_stale(&written, None, 30), "there is a value");
    let flushed = vec![stored(1, 10, false), stored(2, 20, true)];
    assert!(is_stale(&flushed, Some(1), 30));
    assert!(!is_stale(&flushed, None, 30));
    let again = [flushed, vec![stored(3, 25, false)]].concat();
    assert!(!is_stale(&again, None, 25), "the value may be on its way");
    assert!(is_stale(&again, None, 27));
    // A node that went may have taken a value along, and no other one back.
    *ledger.losses.lock().unwrap() = vec![(22 * second, Some(24 * second))];
    assert!(!is_stale(&written, None, 30) && is_stale(&written, Some(1), 30));
    *ledger.losses.lock().unwrap() = vec![(12 * second, Some(14 * second))];
    assert!(is_stale(&written, None, 30), "it was stored after that");
}
