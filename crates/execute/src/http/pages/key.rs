//! Key: what the console shows of one item, and its deletion.
//!
//! A lookup by the console does not count as a read and does not affect eviction. A collection is
//! shown as text, one member per line.
//!
//! Tests: server/tests/console.rs.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellar_cluster::Cluster;
use cellar_cluster::slot::slot_of;
use cellar_engine::{Cache, DeleteOptions, Deleted, Instant, Key};
use cellar_shared::auth::users::User;
use cellar_shared::clients::events::Class;
use cellar_shared::keyspace::kind::{self, HASH, LIST, SET, SORTED_SET};
use cellar_shared::state::State;
use serde::Serialize;

use super::query::{self, text_of};
use super::{Page, PageRequest};
use cellar_values::{Hash, List, Set, SortedSet};

/// Bytes of a value that are shown.
const PREVIEW_BYTES_MAX: usize = 1024;

/// A key and its item.
#[derive(Debug, Serialize)]
struct Found {
    /// The key as text.
    key: String,
    /// Whether a live item has the key; the other fields are present only then.
    found: bool,
    #[serde(flatten)]
    item: Option<Shown>,
}

/// The data of an item.
#[derive(Debug, Serialize)]
struct Shown {
    /// string, hash, set, zset or list.
    kind: &'static str,
    /// Length of the value; of a collection, its bytes in memory.
    value_bytes: usize,
    /// Milliseconds until it expires; null without a deadline.
    ttl_ms: Option<u64>,
    /// The client's flags.
    flags: u32,
    #[serde(flatten)]
    preview: Preview,
}

/// The beginning of a value.
#[derive(Debug, Serialize)]
struct Preview {
    /// The text.
    preview: String,
    /// `text`, or `base64` if the bytes are not text.
    preview_encoding: &'static str,
    /// Whether the preview is truncated.
    preview_is_cut: bool,
}

/// Answers GET and DELETE of `/v1/console/key`.
pub(super) fn answer(request: &PageRequest<'_>, state: &State) -> Page {
    let (key, database) = match wanted(request.query, state.databases.count()) {
        Ok(wanted) => wanted,
        Err(message) => return Page::error(400, "bad_query", message),
    };
    let may = |user: &User| user.may_use(&key) && user.may_use_database(database);
    if !request.user.is_none_or(may) {
        return Page::error(
            403,
            "no_permission",
            "the user has no permission for this key",
        );
    }
    let serves = |cluster: &Cluster| cluster.is_leased() && cluster.serves(slot_of(&key));
    if !state.cluster.as_deref().is_none_or(serves) {
        return Page::error(409, "moved", "another node of the cluster owns this key");
    }
    let Ok(key) = state.cache.key_in(state.databases.space(database), &key) else {
        return Page::error(400, "bad_key", "the key is too long");
    };
    match request.method {
        "GET" => show(key, &state.cache),
        _ if !state.settings.console_write => Page::error(
            403,
            "read_only",
            "the console is read-only; start the server with --console-write",
        ),
        _ => delete(key, database, state),
    }
}

/// The key's bytes and the database that a query names.
fn wanted(query: &str, databases: usize) -> Result<(Vec<u8>, u32), &'static str> {
    let (mut key, mut database) = (None, 0);
    for (name, value) in query::parameters(query) {
        match name {
            "key" => key = Some(query::decode(value).ok_or("the key has a bad percent code")?),
            "database" => {
                let number = value.parse().ok();
                let exists = |&number: &u32| (number as usize) < databases;
                database = number.filter(exists).ok_or("there is no such database")?;
            }
            _ => return Err("the query has a parameter other than key and database"),
        }
    }
    Ok((key.ok_or("the query names no key")?, database))
}

/// The database that a query is about; 0 if it names none that there could be.
pub(super) fn database_of(query: &str) -> u32 {
    wanted(query, usize::MAX).map_or(0, |(_, database)| database)
}

fn show(key: Key<'_>, cache: &Cache) -> Page {
    // A collection is formatted without the lock, because this may take long.
    let seen = cache.peek(key, |item| (item.pin(), kind::own_deadline(item)));
    let now = cache.now();
    let item = seen.map(|(value, deadline)| Shown {
        kind: kind::name(value.kind()),
        value_bytes: value.len(),
        ttl_ms: deadline.remaining_ms(now),
        flags: value.flags(),
        preview: match lines_of(value.kind(), &value, now) {
            Some(lines) => preview(&lines),
            None => preview(&value),
        },
    });
    Page::json(&Found {
        key: text_of(key.bytes()),
        found: item.is_some(),
        item,
    })
}

