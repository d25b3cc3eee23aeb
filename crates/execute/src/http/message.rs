//! Messages: values as JSON documents, one or many.
//!
//! A message has an `id`, which is the key, its `content`, and optionally a `ttl`. Content that is
//! a string is stored as its text, any other as its JSON; bytes that are neither are sent as base64
//! with `"encoding": "base64"`. Only the content is stored, so every protocol can read it.
//!
//! Page: docs/http.md.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cellar_config::limits::DOCUMENT_BYTES_MAX;
use cellar_engine::{Deadline, Handle, Key, Kind, When};
use cellar_protocol::http::{Mark, Request, Status};
use cellar_shared::keyspace::content_types::{self, JSON_FLAGS, TEXT_FLAGS};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

use super::call::{Call, DONE, Failure, NOT_FOUND, Outcome, WRONG_KIND, shown};
use super::parameters::{self, BAD_TTL, milliseconds};
use super::write::{self, LENGTH_REQUIRED, StoreOrder};
use crate::context::Context;
use crate::upload::ValueSource;

/// A message as it is sent.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Id<'a>,
    #[serde(borrow)]
    content: &'a RawValue,
    ttl: Option<Ttl>,
    encoding: Option<Encoding>,
}

/// The key of a message, which is a string in JSON.
#[derive(Debug)]
pub(super) struct Id<'a>(pub(super) Cow<'a, str>);

impl Id<'_> {
    /// Its bytes, which are those of the key.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Id<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Id<'a>, D::Error> {
        from.deserialize_str(IdVisitor)
    }
}

/// Reads a string; for anything else its error names the field.
struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = Id<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an id to be a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Id<'de>, E> {
        Ok(Id(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Id<'de>, E> {
        Ok(Id(Cow::Owned(text.to_owned())))
    }
}

/// The time to live of a message.
#[derive(Clone, Copy, Debug)]
enum Ttl {
    /// So many milliseconds.
    Ms(u64),
    /// Until it is evicted.
    Never,
    /// A text that is not a duration.
    Bad,
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ttl, D::Error> {
        from.deserialize_any(TtlVisitor)
    }
}

/// Reads a number of seconds or a duration such as `10m`.
struct TtlVisitor;

impl Visitor<'_> for TtlVisitor {
    type Value = Ttl;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("ttl to be seconds, a duration such as 10m, or never")
    }

    fn visit_u64<E>(self, seconds: u64) -> Result<Ttl, E> {
        Ok(Ttl::Ms(seconds.saturating_mul(1_000)))
    }

    fn visit_i64<E>(self, _below_zero: i64) -> Result<Ttl, E> {
        Ok(Ttl::Ms(0))
    }

    fn visit_f64<E>(self, seconds: f64) -> Result<Ttl, E> {
        // A number that is too large becomes the largest, one below zero becomes zero.
        Ok(Ttl::Ms((seconds * 1_000.0) as u64))
    }

    fn visit_str<E>(self, text: &str) -> Result<Ttl, E> {
        Ok(match text {
            parameters::NEVER => Ttl::Never,
            text => milliseconds(text).map_or(Ttl::Bad, Ttl::Ms),
        })
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Base64,
}

/// A message that was found to be one, ready to be stored.
pub(super) struct Checked<'m> {
    key: Key<'m>,
    value: Cow<'m, [u8]>,
    order: StoreOrder,
}

impl Checked<'_> {
    /// Stores it if the condition holds.
    pub(super) fn store(&self, when: When, context: Context<'_>) -> Result<(), Failure> {
        let order = self.order.when(when);
        write::store(self.key, ValueSource::Bytes(&self.value), &order, context)?;
        Ok(())
    }
}

