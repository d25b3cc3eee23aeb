//! The wall clock: what is told or asked as a Unix time follows its steps, what is left of a
//! relative time does not move. Within a script and a transaction no clock moves.

use crate::support::session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cellar_engine::{Clock, ManualClock};
use cellar_shared::clients::client::Seat;
use cellar_shared::metrics::exposition;
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use session::{Session, UNIX_MS_AT_ZERO};

const HOUR_MS: i64 = 3_600_000;
/// For how long the server has been up when the clock steps.
const UPTIME_MS: u64 = 600_000;

/// Steps of the wall clock: forward, back, a little, to before the server's start, to 1970.
const STEPS_MS: [i64; 6] = [
    HOUR_MS,
    -2 * HOUR_MS,
    2_000,
    -60_000,
    365 * 24 * HOUR_MS,
    -(UNIX_MS_AT_ZERO as i64) + 24 * HOUR_MS,
];

/// A server with a client of each protocol, whose wall clock can be set.
struct Desk {
    clock: Arc<ManualClock>,
    state: State,
    memcached: Session,
    http: Session,
    resp: Session,
}

impl Desk {
    fn new() -> Desk {
        let clock = Arc::new(ManualClock::default());
        clock.advance_ms(UPTIME_MS);
        let clock_of_engine = Arc::clone(&clock) as Arc<dyn Clock>;
        let state = session::state(clock_of_engine, 8 << 20, UNIX_MS_AT_ZERO);
        let seat = Seat {
            peer: "127.0.0.1:1".to_owned(),
            local: "127.0.0.1:2".to_owned(),
            ..Seat::default()
        };
        Desk {
            resp: Session::resp(seat, &state),
            clock,
            state,
            memcached: Session::memcached(),
            http: Session::http(),
        }
    }

    /// The Unix time that the wall clock shows, in milliseconds.
    fn unix_ms(&self) -> u64 {
        self.state.wall.unix_ms(self.clock.now())
    }

