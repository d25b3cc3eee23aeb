//! Exclusive lock: lets one event loop execute while all others wait.
//!
//! A step that may touch any key (FLUSHALL, a script that calls it) holds it exclusively. Steps
//! whose keys are known do not: `execute/section.rs`. Each loop holds it shared while it executes
//! the requests of one iteration, which costs two stores; only the loop that wants it exclusively
//! waits. Loops get it exclusively in the order of their requests. After a long exclusive hold all
//! waiting loops execute first, so a loop waits for one script of another loop, however many are
//! queued. A thread that is no loop closes the [`OuterBarrier`] and waits until each loop has
//! released the lock.
//!
//! Invariant: while `is_held` is set and no loop is marked as inside, only the loop that set it
//! executes.
//! Why: docs/decisions/0016, 0082. Tests: at the end of this file.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::yield_now;

use cellar_engine::claim_releases;
use cellar_system::clock::Stopwatch;
use parking_lot::{Condvar, Mutex};

/// Checks of another loop's mark before the thread yields.
const SPINS: u32 = 64;
/// For how long loops may hold the lock exclusively, one after the other, before the waiting loops
/// are admitted. Waking them takes longer than most MSETs.
const UNFAIR_US: u64 = 500;

/// State of a loop: it executes nothing, or holds the lock exclusively.
const OUTSIDE: u8 = 0;
/// It executes.
const INSIDE: u8 = 1;
/// It waits to execute until no loop holds the lock exclusively.
const WAITING: u8 = 2;
/// It waits for the exclusive lock.
const QUEUED: u8 = 3;

/// Why a loop takes the lock exclusively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusiveReason {
    /// A command whose keys are unknown before it runs, or with a key that a blocked client awaits.
    Command,
    /// A script or function that names such a command, or is known to access keys that it does not
    /// declare while other loops use them.
    Script,
    /// A transaction with such a command.
    Transaction,
    /// A script that accessed a key that it did not declare, in a shard of another section.
    UndeclaredKey,
}

impl ExclusiveReason {
    /// All of them, with the names that metrics give them.
    pub const ALL: [(ExclusiveReason, &'static str); 4] = [
        (ExclusiveReason::Command, "command"),
        (ExclusiveReason::Script, "script"),
        (ExclusiveReason::Transaction, "transaction"),
        (ExclusiveReason::UndeclaredKey, "undeclared_key"),
    ];
}

/// State of a loop, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
// SeqCst: see `ExclusiveLock::acquire_shared`.
struct LoopMark(AtomicU8);

/// The exclusive lock of all event loops.
#[derive(Debug)]
pub struct ExclusiveLock {
    marks: Box<[LoopMark]>,
    // SeqCst: see `acquire_shared`.
    is_held: AtomicBool,
    /// How often the lock was held exclusively.
    // Relaxed: written by the exclusive holder; readers want to know whether it moves.
    turns: AtomicU64,
    /// The same by reasons.
    // Relaxed: as above.
    exclusive: [AtomicU64; ExclusiveReason::ALL.len()],
    /// Whether each loop waits for another one's claim, as recorded by itself.
    // Relaxed: it is asked now and then, and decides nothing that is executed.
    claim_waits: Box<[Arc<AtomicBool>]>,
    /// Held by the exclusive loop, with the time since waiting loops were last admitted. Passed to
    /// the longest-waiting loop, unless it was held only for a moment.
    turn: parking_lot::Mutex<Stopwatch>,
    /// The number of loops that sleep until an exclusive hold ends.
    sleeping: Mutex<usize>,
    woken: Condvar,
    /// The outer barrier, closed by threads that are no loops; none if no such threads exist.
    barrier: Option<OuterBarrier>,
}

/// A barrier that stops all loops while another thread changes state that they depend on.
#[derive(Debug)]
struct OuterBarrier {
    marks: Box<[LoopMark]>,
    // SeqCst: as `ExclusiveLock::is_held`.
    is_closed: AtomicBool,
    /// Held by the thread that has closed it; the loops wait for it.
    turn: Mutex<()>,
}

impl OuterBarrier {
    #[inline]
    fn enter(&self, index: usize) {
        // SeqCst: as in `ExclusiveLock::acquire_shared`.
        self.marks[index].0.store(INSIDE, Ordering::SeqCst);
        while self.is_closed.load(Ordering::SeqCst) {
            // Release: as in `leave`.
            self.marks[index].0.store(WAITING, Ordering::Release);
            drop(self.turn.lock());
            self.marks[index].0.store(INSIDE, Ordering::SeqCst);
        }
    }

