//! The checker: writers and near caches at the same keys, and no read may be too old.
//!
//! Every write of a key has a version; one writer at a time has the key, so the order of the
//! versions is the order at the server. A reader notes the time at which it begins. What it gets
//! is stale if a later version had been acknowledged to its writer more than the bound before
//! that. Between the writes connections are killed and everything is flushed.
//!
//! `CELLAR_CHECKER_SECONDS` sets how long the long run takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::Near;
use cellar_near::clock::{Clock, SystemClock};
use cellar_near::fault::Fault;
use cellar_near::origin::redis::Tracking;
use tokio::sync::RwLock;

use crate::servers::{Client, KINDS, Kind, Server};
use crate::subject::{Cellar, name_of};

/// Kept of each report.
const STALE_MAX: usize = 10;
/// How long an answer may take: a read that joins a question is as old as the question.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    kind: Kind,
    maker: Cellar,
    writers: u64,
    caches: usize,
    readers: usize,
    keys: u64,
    seconds: u64,
    /// How long a connection without an answer is believed.
    alive_bound: Duration,
    /// Whether connections are killed and everything is flushed now and then.
    disturbed: bool,
}

impl Setting {
    /// A run of seconds.
    pub(crate) fn quick(kind: Kind, fault: Fault) -> Setting {
        Setting {
            kind,
            maker: Cellar::broken(fault),
            writers: 4,
            caches: 3,
            readers: 4,
            keys: 40,
            seconds: 3,
            alive_bound: Duration::from_millis(500),
            disturbed: true,
        }
    }

    /// The same with as many races between loads and writes as there can be, and nothing that
    /// would heal a stale copy.
    pub(crate) fn racing(kind: Kind, fault: Fault) -> Setting {
        Setting {
            writers: 8,
            keys: 6,
            disturbed: false,
            ..Setting::quick(kind, fault)
        }
    }

