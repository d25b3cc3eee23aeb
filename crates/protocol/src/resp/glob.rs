//! Patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET.
//!
//! `*` is any bytes, `?` one byte, `[a-c]` one of these bytes, `[^a-c]` one of the others; a
//! backslash makes the next byte literal, in brackets too. A bracket that is not closed ends with
//! the pattern.
//!
//! The stars split a pattern into pieces of fixed lengths. Each is searched once, from the end of
//! the one before; the first and the last have fixed positions. A piece of plain bytes is found in
//! linear time. Any other is tried at a block of positions at once, byte by byte as long as a
//! position is left, so its cost grows with its length, which [`SPANS_MAX`] bounds.
//!
//! As in Redis, a pattern with too many stars matches nothing; nor does one with too long a piece
//! of brackets and question marks between two stars. Tests: tests/glob.rs.

use std::ops::{Range, RangeInclusive};

use memchr::memmem;

/// Most stars in a pattern, those at the end and next to another not counted.
const STARS_MAX: usize = 1_000;
/// Most spans of bytes in a piece between two stars that is not of plain bytes alone: one for each
/// byte of it, none for a question mark, one for each range or byte in brackets.
const SPANS_MAX: usize = 128;
/// Places that are tried at once.
const BLOCK: usize = 64;

/// A pattern, taken apart once for any number of texts.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    /// At least one; a star between each two of them.
    pieces: Vec<Piece>,
    /// The plain bytes of all pieces.
    plain: Vec<u8>,
    tests: Vec<Test>,
    spans: Vec<RangeInclusive<u8>>,
    /// Bytes of all pieces together.
    length: usize,
    /// It is beyond a limit and matches nothing.
    is_too_much: bool,
}

/// A part of a pattern between two stars.
#[derive(Clone, Debug)]
struct Piece {
    /// Bytes of a text that it takes.
    length: usize,
    parts: Parts,
}

#[derive(Clone, Debug)]
enum Parts {
    /// Its bytes in [`Pattern::plain`].
    Plain(Range<usize>),
    /// Its tests in [`Pattern::tests`].
    Tests(Range<usize>),
}

/// The bytes that are allowed at one position of a piece; small, because patterns of subscribers
/// stay in memory.
#[derive(Clone, Debug)]
struct Test {
    at: u32,
    /// In [`Pattern::spans`], in order and apart from each other.
    spans: Range<u32>,
}

impl Test {
    fn at(&self) -> usize {
        self.at as usize
    }

    fn spans(&self) -> Range<usize> {
        self.spans.start as usize..self.spans.end as usize
    }
}

