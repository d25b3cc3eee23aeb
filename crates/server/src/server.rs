//! Server: event loops, start, stop, drain, background threads.

pub(crate) mod event_loop; // accepts connections and serves them
pub(crate) mod login_worker; // verifies passwords, reads the users file
pub(crate) mod exporter; // sends metrics to an OpenTelemetry collector
pub(crate) mod recorder; // records the history
pub(crate) mod maintenance; // background maintenance of the cache
pub(crate) mod trainer; // trains dictionaries of compressed values
pub(crate) mod watchdog; // finds event loops that are blocked, and changes of the wall clock
pub(crate) mod membership; // keeps the cluster's map up to date
pub(crate) mod reload; // reads the settings file again at SIGHUP
pub(crate) mod banner; // message on a terminal when the server is ready
mod fit; // adapts settings to the limits of the machine
mod trial; // runs the checks of a start for `cellar doctor`
mod checker; // checks the items of a killed server while this one serves
mod helpers; // starts and stops the background threads

pub use self::fit::open_files;
use self::helpers::Helpers;
pub use self::trial::{Trial, try_start};

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use cellar_config::error::Error;
use cellar_config::limits;
use cellar_config::memory;
use cellar_config::protocol::{ByProtocol, Protocol};
use cellar_config::settings::Settings;
use cellar_config::settings::address::Address;
use cellar_config::settings::load::Loaded;
use cellar_engine::{Cache, Config};
use cellar_net::listener::{Listener, is_local};
use cellar_net::mailbox::Mailbox;
use cellar_net::open_addresses::OpenAddresses;
use cellar_net::open_sockets::OpenSockets;
use cellar_net::stream::Transport;
use cellar_net::tls::Keys;
use cellar_shared::auth::users::Users;
use cellar_shared::keyspace::observer::Observer;
use cellar_shared::observe::counters::pulse::Pulse;
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use cellar_system::poller::Waker;
use cellar_system::signals::Signals;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::server::event_loop::acceptor::takeover::Takeover;
use crate::server::event_loop::acceptor::{Acceptor, LISTENERS_MAX};
use crate::server::event_loop::admission::Admission;
use crate::server::event_loop::handshakes::Antechamber;
use crate::server::event_loop::worker::{Common, Worker};
use crate::upgrade::handover::control::Control;
use crate::upgrade::inherited::Inherited;
use crate::upgrade::notify::{self, Notice};
use crate::upgrade::restart::{self, PersistentDir};

/// Serves until SIGTERM or SIGINT, and drains.
///
/// # Errors
/// Why it does not start: one line that names the flag.
///
/// # Panics
/// If an event loop has panicked and the process lives on, which its panic hook forbids.
pub fn run(loaded: &Loaded) -> Result<(), Error> {
    cellar_engine::keep_heap_lean();
    let server = Server::start(loaded, Host::default())?;
    let (bound, version) = (&server.bound, env!("CARGO_PKG_VERSION"));
    tracing::info!("cellar ready {bound} version={version}");
    notify::tell(Notice::Ready);
    banner::greet(&server.settings);
    server.wait()
}

/// Clock and signals that a server uses; by default those of the machine and the process.
#[derive(Debug, Default)]
pub struct Host {
    /// The clock; `None` for the clock of the machine.
    pub clock: Option<LoopClock>,
    /// Signals that stop the server; `None` for SIGTERM and SIGINT.
    pub signals: Option<Signals>,
}

/// A running server.
///
/// The daemon runs one per process. Tests run servers inside the test process, with a clock that
/// they advance.
pub struct Server {
    common: Common,
    /// The listen addresses, for the log.
    bound: String,
    settings: Settings,
    loops: Vec<Running>,
    acceptor: Running,
    handshakes: Option<Handshaking>,
    helpers: Helpers,
}

