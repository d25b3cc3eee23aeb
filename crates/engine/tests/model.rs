//! The engine against a model: random sequences of operations on few keys must be answered as a
//! plain map with the same clock answers them. Under eviction a miss is allowed, a wrong hit is
//! not. Now and then all memory is walked: what the engine accounts for is what lies there.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cellar_engine::{
    Apply, Cache, Change, Config, Counted, Deadline, DeleteOptions, Deleted, Draft, End, Error,
    Handle, Happened, Increment, Instant, Item, Key, Kind, Lookup, ManualClock, Observer,
    SetOptions, Space, Splice, Stored, ValueBytes, When,
};
use proptest::prelude::*;

use crate::support::model::{Entry, Model};

const LEASE_MS: u64 = 3_000;
const START_MS: u64 = 1_000_000;
/// Operations after which memory is walked, and at the end.
const AUDIT_EVERY: usize = if cfg!(miri) { 30 } else { 50 };
/// Drafts and handles that are held at a time.
const HELD_MAX: usize = 3;

/// One random operation; `key` selects one of few keys.
#[derive(Clone, Debug)]
enum Op {
    Get {
        key: u8,
    },
    Set {
        key: u8,
        len: usize,
        flags: u32,
        ttl: Option<u64>,
        when: u8,
        kind: u8,
    },
    /// Reads, and then stores, deletes, gives a deadline or does nothing.
    Update {
        key: u8,
        len: usize,
        kind: u8,
        ttl: Option<u64>,
        what: u8,
    },
    Extend {
        key: u8,
        len: usize,
        front: bool,
    },
    /// Writes two parts over a value and makes it longer.
    Edit {
        key: u8,
        at: usize,
        len: usize,
        more: usize,
    },
    Increment {
        key: u8,
        delta: u64,
        subtract: bool,
        width: bool,
        create: bool,
    },
    Number {
        key: u8,
        number: u64,
    },
    Touch {
        key: u8,
        ttl: Option<u64>,
    },
    Delete {
        key: u8,
        stale: bool,
        empty: bool,
        checked: bool,
    },
    Lookup {
        key: u8,
        touch: Option<u64>,
        vivify: Option<u64>,
        recache: Option<u64>,
        version: bool,
    },
    /// Begins a draft; the oldest of those held is committed or dropped.
    Draft {
        key: u8,
        len: usize,
        commit: bool,
    },
    /// Takes a handle on a value; the oldest of those held is dropped.
    Pin {
        key: u8,
    },
    /// Stores neighbouring keys of their own, with sizes and times to live that differ.
    Burst {
        first: u16,
        keys: u16,
        len: usize,
        ttl: u64,
        jitter: u64,
    },
    Flush {
        delay: u64,
    },
    /// Ends the space of some keys, which lie in a new one from then on.
    Retire,
    FlushMain,
    Advance {
        ms: u64,
    },
    Tick,
}

fn ttl() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        2 => Just(None),
        3 => (1_u64..20_000).prop_map(Some),
        2 => (1_u64..50).prop_map(Some),
        1 => (1_u64..100_000_000_000).prop_map(Some),
        1 => Just(Some(0)),
    ]
}

/// Appends bytes to a value, or cuts a third of it off.
fn cut_or_grow(value: &mut dyn ValueBytes, bytes: &[u8]) {
    let before = value.bytes().len();
    match bytes.first() {
        Some(first) if first % 3 > 0 => {
            value.resize(before + bytes.len());
            value.write(before, bytes);
        }
        _ => value.resize(before - before / 3),
    }
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0_usize..200, 2 => 100_usize..3_000, 1 => 10_000_usize..60_000]
}

fn kind() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0), 1 => 1..4_u8]
}

