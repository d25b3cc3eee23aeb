//! Measurements of cache servers: what each asks, the list of them, and the pages about them.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod plot; // lines over two axes, as an SVG file that a page can show
mod footprint; // what an item takes in a cache, each in a fresh process
pub mod spread; // median, smallest, largest, and all of them
mod race; // threads that start together, and caches that take turns in it
pub mod machine; // The machine and the moment of a measurement, which every number must name
pub mod peers; // which servers take part, how they are started, at which port
mod template; // a raw result through its template becomes Markdown
mod earlier; // what the runs before the newest found
mod page; // one measurement as Markdown with plots beside it, written whole by the program
pub mod load; // `cellar-bench load`: its options, and how they become a plan
mod measurement; // options that find figures
mod families; // values of real kinds
mod compare; // what a request costs over each protocol
mod engine; // the engine in process, beside other caches of Rust
mod replay; // what a trace is, how it is replayed
mod memory; // what servers occupy beside their memory
mod compression; // how many more items fit with compression
mod growth; // `cellar-bench growth`: what a cache that grows costs the operations that make it grow
mod expiry; // what a mass expiry costs
mod churn; // what deletes, overwrites and evictions leave behind and cost
mod service; // a cache service over HTTP at a fixed rate, and what a request costs
mod near; // near's local store beside other caches
pub mod fresh; // how much this process grows when it fills a cache
mod ads; // what a near cache brings a service in front of Redis
mod threads; // do inserts fall as threads are added?
mod tls; // what encryption costs, and what handshakes cost others
mod restart; // what comes back after a restart, when, and what clients notice
mod cluster; // what several servers that share the keys cost and gain
mod collections; // what collections and long strings cost, beside a peer
pub mod parts; // the parts of `make bench`, what runs them
pub mod pages; // the pages and index from raw results, and their check

/// What the engine refused; an error of the options if they leave it too little memory.
fn refused(error: cellar_engine::Error) -> cellar_load::Error {
    match error {
        cellar_engine::Error::MemoryTooSmall { .. } => cellar_load::Error::Usage(error.to_string()),
        _ => cellar_load::Error::Wrong(format!("the engine refuses: {error}")),
    }
}
