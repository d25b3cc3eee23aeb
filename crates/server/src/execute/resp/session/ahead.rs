//! Ahead: what is done for a command before it runs, a piece in each turn of its connection.
//!
//! A command that stores a long value where the cache is full would hold its loop while others
//! leave for it. Instead it says so and ends, with nothing changed and nothing answered; its bytes
//! wait. In each of the next turns room is made, or a piece of a value copied that is at hand.
//! Then it is run as if it came now, with what was made for it. What cannot be had it does without,
//! and what it needs a third time: then it is one step.
//!
//! Invariant: what was made is stored, or given back when the command has run or its client has
//! gone.
//! Why: docs/decisions/0059. Tests: tests/room_ahead.rs.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use cellar_engine::{Cache, Draft, Error, Handle, Key, Provision, Reserved, Space, Way};
use cellar_values::hyperloglog::ElementHash;

use crate::execute::resp::arguments::Arguments;

/// Values from this length on are made ahead.
pub(in crate::execute::resp) const AHEAD_BYTES_MIN: usize = 256 << 10;
/// Bytes that one turn copies.
pub(in crate::execute::resp) const PIECE_BYTES: usize = 2 << 20;
/// How often one command may ask.
const ASKED_MAX: u32 = 3;

/// Where a value is that will be stored.
#[derive(Debug)]
pub(in crate::execute::resp) enum ValueOrigin {
    /// It is an argument of the command.
    Argument(usize),
    /// It is in the cache.
    Pinned(Handle),
}

