//! Alarm: becomes readable when the wall clock is set.
//!
//! It is a timer of the wall clock that never expires, but is cancelled by each step of the clock.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The year 9999, in seconds since 1970.
const FAR_S: i64 = 253_402_300_799;

/// The timer.
#[derive(Debug)]
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    /// Sets it.
    ///
    /// # Errors
    /// The system's, if it has no such timers.
    pub(super) fn set() -> Result<Alarm, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let far = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: FAR_S,
                tv_nsec: 0,
            },
        };
        let kind = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, kind, &far)?;
        Ok(Alarm(timer))
    }

    /// Makes it ready for the next step.
    pub(super) fn quiet(&self) {
        // The answer is that the timer was cancelled, or that it was not.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
