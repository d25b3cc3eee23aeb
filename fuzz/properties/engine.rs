//! The engine's property: whatever is done to it, a read finds nothing or what was stored last, and
//! what the engine accounts for is what lies in its memory.
//!
//! The input's bytes are operations with their arguments. The model forgets what the cache missed:
//! it must not come back.

use std::collections::HashMap;
use std::sync::Arc;

use cellar_engine::{
    Cache, Change, Clock, Config, Counted, Deadline, DeleteOptions, Deleted, Draft, End, Error,
    Handle, Increment, Instant, Key, Kind, Lookup, ManualClock, Observer, ScanCursor, SetOptions,
    Space, Stored,
};

#[path = "engine_parts.rs"]
mod parts;
use parts::{Arguments, ELSEWHERE, Entry, Heard, change, number_in};

/// Operations made from one input.
const OPERATIONS_MAX: usize = 4_000;
/// Drafts and handles that are held at a time.
const HELD_MAX: usize = 4;
const LEASE_MS: u64 = 3_000;
/// Cache and model side by side.
struct Pair {
    cache: Cache,
    clock: Arc<ManualClock>,
    entries: HashMap<Vec<u8>, Entry>,
    flush_at_ms: Option<u64>,
    heard: Arc<Heard>,
    /// Whether one flush may have been told of in several parts.
    is_blurred: bool,
    /// The space of the keys elsewhere.
    elsewhere: Space,
    drafts: Vec<(Vec<u8>, Draft)>,
    handles: Vec<(Vec<u8>, Handle)>,
}