impl Pattern {
    /// Parses a pattern; any bytes are a valid one.
    ///
    /// The result takes at most some 20 times the memory of the pattern.
    ///
    /// # Panics
    /// If it is longer than 4 GiB.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Pattern {
        let mut it = Pattern::default();
        let mut rest = pattern;
        loop {
            it.piece(&mut rest);
            match rest {
                [] => break,
                [_star, behind @ ..] => rest = behind,
            }
            while let [b'*', behind @ ..] = rest {
                rest = behind;
            }
        }
        it.length = it.pieces.iter().map(|piece| piece.length).sum();
        if it.is_beyond_limits() {
            it = Pattern {
                is_too_much: true,
                ..Pattern::default()
            };
        }
        it.pieces.shrink_to_fit();
        it.plain.shrink_to_fit();
        it.tests.shrink_to_fit();
        it.spans.shrink_to_fit();
        it
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Pattern>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.plain.capacity()
            + self.tests.capacity() * size_of::<Test>()
            + self.spans.capacity() * size_of::<RangeInclusive<u8>>()
    }

    /// Upper bound of the comparisons with a text of this length: of one byte for a piece at a
    /// fixed position, of a block of bytes for a piece that is searched.
    #[must_use]
    pub fn comparisons(&self, text_bytes: usize) -> usize {
        if self.is_too_much || text_bytes < self.length {
            return 0;
        }
        let spans = |piece: &Piece| match &piece.parts {
            Parts::Plain(_) => 1,
            Parts::Tests(tests) => {
                let (first, last) = (tests.start, tests.end);
                let spans = |at: usize| {
                    self.tests
                        .get(at)
                        .map_or(self.spans.len(), |test| test.spans().start)
                };
                1 + spans(last) - spans(first)
            }
        };
        let ends = self.pieces.first().into_iter().chain(self.pieces.last());
        let placed: usize = ends.map(spans).sum();
        let between = self
            .pieces
            .get(1..self.pieces.len() - 1)
            .unwrap_or_default();
        let widest = between.iter().map(spans).max().unwrap_or(0);
        placed + widest * (text_bytes / BLOCK + between.len())
    }

    /// The bytes with which every text begins that a pattern matches: those before its first star,
    /// question mark or bracket.
    #[must_use]
    pub fn beginning(pattern: &[u8]) -> Vec<u8> {
        let (mut bytes, mut rest) = (Vec::new(), pattern);
        while !matches!(rest, [] | [b'*' | b'?' | b'[', ..])
            && let Unit::Byte(byte) = take_unit(&mut rest)
        {
            bytes.push(byte);
        }
        bytes
    }

    /// Whether the whole of `text` matches.
    ///
    /// Cost: one pass over the text, and for each of its bytes at most the comparisons that a block
    /// needs for `SPANS_MAX` spans.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        if self.is_too_much || text.len() < self.length {
            return false;
        }
        if self.length == 0 && self.pieces.len() > 1 {
            // Nothing but stars.
            return true;
        }
        let [first, others @ ..] = self.pieces.as_slice() else {
            return false;
        };
        let (start, mut text) = text.split_at(first.length);
        if !self.fits(first, start) {
            return false;
        }
        let Some((last, between)) = others.split_last() else {
            return text.is_empty();
        };
        let end;
        (text, end) = text.split_at(text.len() - last.length);
        if !self.fits(last, end) {
            return false;
        }
        for piece in between {
            let Some(place) = self.find(piece, text) else {
                return false;
            };
            text = &text[place + piece.length..];
        }
        true
    }

    /// Appends the piece that begins here; a star or nothing is left.
    fn piece(&mut self, rest: &mut &[u8]) {
        let (plain, tests) = (self.plain.len(), self.tests.len());
        let mut length = 0;
        let mut is_plain = true;
        while !matches!(rest, [] | [b'*', ..]) {
            match take_unit(rest) {
                Unit::Any => is_plain = false,
                Unit::Byte(byte) => {
                    if is_plain {
                        self.plain.push(byte);
                    } else {
                        self.test(length, std::iter::once(byte..=byte));
                    }
                }
                Unit::Class(class) => {
                    is_plain = false;
                    self.test(length, class.spans());
                }
            }
            // The bytes before the first other unit turn out to be tests as well.
            if !is_plain && self.plain.len() > plain {
                self.turn_into_tests(plain, tests);
            }
            length += 1;
        }
        let parts = if is_plain {
            Parts::Plain(plain..self.plain.len())
        } else {
            Parts::Tests(tests..self.tests.len())
        };
        self.pieces.push(Piece { length, parts });
    }

    fn test(&mut self, at: usize, spans: impl Iterator<Item = RangeInclusive<u8>>) {
        let short = |number| u32::try_from(number).expect("a pattern is shorter than 4 GiB");
        let start = self.spans.len();
        self.spans.extend(spans);
        self.tests.push(Test {
            at: short(at),
            spans: short(start)..short(self.spans.len()),
        });
    }

    /// Makes tests of the plain bytes from `plain` on; there may be a test of the unit behind them,
    /// from `tests` on.
    fn turn_into_tests(&mut self, plain: usize, tests: usize) {
        let behind = self.tests.split_off(tests);
        for at in 0..self.plain.len() - plain {
            let byte = self.plain[plain + at];
            self.test(at, std::iter::once(byte..=byte));
        }
        self.plain.truncate(plain);
        self.tests.extend(behind);
    }

    fn is_beyond_limits(&self) -> bool {
        let Some((last, between)) = self.pieces[1..].split_last() else {
            return false;
        };
        let stars = between.len() + usize::from(last.length > 0);
        let spans = |piece: &Piece| match &piece.parts {
            Parts::Plain(_) => 0,
            Parts::Tests(tests) => {
                let tests = self.tests[tests.clone()].iter();
                tests.map(|test| test.spans().len().max(1)).sum()
            }
        };
        stars > STARS_MAX || between.iter().any(|piece| spans(piece) > SPANS_MAX)
    }

    /// Whether the beginning of a text matches a piece, in the piece's length.
    fn fits(&self, piece: &Piece, text: &[u8]) -> bool {
        match &piece.parts {
            Parts::Plain(bytes) => self.plain[bytes.clone()] == *text,
            Parts::Tests(tests) => self.tests[tests.clone()].iter().all(|test| {
                let spans = &self.spans[test.spans()];
                let byte = text[test.at()];
                let next = spans.partition_point(|span| *span.end() < byte);
                spans.get(next).is_some_and(|span| span.contains(&byte))
            }),
        }
    }

    /// The first place where a piece is found.
    fn find(&self, piece: &Piece, text: &[u8]) -> Option<usize> {
        let tests = match &piece.parts {
            Parts::Plain(bytes) => return memmem::find(text, &self.plain[bytes.clone()]),
            Parts::Tests(tests) => &self.tests[tests.clone()],
        };
        let places = (text.len() + 1).checked_sub(piece.length)?;
        (0..places).step_by(BLOCK).find_map(|start| {
            let count = BLOCK.min(places - start);
            let mut left = [0; BLOCK];
            left[..count].fill(1);
            for test in tests {
                self.try_at(test, &text[start + test.at()..], &mut left);
                if left.iter().fold(0, |all, one| all | one) == 0 {
                    return None;
                }
            }
            left.iter().position(|&one| one != 0).map(|at| start + at)
        })
    }

    /// Keeps those positions of a block, which begins with `text`, that pass a test.
    ///
    /// The loops have a fixed length and no branch, so that one instruction tries many positions.
    fn try_at(&self, test: &Test, text: &[u8], left: &mut [u8; BLOCK]) {
        let mut bytes = [0; BLOCK];
        match text.first_chunk() {
            Some(whole) => bytes = *whole,
            None => bytes[..text.len()].copy_from_slice(text),
        }
        let mut passed = [0; BLOCK];
        for span in &self.spans[test.spans()] {
            let (low, width) = (*span.start(), span.end() - span.start());
            for (passed, byte) in passed.iter_mut().zip(&bytes) {
                *passed |= u8::from(byte.wrapping_sub(low) <= width);
            }
        }
        for (left, passed) in left.iter_mut().zip(&passed) {
            *left &= passed;
        }
    }
}

