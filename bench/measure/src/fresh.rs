//! `cellar-bench footprint`: by how many bytes this process grows when it fills one cache.

use clap::Subcommand;

use crate::{engine, near};
use cellar_load::{Error, parse_count};

/// Which cache, and how many items.
#[derive(Clone, Debug, Subcommand)]
#[expect(missing_docs, reason = "the names say all")]
pub enum FootprintArgs {
    /// A peer of the engine
    Engine {
        cache: engine::PeerName,
        #[arg(value_parser = parse_count)]
        items: u64,
    },
    /// The near cache's local store, or a peer of it
    Near {
        cache: near::CacheName,
        #[arg(value_parser = parse_count)]
        items: u64,
    },
}

/// Fills the cache and prints the growth.
///
/// # Errors
/// [`Error::Wrong`] if the cache does not hold what it was given.
pub fn command(args: &FootprintArgs) -> Result<(), Error> {
    let growth_bytes = match *args {
        FootprintArgs::Engine { cache, items } => engine::growth_bytes_of(cache, items)?,
        FootprintArgs::Near { cache, items } => near::growth_bytes_of(cache, items)?,
    };
    println!("{growth_bytes}");
    Ok(())
}
