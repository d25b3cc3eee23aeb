//! A process that is killed at any moment leaves a cache that the next one can go on with.
//!
//! A child works on a cache in shared memory with two threads and notes in a file what it is about
//! to do and what it has done. It is killed, and this process looks at each key: what is there must
//! be the last value that was acknowledged, or the one in flight, whole, with its own deadline, and
//! nothing that was deleted, flushed or over. Both use the cache while items are checked that an
//! earlier child left, so kills fall into that check as well. `CELLAR_TEST_KILLS` says how often,
//! `CELLAR_TEST_KILL_SECONDS` for how long.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cellar_engine::{
    Cache, Change, Clock, Config, Counted, Deadline, DeleteOptions, Increment, Instant, SetOptions,
    Splice, StateDir, StateOptions, Stored, SystemClock,
};

const VARIABLE: &str = "CELLAR_KILLED_CHILD";
/// Threads of a child; each has the keys whose number leaves its own over.
const THREADS: u64 = 2;
/// Keys that count up, that are spliced, and all.
const COUNTERS: u64 = 200;
const SPLICED: u64 = 400;
const KEYS: u64 = 6_000;
/// Words of a key's note: what was acknowledged and what is in flight, as id, deadline, and the
/// moments of beginning and end; then a version.
const WORDS: usize = 9;
/// Where the notes on a flush begin, in notes.
const FLUSHES: u64 = KEYS;
const SPLICED_BYTES: usize = 700;

fn config(path: &Path, memory: usize, verify: bool) -> Config {
    let mut state = StateOptions::of(StateDir::open(&path.join("state")).unwrap());
    state.verify = verify;
    state.checks_later_above = Some(0);
    Config {
        threads: 2,
        shards: Some(4),
        clock: Arc::new(SystemClock::going_on(0)),
        state: Some(state),
        ..Config::with_memory(memory)
    }
}

/// What is noted of a value: its number, zero for none, its deadline, and when the operation began
/// and was done, by a count that all threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Noted {
    id: u64,
    deadline_ms: u64,
    begun: u64,
    done: u64,
}

/// The notes of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    acknowledged: Noted,
    in_flight: Noted,
    version: u64,
}

impl Note {
    fn read(file: &File, number: u64) -> Note {
        let mut bytes = [0; WORDS * 8];
        let _ = file.read_exact_at(&mut bytes, number * (WORDS * 8) as u64);
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let noted = |at: usize| Noted {
            id: words[at],
            deadline_ms: words[at + 1],
            begun: words[at + 2],
            done: words[at + 3],
        };
        Note {
            acknowledged: noted(0),
            in_flight: noted(4),
            version: words[8],
        }
    }

    fn write(&self, file: &File, number: u64) {
        let mut bytes = Vec::with_capacity(WORDS * 8);
        for noted in [self.acknowledged, self.in_flight] {
            for word in [noted.id, noted.deadline_ms, noted.begun, noted.done] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.extend(self.version.to_le_bytes());
        file.write_all_at(&bytes, number * bytes.len() as u64)
            .unwrap();
    }
}

/// The value of a number: both of these, then bytes that follow from the number.
fn value(key: u64, noted: Noted) -> Vec<u8> {
    if key < COUNTERS {
        return noted.id.to_string().into_bytes();
    }
    let len = match (key < SPLICED, noted.id % 16) {
        (true, _) => SPLICED_BYTES,
        // Most are as long as the one before, and are written over it.
        (_, 0) => 24 + (noted.id / 16 % 400) as usize,
        (_, 1) if key.is_multiple_of(64) => 60_000,
        _ => 24 + (key % 900) as usize,
    };
    let mut value = vec![noted.id as u8; len];
    value[..8].copy_from_slice(&noted.id.to_le_bytes());
    value[8..16].copy_from_slice(&noted.deadline_ms.to_le_bytes());
    value[len - 8..].copy_from_slice(&noted.id.to_le_bytes());
    value
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }
}

