//! Lists: elements in an order of their own, put in and taken out at both ends.
//!
//! Source: redis.io/docs/latest/commands, group "list". Moving between lists: list_moves.rs.

use std::borrow::Cow;

use cellar_engine::{Change, Key};
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Reply, Verb};
use cellar_shared::keyspace::kind;
use smallvec::SmallVec;

use crate::resp::arguments::Arguments;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, STEP_BYTES};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::sets::positive;
use crate::resp::collections::{HEAVY_BYTES_MIN, failure_of, member_scan};
use crate::resp::failure::Failure;
use cellar_values::List;
use cellar_values::list::{Edit, Side};

/// From so many elements on a walk over a list takes more than constant time.
const MANY_ELEMENTS: usize = 128;

/// The event of an element that came at an end.
pub(in crate::resp) fn push_event(side: Side) -> &'static str {
    match side {
        Side::Left => "lpush",
        Side::Right => "rpush",
    }
}

/// The event of one that went there.
pub(in crate::resp) fn pop_event(side: Side) -> &'static str {
    match side {
        Side::Left => "lpop",
        Side::Right => "rpop",
    }
}

/// A copy of an element, without an allocation if it is short.
pub(in crate::resp) type ShortElement = SmallVec<[u8; 256]>;

/// A copy of the element at an end of a list, which has one.
pub(in crate::resp) fn element_at(list: List<'_>, side: Side) -> ShortElement {
    let number = match side {
        Side::Left => 0,
        Side::Right => list.len() - 1,
    };
    match list.get(number) {
        Some(Cow::Borrowed(element)) => SmallVec::from_slice(element),
        Some(Cow::Owned(element)) => SmallVec::from_vec(element),
        None => SmallVec::new(),
    }
}

/// What was taken from a list.
#[derive(Debug)]
pub(in crate::resp) struct Popped {
    pub(in crate::resp) elements: Arguments,
    /// Whether those were all, and the key is gone.
    pub(in crate::resp) is_gone: bool,
}

