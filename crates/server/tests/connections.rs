//! Connections: limits, time-outs, and what one client can do to the others.

use crate::support::vitals::occupied_bytes;
use crate::support::wait::wait_until;
use crate::support::{daemon, resp};

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use resp::Client;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use daemon::{Daemon, check, expect, expect_end, hit, pattern, set};

#[test]
fn a_client_beyond_the_limit_is_told_and_closed_and_the_others_live() {
    let daemon = Daemon::start(&["--max-connections", "50"]);
    let mut inside: Vec<TcpStream> = (0..50).map(|_| daemon.connect()).collect();
    for stream in &mut inside {
        check(stream, b"mn\r\n", b"MN\r\n");
    }
    for _ in 0..500 {
        let mut outside = daemon.connect();
        expect(&mut outside, b"ERROR Too many open connections\r\n");
        expect_end(&mut outside);
    }
    for stream in &mut inside {
        check(stream, b"mn\r\n", b"MN\r\n");
    }
    drop(inside);
    daemon.wait_for_stat("curr_connections", |now| now <= 2);
    assert!(daemon.stat("rejected_connections") >= 500);
    check(&mut daemon.connect(), b"mn\r\n", b"MN\r\n");
}

#[test]
fn a_server_without_open_files_waits_calmly_and_serves_again() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut inside = daemon.connect();
    check(&mut inside, b"mn\r\n", b"MN\r\n");
    let id = Pid::from_raw(daemon.id().cast_signed());
    let none = Rlimit {
        current: Some(1),
        ..getrlimit(Resource::Nofile)
    };
    let before = prlimit(id, Resource::Nofile, none).unwrap();
    let mut outside = daemon.connect();
    outside.write_all(b"mn\r\n").unwrap();
    // It tries again after a pause: one look sees only a few more failures than the one before.
    let mut failures = 0;
    wait_until("it has tried again and again", || {
        failures = accept_failures(&mut inside);
        failures >= 5
    });
    check(&mut inside, b"mn\r\n", b"MN\r\n");
    prlimit(id, Resource::Nofile, before).unwrap();
    expect(&mut outside, b"MN\r\n");
    assert!(failures < 100, "{failures} failures");
}

