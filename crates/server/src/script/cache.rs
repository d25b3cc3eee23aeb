//! Script cache: sources of scripts by their digest, shared by all event loops.
//!
//! Bounded by count and bytes; the least recently run leave, loaded ones too: a client that meets
//! NOSCRIPT sends the source again. Of those that several users loaded the ones leave of the user
//! who holds most, so that nobody pushes out what others hold without holding less than they do.
//!
//! Each user who has sent a source holds its script, and it counts for each.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha1::{Digest as _, Sha1};

use super::any_keys::AnyKeys;

/// Most scripts that are kept.
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
    /// What it is known by.
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

#[derive(Debug, Default)]
struct Kept {
    by_digest: HashMap<SourceDigest, CachedScript>,
    /// What each user holds who has sent a source.
    shelves: HashMap<Arc<str>, Shelf>,
    uses: u64,
    /// Scripts of all shelves, and the bytes of their sources.
    scripts: usize,
    bytes: usize,
    /// Counts the flushes.
    generation: u64,
}

/// What one user holds.
#[derive(Debug, Default)]
struct Shelf {
    /// Digests by when they were used last.
    by_use: BTreeMap<u64, SourceDigest>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedScript {
    script: Arc<Script>,
    /// Who holds it, and their numbers of its last use.
    holders: Vec<(Arc<str>, u64)>,
}

impl Scripts {
    /// The script of this source, which is kept for `owner` if it is not too long: a user's name,
    /// or nothing where there are no users.
    pub fn load(&self, source: &[u8], owner: &str) -> Arc<Script> {
        let digest = digest(source);
        let mut kept = self.lock();
        let script = kept.find(&digest).unwrap_or_else(|| {
            Arc::new(Script {
                digest,
                source: source.into(),
                any_keys: AnyKeys::of(source),
            })
        });
        kept.keep(&script, owner);
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
        let generation = kept.generation + 1;
        *kept = Kept {
            generation,
            ..Kept::default()
        };
    }

    /// How many there are, and the bytes of their sources.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let kept = self.lock();
        (kept.by_digest.len(), kept.bytes)
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
        for (owner, used) in &mut entry.holders {
            if self.uses - *used >= USES_KEPT
                && let Some(shelf) = self.shelves.get_mut(owner)
            {
                shelf.by_use.remove(used);
                self.uses += 1;
                *used = self.uses;
                shelf.by_use.insert(self.uses, *digest);
            }
        }
        Some(Arc::clone(&entry.script))
    }

    fn keep(&mut self, script: &Arc<Script>, owner: &str) {
        let bytes = script.source.len();
        if bytes > SOURCE_BYTES_MAX {
            return;
        }
        let entry = self.by_digest.entry(script.digest);
        let entry = entry.or_insert_with(|| CachedScript {
            script: Arc::clone(script),
            holders: Vec::new(),
        });
        if entry.holders.iter().any(|(holder, _)| **holder == *owner) {
            return;
        }
        self.uses += 1;
        let owner: Arc<str> = owner.into();
        entry.holders.push((Arc::clone(&owner), self.uses));
        let shelf = self.shelves.entry(owner).or_default();
        shelf.by_use.insert(self.uses, script.digest);
        shelf.bytes += bytes;
        self.scripts += 1;
        self.bytes += bytes;
        while self.scripts > SCRIPTS_MAX || self.bytes > SOURCE_BYTES_MAX {
            if !self.drop_one() {
                return;
            }
        }
    }

    /// Takes the least recently used script from the shelf of who holds most; whether there was
    /// one.
    fn drop_one(&mut self) -> bool {
        let is_many = self.scripts > SCRIPTS_MAX;
        let size = |shelf: &Shelf| {
            if is_many {
                shelf.by_use.len()
            } else {
                shelf.bytes
            }
        };
        let most = self.shelves.iter_mut().max_by_key(|(_, shelf)| size(shelf));
        let Some((owner, shelf)) = most else {
            return false;
        };
        let owner = Arc::clone(owner);
        let first = shelf.by_use.pop_first();
        if shelf.by_use.is_empty() {
            self.shelves.remove(&owner);
        }
        let Some((_, digest)) = first else {
            return false;
        };
        let Some(entry) = self.by_digest.get_mut(&digest) else {
            return false;
        };
        let bytes = entry.script.source.len();
        entry.holders.retain(|(holder, _)| *holder != owner);
        if entry.holders.is_empty() {
            self.by_digest.remove(&digest);
        }
        if let Some(shelf) = self.shelves.get_mut(&owner) {
            shelf.bytes -= bytes;
        }
        self.scripts -= 1;
        self.bytes -= bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_digest_in_any_case() {
        let scripts = Scripts::default();
        let script = scripts.load(b"return 1", "");
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
        let first = scripts.load(b"return 'first'", "");
        let second = scripts.load(b"return 'second'", "");
        for number in 2..SCRIPTS_MAX {
            scripts.load(format!("return {number}").as_bytes(), "");
        }
        assert!(scripts.find(&first.digest).is_some());
        scripts.load(b"return 'one more'", "");
        assert!(scripts.has(&first.digest) && !scripts.has(&second.digest));
        assert_eq!(scripts.size().0, SCRIPTS_MAX);
    }

    #[test]
    fn sources_are_bounded_by_their_bytes() {
        let scripts = Scripts::default();
        for number in 0..40 {
            let source = format!("return '{}{number}'", "x".repeat(1 << 20));
            scripts.load(source.as_bytes(), "");
            assert!(scripts.size().1 <= SOURCE_BYTES_MAX);
        }
        assert!(scripts.size().0 >= 10);
        scripts.load(&vec![b' '; SOURCE_BYTES_MAX + 1], "");
        assert!(scripts.size().0 >= 10);
    }

    #[test]
    fn what_one_user_loads_pushes_out_its_own() {
        for (count, bytes) in [(40, 500_000), (SCRIPTS_MAX + 10, 1)] {
            let scripts = Scripts::default();
            let kept = scripts.load(b"return 42", "root");
            let shared = scripts.load(b"return 43", "some");
            let first = scripts.load(b"return 44", "some");
            scripts.load(b"return 43", "root");
            for number in 0..count {
                let source = format!("return '{}{number}'", "x".repeat(bytes));
                scripts.load(source.as_bytes(), "some");
            }
            assert!(scripts.has(&kept.digest) && scripts.has(&shared.digest));
            assert!(!scripts.has(&first.digest));
            assert!(scripts.size().0 <= SCRIPTS_MAX && scripts.size().1 <= SOURCE_BYTES_MAX);
            let held = scripts.lock();
            assert_eq!(held.shelves["root"].by_use.len(), 2);
            let on_shelves = held.shelves.values().map(|shelf| shelf.bytes);
            assert_eq!(on_shelves.sum::<usize>(), held.bytes);
        }
    }

    #[test]
    fn a_large_source_takes_the_place_of_who_holds_most() {
        let scripts = Scripts::default();
        let small = scripts.load(b"return 1", "one");
        let large = |owner: &str| scripts.load(&vec![b' '; SOURCE_BYTES_MAX - 100], owner);
        let held = large("two");
        assert!(scripts.has(&small.digest) && scripts.has(&held.digest));
        // Held by two it counts twice, and one of them lets go of it.
        large("three");
        assert!(scripts.has(&small.digest) && scripts.has(&held.digest));
        assert!(scripts.size().1 <= SOURCE_BYTES_MAX);
    }
}
