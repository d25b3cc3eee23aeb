//! List moves: elements that go from one list to another, or from the first of several lists that
//! is there.
//!
//! Source: redis.io/docs/latest/commands/lmove, lmovem, rpoplpush and lmpop.

use std::borrow::Cow;

use cellar_engine::{Handle, Key};
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::lists::{self, element_at, push_event};
use crate::resp::failure::Failure;
use cellar_values::List;
use cellar_values::list::{Edit, Side};

/// Reads an end of a list.
pub(in crate::resp) fn side(word: &[u8]) -> Result<Side, Failure> {
    if word.eq_ignore_ascii_case(b"LEFT") {
        Ok(Side::Left)
    } else if word.eq_ignore_ascii_case(b"RIGHT") {
        Ok(Side::Right)
    } else {
        Err(Failure::Syntax)
    }
}

/// From which end to which a command moves.
pub(in crate::resp) fn sides(call: &Call<'_>) -> Result<(Side, Side), Failure> {
    match call.command.verb {
        Verb::Lmove | Verb::Blmove | Verb::Lmovem | Verb::Blmovem => {
            Ok((side(call.args[3])?, side(call.args[4])?))
        }
        _ => Ok((Side::Right, Side::Left)),
    }
}

/// The list that elements are moved from, if there is one; what they are moved to may be none yet.
///
/// # Errors
/// [`Failure::WrongType`].
fn source(call: &Call<'_>, from: Key<'_>, to: Key<'_>) -> Result<Option<Handle>, Failure> {
    let source = call.value(from, kind::LIST)?;
    if source.is_some() {
        call.value(to, kind::LIST)?;
    }
    Ok(source)
}

/// Moves an element from the list of the first key to that of the second, and answers it; whether
/// there was one.
///
/// # Errors
/// [`Failure::WrongType`], and what the cache says to the new value.
pub(in crate::resp) fn try_move(call: &mut Call<'_>) -> Result<bool, Failure> {
    let (from_side, to_side) = sides(call)?;
    call.as_step(|call| {
        let (from, to) = (call.key_at(1)?, call.key_at(2)?);
        let found = call.cache().get(from, |item| {
            let is_list = item.kind == kind::LIST;
            is_list.then(|| element_at(List::view(item.value), from_side))
        });
        let element = match found {
            None => return Ok(false),
            Some(None) => return Err(Failure::WrongType),
            Some(Some(element)) => element,
        };
        if from.bytes() == to.bytes() {
            // It may be the only one: then the key stays, as does its deadline.
            rotate(call, (from_side, to_side))?;
        } else {
            // The target first: it may have no room for the element, or another type.
            call.push(to, to_side, &[&element], false)?;
            call.session.preparation.note_begun();
            call.pop_one(from, from_side, |_| ())?;
        }
        call.reply().bulk(element);
        Ok(true)
    })
}

/// Moves an element within a list.
fn rotate(call: &mut Call<'_>, sides: (Side, Side)) -> Result<(), Failure> {
    let key = call.key_at(1)?;
    let (from_side, to_side) = sides;
    call.edit_list(key, |list, scratch| {
        let rotate = |list: List<'_>| match list.len() {
            // One that is alone has nowhere to go, and its list is not to end.
            1 => list.rewrite(scratch),
            _ if from_side == to_side => list.rewrite(scratch),
            _ => list.rotate(from_side, scratch),
        };
        Ok(((), list.map_or(Edit::Keep, rotate)))
    })?;
    call.notify(Class::List, push_event(to_side), key.bytes());
    call.notify_popped(key.bytes(), from_side, false);
    Ok(())
}

/// LMOVE, RPOPLPUSH.
pub(in crate::resp) fn lmove(call: &mut Call<'_>) -> Outcome {
    if !try_move(call)? {
        call.reply().null();
    }
    DONE
}

/// How many elements LMOVEM moves, and in which order.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct HowMany {
    count: usize,
    /// Whether nothing is moved if there are fewer.
    is_exact: bool,
    /// Whether each is pushed before the next is taken, rather than all together.
    one_by_one: bool,
}

impl HowMany {
    /// Reads the arguments from here on: `[COUNT count | EXACTLY count OBO | BULK]`.
    ///
    /// # Errors
    /// [`Failure::Syntax`], and that the number is not positive.
    pub(in crate::resp) fn parse(args: &[&[u8]]) -> Result<HowMany, Failure> {
        let [selector, number, ordering] = args else {
            let one = HowMany {
                count: 1,
                is_exact: false,
                one_by_one: true,
            };
            return if args.is_empty() {
                Ok(one)
            } else {
                Err(Failure::Syntax)
            };
        };
        let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        let is_exact = is(selector, "EXACTLY");
        let one_by_one = is(ordering, "OBO");
        if !is_exact && !is(selector, "COUNT") || !one_by_one && !is(ordering, "BULK") {
            return Err(Failure::Syntax);
        }
        let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|&number| number > 0);
        let out_of_range = Failure::text("ERR value is out of range, must be positive");
        Ok(HowMany {
            count: number.ok_or(out_of_range)?,
            is_exact,
            one_by_one,
        })
    }
}