impl ValueOrigin {
    fn is(&self, other: &ValueOrigin) -> bool {
        match (self, other) {
            (ValueOrigin::Argument(one), ValueOrigin::Argument(other)) => one == other,
            // Pinned bytes do not change, so the same place has the same value.
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
pub(in crate::execute::resp) struct LongValue {
    key: Box<[u8]>,
    space: Space,
    origin: ValueOrigin,
    value_bytes: usize,
    /// Bytes that were copied.
    done: usize,
    /// None before anything was done, and if no room can be had.
    room: Option<Reserved>,
    is_over: bool,
}

impl LongValue {
    /// A value for a key, of which nothing is done yet.
    pub(in crate::execute::resp) fn of(
        key: Key<'_>,
        value_bytes: usize,
        origin: ValueOrigin,
    ) -> Self {
        LongValue {
            key: key.bytes().into(),
            space: key.space(),
            origin,
            value_bytes,
            done: 0,
            room: None,
            is_over: false,
        }
    }

    /// Makes room, or copies some bytes.
    fn step(&mut self, args: &[&[u8]], cache: &Cache) {
        match self.room.take() {
            None => {
                let key = cache.key_in(self.space, &self.key);
                let room = key.and_then(|key| cache.try_reserve(key, self.value_bytes));
                self.keep(room);
            }
            Some(Reserved::More(reservation)) => self.keep(cache.go_on(reservation)),
            Some(Reserved::Draft(mut draft)) => {
                let value = self.origin.bytes(args);
                let end = value.len().min(self.done + PIECE_BYTES);
                draft.value_mut()[self.done..end].copy_from_slice(&value[self.done..end]);
                self.done = end;
                self.is_over = end == value.len();
                self.room = Some(Reserved::Draft(draft));
            }
        }
    }

    fn keep(&mut self, room: Result<Reserved, Error>) {
        self.is_over = room.is_err();
        self.room = room.ok();
    }
}

/// One thing that is done ahead.
#[derive(Debug)]
enum Chore {
    /// Room for what a command will make of the value of a key; none if it cannot be had.
    Room(Box<[u8]>, Space, Option<Box<Provision>>),
    Value(Box<LongValue>),
    /// Room for short values.
    Way(Way),
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

/// Bytes of elements that one turn hashes.
const HASHED_BYTES: usize = 8 << 20;

/// The rows of a HyperLogLog that arguments raise, as far as they are hashed.
#[derive(Debug)]
struct ElementRows {
    /// The argument that comes next, and what is hashed of it.
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

impl Chore {
    fn is_over(&self) -> bool {
        match self {
            Chore::Room(_, _, provision) => provision.as_ref().is_none_or(|some| some.is_whole()),
            Chore::Value(value) => value.is_over,
            Chore::Way(way) => way.is_clear(),
            Chore::Arguments(kept) => kept.is_over,
            Chore::Rows(rows) => rows.is_over,
        }
    }

    /// Whether it is room for another key's value.
    fn is_room_beside(&self, key: Key<'_>) -> bool {
        match self {
            Chore::Room(name, space, Some(_)) => **name != *key.bytes() || *space != key.space(),
            _ => false,
        }
    }

    fn step(&mut self, args: &[&[u8]], cache: &Cache) {
        match self {
            Chore::Room(_, _, provision) => {
                let step = provision.as_mut().map(|some| cache.provide_more(some));
                if let Some(Err(_)) = step {
                    *provision = None;
                }
            }
            Chore::Value(value) => value.step(args, cache),
            Chore::Way(way) => cache.clear_way(way),
            Chore::Arguments(kept) => kept.step(args),
            Chore::Rows(rows) => rows.step(args),
        }
    }

    /// Bytes of the cache's memory that it holds.
    fn received_bytes(&self) -> usize {
        match self {
            Chore::Room(_, _, provision) => provision.as_ref().map_or(0, |some| some.value_bytes()),
            Chore::Value(value) => value.room.as_ref().map_or(0, |_| value.value_bytes),
            Chore::Way(_) | Chore::Arguments(_) | Chore::Rows(_) => 0,
        }
    }
}

/// What is done ahead for a client's command.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Foresight {
    /// Whether its commands may wait: whoever runs them runs them again.
    is_open: bool,
    /// Whether this one may no longer: it has changed something.
    is_begun: Cell<bool>,
    /// How often this one has asked.
    asked: Cell<u32>,
    chores: RefCell<Vec<Chore>>,
}

impl Foresight {
    /// For whoever runs a command again that ends without an answer.
    pub(in crate::execute::resp) fn open() -> Foresight {
        Foresight {
            is_open: true,
            ..Foresight::default()
        }
    }

    /// Whether the command may still ask for something.
    pub(in crate::execute::resp) fn may_ask(&self) -> bool {
        self.is_open && !self.is_begun.get() && self.asked.get() < ASKED_MAX
    }

    /// Whether the command that runs has run before.
    pub(in crate::execute::resp) fn is_again(&self) -> bool {
        self.asked.get() > 0
    }

    /// Notes that the command has changed something, and ends in this step.
    pub(in crate::execute::resp) fn note_begun(&self) {
        self.is_begun.set(true);
    }

    /// Asks for room for a value of a key of so many bytes; whether there may be some.
    pub(in crate::execute::resp) fn ask_room(
        &self,
        key: Key<'_>,
        bytes: usize,
        cache: &Cache,
    ) -> bool {
        let Ok(provision) = cache.provide(key, bytes) else {
            self.asked.set(ASKED_MAX);
            return false;
        };
        let chore = Chore::Room(key.bytes().into(), key.space(), Some(Box::new(provision)));
        let mut chores = self.chores.take();
        chores.retain(|chore| chore.is_room_beside(key));
        self.ask(chores.into_iter().chain([chore]));
        true
    }

    /// Asks for values to be brought to where they will be stored, and for room for short ones.
    pub(in crate::execute::resp) fn ask_values(
        &self,
        values: impl IntoIterator<Item = LongValue>,
        way: Option<Way>,
    ) {
        let values = values.into_iter();
        let values = values.map(|value| Chore::Value(Box::new(value)));
        self.ask(values.chain(way.map(Chore::Way)));
    }

    /// Asks for a copy of these arguments.
    pub(in crate::execute::resp) fn ask_arguments(&self, places: Range<usize>) {
        self.ask([Chore::Arguments(Box::new(KeptArguments {
            args: Arguments::default(),
            places,
            from: 0,
            is_over: false,
        }))]);
    }

    /// Asks for the rows that the arguments from one on raise in a HyperLogLog.
    pub(in crate::execute::resp) fn ask_rows(&self, next: usize) {
        self.ask([Chore::Rows(Box::new(ElementRows {
            next,
            hash: None,
            rows: Vec::new(),
            is_over: false,
        }))]);
    }

    fn ask(&self, chores: impl IntoIterator<Item = Chore>) {
        self.asked.set(self.asked.get() + 1);
        // What was made before and not used is of no use any more.
        let mut all = self.chores.borrow_mut();
        all.clear();
        all.extend(chores);
    }

    /// The room that was made for a key.
    pub(in crate::execute::resp) fn take_room(&self, key: Key<'_>) -> Option<Provision> {
        let mut chores = self.chores.borrow_mut();
        chores.iter_mut().find_map(|chore| match chore {
            Chore::Room(name, space, provision)
                if **name == *key.bytes() && *space == key.space() =>
            {
                provision.take().map(|some| *some)
            }
            _ => None,
        })
    }

    /// A value that was made for a key: where it will be stored.
    pub(in crate::execute::resp) fn take_value(
        &self,
        key: Key<'_>,
        origin: &ValueOrigin,
    ) -> Option<Draft> {
        let mut chores = self.chores.borrow_mut();
        chores.iter_mut().find_map(|chore| match chore {
            Chore::Value(value)
                if *value.key == *key.bytes()
                    && value.space == key.space()
                    && value.origin.is(origin) =>
            {
                match value.room.take() {
                    Some(Reserved::Draft(draft)) => Some(draft),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// The copy of the arguments.
    pub(in crate::execute::resp) fn take_arguments(&self) -> Option<Arguments> {
        let mut chores = self.chores.borrow_mut();
        chores.iter_mut().find_map(|chore| match chore {
            Chore::Arguments(kept) => Some(std::mem::take(&mut kept.args)),
            _ => None,
        })
    }

    /// The rows that arguments raise.
    pub(in crate::execute::resp) fn take_rows(&self) -> Option<Vec<(usize, u8)>> {
        let mut chores = self.chores.borrow_mut();
        chores.iter_mut().find_map(|chore| match chore {
            Chore::Rows(rows) => Some(std::mem::take(&mut rows.rows)),
            _ => None,
        })
    }

    /// Whether something is being done before the command runs.
    #[inline]
    pub(in crate::execute::resp) fn is_under_way(&self) -> bool {
        self.asked.get() > 0 && !self.chores.borrow().iter().all(Chore::is_over)
    }

    /// Does a piece of it for the command with these arguments; whether more is left.
    pub(in crate::execute::resp) fn step(&mut self, args: &[&[u8]], cache: &Cache) -> bool {
        let mut chores = self.chores.borrow_mut();
        if let Some(chore) = chores.iter_mut().find(|chore| !chore.is_over()) {
            chore.step(args, cache);
        }
        !chores.iter().all(Chore::is_over)
    }

    /// Does a piece of it for work in steps, which has no arguments any more; whether it did.
    pub(in crate::execute::resp) fn make(&mut self, cache: &Cache) -> bool {
        let is_under_way = self.is_under_way();
        if is_under_way {
            self.step(&[], cache);
        }
        is_under_way
    }

    /// Forgets it: the command has run, or will not.
    #[inline]
    pub(in crate::execute::resp) fn end(&mut self) {
        if self.asked.get() > 0 || self.is_begun.get() {
            self.asked.set(0);
            self.is_begun.set(false);
            self.chores.get_mut().clear();
        }
    }

    /// Bytes of the cache's memory that it holds.
    pub(in crate::execute::resp) fn received_bytes(&self) -> usize {
        if self.asked.get() == 0 {
            return 0;
        }
        let chores = self.chores.borrow();
        chores.iter().map(Chore::received_bytes).sum()
    }

    /// Bytes of other memory that it holds.
    pub(in crate::execute::resp) fn held_bytes(&self) -> usize {
        if self.asked.get() == 0 {
            return 0;
        }
        let chores = self.chores.borrow();
        let bytes = |chore: &Chore| match chore {
            Chore::Arguments(kept) => kept.args.bytes(),
            _ => 0,
        };
        chores.iter().map(bytes).sum()
    }
}
