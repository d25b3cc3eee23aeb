//! Leases, stale items, versions and last access, as a client of the meta commands sees them.

use cellar_engine::{
    Config, DeleteOptions, Deleted, Kind, Lease, Lookup, SetOptions, Stored, When,
};

use crate::support::cache::Timed;

const LEASE_MS: u64 = 5_000;
const WON: Lease = Lease {
    won: true,
    stale: false,
    taken: false,
};
const TAKEN: Lease = Lease {
    won: false,
    stale: false,
    taken: true,
};
const NONE: Lease = Lease {
    won: false,
    stale: false,
    taken: false,
};

fn timed() -> Timed {
    Timed::with(Config {
        lease_ms: LEASE_MS,
        shards: Some(1),
        ..Config::with_memory(2 << 20)
    })
}

impl Timed {
    /// Looks `key` up; the lease and the version of what was found.
    fn look(&self, lookup: Lookup) -> Option<(Lease, u64)> {
        let key = self.cache.key(b"key").unwrap();
        self.cache
            .lookup(key, &lookup, |found| (found.lease, found.version))
            .unwrap()
    }

    fn idle_s(&self) -> u64 {
        let key = self.cache.key(b"key").unwrap();
        let lookup = Lookup {
            idle: true,
            ..Lookup::default()
        };
        self.cache
            .lookup(key, &lookup, |found| found.idle_s)
            .unwrap()
            .unwrap()
    }

    fn vivify(&self) -> Lookup {
        Lookup {
            vivify: Some(self.deadline(Some(60_000))),
            ..Lookup::default()
        }
    }

    fn delete(&self, options: &DeleteOptions) -> Deleted {
        self.cache
            .delete(self.cache.key(b"key").unwrap(), options)
            .unwrap()
    }
}

#[test]
fn one_of_many_that_miss_wins_the_lease() {
    let timed = timed();
    assert_eq!(timed.look(Lookup::default()), None);
    assert_eq!(timed.look(timed.vivify()).unwrap().0, WON);
    assert_eq!(timed.look(timed.vivify()).unwrap().0, TAKEN);
    assert_eq!(timed.look(Lookup::default()).unwrap().0, TAKEN);
    timed.set("key", b"fresh", None).unwrap();
    assert_eq!(timed.look(timed.vivify()).unwrap().0, NONE);
}

#[test]
fn a_winner_that_died_blocks_others_only_for_a_while() {
    let timed = timed();
    timed.look(timed.vivify());
    timed.clock.advance_ms(LEASE_MS - 1);
    assert_eq!(timed.look(timed.vivify()).unwrap().0, TAKEN);
    timed.clock.advance_ms(1);
    assert_eq!(timed.look(timed.vivify()).unwrap().0, WON);
    assert_eq!(timed.look(timed.vivify()).unwrap().0, TAKEN);
}

#[test]
fn an_item_about_to_expire_is_refreshed_by_one() {
    let timed = timed();
    timed.set("key", b"value", Some(20_000)).unwrap();
    let early = Lookup {
        recache_ms: Some(10_000),
        ..Lookup::default()
    };
    assert_eq!(timed.look(early).unwrap().0, NONE);
    timed.clock.advance_ms(10_001);
    assert_eq!(timed.look(early).unwrap().0, WON);
    assert_eq!(timed.look(early).unwrap().0, TAKEN);
}

#[test]
fn a_stale_item_is_served_and_its_lease_won_once() {
    let timed = timed();
    timed.set("key", b"value", None).unwrap();
    let marked = DeleteOptions {
        mark_stale: true,
        ..DeleteOptions::default()
    };
    assert_eq!(timed.delete(&marked), Deleted::Done);
    let stale = |won, taken| Lease {
        won,
        stale: true,
        taken,
    };
    let unaware = Lookup {
        no_lease: true,
        ..Lookup::default()
    };
    assert_eq!(timed.look(unaware).unwrap().0, stale(false, false));
    assert_eq!(timed.look(Lookup::default()).unwrap().0, stale(true, false));
    assert_eq!(timed.look(Lookup::default()).unwrap().0, stale(false, true));
    assert_eq!(timed.get("key"), Some(b"value".to_vec()));
}

