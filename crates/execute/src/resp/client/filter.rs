//! Filter: which clients CLIENT LIST and CLIENT KILL are about.

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::atomic::Ordering;

use cellar_protocol::resp::number::parse_integer;
use cellar_shared::auth::users::DEFAULT_USER;
use cellar_shared::clients::client::Client;

use crate::resp::failure::Failure;
use crate::resp::listing::{capabilities, letters};

const BAD_ID: Failure = Failure::text("ERR Invalid client ID");

/// The flag letters of Redis's and Valkey's client listings.
const LETTERS: &[u8] = b"AbBcdeiMNOPrRSStTuUxIEk";
/// The capability letters.
const CAPABILITIES: &[u8] = b"r";

/// Whether a text behind ID is the next word rather than a number.
fn is_word(text: &[u8]) -> bool {
    const WORDS: [&str; 15] = [
        "id", "type", "addr", "laddr", "user", "skipme", "maxage", "name", "lib-name", "lib-ver",
        "ip", "db", "flags", "capa", "idle",
    ];
    let (_, word) = negated(text);
    WORDS
        .iter()
        .any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}

/// Whether a word begins with `NOT-`, and the word behind that.
fn negated(word: &[u8]) -> (bool, &[u8]) {
    match word.split_at_checked(4) {
        Some((start, rest)) if start.eq_ignore_ascii_case(b"not-") => (true, rest),
        _ => (false, word),
    }
}

/// The address without the port.
fn ip(peer: &str) -> &[u8] {
    let ip = peer.rsplit_once(':').map_or(peer, |(ip, _)| ip);
    ip.trim_matches(['[', ']']).as_bytes()
}

/// The type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Normal,
    PubSub,
    /// Replication, which this server does not have.
    Other,
}

impl Type {
    fn parse(name: &[u8]) -> Result<Type, Failure> {
        match &*name.to_ascii_lowercase() {
            b"normal" => Ok(Type::Normal),
            b"pubsub" => Ok(Type::PubSub),
            b"master" | b"replica" | b"slave" => Ok(Type::Other),
            _ => {
                let name = String::from_utf8_lossy(name);
                Err(Failure::Text(
                    format!("ERR Unknown client type '{name}'").into(),
                ))
            }
        }
    }
}

