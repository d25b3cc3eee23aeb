//! The `cellar` daemon as a library: settings, event loops, and execution of requests.
//!
//! A request's way: `worker` reads sockets, `cellar_protocol` decodes, `execute` runs the request
//! against `cellar_engine` and encodes the reply into an `Output`, `worker` writes it.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![deny(unsafe_code)]

/// Counts what each command leaves behind, see `connection.rs`.
#[global_allocator]
static HEAP: cellar_engine::CountingHeap = cellar_engine::CountingHeap;

pub mod error; // why the daemon does not start
pub mod protocol; // which protocols are spoken
pub mod cgroup; // what the control group around this process allows
mod named_file; // one that an operator has named, read without waiting
pub mod carrier; // how the subcommands reach a server, in plain text or over TLS
pub mod limits; // limits on a connection, slow readers
pub mod settings; // which settings there are, how they are read
pub mod cluster; // which node of a cluster keeps which key
pub mod memory; // how much memory the machine or the control group has
pub mod process; // what the system knows about this process and its machine
pub mod logging; // one line an event on standard error
mod ticker; // a thread that does a little from time to time
pub mod clock; // the time that a whole batch of requests shares, and the wall clock by it
pub mod counters; // what is counted
pub mod error_stats; // how many error replies went to clients of Redis, by their first word
pub mod command_log; // which commands were slow or large
pub mod hot_keys; // which keys cost most
pub mod latency_events; // what took very long, for LATENCY
pub mod denials; // what clients were refused, for ACL LOG
pub mod history; // what the server did in the last 24 hours, and what happened meanwhile
pub mod pace; // how much happens each second, over the last second and a half
pub mod parameters; // what CONFIG GET shows and CONFIG SET takes
pub mod tls; // certificates and keys, what is agreed on with them
pub mod poller; // which sockets are ready
pub mod stream; // a connection's bytes, plain or encrypted
pub mod signals; // SIGTERM and SIGINT ask the server to finish and exit
pub mod open_sockets; // listening sockets that were there before this process
pub mod listener; // sockets, accepting, UNIX sockets
pub mod exposure; // which listeners may be open to others
pub mod budget; // what all clients together hold, who leaves for it
pub mod mailbox; // what one event loop tells another
mod cession; // what the event loops give up for a successor
pub mod gate; // how one event loop gets to be the only one that executes
pub mod guesses; // how often a password or token may be wrong
pub mod crowd; // who is there by where they come from, which source has most
pub mod doorstep; // who has to log in and has not, who of them gives way
pub mod users; // who may log in, and what each may do
pub mod pause; // which requests wait until an operator lets them run
pub mod client; // what listings of clients show
pub mod monitors; // who is shown each command as it runs
pub mod names; // what outlives the server beside its cache
pub mod databases; // the numbered key spaces that `SELECT` chooses among, on the engine's spaces
pub mod pubsub; // channels, keyspace events
pub mod events; // which keyspace events are published, and how a channel of one is called
pub mod tracking; // what near caches are told
pub mod watching; // watched keys
mod deadlines; // when keys are looked at whose expiry somebody wants to hear of
pub mod waiters; // clients whose command waits for a value
pub mod observer; // who is told what happens to items, whatever protocol it came by
pub mod content_types; // where a Content-Type is kept
pub mod strangers; // who speaks another protocol than its port
pub mod lifetimes; // how long an item lives that is stored without a time to live
pub mod state; // what all event loops share
pub mod changes; // what CONFIG SET and a settings file that is read anew change
pub mod metrics; // what Prometheus is shown, by which names
pub mod limits_page; // docs/limits.md, written from the bounds themselves
pub mod output; // replies of one connection that wait to be written
pub mod kind; // which kinds of values there are, the deadline of a key that holds a hash
pub mod pages; // what is answered over HTTP beside the cache
pub mod execute; // the one place where requests meet the engine
mod notify; // what the service manager is told
mod inherited; // sockets that a service manager passes and keeps
mod entrance; // who may come in, and what the others are told
mod handshakes; // how clients of TLS come in, beside the event loops
mod handover; // what an old server and its successor say to each other
mod acceptor; // where connections come in, on a thread of its own, for all event loops
mod connection; // how far one client has come
mod worker; // the event loop and its phases
mod doorkeeper; // who compares passwords with their hashes, and looks at the file of users
mod exporter; // who sends the figures to a collector of OpenTelemetry
mod recorder; // who keeps the history, on a thread that serves nobody
mod upkeep; // what the cache needs besides requests, on a thread that serves nobody
mod trainer; // who finds the values that are worth compressing
mod watchdog; // who notices that the wall clock was set, or that a loop stands still
mod membership; // who keeps the map of the cluster in force
mod reload; // who reads the settings file anew at SIGHUP
mod welcome; // what a terminal is told when the server is ready
pub mod restart; // how a server goes on with the cache of one before it
pub mod server; // start, stop, drain
pub mod doctor; // `cellar doctor`: what keeps a machine from its speed
pub mod healthcheck; // `cellar healthcheck`
pub mod hash_password; // `cellar hash-password`
pub mod top; // what `cellar top` shows
pub mod migrate; // what an old server is used for that is not here, `cellar migrate check`
