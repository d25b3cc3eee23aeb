//! Stow: what a process knows of its memory, written down for the one that goes on with it.
//!
//! Numbers one behind the other, little end first; what they are is the program's business, so a
//! reader must have the same fields in the same order ([`FORM`]). Who reads checks before that
//! nothing of it was changed (`state/tables.rs`); here a length that cannot be is refused, and
//! nothing else.
//!
//! Why: docs/decisions/0058. Tests: at the end of this file, tests/sealed.rs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use crate::clock::{Deadline, Instant};
use crate::space::Space;

/// Which fields are written in which order; raised whenever something that is stowed gets other
/// fields. A reader of another form walks through the memory instead.
pub(crate) const FORM: u64 = 5;

/// Where it is written to.
#[derive(Debug, Default)]
pub(crate) struct Chest {
    pub(crate) bytes: Vec<u8>,
}

/// Where it is read from.
#[derive(Debug)]
pub(crate) struct Unpacking<'b> {
    left: &'b [u8],
}

impl<'b> Unpacking<'b> {
    /// Reads these from the front.
    pub(crate) fn of(bytes: &'b [u8]) -> Unpacking<'b> {
        Unpacking { left: bytes }
    }

    /// The next so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.left.split_at_checked(bytes)?;
        self.left = left;
        Some(taken)
    }

    /// A number of things that take a byte each at least.
    fn length(&mut self) -> Option<usize> {
        let length = usize::fetch(self)?;
        (length <= self.left.len()).then_some(length)
    }
}

/// What can be written down and read back.
pub(crate) trait Stow: Sized {
    /// Writes it behind what is there.
    fn stow(&self, chest: &mut Chest);

    /// Reads it; `None` if that is none.
    fn fetch(from: &mut Unpacking<'_>) -> Option<Self>;
}

/// Makes a type stowable by its fields, all of them.
macro_rules! stow {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::stow::Stow for $type {
            fn stow(&self, chest: &mut $crate::stow::Chest) {
                let Self { $($field),* } = self;
                $($crate::stow::Stow::stow($field, chest);)*
            }

            fn fetch(from: &mut $crate::stow::Unpacking<'_>) -> Option<Self> {
                $(let $field = $crate::stow::Stow::fetch(from)?;)*
                Some(Self { $($field),* })
            }
        }
    };
}

