//! Shown: the effect of a request on a simulation that has its key in its sample.
//!
//! A read that a simulation misses is followed by a store there: by the client's own if the real
//! cache missed too, else at once.
//!
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

use super::Simulation;
use crate::insight::history::History;
use crate::insight::sample::{Action, Coarse, Event};

impl Simulation {
    /// Shows it a request whose key is in its sample; whether that was a read that missed there.
    pub(crate) fn show(&mut self, event: &Event, ttls: &mut History) -> bool {
        let Event {
            hash,
            bytes,
            deadline,
            now,
            ..
        } = *event;
        match event.action {
            Action::Hit | Action::Miss => {
                let real_hit = event.action == Action::Hit;
                if self.get(hash, real_hit, now) {
                    return false;
                }
                if real_hit {
                    self.set(hash, bytes, refill_deadline(ttls, event), now);
                }
                return true;
            }
            Action::Set => self.set(hash, bytes, deadline, now),
            Action::Touch => self.touch(hash, deadline, now),
            Action::Delete => self.delete(hash),
        }
        false
    }
}

/// The deadline of an item that is stored again, because only the real cache still has it.
fn refill_deadline(ttls: &mut History, event: &Event) -> Coarse {
    if event.deadline == Coarse::NEVER {
        return Coarse::NEVER;
    }
    match ttls.find(event.hash) {
        Some(fate) => fate.ttl.from(event.now),
        None => event.deadline,
    }
}
