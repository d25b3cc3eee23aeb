//! Conditions: If-Match and If-None-Match.
//!
//! Before a write a condition is translated into one that the engine checks atomically with the
//! write: that an item exists, or none, or one of a certain version.
//!
//! Source: RFC 9110, section 13.

use cellar_engine::{Key, Lookup, When};
use cellar_protocol::http::{Mark, Request};

use super::call::{Call, Failure, PRECONDITION_FAILED};
use super::etag::Tag;

/// The result of the conditions of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The value is to be sent.
    Send,
    /// The client has the current value.
    NotModified,
    /// It is another value than the client asks for.
    Failed,
}

/// Judges a read of an item that `is_it` compares tags with.
#[inline]
pub(super) fn of_read(request: &Request<'_>, is_it: impl Fn(Tag) -> bool) -> Verdict {
    if request.marks.has(Mark::IfMatch) && !names(request, Mark::IfMatch, &is_it) {
        return Verdict::Failed;
    }
    if request.marks.has(Mark::IfNoneMatch) && names(request, Mark::IfNoneMatch, &is_it) {
        return Verdict::NotModified;
    }
    Verdict::Send
}

/// Whether a field names the item, or any.
fn names(request: &Request<'_>, mark: Mark, is_it: impl Fn(Tag) -> bool) -> bool {
    tags(request, mark).any(|text| {
        // Weak tags are compared like strong ones by If-None-Match, and never match If-Match.
        let strong = match text.strip_prefix(b"W/") {
            Some(_) if mark == Mark::IfMatch => return false,
            Some(tag) => tag,
            None => text,
        };
        text == b"*" || Tag::parse(strong).is_some_and(&is_it)
    })
}

fn tags<'a>(request: &Request<'a>, mark: Mark) -> impl Iterator<Item = &'a [u8]> {
    let parts = request
        .fields(mark)
        .flat_map(|field| field.split(|byte| *byte == b','));
    parts.map(<[u8]>::trim_ascii)
}

fn is_any(request: &Request<'_>, mark: Mark) -> bool {
    tags(request, mark).eq([b"*"])
}

/// Checks the syntax of the conditions, whichever server has issued the tags.
#[inline]
pub(super) fn check(request: &Request<'_>) -> Result<(), Failure> {
    for mark in [Mark::IfMatch, Mark::IfNoneMatch] {
        if request.marks.has(mark) && !is_any(request, mark) && !tags(request, mark).all(is_tag) {
            let message = "the condition is not valid; write * or a list of ETags in quotes";
            return Err(Failure::bad("bad_condition", message));
        }
    }
    Ok(())
}

fn is_tag(text: &[u8]) -> bool {
    let strong = text.strip_prefix(b"W/").unwrap_or(text);
    let inner = strong
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    inner.is_some_and(|inner| inner.iter().all(|byte| *byte > b' ' && *byte != b'"'))
}

impl Call<'_> {
    /// The version that an item must have to be removed or marked stale; none for any.
    pub(super) fn when_version(&self, key: Key<'_>) -> Result<Option<u64>, Failure> {
        match self.when(key)? {
            When::Always | When::Present => Ok(None),
            When::Version(version) => Ok(Some(version)),
            When::Absent => Err(PRECONDITION_FAILED),
        }
    }

    /// The condition that the engine checks before it writes.
    ///
    /// A condition that names a tag makes the item keep a version from then on.
    pub(super) fn when(&self, key: Key<'_>) -> Result<When, Failure> {
        let request = self.request;
        let matches = request.marks.has(Mark::IfMatch);
        let absent = request.marks.has(Mark::IfNoneMatch);
        match (matches, absent) {
            (false, false) => return Ok(When::Always),
            (true, false) if is_any(request, Mark::IfMatch) => return Ok(When::Present),
            (false, true) if is_any(request, Mark::IfNoneMatch) => return Ok(When::Absent),
            _ => {}
        }
        let lookup = Lookup::of_version();
        let found = self.context.cache().lookup(key, &lookup, |found| {
            let is_it = |tag: Tag| tag.is_of(&found.item, found.version);
            let is_right = !matches || names(request, Mark::IfMatch, is_it);
            let is_wrong = absent && names(request, Mark::IfNoneMatch, is_it);
            (is_right && !is_wrong, found.version)
        })?;
        match found {
            Some((true, version)) => Ok(When::Version(version)),
            None if !matches => Ok(When::Absent),
            _ => Err(PRECONDITION_FAILED),
        }
    }
}
