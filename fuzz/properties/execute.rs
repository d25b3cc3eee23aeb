//! The connection's property: the same answers, however the bytes arrive.

use std::sync::Arc;

use cellar_engine::{Instant, ManualClock};

use crate::session::{Session, UNIX_MS_AT_ZERO, state};

/// Memory of the cache behind the connection.
const MEMORY_BYTES: usize = 32 << 20;

/// The answers to `data`, which arrives in pieces of `piece_bytes`.
fn answers(data: &[u8], piece_bytes: usize) -> Vec<u8> {
    let clock = Arc::new(ManualClock::starting_at(Instant(5_000)));
    let state = state(clock, MEMORY_BYTES, UNIX_MS_AT_ZERO);
    let mut session = Session::default();
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

/// Checks the property for one input.
pub(crate) fn check(data: &[u8]) {
    let whole = answers(data, data.len());
    let piece_bytes = 1 + data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97;
    let cut = answers(data, piece_bytes);
    assert_eq!(
        comparable(&cut),
        comparable(&whole),
        "in pieces of {piece_bytes}"
    );
}
