//! What growth costs, told: tables for the terminal, and the page with its plots.

use std::fmt::Write;

use super::watch::{SLOW_NS, Slow};
use super::{Outcome, Window};
use crate::goal::{self, Goal};
use crate::latency::LatencySummary;
use crate::page::{Finding, Page};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::spread::short;

/// Growing over steady, p99.9 of the inserts: the most that is allowed.
const GOAL_RATIO: f64 = 1.2;
/// The longest that growth may make an operation.
const GOAL_WORST_US: f64 = 1000.0;
/// Slow operations that are shown of each kind.
const SHOWN_MAX: usize = 8;

/// All tables, and where their numbers come from.
pub(super) fn render(outcome: &Outcome) -> String {
    format!(
        "{}\n{}\n{}\n{}\nFrom {}.\n",
        scenario(outcome),
        latencies(outcome),
        goals(outcome),
        slowest(outcome),
        outcome.setting
    )
}

fn scenario(outcome: &Outcome) -> String {
    format!(
        "In process, one thread: a cache that grows from empty to {} items of {} + {} B, {} \
         shards, {} MiB; upkeep {}.\n",
        short(count(outcome.items)),
        outcome.key_bytes,
        outcome.value_bytes,
        outcome.shards,
        outcome.memory_mib,
        if outcome.has_upkeep {
            "on another thread"
        } else {
            "left out"
        },
    )
}

fn latencies(outcome: &Outcome) -> String {
    let mut text =
        "| operation, us | p50 | p99 | p99.9 | p99.99 | worst | worst, less waiting for \
                    a processor |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    let (growing, steady) = (&outcome.growing, &outcome.steady);
    for (name, latency, worst) in [
        (
            "insert, growing",
            &growing.insert,
            Some(outcome.worst_growing_without_waiting_us),
        ),
        (
            "insert, steady",
            &steady.insert,
            Some(outcome.worst_steady_without_waiting_us),
        ),
        ("read, growing", &growing.read, None),
        ("read, steady", &steady.read, None),
        (
            "nothing but the clock",
            &growing.idle,
            Some(outcome.worst_idle_without_waiting_us),
        ),
    ] {
        let _ = writeln!(
            text,
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {} |",
            latency.latency_us_p50,
            latency.latency_us_p99,
            latency.latency_us_p99_9,
            latency.latency_us_p99_99,
            latency.latency_us_max,
            worst.map_or_else(String::new, |us| format!("{us:.0}")),
        );
    }
    text
}

/// p99.9 of the inserts while growing over that of the inserts that do not grow the cache.
fn ratio(outcome: &Outcome) -> f64 {
    let p99_9 = |latency: &LatencySummary| latency.latency_us_p99_9;
    p99_9(&outcome.growing.insert) / p99_9(&outcome.steady.insert)
}

fn goals(outcome: &Outcome) -> String {
    goal::table(&[
        Goal::at_most(
            "p99.9 of inserts, growing over steady",
            GOAL_RATIO,
            ratio(outcome),
            2,
        ),
        Goal::at_most(
            "slowest insert, growing, less waiting for a processor, us",
            GOAL_WORST_US,
            outcome.worst_growing_without_waiting_us,
            0,
        ),
    ])
}

