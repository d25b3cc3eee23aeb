//! Commands on several keys: each reads its keys in one step, while a transaction on another event
//! loop changes all of them.
//!
//! The commands come from the server's own table, so a new one has to be added here.

use std::sync::atomic::{AtomicBool, Ordering};

use cellar_protocol::resp::command::{Group, Keys, TABLE};

use crate::support::daemon::Daemon;
use crate::support::resp::{Client, Value};

/// Each command that reads several keys, and requests whose replies tell whether it read all of
/// them in one state.
const READS: &[(&str, &[&str])] = &[
    ("mget", &["MGET s:0 s:1 s:2 s:3"]),
    ("exists", &["EXISTS e:0 e:1 e:2 e:3"]),
    ("touch", &["TOUCH e:0 e:1 e:2 e:3"]),
    ("lcs", &["LCS s:0 s:1"]),
    ("pfcount", &["PFCOUNT p:0 p:1 p:2 p:3"]),
    ("sunion", &["SUNION set:0 set:1 set:2 set:3"]),
    ("sinter", &["SINTER set:0 set:1 set:2 set:3"]),
    ("sdiff", &["SDIFF set:0 set:1 set:2 set:3"]),
    ("sintercard", &["SINTERCARD 4 set:0 set:1 set:2 set:3"]),
    ("sunioncard", &["SUNIONCARD 4 set:0 set:1 set:2 set:3"]),
    ("sdiffcard", &["SDIFFCARD 4 set:0 set:1 set:2 set:3"]),
    ("zunion", &["ZUNION 4 z:0 z:1 z:2 z:3"]),
    ("zinter", &["ZINTER 4 z:0 z:1 z:2 z:3"]),
    ("zdiff", &["ZDIFF 4 z:0 z:1 z:2 z:3"]),
    ("zintercard", &["ZINTERCARD 4 z:0 z:1 z:2 z:3"]),
    // The keys that a pattern leads to.
    (
        "sort",
        &["SORT list BY w:* GET w:*", "SORT list BY nosort GET s:*"],
    ),
    ("sort_ro", &["SORT_RO list BY w:* GET w:*"]),
    // Those that store what they read.
    ("bitop", &["BITOP XOR to s:0 s:1 s:2 s:3", "GET to"]),
    (
        "pfmerge",
        &["DEL to", "PFMERGE to p:0 p:1 p:2 p:3", "PFCOUNT to"],
    ),
    ("sunionstore", &["SUNIONSTORE to set:0 set:1 set:2 set:3"]),
    ("sinterstore", &["SINTERSTORE to set:0 set:1 set:2 set:3"]),
    ("sdiffstore", &["SDIFFSTORE to set:0 set:1 set:2 set:3"]),
    ("zunionstore", &["ZUNIONSTORE to 4 z:0 z:1 z:2 z:3"]),
    ("zinterstore", &["ZINTERSTORE to 4 z:0 z:1 z:2 z:3"]),
    ("zdiffstore", &["ZDIFFSTORE to 4 z:0 z:1 z:2 z:3"]),
    ("msetnx", &["MSETNX e:0 new e:1 new"]),
    ("msetex", &["MSETEX 2 e:0 new e:1 new NX"]),
];
/// Those that read one key, or none: what they change is seen whole, which sections.rs tests.
const CHANGES: &[&str] = &[
    "mset",
    "del",
    "unlink",
    "rename",
    "renamenx",
    "copy",
    "smove",
    "lmove",
    "lmovem",
    "rpoplpush",
    "lmpop",
    "blpop",
    "brpop",
    "blmove",
    "blmovem",
    "brpoplpush",
    "blmpop",
    "zrangestore",
    "zmpop",
    "zmove",
    "zmovemember",
    "bzmove",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "geosearchstore",
    "georadius",
    "georadiusbymember",
    "watch",
];
/// Of the four keys of each kind.
const KEYS: usize = 4;
const LOOPS: [&str; 2] = ["2", "4"];
const ROUNDS: usize = 60;

