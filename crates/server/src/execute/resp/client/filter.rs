//! Filter: which clients CLIENT LIST and CLIENT KILL are about.

use std::collections::HashSet;

use cellar_protocol::resp::number::parse_integer;

use crate::client::Client;
use crate::execute::resp::failure::Failure;
use crate::users::DEFAULT_USER;

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
    /// Not the one who asks.
    not: Option<u64>,
}

impl<'a> Filter<'a> {
    /// What CLIENT LIST was given.
    pub(in crate::execute::resp) fn of_list(args: &[&'a [u8]]) -> Result<Filter<'a>, Failure> {
        let mut filter = Filter::default();
        match args {
            [] => {}
            [word, name] if word.eq_ignore_ascii_case(b"type") => {
                filter.kind = Some(Type::parse(name)?);
            }
            [word, ids @ ..] if word.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
                let id = |text: &&[u8]| parse_integer(text).and_then(|id| u64::try_from(id).ok());
                let ids: Option<HashSet<u64>> = ids.iter().map(id).collect();
                filter.ids = Some(ids.ok_or(Failure::text("ERR Invalid client ID"))?);
            }
            _ => return Err(Failure::Syntax),
        }
        Ok(filter)
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
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.address.is_none_or(is_address)
            && self.local.is_none_or(is_local)
            && self.user.is_none_or(is_user)
            && self.older_than_s.is_none_or(|age| age_s >= age)
            && self.not.is_none_or(|id| id != client.id)
    }
}
