//! Room ahead: what stores a long value waits for its room, and what becomes of that meanwhile.

use crate::support::wait::wait_until;
use crate::support::{daemon, resp, session};

use std::sync::Arc;

use cellar_config::settings::Settings;
use cellar_config::settings::keep::Keep;
use cellar_engine::{Instant, ManualClock};
use cellar_shared::clients::client::Seat;
use cellar_shared::state::State;

use daemon::{Daemon, frame, pattern};
use resp::Client;
use session::{Session, UNIX_MS_AT_ZERO, state_of};

/// A server of one loop whose values may be half as long as its memory.
const SMALL: [&str; 6] = [
    "--threads",
    "1",
    "--memory",
    "64MiB",
    "--max-value",
    "32MiB",
];

const MIB: usize = 1 << 20;
const LONG: usize = 12 * MIB;
/// Longest collection, and longest string that is changed.
const CHANGED: usize = 3 * MIB;
/// Turns in which anything is done.
const TURNS_MAX: usize = 4_000;

/// A cache that is full of small items, and clients.
struct Full {
    state: State,
    clock: Arc<ManualClock>,
}

impl Full {
    fn of(keep: &str) -> Full {
        let settings = Settings {
            memory_bytes: 48 * MIB,
            threads: 1,
            max_value_bytes: Some(16 * MIB),
            keep: match keep {
                "" => Keep::default(),
                keep => Keep::parse(keep).unwrap(),
            },
            notify_keyspace_events: "KEA".to_owned(),
            ..Settings::default()
        };
        let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
        let full = Full {
            state: state_of(settings, Arc::<ManualClock>::clone(&clock), UNIX_MS_AT_ZERO),
            clock,
        };
        full.fill();
        full
    }

    fn new() -> Full {
        Full::of("")
    }

    fn client(&self) -> Session {
        Session::resp(Seat::default(), &self.state)
    }

    /// Stores small items until some leave.
    fn fill(&self) {
        let mut client = self.client();
        let before = self.evicted();
        for first in (0..).step_by(2_000) {
            let names: Vec<String> = (first..first + 2_000)
                .map(|n| format!("small {n}"))
                .collect();
            let pairs = names
                .iter()
                .flat_map(|name| [name.as_bytes(), &[b'v'; 240]]);
            let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
            assert_eq!(client.feed(&frame(&args), &self.state), b"+OK\r\n");
            if self.evicted() > before + 1_000 {
                break;
            }
        }
        client.end(&self.state);
    }

    /// Stores a value where there is no memory but that of live items: it takes what it needs and
    /// leaves none, so that what comes next waits for its room.
    fn store_in_full_memory(&self, key: &str, value: &[u8]) {
        self.run(&format!("DEL {key}"));
        let mut client = self.client();
        let mut full_chunks = 0;
        for chunk in 0..200 {
            let before = self.evicted();
            let names: Vec<String> = (0..256)
                .map(|number| format!("medium {chunk} {number}"))
                .collect();
            let pairs = names
                .iter()
                .flat_map(|name| [name.as_bytes(), &[b'v'; 4_000]]);
            let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
            assert_eq!(client.feed(&frame(&args), &self.state), b"+OK\r\n");
            // A long one that is evicted has room for many of these.
            let is_full = self.evicted() > before + 128;
            full_chunks = if is_full { full_chunks + 1 } else { 0 };
            if full_chunks == 3 {
                break;
            }
        }
        assert_eq!(full_chunks, 3, "memory is never full");
        client.end(&self.state);
        assert_eq!(self.ask(&[b"SET", key.as_bytes(), value]), "+OK\r\n");
    }

    fn evicted(&self) -> u64 {
        self.state.cache.stats().evicted
    }

    /// What a client of its own is answered.
    fn run(&self, words: &str) -> String {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.ask(&args)
    }