fn op(keys: u8) -> impl Strategy<Value = Op> {
    let key = move || 0..keys;
    prop_oneof![
        6 => key().prop_map(|key| Op::Get { key }),
        8 => (key(), len(), prop_oneof![Just(0), 0..300_u32, any::<u32>()], ttl(), 0..8_u8, kind())
            .prop_map(|(key, len, flags, ttl, when, kind)| {
                Op::Set { key, len, flags, ttl, when, kind }
            }),
        4 => (key(), len(), kind(), ttl(), 0..6_u8)
            .prop_map(|(key, len, kind, ttl, what)| Op::Update { key, len, kind, ttl, what }),
        2 => (key(), len(), any::<bool>())
            .prop_map(|(key, len, front)| Op::Extend { key, len, front }),
        3 => (key(), len(), len(), prop_oneof![3 => Just(0), 3 => len(), 1 => 0_usize..400_000])
            .prop_map(|(key, at, len, more)| Op::Edit { key, at, len, more }),
        2 => (key(), any::<u64>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(key, delta, subtract, width, create)| {
                Op::Increment { key, delta: delta >> (delta % 64), subtract, width, create }
            }
        ),
        1 => (key(), any::<u64>()).prop_map(|(key, n)| Op::Number { key, number: n >> (n % 64) }),
        2 => (key(), ttl()).prop_map(|(key, ttl)| Op::Touch { key, ttl }),
        3 => (key(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(key, stale, empty, checked)| Op::Delete { key, stale, empty, checked }),
        4 => (key(), prop::option::of(1..9_000_u64), prop::option::of(1..9_000_u64),
              prop::option::of(1..9_000_u64), any::<bool>())
            .prop_map(|(key, touch, vivify, recache, version)| {
                Op::Lookup { key, touch, vivify, recache, version }
            }),
        1 => (key(), 0_usize..100_000, any::<bool>())
            .prop_map(|(key, len, commit)| Op::Draft { key, len, commit }),
        1 => key().prop_map(|key| Op::Pin { key }),
        1 => prop_oneof![
            18 => Just(Op::Tick),
            1 => Just(Op::Retire),
            1 => Just(Op::FlushMain),
            2 => (0..5_000_u64).prop_map(|delay| Op::Flush { delay })
        ],
        2 => prop_oneof![8 => 1..3_000_u64, 1 => 0..20_000_000_u64]
            .prop_map(|ms| Op::Advance { ms }),
    ]
}

/// As [`op`], with many stores on many keys, so that memory is short all the time.
fn storm_op() -> impl Strategy<Value = Op> {
    let ttl = prop_oneof![
        1_u64..100,
        100_u64..30_000,
        1_u64..10_000_000,
        Just(u64::MAX)
    ];
    let keys = if cfg!(miri) { 20 } else { 400_u16 };
    let burst = (
        0..3_000_u16,
        1..keys,
        prop_oneof![0_usize..40, 0_usize..400],
        ttl,
        1..60_000_u64,
    );
    prop_oneof![
        4 => op(200),
        1 => burst.prop_map(|(first, keys, len, ttl, jitter)| {
            Op::Burst { first, keys, len, ttl, jitter }
        }),
    ]
}

/// The key in the cache of a key in the model, whose first byte says in which space it lies.
fn in_space<'k>(cache: &Cache, ended: u32, key: &'k [u8]) -> Key<'k> {
    let (space, key) = match key.split_first() {
        Some((b'@', rest)) => (Space(1 + ended), rest),
        Some((b'#', rest)) => (Space(u32::MAX), rest),
        _ => (Space::MAIN, key),
    };
    cache.key_in(space, key).unwrap()
}

/// The key in the model of a key in the cache.
fn in_model(space: Space, key: &[u8]) -> Vec<u8> {
    let prefix: &[u8] = match space.0 {
        0 => b"",
        u32::MAX => b"#",
        _ => b"@",
    };
    [prefix, key].concat()
}

/// The keys there are, as far as an observer can tell.
#[derive(Default)]
struct Mirror {
    keys: Mutex<HashSet<Vec<u8>>>,
    /// The last change that an operation made. Reclaiming memory goes on after that, and tells of
    /// other items.
    last: Mutex<Option<(Vec<u8>, Happened)>>,
    /// Whether one flush may have been told of several times.
    is_blurred: AtomicBool,
}

impl Observer for Mirror {
    fn is_wanted(&self) -> bool {
        true
    }

    fn changed(&self, key: Key<'_>, happened: Happened, _item: Option<Item<'_>>) {
        let mut keys = self.keys.lock().unwrap();
        let key = in_model(key.space(), key.bytes());
        let was_there = match happened {
            Happened::Created => keys.insert(key.clone()),
            Happened::Stored => {
                // It may have had to leave for its own successor.
                keys.insert(key.clone());
                true
            }
            Happened::Retimed => keys.contains(&key),
            _ => keys.remove(&key),
        };
        let is_blurred = self.is_blurred.load(Ordering::Relaxed);
        assert!(was_there || is_blurred, "{happened:?} of nothing");
        if !matches!(happened, Happened::Expired | Happened::Evicted) {
            *self.last.lock().unwrap() = Some((key, happened));
        }
    }

    fn flushed(&self, space: Option<Space>) {
        let is_in = |key: &Vec<u8>| match space {
            None => true,
            Some(Space::MAIN) => !matches!(key.first(), Some(b'@' | b'#')),
            Some(_) => key.first() == Some(&b'@'),
        };
        self.keys.lock().unwrap().retain(|key| !is_in(key));
    }
}

/// Cache and model side by side, with the versions each has given out.
struct Pair {
    cache: Cache,
    clock: Arc<ManualClock>,
    model: Model,
    /// Last version seen per key: the cache's and the model's.
    seen: std::collections::HashMap<Vec<u8>, (u64, u64)>,
    /// Whether a miss of the cache is allowed where the model hits.
    evicts: bool,
    counter: u64,
    drafts: Vec<(Vec<u8>, Draft)>,
    handles: Vec<(Vec<u8>, Handle)>,
    mirror: Arc<Mirror>,
    /// How often the space of some keys was ended and replaced.
    ended: u32,
}

