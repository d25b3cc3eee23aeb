//! Hostile bytes: nothing that a peer sends panics, and cutting it changes no answer; no operations
//! make the engine answer wrongly.
//!
//! The properties are those of fuzz/; here they run on the corpus that is kept in fuzz/corpus, and
//! from seeds on inputs made from the transcripts of conformance/ or from the corpus, the engine's
//! on random bytes: on a fixed number of them, so that each run tries the same ones, or for
//! `CELLAR_FUZZ_SECONDS`.

use std::path::Path;
use std::sync::Arc;

use cellar_engine::{Clock, ManualClock, SystemClock};

#[path = "../../../fuzz/properties/commands.rs"]
mod commands;
#[path = "../../../fuzz/properties/compress.rs"]
mod compress;
#[path = "../../../fuzz/properties/decode.rs"]
mod decode;
#[path = "../../../fuzz/properties/engine.rs"]
mod engine;
#[path = "../../../fuzz/properties/execute.rs"]
mod execute;
#[path = "../../../fuzz/properties/http.rs"]
mod http;
#[path = "../../../fuzz/properties/left.rs"]
mod left;
#[path = "../../../fuzz/properties/packets.rs"]
mod packets;
#[path = "../../../fuzz/properties/script.rs"]
mod script;
#[path = "../../../fuzz/properties/talk.rs"]
mod talks;
#[path = "../../../fuzz/properties/tls.rs"]
mod tls;

use crate::support::{session, talk};
use session::{Session, UNIX_MS_AT_ZERO, state};

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 4_000;
/// Longest input for the engine: a few thousand operations.
const OPERATION_BYTES_MAX: usize = 20_000;
/// Most changes made to one input.
const CHANGES_MAX: u64 = 8;

/// Pieces of requests that random bytes would not find.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b" ",
    b"get ",
    b"gets ",
    b"gat 0 ",
    b"set k 0 0 5\r\nhello\r\n",
    b"set k 0 0 ",
    b"ms k 5 ",
    b"mg k ",
    b"md k ",
    b"ma k ",
    b"me k",
    b"mn\r\n",
    b" noreply",
    b" b",
    b" N30",
    b" T0",
    b" R60",
    b" v",
    b" k",
    b" q",
    b" I",
    b" x",
    b" C1",
    b" E5",
    b" Oo",
    b"-1",
    b"2147483645",
    b"18446744073709551615",
    b"4294967296",
    b"\x80",
    b"\x00",
    b"flush_all",
    b"stats ",
    b"a",
    b"k",
    b"lru_crawler metadump all\r\n",
    b"incr k 1\r\n",
    b"cas k 0 0 1 1\r\nx\r\n",
    b"append k 0 0 1\r\n",
];

/// The same for the binary protocol: heads, whole requests, extras.
const BINARY_WORDS: &[&[u8]] = &[
    b"\x80",
    b"\x80\x0a\0\0\0\0\0\0\0\0\0\0last\0\0\0\0\0\0\0\0",
    b"\x80\x00\0\x01\0\0\0\0\0\0\0\x01abcd\0\0\0\0\0\0\0\0k",
    b"\x80\x0d\0\x01\0\0\0\0\0\0\0\x01abcd\0\0\0\0\0\0\0\0k",
    b"\x80\x1d\0\x01\x04\0\0\0\0\0\0\x05abcd\0\0\0\0\0\0\0\0\0\0\0\x05k",
    b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0aabcd\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\x09kv",
    b"\x80\x11\0\x01\x08\0\0\0\0\0\x50\x0aabcd\0\0\0\0\0\0\0\0",
    b"\x80\x02\0\x01\x08\0\0\0\0\x40\0\x0aabcd\0\0\0\0\0\0\0\0",
    b"\x80\x0e\0\x01\0\0\0\0\0\0\0\x02abcd\0\0\0\0\0\0\0\0k1",
    b"\x80\x04\0\x01\0\0\0\0\0\0\0\x01abcd\0\0\0\0\0\0\0\0k",
    b"\x80\x05\0\x01\x14\0\0\0\0\0\0\x15abcd\0\0\0\0\0\0\0\0",
    b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0n",
    b"\x80\x10\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0",
    b"\x80\x10\0\x05\0\0\0\0\0\0\0\x05abcd\0\0\0\0\0\0\0\0items",
    b"\x80\x08\x00\0\x04\0\0\0\0\0\0\x04abcd\0\0\0\0\0\0\0\0\0\0\0\x03",
    b"\x80\x21\0\x05\0\0\0\0\0\0\0\x09abcd\0\0\0\0\0\0\0\0PLAIN\0a\0b",
    b"\x80\x07\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0",
    b"\x80\x7f\0\0\0\0\0\0\0\0\0\x09abcd\0\0\0\0\0\0\0\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"k",
];

