//! Leases across processes: many near caches, each with connections of its own, and one load.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Redis, Remote};
use cellar_near::{Error, Near, NearBuilder};
use tokio::sync::Semaphore;

use crate::servers::{Kind, Server, built};
use crate::subject::PATIENCE;
use crate::wait::wait_until;

type Cache = Near<String, String>;

/// As many as a service has processes.
const CACHES: usize = 10;
/// How long a reader waits for another process's loader where that one never ends.
const PATIENCE_SHORT: Duration = Duration::from_millis(200);

/// A server, and how a cache reads from it.
pub(crate) enum Home {
    Resp(Server),
    Meta(Server),
    Daemon(Server),
}

impl Home {
    /// Those with leases.
    pub(crate) async fn all() -> [Home; 3] {
        [
            Home::Resp(Server::start(Kind::Cellar).await),
            Home::Meta(Server::start(Kind::Cellar).await),
            Home::Daemon(Server::start(Kind::Memcached).await),
        ]
    }

    /// The address of its server, as the example `load_once` takes it.
    pub(crate) fn address(&self) -> String {
        match self {
            Home::Resp(server) => format!("redis://{}", server.address()),
            Home::Meta(server) | Home::Daemon(server) => {
                let address = server.memcached.as_deref();
                format!(
                    "memcached://{}",
                    address.expect("it speaks memcached's protocol")
                )
            }
        }
    }

    /// A cache that no other shares anything with but the server.
    pub(crate) fn builder(&self) -> NearBuilder<String, String> {
        let builder = match self {
            Home::Resp(server) => {
                let origin = Redis::open(format!("redis://{}", server.address())).unwrap();
                let origin = origin.timeout(PATIENCE).connect_timeout(PATIENCE);
                Near::builder(Remote::new(origin, Plain))
            }
            Home::Meta(server) => {
                let address = server
                    .memcached
                    .clone()
                    .expect("it speaks memcached's protocol");
                Near::builder(Remote::new(
                    Memcached::open(address).timeout(PATIENCE),
                    Plain,
                ))
            }
            Home::Daemon(daemon) => {
                let origin = Memcached::open(daemon.address()).timeout(PATIENCE);
                Near::builder(Remote::new(origin, Plain))
            }
        };
        builder.local_ttl(Duration::from_secs(60))
    }
}

/// Loads `key` through `near`.
async fn load(near: &Cache, key: &str, calls: &Arc<AtomicU32>) -> Option<String> {
    load_among(&[], 0, near, key, calls).await
}

