//! The public API (stand-in on a map).

use std::collections::HashMap;
use std::sync::{Mutex, Arc};

use crate::clock::{Clock, Deadline, Instant};
use crate::error::Error;
use crate::key::{Hasher, Key, random_seed};
use crate::options::*;

/// Source of handles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinner<'a>(std::marker::PhantomData<&'a ()>);
impl Pinner<'_> {
    pub(crate) fn pin(&self, value: &[u8], flags: u32, deadline: Deadline) -> Handle {
        Handle { value: value.into(), flags, deadline }
    }
}

/// A counted handle on a value; derefs to its bytes.
#[derive(Debug, Clone)]
pub struct Handle { value: Arc<[u8]>, flags: u32, deadline: Deadline }
impl Handle {
    /// The client's opaque flags.
    pub fn flags(&self) -> u32 { self.flags }
    /// When the item goes.
    pub fn deadline(&self) -> Deadline { self.deadline }
}
impl std::ops::Deref for Handle { type Target = [u8]; fn deref(&self) -> &[u8] { &self.value } }

/// Memory for a value that is still being received; stored by [`Cache::commit`], given back when
/// dropped.
#[derive(Debug)]
pub struct Draft { key: Vec<u8>, value: Vec<u8> }
impl Draft {
    /// The value's bytes, to be written by the caller before the commit.
    pub fn value_mut(&mut self) -> &mut [u8] { &mut self.value }
}

#[derive(Clone, Default)]
struct Entry { value: Vec<u8>, flags: u32, deadline: u64, version: u64, stale: bool, token_until: u64, fetched: bool, access: u64 }

struct State { map: HashMap<Vec<u8>, Entry>, version: u64, flush_at: Option<u64>, stats: Stats }

/// A cache.
pub struct Cache { config: Config, hasher: Hasher, state: Mutex<State> }

fn dl(d: Deadline) -> u64 { d.instant().map_or(u64::MAX, |i| i.0) }
fn undl(d: u64) -> Deadline { if d == u64::MAX { Deadline::NEVER } else { Deadline::at(Instant(d)) } }

