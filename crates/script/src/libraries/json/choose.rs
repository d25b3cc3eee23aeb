//! Choose: the functions of `cjson` by which a script chooses how JSON is written and read.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{MultiValue, Result, Value};

use crate::choices::Choices;
use crate::given::Given;

/// Words that choose a switch.
const SWITCH: [&str; 2] = ["off", "on"];
/// Words that select the treatment of numbers that JSON does not have.
const INVALID: [&str; 3] = ["off", "on", "null"];

/// The Lua function behind a setting of the JSON library.
type Chosen = fn(&Given<'_>, &mut Choices) -> Result<MultiValue>;

/// The functions that change settings, by name.
pub(crate) const FUNCTIONS: [(&str, Chosen); 7] = [
    ("encode_sparse_array", |given, choices| {
        check_count(given, 3)?;
        let convert = choose_switch(given, 1, &mut choices.converts_sparse)?;
        let ratio = choose_number(given, 2, &mut choices.sparse_ratio, (0, i32::MAX))?;
        let safe = choose_number(given, 3, &mut choices.sparse_safe, (0, i32::MAX))?;
        Ok(MultiValue::from_vec(vec![convert, ratio, safe]))
    }),
    ("encode_max_depth", |given, choices| {
        check_count(given, 1)?;
        single(choose_number(
            given,
            1,
            &mut choices.encode_depth_max,
            (1, i32::MAX),
        ))
    }),
    ("decode_max_depth", |given, choices| {
        check_count(given, 1)?;
        single(choose_number(
            given,
            1,
            &mut choices.decode_depth_max,
            (1, i32::MAX),
        ))
    }),
    ("encode_number_precision", |given, choices| {
        check_count(given, 1)?;
        single(choose_number(given, 1, &mut choices.digits, (1, 14)))
    }),
    ("encode_keep_buffer", |given, choices| {
        check_count(given, 1)?;
        single(choose_switch(given, 1, &mut choices.keeps_buffer))
    }),
    ("encode_invalid_numbers", |given, choices| {
        check_count(given, 1)?;
        single(choose_invalid(given, &mut choices.encodes_invalid))
    }),
    ("decode_invalid_numbers", |given, choices| {
        check_count(given, 1)?;
        single(choose_switch(given, 1, &mut choices.decodes_invalid))
    }),
];

/// Runs a function that changes settings on those of an instance.
pub(crate) fn choose(
    given: &Given<'_>,
    choices: &Rc<Cell<Choices>>,
    run: Chosen,
) -> Result<MultiValue> {
    let mut changed = choices.get();
    let answer = run(given, &mut changed);
    choices.set(changed);
    answer
}

fn single(value: Result<Value>) -> Result<MultiValue> {
    Ok(MultiValue::from_vec(vec![value?]))
}

fn check_count(given: &Given<'_>, most: usize) -> Result<()> {
    if given.values.len() > most {
        return given.wrong(most + 1, "found too many arguments");
    }
    Ok(())
}

fn is_chosen(given: &Given<'_>, place: usize) -> bool {
    !matches!(given.at(place), None | Some(Value::Nil))
}

fn choose_number(
    given: &Given<'_>,
    place: usize,
    number: &mut i32,
    (least, most): (i32, i32),
) -> Result<Value> {
    if is_chosen(given, place) {
        let chosen = given.integer_or(place, 0)? as i32;
        if !(least..=most).contains(&chosen) {
            let text = format!("expected integer between {least} and {most}");
            return given.wrong(1, text);
        }
        *number = chosen;
    }
    Ok(Value::Number(f64::from(*number)))
}

fn choose_switch(given: &Given<'_>, place: usize, switch: &mut bool) -> Result<Value> {
    if is_chosen(given, place) {
        *switch = match given.at(place) {
            Some(Value::Boolean(yes)) => *yes,
            _ => word(given, place, &SWITCH)? == 1,
        };
    }
    Ok(Value::Boolean(*switch))
}

fn choose_invalid(given: &Given<'_>, chosen: &mut usize) -> Result<Value> {
    if is_chosen(given, 1) {
        *chosen = match given.at(1) {
            Some(Value::Boolean(yes)) => usize::from(*yes),
            _ => word(given, 1, &INVALID)?,
        };
    }
    Ok(match *chosen {
        2 => Value::String(given.lua.create_string(INVALID[2])?),
        switch => Value::Boolean(switch == 1),
    })
}

/// Which of these words an argument is.
fn word(given: &Given<'_>, place: usize, words: &[&str]) -> Result<usize> {
    let text = given.text(place)?;
    let text = text.as_bytes();
    match words.iter().position(|word| word.as_bytes() == &*text) {
        Some(found) => Ok(found),
        None => given.wrong(place, [b"invalid option '", &*text, b"'"].concat()),
    }
}
