//! Set: members without anything else. Its bytes are those of [`Members`].

use cellar_engine::{Deadline, Instant, Kind};

use super::Collection;
use super::members::{Members, Shape, offset};
use super::spare;

/// Nothing belongs to a member.
#[derive(Debug)]
pub struct Bare;

impl Shape for Bare {
    fn payload_bytes(_bytes: &[u8]) -> usize {
        0
    }
}

/// A set.
#[derive(Debug)]
pub struct Set<B = Vec<u8>> {
    own: Deadline,
    is_changed: bool,
    members: Members<Bare, B>,
}

impl<'a> Set<&'a [u8]> {
    /// The set in the bytes of a value.
    pub fn view(value: &'a [u8]) -> Set<&'a [u8]> {
        Set {
            own: Deadline::NEVER,
            is_changed: false,
            members: Members::read(value, |part| part),
        }
    }
}

impl<B: AsRef<[u8]>> Set<B> {
    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none; of a value that is never so.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether it has a member.
    #[inline]
    pub fn has(&self, member: &[u8]) -> bool {
        self.members.find(member).is_some()
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(|entry| entry.member)
    }

    /// The members from a place on, each with the place behind it; the first place is zero.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = (&[u8], usize)> {
        let entries = self.members.iter_from(at);
        entries.map(|entry| (entry.member, entry.end))
    }

    /// As [`Members::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8])) -> u64 {
        self.members.scan(cursor, count, |entry| show(entry.member))
    }

    /// Some member, each as likely as the others.
    pub fn random(&self) -> Option<&[u8]> {
        (!self.members.is_empty()).then(|| self.members.random().member)
    }

    /// As [`Members::longest_probe`].
    pub fn longest_probe(&self) -> usize {
        self.members.longest_probe()
    }

    /// Whether all members are integers.
    pub fn is_of_integers(&self) -> bool {
        self.iter().all(is_integer)
    }
}

/// Whether a text is an integer of 64 bits as it would be written.
pub(crate) fn is_integer(text: &[u8]) -> bool {
    let number: Option<i64> = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.is_some_and(|number| itoa::Buffer::new().format(number).as_bytes() == text)
}

impl Set {
    /// Adds a member; whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        if self.has(member) {
            return false;
        }
        self.members.insert(member, &[]);
        self.is_changed = true;
        true
    }

    /// Takes out so many members, any as likely as the others, or all there are, and shows each.
    pub fn pop_some(&mut self, count: usize, mut show: impl FnMut(&[u8])) {
        let count = count.min(self.len());
        let (mut left, mut wanted) = (self.len(), count);
        let mut popped = Vec::with_capacity(count);
        for entry in self.members.iter() {
            if wanted == 0 {
                break;
            }
            // One of those that are left, as often as there are still some to be chosen among them.
            if wanted == left || fastrand::usize(..left) < wanted {
                wanted -= 1;
                show(entry.member);
                popped.push(offset(entry.at));
            }
            left -= 1;
        }
        self.is_changed |= !popped.is_empty();
        let popped = popped.into_iter().map(|at| at as usize);
        self.members.remove_all(popped);
    }

    /// As [`Members::tidy`]; a set is tidied before it is written in any case.
    pub fn tidy(&mut self) {
        self.members.tidy();
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(at) = self.members.find(member).map(|entry| entry.at) else {
            return false;
        };
        self.members.remove(at);
        self.is_changed = true;
        true
    }
}

impl Collection for Set {
    const KIND: Kind = super::SET;

    fn empty(deadline: Deadline, _now: Instant) -> Set {
        Set {
            own: deadline,
            is_changed: false,
            members: Members::empty(),
        }
    }

    fn open(value: &[u8], deadline: Deadline, _now: Instant) -> Set {
        Set {
            own: deadline,
            is_changed: false,
            members: Members::read(value, spare::copy_of),
        }
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn is_longer_than(&self, bytes: usize) -> bool {
        self.members.is_longer_than(bytes)
    }

    fn write(mut self, out: &mut Vec<u8>) -> Deadline {
        self.tidy();
        self.members.write(out);
        self.members.end();
        self.own
    }
}
