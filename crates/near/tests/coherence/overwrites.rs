//! Overwrites: what a loader has made must not replace what was written while it ran, neither at
//! the server nor in any cache; over servers with leases and without.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cellar_near::{Error, Near};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::leases::Home;
use crate::servers::{Kind, Server, built};
use crate::wait::{wait_for, wait_until};

type Cache = Near<String, String>;

/// A change of `k` that is made while a loader runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `set`.
    Set,
    /// `remove`, of what is there and of what is not.
    Remove,
    /// `set`, and `remove` behind it.
    SetRemove,
    /// `set_for` a time that is over before the loader ends.
    SetBriefly,
}

pub(crate) const CHANGES: [Change; 4] = [
    Change::Set,
    Change::Remove,
    Change::SetRemove,
    Change::SetBriefly,
];

impl Change {
    pub(crate) async fn make(self, near: &Cache) {
        match self {
            Change::Set => near.set("k", &"new".to_owned()).await.unwrap(),
            Change::Remove => drop(near.remove("k").await.unwrap()),
            Change::SetRemove => {
                near.set("k", &"new".to_owned()).await.unwrap();
                assert!(near.remove("k").await.unwrap());
            }
            Change::SetBriefly => {
                let brief = Duration::from_millis(1);
                near.set_for("k", &"new".to_owned(), brief).await.unwrap();
                let is_over = || async { near.get("k").await.unwrap().is_none().then_some(()) };
                wait_for("the value is over", is_over).await;
            }
        }
    }

    /// What everybody reads afterwards.
    pub(crate) fn value(self) -> Option<&'static str> {
        (self == Change::Set).then_some("new")
    }
}

/// All servers: redis-server has no leases.
async fn homes() -> Vec<Home> {
    let mut homes: Vec<Home> = Home::all().await.into();
    homes.push(Home::Resp(Server::start(Kind::Redis).await));
    homes
}

