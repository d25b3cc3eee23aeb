//! Gathering: a command whose result does not fit into the memory for clients is refused, changes
//! nothing, and its connection goes on.
//!
//! The commands are those of the table that read or write keys, each in all forms that take a whole
//! collection, so a new one is among them without being named.

use crate::support::{daemon, resp};

use std::collections::BTreeSet;

use cellar_protocol::resp::command::{Command, Flags, TABLE};
use daemon::Daemon;
use resp::{Client, Value, error};

const REFUSED: &str =
    "ERR the result is larger than half of the memory for clients (client-memory)";
const FLAGS: [&str; 6] = [
    "--threads",
    "1",
    // Several times what is stored, so that nothing is evicted.
    "--memory",
    "256MiB",
    "--client-memory",
    "8MiB",
];
/// A key of each type, and the command that adds to it.
const TYPES: [(&str, &str); 4] = [
    ("hash", "HSET"),
    ("set", "SADD"),
    ("list", "RPUSH"),
    ("sorted", "ZADD"),
];
/// Members of a collection, whose bytes are more than half of the memory for clients.
const MEMBERS: usize = 60_000;
/// What stands behind a command's name where it is to read all of a key.
const FORMS: [&str; 24] = [
    "KEY",
    "KEY none",
    "1 KEY",
    "KEY 0 -1",
    "KEY -inf +inf",
    "KEY - +",
    "KEY 0 COUNT 1000000",
    "KEY BY nosort",
    "KEY ALPHA",
    "KEY ALPHA STORE to",
    "KEY BY nosort STORE to",
    "KEY 0 0 22000 km",
    "KEY 0 0 22000 km STORE to",
    "KEY FROMLONLAT 0 0 BYRADIUS 22000 km ASC",
    "to KEY FROMLONLAT 0 0 BYRADIUS 22000 km ASC",
    "to KEY",
    "to KEY none",
    "to KEY KEY",
    "to 1 KEY",
    "to 2 KEY none",
    "to 2 KEY KEY",
    "to KEY 0 -1",
    "to KEY -inf +inf BYSCORE",
    "*",
];

/// A server with a long collection of each type under its name, and once more as `spare:NAME`.
fn filled() -> (Daemon, Client) {
    let daemon = Daemon::spawn(&FLAGS);
    let mut client = Client::connect(&daemon);
    for (key, command) in TYPES {
        for first in (0..MEMBERS).step_by(1_000) {
            let texts: Vec<String> = (first..first + 1_000)
                .map(|member| format!("{member:0>100}"))
                .collect();
            let mut args = vec![command.as_bytes(), key.as_bytes()];
            for text in &texts {
                match command {
                    "HSET" => args.extend([text.as_bytes(), b"v"]),
                    "ZADD" => args.extend([b"1", text.as_bytes()]),
                    _ => args.push(text.as_bytes()),
                }
            }
            assert!(matches!(client.call(&args), Value::Integer(_)));
        }
        let copied = client.run(&format!("COPY {key} spare:{key}"));
        assert_eq!(copied, Value::Integer(1));
    }
    (daemon, client)
}

/// Runs a command on one key; whether it was refused for its result, and nothing has changed then.
fn is_refused(client: &mut Client, words: &str, key: &str) -> bool {
    let before = client.run("DBSIZE");
    let reply = client.run(words);
    assert_eq!(client.run("PING").shown(), "+PONG", "{words}");
    let is_refused = reply == error(REFUSED);
    if is_refused {
        assert_eq!(client.run("DBSIZE"), before, "{words}");
        assert_eq!(client.run("EXISTS to"), Value::Integer(0), "{words}");
        let lengths = ["HLEN", "SCARD", "LLEN", "ZCARD"].map(|length| format!("{length} {key}"));
        let is_whole =
            |words: &String| client.run(words) == Value::Integer(i64::try_from(MEMBERS).unwrap());
        assert!(lengths.iter().any(is_whole), "{words}");
    }
    is_refused
}

#[test]
fn a_stored_result_larger_than_the_memory_for_clients_is_refused() {
    let (_daemon, mut client) = filled();
    for (words, key) in [
        ("ZUNIONSTORE to 1 sorted", "sorted"),
        ("SDIFFSTORE to set none", "set"),
        ("SORT list ALPHA STORE to", "list"),
        ("DUMP hash", "hash"),
    ] {
        assert!(is_refused(&mut client, words, key), "{words}");
    }
    assert_eq!(client.run("ZRANGESTORE to sorted 0 9"), Value::Integer(10));
    client.check("MULTI => +OK\n ZINTERSTORE to 1 sorted => +QUEUED");
    let in_transaction = Value::Array(vec![error(REFUSED)]);
    assert_eq!(client.run("EXEC"), in_transaction);
    assert_eq!(client.run("ZCARD to"), Value::Integer(10));
}

/// Runs a command in all forms on a key; whether it was refused in one.
fn check_command(client: &mut Client, row: &Command, key: &str) -> bool {
    let mut was_refused = false;
    for form in FORMS {
        if row.flags.has(Flags::WRITE) {
            let copied = client.run(&format!("COPY spare:{key} {key} REPLACE"));
            assert_eq!(copied, Value::Integer(1), "spare:{key} is gone");
            client.run("DEL to none");
        }
        let words = format!("{} {}", row.name, form.replace("KEY", key));
        was_refused |= is_refused(client, &words, key);
    }
    was_refused
}

#[test]
fn no_command_closes_its_connection_for_what_it_gathers() {
    let (_daemon, mut client) = filled();
    let rows = TABLE.iter().filter(|row| {
        let is_on_keys = row.flags.has(Flags::WRITE) || row.flags.has(Flags::READONLY);
        is_on_keys && !row.flags.has(Flags::BLOCKING) && !row.name.starts_with("flush")
    });
    let mut refused = BTreeSet::new();
    for row in rows {
        for (key, _) in TYPES {
            if check_command(&mut client, row, key) {
                refused.insert(row.name);
            }
        }
    }
    println!("refused: {refused:?}");
    for name in [
        "dump",
        "geosearchstore",
        "sdiffstore",
        "sinterstore",
        "sort",
        "sunion",
        "sunionstore",
        "zdiffstore",
        "zinterstore",
        "zrangestore",
        "zunion",
        "zunionstore",
    ] {
        assert!(refused.contains(name), "{name} of {refused:?}");
    }
}
