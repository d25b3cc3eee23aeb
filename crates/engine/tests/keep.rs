//! Spaces with memory of their own: what they hold stays under any pressure, and a store that finds
//! no room is refused and changes nothing.

use std::collections::HashMap;

use cellar_engine::{
    Cache, Change, Config, DeleteOptions, End, Error, Instant, Item, Key, Kind, SetOptions, Space,
    Stored,
};

use crate::support::cache::Timed;
use crate::support::random::Random;

const MIB: usize = 1 << 20;

fn keeping(memory_bytes: usize, keep: &[usize]) -> Timed {
    Timed::with(Config {
        shards: Some(2),
        seed: Some(5),
        keep: keep.to_vec(),
        ..Config::with_memory(memory_bytes)
    })
}

fn name_of(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn store(timed: &Timed, space: Space, number: u64, bytes: usize) -> Result<Stored, Error> {
    let name = name_of(number);
    let key = timed.cache.key_in(space, &name).unwrap();
    let value = vec![number as u8; bytes];
    timed.cache.set(key, &value, &SetOptions::default())
}

fn is_there(timed: &Timed, space: Space, number: u64, bytes: usize) -> bool {
    let name = name_of(number);
    let key = timed.cache.key_in(space, &name).unwrap();
    let expected = vec![number as u8; bytes];
    timed.cache.get(key, |item| item.value == expected) == Some(true)
}

fn delete(timed: &Timed, space: Space, number: u64) {
    let name = name_of(number);
    let key = timed.cache.key_in(space, &name).unwrap();
    timed.cache.delete(key, &DeleteOptions::default()).unwrap();
}

/// Stores items of a size until one is refused; how many fit.
fn fill(timed: &Timed, space: Space, bytes: usize) -> u64 {
    for number in 0.. {
        match store(timed, space, number, bytes) {
            Ok(Stored::Done { .. }) => {}
            refused => {
                assert_eq!(refused, Err(Error::Full));
                return number;
            }
        }
    }
    unreachable!()
}

fn flood(timed: &Timed, times: usize) {
    let bytes = timed.cache.memory_bytes() * times;
    for number in 0..(bytes / 1_000) as u64 {
        store(timed, Space::MAIN, number, 1_000).unwrap();
    }
}

fn rest(timed: &Timed) {
    for _ in 0..2_000 {
        timed.clock.advance_ms(2);
        if !timed.cache.tick() {
            return;
        }
    }
}

#[test]
fn a_space_names_its_share() {
    assert_eq!(Space::MAIN.share(), None);
    assert_eq!(Space(Space::NUMBERS).share(), None);
    for share in 0..Space::SHARES_MAX {
        assert_eq!(Space::kept(share, 77).share(), Some(share));
        assert_eq!(
            Space::kept(share, Space::NUMBERS + 77),
            Space::kept(share, 77)
        );
    }
}

#[test]
fn what_is_kept_survives_a_flood_and_leaves_the_cache_its_memory() {
    let timed = keeping(8 * MIB, &[2 * MIB]);
    let space = Space::kept(0, 3);
    for number in 0..5_000 {
        store(&timed, space, number, 100).unwrap();
    }
    flood(&timed, 10);
    rest(&timed);
    assert!((0..5_000).all(|number| is_there(&timed, space, number, 100)));
    let stats = timed.cache.stats();
    assert!(stats.evicted > 10_000);
    // What is not kept is used by the cache.
    let main = timed.cache.space_stats(Space::MAIN).items * 1_000;
    assert!(main > 5 << 20, "{main}");
    timed.cache.audit().unwrap();
}

#[test]
fn a_share_holds_most_of_its_bytes_whatever_their_sizes() {
    for share in [MIB, 4 * MIB, 64 * MIB] {
        for bytes in [1, 20, 100, 1_000, 5_000, 40_000] {
            if share > 4 * MIB && bytes < 100 {
                continue;
            }
            let timed = keeping(2 * share, &[share]);
            let space = Space::kept(0, 1);
            let items = fill(&timed, space, bytes);
            let kept = timed.cache.no_eviction_stats()[0];
            assert_eq!((kept.items, kept.memory_bytes), (items, share as u64));
            assert!(kept.refused > 0);
            let percent = kept.used_bytes * 100 / share as u64;
            println!("share {share}, values of {bytes}: {items} items, {percent} % used");
            assert!(percent >= 92, "{share} {bytes}: {percent} %");
            // A value of more than half a segment leaves the rest of it unused.
            let least = if share == MIB && bytes == 5_000 {
                55
            } else {
                85
            };
            let payload = items * bytes as u64 * 100 / share as u64;
            assert!(
                bytes < 1_000 || payload >= least,
                "{share} {bytes}: {payload} %"
            );
            assert!((0..items).all(|number| is_there(&timed, space, number, bytes)));
            timed.cache.audit().unwrap();
        }
    }
}

#[test]
fn a_refused_store_changes_nothing_and_one_that_takes_away_is_never_refused() {
    let timed = keeping(8 * MIB, &[MIB]);
    let space = Space::kept(0, 1);
    let items = fill(&timed, space, 300);
    let grown = store(&timed, space, 7, 900);
    if grown.is_err() {
        assert!(is_there(&timed, space, 7, 300));
    } else {
        store(&timed, space, 7, 300).unwrap();
    }
    let mut scratch = Vec::new();
    for number in 0..items {
        let name = name_of(number);
        let key = timed.cache.key_in(space, &name).unwrap();
        // As long as before, another deadline, then shorter and shorter.
        assert_eq!(
            timed.cache.touch(key, timed.deadline(Some(1 << 30))),
            Ok(true)
        );
        for bytes in [300, 299, 150, 3] {
            let shorten = |_: Option<Item<'_>>, value: &mut Vec<u8>| {
                value.resize(bytes, number as u8);
                let change = Change::Store {
                    kind: Kind::STRING,
                    deadline: timed.deadline(Some(1 << 30)),
                    flags: 0,
                };
                ((), change)
            };
            timed.cache.update(key, &mut scratch, shorten).unwrap();
            assert!(is_there(&timed, space, number, bytes));
        }
    }
    timed.cache.audit().unwrap();
    // What was won is there for others.
    assert!(store(&timed, space, 1 << 41, 10_000).is_ok());
}

