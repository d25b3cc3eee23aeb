//! The checker: writers and near caches at the same keys, and no read may be too old.
//!
//! Every write of a key has a version; one writer at a time has the key, so the order of the
//! versions is the order at the server. A reader notes the time at which it begins. What it gets
//! is stale if a later version had been acknowledged to its writer more than the bound before
//! that. Caches write keys of their own too and read back what they wrote, at once. Meanwhile
//! everything happens that [`Trouble`] names.
//!
//! `CELLAR_CHECKER_SECONDS` sets how long each of the long runs takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::Near;
use cellar_near::clock::{Clock, SystemClock};
use cellar_near::fault::Fault;
use cellar_near::origin::redis::Tracking;
use tokio::sync::RwLock;

use crate::blocking::Threads;
use crate::proxy::Proxy;
use crate::servers::{Kind, Server};
use crate::subject::{Cellar, PATIENCE, Subject, name_of};
use crate::trouble::{self, TROUBLES, Trouble};
use crate::writer::{Failed, Writer};

/// Kept of each report.
const STALE_MAX: usize = 10;
/// How long an answer may take: a read that joins a question is as old as the question.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection without an answer is believed, and a copy that nobody tells of is served.
pub(crate) const BELIEF: Duration = Duration::from_millis(300);
/// So many changes of a key are remembered, or twice that; far more than a read can take.
const HISTORY: usize = 100_000;

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) kind: Kind,
    /// Whether caches read over memcached's protocol, and only time bounds what they hold.
    pub(crate) meta: bool,
    /// Whether caches are asked by threads, over the blocking face.
    by_threads: bool,
    maker: Cellar,
    writers: u64,
    caches: u64,
    readers: u64,
    keys: u64,
    seconds: u64,
    /// What happens, one after the other.
    pub(crate) troubles: &'static [Trouble],
}

impl Setting {
    /// A run with everything that can happen.
    fn whole(kind: Kind, seconds: u64) -> Setting {
        Setting {
            kind,
            meta: kind == Kind::Memcached,
            by_threads: false,
            maker: Cellar::default(),
            writers: 4,
            caches: 3,
            readers: 4,
            keys: 40,
            seconds,
            troubles: &TROUBLES,
        }
    }

    /// A run of a broken cache with what shows it, and nothing that would heal a stale copy.
    pub(crate) fn broken(kind: Kind, fault: Fault, troubles: &'static [Trouble]) -> Setting {
        Setting {
            maker: Cellar::broken(fault),
            writers: 8,
            keys: 6,
            troubles,
            ..Setting::whole(kind, 60)
        }
    }

    /// Whether the first stale read ends it.
    pub(crate) fn ends_early(&self) -> bool {
        self.maker.fault != Fault::None
    }
}

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
pub(crate) struct Stage {
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
    /// Keys that were read so far.
    reads: AtomicU64,
    pub(crate) report: Mutex<Report>,
    bound: Duration,
    /// The server of the moment.
    pub(crate) server: RwLock<Server>,
    /// One before each cache.
    pub(crate) proxies: Vec<Proxy>,
}

impl Stage {
    async fn new(setting: &Setting) -> Arc<Stage> {
        let server = Server::start(setting.kind).await;
        let target = address(&server, setting.meta);
        let mut proxies = Vec::new();
        for _ in 0..setting.caches {
            proxies.push(Proxy::start(&target).await);
        }
        Arc::new(Stage {
            clock: SystemClock::new(),
            histories: (0..setting.keys).map(|_| Mutex::default()).collect(),
            owners: (0..setting.keys).map(|_| Default::default()).collect(),
            flushing: RwLock::default(),
            versions: AtomicU64::new(1),
            flushes: AtomicU64::new(0),
            flushes_noted: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            ends_early: setting.ends_early(),
            reads: AtomicU64::new(0),
            report: Mutex::default(),
            bound: BELIEF + TIMEOUT,
            server: RwLock::new(server),
            proxies,
        })
    }

    /// Whether it is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether every trouble has come that can.
    fn is_complete(&self, setting: &Setting) -> bool {
        let report = self.report.lock().unwrap();
        let mut troubles = setting.troubles.iter();
        troubles
            .all(|trouble| !trouble.befalls(setting.kind) || report.troubles.contains_key(trouble))
    }

