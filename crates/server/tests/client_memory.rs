//! Client memory: what clients have the server hold is bounded, ends in time, and never stops it.

use crate::support::wait::wait_until;
use crate::support::{daemon, resident, resp, vitals};

use std::io::{Read, Write};
use std::time::Duration;

use daemon::{Daemon, check, expect, expect_end, pattern};
use resident::occupied_bytes;
use resp::{Client, Value, ok};
use vitals::forget_peak;

const MIB: usize = 1 << 20;
/// What a server of these tests may occupy beside `--memory` and `--client-memory`.
const BASE_BYTES: usize = 24 << 20;
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Waits until the server occupies at most so much.
fn wait_for_resident(daemon: &Daemon, most: usize) {
    let bytes = || occupied_bytes(daemon, "VmRSS");
    let what = || format!("{} of {} MiB are given back", bytes() / MIB, most / MIB);
    wait_until(what, || bytes() <= most);
}

#[test]
fn long_commands_of_any_kind_are_answered_and_nobody_stands_still() {
    let daemon = Daemon::spawn(&["--threads", "1", "--memory", "128MiB"]);
    let mut other = daemon.connect();
    let mut client = Client::connect(&daemon);
    for bytes in [100_000, 1 << 20, 2_200_000, 3_000_000] {
        let value = pattern(5, bytes);
        let commands: [&[&[u8]]; 5] = [
            &[b"SETEX", b"k", b"100", &value],
            &[b"APPEND", b"k", b"", &value],
            &[b"MSET", b"k", &value, b"l", b"m"],
            &[b"EVAL", b"return #ARGV[1]", b"0", &value],
            &[b"SADD", b"s", &value],
        ];
        let length = i64::try_from(bytes).unwrap();
        for (command, expected) in commands.iter().zip([
            ok(),
            resp::error("ERR wrong number of arguments for 'append' command"),
            ok(),
            Value::Integer(length),
            Value::Integer(1),
        ]) {
            client.send(command);
            client.send(&[b"PING"]);
            check(&mut other, b"mn\r\n", b"MN\r\n");
            assert_eq!(client.read(), expected, "{bytes} bytes");
            assert_eq!(client.run("STRLEN l"), Value::Simple("PONG".to_owned()));
            _ = client.read();
        }
        assert_eq!(client.run("DEL k l s"), Value::Integer(3));
    }
}

const EXCEEDED: &str = "ERR the connection is closed: its request needs more memory than \
    --client-memory has free";
const SMALL: [&str; 6] = [
    "--threads",
    "1",
    "--memory",
    "256MiB",
    "--client-memory",
    "16MiB",
];

/// A command of 12 MiB, whose many arguments are copied before it runs.
fn long_push() -> Vec<u8> {
    let element = pattern(5, 500);
    let mut command: Vec<&[u8]> = vec![b"RPUSH", b"list"];
    command.extend(std::iter::repeat_n(&element[..], 25_000));
    daemon::frame(&command)
}

#[test]
fn a_command_that_needs_too_much_memory_is_told_why_its_connection_is_closed() {
    let daemon = Daemon::spawn(&SMALL);
    let mut client = daemon.connect_resp();
    client.write_all(&long_push()).unwrap();
    expect(&mut client, format!("-{EXCEEDED}\r\n").as_bytes());
    expect_end(&mut client);
    let mut other = Client::connect(&daemon);
    assert_eq!(other.run("EXISTS list"), Value::Integer(0));
    let message = pattern(6, 12 << 20);
    other.send(&[b"ECHO", &message]);
    assert_eq!(other.read(), Value::Bulk(message));
}