/// Moves elements from the list of the first key to that of the second, and answers them as they
/// stand there; whether there were enough.
///
/// # Errors
/// As [`try_move`].
pub(in crate::resp) fn try_move_several(
    call: &mut Call<'_>,
    how_many: HowMany,
) -> Result<bool, Failure> {
    let (from_side, to_side) = sides(call)?;
    call.as_step(|call| {
        let (from, to) = (call.key_at(1)?, call.key_at(2)?);
        let Some(source) = source(call, from, to)? else {
            return Ok(false);
        };
        let list = List::view(&source);
        if how_many.is_exact && list.len() < how_many.count {
            return Ok(false);
        }
        let count = how_many.count.min(list.len());
        // Within one list all of its elements, or those at one end, stay where they are.
        let is_rotation = from.bytes() == to.bytes();
        let stays = is_rotation && (from_side == to_side || count == list.len());
        let first = match from_side {
            Side::Left => 0,
            Side::Right => list.len() - count,
        };
        // In the order of the source, which the target keeps.
        let elements = list.iter().skip(first).take(count);
        let mut moved: Vec<Vec<u8>> = elements.map(Cow::into_owned).collect();
        drop(source);
        if how_many.one_by_one && from_side == to_side && !stays {
            moved.reverse();
        }
        if !stays {
            // LPUSH reverses its arguments.
            let mut pushed: Vec<&[u8]> = moved.iter().map(Vec::as_slice).collect();
            if to_side == Side::Left {
                pushed.reverse();
            }
            call.push(to, to_side, &pushed, false)?;
            call.session.preparation.note_begun();
            call.pop(from, from_side, count)?;
        }
        let mut reply = call.reply();
        reply.array(moved.len());
        moved.iter().for_each(|element| reply.bulk(element));
        Ok(true)
    })
}

/// LMOVEM.
pub(in crate::resp) fn lmovem(call: &mut Call<'_>) -> Outcome {
    let how_many = HowMany::parse(&call.args[5..])?;
    if !try_move_several(call, how_many)? {
        call.reply().null_array();
    }
    DONE
}

/// What LMPOP has behind its keys.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct Several {
    /// The first key's argument, and that behind the last.
    pub(in crate::resp) keys: (usize, usize),
    /// The end that elements are taken from.
    pub(in crate::resp) side: Side,
    pub(in crate::resp) count: usize,
}

/// Reads the number of keys at an argument, and the options after the keys.
///
/// # Errors
/// As Redis.
pub(in crate::resp) fn several(args: &[&[u8]], at: usize) -> Result<Several, Failure> {
    let positive = |text: &[u8], failure: &'static str| {
        let number = parse_integer(text).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|&number| number > 0);
        number.ok_or(Failure::text(failure))
    };
    let keys = positive(args[at], "ERR numkeys should be greater than 0")?;
    let end = (at + 1).saturating_add(keys);
    let side = side(args.get(end).ok_or(Failure::Syntax)?)?;
    let mut count = None;
    let mut options = args[end + 1..].iter();
    while let Some(name) = options.next() {
        let operand = options.next();
        match operand {
            Some(operand) if count.is_none() && name.eq_ignore_ascii_case(b"COUNT") => {
                count = Some(positive(operand, "ERR count should be greater than 0")?);
            }
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(Several {
        keys: (at + 1, end),
        side,
        count: count.unwrap_or(1),
    })
}

/// Takes elements from the list of a key and answers them with the key; whether there was one.
///
/// # Errors
/// [`Failure::WrongType`].
pub(in crate::resp) fn try_pop_several(
    call: &mut Call<'_>,
    key: usize,
    several: &Several,
) -> Result<Option<Outcome>, Failure> {
    let popped = call.pop(call.key_at(key)?, several.side, several.count)?;
    let Some(popped) = popped else {
        return Ok(None);
    };
    let name = call.args[key];
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(name);
    reply.array(popped.elements.len());
    Ok(Some(lists::answer_elements(call, popped.elements)))
}

/// LMPOP.
pub(in crate::resp) fn lmpop(call: &mut Call<'_>) -> Outcome {
    let several = several(call.args, 1)?;
    call.as_step(|call| {
        for key in several.keys.0..several.keys.1 {
            if let Some(outcome) = try_pop_several(call, key, &several)? {
                return outcome;
            }
        }
        call.reply().null_array();
        DONE
    })
}
