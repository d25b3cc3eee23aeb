//! Threads that wait drive their connection themselves, and wake no other. Alone in its process,
//! because it counts the switches of a thread. The server is one of a few commands, in this file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{BlockingNear, Error, Near};

/// How long a busy machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

type Values = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// A server that knows what a near cache asks; its address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let values = Values::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let values = Arc::clone(&values);
            thread::spawn(move || answer(&stream.unwrap(), &values));
        }
    });
    address
}

fn answer(stream: &TcpStream, values: &Values) {
    let mut reader = BufReader::new(stream);
    let mut replies = Vec::new();
    while let Some(command) = read(&mut reader) {
        let reply = match (command[0].as_slice(), &command[1..]) {
            (b"HELLO", _) => b"%1\r\n+proto\r\n:3\r\n".to_vec(),
            (b"INFO", _) => b"$0\r\n\r\n".to_vec(),
            (b"SET", [key, value, ..]) => {
                values.lock().unwrap().insert(key.clone(), value.clone());
                b"+OK\r\n".to_vec()
            }
            (b"GET", [key]) => match values.lock().unwrap().get(key) {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"_\r\n".to_vec(),
            },
            (b"PTTL", _) => b":-1\r\n".to_vec(),
            (b"CLIENT" | b"PING", _) => b"+OK\r\n".to_vec(),
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        replies.extend(reply);
        if reader.buffer().is_empty() {
            let mut writer = stream;
            // Err means that the client has gone.
            drop(writer.write_all(&replies));
            replies.clear();
        }
    }
}

/// One command; none at the end.
fn read(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let parts = number(reader)?;
    let mut command = Vec::with_capacity(parts);
    for _ in 0..parts {
        let mut part = vec![0; number(reader)? + 2];
        reader.read_exact(&mut part).ok()?;
        part.truncate(part.len() - 2);
        command.push(part);
    }
    Some(command)
}

fn open() -> BlockingNear<u64, String> {
    let origin = Redis::open(format!("redis://{}", serve())).unwrap();
    // A long value holds up the answer that shows that the server lives.
    let origin = origin.timeout(PATIENCE).alive_bound(PATIENCE);
    let near = Near::builder(Remote::new(origin, Plain));
    near.build_blocking().unwrap()
}

/// How often the thread of this process's only cache has gone to sleep so far.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let paths = tasks.map(|task| task.unwrap().path());
    let mut of_caches = paths.filter(|path| {
        let name = std::fs::read_to_string(path.join("comm"));
        name.is_ok_and(|name| name == "cellar-near\n")
    });
    let status = std::fs::read_to_string(of_caches.next().unwrap().join("status")).unwrap();
    assert!(of_caches.next().is_none(), "another cache's thread");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Asks in all ways; how often.
fn ask(near: &BlockingNear<u64, String>, keys: std::ops::Range<u64>) -> u64 {
    let value = "v".repeat(100);
    for key in keys.clone() {
        near.set(&key, &value).unwrap();
        assert_eq!(near.get(&key).unwrap().as_deref(), Some(&value));
        let absent = u64::MAX - key;
        let made = near.get_or_load(&absent, || Ok::<_, Error>(Some("made".to_owned())));
        assert_eq!(made.unwrap().as_deref().map(String::as_str), Some("made"));
    }
    // One to write, one to read, and three to load.
    5 * (keys.end - keys.start)
}

#[test]
fn a_thread_that_waits_wakes_no_other_and_many_wait_together() {
    const THREADS: u64 = 8;
    const EACH: u64 = 300;
    let near = open();
    ask(&near, 0..1);
    let before = sleeps();
    let asked = ask(&near, 1..1_000);
    let slept = sleeps() - before;
    // The heart beats meanwhile; each question took two sleeps when its answer came by this thread.
    assert!(slept < asked / 4, "{slept} sleeps in {asked} questions");
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let near = &near;
            scope.spawn(move || ask(near, number * 10_000..number * 10_000 + EACH));
        }
    });
    assert_eq!(near.stats().errors, 0);
    // A value that fits into no socket's buffer: it is written in parts, by whoever may.
    let long = "long".repeat(4 << 20);
    near.set(&0, &long).unwrap();
    assert!(near.get(&0).unwrap().is_some_and(|held| *held == long));
}
