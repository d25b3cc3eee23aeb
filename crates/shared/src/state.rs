//! State: what all event loops share.

pub mod run; // this run of the server
pub mod changes; // what CONFIG SET and a reloaded settings file change

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use cellar_cluster::Cluster;
use cellar_config::parameters::Parameters;
use cellar_config::settings::Settings;
use cellar_engine::{Cache, Key, Space};
use cellar_net::tls::Keys;
use cellar_script::{Functions, Scripts};
use cellar_system::clock::{LoopClock, WallClock};

use self::run::Run;
use crate::auth::access::Access;
use crate::clients::budget::Budget;
use crate::clients::client::Clients;
use crate::clients::events::Class;
use crate::clients::exclusive_lock::ExclusiveLock;
use crate::clients::monitors::Monitors;
use crate::clients::pause::Pause;
use crate::clients::transfers::Transfers;
use crate::keyspace::content_types::ContentTypes;
use crate::keyspace::databases::Databases;
use crate::keyspace::default_ttls::DefaultTtls;
use crate::keyspace::observer::Observer;
use crate::observe::records::Records;
use crate::observe::statistics::Statistics;

/// One daemon's shared state.
pub struct State {
    /// The cache.
    pub cache: Cache,
    /// This node's state in its cluster; none without a cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The settings.
    pub settings: Settings,
    /// The counters of all threads.
    pub statistics: Statistics,
    /// The server's certificates and keys, if it speaks TLS.
    pub tls: Option<Arc<Keys>>,
    /// The exclusive lock of the event loops.
    pub exclusive_lock: ExclusiveLock,
    /// Which requests wait.
    pub pause: Pause,
    /// The engine's space of each database.
    pub databases: Databases,
    /// Times to live of items that are stored without one.
    pub default_ttls: DefaultTtls,
    /// The limit on clients' memory outside of the cache.
    pub budget: Arc<Budget>,
    /// Clients of the Redis protocol.
    pub clients: Clients,
    /// The clients in MONITOR mode.
    pub monitors: Monitors,
    /// Notifies clients of changes to items.
    pub observer: Arc<Observer>,
    /// Scripts of the Redis protocol.
    pub scripts: Scripts,
    /// Its libraries of functions.
    pub functions: Functions,
    /// The content types that the flags of HTTP values represent.
    pub content_types: ContentTypes,
    /// Decides who may use the server.
    pub access: Access,
    /// Seconds after which idle connections are closed; zero for never.
    // Relaxed: a setting that orders nothing.
    pub idle_timeout_s: AtomicU64,
    /// This run of the server: its name, its start, and whether it ends.
    pub run: Run,
    /// Open connections now.
    // Relaxed: only reported.
    pub connections: AtomicU64,
    /// The cache's memory held by values that are being received or sent now.
    pub transfers: Transfers,
    /// The clock of the event loops.
    pub clock: LoopClock,
    /// Converts the engine's moments to Unix times and back.
    pub wall: Arc<WallClock>,
    /// The parameters of CONFIG GET.
    pub parameters: Parameters,
    /// What happened lately.
    pub records: Records,
    /// Whether background maintenance is paused, for tests.
    // Relaxed: background maintenance may take one step more.
    pub maintenance_paused: AtomicBool,
}

impl State {
    /// The space of database 0, which memcached and HTTP see, even after SWAPDB.
    #[inline]
    #[must_use]
    pub fn shared_space(&self) -> Space {
        self.databases.space(0)
    }

    /// The hashed key of bytes in it.
    ///
    /// # Errors
    /// [`cellar_engine::Error::KeyLength`] for an over-long key.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, cellar_engine::Error> {
        self.cache.key_in(self.shared_space(), bytes)
    }

    /// Creates the state of a server that starts now, at engine time zero, whose cache reports no
    /// changes.
    #[must_use]
    pub fn new(cache: Cache, settings: Settings, unix_ms_at_zero: u64) -> State {
        let observer = Arc::new(Observer::new(&settings));
        let clock = LoopClock::stopped_at(unix_ms_at_zero);
        State::observed(cache, settings, clock, observer)
    }

    /// The same, with this clock, and with the observer that the cache reports changes to.
    #[must_use]
    pub fn observed(
        cache: Cache,
        settings: Settings,
        clock: LoopClock,
        observer: Arc<Observer>,
    ) -> State {
        let budget = Budget::new(settings.client_memory_bytes(), settings.threads);
        let budget = Arc::new(budget);
        let cluster = settings.cluster.as_ref().map(|source| {
            let name = &settings.node;
            Arc::new(if source.has_leases() {
                Cluster::leased(name)
            } else {
                Cluster::new(name)
            })
        });
        let exclusive_lock = match &cluster {
            Some(_) => ExclusiveLock::with_barrier(settings.threads),
            None => ExclusiveLock::new(settings.threads),
        };
        let state = State {
            cache,
            cluster,
            statistics: Statistics::new(settings.threads),
            tls: None,
            exclusive_lock,
            pause: Pause::default(),
            default_ttls: DefaultTtls::new(&settings.default_ttl, observer.databases().count()),
            databases: observer.databases().clone(),
            clients: Clients::new(Arc::clone(&budget)),
            budget,
            parameters: Parameters::new(&settings),
            records: Records::default(),
            monitors: Monitors::default(),
            maintenance_paused: AtomicBool::new(false),
            observer,
            scripts: Scripts::default(),
            functions: Functions::default(),
            content_types: ContentTypes::default(),
            access: Access::default(),
            idle_timeout_s: AtomicU64::new(settings.idle_timeout_s),
            run: Run::default(),
            settings,
            connections: AtomicU64::new(0),
            transfers: Transfers::default(),
            wall: clock.wall(),
            clock,
        };
        state.choose_calls();
        state
    }

    /// Whether this server serves any keys: always, unless it is a cluster node.
    #[must_use]
    pub fn serves(&self) -> bool {
        let is_one = |cluster: &Arc<Cluster>| cluster.is_whole() && cluster.served() > 0;
        self.cluster.as_ref().is_none_or(is_one)
    }

    /// How often this cluster node has lost slots; requests from before have to end.
    #[inline]
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.losses())
    }

    /// Makes tracking clients drop what they have read here, if the lease of this node has expired:
    /// it misses changes then. Once for each lease.
    #[cold]
    pub fn tell_of_the_leases_end(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.tell_of_its_end(|| self.observer.tracking.flushed());
        }
    }

    /// Redis's name for the server's mode: standalone, or a cluster node.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match self.cluster {
            None => "standalone",
            Some(_) => "cluster",
        }
    }

    /// The settings with what CONFIG SET has changed since the start.
    #[must_use]
    pub fn settings_in_effect(&self) -> Settings {
        let mut settings = self.settings.clone();
        self.parameters.put_into(&mut settings);
        settings
    }

    /// Unix time of the start, in seconds, by the current wall clock.
    #[must_use]
    pub fn start_unix_s(&self) -> u64 {
        self.wall.unix_ms(self.run.started) / 1_000
    }

    /// Selects whether all calls of commands are recorded, if a feature requires it, or a sample.
    pub fn choose_calls(&self) {
        self.statistics.record_all_calls_if(|| {
            self.records.need_all_calls()
                || self.observer.events().has(Class::Miss)
                || self.monitors.are_there()
        });
    }

    /// Resets all statistics.
    pub fn reset_stats(&self) {
        self.records.errors.reset();
        self.statistics.reset(&self.cache);
    }

    /// Whether values in transfer use so much memory that slow clients have to be closed.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        self.transfers.fill(self.cache.memory_bytes())
    }
}