/// Makes a type of some cases stowable, by a number for each.
macro_rules! stow_cases {
    ($type:ident { $($number:literal => $case:ident),* $(,)? }) => {
        impl $crate::stow::Stow for $type {
            fn stow(&self, chest: &mut $crate::stow::Chest) {
                let number: u8 = match self {
                    $($type::$case => $number,)*
                };
                $crate::stow::Stow::stow(&number, chest);
            }

            fn fetch(from: &mut $crate::stow::Unpacking<'_>) -> Option<Self> {
                match <u8 as $crate::stow::Stow>::fetch(from)? {
                    $($number => Some($type::$case),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {stow, stow_cases};

macro_rules! stow_number {
    ($($type:ty),*) => {
        $(impl Stow for $type {
            fn stow(&self, chest: &mut Chest) {
                chest.bytes.extend(self.to_le_bytes());
            }

            fn fetch(from: &mut Unpacking<'_>) -> Option<Self> {
                let bytes = from.take(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        })*
    };
}

stow_number!(u8, u16, u32, u64, u128, f64);

impl Stow for usize {
    fn stow(&self, chest: &mut Chest) {
        (*self as u64).stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<usize> {
        usize::try_from(u64::fetch(from)?).ok()
    }
}

impl Stow for bool {
    fn stow(&self, chest: &mut Chest) {
        u8::from(*self).stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<bool> {
        match u8::fetch(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Stow for Instant {
    fn stow(&self, chest: &mut Chest) {
        self.0.stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Instant> {
        u64::fetch(from).map(Instant)
    }
}

impl Stow for Space {
    fn stow(&self, chest: &mut Chest) {
        self.0.stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Space> {
        u32::fetch(from).map(Space)
    }
}

impl Stow for Deadline {
    fn stow(&self, chest: &mut Chest) {
        self.instant().stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Deadline> {
        let at = Option::<Instant>::fetch(from)?;
        Some(at.map_or(Deadline::NEVER, Deadline::at))
    }
}

impl<T: Stow> Stow for Option<T> {
    fn stow(&self, chest: &mut Chest) {
        self.is_some().stow(chest);
        if let Some(one) = self {
            one.stow(chest);
        }
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Option<T>> {
        match bool::fetch(from)? {
            true => T::fetch(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Stow> Stow for Box<T> {
    fn stow(&self, chest: &mut Chest) {
        (**self).stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Box<T>> {
        T::fetch(from).map(Box::new)
    }
}

impl<T: Stow> Stow for Vec<T> {
    fn stow(&self, chest: &mut Chest) {
        self.len().stow(chest);
        self.iter().for_each(|one| one.stow(chest));
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Vec<T>> {
        let length = from.length()?;
        (0..length).map(|_| T::fetch(from)).collect()
    }
}

impl<T: Stow> Stow for Box<[T]> {
    fn stow(&self, chest: &mut Chest) {
        self.len().stow(chest);
        self.iter().for_each(|one| one.stow(chest));
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<Box<[T]>> {
        Vec::fetch(from).map(Vec::into_boxed_slice)
    }
}

impl<T: Stow> Stow for VecDeque<T> {
    fn stow(&self, chest: &mut Chest) {
        self.len().stow(chest);
        self.iter().for_each(|one| one.stow(chest));
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<VecDeque<T>> {
        Vec::fetch(from).map(VecDeque::from)
    }
}

impl<T: Stow + Ord> Stow for BinaryHeap<Reverse<T>> {
    fn stow(&self, chest: &mut Chest) {
        self.len().stow(chest);
        self.iter().for_each(|one| one.0.stow(chest));
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<BinaryHeap<Reverse<T>>> {
        let all = Vec::<T>::fetch(from)?;
        Some(all.into_iter().map(Reverse).collect())
    }
}

impl<T: Stow, const N: usize> Stow for [T; N] {
    fn stow(&self, chest: &mut Chest) {
        self.iter().for_each(|one| one.stow(chest));
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<[T; N]> {
        let all: [Option<T>; N] = std::array::from_fn(|_| T::fetch(from));
        let is_whole = all.iter().all(Option::is_some);
        is_whole.then(|| all.map(|one| one.expect("all were there")))
    }
}

impl<A: Stow, B: Stow> Stow for (A, B) {
    fn stow(&self, chest: &mut Chest) {
        self.0.stow(chest);
        self.1.stow(chest);
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<(A, B)> {
        Some((A::fetch(from)?, B::fetch(from)?))
    }
}

impl<K: Stow + Eq + Hash, V: Stow, S: BuildHasher + Default> Stow for HashMap<K, V, S> {
    fn stow(&self, chest: &mut Chest) {
        self.len().stow(chest);
        for (key, value) in self {
            key.stow(chest);
            value.stow(chest);
        }
    }

    fn fetch(from: &mut Unpacking<'_>) -> Option<HashMap<K, V, S>> {
        let length = from.length()?;
        (0..length).map(|_| <(K, V)>::fetch(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Colour {
        Red,
        Blue,
    }

    stow_cases!(Colour { 0 => Red, 1 => Blue });

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        numbers: Vec<u32>,
        colour: Option<Colour>,
        pairs: HashMap<Space, (bool, f64)>,
        until: [Deadline; 2],
        queue: VecDeque<Box<u16>>,
    }

    stow!(Thing {
        numbers,
        colour,
        pairs,
        until,
        queue
    });

    fn thing() -> Thing {
        Thing {
            numbers: vec![1, u32::MAX],
            colour: Some(Colour::Blue),
            pairs: HashMap::from([(Space(7), (true, 0.5)), (Space(9), (false, -1.0))]),
            until: [Deadline::NEVER, Deadline::at(Instant(77))],
            queue: VecDeque::from([Box::new(5)]),
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut chest = Chest::default();
        thing().stow(&mut chest);
        let mut from = Unpacking::of(&chest.bytes);
        assert_eq!(Thing::fetch(&mut from), Some(thing()));
        assert_eq!(from.take(1), None);
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        let mut chest = Chest::default();
        thing().stow(&mut chest);
        for len in 0..chest.bytes.len() {
            assert_eq!(Thing::fetch(&mut Unpacking::of(&chest.bytes[..len])), None);
        }
        let long = u64::MAX.to_le_bytes();
        assert_eq!(Vec::<u8>::fetch(&mut Unpacking::of(&long)), None);
    }
}
