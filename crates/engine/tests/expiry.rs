//! What is dead when live items leave: at most 6 % of memory, counted entry by entry, whatever the
//! times to live are and however memory is cut.
//!
//! Each mix runs for several of its times to live at a rate whose live items would need more
//! memory than there is. At many moments, each right after an eviction, all memory is walked.

use cellar_engine::{Audit, Config, DeleteOptions, Maintenance, SetOptions};

use crate::support::cache::Timed;
use crate::support::random::Random;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Most that may be dead when a live item is evicted, in millionths of memory.
const DEAD_PPM_MAX: u64 = 60_000;
/// Moments of eviction at which memory is walked.
const AUDITS: u64 = 40;
/// Keys that may be asked for, overwritten and deleted again: the most recent ones.
const RECENT_KEYS: u64 = 30_000;

/// What is stored, and where.
#[derive(Clone, Copy)]
struct Mix {
    ttl_ms: fn(&mut Random) -> u64,
    memory_mib: usize,
    shards: usize,
    /// Most bytes of a value; the least is 10.
    value_bytes_max: usize,
    /// How many times as many items are stored as there is room for.
    stores_per_room: u64,
    /// What live items would need at the end, in percent of memory.
    demand_percent: u64,
    /// Of 100 stores, those over an item that may be there; about half do not fit in its place.
    overwrites_percent: u64,
    /// Of 100 stores, those followed by a delete of another item.
    deletes_percent: u64,
    /// Whether the rate of stores changes between a quarter and twice its mean.
    bursts: bool,
    /// Whether nothing happens now and then for half a mean time to live.
    pauses: bool,
}

impl Mix {
    fn new(ttl_ms: fn(&mut Random) -> u64) -> Mix {
        Mix {
            ttl_ms,
            memory_mib: 8,
            shards: 1,
            value_bytes_max: 400,
            stores_per_room: 6,
            demand_percent: 150,
            overwrites_percent: 30,
            deletes_percent: 5,
            bursts: false,
            pauses: false,
        }
    }
}

/// A mix on its way.
struct Run {
    mix: Mix,
    timed: Timed,
    random: Random,
    keys: u64,
    evicted: u64,
    worst: Audit,
    audits: u64,
}

impl Run {
    fn new(mix: Mix) -> Run {
        let config = Config {
            shards: Some(mix.shards),
            seed: Some(3),
            ..Config::with_memory(mix.memory_mib << 20)
        };
        Run {
            mix,
            timed: Timed::with(config),
            random: Random::from_seed(11),
            keys: 0,
            evicted: 0,
            worst: Audit::default(),
            audits: 0,
        }
    }

    /// A key of late; more recent ones are more likely.
    fn recent_key(&mut self) -> u64 {
        let back = self.random.below(RECENT_KEYS) * self.random.below(RECENT_KEYS) / RECENT_KEYS;
        self.keys.saturating_sub(1 + back)
    }

    fn store(&mut self) {
        let number = if self.random.below(100) < self.mix.overwrites_percent {
            self.recent_key()
        } else {
            self.keys += 1;
            self.keys - 1
        };
        let bytes = 10 + self.random.below(self.mix.value_bytes_max as u64 - 10) as usize;
        let ttl_ms = (self.mix.ttl_ms)(&mut self.random);
        let options = SetOptions {
            deadline: self.timed.cache.now().plus_ms(ttl_ms),
            ..SetOptions::default()
        };
        let name = format!("key {number}");
        let key = self.timed.cache.key(name.as_bytes()).unwrap();
        let value = vec![number as u8; bytes];
        self.timed.cache.set(key, &value, &options).unwrap();
        if self.random.below(100) < self.mix.deletes_percent {
            let name = format!("key {}", self.recent_key());
            let key = self.timed.cache.key(name.as_bytes()).unwrap();
            self.timed
                .cache
                .delete(key, &DeleteOptions::default())
                .unwrap();
        }
        if self.random.below(2) == 0 {
            let number = self.recent_key();
            self.timed.get(&format!("key {number}"));
        }
    }

    /// Whether a live item was evicted since the last call.
    fn has_evicted(&mut self) -> bool {
        let evicted = self.timed.cache.stats().evicted;
        std::mem::replace(&mut self.evicted, evicted) < evicted
    }

    fn audit(&mut self) {
        let audit = self.timed.cache.audit().unwrap();
        self.audits += 1;
        if audit.dead_bytes() > self.worst.dead_bytes() {
            self.worst = audit;
        }
    }
}