/// A property to filter clients by.
#[derive(Debug)]
enum Trait<'a> {
    Ids(HashSet<u64>),
    Kind(Type),
    Address(&'a [u8]),
    Local(&'a [u8]),
    User(&'a [u8]),
    Name(&'a [u8]),
    Library(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Ip(&'a [u8]),
    Database(u32),
    /// Letters that CLIENT LIST shows of it, all of them.
    Letters(&'a [u8]),
    /// The same of what it is capable of.
    Capabilities(&'a [u8]),
    /// It connected at least so many seconds ago.
    OlderThan(u64),
    /// It was last active at least so many seconds ago.
    IdleFor(u64),
}

impl<'a> Trait<'a> {
    /// Parses a word, behind `NOT-` or not, for a server of so many databases.
    fn parse(
        (is_negated, word): (bool, &[u8]),
        value: &'a [u8],
        databases: usize,
    ) -> Result<Trait<'a>, Failure> {
        Ok(match &*word.to_ascii_lowercase() {
            b"id" => {
                let refused = Failure::text("ERR client-id should be greater than 0");
                Trait::Ids(HashSet::from([id_of(value).ok_or(refused)?]))
            }
            b"maxage" if !is_negated => Trait::OlderThan(seconds_of(value, "maxage")?),
            b"idle" if !is_negated => Trait::IdleFor(seconds_of(value, "idle")?),
            b"type" => Trait::Kind(Type::parse(value)?),
            b"addr" => Trait::Address(value),
            b"laddr" => Trait::Local(value),
            b"user" => Trait::User(value),
            b"name" => Trait::Name(value),
            b"lib-name" => Trait::Library(value),
            b"lib-ver" => Trait::LibraryVersion(value),
            b"ip" => Trait::Ip(value),
            b"db" => Trait::Database(database_of(value, is_negated, databases)?),
            b"flags" => Trait::Letters(letters_of(value, LETTERS, (is_negated, "flags"))?),
            b"capa" => Trait::Capabilities(letters_of(value, CAPABILITIES, (is_negated, "capa"))?),
            _ => return Err(Failure::Syntax),
        })
    }

    /// Whether a client is like that.
    fn applies(&self, client: &Client, now_ms: u64) -> bool {
        let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1_000;
        let has_all = |shown: &str, wanted: &[u8]| {
            let mut wanted = wanted.iter();
            wanted.all(|letter| shown.as_bytes().contains(letter))
        };
        // Relaxed: what it was a moment ago is as good.
        let order = Ordering::Relaxed;
        match *self {
            Trait::Ids(ref ids) => ids.contains(&client.id),
            Trait::Kind(Type::PubSub) => client.is_subscriber(),
            Trait::Kind(Type::Normal) => !client.is_subscriber(),
            Trait::Kind(Type::Other) => false,
            Trait::Address(wanted) => client.seat.peer.as_bytes() == wanted,
            Trait::Local(wanted) => client.seat.local.as_bytes() == wanted,
            Trait::User(wanted) => {
                let facts = client.facts();
                facts.user().map_or(DEFAULT_USER, |user| user).as_bytes() == wanted
            }
            Trait::Name(wanted) => is_given(&client.facts().name, wanted),
            Trait::Library(wanted) => is_given(&client.facts().library, wanted),
            Trait::LibraryVersion(wanted) => is_given(&client.facts().library_version, wanted),
            Trait::Ip(wanted) => ip(&client.seat.peer) == wanted,
            Trait::Database(wanted) => client.database.load(order) == wanted,
            Trait::Letters(wanted) => has_all(&letters(client), wanted),
            Trait::Capabilities(wanted) => has_all(capabilities(client), wanted),
            Trait::OlderThan(age_s) => seconds(client.since_ms) >= age_s,
            Trait::IdleFor(idle_s) => seconds(client.active_ms.load(order)) >= idle_s,
        }
    }
}

/// Whether a client has this name; as in Valkey, an empty name matches no client.
fn is_given(name: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && name == wanted
}

/// The number of a client.
fn id_of(text: &[u8]) -> Option<u64> {
    let id = parse_integer(text).and_then(|id| u64::try_from(id).ok());
    id.filter(|&id| id > 0)
}

/// A number of seconds above zero.
fn seconds_of(text: &[u8], name: &str) -> Result<u64, Failure> {
    let refused = |why: &str| Failure::Text(format!("ERR {name} {why}").into());
    let number = parse_integer(text).ok_or_else(|| refused("is not an integer or out of range"))?;
    let number = u64::try_from(number).ok().filter(|&number| number > 0);
    number.ok_or_else(|| refused("should be greater than 0"))
}

/// The number of a database that exists.
fn database_of(text: &[u8], is_negated: bool, databases: usize) -> Result<u32, Failure> {
    let word = if is_negated { "NOT-DB" } else { "DB" };
    let number = parse_integer(text).ok_or_else(|| {
        Failure::Text(format!("ERR {word} is not an integer or out of range").into())
    })?;
    let number = u32::try_from(number).ok();
    let number = number.filter(|&number| (number as usize) < databases);
    number.ok_or_else(|| {
        let last = databases.saturating_sub(1);
        Failure::Text(format!("ERR {word} number should be between 0 and {last}").into())
    })
}

/// Letters that all mean something.
fn letters_of<'a>(
    letters: &'a [u8],
    known: &[u8],
    (is_negated, name): (bool, &str),
) -> Result<&'a [u8], Failure> {
    if letters.iter().all(|letter| known.contains(letter)) {
        return Ok(letters);
    }
    let letters = String::from_utf8_lossy(letters);
    let filter = if is_negated {
        format!("NOT-{}", name.to_uppercase())
    } else {
        "provided".to_owned()
    };
    let text = format!("ERR Unknown {name} found in the {filter} filter: {letters}");
    Err(Failure::Text(text.into()))
}

/// A property that clients must have, or must not have.
#[derive(Debug)]
struct Condition<'a> {
    is_negated: bool,
    of: Trait<'a>,
}

/// The clients that satisfy all conditions, no two of which are of one kind.
#[derive(Debug, Default)]
pub(in crate::resp) struct Filter<'a> {
    conditions: Vec<Condition<'a>>,
    /// The asking client, if it is excluded.
    not: Option<u64>,
    is_kill: bool,
}

impl<'a> Filter<'a> {
    /// Parses the arguments of CLIENT LIST from the client `own`, on a server of so many databases.
    pub(in crate::resp) fn of_list(
        args: &[&'a [u8]],
        own: u64,
        databases: usize,
    ) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter::default();
        filter.parse(args, own, databases)?;
        Ok(filter)
    }

    /// Parses the arguments of CLIENT KILL from the client `own`.
    pub(in crate::resp) fn of_kill(
        args: &[&'a [u8]],
        own: u64,
        databases: usize,
    ) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter {
            not: Some(own),
            is_kill: true,
            ..Filter::default()
        };
        filter.parse(args, own, databases)?;
        Ok(filter)
    }

    /// The old form of CLIENT KILL.
    pub(in crate::resp) fn of_address(address: &'a [u8]) -> Filter<'a> {
        let is_there = Condition {
            is_negated: false,
            of: Trait::Address(address),
        };
        Filter {
            conditions: vec![is_there],
            ..Filter::default()
        }
    }

    /// The users that it names.
    pub(in crate::resp) fn users(&self) -> impl Iterator<Item = &'a [u8]> {
        let conditions = self.conditions.iter();
        conditions.filter_map(|condition| match condition.of {
            Trait::User(name) => Some(name),
            _ => None,
        })
    }

    /// Parses words and values; ID and NOT-ID are followed by numbers up to the next word.
    fn parse(&mut self, args: &[&'a [u8]], own: u64, databases: usize) -> Result<(), Failure> {
        let mut rest = args;
        while let [word, value, behind @ ..] = rest {
            rest = behind;
            if word.eq_ignore_ascii_case(b"skipme") {
                self.not = match &*value.to_ascii_lowercase() {
                    b"yes" => Some(own),
                    b"no" => None,
                    _ => return Err(Failure::Syntax),
                };
                continue;
            }
            let (is_negated, name) = negated(word);
            let is_id = name.eq_ignore_ascii_case(b"id");
            if is_id && !self.is_kill && parse_integer(value).is_none() {
                return Err(BAD_ID);
            }
            self.add(
                is_negated,
                Trait::parse((is_negated, name), value, databases)?,
            );
            while let [text, behind @ ..] = rest
                && is_id
                && !is_word(text)
            {
                let id = id_of(text).ok_or(BAD_ID)?;
                self.add(is_negated, Trait::Ids(HashSet::from([id])));
                rest = behind;
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Failure::Syntax)
        }
    }

    /// Adds a condition: numbers extend an earlier condition, any other replaces one of its kind.
    fn add(&mut self, is_negated: bool, of: Trait<'a>) {
        let mut conditions = self.conditions.iter_mut();
        let before = conditions.find(|other| {
            other.is_negated == is_negated && discriminant(&other.of) == discriminant(&of)
        });
        match (before.map(|before| &mut before.of), of) {
            (None, of) => self.conditions.push(Condition { is_negated, of }),
            (Some(Trait::Ids(ids)), Trait::Ids(more)) => ids.extend(more),
            (Some(before), of) => *before = of,
        }
    }

    /// Whether a client is meant.
    pub(in crate::resp) fn takes(&self, client: &Client, now_ms: u64) -> bool {
        let mut conditions = self.conditions.iter();
        self.not.is_none_or(|id| id != client.id)
            && conditions.all(|one| one.of.applies(client, now_ms) != one.is_negated)
    }
}
