//! Errors: reasons why the server does not start.
//!
//! Every message is one line and names the flag to use, whatever the source of the value.

use std::io;

/// Why the daemon refuses to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The value of a setting is invalid.
    #[error("--{flag}{origin}: {reason}")]
    Setting {
        /// The flag, without dashes.
        flag: &'static str,
        /// The source of the value, empty for the command line and defaults.
        origin: String,
        /// The error.
        reason: String,
    },
    /// A variable that starts with CELLAR_ is not a setting.
    #[error("environment variable {name}: unknown setting{hint}; --help-all lists all flags")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// A suggestion, after a semicolon; empty if nothing is similar.
        hint: String,
    },
    /// A variable is set by both its name and its old name.
    #[error("environment variable {name}: its old name is set, too; remove the old one")]
    SetTwice {
        /// The variable.
        name: String,
    },
    /// The settings file cannot be read or parsed.
    #[error("--config {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
    /// The users file cannot be read or parsed.
    #[error("--users {path}: {reason}")]
    UsersFile {
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
    /// A password cannot be hashed.
    #[error("hash-password: {0}")]
    Password(String),
    /// The server cannot listen on an address or socket path.
    #[error("--{flag} {address}: {reason}")]
    Listen {
        /// The flag, without dashes.
        flag: &'static str,
        /// The address or path.
        address: String,
        /// The system's error.
        reason: String,
    },
    /// A socket that the service manager passed cannot be used.
    #[error("socket {name:?} of the service manager: {reason}")]
    Socket {
        /// Its name.
        name: String,
        /// The error.
        reason: String,
    },
    /// A certificate, a key or an authority cannot be used.
    #[error("--{flag} {path}: {reason}")]
    TlsFile {
        /// The flag, without dashes.
        flag: &'static str,
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
    /// The directory in which memory outlives the server cannot be used.
    #[error("--state: {0}")]
    State(String),
    /// The configured memory is not available.
    #[error("--memory: {0}")]
    Memory(String),
    /// The server for `cellar top` does not return its status.
    #[error("top: {0}")]
    Top(String),
    /// The server for `cellar migrate check` does not return its statistics.
    #[error("migrate check: {0}")]
    Migrate(String),
    /// The listeners of the running server cannot be taken over.
    #[error("--takeover: {0}")]
    Takeover(String),
    /// A system call that always works did not.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
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
