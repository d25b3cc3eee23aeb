//! Files of users for tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, Version};
use tempfile::TempDir;

/// A file that goes with it.
pub(crate) struct UsersFile {
    folder: TempDir,
}

/// A hash that takes little time.
pub(crate) fn hash(password: &str) -> String {
    let params = Params::new(64, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash = argon2.hash_password(password.as_bytes()).unwrap();
    hash.to_string()
}

/// A user of a file, whose password is its name and `-pw`; further rows are TOML.
pub(crate) fn user(name: &str, role: &str, rows: &str) -> String {
    let mut text = String::new();
    writeln!(text, "[[user]]\nname = \"{name}\"").unwrap();
    writeln!(text, "passwords = [\"{}\"]", hash(&format!("{name}-pw"))).unwrap();
    writeln!(text, "role = \"{role}\"\n{rows}").unwrap();
    text
}

impl UsersFile {
    /// A file with this text, which nobody else may read.
    pub(crate) fn new(text: &str) -> UsersFile {
        let file = UsersFile {
            folder: tempfile::tempdir().unwrap(),
        };
        file.write(text);
        file
    }

    /// One with a user of each role: reader, writer and root; and app, a writer of keys that begin
    /// with `app:` in the databases 0 and 2.
    pub(crate) fn of_roles() -> UsersFile {
        let app = "prefixes = [\"app:\"]\ndatabases = [0, 2]";
        UsersFile::new(
            &[
                user("reader", "read", ""),
                user("writer", "write", ""),
                user("root", "admin", ""),
                user("app", "write", app),
            ]
            .concat(),
        )
    }

    /// Writes another text, at once.
    pub(crate) fn write(&self, text: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::set_permissions(&next, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(next, self.path()).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("users.toml")
    }

    /// The flags of a server with these users.
    pub(crate) fn flags(&self) -> [String; 2] {
        ["--users".to_owned(), self.path().display().to_string()]
    }
}
