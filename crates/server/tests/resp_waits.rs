//! Commands that wait for a value: who gets it, when, and who is forgotten.

use crate::support::wait::{PATIENCE, comes_true};
use crate::support::{daemon, resp, users, vitals};

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use daemon::{Daemon, frame};
use resp::{Client, Value, bulk, bulks, error, ok};
use rustix::net::sockopt::set_socket_linger;
use users::UsersFile;
use vitals::raise_descriptors;

const WRONG: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// A number in a section of INFO.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.run("INFO clients").shown();
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, number) = fields.find(|(field, _)| *field == name).unwrap();
    number.trim().parse().unwrap()
}

/// A server with two event loops, and a client that looks at it.
struct Room {
    daemon: Daemon,
    host: Client,
    waiting: u64,
}

impl Room {
    fn open(flags: &[&str]) -> Room {
        Room::of(Daemon::start(flags))
    }

    fn of(daemon: Daemon) -> Room {
        let host = Client::connect(&daemon);
        Room {
            daemon,
            host,
            waiting: 0,
        }
    }

    /// A client whose command waits by now.
    fn wait(&mut self, words: &str) -> Client {
        let mut client = Client::connect(&self.daemon);
        self.wait_with(&mut client, words);
        client
    }

    fn wait_with(&mut self, client: &mut Client, words: &str) {
        self.waiting = info(&mut self.host, "blocked_clients") + 1;
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        client.send(&args);
        self.expect_waiting(self.waiting);
    }

    fn expect_waiting(&mut self, count: u64) {
        let host = &mut self.host;
        let is_so = || info(host, "blocked_clients") == count;
        assert!(comes_true(PATIENCE, is_so), "{count} do not wait");
    }

    /// Nobody waits, and nothing is left of who has.
    fn expect_nobody(&mut self) {
        self.expect_waiting(0);
        for name in ["clients_in_timeout_table", "total_blocking_keys"] {
            // A client is out of one list before it is out of the others.
            let is_nobody = || info(&mut self.host, name) == 0;
            assert!(comes_true(PATIENCE, is_nobody), "{name}");
        }
    }
}

fn pair(key: &str, element: &str) -> Value {
    bulks(&[key, element])
}

#[test]
fn what_is_there_is_taken_at_once_from_the_first_key_that_has_some() {
    let mut room = Room::open(&[]);
    room.host.check(
        "RPUSH l a b c d e f g h => :8
         BLPOP none l 0 => [l, a]
         BRPOP none l 0 => [l, h]
         BLMOVE l m LEFT RIGHT 0 => b
         BRPOPLPUSH l m 0 => g
         LRANGE m 0 -1 => [g, b]
         BLMPOP 0 3 none l m RIGHT COUNT 2 => [l, [f, e]]
         ZADD z 1 a 2.5 b 3 c => :3
         BZPOPMIN none z 0 => [z, a, 1]
         BZPOPMAX none z 0 => [z, c, 3]
         BZMPOP 0 2 none z MIN COUNT 9 => [z, [[b, 2.5]]]
         EXISTS z => :0",
    );
    room.expect_nobody();
}