    fn ask(&self, args: &[&[u8]]) -> String {
        let mut client = self.client();
        let answer = client.feed(&frame(args), &self.state);
        client.end(&self.state);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The bytes of a string.
    fn value(&self, key: &str) -> Vec<u8> {
        let mut client = self.client();
        let answer = client.feed(&frame(&[b"GET", key.as_bytes()]), &self.state);
        client.end(&self.state);
        let head = answer.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        answer[head..]
            .strip_suffix(b"\r\n")
            .unwrap_or_default()
            .to_vec()
    }

    /// A turn of each step of a command; its answer, and how many turns it took.
    fn in_turns(&self, client: &mut Session, request: &[u8]) -> (Vec<u8>, usize) {
        self.beside(client, request, |_| ())
    }

    /// The same with something done between any two turns.
    fn beside(
        &self,
        client: &mut Session,
        request: &[u8],
        mut between: impl FnMut(usize),
    ) -> (Vec<u8>, usize) {
        let mut answer = client.feed_for(1, request, &self.state);
        let mut turns = 1;
        while answer.is_empty() {
            between(turns);
            answer = client.feed_for(1, b"", &self.state);
            turns += 1;
            assert!(turns < TURNS_MAX, "it never ends");
        }
        assert_eq!(
            (client.received_bytes(), client.held_bytes() > MIB),
            (0, false)
        );
        (answer, turns)
    }

    fn is_sound(&self) {
        let audit = self.state.cache.audit().unwrap();
        assert_eq!((audit.held_bytes, audit.draft_bytes), (0, 0));
    }
}

/// Stores a collection of so many bytes. In a full cache the first members may be evicted before
/// the last ones come; then it begins again.
fn grow(full: &Full, command: &[u8], key: &[u8], bytes: usize) {
    let length = match command {
        b"SADD" => "SCARD",
        b"HSET" => "HLEN",
        b"ZADD" => "ZCARD",
        _ => "LLEN",
    };
    let name = String::from_utf8_lossy(key);
    let whole = format!(":{}\r\n", bytes / 1_000);
    for _ in 0..10 {
        add_members(full, command, key, bytes);
        if full.run(&format!("{length} {name}")) == whole {
            return;
        }
        full.run(&format!("DEL {name}"));
    }
    panic!("{name} is evicted each time");
}

/// Adds members of so many bytes to a collection.
fn add_members(full: &Full, command: &[u8], key: &[u8], bytes: usize) {
    let mut client = full.client();
    let members: Vec<Vec<u8>> = (0..bytes / 1_000)
        .map(|number| format!("{number:01000}").into_bytes())
        .collect();
    for members in members.chunks(500) {
        let mut args = vec![command, key];
        for member in members {
            if command == b"ZADD" {
                args.push(b"1");
            }
            args.push(member);
            if command == b"HSET" {
                args.push(b"");
            }
        }
        let answer = client.feed(&frame(&args), &full.state);
        assert_eq!(answer[0], b':', "{}", String::from_utf8_lossy(&answer));
    }
    client.end(&full.state);
}

/// Commands that store a long value, their answers and the key that has it then.
fn stores<'a>(value: &'a [u8], dump: &'a [u8]) -> Vec<(Vec<&'a [u8]>, &'static str, &'static str)> {
    vec![
        (vec![b"SETEX", b"made", b"100", value], "+OK\r\n", "made"),
        (
            vec![b"PSETEX", b"made", b"100000", value],
            "+OK\r\n",
            "made",
        ),
        (vec![b"SETNX", b"made", value], ":1\r\n", "made"),
        (
            vec![b"MSET", b"a", b"1", b"made", value, b"b", b"2"],
            "+OK\r\n",
            "made",
        ),
        (
            vec![b"MSETNX", b"made", value, b"c", b"2"],
            ":1\r\n",
            "made",
        ),
        (
            vec![b"MSETEX", b"1", b"made", value, b"EX", b"9"],
            ":1\r\n",
            "made",
        ),
        (vec![b"COPY", b"source", b"made"], ":1\r\n", "made"),
        (vec![b"RENAME", b"source", b"made"], "+OK\r\n", "made"),
        (vec![b"RENAMENX", b"source", b"made"], ":1\r\n", "made"),
        (vec![b"RESTORE", b"made", b"0", dump], "+OK\r\n", "made"),
        (
            vec![b"BITOP", b"OR", b"made", b"source"],
            ":12582912\r\n",
            "made",
        ),
    ]
}

fn dump_of(full: &Full, key: &str) -> Vec<u8> {
    let mut client = full.client();
    let answer = client.feed(&frame(&[b"DUMP", key.as_bytes()]), &full.state);
    client.end(&full.state);
    let head = answer.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    answer[head..answer.len() - 2].to_vec()
}