impl Server {
    /// Starts a server. It serves when this returns.
    ///
    /// # Errors
    /// Why it does not start: one line that names the flag.
    pub fn start(loaded: &Loaded, host: Host) -> Result<Server, Error> {
        loaded
            .old_names()
            .for_each(|warning| tracing::warn!("{warning}"));
        let mut settings = loaded.settings.clone();
        let mut open = OpenSockets::default();
        let inherited = Inherited::take(&mut settings, &mut open)?;
        fit::fit(&mut settings, loaded)?;
        let tls = make_keys(&settings)?;
        let users = Users::load(&settings)?;
        let mut control = Control::begin(&settings, &mut open)?;
        let mut listeners = listen(&settings, &mut open)?;
        control.check(&listeners, &open.places())?;
        drop(open);
        check_open_addresses(&settings, &listeners)?;
        inherited.keep(&mut listeners);
        hide_memory(&settings);
        let bound = describe(&listeners);
        warn_of_open_listeners(&settings, &listeners);
        name_hosts(&mut settings);
        settings.listen = ByProtocol::from_fn(|protocol| addresses(&listeners, protocol));
        let settings_bound = settings.clone();
        let (mut state, clock) = begin_state(settings, host.clock, &mut control)?;
        let signals = host.signals.map_or_else(Signals::take_over, Ok);
        let signals = signals.map_err(|source| Error::System {
            what: "taking over signals",
            source,
        })?;
        state.tls = tls;
        state.access.users = users;
        let told = signals.told();
        let common = make_common(Arc::new(state), clock)?;
        let state = &common.state;
        let (acceptor, handshakes) = make_acceptor(listeners, signals, &common, &mut control)?;
        let old = control.old_process().map_err(no_thread)?;
        let rested = state
            .maintenance_paused
            .swap(control.takes_over(), Ordering::Relaxed);
        let helpers = Helpers::start(loaded, &common, told, old)?;
        let loops = start(make_workers(&common)?)?;
        let acceptor = begin(acceptor, control, common.clock.clone())?;
        // Until here the items may belong to the old process.
        state.maintenance_paused.store(rested, Ordering::Relaxed);
        Ok(Server {
            common,
            bound,
            settings: settings_bound,
            loops,
            acceptor,
            handshakes,
            helpers,
        })
    }

    /// Listen addresses of a protocol. The port that the system chose replaces port 0.
    #[must_use]
    pub fn addresses(&self, protocol: Protocol) -> &[Address] {
        self.settings.listen.of(protocol)
    }

    /// Advances a clock made by [`LoopClock::stopped`]. The server first handles the connections
    /// and bytes that clients have already sent. When this returns, everything that is due at the
    /// new time has run. Maintenance that needs several steps may continue.
    ///
    /// # Panics
    /// If the server runs by the machine's clock.
    pub fn advance_ms(&self, ms: u64) {
        self.settle();
        self.common.clock.advance_ms(ms);
        self.settle();
        self.helpers.tick_now();
    }

    /// Waits until each thread that serves clients has handled all pending input.
    fn settle(&self) {
        // The acceptor passes all clients to the event loops before its pulse counts a beat.
        let acceptor = &self.common.state.statistics.acceptor.pulse;
        self.wait_for_beats(acceptor, 2, || self.acceptor.is_finished());
        let counters = &self.common.state.statistics.loops;
        for (loop_counters, running) in counters.iter().zip(&self.loops) {
            // An iteration has two beats. One that has begun already does not count.
            self.wait_for_beats(&loop_counters.pulse, 3, || running.is_finished());
        }
    }

    fn wait_for_beats(&self, pulse: &Pulse, count: u64, has_ended: impl Fn() -> bool) {
        let wanted = pulse.beats() + count;
        while pulse.beats() < wanted && !has_ended() {
            self.wake();
            thread::yield_now();
        }
    }

    /// Waits until the server has been asked to stop and has drained.
    ///
    /// # Errors
    /// An error of the system when waiting for sockets fails; this does not happen.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    pub fn wait(self) -> Result<(), Error> {
        for thread in self.loops {
            let done = thread.join().expect("a panic ends the whole process");
            done.map_err(Error::system("waiting for sockets"))?;
        }
        self.common.acceptor_waker.wake();
        let done = self
            .acceptor
            .join()
            .expect("a panic ends the whole process");
        done.map_err(Error::system("waiting for connections"))?;
        if let Some((antechamber, handshakes)) = self.handshakes {
            antechamber.stop();
            let done = handshakes.join().expect("a panic ends the whole process");
            done.map_err(Error::system("waiting for handshakes"))?;
        }
        self.helpers.stop();
        restart::leave(&self.common.state.cache);
        tracing::info!("cellar stopped");
        Ok(())
    }

    /// Whether the event loops have ended.
    #[must_use]
    pub fn has_drained(&self) -> bool {
        self.loops.iter().all(thread::JoinHandle::is_finished)
    }

    /// Wakes all threads that sleep until a time of the clock.
    fn wake(&self) {
        self.common.acceptor_waker.wake();
        for mailbox in self.common.mailboxes.iter() {
            mailbox.waker.wake();
        }
        if let Some((antechamber, _)) = &self.handshakes {
            antechamber.wake();
        }
    }
}

