//! How a thread waits for an answer: it polls, runs the loader if that is asked for, or sleeps.
//!
//! The runtime's thread drives sockets and timers and wakes whoever sleeps here. The caller is
//! inside the runtime's context only while it polls, so its loader may do what it likes.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::read_through::error::Error;
use crate::read_through::near::Made;

/// Whether the caller is inside an async runtime, where nobody may sleep.
pub(super) fn is_inside_runtime() -> bool {
    Handle::try_current().is_ok()
}

/// A loader that is called when a future asks for what it makes, but not inside of it.
pub(super) struct Call<F, V> {
    loader: RefCell<Option<F>>,
    is_asked: Cell<bool>,
    made: RefCell<Option<Made<V>>>,
}

impl<F, V> Call<F, V>
where
    F: FnOnce() -> Made<V>,
{
    pub(super) fn new(loader: F) -> Call<F, V> {
        Call {
            loader: RefCell::new(Some(loader)),
            is_asked: Cell::new(false),
            made: RefCell::new(None),
        }
    }

    /// What the loader makes.
    pub(super) fn made(&self) -> impl Future<Output = Made<V>> {
        poll_fn(|_| {
            self.is_asked.set(true);
            let made = self.made.borrow_mut().take();
            // Whoever polls looks next whether the loader is asked for, so nothing has to wake it.
            made.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Calls the loader if it was asked for and has not been called; whether it was.
    fn call_if_asked(&self) -> bool {
        if !self.is_asked.get() {
            return false;
        }
        let Some(loader) = self.loader.borrow_mut().take() else {
            return false;
        };
        let made = loader();
        self.made.replace(Some(made));
        true
    }
}

/// The same answer, or an error after `most`, unless the loader was asked by then.
pub(super) async fn bounded<T, F, V>(
    answer: impl Future<Output = Result<T, Error>>,
    most: Option<Duration>,
    call: &Call<F, V>,
) -> Result<T, Error> {
    let Some(most) = most else {
        return answer.await;
    };
    let mut answer = pin!(answer);
    let mut end = pin!(tokio::time::sleep(most));
    poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        let is_over = !call.is_asked.get() && end.as_mut().poll(context).is_ready();
        match is_over {
            true => Poll::Ready(Err(Error::Timeout(most))),
            false => Poll::Pending,
        }
    })
    .await
}

/// Polls `answer` on this thread until it is there.
pub(super) fn wait_for<T, F, V>(
    runtime: &Handle,
    answer: impl Future<Output = T>,
    call: &Call<F, V>,
) -> T
where
    F: FnOnce() -> Made<V>,
{
    let sleeper = Arc::new(Sleeper {
        thread: std::thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut context = Context::from_waker(&waker);
    let mut answer = Inside {
        runtime,
        answer: Some(Box::pin(answer)),
    };
    loop {
        if let Poll::Ready(answer) = answer.poll(&mut context) {
            return answer;
        }
        if !call.call_if_asked() {
            sleeper.sleep();
        }
    }
}

/// A future that is polled and dropped inside a runtime's context: it may spawn, also at its end.
struct Inside<'a, A> {
    runtime: &'a Handle,
    answer: Option<Pin<Box<A>>>,
}

impl<A: Future> Inside<'_, A> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<A::Output> {
        let _context = self.runtime.enter();
        match &mut self.answer {
            Some(answer) => answer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<A> Drop for Inside<'_, A> {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        self.answer = None;
    }
}

/// A thread that sleeps until it is woken.
struct Sleeper {
    thread: Thread,
    // Acquire and Release: what was done before waking is seen by who wakes up.
    is_woken: AtomicBool,
}

impl Sleeper {
    /// Sleeps, unless it was woken since it slept last. The flag and not the thread's token
    /// decides: what is polled may have used that for itself.
    fn sleep(&self) {
        while !self.is_woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
