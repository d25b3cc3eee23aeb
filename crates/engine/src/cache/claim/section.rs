//! Section: the shards that a section of several operations has claimed.
//!
//! A section claims the shards of its keys in the order of their numbers, each once
//! ([`Section::begin`]); other threads wait at these shards and continue at all others. A section
//! that needs a further key may extend its claims: it takes a free shard at once
//! ([`Section::extend`]). It waits for a claimed one only if it cannot restart
//! ([`Section::extend_waiting`]), and only one section at a time may: the extender.
//!
//! There is no deadlock: a thread that waits for a claim holds claims of lower shards only, except
//! for the extender. While there is an extender, a waiting thread releases its claims and restarts,
//! which is invisible, because its section has not begun.
//!
//! Why, with the proof: docs/decisions/0082. Tests: tests/claims.rs, tests/loom.rs.

use std::cell::Cell;
use std::marker::PhantomData;

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Claim, Claimant, Condvar, Intent, Mutex, MutexGuard, lock};

/// Most shards that can be claimed.
pub(crate) const SHARDS_MAX: usize = if cfg!(cellar_loom) { 64 } else { 512 };
/// Looks at a shard that another section has claimed before a section that wants it as well gives
/// up: some microseconds.
const LOOKS: u32 = if cfg!(any(cellar_loom, miri)) { 1 } else { 200 };

/// Shards that can be claimed, by their numbers.
pub(crate) trait Shards {
    /// The data that a shard's mutex guards.
    type Shard;

    /// How many there are.
    fn count(&self) -> usize;

    /// A shard's claim and its mutex.
    fn shard(&self, number: usize) -> (&Claim, &Mutex<Self::Shard>);

    /// Opens a shard, whose mutex is `guard`, to reads without the lock, if it was closed to them.
    fn open(&self, number: usize, guard: &MutexGuard<'_, Self::Shard>);

    /// Which section may wait out of order.
    fn extender(&self) -> &Extender;
}

/// Numbers of shards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardSet([u64; SHARDS_MAX / 64]);

impl ShardSet {
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    #[inline]
    fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The numbers, the lowest first.
    fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(index, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

/// The claims of a section; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Section<'s, S: Shards> {
    shards: &'s S,
    claimant: Claimant,
    intent: Intent,
    claimed: Cell<ShardSet>,
    is_extender: Cell<bool>,
    /// A claim is its thread's.
    thread: PhantomData<*const ()>,
}

#[cfg(all(debug_assertions, not(cellar_loom)))]
thread_local! {
    /// Whether the thread has claims.
    static HAS_CLAIMS: Cell<bool> = const { Cell::new(false) };
}

fn note_claims(_has_claims: bool) {
    #[cfg(all(debug_assertions, not(cellar_loom)))]
    HAS_CLAIMS.set(_has_claims);
}

/// Checks, where that is compiled in, that a thread waits with an operation only if it has no
/// claims: its section would have had to extend these.
pub(super) fn check_has_no_claims() {
    #[cfg(all(debug_assertions, not(cellar_loom)))]
    assert!(!HAS_CLAIMS.get(), "a section keeps to what it has claimed");
}

/// The result of requesting another shard; see [`Claims::extend`](crate::Claims::extend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The section has it.
    Claimed,
    /// Another section has it.
    Busy,
    /// Another section has it, and waits for a shard that this one has.
    Conflict,
}

/// Which section may wait for shards out of order, of a whole cache.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    /// Whether one does.
    // SeqCst: set before parked threads are woken, and read by each before it parks, both under the
    // mutex of its shard.
    is_active: AtomicBool,
    state: Mutex<Extending>,
    ended: Condvar,
}

/// The shared state of sections that want to wait out of order.
#[derive(Debug, Default)]
struct Extending {
    extender: Option<Claimant>,
    /// The shard that the extender waits for.
    wanted: Option<usize>,
    /// Threads with claims that wait until there is no extender.
    waiting: Vec<Claimant>,
}

impl Extender {
    #[inline]
    fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    /// Waits, for a thread without claims, until there is no extender.
    #[cold]
    fn wait(&self) {
        let mut state = lock(&self.state);
        while state.extender.is_some() {
            state = super::wait(&self.ended, state);
        }
    }

    /// Makes a section the extender, as soon as there is no other; whether it is. A section whose
    /// claim the extender waits for may not wait for the extender.
    fn become_it(&self, claimant: Claimant, has: impl Fn(usize) -> bool) -> bool {
        let mut state = lock(&self.state);
        while state.extender.is_some() {
            if state.wanted.is_some_and(&has) {
                return false;
            }
            state.waiting.push(claimant);
            state = super::wait(&self.ended, state);
            state.waiting.retain(|&one| one != claimant);
        }
        state.extender = Some(claimant);
        self.is_active.store(true, Ordering::SeqCst);
        true
    }