    #[inline]
    fn leave(&self, index: usize) {
        // Release: a thread that sees the mark cleared sees all that was done in the stay.
        self.marks[index].0.store(OUTSIDE, Ordering::Release);
    }
}

/// A loop's stay inside the exclusive lock.
#[derive(Debug)]
pub struct Pass<'g> {
    exclusive_lock: &'g ExclusiveLock,
    index: usize,
    is_exclusive: Cell<bool>,
    /// Whether a request took more than constant time.
    is_heavy: Cell<bool>,
    /// Whether the lease of this node held when the stay began.
    is_leased: Cell<bool>,
}

impl ExclusiveLock {
    /// Creates a lock for so many event loops.
    #[must_use]
    pub fn new(loops: usize) -> ExclusiveLock {
        ExclusiveLock {
            marks: (0..loops).map(|_| LoopMark::default()).collect(),
            is_held: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            exclusive: Default::default(),
            claim_waits: (0..loops).map(|_| Arc::default()).collect(),
            turn: parking_lot::Mutex::new(Stopwatch::start()),
            sleeping: Mutex::default(),
            woken: Condvar::new(),
            barrier: None,
        }
    }

    /// Creates a lock with an outer barrier, which other threads may close.
    #[must_use]
    pub fn with_barrier(loops: usize) -> ExclusiveLock {
        let barrier = OuterBarrier {
            marks: (0..loops).map(|_| LoopMark::default()).collect(),
            is_closed: AtomicBool::new(false),
            turn: Mutex::default(),
        };
        ExclusiveLock {
            barrier: Some(barrier),
            ..ExclusiveLock::new(loops)
        }
    }

    /// Runs `run`, on a thread that is no loop, while no loop executes; each loop sees its effects
    /// when it next enters.
    ///
    /// # Panics
    /// If the lock was created without the barrier.
    pub fn shut_out<R>(&self, run: impl FnOnce() -> R) -> R {
        let barrier = self
            .barrier
            .as_ref()
            .expect("the lock was created with a barrier");
        let turn = barrier.turn.lock();
        barrier.is_closed.store(true, Ordering::SeqCst);
        wait_until_outside(&barrier.marks);
        let result = run();
        barrier.is_closed.store(false, Ordering::SeqCst);
        drop(turn);
        result
    }

