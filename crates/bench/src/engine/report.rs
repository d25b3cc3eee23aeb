//! The tables and the page of `cellar-bench engine`.

use std::fmt::Write;

use super::{OWN_NAME, Operation, Outcome, Row};
use crate::goal::{self, Goal};
use crate::page::{Finding, Page};
use crate::plot::{Plot, Series};
use crate::popularity::Popularity;
use crate::spread::{Spread, short};
use crate::versus::Versus;

/// Batched gets per second on one thread that the engine must reach, and the gain of the second.
const GOAL_GETS_PER_S: f64 = 8e6;
const GOAL_TWO_THREADS: f64 = 1.8;
const GOAL_OVERHEAD_BYTES: f64 = 16.0;

/// The tables, for a reader at the terminal.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render_rows(outcome, &mut text);
    format!(
        "{text}\n{}\nFrom {}.\n",
        goal::table(&goals(outcome)),
        outcome.setting
    )
}

fn render_rows(outcome: &Outcome, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "In process, {} items of {} + {} B, {} operations per thread; medians of {} rounds.\n\n\
         | cache | operation | keys | threads | per thread-CPU second | per wall second |\n\
         |---|---|---|---|---|---|",
        outcome.items,
        outcome.key_bytes,
        outcome.value_bytes,
        outcome.operations_per_thread,
        outcome.rounds,
    )?;
    for row in &outcome.rows {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.cache,
            row.operation,
            row.distribution,
            row.threads,
            span(&row.operations_per_thread_cpu_s),
            span(&row.operations_per_wall_s),
        )?;
    }
    if let Some(memory) = &outcome.memory {
        writeln!(
            text,
            "\n{} items of {} + {} B with a TTL of {}: {:.1} B per item over key and value \
             (resident growth {} B), {} inserts/s.",
            memory.items,
            memory.key_bytes,
            memory.value_bytes,
            memory.ttl_s,
            memory.overhead_per_item_bytes,
            memory.rss_growth_bytes,
            short(memory.inserts_per_s),
        )?;
    }
    for peer in &outcome.peers_memory {
        writeln!(
            text,
            "The same in {}: {:.1} B per item over key and value (resident growth {} B).",
            peer.cache.text(),
            peer.overhead_per_item_bytes,
            peer.rss_growth_bytes,
        )?;
    }
    Ok(())
}

fn span(spread: &Spread) -> String {
    if spread.rounds.len() < 2 {
        return short(spread.median);
    }
    format!(
        "{} [{}..{}]",
        short(spread.median),
        short(spread.min),
        short(spread.max)
    )
}

fn is_own(row: &Row) -> bool {
    row.cache == OWN_NAME
}

/// The engine's single gets and sets and its memory beside each peer's.
fn versus(outcome: &Outcome) -> Vec<Versus> {
    let mut all = Vec::new();
    for peer in outcome.rows.iter().filter(|row| !is_own(row)) {
        let own = outcome.rows.iter().find(|own| {
            is_own(own)
                && own.operation == peer.operation
                && own.distribution == peer.distribution
                && own.threads == peer.threads
        });
        let Some(own) = own else {
            continue;
        };
        let (keys, threads) = (&peer.distribution, peer.threads);
        let what = format!("{}/s, {keys}, threads: {threads}", peer.operation);
        let (ours, theirs) = (&own.operations_per_wall_s, &peer.operations_per_wall_s);
        all.push(Versus::more(what, ours.median, &peer.cache, theirs.median));
    }
    if let Some(own) = &outcome.memory {
        for peer in &outcome.peers_memory {
            let what = "bytes per item over key + value";
            let (ours, theirs) = (own.overhead_per_item_bytes, peer.overhead_per_item_bytes);
            all.push(Versus::less(what, ours, peer.cache.text(), theirs));
        }
    }
    all
}

