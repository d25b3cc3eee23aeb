//! Lanes: connections that a waiting thread may write to and read from itself.
//!
//! A lane's driver, the future that writes requests and delivers replies, is polled either by its
//! own task on the runtime's thread or by a thread of the blocking interface with a request, which
//! saves waking that task. Such a thread leads the lane if no other does: it watches the socket in
//! place of the runtime and returns the watch before it continues.
//!
//! Invariant: a socket is always watched, by a leading thread or by the runtime, so a push never
//! waits for a later call. No code of a caller runs while a thread leads or drives.
//!
//! Why: docs/decisions/0061-threads-that-wait-lead-their-connection.md.
//! Tests: tests/blocking_lane.rs, tests/coherence/blocking.rs, tests/loom.rs.

mod turns; // which of several threads polls a future
mod socket; // a socket whose watch moves between threads
mod here; // the state of this thread for the lanes it meets

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::AbortHandle;

pub(crate) use self::here::{Visiting, background, new_background, stay};
use self::socket::Shared;
pub(crate) use self::socket::{Lead, Socket, SocketStream, Watched};
use self::turns::Turns;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection's driver and its socket.
pub(crate) struct DrivenLane {
    turns: Turns,
    driver: Mutex<Option<Driver>>,
    socket: Arc<Shared>,
    /// The task that drives when no other thread does.
    task: AtomicWaker,
    /// Whose threads may drive it.
    background: u64,
    // Acquire and Release: a thread that sees it finds the driver, or leaves it to the thread that
    // polls it.
    is_closed: AtomicBool,
}

/// A lane's owner: the lane is closed when this is dropped.
pub(crate) struct LaneHandle {
    lane: Arc<DrivenLane>,
    tasks: [AbortHandle; 2],
}

/// Makes a socket one that a lane can be driven over: the stream to read and write, and what
/// [`Opened::drive`] needs. To be called inside a runtime.
///
/// # Errors
/// If the system has no more descriptors.
pub(crate) fn open(socket: Socket) -> io::Result<(SocketStream, Opened)> {
    let (shared, watch) = Shared::new(socket)?;
    let watching = tokio::spawn(watch.run()).abort_handle();
    let stream = SocketStream::new(Arc::clone(&shared));
    let opened = Opened {
        shared,
        watching: Some(watching),
    };
    Ok((stream, opened))
}

/// A socket that is watched, without a driver yet.
pub(crate) struct Opened {
    shared: Arc<Shared>,
    watching: Option<AbortHandle>,
}

impl Opened {
    /// Drives the socket by `driver`, on a task and on threads of `background`.
    pub(crate) fn drive(
        mut self,
        background: u64,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> LaneHandle {
        let lane = Arc::new(DrivenLane {
            turns: Turns::new(),
            driver: Mutex::new(Some(Box::pin(driver))),
            socket: Arc::clone(&self.shared),
            task: AtomicWaker::new(),
            background,
            is_closed: AtomicBool::new(false),
        });
        let driving = tokio::spawn(drive(LaneEnd(Arc::clone(&lane)))).abort_handle();
        let watching = self.watching.take();
        LaneHandle {
            lane,
            tasks: [watching.unwrap_or_else(|| driving.clone()), driving],
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(watching) = &self.watching {
            watching.abort();
        }
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.lane.close();
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Closes a lane with the task that drives it, so that none outlives its runtime.
struct LaneEnd(Arc<DrivenLane>);

impl Drop for LaneEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The task of a lane.
async fn drive(ends: LaneEnd) {
    poll_fn(|context| {
        let lane = &ends.0;
        lane.task.register(context.waker());
        // Once per poll: a task with more work yields by waking itself.
        lane.drive(|| true);
        match lane.is_closed() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

impl DrivenLane {
    /// Polls the driver if it was woken and no other thread polls it, until it waits or
    /// `has_enough`; then the task continues. Returns whether it was polled.
    pub(crate) fn drive(self: &Arc<Self>, has_enough: impl Fn() -> bool) -> bool {
        if !self.turns.take() {
            return false;
        }
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        loop {
            let mut turn = LaneTurn {
                lane: self,
                driver: self.driver(),
                has_ended: true,
            };
            turn.poll(&mut context);
            drop(turn);
            if self.turns.end() {
                break;
            }
            if has_enough() {
                self.turns.pass();
                self.task.wake();
                break;
            }
        }
        true
    }

    /// The right to watch its socket, unless another thread has it.
    pub(crate) fn lead(&self) -> Option<Lead<'_>> {
        match self.is_closed() {
            true => None,
            false => self.socket.lead(),
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Drops the driver, and with it the connection. No driver owns its lane, so this one is not
    /// being polled by the caller.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let driver = self.driver().take();
        drop(driver);
        self.task.wake();
    }

    fn driver(&self) -> MutexGuard<'_, Option<Driver>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One poll of a driver. A driver that has ended, or panics, is dropped and its lane closed.
struct LaneTurn<'a> {
    lane: &'a DrivenLane,
    driver: MutexGuard<'a, Option<Driver>>,
    has_ended: bool,
}

impl LaneTurn<'_> {
    fn poll(&mut self, context: &mut Context<'_>) {
        let driver = self.driver.as_mut();
        let polled = driver.map_or(Poll::Ready(()), |driver| driver.as_mut().poll(context));
        self.has_ended = polled.is_ready();
    }
}

impl Drop for LaneTurn<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            self.lane.is_closed.store(true, Ordering::Release);
        }
        if self.lane.is_closed() {
            *self.driver = None;
            self.lane.task.wake();
        }
    }
}

impl Wake for DrivenLane {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Has it polled: by this thread soon, if it is one that waits, otherwise by the task.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.turns.wake() && !here::visit(self) {
            self.task.wake();
        }
    }
}
