//! LATENCY: how long commands take ([`cellar_shared::observe::counters::times`]), and which events
//! took very long ([`cellar_shared::observe::latency_events`]).
//!
//! Source: redis.io/docs/latest/commands/latency-histogram and its neighbours.

use cellar_protocol::resp::command::{self, TABLE};
use cellar_protocol::resp::{Command, Reply};
use cellar_shared::observe::counters::times::CommandTimes;
use cellar_shared::observe::latency_events::{EVENTS, LatencyEvent, LatencyHistory, LatencySample};

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// Columns of LATENCY GRAPH: the newest samples.
const COLUMNS_MAX: usize = 80;
/// Its lines.
const LINES: usize = 4;

/// LATENCY HISTOGRAM
pub(in crate::resp) fn histogram(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let (calls, times) = (
        state.statistics.calls_since_reset(),
        state.statistics.times_since_reset(),
    );
    let of = |row: &Command| {
        times
            .get(&(row.verb as usize))
            .filter(|times| times.timed > 0)
    };
    let mut shown: Vec<(String, u64, &CommandTimes)> = Vec::new();
    let mut show = |row: &'static Command, container: Option<&Command>| {
        if let Some(times) = of(row) {
            let name = match container {
                Some(container) => format!("{}|{}", container.name, row.name),
                None => row.name.to_owned(),
            };
            shown.push((name, calls[row.verb as usize], times));
        }
    };
    let mut show_with_parts = |row: &'static Command| {
        show(row, None);
        row.subcommands.iter().for_each(|sub| show(sub, Some(row)));
    };
    match &call.args[2..] {
        [] => TABLE.iter().for_each(show_with_parts),
        names => {
            let mut rows: Vec<&'static Command> = Vec::new();
            for row in names.iter().filter_map(|name| command::find(name)) {
                // A command that is named twice is shown once.
                if !rows.contains(&row) {
                    rows.push(row);
                    show_with_parts(row);
                }
            }
        }
    }
    let mut reply = call.reply();
    reply.map(shown.len());
    for (name, calls, times) in shown {
        reply.bulk(name);
        describe(&mut reply, calls, times);
    }
    DONE
}

fn describe(reply: &mut Reply<'_>, calls: u64, times: &CommandTimes) {
    let steps = times.within_us(calls);
    reply.map(2);
    reply.bulk("calls");
    reply.integer(signed(calls));
    reply.bulk("histogram_usec");
    reply.map(steps.len());
    for (us, within) in steps {
        reply.integer(signed(us));
        reply.integer(signed(within));
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The kinds of events that there were, with the latest of each.
fn events(call: &Call<'_>) -> Vec<(LatencyEvent, LatencyHistory, LatencySample)> {
    let events = &call.context.state.records.latency_events;
    let all = EVENTS
        .into_iter()
        .map(|event| (event, events.history(event)));
    all.filter_map(|(event, history)| {
        let last = *history.samples.back()?;
        Some((event, history, last))
    })
    .collect()
}

/// LATENCY LATEST
pub(in crate::resp) fn latest(call: &mut Call<'_>) -> Outcome {
    let events = events(call);
    let mut reply = call.reply();
    reply.array(events.len());
    for (event, history, last) in events {
        reply.array(4);
        reply.bulk(event.name());
        for number in [last.unix_s, last.ms, history.most_ms] {
            reply.integer(signed(number));
        }
    }
    DONE
}

/// LATENCY HISTORY
pub(in crate::resp) fn history(call: &mut Call<'_>) -> Outcome {
    let history = history_of(call, call.args[2]);
    let mut reply = call.reply();
    reply.array(history.samples.len());
    for sample in history.samples {
        reply.array(2);
        reply.integer(signed(sample.unix_s));
        reply.integer(signed(sample.ms));
    }
    DONE
}

/// The history of the event with this name; empty for unknown names.
fn history_of(call: &Call<'_>, name: &[u8]) -> LatencyHistory {
    let events = &call.context.state.records.latency_events;
    LatencyEvent::find(name).map_or_else(LatencyHistory::default, |event| events.history(event))
}

/// LATENCY RESET
pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    let events = &call.context.state.records.latency_events;
    let names = &call.args[2..];
    let is_named = |event: &LatencyEvent| {
        let name = event.name().as_bytes();
        names.is_empty() || names.iter().any(|other| other.eq_ignore_ascii_case(name))
    };
    let named = EVENTS.into_iter().filter(is_named);
    let forgotten = named.filter(|&event| events.forget(event)).count();
    call.integer(i64::try_from(forgotten).unwrap_or(i64::MAX))
}

/// LATENCY GRAPH
pub(in crate::resp) fn graph(call: &mut Call<'_>) -> Outcome {
    let name = call.args[2];
    let history = history_of(call, name);
    let Some(event) = LatencyEvent::find(name).filter(|_| !history.samples.is_empty()) else {
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
        let text = format!("ERR No samples available for event '{name}'");
        return Err(Failure::Text(text.into()));
    };
    let now_s = call.unix_ms(call.now()) / 1_000;
    let text = draw(event, &history, now_s);
    call.reply().verbatim(&text);
    DONE
}

/// The samples as columns, the oldest first, and under each how long ago it was.
fn draw(event: LatencyEvent, history: &LatencyHistory, now_s: u64) -> String {
    let skipped = history.samples.len().saturating_sub(COLUMNS_MAX);
    let samples: Vec<LatencySample> = history.samples.iter().skip(skipped).copied().collect();
    let all = || samples.iter().map(|sample| sample.ms);
    let (low, high) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.name(),
        history.most_ms,
        "-".repeat(COLUMNS_MAX)
    );
    // Three heights to a line.
    let steps = (3 * LINES - 1) as u64;
    let height = |ms: u64| (ms - low) * steps / (high - low).max(1);
    for line in (0..LINES as u64).rev() {
        let column = |ms: u64| match height(ms).checked_sub(3 * line) {
            None => ' ',
            Some(0) => '_',
            Some(1) => 'o',
            Some(2) => '#',
            Some(_) => '|',
        };
        let drawn: String = all().map(column).collect();
        text.push_str(drawn.trim_end());
        text.push('\n');
    }
    let ages: Vec<String> = samples
        .iter()
        .map(|sample| age(now_s.saturating_sub(sample.unix_s)))
        .collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    for place in 0..longest {
        let letters = ages.iter().map(|age| age.chars().nth(place).unwrap_or(' '));
        let letters: String = letters.collect();
        text.push('\n');
        text.push_str(letters.trim_end());
    }
    text.push('\n');
    text
}

