//! Order: the engine's store request, for each form of memcached's protocol.

use cellar_engine::{Deadline, End, Error, ExtentReservation, Key, Kind, SetOptions, Stored, When};
use cellar_protocol::memcached::binary::PacketHead;
use cellar_protocol::memcached::{Meta, Store, Verb};
use cellar_shared::clients::events::Class;

use super::PROTOCOL;
use crate::context::Context;
use crate::upload::ValueSource;

/// Attempts of an append that creates the item on a miss, when other clients create or delete it.
const VIVIFY_ATTEMPTS_MAX: usize = 3;

/// Longest exptime that counts from now, in seconds: 30 days. Longer ones are Unix times.
const RELATIVE_EXPTIME_S_MAX: u64 = 30 * 24 * 60 * 60;

/// The parameters of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) verb: Verb,
    options: SetOptions,
    /// The deadline of an item that append or prepend may create.
    vivify: Option<Deadline>,
    /// Whether the client named a time to live.
    names_ttl: bool,
    /// Whether a store without memory removes the old value, so that no client reads it further.
    removes_old: bool,
}

impl Order {
    #[inline(always)]
    pub(super) fn classic(request: &Store<'_>, context: Context<'_>) -> Order {
        let when = match request.verb {
            Verb::Set | Verb::Append | Verb::Prepend => When::Always,
            Verb::Add => When::Absent,
            Verb::Replace => When::Present,
            Verb::Cas => When::Version(request.version),
        };
        let options = SetOptions {
            deadline: context.stored_deadline(request.exptime),
            flags: request.flags,
            when,
            value_bytes_max: context.memcached_value_bytes_max(),
            ..SetOptions::default()
        };
        Order {
            verb: request.verb,
            options,
            vivify: None,
            names_ttl: request.exptime != 0,
            removes_old: request.verb == Verb::Set,
        }
    }

    /// For the binary protocol: zero means no version; any other version makes each store a cas.
    pub(super) fn packet(
        head: PacketHead,
        (verb, version): (Verb, u64),
        (flags, exptime): (u32, u32),
        context: Context<'_>,
    ) -> Order {
        let (when, done_as) = match verb {
            Verb::Append | Verb::Prepend if version == 0 => (When::Always, verb),
            Verb::Append | Verb::Prepend => (When::Version(version), verb),
            _ if version != 0 => (When::Version(version), Verb::Cas),
            Verb::Add => (When::Absent, verb),
            Verb::Replace => (When::Present, verb),
            Verb::Set | Verb::Cas => (When::Always, verb),
        };
        let options = SetOptions {
            deadline: context.stored_deadline(exptime),
            flags,
            when,
            value_bytes_max: context.memcached_value_bytes_max(),
            // Sent in the reply, which a quiet request does not have.
            version: !head.quiet,
            ..SetOptions::default()
        };
        Order {
            verb: done_as,
            options,
            vivify: None,
            names_ttl: exptime != 0,
            removes_old: verb == Verb::Set,
        }
    }

    pub(super) fn meta(meta: &Meta<'_>, verb: Verb, context: Context<'_>) -> Order {
        let version = meta.number(b'C');
        let when = match verb {
            Verb::Set => When::Always,
            Verb::Add => When::Absent,
            Verb::Replace => When::Present,
            Verb::Cas => When::Version(version.unwrap_or_default()),
            // Version zero means no condition here.
            Verb::Append | Verb::Prepend => match version {
                Some(version) if version != 0 => When::Version(version),
                _ => When::Always,
            },
        };
        let exptime = meta.time(b'T').unwrap_or(0);
        let options = SetOptions {
            kind: Kind::STRING,
            deadline: context.stored_deadline(exptime),
            flags: u32::try_from(meta.number(b'F').unwrap_or(0)).unwrap_or(0),
            when,
            accept_older: meta.has(b'I'),
            // Version zero counts as none here.
            new_version: meta.number(b'E').filter(|version| *version != 0),
            value_bytes_max: context.memcached_value_bytes_max(),
            version: meta.has(b'c'),
        };
        let vivify = meta.time(b'N');
        Order {
            verb,
            options,
            vivify: vivify.map(|exptime| context.stored_deadline(exptime)),
            names_ttl: exptime != 0,
            removes_old: true,
        }
    }