impl Pair {
    fn new(memory_bytes: usize, evicts: bool) -> Pair {
        let clock = Arc::new(ManualClock::starting_at(Instant(START_MS)));
        let mirror = Arc::new(Mirror::default());
        let config = Config {
            clock: Arc::clone(&clock) as Arc<dyn cellar_engine::Clock>,
            lease_ms: LEASE_MS,
            observer: Some(Arc::clone(&mirror) as Arc<dyn Observer>),
            seed: Some(7),
            shards: Some(if evicts { 1 } else { 2 }),
            ..Config::with_memory(memory_bytes)
        };
        let cache = Cache::new(config).unwrap();
        let model = Model::starting_at(START_MS);
        Pair {
            cache,
            clock,
            model,
            seen: Default::default(),
            evicts,
            counter: 0,
            drafts: Vec::new(),
            handles: Vec::new(),
            mirror,
            ended: 0,
        }
    }

    fn key(number: u8) -> Vec<u8> {
        match number % 16 {
            // A few keys are long enough for the extended header.
            5 => format!("{number:0300}").into_bytes(),
            // Others lie in another space, some of them with the bytes of a key in the main space.
            6 => format!("@{:03}", number - 2).into_bytes(),
            7 => format!("#{number:0300}").into_bytes(),
            8 if number == 8 => Vec::new(),
            9 if number == 9 => b"@".to_vec(),
            _ => format!("{number:03}").into_bytes(),
        }
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        self.counter += 1;
        let counter = self.counter;
        (0..len)
            .map(|place| (counter.wrapping_mul(31).wrapping_add(place as u64)) as u8)
            .collect()
    }

    fn deadline(&self, ttl: Option<u64>) -> (Deadline, Option<u64>) {
        let at = ttl.map(|ttl| self.model.now_ms + ttl);
        (
            at.map_or(Deadline::NEVER, |at| Deadline::at(Instant(at))),
            at,
        )
    }

    /// Where the cache may have evicted, the model follows the cache's miss.
    fn follow_eviction(&mut self, key: &[u8]) {
        if self.evicts {
            let found = self
                .cache
                .facts(in_space(&self.cache, self.ended, key), |_| ())
                .is_some();
            if !found {
                self.model.settle();
                self.model.entries.remove(key);
            }
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Get { key } => self.get(&Pair::key(key)),
            Op::Set {
                key,
                len,
                flags,
                ttl,
                when,
                kind,
            } => {
                let value = self.value(len);
                self.set(&Pair::key(key), &value, flags, ttl, when, kind);
            }
            Op::Update {
                key,
                len,
                kind,
                ttl,
                what,
            } => self.update(&Pair::key(key), len, kind, ttl, what),
            Op::Number { key, number } => {
                let text = number.to_string();
                self.set(&Pair::key(key), text.as_bytes(), 0, None, 0, 0);
            }
            Op::Extend { key, len, front } => self.extend(&Pair::key(key), len, front),
            Op::Edit { key, at, len, more } => self.edit(&Pair::key(key), at, len, more),
            Op::Increment {
                key,
                delta,
                subtract,
                width,
                create,
            } => {
                self.increment(&Pair::key(key), delta, subtract, width, create);
            }
            Op::Touch { key, ttl } => self.touch(&Pair::key(key), ttl),
            Op::Delete {
                key,
                stale,
                empty,
                checked,
            } => self.delete(&Pair::key(key), stale, empty, checked),
            Op::Lookup {
                key,
                touch,
                vivify,
                recache,
                version,
            } => self.lookup(&Pair::key(key), touch, vivify, recache, version),
            Op::Draft { key, len, commit } => self.draft(&Pair::key(key), len, commit),
            Op::Pin { key } => self.pin(&Pair::key(key)),
            Op::Burst {
                first,
                keys,
                len,
                ttl,
                jitter,
            } => self.bursts(first..first + keys, len, ttl, jitter),
            Op::Flush { delay } => self.flush(delay),
            Op::Retire => self.retire(),
            Op::FlushMain => self.flush_main(),
            Op::Advance { ms } => {
                self.clock.advance_ms(ms);
                self.model.now_ms += ms;
            }
            Op::Tick => drop(self.cache.tick()),
        }
    }

    fn retire(&mut self) {
        self.drafts.retain(|(key, _)| key.first() != Some(&b'@'));
        self.cache.retire_space(Space(1 + self.ended));
        self.ended += 1;
        self.model.settle();
        let entries = &mut self.model.entries;
        entries.retain(|key, _| key.first() != Some(&b'@'));
        // Versions order the changes of one shard, and in the next space a key is in another.
        self.seen.retain(|key, _| key.first() != Some(&b'@'));
    }

