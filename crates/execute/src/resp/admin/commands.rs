//! COMMAND: what the server can do, in the form in which cluster clients and redis-cli read it.
//!
//! Made of the protocol's table, of tips.rs and of arguments.rs.

use cellar_protocol::resp::Reply;
use cellar_protocol::resp::command::{self, Command, Keys, TABLE};
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::request::stored_place;

use super::acl;
use super::arguments;
use super::key_flags::{KeySpec, of_request, specs};
use super::tips;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::patterns::pattern_of_any_case;

/// A row and the container it belongs to.
#[derive(Clone, Copy)]
struct Named {
    container: Option<&'static Command>,
    row: &'static Command,
}

impl Named {
    fn name(self) -> String {
        match self.container {
            Some(container) => format!("{}|{}", container.name, self.row.name),
            None => self.row.name.to_owned(),
        }
    }

    fn subcommands(self) -> impl ExactSizeIterator<Item = Named> {
        self.row.subcommands.iter().map(move |row| Named {
            container: Some(self.row),
            row,
        })
    }
}

fn all() -> impl ExactSizeIterator<Item = Named> {
    TABLE.iter().map(|row| Named {
        container: None,
        row,
    })
}

/// All, each container followed by its subcommands.
fn every() -> impl Iterator<Item = Named> {
    all().flat_map(|named| std::iter::once(named).chain(named.subcommands()))
}

/// The row called `name` or `container|name`.
fn find(name: &[u8]) -> Option<Named> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let row = command::find(words.next()?)?;
    match words.next() {
        None => Some(Named {
            container: None,
            row,
        }),
        Some(sub) => Some(Named {
            container: Some(row),
            row: row.subcommand(sub)?,
        }),
    }
}

/// COMMAND and COMMAND INFO
pub(in crate::resp) fn info(call: &mut Call<'_>) -> Outcome {
    let names = call.args.get(2..).unwrap_or_default();
    let mut reply = call.reply();
    if names.is_empty() {
        reply.array(all().len());
        all().for_each(|named| describe(&mut reply, named));
        return DONE;
    }
    reply.array(names.len());
    for name in names {
        match find(name) {
            Some(named) => describe(&mut reply, named),
            None => reply.null(),
        }
    }
    DONE
}

fn describe(reply: &mut Reply<'_>, named: Named) {
    let Command {
        arity,
        flags,
        keys,
        subcommands,
        ..
    } = named.row;
    reply.array(10);
    reply.bulk(named.name());
    reply.integer(i64::from(*arity));
    statuses(reply, flags.names().map(str::to_owned));
    let step = if keys.first == 0 { 0 } else { keys.step };
    for place in [keys.first, keys.last, step] {
        reply.integer(i64::from(place));
    }
    let categories = named.row.categories();
    statuses(reply, categories.map(|category| format!("@{category}")));
    let tips = tips::of(named.row.verb);
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip));
    let specs = specs(named.row);
    reply.set(specs.len());
    specs
        .into_iter()
        .for_each(|spec| describe_keys(reply, spec));
    reply.array(subcommands.len());
    named.subcommands().for_each(|sub| describe(reply, sub));
}

fn statuses(reply: &mut Reply<'_>, words: impl Iterator<Item = String>) {
    let start = reply.out.len();
    let mut count = 0;
    for word in words {
        reply.simple(&word);
        count += 1;
    }
    reply.set_around(start, count);
}

/// Where the keys of a command are, as Redis's key specifications say it.
fn describe_keys(reply: &mut Reply<'_>, spec: KeySpec) {
    reply.map(3);
    reply.bulk("flags");
    statuses(reply, spec.words.iter().map(|&flag| flag.to_owned()));
    reply.bulk("begin_search");
    typed(reply, "index", &[("index", spec.begin)]);
    reply.bulk("find_keys");
    if spec.is_count {
        let found = [("keynumidx", 0), ("firstkey", 1), ("keystep", spec.step)];
        typed(reply, "keynum", &found);
    } else {
        let found = [("lastkey", spec.last), ("keystep", spec.step), ("limit", 0)];
        typed(reply, "range", &found);
    }
}

fn typed(reply: &mut Reply<'_>, kind: &str, spec: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk("type");
    reply.bulk(kind);
    reply.bulk("spec");
    reply.map(spec.len());
    for &(name, number) in spec {
        reply.bulk(name);
        reply.integer(number);
    }
}

/// COMMAND COUNT
pub(in crate::resp) fn count(call: &mut Call<'_>) -> Outcome {
    call.integer(i64::try_from(TABLE.len()).unwrap_or(i64::MAX))
}

/// COMMAND DOCS
pub(in crate::resp) fn docs(call: &mut Call<'_>) -> Outcome {
    let names = &call.args[2..];
    let rows: Vec<Named> = if names.is_empty() {
        all().collect()
    } else {
        names.iter().filter_map(|name| find(name)).collect()
    };
    let mut reply = call.reply();
    reply.map(rows.len());
    rows.into_iter()
        .for_each(|named| document(&mut reply, named));
    DONE
}

