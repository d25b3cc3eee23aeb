//! How a thread waits for an answer: it polls, runs the loader if that is requested, or sleeps.
//!
//! The runtime's thread drives timers and sockets and wakes threads that sleep here. A thread with
//! a request on a lane ([`crate::read_through::lane`]) writes it itself and, if no other thread
//! does, reads until its answer has arrived. The loader runs outside of the runtime's context and
//! of any lane, so it may block.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::background::Background;
use super::sleeper::Sleeper;
use crate::read_through::error::Error;
use crate::read_through::lane::{DrivenLane, Lead, Visiting, Watched};
use crate::read_through::near::Made;

/// Whether the caller is inside an async runtime, where no thread may sleep.
pub(super) fn is_inside_runtime() -> bool {
    Handle::try_current().is_ok()
}

/// A loader that is called when a future needs its value, but not inside of it.
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

    /// The loader's result.
    pub(super) fn made(&self) -> impl Future<Output = Made<V>> {
        poll_fn(|_| {
            self.is_asked.set(true);
            let made = self.made.borrow_mut().take();
            // The polling thread checks next whether the loader is needed, so no wake is necessary.
            made.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Whether the loader has to be called before the next poll.
    fn is_wanted(&self) -> bool {
        self.is_asked.get() && self.loader.borrow().is_some()
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
    background: &Background,
    answer: impl Future<Output = T>,
    call: &Call<F, V>,
) -> T
where
    F: FnOnce() -> Made<V>,
{
    let sleeper = Sleeper::of_this_thread();
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut context = Context::from_waker(&waker);
    let mut answer = Inside {
        background,
        answer: Some(Box::pin(answer)),
    };
    loop {
        if let Poll::Ready(answer) = answer.poll(&mut context, &sleeper, call) {
            return answer;
        }
        if !call.call_if_asked() {
            sleeper.sleep();
        }
    }
}

/// A future that is polled and dropped inside a runtime's context: it may spawn, also at its end.
struct Inside<'a, A> {
    background: &'a Background,
    answer: Option<Pin<Box<A>>>,
}

impl<A: Future> Inside<'_, A> {
    /// Polls it, repeatedly as long as it waits for data of a lane.
    fn poll<F, V>(
        &mut self,
        context: &mut Context<'_>,
        sleeper: &Sleeper,
        call: &Call<F, V>,
    ) -> Poll<A::Output>
    where
        F: FnOnce() -> Made<V>,
    {
        let background = self.background;
        let _context = background.enter();
        let Some(answer) = &mut self.answer else {
            return Poll::Pending;
        };
        loop {
            let visiting = Visiting::begin(background.number());
            let polled = answer.as_mut().poll(context);
            let visited = visiting.end();
            let waits = polled.is_pending() && !call.is_wanted();
            let asked = visited.last().filter(|_| waits);
            // Before the request is sent: the runtime's thread is not to be woken by its answer.
            let lead = asked.and_then(|lane| lane.lead());
            for lane in &visited {
                lane.drive(|| sleeper.is_woken());
            }
            match (asked, lead) {
                (None, _) => return polled,
                (Some(_), None) => sleeper.sleep(),
                (Some(lane), Some(lead)) => watch(lane, &lead, background, sleeper),
            }
        }
    }
}

impl<A> Drop for Inside<'_, A> {
    fn drop(&mut self) {
        let _context = self.background.enter();
        self.answer = None;
    }
}

/// Watches the lane's socket and drives the lane until this thread is woken. No code of a caller's
/// runs meanwhile.
fn watch(lane: &Arc<DrivenLane>, lead: &Lead<'_>, background: &Background, sleeper: &Sleeper) {
    while let Some(watched) = sleeper.watch(lead) {
        if watched == Watched::Other {
            continue;
        }
        let visiting = Visiting::begin(background.number());
        lead.mark();
        drop(visiting.end());
        if !lane.drive(|| sleeper.is_woken()) {
            // Another thread drives it, which writes and reads as well.
            std::thread::yield_now();
        }
    }
}
