//! Footprint: by how much a process grows while a cache is filled.
//!
//! Nothing large may have been freed in that process before, so each cache gets one of its own:
//! this program, started again.

use std::process::Command;

use clap::ValueEnum;

use cellar_load::error::Error;
use cellar_load::usage::rss_bytes;

/// Bytes of resident memory by which this process grows while `work` is done, and its result.
pub(crate) fn growth_bytes<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<(u64, T), Error> {
    let rss = || {
        rss_bytes(std::process::id()).map_err(|error| Error::system("reading own memory", error))
    };
    let before_bytes = rss()?;
    let result = work()?;
    Ok((rss()?.saturating_sub(before_bytes), result))
}

/// By how many bytes this program grows when it is started again to fill one cache of `part`.
pub(crate) fn in_fresh_process(
    part: &str,
    cache: &impl ValueEnum,
    items: u64,
) -> Result<u64, Error> {
    let cache = cache.to_possible_value().expect("no cache is hidden");
    let items = items.to_string();
    let arguments = ["footprint", part, cache.get_name(), &items];
    let program = std::env::current_exe()
        .map_err(|error| Error::system("looking for this program", error))?;
    let output = Command::new(&program)
        .args(arguments)
        .output()
        .map_err(|error| Error::system("starting this program again", error))?;
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
