//! Errors: why the daemon does not start.
//!
//! Every message is one line and names the flag that helps, whatever place the value came from.

use std::io;

/// Why the daemon refuses to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line is not understood.
    #[error("{0}")]
    Usage(String),
    /// A setting has a value that cannot be used.
    #[error("--{flag}{origin}: {reason}")]
    Setting {
        /// The flag, without dashes.
        flag: &'static str,
        /// Where the value came from, empty for the command line and defaults.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A variable that starts with CELLAR_ is no setting.
    #[error("environment variable {name}: unknown setting{hint}; --help-all lists all flags")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// What to write instead, behind a semicolon; empty if nothing is similar.
        hint: String,
    },
    /// A variable is set by its name and by the one that it had before.
    #[error("environment variable {name}: its old name is set, too; remove the old one")]
    SetTwice {
        /// The variable.
        name: String,
    },
    /// The settings file cannot be read or understood.
    #[error("--config {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of users cannot be read or understood.
    #[error("--users {path}: {reason}")]
    UsersFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A password cannot be hashed.
    #[error("hash-password: {0}")]
    Password(String),
    /// An address or socket path cannot be listened on.
    #[error("--{flag} {address}: {reason}")]
    Listen {
        /// The flag, without dashes.
        flag: &'static str,
        /// The address or path.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// A socket that the service manager passed cannot be used.
    #[error("socket {name:?} of the service manager: {reason}")]
    Socket {
        /// What it is called.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate, a key or an authority cannot be used.
    #[error("--{flag} {path}: {reason}")]
    TlsFile {
        /// The flag, without dashes.
        flag: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory in which memory outlives the server cannot be used.
    #[error("--state: {0}")]
    State(String),
    /// The configured memory is not there.
    #[error("--memory: {0}")]
    Memory(String),
    /// The server that `cellar top` is to show does not say how it is.
    #[error("top: {0}")]
    Top(String),
    /// The server that `cellar migrate check` is to ask does not say what it is used for.
    #[error("migrate check: {0}")]
    Migrate(String),
    /// The listeners of the server that runs cannot be taken over.
    #[error("--takeover: {0}")]
    Takeover(String),
    /// A system call that always works did not.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a failed system call.
    pub fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
        move |errno| Error::System {
            what,
            source: errno.into(),
        }
    }
}
