//! Field options: the options of commands that change deadlines of fields or members.
//!
//! FIELDS or MEMBERS, its number and the fields are one block, which may stand before the options,
//! behind them or between them. As in Valkey an option may be said again: the last operand counts.
//!
//! Source: Redis 8.4 and 8.12, redis.io/docs/latest/commands/hexpire, hgetex, hsetex, sexpire and
//! saddex.

use cellar_engine::Deadline;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::Call;
use crate::resp::expiry::Unit;
use crate::resp::failure::{Failure, REPEATED_BYTES_MAX, repeated};

/// How a command calls what has deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Fields of a hash.
    Fields,
    /// Members of a set.
    Members,
}

impl Parts {
    /// The options of a command.
    pub(super) fn of(verb: Verb) -> Parts {
        use Verb::{
            Saddex, Sexpire, Sexpireat, Sexpiretime, Spersist, Spexpire, Spexpireat, Spexpiretime,
            Spttl, Sttl, Zmovemember,
        };
        match verb {
            Sexpire | Spexpire | Sexpireat | Spexpireat | Saddex | Sttl | Spttl | Sexpiretime
            | Spexpiretime | Spersist | Zmovemember => Parts::Members,
            _ => Parts::Fields,
        }
    }

    /// The word in front of their number.
    fn word(self) -> &'static str {
        match self {
            Parts::Fields => "FIELDS",
            Parts::Members => "MEMBERS",
        }
    }

    fn missing(self) -> Failure {
        Failure::Text(format!("ERR missing {} argument", self.word()).into())
    }
}

/// The parts of a command that has nothing but FIELDS or MEMBERS, their number and them behind its
/// key.
pub(super) fn names_only<'a>(call: &Call<'a>) -> Result<&'a [&'a [u8]], Failure> {
    names_at(call, 2)
}

/// The parts of a command that has nothing else from an argument on.
pub(super) fn names_at<'a>(call: &Call<'a>, at: usize) -> Result<&'a [&'a [u8]], Failure> {
    let parts = Parts::of(call.command.verb);
    let word = parts.word();
    let missing = || {
        let text = format!("ERR Mandatory argument {word} is missing or not at the right position");
        Failure::Text(text.into())
    };
    let [said, number, names @ ..] = &call.args[at..] else {
        return Err(missing());
    };
    if !said.eq_ignore_ascii_case(word.as_bytes()) {
        return Err(missing());
    }
    let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|&number| number > 0).ok_or_else(|| {
        let parts = word.to_lowercase();
        Failure::Text(format!("ERR Number of {parts} must be a positive integer").into())
    })?;
    if number != names.len() {
        let parts = word.to_lowercase();
        let text = format!("ERR The `num{parts}` parameter must match the number of arguments");
        return Err(Failure::Text(text.into()));
    }
    Ok(names)
}

/// Most fields that a number behind FIELDS may name.
const FIELDS_MAX: usize = i32::MAX as usize;

/// When a field's deadline is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeadlineCondition {
    Always,
    /// It has none: NX.
    Unset,
    /// It has one: XX.
    Set,
    /// The new one is later: GT.
    Later,
    /// The new one is earlier: LT.
    Earlier,
    /// It has one, and the new one is earlier: XX LT.
    SetAndEarlier,
}

impl DeadlineCondition {
    fn parse(name: &[u8]) -> Option<DeadlineCondition> {
        let conditions = [
            (&b"NX"[..], DeadlineCondition::Unset),
            (b"XX", DeadlineCondition::Set),
            (b"GT", DeadlineCondition::Later),
            (b"LT", DeadlineCondition::Earlier),
        ];
        let mut conditions = conditions.iter();
        let found = conditions.find(|(other, _)| name.eq_ignore_ascii_case(other));
        found.map(|&(_, condition)| condition)
    }

    /// No deadline counts as the latest.
    pub(super) fn holds(self, old: Deadline, new: Deadline) -> bool {
        match self {
            DeadlineCondition::Always => true,
            DeadlineCondition::Unset => old == Deadline::NEVER,
            DeadlineCondition::Set => old != Deadline::NEVER,
            DeadlineCondition::Later => new > old,
            DeadlineCondition::Earlier => new < old,
            DeadlineCondition::SetAndEarlier => new < old && old != Deadline::NEVER,
        }
    }

