//! Footprint: by how much a process grows while a cache is filled.
//!
//! Nothing large may have been freed in that process before, so each cache gets one of its own:
//! this program, started again.

use std::process::Command;

use crate::error::Error;
use crate::usage::rss_bytes;

/// Bytes of resident memory by which this process grows while `work` is done, and its result.
pub(crate) fn growth_bytes<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<(u64, T), Error> {
    let rss = || {
        rss_bytes(std::process::id()).map_err(|error| Error::system("reading own memory", error))
    };
    let before_bytes = rss()?;
    let result = work()?;
    Ok((rss()?.saturating_sub(before_bytes), result))
}

/// The number that this program prints when it is started again with these arguments.
pub(crate) fn in_fresh_process(arguments: &[&str]) -> Result<u64, Error> {
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
