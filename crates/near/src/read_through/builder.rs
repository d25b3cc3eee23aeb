//! Builder of a near cache.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::local::{Local, LocalBuilder, Policy};
use crate::read_through::entry::Entry;
use crate::read_through::fault::{Fault, Given};
use crate::read_through::origin::Source;

/// Weight of an entry that says that there is no value, beside its key.
const ABSENT_BYTES: u32 = 64;

/// How long a lease to load lasts, unless the builder says otherwise.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long others are waited for, unless the builder says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// How copies live, and how they are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) local_ttl: Option<Duration>,
    pub(crate) negative_ttl: Option<Duration>,
    pub(crate) refresh_ahead: Option<f64>,
    pub(crate) serve_stale: Option<Duration>,
    pub(crate) revalidate: Option<Duration>,
    pub(crate) origin_ttl: Option<Duration>,
    /// None if everybody loads.
    pub(crate) lease_timeout: Option<Duration>,
    pub(crate) patience: Duration,
    pub(crate) without_origin: Option<WithoutOrigin>,
    /// The part of a time to live that may be taken off it.
    pub(crate) jitter: f64,
}

impl Settings {
    /// A time to live with a random part taken off.
    pub(crate) fn jittered(&self, ttl: Duration) -> Duration {
        if self.jitter == 0.0 {
            return ttl;
        }
        ttl.mul_f64(1.0 - self.jitter * fastrand::f64())
    }
}

/// Limits on values that are made while the origin is unreachable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WithoutOrigin {
    pub(crate) ttl: Duration,
    pub(crate) loads_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            local_ttl: None,
            negative_ttl: None,
            refresh_ahead: None,
            serve_stale: None,
            revalidate: None,
            origin_ttl: None,
            lease_timeout: Some(LEASE_TIMEOUT),
            patience: PATIENCE,
            without_origin: None,
            jitter: 0.0,
        }
    }
}

/// The parts of a near cache, ready to be put together.
pub(crate) struct Parts<K, V> {
    pub(crate) source: Arc<dyn Source<K, V>>,
    pub(crate) local: Local<K, Entry<V>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) fault: Given,
}

/// Settings of a near cache; without any, 10,000 entries that live as long as the origin says.
pub struct NearBuilder<K, V> {
    source: Arc<dyn Source<K, V>>,
    local: LocalBuilder<K, Entry<V>>,
    clock: Option<Arc<dyn Clock>>,
    settings: Settings,
    fault: Given,
}

impl<K, V> fmt::Debug for NearBuilder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NearBuilder");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<K, V> NearBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(crate) fn new(source: impl Source<K, V>) -> NearBuilder<K, V> {
        NearBuilder {
            source: Arc::new(source),
            local: Local::builder(),
            clock: None,
            settings: Settings::default(),
            fault: Given::default(),
        }
    }

    /// Bounds it by this many entries.
    #[must_use]
    pub fn entries_max(mut self, entries: u64) -> Self {
        self.local = self.local.entries_max(entries);
        self
    }

    /// Bounds it by bytes, as `weigher` counts them.
    #[must_use]
    pub fn bytes_max(
        mut self,
        bytes: u64,
        weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.local = self.local.bytes_max(bytes, move |key, entry: &Entry<V>| {
            entry
                .value()
                .map_or(ABSENT_BYTES, |value| weigher(key, value))
        });
        self
    }

    /// Into how many parts the local store is cut; by default as fits the machine.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.local = self.local.shards(shards);
        self
    }

    /// The eviction policy of the local store.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.local = self.local.policy(policy);
        self
    }

    /// How long an entry is served at most, counted from the request to the origin.
    ///
    /// Without it an entry lives until it is invalidated, expires at the origin or is evicted. An
    /// origin without invalidations needs it: then it is the bound on staleness.
    #[must_use]
    pub fn local_ttl(mut self, ttl: Duration) -> Self {
        self.settings.local_ttl = Some(ttl);
        self
    }

    /// Remembers for so long that a key has no value; without it such keys are asked for each time.
    #[must_use]
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.settings.negative_ttl = Some(ttl);
        self
    }

    /// Refreshes an entry in the background when it is read in this last part of its life (0.0 to
    /// 1.0).
    ///
    /// A reader without a loader requests it from the origin. One with a loader lets it make the
    /// next value if the one at the origin is in the last part of its life too; that life is
    /// `origin_ttl`, or the remaining time of the value when it was read. Readers do not wait for
    /// this.
    ///
    /// # Panics
    /// If `part` is not between 0 and 1.
    #[must_use]
    pub fn refresh_ahead(mut self, part: f64) -> Self {
        assert!((0.0..=1.0).contains(&part), "a part of a whole, not {part}");
        self.settings.refresh_ahead = Some(part);
        self
    }

    /// Serves an entry that has expired, or whose connection was lost, when the origin fails, up to
    /// this long after it was last known to be valid. An invalidated entry is never served.
    #[must_use]
    pub fn serve_stale(mut self, age_max: Duration) -> Self {
        self.settings.serve_stale = Some(age_max);
        self
    }

    /// Lets loaders make values while the origin cannot be reached, instead of an error, and serves
    /// each for `ttl`, without invalidations.
    ///
    /// At most `loads_max` loaders run at once for this reason; further callers get the origin's
    /// error, so that the system behind the loaders is not overloaded.
    #[must_use]
    pub fn serve_without_origin(mut self, ttl: Duration, loads_max: usize) -> Self {
        self.settings.without_origin = Some(WithoutOrigin { ttl, loads_max });
        self
    }

    /// Keeps an entry for so long beyond its local time to live, to ask the origin whether it is
    /// still the value instead of loading it. Only for origins with versions (memcached).
    #[must_use]
    pub fn revalidate(mut self, keep: Duration) -> Self {
        self.settings.revalidate = Some(keep);
        self
    }

    /// The time to live that writes through this cache give to the origin; none by default.
    #[must_use]
    pub fn origin_ttl(mut self, ttl: Duration) -> Self {
        self.settings.origin_ttl = Some(ttl);
        self
    }

    /// After this time the origin lets another process load a key that this one has not stored; 30
    /// seconds by default. Only for origins with leases (Cellar, memcached).
    #[must_use]
    pub fn lease_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lease_timeout = Some(timeout);
        self
    }

    /// Takes no leases at the origin: each process that finds nothing loads.
    #[must_use]
    pub fn without_leases(mut self) -> Self {
        self.settings.lease_timeout = None;
        self
    }

    /// How long a reader waits for another process that loads, before it loads itself; five
    /// seconds by default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Takes a random part, up to this one (0.0 to 1.0), off `local_ttl`, `negative_ttl` and
    /// `origin_ttl`, chosen for each value, so that values loaded together do not expire together.
    ///
    /// # Panics
    /// If `part` is not between 0 and 1.
    #[must_use]
    pub fn jitter(mut self, part: f64) -> Self {
        assert!((0.0..=1.0).contains(&part), "a part of a whole, not {part}");
        self.settings.jitter = part;
        self
    }

    /// The clock of all its times.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Breaks a rule on purpose, for tests of tests.
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Given::new(fault);
        self
    }

    pub(crate) fn parts(self) -> Parts<K, V> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let mut settings = self.settings;
        if self.fault.is(Fault::NoLocalTtl) {
            settings.local_ttl = None;
        }
        Parts {
            source: self.source,
            local: self.local.clock(Arc::clone(&clock)).build(),
            clock,
            settings,
            fault: self.fault,
        }
    }
}
