//! Subject: a near cache as the suite sees it, and the two subjects that there are.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::fault::Fault;
use cellar_near::origin::redis::Tracking;
use cellar_near::origin::{Memcached, Redis, Remote};
use cellar_near::{Near, NearBuilder, Stats};

use crate::wait::retry_for;

/// Longest time that a correct client is given; only a broken one reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The same where a broken one is expected.
pub(crate) const IMPATIENCE: Duration = Duration::from_secs(2);

/// A result that is on its way.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A verdict: nothing, or what was wrong.
pub(crate) type Verdict = Result<(), String>;

/// A near cache for text under text.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Reads a key, from memory or from the server.
    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<String>, String>>;

    /// Reads several keys.
    fn read_many<'a>(
        &'a self,
        keys: &'a [&'a str],
    ) -> Pending<'a, Result<Vec<Option<String>>, String>>;

    /// Writes a key through the cache.
    fn write<'a>(&'a self, key: &'a str, value: &'a str) -> Pending<'a, Result<(), String>>;
}

/// Whoever makes subjects.
pub(crate) trait Maker: Send + Sync {
    /// A near cache over the RESP server at `address` (`host:port`), which believes a connection
    /// without an answer for at most `bound`.
    fn make(&self, address: &str, bound: Duration) -> Arc<dyn Subject>;

    /// How long a scenario waits before it calls a read stale.
    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// This crate's near cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cellar {
    pub(crate) fault: Fault,
    pub(crate) tracking: Tracking,
    /// Whether it waits for an answer as long as a busy machine may take; else for a second.
    pub(crate) is_patient: bool,
}

impl Cellar {
    /// One with a broken rule.
    pub(crate) fn broken(fault: Fault) -> Cellar {
        Cellar {
            fault,
            ..Cellar::default()
        }
    }

    /// One that is told of all writes below the prefix of the suite's keys.
    pub(crate) fn broadcast() -> Cellar {
        Cellar {
            tracking: Tracking::Broadcast(vec![b"suite:".to_vec()]),
            ..Cellar::default()
        }
    }

    /// One for tests in which every question is answered at last.
    pub(crate) fn patient() -> Cellar {
        Cellar {
            is_patient: true,
            ..Cellar::default()
        }
    }

    /// The cache itself.
    pub(crate) fn near(&self, address: &str, bound: Duration) -> Near<String, String> {
        let origin = Redis::open(format!("redis://{address}")).expect("an address");
        self.near_of(origin, bound)
    }

    /// The same over the cluster to which these nodes belong.
    pub(crate) fn near_cluster(&self, nodes: &[String], bound: Duration) -> Near<String, String> {
        self.builder_of_cluster(nodes, bound).build()
    }

    /// The same, to be adjusted.
    pub(crate) fn builder_of_cluster(
        &self,
        nodes: &[String],
        bound: Duration,
    ) -> NearBuilder<String, String> {
        let nodes = nodes.iter().map(|address| format!("redis://{address}"));
        self.builder_of(Redis::cluster(nodes).expect("addresses"), bound)
    }

    fn near_of(&self, origin: Redis, bound: Duration) -> Near<String, String> {
        self.builder_of(origin, bound).build()
    }

    fn builder_of(&self, origin: Redis, bound: Duration) -> NearBuilder<String, String> {
        let timeout = if self.is_patient {
            PATIENCE
        } else {
            Duration::from_secs(1)
        };
        let origin = origin
            .alive_bound(bound)
            .tracking(self.tracking.clone())
            .timeout(timeout)
            .connect_timeout(timeout)
            .fault(self.fault);
        Near::builder(Remote::new(origin, Plain).prefix("suite:"))
            .negative_ttl(Duration::from_secs(3600))
            .fault(self.fault)
    }

    /// One over memcached's protocol, whose copies live for `local_ttl`.
    pub(crate) fn near_by_time(
        &self,
        address: &str,
        local_ttl: Duration,
        timeout: Duration,
    ) -> Near<String, String> {
        let origin = Memcached::open(address).timeout(timeout);
        Near::builder(Remote::new(origin, Plain).prefix("suite:"))
            .local_ttl(local_ttl)
            .negative_ttl(local_ttl)
            .revalidate(local_ttl)
            .fault(self.fault)
            .build()
    }
}

impl Maker for Cellar {
    fn make(&self, address: &str, bound: Duration) -> Arc<dyn Subject> {
        Arc::new(self.near(address, bound))
    }

    fn patience(&self) -> Duration {
        if self.fault == Fault::None {
            PATIENCE
        } else {
            IMPATIENCE
        }
    }
}

impl Subject for Near<String, String> {
    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let held = self.get(key).await.map_err(|error| error.to_string())?;
            Ok(held.map(|held| held.to_string()))
        })
    }

    fn read_many<'a>(
        &'a self,
        keys: &'a [&'a str],
    ) -> Pending<'a, Result<Vec<Option<String>>, String>> {
        Box::pin(async move {
            let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
            let held = self
                .get_many(&keys)
                .await
                .map_err(|error| error.to_string())?;
            Ok(held
                .into_iter()
                .map(|held| held.map(|held| held.to_string()))
                .collect())
        })
    }

    fn write<'a>(&'a self, key: &'a str, value: &'a str) -> Pending<'a, Result<(), String>> {
        Box::pin(async move {
            let written = self.set(key, &value.to_owned()).await;
            written.map_err(|error| error.to_string())
        })
    }
}

/// The name that the server knows a key of the suite by.
pub(crate) fn name_of(key: &str) -> String {
    format!("suite:{key}")
}

/// Reads until `key` has the value `expected`; stale if that never happens.
///
/// Errors are no stale reads: a client may fail for a while, but not lie.
pub(crate) async fn settles(
    maker: &dyn Maker,
    subject: &dyn Subject,
    key: &str,
    expected: Option<&str>,
) -> Verdict {
    let last = Mutex::new(Ok(None));
    let read_expected = || async {
        let read = subject.read(key).await;
        let is_expected = read
            .as_ref()
            .is_ok_and(|value| value.as_deref() == expected);
        *last.lock().unwrap() = read;
        is_expected.then_some(())
    };
    let settled = retry_for(maker.patience(), read_expected).await;
    settled.ok_or_else(|| {
        let last = last.lock().unwrap();
        format!("{key} stays at {last:?}, the server has {expected:?}")
    })
}

/// What is answered at last, when a question is asked again after an error.
pub(crate) async fn answered<'a, T>(
    maker: &dyn Maker,
    ask: impl Fn() -> Pending<'a, Result<T, String>>,
) -> Result<T, String> {
    let mut last = Err("nothing was asked".to_owned());
    let asking = async {
        while last.is_err() {
            last = ask().await;
        }
    };
    let _ = tokio::time::timeout(maker.patience(), asking).await;
    last
}

/// Reads `key` until it has been read twice with the value `expected`: it is in memory by then.
pub(crate) async fn fill(
    maker: &dyn Maker,
    subject: &dyn Subject,
    key: &str,
    expected: Option<&str>,
) -> Verdict {
    settles(maker, subject, key, expected).await?;
    settles(maker, subject, key, expected).await
}

/// An error unless the cache has answered `reads` reads of `key` from memory: else a test proves
/// nothing.
pub(crate) async fn expect_hits(near: &Near<String, String>, key: &str) {
    let before: Stats = near.stats();
    near.get(key).await.expect("the server answers");
    let after = near.stats();
    assert_eq!(
        after.hits,
        before.hits + 1,
        "{key} is not in memory: {after:?}"
    );
}
