//! Claim: one thread's exclusive use of a shard for several operations.
//!
//! A word beside the shard's mutex names the thread that has claimed the shard. It changes under
//! the mutex only, and the mutex is free between the operations of a section: a thread that gets
//! the mutex and finds the claim of another one releases the mutex and waits ([`Claim::wait`]). So
//! the code of single operations knows nothing of claims.
//!
//! A thread that waits spins for a moment, then it parks until the claim is released. Running
//! threads may go before parked ones, because waking costs more than most sections take. Once the
//! longest wait has lasted [`UNFAIR_NS`], a release closes the shard to new claims until all
//! threads parked by then have had their turn, single operations first: no thread waits for more
//! than one section of each other thread.
//!
//! Why, and why there is no deadlock: docs/decisions/0082. Tests: tests/claims.rs, tests/loom.rs.

#[cfg_attr(cellar_loom, path = "claim/section.rs")]
pub(crate) mod section; // the shards that a section has claimed

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(cellar_loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(cellar_loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Looks at a claim before a thread parks: some microseconds.
const SPINS: u32 = if cfg!(any(cellar_loom, miri)) { 0 } else { 200 };
/// For how long running threads may claim a shard before parked ones.
pub(crate) const UNFAIR_NS: u64 = 500_000;
/// Bit of the word: the section may write, so reads without the lock are closed once it has.
const WRITES: u64 = 1;

/// A thread, as a claim names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimant(u64);

impl Claimant {
    /// The thread of this number.
    #[inline]
    pub(crate) fn number(number: usize) -> Claimant {
        Claimant(number as u64 + 1)
    }
}

/// How a section uses the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It reads: lock-free reads of other threads continue.
    Read,
    /// It may write: other threads read none of its writes before it ends.
    Write,
}

/// A shard's claim, and the threads that wait for its end. The numbers change under the shard's
/// mutex only.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// The claimant, and [`WRITES`]; zero for none.
    // Relaxed: it changes under the mutex only, which orders it. A read without the mutex is only a
    // reason to take it.
    word: AtomicU64,
    /// Parked threads, and those of them whose turn it is.
    // Relaxed, as all numbers here: the mutex orders them.
    parked: AtomicU32,
    // Relaxed: as above.
    due: AtomicU32,
    /// Further data about them, outside the cache lines that every operation loads.
    line: Box<Line>,
}

/// Data about parked threads.
#[derive(Debug, Default)]
struct Line {
    /// Threads parked for one operation, and those of them whose turn it is.
    operations: AtomicU32,
    // Relaxed: see `Claim`.
    due_operations: AtomicU32,
    /// Rises whenever it becomes the turn of all parked threads.
    // Relaxed: see `Claim`.
    round: AtomicU32,
    /// Since when the first of this round is parked.
    // Relaxed: see `Claim`.
    since_ns: AtomicU64,
    woken: Condvar,
}

/// Why a thread is parked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parked {
    /// One operation.
    Operation,
    /// A claim.
    Claimant,
}

fn count(number: &AtomicU32) -> u32 {
    // Relaxed: see `Claim`.
    number.load(Ordering::Relaxed)
}

fn raise(number: &AtomicU32) {
    // Relaxed: see `Claim`.
    number.store(count(number) + 1, Ordering::Relaxed);
}

fn lower(number: &AtomicU32) {
    // Relaxed: see `Claim`.
    number.store(count(number) - 1, Ordering::Relaxed);
}

impl Claim {
    /// Whether a thread has claimed the shard.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Whether the shard is claimed by a section that may write.
    #[inline]
    pub(crate) fn writes(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITES != 0
    }

    /// Whether this thread has claimed the shard.
    #[inline]
    pub(crate) fn is_of(&self, claimant: Claimant) -> bool {
        self.word.load(Ordering::Relaxed) >> 1 == claimant.0
    }

    /// The thread that has claimed the shard.
    pub(crate) fn claimant(&self) -> Option<Claimant> {
        let number = self.word.load(Ordering::Relaxed) >> 1;
        (number != 0).then_some(Claimant(number))
    }

    /// Claims a shard, whose mutex the caller holds, if no thread has; returns whether it did.
    #[inline]
    pub(crate) fn try_take(&self, claimant: Claimant, intent: Intent) -> bool {
        let is_free = !self.is_held();
        if is_free {
            self.set(claimant, intent);
        }
        is_free
    }

    #[inline]
    fn set(&self, claimant: Claimant, intent: Intent) {
        let writes = if intent == Intent::Write { WRITES } else { 0 };
        self.word.store(claimant.0 << 1 | writes, Ordering::Relaxed);
    }

    /// Whether a thread that is awake may claim the shard now.
    #[inline]
    fn is_open(&self) -> bool {
        !self.is_held() && count(&self.due) == 0
    }