impl Pair {
    fn new(shape: u8) -> Pair {
        let clock = Arc::new(ManualClock::starting_at(Instant(5_000)));
        let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let heard = Arc::new(Heard::default());
        let observer: Arc<dyn Observer> = Arc::<Heard>::clone(&heard);
        let config = Config {
            observer: Some(observer),
            clock: shared,
            seed: Some(u64::from(shape)),
            shards: Some(1 << (shape & 1)),
            lease_ms: LEASE_MS,
            ..Config::with_memory((1 << 20) + (usize::from(shape) << 11))
        };
        Pair {
            cache: Cache::new(config).expect("a valid configuration"),
            clock,
            entries: HashMap::new(),
            flush_at_ms: None,
            heard,
            is_blurred: false,
            elsewhere: Space(1),
            drafts: Vec::new(),
            handles: Vec::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().0
    }

    fn key<'k>(&self, key: &'k [u8]) -> Key<'k> {
        let (space, key) = match key.strip_prefix(&[ELSEWHERE]) {
            Some(key) => (self.elsewhere, key),
            None => (Space::MAIN, key),
        };
        self.cache.key_in(space, key).expect("a valid key")
    }

    fn deadline(&self, ttl_ms: Option<u64>) -> (Deadline, Option<u64>) {
        let at = ttl_ms.map(|ttl_ms| self.now_ms() + ttl_ms);
        (
            at.map_or(Deadline::NEVER, |at| Deadline::at(Instant(at))),
            at,
        )
    }

    /// The model's live entry.
    fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms();
        self.settle();
        let entry = self.entries.get_mut(key)?;
        entry.deadline_ms.is_none_or(|at| at > now).then_some(entry)
    }

    /// Does a delayed flush whose time has come.
    fn settle(&mut self) {
        if self.flush_at_ms.is_some_and(|at| at <= self.now_ms()) {
            self.flush_at_ms = None;
            self.entries.clear();
        }
    }

    fn run(&mut self, arguments: &mut Arguments<'_>) {
        self.settle();
        match arguments.byte() % 36 {
            0..8 => self.set(arguments),
            8..13 => self.get(&arguments.key()),
            13 => self.get_many(arguments),
            14 | 15 => self.delete(arguments),
            16 | 17 => self.touch(arguments),
            18 | 19 => self.increment(arguments),
            20 | 21 => self.extend(arguments),
            22 | 23 => self.lookup(arguments),
            24 => self.begin_draft(arguments),
            25 => self.end_draft(arguments),
            26 => self.pin(arguments),
            27 => self.flush(arguments),
            28 => self.list(),
            29 => drop(self.cache.tick()),
            30 => self.advance(arguments),
            31..34 => self.update(arguments),
            34 => self.end_space(arguments),
            _ => self.audit(),
        }
    }

    fn update(&mut self, arguments: &mut Arguments<'_>) {
        let (key, value, how) = (arguments.key(), arguments.value(), arguments.byte());
        let (deadline, deadline_ms) = self.deadline(arguments.ttl_ms());
        let change = change(how, deadline);
        let now = self.now_ms();
        let entry = self.entries.get(&key);
        let entry = entry.filter(|entry| entry.deadline_ms.is_none_or(|at| at > now));
        let mut scratch = Vec::new();
        let outcome = self
            .cache
            .update(self.key(&key), &mut scratch, |item, scratch| {
                scratch.extend(&value);
                let is_there = item.is_some();
                let is_it = item.is_none_or(|item| entry.is_some_and(|entry| entry.is(&item)));
                assert!(is_it, "a wrong item is shown");
                (is_there, change.clone())
            });
        let is_there = match outcome {
            Ok(is_there) => is_there,
            Err(error) => return self.refused(&error, value.len()),
        };
        match change {
            Change::Store { kind, .. } => {
                let entry = Entry {
                    value,
                    kind,
                    deadline_ms,
                    ..Entry::default()
                };
                self.entries.insert(key, entry);
            }
            Change::Retime(_) if is_there => {
                let entry = self.live_or_over(&key);
                entry.deadline_ms = deadline_ms;
                self.get(&key);
            }
            Change::Keep if is_there => {}
            _ => drop(self.entries.remove(&key)),
        }
    }

    /// Ends a space, or empties one.
    fn end_space(&mut self, arguments: &mut Arguments<'_>) {
        let how = arguments.byte() % 3;
        match how {
            0 => {
                self.drafts
                    .retain(|(key, _)| key.first() != Some(&ELSEWHERE));
                self.cache.retire_space(self.elsewhere);
                self.elsewhere.0 += 1;
            }
            1 => self.cache.flush_space(self.elsewhere),
            _ => self.cache.flush_space(Space::MAIN),
        }
        let is_elsewhere = |key: &Vec<u8>| key.first() == Some(&ELSEWHERE);
        self.entries.retain(|key, _| is_elsewhere(key) != (how < 2));
    }

    fn get(&mut self, key: &[u8]) {
        let now = self.now_ms();
        let entry = self
            .entries
            .get(key)
            .filter(|entry| entry.deadline_ms.is_none_or(|at| at > now));
        let found = self.cache.get(self.key(key), |item| {
            entry.is_some_and(|entry| entry.is(&item))
        });
        match found {
            Some(is_it) => assert!(is_it, "a wrong hit for {}", key.escape_ascii()),
            None => drop(self.entries.remove(key)),
        }
    }

    fn get_many(&mut self, arguments: &mut Arguments<'_>) {
        let names: Vec<Vec<u8>> = (0..arguments.byte() % 70)
            .map(|_| arguments.key())
            .collect();
        let keys: Vec<Key<'_>> = names.iter().map(|name| self.key(name)).collect();
        let now = self.now_ms();
        let mut seen = vec![false; keys.len()];
        let mut missed = Vec::new();
        self.cache.get_many(&keys, None, |place, item| {
            assert!(
                !std::mem::replace(&mut seen[place], true),
                "{place} is told twice"
            );
            let Some(item) = item else {
                missed.push(place);
                return;
            };
            let entry = self
                .entries
                .get(&names[place])
                .expect("a hit for a key without item");
            assert!(entry.is(&item) && entry.deadline_ms.is_none_or(|at| at > now));
        });
        assert!(seen.iter().all(|&seen| seen), "a key is not told");
        missed
            .into_iter()
            .for_each(|place| drop(self.entries.remove(&names[place])));
    }

    fn set(&mut self, arguments: &mut Arguments<'_>) {
        let (key, value) = (arguments.key(), arguments.value());
        let flags = u32::from(arguments.byte() / 8) * 90;
        let (deadline, deadline_ms) = self.deadline(arguments.ttl_ms());
        let options = SetOptions {
            deadline,
            flags,
            ..SetOptions::default()
        };
        match self.cache.set(self.key(&key), &value, &options) {
            Ok(Stored::Done { .. }) => {
                let entry = Entry {
                    value,
                    kind: Kind::STRING,
                    flags,
                    deadline_ms,
                    lease_until_ms: 0,
                };
                self.entries.insert(key, entry);
            }
            Ok(other) => panic!("a set without a condition is {other:?}"),
            Err(error) => self.refused(&error, value.len()),
        }
    }

    /// A store may be refused only if it is too long or others hold the memory.
    fn refused(&self, error: &Error, value_bytes: usize) {
        let max = self.cache.value_bytes_max();
        match error {
            Error::TooLarge { .. } => assert!(value_bytes > max, "{value_bytes} are not too many"),
            Error::Busy => assert!(
                !self.drafts.is_empty() || !self.handles.is_empty(),
                "nobody holds memory, but {value_bytes} bytes find no room: {:?}",
                self.cache.stats()
            ),
            other => panic!("{other}"),
        }
    }

    fn delete(&mut self, arguments: &mut Arguments<'_>) {
        let (key, how) = (arguments.key(), arguments.byte());
        let options = DeleteOptions {
            mark_stale: how % 8 == 1,
            drop_value: how % 8 == 2,
            ..DeleteOptions::default()
        };
        let outcome = self.cache.delete(self.key(&key), &options);
        let entry = self.live(&key);
        match outcome {
            Ok(Deleted::Done) => {
                let entry = entry.expect("only what is there is deleted");
                entry.lease_until_ms = 0;
                if options.drop_value {
                    (entry.value, entry.flags, entry.kind) = (Vec::new(), 0, Kind::STRING);
                }
                if !options.drop_value && !options.mark_stale {
                    self.entries.remove(&key);
                }
            }
            Ok(Deleted::NotFound) => drop(self.entries.remove(&key)),
            Ok(Deleted::Exists) => panic!("no version was asked for"),
            Err(error) => self.refused(&error, 0),
        }
    }

    fn touch(&mut self, arguments: &mut Arguments<'_>) {
        let key = arguments.key();
        let (deadline, deadline_ms) = self.deadline(arguments.ttl_ms());
        match self.cache.touch(self.key(&key), deadline) {
            Ok(true) => {
                let entry = self.live(&key).expect("only what is there is touched");
                entry.deadline_ms = deadline_ms;
                // Making room for a longer header may have pushed the item out.
                self.get(&key);
            }
            Ok(false) => drop(self.entries.remove(&key)),
            Err(error) => self.refused(&error, 0),
        }
    }

    fn increment(&mut self, arguments: &mut Arguments<'_>) {
        let (key, delta, how) = (
            arguments.key(),
            u64::from(arguments.word()),
            arguments.byte(),
        );
        let (deadline, deadline_ms) = self.deadline(arguments.ttl_ms());
        let increment = Increment {
            subtract: how & 1 == 1,
            initial: (how & 2 == 2).then_some((delta, deadline)),
            ..Increment::by(delta << (how >> 2))
        };
        let outcome = self.cache.increment(self.key(&key), &increment);
        let entry = self.live(&key);
        let entry = entry.filter(|entry| entry.kind == Kind::STRING);
        let old = entry.and_then(|entry| number_in(&entry.value));
        let number = match outcome {
            Ok(Counted::Number {
                number, created, ..
            }) if created => {
                assert_eq!(number, delta);
                self.entries.insert(
                    key.clone(),
                    Entry {
                        deadline_ms,
                        ..Entry::default()
                    },
                );
                number
            }
            Ok(Counted::Number { number, .. }) => {
                let old: u64 = old.expect("only a number that is there is changed");
                let (plus, minus) = (
                    old.wrapping_add(increment.delta),
                    old.saturating_sub(increment.delta),
                );
                assert_eq!(number, if increment.subtract { minus } else { plus });
                number
            }
            Ok(Counted::NotFound) => return drop(self.entries.remove(&key)),
            Ok(Counted::NotANumber) => return assert_eq!(old, None),
            Ok(Counted::Exists) => panic!("no version was asked for"),
            Err(error) => return self.refused(&error, 0),
        };
        let entry = self.live_or_over(&key);
        entry.value = number.to_string().into_bytes();
        self.get(&key);
    }

    /// The model's entry, which is there, even if its time is over at once.
    fn live_or_over(&mut self, key: &[u8]) -> &mut Entry {
        self.entries
            .get_mut(key)
            .expect("the entry was there a moment ago")
    }

    fn extend(&mut self, arguments: &mut Arguments<'_>) {
        let (key, bytes) = (arguments.key(), arguments.value());
        let end = if arguments.byte() & 1 == 0 {
            End::Back
        } else {
            End::Front
        };
        let outcome = self
            .cache
            .extend(self.key(&key), end, &bytes, &SetOptions::default());
        let max = self.cache.value_bytes_max();
        let entry = self.live(&key);
        let is_no_string = entry
            .as_ref()
            .is_some_and(|entry| entry.kind != Kind::STRING);
        match outcome {
            Ok(Stored::Done { .. }) => {
                let entry = entry.expect("only what is there is extended");
                let at = if end == End::Back {
                    entry.value.len()
                } else {
                    0
                };
                entry.value.splice(at..at, bytes);
                entry.lease_until_ms = 0;
            }
            Ok(Stored::NotStored) if is_no_string => {}
            Ok(Stored::NotStored) => drop(self.entries.remove(&key)),
            Ok(other) => panic!("an extension without a condition is {other:?}"),
            Err(Error::TooLarge { .. }) => {
                let old_bytes = entry.map_or(0, |entry| entry.value.len());
                assert!(old_bytes + bytes.len() > max);
            }
            Err(error) => assert_eq!(error, Error::Busy),
        }
    }

    fn lookup(&mut self, arguments: &mut Arguments<'_>) {
        let (key, how) = (arguments.key(), arguments.byte());
        let (touch, touch_ms) = self.deadline(arguments.ttl_ms());
        let (vivify, vivify_ms) = self.deadline(arguments.ttl_ms());
        let lookup = Lookup {
            touch: (how & 1 == 1).then_some(touch),
            vivify: (how & 2 == 2).then_some(vivify),
            recache_ms: (how & 4 == 4).then_some(2_000),
            version: how & 8 == 8,
            idle: how & 16 == 16,
            quiet: how & 32 == 32,
            ..Lookup::default()
        };
        let now = self.now_ms();
        let found = self.cache.lookup(self.key(&key), &lookup, |found| {
            (
                found.item.value.to_vec(),
                found.item.flags,
                found.lease,
                found.created,
            )
        });
        match found {
            // Leases are for strings: what holds anything else is left alone.
            Ok(None) if self.is_other_kind(&key) => {}
            Ok(None) => drop(self.entries.remove(&key)),
            Ok(Some((value, _, lease, true))) => {
                assert!(value.is_empty() && lease.won);
                let lease_until_ms = now + LEASE_MS;
                let entry = Entry {
                    deadline_ms: vivify_ms,
                    lease_until_ms,
                    ..Entry::default()
                };
                self.entries.insert(key, entry);
            }
            Ok(Some((value, flags, lease, false))) => {
                let entry = self.live(&key).expect("only what is there is found");
                assert_eq!((value, flags), (entry.value.clone(), entry.flags));
                if lease.won {
                    assert!(entry.lease_until_ms <= now, "two hold one lease");
                    entry.lease_until_ms = now + LEASE_MS;
                }
                if lookup.touch.is_some() {
                    entry.deadline_ms = touch_ms;
                }
            }
            Err(error) => assert_eq!(error, Error::Busy),
        }
    }

    fn is_other_kind(&self, key: &[u8]) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.kind != Kind::STRING)
    }

    fn begin_draft(&mut self, arguments: &mut Arguments<'_>) {
        let (key, value) = (arguments.key(), arguments.value());
        match self.cache.draft(self.key(&key), value.len()) {
            Ok(mut draft) => {
                draft.value_mut().copy_from_slice(&value);
                self.drafts.push((key, draft));
            }
            Err(error) => self.refused(&error, value.len()),
        }
        if self.drafts.len() > HELD_MAX {
            self.drafts.remove(0);
        }
    }

    fn end_draft(&mut self, arguments: &mut Arguments<'_>) {
        let (which, how) = (usize::from(arguments.byte()), arguments.byte());
        let (deadline, deadline_ms) = self.deadline(arguments.ttl_ms());
        if self.drafts.is_empty() {
            return;
        }
        let (key, mut draft) = self.drafts.swap_remove(which % self.drafts.len());
        if how % 4 == 0 {
            return;
        }
        let value = draft.value_mut().to_vec();
        let options = SetOptions {
            deadline,
            ..SetOptions::default()
        };
        match self.cache.commit(draft, &options) {
            Ok(Stored::Done { .. }) => {
                let entry = Entry {
                    value,
                    deadline_ms,
                    ..Entry::default()
                };
                self.entries.insert(key, entry);
            }
            Ok(other) => panic!("a commit without a condition is {other:?}"),
            // After a flush the value is stored anew, and finds no room while it is held itself.
            Err(error) => assert_eq!(error, Error::Busy),
        }
    }

    fn pin(&mut self, arguments: &mut Arguments<'_>) {
        let key = arguments.key();
        if let Some(handle) = self.cache.get_handle(self.key(&key)) {
            let entry = self.live(&key).expect("only what is there is pinned");
            assert!(*handle == *entry.value, "a wrong handle");
            let value = entry.value.clone();
            self.handles.push((value, handle));
        }
        self.check_handles();
        if self.handles.len() > HELD_MAX {
            self.handles.remove(0);
        }
    }

    fn check_handles(&self) {
        for (value, handle) in &self.handles {
            assert!(**handle == **value, "a pinned value has changed");
        }
    }

    fn flush(&mut self, arguments: &mut Arguments<'_>) {
        let delay_ms = match arguments.byte() {
            0..64 => 0,
            fine => u64::from(fine) * 10,
        };
        let at = self.now_ms() + delay_ms;
        self.is_blurred |= delay_ms > 0;
        self.cache.flush_at(Instant(at));
        self.flush_at_ms = Some(at);
        self.settle();
    }

    fn advance(&mut self, arguments: &mut Arguments<'_>) {
        let (class, fine) = (arguments.byte(), u64::from(arguments.byte()));
        self.clock.advance_ms(match class {
            0..160 => fine,
            160..240 => fine * 100,
            240..254 => fine * 60_000,
            _ => fine * 100_000_000,
        });
    }

    fn list(&mut self) {
        let now = self.now_ms();
        let mut cursor = Some(ScanCursor::START);
        while let Some(at) = cursor {
            cursor = self.cache.keys(at, |facts| {
                let name = (facts.space, facts.key.to_vec());
                let is_heard = self.heard.0.lock().expect("no panic").contains(&name);
                assert!(self.is_blurred || is_heard, "unheard of");
                let key = match facts.space {
                    Space::MAIN => facts.key.to_vec(),
                    _ => [&[ELSEWHERE], facts.key].concat(),
                };
                let entry = self
                    .entries
                    .get(&key)
                    .expect("only what is there is listed");
                assert_eq!(
                    (facts.value_bytes, facts.flags, facts.kind),
                    (entry.value.len(), entry.flags, entry.kind)
                );
                assert!(entry.deadline_ms.is_none_or(|at| at > now));
            });
        }
    }

    fn audit(&mut self) {
        self.check_handles();
        let audit = self.cache.audit().unwrap_or_else(|wrong| panic!("{wrong}"));
        let stats = self.cache.stats();
        let over = stats.items.checked_sub(audit.live_items);
        assert!(over.is_some_and(|over| over <= audit.expired_items));
        let lost = audit.expired_bytes + audit.flushed_bytes + audit.hole_bytes;
        let dead = lost + audit.draft_bytes;
        let all = audit.live_bytes + dead + audit.gone_bytes;
        assert_eq!(stats.live_bytes + stats.dead_bytes, all);
        let unsure = audit.unsure_bytes + audit.gone_bytes;
        assert!(stats.dead_bytes.abs_diff(dead) <= unsure);
    }
}

/// Checks the property for one input.
pub(crate) fn check(data: &[u8]) {
    let mut arguments = Arguments(data.iter());
    let mut pair = Pair::new(arguments.byte());
    for _ in 0..OPERATIONS_MAX {
        if arguments.is_used_up() {
            break;
        }
        pair.run(&mut arguments);
    }
    pair.settle();
    pair.audit();
    pair.list();
    pair.drafts.clear();
    pair.handles.clear();
    pair.audit();
}
