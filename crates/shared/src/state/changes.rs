//! Changes: what of the settings changes while the server runs, by CONFIG SET or the settings file.
//!
//! Which these are says the table of parameters; the row of a setting names its parameter.
//!
//! Tests: server/tests/resp_admin.rs, server/tests/reload.rs.

use std::sync::atomic::Ordering;

use cellar_config::parameters::Refused;
use cellar_config::settings::default_ttl::DefaultTtl;

use crate::observe::command_log::LogKind;
use crate::observe::history::events::EventKind;
use crate::state::State;

/// Gives all of these parameters their values or none, and returns how they are shown.
///
/// # Errors
/// What was refused first.
pub fn make(
    state: &State,
    pairs: &[(&[u8], &[u8])],
) -> Result<Vec<(&'static str, String)>, Refused> {
    let _turn = state.parameters.turn();
    let before = pairs.iter().map(|(name, _)| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        state.parameters.value(&name)
    });
    let before: Vec<String> = before.collect();
    let changed = state.parameters.change(pairs)?;
    for ((name, value), before) in changed.iter().zip(before) {
        // To set what is set already is no change, and no event.
        if *value == before {
            continue;
        }
        take_effect(name, value, state);
        let told = format!("{name}={value}");
        let now_ms = state.cache.now().0;
        state.records.history.tell(EventKind::Config, now_ms, &told);
    }
    Ok(changed)
}

/// Does what the new value of a parameter asks for.
fn take_effect(name: &str, value: &str, state: &State) {
    let number = || value.parse::<i64>().unwrap_or(i64::MAX);
    match name {
        "latency-monitor-threshold" => {
            let ms = u64::try_from(number()).unwrap_or(0);
            state.records.latency_events.set_threshold_ms(ms);
            state.choose_calls();
        }
        "active-expire-effort" => {
            state
                .cache
                .set_expire_effort(u8::try_from(number()).unwrap_or(u8::MAX));
        }
        "default-ttl" => {
            // The parameter has checked the text.
            if let Ok(ttl) = DefaultTtl::parse(value) {
                state.default_ttls.change(&ttl);
            }
        }
        "maxmemory" => {
            let bytes = usize::try_from(number()).unwrap_or(usize::MAX);
            // The parameter has checked the bounds.
            let _ = state.cache.set_memory_bytes(bytes);
        }
        "maxmemory-policy" => {
            tracing::info!(
                policy = value,
                "Cellar has one eviction policy; every policy name selects it"
            );
        }
        "timeout" => {
            let seconds = u64::try_from(number()).unwrap_or(0);
            state.idle_timeout_s.store(seconds, Ordering::Relaxed);
        }
        "release-memory" => state.cache.set_release_memory(value == "yes"),
        "compress" => state.cache.set_compress(value != "off"),
        "notify-keyspace-events" => {
            // The parameter has checked the letters.
            let _ = state.observer.set_events(value);
            state.choose_calls();
        }
        "tracking-table-max-keys" => {
            let most = usize::try_from(number()).unwrap_or(usize::MAX);
            // Zero is no limit.
            let most = if most == 0 { usize::MAX } else { most };
            state.observer.tracking.set_keys_max(most);
        }
        _ => change_log(name, number(), state),
    }
}

/// Does the same for the parameters of SLOWLOG and COMMANDLOG.
fn change_log(name: &str, number: i64, state: &State) {
    let threshold_of = match name {
        "slowlog-log-slower-than" | "commandlog-execution-slower-than" => Some(LogKind::Slow),
        "commandlog-request-larger-than" => Some(LogKind::LargeRequest),
        "commandlog-reply-larger-than" => Some(LogKind::LargeReply),
        _ => None,
    };
    if let Some(kind) = threshold_of {
        state.records.command_logs.of(kind).set_threshold(number);
        return state.choose_calls();
    }
    let length_of = match name {
        "slowlog-max-len" | "commandlog-slow-execution-max-len" => LogKind::Slow,
        "commandlog-large-request-max-len" => LogKind::LargeRequest,
        "commandlog-large-reply-max-len" => LogKind::LargeReply,
        _ => return,
    };
    let most = usize::try_from(number).unwrap_or(usize::MAX);
    state.records.command_logs.of(length_of).set_most(most);
}