    fn flush_main(&mut self) {
        self.cache.flush_space(Space::MAIN);
        self.model.settle();
        let entries = &mut self.model.entries;
        entries.retain(|key, _| matches!(key.first(), Some(b'@' | b'#')));
    }

    fn flush(&mut self, delay: u64) {
        let at = self.model.now_ms + delay;
        if delay > 0 && !self.evicts {
            self.mirror.is_blurred.store(true, Ordering::Relaxed);
        }
        self.cache.flush_at(Instant(at));
        self.model.settle();
        self.model.flush_at_ms = Some(at);
    }

    fn get(&mut self, key: &[u8]) {
        self.follow_eviction(key);
        let found = self
            .cache
            .get(in_space(&self.cache, self.ended, key), |item| {
                (
                    item.value.to_vec(),
                    (item.flags, item.kind.0),
                    item.deadline.instant().map(|at| at.0),
                )
            });
        let expected = self.model.live(key).map(|entry| {
            entry.fetched = true;
            let facts = (entry.flags, entry.kind);
            (entry.value.clone(), facts, entry.deadline_ms)
        });
        assert_eq!(found, expected);
    }

    /// The last change that the observer heard of is this.
    fn heard(&self, key: &[u8], happened: Happened) {
        let last = self.mirror.last.lock().unwrap().clone();
        assert_eq!(last, Some((key.to_vec(), happened)));
    }

    fn update(&mut self, key: &[u8], len: usize, kind: u8, ttl: Option<u64>, what: u8) {
        self.follow_eviction(key);
        let value = self.value(len);
        let (deadline, deadline_ms) = self.deadline(ttl);
        let change = match what {
            0 => Change::Keep,
            1 => Change::Remove,
            2 => Change::Retime(deadline),
            5 => Change::Edit {
                more: len,
                deadline,
                apply: Apply(cut_or_grow),
            },
            _ => Change::Store {
                kind: Kind(kind),
                deadline,
                flags: len as u32,
            },
        };
        let mut scratch = b"left over".to_vec();
        let key_in_space = in_space(&self.cache, self.ended, key);
        let seen = self
            .cache
            .update(key_in_space, &mut scratch, |item, scratch| {
                assert!(scratch.is_empty());
                let seen = item.map(|item| (item.value.to_vec(), item.flags, item.kind.0));
                // Half of the stores depend on the old value.
                if what == 3 {
                    scratch.extend(seen.iter().flat_map(|seen| &seen.0));
                    scratch.truncate(100_000);
                }
                scratch.extend(&value);
                (seen, change.clone())
            });
        let version = self.model.next_version();
        if self.evicts && seen == Ok(None) {
            // It may have left for the first value that was decided upon.
            self.model.entries.remove(key);
        }
        let old = self.model.live(key).cloned();
        let expected = old
            .as_ref()
            .map(|old| (old.value.clone(), old.flags, old.kind));
        assert_eq!(seen, Ok(expected));
        if let Some(entry) = self.model.live(key) {
            entry.fetched = true;
        }
        match (change, old) {
            // It is drawn as an operation of its own.
            (Change::Splice { .. }, _) => unreachable!(),
            (Change::Keep, _)
            | (Change::Remove | Change::Retime(_) | Change::Edit { .. }, None) => {}
            (Change::Edit { .. }, Some(old)) => {
                let mut value = old.value;
                cut_or_grow(&mut value, &scratch);
                let (flags, kind) = (old.flags, old.kind);
                self.keep(key, (value, flags, kind), deadline_ms, version);
            }
            (Change::Remove, Some(_)) => {
                self.model.entries.remove(key);
                self.heard(key, Happened::Removed);
            }
            (Change::Retime(_), Some(_)) => {
                self.model.live(key).unwrap().deadline_ms = deadline_ms;
                // The item may have had to leave for its own longer header.
                if !self.evicts {
                    self.heard(key, Happened::Retimed);
                }
            }
            (Change::Store { .. }, _) => {
                self.keep(key, (scratch, len as u32, kind), deadline_ms, version);
            }
        }
    }

    /// Has the model keep a new value.
    fn keep(
        &mut self,
        key: &[u8],
        (value, flags, kind): (Vec<u8>, u32, u8),
        deadline_ms: Option<u64>,
        version: u64,
    ) {
        let entry = Entry {
            value,
            flags,
            kind,
            deadline_ms,
            version,
            ..Entry::default()
        };
        self.model.entries.insert(key.to_vec(), entry);
    }

