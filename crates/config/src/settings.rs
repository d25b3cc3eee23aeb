//! Settings: what the operator chose; flag > CELLAR_* variable > TOML file > default.
//!
//! One row of [`TABLE`] is one setting: `--max-connections`, `CELLAR_MAX_CONNECTIONS` and
//! `max_connections = ...` are the same thing. The command line ([`load`]), the help text and
//! docs/config.md all come from the table.
//!
//! Tests: settings/table.rs, server/tests/startup_errors.rs, server/tests/docs.rs.

pub mod source; // where a cluster's list of nodes comes from
pub mod address; // where clients come in, as an operator writes it
pub mod announced; // where clients are told that they find a server
pub mod units;
pub mod letters;
pub mod hosts;
pub mod collector; // where figures are sent, as an operator writes it
pub mod default_ttl; // how --default-ttl is written
pub mod compressed_databases; // how --compress is written
pub mod keep; // how --noeviction-databases is written
mod secret; // how a password or token is written
mod values; // how the other values are written
pub mod row; // what there is to know of one setting
pub mod table;
pub mod top;
pub mod migrate;
pub mod renamed; // old names that still work
mod usage; // what is said of names that nothing has
mod help; // what --help says
pub mod health; // the flags of `cellar healthcheck`
pub mod load;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use cellar_system::cgroup;
use tracing::level_filters::LevelFilter;

use self::address::Address;
use self::announced::Announced;
use self::collector::Collector;
use self::compressed_databases::CompressedDatabases;
use self::default_ttl::DefaultTtl;
use self::hosts::Hosts;
use self::keep::Keep;
use self::source::ListSource;
use crate::error::Error;
use crate::protocol::{ByProtocol, Protocol};

pub use self::table::{Row, TABLE};

/// What a setting takes that is on or off; as a flag alone it means on.
pub const SWITCH: &str = "on|off";
/// Most event loops.
pub const THREADS_MAX: usize = 256;
/// Most effort that may be asked for.
pub const EXPIRE_EFFORT_MAX: u8 = cellar_engine::Config::EXPIRE_EFFORT_MAX;
/// Most databases that may be asked for.
pub const DATABASES_MAX: usize = 10_000;
/// Most connections that may be asked for.
pub const CONNECTIONS_MAX: usize = 1_000_000;

/// The least memory that can be used of what was reserved at the start, of which some is kept.
#[must_use]
pub fn least_memory_bytes(reserved: usize, kept: usize) -> usize {
    kept + cellar_engine::Cache::least_memory_bytes(reserved.saturating_sub(kept))
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, message, fields.
    Text,
    /// One JSON object a line.
    Json,
}

