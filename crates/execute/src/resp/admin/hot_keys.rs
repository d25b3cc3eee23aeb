//! HOTKEYS: which keys cost most while it is measured ([`cellar_shared::observe::hot_keys`]).
//!
//! Source: redis.io/docs/latest/commands/hotkeys-start and its neighbours, Redis 8.6.
//! Tests: server/tests/resp_hot_keys.rs.

use cellar_cluster::Cluster;
use cellar_cluster::slot::{SLOTS, SlotSet};
use cellar_config::limits::HOT_KEYS_MAX;
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::observe::hot_keys::{HeavyKeys, Measured, Measurement};
use cellar_system::process;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// Keys that are listed if no number is given.
const KEYS: usize = 10;
/// Longest measurement, in seconds.
const DURATION_S_MAX: u64 = 1_000_000;
/// Times are measured in nanoseconds and shown in microseconds.
const NS_PER_US: u64 = 1_000;

/// A number between two bounds, or what is wrong.
fn number(text: &[u8], least: u64, most: u64, refused: &'static str) -> Result<u64, Failure> {
    let number = parse_integer(text).and_then(|number| u64::try_from(number).ok());
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or(Failure::text(refused))
}

/// HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]
/// [SLOTS count slot ...]
pub(in crate::resp) fn start(call: &mut Call<'_>) -> Outcome {
    let measurement = measurement_of(call)?;
    if !call.context.state.records.hot_keys.start(measurement) {
        return Err(Failure::text(
            "ERR hotkey tracking session already in progress",
        ));
    }
    call.context.state.choose_calls();
    call.ok()
}

/// The measurement that the arguments describe.
fn measurement_of(call: &Call<'_>) -> Result<Measurement, Failure> {
    let [word, count, rest @ ..] = &call.args[2..] else {
        return Err(Failure::text("ERR METRICS parameter is required"));
    };
    if !word.eq_ignore_ascii_case(b"METRICS") {
        return Err(Failure::text("ERR METRICS parameter is required"));
    }
    let count = number(count, 1, 2, "ERR METRICS count must be > 0 and <= 2")?;
    let metrics = rest.split_at_checked(count as usize);
    let (metrics, mut rest) = metrics.ok_or(Failure::text(
        "ERR METRICS count does not match number of metric types provided",
    ))?;
    let now = call.now();
    let mut measurement = Measurement {
        by_time: false,
        by_bytes: false,
        keys: KEYS,
        sample_ratio: 1,
        slots: None,
        begun_ms: now.0,
        begun_unix_ms: call.unix_ms(now),
        until_ms: None,
        cpu_before: process::cpu().unwrap_or_default(),
    };
    take_metrics(&mut measurement, metrics)?;
    while let [name, operand, behind @ ..] = rest {
        rest = behind;
        match name.to_ascii_uppercase().as_slice() {
            b"COUNT" => {
                const REFUSED: &str = "ERR COUNT must be between 1 and 64";
                let keys = number(operand, 1, HOT_KEYS_MAX as u64, REFUSED)?;
                measurement.keys = usize::try_from(keys).unwrap_or(HOT_KEYS_MAX);
            }
            b"DURATION" => {
                const REFUSED: &str = "ERR DURATION must be between 1 and 1000000";
                let seconds = number(operand, 1, DURATION_S_MAX, REFUSED)?;
                measurement.until_ms = Some(now.0 + seconds * 1_000);
            }
            b"SAMPLE" => {
                const REFUSED: &str = "ERR SAMPLE ratio must be positive";
                let ratio = number(operand, 1, i32::MAX as u64, REFUSED)?;
                measurement.sample_ratio = u32::try_from(ratio).unwrap_or(u32::MAX);
            }
            b"SLOTS" => take_slots(&mut measurement, call, operand, &mut rest)?,
            _ => return Err(Failure::text("ERR syntax error")),
        }
    }
    match rest {
        [] => Ok(measurement),
        _ => Err(Failure::text("ERR syntax error")),
    }
}

