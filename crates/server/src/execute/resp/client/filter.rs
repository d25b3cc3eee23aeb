//! Filter: which clients CLIENT LIST and CLIENT KILL are about.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use cellar_protocol::resp::number::parse_integer;

use crate::client::Client;
use crate::execute::resp::failure::Failure;
use crate::execute::resp::listing::letters;
use crate::users::DEFAULT_USER;

const BAD_ID: Failure = Failure::text("ERR Invalid client ID");

/// Letters that stand for something in Redis's and Valkey's listings of clients.
const LETTERS: &[u8] = b"AbBcdeiMNOPrRSStTuUxIEk";

/// Whether a text behind ID is the next word rather than a number.
fn is_word(text: &[u8]) -> bool {
    const WORDS: [&str; 11] = [
        "type", "addr", "laddr", "user", "skipme", "maxage", "name", "lib-name", "ip", "db",
        "flags",
    ];
    WORDS
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

/// The address without the port.
fn ip(peer: &str) -> &[u8] {
    let ip = peer.rsplit_once(':').map_or(peer, |(ip, _)| ip);
    ip.trim_matches(['[', ']']).as_bytes()
}

/// What kind of client is meant.
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

/// Which clients are meant: those to which all of this applies.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Filter<'a> {
    ids: Option<HashSet<u64>>,
    kind: Option<Type>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    older_than_s: Option<u64>,
    user: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    library: Option<&'a [u8]>,
    ip: Option<&'a [u8]>,
    database: Option<u32>,
    /// Letters that CLIENT LIST shows of it, all of them.
    letters: Option<&'a [u8]>,
    /// Not the one who asks.
    not: Option<u64>,
}

impl<'a> Filter<'a> {
    /// What CLIENT LIST was given by the client `own`; behind ID stand numbers up to the next word.
    pub(in crate::execute::resp) fn of_list(
        args: &[&'a [u8]],
        own: u64,
    ) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter::default();
        let mut rest = args;
        while let [word, value, behind @ ..] = rest {
            rest = behind;
            if !word.eq_ignore_ascii_case(b"id") {
                filter.add(word, value, own)?;
                continue;
            }
            let id = |text: &[u8]| parse_integer(text).and_then(|id| u64::try_from(id).ok());
            let first = id(value).ok_or(BAD_ID)?;
            let ids = filter.ids.insert(HashSet::from([first]));
            while let [text, behind @ ..] = rest
                && !is_word(text)
            {
                ids.insert(id(text).ok_or(BAD_ID)?);
                rest = behind;
            }
        }
        if rest.is_empty() {
            Ok(filter)
        } else {
            Err(Failure::Syntax)
        }
    }

    /// The user whose clients are meant, if it matters.
    pub(in crate::execute::resp) fn user(&self) -> Option<&'a [u8]> {
        self.user
    }

    /// The old form of CLIENT KILL.
    pub(in crate::execute::resp) fn of_address(address: &'a [u8]) -> Filter<'a> {
        Filter {
            address: Some(address),
            ..Filter::default()
        }
    }

    /// What CLIENT KILL was given by the client `own`.
    pub(in crate::execute::resp) fn of_kill(
        args: &[&'a [u8]],
        own: u64,
    ) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter {
            not: Some(own),
            ..Filter::default()
        };
        let (pairs, rest) = args.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Failure::Syntax);
        }
        for [word, value] in pairs {
            filter.add(word, value, own)?;
        }
        Ok(filter)
    }

    fn add(&mut self, word: &[u8], value: &'a [u8], own: u64) -> Result<(), Failure> {
        match &*word.to_ascii_lowercase() {
            b"id" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|&id| id > 0);
                let refused = Failure::text("ERR client-id should be greater than 0");
                self.ids = Some(HashSet::from([id.ok_or(refused)?]));
            }
            b"maxage" => {
                let age = parse_integer(value).and_then(|age| u64::try_from(age).ok());
                let refused = Failure::text("ERR maxage is not an integer or out of range");
                self.older_than_s = Some(age.filter(|&age| age > 0).ok_or(refused)?);
            }
            b"type" => self.kind = Some(Type::parse(value)?),
            b"addr" => self.address = Some(value),
            b"laddr" => self.local = Some(value),
            b"user" => self.user = Some(value),
            b"name" => self.name = Some(value),
            b"lib-name" => self.library = Some(value),
            b"ip" => self.ip = Some(value),
            b"db" => {
                let database = parse_integer(value).and_then(|number| u32::try_from(number).ok());
                let refused = Failure::text("ERR DB is not an integer or out of range");
                self.database = Some(database.ok_or(refused)?);
            }
            b"flags" if value.iter().all(|letter| LETTERS.contains(letter)) => {
                self.letters = Some(value);
            }
            b"flags" => {
                let text = String::from_utf8_lossy(value);
                let text = format!("ERR Unknown flags found in the provided filter: {text}");
                return Err(Failure::Text(text.into()));
            }
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => self.not = Some(own),
            b"skipme" if value.eq_ignore_ascii_case(b"no") => self.not = None,
            _ => return Err(Failure::Syntax),
        }
        Ok(())
    }

    /// Whether a client is meant.
    pub(in crate::execute::resp) fn takes(&self, client: &Client, now_ms: u64) -> bool {
        let kind = if client.is_subscriber() {
            Type::PubSub
        } else {
            Type::Normal
        };
        let age_s = now_ms.saturating_sub(client.since_ms) / 1_000;
        let is_address = |wanted: &[u8]| client.seat.peer.as_bytes() == wanted;
        let is_local = |wanted: &[u8]| client.seat.local.as_bytes() == wanted;
        let is_user = |wanted: &[u8]| {
            let facts = client.facts();
            facts.user().map_or(DEFAULT_USER, |user| user).as_bytes() == wanted
        };
        let is_named = |wanted: &[u8]| client.facts().name == wanted;
        let is_library = |wanted: &[u8]| client.facts().library == wanted;
        let has_letters = |wanted: &[u8]| {
            let shown = letters(client);
            wanted
                .iter()
                .all(|letter| shown.as_bytes().contains(letter))
        };
        // Relaxed: what it was a moment ago is as good.
        let database = || client.database.load(Ordering::Relaxed);
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.name.is_none_or(is_named)
            && self.library.is_none_or(is_library)
            && self.ip.is_none_or(|wanted| ip(&client.seat.peer) == wanted)
            && self.database.is_none_or(|wanted| database() == wanted)
            && self.letters.is_none_or(has_letters)
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.address.is_none_or(is_address)
            && self.local.is_none_or(is_local)
            && self.user.is_none_or(is_user)
            && self.older_than_s.is_none_or(|age| age_s >= age)
            && self.not.is_none_or(|id| id != client.id)
    }
}
