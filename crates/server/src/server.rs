//! Server: from settings to serving loops, and to the end of the drain.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cellar_engine::{Cache, Config};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::acceptor::succeed::Ceremony;
use crate::acceptor::{Acceptor, LISTENERS_MAX};
use crate::clock::LoopClock;
use crate::doorkeeper::Doorkeeper;
use crate::entrance::Entrance;
use crate::error::Error;
use crate::exposure::Exposure;
use crate::handover::control::Control;
use crate::handshakes::{Antechamber, GUESTS_MAX};
use crate::inherited::Inherited;
use crate::limits;
use crate::listener::Listener;
use crate::mailbox::Mailbox;
use crate::membership::Membership;
use crate::memory;
use crate::notify::{self, Notice};
use crate::observer::Observer;
use crate::open_sockets::OpenSockets;
use crate::poller::Waker;
use crate::protocol::Protocol;
use crate::reload::Reload;
use crate::restart::{self, Ground};
use crate::settings::Settings;
use crate::settings::address::Address;
use crate::settings::load::{Loaded, Origin};
use crate::settings::units::show_duration_ms;
use crate::signals::Signals;
use crate::state::State;
use crate::stream::Transport;
use crate::ticker::Ticker;
use crate::tls::Keys;
use crate::users::Users;
use crate::watchdog::Watchdog;
use crate::worker::{Common, Worker};
use crate::{exporter, recorder, upkeep, welcome};

/// Open files besides connections and event loops: standard streams, listeners, signals.
const OTHER_FILES: usize = 128;
/// Open files of one event loop: its epoll instance and its mailbox.
const FILES_PER_THREAD: usize = 2;

/// Serves until SIGTERM or SIGINT, and drains.
///
/// # Errors
/// Why it does not start: one line that names the flag.
///
/// # Panics
/// If an event loop has panicked and the process lives on, which its panic hook forbids.
pub fn run(loaded: &Loaded) -> Result<(), Error> {
    cellar_engine::keep_heap_lean();
    let mut settings = loaded.settings.clone();
    let mut open = OpenSockets::default();
    let inherited = Inherited::take(&mut settings, &mut open)?;
    fit(&mut settings, loaded)?;
    let tls = make_keys(&settings)?;
    let users = Users::load(&settings)?;
    let mut control = Control::begin(&settings, &mut open)?;
    let mut listeners = listen(&settings, &mut open)?;
    control.check(&listeners, &open.places())?;
    drop(open);
    check_exposure(&settings, &listeners)?;
    inherited.keep(&mut listeners);
    hide_memory(&settings);
    let bound = describe(&listeners);
    warn_of_open_listeners(&settings, &listeners);
    name_hosts(&mut settings);
    for protocol in Protocol::ALL {
        *settings.addresses_mut(protocol) = addresses(&listeners, protocol);
    }
    let (is_heir, clients_max) = (settings.state.is_some(), settings.max_connections);
    // Memory that outlives the old server is there once that has let go of it.
    let memory = is_heir.then(|| control.take(clients_max)).transpose()?;
    let ground = Ground::open(&settings, memory.flatten())?;
    let clock = Ground::clock(ground.as_ref());
    let settings_bound = settings.clone();
    let mut state = make_state(settings, ground, &clock)?;
    if !is_heir {
        control.take(clients_max)?;
    }
    let signals = Signals::take_over().map_err(|source| Error::System {
        what: "taking over signals",
        source,
    })?;
    state.tls = tls.clone();
    state.users = users;
    let state = Arc::new(state);
    let told = signals.told();
    let common = make_common(Arc::clone(&state), clock)?;
    let (acceptor, antechamber) = make_acceptor(listeners, signals, &common, &mut control)?;
    let old = control.old_process().map_err(no_thread)?;
    let rested = state
        .upkeep_rests
        .swap(control.takes_over(), Ordering::Relaxed);
    let helpers = Helpers::start(loaded, &common, told, old)?;
    let threads = start(make_workers(&common)?)?;
    let acceptor_waker = Arc::clone(&common.acceptor_waker);
    let acceptor = begin(acceptor, control, common.clock)?;
    // Before that the items may still be the old server's.
    state.upkeep_rests.store(rested, Ordering::Relaxed);
    tracing::info!("cellar ready {bound} version={}", env!("CARGO_PKG_VERSION"));
    notify::tell(Notice::Ready);
    welcome::greet(&settings_bound);
    for thread in threads {
        let done = thread.join().expect("a panic ends the whole process");
        done.map_err(Error::system("waiting for sockets"))?;
    }
    acceptor_waker.wake();
    let done = acceptor.join().expect("a panic ends the whole process");
    done.map_err(Error::system("waiting for connections"))?;
    if let Some((antechamber, handshakes)) = antechamber {
        antechamber.stop();
        let done = handshakes.join().expect("a panic ends the whole process");
        done.map_err(Error::system("waiting for handshakes"))?;
    }
    helpers.stop();
    restart::leave(&state.cache);
    tracing::info!("cellar stopped");
    Ok(())
}

