//! Large collections of every kind as clients meet them: renamed, copied, changed in transactions,
//! expired, evicted and flushed; stopped, killed and taken over amid writes. A plain model says
//! what has to be there.
//!
//! [`TYPES`] has a row for each kind of value that is a collection; a test finds one that is
//! missing.

use crate::support::daemon::{Daemon, frame};
use crate::support::resp::{Client, Value, bulk, integers, ok};
use crate::takeover::Place;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use cellar_engine::Kind;
use rustix::process::Signal;

/// So many elements are pages of a tree with several levels; so few are one packed value.
const MANY: u32 = 12_000;
const FEW: u32 = 3;
/// Collections that are stored until another is evicted, at most.
const OTHERS_MAX: u32 = 401;
/// Elements in one command.
const BATCH: u32 = 500;

/// A kind of collection: commands for elements by their numbers.
struct Type {
    name: &'static str,
    /// Stores an element, takes one away, tells all of them, and how many there are.
    add: &'static str,
    remove: &'static str,
    read: &'static str,
    count: &'static str,
    /// The arguments of an element in a version, and how it is called when it is taken away.
    element: fn(u32, u32) -> Vec<String>,
    is_ordered: bool,
}

const TYPES: [Type; 4] = [
    Type {
        name: "hash",
        add: "HSET key",
        remove: "HDEL key",
        read: "HGETALL key",
        count: "HLEN key",
        element: |number, version| vec![member(number), format!("{version}")],
        is_ordered: false,
    },
    Type {
        name: "set",
        add: "SADD key",
        remove: "SREM key",
        read: "SMEMBERS key",
        count: "SCARD key",
        element: |number, _| vec![member(number)],
        is_ordered: false,
    },
    Type {
        name: "zset",
        add: "ZADD key",
        remove: "ZREM key",
        read: "ZRANGE key 0 -1 WITHSCORES",
        count: "ZCARD key",
        element: |number, version| vec![format!("{}", number % 97 + version), member(number)],
        is_ordered: false,
    },
    Type {
        name: "list",
        add: "RPUSH key",
        remove: "LPOP key",
        read: "LRANGE key 0 -1",
        count: "LLEN key",
        element: |number, version| vec![format!("{}:{version}", member(number))],
        is_ordered: true,
    },
];

/// Members of different lengths.
fn member(number: u32) -> String {
    format!("{number}{}", "x".repeat(number as usize % 40))
}

/// What a collection has to hold: elements by number, in their versions. A list begins with the
/// smallest number.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model(BTreeMap<u32, u32>);

impl Type {
    fn add_command(&self, numbers: impl Iterator<Item = u32>, version: u32) -> Vec<String> {
        let words = self.add.split(' ').map(str::to_owned);
        words
            .chain(numbers.flat_map(|number| (self.element)(number, version)))
            .collect()
    }

    /// Takes the smallest numbers away, as a list does.
    fn remove_command(&self, numbers: std::ops::Range<u32>) -> Vec<String> {
        let words = self.remove.split(' ').map(str::to_owned);
        let members: Vec<String> = match self.is_ordered {
            true => vec![numbers.len().to_string()],
            false => numbers.map(member).collect(),
        };
        words.chain(members).collect()
    }

    /// Grows the collection from `from` to `to` elements.
    fn grow(&self, client: &mut Client, model: &mut Model, from: u32, to: u32) {
        for first in (from..to).step_by(BATCH as usize) {
            let numbers = first..(first + BATCH).min(to);
            model.0.extend(numbers.clone().map(|number| (number, 1)));
            call(client, &self.add_command(numbers, 1));
        }
    }

    /// Shrinks it until the elements before `to` are gone.
    fn shrink(&self, client: &mut Client, model: &mut Model, to: u32) {
        let first = *model.0.keys().next().unwrap();
        for first in (first..to).step_by(BATCH as usize) {
            let numbers = first..(first + BATCH).min(to);
            call(client, &self.remove_command(numbers));
        }
        model.0 = model.0.split_off(&to);
    }

    /// Whether the key of this name holds just what the model says.
    fn agrees(&self, client: &mut Client, key: &str, model: &Model) -> bool {
        let read = self.read.replacen("key", key, 1);
        let found = match client.run(&read) {
            Value::Array(found) => found.iter().map(Value::shown).collect::<Vec<_>>(),
            other => panic!("{read}: {}", other.shown()),
        };
        let expected = model.0.iter();
        let elements = expected.map(|(&number, &version)| (self.element)(number, version));
        if self.is_ordered {
            return found == elements.flatten().collect::<Vec<_>>();
        }
        let mut width = 0;
        let expected: BTreeSet<Vec<String>> = elements
            .map(|mut element| {
                width = element.len();
                // A sorted set tells a score behind its member.
                if self.name == "zset" {
                    element.reverse();
                }
                element
            })
            .collect();
        let found = found.chunks(width.max(1)).map(<[String]>::to_vec);
        found.collect::<BTreeSet<_>>() == expected
    }

