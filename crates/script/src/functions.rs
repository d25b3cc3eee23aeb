//! Functions: the libraries that clients have loaded, for all event loops.
//!
//! Only sources and descriptions of their functions are stored here: each event loop runs a library
//! in its own interpreter when it first calls one of its functions. A library stays until it is
//! replaced or deleted; unlike scripts none is evicted, so a library above the limit is refused.
//!
//! Invariant: names of libraries differ, and so do names of functions, in any case.
//! Source: redis.io/docs/latest/develop/interact/programmability/functions-intro.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rapidhash::RapidHashMap;

use super::any_keys::AnyKeys;

/// Most libraries that are stored.
pub const LIBRARIES_MAX: usize = 1_000;
/// Most functions that they have together.
pub const FUNCTIONS_MAX: usize = 10_000;
/// Most functions of one library: registering that many blocks an event loop for some milliseconds.
pub const LIBRARY_FUNCTIONS_MAX: usize = 1_000;
/// Most bytes that they take together: sources, names and descriptions. `FUNCTION DUMP` answers
/// them in one piece.
pub const LIBRARY_BYTES_MAX: usize = 8 << 20;
/// The memory that a library or a function takes beside these, in bytes.
const FUNCTION_BYTES: usize = 256;

/// The flags of a function, as they are listed.
const FLAGS: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

/// The flags that a function declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// These and the one of this name, in any case; none if there is no such flag.
    #[must_use]
    pub fn with(self, name: &[u8]) -> Option<FunctionFlags> {
        let mut known = FLAGS.iter();
        let place = known.position(|flag| flag.as_bytes().eq_ignore_ascii_case(name))?;
        Some(FunctionFlags(self.0 | 1 << place))
    }

    /// Whether the function promises to write nothing.
    #[must_use]
    pub fn no_writes(self) -> bool {
        self.0 & 1 != 0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let named = FLAGS.into_iter().enumerate();
        named.filter_map(move |(place, name)| (self.0 >> place & 1 != 0).then_some(name))
    }
}

/// A function as its library registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Its name, of letters, digits and underscores.
    pub name: String,
    /// The description that its library gives.
    pub description: Option<Vec<u8>>,
    /// Its declared flags.
    pub flags: FunctionFlags,
}

/// A library.
#[derive(Debug)]
pub struct FunctionLibrary {
    /// Its name, of letters, digits and underscores.
    pub name: String,
    /// Its program, shebang line included.
    pub source: Box<[u8]>,
    /// Its functions, as they were registered.
    pub functions: Vec<LibraryFunction>,
    /// Whether one of them may touch keys that are not known before it runs.
    pub any_keys: AnyKeys,
}

impl FunctionLibrary {
    fn bytes(&self) -> usize {
        let of_function = |function: &LibraryFunction| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            FUNCTION_BYTES + function.name.len() + description
        };
        let functions = self.functions.iter().map(of_function).sum::<usize>();
        FUNCTION_BYTES + self.name.len() + self.source.len() + functions
    }
}

/// Whether a name is one that libraries and functions may have.
#[must_use]
pub(super) fn is_name(name: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_word)
}

/// How new libraries affect existing ones, as in FUNCTION RESTORE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryArrival {
    /// Existing libraries stay, and a new one of the same name is an error.
    Append,
    /// New libraries replace those of the same names.
    Replace,
    /// All existing libraries are removed.
    Flush,
}

/// A function that was found, in its library.
#[derive(Clone, Debug)]
pub struct FoundFunction {
    /// The library.
    pub library: Arc<FunctionLibrary>,
    /// Its number, unique among all libraries since the start.
    pub id: u64,
    /// Which one of the library's functions it is.
    pub(super) place: usize,
}

impl FoundFunction {
    /// The function as its library registered it.
    #[must_use]
    pub fn function(&self) -> &LibraryFunction {
        &self.library.functions[self.place]
    }
}

/// All libraries that are known.
#[derive(Debug, Default)]
pub struct Functions {
    kept: Mutex<KeptLibraries>,
}

#[derive(Debug, Default)]
struct KeptLibraries {
    by_name: BTreeMap<String, KeptLibrary>,
    /// Functions by their names in lower case.
    by_function: RapidHashMap<String, FoundFunction>,
    bytes: usize,
    last_id: u64,
    /// Counts the changes.
    generation: u64,
}

#[derive(Debug)]
struct KeptLibrary {
    library: Arc<FunctionLibrary>,
    id: u64,
}

