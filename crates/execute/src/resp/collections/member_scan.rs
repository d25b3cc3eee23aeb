//! Member scan: what HSCAN, SSCAN and ZSCAN have in common, and how random members are chosen.

use std::collections::HashSet;

use cellar_engine::{Handle, Kind};
use cellar_net::output::Output;
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind;

use crate::resp::arguments::Arguments;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::patterns::pattern;

/// Members looked at in a step if the client does not say how many.
const COUNT: usize = 10;

/// Most members looked at in a step, whatever the client says.
const COUNT_MAX: usize = 4 * STEP_ITEMS;

/// The options of a step.
pub(in crate::resp) struct ScanOptions {
    pub(in crate::resp) cursor: u64,
    pub(in crate::resp) count: usize,
    /// Members alone: NOVALUES of HSCAN, NOSCORES of ZSCAN.
    pub(in crate::resp) bare: bool,
    pattern: Option<Pattern>,
}

impl ScanOptions {
    fn parse(cursor: u64, args: &[&[u8]], bare: Option<&str>) -> Result<ScanOptions, Failure> {
        let mut options = ScanOptions {
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
                options.count = count.ok_or(Failure::Syntax)?.min(COUNT_MAX);
            } else if is("MATCH") {
                options.pattern = Some(pattern(operand)?);
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(options)
    }

    /// Whether the client wants to see a member.
    pub(in crate::resp) fn wants(&self, member: &[u8]) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(member))
    }
}

/// Answers one step: `scan` appends what is shown to the reply, and returns the next cursor and
/// how many values that were.
pub(in crate::resp) fn answer(
    call: &mut Call<'_>,
    kind: Kind,
    scan: impl FnOnce(&mut Call<'_>, &Handle, &ScanOptions) -> (u64, usize),
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
    let options = ScanOptions::parse(cursor, &call.args[3..], bare)?;
    let start = call.output.bytes().len();
    let (cursor, values) = scan(call, &value, &options);
    call.reply().array_around(start, values);
    let shown = call.output.bytes().split_off(start);
    call.reply().array(2);
    call.reply().bulk(itoa::Buffer::new().format(cursor));
    call.output.bytes().extend_from_slice(&shown);
    DONE
}

/// Members drawn at most, where one may be drawn more than once.
const DRAWN_MAX: usize = 1 << 20;

/// Places of members.
pub(in crate::resp) type Places = Box<dyn ExactSizeIterator<Item = usize> + Send>;

/// Which of `len` places are drawn: `count` different ones or all, in no order; with a negative
/// `count` so many that may be the same.
///
/// # Errors
/// If more than a million are to be drawn that may be the same.
pub(in crate::resp) fn draw(len: usize, count: i64) -> Result<Places, Failure> {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if len == 0 {
        return Ok(Box::new(std::iter::empty()));
    }
    if count < 0 {
        if wanted > DRAWN_MAX {
            return Err(Failure::text(
                "ERR value is out of range, at most 1048576 are drawn",
            ));
        }
        return Ok(Box::new((0..wanted).map(move |_| fastrand::usize(..len))));
    }
    if wanted >= len {
        return Ok(Box::new(0..len));
    }
    if wanted * 3 > len {
        let chosen = fastrand::choose_multiple(0..len, wanted);
        return Ok(Box::new(chosen.into_iter()));
    }
    let mut chosen = HashSet::with_capacity(wanted);
    while chosen.len() < wanted {
        chosen.insert(fastrand::usize(..len));
    }
    Ok(Box::new(chosen.into_iter()))
}

/// Answers the members at `places`, each of which `append` writes; `values` is how many values of
/// the reply a member is.
pub(in crate::resp) fn answer_drawn(
    call: &mut Call<'_>,
    mut places: Places,
    values: usize,
    mut append: impl FnMut(&mut Output, usize) + Send + 'static,
) -> Outcome {
    call.reply().array(places.len() * values);
    call.in_steps(move |_, output| {
        let full = output.bytes().len() + STEP_BYTES;
        for place in places.by_ref().take(STEP_ITEMS) {
            append(output, place);
            if output.bytes().len() >= full {
                break;
            }
        }
        if places.len() == 0 {
            Progress::Last
        } else {
            Progress::More
        }
    })
}

/// Answers members that were taken out, each of which `append` writes by its place among them.
pub(in crate::resp) fn answer_taken(
    call: &mut Call<'_>,
    members: Arguments,
    mut append: impl FnMut(&mut Reply<'_>, usize, &[u8]) + Send + 'static,
) -> Outcome {
    let (proto, mut next) = (call.session.proto, 0);
    if members.len() == 1 {
        append(&mut call.reply(), 0, members.get(0));
        return DONE;
    }
    call.in_steps(move |_, output| {
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        while next < members.len() {
            append(&mut reply, next, members.get(next));
            next += 1;
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}

/// Reads the count of a command that draws members.
///
/// # Errors
/// As Redis, whose range has no lowest number; half of it if each is answered with two values.
pub(in crate::resp) fn count(arg: &[u8], is_paired: bool) -> Result<i64, Failure> {
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