#[test]
fn a_client_that_stops_amid_a_request_is_told_why_its_connection_is_closed() {
    let daemon = Daemon::spawn(&SMALL);
    let request = long_push();
    let mut clients = [(); 2].map(|()| daemon.connect_resp());
    for client in &mut clients {
        client.write_all(&request[..10 << 20]).unwrap();
    }
    let expected = format!("-{EXCEEDED}\r\n");
    let told = |client: &mut std::net::TcpStream| {
        client.set_nonblocking(true).unwrap();
        let mut beginning = [0; 4];
        client.peek(&mut beginning).is_ok_and(|read| read > 0)
    };
    wait_until(|| "one is told".to_owned(), || clients.iter_mut().any(told));
    for client in &mut clients {
        let is_told = told(client);
        client.set_nonblocking(false).unwrap();
        if is_told {
            expect(client, expected.as_bytes());
            expect_end(client);
        }
    }
}

#[test]
fn a_result_larger_than_the_memory_for_clients_is_refused() {
    let daemon = Daemon::spawn(&[
        "--threads",
        "1",
        "--memory",
        "512MiB",
        "--client-memory",
        "24MiB",
    ]);
    let mut client = Client::connect(&daemon);
    let member = |number: usize| format!("{number:0>100}").into_bytes();
    for first in (0..120_000).step_by(1_000) {
        let members: Vec<Vec<u8>> = (first..first + 1_000).map(member).collect();
        let scored = members.iter().flat_map(|member| [&b"1"[..], member]);
        let sorted: Vec<&[u8]> = [&b"ZADD"[..], b"sorted"]
            .into_iter()
            .chain(scored)
            .collect();
        client.send(&sorted);
        assert_eq!(client.read(), Value::Integer(1_000));
    }
    let refused =
        resp::error("ERR the result is larger than half of the memory for clients (client-memory)");
    assert_eq!(client.run("ZRANGESTORE to sorted 0 -1"), refused);
    assert_eq!(client.run("EXISTS to"), Value::Integer(0));
    assert_eq!(client.run("ZRANGESTORE to sorted 0 9"), Value::Integer(10));
}