impl Message<'_> {
    /// Validates the message.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<Checked<'_>, Failure> {
        call.check_key(self.id.as_bytes())?;
        let key = call.key(self.id.as_bytes()).map_err(|failure| Failure {
            status: Status::BAD_REQUEST,
            ..failure
        })?;
        let (value, flags) = self.value()?;
        let order = StoreOrder::new(call, self.deadline(call)?, flags);
        Ok(Checked { key, value, order })
    }

    /// The deadline that it names, if it does.
    fn deadline(&self, call: &Call<'_>) -> Result<Option<Deadline>, Failure> {
        Ok(match self.ttl {
            None => None,
            Some(Ttl::Never) => Some(Deadline::NEVER),
            Some(Ttl::Ms(ms @ 1..)) => Some(call.deadline_in(ms)),
            Some(Ttl::Ms(0) | Ttl::Bad) => return Err(BAD_TTL),
        })
    }

    /// The bytes to be stored, and their flags.
    fn value(&self) -> Result<(Cow<'_, [u8]>, u32), Failure> {
        let text = self.content.get();
        if !text.starts_with('"') {
            if self.encoding.is_some() {
                return Err(BAD_BASE64);
            }
            return Ok((Cow::Borrowed(text.as_bytes()), JSON_FLAGS));
        }
        // A string without escapes is borrowed: it is known to be well formed.
        let text: Cow<'_, str> = match memchr::memchr(b'\\', text.as_bytes()) {
            None => Cow::Borrowed(&text[1..text.len() - 1]),
            Some(_) => Cow::Owned(serde_json::from_str(text).map_err(|_| BAD_JSON)?),
        };
        if self.encoding.is_some() {
            let bytes = BASE64_STANDARD.decode(text.as_bytes());
            return Ok((Cow::Owned(bytes.map_err(|_| BAD_BASE64)?), 0));
        }
        Ok(match text {
            Cow::Borrowed(text) => (Cow::Borrowed(text.as_bytes()), TEXT_FLAGS),
            Cow::Owned(text) => (Cow::Owned(text.into_bytes()), TEXT_FLAGS),
        })
    }
}

const BAD_JSON: Failure = Failure::bad("bad_json", "the body is not the JSON that this path takes");
const BAD_BASE64: Failure = Failure::bad(
    "bad_base64",
    "with this encoding the content must be a base64 string",
);

/// Reads the body of a request as JSON of the form of `T`.
pub(super) fn document<'a, T: Deserialize<'a>>(call: &Call<'a>) -> Result<T, Failure> {
    let marks = call.request.marks;
    if !marks.has(Mark::ContentLength) && !marks.has(Mark::TransferEncoding) {
        return Err(LENGTH_REQUIRED);
    }
    let is_json = marks.has(Mark::Json) || is_json_with_parameters(call.request);
    if !is_json || marks.has(Mark::ContentEncoding) {
        return Err(Failure::new(
            Status::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_type",
            "the body must be application/json, without a Content-Encoding",
        ));
    }
    // Checked as a whole, at once, instead of each string for itself.
    let text = std::str::from_utf8(call.request.body).map_err(|error| {
        let bytes = error.valid_up_to();
        BAD_JSON.says(format!("the body is not UTF-8 after {bytes} bytes"))
    })?;
    serde_json::from_str(text).map_err(|error| not_understood(&error))
}

/// Where a parser stopped, and why. Its reason can quote the document.
fn not_understood(error: &serde_json::Error) -> Failure {
    let reason = error.to_string();
    // The error's position is at its end.
    let reason = reason.rsplit_once(" at line ").map_or("", |(text, _)| text);
    let reason = shown(reason);
    let (line, column) = (error.line(), error.column());
    BAD_JSON.says(format!(
        "the body is not the JSON that this path takes: line {line}, column {column}: {reason}"
    ))
}

/// Whether the Content-Type is that of JSON before its first semicolon.
fn is_json_with_parameters(request: &Request<'_>) -> bool {
    let content_type = request.field(Mark::ContentType).unwrap_or_default();
    let media_type = content_type.split(|byte| *byte == b';').next();
    media_type.is_some_and(|media_type| {
        let media_type = media_type.trim_ascii();
        media_type.eq_ignore_ascii_case(content_types::JSON.as_bytes())
    })
}

/// The id of a message, if it is the first field, as most programs send it. The result may be wrong
/// for unusual messages; it serves as a hint.
#[inline]
pub(super) fn probable_id(body: &[u8]) -> Option<&[u8]> {
    let mut id = body;
    for token in [b"{".as_slice(), b"\"id\"", b":", b"\""] {
        id = id.trim_ascii_start().strip_prefix(token)?;
    }
    let end = memchr::memchr2(b'"', b'\\', id)?;
    (id[end] == b'"').then_some(&id[..end])
}

