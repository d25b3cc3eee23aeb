//! Memory: the process stays within `--memory`, 16 MiB and 64 KiB for each connection, whatever is
//! stored and however clients behave.

use crate::support::{daemon, resident, resp, vitals};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use daemon::{Daemon, check, expect, hit, pattern, set};
use resident::{Random, Sender, check_resident};
use resp::{Client, Value};

const MIB: usize = 1 << 20;

#[test]
fn values_of_all_sizes_stay_within_memory() {
    let daemon = Daemon::spawn(&["--memory", "64MiB"]);
    let mut sender = Sender::new(&daemon);
    let mut random = Random(1);
    for number in 0..3_000 {
        let octave = random.below(17);
        let bytes = (10 << octave) + random.below(10 << octave);
        sender.store(&format!("key{number}"), bytes.min(MIB), 0);
    }
    sender.finish();
    assert!(daemon.stat("evictions") > 0);
    check_resident(&daemon, 64 * MIB, 2);
}

#[test]
fn a_storm_of_overwrites_stays_within_memory() {
    let daemon = Daemon::spawn(&["--memory", "32MiB"]);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let mut sender = Sender::new(&daemon);
            scope.spawn(move || {
                let mut random = Random(thread + 5);
                for _ in 0..30_000 {
                    let key = format!("key{}", random.below(8_000));
                    sender.store(&key, 10 + random.below(8_000), 0);
                }
                sender.finish();
            });
        }
    });
    check_resident(&daemon, 32 * MIB, 3);
}

#[test]
fn nothing_but_counters_stays_within_memory() {
    let daemon = Daemon::spawn(&["--memory", "8MiB"]);
    let mut sender = Sender::new(&daemon);
    let mut random = Random(3);
    for number in 0..700_000 {
        let key = if number % 2 == 0 {
            number
        } else {
            random.below(number)
        };
        sender.request(format!("ma {key} N0 J1 D{number} q\r\n").as_bytes());
    }
    sender.finish();
    assert!(daemon.stat("evictions") > 0);
    check_resident(&daemon, 8 * MIB, 2);
}

#[test]
fn nothing_but_large_values_stays_within_memory() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--max-value", "1MiB"]);
    let mut sender = Sender::new(&daemon);
    let mut reader = daemon.connect();
    for number in 0..300 {
        sender.store(&format!("key{}", number * 7 % 200), MIB, 0);
        sender.finish();
        if number % 10 == 0 {
            let key = format!("key{}", number * 7 % 200);
            let value = vec![b'v'; MIB];
            check(
                &mut reader,
                format!("get {key}\r\n").as_bytes(),
                &hit(&key, &value),
            );
        }
    }
    check_resident(&daemon, 64 * MIB, 3);
}

#[test]
fn forty_times_to_live_stay_within_a_small_memory() {
    let daemon = Daemon::spawn(&["--memory", "8MiB"]);
    let mut sender = Sender::new(&daemon);
    let mut random = Random(4);
    for number in 0..300_000 {
        let ttl_s = 1 + random.below(40) as u64;
        sender.store(&format!("key{number}"), 20 + random.below(200), ttl_s);
    }
    sender.finish();
    assert!(daemon.stat("evictions") > 0);
    check_resident(&daemon, 8 * MIB, 2);
}

#[test]
fn memory_of_the_dead_goes_back_to_the_system_if_asked_for() {
    let daemon = Daemon::start(&["--memory", "64MiB", "--release-memory"]);
    // The server is in this process.
    let occupied_bytes = || vitals::occupied_bytes(std::process::id(), "VmRSS");
    let before = occupied_bytes();
    let mut sender = Sender::new(&daemon);
    for number in 0..180_000 {
        let ttl_s = if number % 6 == 0 { 0 } else { 2 };
        sender.store(&format!("key{number}"), 250, ttl_s);
    }
    sender.finish();
    let full = occupied_bytes() - before;
    assert!(full > 40 * MIB, "{full}");
    daemon.advance(Duration::from_secs(2));
    daemon.advance_until("memory is given back", Duration::from_secs(1), || {
        occupied_bytes().saturating_sub(before) <= full / 2
    });
    let mut reader = daemon.connect();
    check(&mut reader, b"get key6\r\n", &hit("key6", &[b'v'; 250]));
}

#[test]
fn memory_that_segments_do_not_use_goes_back_to_the_system() {
    let daemon = Daemon::start(&["--memory", "4GiB", "--threads", "1"]);
    // The server is in this process.
    let occupied_bytes = || vitals::occupied_bytes(std::process::id(), "VmRSS");
    let before = occupied_bytes();
    let mut sender = Sender::new(&daemon);
    for number in 0..300_000 {
        sender.store(&format!("key{number}"), 250, 1);
    }
    sender.finish();
    assert!(occupied_bytes() - before > 60 * MIB);
    daemon.advance_until("they are gone", Duration::from_secs(1), || {
        daemon.stat("curr_items") == 0
    });
    // In segments that others have filled before.
    for number in 0..200 {
        sender.store(&format!("key{number}"), 250, number % 2 * 3_600);
    }
    sender.finish();
    daemon.advance_until("memory is given back", Duration::from_millis(500), || {
        occupied_bytes().saturating_sub(before) <= 8 * MIB
    });
    let mut reader = daemon.connect();
    check(&mut reader, b"get key6\r\n", &hit("key6", &[b'v'; 250]));
    for number in 0..30_000 {
        sender.store(&format!("more{number}"), 250, 0);
    }
    sender.finish();
    assert_eq!(daemon.stat("curr_items"), 30_200);
}