#[test]
fn a_long_message_goes_back_and_what_is_never_stored_is_refused_without_a_copy() {
    const LONG: usize = 64 * MIB;
    let daemon = Daemon::spawn(&[
        "--threads",
        "1",
        "--memory",
        "64MiB",
        "--client-memory",
        "256MiB",
    ]);
    let mut client = Client::connect(&daemon);
    client.run("SADD set a b");
    client.run("RPUSH list a b");
    client.run("ZADD sorted 1 a");
    client.run("HSET hash a b");
    let long = pattern(9, LONG);
    let parts: Vec<&[u8]> = long.chunks(20_000).collect();
    let too_long = resp::error("ERR collection exceeds maximum allowed size (max-value)");
    let members = |head: &[&'static [u8]]| [head, &parts[..3_000]].concat();
    let before = occupied_bytes(&daemon, "VmRSS");
    for (request, expected) in [
        (vec![&b"ECHO"[..], &long], Value::Bulk(long.clone())),
        (vec![b"PING", &long], Value::Bulk(long.clone())),
        (vec![b"SADD", b"set", &long], too_long.clone()),
        (vec![b"SADD", b"list", &long], resp::error(WRONG_TYPE)),
        (vec![b"SADD", b"new", b"a", &long], too_long.clone()),
        (vec![b"HSET", b"hash", b"a", &long], too_long.clone()),
        (vec![b"HSET", b"hash", &long, b"a"], too_long.clone()),
        (vec![b"HSETNX", b"hash", b"a", &long], Value::Integer(0)),
        (vec![b"HINCRBY", b"hash", &long, b"1"], too_long.clone()),
        (vec![b"ZADD", b"sorted", b"1", &long], too_long.clone()),
        (
            vec![b"ZADD", b"sorted", b"XX", b"1", &long],
            Value::Integer(0),
        ),
        (vec![b"RPUSH", b"list", &long], too_long.clone()),
        (vec![b"LPUSHX", b"new", &long], Value::Integer(0)),
        (vec![b"LSET", b"list", b"0", &long], too_long.clone()),
        (
            vec![b"LINSERT", b"list", b"BEFORE", b"a", &long],
            too_long.clone(),
        ),
        (vec![b"SREM", b"set", &long], Value::Integer(0)),
        (vec![b"SISMEMBER", b"set", &long], Value::Integer(0)),
        (vec![b"HGET", b"hash", &long], Value::Null),
        (members(&[b"SADD", b"set"]), too_long.clone()),
        (members(&[b"HSET", b"hash"]), too_long.clone()),
        (members(&[b"RPUSH", b"list"]), too_long.clone()),
    ] {
        wait_for_resident(&daemon, before + 16 * MIB);
        forget_peak(daemon.id());
        client.send(&request);
        client.send(&[b"PING"]);
        let name = String::from_utf8_lossy(request[0]).into_owned();
        assert!(client.read() == expected, "{name}");
        assert_eq!(client.read().shown(), "+PONG", "{name}");
        let most = occupied_bytes(&daemon, "VmHWM");
        // The request itself.
        assert!(
            most < before + LONG + 24 * MIB,
            "{name}: {} MiB",
            most / MIB
        );
    }
    assert_eq!(client.run("SCARD set"), Value::Integer(2));
    assert_eq!(client.run("LLEN list"), Value::Integer(2));
    assert_eq!(client.run("EXISTS new"), Value::Integer(0));
}

#[test]
fn who_leaves_while_a_long_message_goes_back_leaves_nothing() {
    let daemon = Daemon::spawn(&["--threads", "1", "--client-memory", "256MiB"]);
    let before = occupied_bytes(&daemon, "VmRSS");
    let mut client = Client::connect(&daemon);
    client.send(&[b"ECHO", &pattern(9, 64 * MIB)]);
    let mut stream = client.into_stream();
    expect(&mut stream, b"$67108864\r\n");
    assert!(occupied_bytes(&daemon, "VmRSS") > before + 48 * MIB);
    drop(stream);
    wait_for_resident(&daemon, before + 16 * MIB);
}

#[test]
fn a_value_whose_options_never_come_is_let_go() {
    let daemon = Daemon::spawn(&["--write-timeout", "1s"]);
    let value = vec![b'v'; 12 << 20];
    let mut halves = Vec::new();
    for number in 0..12 {
        let mut client = daemon.connect_resp();
        let head = format!("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
        client.write_all(head.as_bytes()).unwrap();
        if client.write_all(&value).is_ok() {
            client.write_all(b"\r\n").unwrap();
        }
        halves.push(client);
        let mut other = Client::connect(&daemon);
        let key = format!("SET other{number} x");
        assert_eq!(other.run(&key), ok(), "beside {number}");
    }
    for half in &mut halves {
        let mut answer = Vec::new();
        let _ = half.read_to_end(&mut answer);
    }
}

#[test]
fn a_request_that_is_never_whole_ends_its_connection() {
    let daemon = Daemon::start(&["--write-timeout", "1s"]);
    let lines = [
        b"get k".to_vec(),
        b"set k 0 0 9\r\nv".to_vec(),
        b"get ".repeat(50_000),
    ];
    let commands = [
        "PING",
        "*2\r\n$3\r\nGET\r\n$900000\r\nx",
        "*3\r\n$3\r\nSET\r\n$1\r\nk",
    ];
    let mut clients = Vec::new();
    for line in lines {
        clients.push(daemon.connect());
        clients.last_mut().unwrap().write_all(&line).unwrap();
    }
    for command in commands {
        clients.push(daemon.connect_resp());
        let bytes = command.as_bytes();
        clients.last_mut().unwrap().write_all(bytes).unwrap();
    }
    // Blank lines, and what was answered, are not waited for.
    let mut calm = daemon.connect_resp();
    check(&mut calm, b"PING\r\n\r\n", b"+PONG\r\n");
    let ended = || daemon.stat("curr_connections") <= 2;
    daemon.advance_until("the clients are dropped", Duration::from_secs(1), ended);
    for client in &mut clients {
        expect_end(client);
    }
    daemon.advance(Duration::from_secs(2));
    check(&mut calm, b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn a_line_that_trickles_costs_no_more_than_its_bytes() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let keys = 100_000;
    let line = [b"get".as_slice(), &b" k".repeat(keys), b"\r\n"].concat();
    let (most, rest) = line.split_at(line.len() - 2_000);
    let mut client = daemon.connect();
    client.write_all(most).unwrap();
    let before = daemon.cpu_ticks();
    for byte in rest.chunks(1) {
        client.write_all(byte).unwrap();
        check(&mut daemon.connect(), b"mn\r\n", b"MN\r\n");
    }
    expect(&mut client, b"END\r\n");
    let ticks = daemon.cpu_ticks() - before;
    assert!(
        ticks < 200,
        "{ticks} hundredths of a second for 2,000 bytes"
    );
}

#[test]
fn who_holds_memory_leaves_for_who_gets_on() {
    let daemon = Daemon::spawn(&["--threads", "1", "--client-memory", "32MiB"]);
    let part = [b"get ".as_slice(), &b"k ".repeat(500_000)].concat();
    let mut holders = Vec::new();
    for _ in 0..64 {
        let mut holder = daemon.connect();
        // One that is closed for those behind it may be so while it sends.
        let _ = holder.write_all(&part);
        holders.push(holder);
    }
    // What is still in sockets arrives later; of those that stay each holds a million bytes. Only
    // then is the client below the one that sends while all others are idle.
    let holders_max = 32 * MIB / part.len();
    let first_kicks = 64 - holders_max as u64;
    daemon.wait_for_stat("memory_kicks", |kicks| kicks >= first_kicks);
    let keys: Vec<String> = (0..100_000).map(|number| format!("key:{number}")).collect();
    let mut args: Vec<&[u8]> = vec![b"MGET"];
    args.extend(keys.iter().map(|key| key.as_bytes()));
    for _ in 0..3 {
        let mut client = Client::connect(&daemon);
        assert_eq!(
            client.call(&args),
            Value::Array(vec![Value::Null; keys.len()])
        );
    }
    assert!(daemon.stat("memory_kicks") > first_kicks);
    daemon.wait_for_stat("client_memory", |bytes| bytes <= 32 * MIB as u64);
    let most = occupied_bytes(&daemon, "VmHWM");
    assert!(most <= 32 * MIB + BASE_BYTES + 64 * MIB, "{}", most / MIB);
}

#[test]
fn what_clients_held_goes_back_to_the_system_when_they_leave() {
    let daemon = Daemon::spawn(&["--threads", "2", "--client-memory", "64MiB"]);
    let part = [b"get ".as_slice(), &b"k ".repeat(30_000)].concat();
    let before = occupied_bytes(&daemon, "VmRSS");
    let mut holders = Vec::new();
    for _ in 0..800 {
        let mut holder = daemon.connect();
        holder.write_all(&part).unwrap();
        holders.push(holder);
    }
    daemon.wait_for_stat("client_memory", |bytes| bytes >= 800 * 60_000);
    let held = occupied_bytes(&daemon, "VmRSS");
    assert!(held > before + 40 * MIB, "{}", held / MIB);
    drop(holders);
    wait_for_resident(&daemon, before + 16 * MIB);
}

#[test]
fn a_transaction_counts_with_all_it_takes_and_its_replies_are_bounded() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let value = vec![b'v'; 16_000];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    assert_eq!(client.run("MULTI"), ok());
    let queued = 11_000;
    client.send_raw(&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(queued));
    client.send(&[b"INCR", b"n"]);
    for _ in 0..=queued {
        assert_eq!(client.read(), Value::Simple("QUEUED".to_owned()));
    }
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no array");
    };
    let too_long = resp::error("ERR the replies before are too long");
    let values = replies.iter().take_while(|&reply| *reply != too_long);
    let values = values.count();
    assert!((1_000..3_000).contains(&values), "{values}");
    assert_eq!(replies[values..], vec![too_long; queued + 1 - values]);
    // What a transaction does is done, whatever of it can be told.
    assert_eq!(client.run("GET n"), resp::bulk("1"));
    let most = occupied_bytes(&daemon, "VmHWM");
    assert!(most <= 64 * MIB + BASE_BYTES, "{}", most / MIB);
}

#[test]
fn a_transaction_may_have_as_many_commands_as_fit_into_half_of_the_client_memory() {
    const COMMANDS: usize = 100_000;
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    let commands = [&b"MULTI\r\n"[..], &set.repeat(COMMANDS), b"EXEC\r\n"].concat();
    for (client_memory, fits) in [("64MiB", true), ("4MiB", false)] {
        let daemon = Daemon::start(&["--client-memory", client_memory]);
        let mut client = Client::connect(&daemon);
        client.send_raw(&commands);
        assert_eq!(client.read(), ok());
        let queued = Value::Simple("QUEUED".to_owned());
        let mut answers = (0..COMMANDS).map(|_| client.read());
        let refused = answers.find(|answer| *answer != queued);
        answers.for_each(drop);
        let done = client.read();
        if fits {
            assert_eq!(refused, None);
            assert_eq!(done, Value::Array(vec![ok(); COMMANDS]));
            continue;
        }
        let too_large =
            "ERR the transaction is too large: it takes more than half of --client-memory";
        assert_eq!(refused, Some(resp::error(too_large)));
        let aborted = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(done, resp::error(aborted));
        assert_eq!(client.run("EXISTS k"), Value::Integer(0));
    }
}

/// Connects so many clients that set something up with many names.
fn with_names(daemon: &Daemon, clients: usize, command: &str, names: usize) -> Vec<Client> {
    let names: Vec<String> = (0..names).map(|name| format!("name:{name}")).collect();
    let words: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let one = |_| {
        let mut client = Client::connect(daemon);
        client.send(&[&[command.as_bytes()], &words[..]].concat());
        client
    };
    (0..clients).map(one).collect()
}

/// Waits until a question has this answer.
fn wait_for(client: &mut Client, question: &str, answer: &str) {
    let what = || format!("{question} is answered by {answer}");
    wait_until(what, || client.run(question).shown() == answer);
}

#[test]
fn what_clients_leave_behind_is_taken_apart_and_counts_no_more() {
    let daemon = Daemon::spawn(&["--threads", "1", "--client-memory", "128MiB"]);
    let mut other = Client::connect(&daemon);
    let all = [
        with_names(&daemon, 8, "SUBSCRIBE", 5_000),
        with_names(&daemon, 8, "PSUBSCRIBE", 4_000),
        with_names(&daemon, 8, "WATCH", 5_000),
    ];
    wait_for(&mut other, "PUBSUB NUMSUB name:4999", "[name:4999, :8]");
    wait_for(&mut other, "PUBSUB NUMPAT", ":4000");
    daemon.wait_for_stat("client_memory", |bytes| bytes > 8 * 14_000 * 512 / 2);
    drop(all);
    wait_for(&mut other, "PUBSUB CHANNELS", "[]");
    wait_for(&mut other, "PUBSUB NUMPAT", ":0");
    daemon.wait_for_stat("client_memory", |bytes| bytes < 1 << 20);
    assert_eq!(other.run("PUBLISH name:1 x"), Value::Integer(0));
}

#[test]
fn patterns_of_different_beginnings_take_no_more_than_they_count_for() {
    const CLIENTS: usize = 6;
    let daemon = Daemon::spawn(&["--threads", "1", "--client-memory", "128MiB"]);
    let mut other = Client::connect(&daemon);
    let occupied = || occupied_bytes(&daemon, "VmRSS");
    let (counted, before) = (daemon.stat("client_memory"), occupied());
    let mut patterns = 0;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = Client::connect(&daemon);
        // As many as it may have.
        for name in 0.. {
            let name = format!("{number}:{name}:*");
            if client.call(&[b"PSUBSCRIBE", name.as_bytes()])
                == resp::error("ERR too many subscriptions")
            {
                break;
            }
            patterns += 1;
        }
        clients.push(client);
    }
    wait_for(&mut other, "PUBSUB NUMPAT", &format!(":{patterns}"));
    assert!(patterns >= CLIENTS * 5_000, "{patterns}");
    let counted = (daemon.stat("client_memory") - counted) as usize;
    let grown = occupied().saturating_sub(before);
    // What the server takes once, by whoever is the first.
    assert!(
        grown <= counted + (4 << 20),
        "{grown} beside {counted} of {patterns}"
    );
    drop(clients);
    wait_for(&mut other, "PUBSUB NUMPAT", ":0");
}