#[test]
fn what_is_deleted_expired_or_flushed_makes_room_again() {
    for bytes in [50, 3_000, 60_000] {
        let timed = keeping(16 * MIB, &[4 * MIB]);
        let space = Space::kept(0, 1);
        let items = fill(&timed, space, bytes);
        // Every tenth.
        (0..items)
            .step_by(10)
            .for_each(|number| delete(&timed, space, number));
        rest(&timed);
        for number in (0..items).step_by(20) {
            assert!(
                store(&timed, space, number, bytes).is_ok(),
                "{bytes} {number} of {items}"
            );
        }
        let left = |number: &u64| !number.is_multiple_of(10) || number.is_multiple_of(20);
        assert!(
            (0..items)
                .filter(left)
                .all(|number| is_there(&timed, space, number, bytes))
        );
        // A space that ends frees all at once, without background maintenance.
        timed.cache.retire_space(space);
        let space = Space::kept(0, 2);
        let again = fill(&timed, space, bytes);
        assert!(again * 10 >= items * 9, "{bytes}: {again} after {items}");
        timed.cache.flush();
        let again = fill(&timed, space, bytes);
        assert!(again * 10 >= items * 9, "{bytes}: {again} after {items}");
        // All of them new, so that each has a deadline: a long value has no room for one.
        (0..again).for_each(|number| delete(&timed, space, number));
        rest(&timed);
        for number in 0..again * 9 / 10 {
            let name = name_of(number);
            let key = timed.cache.key_in(space, &name).unwrap();
            let options = SetOptions {
                deadline: timed.deadline(Some(5_000)),
                ..SetOptions::default()
            };
            timed.cache.set(key, &vec![1; bytes], &options).unwrap();
        }
        timed.clock.advance_ms(6_000);
        let again = fill(&timed, space, bytes);
        assert!(
            again * 10 >= items * 9,
            "{bytes}: {again} after {items} that expired"
        );
        timed.cache.audit().unwrap();
    }
}

#[test]
fn one_space_of_several_in_a_share_frees_what_it_had() {
    let timed = keeping(16 * MIB, &[4 * MIB]);
    let (one, other) = (Space::kept(0, 1), Space::kept(0, 2));
    for number in 0..5_000 {
        store(&timed, one, number, 200).unwrap();
    }
    let items = fill(&timed, other, 200);
    timed.cache.retire_space(other);
    rest(&timed);
    let again = fill(&timed, Space::kept(0, 3), 200);
    assert!(again * 10 >= items * 9, "{again} after {items}");
    assert!((0..5_000).all(|number| is_there(&timed, one, number, 200)));
    timed.cache.audit().unwrap();
}