#[test]
fn a_version_holds_until_the_item_changes() {
    let timed = timed();
    timed.set("key", b"value", None).unwrap();
    let versioned = Lookup {
        version: true,
        ..Lookup::default()
    };
    let (_, version) = timed.look(versioned).unwrap();
    assert_eq!(timed.look(versioned).unwrap().1, version);
    let store = |version| {
        let options = SetOptions {
            when: When::Version(version),
            ..SetOptions::default()
        };
        timed
            .cache
            .set(timed.cache.key(b"key").unwrap(), b"value", &options)
            .unwrap()
    };
    assert!(matches!(store(version), Stored::Done { .. }));
    assert_eq!(store(version), Stored::Exists);
    timed.delete(&DeleteOptions::default());
    assert_eq!(store(version), Stored::NotFound);
    timed.set("key", b"value", None).unwrap();
    assert_eq!(store(version), Stored::Exists);
}

#[test]
fn uses_are_noted_from_when_that_is_asked_for_and_can_be_taken_back() {
    let timed = timed();
    let key = timed.cache.key(b"key").unwrap();
    let uses = || timed.cache.facts(key, |facts| (facts.uses, facts.idle_s));
    let (new, _) = {
        timed.set("key", b"value", None).unwrap();
        uses().unwrap()
    };
    assert!(new.is_last_known());
    timed.clock.advance_ms(7_000);
    timed.get("key");
    let (read, idle_s) = uses().unwrap();
    assert!(!read.is_last_known() && read != new && idle_s == 7);
    timed.cache.set_uses(key, new);
    assert_eq!(uses(), Some((new, 7)));
    timed.get("key");
    timed.cache.note_uses(key).unwrap();
    timed.clock.advance_ms(2_000);
    let (noted, idle_s) = uses().unwrap();
    assert!(noted.is_last_known() && idle_s == 2);
    timed.get("key");
    assert_eq!(uses().unwrap().1, 0);
    timed.cache.set_uses(key, noted);
    assert_eq!(uses(), Some((noted, 2)));
    assert_eq!(
        timed.cache.note_uses(timed.cache.key(b"none").unwrap()),
        Ok(())
    );
}

#[test]
fn the_time_since_the_last_access_is_known_to_the_second() {
    let timed = timed();
    timed.set("key", b"value", None).unwrap();
    timed.clock.advance_ms(7_000);
    assert_eq!(timed.idle_s(), 7);
    timed.clock.advance_ms(3_000);
    assert_eq!(timed.idle_s(), 3);
    timed.clock.advance_ms(2_000);
    timed.get("key");
    timed.clock.advance_ms(1_000);
    assert_eq!(timed.idle_s(), 1);
}

#[test]
fn a_lease_may_have_a_time_of_its_own() {
    let timed = timed();
    let lookup = Lookup {
        lease_ms: Some(500),
        ..timed.vivify()
    };
    assert!(timed.look(lookup).unwrap().0.won);
    timed.clock.advance_ms(499);
    assert!(timed.look(lookup).unwrap().0.taken);
    timed.clock.advance_ms(1);
    assert!(timed.look(lookup).unwrap().0.won);
}

#[test]
fn what_is_no_string_has_no_leases_and_is_not_looked_up() {
    let timed = timed();
    let hash = SetOptions {
        kind: Kind(1),
        ..SetOptions::default()
    };
    let key = timed.cache.key(b"key").unwrap();
    timed.cache.set(key, b"fields", &hash).unwrap();
    let lookup = Lookup {
        touch: Some(cellar_engine::Deadline::PASSED),
        ..timed.vivify()
    };
    assert_eq!(timed.look(lookup), None);
    assert_eq!(timed.get("key").as_deref(), Some(&b"fields"[..]));
}

/// An item that gets a deadline, a version or a lease is stored again, and making space for it may
/// evict it. Its client then gets a placeholder and a lease, as for any other miss.
#[test]
fn an_item_that_is_evicted_for_its_longer_header_is_a_miss_with_a_lease() {
    let mut placeholders = 0;
    for fillers in 0..400 {
        let timed = timed();
        timed.set("key", &[1; 700_000], None).unwrap();
        for filler in 0..fillers {
            let filler = format!("filler {filler}");
            timed.set(&filler, &[2; 5_000], None).unwrap();
        }
        let lookup = Lookup {
            idle: true,
            ..timed.vivify()
        };
        // A look that is not counted as a use.
        let key = timed.cache.key(b"key").unwrap();
        let was_there = timed.cache.facts(key, |_| ()).is_some();
        let (lease, _) = timed.look(lookup).expect("a miss leaves a placeholder");
        if was_there && lease == WON {
            assert_eq!(timed.get("key").as_deref(), Some(&b""[..]));
            placeholders += 1;
        }
    }
    assert!(placeholders > 0, "none was evicted for itself");
}
