//! A thread that waits: asleep, or watching a socket, and woken from either.
//!
//! Every thread has one for all of its calls. A wake that was meant for an earlier call, or for the
//! call around a loader's, makes the present one poll once for nothing; the outer one polls again
//! in any case after its loader.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::Thread;

use rustix::event::{EventfdFlags, eventfd};

use crate::read_through::lane::{Lead, Watched};

/// It runs.
const AWAKE: u8 = 0;
/// It was woken since it slept last.
const WOKEN: u8 = 1;
/// It sleeps until it is unparked.
const ASLEEP: u8 = 2;
/// It watches a socket and its bell.
const WATCHING: u8 = 3;

/// A thread that sleeps until it is woken.
pub(super) struct Sleeper {
    thread: Thread,
    // AcqRel: the woken thread sees all changes made before waking it.
    state: AtomicU8,
    /// Readable after a wake, for a thread that watches a socket; none if the system has no
    /// descriptor for it.
    bell: OnceLock<Option<OwnedFd>>,
}

thread_local! {
    static OF_THIS_THREAD: Arc<Sleeper> = Arc::new(Sleeper {
        thread: std::thread::current(),
        state: AtomicU8::new(AWAKE),
        bell: OnceLock::new(),
    });
}

impl Sleeper {
    /// This thread's.
    pub(super) fn of_this_thread() -> Arc<Sleeper> {
        OF_THIS_THREAD.with(Arc::clone)
    }

    /// Whether it was woken since it slept last.
    pub(super) fn is_woken(&self) -> bool {
        // Acquire: changes made before waking are visible.
        self.state.load(Ordering::Acquire) == WOKEN
    }

    /// Sleeps, unless it was woken since it slept last. The state and not the thread's park token
    /// decides: the polled future may have consumed that.
    pub(super) fn sleep(&self) {
        if self.goes(ASLEEP) {
            while !self.is_woken() {
                std::thread::park();
            }
        }
        self.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Sleeps until the socket is ready or something else has happened; `None` if it was woken.
    pub(super) fn watch(&self, lead: &Lead<'_>) -> Option<Watched> {
        let bell = self.bell.get_or_init(|| {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            eventfd(0, flags).ok()
        });
        let Some(bell) = bell else {
            self.sleep();
            return None;
        };
        if !self.goes(WATCHING) {
            self.state.swap(AWAKE, Ordering::AcqRel);
            return None;
        }
        let watched = lead.wait(bell);
        if watched == Watched::Other {
            // Err means that it has not rung, or not yet, which costs one look more the next time.
            let _ = rustix::io::read(bell, &mut [0_u8; 8]);
        }
        (self.state.swap(AWAKE, Ordering::AcqRel) == WATCHING).then_some(watched)
    }

    /// Changes from awake to `state`; false if it was woken meanwhile.
    fn goes(&self, state: u8) -> bool {
        // AcqRel, Acquire where it fails: changes made before waking are visible.
        self.state
            .compare_exchange(AWAKE, state, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.swap(WOKEN, Ordering::AcqRel) {
            ASLEEP => self.thread.unpark(),
            WATCHING => {
                if let Some(Some(bell)) = self.bell.get() {
                    // Err means that it rings already.
                    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
                }
            }
            _ => {}
        }
    }
}