#[test]
fn shares_do_not_touch_each_other_and_shrinking_leaves_them_alone() {
    let timed = keeping(8 * MIB, &[MIB, 2 * MIB]);
    let (small, large) = (Space::kept(0, 1), Space::kept(1, 1));
    let (few, many) = (fill(&timed, small, 500), fill(&timed, large, 500));
    assert!(many > few * 3 / 2 && many < few * 3, "{few} {many}");
    flood(&timed, 2);
    let min = 3 * MIB + 5 * MIB / 4;
    assert_eq!(
        timed.cache.set_memory_bytes(min - 1),
        Err(Error::MemoryTooSmall {
            bytes: min - 1,
            min
        })
    );
    timed.cache.set_memory_bytes(min).unwrap();
    rest(&timed);
    flood(&timed, 2);
    assert!((0..few).all(|number| is_there(&timed, small, number, 500)));
    assert!((0..many).all(|number| is_there(&timed, large, number, 500)));
    timed.cache.audit().unwrap();
}

#[test]
fn shares_that_leave_too_little_are_refused() {
    let with = |keep: &[usize]| {
        let config = Config {
            keep: keep.to_vec(),
            ..Config::with_memory(8 * MIB)
        };
        Cache::new(config).map(|_| ())
    };
    assert_eq!(with(&[2 * MIB, 2 * MIB]), Ok(()));
    for wrong in [
        &[4 * MIB + 1][..],
        &[MIB - 1],
        &[0],
        &[usize::MAX, usize::MAX],
        &[3 * MIB, 2 * MIB],
    ] {
        assert!(matches!(with(wrong), Err(Error::Keep { .. })), "{wrong:?}");
    }
    let nine = Config {
        keep: vec![MIB; 9],
        ..Config::with_memory(64 * MIB)
    };
    assert!(matches!(Cache::new(nine), Err(Error::Keep { .. })));
}

/// What should be there: values and the moments at which they are over.
type Model = HashMap<(Space, u64), (Vec<u8>, Option<Instant>)>;

