//! Script cache: sources of scripts by their digest, shared by all event loops.
//!
//! Bounded by count and bytes; the least recently run leave, loaded ones too: a client that meets
//! NOSCRIPT sends the source again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha1::{Digest as _, Sha1};

/// Most scripts that are kept.
pub const SCRIPTS_MAX: usize = 10_000;
/// Most bytes that the kept sources have together.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// The SHA-1 of a source in lower-case hexadecimal.
pub type SourceDigest = [u8; 40];

/// One script.
#[derive(Debug)]
pub struct Script {
    /// What it is known by.
    pub digest: SourceDigest,
    /// Its program, shebang line included.
    pub source: Box<[u8]>,
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
    /// Digests by when they were used last.
    by_use: BTreeMap<u64, SourceDigest>,
    uses: u64,
    bytes: usize,
    /// Counts the flushes.
    generation: u64,
}

#[derive(Debug)]
struct CachedScript {
    script: Arc<Script>,
    used: u64,
}

impl Scripts {
    /// The script of this source, which is kept if it was not known and is not too long.
    pub fn load(&self, source: &[u8]) -> Arc<Script> {
        let digest = digest(source);
        let mut kept = self.lock();
        if let Some(known) = kept.find(&digest) {
            return known;
        }
        let script = Arc::new(Script {
            digest,
            source: source.into(),
        });
        kept.keep(Arc::clone(&script));
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
        if entry.used != self.uses {
            self.by_use.remove(&entry.used);
            self.uses += 1;
            entry.used = self.uses;
            self.by_use.insert(self.uses, *digest);
        }
        Some(Arc::clone(&entry.script))
    }

    fn keep(&mut self, script: Arc<Script>) {
        if script.source.len() > SOURCE_BYTES_MAX {
            return;
        }
        self.bytes += script.source.len();
        self.uses += 1;
        self.by_use.insert(self.uses, script.digest);
        let entry = CachedScript {
            used: self.uses,
            script,
        };
        self.by_digest.insert(entry.script.digest, entry);
        while self.by_digest.len() > SCRIPTS_MAX || self.bytes > SOURCE_BYTES_MAX {
            let Some((_, digest)) = self.by_use.pop_first() else {
                return;
            };
            if let Some(gone) = self.by_digest.remove(&digest) {
                self.bytes -= gone.script.source.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_digest_in_any_case() {
        let scripts = Scripts::default();
        let script = scripts.load(b"return 1");
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
        let first = scripts.load(b"return 'first'");
        let second = scripts.load(b"return 'second'");
        for number in 2..SCRIPTS_MAX {
            scripts.load(format!("return {number}").as_bytes());
        }
        assert!(scripts.find(&first.digest).is_some());
        scripts.load(b"return 'one more'");
        assert!(scripts.has(&first.digest) && !scripts.has(&second.digest));
        assert_eq!(scripts.size().0, SCRIPTS_MAX);
    }

    #[test]
    fn sources_are_bounded_by_their_bytes() {
        let scripts = Scripts::default();
        for number in 0..40 {
            let source = format!("return '{}{number}'", "x".repeat(1 << 20));
            scripts.load(source.as_bytes());
            assert!(scripts.size().1 <= SOURCE_BYTES_MAX);
        }
        assert!(scripts.size().0 >= 10);
        scripts.load(&vec![b' '; SOURCE_BYTES_MAX + 1]);
        assert!(scripts.size().0 >= 10);
    }
}