#[test]
fn what_is_asked_wrongly_is_refused_as_redis_does() {
    let mut room = Room::open(&[]);
    room.host.check(&format!(
        "SET s text => +OK
         BLPOP none s 0 => -{WRONG}
         BZPOPMIN s 0 => -{WRONG}
         RPUSH l a => :1
         BLMOVE l s LEFT LEFT 0 => -{WRONG}
         BZPOPMIN l 0 => -{WRONG}
         BLPOP l s 0 => [l, a]
         BLPOP none x => -ERR timeout is not a float or out of range
         BLPOP none nan => -ERR timeout is not a float or out of range
         BLPOP none -1 => -ERR timeout is negative
         BLPOP none -0.5 => -ERR timeout is negative
         BLPOP none 1e300 => -ERR timeout is out of range
         BLPOP none inf => -ERR timeout is out of range
         BLMOVE none l UP LEFT x => -ERR syntax error
         BLMOVEM none l LEFT LEFT 0 COUNT 1 => -ERR syntax error
         BLMOVEM none l LEFT LEFT x => -ERR timeout is not a float or out of range
         BLMOVE none l LEFT LEFT x => -ERR timeout is not a float or out of range
         BLMPOP x 0 l LEFT => -ERR timeout is not a float or out of range
         BLMPOP 0 0 l LEFT => -ERR numkeys should be greater than 0
         BLMPOP 0 1 l UP => -ERR syntax error
         BLMPOP 0 1 l LEFT COUNT 0 => -ERR count should be greater than 0
         BZMPOP 0 1 z UP => -ERR syntax error
         BZMOVE s z MIN 0 => -{WRONG}
         BZMOVE none z UP 0 => -ERR syntax error
         BZMOVE none z MIN x => -ERR timeout is not a float or out of range
         BZMOVE none z BYSCORE 0 1 => -ERR syntax error
         BZMOVE none z MIN 0 COUNT 0 => -ERR count should be greater than 0
         BLPOP l => -ERR wrong number of arguments for 'blpop' command"
    ));
    room.expect_nobody();
}

#[test]
fn nothing_comes_and_each_form_of_nothing_is_redis_s() {
    let room = Room::open(&[]);
    let commands = [
        "BLPOP n 0.01",
        "BRPOP n m 0.01",
        "BLMOVE n m LEFT LEFT 0.01",
        "BLMOVEM n m LEFT LEFT 0.01 EXACTLY 2 OBO",
        "BRPOPLPUSH n m 0.01",
        "BLMPOP 0.01 1 n LEFT",
        "BZPOPMIN n 0.01",
        "BZPOPMAX n 0.01",
        "BZMPOP 0.01 1 n MIN",
        "BZMOVE n m MIN 0.01",
    ];
    let mut stream = room.daemon.connect_resp();
    for (hello, expected) in [("", "*-1\r\n"), ("HELLO 3", "_\r\n")] {
        if !hello.is_empty() {
            stream.write_all(&frame(&[b"HELLO", b"3"])).unwrap();
            let mut end = Vec::new();
            while !end.ends_with(b"modules\r\n*0\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                end.push(byte[0]);
            }
        }
        for command in commands {
            stream
                .write_all(format!("{command}\r\n").as_bytes())
                .unwrap();
            stream.set_nonblocking(true).unwrap();
            let has_come = || stream.peek(&mut [0]).is_ok();
            let step = Duration::from_millis(10);
            room.daemon.advance_until("it gets nothing", step, has_come);
            stream.set_nonblocking(false).unwrap();
            daemon::expect(&mut stream, expected.as_bytes());
        }
    }
}

#[test]
fn the_oldest_comes_first_whatever_loop_it_is_on() {
    let mut room = Room::open(&[]);
    let mut waiting: Vec<Client> = (0..9).map(|_| room.wait("BLPOP q 0")).collect();
    // Connections take turns over the event loops, so several of each are among them.
    let mut writers: Vec<Client> = (0..3).map(|_| Client::connect(&room.daemon)).collect();
    for (number, writer) in (0..3).zip(writers.iter_mut()) {
        let [one, two, three] = [0, 1, 2].map(|place| format!("{}", 3 * number + place));
        assert_eq!(
            writer.run(&format!("RPUSH q {one} {two} {three}")),
            Value::Integer(3)
        );
        // All of it went before the writer's next command.
        assert_eq!(writer.run("LLEN q"), Value::Integer(0));
    }
    for (number, client) in waiting.iter_mut().enumerate() {
        assert_eq!(client.read(), pair("q", &number.to_string()));
    }
    room.expect_nobody();
    let mut left = room.wait("BRPOP q 0");
    assert_eq!(room.host.run("RPUSH q a b c"), Value::Integer(3));
    assert_eq!(left.read(), pair("q", "c"));
    assert_eq!(room.host.run("LRANGE q 0 -1"), bulks(&["a", "b"]));
}