/// An age, abbreviated.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// LATENCY DOCTOR
pub(in crate::resp) fn doctor(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let threshold_ms = state.records.latency_events.threshold_ms();
    let events = events(call);
    let mut text = String::new();
    if threshold_ms == 0 && events.is_empty() {
        text.push_str(
            "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> turns \
             it on; SLOWLOG GET lists slow commands, LATENCY HISTOGRAM tells how long all take.\n",
        );
    } else if events.is_empty() {
        text = format!("Nothing has taken {threshold_ms} ms or longer.\n");
    }
    for (event, history, last) in events {
        let count = history.samples.len();
        let sum: u64 = history.samples.iter().map(|sample| sample.ms).sum();
        let line = format!(
            "{}: {count} seconds with one, {} ms on average, the longest {} ms, the last {} ms.\n",
            event.name(),
            sum / count.max(1) as u64,
            history.most_ms,
            last.ms
        );
        text.push_str(&line);
        text.push_str(match event {
            LatencyEvent::Command => "  SLOWLOG GET tells which they were.\n",
            LatencyEvent::FastCommand => {
                "  A command of constant time is slow when the system takes the processor away, or \
                 memory has to come first.\n"
            }
            LatencyEvent::Turn => {
                "  Many requests at once, or a slow one, keep an event loop from other clients.\n"
            }
        });
    }
    call.reply().verbatim(&text);
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let sample = |(place, &ms): (usize, &u64)| LatencySample {
            unix_s: 1_000 * place as u64,
            ms,
        };
        let history = LatencyHistory {
            samples: [100, 500, 300].iter().enumerate().map(sample).collect(),
            most_ms: 700,
        };
        let drawn = draw(LatencyEvent::Command, &history, 2_005);
        let expected = [
            "command - high 500 ms, low 100 ms (all time high 700 ms)",
            &"-".repeat(80),
            " #",
            " |",
            " |#",
            "_||",
            "",
            "315",
            "36s",
            "mm",
            "",
        ];
        assert_eq!(drawn.split('\n').collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_sample_is_drawn_too() {
        let history = LatencyHistory {
            samples: [LatencySample { unix_s: 5, ms: 7 }].into(),
            most_ms: 7,
        };
        let drawn = draw(LatencyEvent::Turn, &history, 90_000);
        assert!(drawn.ends_with("\n_\n\n1\nd\n"), "{drawn}");
    }
}
