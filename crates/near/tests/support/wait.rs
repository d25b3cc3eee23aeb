//! Wait: how a test waits for what another task, thread or process does.
//!
//! A test waits for an event and never for a fixed time, so a busy machine makes it slower and not
//! wrong. [`PATIENCE`] bounds each wait; only a cache or a server that hangs reaches it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::future::{Future, ready};
use std::time::Duration;

/// Longest time that a test waits for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// First pause between two looks.
const PAUSE_MIN: Duration = Duration::from_micros(200);
/// Longest pause between two looks; each is twice as long as the one before.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Waits in a task until `is_so`. `what` names the event for the panic when it does not come.
pub(crate) async fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    let came_true = comes_true(PATIENCE, is_so).await;
    assert!(came_true, "waited in vain until {what}");
}

/// Waits in a task until `is_so`, at most for `patience`. Returns whether it came true.
pub(crate) async fn comes_true(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let attempt = || ready(is_so().then_some(()));
    retry_for(patience, attempt).await.is_some()
}

/// Repeats `attempt` in a task until it returns something. `what` names the event for the panic
/// when it does not come.
pub(crate) async fn wait_for<T, A>(what: &str, attempt: impl FnMut() -> A) -> T
where
    A: Future<Output = Option<T>>,
{
    let found = retry_for(PATIENCE, attempt).await;
    found.unwrap_or_else(|| panic!("waited in vain until {what}"))
}

/// Repeats `attempt` in a task until it returns something, at most for `patience`.
pub(crate) async fn retry_for<T, A>(patience: Duration, mut attempt: impl FnMut() -> A) -> Option<T>
where
    A: Future<Output = Option<T>>,
{
    let trying = async {
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(found) = attempt().await {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    tokio::time::timeout(patience, trying).await.ok()
}

/// Blocks this thread until `is_so`. `what` names the event for the panic when it does not come.
#[track_caller]
pub(crate) fn block_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    while !is_so() {
        assert!(waited < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
