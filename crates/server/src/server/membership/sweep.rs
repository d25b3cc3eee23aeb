//! Sweep: empties the slots that this node has lost.
//!
//! It walks all keys, some hundred at a time, and pauses for as long as each step took. Nothing is
//! stored in these slots meanwhile, because they are not served, so one walk finds all.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use cellar_cluster::slot::{SlotSet, slot_of};
use cellar_engine::{DeleteOptions, ScanCursor, Space};
use cellar_shared::clients::tracking::as_known;
use cellar_system::clock::Stopwatch;

use super::keeper::Keeper;

/// Empties slots as they are lost, until the end.
pub(super) fn run(keeper: &Keeper) {
    while let Some(slots) = keeper.next_unswept() {
        if walk(keeper, &slots) {
            keeper.change(None, |holdings| holdings.swept(&slots));
        }
    }
}

/// Removes all items of these slots; returns whether the walk is complete.
fn walk(keeper: &Keeper, slots: &SlotSet) -> bool {
    let cache = &keeper.state.cache;
    let (mut cursor, mut keys) = (Some(ScanCursor::START), Vec::new());
    while let Some(at) = cursor {
        if keeper.is_over() {
            return false;
        }
        let stopwatch = Stopwatch::start();
        cursor = cache.keys(at, |facts| {
            if slots.has(slot_of(facts.key)) {
                keys.push((facts.space, Box::<[u8]>::from(facts.key)));
            }
        });
        drop_all(keeper, &mut keys);
        sleep(Duration::from_micros(stopwatch.us()));
    }
    true
}

fn drop_all(keeper: &Keeper, keys: &mut Vec<(Space, Box<[u8]>)>) {
    let cache = &keeper.state.cache;
    for (space, bytes) in keys.drain(..) {
        if let Ok(key) = cache.key_in(space, &bytes) {
            // Its readers were notified when its slot was lost. It may be removed already.
            let _ = as_known(|| cache.delete(key, &DeleteOptions::default()));
            // Relaxed: only reported.
            let dropped = &keeper.cluster.counts.dropped;
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
