//! Two threads on one small cache: what a reader sees is always one whole value of that key.
//!
//! Meant for ThreadSanitizer as well; CONTRIBUTING.md has the command.

use cellar_engine::{Cache, Config, DeleteOptions, SetOptions};

const KEYS: u64 = 3_000;
const OPERATIONS: u64 = if cfg!(miri) { 200 } else { 150_000 };

/// A value that tells its key and that is the same byte over its whole length.
fn value(key: u64, version: u64, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend(key.to_le_bytes());
    let bytes = if version.is_multiple_of(64) {
        20_000
    } else {
        20 + version as usize % 100
    };
    buffer.resize(8 + bytes, version as u8);
}

fn check(key: u64, value: &[u8]) {
    assert_eq!(value[..8], key.to_le_bytes());
    assert!(value[8..].iter().all(|&byte| byte == value[8]));
}

fn run(cache: &Cache, thread: u64) {
    let mut random = thread + 88_172_645_463_325_252;
    let mut buffer = Vec::new();
    let mut handle = None;
    for step in 0..OPERATIONS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let number = random % KEYS;
        let name = number.to_le_bytes();
        let key = cache.key(&name).unwrap();
        match random >> 32 & 7 {
            0..=2 => {
                value(number, step, &mut buffer);
                let deadline = cache.now().plus_ms(random >> 40 & 255);
                let options = SetOptions {
                    deadline,
                    ..SetOptions::default()
                };
                // Handles of the other thread may hold all memory for a moment.
                let _ = cache.set(key, &buffer, &options);
            }
            3 => drop(cache.delete(key, &DeleteOptions::default())),
            4 => {
                if let Some(found) = cache.get_handle(key) {
                    check(number, &found);
                    handle = Some((number, found));
                }
            }
            5 if step % 64 == 0 => {
                value(number, step, &mut buffer);
                if let Ok(mut draft) = cache.draft(key, buffer.len()) {
                    draft.value_mut().copy_from_slice(&buffer);
                    let _ = cache.commit(draft, &SetOptions::default());
                }
            }
            _ => {
                cache.hint_item(cache.hint_read(key));
                cache.get(key, |item| check(number, item.value));
            }
        }
        if let Some((number, found)) = &handle {
            check(*number, found);
        }
        if step % 10_000 == 0 {
            cache.tick();
        }
    }
}

#[test]
fn readers_and_writers_on_two_threads_see_whole_values() {
    let cache = Cache::new(Config {
        threads: 2,
        ..Config::with_memory(1 << 20)
    })
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let cache = &cache;
            scope.spawn(move || run(cache, thread));
        }
    });
}
