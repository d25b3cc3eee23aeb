//! Gate: how one event loop gets to be the only one that executes.
//!
//! What touches several shards at once and has to look like one step (EXEC, scripts, RENAME, MSET)
//! runs alone: every other loop stands outside its gate meanwhile. A loop is inside while it
//! executes the requests of one turn, which takes two stores; only who wants to be alone waits.
//! A thread that is no loop shuts the [`Door`] in front of the gates: it waits until each loop has
//! ended its stay, whoever was alone in it.
//!
//! Invariant: while `alone` is set and no loop is marked as inside, nobody executes but its setter.
//! Why: docs/decisions/0016. Tests: at the end of this file.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;

/// Looks at another loop's mark before the processor is given away.
const SPINS: u32 = 64;

/// A loop's mark, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
// SeqCst: see `Gates::go_in`.
struct Inside(AtomicBool);

/// The gates of all event loops.
#[derive(Debug)]
pub struct Gates {
    inside: Box<[Inside]>,
    // SeqCst: see `go_in`.
    alone: AtomicBool,
    /// Held by who is alone; the others wait for it.
    turn: Mutex<()>,
    /// What threads shut that are no loops; none if there are no such threads.
    door: Option<Door>,
}

/// What keeps all loops out while a thread that is none changes what they go by.
#[derive(Debug)]
struct Door {
    stays: Box<[Inside]>,
    // SeqCst: as `Gates::alone`.
    is_shut: AtomicBool,
    /// Held by who has shut it; the loops wait for it.
    turn: Mutex<()>,
}

impl Door {
    #[inline]
    fn come_in(&self, index: usize) {
        // SeqCst: as in `Gates::go_in`.
        self.stays[index].0.store(true, Ordering::SeqCst);
        while self.is_shut.load(Ordering::SeqCst) {
            self.leave(index);
            drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
            self.stays[index].0.store(true, Ordering::SeqCst);
        }
    }

    #[inline]
    fn leave(&self, index: usize) {
        // Release: who sees the mark gone sees all that was done in the stay.
        self.stays[index].0.store(false, Ordering::Release);
    }
}

/// A loop's stay inside its gate.
#[derive(Debug)]
pub struct Pass<'g> {
    gates: &'g Gates,
    index: usize,
    is_alone: Cell<bool>,
    /// Whether something was done that does not take constant time.
    is_heavy: Cell<bool>,
    /// Whether the lease of this node held when the stay began.
    is_leased: Cell<bool>,
}

impl Gates {
    /// Gates for so many event loops.
    #[must_use]
    pub fn new(loops: usize) -> Gates {
        Gates {
            inside: (0..loops).map(|_| Inside::default()).collect(),
            alone: AtomicBool::new(false),
            turn: Mutex::default(),
            door: None,
        }
    }

    /// The same with a door in front of them, which other threads may shut.
    #[must_use]
    pub fn with_door(loops: usize) -> Gates {
        let door = Door {
            stays: (0..loops).map(|_| Inside::default()).collect(),
            is_shut: AtomicBool::new(false),
            turn: Mutex::default(),
        };
        Gates {
            door: Some(door),
            ..Gates::new(loops)
        }
    }

    /// Runs `run`, on a thread that is no loop, while no loop executes; what it does is done by
    /// the next stay of each.
    ///
    /// # Panics
    /// If there is no door.
    pub fn shut_out<R>(&self, run: impl FnOnce() -> R) -> R {
        let door = self.door.as_ref().expect("the gates were made with a door");
        let turn = door.turn.lock().unwrap_or_else(PoisonError::into_inner);
        door.is_shut.store(true, Ordering::SeqCst);
        wait_until_outside(&door.stays);
        let result = run();
        door.is_shut.store(false, Ordering::SeqCst);
        drop(turn);
        result
    }