/// How often no connection could be accepted.
fn accept_failures(stream: &mut TcpStream) -> u64 {
    stream.write_all(b"stats\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| line != "END").collect();
    let count = |line: &String| line.strip_prefix("STAT listen_disabled_num ")?.parse().ok();
    lines.iter().find_map(count).unwrap()
}

#[test]
fn connections_come_and_go_without_leaving_anything() {
    let daemon = Daemon::start(&[]);
    for round in 0..20 {
        let mut streams: Vec<TcpStream> = (0..100).map(|_| daemon.connect()).collect();
        for (number, stream) in streams.iter_mut().enumerate() {
            let key = format!("k{round}-{number}");
            check(stream, &set(&key, b"v"), b"STORED\r\n");
        }
    }
    daemon.wait_for_stat("curr_connections", |now| now <= 2);
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let daemon = Daemon::start(&["--idle-timeout", "6s"]);
    let mut idle = daemon.connect();
    let mut half = daemon.connect();
    half.write_all(b"get half").unwrap();
    let mut busy = daemon.connect();
    for _ in 0..5 {
        check(&mut busy, b"mn\r\n", b"MN\r\n");
        daemon.advance(Duration::from_secs(1));
    }
    assert_eq!(daemon.stat("curr_connections"), 4);
    for _ in 0..3 {
        check(&mut busy, b"mn\r\n", b"MN\r\n");
        daemon.advance(Duration::from_secs(1));
    }
    expect_end(&mut idle);
    expect_end(&mut half);
    check(&mut busy, b"mn\r\n", b"MN\r\n");
}

#[test]
fn who_is_there_for_what_others_send_is_never_idle() {
    let daemon = Daemon::start(&["--idle-timeout", "2s"]);
    let connect = |words| {
        let mut client = Client::connect(&daemon);
        client.run(words);
        client
    };
    let mut subscriber = connect("SUBSCRIBE news");
    let mut by_pattern = connect("PSUBSCRIBE n*");
    let mut monitor = connect("MONITOR");
    let mut blocked = Client::connect(&daemon);
    blocked.send(&[b"BLPOP", b"jobs", b"0"]);
    // These came later, and are closed.
    let idle_ones = [connect("PING"), connect("GET k"), connect("MULTI")];
    daemon.advance(Duration::from_secs(4));
    for mut idle in idle_ones {
        assert!(idle.is_closed());
    }
    let mut other = Client::connect(&daemon);
    assert_eq!(other.run("PUBLISH news today").shown(), ":2");
    assert!(subscriber.read().shown().contains("today"));
    assert!(by_pattern.read().shown().contains("today"));
    while !monitor.read().shown().contains("PUBLISH") {}
    assert_eq!(other.run("RPUSH jobs 1").shown(), ":1");
    assert!(blocked.read().shown().contains("jobs"));
    // Who listens no more is as idle as any other.
    subscriber.run("UNSUBSCRIBE news");
    daemon.advance(Duration::from_secs(4));
    assert!(subscriber.is_closed());
}

#[test]
fn a_client_that_never_reads_is_dropped_while_others_are_served() {
    let daemon = Daemon::start(&["--write-timeout", "4s", "--threads", "1"]);
    let small = pattern(1, 10_000);
    let large = pattern(2, 1_000_000);
    let mut other = daemon.connect();
    check(&mut other, &set("small", &small), b"STORED\r\n");
    check(&mut other, &set("large", &large), b"STORED\r\n");
    let mut silent: Vec<TcpStream> = Vec::new();
    for request in [
        b"get small\r\n".as_slice(),
        b"get large\r\n",
        b"get small large\r\n",
    ] {
        let mut stream = daemon.connect();
        stream
            .set_write_timeout(Some(std::time::Duration::from_millis(500)))
            .unwrap();
        // The server stops reading sooner or later; then this fails, as it should.
        let _ = stream.write_all(&request.repeat(20_000));
        silent.push(stream);
    }
    for _ in 0..100 {
        check(&mut other, b"get small\r\n", &hit("small", &small));
        check(&mut other, &set("new", &large), b"STORED\r\n");
        check(&mut other, b"get new\r\n", &hit("new", &large));
    }
    let dropped = || daemon.stat("curr_connections") <= 2;
    daemon.advance_until(
        "silent clients are dropped",
        Duration::from_secs(1),
        dropped,
    );
    for mut stream in silent {
        // What was under way, and then the end.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 20_000 * 10_000);
    }
}

#[test]
fn the_log_names_a_client_that_stops_amid_a_reply() {
    let daemon = Daemon::spawn(&["--write-timeout", "1s", "--threads", "1"]);
    let mut stream = daemon.connect();
    let large = pattern(2, 1_000_000);
    check(&mut stream, &set("large", &large), b"STORED\r\n");
    stream.write_all(&b"get large\r\n".repeat(20)).unwrap();
    let lines = daemon.log_until("stopped amid a request or a reply");
    let line = lines.last().unwrap();
    let peer = stream.local_addr().unwrap().to_string();
    assert!(line.contains(&peer) && line.contains("closed=1"), "{line}");
}

#[test]
fn a_client_that_stops_in_a_large_value_is_dropped() {
    let daemon = Daemon::start(&["--write-timeout", "1s"]);
    let mut stream = daemon.connect();
    stream.write_all(b"set k 0 0 1000000\r\nonly this").unwrap();
    let dropped = || daemon.stat("curr_connections") <= 1;
    daemon.advance_until("the client is dropped", Duration::from_secs(1), dropped);
    expect_end(&mut stream);
    check(&mut daemon.connect(), b"get k\r\n", b"END\r\n");
}

#[test]
fn many_unfinished_values_do_not_keep_others_from_storing() {
    let daemon = Daemon::start(&["--memory", "32MiB", "--write-timeout", "1d"]);
    let mut unfinished = Vec::new();
    for number in 0..60 {
        let mut stream = daemon.connect();
        stream
            .write_all(format!("set k{number} 0 0 1000000\r\nonly this").as_bytes())
            .unwrap();
        unfinished.push(stream);
    }
    // At the latest when the transfers' time-out has become short there is room again.
    let value = pattern(1, 100_000);
    for _ in 0..200 {
        let mut stream = daemon.connect();
        stream.write_all(&set("k", &value)).unwrap();
        let mut answer = [0; 64];
        let bytes = stream.read(&mut answer).unwrap();
        if answer.starts_with(b"STORED\r\n") {
            // A transfer that begins just now may push the item out again: then it is tried anew.
            let mut first = [0; 5];
            stream.write_all(b"get k\r\n").unwrap();
            stream.read_exact(&mut first).unwrap();
            if first != *b"END\r\n" {
                let expected = hit("k", &value);
                assert_eq!(first, expected[..5]);
                expect(&mut stream, &expected[5..]);
                return;
            }
        } else {
            assert!(
                answer.starts_with(b"SERVER_ERROR out of memory"),
                "{:?}",
                &answer[..bytes]
            );
        }
        daemon.advance(Duration::from_millis(100));
    }
    panic!("nothing can be stored");
}

#[test]
fn bytes_may_come_one_at_a_time() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let value = pattern(3, 300);
    let mut requests = set("k", &value);
    requests.extend_from_slice(b"get k\r\nmg k v\r\nno such command\r\n");
    let mut expected = b"STORED\r\n".to_vec();
    expected.extend_from_slice(&hit("k", &value));
    expected.extend_from_slice(b"VA 300\r\n");
    expected.extend_from_slice(&value);
    expected.extend_from_slice(b"\r\nERROR\r\n");
    for byte in &requests {
        stream.write_all(std::slice::from_ref(byte)).unwrap();
    }
    expect(&mut stream, &expected);
}