/// Threads that serve nobody.
struct Helpers {
    upkeep: Ticker,
    recorder: Ticker,
    _exporter: Option<Ticker>,
    doorkeeper: Option<Doorkeeper>,
    watchdog: Watchdog,
    reload: Reload,
    membership: Option<Membership>,
}

impl Helpers {
    /// Starts them; `told` says whether a signal asked the server to stop, and `old` tells the end
    /// of the one from which this one takes over.
    fn start(
        loaded: &Loaded,
        common: &Common,
        told: Arc<AtomicBool>,
        old: Option<OwnedFd>,
    ) -> Result<Helpers, Error> {
        let (state, clock) = (&common.state, &common.clock);
        let membership = Membership::start(state)?;
        let start = || -> std::io::Result<Helpers> {
            Ok(Helpers {
                upkeep: upkeep::start(Arc::clone(state), clock.clone(), old)?,
                recorder: recorder::start(Arc::clone(state), clock.clone())?,
                _exporter: exporter::start(state)?,
                doorkeeper: Doorkeeper::start(state, clock.clone())?,
                watchdog: Watchdog::start(Arc::clone(state), told)?,
                reload: Reload::start(loaded, Arc::clone(state))?,
                membership,
            })
        };
        start().map_err(no_thread)
    }

    /// Stops them and waits for their ends.
    fn stop(self) {
        self.upkeep.stop();
        self.recorder.stop();
        if let Some(doorkeeper) = self.doorkeeper {
            doorkeeper.stop();
        }
        self.reload.stop();
        if let Some(membership) = self.membership {
            membership.stop();
        }
        self.watchdog.stop();
    }
}

type Handshaking = (Antechamber, Running);

/// Makes what lets clients in, which does not yet.
fn make_acceptor(
    listeners: Vec<Listener>,
    signals: Signals,
    common: &Common,
    control: &mut Control,
) -> Result<(Acceptor, Option<Handshaking>), Error> {
    let entrance = Entrance {
        state: Arc::clone(&common.state),
        mailboxes: Arc::clone(&common.mailboxes),
    };
    let keys = common.state.tls.clone();
    let handshakes =
        keys.map(|keys| Antechamber::start(entrance.clone(), keys, common.clock.clone()));
    let handshakes = handshakes.transpose().map_err(no_thread)?;
    let antechamber = handshakes.as_ref().map(|(antechamber, _)| antechamber);
    let ways = (entrance, antechamber.cloned());
    let succession = control.succession(common.state.settings.drain_timeout_ms);
    let ceremony = succession.map(|one| Ceremony::new(one, Arc::clone(&common.cession)));
    let waker = Arc::clone(&common.acceptor_waker);
    let acceptor = Acceptor::new(listeners, signals, waker, ways, ceremony);
    let acceptor = acceptor.map_err(Error::system("making the acceptor"))?;
    Ok((acceptor, handshakes))
}