/// What fills `q`, who waits for it, and what that client gets.
const FILLINGS: &[(&str, &str, &str)] = &[
    ("LPUSH q x", "BLPOP q 0", "[q, x]"),
    ("RPUSH q x", "BRPOP q 0", "[q, x]"),
    ("RPUSH s x ; RENAME s q", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; RENAMENX s q", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; COPY s q", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; LMOVE s q LEFT LEFT", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; RPOPLPUSH s q", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; BLMOVE s q LEFT LEFT 0", "BLPOP q 0", "[q, x]"),
    ("RPUSH s x ; BRPOPLPUSH s q 0", "BLPOP q 0", "[q, x]"),
    ("MULTI ; RPUSH q x ; EXEC", "BLPOP q 0", "[q, x]"),
    (
        "EVAL redis.call('rpush','q','x') 0",
        "BLMPOP 0 1 q LEFT",
        "[q, [x]]",
    ),
    ("SELECT 2 ; RPUSH q x ; MOVE q 0", "BLPOP q 0", "[q, x]"),
    (
        "SELECT 2 ; RPUSH q x ; COPY q q DB 0",
        "BLPOP q 0",
        "[q, x]",
    ),
    ("SELECT 2 ; RPUSH q x ; SWAPDB 0 2", "BLPOP q 0", "[q, x]"),
    ("RPUSH q x", "BLMOVE q to LEFT LEFT 0", "x"),
    ("RPUSH q x", "BRPOPLPUSH q to 0", "x"),
    ("ZADD q 1 x", "BZPOPMIN q 0", "[q, x, 1]"),
    ("ZADD q 1 x", "BZMOVE q to MIN 0", "[[x, 1]]"),
    ("ZADD s 1 x ; ZMOVE s q MIN", "BZPOPMIN q 0", "[q, x, 1]"),
    ("ZADD s 1 x ; BZMOVE s q MAX 0", "BZPOPMIN q 0", "[q, x, 1]"),
    (
        "ZADD s 1 x ; ZMOVEMEMBER s q MEMBERS 1 x",
        "BZPOPMIN q 0",
        "[q, x, 1]",
    ),
    ("ZINCRBY q 1 x", "BZPOPMAX q 0", "[q, x, 1]"),
    (
        "ZADD s 1 x ; ZUNIONSTORE q 1 s",
        "BZPOPMIN q 0",
        "[q, x, 1]",
    ),
    (
        "ZADD s 1 x ; ZINTERSTORE q 1 s",
        "BZPOPMIN q 0",
        "[q, x, 1]",
    ),
    ("ZADD s 1 x ; ZDIFFSTORE q 1 s", "BZPOPMIN q 0", "[q, x, 1]"),
    (
        "ZADD s 1 x ; ZRANGESTORE q s 0 -1",
        "BZMPOP 0 1 q MAX",
        "[q, [[x, 1]]]",
    ),
    ("ZADD s 1 x ; RENAME s q", "BZPOPMIN q 0", "[q, x, 1]"),
    (
        "GEOADD q 0 0 x",
        "BZMPOP 0 1 q MIN",
        "[q, [[x, 3377699720527872]]]",
    ),
    (
        "GEOADD s 0 0 x ; GEOSEARCHSTORE q s FROMLONLAT 0 0 BYRADIUS 1 m",
        "BZPOPMIN q 0",
        "[q, x, 3377699720527872]",
    ),
];

#[test]
fn every_command_that_fills_a_key_wakes() {
    let mut room = Room::open(&[]);
    for &(filling, waiting, expected) in FILLINGS {
        assert_eq!(room.host.run("FLUSHALL"), ok());
        let mut waiter = room.wait(waiting);
        let mut writer = Client::connect(&room.daemon);
        for words in filling.split(" ; ") {
            assert!(!matches!(writer.run(words), Value::Error(_)), "{words}");
        }
        assert_eq!(waiter.read().shown(), expected, "{filling}");
        assert_eq!(room.host.run("EXISTS q"), Value::Integer(0), "{filling}");
        room.expect_nobody();
    }
}

#[test]
fn who_waits_for_a_number_of_elements_lets_those_behind_have_fewer() {
    let mut room = Room::open(&[]);
    let mut several = room.wait("BLMOVEM q to LEFT RIGHT 0 EXACTLY 3 BULK");
    let mut one = room.wait("BLPOP q 0");
    room.host.check("RPUSH q a b => :2");
    assert_eq!(one.read(), pair("q", "a"));
    room.host.check(
        "LRANGE q 0 -1 => [b]
         RPUSH q c d e => :4",
    );
    assert_eq!(several.read(), bulks(&["b", "c", "d"]));
    room.expect_nobody();
    room.host.check(
        "LRANGE q 0 -1 => [e]
         LRANGE to 0 -1 => [b, c, d]
         DEL q => :1",
    );
    let mut some = room.wait("BLMOVEM q to LEFT LEFT 0 COUNT 5 BULK");
    room.host.check("RPUSH q x y => :2");
    assert_eq!(some.read(), bulks(&["x", "y"]));
    room.expect_nobody();
}

#[test]
fn who_waits_for_several_keys_gets_one_of_what_comes_first() {
    let mut room = Room::open(&[]);
    let mut waiter = room.wait("BLPOP a b c a 0");
    assert_eq!(info(&mut room.host, "total_blocking_keys"), 3);
    room.host.check(
        "MULTI => +OK
         RPUSH c 1 => +QUEUED
         RPUSH a 2 => +QUEUED
         EXEC => [:1, :1]",
    );
    assert_eq!(waiter.read(), pair("c", "1"));
    assert_eq!(room.host.run("LRANGE a 0 -1"), bulks(&["2"]));
    room.expect_nobody();
    // One that is not the last to come for a key is the last for another.
    let mut first = room.wait("BLPOP x y 0");
    let mut second = room.wait("BLPOP y z 0");
    room.host.check("RPUSH y 1 2 => :2\nLLEN y => :0");
    assert_eq!(first.read(), pair("y", "1"));
    assert_eq!(second.read(), pair("y", "2"));
    room.host.check("RPUSH x 1 => :1\nLLEN x => :1");
    room.expect_nobody();
}

#[test]
fn what_a_transaction_or_a_script_takes_itself_is_not_there_for_others() {
    let mut room = Room::open(&[]);
    let mut waiter = room.wait("BLPOP q 0");
    room.host.check(
        "MULTI => +OK
         RPUSH q a => +QUEUED
         BLPOP q 0 => +QUEUED
         BLPOP q 0 => +QUEUED
         BLMOVE q p LEFT LEFT 0 => +QUEUED
         BZPOPMIN z 0 => +QUEUED
         EXEC => [:1, [q, a], nil, nil, nil]
         EVAL redis.call('rpush','q','b')return{redis.call('blpop','q',0),redis.call('lpop','q')} \
         0 => [[q, b], nil]
         EVAL return{redis.call('rpush','q','c','d','e'),redis.call('lpop','q')} 0 => [:3, c]",
    );
    assert_eq!(waiter.read(), pair("q", "d"));
    assert_eq!(room.host.run("LRANGE q 0 -1"), bulks(&["e"]));
    room.expect_nobody();
}

#[test]
fn moves_go_on_in_chains_and_circles() {
    let mut room = Room::open(&[]);
    let mut movers = [
        room.wait("BLMOVE a b LEFT RIGHT 0"),
        room.wait("BRPOPLPUSH b c 0"),
        room.wait("BLMOVE c a LEFT LEFT 0"),
    ];
    let mut same = room.wait("BLMOVE a a LEFT RIGHT 0");
    let mut last = room.wait("BLPOP a 0");
    assert_eq!(room.host.run("RPUSH a x"), Value::Integer(1));
    for mover in &mut movers {
        assert_eq!(mover.read(), bulk("x"));
    }
    assert_eq!(same.read(), bulk("x"));
    assert_eq!(last.read(), pair("a", "x"));
    assert_eq!(room.host.run("EXISTS a b c"), Value::Integer(0));
    room.expect_nobody();
}

#[test]
fn a_key_of_another_kind_is_passed_over() {
    let mut room = Room::open(&[]);
    let mut sorted = room.wait("BZPOPMIN k 0");
    let mut list = room.wait("BLPOP k 0");
    let mut mover = room.wait("BLMOVE k s LEFT LEFT 0");
    room.host.check(
        "SET k text => +OK
         DEL k => :1
         SADD k m => :1
         DEL k => :1
         SET s text => +OK
         RPUSH k a b => :2
         LRANGE k 0 -1 => [b]
         DEL k => :1",
    );
    assert_eq!(list.read(), pair("k", "a"));
    // What cannot be moved stays where it was.
    assert_eq!(mover.read(), error(WRONG));
    room.expect_waiting(1);
    // Somebody waits for the name, yet not for this kind: a new one takes it at once.
    room.host
        .check("RPUSH k c => :1\nBLPOP k 0 => [k, c]\nZADD k 1 m => :1");
    assert_eq!(sorted.read().shown(), "[k, m, 1]");
    room.expect_nobody();
}

#[test]
fn databases_are_kept_apart() {
    let mut room = Room::open(&[]);
    let mut waiter = Client::connect(&room.daemon);
    assert_eq!(waiter.run("SELECT 3"), ok());
    room.wait_with(&mut waiter, "BLMOVE q to LEFT LEFT 0");
    room.host.check("RPUSH q here => :1\nLLEN q => :1");
    room.host.check(
        "SELECT 3 => +OK
         FLUSHDB => +OK
         RPUSH q there => :1
         LRANGE to 0 -1 => [there]",
    );
    assert_eq!(waiter.read(), bulk("there"));
    room.expect_nobody();
}

#[test]
fn requests_behind_a_wait_are_answered_behind_it() {
    let mut room = Room::open(&[]);
    let mut client = Client::connect(&room.daemon);
    let requests = [
        frame(&[b"SET", b"k", b"1"]),
        frame(&[b"BLPOP", b"q", b"0"]),
        frame(&[b"INCR", b"k"]),
        frame(&[b"BLPOP", b"q", b"0.01"]),
        frame(&[b"GET", b"k"]),
    ];
    client.send_raw(&requests.concat());
    room.expect_waiting(1);
    assert_eq!(client.read(), ok());
    // What comes meanwhile waits as well.
    client.send(&[b"PING"]);
    assert_eq!(room.host.run("GET k"), bulk("1"));
    assert_eq!(room.host.run("RPUSH q x"), Value::Integer(1));
    let first: Vec<String> = (0..2).map(|_| client.read().shown()).collect();
    assert_eq!(first, ["[q, x]", ":2"]);
    let (mut third, step) = (None, Duration::from_millis(10));
    room.daemon.advance_until("its time is over", step, || {
        third = client.try_read();
        third.is_some()
    });
    assert_eq!(third, Some(Value::Null));
    let rest: Vec<String> = (0..2).map(|_| client.read().shown()).collect();
    assert_eq!(rest, ["2", "+PONG"]);
    room.expect_nobody();
}

#[test]
fn a_wait_is_ended_by_another_client() {
    let mut room = Room::open(&[]);
    let mut client = Client::connect(&room.daemon);
    let id = client.run("CLIENT ID").shown()[1..].to_owned();
    let unblock = |room: &mut Room, reason: &str| {
        let words = format!("CLIENT UNBLOCK {id}{reason}");
        room.host.run(&words)
    };
    for (reason, expected) in [
        ("", Value::Null),
        (" TIMEOUT", Value::Null),
        (
            " error",
            error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        ),
    ] {
        room.wait_with(&mut client, "BLPOP q 100");
        let line = room.host.run(&format!("CLIENT LIST ID {id}")).shown();
        assert!(line.contains(" flags=b ") && line.contains(" cmd=blpop "));
        assert_eq!(info(&mut room.host, "clients_in_timeout_table"), 1);
        assert_eq!(unblock(&mut room, reason), Value::Integer(1));
        assert_eq!(client.read(), expected);
        assert_eq!(unblock(&mut room, reason), Value::Integer(0));
        room.expect_nobody();
    }
    room.host.check(
        "CLIENT UNBLOCK 9999999 => :0
         CLIENT UNBLOCK x => -ERR value is not an integer or out of range
         CLIENT UNBLOCK 1 why => -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
         RPUSH q x => :1
         LLEN q => :1",
    );
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
}

#[test]
fn who_is_gone_takes_nothing() {
    let mut room = Room::open(&[]);
    // Its side ended, its connection reset, ended by another, and one that stays.
    let half = room.wait("BLPOP q 0").into_stream();
    half.shutdown(Shutdown::Write).unwrap();
    room.expect_waiting(0);
    drop(room.wait("BLPOP q p 0"));
    room.expect_waiting(0);
    let reset = room.wait("BLPOP q 0").into_stream();
    set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
    drop(reset);
    room.expect_waiting(0);
    let mut killed = Client::connect(&room.daemon);
    let id = killed.run("CLIENT ID").shown()[1..].to_owned();
    room.wait_with(&mut killed, "BLPOP q 0");
    let mut stays = room.wait("BLPOP q 0");
    room.host.check(&format!(
        "CLIENT KILL ID {id} => :1\nRPUSH q x => :1\nLLEN q => :0"
    ));
    assert!(killed.is_closed());
    assert_eq!(stays.read(), pair("q", "x"));
    // Requests behind do not keep it.
    let mut client = Client::connect(&room.daemon);
    let behind = [frame(&[b"BLPOP", b"q", b"0"]), frame(&[b"PING"])].concat();
    client.send_raw(&behind);
    room.expect_waiting(1);
    client.send(&[b"PING"]);
    drop(client);
    room.expect_nobody();
}

#[test]
fn ten_thousand_wait_and_all_are_forgotten() {
    let count: usize = if raise_descriptors() > 12_000 {
        10_000
    } else {
        400
    };
    // Both ends of so many connections are more files than one process may have.
    let mut room = Room::of(Daemon::spawn(&["--max-connections", "12000"]));
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(&room.daemon)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let own = format!("own:{number}");
        client.send(&[b"BLPOP", b"q", own.as_bytes(), b"1000"]);
    }
    room.expect_waiting(count as u64);
    let keys = info(&mut room.host, "total_blocking_keys");
    assert_eq!(keys, count as u64 + 1);
    // More than one turn serves: each has one, nobody two.
    let half = count / 2;
    let elements: Vec<String> = (0..half).map(|number| number.to_string()).collect();
    for some in elements.chunks(1_000) {
        let words = format!("RPUSH q {}", some.join(" "));
        assert!(matches!(room.host.run(&words), Value::Integer(_)));
    }
    room.expect_waiting((count - half) as u64);
    assert_eq!(room.host.run("EXISTS q"), Value::Integer(0));
    let mut answers = Vec::new();
    let all_are_answered = || {
        for client in &mut clients {
            if let Some(Value::Array(pair)) = client.try_read() {
                answers.push(pair[1].shown());
            }
        }
        answers.len() == half
    };
    assert!(comes_true(PATIENCE, all_are_answered));
    drop(clients);
    answers.sort_by_key(|answer| answer.parse::<usize>().unwrap());
    assert_eq!(answers, elements);
    room.expect_nobody();
}

