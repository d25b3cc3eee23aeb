//! The checker: writers and near caches at the same keys, and no read may be too old.
//!
//! What is read is judged by [`Ledger`]. Meanwhile everything happens that [`Trouble`] names.
//!
//! `CELLAR_CHECKER_SECONDS` sets how long each of the long runs takes.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use cellar_near::Near;
use cellar_near::fault::Fault;
use cellar_near::origin::redis::Tracking;
use tokio::sync::RwLock;

use crate::blocking::Threads;
use crate::ledger::{Ledger, Pen, Report, read, write, write_own};
use crate::proxy::Proxy;
use crate::servers::{Kind, Server};
use crate::subject::{Cellar, PATIENCE, Subject};
use crate::trouble::{self, TROUBLES, Trouble};
use crate::wait::comes_true;
use crate::writer::{Failed, Writer};

/// How long an answer may take: a read that joins a question is as old as the question.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection without an answer is believed, and a copy that nobody tells of is served.
pub(crate) const BELIEF: Duration = Duration::from_millis(300);

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

/// What all tasks share.
pub(crate) struct Stage {
    ledger: Arc<Ledger>,
    /// The server of the moment.
    pub(crate) server: RwLock<Server>,
    /// One before each cache.
    pub(crate) proxies: Vec<Proxy>,
}

impl Deref for Stage {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Stage {
    async fn new(setting: &Setting) -> Arc<Stage> {
        let server = Server::start(setting.kind).await;
        let target = address(&server, setting.meta);
        let mut proxies = Vec::new();
        for _ in 0..setting.caches {
            proxies.push(Proxy::start(&target).await);
        }
        let ledger = Ledger::new(setting.keys, BELIEF + TIMEOUT, setting.ends_early());
        Arc::new(Stage {
            ledger: Arc::new(ledger),
            server: RwLock::new(server),
            proxies,
        })
    }

    /// Whether every trouble has come that can.
    fn is_complete(&self, setting: &Setting) -> bool {
        let report = self.report.lock().unwrap();
        let mut troubles = setting.troubles.iter();
        troubles
            .all(|trouble| !trouble.befalls(setting.kind) || report.troubles.contains_key(trouble))
    }
}

/// A writer to the server of the moment, over a new connection after each failure.
struct ServerPen {
    stage: Arc<Stage>,
    writer: Option<Writer>,
}

impl Pen for ServerPen {
    async fn set(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        if self.writer.is_none() {
            self.writer = Writer::open(&self.stage.server).await;
        }
        let writer = self.writer.as_mut().ok_or(Failed::Ended)?;
        let stored = writer.set(name, value).await;
        if stored.is_err() {
            self.writer = None;
        }
        stored
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
        let pen = ServerPen {
            stage: Arc::clone(&stage),
            writer: None,
        };
        tasks.push(tokio::spawn(write(
            Arc::clone(&stage.ledger),
            pen,
            seed + 1,
        )));
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
            let reading = read(Arc::clone(&stage.ledger), Arc::clone(&subject), seed);
            tasks.push(tokio::spawn(reading));
        }
        let own = write_own(Arc::clone(&stage.ledger), subject, number);
        tasks.push(tokio::spawn(own));
        caches.push(near);
    }
    tasks.push(tokio::spawn(trouble::make(
        Arc::clone(&stage),
        setting.clone(),
    )));
    let start = stage.now();
    let ran = || stage.now() - start;
    let seconds = Duration::from_secs(setting.seconds);
    let is_over = || stage.has_ended() || ran() >= seconds && stage.is_complete(setting);
    // On a machine with much else to do, for as long as it takes that all has happened.
    comes_true(seconds + 3 * PATIENCE, is_over).await;
    stage.end();
    for task in tasks {
        task.await.expect("no task panics");
    }
    let mut report = stage.report();
    caches.iter().for_each(|near| report.add(&near.stats()));
    report
}

/// Runs it whole, and nothing may be stale.
async fn check(kind: Kind, meta: bool, tracking: Tracking) {
    let mut setting = Setting::whole(kind, seconds());
    setting.meta = meta;
    setting.maker.tracking = tracking;
    check_setting(&setting).await;
}

pub(crate) fn seconds() -> u64 {
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