/// A collection as text, a member a line, somewhat more than is shown; `None` for a string.
fn lines_of(kind: cellar_engine::Kind, value: &[u8], now: Instant) -> Option<Vec<u8>> {
    let mut lines = String::new();
    let is_enough = |lines: &String| lines.len() > PREVIEW_BYTES_MAX;
    match kind {
        HASH => {
            for field in Hash::view(value, now).iter() {
                let (name, value) = (text_of(&field.name), text_of(head(&field.value)));
                let _ = writeln!(lines, "{name}: {value}");
                if is_enough(&lines) {
                    break;
                }
            }
        }
        SET => {
            for member in Set::view(value, now).iter() {
                let _ = writeln!(lines, "{}", text_of(head(&member)));
                if is_enough(&lines) {
                    break;
                }
            }
        }
        SORTED_SET => {
            let set = SortedSet::view(value);
            for (member, score) in set.iter_from(0) {
                let _ = writeln!(lines, "{score} {}", text_of(head(&member)));
                if is_enough(&lines) {
                    break;
                }
            }
        }
        LIST => {
            for element in List::view(value).iter() {
                let _ = writeln!(lines, "{}", text_of(head(&element)));
                if is_enough(&lines) {
                    break;
                }
            }
        }
        _ => return None,
    }
    Some(lines.into_bytes())
}

/// The bytes of a value that can be shown, and one more to detect a longer value.
fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(PREVIEW_BYTES_MAX + 1)]
}

fn preview(value: &[u8]) -> Preview {
    let start = &value[..value.len().min(PREVIEW_BYTES_MAX)];
    let is_cut = start.len() < value.len();
    let text = match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        // The cut may split a character.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let is_readable = |text: &&str| !text.chars().any(is_control);
    let (preview, preview_encoding) = match text.filter(is_readable) {
        Some(text) => (text.to_owned(), "text"),
        None => (STANDARD.encode(start), "base64"),
    };
    Preview {
        preview,
        preview_encoding,
        preview_is_cut: is_cut,
    }
}

fn is_control(character: char) -> bool {
    character.is_control() && !"\t\n\r".contains(character)
}

fn delete(key: Key<'_>, database: u32, state: &State) -> Page {
    match state.cache.delete(key, &DeleteOptions::default()) {
        Ok(deleted) => {
            let is_done = deleted == Deleted::Done;
            if is_done && state.observer.events().has(Class::Generic) {
                state
                    .observer
                    .notify(Class::Generic, "del", key.bytes(), database);
            }
            Page::json(&Deletion { deleted: is_done })
        }
        Err(_) => Page::error(503, "busy", "there is no free memory now; try again"),
    }
}

/// The result of a deletion.
#[derive(Debug, Serialize)]
struct Deletion {
    /// Whether the item existed.
    deleted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_key_and_perhaps_a_database() {
        for (query, expected) in [
            ("key=a", Ok((b"a".to_vec(), 0))),
            ("key=%ff%20+&database=15", Ok((b"\xff +".to_vec(), 15))),
            ("key=", Ok((Vec::new(), 0))),
            ("", Err("the query names no key")),
            ("database=1", Err("the query names no key")),
            ("key=%f", Err("the key has a bad percent code")),
            ("key=a&database=16", Err("there is no such database")),
            ("key=a&database=-1", Err("there is no such database")),
            (
                "key=a&x",
                Err("the query has a parameter other than key and database"),
            ),
        ] {
            assert_eq!(wanted(query, 16), expected, "{query}");
        }
    }

    #[test]
    fn a_preview_is_text_or_base64_and_says_when_it_is_cut() {
        let long = "é".repeat(1000);
        let odd = format!("x{long}");
        for (value, expected) in [
            (&b""[..], ("", "text", false)),
            (b"a\nb", ("a\nb", "text", false)),
            (b"a\0", ("YQA=", "base64", false)),
            (b"\xff", ("/w==", "base64", false)),
            (long.as_bytes(), (&long[..1024], "text", true)),
            (odd.as_bytes(), (&odd[..1023], "text", true)),
        ] {
            let seen = preview(value);
            let shown = (&*seen.preview, seen.preview_encoding, seen.preview_is_cut);
            assert_eq!(shown, expected);
        }
    }
}
