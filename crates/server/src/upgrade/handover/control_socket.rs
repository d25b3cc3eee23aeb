//! Control socket: the Unix socket of `--control`, where a new process asks for the listeners.
//!
//! Only the server's user may access its file, and the peer has to be the same user
//! (`SO_PEERCRED`). It moves to the new process with the listeners.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cellar_config::error::Error;
use cellar_net::listener::{SocketFile, inherited_file, listen_on_file, try_file};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, accept_with};

use super::wire::Channel;

/// Permission bits of the file.
const MODE: u32 = 0o600;
/// Each message is a packet of its own.
pub(super) const KIND: SocketType = SocketType::SEQPACKET;

/// The listening socket.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    socket: OwnedFd,
    /// The file to remove at the end.
    file: Option<SocketFile>,
}

impl ControlSocket {
    /// Makes the socket of `--control`.
    ///
    /// # Errors
    /// [`Error::Setting`] that names the reason; also that a server answers there.
    pub(crate) fn make(path: &Path) -> Result<ControlSocket, Error> {
        let made = listen_on_file(path, MODE, KIND);
        let (socket, file) = made.map_err(|reason| unusable(path, reason))?;
        Ok(ControlSocket {
            socket,
            file: Some(file),
        })
    }

    /// Checks whether the socket of `--control` could be made, and makes none.
    ///
    /// # Errors
    /// As [`ControlSocket::make`], and whether the reason is that a server answers there.
    pub(crate) fn try_at(path: &Path) -> Result<(), (Error, bool)> {
        let tried = try_file(path, KIND);
        tried.map_err(|(reason, is_taken)| (unusable(path, reason), is_taken))
    }

    /// The socket of a running server; its file belongs to that server.
    pub(super) fn inherited(socket: OwnedFd) -> ControlSocket {
        ControlSocket { socket, file: None }
    }

    /// Makes the file of an inherited one this process's.
    pub(super) fn adopt_file(&mut self) {
        if self.file.is_none() {
            self.file = inherited_file(&self.socket);
        }
    }

    /// Accepts a waiting process.
    pub(super) fn accept(&self) -> Result<Channel, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        accept_with(&self.socket, flags).map(Channel)
    }

    /// Leaves the file in place: the new process listens there.
    pub(super) fn keep_file(&mut self) {
        if let Some(file) = self.file.take() {
            file.forget();
        }
    }
}

fn unusable(path: &Path, reason: String) -> Error {
    Error::Setting {
        flag: "control",
        origin: format!(" {}", path.display()),
        reason,
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
