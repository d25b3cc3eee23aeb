//! Restart with the same and with other settings: what comes back, beside a model.
//!
//! Each run makes a cache, stores items, ends it, opens it with changed settings, ends that, and
//! opens it with the first settings again. The model knows from the settings alone whether the
//! memory is gone on with, and which items are there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use cellar_engine::{
    Cache, Config, Deadline, Error, Instant, ManualClock, SetOptions, Space, StateDir, StateOptions,
};

const MIB: usize = 1 << 20;
/// How many times the memory that a cache was made with it may have later, and which part at least.
const GROWTH_MAX: usize = 4;
const LEAST_PART: usize = 4;
/// Items in each space.
const ITEMS: u32 = 40;

#[derive(Clone, Debug)]
struct Settings {
    memory: usize,
    keep: Vec<usize>,
    value_max: usize,
    threads: usize,
    spaces: Vec<Space>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Stop,
    Kill,
    Takeover,
}

const ENDINGS: [Ending; 3] = [Ending::Stop, Ending::Kill, Ending::Takeover];

/// What a setting is changed to between two starts.
type Change = (&'static str, fn(&mut Settings));

const CHANGES: [Change; 14] = [
    ("nothing", |_| {}),
    ("half the memory", |settings| settings.memory /= 2),
    ("a quarter of the memory", |settings| settings.memory /= 4),
    ("an eighth of the memory", |settings| settings.memory /= 8),
    ("half as much memory again", |settings| {
        settings.memory += settings.memory / 2;
    }),
    ("three times the memory", |settings| settings.memory *= 3),
    ("five times the memory", |settings| settings.memory *= 5),
    ("one share more", |settings| settings.keep.push(MIB)),
    ("no share", |settings| settings.keep.clear()),
    ("a larger share", |settings| {
        settings.keep.iter_mut().for_each(|bytes| *bytes += MIB / 2);
    }),
    ("longer values", |settings| {
        settings.value_max = Config::VALUE_BYTES_LIMIT;
    }),
    ("short values", |settings| settings.value_max = 1_000),
    ("other threads", |settings| settings.threads += 3),
    ("a space less", |settings| {
        settings.spaces.pop();
    }),
];

/// All settings that runs begin with.
fn beginnings() -> Vec<Settings> {
    let mut all = Vec::new();
    for memory in [16 * MIB, 64 * MIB] {
        let keeps = [
            vec![],
            vec![MIB],
            vec![memory / 2],
            vec![MIB, 2 * MIB, memory / 16],
        ];
        for keep in keeps {
            for value_max in [100_000, memory / 3, Config::VALUE_BYTES_LIMIT] {
                for threads in [1, 2, 5] {
                    all.push(Settings {
                        memory,
                        keep: keep.clone(),
                        value_max,
                        threads,
                        spaces: vec![Space(1), Space(2)],
                    });
                }
            }
        }
    }
    all
}

/// A cache's state as it has to be.
#[derive(Default)]
struct Model {
    /// Memory that it was made with, and the most it had since.
    shape: usize,
    most: usize,
    keep: Vec<usize>,
    items: HashMap<(Space, u32), (Vec<u8>, Deadline)>,
}

impl Model {
    /// Why a cache with these settings does not go on with the memory.
    fn refuses(&self, settings: &Settings) -> Option<&'static str> {
        let kept: usize = self.keep.iter().sum();
        if settings.keep != self.keep {
            return Some("the no-eviction databases have changed");
        }
        let least = kept + (self.most - kept).div_ceil(LEAST_PART);
        let most = kept + (self.shape - kept) * GROWTH_MAX;
        let fits = (least..=most).contains(&settings.memory);
        (!fits).then_some("bytes of memory")
    }

    /// A cache with these settings goes on with the memory.
    fn go_on(&mut self, settings: &Settings) {
        self.most = self.most.max(settings.memory);
        let spaces = &settings.spaces;
        let stays = |space: Space| {
            space == Space::MAIN || space.share().is_some() || spaces.contains(&space)
        };
        self.items.retain(|&(space, _), _| stays(space));
    }

    fn begin_anew(&mut self, settings: &Settings) {
        *self = Model {
            shape: settings.memory,
            most: settings.memory,
            keep: settings.keep.clone(),
            items: HashMap::new(),
        };
    }
}