    /// Notes which shard the extender waits for; whether it may: not for a section that waits for
    /// the extender itself.
    fn wants(&self, number: usize, claim: &Claim) -> bool {
        let mut state = lock(&self.state);
        let claimant = claim.claimant();
        let may_wait = claimant.is_none_or(|one| !state.waiting.contains(&one));
        state.wanted = may_wait.then_some(number);
        may_wait
    }

    fn end(&self) {
        let mut state = lock(&self.state);
        (state.extender, state.wanted) = (None, None);
        self.is_active.store(false, Ordering::SeqCst);
        self.ended.notify_all();
    }
}

impl<'s, S: Shards> Section<'s, S> {
    /// Claims all of these shards; waits for sections that have claimed some of them.
    pub(crate) fn begin(
        shards: &'s S,
        wanted: ShardSet,
        (claimant, intent): (Claimant, Intent),
    ) -> Section<'s, S> {
        let section = Section {
            shards,
            claimant,
            intent,
            claimed: Cell::default(),
            is_extender: Cell::new(false),
            thread: PhantomData,
        };
        while !section.take_all(wanted) {
            section.release();
            shards.extender().wait();
        }
        section
    }

    /// Claims all these shards, the lowest first; gives up if it would wait with claims while there
    /// is an extender.
    fn take_all(&self, wanted: ShardSet) -> bool {
        let extender = self.shards.extender();
        if extender.is_active() {
            return false;
        }
        let gives_up = || extender.is_active() && !self.claimed.get().is_empty();
        wanted.numbers().all(|number| {
            let (claim, mutex) = self.shards.shard(number);
            let whose = (self.claimant, self.intent);
            let (guard, is_taken) = claim.take(mutex, lock(mutex), whose, gives_up);
            drop(guard);
            if is_taken {
                self.note(number);
            }
            is_taken
        })
    }

    fn note(&self, number: usize) {
        note_claims(true);
        let mut claimed = self.claimed.get();
        claimed.insert(number);
        self.claimed.set(claimed);
    }

    /// Whether a shard is claimed.
    #[inline]
    pub(crate) fn has(&self, number: usize) -> bool {
        self.claimed.get().has(number)
    }

    /// Claims another shard if it is free, or soon becomes free.
    pub(crate) fn extend(&self, number: usize) -> Extended {
        if self.has(number) {
            return Extended::Claimed;
        }
        let (claim, mutex) = self.shards.shard(number);
        for _ in 0..LOOKS {
            // A section that only looks blocks no other thread.
            if !claim.is_held() {
                let guard = lock(mutex);
                let is_taken = claim.try_take(self.claimant, self.intent);
                drop(guard);
                if is_taken {
                    self.note(number);
                    return Extended::Claimed;
                }
            }
            std::hint::spin_loop();
        }
        Extended::Busy
    }

    /// Claims another shard; waits for the section that has it, unless that one waits for this one.
    pub(crate) fn extend_waiting(&self, number: usize) -> Extended {
        if self.extend(number) == Extended::Claimed {
            return Extended::Claimed;
        }
        let extender = self.shards.extender();
        if !self.is_extender.get() {
            if !extender.become_it(self.claimant, |number| self.has(number)) {
                return Extended::Conflict;
            }
            self.is_extender.set(true);
        }
        let (claim, mutex) = self.shards.shard(number);
        while extender.wants(number, claim) {
            self.hurry_others();
            let whose = (self.claimant, self.intent);
            let (guard, is_taken) = claim.take_out_of_order(mutex, lock(mutex), whose);
            drop(guard);
            if is_taken {
                self.note(number);
                return Extended::Claimed;
            }
        }
        Extended::Conflict
    }

    /// Has those give up their claims that wait for others with them: they have not begun.
    fn hurry_others(&self) {
        for number in 0..self.shards.count() {
            let (claim, mutex) = self.shards.shard(number);
            let guard = lock(mutex);
            claim.wake_all();
            drop(guard);
        }
    }

    fn release(&self) {
        for number in self.claimed.take().numbers() {
            let (claim, mutex) = self.shards.shard(number);
            let guard = lock(mutex);
            self.shards.open(number, &guard);
            claim.release();
            drop(guard);
        }
        note_claims(false);
        if self.is_extender.take() {
            self.shards.extender().end();
        }
    }
}

impl<S: Shards> Drop for Section<'_, S> {
    fn drop(&mut self) {
        self.release();
    }
}
