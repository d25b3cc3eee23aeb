//! Notify: what the service manager that started the server is told: that it is ready, reads its
//! settings anew, or stops.
//!
//! systemd names a socket in a variable; without one nobody is told. A manager that does not listen
//! is no reason to do anything else. Source: sd_notify(3). Tests: tests/notify.rs.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The variable that names the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It serves; also that settings have been read anew.
    Ready,
    /// It reads its settings anew.
    Reloading,
    /// It was told to stop.
    Stopping,
}

/// Tells it.
pub(crate) fn tell(notice: Notice) {
    if let Some(name) = env::var_os(VARIABLE) {
        // Nobody is left to hear that it was not heard.
        let _ = send(&name, &text(notice));
    }
}

fn text(notice: Notice) -> String {
    match notice {
        Notice::Ready => "READY=1".to_owned(),
        Notice::Stopping => "STOPPING=1".to_owned(),
        Notice::Reloading => {
            let now = clock_gettime(ClockId::Monotonic);
            let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={us}")
        }
    }
}

fn send(name: &OsStr, text: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        // A name that begins so is in no folder.
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address).map(drop)
}
