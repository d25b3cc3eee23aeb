//! Scan: KEYS, SCAN and RANDOMKEY.
//!
//! The cursor is the engine's; a key that exists during the whole scan is shown at least once.
//! COUNT is how many keys are wanted before a call ends. A call shows more, since the engine lists
//! a stretch at a time, or fewer, since it ends after it has looked at so many whatever they were.
//!
//! Source: redis.io/docs/latest/commands/scan.

use std::hash::{BuildHasher, Hasher, RandomState};

use cellar_engine::{KeyFacts, ScanCursor, Space};
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use crate::kind;

/// Keys that a call wants to show if it is not told.
const COUNT: usize = 10;
/// Stretches of the cache that a call looks through at most.
const STRETCHES_MAX: usize = 1_024;
/// Keys that a call looks at before it ends with fewer keys than it wants, give or take a stretch.
const LOOKS: usize = 16_384;
/// More of them for each key wanted.
const LOOKS_PER_KEY: usize = 2;

/// Which keys are shown.
#[derive(Clone, Debug)]
struct Filter<'a> {
    space: Space,
    pattern: Option<Pattern>,
    /// The name of a kind.
    kind: Option<&'a [u8]>,
}

impl Filter<'_> {
    fn takes(&self, facts: &KeyFacts<'_>) -> bool {
        let is_kind = |name: &[u8]| name.eq_ignore_ascii_case(kind::name(facts.kind).as_bytes());
        facts.space == self.space
            && self.kind.is_none_or(is_kind)
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(facts.key))
    }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE kind].
pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor_of(call.args[1])?;
    let mut count = COUNT;
    let mut filter = Filter {
        space: call.space(),
        pattern: None,
        kind: None,
    };
    for pair in call.args[2..].chunks(2) {
        let &[name, operand] = pair else {
            return Err(Failure::Syntax);
        };
        match name.to_ascii_uppercase().as_slice() {
            b"MATCH" => filter.pattern = Some(Pattern::new(operand)),
            b"TYPE" => filter.kind = Some(operand),
            b"COUNT" => {
                let number = parse_integer(operand).ok_or(Failure::NotInteger)?;
                let number = usize::try_from(number).ok().filter(|number| *number > 0);
                count = number.ok_or(Failure::Syntax)?;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    let mut keys = Vec::new();
    let mut reply = Reply::new(&mut keys, call.session.proto);
    let (mut shown, mut looks) = (0_usize, 0_usize);
    let looks_max = LOOKS.saturating_add(count.saturating_mul(LOOKS_PER_KEY));
    let mut next = Some(cursor);
    for _ in 0..STRETCHES_MAX {
        let Some(cursor) = next.filter(|_| shown < count && looks < looks_max) else {
            break;
        };
        next = call.cache().keys(cursor, |facts| {
            looks += 1;
            if filter.takes(&facts) {
                reply.bulk(facts.key);
                shown += 1;
            }
        });
    }
    let mut reply = call.reply();
    reply.array(2);
    let cursor = next.map_or(0, |cursor| cursor.0);
    reply.bulk(itoa::Buffer::new().format(cursor));
    reply.array(shown);
    reply.out.extend_from_slice(&keys);
    DONE
}

/// The cursor that a client sends; nothing is the beginning, as in Redis.
fn cursor_of(text: &[u8]) -> Result<ScanCursor, Failure> {
    if text.is_empty() {
        return Ok(ScanCursor::START);
    }
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse().ok());
    number
        .map(ScanCursor)
        .ok_or(Failure::text("ERR invalid cursor"))
}

/// KEYS pattern.
pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let filter = Filter {
        space: call.space(),
        pattern: Some(Pattern::new(call.args[1])),
        kind: None,
    };
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    let mut next = Some(ScanCursor::START);
    while let Some(cursor) = next {
        next = call.cache().keys(cursor, |facts| {
            if filter.takes(&facts) {
                keys.push(facts.key.into());
            }
        });
    }
    // A listing may show a key twice.
    keys.sort_unstable();
    keys.dedup();
    let mut reply = call.reply();
    reply.array(keys.len());
    for key in keys {
        reply.bulk(key);
    }
    DONE
}

/// RANDOMKEY.
pub(super) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let random = RandomState::new().build_hasher().finish();
    let (cache, space) = (call.cache(), call.space());
    let mut reply = call.reply();
    if cache
        .sample_key(space, random, |facts| reply.bulk(facts.key))
        .is_none()
    {
        reply.null();
    }
    DONE
}