impl Functions {
    /// Adds libraries: all of them, or none.
    ///
    /// # Errors
    /// A text for the client: another library or function has the name, or there would be too many.
    pub fn add(&self, added: Vec<FunctionLibrary>, arrival: LibraryArrival) -> Result<(), String> {
        let mut kept = self.lock();
        let replaced: HashSet<String> = match arrival {
            LibraryArrival::Replace => added.iter().map(|library| library.name.clone()).collect(),
            LibraryArrival::Append | LibraryArrival::Flush => HashSet::new(),
        };
        let stays = |name: &str| arrival != LibraryArrival::Flush && !replaced.contains(name);
        let coming = kept.coming(added, stays)?;
        if arrival == LibraryArrival::Flush {
            kept.clear();
        }
        for name in &replaced {
            kept.remove(name);
        }
        kept.take_in(coming);
        Ok(())
    }

    /// Whether there is a library of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.lock().by_name.contains_key(name)
    }

    /// The function that a client means by a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<FoundFunction> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.lock().by_function.get(&name).cloned()
    }

    /// Forgets a library; whether there was one.
    pub fn delete(&self, name: &[u8]) -> bool {
        let mut kept = self.lock();
        let is_gone = std::str::from_utf8(name).is_ok_and(|name| kept.remove(name));
        kept.generation += u64::from(is_gone);
        is_gone
    }

    /// Forgets all.
    pub fn flush(&self) {
        let mut kept = self.lock();
        kept.clear();
        kept.generation += 1;
    }

    /// All libraries by their names.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<FunctionLibrary>> {
        let kept = self.lock();
        let libraries = kept.by_name.values();
        libraries.map(|kept| Arc::clone(&kept.library)).collect()
    }

    /// How many libraries and functions there are, and the bytes they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        let kept = self.lock();
        (kept.by_name.len(), kept.by_function.len(), kept.bytes)
    }

    /// The numbers of the libraries that are there, if something has changed since `generation`;
    /// and the new one.
    #[must_use]
    pub fn since(&self, generation: u64) -> Option<(u64, HashSet<u64>)> {
        let kept = self.lock();
        let ids = || kept.by_name.values().map(|kept| kept.id).collect();
        (kept.generation != generation).then(|| (kept.generation, ids()))
    }

    fn lock(&self) -> MutexGuard<'_, KeptLibraries> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptLibraries {
    fn clear(&mut self) {
        self.by_name.clear();
        self.by_function.clear();
        self.bytes = 0;
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(KeptLibrary { library, .. }) = self.by_name.remove(name) else {
            return false;
        };
        self.bytes -= library.bytes();
        for function in &library.functions {
            self.by_function.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    /// Collects new libraries, after a check that they agree with each other and with the existing
    /// ones that stay. The error texts are Redis's where it has one.
    fn coming(
        &self,
        added: Vec<FunctionLibrary>,
        stays: impl Fn(&str) -> bool,
    ) -> Result<KeptLibraries, String> {
        let mut coming = KeptLibraries {
            last_id: self.last_id,
            ..KeptLibraries::default()
        };
        let staying = || {
            self.by_name
                .values()
                .filter(|kept| stays(&kept.library.name))
        };
        let libraries = staying().count();
        let functions: usize = staying().map(|kept| kept.library.functions.len()).sum();
        let bytes: usize = staying().map(|kept| kept.library.bytes()).sum();
        for library in added {
            if self.by_name.contains_key(&library.name) && stays(&library.name) {
                return Err(library_exists(&library.name));
            }
            coming.insert(library, |name| {
                let found = self.by_function.get(name);
                found.is_some_and(|found| stays(&found.library.name))
            })?;
            let problem = if libraries + coming.by_name.len() > LIBRARIES_MAX {
                "ERR there are too many libraries"
            } else if functions + coming.by_function.len() > FUNCTIONS_MAX {
                "ERR there are too many functions"
            } else if bytes + coming.bytes > LIBRARY_BYTES_MAX {
                "ERR the libraries are too long"
            } else {
                continue;
            };
            return Err(problem.to_owned());
        }
        Ok(coming)
    }

    fn take_in(&mut self, coming: KeptLibraries) {
        self.by_name.extend(coming.by_name);
        self.by_function.extend(coming.by_function);
        self.bytes += coming.bytes;
        self.last_id = coming.last_id;
        self.generation += 1;
    }

    /// Adds a library of whose functions none is there elsewhere.
    fn insert(
        &mut self,
        library: FunctionLibrary,
        is_elsewhere: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        if self.by_name.contains_key(&library.name) {
            return Err(library_exists(&library.name));
        }
        self.last_id += 1;
        let (library, id) = (Arc::new(library), self.last_id);
        for (place, function) in library.functions.iter().enumerate() {
            let found = FoundFunction {
                library: Arc::clone(&library),
                id,
                place,
            };
            let name = function.name.to_ascii_lowercase();
            if is_elsewhere(&name) || self.by_function.insert(name, found).is_some() {
                return Err(format!("ERR Function {} already exists", function.name));
            }
        }
        self.bytes += library.bytes();
        let name = library.name.clone();
        self.by_name.insert(name, KeptLibrary { library, id });
        Ok(())
    }
}

fn library_exists(name: &str) -> String {
    format!("ERR Library {name} already exists")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str], source_bytes: usize) -> FunctionLibrary {
        let function = |name: &&str| LibraryFunction {
            name: (*name).to_owned(),
            description: None,
            flags: FunctionFlags::default(),
        };
        FunctionLibrary {
            any_keys: AnyKeys::default(),
            name: name.to_owned(),
            source: vec![b' '; source_bytes].into(),
            functions: functions.iter().map(function).collect(),
        }
    }

    #[test]
    fn functions_are_found_in_any_case_and_names_are_given_once() {
        let functions = Functions::default();
        functions
            .add(
                vec![library("one", &["Get", "set"], 9)],
                LibraryArrival::Append,
            )
            .unwrap();
        let found = functions.find(b"gET").unwrap();
        assert_eq!(found.function().name, "Get");
        assert!(functions.find(b"get\xff").is_none());
        let add = |name, names: &[&str], arrival| {
            functions
                .add(vec![library(name, names, 9)], arrival)
                .map_err(|text| text.replace("ERR ", ""))
        };
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(
            add("one", &["other"], LibraryArrival::Append),
            refused("Library one already exists")
        );
        assert_eq!(
            add("two", &["new", "SET"], LibraryArrival::Replace),
            refused("Function SET already exists")
        );
        assert!(functions.find(b"new").is_none());
        assert_eq!(add("one", &["new"], LibraryArrival::Replace), Ok(()));
        assert!(functions.find(b"set").is_none());
        assert_eq!(add("two", &["SET"], LibraryArrival::Append), Ok(()));
        assert_eq!(add("three", &["new"], LibraryArrival::Flush), Ok(()));
        assert_eq!(functions.list().len(), 1);
        assert!(functions.delete(b"three") && !functions.delete(b"three"));
        assert_eq!(functions.size(), (0, 0, 0));
    }

    #[test]
    fn several_come_together_or_not_at_all() {
        let functions = Functions::default();
        let both = vec![library("one", &["a"], 9), library("two", &["A"], 9)];
        assert!(functions.add(both, LibraryArrival::Append).is_err());
        assert_eq!(functions.size(), (0, 0, 0));
        assert!(functions.since(0).is_none());
        let both = vec![library("one", &["a"], 9), library("two", &["b"], 9)];
        functions.add(both, LibraryArrival::Append).unwrap();
        let (generation, ids) = functions.since(0).unwrap();
        assert_eq!(ids.len(), 2);
        assert!(functions.since(generation).is_none());
        let id = functions.find(b"a").unwrap().id;
        functions
            .add(vec![library("one", &["a"], 9)], LibraryArrival::Replace)
            .unwrap();
        assert!(!functions.since(generation).unwrap().1.contains(&id));
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let functions = Functions::default();
        let names: Vec<String> = (0..FUNCTIONS_MAX).map(|at| format!("f{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        functions
            .add(vec![library("full", &names, 9)], LibraryArrival::Append)
            .unwrap();
        let more = |arrival, bytes| functions.add(vec![library("more", &["g"], bytes)], arrival);
        assert_eq!(
            more(LibraryArrival::Append, 9).unwrap_err(),
            "ERR there are too many functions"
        );
        assert_eq!(more(LibraryArrival::Flush, LIBRARY_BYTES_MAX / 2), Ok(()));
        for at in 1..LIBRARIES_MAX {
            let one = library(&format!("l{at}"), &[], 9);
            functions.add(vec![one], LibraryArrival::Append).unwrap();
        }
        let one = || vec![library("one", &[], LIBRARY_BYTES_MAX / 2)];
        assert_eq!(
            functions.add(one(), LibraryArrival::Append).unwrap_err(),
            "ERR there are too many libraries"
        );
        functions.delete(b"l1");
        assert_eq!(
            functions.add(one(), LibraryArrival::Append).unwrap_err(),
            "ERR the libraries are too long"
        );
    }
}
