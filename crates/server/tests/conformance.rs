//! Replays the transcripts of conformance/ in process, however their messages are cut.
//!
//! The format is described in conformance/README.md; conformance/replay.py does the same over TCP.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_engine::{Instant, ManualClock};
use cellar_shared::state::State;

use crate::support::session::{Session, UNIX_MS_AT_ZERO, state};

/// Memory of a replayed cache.
const MEMORY_BYTES: usize = 64 << 20;
/// Messages are cut at each byte up to this distance from both ends.
const CUT_NEAR_ENDS_BYTES: usize = 70;
/// Between the ends, messages up to this length are cut at about `CUTS_IF_SHORT` places, longer
/// ones at about `CUTS_IF_LONG`.
const SHORT_BYTES: usize = 3_000;
const CUTS_IF_SHORT: usize = 150;
const CUTS_IF_LONG: usize = 20;
/// Longest message that is also fed byte by byte.
const BYTEWISE_MAX: usize = 50_000;

/// How messages are cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    EveryByte,
    At(usize),
    BeforeEnd(usize),
}

/// One part of a text.
#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    Name(String),
    Any,
}

/// An expected line.
#[derive(Debug)]
struct Expected {
    parts: Vec<Part>,
    somewhere: bool,
}

/// One exchange.
#[derive(Debug, Default)]
struct Step {
    line: usize,
    sent: Vec<Part>,
    expected: Vec<Expected>,
    seconds: u64,
    closed: bool,
}

fn parts(text: &str, end: &str) -> Vec<Part> {
    let text = format!("{text}{end}");
    let mut parts = Vec::new();
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'\\' => {
                let (byte, used) = match tail[0] {
                    b'r' => (b'\r', 1),
                    b'n' => (b'\n', 1),
                    b't' => (b'\t', 1),
                    b'x' => {
                        let digits = std::str::from_utf8(&tail[1..3]).unwrap();
                        (u8::from_str_radix(digits, 16).unwrap(), 3)
                    }
                    other => (other, 1),
                };
                bytes.push(byte);
                rest = &tail[used..];
            }
            b'{' => {
                let end = tail
                    .iter()
                    .position(|byte| *byte == b'}')
                    .expect("a brace is closed");
                let name = std::str::from_utf8(&tail[..end]).unwrap();
                rest = &tail[end + 1..];
                let times = name.rsplit_once('*').filter(|(text, _)| !text.is_empty());
                match times {
                    Some((text, times)) => {
                        bytes.extend(text.as_bytes().repeat(times.parse().unwrap()));
                    }
                    None => {
                        parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                        let name = name.to_owned();
                        parts.push(if name == "*" {
                            Part::Any
                        } else {
                            Part::Name(name)
                        });
                    }
                }
            }
            byte => bytes.push(*byte),
        }
    }
    parts.push(Part::Bytes(bytes));
    parts
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut sending = false;
    for (number, line) in text.lines().enumerate() {
        let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            ">" | ">|" => {
                if !sending {
                    steps.push(Step {
                        line: number + 1,
                        ..Step::default()
                    });
                }
                sending = true;
                let end = if mark == ">" { "\\r\\n" } else { "" };
                steps.last_mut().unwrap().sent.extend(parts(text, end));
                continue;
            }
            "<" | "<cellar" | "<|" | "<has" => {
                let end = if mark == "<|" { "" } else { "\\r\\n" };
                let expected = Expected {
                    parts: parts(text, end),
                    somewhere: mark == "<has",
                };
                steps
                    .last_mut()
                    .expect("an answer follows a message")
                    .expected
                    .push(expected);
            }
            "~" => {
                let seconds = text.trim_end_matches('s').parse().unwrap();
                steps.push(Step {
                    line: number + 1,
                    seconds,
                    ..Step::default()
                });
            }
            "!" => steps.last_mut().expect("a close follows a message").closed = true,
            "<memcached" => {}
            "" => continue,
            mark if mark.starts_with('#') => continue,
            mark => panic!("line {}: unknown mark {mark:?}", number + 1),
        }
        sending = false;
    }
    steps
}

/// Matches `parts` at the beginning of `text`; returns the length, and binds names.
fn matches(parts: &[Part], text: &[u8], names: &mut HashMap<String, Vec<u8>>) -> Option<usize> {
    let mut at = 0;
    let run =
        |text: &[u8], ends: &[u8]| text.iter().take_while(|byte| !ends.contains(byte)).count();
    for part in parts {
        let rest = &text[at..];
        at += match part {
            Part::Bytes(bytes) => rest.starts_with(bytes).then_some(bytes.len())?,
            Part::Any => run(rest, b"\r\n"),
            Part::Name(name) => {
                let word = &rest[..run(rest, b" \r\n")];
                let known = names.entry(name.clone()).or_insert_with(|| word.to_vec());
                (!word.is_empty() && known == word).then_some(word.len())?
            }
        };
    }
    Some(at)
}