/// Creates the shared state and the clock. In a hot restart it takes memory and listeners from the
/// old process.
fn begin_state(
    settings: Settings,
    clock: Option<LoopClock>,
    control: &mut Control,
) -> Result<(State, LoopClock), Error> {
    let (keeps_state, clients_max) = (settings.state.is_some(), settings.max_connections);
    // With `--state` the memory is available after the old process has released it.
    let memory = keeps_state.then(|| control.take(clients_max)).transpose()?;
    let persistent_dir = PersistentDir::open(&settings, memory.flatten())?;
    let clock = clock.unwrap_or_else(|| PersistentDir::clock(persistent_dir.as_ref()));
    let state = make_state(settings, persistent_dir, &clock)?;
    if !keeps_state {
        control.take(clients_max)?;
    }
    Ok((state, clock))
}

type Handshaking = (Antechamber, Running);

/// Creates the acceptor, which does not accept clients yet.
fn make_acceptor(
    listeners: Vec<Listener>,
    signals: Signals,
    common: &Common,
    control: &mut Control,
) -> Result<(Acceptor, Option<Handshaking>), Error> {
    let admission = Admission {
        state: Arc::clone(&common.state),
        mailboxes: Arc::clone(&common.mailboxes),
    };
    let keys = common.state.tls.clone();
    let handshakes =
        keys.map(|keys| Antechamber::start(admission.clone(), keys, common.clock.clone()));
    let handshakes = handshakes.transpose().map_err(no_thread)?;
    let antechamber = handshakes.as_ref().map(|(antechamber, _)| antechamber);
    let ways = (admission, antechamber.cloned());
    let takeover_peer = control.takeover_peer(common.state.settings.drain_timeout_ms);
    let takeover = takeover_peer.map(|one| Takeover::new(one, Arc::clone(&common.client_handover)));
    let waker = Arc::clone(&common.acceptor_waker);
    let acceptor = Acceptor::new(listeners, signals, waker, ways, takeover);
    let acceptor = acceptor.map_err(Error::system("making the acceptor"))?;
    Ok((acceptor, handshakes))
}

/// Starts to accept clients; in a hot restart, after the old process has stopped serving.
fn begin(mut acceptor: Acceptor, control: Control, clock: LoopClock) -> Result<Running, Error> {
    if let Some(clients) = control.finish()? {
        acceptor.take_over(clients);
    }
    acceptor.start(clock).map_err(no_thread)
}

/// Reads certificates and keys, if a listener uses TLS.
fn make_keys(settings: &Settings) -> Result<Option<Arc<Keys>>, Error> {
    let keys = settings.speaks_tls().then(|| Keys::load(settings));
    Ok(keys.transpose()?.map(Arc::new))
}

/// Binds all listeners.
fn listen(settings: &Settings, open: &mut OpenSockets) -> Result<Vec<Listener>, Error> {
    let mut listeners = Vec::new();
    for (protocol, address) in settings.all_addresses() {
        listeners.extend(Listener::at(protocol, &address, settings.unix_mode, open)?);
    }
    let reason = match listeners.len() {
        0 => return no_address().map(|()| listeners),
        n if n > LISTENERS_MAX => {
            format!("{n} listen addresses; at most {LISTENERS_MAX} are possible")
        }
        _ => return Ok(listeners),
    };
    Err(Error::Setting {
        flag: "memcached",
        origin: String::new(),
        reason,
    })
}

/// The error if no listen address is set.
fn no_address() -> Result<(), Error> {
    Err(Error::Setting {
        flag: "memcached",
        origin: String::new(),
        reason: "no listen address; set host:port or unix:/path".to_owned(),
    })
}

/// Whether the clients of a protocol have to log in.
fn has_users(settings: &Settings, protocol: Protocol) -> bool {
    settings.users.is_some() || !settings.secrets.of(protocol).is_empty()
}