#[test]
fn a_long_value_is_stored_whole_after_many_turns_and_none_of_them_has_many_leave() {
    let full = Full::new();
    let value = pattern(3, LONG);
    full.ask(&[b"SET", b"source", &value]);
    let dump = dump_of(&full, "source");
    for (args, expected, key) in stores(&value, &dump) {
        let name = String::from_utf8_lossy(args[0]).into_owned();
        full.run("DEL made a b c");
        full.ask(&[b"SET", b"source", &value]);
        full.store_in_full_memory("source", &value);
        let (mut last, mut most) = (full.evicted(), 0);
        let mut client = full.client();
        let (answer, turns) = full.beside(&mut client, &frame(&args), |_| {
            let now = full.evicted();
            most = most.max(now - last);
            last = now;
        });
        most = most.max(full.evicted() - last);
        assert_eq!(String::from_utf8_lossy(&answer), expected, "{name}");
        assert!(turns >= LONG / (2 * MIB), "{name}: {turns} turns");
        // A step, and what the insertion itself reclaims.
        assert!(most <= 3 * 4_096, "{name}: {most} at once");
        assert!(full.value(key) == value, "{name}");
        client.end(&full.state);
        full.is_sound();
    }
}

#[test]
fn a_value_that_is_changed_waits_for_the_room_of_the_new_one() {
    // What leaves when memory is filled depends on the hashes of the cache, and may make room.
    assert!((0..5).any(|_| waits_of_changed_values() > 0));
}

/// How many commands take several turns that change long values or make others of them. What is
/// written where it lies waits for nothing.
fn waits_of_changed_values() -> usize {
    let full = Full::new();
    let string = pattern(4, CHANGED);
    full.ask(&[b"SET", b"string", &string]);
    let grown = [
        (&b"SADD"[..], &b"set"[..]),
        (b"HSET", b"hash"),
        (b"ZADD", b"sorted"),
        (b"RPUSH", b"list"),
    ];
    let half = (CHANGED / 2_000).to_string();
    let words = [
        "SETRANGE string 3145730 more => :3145734",
        "APPEND string more => :",
        "SETBIT string 1 1 => :",
        "BITFIELD string SET u8 9 7 => *",
        "SADD set one => :",
        "HSET hash one 1 => :",
        "ZADD sorted 7 one => :",
        "SREM set one => :",
        "HINCRBY hash two 2 => :2",
        "ZINCRBY sorted 2 two => $",
        "SMOVE set set2 nothing => :0",
        "ZREMRANGEBYRANK sorted 0 99 => :100",
        "LINSERT list BEFORE nothing x => :-1",
        "SPOP set {half} => *",
        "ZPOPMIN sorted {half} => *",
        "SUNIONSTORE set2 set => :",
        "ZUNIONSTORE sorted2 1 sorted => :",
        "SORT list ALPHA STORE list2 => :3",
        "SADD set one => :",
        "SMOVE set set2 one => :",
        "LMOVE list list2 LEFT RIGHT => $",
        "ZMOVE sorted sorted2 MAX COUNT 9 => *",
        "ZMOVEMEMBER sorted sorted2 MEMBERS 1 one => *",
        "LMOVE list list RIGHT LEFT => $",
    ];
    let mut waited = 0;
    for line in words {
        let line = line.replace("{half}", &half);
        let (words, expected) = line.split_once(" => ").unwrap();
        // Any of them may have left for what another one needed.
        for &(command, key) in &grown {
            if full.run(&format!("EXISTS {}", String::from_utf8_lossy(key))) == ":0\r\n" {
                grow(&full, command, key, CHANGED);
            }
        }
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let mut client = full.client();
        let (answer, turns) = full.in_turns(&mut client, &frame(&args));
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(expected), "{words}: {answer:.60}");
        waited += usize::from(turns > 1);
        client.end(&full.state);
        full.is_sound();
        full.fill();
    }
    waited
}

/// A packet of the binary protocol: append or prepend.
fn packet(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = u32::try_from(key.len() + value.len()).unwrap();
    let mut packet = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0];
    packet.extend_from_slice(&body.to_be_bytes());
    packet.extend_from_slice(&[0; 12]);
    [&packet, key, value].concat()
}

