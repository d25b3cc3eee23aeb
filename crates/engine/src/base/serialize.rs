//! Serialize: the encoding of a cache's state, as a clean stop saves it.
//!
//! Values follow each other without tags, numbers little-endian. So a reader must have the same
//! fields in the same order; [`FORM`] is the number of that layout. The caller has checked before
//! that the bytes are complete and unchanged (`state/checkpoint.rs`). Here an impossible length or
//! enum value is an error, and nothing else is.
//!
//! Why: docs/decisions/0058. Tests: at the end of this file, tests/clean_stop.rs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use crate::base::clock::{Deadline, Instant};
use crate::base::space::Space;

/// The number of the layout; raised whenever a serialized type gets other fields. A reader of
/// another layout rebuilds the state from the items instead.
pub(crate) const FORM: u64 = 6;

/// The bytes written so far.
#[derive(Debug, Default)]
pub(crate) struct Serializer {
    pub(crate) bytes: Vec<u8>,
}

/// The bytes that are left to read.
#[derive(Debug)]
pub(crate) struct Deserializer<'b> {
    left: &'b [u8],
}

impl<'b> Deserializer<'b> {
    /// Reads `bytes` from the front.
    pub(crate) fn of(bytes: &'b [u8]) -> Deserializer<'b> {
        Deserializer { left: bytes }
    }

    /// The next so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.left.split_at_checked(bytes)?;
        self.left = left;
        Some(taken)
    }

    /// A number of elements, each of at least one byte.
    fn length(&mut self) -> Option<usize> {
        let length = usize::deserialize(self)?;
        (length <= self.left.len()).then_some(length)
    }
}

/// A type that a clean stop saves and the next process reads.
pub(crate) trait Serialize: Sized {
    /// Appends the value.
    fn serialize(&self, out: &mut Serializer);

    /// Reads a value; `None` if the bytes are not one.
    fn deserialize(from: &mut Deserializer<'_>) -> Option<Self>;
}

/// Implements the trait for a struct, by all of its fields.
macro_rules! serialize {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::base::serialize::Serialize for $type {
            fn serialize(&self, out: &mut $crate::base::serialize::Serializer) {
                let Self { $($field),* } = self;
                $($crate::base::serialize::Serialize::serialize($field, out);)*
            }

            fn deserialize(from: &mut $crate::base::serialize::Deserializer<'_>) -> Option<Self> {
                $(let $field = $crate::base::serialize::Serialize::deserialize(from)?;)*
                Some(Self { $($field),* })
            }
        }
    };
}