/// Has clients let in, once an old server has let go, if there is one.
fn begin(mut acceptor: Acceptor, control: Control, clock: LoopClock) -> Result<Running, Error> {
    if let Some(clients) = control.finish()? {
        acceptor.take_over(clients);
    }
    acceptor.start(clock).map_err(no_thread)
}

/// Fits the settings to what the machine and each other let them be.
fn fit(settings: &mut Settings, loaded: &Loaded) -> Result<(), Error> {
    fit_open_files(settings, loaded.origin("max-connections"))?;
    fit_memory(settings)?;
    fit_watchdog(settings, loaded.origin("watchdog"))?;
    fit_databases(settings, loaded.origin("databases"))?;
    settings.check()
}

/// Chooses the size of the cache if that is the server's, and checks that there is so much memory.
fn fit_memory(settings: &mut Settings) -> Result<(), Error> {
    if let Some(said) = memory::settle(settings)? {
        tracing::info!("{said}");
    }
    memory::check(settings.memory_bytes)?;
    if let Some(warning) = memory::warning(settings) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Open files that a server with these settings may come to need.
#[must_use]
pub fn open_files(settings: &Settings) -> u64 {
    (settings.max_connections + other_files(settings)) as u64
}

fn other_files(settings: &Settings) -> usize {
    let guests = if settings.speaks_tls() { GUESTS_MAX } else { 0 };
    OTHER_FILES + settings.threads * FILES_PER_THREAD + guests
}

/// Makes room for all connections in the limit of open files.
///
/// A default number of connections gives way; one that was asked for does not.
fn fit_open_files(settings: &mut Settings, origin: Origin) -> Result<(), Error> {
    let (others, wanted) = (other_files(settings), open_files(settings));
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
    // Only a privileged process may raise the hard limit too.
    let hard = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum.map(|m| m.max(wanted)),
    };
    let soft = Rlimit {
        current: Some(raised),
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, hard).is_err() {
        setrlimit(Resource::Nofile, soft).map_err(Error::system("raising the file limit"))?;
    }
    let files = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |n| n as usize);
    let room = files.saturating_sub(others);
    if room >= settings.max_connections {
        return Ok(());
    }
    if origin != Origin::Default || room == 0 {
        let (least, asked) = (others + 1, settings.max_connections);
        let wanted = match origin {
            Origin::Default => format!("even one connection needs {least}"),
            _ => format!("{asked} connections need {wanted}"),
        };
        return Err(Error::Setting {
            flag: "max-connections",
            origin: String::new(),
            reason: format!("{wanted} open files, the limit is {files}; see ulimit -n"),
        });
    }
    tracing::warn!(
        max_connections = room,
        "fewer connections: the limit of open files is {files}"
    );
    settings.max_connections = room;
    Ok(())
}

/// Sees to it that no script that may run is taken for a loop that hangs.
///
/// A default gives way; a time that was asked for does not.
fn fit_watchdog(settings: &mut Settings, origin: Origin) -> Result<(), Error> {
    if settings.watchdog_ms == 0 || settings.watchdog_ms > settings.script_time_ms {
        return Ok(());
    }
    if origin != Origin::Default {
        return Err(Error::Setting {
            flag: "watchdog",
            origin: String::new(),
            reason: format!(
                "a script may take --script-time-limit, {}; give the watchdog more, or off",
                show_duration_ms(settings.script_time_ms),
            ),
        });
    }
    settings.watchdog_ms = settings.script_time_ms.saturating_mul(2);
    Ok(())
}

