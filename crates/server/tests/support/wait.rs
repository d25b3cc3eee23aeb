//! Wait: how a test waits for what another thread or process does.
//!
//! A test waits for an event and never for a fixed time, so a busy machine makes it slower and not
//! wrong. [`PATIENCE`] bounds each wait; only a server that hangs reaches it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt::Display;
use std::time::Duration;

/// Longest time that a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Waits until `is_so`, which it asks again and again. `what` names the event for the panic when it
/// does not come; a closure is called only then.
#[track_caller]
pub(crate) fn wait_until(what: impl Event, mut is_so: impl FnMut() -> bool) {
    if !comes_true(PATIENCE, &mut is_so) {
        panic!("waited in vain until {}", what.name());
    }
}

/// Tries until `is_so`, at most for `patience`; whether it came to be.
pub(crate) fn comes_true(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_micros(200);
    const STEP_MAX: Duration = Duration::from_millis(20);
    let (mut waited, mut step) = (Duration::ZERO, STEP);
    while !is_so() {
        if waited > patience {
            return false;
        }
        std::thread::sleep(step);
        waited += step;
        step = (step * 2).min(STEP_MAX);
    }
    true
}

/// What a test waits for, in words.
pub(crate) trait Event {
    /// The words.
    fn name(&self) -> String;
}

impl Event for &str {
    fn name(&self) -> String {
        (*self).to_string()
    }
}

impl<W: Display, F: Fn() -> W> Event for F {
    fn name(&self) -> String {
        self().to_string()
    }
}