/// Returns an error if other machines can reach a listener without access control. With
/// `--insecure` it logs a warning instead.
fn check_open_addresses(settings: &Settings, listeners: &[Listener]) -> Result<(), Error> {
    for listener in listeners {
        let (protocol, address) = (listener.protocol, &listener.address);
        open_address_error(settings, protocol, address)?;
        if open_addresses_of(settings, protocol, address)
            .check(false)
            .is_err()
        {
            tracing::warn!(
                %address,
                "--insecure: anyone who reaches this address can read and change the cache"
            );
        }
    }
    Ok(())
}

/// Returns an error if other machines can reach an address without access control.
fn open_address_error(
    settings: &Settings,
    protocol: Protocol,
    address: &Address,
) -> Result<(), Error> {
    let checked = open_addresses_of(settings, protocol, address).check(settings.insecure);
    checked.map_err(|reason| Error::Listen {
        flag: protocol.name(),
        address: address.to_string(),
        reason,
    })
}

fn open_addresses_of(settings: &Settings, protocol: Protocol, address: &Address) -> OpenAddresses {
    OpenAddresses {
        protocol,
        is_reachable_by_others: !is_local(address),
        has_users: has_users(settings, protocol),
        has_client_ca: address.is_tls() && settings.tls_client_ca.is_some(),
    }
}

/// Disables core dumps, which would contain secrets, and access by other processes of the same
/// user to the memory.
fn hide_memory(settings: &Settings) {
    let has_secret = Protocol::ALL
        .iter()
        .any(|&protocol| has_users(settings, protocol));
    let has_secret = has_secret || settings.speaks_tls();
    if has_secret && let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(error = %errno, "a core dump would contain secrets");
    }
}

/// Logs a warning if one protocol needs a secret and another does not: all protocols reach the same
/// keys.
fn warn_of_open_listeners(settings: &Settings, listeners: &[Listener]) {
    if settings.users.is_some() {
        return;
    }
    let secret_of = |listener: &Listener| match listener.protocol {
        _ if asks_for_certificates(settings, listener) => Some("--tls-client-ca"),
        protocol if settings.secrets.of(protocol).is_empty() => None,
        protocol => protocol.row().secret_flag,
    };
    // The file mode of a UNIX socket limits who can connect.
    let reachable = || {
        listeners
            .iter()
            .filter(|one| one.transport == Transport::Tcp)
    };
    let mut secrets: Vec<&str> = reachable().filter_map(secret_of).collect();
    secrets.dedup();
    let open = reachable().filter(|one| secret_of(one).is_none());
    let open: Vec<String> = open
        .map(|one| format!("{} {}", one.protocol.name(), one.address))
        .collect();
    if secrets.is_empty() || open.is_empty() {
        return;
    }
    tracing::warn!(
        "{} {} not protect {}: every client there can read and change the same keys; protect it \
         too (--users) or turn it off (--memcached off)",
        secrets.join(" and "),
        if secrets.len() == 1 { "does" } else { "do" },
        open.join(", "),
    );
}

/// Whether a listener accepts only clients with a certificate.
fn asks_for_certificates(settings: &Settings, listener: &Listener) -> bool {
    listener.is_tls() && settings.tls_client_ca.is_some()
}

/// Adds the host names that HTTP accepts by default: the name of the machine and the names in the
/// listen addresses.
fn name_hosts(settings: &mut Settings) {
    let machine = rustix::system::uname();
    settings
        .http_hosts
        .add_own(&machine.nodename().to_string_lossy());
    for address in &settings.listen.http {
        if let Some((name, _)) = address.host_and_port() {
            settings.http_hosts.add_own(name);
        }
    }
}

/// The addresses in effect, for the log.
fn describe(listeners: &[Listener]) -> String {
    let of = |protocol: Protocol| {
        let addresses = addresses(listeners, protocol);
        let text = || format!("{}={}", protocol.name(), Address::show_all(&addresses));
        (!addresses.is_empty()).then(text)
    };
    let all = Protocol::ALL.into_iter().filter_map(of);
    all.collect::<Vec<_>>().join(" ")
}

/// The bound addresses of a protocol; the port that the system chose replaces port 0.
fn addresses(listeners: &[Listener], protocol: Protocol) -> Vec<Address> {
    let these = listeners.iter().filter(|one| one.protocol == protocol);
    these.map(|one| one.address.clone()).collect()
}

