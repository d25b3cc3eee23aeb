//! The state of this thread for the lanes it meets: to which runtime it belongs, and whether it
//! waits.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::DrivenLane;

/// Lanes that were woken here.
type Visited = SmallVec<[Arc<DrivenLane>; 1]>;

/// No runtime has this number.
const NONE: u64 = 0;

thread_local! {
    static BACKGROUND: Cell<u64> = const { Cell::new(NONE) };
    static VISITED: RefCell<Option<Visited>> = const { RefCell::new(None) };
}

/// A number for a runtime of the blocking face; no other one of this process has it.
pub(crate) fn new_background() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(NONE + 1);
    // Relaxed: only the difference from all others matters.
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Makes this thread the one of a runtime.
pub(crate) fn stay(background: u64) {
    BACKGROUND.set(background);
}

/// The blocking face's runtime to which this thread belongs at the moment, if it does.
pub(crate) fn background() -> Option<u64> {
    Some(BACKGROUND.get()).filter(|&number| number != NONE)
}

/// Notes that `lane` was woken; whether this thread will drive it.
pub(super) fn visit(lane: &Arc<DrivenLane>) -> bool {
    if BACKGROUND.get() != lane.background {
        return false;
    }
    VISITED.with_borrow_mut(|visited| {
        let Some(visited) = visited else {
            return false;
        };
        if !visited.iter().any(|known| Arc::ptr_eq(known, lane)) {
            visited.push(Arc::clone(lane));
        }
        true
    })
}

/// The period in which this thread polls or watches for a caller of a runtime; after it, the thread
/// drives the lanes that it has woken.
pub(crate) struct Visiting {
    before: u64,
    /// A guard of this thread's.
    _here: std::marker::PhantomData<*const ()>,
}

impl Visiting {
    pub(crate) fn begin(background: u64) -> Visiting {
        VISITED.set(Some(Visited::new()));
        Visiting {
            before: BACKGROUND.replace(background),
            _here: std::marker::PhantomData,
        }
    }

    /// Ends it; the caller drives the returned lanes.
    pub(crate) fn end(self) -> Visited {
        VISITED.take().unwrap_or_default()
    }
}

impl Drop for Visiting {
    /// After a panic, lanes that were not taken are left to their tasks.
    fn drop(&mut self) {
        BACKGROUND.set(self.before);
        for lane in VISITED.take().unwrap_or_default() {
            lane.task.wake();
        }
    }
}
