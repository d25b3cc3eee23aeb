//! Events: what no single command asks for: clients that go with all they have set up, and commands
//! that concern what others have.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::probe::{Bench, Outcome, read_to_end};
use crate::support::daemon::frame;
use crate::support::wait::wait_until;

/// Something that happens to a connection, or to many at once.
pub(crate) struct Event {
    /// What happens.
    pub(crate) name: &'static str,
    /// Has it happen, with its clients ready.
    run: fn(&Bench) -> Outcome,
}

/// Clients that do the same at once.
const MANY: usize = 30;

macro_rules! events {
    ($($name:literal: $run:expr;)*) => {
        &[$(Event { name: $name, run: $run },)*]
    };
}

/// All of them.
pub(crate) const EVENTS: &[Event] = events! {
    "FLUSHALL of tracked keys": |bench| {
        let mut reader = tracker(bench);
        bench.watch(|| {
            ask(&mut bench.client(), &[&["FLUSHALL"]]);
            read_to_end(&mut reader, b"$10\r\ninvalidate\r\n_\r\n");
        })
    };
    "the end of who tracks keys": |bench| {
        let reader = tracker(bench);
        bench.watch(|| drop(reader))
    };
    "CLIENT TRACKING off": |bench| {
        let mut reader = tracker(bench);
        bench.watch(|| ask(&mut reader, &[&["CLIENT", "TRACKING", "off"]]))
    };
    "CONFIG SET of a smaller tracking table": |bench| {
        let reader = tracker(bench);
        let resize = |most: &str| {
            let command = ["CONFIG", "SET", "tracking-table-max-keys", most];
            ask(&mut bench.client(), &[&command]);
        };
        let outcome = bench.watch(|| resize("10"));
        resize("1000000");
        drop(reader);
        outcome
    };
    "a read of many keys that are tracked": |bench| {
        let mut reader = tracker(bench);
        bench.watch(|| ask_with_names(&mut reader, "SUNION", 2_048))
    };
    "FUNCTION LOAD of the tenth library": |bench| {
        let mut client = bench.client();
        (0..9).for_each(|at| load_library(&mut client, at));
        let outcome = bench.watch(|| load_library(&mut client, 9));
        ask(&mut client, &[&["FUNCTION", "FLUSH"]]);
        outcome
    };
    "FUNCTION RESTORE of ten libraries": |bench| {
        let mut client = bench.client();
        (0..10).for_each(|at| load_library(&mut client, at));
        client.write_all(&frame(&[b"FUNCTION", b"DUMP"])).unwrap();
        let dump = read_bulk(&mut client);
        let outcome = bench.watch(|| {
            client.write_all(&frame(&[b"FUNCTION", b"RESTORE", &dump, b"REPLACE"])).unwrap();
            read_to_end(&mut client, b"+OK\r\n");
        });
        ask(&mut client, &[&["FUNCTION", "FLUSH"]]);
        outcome
    };
    "many subscribers go": |bench| {
        let all = many(|| with_names(bench, "SUBSCRIBE", 7_000));
        bench.watch(|| drop(all))
    };
    "many subscribers are killed": |bench| {
        let all = many(|| with_names(bench, "PSUBSCRIBE", 4_000));
        let kill = ["CLIENT", "KILL", "TYPE", "pubsub"];
        let outcome = bench.watch(|| ask(&mut bench.client(), &[&kill]));
        drop(all);
        outcome
    };
    "many who watch keys go": |bench| {
        let all = many(|| with_names(bench, "WATCH", 3_900));
        bench.watch(|| drop(all))
    };
    "PUBSUB CHANNELS of very many": |bench| {
        let all: Vec<TcpStream> = (0..15).map(|client| {
            let names = (0..bench.scaled(7_000)).map(|name| format!("channel:{client}:{name}"));
            let words: Vec<String> = ["SUBSCRIBE".to_owned()].into_iter().chain(names).collect();
            let mut client = bench.client();
            client.write_all(&framed(&words)).unwrap();
            wait(&mut client);
            client
        }).collect();
        let outcome = bench.watch(|| ask(&mut bench.client(), &[&["PUBSUB", "CHANNELS"]]));
        drop(all);
        outcome
    };
    "MSET of many keys that very many are told of": |bench| {
        let all: Vec<TcpStream> = (0..bench.scaled(3_000)).map(|_| {
            let mut client = bench.client();
            ask(&mut client, &[&["HELLO", "3"], &["CLIENT", "TRACKING", "on", "BCAST"]]);
            client
        }).collect();
        let keys = 0..bench.scaled(8_000);
        let pairs = keys.flat_map(|key| [format!("key:{key}"), key.to_string()]);
        let words: Vec<String> = ["MSET".to_owned()].into_iter().chain(pairs).collect();
        let outcome = bench.watch(|| {
            let mut client = bench.client();
            client.write_all(&framed(&words)).unwrap();
            wait(&mut client);
        });
        drop(all);
        outcome
    };
    "FLUSHALL of watched keys": |bench| {
        let all = many(|| with_names(bench, "WATCH", 3_900));
        let outcome = bench.watch(|| ask(&mut bench.client(), &[&["FLUSHALL"]]));
        drop(all);
        outcome
    };
    "many who wait for keys go": |bench| {
        let all = many(|| {
            let names = (0..bench.scaled(3_900)).map(|name| format!("wait:{name}"));
            let words = ["BLPOP".to_owned()].into_iter().chain(names);
            let words: Vec<String> = words.chain(["0".to_owned()]).collect();
            let mut client = bench.client();
            client.write_all(&framed(&words)).unwrap();
            client
        });
        wait_for_blocked(bench, all.len());
        bench.watch(|| drop(all))
    };
    "SWAPDB where very much is waited for": |bench| {
        let all: Vec<TcpStream> = (0..20).map(|client| {
            let names = (0..bench.scaled(3_900)).map(|name| format!("wait:{client}:{name}"));
            let words = ["BLPOP".to_owned()].into_iter().chain(names);
            let words: Vec<String> = words.chain(["0".to_owned()]).collect();
            let mut client = bench.client();
            client.write_all(&framed(&words)).unwrap();
            client
        }).collect();
        wait_for_blocked(bench, all.len());
        let outcome = bench.watch(|| ask(&mut bench.client(), &[&["SWAPDB", "0", "1"]]));
        ask(&mut bench.client(), &[&["SWAPDB", "0", "1"]]);
        drop(all);
        outcome
    };
    "many with a full queue for EXEC go": |bench| {
        let value = "x".repeat(1 << 20);
        let all: Vec<TcpStream> = (0..4).map(|_| {
            let mut client = bench.client();
            client.write_all(&frame(&[b"MULTI"])).unwrap();
            read_to_end(&mut client, b"+OK\r\n");
            for _ in 0..bench.scaled(30) {
                client.write_all(&frame(&[b"SADD", b"k", value.as_bytes()])).unwrap();
                read_to_end(&mut client, b"+QUEUED\r\n");
            }
            client
        }).collect();
        bench.watch(|| drop(all))
    };
    "who has sent half of a long command goes": |bench| {
        let (mut client, bytes) = (bench.client(), bench.scaled(100_000_000));
        let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", bytes + 1);
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&vec![b'x'; bytes]).unwrap();
        bench.watch(|| drop(client))
    };
    "RESET with all that can be set up": |bench| {
        let mut client = bench.client();
        ask(&mut client, &[&["HELLO", "3"]]);
        for (command, names) in [("SUBSCRIBE", 7_000), ("WATCH", 3_900)] {
            ask_with_names(&mut client, command, bench.scaled(names));
        }
        let prefix = |at| ["PREFIX".to_owned(), format!("p:{at}:")];
        let prefixes = (0..bench.scaled(1_500)).flat_map(prefix);
        let words = ["CLIENT", "TRACKING", "on", "BCAST"].map(str::to_owned);
        let words: Vec<String> = words.into_iter().chain(prefixes).collect();
        client.write_all(&framed(&words)).unwrap();
        bench.watch(|| {
            client.write_all(&frame(&[b"RESET"])).unwrap();
            read_to_end(&mut client, b"+RESET\r\n");
        })
    };
};