/// A node of a cluster has one database: a default gives way, a number that was asked for does not.
fn fit_databases(settings: &mut Settings, origin: Origin) -> Result<(), Error> {
    if settings.cluster.is_none() || settings.databases == 1 {
        return Ok(());
    }
    if origin != Origin::Default {
        return Err(Error::Setting {
            flag: "databases",
            origin: String::new(),
            reason: "a node of a cluster (--cluster) has database 0 alone".to_owned(),
        });
    }
    settings.databases = 1;
    Ok(())
}

/// Reads certificates and keys, if TLS is spoken.
fn make_keys(settings: &Settings) -> Result<Option<Arc<Keys>>, Error> {
    let keys = settings.speaks_tls().then(|| Keys::load(settings));
    Ok(keys.transpose()?.map(Arc::new))
}

/// Binds everything that clients may connect to.
fn listen(settings: &Settings, open: &mut OpenSockets) -> Result<Vec<Listener>, Error> {
    let mut listeners = Vec::new();
    for protocol in Protocol::ALL {
        for address in settings.addresses(protocol) {
            listeners.extend(Listener::at(protocol, address, settings.unix_mode, open)?);
        }
    }
    if let Some(path) = &settings.unix {
        let address = Address::Unix(path.clone());
        listeners.extend(Listener::at(
            Protocol::Memcached,
            &address,
            settings.unix_mode,
            open,
        )?);
    }
    let reason = match listeners.len() {
        0 => "nothing to listen on; give an address, host:port or unix:/path".to_owned(),
        n if n > LISTENERS_MAX => format!("{n} addresses, at most {LISTENERS_MAX} are listened on"),
        _ => return Ok(listeners),
    };
    Err(Error::Setting {
        flag: "memcached",
        origin: String::new(),
        reason,
    })
}

/// Whether the clients of a protocol have to log in.
fn has_users(settings: &Settings, protocol: Protocol) -> bool {
    let secret = match protocol {
        Protocol::Memcached => "",
        Protocol::Resp => &settings.password,
        Protocol::Http => &settings.http_token,
    };
    settings.users.is_some() || !secret.is_empty()
}

/// Checks that no listener is open to others by accident; warns of those that are on purpose.
fn check_exposure(settings: &Settings, listeners: &[Listener]) -> Result<(), Error> {
    for listener in listeners {
        let exposure = Exposure {
            protocol: listener.protocol,
            is_reachable_by_others: !listener.is_local(),
            has_users: has_users(settings, listener.protocol),
            has_client_ca: asks_for_certificates(settings, listener),
        };
        exposure
            .check(settings.insecure)
            .map_err(|reason| Error::Listen {
                flag: listener.protocol.name(),
                address: listener.address.to_string(),
                reason,
            })?;
        if exposure.check(false).is_err() {
            tracing::warn!(
                address = %listener.address,
                "--insecure: anyone who reaches this address can read and change the cache"
            );
        }
    }
    Ok(())
}

/// Keeps secrets out of core dumps, and other processes of the same user out of the memory.
fn hide_memory(settings: &Settings) {
    let has_secret = Protocol::ALL
        .iter()
        .any(|&protocol| has_users(settings, protocol));
    let has_secret = has_secret || settings.speaks_tls();
    if has_secret && let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(error = %errno, "a core dump would have secrets in it");
    }
}

/// Warns where a secret guards one way to the keys and another is open: all protocols reach the
/// same ones.
fn warn_of_open_listeners(settings: &Settings, listeners: &[Listener]) {
    if settings.users.is_some() {
        return;
    }
    let secret_of = |listener: &Listener| match listener.protocol {
        _ if asks_for_certificates(settings, listener) => Some("--tls-client-ca"),
        Protocol::Memcached => None,
        Protocol::Resp => (!settings.password.is_empty()).then_some("--password"),
        Protocol::Http => (!settings.http_token.is_empty()).then_some("--http-token"),
    };
    // A socket file has its mode.
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
        "{} {} not guard {}: whoever reaches it reads and changes the same keys; guard it too \
         (--users) or turn it off (--memcached off)",
        secrets.join(" and "),
        if secrets.len() == 1 { "does" } else { "do" },
        open.join(", "),
    );
}