    fn check(&self, client: &mut Client, key: &str, model: &Model) {
        let count = self.count.replacen("key", key, 1);
        let many = i64::try_from(model.0.len()).unwrap();
        assert_eq!(client.run(&count), Value::Integer(many), "{count}");
        assert!(self.agrees(client, key, model), "{} at {key}", self.name);
    }
}

fn call(client: &mut Client, words: &[String]) {
    let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let reply = client.call(&args);
    assert!(!matches!(reply, Value::Error(_)), "{}", reply.shown());
}

#[test]
fn every_kind_of_collection_is_tested() {
    for number in 0..=u8::MAX {
        let name = cellar_shared::keyspace::kind::name(Kind(number));
        let is_tested = TYPES.iter().any(|it| it.name == name);
        assert!(is_tested || ["string", "unknown"].contains(&name), "{name}");
    }
}

#[test]
fn a_large_collection_is_renamed_copied_and_changed_in_a_transaction() {
    let daemon = Daemon::start(&[]);
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    for it in &TYPES {
        assert_eq!(client.run("FLUSHALL"), ok());
        let mut model = Model::default();
        it.grow(&mut client, &mut model, 0, MANY);
        it.check(&mut client, "key", &model);
        assert_eq!(client.run("COPY key copy"), Value::Integer(1));
        it.check(&mut other, "copy", &model);
        assert_eq!(client.run("RENAME copy key:2"), ok());
        it.check(&mut client, "key:2", &model);

        // What a transaction changed is seen whole, and one that is given up changes nothing.
        let before = model.clone();
        for is_executed in [false, true] {
            client.run("MULTI");
            it.shrink(&mut client, &mut model, MANY / 2);
            it.check(&mut other, "key", &before);
            match is_executed {
                true => assert!(matches!(client.run("EXEC"), Value::Array(_))),
                false => assert_eq!(client.run("DISCARD"), ok()),
            }
            if !is_executed {
                model = before.clone();
            }
            it.check(&mut other, "key", &model);
        }
        it.check(&mut other, "key:2", &before);

        // Down across every threshold, and up again.
        it.shrink(&mut client, &mut model, MANY - FEW);
        it.check(&mut client, "key", &model);
        it.grow(&mut client, &mut model, MANY, 2 * MANY);
        it.check(&mut client, "key", &model);
        it.shrink(&mut client, &mut model, 2 * MANY);
        assert_eq!(client.run("EXISTS key"), Value::Integer(0), "{}", it.name);
        assert_eq!(client.run("FLUSHALL"), ok());
        assert_eq!(client.run("EXISTS key:2"), Value::Integer(0), "{}", it.name);
    }
}

#[test]
fn large_collections_that_expire_or_are_evicted_leave_whole() {
    let daemon = Daemon::start(&["--memory", "8MiB"]);
    let mut client = Client::connect(&daemon);
    for it in &TYPES {
        let mut model = Model::default();
        it.grow(&mut client, &mut model, 0, MANY);
        assert_eq!(client.run("PEXPIRE key 60000"), Value::Integer(1));
        daemon.advance(Duration::from_secs(59));
        it.check(&mut client, "key", &model);
        daemon.advance(Duration::from_secs(1));
        assert_eq!(client.run("EXISTS key"), Value::Integer(0), "{}", it.name);

        let mut model = Model::default();
        it.grow(&mut client, &mut model, 0, MANY);
        // Others of its size press on it; to ask for it more often would keep it in use.
        let is_evicted = (0..OTHERS_MAX).any(|other| {
            for first in (0..MANY).step_by(BATCH as usize) {
                let mut command = it.add_command(first..(first + BATCH).min(MANY), 1);
                command[1] = format!("other:{other}");
                call(&mut client, &command);
            }
            let is_there = other % 20 == 0 && client.run("EXISTS key") == Value::Integer(1);
            if is_there {
                it.check(&mut client, "key", &model);
            }
            other % 20 == 0 && !is_there
        });
        assert!(is_evicted, "{} stays", it.name);
        it.grow(&mut client, &mut Model::default(), 0, FEW);
        assert_eq!(
            client.run(it.count),
            Value::Integer(FEW.into()),
            "{}",
            it.name
        );
        assert_eq!(client.run("FLUSHALL"), ok());
    }
}

