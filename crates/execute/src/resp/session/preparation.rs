//! Preparation: work for a command that is done in steps before the command runs.
//!
//! A command that stores a long value into a full cache would block its event loop while other
//! items are evicted. Instead it requests memory and ends, with nothing changed and nothing
//! answered; its bytes stay in the input. In each of the next iterations of the loop, some memory
//! is reclaimed or a piece of a value is copied. Then the command runs again, as if it had come
//! now, with what was prepared. What cannot be prepared it does without. A third request is not
//! granted: then the command does all in one step.
//!
//! Invariant: what was prepared is stored, or released when the command has run or its client has
//! disconnected.
//! Why: docs/decisions/0059. Tests: server/tests/room_ahead.rs.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use cellar_engine::{Cache, Draft, ExtentReservation, Handle, Key, ReclaimPlan, Space};
use cellar_shared::clients::budget::Held;
use cellar_values::hyperloglog::ElementHash;

use crate::resp::arguments::Arguments;

/// Values from this length on are prepared.
pub(in crate::resp) const AHEAD_BYTES_MIN: usize = 256 << 10;
/// Bytes that one iteration copies.
pub(in crate::resp) const PIECE_BYTES: usize = 2 << 20;
/// How often one command may request preparation.
const ASKED_MAX: u32 = 3;

/// Where a value is that will be stored.
#[derive(Debug)]
pub(in crate::resp) enum ValueOrigin {
    /// It is an argument of the command.
    Argument(usize),
    /// It is in the cache.
    Pinned(Handle),
}

impl ValueOrigin {
    fn is(&self, other: &ValueOrigin) -> bool {
        match (self, other) {
            (ValueOrigin::Argument(one), ValueOrigin::Argument(other)) => one == other,
            // Pinned bytes do not change, so the same address has the same value.
            (ValueOrigin::Pinned(one), ValueOrigin::Pinned(other)) => {
                std::ptr::eq(&**one, &**other)
            }
            _ => false,
        }
    }

    fn bytes<'a>(&'a self, args: &[&'a [u8]]) -> &'a [u8] {
        match self {
            ValueOrigin::Argument(place) => args.get(*place).copied().unwrap_or_default(),
            ValueOrigin::Pinned(value) => value,
        }
    }
}

/// A value on its way to where it will be stored.
#[derive(Debug)]
pub(in crate::resp) struct LongValue {
    key: Box<[u8]>,
    space: Space,
    origin: ValueOrigin,
    value_bytes: usize,
    /// None before the first step, and if no memory is available.
    draft: Option<Draft>,
    is_over: bool,
}

impl LongValue {
    /// A value for a key, of which nothing is done yet.
    pub(in crate::resp) fn of(key: Key<'_>, value_bytes: usize, origin: ValueOrigin) -> Self {
        LongValue {
            key: key.bytes().into(),
            space: key.space(),
            origin,
            value_bytes,
            draft: None,
            is_over: false,
        }
    }

    /// Reserves memory, or copies some bytes.
    fn step(&mut self, args: &[&[u8]], cache: &Cache) {
        match &mut self.draft {
            None => {
                let key = cache.key_in(self.space, &self.key);
                let draft = key.and_then(|key| cache.try_reserve(key, self.value_bytes));
                self.is_over = draft.is_err();
                self.draft = draft.ok();
            }
            Some(draft) if !draft.is_reserved() => {
                if draft.extend_reservation(cache).is_err() {
                    self.is_over = true;
                    self.draft = None;
                }
            }
            Some(draft) => {
                let value = self.origin.bytes(args);
                let done = draft.received_bytes();
                let end = value.len().min(done + PIECE_BYTES);
                draft.fill_from(&value[done..end]);
                self.is_over = end == value.len();
            }
        }
    }
}

/// One thing that is done ahead.
#[derive(Debug)]
enum PreparationTask {
    /// Room for what a command will make of the value of a key; none if it cannot be had.
    Room(Box<[u8]>, Space, Option<Box<ExtentReservation>>),
    Value(Box<LongValue>),
    /// Room for short values.
    ReclaimPlan(ReclaimPlan),
    /// The arguments, as they outlive their bytes.
    Arguments(Box<KeptArguments>),
    /// Hashes of the arguments.
    Rows(Box<ElementRows>),
}

/// A copy of some of the arguments, as far as it goes.
#[derive(Debug)]
struct KeptArguments {
    args: Arguments,
    places: Range<usize>,
    from: usize,
    is_over: bool,
}

impl KeptArguments {
    fn step(&mut self, args: &[&[u8]]) {
        let mut left = PIECE_BYTES;
        if self.args.len() == 0 && self.from == 0 {
            let args = args.get(self.places.clone()).unwrap_or_default();
            self.args.reserve(args.iter().map(|arg| arg.len()).sum());
        }
        while let Some(arg) = self.places.clone().next().and_then(|place| args.get(place)) {
            if left == 0 {
                return;
            }
            let end = arg.len().min(self.from + left);
            self.args.append(&arg[self.from..end]);
            left -= end - self.from;
            self.from = end;
            if end == arg.len() {
                self.args.end_one();
                (self.places.start, self.from) = (self.places.start + 1, 0);
            }
        }
        self.is_over = true;
    }
}

/// Bytes of elements that one iteration hashes.
const HASHED_BYTES: usize = 8 << 20;

/// The rows of a HyperLogLog that arguments raise, as far as they are hashed.
#[derive(Debug)]
struct ElementRows {
    /// The next argument, and its hash so far.
    next: usize,
    hash: Option<ElementHash>,
    rows: Vec<(usize, u8)>,
    is_over: bool,
}

impl ElementRows {
    fn step(&mut self, args: &[&[u8]]) {
        let mut left = HASHED_BYTES;
        while let Some(element) = args.get(self.next) {
            let mut hash = self.hash.take().unwrap_or_else(|| ElementHash::of(element));
            left = left.saturating_sub(hash.go_on(element, left));
            if !hash.is_over(element) {
                self.hash = Some(hash);
                return;
            }
            self.rows.push(hash.row(element));
            self.next += 1;
        }
        self.is_over = true;
    }
}

impl PreparationTask {
    fn is_over(&self) -> bool {
        match self {
            PreparationTask::Room(_, _, reservation) => {
                reservation.as_ref().is_none_or(|some| some.is_reserved())
            }
            PreparationTask::Value(value) => value.is_over,
            PreparationTask::ReclaimPlan(plan) => plan.is_done(),
            PreparationTask::Arguments(kept) => kept.is_over,
            PreparationTask::Rows(rows) => rows.is_over,
        }
    }