/// Implements the trait for an enum, by a number for each variant.
macro_rules! serialize_enum {
    ($type:ident { $($number:literal => $case:ident),* $(,)? }) => {
        impl $crate::base::serialize::Serialize for $type {
            fn serialize(&self, out: &mut $crate::base::serialize::Serializer) {
                let number: u8 = match self {
                    $($type::$case => $number,)*
                };
                $crate::base::serialize::Serialize::serialize(&number, out);
            }

            fn deserialize(from: &mut $crate::base::serialize::Deserializer<'_>) -> Option<Self> {
                match <u8 as $crate::base::serialize::Serialize>::deserialize(from)? {
                    $($number => Some($type::$case),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {serialize, serialize_enum};

macro_rules! serialize_number {
    ($($type:ty),*) => {
        $(impl Serialize for $type {
            fn serialize(&self, out: &mut Serializer) {
                out.bytes.extend(self.to_le_bytes());
            }

            fn deserialize(from: &mut Deserializer<'_>) -> Option<Self> {
                let bytes = from.take(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        })*
    };
}

serialize_number!(u8, u16, u32, u64, u128, f64);

impl Serialize for usize {
    fn serialize(&self, out: &mut Serializer) {
        (*self as u64).serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<usize> {
        usize::try_from(u64::deserialize(from)?).ok()
    }
}

impl Serialize for bool {
    fn serialize(&self, out: &mut Serializer) {
        u8::from(*self).serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<bool> {
        match u8::deserialize(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Serialize for Instant {
    fn serialize(&self, out: &mut Serializer) {
        self.0.serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Instant> {
        u64::deserialize(from).map(Instant)
    }
}

impl Serialize for Space {
    fn serialize(&self, out: &mut Serializer) {
        self.0.serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Space> {
        u32::deserialize(from).map(Space)
    }
}

impl Serialize for Deadline {
    fn serialize(&self, out: &mut Serializer) {
        self.instant().serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Deadline> {
        let at = Option::<Instant>::deserialize(from)?;
        Some(at.map_or(Deadline::NEVER, Deadline::at))
    }
}

impl<T: Serialize> Serialize for Option<T> {
    fn serialize(&self, out: &mut Serializer) {
        self.is_some().serialize(out);
        if let Some(one) = self {
            one.serialize(out);
        }
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Option<T>> {
        match bool::deserialize(from)? {
            true => T::deserialize(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Serialize> Serialize for Box<T> {
    fn serialize(&self, out: &mut Serializer) {
        (**self).serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Box<T>> {
        T::deserialize(from).map(Box::new)
    }
}

impl<T: Serialize> Serialize for Vec<T> {
    fn serialize(&self, out: &mut Serializer) {
        self.len().serialize(out);
        self.iter().for_each(|one| one.serialize(out));
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Vec<T>> {
        let length = from.length()?;
        (0..length).map(|_| T::deserialize(from)).collect()
    }
}

impl<T: Serialize> Serialize for Box<[T]> {
    fn serialize(&self, out: &mut Serializer) {
        self.len().serialize(out);
        self.iter().for_each(|one| one.serialize(out));
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Box<[T]>> {
        Vec::deserialize(from).map(Vec::into_boxed_slice)
    }
}

impl<T: Serialize> Serialize for VecDeque<T> {
    fn serialize(&self, out: &mut Serializer) {
        self.len().serialize(out);
        self.iter().for_each(|one| one.serialize(out));
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<VecDeque<T>> {
        Vec::deserialize(from).map(VecDeque::from)
    }
}

impl<T: Serialize + Ord> Serialize for BinaryHeap<Reverse<T>> {
    fn serialize(&self, out: &mut Serializer) {
        self.len().serialize(out);
        self.iter().for_each(|one| one.0.serialize(out));
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<BinaryHeap<Reverse<T>>> {
        let all = Vec::<T>::deserialize(from)?;
        Some(all.into_iter().map(Reverse).collect())
    }
}

impl<T: Serialize, const N: usize> Serialize for [T; N] {
    fn serialize(&self, out: &mut Serializer) {
        self.iter().for_each(|one| one.serialize(out));
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<[T; N]> {
        let all: [Option<T>; N] = std::array::from_fn(|_| T::deserialize(from));
        let is_whole = all.iter().all(Option::is_some);
        is_whole.then(|| all.map(|one| one.expect("all were there")))
    }
}

impl<A: Serialize, B: Serialize> Serialize for (A, B) {
    fn serialize(&self, out: &mut Serializer) {
        self.0.serialize(out);
        self.1.serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<(A, B)> {
        Some((A::deserialize(from)?, B::deserialize(from)?))
    }
}

impl<K: Serialize + Eq + Hash, V: Serialize, S: BuildHasher + Default> Serialize
    for HashMap<K, V, S>
{
    fn serialize(&self, out: &mut Serializer) {
        self.len().serialize(out);
        for (key, value) in self {
            key.serialize(out);
            value.serialize(out);
        }
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<HashMap<K, V, S>> {
        let length = from.length()?;
        (0..length).map(|_| <(K, V)>::deserialize(from)).collect()
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

    serialize_enum!(Colour { 0 => Red, 1 => Blue });

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        numbers: Vec<u32>,
        colour: Option<Colour>,
        pairs: HashMap<Space, (bool, f64)>,
        until: [Deadline; 2],
        queue: VecDeque<Box<u16>>,
    }

    serialize!(Thing {
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
        let mut out = Serializer::default();
        thing().serialize(&mut out);
        let mut from = Deserializer::of(&out.bytes);
        assert_eq!(Thing::deserialize(&mut from), Some(thing()));
        assert_eq!(from.take(1), None);
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        let mut out = Serializer::default();
        thing().serialize(&mut out);
        for len in 0..out.bytes.len() {
            assert_eq!(
                Thing::deserialize(&mut Deserializer::of(&out.bytes[..len])),
                None
            );
        }
        let long = u64::MAX.to_le_bytes();
        assert_eq!(Vec::<u8>::deserialize(&mut Deserializer::of(&long)), None);
    }
}