#[test]
fn a_thousand_idle_connections_stay_within_their_share() {
    let daemon = Daemon::spawn(&["--memory", "16MiB"]);
    let value = pattern(1, 10_000);
    let mut idle: Vec<TcpStream> = (0..1_000).map(|_| daemon.connect()).collect();
    for (number, stream) in idle.iter_mut().enumerate() {
        let key = format!("key{number}");
        check(stream, &set(&key, &value), b"STORED\r\n");
        check(
            stream,
            format!("get {key}\r\n").as_bytes(),
            &hit(&key, &value),
        );
    }
    let mut sender = Sender::new(&daemon);
    (0..100_000).for_each(|number| sender.store(&format!("other{number}"), 200, 0));
    sender.finish();
    check_resident(&daemon, 16 * MIB, 1_000);
}

#[test]
fn readers_that_never_read_stay_within_their_share() {
    let daemon = Daemon::spawn(&["--memory", "32MiB", "--client-memory", "4MiB"]);
    let mut sender = Sender::new(&daemon);
    let sizes = [100, 10_000, 15_000, 200_000, MIB];
    for bytes in sizes {
        sender.store(&format!("of{bytes}"), bytes, 0);
    }
    sender.finish();
    let mut silent: Vec<TcpStream> = Vec::new();
    for number in 0..60 {
        let mut stream = daemon.connect();
        stream
            .set_write_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let request = format!("get of{}\r\n", sizes[number % sizes.len()]);
        // Requests are kept as far as --client-memory allows, and refused beyond it.
        let _ = stream.write_all(request.repeat(20_000).as_bytes());
        silent.push(stream);
    }
    (0..100_000).for_each(|number| sender.store(&format!("key{number}"), 500, 0));
    sender.finish();
    check_resident(&daemon, (32 + 4) * MIB, silent.len() + 2);
}

/// Memory that the machine can give at this moment.
fn available_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .unwrap();
    line.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        * 1024
}

#[test]
fn the_longest_value_is_stored_and_read_back_where_memory_allows() {
    const CHUNKS: usize = 512;
    let (memory, needed) = (1_200 * MIB, 3_000 * MIB);
    if available_bytes() < needed {
        eprintln!("skipped: a value of 512 MiB is tried where {needed} bytes are available");
        return;
    }
    let daemon = Daemon::spawn(&["--memory", "1200MiB", "--max-value", "512MiB"]);
    let mut stream = daemon.connect();
    let mut chunk = pattern(9, MIB);
    for round in 0..2_u64 {
        let line = format!("set large 0 0 {}\r\n", CHUNKS * MIB);
        stream.write_all(line.as_bytes()).unwrap();
        for number in 0..CHUNKS as u64 {
            chunk[..8].copy_from_slice(&(number + round * 1_000).to_le_bytes());
            stream.write_all(&chunk).unwrap();
        }
        check(&mut stream, b"\r\n", b"STORED\r\n");
        let head = format!("VALUE large 0 {}\r\n", CHUNKS * MIB);
        check(&mut stream, b"get large\r\n", head.as_bytes());
        let mut received = vec![0; MIB];
        for number in 0..CHUNKS as u64 {
            chunk[..8].copy_from_slice(&(number + round * 1_000).to_le_bytes());
            stream.read_exact(&mut received).unwrap();
            assert!(
                received == chunk,
                "chunk {number} of round {round} is wrong"
            );
        }
        expect(&mut stream, b"\r\nEND\r\n");
    }
    check_resident(&daemon, memory, 2);
}

#[test]
fn what_a_transaction_has_written_is_there_at_its_end_while_the_cache_evicts() {
    let daemon = Daemon::start(&["--memory", "64MiB", "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let value = vec![b'v'; 2_000];
    let mut number = 0;
    while daemon.stat("evictions") < 1_000 {
        let keys: Vec<String> = (0..1_000).map(|key| format!("{number}:{key}")).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
        let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
        assert_eq!(client.call(&args), resp::ok());
        number += 1;
    }
    // It takes 3 MiB; a sorted set and a hash grow to a third of that each, among strings.
    let mut queue = Vec::new();
    for part in 0..100 {
        let members: Vec<String> = (0..100).map(|at| format!("{part}:{at:0>90}")).collect();
        let scored = members
            .iter()
            .flat_map(|member| [&b"1"[..], member.as_bytes()]);
        let args: Vec<&[u8]> = [&b"ZADD"[..], b"sorted"]
            .into_iter()
            .chain(scored)
            .collect();
        queue.push(daemon::frame(&args));
        let fields = members
            .iter()
            .flat_map(|member| [member.as_bytes(), &b"1"[..]]);
        let args: Vec<&[u8]> = [&b"HSET"[..], b"hash"].into_iter().chain(fields).collect();
        queue.push(daemon::frame(&args));
        for at in 0..5 {
            let key = format!("own:{part}:{at}");
            queue.push(daemon::frame(&[b"SET", key.as_bytes(), &value]));
        }
    }
    let own: Vec<String> = (0..500)
        .map(|at| format!("own:{}:{}", at / 5, at % 5))
        .collect();
    let args: Vec<&[u8]> = own.iter().map(String::as_bytes).collect();
    let commands = queue.len() + 3;
    queue.push(daemon::frame(&[&[&b"EXISTS"[..]], &args[..]].concat()));
    queue.push(daemon::frame(&[b"ZCARD", b"sorted"]));
    queue.push(daemon::frame(&[b"HLEN", b"hash"]));
    client.send_raw(&[b"MULTI\r\n", &*queue.concat(), b"EXEC\r\n"].concat());
    for _ in 0..=commands {
        client.read();
    }
    let Value::Array(replies) = client.read() else {
        panic!("it is not executed");
    };
    let expected = [500, 10_000, 10_000].map(Value::Integer);
    assert_eq!(replies[commands - 3..], expected);
}