    /// Whether it is memory for the value of another key.
    fn is_room_beside(&self, key: Key<'_>) -> bool {
        match self {
            PreparationTask::Room(name, space, Some(_)) => {
                **name != *key.bytes() || *space != key.space()
            }
            _ => false,
        }
    }

    fn step(&mut self, args: &[&[u8]], cache: &Cache) {
        match self {
            PreparationTask::Room(_, _, reservation) => {
                let step = reservation.as_mut().map(|some| some.extend(cache));
                if let Some(Err(_)) = step {
                    *reservation = None;
                }
            }
            PreparationTask::Value(value) => value.step(args, cache),
            PreparationTask::ReclaimPlan(plan) => cache.step_reclaim_plan(plan),
            PreparationTask::Arguments(kept) => kept.step(args),
            PreparationTask::Rows(rows) => rows.step(args),
        }
    }

    /// The bytes that it holds, in the cache's memory and outside of it.
    fn held(&self) -> Held {
        let (mut beside, mut cached) = (0, 0);
        match self {
            PreparationTask::Room(_, _, reservation) => {
                cached = reservation.as_ref().map_or(0, |some| some.value_bytes());
            }
            PreparationTask::Value(value) => {
                cached = value.draft.as_ref().map_or(0, Draft::value_bytes);
            }
            PreparationTask::Arguments(kept) => beside = kept.args.bytes(),
            PreparationTask::ReclaimPlan(_) | PreparationTask::Rows(_) => {}
        }
        Held { beside, cached }
    }
}

/// The preparations for a client's command.
#[derive(Debug, Default)]
pub(in crate::resp) struct Preparation {
    /// Whether its commands may wait: the caller has to run them again.
    is_open: bool,
    /// Whether this one may no longer: it has changed something.
    is_begun: Cell<bool>,
    /// How often this one has asked.
    asked: Cell<u32>,
    tasks: RefCell<Vec<PreparationTask>>,
}

impl Preparation {
    /// Creates it for a caller that runs a command again if it ends without a reply.
    pub(in crate::resp) fn open() -> Preparation {
        Preparation {
            is_open: true,
            ..Preparation::default()
        }
    }

    /// Whether the command may still ask for something.
    pub(in crate::resp) fn may_ask(&self) -> bool {
        self.is_open && !self.is_begun.get() && self.asked.get() < ASKED_MAX
    }

    /// Whether the command that runs has run before.
    pub(in crate::resp) fn is_again(&self) -> bool {
        self.asked.get() > 0
    }

    /// Records that the command has changed something, and ends in this step.
    pub(in crate::resp) fn note_begun(&self) {
        self.is_begun.set(true);
    }

    /// Requests memory for a value of a key of so many bytes; returns whether any can be reserved.
    pub(in crate::resp) fn ask_room(&self, key: Key<'_>, bytes: usize, cache: &Cache) -> bool {
        let Ok(reservation) = cache.reserve_extent(key, bytes) else {
            self.asked.set(ASKED_MAX);
            return false;
        };
        let task =
            PreparationTask::Room(key.bytes().into(), key.space(), Some(Box::new(reservation)));
        let mut tasks = self.tasks.take();
        tasks.retain(|task| task.is_room_beside(key));
        self.ask(tasks.into_iter().chain([task]));
        true
    }