    fn set(&mut self, key: &[u8], value: &[u8], flags: u32, ttl: Option<u64>, when: u8, kind: u8) {
        self.follow_eviction(key);
        let (deadline, deadline_ms) = self.deadline(ttl);
        let seen = self.seen.get(key).copied().unwrap_or((0, 0));
        let (when, asked, accept_older) = match when {
            0..=3 => (When::Always, None, false),
            4 => (When::Absent, None, false),
            5 => (When::Present, None, false),
            6 => (When::Version(seen.0), Some(seen.1), false),
            _ => (When::Version(seen.0), Some(seen.1), true),
        };
        let options = SetOptions {
            kind: Kind(kind),
            deadline,
            flags,
            when,
            accept_older,
            version: true,
            ..SetOptions::default()
        };
        let outcome = self
            .cache
            .set(in_space(&self.cache, self.ended, key), value, &options)
            .unwrap();
        let version = self.model.next_version();
        let old = self.model.live(key).cloned();
        let mut new = Entry {
            value: value.to_vec(),
            flags,
            kind,
            deadline_ms,
            version,
            ..Entry::default()
        };
        let expected = match (when, &old) {
            (When::Absent, Some(_)) | (When::Present, None) => Stored::NotStored,
            (When::Version(_), None) => Stored::NotFound,
            (When::Version(_), Some(old)) if Some(old.version) != asked => {
                if accept_older && asked.is_some_and(|asked| asked < old.version) {
                    new.stale = true;
                    new.lease_until_ms = old.lease_until_ms;
                    new.deadline_ms = old.deadline_ms;
                    Stored::Done { version: 0 }
                } else {
                    Stored::Exists
                }
            }
            _ => Stored::Done { version: 0 },
        };
        if let Stored::Done { version: real } = outcome {
            assert!(
                matches!(expected, Stored::Done { .. }),
                "{expected:?} for {outcome:?}"
            );
            self.seen.insert(key.to_vec(), (real, version));
            self.model.entries.insert(key.to_vec(), new);
        } else {
            assert_eq!(outcome, expected);
        }
    }

    fn bursts(&mut self, numbers: std::ops::Range<u16>, len: usize, ttl: u64, jitter: u64) {
        for number in numbers {
            let len = len + usize::from(number) * 7 % (len + 1);
            let ttl = (ttl < u64::MAX).then(|| ttl + u64::from(number) * 31 % jitter);
            self.burst(&format!("burst {number}"), len, ttl);
        }
    }

    /// Stores a value, now and then after a read that may miss.
    fn burst(&mut self, key: &str, len: usize, ttl: Option<u64>) {
        let key = key.as_bytes();
        if self.counter.is_multiple_of(3) {
            self.get(key);
        }
        let value = self.value(len);
        let (deadline, deadline_ms) = self.deadline(ttl);
        let options = SetOptions {
            deadline,
            ..SetOptions::default()
        };
        let stored = self
            .cache
            .set(in_space(&self.cache, self.ended, key), &value, &options);
        assert!(matches!(stored, Ok(Stored::Done { .. })), "{stored:?}");
        self.model.live(key);
        let entry = Entry {
            value,
            deadline_ms,
            version: self.model.next_version(),
            ..Entry::default()
        };
        self.model.entries.insert(key.to_vec(), entry);
    }

    fn pin(&mut self, key: &[u8]) {
        self.follow_eviction(key);
        let handle = self
            .cache
            .get_handle(in_space(&self.cache, self.ended, key));
        let entry = self.model.live(key);
        assert_eq!(handle.is_some(), entry.is_some());
        if let (Some(handle), Some(entry)) = (handle, entry) {
            entry.fetched = true;
            self.handles.push((entry.value.clone(), handle));
        }
        for (value, handle) in &self.handles {
            assert!(**handle == **value, "a pinned value has changed");
        }
        if self.handles.len() > HELD_MAX {
            self.handles.remove(0);
        }
    }

    fn draft(&mut self, key: &[u8], len: usize, commit: bool) {
        let value = self.value(len);
        let mut draft = self
            .cache
            .draft(in_space(&self.cache, self.ended, key), len)
            .unwrap();
        draft.value_mut().copy_from_slice(&value);
        self.drafts.push((key.to_vec(), draft));
        if self.drafts.len() > HELD_MAX {
            let (key, draft) = self.drafts.remove(0);
            if commit {
                self.commit(key, draft);
            }
        }
    }

    fn commit(&mut self, key: Vec<u8>, mut draft: Draft) {
        let value = draft.value_mut().to_vec();
        let options = SetOptions {
            version: true,
            ..SetOptions::default()
        };
        let outcome = self.cache.commit(draft, &options).unwrap();
        let Stored::Done { version: real } = outcome else {
            panic!("{outcome:?}")
        };
        self.model.live(&key);
        let version = self.model.next_version();
        self.seen.insert(key.clone(), (real, version));
        let entry = Entry {
            value,
            version,
            ..Entry::default()
        };
        self.model.entries.insert(key, entry);
    }