/// POST of a message.
pub(super) fn post(call: &mut Call<'_>) -> Outcome {
    let [] = parameters::take(&call.request.target, [])?;
    let message: Message<'_> = document(call)?;
    let checked = message.check(call)?;
    call.check_slot(message.id.as_bytes())?;
    checked.store(call.when(checked.key)?, call.context)?;
    let mut head = call.head(Status::CREATED);
    head.location("/v1/cache/", message.id.as_bytes());
    head.end(0);
    DONE
}

/// GET of a message.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let [id] = parameters::take(&call.request.target, ["id"])?;
    let id = id.ok_or(Failure::bad(
        "bad_parameter",
        "the parameter id is missing; it is the key",
    ))?;
    let key = call.key_here(id.as_bytes())?;
    let value = read(key, call.context)?;
    if value.len() > DOCUMENT_BYTES_MAX {
        let message = "the value is too long for JSON; read it at /v1/cache/KEY";
        return Err(Failure::new(
            Status::CONFLICT,
            "too_large_for_json",
            message,
        ));
    }
    let mut document = Vec::new();
    append(&mut document, &id, &value, call.context);
    document.push(b'\n');
    call.json(Status::OK, b"", &document);
    DONE
}

/// Reads the value of a key.
pub(super) fn read(key: Key<'_>, context: Context<'_>) -> Result<Handle, Failure> {
    let counters = context.counters;
    counters.cmd_get.add(1);
    let found = context.cache().get_handle(key);
    let Some(value) = found.filter(|value| !is_stub(key, value, context)) else {
        counters.get_misses.add(1);
        return Err(NOT_FOUND);
    };
    counters.get_hits.add(1);
    if value.kind() == Kind::STRING {
        Ok(value)
    } else {
        Err(WRONG_KIND)
    }
}

/// Whether an empty value represents one that is being computed.
fn is_stub(key: Key<'_>, value: &Handle, context: Context<'_>) -> bool {
    use cellar_engine::Lookup;
    if !value.is_empty() {
        return false;
    }
    let lookup = Lookup {
        no_lease: true,
        quiet: true,
        uncounted: true,
        ..Lookup::default()
    };
    let found = context.cache().lookup(key, &lookup, |found| {
        found.item.value.is_empty() && found.lease.taken
    });
    matches!(found, Ok(Some(true)))
}

/// Appends a value as a message.
pub(super) fn append(out: &mut Vec<u8>, id: &str, value: &Handle, context: Context<'_>) {
    begin(out, id);
    out.extend_from_slice(b",\"content\":");
    let json = content_types::is_json(value.flags())
        .then(|| serde_json::from_slice::<&RawValue>(value).ok())
        .flatten();
    match (json, std::str::from_utf8(value)) {
        (Some(json), _) => out.extend_from_slice(json.get().as_bytes()),
        (None, Ok(text)) => quote(out, text),
        (None, Err(_)) => {
            quote(out, &BASE64_STANDARD.encode(&**value));
            out.extend_from_slice(b",\"encoding\":\"base64\"");
        }
    }
    if let Some(left_ms) = value.deadline().remaining_ms(context.cache().now()) {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b",\"ttl\":");
        out.extend_from_slice(digits.format(left_ms.div_ceil(1_000)).as_bytes());
    }
    out.push(b'}');
}

/// Appends the error of a key without a message.
pub(super) fn append_failure(out: &mut Vec<u8>, id: &str, failure: &Failure) {
    begin(out, id);
    out.extend_from_slice(b",\"error\":\"");
    out.extend_from_slice(failure.code.as_bytes());
    out.extend_from_slice(b"\"}");
}

fn begin(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(b"{\"id\":");
    quote(out, id);
}

fn quote(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a string into a vector does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_stands_first_is_found_without_a_parser() {
        for (body, id) in [
            (r#"{"id":"a","content":1}"#, Some("a")),
            (" {\n \"id\" : \"a b\" }", Some("a b")),
            (r#"{"id":"","content":1}"#, Some("")),
            (r#"{"content":1,"id":"a"}"#, None),
            (r#"{"id":"a\"b"}"#, None),
            (r#"{"id":7}"#, None),
            (r#"{"id":"a"#, None),
            ("", None),
        ] {
            let found = probable_id(body.as_bytes());
            assert_eq!(found, id.map(str::as_bytes), "{body}");
        }
    }
}