/// Random operations on kept spaces beside a flood, against a model.
struct Trial {
    timed: Timed,
    random: Random,
    model: Model,
    spaces: [Space; 3],
    fresh: u32,
    refused: u64,
    flooded: u64,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        Trial {
            timed: keeping(6 * MIB, &[MIB, 2 * MIB]),
            random: Random::from_seed(seed),
            model: Model::new(),
            spaces: [Space::kept(0, 0), Space::kept(1, 1), Space::kept(1, 2)],
            fresh: 3,
            refused: 0,
            flooded: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn length(&mut self) -> usize {
        let most = [8, 60, 400, 3_000, 20_000, 150_000][self.below(6) as usize];
        self.below(most) as usize
    }

    /// What the model has now.
    fn live(&self, at: (Space, u64)) -> Option<&(Vec<u8>, Option<Instant>)> {
        let now = self.timed.cache.now();
        self.model
            .get(&at)
            .filter(|(_, until)| until.is_none_or(|until| now < until))
    }

    fn note<R>(&mut self, result: Result<R, Error>, change: impl FnOnce(&mut Model)) {
        match result {
            Ok(_) => change(&mut self.model),
            Err(error) => {
                assert_eq!(error, Error::Full);
                self.refused += 1;
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=6 => self.store(),
            7..=9 => self.change(),
            10 => self.touch(),
            11 | 12 => {
                let at = self.draw();
                let name = name_of(at.1);
                let key = self.timed.cache.key_in(at.0, &name).unwrap();
                let options = DeleteOptions::default();
                self.timed.cache.delete(key, &options).unwrap();
                self.model.remove(&at);
            }
            13 => {
                self.timed.clock.advance_ms(self.random.below(400));
                self.timed.cache.tick();
            }
            14 => {
                for _ in 0..self.random.below(200) {
                    let bytes = self.random.below(4_000) as usize;
                    store(&self.timed, Space::MAIN, self.flooded, bytes).unwrap();
                    self.flooded += 1;
                }
            }
            _ if self.random.below(60) == 0 => {
                let place = self.random.below(3) as usize;
                let old = self.spaces[place];
                self.timed.cache.retire_space(old);
                self.model.retain(|(space, _), _| *space != old);
                self.spaces[place] = Space::kept(old.share().unwrap(), self.fresh);
                self.fresh += 1;
            }
            _ => {}
        }
    }

    /// A key of some kept space.
    fn draw(&mut self) -> (Space, u64) {
        let space = self.spaces[self.below(3) as usize];
        (space, self.below(400))
    }

    /// A time to live, or none, as options and as the model has it.
    fn draw_ttl(&mut self) -> (SetOptions, Option<Instant>) {
        let ttl_ms = (self.below(3) == 0).then(|| 1 + self.random.below(20_000));
        let until = ttl_ms.map(|ttl_ms| Instant(self.timed.cache.now().0 + ttl_ms));
        let options = SetOptions {
            deadline: self.timed.deadline(ttl_ms),
            ..SetOptions::default()
        };
        (options, until)
    }

    /// Stores a value, at once or received in pieces.
    fn store(&mut self) {
        let (at, (options, until)) = (self.draw(), self.draw_ttl());
        let (length, is_received) = (self.length(), self.below(7) == 0);
        let value = vec![length as u8; length];
        let name = name_of(at.1);
        let cache = &self.timed.cache;
        let key: Key<'_> = cache.key_in(at.0, &name).unwrap();
        let result = if is_received {
            cache.draft(key, length).and_then(|mut draft| {
                draft.value_mut().copy_from_slice(&value);
                cache.commit(draft, &options)
            })
        } else {
            cache.set(key, &value, &options)
        };
        self.note(result, |model| drop(model.insert(at, (value, until))));
    }

    /// Puts something behind a value, or takes something away, which never fails.
    fn change(&mut self) {
        let (at, grows) = (self.draw(), self.below(3) == 0);
        let there = self.live(at).map(|(value, _)| value.len());
        let name = name_of(at.1);
        let cache = &self.timed.cache;
        let key = cache.key_in(at.0, &name).unwrap();
        if grows {
            let more = [7; 50];
            let result = cache.extend(key, End::Back, &more, &SetOptions::default());
            assert!(result.is_err() || (result == Ok(Stored::NotStored)) == there.is_none());
            self.note(result, |model| {
                if let Some((value, _)) = model.get_mut(&at).filter(|_| there.is_some()) {
                    value.extend_from_slice(&more);
                }
            });
            return;
        }
        let keeps = there.unwrap_or(0) / 2;
        let shorten = |item: Option<Item<'_>>, scratch: &mut Vec<u8>| {
            let Some(item) = item else {
                return ((), Change::Keep);
            };
            scratch.extend_from_slice(&item.value[..keeps]);
            let change = Change::Store {
                kind: item.kind,
                deadline: item.deadline,
                flags: item.flags,
            };
            ((), change)
        };
        cache.update(key, &mut Vec::new(), shorten).unwrap();
        if let Some((value, _)) = self.model.get_mut(&at) {
            value.truncate(keeps);
        }
    }

    fn touch(&mut self) {
        let (at, (options, until)) = (self.draw(), self.draw_ttl());
        let is_there = self.live(at).is_some();
        let name = name_of(at.1);
        let key = self.timed.cache.key_in(at.0, &name).unwrap();
        let result = self.timed.cache.touch(key, options.deadline);
        self.note(result, |model| {
            if let Some((_, old)) = model.get_mut(&at).filter(|_| is_there) {
                *old = until;
            }
        });
    }

    fn check(&self) {
        for &(space, number) in self.model.keys() {
            let name = name_of(number);
            let key = self.timed.cache.key_in(space, &name).unwrap();
            let found = self.timed.cache.peek(key, |item| item.value.to_vec());
            let expected = self.live((space, number)).map(|(value, _)| value.clone());
            assert!(found == expected, "{space:?} {number}");
        }
        self.timed.cache.audit().unwrap();
    }
}

#[test]
fn whatever_is_done_beside_it_a_kept_item_stays_until_its_owner_or_its_time_ends_it() {
    let (seeds, steps) = if cfg!(miri) { (1, 300) } else { (12, 12_000) };
    let (mut refused, mut flooded) = (0, 0);
    for seed in 0..seeds {
        let mut trial = Trial::new(seed);
        for step in 0..steps {
            trial.step();
            if step % 500 == 0 {
                trial.check();
            }
        }
        trial.check();
        (refused, flooded) = (refused + trial.refused, flooded + trial.flooded);
    }
    println!("{refused} stores refused, {flooded} beside them");
    assert!(cfg!(miri) || refused > 100, "{refused}");
}