#[test]
fn values_of_every_length_come_back_however_they_are_cut() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let (mut stream, mut other) = (daemon.connect(), daemon.connect());
    for bytes in [
        0,
        1,
        1_000,
        16_383,
        16_384,
        16_385,
        16_400,
        33_000,
        100_000,
        1 << 20,
    ] {
        let value = pattern(bytes as u64, bytes);
        let mut requests = set("k", &value);
        requests.extend_from_slice(b"get k\r\n");
        let mut expected = b"STORED\r\n".to_vec();
        expected.extend_from_slice(&hit("k", &value));
        for cut in [
            0,
            5,
            20,
            bytes / 2,
            bytes + 10,
            bytes + 21,
            bytes + 22,
            bytes + 23,
        ] {
            let cut = cut.min(requests.len());
            stream.write_all(&requests[..cut]).unwrap();
            // The only loop has read a part of it when it answers this.
            check(&mut other, b"mn\r\n", b"MN\r\n");
            check(&mut stream, &requests[cut..], &expected);
        }
    }
}

#[test]
fn large_values_can_be_pipelined_both_ways() {
    let daemon = Daemon::start(&["--memory", "256MiB"]);
    let stream = daemon.connect();
    let values: Vec<Vec<u8>> = (0..40)
        .map(|n| pattern(n, 10_000 + 20_000 * n as usize))
        .collect();
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for (number, value) in values.iter().enumerate() {
        requests.extend_from_slice(&set(&format!("k{number}"), value));
        expected.extend_from_slice(b"STORED\r\n");
    }
    for (number, value) in values.iter().enumerate() {
        let key = format!("k{number}");
        requests.extend_from_slice(format!("get {key}\r\n").as_bytes());
        expected.extend_from_slice(&hit(&key, value));
    }
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&requests).unwrap());
    expect(&mut &stream, &expected);
    sender.join().unwrap();
}

