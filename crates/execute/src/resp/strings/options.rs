//! Options: those of SET, and in part of MSETEX.

use cellar_engine::{Deadline, Handle, Item, Kind, SetOptions, When};

use crate::context::Context;
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::strings::digest::Digest;
use crate::resp::strings::values::as_string;

/// How a string is stored.
#[derive(Clone, Debug)]
pub(in crate::resp) struct StoreOptions<'a> {
    pub(in crate::resp) when: Condition<'a>,
    /// Whether the old value is the answer.
    pub(in crate::resp) get: bool,
    pub(in crate::resp) deadline: Option<Deadline>,
    pub(in crate::resp) keeps_deadline: bool,
}

/// When a string is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Condition<'a> {
    Always,
    Absent,
    Present,
    /// The old value is this one: IFEQ.
    Equal(&'a [u8]),
    /// The key does not exist, or has another value: IFNE.
    Unequal(&'a [u8]),
    /// The old value has this digest: IFDEQ.
    Alike(Digest),
    /// The key does not exist, or has a value with another digest: IFDNE.
    Unlike(Digest),
    /// The item has this version, CAS; or with LATE an older one.
    Version {
        version: u64,
        late: bool,
    },
}

impl<'a> StoreOptions<'a> {
    /// Parses options; the error for an invalid time to live names `command`.
    ///
    /// # Errors
    /// [`Failure::Syntax`], or the error for an invalid number.
    pub(in crate::resp) fn parse(
        args: &[&'a [u8]],
        command: &'static str,
        context: Context<'_>,
    ) -> Result<StoreOptions<'a>, Failure> {
        let mut options = StoreOptions {
            when: Condition::Always,
            get: false,
            deadline: None,
            keeps_deadline: false,
        };
        let mut expiry = None;
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("GET") {
                options.get = true;
            } else if is("KEEPTTL") && expiry.is_none() {
                options.keeps_deadline = true;
            } else if let Some(unit) = Unit::of_option(name) {
                let &number = args.next().ok_or(Failure::Syntax)?;
                let is_other = |(old, _): (Unit, _)| old != unit;
                if expiry.is_some_and(is_other) || options.keeps_deadline {
                    return Err(Failure::Syntax);
                }
                expiry = Some((unit, number));
            } else if is("LATE") {
                options.when = options.when.or_late()?;
            } else if is("NX") {
                options.when = options.when.or(Condition::Absent)?;
            } else if is("XX") {
                options.when = options.when.or(Condition::Present)?;
            } else if options.when != Condition::Always {
                return Err(Failure::Syntax);
            } else {
                let &operand = args.next().ok_or(Failure::Syntax)?;
                options.when = Condition::parse(name, operand)?;
            }
        }
        let needs_old = options.get || options.keeps_deadline;
        if needs_old && matches!(options.when, Condition::Version { .. }) {
            return Err(Failure::Syntax);
        }
        if let Some((unit, number)) = expiry {
            options.deadline = Some(unit.option_deadline(number, command, context)?);
        }
        Ok(options)
    }

    /// The same for the engine's own store, if that can do it; `default` is the deadline of what is
    /// stored without a time to live.
    pub(in crate::resp) fn for_store(&self, default: Deadline) -> Option<SetOptions> {
        let (when, accept_older) = match self.when {
            Condition::Always => (When::Always, false),
            Condition::Absent => (When::Absent, false),
            Condition::Present => (When::Present, false),
            Condition::Version { version, late } => (When::Version(version), late),
            Condition::Equal(_)
            | Condition::Unequal(_)
            | Condition::Alike(_)
            | Condition::Unlike(_) => return None,
        };
        let is_plain = !self.get && !self.keeps_deadline;
        is_plain.then(|| SetOptions {
            when,
            accept_older,
            deadline: self.deadline.unwrap_or(default),
            ..SetOptions::default()
        })
    }

    /// The old value if GET is given: then it has to be a string.
    pub(in crate::resp) fn old_value(
        &self,
        old: Option<Item<'_>>,
    ) -> Result<Option<Handle>, Failure> {
        if !self.get {
            return Ok(None);
        }
        Ok(as_string(old)?.map(|item| item.pin()))
    }

    /// The deadline of what replaces an item that had `old`; `default` as above.
    pub(in crate::resp) fn deadline_after(
        &self,
        old: Option<Deadline>,
        default: Deadline,
    ) -> Deadline {
        let kept = old.filter(|_| self.keeps_deadline);
        self.deadline.or(kept).unwrap_or(default)
    }
}

impl<'a> Condition<'a> {
    /// Combines conditions: the same one may be repeated, but two different ones are an error.
    fn or(self, other: Condition<'a>) -> Result<Condition<'a>, Failure> {
        if self == Condition::Always || self == other {
            Ok(other)
        } else {
            Err(Failure::Syntax)
        }
    }

    /// The condition with this name.
    ///
    /// # Errors
    /// [`Failure::Syntax`], or what is wrong about the operand.
    pub(in crate::resp) fn parse(name: &[u8], operand: &'a [u8]) -> Result<Condition<'a>, Failure> {
        if name.eq_ignore_ascii_case(b"IFEQ") {
            return Ok(Condition::Equal(operand));
        }
        if name.eq_ignore_ascii_case(b"IFNE") {
            return Ok(Condition::Unequal(operand));
        }
        if name.eq_ignore_ascii_case(b"IFDEQ") {
            return Digest::parse(operand).map(Condition::Alike);
        }
        if name.eq_ignore_ascii_case(b"IFDNE") {
            return Digest::parse(operand).map(Condition::Unlike);
        }
        if !name.eq_ignore_ascii_case(b"CAS") {
            return Err(Failure::Syntax);
        }
        let version = std::str::from_utf8(operand).ok();
        let version = version.and_then(|text| text.parse().ok());
        let version = version.ok_or(Failure::NotInteger)?;
        Ok(Condition::Version {
            version,
            late: false,
        })
    }

    fn or_late(self) -> Result<Condition<'a>, Failure> {
        match self {
            Condition::Version { version, .. } => Ok(Condition::Version {
                version,
                late: true,
            }),
            _ => Err(Failure::Syntax),
        }
    }

    /// Whether the condition holds for the old item; a comparison needs a string.
    ///
    /// # Panics
    /// For a version, which only the engine's own store compares.
    pub(in crate::resp) fn holds(self, old: Option<Item<'_>>) -> Result<bool, Failure> {
        let is_string = old.is_none_or(|item| item.kind == Kind::STRING);
        Ok(match self {
            Condition::Always => true,
            Condition::Absent => old.is_none(),
            Condition::Present => old.is_some(),
            _ if !is_string => return Err(Failure::WrongType),
            Condition::Equal(value) => old.is_some_and(|item| item.value == value),
            Condition::Unequal(value) => old.is_none_or(|item| item.value != value),
            Condition::Alike(digest) => old.is_some_and(|item| Digest::of(item.value) == digest),
            Condition::Unlike(digest) => old.is_none_or(|item| Digest::of(item.value) != digest),
            Condition::Version { .. } => unreachable!("only the engine's store compares versions"),
        })
    }
}