/// How long a run of `stores` lasts, in milliseconds, so that at its end live items would need the
/// mix's demand.
fn duration_ms(mix: &Mix, items: u64, stores: u64) -> u64 {
    let mut random = Random::from_seed(5);
    let ttls: Vec<u64> = (0..10_000).map(|_| (mix.ttl_ms)(&mut random)).collect();
    let new = stores * (100 - mix.overwrites_percent) / 100;
    // Of the new items of a run, this part is alive at its end, the less the longer it lasts.
    let alive = |duration: u64| {
        let alive_ms: u64 = ttls.iter().map(|&ttl| ttl.min(duration)).sum();
        new as f64 * alive_ms as f64 / duration as f64 / ttls.len() as f64
    };
    let (mut short, mut long) = (1, 30 * DAY);
    while long - short > 1 + short / 100 {
        let middle = short + (long - short) / 2;
        if alive(middle) > items as f64 {
            short = middle;
        } else {
            long = middle;
        }
    }
    long
}

/// Runs a mix and checks that little is dead at each eviction.
fn check(mix: Mix) {
    let mut run = Run::new(mix);
    let item_bytes = 30 + mix.value_bytes_max as u64 / 2;
    let room = ((mix.memory_mib as u64) << 20) / item_bytes;
    let (items, stores) = (room * mix.demand_percent / 100, room * mix.stores_per_room);
    let duration_ms = duration_ms(&mix, items, stores);
    let step_ns = (u128::from(duration_ms) * 1_000_000 / u128::from(stores)) as u64;
    let mut owed_ns = 0;
    let mut audit_at = 0;
    for number in 0..stores {
        if number == audit_at {
            run.has_evicted();
        }
        run.store();
        if number >= audit_at && run.has_evicted() {
            run.audit();
            audit_at = number + 1 + run.random.below(2 * stores / AUDITS);
        }
        let burst = match number * 32 / stores % 8 {
            _ if !mix.bursts => 4,
            0..4 => 2,
            _ => 16,
        };
        owed_ns += step_ns * burst / 4;
        if mix.pauses && number % (stores / 8) == 0 {
            owed_ns += duration_ms * 100_000;
            audit_at = number + 1;
        }
        run.timed.clock.advance_ms(owed_ns / 1_000_000);
        owed_ns %= 1_000_000;
        if number.is_multiple_of(5_000) {
            run.timed.cache.tick();
        }
    }
    let stats = run.timed.cache.stats();
    let (ppm, copies) = (run.worst.dead_ppm(), stats.copied * 100 / stats.items_total);
    eprintln!(
        "{ppm} ppm dead at the worst of {} moments; {copies} copies in 100 stores",
        run.audits
    );
    assert!(run.audits >= 10, "{} evictions seen: {stats:?}", run.audits);
    assert!(
        ppm <= DEAD_PPM_MAX,
        "{ppm} ppm dead: {:?} {stats:?}",
        run.worst
    );
}

fn one_ttl(_: &mut Random) -> u64 {
    10 * MINUTE
}

fn one_short_ttl(_: &mut Random) -> u64 {
    800
}

/// Forty times to live from a second to a day, each as likely.
fn forty_ttls(random: &mut Random) -> u64 {
    let number = random.below(40) as f64;
    (SECOND as f64 * (DAY as f64 / SECOND as f64).powf(number / 39.0)) as u64
}

/// Forty times to live from a second to an hour, less of the longer ones.
fn forty_shorter_ttls(random: &mut Random) -> u64 {
    let number = random.below(40) * random.below(40) / 40;
    (SECOND as f64 * 3_600_f64.powf(number as f64 / 39.0)) as u64
}

fn jittered(random: &mut Random) -> u64 {
    HOUR - HOUR / 10 + random.below(HOUR / 5)
}

fn jittered_milliseconds(random: &mut Random) -> u64 {
    500 + random.below(1_000)
}

/// Median five minutes, one in six longer than an hour.
fn lognormal(random: &mut Random) -> u64 {
    ((5 * MINUTE) as f64 * (2.5 * random.normal()).exp()).clamp(1.0, 30.0 * DAY as f64) as u64
}

/// From a tenth of a second to ten days, most of them short.
fn milliseconds_to_days(random: &mut Random) -> u64 {
    match random.below(10) {
        0..4 => 100 + random.below(900),
        4..7 => MINUTE + random.below(HOUR),
        7..9 => 6 * HOUR + random.below(DAY),
        _ => DAY + random.below(9 * DAY),
    }
}