/// Brings the keys of a number into a state, `a` or `b`. Of the keys `e:` two exist in each state.
fn state_of(number: usize, state: char) -> Vec<String> {
    let is_a = state == 'a';
    let text = String::from(state).repeat(4);
    let weight = if is_a { number } else { 9 - number };
    let mut commands = vec![
        format!("SET s:{number} {text}"),
        format!("SET w:{number} {weight}"),
        format!("DEL set:{number} z:{number} p:{number} e:{number}"),
        format!("SADD set:{number} {state}"),
        format!("ZADD z:{number} 1 {state}"),
        format!("PFADD p:{number} {state}"),
    ];
    if number.is_multiple_of(2) == is_a {
        commands.push(format!("SET e:{number} old"));
    }
    commands
}

/// Brings all keys into a state in one transaction.
fn change(client: &mut Client, state: char) {
    client.run("MULTI");
    for command in (0..KEYS).flat_map(|number| state_of(number, state)) {
        client.run(&command);
    }
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("the transaction was not executed");
    };
    let is_failure = |reply: &&Value| matches!(reply, Value::Error(_));
    assert_eq!(replies.iter().find(is_failure), None);
}

/// The replies to the requests of one command, which stores in `to`.
fn ask(client: &mut Client, requests: &[&str], to: &str) -> Vec<String> {
    let mut replies = Vec::new();
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        let words = words
            .iter()
            .map(|word| if *word == "to" { to } else { *word });
        let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
        replies.push(client.call(&words).shown());
    }
    replies
}

#[test]
fn every_command_on_several_keys_is_in_a_list() {
    let has_several = |keys: Keys| ![Keys::NONE, Keys::ONE, Keys::SECOND].contains(&keys);
    let with_keys = TABLE
        .iter()
        .filter(|row| has_several(row.keys))
        .filter(|row| ![Group::Scripting, Group::Pubsub].contains(&row.group));
    let is_listed =
        |name: &str| READS.iter().any(|(read, _)| *read == name) || CHANGES.contains(&name);
    let missing: Vec<&str> = with_keys
        .map(|row| row.name)
        .filter(|name| !is_listed(name))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_replies_tell_a_mix_of_two_states() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("RPUSH list 0 1 2 3");
    for (name, requests) in READS {
        let in_states = ['a', 'b'].map(|state| {
            change(&mut client, state);
            ask(&mut client, requests, "to")
        });
        change(&mut client, 'a');
        for command in state_of(0, 'b') {
            client.run(&command);
        }
        let mixed = ask(&mut client, requests, "to");
        assert!(!in_states.contains(&mixed), "{name}: {mixed:?}");
    }
}

#[test]
fn every_command_reads_all_of_its_keys_in_one_state() {
    for loops in LOOPS {
        let daemon = Daemon::start(&["--threads", loops]);
        let mut writer = Client::connect(&daemon);
        writer.run("RPUSH list 0 1 2 3");
        let in_states = ['a', 'b'].map(|state| {
            change(&mut writer, state);
            let all = READS.iter();
            let all = all.map(|(_, requests)| ask(&mut writer, requests, "to:0"));
            all.collect::<Vec<_>>()
        });
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers = ["to:0", "to:1"].map(|to| {
                let (mut client, in_states) = (Client::connect(&daemon), &in_states);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        for (at, (name, requests)) in READS.iter().enumerate() {
                            let replies = ask(&mut client, requests, to);
                            for (request, reply) in replies.iter().enumerate() {
                                let mut known = in_states.iter().map(|all| &all[at][request]);
                                assert!(known.any(|one| one == reply), "{name}: {reply}");
                            }
                        }
                    }
                })
            });
            // Relaxed: a wish to end.
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    change(&mut writer, 'b');
                    change(&mut writer, 'a');
                }
            });
            let ended = readers.map(|reader| reader.join());
            is_over.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|reader| reader.unwrap());
        });
    }
}
