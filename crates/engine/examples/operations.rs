//! One kind of operation on one thread, so many times, for tools that count instructions:
//! `operations get|overwrite|resize|insert|count NUMBER [STATE]`. With a directory STATE the
//! cache's memory outlives the process. What it takes to make and fill the cache is the same for
//! all numbers.

use std::path::Path;
use std::sync::Arc;

use cellar_engine::{
    Cache, Config, Deadline, Error, Increment, Instant, ManualClock, SetOptions, StateDir,
    StateOptions,
};

const USAGE: &str = "operations get|overwrite|resize|insert|count NUMBER [STATE]";
const MEMORY_BYTES: usize = 16 << 20;
const ITEMS: u64 = 20_000;
const VALUE_BYTES: usize = 100;
/// Operations between two steps of the clock and of background maintenance, as a server's loop has
/// them.
const OPERATIONS_PER_TICK: u64 = 4096;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (what, number, state) = match words[..] {
        [what, number] => (what, number, None),
        [what, number, state] => (what, number, Some(Path::new(state))),
        _ => panic!("{USAGE}"),
    };
    let number: u64 = number.parse().expect(USAGE);
    run(what, number, state).expect("the cache takes all of it");
}

fn run(what: &str, number: u64, state: Option<&Path>) -> Result<(), Error> {
    let clock = Arc::new(ManualClock::default());
    let config = Config {
        shards: Some(1),
        // The same places in each run.
        seed: Some(1),
        clock: Arc::<ManualClock>::clone(&clock),
        state: state.map(StateDir::open).transpose()?.map(StateOptions::of),
        ..Config::with_memory(MEMORY_BYTES)
    };
    let cache = Cache::new(config)?;
    let value = [b'v'; 2 * VALUE_BYTES];
    for item in 0..ITEMS {
        let (initial, key) = match what {
            "count" => (&b"0"[..], item),
            _ => (&value[..VALUE_BYTES], item),
        };
        store(&cache, key, initial)?;
    }
    let mut sink = [0; VALUE_BYTES];
    for done in 0..number {
        if done % OPERATIONS_PER_TICK == 0 {
            clock.set(Instant(done / OPERATIONS_PER_TICK));
            cache.tick();
        }
        // Each item in turn, far from the one before.
        let item = done.wrapping_mul(7_919) % ITEMS;
        match what {
            "get" => get(&cache, item, &mut sink)?,
            "overwrite" => store(&cache, item, &value[..VALUE_BYTES])?,
            // Longer and shorter in turns, so that it does not fit where it lies.
            "resize" => {
                let bytes = VALUE_BYTES * (1 + (done / ITEMS + 1) as usize % 2);
                store(&cache, item, &value[..bytes])?;
            }
            "insert" => store(&cache, ITEMS + done, &value[..VALUE_BYTES])?,
            "count" => count(&cache, item)?,
            _ => panic!("{USAGE}"),
        }
    }
    Ok(())
}

/// A key of twenty bytes. It takes few instructions, because they are counted as the operation's:
/// a letter for each four bits, all at once.
fn name(item: u64) -> [u8; 20] {
    let halves = (item | item << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    let digits = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = digits + u64::from_be_bytes(*b"aaaaaaaa");
    let mut name = *b"key-aaaaaaaaaaaaaaaa";
    name[12..].copy_from_slice(&letters.to_be_bytes());
    name
}

fn store(cache: &Cache, item: u64, value: &[u8]) -> Result<(), Error> {
    let options = SetOptions {
        deadline: Deadline::at(Instant(3_600_000)),
        ..SetOptions::default()
    };
    let name = name(item);
    cache.set(cache.key(&name)?, value, &options).map(|_| ())
}

fn get(cache: &Cache, item: u64, sink: &mut [u8; VALUE_BYTES]) -> Result<(), Error> {
    let name = name(item);
    let found = cache.get(cache.key(&name)?, |item| sink.copy_from_slice(item.value));
    assert!(found.is_some(), "nothing has left");
    Ok(())
}

fn count(cache: &Cache, item: u64) -> Result<(), Error> {
    let name = name(item);
    cache
        .increment(cache.key(&name)?, &Increment::by(1))
        .map(|_| ())
}
