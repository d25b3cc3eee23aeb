//! Decoding: where a packet ends, and its operation.
//!
//! The head alone shows whether a packet can be valid, so an invalid packet is rejected as soon as
//! its head has arrived. A value longer than the caller buffers is [`PacketDecoded::Upload`].
//!
//! Invariant: the decoding of a packet depends on its own bytes only, and `used` never exceeds the
//! input.
//! Tests: tests/binary_decode.rs; fuzz/properties/packets.rs.

use super::super::KEY_BYTES_MAX;
use super::super::request::{Stats, Verb};
use super::operation::{Operation, code};
use super::packet::{Asks, Packet, PacketHead};
use super::reply::PacketStatus;
use super::{HEAD_BYTES, REQUEST_MARK};

/// Longest body that a head may announce.
///
/// Source: ITEM_SIZE_MAX_UPPER_LIMIT of memcached 1.6.45.
pub const BODY_BYTES_MAX: usize = 1 << 30;
/// The exptime of a counter that is not to be created.
const NOT_CREATED: u32 = u32::MAX;

/// The result of decoding the start of the input.
#[derive(Clone, Copy, Debug)]
pub enum PacketDecoded<'a> {
    /// No complete packet: more bytes are needed.
    Incomplete,
    /// A request.
    Packet {
        /// The request.
        packet: Packet<'a>,
        /// Its length.
        used: usize,
    },
    /// A request with a long value, without the value.
    Upload {
        /// The request.
        packet: Packet<'a>,
        /// Its length without the value.
        used: usize,
        /// Length of the value, which follows.
        value_bytes: usize,
    },
    /// Bytes that are not an executable request.
    Refused(PacketRefused),
}

/// Bytes that are not an executable request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRefused {
    /// The response, and the head that it repeats; `None` if no response is sent.
    pub answer: Option<(PacketHead, PacketStatus)>,
    /// How many bytes of the input are consumed.
    pub used: usize,
    /// How many bytes after those the caller has to discard.
    pub swallow: usize,
    /// Whether the connection ends here.
    pub close: bool,
}

/// The lengths in a head.
#[derive(Clone, Copy)]
struct Lengths {
    extras: usize,
    key: usize,
    value: usize,
}

/// Decodes the first packet of `input`, with a value of at most `value_bytes_max`.
#[inline]
#[must_use]
pub fn decode(input: &[u8], value_bytes_max: usize) -> PacketDecoded<'_> {
    let Some(head) = input.first_chunk::<HEAD_BYTES>() else {
        return without_head(input);
    };
    let [mark, code, _, _, extras, _, _, _, _, _, _, _, opaque @ ..] = head;
    let opaque = [opaque[0], opaque[1], opaque[2], opaque[3]];
    if *mark != REQUEST_MARK {
        return hang_up(input);
    }
    let known = Operation::of(*code);
    let head_of_answer = PacketHead {
        code: *code,
        quiet: known.is_some_and(|(_, quiet)| quiet),
        opaque,
    };
    let extras = usize::from(*extras);
    let key = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let Some(value) = body.checked_sub(extras + key) else {
        return close(head_of_answer, PacketStatus::Unknown, input);
    };
    if body > BODY_BYTES_MAX || key > KEY_BYTES_MAX {
        return close(head_of_answer, PacketStatus::Invalid, input);
    }
    let Some((operation, _)) = known else {
        return PacketDecoded::Refused(PacketRefused {
            answer: Some((head_of_answer, PacketStatus::Unknown)),
            used: HEAD_BYTES,
            swallow: body,
            close: false,
        });
    };
    if !operation.takes(extras, key, value) {
        return close(head_of_answer, PacketStatus::Invalid, input);
    }
    let version = u64::from_be_bytes([
        head[16], head[17], head[18], head[19], head[20], head[21], head[22], head[23],
    ]);
    let lengths = Lengths { extras, key, value };
    with_body(
        input,
        (head_of_answer, version),
        operation,
        lengths,
        value_bytes_max,
    )
}