#[test]
fn what_memcached_adds_to_a_value_waits_for_the_room_of_the_longer_one() {
    let full = Full::new();
    let string = pattern(4, CHANGED);
    let long = pattern(5, 100_000);
    let text = |head: &str, value: &[u8]| {
        let head = head.replace("{}", &value.len().to_string());
        [head.as_bytes(), b"\r\n", value, b"\r\n"].concat()
    };
    let mut waited = 0;
    for (request, added, at_front) in [
        (text("append string 0 0 {}", b"more"), &b"more"[..], false),
        (text("prepend string 0 0 {}", b"more"), b"more", true),
        (text("append string 0 0 {}", &long), &long, false),
        (text("ms string {} MA", b"more"), b"more", false),
        (text("ms string {} MP", &long), &long, true),
        (packet(0x0e, b"string", b"more"), b"more", false),
        (packet(0x0f, b"string", &long), &long, true),
    ] {
        full.ask(&[b"SET", b"string", &string]);
        full.store_in_full_memory("string", &string);
        let evicted = full.evicted();
        let mut client = Session::memcached();
        let mut answer = Vec::new();
        let mut turns = 0;
        let mut input = &request[..];
        while answer.is_empty() {
            answer = client.feed_for(1, std::mem::take(&mut input), &full.state);
            turns += 1;
            assert!(turns < TURNS_MAX, "it never ends");
        }
        let shown = String::from_utf8_lossy(&answer).into_owned();
        let is_done = shown == "STORED\r\n" || shown == "HD\r\n" || answer[6..8] == [0, 0];
        assert!(is_done, "{shown}");
        // A step for the value itself.
        waited += usize::from(turns > 3 && full.evicted() > evicted);
        let expected = match at_front {
            true => [added, &string].concat(),
            false => [&string, added].concat(),
        };
        assert!(full.value("string") == expected, "{shown}");
        client.end(&full.state);
        full.is_sound();
    }
    // A few bytes behind a value have room in its last page.
    assert!(waited >= 2, "{waited}");
}

#[test]
fn who_leaves_in_the_middle_leaves_nothing() {
    let full = Full::new();
    let value = pattern(5, LONG);
    full.ask(&[b"SET", b"source", &value]);
    let dump = dump_of(&full, "source");
    for (args, _, _) in stores(&value, &dump) {
        for turns in [1, 2, 7, 9] {
            full.run("DEL made");
            // It may have left for what is made of it.
            full.store_in_full_memory("source", &value);
            let mut client = full.client();
            let answer = client.feed_for(turns, &frame(&args), &full.state);
            assert_eq!(answer, b"", "{}", String::from_utf8_lossy(args[0]));
            client.end(&full.state);
            drop(client);
            full.is_sound();
            assert_eq!(full.run("EXISTS made"), ":0\r\n");
        }
    }
}

#[test]
fn what_becomes_of_the_source_of_a_copy_meanwhile_counts() {
    // There is room for all that is alive at any time.
    let long = LONG / 2;
    let value = pattern(6, long);
    let (same_length, shorter) = (pattern(7, long), pattern(8, long / 2));
    for command in ["COPY", "RENAME"] {
        let full = Full::new();
        let request = frame(&[command.as_bytes(), b"source", b"made"]);
        let check = |between: &[&[u8]], at: usize, expected: Option<&[u8]>| {
            full.run("DEL made");
            full.ask(&[b"SET", b"source", &value]);
            full.ask(&[b"SET", b"beside", &shorter]);
            full.store_in_full_memory("source", &value);
            let mut client = full.client();
            let (answer, turns) = full.beside(&mut client, &request, |turn| {
                if turn == at {
                    full.ask(between);
                }
            });
            assert!(turns > at, "{command}: {turns}");
            client.end(&full.state);
            match expected {
                Some(expected) => assert!(full.value("made") == expected, "{command} {at}"),
                None => assert!(
                    answer == b":0\r\n" || answer.starts_with(b"-ERR no such key"),
                    "{command}"
                ),
            }
            full.is_sound();
        };
        for at in [1, 2, 3] {
            check(&[b"SET", b"source", &same_length], at, Some(&same_length));
            check(&[b"SET", b"source", &shorter], at, Some(&shorter));
            check(&[b"SET", b"source", b"short"], at, Some(b"short"));
            check(&[b"DEL", b"source"], at, None);
            check(&[b"FLUSHALL"], at, None);
            check(&[b"PEXPIRE", b"source", b"900000"], at, Some(&value));
        }
        // One that changes each time is copied at once in the end.
        full.run("FLUSHALL");
        full.ask(&[b"SET", b"source", &value]);
        let mut client = full.client();
        let (_, turns) = full.beside(&mut client, &request, |turn| {
            full.ask(&[
                b"SET",
                b"source",
                if turn % 2 == 0 { &value } else { &same_length },
            ]);
        });
        assert!(turns < 1_000, "{turns}");
        assert!([&value, &same_length].contains(&&full.value("made")));
    }
}