/// Loads `key` through `near` with a loader that ends once `caches` have asked their server for
/// `loads` values between them.
async fn load_among(
    caches: &[Cache],
    loads: u64,
    near: &Cache,
    key: &str,
    calls: &Arc<AtomicU32>,
) -> Option<String> {
    let (caches, calls) = (caches.to_vec(), Arc::clone(calls));
    let loader = move || async move {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        let have_asked = || caches.iter().map(|near| near.stats().loads).sum::<u64>() >= loads;
        wait_until("all have asked", have_asked).await;
        Ok::<_, Error>(Some(format!("made by {number}")))
    };
    let held = near.get_or_load(key, loader).await.unwrap();
    held.map(|held| held.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_processes_that_miss_a_key_one_loads_it() {
    for home in Home::all().await {
        let calls = Arc::<AtomicU32>::default();
        let caches: Vec<Cache> = (0..CACHES).map(|_| home.builder().build()).collect();
        let readers: Vec<_> = caches
            .iter()
            .map(|near| {
                let (near, caches) = (near.clone(), caches.clone());
                let calls = Arc::clone(&calls);
                let all = CACHES as u64;
                tokio::spawn(async move { load_among(&caches, all, &near, "k", &calls).await })
            })
            .collect();
        for reader in readers {
            assert_eq!(reader.await.unwrap().as_deref(), Some("made by 0"));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_for_ten_real_processes() {
    let program = built("examples/load_once", &["--example", "load_once"]);
    for home in Home::all().await {
        let address = home.address();
        let processes: Vec<_> = (0..CACHES)
            .map(|_| {
                let mut command = Command::new(&program);
                let command = command.arg(&address).stdout(Stdio::piped());
                command.spawn().expect("the example starts")
            })
            .collect();
        let mut outputs = BTreeSet::new();
        for process in processes {
            let output = process.wait_with_output().unwrap();
            assert!(output.status.success());
            outputs.insert(String::from_utf8(output.stdout).unwrap());
        }
        assert_eq!(outputs.len(), 1, "more than one has made it: {outputs:?}");
        assert!(
            outputs
                .first()
                .is_some_and(|line| line.starts_with("made by process"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_somebody_loads_others_who_only_read_find_nothing() {
    for home in Home::all().await {
        let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let loading = {
            let near = home.builder().build();
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            let loader = move || async move {
                begun.add_permits(1);
                gate.acquire().await.map(drop).expect("it stays");
                Ok::<_, Error>(Some("made".to_owned()))
            };
            tokio::spawn(async move { near.get_or_load("k", loader).await.unwrap().is_some() })
        };
        begun.acquire().await.map(drop).expect("it stays");
        let near = home.builder().build();
        let keys = ["k".to_owned(), "other".to_owned()];
        assert!(near.get("k").await.unwrap().is_none());
        assert!(near.get_many(&keys).await.unwrap()[0].is_none());
        gate.add_permits(1);
        assert!(loading.await.unwrap());
        let read = near.get("k").await.unwrap();
        assert_eq!(read.unwrap().as_str(), "made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_can_have_no_lease_takes_the_leases_of_no_others() {
    let server = Server::start(Kind::Cellar).await;
    server.client().await.run(&["RPUSH", "list", "one"]).await;
    let home = Home::Resp(server);
    let [first, second] = [(), ()].map(|()| home.builder().build());
    let calls = Arc::default();
    let nothing = || async { Ok::<Option<String>, Error>(None) };
    assert!(first.get_or_load("list", nothing).await.is_err());
    let caches = [first.clone(), second.clone()];
    let loads = first.stats().loads + 2;
    let both = tokio::join!(
        load_among(&caches, loads, &first, "k", &calls),
        load_among(&caches, loads, &second, "k", &calls)
    );
    assert_eq!(both.0, both.1);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loader_that_fails_or_finds_nothing_makes_no_other_process_wait() {
    for home in Home::all().await {
        // Whoever waited for the lease's end or for its patience to end would be late.
        let [first, second] = [(), ()].map(|()| {
            let builder = home.builder().lease_timeout(PATIENCE * 20);
            builder.patience(PATIENCE * 20).build()
        });
        let failing = || async { Err::<Option<String>, _>("on purpose") };
        let failed = first.get_or_load("fails", failing).await;
        assert!(matches!(failed, Err(Error::Loader(_))));
        let nothing = || async { Ok::<Option<String>, Error>(None) };
        assert!(
            first
                .get_or_load("nothing", nothing)
                .await
                .unwrap()
                .is_none()
        );
        for key in ["fails", "nothing"] {
            let calls = Arc::default();
            let loading = tokio::time::timeout(PATIENCE, load(&second, key, &calls));
            let read = loading.await.expect("it need not wait");
            assert_eq!(read.as_deref(), Some("made by 0"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_while_it_loads_is_waited_for_no_longer_than_the_patience() {
    for home in Home::all().await {
        let stuck = home.builder().build();
        let (sender, begun) = tokio::sync::oneshot::channel();
        let dying = tokio::spawn(async move {
            let loader = || async move {
                sender.send(()).unwrap();
                std::future::pending::<Result<Option<String>, Error>>().await
            };
            stuck.get_or_load("k", loader).await.map(drop)
        });
        begun.await.unwrap();
        let near = home.builder().patience(PATIENCE_SHORT).build();
        let calls = Arc::default();
        assert_eq!(load(&near, "k", &calls).await.as_deref(), Some("made by 0"));
        // Cancelled, it finds that its lease is gone, and removes nothing.
        dying.abort();
        assert!(dying.await.unwrap_err().is_cancelled());
        // paced: a task that nothing shows gives the lease back; it must find nothing to remove.
        tokio::time::sleep(PATIENCE_SHORT / 4).await;
        let other = home.builder().build();
        assert!(other.get("k").await.unwrap().is_some());
    }
}