/// A loader that says when it has begun, and makes "old" when it may.
pub(crate) struct Gated {
    begun: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Gated {
    pub(crate) fn new() -> Gated {
        Gated {
            begun: Arc::new(Semaphore::new(0)),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// Begins to load `k` through `near`.
    pub(crate) fn load(&self, near: &Cache) -> tokio::task::JoinHandle<Option<String>> {
        let (near, begun, gate) = (near.clone(), self.begun.clone(), self.gate.clone());
        let loader = move || async move {
            begun.add_permits(1);
            gate.acquire().await.map(drop).expect("it stays");
            Ok::<_, Error>(Some("old".to_owned()))
        };
        tokio::spawn(async move { value(near.get_or_load("k", loader).await) })
    }

    pub(crate) async fn has_begun(&self) {
        self.begun.acquire().await.expect("it stays").forget();
    }

    pub(crate) fn end(&self) {
        self.gate.add_permits(1);
    }
}

fn value(read: Result<Option<cellar_near::Held<String>>, Error>) -> Option<String> {
    read.unwrap().map(|held| held.to_string())
}

pub(crate) async fn read(near: &Cache) -> Option<String> {
    value(near.get("k").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_a_loader_runs_is_what_everybody_reads() {
    for home in homes().await {
        for (change, is_own) in CHANGES.iter().flat_map(|&one| [(one, true), (one, false)]) {
            let [near, other] = [(), ()].map(|()| home.builder().build());
            near.remove("k").await.unwrap();
            let gated = Gated::new();
            let loading = gated.load(&near);
            gated.has_begun().await;
            change.make(if is_own { &near } else { &other }).await;
            gated.end();
            loading.await.unwrap();
            let fresh = home.builder().build();
            for (name, cache) in [("near", &near), ("other", &other), ("fresh", &fresh)] {
                let what = format!("{name} after {change:?}, own {is_own}, {}", home.address());
                assert_eq!(read(cache).await.as_deref(), change.value(), "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_for_a_loader_that_makes_the_next_value() {
    for home in homes().await {
        for (change, is_own) in CHANGES.iter().flat_map(|&one| [(one, true), (one, false)]) {
            // From the first moment on it is the last part of the value's life.
            let builder = || home.builder().origin_ttl(Duration::from_secs(600));
            let near = builder().refresh_ahead(1.0).build();
            let other = builder().build();
            near.set("k", &"first".to_owned()).await.unwrap();
            assert_eq!(read(&other).await.as_deref(), Some("first"));
            let fill = near.get_or_load("k", || async { Err::<Option<String>, _>("not asked") });
            assert_eq!(value(fill.await).as_deref(), Some("first"));
            let gated = Gated::new();
            // A server that counts whole seconds calls it the last part a second later.
            let begins = || async {
                assert_eq!(gated.load(&near).await.unwrap().as_deref(), Some("first"));
                gated.begun.try_acquire().ok().map(SemaphorePermit::forget)
            };
            wait_for("the loader is asked", begins).await;
            change.make(if is_own { &near } else { &other }).await;
            let tasks = Handle::current().metrics().num_alive_tasks();
            gated.end();
            let has_ended = || Handle::current().metrics().num_alive_tasks() < tasks;
            wait_until("the loader has ended", has_ended).await;
            let fresh = home.builder().build();
            for (name, cache) in [("near", &near), ("fresh", &fresh)] {
                let what = format!("{name} after {change:?}, own {is_own}, {}", home.address());
                assert_eq!(read(cache).await.as_deref(), change.value(), "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_by_a_client_without_a_near_cache_is_not_overwritten_either() {
    for kind in [Kind::Redis, Kind::Cellar] {
        let home = Home::Resp(Server::start(kind).await);
        let Home::Resp(server) = &home else { continue };
        let client = server.client().await;
        let near = home.builder().build();
        let gated = Gated::new();
        let loading = gated.load(&near);
        gated.has_begun().await;
        client.run(&["SET", "k", "new"]).await;
        gated.end();
        assert_eq!(loading.await.unwrap().as_deref(), Some("new"));
        assert_eq!(read(&near).await.as_deref(), Some("new"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_has_waited_in_vain_for_another_loader_overwrites_nothing() {
    for home in Home::all().await {
        let [stuck, other] = [(), ()].map(|()| home.builder().build());
        let impatient = home.builder().patience(Duration::from_millis(50)).build();
        let (first, second) = (Gated::new(), Gated::new());
        let first_load = first.load(&stuck);
        first.has_begun().await;
        let second_load = second.load(&impatient);
        second.has_begun().await;
        Change::Set.make(&other).await;
        second.end();
        second_load.await.unwrap();
        first.end();
        first_load.await.unwrap();
        for cache in [&stuck, &other, &impatient] {
            assert_eq!(
                read(cache).await.as_deref(),
                Some("new"),
                "{}",
                home.address()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_for_a_loader_in_another_process() {
    let program = built("examples/load_once", &["--example", "load_once"]);
    for home in homes().await {
        for change in CHANGES {
            let near = home.builder().build();
            near.remove("k").await.unwrap();
            let mut command = Command::new(&program);
            command.args([&home.address(), "k", "old"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("the example starts");
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let line = lines.next().unwrap().unwrap();
            assert_eq!(line, "loading", "{change:?} over {}", home.address());
            change.make(&near).await;
            writeln!(child.stdin.take().unwrap()).unwrap();
            assert!(child.wait().unwrap().success());
            let fresh = home.builder().build();
            for cache in [&near, &fresh] {
                let what = format!("{change:?} over {}", home.address());
                assert_eq!(read(cache).await.as_deref(), change.value(), "{what}");
            }
        }
    }
}

/// Loads and writes without order: how many of each.
const ROUNDS: u64 = 300;

/// Each write goes to a database first and to the cache then; each loader reads the database. Once
/// all is quiet the server has the database's value or none.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_and_the_server_agree_once_all_loads_and_writes_have_ended() {
    for home in homes().await {
        let [near, other] = [(), ()].map(|()| home.builder().build());
        for round in 0..ROUNDS {
            let database = Arc::new(AtomicU64::new(round * 2));
            near.remove("k").await.unwrap();
            let is_written = Arc::<AtomicBool>::default();
            let loads = [&near, &other].map(|cache| {
                let (cache, database) = (cache.clone(), Arc::clone(&database));
                let is_written = Arc::clone(&is_written);
                let loader = move || async move {
                    let read = database.load(Ordering::SeqCst);
                    // At times it ends just when the write begins.
                    while round % 3 > 0 && !is_written.load(Ordering::SeqCst) {
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, Error>(Some(read.to_string()))
                };
                tokio::spawn(async move { value(cache.get_or_load("k", loader).await) })
            });
            let writer = if round % 2 == 0 { &near } else { &other };
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            let newest = round * 2 + 1;
            database.store(newest, Ordering::SeqCst);
            is_written.store(true, Ordering::SeqCst);
            match round % 4 {
                0 | 1 => drop(writer.remove("k").await.unwrap()),
                _ => writer.set("k", &newest.to_string()).await.unwrap(),
            }
            for load in loads {
                load.await.unwrap();
            }
            let fresh = home.builder().build();
            if let Some(read) = read(&fresh).await {
                assert_eq!(
                    read,
                    newest.to_string(),
                    "round {round}, {}",
                    home.address()
                );
            }
        }
    }
}

/// Over memcached's protocol a life has whole seconds, over Redis's whole milliseconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_life_at_the_server_is_never_longer_than_asked_for() {
    for home in homes().await {
        let near = home.builder().build();
        let unit_ms = match home {
            Home::Resp(_) => 1_f64,
            Home::Meta(_) | Home::Daemon(_) => 1_000.0,
        };
        let lives_ms = [0.0, 0.3, 0.999, 1.0, 300.0, 999.0, 1_900.0, 60_000.5];
        for life in lives_ms.map(|ms| Duration::from_secs_f64(ms / 1_000.0)) {
            near.set("k", &"before".to_owned()).await.unwrap();
            near.set_for("k", &"brief".to_owned(), life).await.unwrap();
            let fresh = home.builder().build();
            if life.as_secs_f64() * 1_000.0 < unit_ms {
                assert_eq!(read(&fresh).await, None, "{life:?} over {}", home.address());
            }
        }
        // The last one is sixty seconds for both.
        let held = near.get("k").await.unwrap().expect("it lives");
        assert_eq!(held.as_str(), "brief");
    }
}
