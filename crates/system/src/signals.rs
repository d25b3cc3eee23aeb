//! Signals: SIGTERM and SIGINT ask the server to finish and exit, SIGHUP to reload its files;
//! SIGUSR1, SIGUSR2 and SIGXFSZ do nothing.
//!
//! The first arrives as a byte on a socket that an event loop polls, so none is lost between a
//! check and a sleep. The second ends the process at once, in the signal handler, whatever the
//! loops are doing.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::{flag, low_level};

/// Exit status when a second signal cuts the drain short, or when no drain is possible because an
/// event loop is stalled.
pub const IMPATIENT_STATUS: i32 = 1;

/// From now on exceeding the file size limit (`ulimit -f`) is a write error instead of the end of
/// the process.
///
/// # Errors
/// The system's.
pub fn outlive_file_limits() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The receiving end of SIGHUP, which without one ends the process.
#[derive(Debug)]
pub struct Hangups(UnixStream);

impl Hangups {
    /// Takes over SIGHUP, for this and all earlier instances.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub fn take_over() -> io::Result<Hangups> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        low_level::pipe::register(SIGHUP, sender)?;
        Ok(Hangups(receiver))
    }

    /// Whether a signal has arrived since the last call.
    pub fn take(&mut self) -> bool {
        // Several in quick succession count as one.
        io::Read::read(&mut self.0, &mut [0; 64]).is_ok_and(|bytes| bytes > 0)
    }
}

impl AsFd for Hangups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The receiving end of SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    receiver: UnixStream,
    told: Arc<AtomicBool>,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT, and has SIGUSR1 and SIGUSR2 do nothing.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub fn take_over() -> io::Result<Signals> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let once = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The order matters: the first signal finds the flag unset and sets it.
            flag::register_conditional_shutdown(signal, IMPATIENT_STATUS, Arc::clone(&once))?;
            flag::register(signal, Arc::clone(&once))?;
            low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        // Operators send these to servers to reopen logs; unhandled they end a process.
        for signal in [SIGUSR1, SIGUSR2] {
            flag::register(signal, Arc::default())?;
        }
        Ok(Signals {
            receiver,
            told: once,
        })
    }

    /// A receiver that [`Stopper::stop`] reaches and no signal does, for a server inside a process
    /// that is not its own.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub fn by_hand() -> io::Result<(Signals, Stopper)> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let told = Arc::new(AtomicBool::new(false));
        let stopper = Stopper {
            sender,
            told: Arc::clone(&told),
        };
        Ok((Signals { receiver, told }, stopper))
    }

    /// Whether a signal has arrived, also while no thread polls.
    #[must_use]
    pub fn told(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.told)
    }
}

/// Asks a server to stop as SIGTERM does.
#[derive(Debug)]
pub struct Stopper {
    sender: UnixStream,
    told: Arc<AtomicBool>,
}

impl Stopper {
    /// Asks the server to drain and end. A second call changes nothing.
    pub fn stop(&self) {
        // Relaxed: a flag that orders nothing.
        self.told.store(true, Ordering::Relaxed);
        // A server that has ended already reads nothing.
        let _ = (&self.sender).write(&[0]);
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
