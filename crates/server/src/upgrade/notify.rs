//! Notify: messages to the service manager that started the server: that it is ready, reloads its
//! settings, stops, or has a new process; and which sockets to store for the next start.
//!
//! systemd names its socket in a variable; without it nothing is sent. A manager that does not
//! listen changes nothing. Source: sd_notify(3). Tests: tests/notify.rs, tests/activation.rs.

use std::env;
use std::ffi::OsStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg_addr, socket_with,
};
use rustix::time::{ClockId, clock_gettime};

/// The variable that names the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// The variable that says how many files are kept for the service.
const STORE_VARIABLE: &str = "FDSTORE";

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It serves; also that settings have been reloaded.
    Ready,
    /// It reloads its settings.
    Reloading,
    /// It is stopping.
    Stopping,
    /// Another process replaces it.
    Successor(i32),
}

/// Sends a message.
pub(crate) fn tell(notice: Notice) {
    if let Some(name) = env::var_os(VARIABLE) {
        // A failure cannot be reported anywhere.
        let _ = send(&name, &text(notice), None);
    }
}

/// Whether it keeps sockets over a restart.
pub(crate) fn keeps_sockets() -> bool {
    let most = env::var(STORE_VARIABLE).ok();
    let most = most.and_then(|most| most.parse::<u32>().ok());
    most.is_some_and(|most| most > 0) && env::var_os(VARIABLE).is_some()
}

/// Stores a socket in the manager, under this name, for the next server that it starts; returns
/// whether the message was sent.
pub(crate) fn keep(name: &str, socket: BorrowedFd<'_>) -> bool {
    let text = format!("FDSTORE=1\nFDNAME={name}");
    let told = env::var_os(VARIABLE).map(|to| send(&to, &text, Some(socket)));
    told.is_some_and(|told| told.is_ok())
}

/// Makes the manager close a stored socket.
pub(crate) fn keep_no_more(name: &str) {
    if let Some(to) = env::var_os(VARIABLE) {
        let text = format!("FDSTOREREMOVE=1\nFDNAME={name}");
        let _ = send(&to, &text, None);
    }
}

fn text(notice: Notice) -> String {
    match notice {
        Notice::Ready => "READY=1".to_owned(),
        Notice::Stopping => "STOPPING=1".to_owned(),
        Notice::Successor(pid) => format!("MAINPID={pid}"),
        Notice::Reloading => {
            let now = clock_gettime(ClockId::Monotonic);
            let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={us}")
        }
    }
}

fn send(name: &OsStr, text: &str, file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let address = match name.as_bytes() {
        // A name that begins so is in no folder.
        [b'@', rest @ ..] => SocketAddrUnix::new_abstract_name(rest)?,
        path => SocketAddrUnix::new(path)?,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let files = file.as_slice();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = [IoSlice::new(text.as_bytes())];
    sendmsg_addr(&socket, &address, &bytes, &mut control, SendFlags::NOSIGNAL).map(drop)
}