impl Event {
    /// Has it happen; how long others waited.
    pub(crate) fn run(&self, bench: &Bench) -> Outcome {
        bench.best_of(|| (self.run)(bench))
    }
}

/// Loads a library of as many functions as one may have.
fn load_library(client: &mut TcpStream, number: usize) {
    let function = |at| format!("redis.register_function('l{number}_{at}', function() end)\n");
    let functions: String = (0..1_000).map(function).collect();
    let source = format!("#!lua name=lib{number}\n{functions}");
    ask(client, &[&["FUNCTION", "LOAD", &source]]);
}

/// Reads a string that is answered.
fn read_bulk(client: &mut TcpStream) -> Vec<u8> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while byte != *b"\n" {
        client.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    let length = std::str::from_utf8(&head[1..head.len() - 2]).unwrap();
    let mut text = vec![0; length.parse::<usize>().unwrap() + 2];
    client.read_exact(&mut text).unwrap();
    text.truncate(text.len() - 2);
    text
}

fn many(one: impl Fn() -> TcpStream) -> Vec<TcpStream> {
    (0..MANY).map(|_| one()).collect()
}

fn framed(words: &[String]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    frame(&words)
}

/// Sends commands, and waits until all are answered.
fn ask(client: &mut TcpStream, commands: &[&[&str]]) {
    for words in commands {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client.write_all(&frame(&words)).unwrap();
    }
    wait(client);
}

/// Waits until so many clients are in blocking commands.
fn wait_for_blocked(bench: &Bench, count: usize) {
    let line = format!("blocked_clients:{count}\r\n");
    wait_until(
        || format!("{count} clients are blocked"),
        || bench.info("clients").contains(&line),
    );
}

/// Waits for the answer to a PING.
fn wait(client: &mut TcpStream) {
    client.write_all(&frame(&[b"PING", b"THE-END"])).unwrap();
    read_to_end(client, b"$7\r\nTHE-END\r\n");
}

fn ask_with_names(client: &mut TcpStream, command: &str, count: usize) {
    let names = (0..count).map(|name| format!("name:{name}"));
    let words: Vec<String> = [command.to_owned()].into_iter().chain(names).collect();
    client.write_all(&framed(&words)).unwrap();
    wait(client);
}

/// A client that subscribes or watches so many names.
fn with_names(bench: &Bench, command: &str, count: usize) -> TcpStream {
    let mut client = bench.client();
    ask_with_names(&mut client, command, bench.scaled(count));
    client
}

/// A client that is told of as many keys as there are.
fn tracker(bench: &Bench) -> TcpStream {
    let mut client = bench.client();
    ask(
        &mut client,
        &[&["HELLO", "3"], &["CLIENT", "TRACKING", "on"]],
    );
    for first in (0..bench.keys()).step_by(2_000) {
        let keys = (first..first + 2_000).map(|key| format!("key:{key}"));
        let words: Vec<String> = ["MGET".to_owned()].into_iter().chain(keys).collect();
        client.write_all(&framed(&words)).unwrap();
        wait(&mut client);
    }
    // What was told of names that found no room.
    client.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4_096];
    while client.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    client.set_nonblocking(false).unwrap();
    client
}