/// The same for HTTP.
const HTTP_WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b":",
    b"GET /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n",
    b"HEAD ",
    b"DELETE ",
    b"PUT /v1/cache/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /v1/cache/n/incr?delta=2&ttl=5 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/cache HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    b"{\"id\":\"a\",\"content\":[1]}",
    b"HTTP/1.0\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Content-Length: 20\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"If-Match: *\r\n",
    b"If-None-Match: *\r\n",
    b"If-None-Match: \"v1\", W/\"0123456789abcdef\"\r\n",
    b"Cache-Control: max-age=5, no-store\r\n",
    b"Content-Type: a/b\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"ffffffff\r\n",
    b"?lease=5&early=1",
    b"?ttl=1",
    b"%",
    b"%00",
    b"/incr",
    b"/batch/get",
    b"\x00",
    b"\xff",
];

/// The same for Redis's protocol.
const RESP_WORDS: &[&[u8]] = &[
    b"\r\n",
    b"*1\r\n",
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$17000\r\n",
    b"MULTI\r\n",
    b"EXEC\r\n",
    b"DISCARD\r\n",
    b"WATCH k\r\n",
    b"HELLO 3\r\n",
    b"RESET\r\n",
    b"SUBSCRIBE k\r\n",
    b"CLIENT REPLY SKIP\r\n",
    b"CLIENT TRACKING ON\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"*-1\r\n",
];

/// The same for scripts.
const SCRIPT_WORDS: &[&[u8]] = &[
    b"return ",
    b"redis.call('get', KEYS[1])",
    b"redis.pcall(",
    b"unpack(",
    b"('x'):rep(1e6)",
    b"string.format('%99.99f', ",
    b"for i = 1, 1e9 do ",
    b" end ",
    b"2147483647",
    b"-1",
    b"nil",
    b"{",
    b"}",
    b"setmetatable({}, {__index = function() return 1 end})",
    b"cjson.decode('",
    b"table.concat(",
    b"table.sort(",
    b"error(",
    b"pcall(",
];

/// A small generator of random numbers (xorshift), so that a seed tells the whole run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// What clients send in the transcripts, as bytes.
fn seeds(protocol: &str) -> Vec<Vec<u8>> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let home = home.join(protocol);
    let mut seeds = vec![Vec::new()];
    for entry in std::fs::read_dir(home).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut sent = Vec::new();
        for line in text
            .lines()
            .filter(|line| line.starts_with('>') && !line.contains("*"))
        {
            sent.extend_from_slice(line.get(2..).unwrap_or_default().as_bytes());
            sent.extend_from_slice(b"\r\n");
        }
        sent.truncate(INPUT_BYTES_MAX);
        seeds.push(sent);
    }
    seeds
}

fn change(input: &mut Vec<u8>, words: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(40)).min(input.len());
    match random.next() % 6 {
        0 if at < input.len() => input[at] = random.next() as u8,
        1 => drop(input.drain(at..end)),
        2 => {
            let piece = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, piece);
        }
        3 => input.truncate(at),
        _ => {
            let word = words[random.below(words.len())];
            input.splice(at..at, word.iter().copied());
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// The inputs that are kept for a target of fuzz/, in an order that is always the same.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = std::fs::read_dir(home.join(target)).unwrap();
    let mut inputs: Vec<Vec<u8>> = files
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!inputs.is_empty(), "nothing is kept for {target}");
    inputs.sort_unstable();
    inputs
}

