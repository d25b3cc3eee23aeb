//! `cellar-bench reproduce`: the measurements of the sources that Cellar answers, made again.

pub mod s1;
pub mod s2;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Options of `cellar-bench reproduce`.
#[derive(Args, Clone, Debug)]
pub struct ReproduceArgs {
    #[command(subcommand)]
    source: Source,
}

#[derive(Clone, Debug, Subcommand)]
enum Source {
    /// An ad service that reads Redis through caches in its own process, stage by stage
    S1(Box<s1::S1Args>),
    /// Inserts and reads by one server thread and by more, and a simulation of 64 processors
    S2(Box<s2::S2Args>),
}

/// Runs one of the measurements and prints its tables.
///
/// # Errors
/// [`Error`] if it cannot be made.
pub fn command(args: &ReproduceArgs) -> Result<(), Error> {
    match &args.source {
        Source::S1(args) => s1::command(args),
        Source::S2(args) => s2::command(args),
    }
}