/// Takes the names of what is measured; as in Redis, other words count and mean nothing.
fn take_metrics(measurement: &mut Measurement, metrics: &[&[u8]]) -> Result<(), Failure> {
    for name in metrics {
        let (metric, twice) = if name.eq_ignore_ascii_case(b"CPU") {
            (
                &mut measurement.by_time,
                "ERR METRICS CPU defined more than once!",
            )
        } else if name.eq_ignore_ascii_case(b"NET") {
            (
                &mut measurement.by_bytes,
                "ERR METRICS NET defined more than once!",
            )
        } else {
            continue;
        };
        if std::mem::replace(metric, true) {
            return Err(Failure::text(twice));
        }
    }
    if !measurement.by_time && !measurement.by_bytes {
        return Err(Failure::text(
            "ERR METRICS no valid metrics passed. Supported: CPU|NET",
        ));
    }
    Ok(())
}

/// Parses the slots of a measurement, which have to belong to this node.
fn take_slots(
    measurement: &mut Measurement,
    call: &Call<'_>,
    count: &[u8],
    rest: &mut &[&[u8]],
) -> Result<(), Failure> {
    let Some(cluster) = call.context.state.cluster.as_deref() else {
        return Err(Failure::text(
            "ERR SLOTS parameter cannot be used in non-cluster mode",
        ));
    };
    if measurement.slots.is_some() {
        return Err(Failure::text("ERR SLOTS parameter already specified"));
    }
    const REFUSED: &str = "ERR SLOTS count must be between 1 and 16384";
    let count = number(count, 1, SLOTS.into(), REFUSED)?;
    let slots = rest.split_at_checked(count as usize);
    let (slots, behind) = slots.ok_or(Failure::text("ERR not enough slot numbers provided"))?;
    *rest = behind;
    let mut numbers = Vec::with_capacity(slots.len());
    for slot in slots {
        const REFUSED: &str = "ERR Invalid or out of range slot";
        let slot = number(slot, 0, u64::from(SLOTS) - 1, REFUSED)? as u16;
        if !call.context.serves_slot(cluster, slot) {
            let text = format!("ERR slot {slot} not handled by this node");
            return Err(Failure::Text(text.into()));
        }
        numbers.push(slot);
    }
    numbers.sort_unstable();
    if numbers.windows(2).any(|two| two[0] == two[1]) {
        return Err(Failure::text("ERR duplicate slot number"));
    }
    measurement.slots = Some(SlotSet::of(|slot| numbers.binary_search(&slot).is_ok()));
    Ok(())
}

/// HOTKEYS STOP: null if nothing is measured, as in Redis.
pub(in crate::resp) fn stop(call: &mut Call<'_>) -> Outcome {
    let was_active = call.context.state.records.hot_keys.stop(call.now().0);
    call.context.state.choose_calls();
    match was_active {
        true => call.reply().ok(),
        false => call.reply().null(),
    }
    DONE
}

/// HOTKEYS RESET
pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    if !call.context.state.records.hot_keys.reset(call.now().0) {
        return Err(Failure::text(
            "ERR hotkey tracking session in progress, stop tracking first",
        ));
    }
    call.ok()
}

