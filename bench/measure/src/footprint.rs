//! Footprint: by how much a process grows while a cache is filled.
//!
//! Nothing large may have been freed in that process before, so each cache gets one of its own:
//! this program, started again.

use std::process::Command;

use clap::ValueEnum;

use cellar_load::{Error, usage};

/// Bytes of resident memory by which this process grows while `work` is done, and its result.
pub(crate) fn growth_bytes<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<(u64, T), Error> {
    let before_bytes = own_rss_bytes()?;
    let result = work()?;
    Ok((own_rss_bytes()?.saturating_sub(before_bytes), result))
}

/// Resident memory of this process.
pub(crate) fn own_rss_bytes() -> Result<u64, Error> {
    usage::rss_bytes(std::process::id()).map_err(|error| Error::system("reading own memory", error))
}

/// By how many bytes this program grows when it is started again to fill one cache of `part`.
pub(crate) fn in_fresh_process(
    part: &str,
    cache: impl ValueEnum,
    items: u64,
) -> Result<u64, Error> {
    let cache = cache.to_possible_value().expect("no cache is hidden");
    let items = items.to_string();
    let arguments = ["footprint", part, cache.get_name(), &items];
    let output = std::env::current_exe().and_then(|it| Command::new(it).args(arguments).output());
    let output = output.map_err(|error| Error::system("starting this program again", error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        Error::Wrong(format!("{}: {text} {said}", arguments.join(" ")))
    })
}

/// What each of `items` takes over the `raw_bytes` of its key and value, if all take so many.
pub(crate) fn overhead_bytes(growth_bytes: u64, items: u64, raw_bytes: usize) -> f64 {
    growth_bytes as f64 / items as f64 - raw_bytes as f64
}