fn document(reply: &mut Reply<'_>, named: Named) {
    let row = named.row;
    reply.bulk(named.name());
    let arguments = arguments::of(&named.name());
    let more = [!arguments.is_empty(), !row.subcommands.is_empty()];
    reply.map(4 + more.iter().filter(|it| **it).count());
    for (name, text) in [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group.name()),
        ("complexity", row.complexity),
    ] {
        reply.bulk(name);
        reply.bulk(text);
    }
    if !arguments.is_empty() {
        reply.bulk("arguments");
        arguments::describe(reply, arguments);
    }
    if !row.subcommands.is_empty() {
        reply.bulk("subcommands");
        reply.map(row.subcommands.len());
        named.subcommands().for_each(|sub| document(reply, sub));
    }
}

/// COMMAND LIST
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let names = match &call.args[2..] {
        [] => every().map(Named::name).collect(),
        [filter, by, what] if filter.eq_ignore_ascii_case(b"FILTERBY") => filtered(by, what)?,
        _ => return Err(Failure::Syntax),
    };
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names {
        reply.bulk(name);
    }
    DONE
}

fn filtered(by: &[u8], what: &[u8]) -> Result<Vec<String>, Failure> {
    let by = by.to_ascii_uppercase();
    let pattern = pattern_of_any_case(what)?;
    let fits = |named: &Named| match by.as_slice() {
        b"PATTERN" => pattern.matches(named.name().as_bytes()),
        b"ACLCAT" => acl::is_in(named.row, what),
        _ => false,
    };
    if !matches!(by.as_slice(), b"PATTERN" | b"ACLCAT" | b"MODULE") {
        return Err(Failure::Syntax);
    }
    Ok(every().filter(fits).map(Named::name).collect())
}

/// COMMAND GETKEYS
pub(in crate::resp) fn keys(call: &mut Call<'_>) -> Outcome {
    let (_, places) = places(&call.args[2..])?;
    let args = call.args;
    let mut reply = call.reply();
    reply.array(places.len());
    for place in places {
        reply.bulk(args[2 + place]);
    }
    DONE
}

/// COMMAND GETKEYSANDFLAGS
pub(in crate::resp) fn keys_and_flags(call: &mut Call<'_>) -> Outcome {
    let (row, places) = places(&call.args[2..])?;
    let args = call.args;
    let roles = of_request(row, &args[2..]);
    let mut words = roles.first;
    let mut reply = call.reply();
    reply.array(places.len());
    for place in places {
        reply.array(2);
        reply.bulk(args[2 + place]);
        statuses(&mut reply, words.iter().map(|&flag| flag.to_owned()));
        words = roles.others.unwrap_or(words);
    }
    DONE
}

/// The row of a request and the places of its keys among its arguments.
fn places(request: &[&[u8]]) -> Result<(&'static Command, Vec<usize>), Failure> {
    let row = command::of(request);
    let row = row.ok_or(Failure::text("ERR Invalid command specified"))?;
    if row.keys == Keys::NONE {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !row.takes(request.len()) {
        return Err(Failure::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    Ok((row, places_of(row.keys, request)))
}

/// The places of the keys of a request that has enough arguments.
fn places_of(keys: Keys, request: &[&[u8]]) -> Vec<usize> {
    let step = usize::try_from(keys.step).unwrap_or(1).max(1);
    if keys.count > 0 {
        let counted = usize::from(keys.count);
        let count = request.get(counted).and_then(|count| parse_integer(count));
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.unwrap_or(0).min(request.len());
        let places = (0..count).map(|key| counted + 1 + key * step);
        let first = (keys.first > 0).then_some(1);
        let places = first.into_iter().chain(places);
        return places.filter(|&place| place < request.len()).collect();
    }
    let first = usize::try_from(keys.first).unwrap_or(0);
    let last = match usize::try_from(keys.last) {
        Ok(last) => last,
        Err(_) => request.len() - usize::from(keys.last.unsigned_abs()),
    };
    let places = (first..=last.min(request.len() - 1)).step_by(step);
    places.chain(stored_place(keys, request)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: &[usize]) {
        let request: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        assert_eq!(places(&request).unwrap().1, expected);
    }

    #[test]
    fn keys_are_found_where_the_table_says() {
        check("GET a", &[1]);
        check("MSET a 1 b 2", &[1, 3]);
        check("DEL a b c", &[1, 2, 3]);
        check("MEMORY USAGE a", &[2]);
        check("EVAL s 2 a b c", &[3, 4]);
        check("ZINTERSTORE d 2 a b AGGREGATE MIN", &[1, 3, 4]);
        check("EVAL s x a", &[]);
        check("GEORADIUS a 1 2 3 km STORE b", &[1, 7]);
        check("EVAL s 9 a", &[3]);
    }

    #[test]
    fn requests_without_keys_are_refused() {
        for request in [&[b"PING".as_slice()][..], &[b"nosuch"], &[b"GET"]] {
            assert!(places(request).is_err());
        }
    }
}