#[test]
fn who_sets_up_and_goes_on_and_on_leaves_no_more_than_may_be_left() {
    let limit = 32 << 20;
    let daemon = Daemon::spawn(&["--threads", "1", "--client-memory", "32MiB"]);
    let names: Vec<String> = (0..3_500).map(|name| format!("name:{name}")).collect();
    let words: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let request = daemon::frame(&[&[&b"BLPOP"[..]], &words[..], &[b"0"]].concat());
    let mut most = 0;
    for _ in 0..6 {
        let mut waiters = Vec::new();
        for _ in 0..50 {
            let mut client = Client::connect(&daemon);
            client.send_raw(&request);
            waiters.push(client);
        }
        most = most.max(daemon.stat("client_memory"));
    }
    // What is there, what may be left, and what came since the last look.
    assert!(most <= 2 * limit as u64, "{most}");
    assert!(occupied_bytes(&daemon, "VmHWM") < 8 * limit);
}

/// A server with two loops, 64 MiB of memory, and as much for clients.
fn two_loops() -> Daemon {
    Daemon::spawn(&[
        "--threads",
        "2",
        "--memory",
        "64MiB",
        "--client-memory",
        "64MiB",
    ])
}

#[test]
fn replies_of_transactions_whose_clients_have_gone_count_until_they_are_freed() {
    let daemon = two_loops();
    let mut owner = Client::connect(&daemon);
    let members: Vec<String> = (0..20_000).map(|one| format!("{one:060}")).collect();
    for members in members.chunks(5_000) {
        let words = members.iter().map(String::as_bytes);
        let added: Vec<&[u8]> = [&b"SADD"[..], b"s"].into_iter().chain(words).collect();
        assert_eq!(owner.call(&added), Value::Integer(5_000));
    }
    let mut request = daemon::frame(&[b"MULTI"]);
    request.extend(daemon::frame(&[b"SMEMBERS", b"s"]).repeat(20));
    request.extend(daemon::frame(&[b"EXEC"]));
    for _ in 0..12 {
        let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(&daemon)).collect();
        clients
            .iter_mut()
            .for_each(|client| client.send_raw(&request));
        assert_eq!(owner.run("EXISTS s"), Value::Integer(1));
    }
    let most = occupied_bytes(&daemon, "VmHWM");
    assert!(most <= 128 * MIB + 32 * MIB, "{}", most / MIB);
}

