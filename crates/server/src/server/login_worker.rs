//! Login worker: the threads that compare passwords with their hashes; the first one also watches
//! the users file.
//!
//! They exist only with such a file. Once a second the first checks whether the file has changed or
//! SIGHUP was received; a RESP connection whose login has ended, or whose user has other
//! permissions now, is closed, because it may receive messages without a request.
//!
//! Why: docs/decisions/0042. Tests: tests/users.rs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder, JoinHandle};

use cellar_shared::auth::users::{PasswordChecker, Users};
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;

/// How often it checks the file.
const LOOK_MS: u64 = 1_000;
/// Longest time until it notices that it has to stop.
const PAUSE_MS: u64 = 100;
/// How long the memory of a hash is kept for reuse.
const KEPT_MS: u64 = 1_000;
/// Nice value of the threads after the first.
const NICE: i32 = 10;
/// Most threads that compare passwords: each takes a core and the memory of a hash meanwhile.
const THREADS_MAX: usize = 2;

/// The running threads.
#[derive(Debug)]
pub(crate) struct LoginWorker {
    // Relaxed: it orders nothing; the threads look again soon.
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl LoginWorker {
    /// Starts the threads if users are configured: one for each core, [`THREADS_MAX`] at most.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(state: &Arc<State>, clock: &LoopClock) -> io::Result<Option<LoginWorker>> {
        let Some(users) = state.access.users.clone() else {
            return Ok(None);
        };
        // Relaxed: a request for a check, which comes soon or a second later.
        let is_asked = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, Arc::clone(&is_asked))?;
        let mut login_worker = LoginWorker {
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(THREADS_MAX) {
            let (state, users, clock) = (Arc::clone(state), Arc::clone(&users), clock.clone());
            let is_asked = (number == 0).then(|| Arc::clone(&is_asked));
            let is_over = Arc::clone(&login_worker.is_over);
            let thread = Builder::new().name("cellar-users".to_owned());
            let thread = thread.spawn(move || {
                if number > 0 {
                    // Only what the event loops leave; without it checks are as slow as with one.
                    let _ = rustix::process::nice(NICE);
                }
                let mut checker = PasswordChecker::default();
                let (mut checked_ms, mut looked_ms) = (0, clock.us() / 1_000);
                // Relaxed: it orders nothing; it is read again soon.
                while !is_over.load(Ordering::Relaxed) {
                    let now_ms = clock.us() / 1_000;
                    if let Some(attempt) = users.next_attempt(now_ms, PAUSE_MS) {
                        users.settle(attempt, &mut checker, &state.access.login_limiter, now_ms);
                        checked_ms = now_ms;
                    } else if now_ms >= checked_ms + KEPT_MS {
                        checker.rest();
                    }
                    let Some(is_asked) = &is_asked else {
                        continue;
                    };
                    // Relaxed: as it says where it is made.
                    let is_asked = is_asked.swap(false, Ordering::Relaxed);
                    if is_asked || now_ms >= looked_ms + LOOK_MS {
                        looked_ms = now_ms;
                        look(&users, &state, is_asked);
                    }
                }
            })?;
            login_worker.threads.push(thread);
        }
        Ok(Some(login_worker))
    }

    /// Stops the threads and waits for their ends.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // A panic has ended the whole process already.
            let _ = thread.join();
        }
    }
}

/// Reads the file again if it has changed or a reload was requested.
fn look(users: &Users, state: &State, is_asked: bool) {
    let changed = match users.reload(is_asked) {
        None => return,
        Some(Ok(changed)) => changed,
        Some(Err(reason)) => {
            let path = users.path().display().to_string();
            tracing::error!(
                file = path,
                reason,
                "keeping the old users: the users file is not valid"
            );
            return;
        }
    };
    tracing::info!(changed, "reloaded the users file");
    for client in state.clients.list() {
        let login = client.facts().login.clone();
        if login.is_some_and(|login| !users.has_still(&login)) {
            client.kill();
        }
    }
}