    /// Goes inside with loop `index`; waits while another loop is alone.
    #[inline]
    #[must_use]
    pub fn enter(&self, index: usize) -> Pass<'_> {
        if let Some(door) = &self.door {
            door.come_in(index);
        }
        self.go_in(index);
        Pass {
            gates: self,
            index,
            is_alone: Cell::new(false),
            is_heavy: Cell::new(false),
            is_leased: Cell::new(true),
        }
    }

    #[inline]
    fn go_in(&self, index: usize) {
        if self.inside.len() == 1 {
            return;
        }
        // SeqCst: this store and the load behind it against the store of `alone` and the loads
        // behind that: at least one of the two sides sees the other.
        self.inside[index].0.store(true, Ordering::SeqCst);
        while self.alone.load(Ordering::SeqCst) {
            self.go_out(index);
            drop(self.take_turn());
            self.inside[index].0.store(true, Ordering::SeqCst);
        }
    }

    #[inline]
    fn go_out(&self, index: usize) {
        // Release: who sees the mark gone sees all that was done inside.
        self.inside[index].0.store(false, Ordering::Release);
    }

    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_until_outside(marks: &[Inside]) {
    for inside in marks {
        let mut spins = 0;
        while inside.0.load(Ordering::SeqCst) {
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
    /// Notes that a request of otherwise constant time had much to do, with a long value or with
    /// many keys: its time counts against its connection's share of the turn.
    #[inline]
    pub fn note_heavy(&self) {
        self.is_heavy.set(true);
    }

    /// Whether that was noted since the last look.
    #[inline]
    pub fn take_heavy(&self) -> bool {
        self.is_heavy.take()
    }

    /// Notes whether the lease of this node holds, as the stay begins.
    #[inline]
    pub fn note_leased(&self, is_leased: bool) {
        self.is_leased.set(is_leased);
    }

    /// Whether it held.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.is_leased.get()
    }

    /// Runs `run` while no other loop executes. Inside itself it just runs.
    ///
    /// Cost: nothing with one loop; else a wait for what the other loops are executing, at most
    /// one turn of each.
    pub fn alone<R>(&self, run: impl FnOnce() -> R) -> R {
        let gates = self.gates;
        if gates.inside.len() == 1 || self.is_alone.replace(true) {
            return run();
        }
        gates.go_out(self.index);
        let turn = gates.take_turn();
        gates.alone.store(true, Ordering::SeqCst);
        wait_until_outside(&gates.inside);
        let result = run();
        gates.alone.store(false, Ordering::SeqCst);
        drop(turn);
        self.is_alone.set(false);
        gates.go_in(self.index);
        result
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.gates.inside.len() > 1 {
            self.gates.go_out(self.index);
        }
        if let Some(door) = &self.gates.door {
            door.leave(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn who_is_alone_sees_nobody_else_execute() {
        const LOOPS: usize = 4;
        let gates = Gates::new(LOOPS);
        // Two counts that are equal whenever nobody is between the two additions.
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for index in 0..LOOPS {
                let (gates, first, second) = (&gates, &first, &second);
                scope.spawn(move || {
                    for turn in 0..2_000 {
                        let pass = gates.enter(index);
                        first.fetch_add(1, Ordering::Relaxed);
                        spin_loop();
                        second.fetch_add(1, Ordering::Relaxed);
                        if turn % 10 == 0 {
                            pass.alone(|| {
                                pass.alone(|| {
                                    let counts = first.load(Ordering::Relaxed);
                                    assert_eq!(counts, second.load(Ordering::Relaxed));
                                });
                            });
                        }
                    }
                });
            }
        });
        assert_eq!(first.into_inner(), 2_000 * LOOPS as u64);
    }

    #[test]
    fn who_shuts_the_door_finds_nobody_between_two_steps_of_who_is_alone() {
        for loops in [1, 3] {
            let gates = Gates::with_door(loops);
            let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for index in 0..loops {
                    let (gates, first, second) = (&gates, &first, &second);
                    scope.spawn(move || {
                        for turn in 0..2_000 {
                            let pass = gates.enter(index);
                            first.fetch_add(1, Ordering::Relaxed);
                            if turn % 3 == 0 {
                                // Who waits to be alone has not left.
                                pass.alone(spin_loop);
                            }
                            second.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                for _ in 0..200 {
                    gates.shut_out(|| {
                        let counts = first.load(Ordering::Relaxed);
                        assert_eq!(counts, second.load(Ordering::Relaxed));
                    });
                }
            });
            assert_eq!(first.into_inner(), 2_000 * loops as u64);
        }
    }
}
