//! A load of gets and sets on one server, and what came of it.

use crate::drive::drive;
use crate::error::Error;
use crate::plan::Plan;
use crate::report::Report;
use crate::source::{Sample, Source};

/// Runs a load to its end.
///
/// # Errors
/// [`Error`] if the plan is impossible, the server cannot be reached, closes a connection, stops
/// answering, or answers nonsense. A value that fails verification is counted, not an error.
pub fn run(plan: &Plan) -> Result<Report, Error> {
    Ok(run_with(plan, None)?.0)
}

/// Stores every key of a plan once in the server that is called `name`.
///
/// # Errors
/// As [`run`], and [`Error::Wrong`] if the server does not take all.
pub fn fill(name: &str, plan: &Plan) -> Result<(), Error> {
    let report = run(&plan.fill())?;
    let (stored, keys) = (report.set.stored, plan.numbers());
    if stored < keys {
        let first = report.first_error.unwrap_or_default();
        let what = format!("{name}: {stored} of {keys} stored; {first}");
        return Err(Error::Wrong(what));
    }
    Ok(())
}

/// Runs a load to its end and returns every get by itself as well, in no order; `samples` is about
/// how many each thread will make.
///
/// # Errors
/// As [`run`].
pub fn run_sampled(plan: &Plan, samples: usize) -> Result<(Report, Vec<Sample>), Error> {
    run_with(plan, Some(samples))
}

fn run_with(plan: &Plan, samples: Option<usize>) -> Result<(Report, Vec<Sample>), Error> {
    plan.check()?;
    let mut key = Vec::new();
    plan.records.push_key(&mut key, plan.number(0));
    let threads = 0..plan.threads;
    let sources = threads.map(|thread| Source::new(plan, thread, samples));
    let (mut sources, driven) = drive(&plan.drive, &key, sources.collect())?;
    let samples = sources
        .iter_mut()
        .filter_map(|source| source.samples.take());
    let samples = samples.flatten().collect();
    Ok((Report::new(plan, &sources, driven), samples))
}
