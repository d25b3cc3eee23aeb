//! Extend: values that get longer at one end, and the free space left for that.
//!
//! Tests: tests/edit.rs, tests/model.rs.

use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::space::Kind;
use crate::interface::observer::Happened;
use crate::interface::options::{End, SetOptions, When};
use crate::interface::outcome::Stored;
use crate::key::Key;
use crate::shard::Shard;
use crate::store::Content;

/// The part of a value that has grown for which there is room behind it: with an eighth, the copies
/// of a value that grows on are eight times its own bytes.
const SLACK_SHARE: usize = 8;
/// Shorter values have none.
const SLACK_VALUE_BYTES_MIN: usize = 256;

/// Bytes of free space behind a value that has grown, so that it need not be copied each time it
/// grows.
pub(crate) fn slack_bytes(value_bytes: usize, value_bytes_max: usize) -> usize {
    if value_bytes < SLACK_VALUE_BYTES_MIN {
        return 0;
    }
    (value_bytes / SLACK_SHARE).min(value_bytes_max.saturating_sub(value_bytes))
}

impl Shard {
    /// Extends a value at one end; see [`Cache::extend`](crate::Cache::extend).
    pub(crate) fn extend(
        &mut self,
        key: Key<'_>,
        end: End,
        bytes: &[u8],
        options: &SetOptions,
        value_bytes_max: usize,
        now: Instant,
    ) -> Result<Stored, Error> {
        let Some(mut old) = self.store.find(key, now) else {
            return Ok(Stored::NotStored);
        };
        if old.layout.is_packed() {
            old = self.unpacked(key, &old, now)?;
        }
        let before = self.store.spec_of(&old);
        if before.kind != Kind::STRING {
            return Ok(Stored::NotStored);
        }
        if let When::Version(asked) = options.when
            && before.version != Some(asked)
        {
            return Ok(Stored::Exists);
        }
        let value_bytes = before.value_bytes + bytes.len();
        if value_bytes > value_bytes_max {
            return Err(Error::TooLarge {
                bytes: value_bytes,
                max: value_bytes_max,
            });
        }
        let options = SetOptions {
            kind: Kind::STRING,
            deadline: before.deadline,
            flags: before.flags,
            accept_older: false,
            ..*options
        };
        let spec = match self.decide(key, value_bytes, Some(&old), &options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let done = if end == End::Back && self.store.grows_in_place(&old, &spec) {
            Some(
                self.store
                    .grow_in_place(&old, &spec, key.bytes(), |store, grown| {
                        store.write_value(grown, old.layout.value_bytes, bytes);
                    }),
            )
        } else {
            let slack = match end {
                End::Back => slack_bytes(value_bytes, value_bytes_max),
                End::Front => 0,
            };
            let content = Content::Extended(end, bytes);
            self.put_elsewhere(key, Some(old), &spec, slack, content, now)?
        };
        Ok(done.map_or(Stored::NotStored, |located| {
            let version = spec.version.unwrap_or(0);
            self.stored(key, &located, version, Happened::Stored, now)
        }))
    }
}