#[test]
fn too_many_keys_are_refused() {
    let mut room = Room::open(&[]);
    let keys: Vec<String> = (0..9_000).map(|key| format!("key:{key}")).collect();
    assert_eq!(
        room.host.run(&format!("BLPOP {} 0", keys.join(" "))),
        error("ERR too many keys to wait for")
    );
    room.expect_nobody();
    let mut client = room.wait(&format!("BLPOP {} 0", keys[..3_000].join(" ")));
    // What they take counts as the client's, once the turn is over in which it began to wait.
    let host = &mut room.host;
    let is_counted = || {
        let lines = host.run("CLIENT LIST").shown();
        let mut lines = lines.lines();
        let line = lines.find(|line| line.contains(" flags=b ")).unwrap();
        let held = line.split(" tot-mem=").nth(1).unwrap();
        held.split(' ').next().unwrap().parse::<usize>().unwrap() > 3_000 * 512
    };
    assert!(comes_true(PATIENCE, is_counted));
    assert_eq!(room.host.run("RPUSH key:2999 x"), Value::Integer(1));
    assert_eq!(client.read(), pair("key:2999", "x"));
    room.expect_nobody();
}

#[test]
fn nobody_is_idle_who_waits_and_a_drain_ends_all_waits() {
    let mut room = Room::open(&["--idle-timeout", "5s"]);
    let mut waiter = room.wait("BLPOP q 0");
    let mut idle = Client::connect(&room.daemon);
    idle.run("PING");
    room.daemon.advance(Duration::from_secs(6));
    assert!(idle.is_closed());
    assert_eq!(
        Client::connect(&room.daemon).run("RPUSH q x"),
        Value::Integer(1)
    );
    assert_eq!(waiter.read(), pair("q", "x"));
    let mut waiter = Client::connect(&room.daemon);
    waiter.send_raw(b"PING\r\nBLPOP q 0\r\nPING\r\n");
    assert_eq!(waiter.read(), Value::Simple("PONG".to_owned()));
    room.daemon.stop();
    assert!(waiter.is_closed());
}