    fn extend(&mut self, key: &[u8], len: usize, front: bool) {
        self.follow_eviction(key);
        let bytes = self.value(len);
        let end = if front { End::Front } else { End::Back };
        let options = SetOptions {
            version: true,
            ..SetOptions::default()
        };
        let outcome = self.cache.extend(
            in_space(&self.cache, self.ended, key),
            end,
            &bytes,
            &options,
        );
        let version = self.model.next_version();
        let Some(entry) = self.model.live(key) else {
            assert_eq!(outcome, Ok(Stored::NotStored));
            return;
        };
        if entry.kind != 0 {
            assert_eq!(outcome, Ok(Stored::NotStored));
            return;
        }
        if entry.value.len() + len > self.cache.value_bytes_max() {
            assert!(outcome.is_err());
            return;
        }
        if self.evicts && outcome == Ok(Stored::NotStored) {
            self.model.entries.remove(key);
            return;
        }
        let Ok(Stored::Done { version: real }) = outcome else {
            panic!("{outcome:?}")
        };
        if front {
            entry.value.splice(0..0, bytes);
        } else {
            entry.value.extend(bytes);
        }
        (entry.stale, entry.lease_until_ms, entry.version) = (false, 0, version);
        entry.fetched = false;
        self.seen.insert(key.to_vec(), (real, version));
    }

    /// Two parts of `len` bytes are written as far as the value reaches, which is then `more` bytes
    /// longer, or a new string of so many.
    fn edit(&mut self, key: &[u8], at: usize, len: usize, more: usize) {
        self.follow_eviction(key);
        let bytes = self.value(len);
        let mut expected = self.model.live(key).cloned();
        if let Some(entry) = &mut expected {
            entry.fetched = true;
        }
        let mut parts = Vec::new();
        let mut scratch = Vec::new();
        let done = self.cache.update(
            in_space(&self.cache, self.ended, key),
            &mut scratch,
            |item, scratch| {
                let old = item.map_or(0, |item| item.value.len());
                let bytes_min = if more > 0 { old + more } else { 0 };
                let value_bytes = old.max(bytes_min);
                scratch.extend_from_slice(&bytes);
                let cut = |at: usize| Splice {
                    at: at.min(value_bytes),
                    from: 0,
                    len: len.min(value_bytes - at.min(value_bytes)),
                };
                parts = vec![cut(at), cut(old)];
                let change = Change::Splice {
                    parts: parts.clone(),
                    bytes_min,
                    deadline: Deadline::NEVER,
                };
                (value_bytes, change)
            },
        );
        let version = self.model.next_version();
        let old_bytes = expected.as_ref().map_or(0, |entry| entry.value.len());
        let is_too_long = old_bytes + more > self.cache.value_bytes_max();
        assert!(!is_too_long || done.is_err());
        if is_too_long || (self.evicts && done == Err(Error::Busy)) {
            // It was read all the same.
            if let Some(entry) = self.model.live(key) {
                entry.fetched = true;
            }
            return;
        }
        let value_bytes = done.unwrap();
        if expected.is_none() && value_bytes == 0 {
            return;
        }
        // The item may have left for its own successor: then there is a new one.
        let is_new = expected.is_none() || (self.evicts && value_bytes != old_bytes + more);
        let mut entry = expected.filter(|_| !is_new).unwrap_or_default();
        if self.evicts && is_new && value_bytes == 0 {
            self.model.entries.remove(key);
            return;
        }
        entry.value.resize(value_bytes, 0);
        for part in &parts {
            entry.value[part.at..part.at + part.len].copy_from_slice(&bytes[..part.len]);
        }
        (entry.stale, entry.lease_until_ms, entry.version) = (false, 0, version);
        entry.fetched = false;
        self.model.entries.insert(key.to_vec(), entry);
    }