#[test]
fn the_fields_of_a_large_hash_expire_one_by_one() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let (it, mut model) = (&TYPES[0], Model::default());
    it.grow(&mut client, &mut model, 0, MANY);
    for first in (0..MANY).step_by(1_000) {
        for number in first..first + 10 {
            let command = format!("HEXPIRE key {} FIELDS 1 {}", number + 1, member(number));
            assert_eq!(client.run(&command), integers(&[1]));
            if number < 5_000 {
                model.0.remove(&number);
            }
        }
    }
    daemon.advance(Duration::from_secs(5_000));
    it.check(&mut client, "key", &model);
    assert_eq!(client.run(&format!("HGET key {}", member(0))), Value::Null);
    assert_eq!(client.run(&format!("HGET key {}", member(500))), bulk("1"));
    daemon.expire(Duration::from_secs(u64::from(MANY)));
    assert_eq!(
        client.run("HLEN key"),
        Value::Integer(i64::from(MANY) - 120)
    );
}

/// Changes a collection with each of many commands, of which none is answered before all are sent,
/// and lets `end` happen amid them. The models before and after each command.
fn amid_writes(it: &Type, daemon: &Daemon, model: &mut Model, end: impl FnOnce()) -> Vec<Model> {
    const COMMANDS: u32 = 200;
    let last = *model.0.keys().next_back().unwrap();
    let mut stream = daemon.connect_resp();
    let mut states = vec![model.clone()];
    let mut bytes = Vec::new();
    for step in 0..COMMANDS {
        let first = last + 1 + step * 10;
        let command = match step % 3 {
            0 | 1 => {
                let numbers = first..first + 10;
                model.0.extend(numbers.clone().map(|number| (number, 2)));
                it.add_command(numbers, 2)
            }
            _ => {
                let least = *model.0.keys().next().unwrap();
                let numbers = least..least + 7;
                model.0 = model.0.split_off(&numbers.end);
                it.remove_command(numbers)
            }
        };
        let words: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
        bytes.extend(frame(&words));
        states.push(model.clone());
    }
    stream.write_all(&bytes).unwrap();
    end();
    states
}

/// Which of the states the server has, as it has to have one.
fn found(it: &Type, daemon: &Daemon, states: &[Model]) -> Model {
    let mut client = Client::connect(daemon);
    let Value::Integer(count) = client.run(it.count) else {
        panic!("no count of {}", it.name);
    };
    let mut fit = states.iter().filter(|it| it.0.len() as i64 == count);
    let found = fit.find(|model| it.agrees(&mut client, "key", model));
    found
        .cloned()
        .unwrap_or_else(|| panic!("{} is torn, with {count} elements", it.name))
}

#[test]
fn large_collections_are_whole_after_a_stop_and_kills_amid_writes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let state = folder.path().join("state").display().to_string();
    let flags = ["--state", &state, "--threads", "2"];
    for it in &TYPES {
        let mut daemon = Daemon::spawn(&flags);
        let mut client = Client::connect(&daemon);
        assert_eq!(client.run("FLUSHALL"), ok());
        let mut model = Model::default();
        it.grow(&mut client, &mut model, 0, MANY);
        for signal in [Signal::TERM, Signal::KILL, Signal::KILL] {
            let states = amid_writes(it, &daemon, &mut model, || daemon.signal(signal));
            daemon.wait();
            daemon = Daemon::spawn(&flags);
            let mut client = Client::connect(&daemon);
            // One that a kill met amid an edit is not there at all.
            if signal == Signal::KILL && client.run("EXISTS key") == Value::Integer(0) {
                model = Model::default();
                it.grow(&mut client, &mut model, 0, MANY);
            } else {
                model = found(it, &daemon, &states);
            }
        }
        daemon.signal(Signal::TERM);
        daemon.wait();
    }
}

#[test]
fn large_collections_are_whole_after_a_takeover_amid_writes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let state = folder.path().join("state").display().to_string();
    let flags = ["--state", &state];
    let place = Place::new();
    let mut daemon = place.start(&flags);
    for it in &TYPES {
        let mut client = Client::connect(&daemon);
        assert_eq!(client.run("DEL key").shown().len(), 2);
        let mut model = Model::default();
        it.grow(&mut client, &mut model, 0, MANY);
        let states = amid_writes(it, &daemon, &mut model, || {});
        daemon = place.succeed(&mut daemon, &flags);
        model = found(it, &daemon, &states);
        it.shrink(&mut Client::connect(&daemon), &mut model, MANY);
        it.check(&mut Client::connect(&daemon), "key", &model);
    }
}