    /// Takes the lock shared for loop `index`; waits while another loop holds it exclusively.
    #[inline]
    #[must_use]
    pub fn enter(&self, index: usize) -> Pass<'_> {
        if let Some(barrier) = &self.barrier {
            barrier.enter(index);
        }
        self.acquire_shared(index);
        Pass {
            exclusive_lock: self,
            index,
            is_exclusive: Cell::new(false),
            is_heavy: Cell::new(false),
            is_leased: Cell::new(true),
        }
    }

    /// How often other threads ended a wait such as loop `index` is in, including waits at the
    /// barrier and for claims; none if it does not wait. While this count moves, a waiting loop is
    /// not stuck by its own doing.
    #[must_use]
    pub fn waits_at(&self, index: usize) -> Option<u64> {
        let waits = |marks: &[LoopMark]| {
            // Relaxed: it is asked now and then, and decides nothing that is executed.
            matches!(marks[index].0.load(Ordering::Relaxed), WAITING | QUEUED)
        };
        let is_at_barrier = || {
            self.barrier
                .as_ref()
                .is_some_and(|barrier| waits(&barrier.marks))
        };
        let at_claim = self.claim_waits[index].load(Ordering::Relaxed);
        // Relaxed: as above.
        let turns = || self.turns.load(Ordering::Relaxed) + claim_releases();
        (at_claim || waits(&self.marks) || is_at_barrier()).then(turns)
    }

    /// Where loop `index` records that it waits for another one's claim.
    #[must_use]
    pub fn claim_mark(&self, index: usize) -> Arc<AtomicBool> {
        Arc::clone(&self.claim_waits[index])
    }

    /// How often the lock was held exclusively for this reason while there were other loops.
    #[must_use]
    pub fn exclusive_sections(&self, reason: ExclusiveReason) -> u64 {
        // Relaxed: as declared.
        self.exclusive[reason as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn acquire_shared(&self, index: usize) {
        if self.marks.len() == 1 {
            return;
        }
        // SeqCst: this store and the load behind it against the store of `is_held` and the loads
        // behind that: at least one of the two sides sees the other.
        self.marks[index].0.store(INSIDE, Ordering::SeqCst);
        if self.is_held.load(Ordering::SeqCst) {
            self.wait_for_shared(index);
        }
    }

    #[cold]
    fn wait_for_shared(&self, index: usize) {
        let mark = &self.marks[index].0;
        loop {
            // SeqCst: this store and the loads of `is_kept_out` against the end of an exclusive
            // hold, which stores `is_held` and then reads the marks: it sees this one, or this loop
            // sees `is_held`.
            mark.store(WAITING, Ordering::SeqCst);
            let is_kept_out =
                || mark.load(Ordering::SeqCst) == WAITING && self.is_held.load(Ordering::SeqCst);
            let mut spins = 0..SPINS;
            while spins.next().is_some() && is_kept_out() {
                spin_loop();
            }
            if is_kept_out() {
                let mut sleeping = self.sleeping.lock();
                *sleeping += 1;
                self.woken.wait_while(&mut sleeping, |_| is_kept_out());
                *sleeping -= 1;
            }
            // An admitted loop is marked as inside, and no loop has held the lock exclusively
            // since. Otherwise it tries as before. SeqCst: as in `acquire_shared`.
            let order = Ordering::SeqCst;
            if mark
                .compare_exchange(WAITING, INSIDE, order, order)
                .is_err()
                || !self.is_held.load(Ordering::SeqCst)
            {
                return;
            }
        }
    }

    #[inline]
    fn release_shared(&self, index: usize) {
        // Release: a thread that sees the mark cleared sees all that was done inside.
        self.marks[index].0.store(OUTSIDE, Ordering::Release);
    }

    /// Wakes all waiting loops, and admits them if the lock was held exclusively for long since the
    /// last admission; the exclusive holder calls it before it passes the lock on.
    #[inline]
    fn admit(&self, since: &mut Stopwatch) {
        // SeqCst: as in `wait_for_shared`. A loop that is not seen has seen that the lock is free.
        let is_waiting = |mark: &LoopMark| mark.0.load(Ordering::SeqCst) == WAITING;
        if self.marks.iter().any(is_waiting) {
            self.let_in_those_who_wait(since);
        }
    }

    #[cold]
    fn let_in_those_who_wait(&self, since: &mut Stopwatch) {
        if since.us() >= UNFAIR_US {
            for mark in &self.marks {
                // SeqCst: as in `wait_for_shared`. A loop that went in by itself is inside already.
                let order = Ordering::SeqCst;
                let _ = mark.0.compare_exchange(WAITING, INSIDE, order, order);
            }
            *since = Stopwatch::start();
        }
        // A loop that finds itself kept out sleeps before this lock is available, and is woken.
        if *self.sleeping.lock() > 0 {
            self.woken.notify_all();
        }
    }
}

fn wait_until_outside(marks: &[LoopMark]) {
    for mark in marks {
        let mut spins = 0;
        while mark.0.load(Ordering::SeqCst) == INSIDE {
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                yield_now();
            }
        }
    }
}