/// One thread's work until the process is killed.
struct Work<'c> {
    cache: &'c Cache,
    notes: &'c File,
    count: &'c AtomicU64,
    random: Random,
    next_id: u64,
    thread: u64,
}

impl Work<'_> {
    fn tick(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    fn run(&mut self) {
        let mut scratch = Vec::new();
        loop {
            let key = self.random.below(KEYS / THREADS) * THREADS + self.thread;
            match self.random.below(4_000) {
                0 => self.flush(),
                1..=20 => drop(self.cache.tick()),
                _ if key < COUNTERS => self.count_up(key),
                _ if key < SPLICED => self.splice(key, &mut scratch),
                _ => self.store_or_delete(key),
            }
        }
    }

    fn flush(&self) {
        let at = FLUSHES + self.thread;
        let mut note = Note::read(self.notes, at);
        note.in_flight.begun = self.tick();
        note.write(self.notes, at);
        self.cache.flush();
        note.acknowledged = note.in_flight;
        note.acknowledged.done = self.tick();
        note.write(self.notes, at);
    }

    fn begin(&mut self, key: u64, noted: Noted) -> Note {
        let mut note = Note::read(self.notes, key);
        note.in_flight = noted;
        note.in_flight.begun = self.tick();
        note.write(self.notes, key);
        note
    }

    fn end(&self, key: u64, mut note: Note) {
        note.acknowledged = note.in_flight;
        note.acknowledged.done = self.tick();
        note.write(self.notes, key);
    }

    fn fresh(&mut self) -> Noted {
        self.next_id += THREADS;
        let deadline_ms = match self.random.below(3) {
            0 => self.cache.now().0 + 20 + self.random.below(3_000),
            _ => 0,
        };
        Noted {
            id: self.next_id,
            deadline_ms,
            ..Noted::default()
        }
    }

    fn store_or_delete(&mut self, key: u64) {
        let name = key.to_string();
        let cache_key = self.cache.key(name.as_bytes()).unwrap();
        if self.random.below(6) == 0 {
            let note = self.begin(key, Noted::default());
            self.cache
                .delete(cache_key, &DeleteOptions::default())
                .unwrap();
            return self.end(key, note);
        }
        let noted = self.fresh();
        let options = SetOptions {
            deadline: deadline(noted),
            version: self.random.below(4) == 0,
            ..SetOptions::default()
        };
        let mut note = self.begin(key, noted);
        let stored = self.cache.set(cache_key, &value(key, noted), &options);
        note.version = match stored {
            Ok(Stored::Done { version }) => version,
            other => panic!("{other:?}"),
        };
        self.end(key, note);
    }

    fn count_up(&mut self, key: u64) {
        let name = key.to_string();
        let cache_key = self.cache.key(name.as_bytes()).unwrap();
        let before = self.cache.get(cache_key, |item| item.value.to_vec());
        let before =
            before.map(|digits| String::from_utf8(digits).unwrap().parse::<u64>().unwrap());
        let initial = self.fresh().id;
        // Somebody may flush in between: then it begins anew.
        let noted = Noted {
            id: before.map_or(initial, |before| before + 1),
            deadline_ms: initial,
            ..Noted::default()
        };
        let mut note = self.begin(key, noted);
        let increment = Increment {
            initial: Some((initial, Deadline::NEVER)),
            ..Increment::by(1)
        };
        match self.cache.increment(cache_key, &increment).unwrap() {
            Counted::Number { number, .. } => {
                assert!(number == noted.id || number == initial);
                note.in_flight.id = number;
                self.end(key, note);
            }
            other => panic!("{other:?}"),
        }
    }

    fn splice(&mut self, key: u64, scratch: &mut Vec<u8>) {
        let name = key.to_string();
        let cache_key = self.cache.key(name.as_bytes()).unwrap();
        let mut noted = self.fresh();
        noted.deadline_ms = 0;
        let note = self.begin(key, noted);
        let whole = value(key, noted);
        let half = SPLICED_BYTES / 2;
        let splice = |at| Splice {
            at,
            from: at,
            len: half,
        };
        let done = self.cache.update(cache_key, scratch, |item, scratch| {
            scratch.extend(&whole);
            let change = match item {
                Some(_) => Change::splice(vec![splice(0), splice(half)]),
                None => Change::Store {
                    deadline: Deadline::NEVER,
                    flags: 0,
                    kind: cellar_engine::Kind(2),
                },
            };
            ((), change)
        });
        done.unwrap();
        self.end(key, note);
    }
}