/// All settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Memory of the cache in bytes.
    pub memory_bytes: usize,
    /// Whether the server is to choose it, which it does at the start.
    pub memory_is_auto: bool,
    /// Event loops.
    pub threads: usize,
    /// Addresses for each protocol, empty = off.
    pub listen: ByProtocol<Vec<Address>>,
    /// The password or token of each protocol's own, which its clients present; empty = none.
    pub secrets: ByProtocol<String>,
    /// What this server is called over HTTP.
    pub http_hosts: Hosts,
    /// Whether the console may change anything.
    pub console_write: bool,
    /// How many databases `SELECT` knows.
    pub databases: usize,
    /// Databases with a share of memory of their own.
    pub keep: Keep,
    /// Where the cache's memory outlives the server; none = it does not.
    pub state: Option<PathBuf>,
    /// Longest time in milliseconds without a server after which one begins empty.
    pub max_downtime_ms: u64,
    /// Whether all that is restored is checked before it is served.
    pub state_verify: bool,
    /// The file of users; none = the password and the token alone.
    pub users: Option<PathBuf>,
    /// Whether addresses that others reach may be open to anybody.
    pub insecure: bool,
    /// Letters of the keyspace events that are published; empty = none.
    pub notify_keyspace_events: String,
    /// Most key names that are remembered for near caches; 0 = bounded by their bytes alone.
    pub tracking_table_max_keys: usize,
    /// UNIX socket for the memcached protocol.
    pub unix: Option<PathBuf>,
    /// Permission bits of socket files.
    pub unix_mode: u32,
    /// UNIX socket by which a new process takes over.
    pub control: Option<PathBuf>,
    /// Whether to take over from the server at `control`.
    pub takeover: bool,
    /// Certificates of the server, each with its issuers behind it.
    pub tls_cert: Vec<PathBuf>,
    /// Their keys, in the same order.
    pub tls_key: Vec<PathBuf>,
    /// Authorities that have signed the certificates of clients.
    pub tls_client_ca: Option<PathBuf>,
    /// Most connections at one time.
    pub max_connections: usize,
    /// Most bytes outside of the cache's memory that clients have the server hold; none for a share
    /// of the memory.
    pub client_memory_bytes: Option<usize>,
    /// Longest value in bytes; none for limits that suit each protocol.
    pub max_value_bytes: Option<usize>,
    /// Seconds after which an idle connection is closed; 0 = never.
    pub idle_timeout_s: u64,
    /// Milliseconds after which a connection is closed that has to log in and has not; 0 = never.
    pub login_timeout_ms: u64,
    /// Milliseconds after which a client that does not take its replies, or stops in the middle of
    /// a large value, is dropped.
    pub write_timeout_ms: u64,
    /// Milliseconds for which a server that was told to stop still lets clients in, while probes
    /// are told that it is not ready.
    pub lame_duck_ms: u64,
    /// Longest time in milliseconds that a stopping server takes to finish.
    pub drain_timeout_ms: u64,
    /// Who is sent the figures.
    pub otlp: Option<Collector>,
    /// Milliseconds from one time to the next.
    pub otlp_interval_ms: u64,
    /// Whether memory that holds nothing live goes back to the system.
    pub release_memory: bool,
    /// The databases in which values that look alike are compressed.
    pub compress: CompressedDatabases,
    /// How hard background maintenance looks for what is overdue, 1 to 10.
    pub expire_effort: u8,
    /// How long items live that are stored without a time to live.
    pub default_ttl: DefaultTtl,
    /// Milliseconds for which a lease keeps others out.
    pub lease_ms: u64,
    /// Whether DEBUG is answered.
    pub enable_debug_commands: bool,
    /// Milliseconds after which a script is ended.
    pub script_time_ms: u64,
    /// Milliseconds after which an event loop that stands still ends the process; 0 = never.
    pub watchdog_ms: u64,
    /// Where the list of the cluster's nodes comes from; none = this server is alone.
    pub cluster: Option<ListSource>,
    /// What this node is called in it; empty = nothing.
    pub node: String,
    /// How much it takes beside the others.
    pub node_weight: u32,
    /// Where clients are told that they find it; where it listens for protocols that are not here.
    pub announces: Announced,
    /// How long this node's lease is.
    pub cluster_lease_ms: u64,
    /// Who has signed etcd's certificate.
    pub cluster_ca: Option<PathBuf>,
    /// The certificate that etcd is shown.
    pub cluster_cert: Option<PathBuf>,
    /// Its key.
    pub cluster_key: Option<PathBuf>,
    /// As whom this node speaks to etcd; none = etcd asks nobody who they are.
    pub cluster_user: Option<String>,
    /// The file with that user's password.
    pub cluster_password_file: Option<PathBuf>,
    /// Least severe log lines that are printed.
    pub log_level: LevelFilter,
    /// How log lines look.
    pub log_format: LogFormat,
}

/// Longest value over memcached's protocol, unless a limit is set; its own default.
const MEMCACHED_VALUE_BYTES_MAX: usize = 1 << 20;

