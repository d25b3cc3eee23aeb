//! Maintenance: the thread that runs the engine's background maintenance and serves no requests.
//!
//! It empties reclaimable segments, gives memory back to the system if the settings say so, and
//! moves memory in full use to huge pages, while the event loops run; the engine sets the pace. It
//! also sends keyspace events that would have held up an event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_shared::clients::events::Telling;
use cellar_shared::clients::tracking::begin_turn;
use cellar_shared::state::State;
use cellar_system::clock::{LoopClock, Stopwatch};
use cellar_system::ticker::Ticker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// When clients hold so much less than at the peak, the heap gives memory back to the system.
const HEAP_BYTES_MIN: usize = 16 << 20;
/// The same once the heap has done so a while ago.
const HEAP_BYTES_LATER_MIN: usize = 1 << 20;
const HEAP_PAUSE_US: u64 = 1_000_000;

/// Pause while names of the tracking table are freed.
const TIDYING_PAUSE: Duration = Duration::from_millis(1);

/// Pause while keyspace events wait for somebody to read.
const READING_PAUSE: Duration = Duration::from_millis(1);

/// How often it is told at most that a file system is full.
const FULL_MS: u64 = 60_000;

/// Tells that stores are refused because the file system of --state is full.
#[derive(Default)]
struct FullState {
    /// Refusals that were told, and when the next may be.
    refused: u64,
    next_at_ms: u64,
}

impl FullState {
    fn tell(&mut self, state: &State) {
        let (refused, now_ms) = (state.cache.state_refused(), state.cache.now().0);
        if refused == self.refused || now_ms < self.next_at_ms {
            return;
        }
        let path = state.settings.state.as_deref().unwrap_or(Path::new(""));
        tracing::warn!(
            stores = refused - self.refused,
            "--state {}: the file system is full: stores are refused until it has room for \
             --memory",
            path.display()
        );
        (self.refused, self.next_at_ms) = (refused, now_ms + FULL_MS);
    }
}

/// Starts the thread; `old` tells the end of the server from which this one has taken over.
///
/// # Errors
/// The system's, when it is out of threads.
pub(crate) fn start(
    state: Arc<State>,
    clock: LoopClock,
    mut old: Option<OwnedFd>,
) -> io::Result<Ticker> {
    let mut maintenance = cellar_engine::Maintenance::default();
    let mut pause = Duration::ZERO;
    let told = Arc::clone(&state);
    let mut full = FullState::default();
    let mut since_release = Stopwatch::start();
    let ticker = Ticker::start("cellar-maint", Duration::ZERO, move || {
        clock.refresh();
        if old.take_if(|old| is_over(old)).is_some() {
            state.cache.release_read_before();
        }
        if !state.maintenance_paused.load(Ordering::Relaxed) {
            let stopwatch = Stopwatch::start();
            pause = maintenance.step(&state.cache);
            // At least as long, so that requests have half of the processor: to give memory to the
            // system can take a hundred times as long as to empty what lies in it.
            pause = pause.max(Duration::from_nanos(stopwatch.ns()));
        }
        full.tell(&state);
        begin_turn();
        let due_ms = state.observer.expire_due(&state.cache, &clock);
        let now_ms = state.cache.now().0;
        let pause = pause.min(Duration::from_millis(due_ms.saturating_sub(now_ms)));
        state.observer.tracking.broadcast();
        let events_wait = state.observer.tell_waiting_events();
        let is_tidy = !state.observer.tracking.tidy_up();
        let fallen_min = if since_release.us() < HEAP_PAUSE_US {
            HEAP_BYTES_MIN
        } else {
            HEAP_BYTES_LATER_MIN
        };
        if state.budget.has_fallen(fallen_min) {
            cellar_engine::release_heap();
            since_release = Stopwatch::start();
        }
        match (events_wait, is_tidy) {
            (Telling::More, _) => Duration::ZERO,
            (Telling::Held, _) => pause.min(READING_PAUSE),
            (Telling::Done, true) => pause,
            (Telling::Done, false) => pause.min(TIDYING_PAUSE),
        }
    })?;
    let events = told.observer.events();
    events.set_budget(Arc::clone(&told.budget));
    events.set_teller(ticker.nudge());
    Ok(ticker)
}

/// Whether a process has come to its end.
fn is_over(process: &OwnedFd) -> bool {
    let mut files = [PollFd::new(process, PollFlags::IN)];
    poll(&mut files, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