fn slowest(outcome: &Outcome) -> String {
    let all = [
        ("growing", &outcome.slowest_growing),
        ("steady", &outcome.slowest_steady),
        ("clock", &outcome.slowest_idle),
    ];
    if all.iter().all(|(_, slow)| slow.is_empty()) {
        return format!("No operation took {} us or more.\n", SLOW_NS / 1000);
    }
    let mut text = "| slowest | at insert | us | waiting for a processor | blocked | running |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for (name, operations) in all {
        for slow in operations.iter().take(SHOWN_MAX) {
            let Slow {
                operation,
                total_us,
                waiting_us,
                blocked_us,
                running_us,
            } = slow;
            let _ = writeln!(
                text,
                "| {name} | {operation} | {total_us:.0} | {waiting_us:.0} | {blocked_us:.0} \
                 | {running_us:.0} |",
            );
        }
    }
    text
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let items = short(count(outcome.items));
    Page {
        title: "Growth: what it costs to fill an empty cache".to_owned(),
        question: format!(
            "A cache that starts empty grows to {items} items. Does any operation pay for the \
             growth: with a pause while a table is doubled, or with a slower tail all along?"
        ),
        method: method(outcome),
        versus: Vec::new(),
        headline: None,
        findings: vec![
            Finding::Text(latencies(outcome)),
            Finding::Text(goals(outcome)),
            Finding::Plot {
                name: "tail".to_owned(),
                plot: plot(outcome),
            },
            Finding::Text(format!(
                "The slowest operations, and where their time went:\n\n{}",
                slowest(outcome)
            )),
        ],
        meaning: meaning(outcome),
        limits: "One thread inserts, in process: what a server adds to a request is not in these \
                 figures, and a tail of microseconds would drown in it. Waiting for another thread \
                 that inserts into the same shard is not shown either. A virtual machine may be \
                 stopped by its host for milliseconds; that looks like running, and only the row \
                 of the clock alone shows how often it happened. The steady cache frees its oldest \
                 segments whole, which is the least work that any full cache has; one that evicts, \
                 or whose items leave in random order, does more for each insert."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

fn method(outcome: &Outcome) -> String {
    format!(
        "In process, one thread, items of {} + {} B, {} shards, {} MiB for each of two caches. The \
         one grows from empty; the other has been grown before and stays at its size: each insert \
         follows a delete of the oldest item. Windows of {} inserts alternate between the two; \
         after each, and after the other cache was filled, nothing is done until upkeep has had \
         nothing to do for a second. \
         Every insert is timed by itself, from hashing the key on, and so is a read of a random \
         item after it. The same loop also times nothing at all: the {:.0} ns of its median are \
         the clock's own cost, contained in every figure here, and its worst is what the machine \
         does to a thread that asks for nothing. Of every operation above {} us the kernel tells \
         how long it waited for a processor. Upkeep, as the server does it: {}.",
        outcome.key_bytes,
        outcome.value_bytes,
        outcome.shards,
        outcome.memory_mib,
        outcome.window,
        outcome.growing.idle.latency_us_p50 * 1000.0,
        SLOW_NS / 1000,
        if outcome.has_upkeep {
            "on another thread, on another processor"
        } else {
            "left out"
        },
    )
}

fn meaning(outcome: &Outcome) -> String {
    let ratio = ratio(outcome);
    let tail = if ratio <= GOAL_RATIO {
        format!(
            "The tail of inserts (p99.9) into a growing cache is {ratio:.2} times that of inserts \
             into one of constant size, within the {GOAL_RATIO} that is allowed: a cache may be \
             filled while it serves."
        )
    } else {
        format!(
            "The tail of inserts (p99.9) into a growing cache is {ratio:.2} times that of inserts \
             into one of constant size, more than the {GOAL_RATIO} that is allowed: growth is \
             noticeable, by {:.2} us.",
            outcome.growing.insert.latency_us_p99_9 - outcome.steady.insert.latency_us_p99_9
        )
    };
    let worst = outcome.worst_growing_without_waiting_us;
    let idle = outcome.worst_idle_without_waiting_us;
    let pause = if worst <= GOAL_WORST_US {
        format!("No insert took longer than {worst:.0} us of its own.")
    } else if worst <= idle {
        format!(
            "The worst insert took {worst:.0} us, but so did the clock alone ({idle:.0} us): this \
             machine cannot show whether growth made an insert slow."
        )
    } else {
        format!(
            "The worst insert took {worst:.0} us of its own, more than the {GOAL_WORST_US} us that \
             are allowed and than the clock alone on this machine ({idle:.0} us)."
        )
    };
    format!("{tail}\n\n{pause}")
}

/// A line of the plot: its name and the figure it shows of a window.
type Line = (&'static str, fn(&Window) -> f64);

fn plot(outcome: &Outcome) -> Plot {
    let lines: [Line; 6] = [
        ("p99.9, growing", |w| w.growing.insert.latency_us_p99_9),
        ("p99.9, steady", |w| w.steady.insert.latency_us_p99_9),
        ("worst, growing", |w| w.growing.insert.latency_us_max),
        ("worst, steady", |w| w.steady.insert.latency_us_max),
        ("p50, growing", |w| w.growing.insert.latency_us_p50),
        ("worst, clock alone", |w| w.growing.idle.latency_us_max),
    ];
    let points = |figure: fn(&Window) -> f64| {
        let windows = outcome.windows.iter();
        windows.map(move |window| (count(window.items) / 1e6, figure(window).max(0.001)))
    };
    Plot {
        title: "Time of an insert while the cache grows".to_owned(),
        x: Axis {
            label: "items in the growing cache, millions".to_owned(),
            scale: Scale::Linear,
        },
        y: Axis {
            label: "us".to_owned(),
            scale: Scale::Logarithmic,
        },
        series: lines
            .map(|(label, figure)| Series {
                label: label.to_owned(),
                points: points(figure).collect(),
            })
            .to_vec(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::Operations;
    use crate::machine::Setting;

    fn outcome(p99_9: f64, worst: f64, idle: f64) -> Outcome {
        let latency = |p99_9: f64, max: f64| LatencySummary {
            latency_us_p50: 0.2,
            latency_us_p99_9: p99_9,
            latency_us_max: max,
            ..LatencySummary::default()
        };
        let operations = |p99_9, worst| Operations {
            insert: latency(p99_9, worst),
            read: latency(1.0, 2.0),
            idle: latency(0.02, idle),
        };
        let (growing, steady) = (operations(p99_9, worst), operations(1.0, 50.0));
        Outcome {
            setting: Setting::here(),
            items: 2_000_000,
            window: 1_000_000,
            key_bytes: 16,
            value_bytes: 32,
            memory_mib: 200,
            shards: 8,
            has_upkeep: true,
            growing,
            steady,
            windows: vec![Window {
                items: 1_000_000,
                growing,
                steady,
            }],
            slowest_growing: vec![Slow {
                operation: 12,
                total_us: worst,
                waiting_us: 0.0,
                blocked_us: worst,
                running_us: 0.0,
            }],
            slowest_steady: vec![],
            slowest_idle: vec![],
            worst_growing_without_waiting_us: worst,
            worst_steady_without_waiting_us: 50.0,
            worst_idle_without_waiting_us: idle,
        }
    }

    #[test]
    fn goals_are_reached_or_missed_and_slow_inserts_explained() {
        let good = render(&outcome(1.1, 400.0, 3.0));
        assert!(good.contains("| <= 1.2 | 1.10 | reached |"), "{good}");
        assert!(good.contains("| <= 1000 | 400 | reached |"), "{good}");
        assert!(
            good.contains("| growing | 12 | 400 | 0 | 400 | 0 |"),
            "{good}"
        );
        let bad = render(&outcome(6.0, 5000.0, 3.0));
        assert!(bad.contains("| <= 1.2 | 6.00 | MISSED |"), "{bad}");
        assert!(bad.contains("| <= 1000 | 5000 | MISSED |"), "{bad}");
    }

    #[test]
    fn the_page_tells_noise_from_growth() {
        assert!(meaning(&outcome(1.1, 400.0, 3.0)).contains("No insert took longer than 400 us"));
        assert!(meaning(&outcome(6.0, 5000.0, 3.0)).contains("more than the 1000 us"));
        assert!(meaning(&outcome(6.0, 5000.0, 9000.0)).contains("cannot show"));
        let page = page(&outcome(1.1, 400.0, 3.0));
        assert!(page.method.contains("on another thread"), "{}", page.method);
        assert_eq!(page.findings.len(), 4);
    }
}