#[test]
fn who_wants_no_reply_gets_none_and_messages_come_while_one_waits() {
    let mut room = Room::open(&[]);
    let mut client = Client::connect(&room.daemon);
    assert!(matches!(client.run("HELLO 3"), Value::Map(_)));
    client.send(&[b"SUBSCRIBE", b"news"]);
    assert!(matches!(client.read(), Value::Push(_)));
    room.wait_with(&mut client, "BZPOPMIN z 0");
    assert_eq!(room.host.run("PUBLISH news one"), Value::Integer(1));
    assert_eq!(client.read().shown(), "[message, news, one]");
    assert_eq!(room.host.run("ZADD z 1.5 m"), Value::Integer(1));
    assert_eq!(client.read().shown(), "[z, m, ,1.5]");
    client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
    room.wait_with(&mut client, "BLPOP q 0");
    client.send(&[b"PING"]);
    assert_eq!(room.host.run("RPUSH q x"), Value::Integer(1));
    assert_eq!(client.read(), Value::Simple("PONG".to_owned()));
    room.expect_nobody();
}

#[test]
fn what_a_waiter_takes_is_told_like_any_pop() {
    let mut room = Room::open(&["--notify-keyspace-events", "AKE"]);
    let mut listener = Client::connect(&room.daemon);
    assert!(matches!(listener.run("HELLO 3"), Value::Map(_)));
    listener.check(
        "CLIENT TRACKING on => +OK
         LRANGE q 0 -1 => []
         LRANGE to 0 -1 => []",
    );
    listener.send(&[b"PSUBSCRIBE", b"__keyevent@0__:*"]);
    assert!(matches!(listener.read(), Value::Push(_)));
    let mut watcher = Client::connect(&room.daemon);
    watcher.check("WATCH to => +OK\nMULTI => +OK\nPING => +QUEUED");
    let _waiter = room.wait("BLMOVE q to LEFT RIGHT 0");
    assert_eq!(room.host.run("RPUSH q x"), Value::Integer(1));
    let mut told = Vec::new();
    while !told.iter().any(|one: &String| one.contains("del, q")) {
        told.push(listener.read().shown());
    }
    for expected in [
        "[invalidate, [q]]",
        "[invalidate, [to]]",
        "[pmessage, __keyevent@0__:*, __keyevent@0__:rpush, q]",
        "[pmessage, __keyevent@0__:*, __keyevent@0__:rpush, to]",
        "[pmessage, __keyevent@0__:*, __keyevent@0__:lpop, q]",
    ] {
        assert!(told.iter().any(|one| one == expected), "{told:?}");
    }
    assert_eq!(watcher.run("EXEC"), Value::Null);
    room.expect_nobody();
}

