//! Patterns, beside a matcher that goes back to the last star after each byte that does not fit: it
//! is slow, and short enough to be seen to be right. Then patterns that are slow for such a one.

use std::time::Duration;

use cellar_protocol::resp::glob::Pattern;
use proptest::prelude::*;

/// What [`Pattern::matches`] has to say, for patterns within its limits.
fn expected(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last star: what has to match, and where it was tried last.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            again = Some((rest, text));
        } else if text.is_empty() {
            return pattern.is_empty();
        } else if let Some(rest) = step(pattern, text[0]) {
            (pattern, text) = (rest, &text[1..]);
        } else {
            let Some((behind, [_, tail @ ..])) = again else {
                return false;
            };
            (pattern, text) = (behind, tail);
            again = Some((behind, tail));
        }
    }
}

/// The pattern behind its first part, which is no star, if that matches `byte`.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', b'^', class @ ..] => one_of(class, byte, false),
        [b'[', class @ ..] => one_of(class, byte, true),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// What follows the brackets if `byte` is in them, or is not, as `wanted` says.
fn one_of(class: &[u8], byte: u8, wanted: bool) -> Option<&[u8]> {
    let (mut class, mut found) = (class, false);
    loop {
        class = match class {
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [] => break,
            [b']', rest @ ..] => {
                class = rest;
                break;
            }
            [from, b'-', to, rest @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
    (found == wanted).then_some(class)
}

fn check(pattern: &[u8], text: &[u8]) {
    let told = Pattern::new(pattern).matches(text);
    let (pattern_text, text_text) = (pattern.escape_ascii(), text.escape_ascii());
    assert_eq!(
        told,
        expected(pattern, text),
        "{pattern_text} and {text_text}"
    );
}

/// Bytes, most of them among those that mean something or are often the same.
fn bytes(likely: &'static [u8], most: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![20 => prop::sample::select(likely), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_pattern_matches_what_it_should(
        pattern in bytes(b"**??[]^-\\aaabbc", 14), text in bytes(b"aaabbc]-", 12),
    ) {
        check(&pattern, &text);
    }

    #[test]
    fn pieces_are_found_in_long_texts(
        pieces in prop::collection::vec(bytes(b"?[]aab", 5), 1..5),
        text in bytes(b"aab", 200),
    ) {
        check(&pieces.join(&b'*'), &text);
    }
}

#[test]
fn each_pattern_of_few_bytes_matches_what_it_should() {
    let alphabet = *b"*?[]^-\\ab";
    let texts: Vec<Vec<u8>> = all_of(b"ab]-", 4);
    for pattern in all_of(&alphabet, 5) {
        let compiled = Pattern::new(&pattern);
        for text in &texts {
            assert_eq!(
                compiled.matches(text),
                expected(&pattern, text),
                "{pattern:?} {text:?}"
            );
        }
    }
}

/// All texts of fewer than `lengths` of these bytes.
fn all_of(alphabet: &[u8], lengths: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut from = 0;
    for _ in 1..lengths {
        let to = all.len();
        for place in from..to {
            for &byte in alphabet {
                all.push([&all[place][..], &[byte]].concat());
            }
        }
        from = to;
    }
    all
}

/// Processor time of this thread, which a busy machine does not change.
fn processor_time() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let time_ns = line.split(' ').next().unwrap();
    Duration::from_nanos(time_ns.parse().unwrap())
}

/// Matching this pattern with one long key takes seconds if each place is tried byte by byte.
#[test]
fn no_pattern_takes_long_with_a_long_text() {
    const KEYS: u32 = 20;
    let text = vec![b'a'; 65_535];
    let half = vec![b'a'; 30_000];
    let patterns: Vec<Vec<u8>> = vec![
        [b"*", &half[..], b"b"].concat(),
        [b"*", &half[..], b"b*"].concat(),
        [b"*b", &half[..], b"*"].concat(),
        [b"*", &b"[ab]".repeat(125)[..], b"b*"].concat(),
        [b"*", &b"[ac]".repeat(100)[..], b"b*"].concat(),
        [b"*[ab]", &half[..], b"b*"].concat(),
        [b"*", &b"?".repeat(30_000)[..], b"b*"].concat(),
        b"*a".repeat(1_000),
        b"*[ab]?".repeat(1_000),
        [&b"[acegikmoqsuwy]".repeat(30_000)[..], b"*b"].concat(),
        [&b"*?a".repeat(999)[..], b"*b*"].concat(),
    ];
    for pattern in patterns {
        let pattern = Pattern::new(&pattern);
        let before = processor_time();
        for _ in 0..KEYS {
            std::hint::black_box(pattern.matches(&text));
        }
        let each = (processor_time() - before) / KEYS;
        assert!(each < Duration::from_millis(200), "{each:?}");
    }
}