#[test]
fn a_key_that_is_there_by_then_stays_where_it_must_not() {
    let full = Full::new();
    let value = pattern(5, LONG);
    full.ask(&[b"SET", b"source", &value]);
    for (args, refused) in [
        (vec![&b"SETNX"[..], b"made", &value], ":0\r\n"),
        (vec![b"COPY", b"source", b"made"], ":0\r\n"),
        (vec![b"RENAMENX", b"source", b"made"], ":0\r\n"),
        (vec![b"MSETNX", b"made", &value, b"other", b"x"], ":0\r\n"),
        (vec![b"RESTORE", b"made", b"0", b""], "-BUSYKEY"),
    ] {
        full.run("DEL made other");
        full.ask(&[b"SET", b"source", &value]);
        let dump = dump_of(&full, "source");
        let args: Vec<&[u8]> = args
            .iter()
            .map(|arg| if arg.is_empty() { &dump } else { *arg })
            .collect();
        let mut client = full.client();
        let (answer, _) = full.beside(&mut client, &frame(&args), |turn| {
            // Whatever leaves meanwhile.
            if turn >= 4 {
                full.run("SET made first");
            }
        });
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with(refused),
            "{}: {answer}",
            String::from_utf8_lossy(args[0])
        );
        assert_eq!(full.value("made"), b"first");
        full.is_sound();
    }
}

#[test]
fn several_that_want_more_than_half_of_memory_all_end() {
    let full = Full::new();
    let value = pattern(5, 15 * MIB);
    let mut clients: Vec<(Session, bool)> = (0..4).map(|_| (full.client(), false)).collect();
    for (number, (client, is_done)) in clients.iter_mut().enumerate() {
        let key = format!("key {number}").into_bytes();
        let request = frame(&[b"SETEX", &key, b"1000", &value]);
        *is_done = !client.feed_for(1, &request, &full.state).is_empty();
    }
    for _ in 0..TURNS_MAX {
        for (client, is_done) in clients.iter_mut().filter(|(_, is_done)| !is_done) {
            let answer = client.feed_for(1, b"", &full.state);
            if !answer.is_empty() {
                assert!(answer == b"+OK\r\n" || answer.starts_with(b"-OOM"));
                *is_done = true;
            }
        }
    }
    assert!(clients.iter().all(|(_, is_done)| *is_done));
    let there = (0..4).filter(|number| full.value(&format!("key {number}")) == value);
    assert!(there.count() >= 1);
    full.is_sound();
}

#[test]
fn it_is_told_of_once() {
    let full = Full::new();
    let value = pattern(5, LONG);
    let mut listener = full.client();
    listener.feed(&frame(&[b"PSUBSCRIBE", b"__keyevent@*"]), &full.state);
    let mut monitor = full.client();
    monitor.feed(&frame(&[b"MONITOR"]), &full.state);
    full.run("CONFIG RESETSTAT");
    full.run("SET made before");
    let _ = (
        listener.feed(b"", &full.state),
        monitor.feed(b"", &full.state),
    );
    let count = |text: &[u8], word: &str| String::from_utf8_lossy(text).matches(word).count();
    let mut client = full.client();
    let request = frame(&[b"SETEX", b"made", b"1000", &value]);
    let (answer, turns) = full.beside(&mut client, &request, |_| {
        assert_eq!(full.run("STRLEN made"), ":6\r\n");
    });
    assert!(answer == b"+OK\r\n" && turns > 5);
    let heard = listener.feed(b"", &full.state);
    assert_eq!(
        count(&heard, "@0__:set"),
        1,
        "{}",
        String::from_utf8_lossy(&heard)
    );
    let shown = String::from_utf8_lossy(&heard).into_owned();
    assert_eq!(count(&heard, "@0__:expire"), 1, "{shown}");
    let shown = monitor.feed(b"", &full.state);
    assert_eq!(count(&shown, "\"SETEX\""), 1);
    let stats = full.run("INFO commandstats");
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_setex"))
        .unwrap();
    assert!(line.starts_with("cmdstat_setex:calls=1,"), "{line}");
    assert!(
        line.contains("failed_calls=0") && line.contains("rejected_calls=0"),
        "{line}"
    );
}

