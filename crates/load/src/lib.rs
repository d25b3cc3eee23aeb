//! Load on cache servers: codecs of their clients, one loop that asks over many connections, the
//! floor under every server, and the servers' processes with what they use.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod error; // why a measurement could not be made
pub mod clock; // nanoseconds of the machine's clocks, and today's date
pub mod random; // seeded, reproducible, a few instructions each (the `SplitMix64` sequence)
pub mod quantity; // sizes, counts, times, ranges and mixes of times to live
pub mod popularity; // which key a request is for
pub mod record; // the key and the value that belong to a number
pub mod latency; // latencies, the echo floor
pub mod usage; // how much processor time and memory a process has used, read from `/proc`
pub mod tls; // what a client believes and shows, a socket whose bytes may be encrypted
pub mod address; // where a server listens, `HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`
pub mod wire; // requests to servers and their replies, each protocol
pub mod client; // requests gathered, sent together, and their replies taken piece by piece
pub mod echo; // what a request costs before a server does any work for it
pub mod process; // servers as processes: started, asked, stopped
pub mod drive; // the loop that asks a server, what a load of gets and sets is
pub mod plan; // which records are asked for how often, and its limits
mod source; // which record comes next, and what became of the replies
pub mod report; // what a load has found
pub mod load; // A load of gets and sets on one server, and what came of it
