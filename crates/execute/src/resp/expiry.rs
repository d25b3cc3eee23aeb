//! Expiry: parses the deadlines of commands.

use cellar_engine::{Deadline, Instant};
use cellar_protocol::resp::number::parse_integer;

use super::failure::Failure;
use crate::context::Context;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now: EX, EXPIRE.
    Ex,
    /// Milliseconds from now: PX, PEXPIRE.
    Px,
    /// A Unix time in seconds: EXAT, EXPIREAT.
    ExAt,
    /// A Unix time in milliseconds: PXAT, PEXPIREAT.
    PxAt,
}

impl Unit {
    /// The unit that an option names, in any case.
    pub(super) fn of_option(option: &[u8]) -> Option<Unit> {
        let units = [
            (&b"EX"[..], Unit::Ex),
            (b"PX", Unit::Px),
            (b"EXAT", Unit::ExAt),
            (b"PXAT", Unit::PxAt),
        ];
        let found = units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(option));
        found.map(|&(_, unit)| unit)
    }

    /// The deadline that `number` of this unit means; numbers that are too small for a time since
    /// the server's start have passed.
    ///
    /// # Errors
    /// [`Failure::BadExpire`] with `command` if the time does not fit into 64 bits of ms.
    pub(super) fn deadline(
        self,
        number: i64,
        command: &'static str,
        context: Context<'_>,
    ) -> Result<Deadline, Failure> {
        let bad = || Failure::BadExpire(command);
        let ms = match self {
            Unit::Ex | Unit::ExAt => number.checked_mul(1_000).ok_or_else(bad)?,
            Unit::Px | Unit::PxAt => number,
        };
        let (wall, now) = (&context.state.wall, context.cache().now());
        let at = match self {
            // As in Redis, the Unix time has to fit, too.
            Unit::Ex | Unit::Px => {
                let unix_ms = i64::try_from(wall.unix_ms(now)).unwrap_or(i64::MAX);
                ms.checked_add(unix_ms).ok_or_else(bad)?;
                let now = i64::try_from(now.0).unwrap_or(i64::MAX);
                let at = ms.checked_add(now).ok_or_else(bad)?;
                u64::try_from(at).ok().map(Instant)
            }
            Unit::ExAt | Unit::PxAt => wall.instant(ms),
        };
        Ok(at.map_or(Deadline::PASSED, Deadline::at))
    }

    /// The deadline of an option's argument, which has to be a positive number.
    ///
    /// # Errors
    /// [`Failure::NotInteger`], [`Failure::BadExpire`].
    pub(super) fn option_deadline(
        self,
        number: &[u8],
        command: &'static str,
        context: Context<'_>,
    ) -> Result<Deadline, Failure> {
        let number = parse_integer(number).ok_or(Failure::NotInteger)?;
        if number <= 0 {
            return Err(Failure::BadExpire(command));
        }
        self.deadline(number, command, context)
    }
}