struct Run {
    path: PathBuf,
    clock: Arc<ManualClock>,
    model: Model,
    what: String,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Run {
    fn new(number: usize, what: String) -> Run {
        let name = format!("cellar-restored-{}-{number}", std::process::id());
        let path = PathBuf::from("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        Run {
            path,
            clock: Arc::new(ManualClock::starting_at(Instant(60_000))),
            model: Model::default(),
            what,
        }
    }

    fn make(&self, settings: &Settings, dir: StateDir) -> Result<Cache, Error> {
        let mut state = StateOptions::of(dir);
        let own = (0..).zip(&settings.keep).map(|(share, _)| own_space(share));
        state.spaces = Some(settings.spaces.iter().copied().chain(own).collect());
        Cache::new(Config {
            threads: settings.threads,
            value_bytes_max: settings.value_max,
            keep: settings.keep.clone(),
            clock: Arc::<ManualClock>::clone(&self.clock),
            state: Some(state),
            ..Config::with_memory(settings.memory)
        })
    }

    /// Ends a cache and opens it with these settings; the same cache if nobody may take it over.
    fn reopen(&mut self, old: Cache, ending: Ending, settings: &Settings) -> Cache {
        let refused = self.model.refuses(settings);
        let cache = match ending {
            Ending::Stop => {
                old.checkpoint().unwrap().leave();
                self.make(settings, StateDir::open(&self.path).unwrap())
            }
            Ending::Kill => {
                drop(old);
                self.make(settings, StateDir::open(&self.path).unwrap())
            }
            Ending::Takeover => {
                assert!(old.hand_over());
                let memory = old.state_file().unwrap().try_clone_to_owned().unwrap();
                let dir = StateDir::open_with(&self.path, Some(memory)).unwrap();
                match (self.make(settings, dir), refused) {
                    (Err(error), Some(why)) => {
                        assert!(error.to_string().contains(why), "{}: {error}", self.what);
                        old.take_back();
                        return old;
                    }
                    (made, _) => made,
                }
            }
        };
        let cache = cache.unwrap_or_else(|error| panic!("{}: {error}", self.what));
        cache.release_read_before();
        let restored = cache.restored().unwrap();
        let why = restored.empty_because.as_deref();
        match (why, refused) {
            (None, None) => self.model.go_on(settings),
            (Some(found), Some(why)) if found.contains(why) => self.model.begin_anew(settings),
            _ => panic!("{}: empty because {why:?}, not {refused:?}", self.what),
        }
        cache
    }

    fn store(&mut self, cache: &Cache, settings: &Settings) {
        let own = (0..settings.keep.len()).map(own_space);
        let spaces = [Space::MAIN].into_iter().chain(settings.spaces.clone());
        for space in spaces.chain(own) {
            for number in 0..ITEMS {
                let bytes = match number {
                    0 => settings.value_max.min(80_000),
                    1 => 0,
                    _ => settings.value_max.min(20 * number as usize),
                };
                let value = vec![number as u8 ^ space.0 as u8; bytes];
                let deadline = match number % 3 {
                    0 => Deadline::NEVER,
                    _ => cache.now().plus_ms(100_000 + u64::from(number)),
                };
                let options = SetOptions {
                    deadline,
                    flags: number,
                    ..SetOptions::default()
                };
                let name = number.to_string();
                let key = cache.key_in(space, name.as_bytes()).unwrap();
                cache.set(key, &value, &options).unwrap();
                self.model.items.insert((space, number), (value, deadline));
            }
        }
    }

    fn check(&self, cache: &Cache, settings: &Settings) {
        let what = &self.what;
        assert_eq!(cache.memory_bytes(), settings.memory, "{what}");
        for (&(space, number), (value, deadline)) in &self.model.items {
            let name = number.to_string();
            let key = cache.key_in(space, name.as_bytes()).unwrap();
            let found = cache.get(key, |item| (item.value == value, item.deadline, item.flags));
            let expected = Some((true, *deadline, number));
            assert_eq!(found, expected, "{what}: {number} in {space:?}");
        }
        let audit = cache
            .audit()
            .unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        let live = usize::try_from(audit.live_items).unwrap();
        assert_eq!(live, self.model.items.len(), "{what}");
    }
}

fn own_space(share: usize) -> Space {
    Space::kept(share, 10 + share as u32)
}

/// The longest value that a cache says it takes can be stored and read.
fn check_longest(cache: &Cache, what: &str) {
    let longest = cache.value_bytes_max();
    let key = cache.key(b"longest").unwrap();
    let stored = cache.set(key, &vec![7; longest], &SetOptions::default());
    assert!(stored.is_ok(), "{what}: {longest}: {stored:?}");
    assert_eq!(cache.get(key, |item| item.value.len()), Some(longest));
}

fn run(number: usize, first: &Settings, ending: Ending, (name, change): Change, is_deep: bool) {
    let what = format!("{first:?}, {ending:?}, then {name}");
    let mut second = first.clone();
    change(&mut second);
    let may_keep = Config::keep_bytes_max(second.memory);
    if second.keep.iter().sum::<usize>() > may_keep {
        return;
    }
    let mut run = Run::new(number, what);
    let cache = run.make(first, StateDir::open(&run.path).unwrap()).unwrap();
    run.model.begin_anew(first);
    run.store(&cache, first);
    let cache = run.reopen(cache, ending, &second);
    let is_second = cache.memory_bytes() == second.memory;
    run.check(&cache, if is_second { &second } else { first });
    let cache = run.reopen(cache, ending, first);
    let is_first = cache.memory_bytes() == first.memory;
    run.check(&cache, if is_first { first } else { &second });
    if is_deep {
        check_longest(&cache, &run.what);
    }
}

#[test]
fn with_unchanged_settings_all_that_the_model_knows_comes_back() {
    for (number, first) in beginnings().iter().enumerate() {
        // Each ending with each setting, not with each product of them.
        let ending = ENDINGS[(number + number / 3) % ENDINGS.len()];
        run(number, first, ending, CHANGES[0], false);
    }
}

#[test]
fn with_some_changed_settings_what_the_model_says_comes_back() {
    let beginnings = beginnings();
    // Each change with each ending, and beginnings that take turns.
    for (number, change) in CHANGES.into_iter().enumerate() {
        for (turn, ending) in ENDINGS.into_iter().enumerate() {
            let first = &beginnings[(number * 7 + turn * 25) % beginnings.len()];
            run(1_000 + number, first, ending, change, false);
        }
    }
}

#[test]
fn with_any_changed_setting_what_the_model_says_comes_back() {
    for (number, first) in beginnings().iter().enumerate() {
        for ending in ENDINGS {
            for change in CHANGES {
                run(2_000 + number, first, ending, change, true);
            }
        }
    }
}
