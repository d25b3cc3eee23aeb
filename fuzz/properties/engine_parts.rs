//! What the engine's property is made of: arguments out of bytes, items as the model knows them,
//! and an observer.

use std::collections::HashSet;
use std::sync::Mutex;

use cellar_engine::{Change, Deadline, Happened, Item, Key, Kind, Observer, Space};

/// Different keys; the last ones are so long that they need the extended header.
const KEY_NUMBERS: u16 = 1_000;
const LONG_KEYS_FROM: u16 = 990;
/// Of so many keys one lies in another space; its first byte says so.
const SPACE_EVERY: u16 = 7;
pub(super) const ELSEWHERE: u8 = b'@';

/// The input as arguments; zeros when it is used up.
pub(super) struct Arguments<'a>(pub(super) std::slice::Iter<'a, u8>);

impl Arguments<'_> {
    pub(super) fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    pub(super) fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0.len() == 0
    }

    /// Mostly one of few keys, so that operations meet.
    pub(super) fn key(&mut self) -> Vec<u8> {
        let byte = self.byte();
        let number = match byte {
            0..200 => u16::from(byte % 50),
            _ => self.word() % KEY_NUMBERS,
        };
        let width = if number < LONG_KEYS_FROM { 4 } else { 400 };
        let prefix = if number % SPACE_EVERY == 0 { "@" } else { "" };
        format!("{prefix}{number:0width$}").into_bytes()
    }

    /// A value of up to half a MiB; most are small.
    pub(super) fn value(&mut self) -> Vec<u8> {
        let (class, fine, first) = (self.byte(), usize::from(self.byte()), self.byte());
        let bytes = match class {
            0..160 => fine,
            160..230 => fine * 20,
            230..250 => fine * 120,
            250..254 => fine * 700,
            _ => fine * 2_060,
        };
        (0..bytes)
            .map(|place| first.wrapping_add(place as u8))
            .collect()
    }

    /// From a millisecond to a year, or never.
    pub(super) fn ttl_ms(&mut self) -> Option<u64> {
        let (class, fine) = (self.byte(), u64::from(self.byte()));
        match class % 8 {
            0 => None,
            1 => Some(fine % 4),
            2 | 3 => Some(fine),
            4 | 5 => Some(fine * 100),
            6 => Some(fine * 60_000),
            _ => Some(fine * 120_000_000),
        }
    }
}

/// An item as the model knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) value: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) flags: u32,
    pub(super) deadline_ms: Option<u64>,
    pub(super) lease_until_ms: u64,
}

impl Entry {
    pub(super) fn is(&self, item: &Item<'_>) -> bool {
        let deadline_ms = item.deadline.instant().map(|at| at.0);
        let facts = (self.kind, self.flags, self.deadline_ms);
        self.value == item.value && facts == (item.kind, item.flags, deadline_ms)
    }
}

/// The keys that are there, as far as an observer can tell.
#[derive(Default)]
pub(super) struct Heard(pub(super) Mutex<HashSet<(Space, Vec<u8>)>>);

impl Observer for Heard {
    fn is_wanted(&self) -> bool {
        true
    }

    fn changed(&self, key: Key<'_>, happened: Happened, _item: Option<Item<'_>>) {
        let mut keys = self.0.lock().expect("no panic");
        let name = (key.space(), key.bytes().to_vec());
        match happened {
            Happened::Created | Happened::Stored => drop(keys.insert(name)),
            Happened::Retimed => (),
            _ => drop(keys.remove(&name)),
        }
    }

    fn flushed(&self, space: Option<Space>) {
        let is_in = |one: &(Space, Vec<u8>)| space.is_none_or(|space| space == one.0);
        self.0.lock().expect("no panic").retain(|one| !is_in(one));
    }
}

/// The number that a value is: digits, then only spaces.
pub(super) fn number_in(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_end();
    let is_number = digits.len() <= 20
        && digits.iter().all(u8::is_ascii_digit)
        && value[digits.len()..].iter().all(|&byte| byte == b' ');
    let text = std::str::from_utf8(digits).ok()?;
    is_number.then(|| text.parse().ok()).flatten()
}

/// What an update decides.
pub(super) fn change(how: u8, deadline: Deadline) -> Change {
    match how % 8 {
        0 => Change::Keep,
        1 => Change::Remove,
        2 => Change::Retime(deadline),
        _ => Change::Store {
            kind: Kind(how / 64),
            deadline,
            flags: 0,
        },
    }
}
