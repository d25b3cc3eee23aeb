//! Login: authentication of this node at an etcd with users.
//!
//! Etcd issues a token for a name and a password, and drops it: after minutes, with a restart, or
//! when users or roles change. A client whose token is rejected requests another one, with the
//! current password of the file.
//!
//! Source: etcd.io/docs/v3.4/op-guide/authentication. Tests: tests/cluster_users.rs.

use std::path::PathBuf;
use std::sync::Arc;

use cellar_system::named_file;
use parking_lot::Mutex;
use zeroize::Zeroizing;

/// Longest file of a password.
const PASSWORD_BYTES_MAX: u64 = 4_096;
/// etcd's errors for a token that is not valid, or no longer valid. Some versions have codes for
/// some of them.
const STALE: [&str; 3] = [
    "invalid auth token",
    "auth store is old",
    "revision in header is old",
];

/// A user, and the token that etcd issued last.
#[derive(Debug)]
pub(in crate::server::membership) struct EtcdLogin {
    pub(super) user: String,
    file: PathBuf,
    /// Held while a token is requested: no other thread sends requests to etcd meanwhile.
    token: Mutex<Option<Arc<str>>>,
}

impl EtcdLogin {
    /// This user, whose password is in this file.
    pub(in crate::server::membership) fn of(user: String, file: PathBuf) -> EtcdLogin {
        EtcdLogin {
            user,
            file,
            token: Mutex::default(),
        }
    }

    /// The token that etcd gave last.
    pub(super) fn token(&self) -> Option<Arc<str>> {
        let token = self.token.lock();
        token.clone()
    }

    /// Stores the token that etcd has issued.
    pub(super) fn keep(&self, fresh: Arc<str>) {
        *self.token.lock() = Some(fresh);
    }

    /// Records that a token was rejected, unless it has been replaced since.
    pub(super) fn forget(&self, stale: &str) {
        let mut token = self.token.lock();
        if token.as_deref() == Some(stale) {
            *token = None;
        }
    }

    /// The password as the file has it.
    pub(super) fn password(&self) -> Result<Zeroizing<String>, String> {
        let read = named_file::open(&self.file)
            .and_then(|(file, _)| named_file::read(file, PASSWORD_BYTES_MAX));
        let failed = |reason: &dyn std::fmt::Display| {
            format!("--cluster-password-file {}: {reason}", self.file.display())
        };
        let bytes = Zeroizing::new(read.map_err(|error| failed(&error))?);
        let text = std::str::from_utf8(&bytes).map_err(|_| failed(&"it is not valid UTF-8"))?;
        match text.lines().next() {
            Some(password) if !password.is_empty() => Ok(Zeroizing::new(password.to_owned())),
            _ => Err(failed(&"its first line is empty")),
        }
    }
}

/// Whether this error of etcd means that a token is no longer valid.
pub(super) fn is_stale(said: &str) -> bool {
    STALE.iter().any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_first_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let login = EtcdLogin::of("node".to_owned(), path.clone());
        assert!(login.password().unwrap_err().contains("No such file"));
        for (text, password) in [
            ("secret", Ok("secret")),
            ("a b: c\n", Ok("a b: c")),
            ("one\r\ntwo\n", Ok("one")),
            ("\nsecret", Err("its first line is empty")),
            ("", Err("its first line is empty")),
        ] {
            std::fs::write(&path, text).unwrap();
            match (login.password(), password) {
                (Ok(read), Ok(password)) => assert_eq!(*read, password),
                (Err(told), Err(reason)) => assert!(told.ends_with(reason), "{told}"),
                (read, _) => panic!("{text:?}: {read:?}"),
            }
        }
    }

    #[test]
    fn a_token_that_was_replaced_is_not_forgotten_for_an_older_one() {
        let login = EtcdLogin::of("node".to_owned(), PathBuf::new());
        login.keep("first".into());
        login.keep("second".into());
        login.forget("first");
        assert_eq!(login.token().as_deref(), Some("second"));
        login.forget("second");
        assert_eq!(login.token(), None);
        assert!(is_stale("etcdserver: invalid auth token") && !is_stale("permission denied"));
    }
}
