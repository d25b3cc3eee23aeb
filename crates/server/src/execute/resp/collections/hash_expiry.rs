//! Hash expiry: the deadlines of a hash's fields.
//!
//! Source: Redis 7.4 for HEXPIRE and HTTL and their like, Redis 8 for HGETEX, HSETEX and HGETDEL:
//! redis.io/docs/latest/commands, group "hash".

use cellar_engine::Deadline;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;

use crate::execute::resp::call::notify::Class;
use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::collections::fields::{append_field, first_hash, notify_removed};
use crate::execute::resp::expiry::Unit;
use crate::execute::resp::failure::Failure;
use cellar_values::hash::Field;
use cellar_values::{Hash, Hashes};

/// There is no such field.
const NO_FIELD: i64 = -2;
/// The field has no deadline.
const NO_DEADLINE: i64 = -1;
/// The condition was not met.
const NOT_MET: i64 = 0;
/// Done.
const CHANGED: i64 = 1;
/// The time has passed, so the field was removed.
const REMOVED: i64 = 2;
/// Latest Unix time of a field in milliseconds, as in Redis.
const UNIX_MS_MAX: i64 = (1 << 46) - 1;

/// When a field's deadline is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadlineCondition {
    Always,
    /// It has none: NX.
    Unset,
    /// It has one: XX.
    Set,
    /// The new one is later: GT.
    Later,
    /// The new one is earlier: LT.
    Earlier,
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
    fn holds(self, old: Deadline, new: Deadline) -> bool {
        match self {
            DeadlineCondition::Always => true,
            DeadlineCondition::Unset => old == Deadline::NEVER,
            DeadlineCondition::Set => old != Deadline::NEVER,
            DeadlineCondition::Later => new > old,
            DeadlineCondition::Earlier => new < old,
        }
    }
}

/// The arguments behind FIELDS and their number, where that stands at `at`; each field has `each`
/// arguments.
fn fields<'a>(
    args: &'a [&'a [u8]],
    at: usize,
    each: usize,
    bad_number: &'static str,
) -> Result<&'a [&'a [u8]], Failure> {
    let word = args
        .get(at)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"FIELDS"));
    let (true, Some(number)) = (word, args.get(at + 1)) else {
        return Err(Failure::text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    };
    let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
    let number = number
        .filter(|&number| number > 0)
        .ok_or(Failure::text(bad_number))?;
    let fields = &args[at + 2..];
    if number.checked_mul(each) != Some(fields.len()) {
        return Err(Failure::text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(fields)
}

/// The field's new deadline for HEXPIRE and its like.
fn deadline(call: &Call<'_>) -> Result<Deadline, Failure> {
    let (unit, command) = match call.command.verb {
        Verb::Hexpire => (Unit::Ex, "hexpire"),
        Verb::Hpexpire => (Unit::Px, "hpexpire"),
        Verb::Hexpireat => (Unit::ExAt, "hexpireat"),
        _ => (Unit::PxAt, "hpexpireat"),
    };
    deadline_in(call, call.args[2], unit, command)
}

/// The deadline that a number of some unit gives a field; of zero it has passed.
fn deadline_in(
    call: &Call<'_>,
    number: &[u8],
    unit: Unit,
    command: &'static str,
) -> Result<Deadline, Failure> {
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    if number < 0 {
        return Err(Failure::text("ERR invalid expire time, must be >= 0"));
    }
    let base_ms = match unit {
        Unit::Ex | Unit::Px => i64::try_from(call.unix_ms(call.now())).unwrap_or(0),
        Unit::ExAt | Unit::PxAt => 0,
    };
    let ms = match unit {
        Unit::Ex | Unit::ExAt => number.saturating_mul(1_000),
        Unit::Px | Unit::PxAt => number,
    };
    if ms > UNIX_MS_MAX - base_ms {
        return Err(Failure::BadExpire(command));
    }
    unit.deadline(number, command, call.context)
}

/// Answers each of some fields with an integer.
fn answer_each(call: &mut Call<'_>, answers: &[i64]) -> Outcome {
    let mut reply = call.reply();
    reply.array(answers.len());
    for &answer in answers {
        reply.integer(answer);
    }
    DONE
}

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
pub(in crate::execute::resp) fn hexpire(call: &mut Call<'_>) -> Outcome {
    // The kind of value is complained of before the arguments.
    first_hash(call)?;
    let (deadline, now) = (deadline(call)?, call.now());
    let condition = DeadlineCondition::parse(call.args[3]);
    let at = if condition.is_some() { 4 } else { 3 };
    let condition = condition.unwrap_or(DeadlineCondition::Always);
    let names = fields(
        call.args,
        at,
        1,
        "ERR Parameter `numFields` should be greater than 0",
    )?;
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let retime = |name: &&[u8]| match hash.deadline(name) {
            None => NO_FIELD,
            Some(old) if !condition.holds(old, deadline) => NOT_MET,
            Some(_) if deadline.has_passed(now) => {
                hash.remove(name);
                REMOVED
            }
            Some(_) => {
                hash.retime(name, deadline);
                CHANGED
            }
        };
        Ok(names.iter().map(retime).collect::<Vec<i64>>())
    })?;
    let answers = edited.answer;
    if answers.contains(&CHANGED) {
        call.notify(Class::Hash, "hexpire", call.args[1]);
    }
    notify_removed(call, answers.contains(&REMOVED), edited.is_gone);
    answer_each(call, &answers)
}

/// HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME.
pub(in crate::execute::resp) fn httl(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let names = fields(
        call.args,
        2,
        1,
        "ERR Number of fields must be a positive integer",
    )?;
    let now = call.now();
    let hash = value.as_ref().map(|value| Hash::view(value, now));
    let of_field = |field: Field<'_>| {
        let Some(at) = field.deadline.instant() else {
            return NO_DEADLINE;
        };
        let (left, unix) = (at.0.saturating_sub(now.0), call.unix_ms(at));
        let time = match call.command.verb {
            Verb::Httl => left.div_ceil(1_000),
            Verb::Hpttl => left,
            Verb::Hexpiretime => unix.div_ceil(1_000),
            _ => unix,
        };
        i64::try_from(time).unwrap_or(i64::MAX)
    };
    let of_name = |name: &&[u8]| hash.as_ref()?.get(name).map(of_field);
    let answers = names.iter().map(|name| of_name(name).unwrap_or(NO_FIELD));
    let answers: Vec<i64> = answers.collect();
    answer_each(call, &answers)
}

pub(in crate::execute::resp) fn hpersist(call: &mut Call<'_>) -> Outcome {
    first_hash(call)?;
    let names = fields(
        call.args,
        2,
        1,
        "ERR Number of fields must be a positive integer",
    )?;
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let persist = |name: &&[u8]| match hash.deadline(name) {
            None => NO_FIELD,
            Some(Deadline::NEVER) => NO_DEADLINE,
            Some(_) => {
                hash.retime(name, Deadline::NEVER);
                CHANGED
            }
        };
        Ok(names.iter().map(persist).collect::<Vec<i64>>())
    })?;
    if edited.is_changed {
        call.notify(Class::Hash, "hpersist", call.args[1]);
    }
    answer_each(call, &edited.answer)
}

/// What HGETEX and HSETEX do with the deadlines of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
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
    /// Reads `missing` or `there`, unless another condition of its kind stood before.
    fn parse(self, name: &[u8], missing: &str, there: &str) -> Result<Option<Presence>, Failure> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let parsed = match (is(missing), is(there)) {
            (true, _) => Presence::Missing,
            (_, true) => Presence::There,
            _ => return Ok(None),
        };
        if self != Presence::Any {
            return Err(Failure::Text(
                format!("ERR Only one of {there} or {missing} arguments can be specified").into(),
            ));
        }
        Ok(Some(parsed))
    }
}

/// The options before FIELDS.
struct FieldOptions {
    time: Time,
    /// NX and XX: whether there is a hash at all.
    hash: Presence,
    /// FNX and FXX: whether none of the fields is there, or all.
    fields: Presence,
    /// Where FIELDS stands.
    at: usize,
}