#[test]
fn a_time_to_live_counts_from_the_store_and_a_source_may_be_over_by_then() {
    let full = Full::new();
    let value = pattern(5, LONG);
    let mut client = full.client();
    let request = frame(&[b"PSETEX", b"made", b"1000", &value]);
    full.beside(&mut client, &request, |_| {
        full.clock.advance_ms(300);
    });
    assert_eq!(full.run("PTTL made"), ":1000\r\n");
    full.clock.advance_ms(1_000);
    assert_eq!(full.run("EXISTS made"), ":0\r\n");
    full.ask(&[b"SET", b"source", &value, b"PX", b"1000"]);
    let request = frame(&[b"COPY", b"source", b"copy"]);
    let (answer, _) = full.beside(&mut client, &request, |_| {
        full.clock.advance_ms(300);
    });
    assert_eq!(answer, b":0\r\n");
    full.is_sound();
}

#[test]
fn a_transaction_takes_a_long_command_in_turns_and_what_follows_is_in_order() {
    let full = Full::new();
    let value = pattern(5, LONG);
    let mut client = full.client();
    client.feed(&frame(&[b"MULTI"]), &full.state);
    let request = [
        frame(&[b"SET", b"one", b"1"]),
        frame(&[b"SETEX", b"made", b"100", &value]),
        frame(&[b"APPEND", b"one", b"2"]),
        frame(&[b"SET", b"other", &value]),
        frame(&[b"GET", b"one"]),
    ]
    .concat();
    let first = client.feed_for(4, &request, &full.state);
    assert_eq!(first, b"+QUEUED\r\n");
    assert!(client.held_bytes() > 2 * MIB);
    let answer = client.feed(b"", &full.state);
    assert_eq!(answer, b"+QUEUED\r\n".repeat(4));
    assert!(client.held_bytes() >= 2 * LONG);
    let answer = client.feed(&frame(&[b"EXEC"]), &full.state);
    let expected = &b"*5\r\n+OK\r\n+OK\r\n:2\r\n+OK\r\n$2\r\n12\r\n"[..];
    assert_eq!(answer, expected);
    assert!(client.held_bytes() < MIB);
    assert!(full.value("made") == value && full.value("other") == value);
    full.is_sound();
    // In a script, too, it is one step.
    let argument = &value[..3 * MIB];
    let script = b"return redis.call('SETEX', KEYS[1], 10, ARGV[1])";
    assert_eq!(
        full.ask(&[b"EVAL", script, b"1", b"of script", argument]),
        "+OK\r\n"
    );
    assert!(full.value("of script") == argument);
}

#[test]
fn a_transaction_that_would_be_too_long_is_refused_before_anything_is_copied() {
    let full = Full::new();
    let value = vec![b'v'; 40 * MIB];
    let mut client = full.client();
    client.feed(&frame(&[b"MULTI"]), &full.state);
    let mut refused = false;
    for number in 0..4 {
        let request = frame(&[b"ECHO", &value]);
        let answer = client.feed(&request, &full.state);
        refused |= answer.starts_with(b"-ERR the transaction is too large");
        assert!(number > 0 || refused || answer == b"+QUEUED\r\n");
    }
    assert!(refused);
    assert!(
        client
            .feed(&frame(&[b"EXEC"]), &full.state)
            .starts_with(b"-EXECABORT")
    );
}

