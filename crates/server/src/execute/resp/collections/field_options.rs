//! Field options: what stands beside the fields of commands that change their deadlines.
//!
//! FIELDS, its number and the fields are one block, which may stand before the options, behind them
//! or between them. As in Valkey an option may be said again: the last operand counts.
//!
//! Source: Redis 8.4, redis.io/docs/latest/commands/hexpire, hgetex, hsetex.

use cellar_engine::Deadline;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;
use cellar_values::Hash;

use crate::execute::resp::call::Call;
use crate::execute::resp::expiry::Unit;
use crate::execute::resp::failure::Failure;
use crate::execute::resp::{REPEATED_BYTES_MAX, repeated};

const NO_FIELDS: Failure = Failure::text("ERR missing FIELDS argument");

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

/// The condition and the names of HEXPIRE and its like.
pub(super) fn condition_and_fields<'a>(
    call: &Call<'a>,
) -> Result<(DeadlineCondition, &'a [&'a [u8]]), Failure> {
    let (mut condition, mut names) = (DeadlineCondition::Always, &[][..]);
    let mut rest = &call.args[3..];
    while let [name, behind @ ..] = rest {
        rest = behind;
        if name.eq_ignore_ascii_case(b"FIELDS") {
            const BAD_NUMBER: &str = "ERR Parameter `numFields` should be greater than 0";
            take_fields(&mut names, &mut rest, 1, BAD_NUMBER)?;
            continue;
        }
        let parsed = DeadlineCondition::parse(name).ok_or_else(|| unknown(name))?;
        let both = condition.and(parsed);
        condition = both.ok_or(Failure::text("ERR Multiple condition flags specified"))?;
    }
    if names.is_empty() {
        return Err(NO_FIELDS);
    }
    Ok((condition, names))
}

fn unknown(word: &[u8]) -> Failure {
    let word = repeated(word, REPEATED_BYTES_MAX);
    Failure::Text(format!("ERR unknown argument: {word}").into())
}

/// Takes the number behind FIELDS and the fields, each of so many arguments, from the arguments
/// that are left.
fn take_fields<'a>(
    named: &mut &'a [&'a [u8]],
    rest: &mut &'a [&'a [u8]],
    each: usize,
    bad_number: &'static str,
) -> Result<(), Failure> {
    if !named.is_empty() {
        return Err(Failure::text("ERR FIELDS keyword specified multiple times"));
    }
    let [number, behind @ ..] = *rest else {
        return Err(Failure::text(
            "ERR FIELDS requires at least numfields and one field argument",
        ));
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

/// What HGETEX and HSETEX do with the deadlines of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// As the command does without options.
    Unsaid,
    At(Deadline),
    /// PERSIST or KEEPTTL, whichever the command has.
    Word,
}

/// Whether something is to be missing or there before.
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

/// The options and the fields of HGETEX and HSETEX.
pub(super) struct FieldOptions<'a> {
    pub(super) time: Time,
    /// The option that said so: a unit, or the one word without an operand.
    time_option: Option<Option<Unit>>,
    /// NX and XX: whether there is a hash at all.
    hash: Presence,
    /// FNX and FXX: whether none of the fields is there, or all.
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
        let takes_conditions = call.command.verb == Verb::Hsetex;
        let each = if takes_conditions { 2 } else { 1 };
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
            if name.eq_ignore_ascii_case(b"FIELDS") {
                take_fields(
                    &mut options.named,
                    &mut rest,
                    each,
                    "ERR invalid number of fields",
                )?;
            } else if !(takes_conditions && options.takes_condition(name)?) {
                options.take_time(call, name, &mut rest, (word, command))?;
            }
        }
        if options.named.is_empty() {
            return Err(NO_FIELDS);
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

    /// Takes one of the conditions of HSETEX; whether it is one.
    fn takes_condition(&mut self, name: &[u8]) -> Result<bool, Failure> {
        if let Some(presence) = self.fields.parse(name, "FNX", "FXX")? {
            self.fields = presence;
        } else if let Some(presence) = self.hash.parse(name, "NX", "XX")? {
            self.hash = presence;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether HSETEX may store fields of these names.
    pub(super) fn hold<'n>(
        &self,
        hash: &Hash<'_>,
        mut names: impl Iterator<Item = &'n [u8]>,
    ) -> bool {
        let of_hash = match self.hash {
            Presence::Any => true,
            Presence::Missing => hash.is_empty(),
            Presence::There => !hash.is_empty(),
        };
        of_hash
            && match self.fields {
                Presence::Any => true,
                Presence::Missing => names.all(|name| hash.get(name).is_none()),
                Presence::There => names.all(|name| hash.get(name).is_some()),
            }
    }
}