    /// Stores the value, and counts.
    #[inline(always)]
    pub(super) fn run(
        &self,
        key: Key<'_>,
        source: ValueSource<'_>,
        context: Context<'_>,
    ) -> Result<Stored, Error> {
        let replaced = match self.end() {
            None => context.replaced_by_store(key),
            Some(_) => None,
        };
        let result = match (self.end(), source) {
            (Some(end), ValueSource::Bytes(value)) => self.extend(key, (end, value), None, context),
            (Some(end), ValueSource::Draft(mut draft)) => {
                self.extend(key, (end, &*draft.value_mut()), None, context)
            }
            (None, ValueSource::Bytes(value)) => context.cache().set(key, value, &self.options),
            (None, ValueSource::Draft(draft)) => context.cache().commit(draft, &self.options),
        };
        if matches!(result, Ok(Stored::Done { .. })) {
            context.notify_replaced(replaced, Kind::STRING, key);
        }
        self.note(key, &result, context);
        result
    }

    /// The same, but an append or prepend that would require eviction changes nothing, unless
    /// `reservation` is large enough.
    ///
    /// # Errors
    /// [`Error::NoRoomYet`] for such a one; else as [`Order::run`].
    #[inline(always)]
    pub(super) fn run_ahead(
        &self,
        key: Key<'_>,
        value: &[u8],
        reservation: Option<ExtentReservation>,
        context: Context<'_>,
    ) -> Result<Stored, Error> {
        let Some(end) = self.end() else {
            return self.run(key, ValueSource::Bytes(value), context);
        };
        let result = self.extend(key, (end, value), Some(reservation), context);
        if !matches!(result, Err(Error::NoRoomYet { .. })) {
            self.note(key, &result, context);
        }
        result
    }

    /// The end at which the value is added to an existing one.
    #[inline]
    pub(super) fn end(&self) -> Option<End> {
        match self.verb {
            Verb::Append => Some(End::Back),
            Verb::Prepend => Some(End::Front),
            _ => None,
        }
    }

    /// Counts, and publishes.
    #[inline(always)]
    fn note(&self, key: Key<'_>, result: &Result<Stored, Error>, context: Context<'_>) {
        match result {
            Ok(stored) => {
                self.count(*stored, context);
                if matches!(stored, Stored::Done { .. }) {
                    self.notify(key, context);
                }
            }
            Err(error) => self.fail(key, error, context),
        }
    }

    /// Adds the value at one end of the current one; on a miss stores it if that is allowed. With
    /// `ahead` it waits for memory instead of evicting.
    fn extend(
        &self,
        key: Key<'_>,
        (end, value): (End, &[u8]),
        mut ahead: Option<Option<ExtentReservation>>,
        context: Context<'_>,
    ) -> Result<Stored, Error> {
        let cache = context.cache();
        let max = context.memcached_value_bytes_max();
        if value.len() > max {
            return Err(Error::TooLarge {
                bytes: value.len(),
                max,
            });
        }
        for _ in 0..VIVIFY_ATTEMPTS_MAX {
            // Both parts together are too long: not stored, and the present value stays.
            let stored = match &mut ahead {
                None => cache.extend(key, end, value, &self.options),
                Some(reservation) => cache.extend_without_eviction(
                    key,
                    (end, value),
                    &self.options,
                    reservation.take(),
                ),
            };
            let stored = match stored {
                Err(Error::TooLarge { .. }) => return Ok(Stored::NotStored),
                other => other?,
            };
            let (Some(deadline), Stored::NotStored | Stored::NotFound) = (self.vivify, stored)
            else {
                return Ok(match stored {
                    Stored::NotFound => Stored::NotStored,
                    other => other,
                });
            };
            let options = SetOptions {
                deadline,
                when: When::Absent,
                ..self.options
            };
            match cache.set(key, value, &options)? {
                Stored::NotStored => {}
                stored => return Ok(stored),
            }
        }
        Ok(Stored::NotStored)
    }