#[test]
fn transactions_whose_replies_nobody_reads_stay_within_the_client_memory() {
    let daemon = two_loops();
    let mut owner = Client::connect(&daemon);
    for number in 0..80 {
        let key = format!("filler:{number}");
        owner.call(&[b"SET", key.as_bytes(), &pattern(1, 1_000_000)]);
    }
    let fields: Vec<String> = (0..20_000).map(|one| format!("{one:040}")).collect();
    for fields in fields.chunks(5_000) {
        let words = fields.iter().flat_map(|one| [one.as_bytes(), b"value"]);
        let added: Vec<&[u8]> = [&b"HSET"[..], b"h"].into_iter().chain(words).collect();
        assert_eq!(owner.call(&added), Value::Integer(5_000));
    }
    let mut request = daemon::frame(&[b"MULTI"]);
    request.extend(daemon::frame(&[b"HGETALL", b"h"]).repeat(40));
    request.extend(daemon::frame(&[b"INCR", b"n"]));
    request.extend(daemon::frame(&[b"EXEC"]));
    forget_peak(daemon.id());
    let mut unread: Vec<Client> = (0..60).map(|_| Client::connect(&daemon)).collect();
    for (sent, pair) in unread.chunks_mut(2).enumerate() {
        pair.iter_mut().for_each(|client| client.send_raw(&request));
        let count = resp::bulk(&(2 * sent + 2).to_string());
        wait_until("both are executed", || owner.run("GET n") == count);
    }
    let most = occupied_bytes(&daemon, "VmHWM");
    assert!(most <= 160 * MIB, "{} MiB", most / MIB);
    // Whoever reads gets as many as one transaction may have, as soon as others were closed for it.
    request.extend(daemon::frame(&[b"QUIT"]));
    let answered = || {
        let mut stream = daemon.connect_resp();
        stream.write_all(&request).unwrap();
        let mut replies = Vec::new();
        // It may be closed for the memory as well.
        let _ = stream.read_to_end(&mut replies);
        let begun = replies.windows(8).filter(|bytes| bytes == b"*40000\r\n");
        begun.count()
    };
    wait_until("there is memory for the replies", || answered() >= 20);
}