    /// This condition and another one; none if no deadline meets both. As in Valkey, XX may stand
    /// beside GT, which it adds nothing to, or LT.
    fn and(self, other: DeadlineCondition) -> Option<DeadlineCondition> {
        use DeadlineCondition::{Always, Earlier, Later, Set, SetAndEarlier};
        match (self, other) {
            (Always, other) => Some(other),
            (Set, Later) | (Later, Set) => Some(Later),
            (Set | SetAndEarlier, Earlier) | (Earlier | SetAndEarlier, Set) => Some(SetAndEarlier),
            (one, other) => (one == other).then_some(one),
        }
    }
}

/// The condition and the names of HEXPIRE, SEXPIRE and their like.
pub(super) fn condition_and_fields<'a>(
    call: &Call<'a>,
) -> Result<(DeadlineCondition, &'a [&'a [u8]]), Failure> {
    let (mut condition, mut names) = (DeadlineCondition::Always, &[][..]);
    let (parts, mut rest) = (Parts::of(call.command.verb), &call.args[3..]);
    while let [name, behind @ ..] = rest {
        rest = behind;
        if name.eq_ignore_ascii_case(parts.word().as_bytes()) {
            let bad_number = match parts {
                Parts::Fields => "ERR Parameter `numFields` should be greater than 0",
                Parts::Members => "ERR Parameter `numMembers` should be greater than 0",
            };
            take_fields(parts, &mut names, &mut rest, (1, bad_number))?;
            continue;
        }
        let parsed = DeadlineCondition::parse(name).ok_or_else(|| unknown(name))?;
        let both = condition.and(parsed);
        condition = both.ok_or(Failure::text("ERR Multiple condition flags specified"))?;
    }
    if names.is_empty() {
        return Err(parts.missing());
    }
    Ok((condition, names))
}

fn unknown(word: &[u8]) -> Failure {
    let word = repeated(word, REPEATED_BYTES_MAX);
    Failure::Text(format!("ERR unknown argument: {word}").into())
}

/// Takes the number of parts and them, each of so many arguments, from the arguments that are left.
fn take_fields<'a>(
    parts: Parts,
    named: &mut &'a [&'a [u8]],
    rest: &mut &'a [&'a [u8]],
    (each, bad_number): (usize, &'static str),
) -> Result<(), Failure> {
    if !named.is_empty() {
        let text = format!("ERR {} keyword specified multiple times", parts.word());
        return Err(Failure::Text(text.into()));
    }
    let [number, behind @ ..] = *rest else {
        return Err(Failure::text(match parts {
            Parts::Fields => "ERR FIELDS requires at least numfields and one field argument",
            Parts::Members => "ERR MEMBERS requires at least nummembers and one member argument",
        }));
    };
    let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| (1..=FIELDS_MAX).contains(number));
    let number = number.ok_or(Failure::text(bad_number))?;
    let taken = number.checked_mul(each);
    let taken = taken.and_then(|taken| behind.split_at_checked(taken));
    (*named, *rest) = taken.ok_or(Failure::text("ERR wrong number of arguments"))?;
    Ok(())
}

/// The deadline that a number of some unit gives a field; of zero it has passed.
pub(super) fn deadline_in(
    call: &Call<'_>,
    number: &[u8],
    unit: Unit,
    command: &'static str,
) -> Result<Deadline, Failure> {
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    if number < 0 {
        return Err(Failure::text("ERR invalid expire time, must be >= 0"));
    }
    unit.deadline(number, command, call.context)
}

/// What HGETEX, HSETEX and SADDEX do with the deadlines of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// As the command does without options.
    Unsaid,
    At(Deadline),
    /// PERSIST or KEEPTTL, whichever the command has.
    Word,
}

/// Whether a key or field has to exist, or must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Any,
    Missing,
    There,
}

impl Presence {
    /// Reads `missing` or `there`, unless the other one stood before.
    fn parse(self, name: &[u8], missing: &str, there: &str) -> Result<Option<Presence>, Failure> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let parsed = match (is(missing), is(there)) {
            (true, _) => Presence::Missing,
            (_, true) => Presence::There,
            _ => return Ok(None),
        };
        if self != Presence::Any && self != parsed {
            return Err(Failure::Text(
                format!("ERR Only one of {there} or {missing} arguments can be specified").into(),
            ));
        }
        Ok(Some(parsed))
    }
}