/// Runs `check` on one input, and shows the input if it fails.
fn try_one(input: &[u8], check: impl Fn(&[u8])) {
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(input)));
    if let Err(panic) = checked {
        eprintln!("input: {}", input.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}

/// Runs `check` on a target's corpus.
fn replay(target: &str, check: impl Fn(&[u8])) {
    for input in corpus(target) {
        try_one(&input, &check);
    }
}

/// Runs `check` on seeds, then on changed ones until the time is over.
fn run_changed(seed: u64, protocol: &str, words: &[&[u8]], check: impl Fn(&[u8])) {
    let seeds = seeds(protocol);
    seeds.iter().for_each(|seed| check(seed));
    run_on(seed, &seeds, words, check);
}

/// Runs `check` on changed seeds until the time is over.
fn run_on(seed: u64, seeds: &[Vec<u8>], words: &[&[u8]], check: impl Fn(&[u8])) {
    let input = |random: &mut Random| {
        let source = &seeds[random.below(seeds.len())];
        let from = random.below(source.len() + 1);
        let until = from + random.below((source.len() - from).min(600) + 1);
        let mut input = source[from..until].to_vec();
        for _ in 0..=random.next() % CHANGES_MAX {
            change(&mut input, words, random);
        }
        input
    };
    run(seed, INPUTS, input, check);
}

/// Inputs that are tried where no time is set.
const INPUTS: u32 = 300;
/// The same where an input is thousands of operations, which take milliseconds.
const LONG_INPUTS: u32 = 30;

/// Runs `check` on so many inputs, or on inputs until the time is over that is set.
fn run(seed: u64, inputs: u32, input: impl Fn(&mut Random) -> Vec<u8>, check: impl Fn(&[u8])) {
    let seconds = std::env::var("CELLAR_FUZZ_SECONDS").ok().map(|text| {
        let seconds: u64 = text.parse().expect("CELLAR_FUZZ_SECONDS is a number");
        seconds
    });
    let clock = SystemClock::new();
    let mut random = Random(seed);
    for tried in 0.. {
        let goes_on = match seconds {
            Some(seconds) => clock.now().0 < seconds * 1000,
            None => tried < inputs,
        };
        if !goes_on {
            return;
        }
        try_one(&input(&mut random), &check);
    }
}

#[test]
fn the_decoder_finds_the_same_requests_however_bytes_arrive() {
    run_changed(0x9e37_79b9_7f4a_7c15, "memcached", WORDS, decode::check);
}

#[test]
fn a_connection_gives_the_same_answers_however_bytes_arrive() {
    run_changed(0xbf58_476d_1ce4_e5b9, "memcached", WORDS, execute::check);
}

#[test]
fn the_binary_decoder_finds_the_same_packets_however_bytes_arrive() {
    let seeds = corpus("packets");
    run_on(0x2545_f491_4f6c_dd1d, &seeds, BINARY_WORDS, packets::check);
}

#[test]
fn a_binary_connection_gives_the_same_answers_however_bytes_arrive() {
    let seeds = corpus("packets");
    run_on(
        0x9fb2_1c65_1e98_df25,
        &seeds,
        BINARY_WORDS,
        execute::check_binary,
    );
}

#[test]
fn the_http_decoder_finds_the_same_requests_however_bytes_arrive() {
    run_changed(0xd6e8_feb8_6659_fd93, "http", HTTP_WORDS, http::check);
}

#[test]
fn a_connection_for_http_gives_the_same_answers_however_bytes_arrive() {
    run_changed(
        0xa076_1d64_78bd_642f,
        "http",
        HTTP_WORDS,
        execute::check_http,
    );
}

#[test]
fn the_engine_finds_what_was_stored_last_or_nothing_whatever_is_done_to_it() {
    let input = |random: &mut Random| {
        let bytes = random.below(OPERATION_BYTES_MAX);
        (0..bytes).map(|_| (random.next() >> 40) as u8).collect()
    };
    run(0x94d0_49bb_1331_11eb, LONG_INPUTS, input, engine::check);
}

#[test]
fn compressed_values_come_back_as_they_were() {
    let input = |random: &mut Random| {
        let bytes = random.below(INPUT_BYTES_MAX);
        (0..bytes).map(|_| (random.next() >> 40) as u8).collect()
    };
    run(0x6c62_272e_07bb_0142, LONG_INPUTS, input, compress::check);
}

#[test]
fn a_connection_of_redis_gets_whole_frames_however_bytes_arrive() {
    let seeds = corpus("talk");
    run_on(0x1234_5678_9abc_def1, &seeds, RESP_WORDS, talks::check);
}

#[test]
fn commands_of_all_sizes_are_answered_with_whole_frames() {
    let seeds = corpus("commands");
    run_on(
        0x2545_f491_4f6c_dd1d,
        &seeds,
        &[b"\0", b"\xff"],
        commands::check,
    );
}

#[test]
fn a_script_of_any_text_is_answered_and_leaves_nothing_behind() {
    let seeds = corpus("script");
    run_on(0x9e37_79b9_7f4a_7c17, &seeds, SCRIPT_WORDS, script::check);
}

#[test]
fn no_bytes_before_a_handshake_do_more_than_end_it() {
    let words = [
        &b"\x16\x03\x01"[..],
        b"\x01\0\0",
        b"\x14\x03\x03\0\x01\x01",
        b"\xff\xff",
    ];
    run_on(
        0x2b99_2ddf_a232_49d6,
        &[tls::hello()],
        &words,
        tls::check_hello,
    );
}

#[test]
fn what_is_encrypted_is_read_as_it_was_written() {
    let input = |random: &mut Random| {
        let bytes = random.below(OPERATION_BYTES_MAX);
        (0..bytes).map(|_| (random.next() >> 40) as u8).collect()
    };
    run(0x6c62_272e_07bb_0142, INPUTS, input, tls::check_sealed);
}

#[test]
fn what_a_process_left_is_not_believed_when_it_was_changed() {
    // A kill or a clean stop, and few changes at once.
    let input = |random: &mut Random| {
        let changes = 1 + random.below(6);
        (0..1 + 6 * changes)
            .map(|_| (random.next() >> 40) as u8)
            .collect()
    };
    run(0x2545_f491_4f6c_dd1d, LONG_INPUTS, input, left::check);
    replay("left", left::check);
    left::remove();
}

#[test]
fn what_was_found_by_the_codecs_is_found_no_more() {
    replay("decode", decode::check);
    replay("packets", packets::check);
    replay("http", http::check);
}

#[test]
fn what_was_found_by_connections_is_found_no_more() {
    replay("execute", execute::check);
    replay("packets", execute::check_binary);
    replay("http", execute::check_http);
}

#[test]
fn what_was_found_by_the_engine_is_found_no_more() {
    replay("engine", engine::check);
}

#[test]
fn what_was_found_by_conversations_is_found_no_more() {
    replay("talk", talks::check);
}

#[test]
fn what_was_found_by_commands_is_found_no_more() {
    replay("commands", commands::check);
}

#[test]
fn what_was_found_by_scripts_is_found_no_more() {
    replay("script", script::check);
}

#[test]
fn what_was_found_by_tls_is_found_no_more() {
    replay("hello", tls::check_hello);
    replay("sealed", tls::check_sealed);
}

#[test]
fn a_read_of_one_large_value_many_times_is_answered_piece_by_piece() {
    let state = state(Arc::new(ManualClock::default()), 64 << 20, UNIX_MS_AT_ZERO);
    let mut session = Session::memcached();
    let value = vec![b'v'; 15_000];
    let mut set = format!("set k 0 0 {}\r\n", value.len()).into_bytes();
    set.extend_from_slice(&value);
    set.extend_from_slice(b"\r\n");
    assert_eq!(session.feed(&set, &state), b"STORED\r\n");
    let keys = 1_000;
    let answer = session.feed(
        &[b"get".as_slice(), &b" k".repeat(keys), b"\r\n"].concat(),
        &state,
    );
    assert_eq!(
        answer.len(),
        keys * (b"VALUE k 0 15000\r\n".len() + value.len() + 2) + 5
    );
    assert!(
        session.longest_answer() < 512 << 10,
        "{} bytes at once",
        session.longest_answer()
    );
}

#[test]
fn a_line_of_keys_without_end_closes_the_connection() {
    let state = state(Arc::new(ManualClock::default()), 64 << 20, UNIX_MS_AT_ZERO);
    let mut session = Session::memcached();
    let mut answer = session.feed(b"get ", &state);
    for _ in 0..300 {
        answer.extend(session.feed(&b"k ".repeat(2_000), &state));
    }
    assert_eq!(answer, b"SERVER_ERROR out of memory reading request\r\n");
    assert!(session.is_closed());
}