/// Random stores and reads of one client's own keys, and the answers to them.
fn random_talk(client: u64) -> (Vec<u8>, Vec<u8>) {
    let dice = pattern(client, 2 * 600);
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    let mut values: Vec<Option<Vec<u8>>> = vec![None; 8];
    for (round, two) in dice.chunks(2).enumerate() {
        let place = usize::from(two[0] % 8);
        let key = format!("client{client}-{place}");
        if two[1] % 3 == 0 {
            let bytes =
                [3, 100, 5_000, 16_300, 16_380, 20_000, 70_000, 0][usize::from(two[1] / 32)];
            let value = pattern(client << 32 | round as u64, bytes);
            requests.extend_from_slice(&set(&key, &value));
            expected.extend_from_slice(b"STORED\r\n");
            values[place] = Some(value);
        } else {
            requests.extend_from_slice(format!("get {key}\r\n").as_bytes());
            match &values[place] {
                Some(value) => expected.extend_from_slice(&hit(&key, value)),
                None => expected.extend_from_slice(b"END\r\n"),
            }
        }
    }
    (requests, expected)
}

#[test]
fn clients_that_cut_their_requests_anywhere_get_their_own_answers() {
    let daemon = Daemon::start(&["--memory", "256MiB"]);
    std::thread::scope(|scope| {
        for client in 0..12 {
            let stream = daemon.connect();
            let mut writer = stream.try_clone().unwrap();
            let (requests, expected) = random_talk(client);
            scope.spawn(move || {
                let mut rest = requests.as_slice();
                for cut in pattern(client + 100, 2 * requests.len()).chunks(2) {
                    let bytes = [1, 7, 300, 4_000, 16_384, 40_000][usize::from(cut[0] % 6)];
                    let (now, later) = rest.split_at(rest.len().min(bytes + usize::from(cut[1])));
                    writer.write_all(now).unwrap();
                    rest = later;
                    if rest.is_empty() {
                        return;
                    }
                }
            });
            scope.spawn(move || expect(&mut &stream, &expected));
        }
    });
}

#[test]
fn a_value_up_to_the_limit_is_stored_and_one_above_is_refused() {
    let daemon = Daemon::start(&["--memory", "256MiB", "--max-value", "20MiB"]);
    let mut stream = daemon.connect();
    let value = pattern(1, 20 << 20);
    check(&mut stream, &set("k", &value), b"STORED\r\n");
    check(&mut stream, b"get k\r\n", &hit("k", &value));
    let above = pattern(2, (20 << 20) + 1);
    let refused = b"SERVER_ERROR object too large for cache\r\n";
    check(&mut stream, &set("k", &above), refused);
    check(&mut stream, b"mn\r\n", b"MN\r\n");
    let mut requests = set("other", &above).repeat(2);
    requests.extend_from_slice(b"get other\r\n");
    let mut expected = refused.repeat(2);
    expected.extend_from_slice(b"END\r\n");
    check(&mut stream, &requests, &expected);
}

#[test]
fn a_refused_value_is_answered_when_it_has_arrived() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut other = daemon.connect();
    let above = pattern(1, (1 << 20) + 1);
    let refused = b"SERVER_ERROR object too large for cache\r\n".as_slice();
    let mut set_packet = b"\x80\x01\0\x01\x08\0\0\0".to_vec();
    set_packet.extend_from_slice(&(9 + (1_u32 << 20) + 1).to_be_bytes());
    set_packet.extend_from_slice(&[0; 20]);
    set_packet.push(b'k');
    set_packet.extend_from_slice(&above);
    let mut too_large = b"\x81\x01\0\0\0\0\0\x03\0\0\0\x0a".to_vec();
    too_large.extend_from_slice(&[0; 12]);
    too_large.extend_from_slice(b"Too large.");
    for (request, answer) in [(set("k", &above), refused), (set_packet, &too_large)] {
        let mut stream = daemon.connect();
        let (first, second) = request.split_at(request.len() / 2);
        stream.write_all(first).unwrap();
        // The only loop has read the first half and written what it says when it answers this.
        check(&mut other, b"mn\r\n", b"MN\r\n");
        stream.set_nonblocking(true).unwrap();
        let early = stream.peek(&mut [0]).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        check(&mut stream, second, answer);
    }
}

#[test]
fn a_value_without_its_line_end_is_refused_and_not_stored() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    for bytes in [10, 20_000] {
        let mut request = set("k", &pattern(1, bytes));
        let end = request.len() - 2;
        request[end..].copy_from_slice(b"xx");
        check(&mut stream, &request, b"CLIENT_ERROR bad data chunk\r\n");
        check(&mut stream, b"get k\r\n", b"END\r\n");
    }
}

