//! CONFIG: what is shown and changed under Redis's names for settings.

use std::sync::atomic::Ordering;

use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::failure::Failure;
use crate::parameters::Refused;
use crate::settings::default_ttl::DefaultTtl;
use crate::state::State;

/// Most patterns of CONFIG GET; each is tried on each name.
const PATTERNS_MAX: usize = 256;

/// CONFIG GET
pub(in crate::execute::resp) fn get(call: &mut Call<'_>) -> Outcome {
    if call.args.len() - 2 > PATTERNS_MAX {
        return Err(Failure::text(
            "ERR too many patterns, at most 256 are tried",
        ));
    }
    let found = call.context.state.parameters.matching(&call.args[2..]);
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value);
    }
    DONE
}

/// CONFIG SET
pub(in crate::execute::resp) fn set(call: &mut Call<'_>) -> Outcome {
    let args = &call.args[2..];
    if !args.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = args.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let state = call.context.state;
    let changed = state.parameters.change(&pairs).map_err(|refused| {
        let text = match refused {
            Refused::Unknown(name) => {
                format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Refused::Value { name, reason } => {
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
            }
        };
        Failure::Text(text.into())
    })?;
    for (name, value) in changed {
        take_effect(name, &value, state);
    }
    call.ok()
}

/// Does what the new value of a parameter asks for.
fn take_effect(name: &str, value: &str, state: &State) {
    let number = || value.parse::<i64>().unwrap_or(i64::MAX);
    match name {
        "slowlog-log-slower-than" => {
            state.slow_log.set_threshold_us(number());
            state.choose_calls();
        }
        "latency-monitor-threshold" => {
            let ms = u64::try_from(number()).unwrap_or(0);
            state.latency_events.set_threshold_ms(ms);
            state.choose_calls();
        }
        "slowlog-max-len" => {
            let most = usize::try_from(number()).unwrap_or(usize::MAX);
            state.slow_log.set_most(most);
        }
        "active-expire-effort" => {
            state
                .cache
                .set_expire_effort(u8::try_from(number()).unwrap_or(u8::MAX));
        }
        "default-ttl" => {
            // The parameter has checked the text.
            if let Ok(ttl) = DefaultTtl::parse(value) {
                state.lifetimes.change(&ttl);
            }
        }
        "maxmemory" => {
            let bytes = usize::try_from(number()).unwrap_or(usize::MAX);
            // The parameter has checked the bounds.
            let _ = state.cache.set_memory_bytes(bytes);
        }
        "timeout" => {
            let seconds = u64::try_from(number()).unwrap_or(0);
            state.idle_timeout_s.store(seconds, Ordering::Relaxed);
        }
        "release-memory" => state.cache.set_release_memory(value == "yes"),
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
        _ => {}
    }
}

/// CONFIG RESETSTAT
pub(in crate::execute::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    call.context.state.reset_stats();
    call.ok()
}

/// CONFIG REWRITE: settings come from flags, the environment and a file that is only read.
pub(in crate::execute::resp) fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::text(
        "ERR The server is running without a config file",
    ))
}