    /// The oldest that a read may be.
    fn bound(&self) -> Duration {
        self.alive_bound.max(TIMEOUT)
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Stale reads, the first of them.
    pub(crate) stale: Vec<String>,
    pub(crate) reads: u64,
    pub(crate) hits: u64,
    pub(crate) writes: u64,
    pub(crate) invalidations: u64,
    pub(crate) overtaken: u64,
    pub(crate) errors: u64,
}

/// A version and when its writer was told that it is stored.
#[derive(Clone, Copy, Debug)]
struct Stored {
    version: u64,
    begun_at: Duration,
    told_at: Duration,
    /// A removal of everything; no value is right after it.
    flush: bool,
}

/// What has happened to one key, in the order of the versions.
type History = Vec<Stored>;

struct Stage {
    clock: SystemClock,
    histories: Vec<Mutex<History>>,
    /// Held by the writer of a key.
    owners: Vec<tokio::sync::Mutex<()>>,
    /// Held for writing by who flushes.
    flushing: RwLock<()>,
    versions: AtomicU64,
    ended: AtomicBool,
    report: Mutex<Report>,
    bound: Duration,
}

/// Runs it and judges every read.
pub(crate) async fn run(setting: &Setting) -> Report {
    let server = Arc::new(Server::start(setting.kind).await);
    let stage = Arc::new(Stage {
        clock: SystemClock::new(),
        histories: (0..setting.keys).map(|_| Mutex::default()).collect(),
        owners: (0..setting.keys)
            .map(|_| tokio::sync::Mutex::default())
            .collect(),
        flushing: RwLock::default(),
        versions: AtomicU64::new(1),
        ended: AtomicBool::new(false),
        report: Mutex::default(),
        bound: setting.bound(),
    });
    let mut tasks = Vec::new();
    for seed in 0..setting.writers {
        tasks.push(tokio::spawn(write(
            Arc::clone(&stage),
            Arc::clone(&server),
            seed + 1,
        )));
    }
    let caches: Vec<Near<String, String>> = (0..setting.caches)
        .map(|_| setting.maker.near(&server.address(), setting.alive_bound))
        .collect();
    for (seed, near) in caches.iter().enumerate() {
        for reader in 0..setting.readers {
            let seed = (seed * setting.readers + reader + 101) as u64;
            tasks.push(tokio::spawn(read(Arc::clone(&stage), near.clone(), seed)));
        }
    }
    if setting.disturbed {
        let client = server.client().await;
        tasks.push(tokio::spawn(disturb(Arc::clone(&stage), client)));
    }
    tokio::time::sleep(Duration::from_secs(setting.seconds)).await;
    stage.ended.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.expect("no task panics");
    }
    let mut report = stage.report.lock().unwrap().clone();
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

async fn write(stage: Arc<Stage>, server: Arc<Server>, seed: u64) {
    let mut dice = Dice(seed);
    let mut client = server.client().await;
    while !stage.ended.load(Ordering::SeqCst) {
        let key = dice.key(stage.owners.len() as u64);
        {
            let _nobody_flushes = stage.flushing.read().await;
            let _owned = stage.owners[index(key)].lock().await;
            let version = stage.versions.fetch_add(1, Ordering::SeqCst);
            let begun_at = stage.clock.now();
            let value = version.to_string();
            if client
                .try_run(&["SET", &name_of(&key_of(key)), &value])
                .await
                .is_err()
            {
                // Its connection was killed; whether the value was stored is not known.
                client = server.client().await;
            } else {
                let told_at = stage.clock.now();
                stage.report.lock().unwrap().writes += 1;
                stage.histories[index(key)].lock().unwrap().push(Stored {
                    version,
                    begun_at,
                    told_at,
                    flush: false,
                });
            }
        }
        if dice.roll(4) == 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

async fn read(stage: Arc<Stage>, near: Near<String, String>, seed: u64) {
    let mut dice = Dice(seed);
    let mut reads = 0;
    while !stage.ended.load(Ordering::SeqCst) {
        let keys: Vec<u64> = (0..1 + 4 * u64::from(dice.roll(8) == 0))
            .map(|_| dice.key(stage.owners.len() as u64))
            .collect();
        let begun_at = stage.clock.now();
        let names: Vec<String> = keys.iter().map(|&key| key_of(key)).collect();
        let values = match &names[..] {
            [name] => near.get(name).await.map(|value| vec![value]),
            names => near.get_many(names).await,
        };
        let ended_at = stage.clock.now();
        // An error is no stale read.
        for (&key, value) in keys.iter().zip(values.into_iter().flatten()) {
            let version = value.map(|value| value.parse().expect("a version"));
            stage.judge(key, version, begun_at, ended_at);
            reads += 1;
        }
        if dice.roll(16) == 0 {
            tokio::task::yield_now().await;
        }
    }
    stage.report.lock().unwrap().reads += reads;
}

/// Kills the connections of the caches, and flushes everything, now and then.
async fn disturb(stage: Arc<Stage>, client: Client) {
    let mut round = 0;
    while !stage.ended.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(150)).await;
        round += 1;
        if round % 4 == 0 {
            client
                .run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .await;
            continue;
        }
        let _nobody_writes = stage.flushing.write().await;
        let version = stage.versions.fetch_add(1, Ordering::SeqCst);
        let begun_at = stage.clock.now();
        client.run(&["FLUSHALL"]).await;
        let told_at = stage.clock.now();
        for history in &stage.histories {
            history.lock().unwrap().push(Stored {
                version,
                begun_at,
                told_at,
                flush: true,
            });
        }
    }
}

impl Stage {
    /// Notes a read that is older than it may be.
    fn judge(&self, key: u64, read: Option<u64>, begun_at: Duration, ended_at: Duration) {
        let history = self.histories[index(key)].lock().unwrap();
        let settled = begun_at.saturating_sub(self.bound);
        // The last one that every read from here on has to know of.
        let Some(floor) = history
            .iter()
            .rev()
            .find(|stored| stored.told_at <= settled)
        else {
            return;
        };
        let fits = match read {
            Some(version) => version >= floor.version,
            // Nothing is right if a flush is the last that counts, or has come since.
            None => history
                .iter()
                .rev()
                .take_while(|one| one.version >= floor.version)
                .any(|one| one.flush && one.begun_at <= ended_at),
        };
        if !fits {
            let mut report = self.report.lock().unwrap();
            if report.stale.len() < STALE_MAX {
                let what = format!("{key} read as {read:?} at {begun_at:?}, known: {floor:?}");
                report.stale.push(what);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_while_writers_write_and_connections_die() {
    let seconds = std::env::var("CELLAR_CHECKER_SECONDS");
    let seconds = seconds.ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let trackings = [
        Tracking::Keys,
        Tracking::Broadcast(vec![b"suite:".to_vec()]),
    ];
    for kind in KINDS {
        for tracking in &trackings {
            let mut setting = Setting::quick(kind, Fault::None);
            setting.maker.tracking = tracking.clone();
            setting.seconds = seconds;
            let report = run(&setting).await;
            println!("{kind:?}, {tracking:?}: {report:?}");
            assert_eq!(report.stale, Vec::<String>::new(), "{report:?}");
            assert!(
                report.hits > 0 && report.writes > 0,
                "nothing was tried: {report:?}"
            );
        }
    }
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
    let stage = |history: History| Stage {
        clock: SystemClock::new(),
        histories: vec![Mutex::new(history)],
        owners: Vec::new(),
        flushing: RwLock::default(),
        versions: AtomicU64::new(0),
        ended: AtomicBool::new(false),
        report: Mutex::default(),
        bound: second,
    };
    let is_stale = |history: &History, read, at: u32| {
        let stage = stage(history.clone());
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
