//! Scripts: what tests of EVAL share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::resp::{Client, Value};

/// Runs a script with keys and other arguments.
pub(crate) fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    let mut words = vec![&b"EVAL"[..], script.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().map(|key| key.as_bytes()));
    words.extend(args.iter().map(|arg| arg.as_bytes()));
    client.call(&words)
}

/// The text of the error that a script without arguments ends with.
pub(crate) fn error(client: &mut Client, script: &str) -> String {
    match eval(client, script, &[], &[]) {
        Value::Error(text) => text,
        other => panic!("{script}: {other:?}"),
    }
}

/// Checks what scripts answer.
pub(crate) fn check_answers(
    client: &mut Client,
    answers: impl IntoIterator<Item = (&'static str, Value)>,
) {
    for (script, reply) in answers {
        assert_eq!(eval(client, script, &[], &[]), reply, "{script}");
    }
}