#[test]
fn binary_garbage_hurts_nobody_else() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut other = daemon.connect();
    check(&mut other, &set("k", b"v"), b"STORED\r\n");
    for seed in 0..50 {
        let mut stream = daemon.connect();
        let _ = stream.write_all(&pattern(seed, 100_000));
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        check(&mut other, b"get k\r\n", &hit("k", b"v"));
    }
    let mut endless = daemon.connect();
    let _ = endless.write_all(&vec![b'x'; 5 << 20]);
    expect_end(&mut endless);
    assert_eq!(daemon.stat("curr_items"), 1);
}

#[test]
fn a_half_sent_value_is_not_stored() {
    let daemon = Daemon::start(&[]);
    for bytes in [100, 100_000] {
        let mut stream = daemon.connect();
        let request = set("k", &pattern(1, bytes));
        stream.write_all(&request[..request.len() - 1]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        expect_end(&mut stream);
        check(&mut daemon.connect(), b"get k\r\n", b"END\r\n");
    }
}

#[test]
fn a_client_that_is_done_sending_gets_all_its_answers() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let value = pattern(1, 50_000);
    stream.write_all(&set("k", &value)).unwrap();
    stream.write_all(&b"get k\r\n".repeat(100)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    expect(&mut stream, b"STORED\r\n");
    expect(&mut stream, &hit("k", &value).repeat(100));
    expect_end(&mut stream);
}

#[test]
fn answers_before_quit_arrive_and_requests_after_it_are_not_executed() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let mut requests = b"mn\r\n".repeat(100);
    requests.extend_from_slice(b"quit\r\n");
    requests.extend_from_slice(&set("after", b"v").repeat(2_000));
    let _ = stream.write_all(&requests);
    expect(&mut stream, &b"MN\r\n".repeat(100));
    expect_end(&mut stream);
    check(&mut daemon.connect(), b"get after\r\n", b"END\r\n");
}

#[test]
fn one_get_may_ask_for_many_keys() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let mut request = b"get".to_vec();
    let mut expected = Vec::new();
    for number in 0..5_000 {
        let key = format!("a-key-of-some-length-{number:06}");
        let value = format!("value {number}");
        let mut silent = format!("set {key} 0 0 {} noreply\r\n", value.len()).into_bytes();
        silent.extend_from_slice(value.as_bytes());
        silent.extend_from_slice(b"\r\n");
        stream.write_all(&silent).unwrap();
        request.extend_from_slice(format!(" {key} missing-{number}").as_bytes());
        let whole = hit(&key, value.as_bytes());
        expected.extend_from_slice(&whole[..whole.len() - b"END\r\n".len()]);
    }
    request.extend_from_slice(b"\r\n");
    expected.extend_from_slice(b"END\r\n");
    check(&mut stream, &request, &expected);
}

#[test]
fn a_get_of_many_large_values_is_answered_in_bounded_memory() {
    let daemon = Daemon::spawn(&["--write-timeout", "1d"]);
    let mut stream = daemon.connect();
    let small = pattern(1, 15_000);
    let large = pattern(2, 500_000);
    check(&mut stream, &set("small", &small), b"STORED\r\n");
    check(&mut stream, &set("large", &large), b"STORED\r\n");
    let mut request = b"get".to_vec();
    let mut expected = Vec::new();
    for (key, value, count) in [("small", &small, 2_000), ("large", &large, 100)] {
        request.extend_from_slice(format!(" {key}").repeat(count).as_bytes());
        let whole = hit(key, value);
        expected.extend_from_slice(&whole[..whole.len() - b"END\r\n".len()].repeat(count));
    }
    request.extend_from_slice(b"\r\n");
    expected.extend_from_slice(b"END\r\n");
    stream.write_all(&request).unwrap();
    stream.peek(&mut [0]).unwrap();
    wait_until("as much is sent as is taken", || {
        let before = daemon.stat("bytes_written");
        check(&mut daemon.connect(), b"mn\r\n", b"MN\r\n");
        daemon.stat("bytes_written") < before + 100_000
    });
    check(
        &mut daemon.connect(),
        b"get small\r\n",
        &hit("small", &small),
    );
    assert!(
        occupied_bytes(daemon.id(), "VmRSS") < 100 << 20,
        "{}",
        occupied_bytes(daemon.id(), "VmRSS")
    );
    expect(&mut stream, &expected);
}