    /// Requests that values are copied to their final memory, and memory for short ones.
    pub(in crate::resp) fn ask_values(
        &self,
        values: impl IntoIterator<Item = LongValue>,
        plan: Option<ReclaimPlan>,
    ) {
        let values = values.into_iter();
        let values = values.map(|value| PreparationTask::Value(Box::new(value)));
        self.ask(values.chain(plan.map(PreparationTask::ReclaimPlan)));
    }

    /// Asks for a copy of these arguments.
    pub(in crate::resp) fn ask_arguments(&self, places: Range<usize>) {
        self.ask([PreparationTask::Arguments(Box::new(KeptArguments {
            args: Arguments::default(),
            places,
            from: 0,
            is_over: false,
        }))]);
    }

    /// Asks for the rows that the arguments from one on raise in a HyperLogLog.
    pub(in crate::resp) fn ask_rows(&self, next: usize) {
        self.ask([PreparationTask::Rows(Box::new(ElementRows {
            next,
            hash: None,
            rows: Vec::new(),
            is_over: false,
        }))]);
    }

    fn ask(&self, tasks: impl IntoIterator<Item = PreparationTask>) {
        self.asked.set(self.asked.get() + 1);
        // Preparations that were not used are obsolete.
        let mut all = self.tasks.borrow_mut();
        all.clear();
        all.extend(tasks);
    }

    /// The memory that was reserved for a key.
    pub(in crate::resp) fn take_room(&self, key: Key<'_>) -> Option<ExtentReservation> {
        let mut tasks = self.tasks.borrow_mut();
        tasks.iter_mut().find_map(|task| match task {
            PreparationTask::Room(name, space, reservation)
                if **name == *key.bytes() && *space == key.space() =>
            {
                reservation.take().map(|some| *some)
            }
            _ => None,
        })
    }

    /// A value that was made for a key: where it will be stored.
    pub(in crate::resp) fn take_value(&self, key: Key<'_>, origin: &ValueOrigin) -> Option<Draft> {
        let mut tasks = self.tasks.borrow_mut();
        tasks.iter_mut().find_map(|task| match task {
            PreparationTask::Value(value)
                if *value.key == *key.bytes()
                    && value.space == key.space()
                    && value.origin.is(origin) =>
            {
                value.draft.take_if(|draft| draft.is_complete())
            }
            _ => None,
        })
    }

    /// The copy of the arguments.
    pub(in crate::resp) fn take_arguments(&self) -> Option<Arguments> {
        let mut tasks = self.tasks.borrow_mut();
        tasks.iter_mut().find_map(|task| match task {
            PreparationTask::Arguments(kept) => Some(std::mem::take(&mut kept.args)),
            _ => None,
        })
    }

    /// The rows that arguments raise.
    pub(in crate::resp) fn take_rows(&self) -> Option<Vec<(usize, u8)>> {
        let mut tasks = self.tasks.borrow_mut();
        tasks.iter_mut().find_map(|task| match task {
            PreparationTask::Rows(rows) => Some(std::mem::take(&mut rows.rows)),
            _ => None,
        })
    }

    /// Whether something is being done before the command runs.
    #[inline]
    pub(in crate::resp) fn is_under_way(&self) -> bool {
        self.asked.get() > 0 && !self.tasks.borrow().iter().all(PreparationTask::is_over)
    }

    /// Does a piece of it for the command with these arguments; whether more is left.
    pub(in crate::resp) fn step(&mut self, args: &[&[u8]], cache: &Cache) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.iter_mut().find(|task| !task.is_over()) {
            task.step(args, cache);
        }
        !tasks.iter().all(PreparationTask::is_over)
    }

    /// Does a piece of it for work in steps, which has no arguments any more; whether it did.
    pub(in crate::resp) fn make(&mut self, cache: &Cache) -> bool {
        let is_under_way = self.is_under_way();
        if is_under_way {
            self.step(&[], cache);
        }
        is_under_way
    }

    /// Forgets it: the command has run, or will not.
    #[inline]
    pub(in crate::resp) fn end(&mut self) {
        if self.asked.get() > 0 || self.is_begun.get() {
            self.asked.set(0);
            self.is_begun.set(false);
            self.tasks.get_mut().clear();
        }
    }

    /// The bytes that it holds, in the cache's memory and outside of it.
    #[inline]
    pub(in crate::resp) fn held(&self) -> Held {
        let mut held = Held::default();
        if self.asked.get() > 0 {
            for task in self.tasks.borrow().iter() {
                let of_task = task.held();
                held.beside += of_task.beside;
                held.cached += of_task.cached;
            }
        }
        held
    }
}
