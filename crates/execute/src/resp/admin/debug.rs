//! DEBUG: means for tests, answered only if the settings say so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_engine::Item;
use cellar_protocol::resp::{Proto, Reply};
use cellar_shared::keyspace::kind;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// Longest time that DEBUG SLEEP keeps an event loop from its clients.
const SLEEP_S_MAX: f64 = 60.0;

/// The error if the settings do not allow DEBUG.
pub(in crate::resp) const NOT_ALLOWED: Failure = Failure::text(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
     can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.",
);
const WRONG_TYPE_NAME: Failure = Failure::text(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);
const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ERROR <string>",
    "    Answers an error.",
    "LOG <message>",
    "    Writes a line to the log.",
    "OBJECT <key>",
    "    Tells how long a value is, and how Redis would keep it.",
    "PAUSE-CRON <0|1>",
    "    Pauses background maintenance.",
    "PROTOCOL <type>",
    "    Answers a value of this type.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Pauses background maintenance (0): only reads and writes find that an item has expired.",
    "SLEEP <seconds>",
    "    Keeps this connection's event loop busy.",
    "HELP",
    "    Prints this help.",
];

/// DEBUG
pub(in crate::resp) fn debug(call: &mut Call<'_>) -> Outcome {
    if !call.context.state.settings.enable_debug_commands {
        return Err(NOT_ALLOWED);
    }
    let word = String::from_utf8_lossy(call.args[1]).to_uppercase();
    match (word.as_str(), &call.args[2..]) {
        ("SLEEP", [seconds]) => sleep(call, seconds),
        ("SET-ACTIVE-EXPIRE", [is_on]) => rest(call, *is_on == b"0"),
        ("PAUSE-CRON", [is_on]) => rest(call, *is_on != b"0"),
        ("PROTOCOL", [kind]) => protocol(call, kind),
        ("OBJECT", [_]) => object(call),
        ("LOG", [message]) => {
            tracing::info!("DEBUG LOG: {}", message.escape_ascii());
            call.ok()
        }
        ("ERROR", [message]) => {
            let message = String::from_utf8_lossy(message).into_owned();
            Err(Failure::Text(message.into()))
        }
        ("HELP", []) => {
            let mut reply = call.reply();
            reply.array(HELP.len());
            for line in HELP {
                reply.simple(line);
            }
            DONE
        }
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP."
            );
            Err(Failure::Text(text.into()))
        }
    }
}

fn sleep(call: &mut Call<'_>, seconds: &[u8]) -> Outcome {
    let seconds = std::str::from_utf8(seconds)
        .ok()
        .and_then(|s| s.parse().ok());
    let seconds: f64 = seconds.filter(|s: &f64| s.is_finite()).unwrap_or(0.0);
    std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.0, SLEEP_S_MAX)));
    call.ok()
}

fn rest(call: &mut Call<'_>, rests: bool) -> Outcome {
    // Relaxed: a wish that orders nothing.
    let place = &call.context.state.maintenance_paused;
    place.store(rests, Ordering::Relaxed);
    call.ok()
}

fn object(call: &mut Call<'_>) -> Outcome {
    let key = call.key_at(2)?;
    let encodings = call.context.state.parameters.encodings();
    let cache = call.cache();
    let is_changed = cache.facts(key, |facts| facts.changed).unwrap_or(false);
    let facts = cache.get(key, |item: Item<'_>| {
        let name = kind::encoding(item, is_changed, &encodings);
        (name, item.value.len())
    });
    let (encoding, bytes) = facts.ok_or(Failure::text("ERR no such key"))?;
    let line = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 \
         lru_seconds_idle:0"
    );
    call.reply().simple(&line);
    DONE
}

/// Answers a value of the type that is asked for.
fn protocol(call: &mut Call<'_>, kind: &[u8]) -> Outcome {
    let is_new = call.session.proto == Proto::V3;
    let mut reply = call.reply();
    let three = |reply: &mut Reply<'_>| (0..3).for_each(|number| reply.integer(number));
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk("Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(3_141.0 / 1_000.0),
        b"bignum" if is_new => append(&mut reply, b"(1234567999999999999999999999999999999\r\n"),
        b"bignum" => reply.bulk("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            three(&mut reply);
        }
        b"set" => {
            reply.set(3);
            three(&mut reply);
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if is_new {
                let attribute = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n";
                append(&mut reply, attribute);
            }
            reply.bulk("Some real reply following the attribute");
        }
        b"push" if is_new => {
            reply.push(2);
            reply.bulk("server-cpu-usage");
            reply.integer(42);
            reply.bulk("Some real reply following the push reply");
        }
        b"push" => return Err(Failure::text("ERR RESP2 is not supported by this command")),
        b"verbatim" => reply.verbatim("This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => return Err(WRONG_TYPE_NAME),
    }
    DONE
}

fn append(reply: &mut Reply<'_>, bytes: &[u8]) {
    reply.out.extend_from_slice(bytes);
}