#[test]
fn a_unix_socket_serves_like_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serve.sock");
    let flags = [
        "--memcached",
        "off",
        "--unix",
        path.to_str().unwrap(),
        "--unix-mode",
        "660",
    ];
    let daemon = Daemon::spawn(&flags);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).unwrap();
    for bytes in [10, 20_000, 1_000_000] {
        let value = pattern(1, bytes);
        check(&mut stream, &set("k", &value), b"STORED\r\n");
        check(&mut stream, b"get k\r\n", &hit("k", &value));
    }
    // A slow reader: room in a UNIX socket is only watched once it was full.
    let value = pattern(1, 1_000_000);
    stream.write_all(&b"get k\r\n".repeat(20)).unwrap();
    for _ in 0..20 {
        // paced: the reader is slow.
        std::thread::sleep(std::time::Duration::from_millis(5));
        expect(&mut stream, &hit("k", &value));
    }
    drop(daemon);
    // The killed server leaves its file; the next one replaces it.
    assert!(path.exists());
    let _daemon = Daemon::spawn(&flags);
    check(
        &mut UnixStream::connect(&path).unwrap(),
        b"mn\r\n",
        b"MN\r\n",
    );
}

#[test]
fn every_protocol_is_served_over_socket_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [text, redis, web] = ["text", "redis", "web"].map(path);
    let file = |path: &str| format!("unix:{path}");
    let both = format!("127.0.0.1:0,{}", file(&redis));
    let _daemon = Daemon::start(&[
        "--memcached",
        &file(&text),
        "--resp",
        &both,
        "--http",
        &file(&web),
        "--unix-mode",
        "600",
    ]);
    let connect = |path: &str| {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path}");
        UnixStream::connect(path).unwrap()
    };
    let value = pattern(1, 1_000_000);
    check(&mut connect(&text), &set("k", &value), b"STORED\r\n");
    let mut stream = connect(&redis);
    let head = format!("${}\r\n", value.len());
    let reply = [head.as_bytes(), &value, b"\r\n"].concat();
    check(&mut stream, b"GET k\r\n", &reply);
    let line = bulk(&mut stream, b"CLIENT INFO\r\n");
    let uid = rustix::process::getuid().as_raw();
    assert!(
        line.contains(&format!("addr={redis}:0 laddr={redis}:0 ")),
        "{line}"
    );
    assert!(line.trim_end().ends_with(&format!(" uid={uid}")), "{line}");
    let expected = format!("unixsocket\r\n${}\r\n{redis}\r\n", redis.len());
    let reply = format!("*2\r\n$10\r\n{expected}");
    check(&mut stream, b"CONFIG GET unixsocket\r\n", reply.as_bytes());
    let mut stream = connect(&text);
    stream.write_all(b"stats settings\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut settings = lines.take_while(|line| line != "END");
    assert!(settings.any(|line| line == format!("STAT domain_socket {text}")));
    let mut stream = connect(&web);
    stream
        .write_all(b"GET /v1/cache/k HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.starts_with(b"HTTP/1.1 200") && reply.ends_with(&value));
}

/// The bulk string that answers a request of the Redis protocol.
fn bulk(stream: &mut UnixStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = String::new();
    reader.read_line(&mut length).unwrap();
    let bytes: usize = length.trim_start_matches('$').trim().parse().unwrap();
    let mut text = vec![0; bytes + 2];
    reader.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn several_addresses_are_served_and_told() {
    let daemon = Daemon::start(&["--memcached", "127.0.0.1:0,127.0.0.1:0"]);
    let addresses: Vec<&str> = daemon.address.split(',').collect();
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        let mut stream = TcpStream::connect(address).unwrap();
        check(&mut stream, b"mn\r\n", b"MN\r\n");
    }
}