/// What clients may hold unless it is said: a part of the memory, as a divisor, within bounds.
const CLIENT_MEMORY_SHARE: usize = 8;
const CLIENT_MEMORY_BYTES: RangeInclusive<usize> = 96 << 20..=1 << 30;
/// The least that clients may be allowed to hold: an ordinary request and its reply.
const CLIENT_MEMORY_BYTES_MIN: usize = 1 << 20;

impl Settings {
    /// Checks what settings say of each other: that there are the databases that some name, and so
    /// much memory.
    ///
    /// # Errors
    /// The setting that asks for what is not there.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |flag: &'static str| {
            move |reason: String| Error::Setting {
                flag,
                origin: String::new(),
                reason,
            }
        };
        let ttl = self.default_ttl.check(self.databases);
        ttl.map_err(fail("default-ttl"))?;
        let compress = self.compress.check(self.databases);
        compress.map_err(fail("compress"))?;
        let keep = self.keep.check(self.databases, self.memory_bytes);
        keep.map_err(fail("noeviction-databases"))?;
        match self.contradiction() {
            Some((flag, reason)) => Err(fail(flag)(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// A flag that does not go with another one, or lacks it, and why.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let (is_node, has_state) = (self.cluster.is_some(), self.state.is_some());
        let announces = matches!(self.cluster, Some(ListSource::Etcd(_) | ListSource::Dns(_)));
        let rules = [
            (
                self.takeover && self.control.is_none(),
                "takeover",
                "needs --control PATH, the socket of the server to take over from",
            ),
            (
                is_node && has_state,
                "state",
                "a cluster node cannot use --state: its items may have got another owner",
            ),
            (
                is_node && self.node.is_empty(),
                "node",
                "a node of a cluster (--cluster) needs a name",
            ),
            (
                !is_node && !self.node.is_empty(),
                "node",
                "only a node of a cluster (--cluster) has a name",
            ),
            (
                !self.announces.is_empty() && !announces,
                "cluster",
                "--announce-resp, --announce-memcached and --announce-http go with etcd: and dns:; \
                 a file has the addresses itself",
            ),
            (
                self.cluster_cert.is_some() != self.cluster_key.is_some(),
                "cluster-cert",
                "--cluster-cert and --cluster-key must be set together",
            ),
            (
                self.cluster_user.is_some() != self.cluster_password_file.is_some(),
                "cluster-user",
                "--cluster-user and --cluster-password-file must be set together",
            ),
        ];
        let broken = rules.iter().find(|rule| rule.0);
        broken.map(|&(_, flag, reason)| (flag, reason))
    }

    /// Where clients are told that they find this node: where it listens, but for sockets of this
    /// machine alone and what was announced in their place.
    #[must_use]
    pub fn announced(&self) -> Announced {
        Announced::from_fn(|protocol| match self.announces.of(protocol) {
            told if told.is_empty() => {
                let own = self.listen.of(protocol).iter();
                own.filter(|one| one.host_and_port().is_some())
                    .cloned()
                    .collect()
            }
            told => told.clone(),
        })
    }

    /// All addresses, each with the protocol that is spoken there; that of `--unix` last.
    pub fn all_addresses(&self) -> impl Iterator<Item = (Protocol, Address)> {
        let all = self.listen.iter().flat_map(|(protocol, addresses)| {
            addresses.iter().map(move |it| (protocol, it.clone()))
        });
        let unix = self.unix.iter();
        let unix = unix.map(|path| (Protocol::Memcached, Address::Unix(path.clone())));
        all.chain(unix)
    }

    /// The first socket file at which memcached's protocol is spoken.
    #[must_use]
    pub fn memcached_socket(&self) -> Option<&Path> {
        let mut sockets = self
            .listen
            .memcached
            .iter()
            .filter_map(|address| match address {
                Address::Unix(path) => Some(path.as_path()),
                Address::Tcp(_) | Address::Tls(_) => None,
            });
        sockets.next().or(self.unix.as_deref())
    }

    /// Whether TLS is spoken somewhere.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        self.listen.values().flatten().any(Address::is_tls)
    }

    /// Most bytes outside of the cache's memory that clients have the server hold.
    #[must_use]
    pub fn client_memory_bytes(&self) -> usize {
        self.client_memory_beside(self.memory_bytes)
    }

    /// The same beside a cache with so much memory.
    #[must_use]
    pub fn client_memory_beside(&self, memory_bytes: usize) -> usize {
        let (least, most) = (*CLIENT_MEMORY_BYTES.start(), *CLIENT_MEMORY_BYTES.end());
        let share = memory_bytes / CLIENT_MEMORY_SHARE;
        self.client_memory_bytes
            .unwrap_or_else(|| share.clamp(least, most))
    }

    /// Longest value of any protocol, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        let limit = cellar_engine::Config::VALUE_BYTES_LIMIT;
        self.max_value_bytes.unwrap_or(limit)
    }

    /// Longest value over memcached's protocol, in bytes.
    #[must_use]
    pub fn memcached_value_bytes_max(&self) -> usize {
        self.max_value_bytes.unwrap_or(MEMCACHED_VALUE_BYTES_MAX)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: 256 << 20,
            memory_is_auto: false,
            threads: default_threads(),
            listen: ByProtocol {
                memcached: vec![Address::Tcp("127.0.0.1:11211".to_owned())],
                resp: vec![Address::Tcp("127.0.0.1:6379".to_owned())],
                http: vec![Address::Tcp("127.0.0.1:8080".to_owned())],
            },
            secrets: ByProtocol::default(),
            http_hosts: Hosts::default(),
            console_write: false,
            databases: 16,
            keep: Keep::default(),
            state: None,
            max_downtime_ms: 60_000,
            state_verify: false,
            users: None,
            insecure: false,
            notify_keyspace_events: String::new(),
            tracking_table_max_keys: 1_000_000,
            unix: None,
            unix_mode: 0o700,
            control: None,
            takeover: false,
            tls_cert: Vec::new(),
            tls_key: Vec::new(),
            tls_client_ca: None,
            max_connections: 10_000,
            client_memory_bytes: None,
            max_value_bytes: None,
            idle_timeout_s: 0,
            login_timeout_ms: 10_000,
            write_timeout_ms: 30_000,
            lame_duck_ms: 0,
            drain_timeout_ms: 5_000,
            otlp: None,
            otlp_interval_ms: 60_000,
            release_memory: false,
            compress: CompressedDatabases::Off,
            expire_effort: 1,
            default_ttl: DefaultTtl::default(),
            lease_ms: 30_000,
            enable_debug_commands: false,
            script_time_ms: 5_000,
            watchdog_ms: 60_000,
            cluster: None,
            node: String::new(),
            node_weight: 1,
            announces: Announced::default(),
            cluster_lease_ms: 3_000,
            cluster_ca: None,
            cluster_cert: None,
            cluster_key: None,
            cluster_user: None,
            cluster_password_file: None,
            log_level: LevelFilter::INFO,
            log_format: LogFormat::Text,
        }
    }
}

/// One event loop per core this process may use.
/// One for each processor that this process may use, of whose time its control group may leave it
/// less.
fn default_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    threads_within(cgroup::cpu_thousandths(Path::new("/")), processors)
}

/// As many loops as there are whole processors; at least one.
fn threads_within(cpu_thousandths: Option<u64>, processors: usize) -> usize {
    let quota = cpu_thousandths.map_or(usize::MAX, |all| (all / cgroup::WHOLE_CPU) as usize);
    processors.min(quota).clamp(1, THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_loops_than_the_quota_of_processor_time_has_processors() {
        for (thousandths, expected) in [
            (None, 8),
            (Some(100), 1),
            (Some(1_999), 1),
            (Some(2_000), 2),
            (Some(64_000), 8),
        ] {
            assert_eq!(threads_within(thousandths, 8), expected, "{thousandths:?}");
        }
        assert_eq!(threads_within(None, 1_000), THREADS_MAX);
    }
}