impl Pass<'_> {
    /// Its event loop.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Records that a request of otherwise constant time took long, for a long value or many keys:
    /// its time counts against its connection's share of the iteration.
    #[inline]
    pub fn note_heavy(&self) {
        self.is_heavy.set(true);
    }

    /// Whether that was recorded since the last call.
    #[inline]
    pub fn take_heavy(&self) -> bool {
        self.is_heavy.take()
    }

    /// Records whether the lease of this node is valid at the beginning of the stay.
    #[inline]
    pub fn note_leased(&self, is_leased: bool) {
        self.is_leased.set(is_leased);
    }

    /// Whether it held.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.is_leased.get()
    }

    /// Whether no other loop executes meanwhile: either none exists or this one holds the lock
    /// exclusively.
    #[inline]
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive_lock.marks.len() == 1 || self.is_exclusive.get()
    }

    /// Runs `run` while no other loop executes. Nested calls just run it.
    ///
    /// Cost: nothing with one loop; else a wait for the loops that asked before, and for the other
    /// loops' current executions, at most one iteration of each.
    pub fn exclusively<R>(&self, reason: ExclusiveReason, run: impl FnOnce() -> R) -> R {
        let exclusive_lock = self.exclusive_lock;
        if exclusive_lock.marks.len() == 1 || self.is_exclusive.replace(true) {
            return run();
        }
        // Relaxed: as declared.
        exclusive_lock.exclusive[reason as usize].fetch_add(1, Ordering::Relaxed);
        let mark = &exclusive_lock.marks[self.index].0;
        // Release: as in `release_shared`; a waiting loop is outside.
        mark.store(QUEUED, Ordering::Release);
        let mut turn = exclusive_lock.turn.lock();
        exclusive_lock.is_held.store(true, Ordering::SeqCst);
        wait_until_outside(&exclusive_lock.marks);
        // Relaxed: to other loops OUTSIDE and QUEUED mean the same.
        mark.store(OUTSIDE, Ordering::Relaxed);
        let result = run();
        // Relaxed: as declared.
        exclusive_lock.turns.fetch_add(1, Ordering::Relaxed);
        exclusive_lock.is_held.store(false, Ordering::SeqCst);
        // No other loop holds the lock exclusively before `turn` is passed on. SeqCst: as in
        // `acquire_shared`.
        mark.store(INSIDE, Ordering::SeqCst);
        exclusive_lock.admit(&mut turn);
        drop(turn);
        self.is_exclusive.set(false);
        result
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.exclusive_lock.marks.len() > 1 {
            self.exclusive_lock.release_shared(self.index);
        }
        if let Some(barrier) = &self.exclusive_lock.barrier {
            barrier.leave(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ExclusiveReason::Command;
    use super::*;

    /// Turns of each loop, where loops get in each other's way by chance.
    const TURNS: usize = if cfg!(miri) { 30 } else { 2_000 };

    #[test]
    fn who_is_exclusive_sees_nobody_else_execute() {
        const LOOPS: usize = 4;
        let exclusive_lock = ExclusiveLock::new(LOOPS);
        // Two counts that are equal whenever no loop is between the two additions.
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for index in 0..LOOPS {
                let (exclusive_lock, first, second) = (&exclusive_lock, &first, &second);
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let pass = exclusive_lock.enter(index);
                        first.fetch_add(1, Ordering::Relaxed);
                        spin_loop();
                        second.fetch_add(1, Ordering::Relaxed);
                        if turn % 10 == 0 {
                            pass.exclusively(Command, || {
                                pass.exclusively(Command, || {
                                    let counts = first.load(Ordering::Relaxed);
                                    assert_eq!(counts, second.load(Ordering::Relaxed));
                                });
                            });
                        }
                    }
                });
            }
        });
        assert_eq!(first.into_inner(), (TURNS * LOOPS) as u64);
    }

    /// Waits until loop `index` waits for another one.
    fn until_it_waits(exclusive_lock: &ExclusiveLock, index: usize) {
        while exclusive_lock.waits_at(index).is_none() {
            yield_now();
        }
    }

    #[test]
    fn who_waits_to_execute_is_let_in_before_the_next_is_exclusive() {
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            let exclusive_lock = ExclusiveLock::new(3);
            let order = Mutex::new(Vec::new());
            let note = |name| order.lock().push(name);
            std::thread::scope(|scope| {
                let (exclusive_lock, note) = (&exclusive_lock, &note);
                exclusive_lock.enter(0).exclusively(Command, || {
                    // The loop that wants it exclusively has waited for longer.
                    scope.spawn(move || {
                        exclusive_lock
                            .enter(1)
                            .exclusively(Command, || note("exclusive"))
                    });
                    until_it_waits(exclusive_lock, 1);
                    scope.spawn(move || {
                        let _pass = exclusive_lock.enter(2);
                        note("inside");
                    });
                    until_it_waits(exclusive_lock, 2);
                    // paced: after this long, waiting loops are admitted first.
                    std::thread::sleep(Duration::from_micros(UNFAIR_US));
                });
            });
            assert_eq!(order.into_inner(), ["inside", "exclusive"]);
        }
    }

    /// Waits until a thread of this process sleeps, as the system says it.
    #[cfg(not(miri))]
    fn until_it_sleeps(thread: rustix::thread::Pid) {
        let path = format!("/proc/self/task/{}/stat", thread.as_raw_pid());
        let sleeps = |stat: String| stat.rsplit_once(") ").unwrap().1.starts_with('S');
        while !sleeps(std::fs::read_to_string(&path).unwrap()) {
            yield_now();
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn who_is_exclusive_again_and_again_does_not_keep_another_from_it() {
        let exclusive_lock = ExclusiveLock::new(2);
        let is_over = AtomicBool::new(false);
        let mut since = 0;
        std::thread::scope(|scope| {
            let (exclusive_lock, is_over) = (&exclusive_lock, &is_over);
            let pass = exclusive_lock.enter(0);
            let (tell, told) = std::sync::mpsc::channel();
            scope.spawn(move || {
                let other = exclusive_lock.enter(1);
                tell.send(rustix::thread::gettid()).unwrap();
                while !exclusive_lock.is_held.load(Ordering::Relaxed) {
                    yield_now();
                }
                other.exclusively(Command, || is_over.store(true, Ordering::Relaxed));
            });
            let thread = told.recv().unwrap();
            // A busy machine may suspend it before it has queued.
            pass.exclusively(Command, || until_it_sleeps(thread));
            while !is_over.load(Ordering::Relaxed) {
                // The lock passes to the waiting loop, not to the faster one.
                // paced: the loop holds the lock for as long as a script runs.
                pass.exclusively(Command, || std::thread::sleep(Duration::from_millis(5)));
                since += 1;
            }
        });
        assert!(since < 10, "{since} times");
    }

    #[test]
    fn exclusive_holds_of_others_are_counted() {
        let exclusive_lock = ExclusiveLock::new(2);
        assert_eq!(exclusive_lock.waits_at(1), None);
        std::thread::scope(|scope| {
            let exclusive_lock = &exclusive_lock;
            let pass = exclusive_lock.enter(0);
            pass.exclusively(Command, || ());
            pass.exclusively(Command, || {
                assert_eq!(exclusive_lock.waits_at(0), None);
                scope.spawn(move || drop(exclusive_lock.enter(1)));
                until_it_waits(exclusive_lock, 1);
                assert_eq!(exclusive_lock.waits_at(1), Some(1));
            });
        });
        assert_eq!(
            (exclusive_lock.waits_at(0), exclusive_lock.waits_at(1)),
            (None, None)
        );
    }

    #[test]
    fn loops_at_the_outer_barrier_count_as_waiting() {
        let exclusive_lock = ExclusiveLock::with_barrier(1);
        std::thread::scope(|scope| {
            let exclusive_lock = &exclusive_lock;
            exclusive_lock.shut_out(|| {
                scope.spawn(move || drop(exclusive_lock.enter(0)));
                until_it_waits(exclusive_lock, 0);
            });
        });
        assert_eq!(exclusive_lock.waits_at(0), None);
    }

    #[test]
    fn the_outer_barrier_never_separates_two_steps_of_an_exclusive_hold() {
        for loops in [1, 3] {
            let exclusive_lock = ExclusiveLock::with_barrier(loops);
            let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for index in 0..loops {
                    let (exclusive_lock, first, second) = (&exclusive_lock, &first, &second);
                    scope.spawn(move || {
                        for turn in 0..TURNS {
                            let pass = exclusive_lock.enter(index);
                            first.fetch_add(1, Ordering::Relaxed);
                            if turn % 3 == 0 {
                                // The loop that waits for the exclusive lock is still marked.
                                pass.exclusively(Command, spin_loop);
                            }
                            second.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                for _ in 0..TURNS / 10 {
                    exclusive_lock.shut_out(|| {
                        let counts = first.load(Ordering::Relaxed);
                        assert_eq!(counts, second.load(Ordering::Relaxed));
                    });
                }
            });
            assert_eq!(first.into_inner(), (TURNS * loops) as u64);
        }
    }
}
