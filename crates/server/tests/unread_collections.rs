//! Unread collections: clients that ask for a whole collection and do not read the reply hold
//! nobody up for long.
//!
//! The commands are those of the table that answer a whole collection in one of the usual forms, so
//! a new one is among them without being named.

use crate::support::http::Http;
use crate::support::wait::wait_until;
use crate::support::{daemon, resp};

use std::io::Read;
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use cellar_protocol::resp::command::{Flags, TABLE};
use daemon::Daemon;
use resp::{Client, Value};

const MIB: usize = 1 << 20;
const MEMORY_BYTES: usize = 64 * MIB;
/// No client leaves for its own slowness, or for what a reply is gathered in beside the cache.
const FLAGS: [&str; 10] = [
    "--memory",
    "64MiB",
    "--max-value",
    "32MiB",
    "--threads",
    "1",
    "--write-timeout",
    "1d",
    "--client-memory",
    "1GiB",
];
/// A key of each type, and the command that adds to it.
const TYPES: [(&str, &str); 4] = [
    ("hash", "HSET"),
    ("set", "SADD"),
    ("list", "RPUSH"),
    ("sorted", "ZADD"),
];
/// What stands behind a command's name where it is to answer all of a key.
pub(crate) const FORMS: [&str; 14] = [
    "KEY",
    "KEY none",
    "1 KEY",
    "KEY 0 -1",
    "KEY -inf +inf",
    "KEY +inf -inf",
    "KEY - +",
    "KEY + -",
    "KEY 1000000",
    "KEY 0 COUNT 1000000",
    "KEY BY nosort",
    "KEY 0 0 22000 km",
    "KEY FROMLONLAT 0 0 BYRADIUS 22000 km ASC",
    "KEY none WITHSCORES",
];
/// Clients that ask and do not read.
const READERS: usize = 3;
/// Members of a collection of which three versions take more than a quarter of the memory.
const MANY: usize = 15_000;
const FEW: usize = 100;

/// Adds members to a key of a type; whether there was memory for all.
fn add(client: &mut Client, (key, command): (&str, &str), members: Range<usize>) -> bool {
    let texts: Vec<String> = members.map(|member| format!("{member:0>400}")).collect();
    texts.chunks(1_000).all(|texts| {
        let mut args = vec![command.as_bytes(), key.as_bytes()];
        for text in texts {
            match command {
                "HSET" => args.extend([&text.as_bytes()[390..], text.as_bytes()]),
                "ZADD" => args.extend([b"1", text.as_bytes()]),
                _ => args.push(text.as_bytes()),
            }
        }
        matches!(client.call(&args), Value::Integer(_))
    })
}

/// Values within a reply, however deep.
fn count(reply: &Value) -> usize {
    match reply {
        Value::Array(all) | Value::Set(all) | Value::Push(all) => all.iter().map(count).sum(),
        Value::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| count(key) + count(value))
            .sum(),
        _ => 1,
    }
}

/// For each command that reads and answers all of a key in one of the forms: its words, and the
/// key's type.
fn questions() -> Vec<(String, (&'static str, &'static str))> {
    let daemon = Daemon::start(&FLAGS);
    let mut client = Client::connect(&daemon);
    for of_type in TYPES {
        assert!(add(&mut client, of_type, 0..FEW));
    }
    let mut found = Vec::new();
    let reads = TABLE
        .iter()
        .filter(|row| row.flags.has(Flags::READONLY) || row.name == "sort");
    for row in reads.filter(|row| row.name != "keys" && row.name != "scan") {
        for of_type in TYPES {
            let words =
                FORMS.map(|form| format!("{} {}", row.name, form.replace("KEY", of_type.0)));
            let is_whole = |words: &String| count(&client.run(words)) >= FEW;
            found.extend(
                words
                    .into_iter()
                    .find(is_whole)
                    .map(|words| (words, of_type)),
            );
        }
    }
    found
}

/// Bytes of the cache's values that are being sent or received.
fn transfer_bytes(daemon: &Daemon) -> usize {
    let page = Http::to(daemon).get("/metrics");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix("cellar_transfer_bytes "));
    found.unwrap().parse().unwrap()
}

/// Clients that have asked `words`, have been sent the beginning of the reply, and read no more.
/// The key is changed behind each question while there is memory for it, so that each reply is of
/// another version.
fn unread(
    daemon: &Daemon,
    writer: &mut Client,
    words: &str,
    of_type: (&str, &str),
) -> Vec<TcpStream> {
    let ask = |number| {
        let mut reader = Client::connect(daemon);
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        reader.send(&words);
        let mut stream = reader.into_stream();
        stream.read_exact(&mut [0]).unwrap();
        add(writer, of_type, MANY + number..MANY + number + 1);
        stream
    };
    (0..READERS).map(ask).collect()
}

/// Lets the readers of `words` wait for some seconds of the server's clock; then little is pinned
/// and the key can be changed.
fn check(daemon: &Daemon, words: &str, of_type: (&str, &str), pinned_min: usize) {
    let mut writer = Client::connect(daemon);
    writer.run("FLUSHALL");
    assert!(add(&mut writer, of_type, 0..MANY), "{words}");
    let readers = unread(daemon, &mut writer, words, of_type);
    let pinned = transfer_bytes(daemon);
    assert!(pinned >= pinned_min, "{words}: {pinned} bytes are pinned");
    let few = || transfer_bytes(daemon) <= MEMORY_BYTES / 4;
    daemon.advance_until(words, Duration::from_secs(1), few);
    assert!(add(&mut writer, of_type, 0..1), "{words}: no memory");
    drop(readers);
    let what = || format!("{words}: {} bytes stay pinned", transfer_bytes(daemon));
    wait_until(what, || transfer_bytes(daemon) == 0);
}

#[test]
fn clients_that_do_not_read_a_collection_leave_for_those_that_change_it() {
    let daemon = Daemon::start(&FLAGS);
    for (words, of_type) in [("HGETALL hash", TYPES[0]), ("LRANGE list 0 -1", TYPES[2])] {
        // Above a quarter of the memory, slow clients leave after a second.
        check(&daemon, words, of_type, MEMORY_BYTES / 4 + 1);
    }
}

/// Asks all questions about one type.
fn check_all(of_type: usize) {
    let daemon = Daemon::start(&FLAGS);
    let mut asked = 0;
    for (words, _) in questions().iter().filter(|(_, it)| *it == TYPES[of_type]) {
        check(&daemon, words, TYPES[of_type], 0);
        asked += 1;
    }
    assert!(
        asked >= 2,
        "{asked} commands answer all of {:?}",
        TYPES[of_type]
    );
}

#[test]
fn no_unread_reply_of_a_whole_hash_holds_up_who_changes_it() {
    check_all(0);
}

#[test]
fn no_unread_reply_of_a_whole_set_holds_up_who_changes_it() {
    check_all(1);
}

#[test]
fn no_unread_reply_of_a_whole_list_holds_up_who_changes_it() {
    check_all(2);
}

#[test]
fn no_unread_reply_of_a_whole_sorted_set_holds_up_who_changes_it() {
    check_all(3);
}