    /// Sends words over RESP; returns the reply with its lines joined by spaces.
    fn redis(&mut self, words: &str) -> String {
        let args: Vec<&str> = words.split(' ').collect();
        let mut frame = format!("*{}\r\n", args.len());
        for arg in args {
            frame.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        let reply = self.resp.feed(frame.as_bytes(), &self.state);
        let reply = String::from_utf8(reply).unwrap();
        reply.trim_end().replace("\r\n", " ")
    }

    /// Sends a line over memcached's protocol.
    fn memcached(&mut self, line: &str) -> String {
        let line = format!("{}\r\n", line.replace('|', "\r\n"));
        let reply = self.memcached.feed(line.as_bytes(), &self.state);
        let reply = String::from_utf8(reply).unwrap();
        reply.trim_end().replace("\r\n", " ")
    }

    /// Sends a request over HTTP; returns the whole reply.
    fn web(&mut self, request: &str) -> String {
        let request = format!("{request}\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        let reply = self.http.feed(request.as_bytes(), &self.state);
        String::from_utf8(reply).unwrap()
    }

    /// Checks that `key` leaves in 60 s and says so in every protocol.
    fn check_a_minute(&mut self, key: &str, what: &str) {
        let deadline_ms = self.unix_ms() + 60_000;
        for (words, expected) in [
            (format!("TTL {key}"), ":60".to_owned()),
            (format!("PTTL {key}"), ":60000".to_owned()),
            (format!("PEXPIRETIME {key}"), format!(":{deadline_ms}")),
            (
                format!("EXPIRETIME {key}"),
                format!(":{}", (deadline_ms + 500) / 1_000),
            ),
        ] {
            assert_eq!(self.redis(&words), expected, "{words} after {what}");
        }
        let meta = self.memcached(&format!("mg {key} t"));
        assert!(meta.starts_with("HD t60"), "{meta} after {what}");
        let web = self.web(&format!("GET /v1/cache/{key} HTTP/1.1"));
        // What a lease holds open is nobody's value yet.
        let is_open = what.starts_with("mg k N") && web.starts_with("HTTP/1.1 404");
        assert!(is_open || web.contains("max-age=60"), "{web} after {what}");
    }
}

/// Ways to say a deadline as a Unix time: S in seconds, MS in milliseconds. Those on the left come
/// before.
const OVER_RESP: [(&str, &str); 13] = [
    ("", "SET k v EXAT S"),
    ("", "SET k v PXAT MS"),
    ("SET k v", "GETEX k EXAT S"),
    ("SET k v", "GETEX k PXAT MS"),
    ("SET k v", "EXPIREAT k S"),
    ("SET k v", "PEXPIREAT k MS"),
    ("SET k v EX 5000", "EXPIREAT k S LT"),
    ("", "MSETEX 1 k v EXAT S"),
    ("", "MSETEX 1 k v PXAT MS"),
    ("SET k 1", "INCREX k EXAT S"),
    ("SET k 1", "INCREX k PXAT MS"),
    ("SET k v", "EVAL return(redis.call('EXPIREAT','k',S)) 0"),
    ("", "EVAL return(redis.call('SET','k','v','PXAT',MS)) 0"),
];

const OF_FIELDS: [&str; 6] = [
    "HEXPIREAT h S FIELDS 1 f",
    "HPEXPIREAT h MS FIELDS 1 f",
    "HGETEX h EXAT S FIELDS 1 f",
    "HGETEX h PXAT MS FIELDS 1 f",
    "HSETEX h EXAT S FIELDS 1 f w",
    "HSETEX h PXAT MS FIELDS 1 f w",
];

const OVER_MEMCACHED: [(&str, &str); 12] = [
    ("", "set k 0 S 1|v"),
    ("", "add k 0 S 1|v"),
    ("set k 0 0 1|v", "replace k 0 S 1|v"),
    ("set k 0 0 1|v", "touch k S"),
    ("set k 0 0 1|v", "gat S k"),
    ("set k 0 0 1|v", "gats S k"),
    ("", "ms k 1 TS|v"),
    ("set k 0 0 1|v", "mg k TS"),
    ("", "mg k NS"),
    ("set k 0 0 1|1", "ma k TS"),
    ("", "ma k NS"),
    ("set k 0 0 1|v", "md k I TS"),
];

#[test]
fn every_absolute_deadline_goes_by_the_clock_as_it_is_now() {
    for step_ms in STEPS_MS {
        let mut desk = Desk::new();
        desk.state.wall.step_ms(step_ms);
        let unix_ms = desk.unix_ms() + 60_000;
        for (before, words) in OVER_RESP {
            desk.redis("DEL k");
            if !before.is_empty() {
                desk.redis(before);
            }
            let reply = desk.redis(&fill(words, unix_ms));
            assert!(!reply.starts_with('-'), "{words}: {reply}");
            desk.check_a_minute("k", &format!("{words} and a step of {step_ms} ms"));
        }
        for words in OF_FIELDS {
            desk.redis("DEL h");
            desk.redis("HSET h f v");
            let reply = desk.redis(&fill(words, unix_ms));
            assert!(!reply.starts_with('-'), "{words}: {reply}");
            for (asked, expected) in [
                ("HPTTL h FIELDS 1 f", 60_000),
                ("HPEXPIRETIME h FIELDS 1 f", unix_ms),
                ("HEXPIRETIME h FIELDS 1 f", unix_ms / 1_000),
            ] {
                let expected = format!("*1 :{expected}");
                assert_eq!(desk.redis(asked), expected, "{asked} after {words}");
            }
        }
        // Numbers up to 30 days are relative there.
        if unix_ms <= 30 * 24 * HOUR_MS as u64 {
            continue;
        }
        for (before, line) in OVER_MEMCACHED {
            desk.redis("DEL k");
            if !before.is_empty() {
                desk.memcached(before);
            }
            let reply = desk.memcached(&fill(line, unix_ms));
            assert!(!reply.contains("ERROR"), "{line}: {reply}");
            desk.check_a_minute("k", &format!("{line} and a step of {step_ms} ms"));
        }
    }
}

/// `words` with the time in it: `S` and `MS` that stand alone or behind one letter of a flag.
fn fill(words: &str, unix_ms: u64) -> String {
    let (s, ms) = ((unix_ms / 1_000).to_string(), unix_ms.to_string());
    let of_word = |word: &str| match word {
        "S" => s.clone(),
        "MS" => ms.clone(),
        "TS" => format!("T{s}"),
        "NS" => format!("N{s}"),
        _ => word
            .replace(",S)", &format!(",{s})"))
            .replace(",MS)", &format!(",{ms})")),
    };
    let words: Vec<String> = words
        .split('|')
        .map(|line| line.split(' ').map(of_word).collect::<Vec<_>>().join(" "))
        .collect();
    words.join("|")
}

#[test]
fn what_is_past_by_the_clock_as_it_is_now_is_gone_at_once() {
    for step_ms in STEPS_MS {
        let mut desk = Desk::new();
        desk.state.wall.step_ms(step_ms);
        let now_s = desk.unix_ms() / 1_000;
        for unix_s in [now_s, now_s - 1, now_s - 7_200, 1] {
            desk.redis("SET k v");
            desk.redis(&format!("EXPIREAT k {unix_s}"));
            assert_eq!(desk.redis("EXISTS k"), ":0", "{unix_s} at {now_s}");
            if unix_s > 30 * 24 * 3_600 {
                desk.memcached(&format!("set k 0 {unix_s} 1|v"));
                assert_eq!(desk.memcached("mg k v"), "EN", "{unix_s} at {now_s}");
            }
        }
    }
}

#[test]
fn what_is_left_of_an_item_does_not_move_with_the_clock() {
    for step_ms in STEPS_MS {
        let mut desk = Desk::new();
        let before_s = desk.unix_ms() / 1_000 + 60;
        desk.redis("SET ex v EX 60");
        desk.redis(&format!("SET exat v EXAT {before_s}"));
        desk.redis("HSET hash f v");
        desk.redis("HPEXPIRE hash 60000 FIELDS 1 f");
        desk.memcached("set exptime 0 60 1|v");
        desk.memcached(&format!("set unix 0 {before_s} 1|v"));
        desk.web("PUT /v1/cache/web?ttl=60s HTTP/1.1");
        desk.state.wall.step_ms(step_ms);
        let keys = ["ex", "exat", "exptime", "unix", "web"];
        for key in keys {
            desk.check_a_minute(key, &format!("a step of {step_ms} ms"));
        }
        let unix_ms = desk.unix_ms() + 60_000;
        let field = desk.redis("HPEXPIRETIME hash FIELDS 1 f");
        assert_eq!(field, format!("*1 :{unix_ms}"));
        desk.clock.advance_ms(59_999);
        assert_eq!(desk.redis(&format!("EXISTS {}", keys.join(" "))), ":5");
        desk.clock.advance_ms(1);
        assert_eq!(desk.redis(&format!("EXISTS {} hash", keys.join(" "))), ":0");
    }
}

/// The number behind a name in a text.
fn number_behind(text: &str, name: &str) -> u64 {
    let rest = text
        .split(name)
        .nth(1)
        .unwrap_or_else(|| panic!("{name}: {text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn everything_that_tells_the_time_tells_the_same() {
    for step_ms in STEPS_MS {
        let mut desk = Desk::new();
        desk.redis("SET k v EX 60");
        desk.state.wall.step_ms(step_ms);
        let (now_ms, now_s) = (desk.unix_ms(), desk.unix_ms() / 1_000);
        let start_s = (now_ms.saturating_sub(UPTIME_MS)) / 1_000;

        let time = desk.redis("TIME");
        let words: Vec<&str> = time.split(' ').collect();
        let time_us =
            words[2].parse::<u64>().unwrap() * 1_000_000 + words[4].parse::<u64>().unwrap();
        assert_eq!(time_us, now_ms * 1_000);
        let info = desk.redis("INFO");
        assert_eq!(number_behind(&info, "server_time_usec:"), time_us);
        assert_eq!(
            number_behind(&info, "uptime_in_seconds:"),
            UPTIME_MS / 1_000
        );
        assert_eq!(desk.redis("LASTSAVE"), format!(":{start_s}"));

        let stats = desk.memcached("stats");
        assert_eq!(number_behind(&stats, "STAT time "), now_s);
        assert_eq!(number_behind(&stats, "STAT uptime "), now_s - start_s);
        let listed = desk.memcached("lru_crawler metadump all");
        assert_eq!(number_behind(&listed, "exp="), (now_ms + 60_000) / 1_000);
        assert_eq!(number_behind(&listed, "la="), now_s);

        let web = desk.web("GET /v1/cache/k HTTP/1.1");
        let date = web
            .lines()
            .find_map(|line| line.strip_prefix("Date: "))
            .unwrap();
        let date = httpdate::parse_http_date(date).unwrap();
        let date_s = date
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert_eq!(date_s, now_s);

        let metrics = exposition(&desk.state);
        assert_eq!(number_behind(&metrics, "\nmemcached_time_seconds "), now_s);
        for name in ["process_start_time_seconds", "redis_start_time_seconds"] {
            assert_eq!(number_behind(&metrics, &format!("\n{name} ")), start_s);
        }

        desk.redis("CONFIG SET slowlog-log-slower-than 0");
        desk.redis("DBSIZE");
        let slow = desk.redis("SLOWLOG GET 1");
        assert!(slow.contains(&format!(":{now_s} ")), "{now_s}: {slow}");
    }
}

/// A client whose clock another thread moves all the time, 1 ms at a time, and which lets keys
/// expire that are due.
struct Hurry {
    clock: LoopClock,
    state: State,
    client: Session,
}

impl Hurry {
    fn new() -> Hurry {
        let clock = LoopClock::stopped();
        let state = session::state_over(clock.clone());
        let client = Session::resp(Seat::default(), &state);
        Hurry {
            clock,
            state,
            client,
        }
    }

    /// Sends requests, their words apart by spaces, while the clock is moved; the replies.
    fn ask(&mut self, requests: &[&[&str]]) -> String {
        let mut frames = String::new();
        for words in requests {
            frames.push_str(&format!("*{}\r\n", words.len()));
            for word in *words {
                frames.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
        }
        let is_done = AtomicBool::new(false);
        let replies = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    self.clock.advance_ms(1);
                    let (observer, cache) = (&self.state.observer, &self.state.cache);
                    observer.expire_due(cache, &self.clock);
                }
            });
            let replies = self.client.feed(frames.as_bytes(), &self.state);
            is_done.store(true, Ordering::Relaxed);
            replies
        });
        String::from_utf8(replies).unwrap()
    }
}