/// The part of a pattern that matches one byte.
enum Unit {
    Any,
    Byte(u8),
    Class(Box<Class>),
}

/// Takes the unit that begins a pattern, which is not empty and begins with no star.
fn take_unit(rest: &mut &[u8]) -> Unit {
    let unit;
    (unit, *rest) = match *rest {
        [b'?', rest @ ..] => (Unit::Any, rest),
        [b'[', b'^', class @ ..] => {
            let (class, rest) = Class::of(class);
            (Unit::Class(Box::new(class.inverted())), rest)
        }
        [b'[', class @ ..] => {
            let (class, rest) = Class::of(class);
            (Unit::Class(Box::new(class)), rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (Unit::Byte(*literal), rest),
        [] => unreachable!("it is not empty"),
    };
    unit
}

/// Some of all bytes.
struct Class([bool; 256]);

impl Class {
    /// The bytes of an open bracket, and the rest of the pattern.
    fn of(class: &[u8]) -> (Class, &[u8]) {
        let mut bytes = [false; 256];
        let mut class = class;
        loop {
            let (from, to);
            (from, to, class) = match class {
                [b'\\', literal, rest @ ..] => (*literal, *literal, rest),
                [] => return (Class(bytes), class),
                [b']', rest @ ..] => return (Class(bytes), rest),
                [from, b'-', to, rest @ ..] => (*from.min(to), *from.max(to), rest),
                [literal, rest @ ..] => (*literal, *literal, rest),
            };
            bytes[usize::from(from)..=usize::from(to)].fill(true);
        }
    }

    fn inverted(self) -> Class {
        Class(self.0.map(|is_in| !is_in))
    }

    /// The bytes as few spans.
    fn spans(&self) -> impl Iterator<Item = RangeInclusive<u8>> {
        let all = (0..=u8::MAX).filter(|&byte| self.0[usize::from(byte)]);
        let begins = |byte: &u8| *byte == 0 || !self.0[usize::from(*byte) - 1];
        all.filter(begins).map(|first| {
            let rest = first..=u8::MAX;
            let last = rest.take_while(|&byte| self.0[usize::from(byte)]).last();
            first..=last.unwrap_or(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Pattern, SPANS_MAX};

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Pattern::new(pattern).matches(text)
    }

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
    fn what_a_pattern_takes_and_costs_grows_with_its_tests() {
        let (plain, tests) = (
            Pattern::new(&[b'a'; 1_000]),
            Pattern::new(&[b'?', b'a'].repeat(500)),
        );
        assert!(plain.bytes() >= 1_000 && plain.bytes() < 2_000);
        assert!(tests.bytes() > 500 * 12, "{}", tests.bytes());
        assert!(plain.comparisons(1 << 20) < 10);
        let searched = Pattern::new(&[&b"*?"[..], &[b'a'; 100], b"*"].concat());
        assert!(searched.comparisons(1 << 20) >= 100 * (1 << 20) / BLOCK);
        assert_eq!(searched.comparisons(100), 0, "it does not fit");
    }

    #[test]
    fn a_pattern_begins_with_the_bytes_before_its_first_special_one() {
        let cases = [
            ("", ""),
            ("*a", ""),
            ("ab?c", "ab"),
            ("a[b]", "a"),
            (r"a\*b*", "a*b"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Pattern::beginning(pattern.as_bytes()), expected.as_bytes());
        }
        assert_eq!(Pattern::beginning(b"a\\"), b"a\\");
    }

    #[test]
    fn letters_are_compared_with_their_case() {
        check("Key", &["Key"], &["key", "KEY"]);
        check("[A-C]", &["B"], &["b"]);
    }

    #[test]
    fn pieces_are_found_one_behind_the_other() {
        check("*ab*ba*", &["abba", "xabxbax"], &["aba", "baab"]);
        check("*a?*?b*", &["axxb", "a__b_"], &["axb"]);
        check("*[ab]x?*", &["cbxd", "axaxa"], &["ax", "cxd"]);
        check("ab*ba", &["abba", "abcba"], &["aba"]);
        check("?*??", &["abc", "abcd"], &["ab"]);
        let far = "x".repeat(200) + "a7";
        check("*[a][0-9]*", &[&far], &[&far[..201], &far[..199]]);
        check("*[a]?", &[&far], &[&far[..201]]);
    }

    #[test]
    fn a_pattern_of_too_many_stars_matches_nothing() {
        let text = vec![b'a'; 2_000];
        assert!(matches(&b"*a".repeat(1_000), &text));
        assert!(!matches(&b"*a".repeat(1_001), &text));
        assert!(matches(&[b'*'; 5_000], &text));
    }

    #[test]
    fn a_piece_of_too_many_brackets_between_stars_matches_nothing() {
        let most = b"[ab]".repeat(SPANS_MAX);
        let text = vec![b'a'; 2_000];
        assert!(matches(&[b"*", &most[..], b"*"].concat(), &text));
        assert!(!matches(&[b"*", &most[..], b"a*"].concat(), &text));
        // Pieces that have their places are not looked for, and plain ones are found at once.
        assert!(matches(&[&most[..], b"a*"].concat(), &text));
        assert!(matches(&[b"*", &most[..], b"a"].concat(), &text));
        assert!(matches(&[b"*", &text[..], b"*"].concat(), &text));
        let many = b"?".repeat(2_000);
        assert!(matches(&[b"*", &many[..], b"*"].concat(), &text));
    }
}
