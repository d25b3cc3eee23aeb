//! Scan: SCAN and RANDOMKEY.
//!
//! The cursor is the engine's; a key that exists during the whole scan is returned once, with the
//! exception that `Cache::keys` names. COUNT is how many keys are wanted before a call ends. A call
//! returns up to seven more, since the engine lists a bucket at a time, or fewer, since it ends
//! after it has examined so many keys of any kind.
//!
//! Source: redis.io/docs/latest/commands/scan.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use cellar_cluster::slot::slot_of;
use cellar_engine::{KeyFacts, ScanCursor, Space};
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::auth::users::User;
use cellar_shared::keyspace::kind;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::patterns::pattern;

/// Keys that a call returns by default.
const COUNT: usize = 10;
/// Stretches of the cache that a call walks at most: each may hold hundreds of expired items that
/// are not reclaimed yet.
const STRETCHES_MAX: usize = 128;
/// Keys that a call examines before it ends with fewer keys than requested, give or take a stretch:
/// a larger COUNT has no effect, so that no call takes long.
const LOOKS_MAX: usize = 16_384;
/// Bytes of keys that it examines.
const LOOK_BYTES_MAX: usize = 1 << 20;

/// Draws of RANDOMKEY for a user of some keys.
const DRAWS_MAX: usize = 64;

/// Which keys are shown.
#[derive(Clone, Debug)]
pub(super) struct KeyFilter<'a> {
    space: Space,
    pattern: Option<Pattern>,
    /// The name of a kind.
    kind: Option<&'a [u8]>,
    /// Only keys of this user are returned.
    user: Option<Arc<User>>,
    /// The one slot whose keys are returned.
    pub(super) slot: Option<u16>,
}

impl KeyFilter<'_> {
    fn takes(&self, facts: &KeyFacts<'_>) -> bool {
        let is_kind = |name: &[u8]| name.eq_ignore_ascii_case(kind::name(facts.kind).as_bytes());
        facts.space == self.space
            && self
                .user
                .as_ref()
                .is_none_or(|user| user.may_use(facts.key))
            && self.kind.is_none_or(is_kind)
            && self.slot.is_none_or(|slot| slot_of(facts.key) == slot)
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(facts.key))
    }
}

/// The keys that a scan returns, and how many in one call.
pub(super) struct ScanRequest<'a> {
    pub(super) filter: KeyFilter<'a>,
    count: usize,
}

impl<'a> ScanRequest<'a> {
    /// A scan of the session's database without options.
    pub(super) fn of(call: &Call<'_>) -> ScanRequest<'a> {
        let filter = KeyFilter {
            space: call.space(),
            pattern: None,
            kind: None,
            user: call.session.limited_user(),
            slot: None,
        };
        ScanRequest {
            filter,
            count: COUNT,
        }
    }

    /// Takes the option with this name.
    pub(super) fn take(&mut self, name: &[u8], operand: &'a [u8]) -> Result<(), Failure> {
        match name.to_ascii_uppercase().as_slice() {
            b"MATCH" => self.filter.pattern = Some(pattern(operand)?),
            b"TYPE" if !kind::is_name(operand) => {
                let text = String::from_utf8_lossy(operand);
                let text = format!("ERR unknown type name '{text}'");
                return Err(Failure::Text(text.into()));
            }
            b"TYPE" => self.filter.kind = Some(operand),
            b"COUNT" => {
                let number = parse_integer(operand).ok_or(Failure::NotInteger)?;
                let number = usize::try_from(number).ok().filter(|number| *number > 0);
                self.count = number.ok_or(Failure::Syntax)?;
            }
            _ => return Err(Failure::Syntax),
        }
        Ok(())
    }
}

/// The part of a scan that one call shows.
#[derive(Default)]
pub(super) struct ScanPart {
    /// How many keys are shown.
    pub(super) shown: usize,
    /// They, as they will be sent.
    pub(super) keys: Vec<u8>,
    /// Where the next call resumes; none at the end.
    pub(super) next: Option<ScanCursor>,
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE kind].
pub(in crate::resp) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor_of(call.args[1])?;
    let mut request = ScanRequest::of(call);
    for pair in call.args[2..].chunks(2) {
        let &[name, operand] = pair else {
            return Err(Failure::Syntax);
        };
        request.take(name, operand)?;
    }
    let part = part_of(call, cursor, &request);
    let cursor = part.next.map_or(0, |cursor| cursor.0);
    answer(call, itoa::Buffer::new().format(cursor), &part)
}

/// Answers a cursor and the keys of a part.
pub(super) fn answer(call: &mut Call<'_>, cursor: impl AsRef<[u8]>, part: &ScanPart) -> Outcome {
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(cursor);
    reply.array(part.shown);
    reply.out.extend_from_slice(&part.keys);
    DONE
}

/// Walks a part of the cache.
pub(super) fn part_of(call: &Call<'_>, cursor: ScanCursor, request: &ScanRequest<'_>) -> ScanPart {
    let (filter, count) = (&request.filter, request.count);
    let mut keys = Vec::new();
    let mut reply = Reply::new(&mut keys, call.session.proto);
    let (mut shown, mut looks, mut bytes) = (0_usize, 0_usize, 0_usize);
    let mut next = Some(cursor);
    for _ in 0..STRETCHES_MAX {
        let Some(cursor) =
            next.filter(|_| shown < count && looks < LOOKS_MAX && bytes < LOOK_BYTES_MAX)
        else {
            break;
        };
        next = call.cache().keys_while(cursor, |facts| {
            looks += 1;
            bytes += facts.key.len();
            if filter.takes(&facts) {
                reply.bulk(facts.key);
                shown += 1;
            }
            shown < count
        });
    }
    ScanPart { shown, keys, next }
}

/// The cursor that a client sends; nothing is the beginning, as in Redis.
pub(super) fn cursor_of(text: &[u8]) -> Result<ScanCursor, Failure> {
    if text.is_empty() {
        return Ok(ScanCursor::START);
    }
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse().ok());
    number
        .map(ScanCursor)
        .ok_or(Failure::text("ERR invalid cursor"))
}

/// RANDOMKEY; for a limited user one of its keys, if a few draws find one.
pub(in crate::resp) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let (cache, space) = (call.cache(), call.space());
    let user = call.session.limited_user();
    let draws = if user.is_some() { DRAWS_MAX } else { 1 };
    let mut reply = call.reply();
    for _ in 0..draws {
        let random = RandomState::new().build_hasher().finish();
        let drawn = cache.sample_key(space, random, |facts| {
            let is_its = user.as_ref().is_none_or(|user| user.may_use(facts.key));
            if is_its {
                reply.bulk(facts.key);
            }
            is_its
        });
        match drawn {
            Some(true) => return DONE,
            Some(false) => {}
            None => break,
        }
    }
    reply.null();
    DONE
}
