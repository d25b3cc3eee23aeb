//! Load on cache servers: codecs of their clients, one loop that asks over many connections, the
//! floor under every server, and the servers' processes with what they use.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

mod error; // why a measurement could not be made
mod clock; // nanoseconds of the machine's clocks, and today's date
mod random; // seeded, reproducible, a few instructions each (the `SplitMix64` sequence)
mod quantity; // sizes, counts, times, ranges and mixes of times to live
mod popularity; // which key a request is for
mod record; // the key and the value that belong to a number
mod latency; // latencies, the echo floor
pub mod usage; // how much processor time and memory a process has used, read from `/proc`
mod tls; // what a client believes and shows, a socket whose bytes may be encrypted
mod address; // where a server listens, `HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`
mod wire; // requests to servers and their replies, each protocol
mod client; // requests gathered, sent together, and their replies taken piece by piece
pub mod echo; // what a request costs before a server does any work for it
pub mod drive; // the loop that asks a server, what a load of gets and sets is
mod process; // servers as processes: started, asked, stopped
mod plan; // which records are asked for how often, and its limits
mod source; // which record comes next, and what became of the replies
mod report; // what a load has found
pub mod load; // A load of gets and sets on one server, and what came of it

pub use address::{Address, ReservedPort};
pub use client::Client;
pub use clock::{NS_PER_S, nanoseconds, now_ns, process_cpu_ns, seconds, sleep_until};
pub use clock::{thread_cpu_ns, today, unix_ns};
pub use drive::{Drive, Driven, Flight, Limit, Traffic};
pub use echo::EchoArgs;
pub use error::Error;
pub use latency::{Latencies, LatencySummary};
pub use plan::{Keys, Plan};
pub use popularity::{Picker, Popularity, Scatter};
pub use process::{Ingredients, Recipe, Server};
pub use quantity::{ByteRange, TtlMix, binary, parse_bytes, parse_count, parse_seconds, share};
pub use random::{Random, mix};
pub use record::Records;
pub use report::Report;
pub use source::Sample;
pub use tls::{Stream, TlsArgs};
pub use wire::{Event, Wire};
