//! Listing: KEYS, in steps.
//!
//! The reply is gathered as it will be sent, because its head has the number of keys. The engine
//! lists a key twice only if very much is moved meanwhile ([`Cache::keys`]). A key stored or
//! removed between two steps may or may not be listed, as in SCAN.
//!
//! [`Cache::keys`]: cellar_engine::Cache::keys

use std::collections::VecDeque;
use std::sync::Arc;

use cellar_engine::{ScanCursor, Space};
use cellar_net::output::Output;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply};
use cellar_shared::auth::users::User;

use crate::context::Context;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use crate::resp::call::{Call, Outcome};
use crate::resp::patterns::pattern;

/// The cost of a cache stretch beside its live items: it may hold hundreds of expired items that
/// are not reclaimed yet.
const STRETCH_ITEMS: usize = 64;
/// Initial capacity of a piece of the reply: a step's bytes, and most stretches' behind them.
const PIECE_BYTES: usize = STEP_BYTES + STEP_BYTES / 4;
/// Bytes that count for an item.
const ITEM_BYTES: usize = STEP_BYTES / STEP_ITEMS;

/// KEYS pattern.
pub(in crate::resp) fn keys(call: &mut Call<'_>) -> Outcome {
    let listing = Listing {
        space: call.space(),
        pattern: pattern(call.args[1])?,
        user: call.session.limited_user(),
        proto: call.session.proto,
        at: At::Cache(ScanCursor::START),
        count: 0,
        elements: VecDeque::new(),
    };
    call.work_in_steps(listing)
}

/// The state of a listing.
enum At {
    /// Walking the cache.
    Cache(ScanCursor),
    /// The elements are answered.
    Answering,
}

struct Listing {
    space: Space,
    pattern: Pattern,
    /// Only keys of this user are listed.
    user: Option<Arc<User>>,
    proto: Proto,
    at: At,
    count: usize,
    /// The reply but for its head, in pieces.
    elements: VecDeque<Vec<u8>>,
}

impl Work for Listing {
    /// Does one iteration's work: [`STEP_ITEMS`] keys, or as many bytes as count for them.
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        let mut work = 0;
        while work < STEP_ITEMS {
            match self.at {
                At::Cache(cursor) => work += self.gather(cursor, context, output),
                At::Answering => {
                    let piece = self.elements.pop_front();
                    output.bytes().extend_from_slice(&piece.unwrap_or_default());
                    return match self.elements.is_empty() {
                        true => Progress::Last,
                        false => Progress::More,
                    };
                }
            }
        }
        Progress::More
    }
}

impl Listing {
    /// Walks a stretch of the cache; after the last one it answers the number of keys.
    fn gather(&mut self, cursor: ScanCursor, context: Context<'_>, output: &mut Output) -> usize {
        let mut work = STRETCH_ITEMS;
        // A stretch has about as many bytes of keys as a step appends.
        let is_full = |piece: &mut Vec<u8>| piece.len() >= STEP_BYTES;
        if self.elements.back_mut().is_none_or(is_full) {
            self.elements.push_back(Vec::with_capacity(PIECE_BYTES));
        }
        let Some(piece) = self.elements.back_mut() else {
            return work;
        };
        let mut reply = Reply::new(piece, self.proto);
        let (user, pattern) = (self.user.as_deref(), &self.pattern);
        let next = context.cache().names(cursor, |space, key| {
            work += 1 + key.len() / ITEM_BYTES;
            let is_its = user.is_none_or(|user| user.may_use(key));
            if space == self.space && is_its && pattern.matches(key) {
                reply.bulk(key);
                self.count += 1;
            }
        });
        self.at = next.map_or(At::Answering, At::Cache);
        if next.is_none() {
            Reply::new(output.bytes(), self.proto).array(self.count);
        }
        work
    }
}