fn goals(outcome: &Outcome) -> Vec<Goal> {
    let zipf = Popularity::Zipf(0.99).to_string();
    let gets = |threads: usize| {
        let mut rows = outcome.rows.iter();
        rows.find(|row| {
            is_own(row)
                && row.threads == threads
                && row.distribution == zipf
                && row.operation == Operation::GetMany32.name()
        })
    };
    let (one, two) = (gets(1), gets(2));
    let speed = one.map(|one| {
        let found = one.operations_per_thread_cpu_s.median;
        let what = "gets/s on one thread, in batches of 32, zipf";
        Goal::at_least(what, GOAL_GETS_PER_S, found, short)
    });
    let gain = one.zip(two).map(|(one, two)| {
        let found = two.operations_per_wall_s.median / one.operations_per_wall_s.median;
        let what = "the same on two threads, x one";
        Goal::at_least(what, GOAL_TWO_THREADS, found, |it| format!("{it:.2}"))
    });
    let memory = outcome.memory.as_ref().map(|memory| {
        let what = "bytes per item over key + value";
        Goal::at_most(what, GOAL_OVERHEAD_BYTES, memory.overhead_per_item_bytes, 1)
    });
    speed.into_iter().chain(gain).chain(memory).collect()
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let mut findings = vec![
        Finding::Text(goal::table(&goals(outcome))),
        Finding::Text(rows(outcome)),
    ];
    let plot = plot(outcome);
    if plot.series.iter().any(|series| series.points.len() > 1) {
        findings.push(Finding::Plot {
            name: "threads".to_owned(),
            plot,
        });
    }
    Page {
        title: "The engine in process".to_owned(),
        question: "How many gets and sets does the engine do without sockets and protocol, on one \
                   thread and on more, and what does an item take, beside caches of the Rust \
                   registry?"
            .to_owned(),
        method: method(outcome),
        versus: versus(outcome),
        headline: None,
        findings,
        meaning: "Operations per second of a thread's own processor time tell what one operation \
                  costs; those per second of the clock on the wall also tell what waiting costs. A \
                  batch lets the engine load what the next requests need while it serves the \
                  first; the others have no batches. In those a value lies in a block of its own, \
                  whose address a get hands out; the engine copies it out under its lock, and \
                  moves nothing when it is overwritten with as many bytes."
            .to_owned(),
        limits: "No server is asked here: the parts `protocol` and `s2` show what a \
                 request costs beyond the engine. Threads have to share the machine's caches and, \
                 on a virtual machine, perhaps one core."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn method(outcome: &Outcome) -> String {
    format!(
        "In one process, {} items of {} + {} B; keys are drawn beforehand. Counted in: making the \
         key's bytes, hashing, the shard's lock, copying the value out. Sets overwrite with values \
         of the same length. {} operations for each thread, medians of {} rounds, in brackets the \
         smallest and the largest. The same items are in quick_cache and moka, with keys and \
         values as bytes, values behind a count, and room for a quarter more; in each round all \
         take turns. moka has one time to live for all items, quick_cache knows none, the engine \
         has one for each item. Memory of an item is measured first, each cache in a fresh \
         process: growth of resident memory over the items, less key and value.",
        short(outcome.items as f64),
        outcome.key_bytes,
        outcome.value_bytes,
        short(outcome.operations_per_thread as f64),
        outcome.rounds,
    )
}

fn rows(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render_rows(outcome, &mut text);
    text
}

/// Operations of all threads together over the number of threads, Zipf keys.
#[expect(clippy::cast_precision_loss, reason = "shown on an axis")]
fn plot(outcome: &Outcome) -> Plot {
    let zipf = Popularity::Zipf(0.99).to_string();
    let series = super::OPERATIONS.map(|operation| {
        let rows = outcome.rows.iter();
        let of_it = rows.filter(|row| {
            is_own(row) && row.operation == operation.name() && row.distribution == zipf
        });
        let point = |row: &Row| (row.threads as f64, row.operations_per_wall_s.median / 1e6);
        Series {
            label: operation.name().to_owned(),
            points: of_it.map(point).collect(),
        }
    });
    let title = "Operations of all threads together, keys by Zipf's law";
    Plot::over_threads(title, series.into())
}