impl FieldOptions {
    /// `word` is the one option that takes no operand.
    fn parse(call: &Call<'_>, word: &str, command: &'static str) -> Result<FieldOptions, Failure> {
        let mut options = FieldOptions {
            time: Time::Unsaid,
            hash: Presence::Any,
            fields: Presence::Any,
            at: 2,
        };
        let takes_conditions = call.command.verb == Verb::Hsetex;
        while let Some(&name) = call.args.get(options.at) {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("FIELDS") {
                break;
            }
            options.at += 1;
            if takes_conditions && options.takes_condition(name)? {
                continue;
            }
            let unit = Unit::of_option(name);
            if unit.is_none() && !is(word) {
                return Err(Failure::Text(
                    format!("ERR unknown argument: {}", String::from_utf8_lossy(name)).into(),
                ));
            }
            if options.time != Time::Unsaid {
                return Err(Failure::Text(
                    format!(
                        "ERR Only one of EX, PX, EXAT, PXAT or {word} arguments can be specified"
                    )
                    .into(),
                ));
            }
            options.time = match unit {
                None => Time::Word,
                Some(unit) => {
                    let operand = call.args.get(options.at);
                    let operand = operand.ok_or(Failure::text("ERR missing expire time"))?;
                    options.at += 1;
                    Time::At(deadline_in(call, operand, unit, command)?)
                }
            };
        }
        Ok(options)
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
    fn hold<'a>(&self, hash: &Hash<'_>, mut names: impl Iterator<Item = &'a [u8]>) -> bool {
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

/// Why the number behind FIELDS is none, in HGETEX, HSETEX and HGETDEL.
const BAD_NUMBER: &str = "ERR invalid number of fields";

pub(in crate::execute::resp) fn hgetex(call: &mut Call<'_>) -> Outcome {
    let options = FieldOptions::parse(call, "PERSIST", "hgetex")?;
    let names = fields(call.args, options.at, 1, BAD_NUMBER)?;
    let now = call.now();
    if options.time == Time::Unsaid {
        let value = first_hash(call)?;
        let hash = value.as_ref().map(|value| Hash::view(value, now));
        call.reply().array(names.len());
        for name in names {
            let field = hash.as_ref().and_then(|hash| hash.get(name));
            append_field(&mut call.reply(), field);
        }
        return DONE;
    }
    let deadline = match options.time {
        Time::At(deadline) => deadline,
        _ => Deadline::NEVER,
    };
    let is_over = deadline.has_passed(now);
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let values = names.iter().map(|name| {
            let value = hash.get(name)?.value.into_owned();
            if is_over {
                hash.remove(name);
            } else {
                hash.retime(name, deadline);
            }
            Some(value)
        });
        Ok(values.collect::<Vec<_>>())
    })?;
    if is_over {
        notify_removed(call, edited.is_changed, edited.is_gone);
    } else if edited.is_changed {
        let is_persist = deadline == Deadline::NEVER;
        let event = if is_persist { "hpersist" } else { "hexpire" };
        call.notify(Class::Hash, event, call.args[1]);
    }
    answer_values(call, &edited.answer)
}

pub(in crate::execute::resp) fn hgetdel(call: &mut Call<'_>) -> Outcome {
    let names = fields(call.args, 2, 1, BAD_NUMBER)?;
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let values = names.iter().map(|name| {
            let value = hash.get(name).map(|field| field.value.to_vec());
            hash.remove(name);
            value
        });
        Ok(values.collect::<Vec<_>>())
    })?;
    notify_removed(call, edited.is_changed, edited.is_gone);
    answer_values(call, &edited.answer)
}

fn answer_values(call: &mut Call<'_>, values: &[Option<Vec<u8>>]) -> Outcome {
    let mut reply = call.reply();
    reply.array(values.len());
    for value in values {
        match value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
    }
    DONE
}

pub(in crate::execute::resp) fn hsetex(call: &mut Call<'_>) -> Outcome {
    let options = FieldOptions::parse(call, "KEEPTTL", "hsetex")?;
    let pairs = fields(call.args, options.at, 2, BAD_NUMBER)?;
    let (now, longest) = (call.now(), call.longest());
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let pairs = pairs.chunks_exact(2);
        if !options.hold(hash, pairs.clone().map(|pair| pair[0])) {
            return Ok((false, false));
        }
        for pair in pairs {
            let (name, value) = (pair[0], pair[1]);
            let old = hash.get(name).map(|field| field.deadline);
            let deadline = match options.time {
                Time::Unsaid => Deadline::NEVER,
                Time::At(deadline) => deadline,
                Time::Word => old.unwrap_or(Deadline::NEVER),
            };
            longest.check(name.len().max(value.len()))?;
            if deadline.has_passed(now) {
                hash.remove(name);
            } else {
                hash.set(name, value, deadline);
            }
        }
        Ok((true, hash.is_empty()))
    })?;
    let (is_set, is_empty) = edited.answer;
    if is_set {
        // Of a time that has passed, too: there they were set and deleted.
        call.notify(Class::Hash, "hset", call.args[1]);
        if let Time::At(deadline) = options.time {
            let is_over = deadline.has_passed(now);
            let event = if is_over { "hdel" } else { "hexpire" };
            call.notify(Class::Hash, event, call.args[1]);
        }
    }
    if is_empty {
        call.notify(Class::Generic, "del", call.args[1]);
    }
    call.integer(is_set.into())
}
