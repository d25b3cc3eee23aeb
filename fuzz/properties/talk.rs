//! What a client of Redis's protocol gets: whole frames, and the same kinds of frames however its
//! bytes arrive.

use std::sync::Arc;

use cellar_config::settings::Settings;
use cellar_engine::{Cache, Clock, Config, Instant, ManualClock};
use cellar_shared::state::State;

use super::talk::Talk;

/// Memory of the cache behind the connection.
const MEMORY_BYTES: usize = 32 << 20;
/// Unix time at engine time zero, in milliseconds.
const UNIX_MS_AT_ZERO: u64 = 1_700_000_000_000;
/// Longest time of a script; short, as inputs with endless loops are found soon.
const SCRIPT_TIME_MS: u64 = 20;
/// Frames within frames: those of scripts, with room.
const DEPTH_MAX: usize = 64;
/// Words of commands whose answers are not the same each time.
const CHANCE: [&[u8]; 10] = [
    b"pop", b"rand", b"eval", b"time", b"lease", b"info", b"client", b"script", b"stat", b"slowlog",
];

/// A server with one event loop and a clock that stands still.
pub(crate) fn state() -> State {
    let settings = Settings {
        memory_bytes: MEMORY_BYTES,
        threads: 1,
        script_time_ms: SCRIPT_TIME_MS,
        ..Settings::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(Instant(5_000)));
    let config = Config {
        clock,
        seed: Some(7),
        lease_ms: settings.lease_ms,
        value_bytes_max: settings.value_bytes_max(),
        ..Config::with_memory(MEMORY_BYTES)
    };
    let cache = Cache::new(config).expect("the memory of a test is there");
    State::new(cache, settings, UNIX_MS_AT_ZERO)
}

/// The kinds of the frames in `answers`, nested ones too.
///
/// # Panics
/// If they are not whole frames.
pub(crate) fn kinds(answers: &[u8]) -> Vec<u8> {
    let (mut rest, mut kinds) = (answers, Vec::new());
    while !rest.is_empty() {
        rest = frame(rest, 0, &mut kinds);
    }
    kinds
}

fn frame<'a>(input: &'a [u8], depth: usize, kinds: &mut Vec<u8>) -> &'a [u8] {
    assert!(depth < DEPTH_MAX, "frames in frames without end");
    let end = input.windows(2).position(|two| two == b"\r\n");
    let end = end.unwrap_or_else(|| panic!("no line: {:.200}", input.escape_ascii()));
    let (line, mut rest) = (&input[1..end], &input[end + 2..]);
    let count = || {
        let text = std::str::from_utf8(line).expect("digits");
        let count: i64 = text.parse().expect("a number");
        usize::try_from(count).unwrap_or(0)
    };
    kinds.push(input[0]);
    match input[0] {
        b'+' | b'-' | b'_' | b'#' | b',' | b'(' => {}
        b':' => drop(count()),
        b'$' | b'=' if line == b"-1" => {}
        b'$' | b'=' => {
            assert!(rest[count()..].starts_with(b"\r\n"), "a longer string");
            rest = &rest[count() + 2..];
        }
        b'*' | b'~' | b'>' => {
            for _ in 0..count() {
                rest = frame(rest, depth + 1, kinds);
            }
        }
        b'%' => {
            for _ in 0..2 * count() {
                rest = frame(rest, depth + 1, kinds);
            }
        }
        other => panic!("no frame begins with {}", other.escape_ascii()),
    }
    rest
}

/// The kinds of the answers to `data`, which arrives in pieces of `piece_bytes`.
fn answered(data: &[u8], piece_bytes: usize) -> Vec<u8> {
    let state = state();
    let mut talk = Talk::new(&state);
    let pieces = data.chunks(piece_bytes.max(1));
    let answers: Vec<u8> = pieces.flat_map(|piece| talk.feed(piece)).collect();
    kinds(&answers)
}

/// Checks the property for one input.
#[allow(
    dead_code,
    reason = "each target that shares this file checks what it makes itself"
)]
pub(crate) fn check(data: &[u8]) {
    let whole = answered(data, data.len());
    let is_chance = |word: &&[u8]| {
        let mut places = data.windows(word.len());
        places.any(|place| place.eq_ignore_ascii_case(word))
    };
    if !CHANCE.iter().any(is_chance) {
        let piece_bytes = 1 + data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97;
        let cut = answered(data, piece_bytes);
        assert_eq!(
            cut.escape_ascii().to_string(),
            whole.escape_ascii().to_string(),
            "in pieces of {piece_bytes}"
        );
    }
}
