//! Requests from a line of text with names in braces that are replaced for each request.
//!
//! A data set is `copies` collections of `elements` each. The requests of a run visit all elements
//! in an order that looks random and repeats none before all were visited.

use std::io::Write;

use super::connection::Connection;
use cellar_load::{Error, mix};

/// Coprime to every number of elements that is a power of ten, and far from all of them.
const STRIDE: u64 = 618_033_989;
/// Scores are below this.
const SCORES: u64 = 1_000_000;
/// Digits of a number in a member or a value.
const DIGITS: usize = 9;
/// Requests whose lengths are looked at.
const SAMPLES: u64 = 1_000;

/// Collections of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Elements of each collection; bytes of a string.
    pub(crate) elements: u64,
    /// Bytes of a member or value.
    pub(crate) value_bytes: usize,
    /// Collections that are alike.
    pub(crate) copies: u64,
}

impl Shape {
    /// Elements of all its collections.
    pub(crate) fn all(&self) -> u64 {
        self.elements * self.copies
    }
}

/// What stands for a name in braces.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The collection.
    Copy,
    /// The position of an element, that position plus 9, the first bit of that byte.
    Element,
    Later,
    Bit,
    /// A member that is there, the one after it, one that is not there, and one for each position.
    Member,
    Next,
    Fresh,
    /// A value, another one for each request.
    Value,
    /// As many bytes as the collection has elements.
    Whole,
    /// The score that a member has, and any score.
    Score,
    Anywhere,
    /// The number of the request, and of the one that came so many before as there are elements.
    Now,
    Past,
    /// The place of a member on the earth.
    Longitude,
    Latitude,
}

const SLOTS: [(&str, Slot); 15] = [
    ("c", Slot::Copy),
    ("i", Slot::Element),
    ("j", Slot::Later),
    ("bit", Slot::Bit),
    ("m", Slot::Member),
    ("o", Slot::Next),
    ("x", Slot::Fresh),
    ("v", Slot::Value),
    ("whole", Slot::Whole),
    ("s", Slot::Score),
    ("r", Slot::Anywhere),
    ("now", Slot::Now),
    ("past", Slot::Past),
    ("lon", Slot::Longitude),
    ("lat", Slot::Latitude),
];

/// Texts and names of one word.
type Word = Vec<(String, Option<Slot>)>;

/// A line that was read.
#[derive(Clone, Debug)]
pub(crate) struct Request(Vec<Word>);

impl Request {
    /// Bytes of the arguments behind the key, of a request on average.
    pub(crate) fn own_bytes(&self, shape: &Shape) -> f64 {
        let request = Request(self.0.iter().skip(2).cloned().collect());
        let samples = shape.all().min(SAMPLES);
        // Spread over all elements: the first ones are those of the first element of each copy.
        let apart = shape.all() / samples.max(1);
        let bytes: usize = (0..samples)
            .map(|sample| request.texts(sample * apart, shape))
            .map(|texts| texts.map(|it| it.len()).sum::<usize>())
            .sum();
        bytes as f64 / samples as f64
    }

    /// The words of request number `at`.
    fn texts(&self, at: u64, shape: &Shape) -> impl Iterator<Item = Vec<u8>> {
        self.0.iter().map(move |word| {
            let mut text = Vec::new();
            for (before, slot) in word {
                text.extend_from_slice(before.as_bytes());
                if let Some(slot) = slot {
                    fill(&mut text, *slot, at, shape);
                }
            }
            text
        })
    }

    /// Sends this request for each element of all collections, one collection after the other.
    /// [`Error::Wrong`] if the server refuses one.
    pub(crate) fn fill(&self, shape: &Shape, connection: &mut Connection) -> Result<(), Error> {
        for copy in 0..shape.copies {
            for element in 0..shape.elements {
                let at = element * shape.copies + copy;
                connection.add(|out| self.push(out, at, shape))?;
            }
        }
        connection.flush()?;
        let refused = connection.refused();
        refused.map_or(Ok(()), |error| {
            Err(Error::Wrong(format!("filling: {error}")))
        })
    }

