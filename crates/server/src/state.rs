//! State: what all event loops share.

pub mod changes; // what CONFIG SET and a reloaded settings file change

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_engine::{Cache, Instant, Key, Space};
use cellar_script::{Functions, Scripts};

use crate::auth::login_limiter::LoginLimiter;
use crate::auth::unauthenticated::Unauthenticated;
use crate::auth::users::Users;
use crate::auth::wrong_protocol::WrongProtocols;
use crate::clients::budget::Budget;
use crate::clients::client::Clients;
use crate::clients::events::Class;
use crate::clients::exclusive_lock::ExclusiveLock;
use crate::clients::monitors::Monitors;
use crate::clients::pause::Pause;
use crate::cluster::Cluster;
use crate::config::parameters::Parameters;
use crate::config::settings::Settings;
use crate::keyspace::content_types::ContentTypes;
use crate::keyspace::databases::Databases;
use crate::keyspace::default_ttls::DefaultTtls;
use crate::keyspace::observer::Observer;
use crate::net::tls::Keys;
use crate::observe::acl_log::AclLog;
use crate::observe::command_log::CommandLogs;
use crate::observe::counters::times::{Times, TimesByCommand};
use crate::observe::counters::{Calls, Counters, Totals};
use crate::observe::error_stats::Errors;
use crate::observe::history::History;
use crate::observe::hot_keys::HotKeys;
use crate::observe::latency_events::LatencyEvents;
use crate::observe::rates::RateSamples;
use crate::system::clock::{LoopClock, WallClock};

/// Share of the cache's memory, as a divisor, that values in transfer may hold before slow clients
/// lose their patience.
const TRANSFER_SHARE: u64 = 4;

/// One daemon's shared state.
pub struct State {
    /// The cache.
    pub cache: Cache,
    /// This node's part in its cluster; none of a server that is alone.
    pub cluster: Option<Arc<Cluster>>,
    /// What the operator chose.
    pub settings: Settings,
    /// One entry per event loop.
    pub counters: Vec<Arc<Counters>>,
    /// What the acceptor counts, which is no event loop.
    pub acceptor: Arc<Counters>,
    /// What is counted where clients of TLS come in, by another thread.
    pub handshakes: Arc<Counters>,
    /// The server's certificates and keys, if it speaks TLS.
    pub tls: Option<Arc<Keys>>,
    /// The exclusive lock of the event loops.
    pub exclusive_lock: ExclusiveLock,
    /// Which requests wait.
    pub pause: Pause,
    /// Which of the engine's spaces each database is.
    pub databases: Databases,
    /// How long items live that are stored without a time to live.
    pub default_ttls: DefaultTtls,
    /// What clients have the server hold outside of the cache's memory.
    pub budget: Arc<Budget>,
    /// Clients of the Redis protocol.
    pub clients: Clients,
    /// Who is shown each command as it runs.
    pub monitors: Monitors,
    /// Who is told of changes.
    pub observer: Arc<Observer>,
    /// Scripts of the Redis protocol.
    pub scripts: Scripts,
    /// Its libraries of functions.
    pub functions: Functions,
    /// What the flags of values that came over HTTP stand for.
    pub content_types: ContentTypes,
    /// Which clients speak another protocol than their port.
    pub wrong_protocol: WrongProtocols,
    /// Who was wrong about the password or the token.
    pub login_limiter: LoginLimiter,
    /// Which connections have to log in and have not.
    pub unauthenticated: Unauthenticated,
    /// Who may log in; none without a file of users.
    pub users: Option<Arc<Users>>,
    /// Seconds after which idle connections are closed; zero for never.
    // Relaxed: a setting that orders nothing.
    pub idle_timeout_s: AtomicU64,
    /// Whether the server was told to stop; it may go on as before for a while.
    // Relaxed: a flag that orders nothing.
    pub leaving: AtomicBool,
    /// Whether it drains.
    // Relaxed: it orders nothing; the loops are told through their mailboxes.
    pub draining: AtomicBool,
    /// Open connections now.
    // Relaxed: a figure to look at.
    pub connections: AtomicU64,
    /// Bytes of the cache's memory held by values that are being received or sent now.
    // Relaxed: a sum that orders nothing.
    pub transfer_bytes: AtomicU64,
    /// The engine's moment of the start: its time goes on where that of a server before this one
    /// ended.
    pub started: Instant,
    /// The clock of the event loops.
    pub clock: LoopClock,
    /// Turns the engine's moments into Unix times and back.
    pub wall: Arc<WallClock>,
    /// What `stats` counts from.
    pub stats_zero: Mutex<StatsZero>,
    /// What CONFIG GET shows.
    pub parameters: Parameters,
    /// The slowest commands.
    pub command_logs: CommandLogs,
    /// Which keys cost most, while somebody wants to know.
    pub hot_keys: HotKeys,
    /// What took very long, and when.
    pub latency_events: LatencyEvents,
    /// What clients were refused.
    pub acl_log: AclLog,
    /// How much happens each second.
    pub pace: RateSamples,
    /// What happened in the last 24 hours.
    pub history: History,
    /// Error replies by their codes.
    pub errors: Errors,
    /// Whether background maintenance rests, for tests.
    // Relaxed: background maintenance may take one step more.
    pub maintenance_paused: AtomicBool,
    /// Most bytes that items and bookkeeping took when somebody asked.
    // Relaxed: a figure to look at.
    pub used_bytes_peak: AtomicU64,
    /// When that was, as a Unix time in seconds.
    // Relaxed: a figure to look at.
    pub used_bytes_peak_unix_s: AtomicU64,
    /// A name that no other run of the server has.
    pub run_id: String,
}

