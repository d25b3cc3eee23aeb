//! Script cache: sources of scripts by their digest, shared by all event loops.
//!
//! Bounded by count and bytes. Scripts that came by EVAL are evicted first, least recently used
//! ones before others: a client that gets NOSCRIPT sends the source again. Scripts loaded by SCRIPT
//! LOAD stay until SCRIPT FLUSH as long as they take no more than half of the bounds, so no flood
//! of EVAL evicts them. Evictions take scripts of the user who holds most, so that no user can
//! evict scripts of users who hold less.
//!
//! Each user who has sent a source holds its script, and it counts for each.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rapidhash::RapidHashMap;
use sha1::{Digest as _, Sha1};

use super::any_keys::AnyKeys;

/// Most cached scripts.
pub const SCRIPTS_MAX: usize = 10_000;
/// Most bytes that the kept sources have together.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// Most bytes of one program, a script or a library: to compile these holds an event loop for some
/// milliseconds, the longer the more names and strings it has. The longest scripts of client
/// libraries have about 50 KiB.
pub const PROGRAM_BYTES_MAX: usize = 64 << 10;

/// A script that is used again within this many uses keeps its position in the eviction order.
const USES_KEPT: u64 = 16;

/// The SHA-1 of a source in lower-case hexadecimal.
pub type SourceDigest = [u8; 40];

/// One script.
#[derive(Debug)]
pub struct Script {
    /// The digest of its source.
    pub digest: SourceDigest,
    /// Its program, shebang line included.
    pub source: Box<[u8]>,
    /// Whether it may touch keys that are not known before it runs.
    pub any_keys: AnyKeys,
}

impl Script {
    /// The digest as text.
    ///
    /// # Panics
    /// Never: a digest is written in ASCII.
    #[must_use]
    pub fn name(&self) -> String {
        self.digest.map(char::from).iter().collect()
    }
}

/// The digest of bytes.
#[must_use]
pub(super) fn digest(bytes: &[u8]) -> SourceDigest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digest = [0; 40];
    for (pair, byte) in digest.chunks_exact_mut(2).zip(Sha1::digest(bytes)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digest
}

/// The digest that a client wrote, in any case; none if it cannot be one.
fn digest_of(text: &[u8]) -> Option<SourceDigest> {
    let digest: SourceDigest = text.try_into().ok()?;
    Some(digest.map(|byte| byte.to_ascii_lowercase()))
}

/// All scripts that are known.
#[derive(Debug, Default)]
pub struct Scripts {
    kept: Mutex<Kept>,
}

/// How a source came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// By EVAL.
    Evaluated,
    /// By SCRIPT LOAD.
    Loaded,
}

#[derive(Debug, Default)]
struct Kept {
    by_digest: RapidHashMap<SourceDigest, CachedScript>,
    /// The scripts of each user who has sent a source.
    shelves: HashMap<(Arc<str>, Origin), Shelf>,
    uses: u64,
    /// The totals of all shelves, for scripts that came by EVAL and by SCRIPT LOAD.
    held: [Holding; 2],
    /// Counts the flushes.
    generation: u64,
    /// Counts the scripts that came by EVAL and were evicted.
    evicted: u64,
}

/// How many scripts there are, and the bytes of their sources.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    scripts: usize,
    bytes: usize,
}

/// The scripts that one user holds of one origin.
#[derive(Debug, Default)]
struct Shelf {
    /// Digests by when they were used last.
    by_use: BTreeMap<u64, SourceDigest>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedScript {
    script: Arc<Script>,
    holders: Vec<Holder>,
}

/// A user who holds a script, how it was loaded, and the number of its last use.
#[derive(Debug)]
struct Holder {
    shelf: (Arc<str>, Origin),
    used: u64,
}

impl Scripts {
    /// The script of this source, which is cached for `owner` if it is not too long. `owner` is a
    /// user's name, or empty where there are no users.
    pub fn load(&self, source: &[u8], owner: &str, origin: Origin) -> Arc<Script> {
        let digest = digest(source);
        let mut kept = self.lock();
        let script = kept.find(&digest).unwrap_or_else(|| {
            Arc::new(Script {
                digest,
                source: source.into(),
                any_keys: AnyKeys::of(source),
            })
        });
        kept.keep(&script, owner, origin);
        script
    }

    /// The script that a client means by a digest.
    #[must_use]
    pub fn find(&self, digest: &[u8]) -> Option<Arc<Script>> {
        self.lock().find(&digest_of(digest)?)
    }

    /// Whether a digest is known.
    #[must_use]
    pub fn has(&self, digest: &[u8]) -> bool {
        digest_of(digest).is_some_and(|digest| self.lock().by_digest.contains_key(&digest))
    }

    /// Forgets all.
    pub fn flush(&self) {
        let mut kept = self.lock();
        *kept = Kept {
            generation: kept.generation + 1,
            evicted: kept.evicted,
            ..Kept::default()
        };
    }

    /// How many there are, and the bytes of their sources.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let kept = self.lock();
        (kept.by_digest.len(), kept.total().bytes)
    }

