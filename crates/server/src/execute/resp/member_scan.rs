//! Member scan: what HSCAN, SSCAN and ZSCAN have in common, and how members are drawn by lot.

use std::collections::HashSet;

use cellar_engine::{Handle, Kind};
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use crate::kind;

/// Members looked at in a step if the client does not say how many.
const COUNT: usize = 10;

/// The options of a step.
pub(super) struct Options {
    pub(super) cursor: u64,
    pub(super) count: usize,
    /// Members alone: NOVALUES of HSCAN, NOSCORES of ZSCAN.
    pub(super) bare: bool,
    pattern: Option<Pattern>,
}

impl Options {
    fn parse(cursor: u64, args: &[&[u8]], bare: Option<&str>) -> Result<Options, Failure> {
        let mut options = Options {
            cursor,
            count: COUNT,
            bare: false,
            pattern: None,
        };
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if bare.is_some_and(is) {
                options.bare = true;
                continue;
            }
            let &operand = args.next().ok_or(Failure::Syntax)?;
            if is("COUNT") {
                let count = parse_integer(operand).ok_or(Failure::NotInteger)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                options.count = count.ok_or(Failure::Syntax)?;
            } else if is("MATCH") {
                options.pattern = Some(Pattern::new(operand));
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(options)
    }

    /// Whether the client wants to see a member.
    pub(super) fn wants(&self, member: &[u8]) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(member))
    }
}

/// Answers one step: `scan` appends what is shown to the reply, and returns the next cursor and
/// how many values that were.
pub(super) fn answer(
    call: &mut Call<'_>,
    kind: Kind,
    scan: impl FnOnce(&mut Call<'_>, &Handle, &Options) -> (u64, usize),
) -> Outcome {
    let bad = || Failure::text("ERR invalid cursor");
    let cursor = std::str::from_utf8(call.args[2]).map_err(|_| bad())?;
    // Nothing is the beginning, as in Redis.
    let cursor = if cursor.is_empty() { "0" } else { cursor };
    let cursor: u64 = cursor.parse().map_err(|_| bad())?;
    let Some(value) = call.value(call.first_key()?, kind)? else {
        call.reply().array(2);
        call.reply().bulk(b"0");
        call.reply().array(0);
        return DONE;
    };
    let bare = match kind {
        kind::HASH => Some("NOVALUES"),
        kind::SORTED_SET => Some("NOSCORES"),
        _ => None,
    };
    let options = Options::parse(cursor, &call.args[3..], bare)?;
    let start = call.output.bytes().len();
    let (cursor, values) = scan(call, &value, &options);
    call.reply().array_around(start, values);
    let shown = call.output.bytes().split_off(start);
    call.reply().array(2);
    call.reply().bulk(itoa::Buffer::new().format(cursor));
    call.output.bytes().extend_from_slice(&shown);
    DONE
}

/// Which of `len` places are drawn: `count` different ones or all, in no order; with a negative
/// `count` so many that may be the same.
pub(super) fn draw(len: usize, count: i64) -> Box<dyn Iterator<Item = usize>> {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if len == 0 {
        return Box::new(std::iter::empty());
    }
    if count < 0 {
        return Box::new(std::iter::repeat_with(move || fastrand::usize(..len)).take(wanted));
    }
    if wanted >= len {
        return Box::new(0..len);
    }
    if wanted * 3 > len {
        let chosen = fastrand::choose_multiple(0..len, wanted);
        return Box::new(chosen.into_iter());
    }
    let mut chosen = HashSet::with_capacity(wanted);
    while chosen.len() < wanted {
        chosen.insert(fastrand::usize(..len));
    }
    Box::new(chosen.into_iter())
}

/// Answers the members at `places`, each of which `append` writes; `values` is how many values of
/// the reply a member is.
///
/// # Errors
/// From 32 MiB on, see [`Call::check_reply`].
pub(super) fn answer_drawn(
    call: &mut Call<'_>,
    places: impl Iterator<Item = usize>,
    values: usize,
    mut append: impl FnMut(&mut Call<'_>, usize),
) -> Outcome {
    let start = call.output.bytes().len();
    let mut drawn = 0;
    for place in places {
        append(call, place);
        drawn += 1;
        call.check_reply(start)?;
    }
    call.reply().array_around(start, drawn * values);
    DONE
}

/// Reads the count of a command that draws members.
///
/// # Errors
/// As Redis, whose range has no lowest number; half of it if each is answered with two values.
pub(super) fn count(arg: &[u8], is_paired: bool) -> Result<i64, Failure> {
    let count = parse_integer(arg).ok_or(Failure::NotInteger)?;
    if count == i64::MIN {
        return Err(Failure::text(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    if is_paired && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::text("ERR value is out of range"));
    }
    Ok(count)
}
