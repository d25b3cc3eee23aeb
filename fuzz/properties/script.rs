//! Scripts: any text is answered with whole frames, within its time, and leaves nothing behind that
//! the next script could see.

use super::talk::Talk;
use super::talks::{kinds, state};

/// A script that fails if another one has changed what they share.
const AFTER: &str = "local names = {} \
    for name in pairs(_G) do names[#names + 1] = tostring(name) end \
    table.sort(names) \
    assert(('x'):rep(3) == 'xxx' and math.max(1, 2) == 2 and #table.concat({1, 2}) == 2) \
    return redis.sha1hex(table.concat(names, ','))";

fn eval(talk: &mut Talk<'_>, text: &[u8]) -> Vec<u8> {
    let args: [&[u8]; 7] = [b"EVAL", text, b"2", b"k", b"hash", b"a", b"7"];
    let mut frame = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        frame.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        frame.extend_from_slice(arg);
        frame.extend_from_slice(b"\r\n");
    }
    talk.feed(&frame)
}

/// Runs [`AFTER`]; again if the machine was so busy that its time was over.
fn eval_after(talk: &mut Talk<'_>) -> Vec<u8> {
    loop {
        let answer = eval(talk, AFTER.as_bytes());
        if !answer.starts_with(b"-ERR the script ran longer") {
            return answer;
        }
    }
}

/// Checks the property for one input.
pub(crate) fn check(text: &[u8]) {
    let state = state();
    let mut talk = Talk::new(&state);
    talk.feed(b"SET k 1\r\nHSET hash a 1 b 2\r\nSADD set a b c\r\nZADD zset 1 a 2 b\r\n");
    let before = eval_after(&mut talk);
    kinds(&eval(&mut talk, text));
    // What it did to the connection ends with it, or with RESET.
    talk.feed(b"RESET\r\n");
    let after = eval_after(&mut talk);
    assert_eq!(
        after.escape_ascii().to_string(),
        before.escape_ascii().to_string()
    );
    assert!(before.starts_with(b"$40\r\n"), "{}", before.escape_ascii());
}