    /// Reads a line of words that are separated by spaces.
    pub(crate) fn parse(line: &str) -> Request {
        Request(line.split_whitespace().map(word).collect())
    }

    /// Appends request number `at` to a batch.
    pub(crate) fn push(&self, out: &mut Vec<u8>, at: u64, shape: &Shape) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "*{}\r\n", self.0.len());
        for text in self.texts(at, shape) {
            let _ = write!(out, "${}\r\n", text.len());
            out.extend_from_slice(&text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn word(text: &str) -> Word {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        let slot = SLOTS.iter().find(|(known, _)| *known == name);
        let slot = slot.unwrap_or_else(|| panic!("no such name in {text}"));
        parts.push((before.to_owned(), Some(slot.1)));
        rest = behind;
    }
    parts.push((rest.to_owned(), None));
    parts
}

fn fill(text: &mut Vec<u8>, slot: Slot, at: u64, shape: &Shape) {
    let elements = shape.elements;
    let element = (at / shape.copies).wrapping_mul(STRIDE) % elements;
    let padded = |text: &mut Vec<u8>, letter: char, number: u64| {
        let end = text.len() + shape.value_bytes;
        let _ = write!(text, "{letter}{number:0DIGITS$}");
        text.resize(end, b'x');
    };
    let number = match slot {
        Slot::Member => return padded(text, 'm', element),
        Slot::Next => return padded(text, 'm', (element + 1) % elements),
        Slot::Fresh => return padded(text, 'n', element),
        Slot::Value => return padded(text, 'v', at),
        Slot::Whole => {
            let bytes = usize::try_from(elements).unwrap_or(usize::MAX);
            let end = text.len() + bytes;
            return text.resize(end, b'a' + (at % 26) as u8);
        }
        Slot::Longitude => {
            let degrees = (mix(element) % 360_000) as f64 / 1_000.0 - 180.0;
            let _ = write!(text, "{degrees:.3}");
            return;
        }
        Slot::Latitude => {
            let degrees = (mix(element + SCORES) % 170_000) as f64 / 1_000.0 - 85.0;
            let _ = write!(text, "{degrees:.3}");
            return;
        }
        Slot::Copy => at % shape.copies,
        Slot::Element => element,
        Slot::Later => element + 9,
        Slot::Bit => element * 8 + 3,
        Slot::Score => mix(element) % SCORES,
        Slot::Anywhere => mix(at) % SCORES,
        Slot::Now => at,
        Slot::Past => at.saturating_sub(shape.all()),
    };
    let _ = write!(text, "{number}");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_replaced_and_every_element_is_visited_once() {
        let shape = Shape {
            elements: 1_000,
            value_bytes: 12,
            copies: 3,
        };
        let request = Request::parse("ZADD z:{c} {s} {m}");
        let mut seen = HashSet::new();
        for at in 0..shape.all() {
            let mut out = Vec::new();
            request.push(&mut out, at, &shape);
            seen.insert(out);
        }
        assert_eq!(seen.len(), 3_000);
        let mut out = Vec::new();
        request.push(&mut out, 1, &shape);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("*4\r\n$4\r\nZADD\r\n$3\r\nz:1\r\n$"),
            "{text}"
        );
        assert!(text.ends_with("\r\n$12\r\nm000000000xx\r\n"), "{text}");
    }

    #[test]
    fn bytes_of_an_element_are_those_of_all_elements_on_average() {
        let shape = Shape {
            elements: 20,
            value_bytes: 10,
            copies: 1_000,
        };
        let request = Request::parse("SADD s:{c} {s}");
        let lengths = (0..shape.all()).map(|at| request.texts(at, &shape).last());
        let bytes: usize = lengths.flatten().map(|text| text.len()).sum();
        let mean = bytes as f64 / shape.all() as f64;
        assert!((request.own_bytes(&shape) - mean).abs() < 0.2, "{mean}");
    }
}