/// The options and the fields of HGETEX and HSETEX, and the members of SADDEX.
pub(super) struct FieldOptions<'a> {
    pub(super) time: Time,
    /// The option that said so: a unit, or the one word without an operand.
    time_option: Option<Option<Unit>>,
    /// NX and XX: whether there is a hash at all.
    hash: Presence,
    /// FNX and FXX, MNX and MXX: whether none of the fields is there, or all.
    fields: Presence,
    /// The names behind FIELDS and their number, in HSETEX each with its value.
    pub(super) named: &'a [&'a [u8]],
}

impl<'a> FieldOptions<'a> {
    /// `word` is the one option that takes no operand.
    pub(super) fn parse(
        call: &Call<'a>,
        word: &str,
        command: &'static str,
    ) -> Result<FieldOptions<'a>, Failure> {
        let (verb, parts) = (call.command.verb, Parts::of(call.command.verb));
        let takes_conditions = matches!(verb, Verb::Hsetex | Verb::Saddex);
        let each = if verb == Verb::Hsetex { 2 } else { 1 };
        let bad_number = match parts {
            Parts::Fields => "ERR invalid number of fields",
            Parts::Members => "ERR invalid number of members",
        };
        let mut options = FieldOptions {
            time: Time::Unsaid,
            time_option: None,
            hash: Presence::Any,
            fields: Presence::Any,
            named: &[],
        };
        let mut rest = &call.args[2..];
        while let [name, behind @ ..] = rest {
            rest = behind;
            if name.eq_ignore_ascii_case(parts.word().as_bytes()) {
                take_fields(parts, &mut options.named, &mut rest, (each, bad_number))?;
            } else if !(takes_conditions && options.takes_condition(parts, name)?) {
                options.take_time(call, name, &mut rest, (word, command))?;
            }
        }
        if options.named.is_empty() {
            return Err(parts.missing());
        }
        Ok(options)
    }

    /// Takes the option that says what is done with the deadlines.
    fn take_time(
        &mut self,
        call: &Call<'_>,
        name: &[u8],
        rest: &mut &[&[u8]],
        (word, command): (&str, &'static str),
    ) -> Result<(), Failure> {
        let unit = Unit::of_option(name);
        if unit.is_none() && !name.eq_ignore_ascii_case(word.as_bytes()) {
            return Err(unknown(name));
        }
        let before = self.time_option.replace(unit);
        if before.is_some_and(|before| before != unit) {
            return Err(Failure::Text(
                format!("ERR Only one of EX, PX, EXAT, PXAT or {word} arguments can be specified")
                    .into(),
            ));
        }
        self.time = match unit {
            None => Time::Word,
            Some(unit) => {
                let [operand, behind @ ..] = *rest else {
                    return Err(Failure::text("ERR missing expire time"));
                };
                *rest = behind;
                Time::At(deadline_in(call, operand, unit, command)?)
            }
        };
        Ok(())
    }

    /// Takes one of the conditions of HSETEX or SADDEX; whether it is one.
    fn takes_condition(&mut self, parts: Parts, name: &[u8]) -> Result<bool, Failure> {
        let (missing, there) = match parts {
            Parts::Fields => ("FNX", "FXX"),
            Parts::Members => ("MNX", "MXX"),
        };
        if let Some(presence) = self.fields.parse(name, missing, there)? {
            self.fields = presence;
        } else if parts == Parts::Members {
            return Ok(false);
        } else if let Some(presence) = self.hash.parse(name, "NX", "XX")? {
            self.hash = presence;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether HSETEX or SADDEX may store fields of these names, in a collection that has none or
    /// some.
    pub(super) fn hold<'n>(
        &self,
        is_empty: bool,
        has: impl Fn(&[u8]) -> bool,
        mut names: impl Iterator<Item = &'n [u8]>,
    ) -> bool {
        let of_hash = match self.hash {
            Presence::Any => true,
            Presence::Missing => is_empty,
            Presence::There => !is_empty,
        };
        of_hash
            && match self.fields {
                Presence::Any => true,
                Presence::Missing => names.all(|name| !has(name)),
                Presence::There => names.all(has),
            }
    }
}