/// Creates the state that all event loops share. With `--state` it continues with the old cache.
fn make_state(
    settings: Settings,
    persistent_dir: Option<PersistentDir>,
    clock: &LoopClock,
) -> Result<State, Error> {
    let observer = Arc::new(Observer::new(&settings));
    let cache = make_cache(&settings, clock, persistent_dir.as_ref(), &observer)?;
    let types =
        persistent_dir.map(|persistent_dir| persistent_dir.note(&cache, observer.databases()));
    let types = types.transpose()?.unwrap_or_default();
    if let Some(restored) = cache.restored() {
        restart::tell(&restored);
    }
    let mut state = State::observed(cache, settings, clock.clone(), observer);
    state.content_types = types;
    state.run.started = state.cache.now();
    Ok(state)
}

fn make_cache(
    settings: &Settings,
    clock: &LoopClock,
    persistent_dir: Option<&PersistentDir>,
    observer: &Arc<Observer>,
) -> Result<Cache, Error> {
    let config = Config {
        clock: clock.engine(),
        observer: Some(Arc::<Observer>::clone(observer)),
        state: persistent_dir
            .map(|persistent_dir| persistent_dir.options(settings, clock, observer.databases())),
        ..cache_config(settings)
    };
    let address_bytes = check_addresses_of(settings, &config)?;
    let cache = Cache::new(config).map_err(|error| match error {
        cellar_engine::Error::Reserve { code, .. } => {
            memory::refused(settings.memory_bytes, address_bytes, code)
        }
        cellar_engine::Error::State(why) => Error::State(why),
        error => Error::Memory(error.to_string()),
    })?;
    cache.set_compress(settings.compress.is_on());
    let longest = cache.value_bytes_max();
    if settings
        .max_value_bytes
        .is_some_and(|wanted| longest < wanted)
    {
        tracing::warn!(
            bytes = longest,
            "values are limited to half of the memory that the cache had at its creation, minus \
             --noeviction-databases"
        );
    }
    Ok(cache)
}

/// The configuration of the cache, from the settings.
fn cache_config(settings: &Settings) -> Config {
    let shares = settings.keep.shares().iter();
    Config {
        threads: settings.threads,
        value_bytes_max: settings.value_bytes_max(),
        lease_ms: settings.lease_ms,
        keep: shares.map(|share| share.bytes).collect(),
        release_memory: settings.release_memory,
        expire_effort: settings.expire_effort,
        ..Config::with_memory(settings.memory_bytes)
    }
}

/// Checks that this process may reserve the address space of the cache. Returns its size.
fn check_addresses_of(settings: &Settings, config: &Config) -> Result<usize, Error> {
    let bytes = Cache::address_bytes(config);
    memory::check_addresses(settings.memory_bytes, bytes, settings.threads)?;
    Ok(bytes)
}

fn make_common(state: Arc<State>, clock: LoopClock) -> Result<Common, Error> {
    let threads = state.settings.threads;
    let mailboxes: Result<Vec<Mailbox>, _> = (0..threads).map(|_| Mailbox::new()).collect();
    let mailboxes = Arc::new(mailboxes.map_err(Error::system("making event loops"))?);
    let acceptor_waker = Arc::new(Waker::new().map_err(Error::system("making event loops"))?);
    Ok(Common {
        state,
        mailboxes,
        client_handover: Arc::default(),
        clock,
        acceptor_waker,
    })
}

fn make_workers(common: &Common) -> Result<Vec<Worker>, Error> {
    (0..common.mailboxes.len())
        .map(|index| Worker::new(index, common.clone()))
        .collect::<Result<_, _>>()
        .map_err(Error::system("making event loops"))
}

type Running = thread::JoinHandle<Result<(), rustix::io::Errno>>;

fn start(workers: Vec<Worker>) -> Result<Vec<Running>, Error> {
    let mut threads = Vec::with_capacity(workers.len());
    for (index, worker) in workers.into_iter().enumerate() {
        let thread = thread::Builder::new()
            .name(format!("cellar-{index}"))
            .stack_size(limits::LOOP_STACK_BYTES);
        let started = thread.spawn(move || worker.run());
        threads.push(started.map_err(no_thread)?);
    }
    Ok(threads)
}

/// The error if the system cannot start another thread.
fn no_thread(source: std::io::Error) -> Error {
    Error::Setting {
        flag: "threads",
        origin: String::new(),
        reason: source.to_string(),
    }
}
