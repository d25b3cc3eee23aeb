//! The thread of a blocking cache: there is one, and it ends with the last handle. Alone in its
//! process, because it counts threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use cellar_near::{BlockingNear, Near};

#[path = "support/shelf.rs"]
mod shelf;
#[path = "support/wait.rs"]
mod wait;

/// Waits until so many threads of this process are a cache's: one gets its name as it begins to
/// run, and is listed for a moment after it has ended.
fn wait_for_threads(count: usize) {
    let what = format!("{count} threads of this process are the cache's");
    wait::block_until(&what, || threads() == count);
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names
        .filter(|name| {
            name.as_ref()
                .is_ok_and(|name| name.starts_with("cellar-near"))
        })
        .count()
}

#[test]
fn a_cache_has_one_thread_that_ends_with_its_last_handle() {
    let things = Arc::<shelf::Things>::default();
    let near: BlockingNear<String, String> = Near::builder(shelf::Shelf(things))
        .build_blocking()
        .unwrap();
    near.set("k", &"v".to_owned()).unwrap();
    let other = near.clone();
    assert!(near.get("k").unwrap().is_some());
    wait_for_threads(1);
    drop(near);
    assert!(other.get("k").unwrap().is_some());
    wait_for_threads(1);
    let held = other.get("k").unwrap().unwrap();
    drop(other);
    wait_for_threads(0);
    assert_eq!(*held, "v", "a value outlives its cache");
}