    /// How many scripts that came by EVAL were evicted.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.lock().evicted
    }

    /// A number that changes with each flush.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lock().generation
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, digest: &SourceDigest) -> Option<Arc<Script>> {
        let entry = self.by_digest.get_mut(digest)?;
        for Holder { shelf, used } in &mut entry.holders {
            if self.uses - *used >= USES_KEPT
                && let Some(shelf) = self.shelves.get_mut(shelf)
            {
                shelf.by_use.remove(used);
                self.uses += 1;
                *used = self.uses;
                shelf.by_use.insert(self.uses, *digest);
            }
        }
        Some(Arc::clone(&entry.script))
    }

    fn keep(&mut self, script: &Arc<Script>, owner: &str, origin: Origin) {
        let bytes = script.source.len();
        if bytes > SOURCE_BYTES_MAX {
            return;
        }
        let entry = self.by_digest.entry(script.digest);
        let entry = entry.or_insert_with(|| CachedScript {
            script: Arc::clone(script),
            holders: Vec::new(),
        });
        let mut holders = entry.holders.iter();
        let held = holders.position(|holder| *holder.shelf.0 == *owner);
        if let Some(place) = held {
            let (_, before) = entry.holders[place].shelf;
            if before == origin || before == Origin::Loaded {
                return;
            }
            let holder = entry.holders.swap_remove(place);
            self.take_off(&holder, bytes);
        }
        self.put_on(script, (owner.into(), origin));
        while self.total().scripts > SCRIPTS_MAX || self.total().bytes > SOURCE_BYTES_MAX {
            if !self.drop_one() {
                return;
            }
        }
    }

    fn total(&self) -> Holding {
        let [one, other] = self.held;
        Holding {
            scripts: one.scripts + other.scripts,
            bytes: one.bytes + other.bytes,
        }
    }

    /// Puts a script that is known on a shelf.
    fn put_on(&mut self, script: &Script, shelf: (Arc<str>, Origin)) {
        self.uses += 1;
        let used = self.uses;
        if let Some(entry) = self.by_digest.get_mut(&script.digest) {
            let shelf = shelf.clone();
            entry.holders.push(Holder { shelf, used });
        }
        let bytes = script.source.len();
        let held = &mut self.held[shelf.1 as usize];
        held.scripts += 1;
        held.bytes += bytes;
        let shelf = self.shelves.entry(shelf).or_default();
        shelf.by_use.insert(used, script.digest);
        shelf.bytes += bytes;
    }

    /// Removes a script of this many bytes from the shelf of a holder.
    fn take_off(&mut self, holder: &Holder, bytes: usize) {
        let held = &mut self.held[holder.shelf.1 as usize];
        held.scripts -= 1;
        held.bytes -= bytes;
        if let Some(shelf) = self.shelves.get_mut(&holder.shelf) {
            shelf.by_use.remove(&holder.used);
            shelf.bytes -= bytes;
            if shelf.by_use.is_empty() {
                self.shelves.remove(&holder.shelf);
            }
        }
    }

    /// Evicts the least recently used script of the user who holds most; returns whether there was
    /// one.
    fn drop_one(&mut self) -> bool {
        let loaded = self.held[Origin::Loaded as usize];
        let is_half = loaded.scripts > SCRIPTS_MAX / 2 || loaded.bytes > SOURCE_BYTES_MAX / 2;
        let origin = if is_half {
            Origin::Loaded
        } else {
            Origin::Evaluated
        };
        let is_many = self.total().scripts > SCRIPTS_MAX;
        let size = |shelf: &Shelf| {
            if is_many {
                shelf.by_use.len()
            } else {
                shelf.bytes
            }
        };
        let shelves = self.shelves.iter().filter(|(name, _)| name.1 == origin);
        let most = shelves.max_by_key(|(_, shelf)| size(shelf));
        let Some((&used, digest)) = most.and_then(|(_, shelf)| shelf.by_use.first_key_value())
        else {
            return false;
        };
        let digest = *digest;
        let Some(entry) = self.by_digest.get_mut(&digest) else {
            return false;
        };
        let bytes = entry.script.source.len();
        let mut holders = entry.holders.iter();
        let Some(place) = holders.position(|holder| holder.used == used) else {
            return false;
        };
        let holder = entry.holders.swap_remove(place);
        if entry.holders.is_empty() {
            self.by_digest.remove(&digest);
            self.evicted += u64::from(origin == Origin::Evaluated);
        }
        self.take_off(&holder, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVALUATED: Origin = Origin::Evaluated;

    #[test]
    fn a_script_is_found_by_its_digest_in_any_case() {
        let scripts = Scripts::default();
        let script = scripts.load(b"return 1", "", EVALUATED);
        assert_eq!(script.name(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let upper = script.name().to_uppercase();
        assert!(scripts.find(upper.as_bytes()).is_some() && scripts.has(upper.as_bytes()));
        scripts.flush();
        assert!(scripts.find(&script.digest).is_none());
        assert_eq!(scripts.size(), (0, 0));
    }

    #[test]
    fn the_least_recently_used_leave() {
        let scripts = Scripts::default();
        let first = scripts.load(b"return 'first'", "", EVALUATED);
        let second = scripts.load(b"return 'second'", "", EVALUATED);
        for number in 2..SCRIPTS_MAX {
            scripts.load(format!("return {number}").as_bytes(), "", EVALUATED);
        }
        assert!(scripts.find(&first.digest).is_some());
        scripts.load(b"return 'one more'", "", EVALUATED);
        assert!(scripts.has(&first.digest) && !scripts.has(&second.digest));
        assert_eq!(scripts.size().0, SCRIPTS_MAX);
    }

    #[test]
    fn loaded_scripts_stay_however_many_others_are_run() {
        let scripts = Scripts::default();
        // Loading an evaluated script makes it a loaded one, and it stays so.
        scripts.load(b"return 'first'", "one", EVALUATED);
        let loaded: Vec<Arc<Script>> = ["return 'first'", "return 'second'"]
            .into_iter()
            .map(|source| scripts.load(source.as_bytes(), "one", Origin::Loaded))
            .collect();
        scripts.load(b"return 'first'", "one", EVALUATED);
        for number in 0..3 * SCRIPTS_MAX {
            scripts.load(format!("return {number}").as_bytes(), "two", EVALUATED);
        }
        assert!(loaded.iter().all(|script| scripts.has(&script.digest)));
        assert_eq!(scripts.size().0, SCRIPTS_MAX);
        let evicted = u64::try_from(2 * SCRIPTS_MAX + 2).unwrap();
        assert_eq!(scripts.evicted(), evicted);
        scripts.flush();
        assert_eq!((scripts.size(), scripts.evicted()), ((0, 0), evicted));
    }

    #[test]
    fn loaded_scripts_leave_when_they_take_more_than_half() {
        let scripts = Scripts::default();
        let first = scripts.load(b"return 'first'", "one", Origin::Loaded);
        let evaluated = scripts.load(b"return 'evaluated'", "two", EVALUATED);
        let number_of = |number: usize| format!("return {number}");
        for number in 0..2 * SCRIPTS_MAX {
            scripts.load(number_of(number).as_bytes(), "one", Origin::Loaded);
        }
        assert!(!scripts.has(&first.digest) && scripts.has(&evaluated.digest));
        assert_eq!(scripts.size().0, SCRIPTS_MAX);
        for number in 0..2 * SCRIPTS_MAX {
            let source = format!("return -{number}");
            scripts.load(source.as_bytes(), "two", EVALUATED);
        }
        let loaded = (0..2 * SCRIPTS_MAX)
            .filter(|&number| scripts.has(&digest(number_of(number).as_bytes())));
        assert_eq!(loaded.count(), SCRIPTS_MAX / 2);
    }

    #[test]
    fn sources_are_bounded_by_their_bytes() {
        let scripts = Scripts::default();
        for number in 0..40 {
            let source = format!("return '{}{number}'", "x".repeat(1 << 20));
            scripts.load(source.as_bytes(), "", EVALUATED);
            assert!(scripts.size().1 <= SOURCE_BYTES_MAX);
        }
        assert!(scripts.size().0 >= 10);
        scripts.load(&vec![b' '; SOURCE_BYTES_MAX + 1], "", EVALUATED);
        assert!(scripts.size().0 >= 10);
    }

    #[test]
    fn what_one_user_loads_pushes_out_its_own() {
        for (count, bytes) in [(40, 500_000), (SCRIPTS_MAX + 10, 1)] {
            let scripts = Scripts::default();
            let kept = scripts.load(b"return 42", "root", EVALUATED);
            let shared = scripts.load(b"return 43", "some", EVALUATED);
            let first = scripts.load(b"return 44", "some", EVALUATED);
            scripts.load(b"return 43", "root", EVALUATED);
            for number in 0..count {
                let source = format!("return '{}{number}'", "x".repeat(bytes));
                scripts.load(source.as_bytes(), "some", EVALUATED);
            }
            assert!(scripts.has(&kept.digest) && scripts.has(&shared.digest));
            assert!(!scripts.has(&first.digest));
            assert!(scripts.size().0 <= SCRIPTS_MAX && scripts.size().1 <= SOURCE_BYTES_MAX);
            let held = scripts.lock();
            let shelf = &held.shelves[&("root".into(), EVALUATED)];
            assert_eq!(shelf.by_use.len(), 2);
            let on_shelves = held.shelves.values().map(|shelf| shelf.bytes);
            assert_eq!(on_shelves.sum::<usize>(), held.total().bytes);
        }
    }

    #[test]
    fn a_large_source_takes_the_place_of_who_holds_most() {
        let scripts = Scripts::default();
        let small = scripts.load(b"return 1", "one", EVALUATED);
        let large =
            |owner: &str| scripts.load(&vec![b' '; SOURCE_BYTES_MAX - 100], owner, EVALUATED);
        let held = large("two");
        assert!(scripts.has(&small.digest) && scripts.has(&held.digest));
        // Held by two it counts twice, and one of them lets go of it.
        large("three");
        assert!(scripts.has(&small.digest) && scripts.has(&held.digest));
        assert!(scripts.size().1 <= SOURCE_BYTES_MAX);
    }
}