/// Sessions beside pages: nine of ten live a minute, the others a day.
fn two_ttls(random: &mut Random) -> u64 {
    if random.below(10) == 0 { DAY } else { MINUTE }
}

#[test]
fn little_is_dead_at_evictions_with_one_ttl() {
    check(Mix::new(one_ttl));
}

#[test]
fn little_is_dead_at_evictions_with_one_short_ttl() {
    check(Mix {
        demand_percent: 115,
        ..Mix::new(one_short_ttl)
    });
}

#[test]
fn little_is_dead_at_evictions_with_forty_ttls() {
    check(Mix::new(forty_ttls));
}

#[test]
fn little_is_dead_at_evictions_with_forty_shorter_ttls_in_bursts() {
    check(Mix {
        bursts: true,
        demand_percent: 250,
        ..Mix::new(forty_shorter_ttls)
    });
}

#[test]
fn little_is_dead_at_evictions_with_jittered_ttls() {
    check(Mix {
        memory_mib: 16,
        ..Mix::new(jittered)
    });
}

#[test]
fn little_is_dead_at_evictions_with_jittered_milliseconds_on_four_shards() {
    check(Mix {
        memory_mib: 16,
        shards: 4,
        ..Mix::new(jittered_milliseconds)
    });
}

#[test]
fn little_is_dead_at_evictions_with_lognormal_ttls() {
    check(Mix {
        memory_mib: 16,
        ..Mix::new(lognormal)
    });
}

#[test]
fn little_is_dead_at_evictions_with_lognormal_ttls_on_four_shards() {
    check(Mix {
        memory_mib: 64,
        shards: 4,
        value_bytes_max: 3_000,
        ..Mix::new(lognormal)
    });
}

#[test]
fn little_is_dead_at_evictions_with_ttls_from_milliseconds_to_days() {
    check(Mix {
        memory_mib: 16,
        ..Mix::new(milliseconds_to_days)
    });
}

#[test]
fn little_is_dead_at_evictions_after_pauses() {
    check(Mix {
        pauses: true,
        ..Mix::new(two_ttls)
    });
}

#[test]
fn little_is_dead_at_evictions_with_two_ttls_on_four_shards_in_bursts() {
    check(Mix {
        memory_mib: 16,
        shards: 4,
        bursts: true,
        demand_percent: 250,
        ..Mix::new(two_ttls)
    });
}

#[test]
fn little_is_dead_at_evictions_when_most_stores_overwrite() {
    check(Mix {
        overwrites_percent: 80,
        stores_per_room: 20,
        ..Mix::new(jittered)
    });
}

#[test]
fn little_is_dead_at_evictions_with_large_values() {
    check(Mix {
        memory_mib: 64,
        value_bytes_max: 60_000,
        ..Mix::new(forty_ttls)
    });
}

#[test]
fn expiries_in_a_large_segment_full_of_small_items_are_counted_to_the_last() {
    // Segments of 1 MiB, so that one of them holds tens of thousands of items that die together.
    let timed = Timed::new(256 << 20);
    for number in 0..150_000 {
        timed
            .set(&format!("{number:012}"), b"12345678", Some(HOUR))
            .unwrap();
    }
    timed.cache.audit().unwrap();
    for number in (0..150_000).filter(|number| number % 16 != 0) {
        let name = format!("{number:012}");
        let key = timed.cache.key(name.as_bytes()).unwrap();
        timed.cache.delete(key, &DeleteOptions::default()).unwrap();
    }
    timed.cache.audit().unwrap();
    timed.clock.advance_ms(HOUR);
    let stats = timed.cache.stats();
    assert_eq!((stats.live_bytes, stats.items), (0, 150_000 / 16));
    timed.cache.audit().unwrap();
}

#[test]
fn a_large_value_that_got_a_deadline_later_goes_when_that_has_passed() {
    let timed = Timed::new(64 << 20);
    let value = vec![7; 1 << 20];
    for number in 0..16 {
        timed.set(&format!("large{number}"), &value, None).unwrap();
        let key = format!("large{number}").into_bytes();
        let key = timed.cache.key(&key).unwrap();
        assert_eq!(
            timed.cache.touch(key, timed.deadline(Some(1_000))),
            Ok(true)
        );
    }
    let held = || timed.cache.stats().live_bytes + timed.cache.stats().dead_bytes;
    assert!(held() > 16 << 20);
    timed.clock.advance_ms(2_000);
    let mut maintenance = Maintenance::default();
    for _ in 0..200 {
        timed.clock.advance_ms(50);
        maintenance.step(&timed.cache);
    }
    assert!(held() < 1 << 20, "{}", held());
}