fn deadline(noted: Noted) -> Deadline {
    match noted.deadline_ms {
        0 => Deadline::NEVER,
        at => Deadline::at(Instant(at)),
    }
}

/// Works until it is killed, if this process is a child.
#[test]
fn child() {
    let Ok(told) = std::env::var(VARIABLE) else {
        return;
    };
    let mut told = told.split(' ');
    let path = PathBuf::from(told.next().unwrap());
    let mut number = || told.next().unwrap().parse::<u64>().unwrap();
    let (memory, round) = (number(), number());
    let notes = File::options()
        .read(true)
        .write(true)
        .open(path.join("notes"))
        .unwrap();
    let cache = Cache::new(config(&path, memory as usize, false)).unwrap();
    let count = AtomicU64::new(round << 40);
    println!("\nat work");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut work = Work {
                cache: &cache,
                notes: &notes,
                count: &count,
                random: Random(round * 2 + thread + 88_172_645_463_325_252),
                next_id: (round << 32) + thread,
                thread,
            };
            scope.spawn(move || work.run());
        }
        scope.spawn(|| cache.check_left(1, || true));
    });
}

/// What was found in one round.
#[derive(Debug, Default)]
struct Sums {
    known: u64,
    found: u64,
    dropped: u64,
}

struct Check {
    path: PathBuf,
    memory: usize,
    notes: File,
    /// Which key had which version.
    versions: HashMap<u64, (u64, u64)>,
    is_flushing: bool,
    /// When the last flush was done: what was stored while it was at work may be gone.
    flush_over: u64,
    sums: Sums,
}

