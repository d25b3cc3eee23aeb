//! memcached's binary protocol, from the server's side.
//!
//! Each request is a head of [`HEAD_BYTES`] bytes, then extras, key and value, whose lengths are in
//! the head; a response has the same form. [`decode`] makes a [`Packet`] of received bytes;
//! [`reply`] appends responses; [`operation`] is the table of supported operations and their
//! required parts. Operations mean the same as in the text protocol.
//!
//! Invariant: as for text, bytes from a peer never panic, and cutting them changes no answer.
//! Source: memcached 1.6.45, proto_bin.c and protocol_binary.h.
//! Tests: tests/binary_decode.rs; conformance/memcached/binary*.txt; fuzz/properties/packets.rs.

pub mod operation; // which requests there are
pub mod packet;
pub mod reply; // responses, statuses and their texts
pub mod decode; // how bytes become a packet

pub use decode::{PacketDecoded, PacketRefused, decode};
pub use operation::{OPERATIONS, Operation};
pub use packet::{Asks, Packet, PacketHead};
pub use reply::PacketStatus;

/// First byte of every request, and of none in text.
pub const REQUEST_MARK: u8 = 0x80;
/// First byte of every answer.
pub const ANSWER_MARK: u8 = 0x81;
/// Length of a head.
pub const HEAD_BYTES: usize = 24;