/// Reads the packet behind the head, as far as it has arrived.
#[inline]
fn with_body<'a>(
    input: &'a [u8],
    (head, version): (PacketHead, u64),
    operation: &Operation,
    lengths: Lengths,
    value_bytes_max: usize,
) -> PacketDecoded<'a> {
    let key_at = HEAD_BYTES + lengths.extras;
    let value_at = key_at + lengths.key;
    let is_long = lengths.value > value_bytes_max;
    let used = if is_long {
        value_at
    } else {
        value_at + lengths.value
    };
    let Some(whole) = input.get(..used) else {
        return PacketDecoded::Incomplete;
    };
    let key = &whole[key_at..value_at];
    let packet = Packet {
        head,
        asks: asks(operation.code, &whole[HEAD_BYTES..key_at], key),
        version,
        key,
        value: &whole[value_at..],
    };
    if !is_long {
        PacketDecoded::Packet { packet, used }
    } else if matches!(packet.asks, Asks::Store { .. }) {
        PacketDecoded::Upload {
            packet,
            used,
            value_bytes: lengths.value,
        }
    } else {
        // No valid name and password are that long.
        PacketDecoded::Refused(PacketRefused {
            answer: Some((head, PacketStatus::Denied)),
            used,
            swallow: lengths.value,
            close: false,
        })
    }
}

/// The number that begins at a place of the extras, which have it by the table.
#[inline]
fn number(extras: &[u8], at: usize) -> u32 {
    let bytes = extras.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[inline]
fn long_number(extras: &[u8], at: usize) -> u64 {
    u64::from(number(extras, at)) << 32 | u64::from(number(extras, at + 4))
}

/// The operation of an opcode that is not a quiet form, with these extras.
#[inline]
fn asks(code: u8, extras: &[u8], key: &[u8]) -> Asks {
    let store = |verb| Asks::Store {
        verb,
        flags: number(extras, 0),
        exptime: number(extras, 4),
    };
    let count = |subtract| {
        let exptime = number(extras, 16);
        Asks::Count {
            delta: long_number(extras, 0),
            initial: (exptime != NOT_CREATED).then(|| (long_number(extras, 8), exptime)),
            subtract,
        }
    };
    let get = |with_key, touch| Asks::Get { with_key, touch };
    match code {
        code::GET => get(false, None),
        code::GETK => get(true, None),
        code::GAT => get(false, Some(number(extras, 0))),
        code::GATK => get(true, Some(number(extras, 0))),
        code::TOUCH => Asks::Touch {
            exptime: number(extras, 0),
        },
        code::SET => store(Verb::Set),
        code::ADD => store(Verb::Add),
        code::REPLACE => store(Verb::Replace),
        code::APPEND => store(Verb::Append),
        code::PREPEND => store(Verb::Prepend),
        code::DELETE => Asks::Delete,
        code::INCREMENT => count(false),
        code::DECREMENT => count(true),
        code::FLUSH => Asks::Flush {
            delay: number(extras, 0),
        },
        code::STAT => Asks::Stat(stats(key)),
        code::VERSION => Asks::Version,
        code::SASL_LIST => Asks::SaslList,
        code::SASL_AUTH => Asks::SaslAuth,
        code::SASL_STEP => Asks::SaslStep,
        code::QUIT => Asks::Quit,
        // noop, verbosity
        _ => Asks::Okay,
    }
}

/// Which statistics have this name.
fn stats(name: &[u8]) -> Option<Stats> {
    Some(match name {
        b"" => Stats::General,
        b"items" => Stats::Items,
        b"slabs" => Stats::Slabs,
        b"sizes" => Stats::Sizes,
        b"expiry" => Stats::Expiry,
        b"conns" => Stats::Connections,
        b"extstore" => Stats::Empty,
        b"mrc" => Stats::MissRatioCurve,
        b"misses" => Stats::Misses,
        b"hotkeys" => Stats::HotKeys,
        b"compression" => Stats::Compression,
        _ if name.starts_with(b"reset") => Stats::Reset,
        _ if name.starts_with(b"settings") => Stats::Settings,
        _ => return None,
    })
}

/// Decides on input that is shorter than a head.
#[cold]
fn without_head(input: &[u8]) -> PacketDecoded<'_> {
    match input.first() {
        Some(&REQUEST_MARK) | None => PacketDecoded::Incomplete,
        Some(_) => hang_up(input),
    }
}

/// Closes the connection without a response: the start of the next packet is unknown.
#[cold]
fn hang_up(input: &[u8]) -> PacketDecoded<'_> {
    PacketDecoded::Refused(PacketRefused {
        answer: None,
        used: input.len(),
        swallow: 0,
        close: true,
    })
}

/// Answers a head whose lengths cannot be, and ends the connection.
#[cold]
fn close(head: PacketHead, status: PacketStatus, input: &[u8]) -> PacketDecoded<'_> {
    PacketDecoded::Refused(PacketRefused {
        answer: Some((head, status)),
        used: input.len(),
        swallow: 0,
        close: true,
    })
}
