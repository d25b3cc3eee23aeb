//! Packed: few members, one behind the other.
//!
//! | part | bytes |
//! |---|---|
//! | zero | 1 |
//! | members | 4 |
//! | entries | varint of twice the member's length, plus one if its payload is short; the rest |
//!
//! The rest of an entry is the member and its payload.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

use crate::bytes::{Varint, u32_at, varint};

/// Bytes before the entries.
const HEAD_BYTES: usize = 5;

/// The layout of a member's payload.
pub(crate) trait Shape {
    /// Bytes of the payload that begins here, which is marked as short or not.
    fn payload_bytes(bytes: &[u8], is_short: bool) -> usize;
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) at: usize,
    pub(crate) member: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Where it ends and the next one begins.
    pub(crate) end: usize,
}

/// Members of a shape.
#[derive(Debug)]
pub(crate) struct Packed<'v, S> {
    live: usize,
    entries: Cow<'v, [u8]>,
    shape: PhantomData<S>,
}

impl<'v, S: Shape> Packed<'v, S> {
    pub(crate) fn empty() -> Packed<'v, S> {
        Packed {
            live: 0,
            entries: Cow::Borrowed(&[]),
            shape: PhantomData,
        }
    }

    pub(crate) fn read(value: &'v [u8]) -> Packed<'v, S> {
        Packed {
            live: u32_at(value, 1) as usize,
            entries: Cow::Borrowed(&value[HEAD_BYTES..]),
            shape: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Bytes of the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The byte at an offset.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.entries[at]
    }

    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Entry<'_> {
        let bytes = &self.entries[..];
        let (head, start) = varint(bytes, at);
        let payload = start + head / 2;
        let end = payload + S::payload_bytes(&bytes[payload..], head % 2 == 1);
        Entry {
            at,
            member: &bytes[start..payload],
            payload: &bytes[payload..end],
            end,
        }
    }

    #[inline]
    pub(crate) fn find(&self, member: &[u8]) -> Option<Entry<'_>> {
        self.iter().find(|entry| entry.member == member)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.iter_from(0)
    }

    /// The entries from an offset on, which is zero or where an entry ends.
    pub(crate) fn iter_from(&self, at: usize) -> impl Iterator<Item = Entry<'_>> {
        let mut at = at;
        std::iter::from_fn(move || {
            (at < self.entries.len()).then(|| {
                let entry = self.entry(at);
                at = entry.end;
                entry
            })
        })
    }

    /// Replaces a range of the bytes by these parts, one after the other.
    fn exchange(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        let new_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if let Cow::Borrowed(stored) = self.entries {
            let mut own = Vec::with_capacity(stored.len() + new_bytes);
            own.extend_from_slice(&stored[..range.start]);
            parts.iter().for_each(|part| own.extend_from_slice(part));
            own.extend_from_slice(&stored[range.end..]);
            self.entries = Cow::Owned(own);
            return;
        }
        let own = self.entries.to_mut();
        let (old_len, end) = (own.len(), range.start + new_bytes);
        own.resize(old_len.max(old_len - range.len() + new_bytes), 0);
        own.copy_within(range.end..old_len, end);
        own.truncate(old_len - range.len() + new_bytes);
        let mut at = range.start;
        for part in parts {
            own[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    /// Inserts an entry before the one at an offset, or after the last. The payload is in parts,
    /// and may be short.
    pub(crate) fn insert(
        &mut self,
        at: usize,
        member: &[u8],
        (payload, is_short): (&[&[u8]; 3], bool),
    ) {
        let [one, two, three] = payload;
        let head = Varint::of(member.len() * 2 + usize::from(is_short));
        self.exchange(at..at, &[&head, member, one, two, three]);
        self.live += 1;
    }

    /// Adds an entry behind the last.
    pub(crate) fn push(&mut self, member: &[u8], payload: &[&[u8]; 3]) {
        self.insert(self.entries.len(), member, (payload, false));
    }

    /// Gives the entry at an offset another payload, which is short if the old one is.
    pub(crate) fn replace(&mut self, at: usize, payload: &[&[u8]; 3]) {
        let entry = self.entry(at);
        self.exchange(entry.end - entry.payload.len()..entry.end, payload);
    }

    /// Replaces the bytes of an entry's payload behind so many that it keeps, of which the first
    /// becomes another one.
    pub(crate) fn replace_end(
        &mut self,
        payload: Range<usize>,
        kept: usize,
        first: u8,
        end: &[u8],
    ) {
        self.exchange(payload.start + kept..payload.end, &[end]);
        self.entries.to_mut()[payload.start] = first;
    }

    /// Removes the entry at an offset.
    pub(crate) fn remove(&mut self, at: usize) {
        let end = self.entry(at).end;
        self.exchange(at..end, &[]);
        self.live -= 1;
    }

    /// Where the entry of a rank begins; the end if there is none.
    pub(crate) fn offset_of(&self, rank: usize) -> usize {
        let found = self.iter().nth(rank);
        found.map_or(self.entries.len(), |entry| entry.at)
    }

    /// Removes the entries of these ranks.
    pub(crate) fn remove_range(&mut self, ranks: Range<usize>) {
        let (start, end) = (self.offset_of(ranks.start), self.offset_of(ranks.end));
        self.exchange(start..end, &[]);
        self.live -= ranks.len();
    }

    /// Appends the bytes of all parts.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(HEAD_BYTES + self.entries.len());
        out.push(0);
        out.extend_from_slice(&(self.live as u32).to_le_bytes());
        out.extend_from_slice(&self.entries);
    }
}
