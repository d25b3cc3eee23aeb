//! Pattern: the maximum cost of a search by a Lua pattern, computed before it runs.
//!
//! Lua's matcher does not check the time limit, and it tries every way in which repetitions can
//! share a text. So a bound of its steps is computed from the pattern and the text's length, and a
//! search whose bound is too high is refused. A search for plain text is linear and needs none.
//!
//! Source: Lua 5.1 reference manual, 5.4.1, "Patterns".

/// Characters that make a pattern more than plain text.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// A piece of a pattern that takes bytes of the text.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Steps of one try.
    steps: u64,
    /// How many ways there are to continue from one try.
    ways: u64,
}

/// Whether a pattern has no special characters.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| SPECIAL.contains(byte))
}

/// The first occurrence of `wanted` in `text`, from `init` on: a position from 1, or from the end
/// if it is negative.
pub(super) fn find_plain(text: &[u8], wanted: &[u8], init: i64) -> Option<(usize, usize)> {
    let skipped = match usize::try_from(init) {
        Ok(position) => position.saturating_sub(1).min(text.len()),
        Err(_) => text
            .len()
            .saturating_sub(usize::try_from(init.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let start = skipped + memchr::memmem::find(&text[skipped..], wanted)?;
    Some((start + 1, start + wanted.len()))
}

/// Upper bound of the steps of a search for `pattern`, or for all its matches, in a text of this
/// many bytes. Cost: one pass over the pattern.
pub(super) fn steps_max(pattern: &[u8], text_bytes: usize) -> u64 {
    match pattern.strip_prefix(b"^") {
        Some(rest) => steps_from(rest, 1, text_bytes),
        None => steps_anywhere(pattern, text_bytes),
    }
}

/// As [`steps_max`], for `gmatch`, which knows no anchor.
pub(super) fn steps_anywhere(pattern: &[u8], text_bytes: usize) -> u64 {
    steps_from(pattern, text_bytes as u64 + 1, text_bytes)
}

/// The bound for a search that begins at `places` positions.
fn steps_from(pattern: &[u8], places: u64, text_bytes: usize) -> u64 {
    let length = text_bytes as u64 + 1;
    let (mut rest, mut branches) = (pattern, places);
    let mut steps = branches;
    while let Some((item, behind)) = first_item(rest, length) {
        rest = behind;
        if rest.is_empty() {
            // Whatever it takes, the search has found something: that happens once to each byte.
            let once = item.steps.saturating_mul(item.ways);
            let tries = branches.saturating_mul(item.steps);
            return steps.saturating_add(once).saturating_add(tries);
        }
        branches = branches.saturating_mul(item.ways);
        steps = steps.saturating_add(branches.saturating_mul(item.steps));
    }
    steps
}

/// The pattern's first item and the rest.
fn first_item(pattern: &[u8], length: u64) -> Option<(Item, &[u8])> {
    let once = |steps| Item { steps, ways: 1 };
    match pattern {
        [] => None,
        [b'(' | b')', rest @ ..] => Some((once(1), rest)),
        [b'%', b'b', _, _, rest @ ..] => Some((once(length), rest)),
        [b'%', b'f', rest @ ..] => {
            let set = class_bytes(rest);
            Some((once(set as u64), &rest[set..]))
        }
        [b'%', digit, rest @ ..] if digit.is_ascii_digit() => Some((once(length), rest)),
        _ => {
            let class = class_bytes(pattern);
            let (ways, used) = match pattern.get(class) {
                Some(b'*' | b'+' | b'-') => (length, class + 1),
                Some(b'?') => (2, class + 1),
                _ => (1, class),
            };
            let steps = class as u64;
            Some((Item { steps, ways }, &pattern[used..]))
        }
    }
}

/// The length of the single character, escape or set at the beginning.
fn class_bytes(pattern: &[u8]) -> usize {
    match pattern {
        [] => 0,
        [b'%', _, ..] => 2,
        [b'[', inside @ ..] => 1 + set_bytes(inside),
        _ => 1,
    }
}

/// The length of a set behind its opening bracket; all there is if it has no end.
fn set_bytes(inside: &[u8]) -> usize {
    let mut at = usize::from(inside.first() == Some(&b'^'));
    // A bracket that comes first is a member.
    let first = at;
    while let Some(&byte) = inside.get(at) {
        match byte {
            b']' if at > first => return at + 1,
            b'%' => at += 2,
            _ => at += 1,
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_at_the_first_try_is_linear() {
        for pattern in [
            "abc", "[^,]+", "%d*", "^%a+", "key:.*", "%%", "a?", "[]]+", "[%]]",
        ] {
            let steps = steps_max(pattern.as_bytes(), 1_000_000);
            assert!(steps <= 20_000_000, "{pattern}: {steps}");
        }
    }

    #[test]
    fn repetitions_that_share_a_text_multiply() {
        assert!(steps_max(b"a*b", 1_000) >= 1_000_000);
        assert!(steps_max(b"^a*b", 1_000) < 10_000);
        assert!(steps_anywhere(b"^[%^a]*b", 1_000) >= 1_000_000);
        assert!(steps_max(b"^%s*(.-)%s*$", 1_000) >= 1_000_000_000);
        assert!(steps_max("a?".repeat(40).as_bytes(), 40) >= 1 << 40);
        assert!(steps_max("x*".repeat(1_000).as_bytes(), 1_000) == u64::MAX);
        assert!(steps_max(b"(%1)%1x", 1_000) >= 1_000_000);
        assert!(steps_max(b"%bxyz", 1_000) >= 1_000_000);
        assert!(steps_max(b"%f[%w]%w+x", 1_000) >= 1_000_000);
    }

    #[test]
    fn broken_patterns_have_a_bound_too() {
        for pattern in [
            "%", "[", "[^", "[%", "%b", "%bx", "%f", "%f[", "(", "[]", "*", "^",
        ] {
            assert!(steps_max(pattern.as_bytes(), 10) < 10_000, "{pattern}");
        }
    }

    #[test]
    fn plain_text_is_found_from_where_the_search_begins() {
        assert!(is_plain(b"a:b") && !is_plain(b"a.b"));
        for (init, found) in [
            (1, Some((2, 2))),
            (0, Some((2, 2))),
            (2, Some((2, 2))),
            (3, Some((4, 4))),
            (5, None),
            (99, None),
            (-1, Some((4, 4))),
            (-99, Some((2, 2))),
            (i64::MIN, Some((2, 2))),
        ] {
            assert_eq!(find_plain(b"abab", b"b", init), found, "{init}");
        }
        assert_eq!(find_plain(b"ab", b"", 99), Some((3, 2)));
        assert_eq!(find_plain(b"ab", b"", 1), Some((1, 0)));
    }
}