fn check_answer(step: &Step, answer: &[u8], names: &mut HashMap<String, Vec<u8>>, place: &str) {
    let shown = String::from_utf8_lossy(&answer[..answer.len().min(2000)]);
    if step.expected.iter().any(|expected| expected.somewhere) {
        for expected in &step.expected {
            let found = (0..answer.len())
                .filter(|at| *at == 0 || answer[at - 1] == b'\n')
                .any(|at| matches(&expected.parts, &answer[at..], &mut names.clone()).is_some());
            assert!(found, "{place}: no {:?} in {shown}", expected.parts);
        }
        return;
    }
    let mut at = 0;
    for expected in &step.expected {
        let used = matches(&expected.parts, &answer[at..], names);
        assert!(
            used.is_some(),
            "{place}: expected {:?} in {shown}",
            expected.parts
        );
        at += used.unwrap();
    }
    assert_eq!(at, answer.len(), "{place}: more than expected: {shown}");
}

fn feed(session: &mut Session, message: &[u8], cut: Cut, state: &State) -> Vec<u8> {
    match cut {
        Cut::EveryByte if message.len() <= BYTEWISE_MAX => message
            .iter()
            .flat_map(|byte| session.feed(&[*byte], state))
            .collect(),
        Cut::At(at) if at < message.len() => {
            let (head, tail) = message.split_at(at);
            let mut answer = session.feed(head, state);
            answer.extend(session.feed(tail, state));
            answer
        }
        Cut::BeforeEnd(bytes) if bytes < message.len() => {
            feed(session, message, Cut::At(message.len() - bytes), state)
        }
        _ => session.feed(message, state),
    }
}

/// Replays one transcript; returns the length of its longest message.
fn replay(path: &Path, cut: Cut) -> usize {
    let connect = || {
        if path.parent().is_some_and(|home| home.ends_with("http")) {
            Session::http()
        } else {
            Session::memcached()
        }
    };
    let clock = Arc::new(ManualClock::starting_at(Instant(5_000)));
    let state = state(clock.clone(), MEMORY_BYTES, UNIX_MS_AT_ZERO);
    let mut session = connect();
    let mut names: HashMap<String, Vec<u8>> = HashMap::new();
    let mut longest = 0;
    for step in steps(&std::fs::read_to_string(path).unwrap()) {
        clock.advance_ms(step.seconds * 1000);
        let message: Vec<u8> = step
            .sent
            .iter()
            .flat_map(|part| match part {
                Part::Bytes(bytes) => bytes.clone(),
                Part::Name(name) => names[name].clone(),
                Part::Any => panic!("a message has no wildcard"),
            })
            .collect();
        longest = longest.max(message.len());
        let answer = feed(&mut session, &message, cut, &state);
        let place = format!("{}:{}, cut {cut:?}", path.display(), step.line);
        check_answer(&step, &answer, &mut names, &place);
        assert_eq!(session.is_closed(), step.closed, "{place}: closed or not");
        if step.closed {
            session = connect();
        }
    }
    longest
}

fn transcripts() -> Vec<PathBuf> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut paths = Vec::new();
    for protocol in ["memcached", "http"] {
        let mut of_protocol: Vec<PathBuf> = std::fs::read_dir(home.join(protocol))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        of_protocol.sort();
        assert!(!of_protocol.is_empty());
        paths.append(&mut of_protocol);
    }
    paths
}

#[test]
fn transcripts_are_answered_as_they_say() {
    for path in transcripts() {
        replay(&path, Cut::Whole);
    }
}

#[test]
fn transcripts_are_answered_the_same_when_every_byte_comes_alone() {
    for path in transcripts() {
        replay(&path, Cut::EveryByte);
    }
}

#[test]
fn transcripts_are_answered_the_same_wherever_a_message_is_cut() {
    replay_cut(CUTS_IF_SHORT);
}

#[test]
fn transcripts_are_answered_the_same_at_every_cut_of_short_messages() {
    replay_cut(SHORT_BYTES);
}

/// Replays all transcripts, with messages cut near their ends and at about so many places between,
/// if they are short.
fn replay_cut(cuts_if_short: usize) {
    for path in transcripts() {
        let longest = replay(&path, Cut::Whole);
        for at in 1..=CUT_NEAR_ENDS_BYTES.min(longest / 2) {
            replay(&path, Cut::At(at));
            replay(&path, Cut::BeforeEnd(at));
        }
        let cuts = match longest <= SHORT_BYTES {
            true => cuts_if_short,
            false => CUTS_IF_LONG,
        };
        let between = CUT_NEAR_ENDS_BYTES + 1..longest.saturating_sub(CUT_NEAR_ENDS_BYTES);
        let stride = (between.len() / cuts).max(1);
        between
            .step_by(stride)
            .for_each(|at| _ = replay(&path, Cut::At(at)));
    }
}
