//! The connection's property: the same answers, however the bytes arrive.

use std::sync::Arc;

use cellar_engine::{Instant, ManualClock};

use super::session::{Session, UNIX_MS_AT_ZERO, state};

/// Memory of the cache behind the connection.
const MEMORY_BYTES: usize = 32 << 20;

/// The answers to `data`, which arrives in pieces of `piece_bytes` on a new connection.
fn answers(data: &[u8], piece_bytes: usize, mut session: Session) -> Vec<u8> {
    let clock = Arc::new(ManualClock::starting_at(Instant(5_000)));
    let state = state(clock, MEMORY_BYTES, UNIX_MS_AT_ZERO);
    data.chunks(piece_bytes.max(1))
        .flat_map(|piece| session.feed(piece, &state))
        .collect()
}

/// The lines of an answer that are the same on every run, in an order that is.
fn comparable(answer: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = answer
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"STAT rusage_"))
        .collect();
    // Listings have no order.
    if answer
        .windows(4)
        .any(|text| text == b"OK\r\n" || text == b"ITEM")
    {
        lines.sort_unstable();
    }
    lines
}

/// Length of the pieces in which an input arrives the second time.
fn piece_bytes(data: &[u8]) -> usize {
    1 + data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97
}

/// Checks the property for one input over HTTP.
#[allow(
    dead_code,
    reason = "each target that shares this file checks one protocol"
)]
pub(crate) fn check_http(data: &[u8]) {
    let whole = answers(data, data.len(), Session::http());
    let cut = answers(data, piece_bytes(data), Session::http());
    assert_eq!(
        cut.escape_ascii().to_string(),
        whole.escape_ascii().to_string()
    );
}

/// A noop of the binary protocol: a connection that begins with it speaks that.
const BINARY_NOOP: [u8; 24] = {
    let mut noop = [0; 24];
    (noop[0], noop[1]) = (0x80, 0x0a);
    noop
};

/// The packets of an answer that are the same on every run; all of it has to be packets.
fn packets(mut answer: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(head) = answer.first_chunk::<24>() {
        assert_eq!(head[0], 0x81, "an answer has its mark");
        let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let packet;
        (packet, answer) = answer.split_at(24 + body);
        if !packet[24..].starts_with(b"rusage_") {
            found.push(packet);
        }
    }
    assert!(answer.is_empty(), "an answer is whole packets");
    found
}

/// Checks the property for one input in the binary protocol.
#[allow(
    dead_code,
    reason = "each target that shares this file checks one protocol"
)]
pub(crate) fn check_binary(data: &[u8]) {
    let data = [&BINARY_NOOP, data].concat();
    let whole = answers(&data, data.len(), Session::memcached());
    let piece_bytes = piece_bytes(&data);
    let cut = answers(&data, piece_bytes, Session::memcached());
    assert_eq!(packets(&cut), packets(&whole), "in pieces of {piece_bytes}");
}

/// Checks the property for one input.
#[allow(
    dead_code,
    reason = "each target that shares this file checks one protocol"
)]
pub(crate) fn check(data: &[u8]) {
    let whole = answers(data, data.len(), Session::memcached());
    let piece_bytes = piece_bytes(data);
    let cut = answers(data, piece_bytes, Session::memcached());
    assert_eq!(
        comparable(&cut),
        comparable(&whole),
        "in pieces of {piece_bytes}"
    );
}
