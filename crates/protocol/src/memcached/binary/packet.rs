//! Packets: requests in the binary protocol, borrowed from the received bytes.
//!
//! Invariant: a decoded packet has the parts that its row of
//! [`OPERATIONS`](super::OPERATIONS) names; keys have at most
//! [`KEY_BYTES_MAX`](super::super::KEY_BYTES_MAX) bytes.

use super::super::request::{Stats, Verb};

/// The fields of a request that its response repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// The opcode, as sent.
    pub code: u8,
    /// Whether the usual answer is left out.
    pub quiet: bool,
    /// The client's own mark, as sent.
    pub opaque: [u8; 4],
}

/// A request whose lengths fit together.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The fields that the response repeats.
    pub head: PacketHead,
    /// The operation.
    pub asks: Asks,
    /// The version that the item must have; zero for any.
    pub version: u64,
    /// The key; empty if there is none.
    pub key: &'a [u8],
    /// The value; empty while it is still to be received.
    pub value: &'a [u8],
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// get, gat and their forms with the key
    Get {
        /// Whether the answer has the key.
        with_key: bool,
        /// The new exptime: gat.
        touch: Option<u32>,
    },
    /// touch
    Touch {
        /// When the item expires, as sent.
        exptime: u32,
    },
    /// set, add, replace, append, prepend; [`Verb::Cas`] is never among them.
    Store {
        /// How to store the value.
        verb: Verb,
        /// The client's opaque flags.
        flags: u32,
        /// When the item expires, as sent.
        exptime: u32,
    },
    /// delete
    Delete,
    /// increment, decrement
    Count {
        /// The amount.
        delta: u64,
        /// The value stored on a miss, and its exptime.
        initial: Option<(u64, u32)>,
        /// Whether the amount is subtracted.
        subtract: bool,
    },
    /// flush
    Flush {
        /// When, as sent; zero for at once.
        delay: u32,
    },
    /// stat; none for an unknown name
    Stat(Option<Stats>),
    /// noop, verbosity
    Okay,
    /// version
    Version,
    /// sasl list mechs
    SaslList,
    /// sasl auth
    SaslAuth,
    /// sasl step
    SaslStep,
    /// quit
    Quit,
}

const _: () = assert!(
    size_of::<Packet<'_>>() <= 96,
    "many packets are held at once"
);

impl<'a> Packet<'a> {
    /// The key of the item that it is about; none if it is about none.
    #[inline]
    #[must_use]
    pub fn item_key(&self) -> Option<&'a [u8]> {
        match self.asks {
            Asks::Get { .. }
            | Asks::Touch { .. }
            | Asks::Store { .. }
            | Asks::Delete
            | Asks::Count { .. } => Some(self.key),
            _ => None,
        }
    }
}
