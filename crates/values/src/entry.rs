//! Entry: the content of a leaf: texts, and bytes of fixed length before and behind them.
//!
//! ```text
//! entry  [lead, 8 in a tree of keys][text][second text, of a hash][tail, 8 if there is one]
//! text   [varint: 4 x bytes + 2 if a tail follows + 1 if long][bytes, or the first page 4]
//! ```
//!
//! A long text lies in pages of its own, one after the other.

use smallvec::SmallVec;

use crate::bytes::{Varint, u32_at, u64_at, varint};

/// Most bytes of texts that lie in a leaf for one entry: two entries fit into a page, and a page
/// that is too full by one entry into two.
pub(crate) const INLINE_BYTES_MAX: usize = 2000;
/// Entries up to this length are made without an allocation.
pub(crate) const SHORT_BYTES: usize = 256;
/// Bytes of the page number that refers to a long text.
const PAGE_NUMBER_BYTES: usize = 4;

/// The layout of the entries of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Bytes before the first text.
    pub(crate) lead: usize,
    /// How many texts: one or two.
    pub(crate) texts: usize,
    /// Bytes of a slot: four where it has a part of the entry's hash.
    pub(crate) slot: usize,
}

impl Form {
    /// Members by hash, with a tail or not.
    pub const MEMBERS: Form = Form {
        lead: 0,
        texts: 1,
        slot: 4,
    };
    /// Fields and values by hash.
    pub const FIELDS: Form = Form {
        texts: 2,
        ..Form::MEMBERS
    };
    /// Members by a key of eight bytes, then by their bytes.
    pub const KEYED: Form = Form {
        lead: 8,
        texts: 1,
        slot: 2,
    };
    /// Elements by position.
    pub const ELEMENTS: Form = Form {
        lead: 0,
        texts: 1,
        slot: 2,
    };

    /// Bytes of the entry that begins here.
    #[inline]
    pub(crate) fn entry_bytes(self, bytes: &[u8]) -> usize {
        let mut at = self.lead;
        let mut has_tail = false;
        for _ in 0..self.texts {
            let head = TextHead::read(bytes, at);
            at = head.end();
            has_tail = head.has_tail;
        }
        at + if has_tail { 8 } else { 0 }
    }
}

/// How a text begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextHead {
    pub(crate) len: usize,
    pub(crate) is_long: bool,
    pub(crate) has_tail: bool,
    /// Where its bytes or its page number begin.
    pub(crate) at: usize,
}

impl TextHead {
    #[inline]
    pub(crate) fn read(bytes: &[u8], at: usize) -> TextHead {
        let (head, at) = varint(bytes, at);
        TextHead {
            len: head >> 2,
            has_tail: head & 2 != 0,
            is_long: head & 1 != 0,
            at,
        }
    }

    /// Where the text ends in the entry.
    #[inline]
    pub(crate) fn end(self) -> usize {
        self.at
            + if self.is_long {
                PAGE_NUMBER_BYTES
            } else {
                self.len
            }
    }
}

/// A text in an entry.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub(crate) len: usize,
    /// Its first page, if it is long.
    pub(crate) page: Option<u32>,
    /// Its bytes, if it is not.
    pub(crate) inline: &'a [u8],
}

impl<'a> Text<'a> {
    /// The text with this head in the bytes of an entry.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8], head: TextHead) -> Text<'a> {
        let bytes = &bytes[head.at..head.end()];
        Text {
            len: head.len,
            page: head.is_long.then(|| u32_at(bytes, 0)),
            inline: if head.is_long { &[] } else { bytes },
        }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its bytes, and those behind it in its page.
    pub(crate) rest: &'a [u8],
    pub(crate) form: Form,
}