    fn increment(&mut self, key: &[u8], delta: u64, subtract: bool, width: bool, create: bool) {
        self.follow_eviction(key);
        let (deadline, deadline_ms) = self.deadline(Some(5_000));
        let increment = Increment {
            subtract,
            keep_width: width,
            initial: create.then_some((17, deadline)),
            version: true,
            ..Increment::by(delta)
        };
        let outcome = self
            .cache
            .increment(in_space(&self.cache, self.ended, key), &increment)
            .unwrap();
        let version = self.model.next_version();
        let Some(entry) = self.model.live(key) else {
            if !create {
                assert_eq!(outcome, Counted::NotFound);
                return;
            }
            let Counted::Number {
                number: 17,
                version: real,
                created: true,
                ..
            } = outcome
            else {
                panic!("{outcome:?}")
            };
            let value = b"17".to_vec();
            let entry = Entry {
                value,
                deadline_ms,
                version,
                ..Entry::default()
            };
            self.model.entries.insert(key.to_vec(), entry);
            self.seen.insert(key.to_vec(), (real, version));
            return;
        };
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        let digits = text.trim_end_matches(' ');
        let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let numeric = numeric && entry.kind == 0;
        let Some(old) = digits.parse::<u64>().ok().filter(|_| numeric) else {
            assert_eq!(outcome, Counted::NotANumber);
            return;
        };
        let expected = if subtract {
            old.saturating_sub(delta)
        } else {
            old.wrapping_add(delta)
        };
        let Counted::Number {
            number,
            version: real,
            created: false,
            ..
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(number, expected);
        let mut text = number.to_string();
        if width {
            text = format!("{text:<width$}", width = entry.value.len().min(20));
        }
        (entry.value, entry.version) = (text.into_bytes(), version);
        self.seen.insert(key.to_vec(), (real, version));
    }

    fn touch(&mut self, key: &[u8], ttl: Option<u64>) {
        self.follow_eviction(key);
        let (deadline, deadline_ms) = self.deadline(ttl);
        let touched = self
            .cache
            .touch(in_space(&self.cache, self.ended, key), deadline)
            .unwrap();
        let entry = self.model.live(key);
        assert_eq!(touched, entry.is_some());
        if let Some(entry) = entry {
            entry.deadline_ms = deadline_ms;
            entry.fetched = true;
        }
    }

    fn delete(&mut self, key: &[u8], mark_stale: bool, drop_value: bool, checked: bool) {
        self.follow_eviction(key);
        let seen = self.seen.get(key).copied().unwrap_or((0, 0));
        let options = DeleteOptions {
            when_version: checked.then_some(seen.0),
            mark_stale,
            drop_value,
            ..DeleteOptions::default()
        };
        let outcome = self
            .cache
            .delete(in_space(&self.cache, self.ended, key), &options)
            .unwrap();
        let version = self.model.next_version();
        let Some(entry) = self.model.live(key) else {
            assert_eq!(outcome, Deleted::NotFound);
            return;
        };
        if checked && seen.1 != entry.version {
            assert_eq!(outcome, Deleted::Exists);
            return;
        }
        assert_eq!(outcome, Deleted::Done);
        if !mark_stale && !drop_value {
            self.model.entries.remove(key);
            return;
        }
        if drop_value {
            (entry.value, entry.flags, entry.fetched) = (Vec::new(), 0, false);
            (entry.stale, entry.lease_until_ms, entry.kind) = (false, 0, 0);
        }
        if mark_stale {
            (entry.stale, entry.lease_until_ms, entry.version) = (true, 0, version);
        }
    }

    fn lookup(
        &mut self,
        key: &[u8],
        touch: Option<u64>,
        vivify: Option<u64>,
        recache_ms: Option<u64>,
        version: bool,
    ) {
        self.follow_eviction(key);
        let lookup = Lookup {
            touch: touch.map(|ttl| self.deadline(Some(ttl)).0),
            vivify: vivify.map(|ttl| self.deadline(Some(ttl)).0),
            recache_ms,
            version,
            ..Lookup::default()
        };
        let found = self
            .cache
            .lookup(in_space(&self.cache, self.ended, key), &lookup, |found| {
                let item = (found.item.value.to_vec(), found.item.flags);
                (
                    item,
                    found.version,
                    found.lease,
                    found.created,
                    found.fetched,
                    found.deadline_before,
                )
            });
        let (found, now) = (found.unwrap(), self.model.now_ms);
        if self.model.live(key).is_some_and(|entry| entry.kind != 0) {
            return assert_eq!(found, None, "only strings are looked up");
        }
        if self.evicts && found.as_ref().is_none_or(|found| found.3) {
            // It may have been evicted to make space for itself with a longer header.
            self.model.entries.remove(key);
        }
        let fresh = self.model.next_version();
        if self.model.live(key).is_none() {
            let Some(ttl) = vivify else {
                return assert_eq!(found, None);
            };
            let (item, real, lease, created, fetched, _) = found.expect("a miss is vivified");
            assert_eq!((item, created, fetched), ((Vec::new(), 0), true, false));
            assert!(lease.won && !lease.stale && !lease.taken);
            let entry = Entry::placeholder(now + ttl, fresh, now + LEASE_MS);
            self.model.entries.insert(key.to_vec(), entry);
            if version {
                self.seen.insert(key.to_vec(), (real, fresh));
            }
            return;
        }
        let entry = self.model.live(key).expect("checked above");
        let (item, real, lease, created, fetched, before) = found.expect("the model has it");
        assert_eq!((item, created), ((entry.value.clone(), entry.flags), false));
        assert_eq!(
            (fetched, before.instant().map(|at| at.0)),
            (entry.fetched, entry.deadline_ms)
        );
        let taken = entry.lease_until_ms > now;
        let soon = recache_ms
            .is_some_and(|threshold| entry.deadline_ms.is_some_and(|at| at - now < threshold));
        assert_eq!((lease.taken, lease.stale), (taken, entry.stale));
        let lapsed = entry.lease_until_ms != 0 && vivify.is_some();
        assert_eq!(lease.won, (entry.stale || soon || lapsed) && !taken);
        if lease.won {
            entry.lease_until_ms = now + LEASE_MS;
        }
        if let Some(ttl) = touch {
            entry.deadline_ms = Some(now + ttl);
        }
        entry.fetched = true;
        if version {
            let known = entry.version;
            self.seen.insert(key.to_vec(), (real, known));
        }
    }

    /// Walks all memory and compares it with what the engine believes.
    fn audit(&self) {
        let audit = self.cache.audit().unwrap_or_else(|wrong| panic!("{wrong}"));
        let stats = self.cache.stats();
        // How exact the count is, tests/counting.rs shows.
        let stored = audit.live_items + audit.expired_items;
        assert!((audit.live_items..=stored).contains(&stats.items));
        assert_eq!(stats.free_bytes, audit.free_bytes + audit.held_bytes);
        assert_eq!(stats.index_bytes, audit.index_bytes);
        let lost = audit.expired_bytes + audit.flushed_bytes + audit.hole_bytes;
        let dead = lost + audit.draft_bytes;
        let all = audit.live_bytes + dead + audit.gone_bytes;
        assert_eq!(stats.live_bytes + stats.dead_bytes, all);
        let off = stats.dead_bytes.abs_diff(dead);
        let unsure = audit.unsure_bytes + audit.gone_bytes;
        assert!(off <= unsure, "{stats:?} {audit:?}");
        assert!(self.evicts || stats.evicted == 0, "{stats:?}");
    }

    /// Whether the observer knows of the item, as far as that can be told.
    fn is_heard(&self, heard: &HashSet<Vec<u8>>, key: &[u8]) -> bool {
        heard.contains(key) || self.mirror.is_blurred.load(Ordering::Relaxed)
    }

    /// Compares everything that is left.
    fn check_all(&mut self) {
        self.model.settle();
        let mut listed = std::collections::HashMap::new();
        let mut cursor = Some(cellar_engine::ScanCursor::START);
        while let Some(at) = cursor {
            cursor = self.cache.keys(at, |facts| {
                let key = in_model(facts.space, facts.key);
                listed.insert(key, (facts.value_bytes, facts.flags, facts.kind.0));
            });
        }
        let heard = self.mirror.keys.lock().unwrap().clone();
        if !self.mirror.is_blurred.load(Ordering::Relaxed) {
            assert!(listed.keys().all(|key| heard.contains(key)));
        }
        for (key, entry) in &self.model.entries {
            assert_eq!(
                self.is_heard(&heard, key),
                listed.contains_key(key),
                "{key:?}"
            );
            match listed.remove(key) {
                Some(facts) => assert_eq!(facts, (entry.value.len(), entry.flags, entry.kind)),
                None => assert!(self.evicts, "a key is missing"),
            }
        }
        assert!(
            listed.is_empty(),
            "keys that should not be there: {listed:?}"
        );
    }
}

fn check(ops: &[Op], memory_bytes: usize, evicts: bool) {
    let mut pair = Pair::new(memory_bytes, evicts);
    for (number, op) in ops.iter().enumerate() {
        pair.run(op);
        if number % AUDIT_EVERY == 0 {
            pair.audit();
        }
    }
    pair.audit();
    pair.check_all();
    pair.drafts.clear();
    pair.handles.clear();
    pair.audit();
}

const OPS: usize = if cfg!(miri) { 60 } else { 1_000 };
const CASES: u32 = if cfg!(miri) { 2 } else { 32 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn without_pressure_the_cache_is_a_map_with_deadlines(
        ops in prop::collection::vec(op(40), 1..OPS)
    ) {
        check(&ops, 64 << 20, false);
    }

    #[test]
    fn under_pressure_the_cache_only_forgets(ops in prop::collection::vec(op(200), 1..OPS)) {
        check(&ops, 1 << 20, true);
    }

    #[test]
    fn in_a_storm_of_stores_the_cache_only_forgets(
        ops in prop::collection::vec(storm_op(), 1..OPS)
    ) {
        check(&ops, 1 << 20, true);
    }
}

#[test]
fn a_version_from_a_space_that_is_retired_is_not_compared() {
    let set = |when| Op::Set {
        key: 9,
        len: 100,
        flags: 0,
        ttl: None,
        when,
        kind: 0,
    };
    let update = Op::Update {
        key: 9,
        len: 200,
        kind: 0,
        ttl: None,
        what: 5,
    };
    check(&[set(0), Op::Retire, update, set(7)], 64 << 20, false);
}