#[test]
fn a_user_waits_for_its_own_keys_only() {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::start(&[&flags[0], &flags[1]]);
    let mut app = Client::connect(&daemon);
    let mut reader = Client::connect(&daemon);
    assert_eq!(app.run("AUTH app app-pw"), ok());
    assert_eq!(reader.run("AUTH reader reader-pw"), ok());
    let no_key = "NOPERM No permissions to access a key";
    for words in [
        "BLPOP app:q other 0",
        "BLMOVE app:q other LEFT LEFT 0",
        "BRPOPLPUSH other app:q 0",
        "BLMPOP 0 2 app:q other LEFT",
        "BZMPOP 0 1 other MIN",
        "BZPOPMAX other 0",
    ] {
        assert_eq!(app.run(words), error(no_key), "{words}");
    }
    assert_eq!(
        reader.run("BLPOP q 0"),
        error("NOPERM User reader has no permissions to run the 'blpop' command")
    );
    app.check("RPUSH app:q x => :1\nBLPOP app:p app:q 0 => [app:q, x]");
}

#[test]
fn two_loops_that_push_and_wait_lose_nothing_and_give_nothing_twice() {
    const ROUNDS: usize = 2_000;
    let room = Room::open(&[]);
    let sent = |writer: usize| (0..ROUNDS).map(move |round| writer * ROUNDS + round);
    let mut taken: Vec<usize> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let mut client = Client::connect(&room.daemon);
                scope.spawn(move || {
                    let mut taken = Vec::new();
                    loop {
                        let Value::Array(pair) = client.run("BLPOP a b 0") else {
                            panic!("it waits for ever");
                        };
                        match pair[1].shown().parse() {
                            Ok(number) => taken.push(number),
                            Err(_) => return taken,
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let mut client = Client::connect(&room.daemon);
                scope.spawn(move || {
                    for number in sent(writer) {
                        let key = ["a", "b"][number % 2];
                        client.run(&format!("RPUSH {key} {number}"));
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        let mut client = Client::connect(&room.daemon);
        // The key that is looked at last: all that was sent comes before.
        client.run("RPUSH b end end end end");
        takers
            .into_iter()
            .flat_map(|taker| taker.join().unwrap())
            .collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, (0..2 * ROUNDS).collect::<Vec<usize>>());
}

#[test]
fn who_waits_for_very_many_names_is_served_when_databases_change_places() {
    let daemon = Daemon::start(&[]);
    let mut other = Client::connect(&daemon);
    let names = |client: usize| (0..3_000).map(move |name| format!("{client}:{name}"));
    let mut all: Vec<Client> = (0..3).map(|_| Client::connect(&daemon)).collect();
    for (client, waits) in all.iter_mut().enumerate() {
        let names: Vec<String> = names(client).collect();
        let words = names.iter().map(String::as_bytes);
        let words: Vec<&[u8]> = [&b"BLPOP"[..]].into_iter().chain(words).collect();
        waits.send(&[&words[..], &[b"0"]].concat());
    }
    assert!(comes_true(PATIENCE, || info(&mut other, "blocked_clients") == 3));
    other.run("SELECT 2");
    for (client, name) in [(0, 2_999), (1, 0), (2, 1_500)] {
        other.run(&format!("RPUSH {client}:{name} x"));
    }
    assert_eq!(other.run("SWAPDB 0 2"), ok());
    for (client, name) in [(0, 2_999), (1, 0), (2, 1_500)] {
        assert_eq!(all[client].read().shown(), format!("[{client}:{name}, x]"));
    }
}