impl<'a> Entry<'a> {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.rest[..self.form.entry_bytes(self.rest)]
    }

    /// The bytes before the texts.
    #[must_use]
    pub fn lead(&self) -> &'a [u8] {
        &self.rest[..self.form.lead]
    }

    /// The first text: member, field or element.
    #[inline]
    #[must_use]
    pub fn text(&self) -> Text<'a> {
        Text::read(self.rest, TextHead::read(self.rest, self.form.lead))
    }

    /// The second text: a field's value.
    #[must_use]
    pub fn second(&self) -> Text<'a> {
        let first = TextHead::read(self.rest, self.form.lead);
        Text::read(self.rest, TextHead::read(self.rest, first.end()))
    }

    /// Both texts, the second of which may be missing, and the number behind them.
    #[inline]
    pub(crate) fn parts(&self) -> (Text<'a>, Option<Text<'a>>, Option<u64>) {
        let head = TextHead::read(self.rest, self.form.lead);
        let first = Text::read(self.rest, head);
        let (second, last) = match self.form.texts {
            2 => {
                let head = TextHead::read(self.rest, head.end());
                (Some(Text::read(self.rest, head)), head)
            }
            _ => (None, head),
        };
        let tail = last.has_tail.then(|| u64_at(self.rest, last.end()));
        (first, second, tail)
    }

    /// The bytes of the first text, which is not long.
    ///
    /// # Panics
    /// If it is.
    #[must_use]
    pub fn text_bytes(&self) -> &'a [u8] {
        let text = self.text();
        assert!(text.page.is_none(), "a short text was expected");
        text.inline
    }

    /// The number behind the texts, if there is one: a score's bits or a deadline.
    #[must_use]
    pub fn tail(&self) -> Option<u64> {
        let mut at = self.form.lead;
        let mut has_tail = false;
        for _ in 0..self.form.texts {
            let head = TextHead::read(self.rest, at);
            (at, has_tail) = (head.end(), head.has_tail);
        }
        has_tail.then(|| u64_at(self.rest, at))
    }

    /// Its bytes with another number behind the texts, or none.
    pub(crate) fn with_tail(&self, tail: Option<u64>) -> SmallVec<[u8; SHORT_BYTES]> {
        let (mut at, mut last) = (self.form.lead, self.form.lead);
        for _ in 0..self.form.texts {
            last = at;
            at = TextHead::read(self.rest, at).end();
        }
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&self.rest[..at]);
        // The first byte of a length has its lowest bits.
        bytes[last] = bytes[last] & !2 | u8::from(tail.is_some()) << 1;
        if let Some(tail) = tail {
            bytes.extend_from_slice(&tail.to_le_bytes());
        }
        bytes
    }

    /// The offsets of the page numbers of its long texts, and these numbers.
    pub(crate) fn long_texts(&self) -> impl Iterator<Item = (usize, u32)> + use<'a> {
        let (bytes, form) = (self.rest, self.form);
        let (mut at, mut left) = (form.lead, form.texts);
        std::iter::from_fn(move || {
            while left > 0 {
                left -= 1;
                let head = TextHead::read(bytes, at);
                at = head.end();
                if head.is_long {
                    return Some((head.at, u32_at(bytes, head.at)));
                }
            }
            None
        })
    }
}

/// An entry that is being made. Long texts have the page number zero until they have pages.
#[derive(Debug)]
pub(crate) struct NewEntry {
    pub(crate) bytes: SmallVec<[u8; SHORT_BYTES]>,
    /// The offsets of the page numbers of long texts: of the first text and of the second.
    pub(crate) long: [Option<usize>; 2],
}

impl NewEntry {
    /// The entry of a form with these texts, of which the second may be missing.
    pub(crate) fn make(form: Form, lead: &[u8], texts: [&[u8]; 2], tail: Option<u64>) -> NewEntry {
        let len = entry_bytes(form, texts, tail.is_some());
        if len > SHORT_BYTES {
            let mut bytes = vec![0; len];
            let long = fill(&mut bytes, form, lead, texts, tail);
            let bytes = SmallVec::from_vec(bytes);
            return NewEntry { bytes, long };
        }
        let mut bytes = [0; SHORT_BYTES];
        let long = fill(&mut bytes[..len], form, lead, texts, tail);
        let bytes = SmallVec::from_buf_and_len(bytes, len);
        NewEntry { bytes, long }
    }
}

/// Writes an entry. Returns the offsets of the page numbers of its long texts.
pub(crate) fn fill(
    bytes: &mut [u8],
    form: Form,
    lead: &[u8],
    texts: [&[u8]; 2],
    tail: Option<u64>,
) -> [Option<usize>; 2] {
    let (is_long, mut long) = (long_of(texts), [None; 2]);
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
        at
    };
    put(lead);
    for (number, text) in texts.iter().enumerate().take(form.texts) {
        let is_last = number + 1 == form.texts;
        let has_tail = usize::from(is_last && tail.is_some());
        let head = text.len() << 2 | has_tail << 1 | usize::from(is_long[number]);
        let begin = put(&Varint::of(head));
        if is_long[number] {
            long[number] = Some(begin);
            put(&[0; PAGE_NUMBER_BYTES]);
        } else {
            put(text);
        }
    }
    if let Some(tail) = tail {
        put(&tail.to_le_bytes());
    }
    long
}

/// Bytes of an entry of a form with these texts.
pub(crate) fn entry_bytes(form: Form, texts: [&[u8]; 2], has_tail: bool) -> usize {
    let is_long = long_of(texts);
    let text_bytes = |number: usize| {
        let len = texts[number].len();
        let bits = usize::BITS - (len << 2 | 1).leading_zeros();
        let own = if is_long[number] {
            PAGE_NUMBER_BYTES
        } else {
            len
        };
        bits.div_ceil(7) as usize + own
    };
    let texts: usize = (0..form.texts).map(text_bytes).sum();
    form.lead + texts + if has_tail { 8 } else { 0 }
}

/// Which of the texts of an entry are long: the longer one if both together are.
pub(crate) fn long_of(texts: [&[u8]; 2]) -> [bool; 2] {
    let (first, second) = (texts[0].len(), texts[1].len());
    let is_first_longer = first > second;
    let rest = first.min(second);
    if first + second <= INLINE_BYTES_MAX {
        [false; 2]
    } else if rest <= INLINE_BYTES_MAX {
        [is_first_longer, !is_first_longer]
    } else {
        [true; 2]
    }
}