    #[inline(always)]
    fn notify(&self, key: Key<'_>, context: Context<'_>) {
        if matches!(self.verb, Verb::Append | Verb::Prepend) {
            return context.notify(Class::String, "append", key);
        }
        context.notify(Class::String, "set", key);
        if self.names_ttl {
            context.notify(Class::Generic, "expire", key);
        }
    }

    #[inline(always)]
    fn count(&self, stored: Stored, context: Context<'_>) {
        let counters = context.counters;
        counters.cmd_set.add(1);
        if self.verb == Verb::Cas {
            match stored {
                Stored::Done { .. } => counters.cas_hits.add(1),
                Stored::NotFound => counters.cas_misses.add(1),
                Stored::Exists | Stored::NotStored => counters.cas_badval.add(1),
            }
        }
    }

    /// Counts a value without memory, and removes the old one if the command requires it.
    #[cold]
    #[inline(never)]
    pub(super) fn fail(&self, key: Key<'_>, error: &Error, context: Context<'_>) {
        match error {
            Error::TooLarge { .. } => context.counters.store_too_large.add(1),
            _ => context.counters.store_no_memory.add(1),
        }
        context.counters.protocol_errors.add(1);
        if self.removes_old {
            let _ = context
                .cache()
                .delete(key, &cellar_engine::DeleteOptions::default());
        }
    }
}

impl Context<'_> {
    /// Longest value that memcached's commands store, in bytes.
    #[inline]
    pub(super) fn memcached_value_bytes_max(&self) -> usize {
        let limit = self.state.settings.memcached_value_bytes_max();
        limit.min(self.cache().value_bytes_max())
    }

    /// The deadline that the exptime of a store means, where zero says that the client names none.
    #[inline]
    pub(super) fn stored_deadline(&self, exptime: impl Into<i64>) -> Deadline {
        match exptime.into() {
            0 => self.default_deadline(PROTOCOL, 0),
            exptime => self.deadline(exptime),
        }
    }

    /// The deadline that an exptime means.
    ///
    /// Zero is never; a negative one has passed; up to 30 days count from now; more is a Unix time.
    #[inline]
    pub(super) fn deadline(&self, exptime: impl Into<i64>) -> Deadline {
        let exptime = exptime.into();
        let Ok(seconds) = u64::try_from(exptime) else {
            return Deadline::PASSED;
        };
        if seconds == 0 {
            Deadline::NEVER
        } else if seconds <= RELATIVE_EXPTIME_S_MAX {
            self.cache().now().plus_ms(seconds * 1000)
        } else {
            let at = self.state.wall.instant(exptime * 1000);
            at.map_or(Deadline::PASSED, Deadline::at)
        }
    }

    /// Whole seconds left, rounded up; `None` without a deadline.
    pub(super) fn ttl_s(&self, deadline: Deadline) -> Option<u64> {
        deadline
            .remaining_ms(self.cache().now())
            .map(|ms| ms.div_ceil(1000))
    }

    /// Runs `run` with the key of a meta command, which is hashed here if it is base64.
    #[inline]
    pub(super) fn with_key<R>(
        &self,
        meta: &Meta<'_>,
        prepared: Option<Key<'_>>,
        run: impl FnOnce(Key<'_>) -> R,
    ) -> R {
        if let Some(key) = prepared {
            return run(key);
        }
        let mut buffer = [0; cellar_protocol::memcached::KEY_BYTES_MAX];
        run(self.key(meta.key_bytes(&mut buffer)))
    }
}