impl Call<'_> {
    /// Changes the list of a key in one step; none is there if `decide` gets none. `decide` may
    /// run more than once.
    ///
    /// # Errors
    /// [`Failure::WrongType`], what `decide` says, and what the cache says to the new value.
    pub(in crate::resp) fn edit_list<R>(
        &self,
        key: Key<'_>,
        mut decide: impl FnMut(Option<List<'_>>, &mut Vec<u8>) -> Result<(R, Edit), Failure>,
    ) -> Result<R, Failure> {
        let default = self.default_deadline();
        let pass = self.context.pass;
        let edited = self.change(key, |old, scratch| {
            if old.is_some_and(|item| item.kind != kind::LIST) {
                return (Err(Failure::WrongType), Change::Keep);
            }
            let list = old.map(|item| List::view(item.value));
            let (answer, edit) = match decide(list, scratch) {
                Ok(decided) => decided,
                Err(failure) => return (Err(failure), Change::Keep),
            };
            if scratch.len() >= HEAVY_BYTES_MIN {
                pass.note_heavy();
            }
            let deadline = old.map_or(default, |item| item.deadline);
            (Ok(answer), edit.change(deadline))
        });
        edited.map_err(failure_of)?
    }

    /// Adds elements at an end; how many there are then, none if there is no list and only one
    /// that is there is to get them.
    ///
    /// # Errors
    /// As [`Call::edit_list`].
    pub(in crate::resp) fn push(
        &mut self,
        key: Key<'_>,
        side: Side,
        elements: &[&[u8]],
        only_there: bool,
    ) -> Result<Option<usize>, Failure> {
        let longest = self.longest();
        let len = self.edit_list(key, |list, scratch| {
            if only_there && list.is_none() {
                return Ok((None, Edit::Keep));
            }
            for element in elements {
                longest.check(element.len())?;
            }
            let list = list.unwrap_or(List::empty());
            let edit = list.push(side, elements, scratch);
            Ok((Some(list.len() + elements.len()), edit))
        })?;
        if len.is_some() {
            self.notify(Class::List, push_event(side), key.bytes());
        }
        Ok(len)
    }

    /// Takes up to so many elements from an end, and tells of it; none if there is no list.
    ///
    /// # Errors
    /// As [`Call::edit_list`].
    pub(in crate::resp) fn pop(
        &mut self,
        key: Key<'_>,
        side: Side,
        count: usize,
    ) -> Result<Option<Popped>, Failure> {
        let popped = self.edit_list(key, |list, scratch| {
            let Some(list) = list else {
                return Ok((None, Edit::Keep));
            };
            let taken = count.min(list.len());
            let mut elements = Arguments::default();
            match side {
                Side::Left => list
                    .iter()
                    .take(taken)
                    .for_each(|one| elements.extend(&[&*one])),
                Side::Right => {
                    list.iter_back()
                        .take(taken)
                        .for_each(|one| elements.extend(&[&*one]));
                }
            }
            let kept = match side {
                Side::Left => taken..list.len(),
                Side::Right => 0..list.len() - taken,
            };
            let edit = list.keep(kept, scratch);
            let is_gone = edit == Edit::Remove;
            Ok((Some(Popped { elements, is_gone }), edit))
        })?;
        if let Some(popped) = &popped
            && popped.elements.len() > 0
        {
            self.notify_popped(key.bytes(), side, popped.is_gone);
        }
        Ok(popped)
    }

    /// Takes the element from an end of a list, and tells of it; what `read` makes of the list
    /// before, none if there is no list. `read` may run more than once.
    ///
    /// # Errors
    /// As [`Call::edit_list`].
    pub(in crate::resp) fn pop_one<R>(
        &mut self,
        key: Key<'_>,
        side: Side,
        mut read: impl FnMut(List<'_>) -> R,
    ) -> Result<Option<R>, Failure> {
        let popped = self.edit_list(key, |list, scratch| {
            let Some(list) = list else {
                return Ok((None, Edit::Keep));
            };
            let kept = match side {
                Side::Left => 1..list.len(),
                Side::Right => 0..list.len() - 1,
            };
            let element = read(list);
            let edit = list.keep(kept, scratch);
            Ok((Some((element, edit == Edit::Remove)), edit))
        })?;
        Ok(popped.map(|(element, is_gone)| {
            self.notify_popped(key.bytes(), side, is_gone);
            element
        }))
    }

    /// Tells that elements went, and perhaps the list.
    pub(in crate::resp) fn notify_popped(&mut self, key: &[u8], side: Side, is_gone: bool) {
        self.notify(Class::List, pop_event(side), key);
        if is_gone {
            self.notify(Class::Generic, "del", key);
        }
    }
}

/// LPUSH, RPUSH, LPUSHX, RPUSHX.
pub(in crate::resp) fn push(call: &mut Call<'_>) -> Outcome {
    let verb = call.command.verb;
    let side = match verb {
        Verb::Lpush | Verb::Lpushx => Side::Left,
        _ => Side::Right,
    };
    let only_there = matches!(verb, Verb::Lpushx | Verb::Rpushx);
    let (key, args) = (call.first_key()?, call.args);
    let len = call.push(key, side, &args[2..], only_there)?;
    call.integer(len.unwrap_or(0) as i64)
}

/// LPOP, RPOP.
pub(in crate::resp) fn pop(call: &mut Call<'_>) -> Outcome {
    let side = if call.command.verb == Verb::Lpop {
        Side::Left
    } else {
        Side::Right
    };
    let count = match call.args {
        [_, _] => None,
        [_, _, count] => Some(positive(count)?),
        _ => return Err(crate::resp::wrong_arity(call.command, call.args)),
    };
    let key = call.first_key()?;
    let Some(count) = count else {
        let popped = call.pop_one(key, side, |list| element_at(list, side))?;
        match popped {
            Some(element) => call.reply().bulk(element),
            None => call.reply().null(),
        }
        return DONE;
    };
    let Some(popped) = call.pop(key, side, count)? else {
        call.reply().null_array();
        return DONE;
    };
    call.reply().array(popped.elements.len());
    answer_elements(call, popped.elements)
}

/// Answers elements that were taken out.
pub(in crate::resp) fn answer_elements(call: &mut Call<'_>, elements: Arguments) -> Outcome {
    member_scan::answer_taken(call, elements, |reply, _, element| reply.bulk(element))
}

pub(in crate::resp) fn llen(call: &mut Call<'_>) -> Outcome {
    let value = call.value(call.first_key()?, kind::LIST)?;
    call.integer(value.map_or(0, |value| List::view(&value).len()) as i64)
}

pub(in crate::resp) fn lindex(call: &mut Call<'_>) -> Outcome {
    let Some(value) = call.value(call.first_key()?, kind::LIST)? else {
        call.reply().null();
        return DONE;
    };
    let index = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let list = List::view(&value);
    let found = list.number(index).and_then(|number| list.get(number));
    match found {
        Some(element) => call.reply().bulk(element),
        None => call.reply().null(),
    }
    DONE
}

/// The numbers of the first and the last element that a command is about.
fn ends(call: &Call<'_>) -> Result<(i64, i64), Failure> {
    let number = |index: usize| parse_integer(call.args[index]).ok_or(Failure::NotInteger);
    Ok((number(2)?, number(3)?))
}

pub(in crate::resp) fn lrange(call: &mut Call<'_>) -> Outcome {
    let (first, last) = ends(call)?;
    let Some(value) = call.value(call.first_key()?, kind::LIST)? else {
        call.reply().array(0);
        return DONE;
    };
    let list = List::view(&value);
    let range = list.range(first, last);
    let (mut left, mut at) = (range.len(), list.place(range.start));
    call.reply().array(left);
    let proto = call.session.proto;
    call.in_steps(move |_, output| {
        let list = List::view(&value);
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        while left > 0 {
            let Some((element, next)) = list.element(at) else {
                break;
            };
            reply.bulk(element);
            (left, at) = (left - 1, next);
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}

pub(in crate::resp) fn ltrim(call: &mut Call<'_>) -> Outcome {
    let (first, last) = ends(call)?;
    let (key, pass) = (call.first_key()?, call.context.pass);
    let is_gone = call.edit_list(key, |list, scratch| {
        let Some(list) = list else {
            return Ok((None, Edit::Keep));
        };
        let range = list.range(first, last);
        if list.len() - range.len() > HEAVY_BYTES_MIN {
            pass.note_heavy();
        }
        let edit = list.keep(range, scratch);
        Ok((Some(edit == Edit::Remove), edit))
    })?;
    if let Some(is_gone) = is_gone {
        call.notify(Class::List, "ltrim", call.args[1]);
        if is_gone {
            call.notify(Class::Generic, "del", call.args[1]);
        }
    }
    call.ok()
}

pub(in crate::resp) fn lset(call: &mut Call<'_>) -> Outcome {
    let (index, element, longest) = (call.args[2], call.args[3], call.longest());
    call.edit_list(call.first_key()?, |list, scratch| {
        let list = list.ok_or(Failure::text("ERR no such key"))?;
        let index = parse_integer(index).ok_or(Failure::NotInteger)?;
        let found = list.number(index);
        let number = found.ok_or(Failure::text("ERR index out of range"))?;
        longest.check(element.len())?;
        Ok(((), list.set(number, element, scratch)))
    })?;
    call.notify(Class::List, "lset", call.args[1]);
    call.ok()
}

pub(in crate::resp) fn linsert(call: &mut Call<'_>) -> Outcome {
    let is = |word: &str| call.args[2].eq_ignore_ascii_case(word.as_bytes());
    let is_before = is("BEFORE");
    if !is_before && !is("AFTER") {
        return Err(Failure::Syntax);
    }
    let (pivot, element, longest) = (call.args[3], call.args[4], call.longest());
    call.context.pass.note_heavy();
    let len = call.edit_list(call.first_key()?, |list, scratch| {
        let Some(list) = list else {
            return Ok((0, Edit::Keep));
        };
        let Some(number) = list.numbers_of(pivot).next() else {
            return Ok((-1, Edit::Keep));
        };
        longest.check(element.len())?;
        let number = number + usize::from(!is_before);
        let edit = list.insert(number, element, scratch);
        Ok((list.len() as i64 + 1, edit))
    })?;
    if len > 0 {
        call.notify(Class::List, "linsert", call.args[1]);
    }
    call.integer(len)
}

pub(in crate::resp) fn lrem(call: &mut Call<'_>) -> Outcome {
    let count = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let element = call.args[3];
    call.context.pass.note_heavy();
    let (removed, is_gone) = call.edit_list(call.first_key()?, |list, scratch| {
        let Some(list) = list else {
            return Ok(((0, false), Edit::Keep));
        };
        let (removed, edit) = list.remove(count, element, scratch);
        Ok(((removed, edit == Edit::Remove), edit))
    })?;
    if removed > 0 {
        call.notify(Class::List, "lrem", call.args[1]);
    }
    if is_gone {
        call.notify(Class::Generic, "del", call.args[1]);
    }
    call.integer(removed as i64)
}

/// The options of LPOS.
struct Wanted {
    /// Matches that are left out before the first that counts.
    skipped: usize,
    is_back: bool,
    /// How many are answered, as an array; none for one alone.
    count: Option<usize>,
    /// Elements that are compared.
    compared: usize,
}

impl Wanted {
    fn parse(options: &[&[u8]]) -> Result<Wanted, Failure> {
        let mut wanted = Wanted {
            skipped: 0,
            is_back: false,
            count: None,
            compared: usize::MAX,
        };
        // Zero is no limit.
        let number = |text: &[u8], failure: &'static str| -> Result<usize, Failure> {
            let number = parse_integer(text).and_then(|number| usize::try_from(number).ok());
            let number = number.ok_or(Failure::text(failure))?;
            Ok(if number == 0 { usize::MAX } else { number })
        };
        let mut options = options.iter();
        while let Some(name) = options.next() {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            let operand = options.next().ok_or(Failure::Syntax)?;
            if is("RANK") {
                let rank = member_scan::count(operand, false)?;
                if rank == 0 {
                    return Err(Failure::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                         second ... or use negative to start from the end of the list",
                    ));
                }
                wanted.is_back = rank < 0;
                let rank = usize::try_from(rank.unsigned_abs()).unwrap_or(usize::MAX);
                wanted.skipped = rank - 1;
            } else if is("COUNT") {
                wanted.count = Some(number(operand, "ERR COUNT can't be negative")?);
            } else if is("MAXLEN") {
                wanted.compared = number(operand, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(wanted)
    }
}

pub(in crate::resp) fn lpos(call: &mut Call<'_>) -> Outcome {
    let wanted = Wanted::parse(&call.args[3..])?;
    let value = call.value(call.first_key()?, kind::LIST)?;
    let element = call.args[2];
    let mut found = Vec::new();
    if let Some(value) = &value {
        let list = List::view(value);
        if list.len() > MANY_ELEMENTS {
            call.context.pass.note_heavy();
        }
        let count = list.len();
        let most = wanted.count.unwrap_or(1);
        found = if wanted.is_back {
            let is_it = |(_, one): &(usize, Cow<'_, [u8]>)| **one == *element;
            let all = (0..count).rev().zip(list.iter_back());
            let all = all.take(wanted.compared).filter(is_it);
            let all = all.map(|(number, _)| number);
            all.skip(wanted.skipped).take(most).collect()
        } else {
            let all = list.numbers_of(element);
            let all = all.take_while(|&number| number < wanted.compared);
            all.skip(wanted.skipped).take(most).collect()
        };
    }
    if wanted.count.is_some() {
        call.reply().array(found.len());
        return answer_numbers(call, found);
    }
    match found.first() {
        Some(number) => call.reply().integer(*number as i64),
        None => call.reply().null(),
    }
    DONE
}

/// Answers numbers in steps.
fn answer_numbers(call: &mut Call<'_>, numbers: Vec<usize>) -> Outcome {
    let (proto, mut next) = (call.session.proto, 0);
    call.in_steps(move |_, output| {
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        while let Some(number) = numbers.get(next) {
            reply.integer(*number as i64);
            next += 1;
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}