#[test]
fn in_a_database_that_keeps_what_does_not_fit_is_refused_and_what_is_no_longer_stays_possible() {
    let full = Full::of("3:16MiB");
    let value = pattern(5, 5 * MIB);
    let mut client = full.client();
    client.feed(&frame(&[b"SELECT", b"3"]), &full.state);
    let mut stored = 0;
    loop {
        let key = format!("key {stored}").into_bytes();
        let request = frame(&[b"SETEX", &key, b"1000", &value]);
        let (answer, _) = full.in_turns(&mut client, &request);
        if answer.starts_with(b"-OOM") {
            break;
        }
        assert_eq!(answer, b"+OK\r\n");
        stored += 1;
    }
    assert!((2..4).contains(&stored), "{stored}");
    assert_eq!(full.state.cache.no_eviction_stats()[0].refused, 1);
    let other = pattern(6, 5 * MIB);
    let request = frame(&[b"SETEX", b"key 0", b"1000", &other]);
    assert_eq!(full.in_turns(&mut client, &request).0, b"+OK\r\n");
    let (answer, _) = full.in_turns(&mut client, &frame(&[b"COPY", b"key 0", b"copy"]));
    assert!(
        answer.starts_with(b"-OOM"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let (answer, _) = full.in_turns(&mut client, &frame(&[b"STRLEN", b"key 0"]));
    assert_eq!(answer, format!(":{}\r\n", 5 * MIB).into_bytes());
    full.is_sound();
}

#[test]
fn over_a_socket_others_have_their_turns_and_pipelined_requests_their_order() {
    let daemon = Daemon::start(&SMALL);
    let mut other = Client::connect(&daemon);
    let mut client = Client::connect(&daemon);
    let value = pattern(9, 24 * MIB);
    for round in 0..3 {
        client.send(&[b"SETEX", b"long", b"100", &value]);
        client.send(&[b"COPY", b"long", b"copy", b"REPLACE"]);
        client.send(&[b"STRLEN", b"copy"]);
        client.send(&[b"PING"]);
        for _ in 0..50 {
            assert_eq!(other.run("PING").shown(), "+PONG");
        }
        assert_eq!(client.read().shown(), "+OK", "{round}");
        assert_eq!(client.read().shown(), ":1", "{round}");
        assert_eq!(client.read().shown(), format!(":{}", value.len()));
        assert_eq!(client.read().shown(), "+PONG");
        assert!(client.run("GET copy") == resp::Value::Bulk(value.clone()));
    }
    // Who hangs up in the middle holds nothing for long.
    for _ in 0..4 {
        let mut leaving = Client::connect(&daemon);
        leaving.send(&[b"SETEX", b"left", b"100", &value]);
        leaving.send(&[b"COPY", b"long", b"left", b"REPLACE"]);
        drop(leaving);
    }
    wait_until("nothing is held", || transfer_bytes(&daemon) == 0);
    assert_eq!(client.run("PING").shown(), "+PONG");
}

#[test]
fn who_watches_and_who_keeps_a_copy_hears_of_it_once() {
    let daemon = Daemon::start(&SMALL);
    let (mut near, mut watcher) = (Client::connect(&daemon), Client::connect(&daemon));
    let mut client = Client::connect(&daemon);
    let value = pattern(9, 24 * MIB);
    near.run("HELLO 3");
    near.run("CLIENT TRACKING on");
    let stores: [&[&[u8]]; 4] = [
        &[b"SETEX", b"made", b"100", &value],
        &[b"MSET", b"made", &value],
        &[b"COPY", b"source", b"made", b"REPLACE"],
        &[b"RENAME", b"source", b"made"],
    ];
    for store in stores {
        client.call(&[b"SET", b"source", &value]);
        client.run("SET made before");
        // What that invalidated.
        near.run("GET made");
        while near.run("GET made") != resp::bulk("before") {}
        watcher.run("WATCH made");
        client.send(store);
        let heard = near.read();
        assert!(matches!(&heard, resp::Value::Push(_)), "{}", heard.shown());
        assert_eq!(near.run("PING").shown(), "+PONG");
        client.read();
        watcher.run("MULTI");
        watcher.run("GET source");
        assert_eq!(watcher.run("EXEC"), resp::Value::Null);
    }
}

fn transfer_bytes(daemon: &Daemon) -> u64 {
    let page = crate::support::http::Http::to(daemon).get("/metrics");
    let line = page
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("cellar_transfer_bytes "));
    line.unwrap().parse().unwrap()
}