    /// Claims the shard, whose mutex is `guard`, as soon as it is the caller's turn. Gives up when
    /// `gives_up` says so while it waits; whether it claimed.
    pub(crate) fn take<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        mut guard: MutexGuard<'m, T>,
        (claimant, intent): (Claimant, Intent),
        gives_up: impl Fn() -> bool,
    ) -> (MutexGuard<'m, T>, bool) {
        if !self.is_open() {
            guard = self.spin(mutex, guard);
        }
        if self.is_open() {
            self.set(claimant, intent);
            return (guard, true);
        }
        let line = &*self.line;
        let round = self.park(Parked::Claimant);
        let may_take = loop {
            let is_due = count(&line.round) != round;
            let ahead = if is_due {
                &line.due_operations
            } else {
                &self.due
            };
            if !self.is_held() && count(ahead) == 0 {
                break true;
            }
            if gives_up() {
                break false;
            }
            guard = wait(&line.woken, guard);
        };
        self.leave(Parked::Claimant, round);
        if may_take {
            self.set(claimant, intent);
        }
        (guard, may_take)
    }

    /// Claims the shard as soon as no other thread has, for a section that may not wait for its
    /// turn; returns whether it did.
    pub(crate) fn take_out_of_order<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        (claimant, intent): (Claimant, Intent),
    ) -> (MutexGuard<'m, T>, bool) {
        let guard = self.wait_in_line(mutex, guard);
        let may_take = self.try_take(claimant, intent);
        (guard, may_take)
    }

    /// Waits, for one operation of a thread without claims, until no thread has claimed the shard.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
    ) -> MutexGuard<'m, T> {
        section::check_has_no_claims();
        self.wait_in_line(mutex, guard)
    }

    fn wait_in_line<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
    ) -> MutexGuard<'m, T> {
        let mut guard = self.spin(mutex, guard);
        if !self.is_held() {
            return guard;
        }
        let round = self.park(Parked::Operation);
        while self.is_held() {
            guard = wait(&self.line.woken, guard);
        }
        self.leave(Parked::Operation, round);
        guard
    }

    /// Ends the claim of a shard whose mutex the caller holds.
    #[inline]
    pub(crate) fn release(&self) {
        self.word.store(0, Ordering::Relaxed);
        if count(&self.parked) > 0 {
            self.wake(now_ns());
        }
    }

    #[cold]
    fn wake(&self, now_ns: u64) {
        let line = &*self.line;
        let since_ns = line.since_ns.load(Ordering::Relaxed);
        if count(&self.due) == 0 && now_ns.saturating_sub(since_ns) >= UNFAIR_NS {
            let operations = count(&line.operations);
            line.due_operations.store(operations, Ordering::Relaxed);
            self.due.store(count(&self.parked), Ordering::Relaxed);
            let round = count(&line.round).wrapping_add(1);
            line.round.store(round, Ordering::Relaxed);
        }
        // Relaxed: readers only compare it with an earlier value.
        RELEASES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        line.woken.notify_all();
    }

    /// Wakes all parked threads to look again. The caller holds the mutex.
    pub(crate) fn wake_all(&self) {
        self.line.woken.notify_all();
    }

    /// Gives the mutex away and looks at the claim for a moment.
    fn spin<'m, T>(&self, mutex: &'m Mutex<T>, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        if SPINS == 0 {
            return guard;
        }
        drop(guard);
        for _ in 0..SPINS {
            if !self.is_held() {
                break;
            }
            std::hint::spin_loop();
        }
        lock(mutex)
    }

    /// Counts a thread as parked; returns its round.
    fn park(&self, kind: Parked) -> u32 {
        let line = &*self.line;
        if count(&self.parked) == count(&self.due) {
            line.since_ns.store(now_ns(), Ordering::Relaxed);
        }
        raise(&self.parked);
        if kind == Parked::Operation {
            raise(&line.operations);
        }
        count(&line.round)
    }

    /// Counts it among them no more.
    fn leave(&self, kind: Parked, round: u32) {
        let line = &*self.line;
        let is_due = count(&line.round) != round;
        lower(&self.parked);
        if kind == Parked::Operation {
            lower(&line.operations);
        }
        if is_due {
            lower(&self.due);
            if kind == Parked::Operation {
                lower(&line.due_operations);
            }
            // New claims may have waited for this.
            line.woken.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics under a shard's lock")
}

fn wait<'m, T>(woken: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    let _noted = Noted::begin();
    let guard = woken.wait(guard);
    guard.expect("no thread panics under a shard's lock")
}

#[cfg(not(cellar_loom))]
use crate::base::clock::machine_ns as now_ns;
#[cfg(cellar_loom)]
fn now_ns() -> u64 {
    0
}

/// Releases of claims for which a thread was parked, of all caches.
static RELEASES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// How many claims were released so far for which a thread waited: while this count rises, a thread
/// that waits for a claim is not stuck.
#[must_use]
pub fn claim_releases() -> u64 {
    // Relaxed: as above.
    RELEASES.load(std::sync::atomic::Ordering::Relaxed)
}

thread_local! {
    /// Set while this thread waits for a claim.
    static MARK: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Sets `mark` whenever the calling thread waits for a claim of another thread, for threads that
/// watch it.
pub fn mark_waits_in(mark: Arc<AtomicBool>) {
    MARK.set(Some(mark));
}

/// The note that a thread waits.
struct Noted;

impl Noted {
    fn begin() -> Noted {
        note_waiting(true);
        Noted
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        note_waiting(false);
    }
}

fn note_waiting(waits: bool) {
    MARK.with_borrow(|mark| {
        if let Some(mark) = mark {
            // Relaxed: it is asked now and then, and decides nothing that is executed.
            mark.store(waits, std::sync::atomic::Ordering::Relaxed);
        }
    });
}
