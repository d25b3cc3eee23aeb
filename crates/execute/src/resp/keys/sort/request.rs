//! Request: what the options of SORT mean, and what a pattern says of an element.

use cellar_engine::{Instant, Item};
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind::STRING;

use crate::resp::call::Call;
use crate::resp::failure::Failure;
use cellar_values::{HASH, Hash};

/// The sort key.
pub(super) enum SortBy {
    /// Nothing.
    Place,
    Element,
    Other(Reference),
}

/// The request: what is sorted, how, and what is output.
pub(super) struct Asking {
    pub(super) by: SortBy,
    pub(super) is_alpha: bool,
    pub(super) is_descending: bool,
    /// How many elements are skipped, and how many are output; negative: none skipped, all output.
    pub(super) limit: (i64, i64),
    pub(super) gets: Vec<Reference>,
}

/// A pattern that names a key for each element, and perhaps a field in it.
pub(super) enum Reference {
    /// The element itself.
    Element,
    /// Nothing.
    Nothing,
    Key {
        /// The parts of the key before and behind the element.
        before: Box<[u8]>,
        behind: Box<[u8]>,
        field: Option<Box<[u8]>>,
    },
}

/// The content of a key.
pub(super) enum Said<'a> {
    Text(Item<'a>),
    Field(&'a [u8]),
}

impl<'a> Said<'a> {
    /// Its bytes.
    pub(super) fn bytes(&self) -> &'a [u8] {
        match self {
            Said::Text(item) => item.value,
            Said::Field(bytes) => bytes,
        }
    }
}

impl Reference {
    fn parse(pattern: &[u8]) -> Reference {
        if pattern == b"#" {
            return Reference::Element;
        }
        let Some(star) = memchr::memchr(b'*', pattern) else {
            return Reference::Nothing;
        };
        let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
        let arrow = memchr::memmem::find(behind, b"->");
        let arrow = arrow.filter(|arrow| arrow + 2 < behind.len());
        let (behind, field) = match arrow {
            Some(arrow) => (&behind[..arrow], Some(behind[arrow + 2..].into())),
            None => (behind, None),
        };
        Reference::Key {
            before: before.into(),
            behind: behind.into(),
            field,
        }
    }

    /// Whether it means the element itself.
    pub(super) fn is_element(&self) -> bool {
        matches!(self, Reference::Element)
    }

    /// The key for an element; none if the reference names no key.
    pub(super) fn key(&self, element: &[u8]) -> Option<Vec<u8>> {
        match self {
            Reference::Key { before, behind, .. } => Some([before, element, behind].concat()),
            Reference::Element | Reference::Nothing => None,
        }
    }

    /// Calls `read` with the value of the item of that key; none if its kind does not fit.
    pub(super) fn read<R>(
        &self,
        item: Item<'_>,
        now: Instant,
        read: impl FnOnce(Said<'_>) -> R,
    ) -> Option<R> {
        let field = match self {
            Reference::Key { field, .. } => field.as_deref(),
            Reference::Element | Reference::Nothing => None,
        };
        match (field, item.kind) {
            (None, STRING) => Some(read(Said::Text(item))),
            (Some(field), HASH) => {
                let hash = Hash::view(item.value, now);
                let found = hash.get(field);
                found.map(|found| read(Said::Field(&found.value)))
            }
            _ => None,
        }
    }
}

/// Refuses a pattern to a user who may not use all keys.
fn check_rights(call: &Call<'_>, option: &str) -> Result<(), Failure> {
    if call.session.limited_user().is_some() {
        let text =
            format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
        return Err(Failure::Text(text.into()));
    }
    Ok(())
}

/// Patterns name keys of any slot.
fn check_alone(call: &Call<'_>, option: &str) -> Result<(), Failure> {
    match call.context.state.cluster {
        None => Ok(()),
        Some(_) => {
            let text = format!("ERR {option} option of SORT denied in cluster mode.");
            Err(Failure::Text(text.into()))
        }
    }
}

impl Asking {
    /// Parses a request, and the key for its result.
    ///
    /// # Errors
    /// As Redis.
    pub(super) fn parse<'a>(call: &Call<'a>) -> Result<(Asking, Option<&'a [u8]>), Failure> {
        let mut asking = Asking {
            by: SortBy::Element,
            is_alpha: false,
            is_descending: false,
            limit: (0, -1),
            gets: Vec::new(),
        };
        let mut destination = None;
        let mut args = &call.args[2..];
        while let [name, rest @ ..] = args {
            args = match (name.to_ascii_uppercase().as_slice(), rest) {
                (b"ASC", rest) => {
                    asking.is_descending = false;
                    rest
                }
                (b"DESC", rest) => {
                    asking.is_descending = true;
                    rest
                }
                (b"ALPHA", rest) => {
                    asking.is_alpha = true;
                    rest
                }
                (b"LIMIT", [start, count, rest @ ..]) => {
                    let number = |text| parse_integer(text).ok_or(Failure::NotInteger);
                    asking.limit = (number(start)?, number(count)?);
                    rest
                }
                (b"STORE", [key, rest @ ..]) if call.command.verb == Verb::Sort => {
                    destination = Some(*key);
                    rest
                }
                (b"BY", [pattern, rest @ ..]) => {
                    asking.by = SortBy::Place;
                    if pattern.contains(&b'*') {
                        check_alone(call, "BY")?;
                        check_rights(call, "BY")?;
                        asking.by = SortBy::Other(Reference::parse(pattern));
                    }
                    rest
                }
                (b"GET", [pattern, rest @ ..]) => {
                    if *pattern != b"#" {
                        check_alone(call, "GET")?;
                    }
                    check_rights(call, "GET")?;
                    asking.gets.push(Reference::parse(pattern));
                    rest
                }
                _ => return Err(Failure::Syntax),
            };
        }
        Ok((asking, destination))
    }
}
