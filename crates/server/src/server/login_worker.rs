//! Login worker: the thread that compares passwords with their hashes and looks at the users' file.
//!
//! It is there only if there is such a file. Once a second it looks whether the file is another, or
//! SIGHUP has come; a connection of RESP whose login is over, or whose user may do something else
//! now, is ended, as it may hear of keys without asking.
//!
//! Why: docs/decisions/0042. Tests: tests/users.rs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use signal_hook::consts::SIGHUP;
use signal_hook::flag;

use crate::auth::users::Users;
use crate::state::State;
use crate::system::clock::LoopClock;

/// How often it looks at the file.
const LOOK_MS: u64 = 1_000;
/// Longest time that it takes to notice that it has to stop.
const PAUSE_MS: u64 = 100;

/// The running thread.
#[derive(Debug)]
pub(crate) struct LoginWorker {
    // Relaxed: it orders nothing; the thread looks again soon.
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LoginWorker {
    /// Starts the thread if there are users.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(state: &Arc<State>, clock: LoopClock) -> io::Result<Option<LoginWorker>> {
        let Some(users) = state.users.clone() else {
            return Ok(None);
        };
        // Relaxed: a request to look, which comes soon or a second later.
        let is_asked = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, Arc::clone(&is_asked))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (state, ends) = (Arc::clone(state), Arc::clone(&is_over));
        let thread = Builder::new().name("cellar-users".to_owned());
        let thread = thread.spawn(move || {
            let mut looked_ms = clock.us() / 1_000;
            // Relaxed: it orders nothing; it is looked at again soon.
            while !ends.load(Ordering::Relaxed) {
                let now_ms = clock.us() / 1_000;
                if let Some(attempt) = users.next_attempt(now_ms, PAUSE_MS) {
                    users.settle(attempt, &state.login_limiter, now_ms);
                }
                // Relaxed: as it says where it is made.
                let is_asked = is_asked.swap(false, Ordering::Relaxed);
                if is_asked || now_ms >= looked_ms + LOOK_MS {
                    looked_ms = now_ms;
                    look(&users, &state, is_asked);
                }
            }
        })?;
        Ok(Some(LoginWorker { is_over, thread }))
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

/// Reads the file anew if it is another or somebody has asked for it.
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