/// Waits until so many clients are in blocking commands.
fn wait_for_blocked(client: &mut Client, count: usize) {
    let line = format!("blocked_clients:{count}\r\n");
    let is_so = || client.run("INFO clients").shown().contains(&line);
    wait_until(|| format!("{count} clients are blocked"), is_so);
}

#[test]
fn nothing_is_given_to_who_has_gone_with_very_many_names_to_wait_for() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut other = Client::connect(&daemon);
    let names: Vec<String> = (0..3_900).map(|name| format!("name:{name}")).collect();
    let words: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    for round in 0..20 {
        let mut waiters = Vec::new();
        for _ in 0..4 {
            let mut client = Client::connect(&daemon);
            client.send(&[&[&b"BLPOP"[..]], &words[..], &[b"0"]].concat());
            waiters.push(client);
        }
        wait_for_blocked(&mut other, 4);
        drop(waiters);
        wait_for_blocked(&mut other, 0);
        // While they still stand in lines.
        let list = format!("name:{}", 3_899 - round);
        assert_eq!(other.run(&format!("RPUSH {list} x")), Value::Integer(1));
        assert_eq!(other.run(&format!("LPOP {list}")), resp::bulk("x"));
    }
}

#[test]
fn subscribers_that_do_not_read_lose_their_connections_and_nobody_else() {
    let daemon = Daemon::spawn(&["--threads", "2", "--client-memory", "32MiB"]);
    let mut silent = Vec::new();
    for _ in 0..60 {
        let mut client = Client::connect(&daemon);
        client.send(&[b"SUBSCRIBE", b"news"]);
        _ = client.read();
        silent.push(client);
    }
    let mut other = Client::connect(&daemon);
    let message = vec![b'm'; 100_000];
    for _ in 0..200 {
        let Value::Integer(_) = other.call(&[b"PUBLISH", b"news", &message]) else {
            panic!("not published");
        };
    }
    daemon.wait_for_stat("client_memory", |bytes| bytes <= 32 * MIB as u64);
    let most = occupied_bytes(&daemon, "VmHWM");
    assert!(most <= 64 * MIB + 2 * 32 * MIB, "{}", most / MIB);
    drop(silent);
    assert_eq!(other.run("PING"), Value::Simple("PONG".to_owned()));
}
