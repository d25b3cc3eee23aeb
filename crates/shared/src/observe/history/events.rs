//! Events: past events with their times; repeated ones are merged.
//!
//! Each kind has its own limit, so no kind displaces another.
//!
//! Tests: at the end of this file.

use std::collections::VecDeque;
use std::mem::size_of;

/// Most events that are kept of a kind.
const EVENTS_MAX: usize = 64;
/// Longest detail, in bytes.
pub const DETAIL_BYTES_MAX: usize = 160;
/// Events of a kind within so many milliseconds of each other are merged.
const TOGETHER_MS: u64 = 10_000;
/// Most bytes of all events.
pub const EVENTS_BYTES_MAX: usize =
    EventKind::ALL.len() * EVENTS_MAX * (size_of::<PastEvent>() + DETAIL_BYTES_MAX);

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The server was ready.
    Started,
    /// A database, or all of them, were flushed.
    Flush,
    /// A setting was changed while the server ran.
    Config,
    /// Connections were closed because all clients together held too much memory.
    Shed,
    /// Connections were closed because their clients did not read.
    Slow,
    /// Connections were refused because the limit was reached.
    Refused,
    /// An event loop stood still.
    Stalled,
}

impl EventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [EventKind; 7] = [
        EventKind::Started,
        EventKind::Flush,
        EventKind::Config,
        EventKind::Shed,
        EventKind::Slow,
        EventKind::Refused,
        EventKind::Stalled,
    ];

    /// Its name over HTTP.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Started => "started",
            EventKind::Flush => "flush",
            EventKind::Config => "config",
            EventKind::Shed => "shed",
            EventKind::Slow => "slow",
            EventKind::Refused => "refused",
            EventKind::Stalled => "stalled",
        }
    }
}

/// An event, or several of a kind that followed each other.
#[derive(Clone, Debug)]
pub struct PastEvent {
    /// Its kind.
    pub kind: EventKind,
    /// The engine's time of the first occurrence, in milliseconds.
    pub from_ms: u64,
    /// That of the last one.
    pub until_ms: u64,
    /// How many there were.
    pub count: u64,
    /// Details; may be empty.
    pub detail: Box<str>,
}

/// The past events, by kind.
#[derive(Debug, Default)]
pub(super) struct PastEvents([VecDeque<PastEvent>; EventKind::ALL.len()]);

impl PastEvents {
    pub(super) fn note(&mut self, kind: EventKind, at_ms: u64, count: u64, detail: &str) {
        let events = &mut self.0[kind as usize];
        if let Some(last) = events.back_mut()
            && at_ms.saturating_sub(last.until_ms) <= TOGETHER_MS
            && *last.detail == *detail
        {
            last.until_ms = last.until_ms.max(at_ms);
            last.count = last.count.saturating_add(count);
            return;
        }
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(PastEvent {
            kind,
            from_ms: at_ms,
            until_ms: at_ms,
            count,
            detail: detail.into(),
        });
    }

    /// All, oldest first.
    pub(super) fn all(&self) -> Vec<PastEvent> {
        let mut all: Vec<PastEvent> = self.0.iter().flatten().cloned().collect();
        all.sort_by_key(|event| event.from_ms);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_and_again_is_one_event() {
        let mut events = PastEvents::default();
        for second in 0..100 {
            events.note(EventKind::Flush, second * 1_000, 2, "");
        }
        events.note(EventKind::Flush, 200_000, 1, "");
        let all = events.all();
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].from_ms, all[0].until_ms, all[0].count),
            (0, 99_000, 200)
        );
    }

    #[test]
    fn no_kind_drives_another_out() {
        let mut events = PastEvents::default();
        events.note(EventKind::Started, 0, 1, "0.1.0");
        for time in 0..1_000 {
            events.note(EventKind::Config, time, 1, &format!("timeout={time}"));
        }
        let all = events.all();
        assert_eq!(
            (all[0].kind, all.len()),
            (EventKind::Started, EVENTS_MAX + 1)
        );
        assert_eq!(&*all[EVENTS_MAX].detail, "timeout=999");
    }

    #[test]
    fn numbers_are_places() {
        for (place, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{}", kind.name());
        }
    }
}