impl Check {
    fn new(name: &str, memory: usize) -> Check {
        let name = format!("cellar-killed-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        let notes = options.open(path.join("notes")).unwrap();
        Check {
            path,
            memory,
            notes,
            versions: HashMap::new(),
            is_flushing: false,
            flush_over: 0,
            sums: Sums::default(),
        }
    }

    /// All rounds; how many there were.
    fn rounds(&mut self) -> u64 {
        let mut kills = 0;
        for round in rounds() {
            self.round(round);
            kills = round;
        }
        println!("{kills} kills: {:?}", self.sums);
        kills
    }

    fn round(&mut self, round: u64) {
        // A process that is being made has this one's files open for a moment, locks and all.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(
                VARIABLE,
                format!("{} {} {round}", self.path.display(), self.memory),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_at_work = |line: &std::io::Result<String>| line.as_ref().unwrap() == "at work";
        assert!(
            lines.any(|line| is_at_work(&line)),
            "the child does not begin"
        );
        let us = Random(round + 1_000_003).below(30_000);
        // paced: the child works for a random time before it is killed.
        std::thread::sleep(Duration::from_micros(us));
        child.kill().unwrap();
        child.wait().unwrap();
        self.look(round);
    }

    fn look(&mut self, round: u64) {
        let verify = round.is_multiple_of(4);
        let cache = Cache::new(config(&self.path, self.memory, verify)).unwrap();
        let restored = cache.restored().unwrap();
        assert_eq!(restored.empty_because, None, "round {round}");
        assert!(!restored.was_clean_stop);
        let flushes = (0..THREADS).map(|thread| Note::read(&self.notes, FLUSHES + thread));
        let flushes: Vec<Note> = flushes.collect();
        let begun = flushes.iter().map(|note| note.acknowledged.begun);
        let flushed_at = begun.max().unwrap();
        let over = flushes.iter().map(|note| note.acknowledged.done);
        self.flush_over = over.max().unwrap();
        // Amid a flush everything may be gone.
        self.is_flushing = flushes
            .iter()
            .any(|note| note.in_flight.begun != note.acknowledged.begun);
        std::thread::scope(|scope| {
            if round % 4 == 1 {
                scope.spawn(|| cache.check_left(1, || true));
            }
            for key in 0..KEYS {
                self.look_at(&cache, key, flushed_at, round);
            }
        });
        if round.is_multiple_of(2) {
            cache.audit().unwrap();
        }
        // Of every second round some of it is left to the next child.
        self.sums.dropped += cache.restored().unwrap().dropped;
    }

    fn look_at(&mut self, cache: &Cache, key: u64, flushed_at: u64, round: u64) {
        let mut note = Note::read(&self.notes, key);
        let name = key.to_string();
        let now = cache.now();
        let found = cache.get(cache.key(name.as_bytes()).unwrap(), |item| {
            (item.value.to_vec(), item.deadline)
        });
        let last = note.acknowledged;
        let is_flushed = last.done < flushed_at;
        let is_settled = note.in_flight.begun == last.begun
            && !self.is_flushing
            && (last.begun > self.flush_over || self.flush_over == 0);
        let is_over = key >= COUNTERS && deadline(last).has_passed(now);
        let lives = last.id != 0 && !is_flushed && !is_over;
        self.sums.known += u64::from(is_settled && lives);
        let Some((bytes, found_deadline)) = found else {
            note.acknowledged = Noted::default();
            note.in_flight = Noted::default();
            return note.write(&self.notes, key);
        };
        self.sums.found += u64::from(is_settled);
        let mut candidates = vec![note.in_flight];
        if !is_flushed {
            candidates.push(last);
        }
        if key < COUNTERS {
            let id = note.in_flight.deadline_ms;
            candidates.push(Noted {
                id,
                ..note.in_flight
            });
        }
        let fits = |noted: &&Noted| noted.id != 0 && bytes == value(key, **noted);
        let Some(&which) = candidates.iter().find(fits) else {
            panic!(
                "round {round}: key {key} has {:?} of {note:?}",
                &bytes[..bytes.len().min(24)]
            );
        };
        let known = if key < COUNTERS {
            Deadline::NEVER
        } else {
            deadline(which)
        };
        assert_eq!(found_deadline, known, "round {round}: key {key}");
        if is_settled && note.version != 0 {
            let holder = (key, which.id);
            let before = self.versions.insert(note.version, holder);
            assert!(
                before.is_none_or(|before| before == holder),
                "{note:?} as {before:?}"
            );
        }
        note.version = 0;
        let now = round << 40 | 0xff_ffff_ffff;
        note.acknowledged = Noted {
            begun: now,
            done: now,
            ..which
        };
        note.in_flight = note.acknowledged;
        note.write(&self.notes, key);
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The rounds in each of which a child is killed: so many, or for so long.
fn rounds() -> impl Iterator<Item = u64> {
    let told = |name| {
        let told = std::env::var(name).ok()?;
        Some(told.parse::<u64>().unwrap())
    };
    let seconds = told("CELLAR_TEST_KILL_SECONDS");
    let kills = told("CELLAR_TEST_KILLS").unwrap_or(if seconds.is_some() { u64::MAX } else { 150 });
    let clock = SystemClock::new();
    let is_time =
        move |_: &u64| seconds.is_none_or(|seconds| clock.now().0 < seconds.saturating_mul(1_000));
    (1..=kills).take_while(is_time)
}

#[test]
fn after_a_kill_everything_is_there_that_was_acknowledged() {
    let mut check = Check::new("roomy", 32 << 20);
    let kills = check.rounds();
    let Sums {
        known,
        found,
        dropped,
    } = check.sums;
    assert!(found * 1_000 >= known * 999, "{:?}", check.sums);
    assert!(dropped <= 2 * kills, "{:?}", check.sums);
}

#[test]
fn after_a_kill_nothing_old_comes_back_of_a_cache_that_evicts() {
    let mut check = Check::new("tight", 1 << 20);
    check.rounds();
    assert!(check.sums.found > check.sums.known / 10, "{:?}", check.sums);
}
