//! Layout: where the parts of a stored item lie, and how they are read and changed in place.
//!
//! Tests: at the end of item.rs.

use super::{
    FIELD_ACCESS, FIELD_DEADLINE, FIELD_FLAGS_8, FIELD_FLAGS_32, FIELD_LEASE, FIELD_SPACE,
    FIELD_VERSION, FIELDS_BYTES, LeaseState, MARKED_BYTES_MAX, PACKED_VALUE, PADDED_LENGTH_BYTES,
    Spec, key_length_bytes, read_le,
};
use crate::base::clock::Deadline;
use crate::base::space::{Kind, Space};
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::memory::arena::Arena;

/// Where the parts of a stored item lie; read from its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Offset of the item in the arena.
    pub(crate) offset: usize,
    pub(crate) key_at: usize,
    /// Length of the key and its space, to be compared at once; see `Key::word`.
    pub(crate) key_word: u64,
    /// Bytes of the value as it is stored.
    pub(crate) value_bytes: usize,
    pub(crate) deadline: Deadline,
    /// The fields that it has, and [`PACKED_VALUE`].
    pub(super) fields: u16,
    pub(super) deadline_at: usize,
    pub(super) fields_at: usize,
}

impl Layout {
    /// Length of the key.
    #[inline]
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_word as u32 as usize
    }

    /// The item's space.
    #[inline]
    pub(crate) fn space(&self) -> Space {
        Space((self.key_word >> 32) as u32)
    }

    /// Offset of the value in the arena.
    #[inline]
    pub(crate) fn value_at(&self) -> usize {
        self.key_at + self.key_bytes()
    }

    /// Bytes of the whole item.
    #[inline]
    pub(crate) fn total_bytes(&self) -> usize {
        self.value_at() + self.value_bytes - self.offset
    }

    /// Whether the item has any of the rare fields, or is compressed.
    #[inline]
    pub(crate) fn is_extended(&self) -> bool {
        self.fields != 0
    }

    /// Whether the value is compressed.
    #[inline]
    pub(crate) fn is_packed(&self) -> bool {
        self.fields & PACKED_VALUE != 0
    }

    /// Whether the item is a short string of which a part was written after it was stored.
    pub(crate) fn is_changed_string(&self, arena: &Arena) -> bool {
        let length_from = 2 + key_length_bytes(self.fields as u8);
        self.is_extended()
            && self.value_bytes <= MARKED_BYTES_MAX
            && self.deadline_at - self.offset == length_from + PADDED_LENGTH_BYTES
            && self.kind(arena) == Kind::STRING
    }

    /// Whether the item is not a string of the main space.
    #[inline]
    pub(crate) fn has_space_field(&self) -> bool {
        self.fields & u16::from(FIELD_SPACE) != 0
    }

    #[inline]
    pub(super) fn field_at(&self, field: u8) -> Option<usize> {
        if self.fields & u16::from(field) == 0 {
            return None;
        }
        let before = self.fields as u8 & (field - 1);
        Some(self.fields_at + FIELDS_BYTES[usize::from(before)])
    }

    /// The client's flags.
    #[inline]
    pub(crate) fn flags(&self, arena: &Arena) -> u32 {
        if self.fields & u16::from(FIELD_FLAGS_8 | FIELD_FLAGS_32) == 0 {
            return 0;
        }
        match self.field_at(FIELD_FLAGS_8) {
            Some(at) => u32::from(arena.byte(at)),
            None => self.field_at(FIELD_FLAGS_32).map_or(0, |at| arena.word(at)),
        }
    }

    /// The item's kind.
    #[inline]
    pub(crate) fn kind(&self, arena: &Arena) -> Kind {
        // The last field lies right before the key.
        if self.has_space_field() {
            Kind(arena.byte(self.key_at - 5))
        } else {
            Kind::STRING
        }
    }

    /// The item's version, if it has one.
    pub(crate) fn version(&self, arena: &Arena) -> Option<u64> {
        self.field_at(FIELD_VERSION).map(|at| read_le(arena, at, 8))
    }

    /// The item's lease state.
    pub(crate) fn lease(&self, arena: &Arena) -> LeaseState {
        self.field_at(FIELD_LEASE)
            .map_or(LeaseState::default(), |at| {
                LeaseState::from_word(read_le(arena, at, 8))
            })
    }

    /// Where the lease word lies, if the item has one.
    pub(crate) fn lease_at(&self) -> Option<usize> {
        self.field_at(FIELD_LEASE)
    }

    /// Second of the last access, if it is recorded.
    pub(crate) fn access_s(&self, arena: &Arena) -> Option<u32> {
        self.field_at(FIELD_ACCESS).map(|at| arena.word(at))
    }

    /// Offset of the last access, if it is recorded.
    pub(crate) fn access_at(&self) -> Option<usize> {
        self.field_at(FIELD_ACCESS)
    }

    /// Everything about the item, for writing it elsewhere.
    #[inline]
    pub(crate) fn spec(&self, arena: &Arena) -> Spec {
        let plain = Spec::plain(self.key_bytes(), self.value_bytes, self.deadline);
        if self.is_extended() {
            self.extended_spec(plain, arena)
        } else {
            plain
        }
    }

    #[inline(never)]
    fn extended_spec(&self, plain: Spec, arena: &Arena) -> Spec {
        Spec {
            flags: self.flags(arena),
            version: self.version(arena),
            lease: self.lease(arena),
            access_s: self.access_s(arena),
            space: self.space(),
            kind: self.kind(arena),
            is_edited: self.is_changed_string(arena),
            is_packed: self.is_packed(),
            ..plain
        }
    }

    /// Where the parts of an item lie that was written at `offset` with a short header.
    #[inline]
    pub(crate) fn of_short(
        spec: &Spec,
        offset: usize,
        header_bytes: usize,
        encoding: DeadlineEncoding,
    ) -> Layout {
        let key_at = offset + header_bytes;
        Layout {
            offset,
            key_at,
            key_word: spec.key_bytes as u64,
            value_bytes: spec.value_bytes,
            deadline: spec.deadline,
            fields: 0,
            deadline_at: key_at - usize::from(encoding.width),
            fields_at: key_at,
        }
    }

    /// The bytes that change the item's deadline where it lies, if it fits there.
    pub(crate) fn patch_deadline(
        &self,
        deadline: Deadline,
        encoding: DeadlineEncoding,
    ) -> Option<Patch> {
        if let Some(at) = self.field_at(FIELD_DEADLINE) {
            let number = deadline.instant().map_or(u64::MAX, |at| at.0);
            return Some(Patch {
                at,
                bytes: number.to_le_bytes(),
                len: 8,
            });
        }
        let number = encoding.encode(deadline)?;
        Some(Patch {
            at: self.deadline_at,
            bytes: number.to_le_bytes(),
            len: usize::from(encoding.width),
        })
    }

    /// The bytes that change the value's length, if it can be written in as many as it is now.
    pub(crate) fn patch_value_bytes(&self, value_bytes: usize) -> Option<Patch> {
        let at = match self.is_extended() {
            false => self.offset + 1,
            true => self.offset + 2 + key_length_bytes(self.fields as u8),
        };
        let len = self.deadline_at - at;
        if value_bytes >> (7 * len) != 0 {
            return None;
        }
        let (mut bytes, mut rest) = ([0; 8], value_bytes);
        for byte in &mut bytes[..len] {
            *byte = rest as u8 | 0x80;
            rest >>= 7;
        }
        bytes[len - 1] &= 0x7f;
        Some(Patch { at, bytes, len })
    }

    /// The bytes that give the item another version, if it has one.
    pub(crate) fn patch_version(&self, version: u64) -> Option<Patch> {
        let at = self.field_at(FIELD_VERSION)?;
        Some(Patch {
            at,
            bytes: version.to_le_bytes(),
            len: 8,
        })
    }

    /// The bytes that change the item's lease, if it has a lease word.
    pub(crate) fn patch_lease(&self, lease: LeaseState) -> Option<Patch> {
        let at = self.lease_at()?;
        Some(Patch {
            at,
            bytes: lease.to_word().to_le_bytes(),
            len: 8,
        })
    }

    /// The bytes that change the item's last access, if it is recorded.
    pub(crate) fn patch_access(&self, second: u32) -> Option<Patch> {
        let at = self.access_at()?;
        Some(Patch {
            at,
            bytes: u64::from(second).to_le_bytes(),
            len: 4,
        })
    }
}

/// Header bytes to be changed in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// Where they lie in the arena.
    pub(crate) at: usize,
    bytes: [u8; 8],
    len: usize,
}

impl Patch {
    /// The new bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
