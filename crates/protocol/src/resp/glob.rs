//! Patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET.
//!
//! `*` is any bytes, `?` one byte, `[a-c]` one of these bytes, `[^a-c]` one of the others; a
//! backslash takes the next byte as it is, in brackets too. A bracket that is not closed ends with
//! the pattern.
//!
//! Only the last star is ever tried again, so the cost is at most the product of both lengths. As
//! in Redis, a pattern whose stars are too many matches nothing.

/// Most stars that are tried, those at the end and next to another not counted.
const STARS_MAX: usize = 1_000;

/// Whether the whole of `text` matches.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last star: what has to match, and where it was tried last.
    let mut again: Option<(&[u8], &[u8])> = None;
    let mut stars = 0;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if !matches!(rest, [] | [b'*', ..]) {
                stars += 1;
                if stars > STARS_MAX {
                    return false;
                }
            }
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

#[cfg(test)]
mod tests {
    use super::matches;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for text in matching {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        for text in others {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn a_star_is_any_bytes_and_a_question_mark_is_one() {
        check("*", &["", "a", "abc"], &[]);
        check("a*c", &["ac", "abc", "abcbc"], &["a", "abcd", "bac"]);
        check("a**", &["a", "ab"], &["", "b"]);
        check("a*b*c", &["abc", "axbxbxc"], &["acb", "ab"]);
        check("?", &["a"], &["", "ab"]);
        check("h?llo*", &["hello", "hallo world"], &["hllo"]);
        check("", &[""], &["a"]);
    }

    #[test]
    fn brackets_are_one_of_their_bytes_or_one_of_the_others() {
        check("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]);
        check("[a-c]", &["a", "b", "c"], &["d", "-", "["]);
        check("[c-a]", &["b"], &["d"]);
        check("[^a-c]x", &["dx", "^x"], &["ax", "x"]);
        check("[a-]", &["a"], &["-", "b"]);
        check("[]", &[], &["", "]", "[]"]);
        check("[^]", &["a", "]"], &[""]);
        check(r"[\]x]", &["]", "x"], &["\\"]);
        check(r"[a\-c]", &["a", "-", "c"], &["b"]);
        check("[abc", &["a", "c"], &["d", "[abc"]);
        check("[", &[], &["[", ""]);
    }

    #[test]
    fn a_backslash_takes_the_next_byte_as_it_is() {
        check(r"\*", &["*"], &["a", r"\*"]);
        check(r"\?\[", &["?["], &["ab"]);
        check("a\\", &["a\\"], &["a"]);
    }

    #[test]
    fn letters_are_compared_with_their_case() {
        check("Key", &["Key"], &["key", "KEY"]);
        check("[A-C]", &["B"], &["b"]);
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let pattern = "a*".repeat(500) + "b";
        let text = "a".repeat(5_000);
        check(&pattern, &[], &[&text]);
    }

    #[test]
    fn a_pattern_of_too_many_stars_matches_nothing() {
        let text = vec![b'a'; 2_000];
        assert!(matches(&b"*a".repeat(1_000), &text));
        assert!(!matches(&b"*a".repeat(1_001), &text));
        assert!(matches(&[b'*'; 5_000], &text));
    }
}