/// HOTKEYS GET
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Outcome {
    let now = call.now();
    let Some(measured) = call.context.state.records.hot_keys.read(now.0) else {
        call.reply().null();
        return DONE;
    };
    let runs = match &measured.of.slots {
        Some(slots) => slots.runs(),
        None => own_slots(call, call.context.state.cluster.as_deref()),
    };
    let mut reply = call.reply();
    // One map per node, for clients that combine them.
    reply.array(1);
    let sampled = measured.of.slots.is_some() && measured.of.sample_ratio > 1;
    let selected = measured.of.slots.is_some();
    let (by_time, by_bytes) = (measured.of.by_time, measured.of.by_bytes);
    let conditional = 2 * (usize::from(sampled) + usize::from(selected));
    reply.map(7 + conditional + 3 * usize::from(by_time) + 2 * usize::from(by_bytes));
    field(
        &mut reply,
        "tracking-active",
        measured.ended_ms.is_none().into(),
    );
    field(&mut reply, "sample-ratio", measured.of.sample_ratio.into());
    reply.bulk("selected-slots");
    append_runs(&mut reply, &runs);
    append_costs(&mut reply, &measured, (sampled, selected));
    let ended_ms = measured.ended_ms.unwrap_or(now.0);
    let duration_ms = ended_ms.saturating_sub(measured.of.begun_ms);
    field(
        &mut reply,
        "collection-start-time-unix-ms",
        measured.of.begun_unix_ms,
    );
    field(&mut reply, "collection-duration-ms", duration_ms);
    if by_time {
        let (before, cpu) = (measured.of.cpu_before, process::cpu().unwrap_or_default());
        let ms = |before_us: u64, us: u64| us.saturating_sub(before_us) / 1_000;
        field(
            &mut reply,
            "total-cpu-time-user-ms",
            ms(before.user_us, cpu.user_us),
        );
        field(
            &mut reply,
            "total-cpu-time-sys-ms",
            ms(before.system_us, cpu.system_us),
        );
    }
    if by_bytes {
        field(&mut reply, "total-net-bytes", measured.by_bytes.total());
    }
    if by_time {
        append_keys(
            &mut reply,
            "by-cpu-time-us",
            (&measured.by_time, NS_PER_US),
            measured.of.keys,
        );
    }
    if by_bytes {
        append_keys(
            &mut reply,
            "by-net-bytes",
            (&measured.by_bytes, 1),
            measured.of.keys,
        );
    }
    DONE
}

/// The slots that this node serves.
fn own_slots(call: &Call<'_>, cluster: Option<&Cluster>) -> Vec<(u16, u16)> {
    match cluster {
        None => vec![(0, SLOTS - 1)],
        Some(cluster) => SlotSet::of(|slot| call.context.serves_slot(cluster, slot)).runs(),
    }
}

fn field(reply: &mut Reply<'_>, name: &str, number: u64) {
    reply.bulk(name);
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

/// Runs of slots; one of a single slot has one number.
fn append_runs(reply: &mut Reply<'_>, runs: &[(u16, u16)]) {
    reply.array(runs.len());
    for &(first, last) in runs {
        reply.array(if first == last { 1 } else { 2 });
        reply.integer(first.into());
        if first != last {
            reply.integer(last.into());
        }
    }
}

/// The total cost of all commands, and of those that were sampled or selected.
fn append_costs(
    reply: &mut Reply<'_>,
    measured: &Measured,
    (is_sampled, is_selected): (bool, bool),
) {
    let Measured {
        all,
        selected,
        sampled,
        ..
    } = measured;
    if is_sampled {
        field(
            reply,
            "sampled-commands-selected-slots-us",
            sampled.ns / NS_PER_US,
        );
    }
    if is_selected {
        field(
            reply,
            "all-commands-selected-slots-us",
            selected.ns / NS_PER_US,
        );
    }
    field(reply, "all-commands-all-slots-us", all.ns / NS_PER_US);
    if is_sampled {
        field(
            reply,
            "net-bytes-sampled-commands-selected-slots",
            sampled.bytes,
        );
    }
    if is_selected {
        field(
            reply,
            "net-bytes-all-commands-selected-slots",
            selected.bytes,
        );
    }
    field(reply, "net-bytes-all-commands-all-slots", all.bytes);
}

/// The heaviest keys, with their weights in the given unit.
fn append_keys(reply: &mut Reply<'_>, name: &str, (keys, unit): (&HeavyKeys, u64), most: usize) {
    let heaviest = keys.heaviest(most);
    reply.bulk(name);
    reply.array(2 * heaviest.len());
    for (key, weight) in heaviest {
        field_of_key(reply, key, weight / unit);
    }
}

fn field_of_key(reply: &mut Reply<'_>, key: &[u8], weight: u64) {
    reply.bulk(key);
    reply.integer(i64::try_from(weight).unwrap_or(i64::MAX));
}