    /// Waits until so many more keys were read, or it is over.
    pub(crate) async fn wait_for_reads(&self, more: u64) {
        let enough = self.reads.load(Ordering::SeqCst) + more;
        while self.reads.load(Ordering::SeqCst) < enough && !self.has_ended() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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

/// Where a server is read by the caches.
pub(crate) fn address(server: &Server, meta: bool) -> String {
    match (&server.memcached, meta) {
        (Some(memcached), true) => memcached.clone(),
        _ => server.address(),
    }
}

/// Runs it and judges every read.
pub(crate) async fn run(setting: &Setting) -> Report {
    let stage = Stage::new(setting).await;
    let mut tasks = Vec::new();
    for seed in 0..setting.writers {
        tasks.push(tokio::spawn(write(Arc::clone(&stage), seed + 1)));
    }
    let mut caches: Vec<Near<String, String>> = Vec::new();
    for (number, proxy) in (0..).zip(&stage.proxies) {
        let near = match setting.meta {
            true => setting.maker.near_by_time(proxy.address(), BELIEF, TIMEOUT),
            false => setting.maker.near(proxy.address(), BELIEF),
        };
        let subject: Arc<dyn Subject> = match setting.by_threads {
            true => Arc::new(Threads::new(near.clone())),
            false => Arc::new(near.clone()),
        };
        for reader in 0..setting.readers {
            let seed = number * setting.readers + reader + 101;
            let reading = read(Arc::clone(&stage), Arc::clone(&subject), seed);
            tasks.push(tokio::spawn(reading));
        }
        let own = write_own(Arc::clone(&stage), subject, number);
        tasks.push(tokio::spawn(own));
        caches.push(near);
    }
    tasks.push(tokio::spawn(trouble::make(
        Arc::clone(&stage),
        setting.clone(),
    )));
    let start = stage.clock.now();
    let ran = || stage.clock.now() - start;
    let seconds = Duration::from_secs(setting.seconds);
    // On a machine with much else to do, for as long as it takes that all has happened.
    let is_over =
        || ran() >= seconds && (stage.is_complete(setting) || ran() >= seconds + PATIENCE);
    while !is_over() && !stage.has_ended() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.ended.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.expect("no task panics");
    }
    let mut report = stage.report.lock().unwrap().clone();
    report.reads = stage.reads.load(Ordering::SeqCst);
    for near in &caches {
        let stats = near.stats();
        report.hits += stats.hits;
        report.invalidations += stats.invalidations;
        report.overtaken += stats.overtaken;
        report.errors += stats.errors;
    }
    report
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

/// Writes versions straight to the server, one key at a time.
async fn write(stage: Arc<Stage>, seed: u64) {
    let mut dice = Dice(seed);
    let mut writer = None;
    while !stage.has_ended() {
        let key = dice.key(stage.owners.len() as u64);
        let nobody_flushes = stage.flushing.read().await;
        let owned = stage.owners[index(key)].lock().await;
        if writer.is_none() {
            writer = Writer::open(&stage.server).await;
        }
        let version = stage.versions.fetch_add(1, Ordering::SeqCst);
        let begun_at = stage.clock.now();
        let name = name_of(&key_of(key));
        let stored = match &mut writer {
            Some(writer) => writer.set(&name, &version.to_string()).await,
            None => Err(Failed::Ended),
        };
        if stored == Err(Failed::Silent) {
            stage.complain(format!("{key} written as {version}: no answer and no end"));
        }
        // An error leaves it open whether the value was stored; a new connection comes after it.
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
        } else {
            writer = None;
        }
        drop((owned, nobody_flushes));
        if stored.is_err() || dice.roll(4) == 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Reads through one cache and judges what comes.
async fn read(stage: Arc<Stage>, near: Arc<dyn Subject>, seed: u64) {
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
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else if dice.roll(16) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Writes through one cache and reads back through it: there is no bound on that.
async fn write_own(stage: Arc<Stage>, near: Arc<dyn Subject>, cache: u64) {
    let mut number = 0;
    let mut written = 0;
    while !stage.has_ended() {
        number += 1;
        let key = format!("own:{cache}:{}", number / 50);
        // One that is under way counts as one that comes.
        let noted = stage.flushes_noted.load(Ordering::SeqCst);
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
        let flushed = stage.flushes.load(Ordering::SeqCst) != noted;
        if read.is_some_and(|read| read < number) || (read.is_none() && !flushed) {
            stage.complain(format!("own {key} written as {number}, read as {read:?}"));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stage.report.lock().unwrap().own_writes += written;
}

impl Stage {
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
                is_flushing || since.any(|one| one.flush && one.begun_at <= ended_at)
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

/// Runs it whole, and nothing may be stale.
async fn check(kind: Kind, meta: bool, tracking: Tracking) {
    let mut setting = Setting::whole(kind, seconds());
    setting.meta = meta;
    setting.maker.tracking = tracking;
    check_setting(&setting).await;
}

fn seconds() -> u64 {
    let seconds = std::env::var("CELLAR_CHECKER_SECONDS");
    seconds.ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

async fn check_setting(setting: &Setting) {
    let kind = setting.kind;
    let report = run(setting).await;
    println!("{setting:?}: {report:?}");
    assert_eq!(report.stale, Vec::<String>::new(), "{report:?}");
    assert!(report.hits > 0 && report.writes > 0, "{report:?}");
    assert!(report.own_writes > 0, "{report:?}");
    for trouble in TROUBLES.iter().filter(|trouble| trouble.befalls(kind)) {
        let came = report.troubles.contains_key(trouble);
        assert!(came, "{trouble:?} never came: {report:?}");
    }
}

fn broadcast() -> Tracking {
    Tracking::Broadcast(vec![b"suite:".to_vec()])
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_redis() {
    check(Kind::Redis, false, Tracking::Keys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_redis_that_broadcasts() {
    check(Kind::Redis, false, broadcast()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_cellar() {
    check(Kind::Cellar, false, Tracking::Keys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_cellar_that_broadcasts() {
    check(Kind::Cellar, false, broadcast()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_memcached() {
    check(Kind::Memcached, true, Tracking::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_cellar_by_memcacheds_protocol() {
    check(Kind::Cellar, true, Tracking::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_by_threads() {
    for kind in [Kind::Redis, Kind::Cellar] {
        let mut setting = Setting::whole(kind, seconds());
        setting.by_threads = true;
        check_setting(&setting).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checker_tells_old_reads_from_young_ones() {
    let second = Duration::from_secs(1);
    let stored = |version, at: u32, flush| Stored {
        version,
        begun_at: at * second,
        told_at: at * second,
        flush,
    };
    let setting = Setting {
        keys: 1,
        ..Setting::whole(Kind::Memcached, 0)
    };
    let stage = Arc::into_inner(Stage::new(&setting).await).expect("nobody else has it");
    let stage = Mutex::new(Stage {
        bound: second,
        ..stage
    });
    let is_stale = |history: &History, read, at: u32| {
        let stage = stage.lock().unwrap();
        stage.report.lock().unwrap().stale.clear();
        stage.histories[0].lock().unwrap().clone_from(history);
        stage.judge(0, read, at * second, at * second);
        !stage.report.lock().unwrap().stale.is_empty()
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
}
