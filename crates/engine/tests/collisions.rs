//! Collisions: keys whose hashes agree, as one would choose them who knew the hash. A SET of such a
//! key is never refused and is read back, and hardly any other key has to leave for it.

use cellar_engine::{Config, SetOptions};

use crate::support::cache::Timed;

const OTHERS: u32 = if cfg!(miri) { 50 } else { 1_000 };
const CHOSEN: usize = if cfg!(miri) { 20 } else { 3_000 };
/// The bits in which the hashes of the chosen agree.
const SAME: u64 = if cfg!(miri) { 0x7 } else { 0xfff };

#[test]
fn keys_of_one_bucket_are_stored_and_the_others_stay() {
    let timed = Timed::with(Config {
        shards: Some(1),
        seed: Some(5),
        ..Config::with_memory(16 << 20)
    });
    let cache = &timed.cache;
    let set = |number: u32| {
        let bytes = number.to_le_bytes();
        let key = cache.key(&bytes).unwrap();
        cache.set(key, b"", &SetOptions::default()).unwrap();
        assert!(cache.get(key, |_| ()).is_some());
    };
    (0..OTHERS).for_each(set);
    let chosen = (OTHERS..).filter(|number| {
        let bytes = number.to_le_bytes();
        cache.key(&bytes).unwrap().hash() & SAME == 3
    });
    chosen.take(CHOSEN).for_each(set);
    cache.audit().unwrap();
    let others = (0..OTHERS).filter(|number| {
        let bytes = number.to_le_bytes();
        cache.get(cache.key(&bytes).unwrap(), |_| ()).is_some()
    });
    assert!(others.count() as u32 >= OTHERS - 32);
    assert!(cache.stats().evicted <= CHOSEN as u64);
}