/// Whether only clients with a certificate come in at a listener.
fn asks_for_certificates(settings: &Settings, listener: &Listener) -> bool {
    listener.is_tls() && settings.tls_client_ca.is_some()
}

/// Adds the names that this server has without being given them: the machine's, and those that its
/// addresses were given with.
fn name_hosts(settings: &mut Settings) {
    let machine = rustix::system::uname();
    settings
        .http_hosts
        .add_own(&machine.nodename().to_string_lossy());
    for address in &settings.http {
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

/// Where a protocol is really listened for: a port 0 has become a number.
fn addresses(listeners: &[Listener], protocol: Protocol) -> Vec<Address> {
    let these = listeners.iter().filter(|one| one.protocol == protocol);
    these.map(|one| one.address.clone()).collect()
}

/// What all loops share: the cache, gone on with if there is one, and what stands beside it.
fn make_state(
    settings: Settings,
    ground: Option<Ground>,
    clock: &LoopClock,
) -> Result<State, Error> {
    let observer = Arc::new(Observer::new(&settings));
    let cache = make_cache(&settings, clock, ground.as_ref(), &observer)?;
    let types = ground.map(|ground| ground.note(&cache, observer.databases()));
    let types = types.transpose()?.unwrap_or_default();
    if let Some(restored) = cache.restored() {
        restart::tell(restored);
    }
    let mut state = State::observed(cache, settings, clock.wall(), observer);
    state.content_types = types;
    state.started = state.cache.now();
    Ok(state)
}

fn make_cache(
    settings: &Settings,
    clock: &LoopClock,
    ground: Option<&Ground>,
    observer: &Arc<Observer>,
) -> Result<Cache, Error> {
    let config = Config {
        threads: settings.threads,
        value_bytes_max: settings.value_bytes_max(),
        update_bytes_max: settings.update_bytes_max(),
        lease_ms: settings.lease_ms,
        keep: settings
            .keep
            .shares()
            .iter()
            .map(|share| share.bytes)
            .collect(),
        release_memory: settings.release_memory,
        expire_effort: settings.expire_effort,
        clock: clock.engine(),
        observer: Some(Arc::<Observer>::clone(observer)),
        state: ground.map(|ground| ground.options(settings, clock, observer.databases())),
        ..Config::with_memory(settings.memory_bytes)
    };
    let address_bytes = Cache::address_bytes(&config);
    memory::check_addresses(settings.memory_bytes, address_bytes, settings.threads)?;
    let cache = Cache::new(config).map_err(|error| match error {
        cellar_engine::Error::Reserve { code, .. } => {
            memory::refused(settings.memory_bytes, address_bytes, code)
        }
        cellar_engine::Error::State(why) => Error::State(why),
        error => Error::Memory(error.to_string()),
    })?;
    let longest = cache.value_bytes_max();
    if settings
        .max_value_bytes
        .is_some_and(|wanted| longest < wanted)
    {
        tracing::warn!(bytes = longest, "values are limited to half of --memory");
    }
    Ok(cache)
}

fn make_common(state: Arc<State>, clock: LoopClock) -> Result<Common, Error> {
    let threads = state.settings.threads;
    let mailboxes: Result<Vec<Mailbox>, _> = (0..threads).map(|_| Mailbox::new()).collect();
    let mailboxes = Arc::new(mailboxes.map_err(Error::system("making event loops"))?);
    let acceptor_waker = Arc::new(Waker::new().map_err(Error::system("making event loops"))?);
    Ok(Common {
        state,
        mailboxes,
        cession: Arc::default(),
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

/// The answer when the system has no further thread.
fn no_thread(source: std::io::Error) -> Error {
    Error::Setting {
        flag: "threads",
        origin: String::new(),
        reason: source.to_string(),
    }
}