impl Cache {
    /// Makes a cache.
    /// # Errors
    /// See [`Error`].
    pub fn new(config: Config) -> Result<Cache, Error> {
        let seed = config.seed.unwrap_or_else(random_seed);
        Ok(Cache { config, hasher: Hasher::with_seed(seed), state: Mutex::new(State { map: HashMap::new(), version: 1, flush_at: None, stats: Stats::default() }) })
    }
    /// Hashes a key.
    /// # Errors
    /// [`Error::KeyLength`].
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Error> { self.hasher.key(bytes) }
    /// The present moment of the cache's clock.
    pub fn now(&self) -> Instant { self.config.clock.now() }
    /// The configuration the cache was made with.
    pub fn config(&self) -> &Config { &self.config }
    /// Starts loading the index lines of `key`, to be called some 20 requests ahead. Never blocks.
    pub fn hint_index(&self, _key: Key<'_>) {}
    /// Starts loading the item of `key`, to be called some 10 requests ahead. Never blocks.
    pub fn hint_item(&self, _key: Key<'_>) {}

    fn with<R>(&self, f: impl FnOnce(&mut State, u64) -> R) -> R {
        let now = self.now().0;
        let mut s = self.state.lock().expect("lock");
        if s.flush_at.is_some_and(|t| t <= now) { s.map.clear(); s.flush_at = None; }
        f(&mut s, now)
    }
    fn live<'s>(s: &'s mut State, key: &[u8], now: u64) -> Option<&'s mut Entry> {
        if s.map.get(key).is_some_and(|e| e.deadline <= now) { s.map.remove(key); }
        s.map.get_mut(key)
    }
    /// Reads an item under the shard's lock. `read` must be short and must not call the cache.
    pub fn get<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.with(|s, now| Self::live(s, key.bytes(), now).map(|e| { e.fetched = true; e.access = now; read(Item { value: &e.value, flags: e.flags, deadline: undl(e.deadline), pinner: Pinner(std::marker::PhantomData) }) }))
    }
    /// A counted handle on a value.
    pub fn get_handle(&self, key: Key<'_>) -> Option<Handle> { self.get(key, |i| i.pin()) }
    /// Reads many items, memory prefetched across them; `each` gets the key's position.
    pub fn get_many(&self, keys: &[Key<'_>], mut each: impl FnMut(usize, Option<Item<'_>>)) {
        for (i, k) in keys.iter().enumerate() { if self.get(*k, |item| each(i, Some(item))).is_none() { each(i, None) } }
    }
    /// A read with side effects; `None` is a miss.
    /// # Errors
    /// [`Error::Busy`] if a vivified item finds no memory.
    pub fn lookup<R>(&self, key: Key<'_>, l: &Lookup, read: impl FnOnce(Found<'_>) -> R) -> Result<Option<R>, Error> {
        let lease_ms = self.config.lease_ms;
        self.with(|s, now| {
            s.version += 1;
            let next = s.version;
            let mut created = false;
            if Self::live(s, key.bytes(), now).is_none() {
                let Some(d) = l.vivify else { return Ok(None) };
                created = true;
                s.map.insert(key.bytes().to_vec(), Entry { deadline: dl(d), version: l.new_version.unwrap_or(next), access: now, ..Entry::default() });
            }
            let Some(e) = Self::live(s, key.bytes(), now) else { return Ok(None) };
            let before = (e.deadline, e.fetched, (now - e.access) / 1000);
            let taken = e.token_until > now;
            let lapsed = e.token_until != 0 && e.token_until <= now;
            let wants = created || e.stale || (lapsed && l.vivify.is_some()) || l.recache_ms.is_some_and(|r| e.deadline != u64::MAX && e.deadline - now < r);
            let won = wants && !taken && !l.no_lease;
            if won { e.token_until = now + lease_ms; }
            let lease = Lease { won, stale: e.stale, taken };
            if let Some(t) = l.touch && !created { e.deadline = dl(t); }
            if !l.quiet && !created { e.fetched = true; e.access = now; }
            Ok(Some(read(Found { item: Item { value: &e.value, flags: e.flags, deadline: undl(e.deadline), pinner: Pinner(std::marker::PhantomData) },
                deadline_before: undl(before.0), version: e.version, lease, created, fetched: before.1, idle_s: before.2, stored_bytes: e.value.len() + key.bytes().len() + 5 })))
        })
    }
    /// Stores `value` under `key` if the condition holds.
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Busy`].
    pub fn set(&self, key: Key<'_>, value: &[u8], o: &SetOptions) -> Result<Stored, Error> {
        if value.len() > self.config.value_bytes_max { return Err(Error::TooLarge { bytes: value.len(), max: self.config.value_bytes_max }); }
        self.with(|s, now| {
            s.version += 1;
            let next = s.version;
            let old = Self::live(s, key.bytes(), now).cloned();
            let mut e = Entry { value: value.to_vec(), flags: o.flags, deadline: dl(o.deadline), version: o.new_version.unwrap_or(next), access: now, ..Entry::default() };
            match (o.when, old) {
                (When::Absent, Some(_)) | (When::Present, None) => return Ok(Stored::NotStored),
                (When::Version(_), None) => return Ok(Stored::NotFound),
                (When::Version(v), Some(old)) if v != old.version => {
                    if !(o.accept_older && v < old.version) { return Ok(Stored::Exists); }
                    e.stale = true; e.token_until = old.token_until; e.deadline = old.deadline;
                }
                _ => {}
            }
            let version = e.version;
            s.stats.items_total += 1;
            s.map.insert(key.bytes().to_vec(), e);
            Ok(Stored::Done { version })
        })
    }
    /// Extends an existing value; keeps deadline and flags, clears stale mark and lease.
    /// Conditions `Version` apply; a miss is `NotStored`.
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Busy`].
    pub fn extend(&self, key: Key<'_>, end: End, bytes: &[u8], o: &SetOptions) -> Result<Stored, Error> {
        self.with(|s, now| {
            s.version += 1;
            let next = s.version;
            let Some(e) = Self::live(s, key.bytes(), now) else { return Ok(Stored::NotStored) };
            if let When::Version(v) = o.when && v != e.version { return Ok(Stored::Exists); }
            match end { End::Back => e.value.extend_from_slice(bytes), End::Front => { e.value.splice(0..0, bytes.iter().copied()); } }
            e.version = o.new_version.unwrap_or(next); e.stale = false; e.token_until = 0;
            Ok(Stored::Done { version: e.version })
        })
    }
    /// Counts.
    /// # Errors
    /// [`Error::Busy`].
    pub fn increment(&self, key: Key<'_>, i: &Increment) -> Result<Counted, Error> {
        self.with(|s, now| {
            s.version += 1;
            let next = i.new_version.unwrap_or(s.version);
            let Some(e) = Self::live(s, key.bytes(), now) else {
                let Some((n, d)) = i.initial else { return Ok(Counted::NotFound) };
                s.map.insert(key.bytes().to_vec(), Entry { value: n.to_string().into_bytes(), deadline: dl(d), version: next, access: now, ..Entry::default() });
                return Ok(Counted::Number { number: n, deadline: d, version: next, created: true });
            };
            if i.when_version.is_some_and(|v| v != e.version) { return Ok(Counted::Exists); }
            let Some(n) = std::str::from_utf8(&e.value).ok().and_then(|t| t.trim_end_matches(' ').parse::<u64>().ok()) else { return Ok(Counted::NotANumber) };
            let number = if i.subtract { n.saturating_sub(i.delta) } else { n.wrapping_add(i.delta) };
            let mut text = number.to_string();
            if i.keep_width { while text.len() < e.value.len() { text.push(' '); } }
            e.value = text.into_bytes(); e.version = next;
            if let Some(t) = i.touch { e.deadline = dl(t); }
            Ok(Counted::Number { number, deadline: undl(e.deadline), version: next, created: false })
        })
    }
    /// Gives a live item a new deadline; whether there was one.
    pub fn touch(&self, key: Key<'_>, deadline: Deadline) -> bool {
        self.with(|s, now| Self::live(s, key.bytes(), now).map(|e| { e.deadline = dl(deadline); e.access = now; e.fetched = true; }).is_some())
    }
    /// Deletes an item, or marks it.
    pub fn delete(&self, key: Key<'_>, o: &DeleteOptions) -> Deleted {
        self.with(|s, now| {
            s.version += 1;
            let next = o.new_version.unwrap_or(s.version);
            let Some(e) = Self::live(s, key.bytes(), now) else { return Deleted::NotFound };
            if let Some(v) = o.when_version && v != e.version { return Deleted::Exists; }
            if !o.mark_stale && !o.drop_value { s.map.remove(key.bytes()); return Deleted::Done; }
            if o.drop_value { e.value.clear(); e.flags = 0; e.stale = false; e.token_until = 0; e.fetched = false; e.version = o.new_version.unwrap_or(e.version); }
            if o.mark_stale { e.stale = true; e.token_until = 0; e.version = next; }
            if let Some(t) = o.touch { e.deadline = dl(t); }
            Deleted::Done
        })
    }
    /// Makes every item stored before this call a miss.
    pub fn flush(&self) { self.with(|s, _| s.map.clear()) }
    /// Makes every item stored before `at` a miss from `at` on; replaces an earlier delayed flush.
    pub fn flush_at(&self, at: Instant) { self.with(|s, _| s.flush_at = Some(at.0)) }
    /// Lists a stretch of keys from `cursor`; `None` when the listing is complete. Each call holds a
    /// shard's lock for a bounded number of keys.
    pub fn keys(&self, _cursor: ScanCursor, mut each: impl FnMut(KeyFacts<'_>)) -> Option<ScanCursor> {
        self.with(|s, now| { for (k, e) in &s.map { if e.deadline > now { each(KeyFacts { key: k, value_bytes: e.value.len(), stored_bytes: e.value.len() + k.len() + 5, flags: e.flags, deadline: undl(e.deadline), idle_s: (now - e.access) / 1000, version: e.version, fetched: e.fetched, main: false }) } } });
        None
    }
    /// Facts about one key without counting as a use (meta debug `me`); `None` is a miss.
    pub fn facts<R>(&self, key: Key<'_>, read: impl FnOnce(KeyFacts<'_>) -> R) -> Option<R> {
        self.with(|s, now| Self::live(s, key.bytes(), now).map(|e| read(KeyFacts { key: key.bytes(), value_bytes: e.value.len(), stored_bytes: e.value.len() + 5 + key.bytes().len(), flags: e.flags, deadline: undl(e.deadline), idle_s: (now - e.access) / 1000, version: e.version, fetched: e.fetched, main: false })))
    }
    /// Counts and byte sums.
    pub fn stats(&self) -> Stats { self.with(|s, _| Stats { items: s.map.len() as u64, memory_bytes: self.config.memory_bytes as u64, ..s.stats }) }
    /// A bounded piece of upkeep; to be called about every 100 ms from some thread, and when idle.
    pub fn tick(&self) {}
    /// Memory inside the cache for a value of `value_bytes` that is still being received, so that
    /// large values need no other buffer.
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Busy`].
    pub fn draft(&self, key: Key<'_>, value_bytes: usize) -> Result<Draft, Error> {
        if value_bytes > self.config.value_bytes_max { return Err(Error::TooLarge { bytes: value_bytes, max: self.config.value_bytes_max }); }
        Ok(Draft { key: key.bytes().to_vec(), value: vec![0; value_bytes] })
    }
    /// Stores a received value if the condition holds.
    /// # Errors
    /// [`Error::Busy`].
    pub fn commit(&self, draft: Draft, o: &SetOptions) -> Result<Stored, Error> { let k = self.key(&draft.key)?; self.set(k, &draft.value, o) }
}

#[allow(dead_code, reason = "stand-in")]
fn _unused(c: &dyn Clock) -> Instant { c.now() }