#[test]
fn no_key_expires_within_a_script() {
    const COUNT: &str = "
        redis.call('SET', KEYS[1], 1, 'PX', 1)
        for _ = 1, 3000 do
            if redis.call('GET', KEYS[1]) then redis.call('INCR', KEYS[1]) end
            if redis.call('PTTL', KEYS[1]) ~= 1 then return 'lost' end
        end
        return redis.call('GET', KEYS[1])";
    let mut hurry = Hurry::new();
    // With notifications the server lets keys expire on time, from a thread of its own.
    for events in ["", "KEx"] {
        hurry.ask(&[&["CONFIG", "SET", "notify-keyspace-events", events]]);
        let reply = hurry.ask(&[&["EVAL", COUNT, "1", "k"], &["PTTL", "k"]]);
        assert!(reply.starts_with("$4\r\n3001\r\n:"), "{events}: {reply}");
    }
    // The counter is no immortal one.
    hurry.clock.advance_ms(2);
    assert_eq!(hurry.ask(&[&["EXISTS", "k"]]), ":0\r\n");
}

#[test]
fn a_script_and_a_function_see_one_time() {
    const BODY: &str = "
        local first = redis.call('TIME')
        for _ = 1, 300 do
            local now = redis.call('TIME')
            if now[1] ~= first[1] or now[2] ~= first[2] then return 'moved' end
            local ms = now[1] * 1000 + math.floor(now[2] / 1000)
            redis.call('SET', 'k', 'v')
            redis.call('PEXPIREAT', 'k', string.format('%d', ms))
            if redis.call('EXISTS', 'k') ~= 0 then return 'there' end
            redis.call('SET', 'k', 'v', 'PXAT', string.format('%d', ms + 1))
            if redis.call('EXISTS', 'k') ~= 1 then return 'gone' end
        end
        return 'still'";
    let library = format!("#!lua name=l\nredis.register_function('f', function() {BODY} end)");
    let mut hurry = Hurry::new();
    assert_eq!(hurry.ask(&[&["EVAL", BODY, "0"]]), "$5\r\nstill\r\n");
    let replies = hurry.ask(&[&["FUNCTION", "LOAD", &library], &["FCALL", "f", "0"]]);
    assert_eq!(replies, "$1\r\nl\r\n$5\r\nstill\r\n");
}

#[test]
fn no_key_expires_within_a_transaction() {
    let mut hurry = Hurry::new();
    let mut requests: Vec<&[&str]> = vec![&["MULTI"], &["SET", "k", "1", "PX", "1"]];
    requests.resize(2_000, &["INCR", "k"]);
    requests.extend([&["PTTL", "k"][..], &["TIME"], &["TIME"], &["EXEC"]]);
    let replies = hurry.ask(&requests);
    let (_, end) = replies.split_once(":1999\r\n").expect("it was never gone");
    let (left, times) = end.split_once("\r\n").unwrap();
    assert_eq!(left, ":1");
    let (first, second) = times.split_at(times.len() / 2);
    assert_eq!(first, second);
}