/// The counts at the last `stats reset` or CONFIG RESETSTAT, or zeros.
#[derive(Clone, Debug, Default)]
pub struct StatsZero {
    /// The event loops' counters.
    pub totals: Totals,
    /// Calls of each command; empty for zeros.
    pub calls: Vec<u64>,
    /// How long they took, how they failed.
    pub times: TimesByCommand,
    /// The engine's counts.
    pub engine: cellar_engine::Stats,
    /// The miss-ratio curve.
    pub curve: cellar_engine::MissRatioCurve,
}

impl State {
    /// The space of database 0, which memcached and HTTP see, whatever SWAPDB has made of it.
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

    /// The state of a daemon that starts now, at engine time zero, and whose cache tells nobody of
    /// changes.
    #[must_use]
    pub fn new(cache: Cache, settings: Settings, unix_ms_at_zero: u64) -> State {
        let observer = Arc::new(Observer::new(&settings));
        let clock = LoopClock::stopped_at(unix_ms_at_zero);
        State::observed(cache, settings, clock, observer)
    }

    /// The same, by this clock, with the observer that the cache tells of changes.
    #[must_use]
    pub fn observed(
        cache: Cache,
        settings: Settings,
        clock: LoopClock,
        observer: Arc<Observer>,
    ) -> State {
        let counters = (0..settings.threads)
            .map(|_| Arc::new(Counters::default()))
            .collect();
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
            Some(_) => ExclusiveLock::with_door(settings.threads),
            None => ExclusiveLock::new(settings.threads),
        };
        let state = State {
            started: Instant(0),
            cache,
            cluster,
            acceptor: Arc::default(),
            handshakes: Arc::default(),
            tls: None,
            exclusive_lock,
            pause: Pause::default(),
            default_ttls: DefaultTtls::new(&settings.default_ttl, observer.databases().count()),
            databases: observer.databases().clone(),
            clients: Clients::new(Arc::clone(&budget)),
            budget,
            parameters: Parameters::new(&settings),
            command_logs: CommandLogs::default(),
            hot_keys: HotKeys::default(),
            latency_events: LatencyEvents::default(),
            monitors: Monitors::default(),
            acl_log: AclLog::default(),
            pace: RateSamples::default(),
            history: History::default(),
            errors: Errors::default(),
            maintenance_paused: AtomicBool::new(false),
            used_bytes_peak: AtomicU64::new(0),
            used_bytes_peak_unix_s: AtomicU64::new(0),
            run_id: run_id(),
            observer,
            scripts: Scripts::default(),
            functions: Functions::default(),
            content_types: ContentTypes::default(),
            wrong_protocol: WrongProtocols::default(),
            login_limiter: LoginLimiter::default(),
            unauthenticated: Unauthenticated::default(),
            users: None,
            idle_timeout_s: AtomicU64::new(settings.idle_timeout_s),
            leaving: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            settings,
            counters,
            connections: AtomicU64::new(0),
            transfer_bytes: AtomicU64::new(0),
            wall: clock.wall(),
            clock,
            stats_zero: Mutex::default(),
        };
        state.choose_calls();
        state
    }

    /// Whether there are keys that this server serves: always, unless it is a node of a cluster.
    #[must_use]
    pub fn serves(&self) -> bool {
        let is_one = |cluster: &Arc<Cluster>| cluster.is_whole() && cluster.served() > 0;
        self.cluster.as_ref().is_none_or(is_one)
    }

    /// How often this node of a cluster has lost slots; what began before has to end.
    #[inline]
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.losses())
    }

    /// Tells near caches to drop what they have read here, if the lease of this node is over: it
    /// hears of no changes any more. Once for each lease.
    #[cold]
    pub fn tell_of_the_leases_end(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.tell_of_its_end(|| self.observer.tracking.flushed());
        }
    }

    /// How Redis calls what this server is: one alone, or a node of a cluster.
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

    /// Unix time of the start, in seconds, by the wall clock as it goes now.
    #[must_use]
    pub fn start_unix_s(&self) -> u64 {
        self.wall.unix_ms(self.started) / 1_000
    }

    /// Sums of the counters of the event loops and where clients come in, since their start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let all = self
            .counters
            .iter()
            .chain([&self.acceptor, &self.handshakes]);
        Counters::sum(all.map(|counters| &**counters))
    }

    /// Iterations of the event loops since the start, and how many microseconds those took that
    /// had something to do.
    #[must_use]
    pub fn loop_work(&self) -> (u64, u64) {
        let loops = self.counters.iter();
        loops.fold((0, 0), |(cycles, busy_us), one| {
            // An iteration begins and ends.
            let cycles = cycles + one.pulse.beats() / 2;
            (cycles, busy_us + one.load.read().busy_us)
        })
    }

    /// Calls of each command, by `verb as usize`, since the start.
    #[must_use]
    pub fn calls(&self) -> Vec<u64> {
        Calls::sum(self.counters.iter().map(|counters| &counters.calls))
    }

    /// How long commands took and how they failed, since the start.
    #[must_use]
    pub fn times(&self) -> TimesByCommand {
        Times::sum(self.counters.iter().map(|counters| &counters.times))
    }

    /// Calls of each command since the counts began again.
    #[must_use]
    pub fn calls_since_reset(&self) -> Vec<u64> {
        let mut calls = self.calls();
        for (count, before) in calls.iter_mut().zip(&self.zero().calls) {
            *count = count.saturating_sub(*before);
        }
        calls
    }

    /// How long commands took and how they failed, since the counts began again.
    #[must_use]
    pub fn times_since_reset(&self) -> TimesByCommand {
        let mut times = self.times();
        for (verb, before) in &self.zero().times {
            if let Some(times) = times.get_mut(verb) {
                times.subtract(before);
            }
        }
        times
    }

    fn zero(&self) -> MutexGuard<'_, StatsZero> {
        self.stats_zero
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Has each call of a command looked at as long as somebody asks for that, else a sample.
    pub fn choose_calls(&self) {
        // Held so that who asks last is heard last.
        let _turn = self.zero();
        let all = self.command_logs.are_for_quick()
            || self.latency_events.threshold_ms() > 0
            || self.observer.events().has(Class::Miss)
            || self.hot_keys.is_active()
            || self.monitors.are_there();
        for counters in &self.counters {
            counters.calls.look_at_all(all);
        }
    }

    /// Lets all counts begin again.
    pub fn reset_stats(&self) {
        let zero = StatsZero {
            totals: self.totals(),
            calls: self.calls(),
            times: self.times(),
            engine: self.cache.stats(),
            curve: self.cache.miss_ratio_curve(),
        };
        self.errors.reset();
        *self.zero() = zero;
    }

    /// Notes that a connection's transfers went from `before` to `after` bytes.
    #[inline]
    pub fn note_transfer(&self, before: usize, after: usize) {
        // Relaxed: a sum that orders nothing; wrapping subtraction keeps it exact.
        if after > before {
            self.transfer_bytes
                .fetch_add((after - before) as u64, Ordering::Relaxed);
        } else if before > after {
            self.transfer_bytes
                .fetch_sub((before - after) as u64, Ordering::Relaxed);
        }
    }

    /// Whether values in transfer hold so much memory that slow clients have to go.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        let memory = self.cache.memory_bytes() as u64;
        self.transfer_bytes.load(Ordering::Relaxed) > memory / TRANSFER_SHARE
    }
}

/// Forty hexadecimal digits at random.
fn run_id() -> String {
    let draw = |place: u8| RandomState::new().hash_one(place);
    let mut id: String = (0..3)
        .map(|place| format!("{:016x}", draw(place)))
        .collect();
    id.truncate(40);
    id
}
