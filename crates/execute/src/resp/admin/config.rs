//! CONFIG: shows and changes settings by Redis's names; `changes.rs` applies the changes.

use cellar_config::limits::CONFIG_PATTERNS_MAX;
use cellar_config::parameters::Refused;
use cellar_shared::state::changes;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::patterns::check_patterns;

/// CONFIG GET
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Outcome {
    if call.args.len() - 2 > CONFIG_PATTERNS_MAX {
        return Err(Failure::text(
            "ERR too many patterns, at most 256 are tried",
        ));
    }
    check_patterns(&call.args[2..])?;
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
pub(in crate::resp) fn set(call: &mut Call<'_>) -> Outcome {
    let args = &call.args[2..];
    if !args.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = args.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    changes::make(call.context.state, &pairs).map_err(|refused| {
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
    call.ok()
}

/// CONFIG RESETSTAT
pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    call.context.state.reset_stats();
    call.ok()
}

/// CONFIG REWRITE: refused, because the configuration file is never written.
pub(in crate::resp) fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::text(
        "ERR The server is running without a config file",
    ))
}
