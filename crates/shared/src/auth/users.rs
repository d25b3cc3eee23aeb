//! Users: the accounts, and the permissions of each.
//!
//! Without a users file there are no accounts, and a client that satisfies a listener's password or
//! token may do everything. With one a connection's [`Identity`] holds its user and the proof of
//! its login; one load of a generation number tells whether the file has changed since.
//!
//! ```text
//! file       --users, TOML -> a roster of users, or a one-line error
//! secrets    argon2id, and the cache of right passwords
//! attempts   a name and a password -> an answer at once, or a ticket for one that comes later
//!            from `login_worker`, the thread that hashes
//! ```
//!
//! Why: docs/decisions/0042. Page: docs/guide/security.md. Tests: server/tests/users.rs.

mod role; // what a user may do
mod secrets; // how passwords are hashed, and known again
mod file; // how a file of users is written
mod identity; // whose a connection is, and for how long
mod attempts;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::error::Error;
use cellar_config::settings::Settings;
use cellar_net::tls::owner::Owner;
use parking_lot::{Mutex, RwLock};

pub use self::attempts::{
    Attempt, LoginResult, Ticket, WAITING_MAX, WAITING_PER_SOURCE_MAX, WaitingAttempt,
};
pub use self::file::{NAME_BYTES_MAX, USERS_MAX};
pub use self::identity::{Identity, Login, Proof};
pub use self::role::{Role, User};
pub use self::secrets::{
    HASH_BYTES_MAX, OWN_HASH_BYTES, PASSWORD_BYTES_MAX, PasswordChecker, hash,
};

use self::attempts::Attempts;
use self::file::FileError;
use self::secrets::Remembered;

/// The user of `--password` and `--http-token`.
pub const DEFAULT_USER: &str = "default";

/// The users of one version of the file, by name.
#[derive(Debug, Default)]
struct Roster {
    users: Vec<Arc<User>>,
}

impl Roster {
    fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        let found = self
            .users
            .binary_search_by(|user| user.name.as_bytes().cmp(name));
        found.ok().map(|place| &self.users[place])
    }

    /// The enabled user with most hashes, if any has one.
    fn most_hashes(&self) -> Option<Arc<User>> {
        let users = self.users.iter().filter(|user| user.enabled);
        let most = users.max_by_key(|user| user.hashes.len());
        most.filter(|user| !user.hashes.is_empty()).cloned()
    }
}

/// Identifies a version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMark {
    inode: u64,
    bytes: u64,
    changed_ns: [i64; 4],
}

impl FileMark {
    fn of(path: &Path) -> Option<FileMark> {
        let facts = std::fs::metadata(path).ok()?;
        Some(FileMark {
            inode: facts.ino(),
            bytes: facts.size(),
            changed_ns: [
                facts.mtime(),
                facts.mtime_nsec(),
                facts.ctime(),
                facts.ctime_nsec(),
            ],
        })
    }
}

/// Counters of logins and reloads.
// Relaxed: counts order nothing.
#[derive(Debug, Default)]
pub struct UserCounts {
    /// Attempts that were right.
    pub right: AtomicU64,
    /// Attempts that were wrong.
    pub wrong: AtomicU64,
    /// Attempts that were not compared, because their source had too many wrong ones or the queue
    /// was full.
    pub refused: AtomicU64,
    /// Attempts that were delayed, because their source had wrong ones.
    pub slowed: AtomicU64,
    /// Passwords that were hashed.
    pub hashes: AtomicU64,
    /// Reloads of the file.
    pub reloads: AtomicU64,
    /// Failed reloads, after which the old users stay.
    pub reload_failures: AtomicU64,
}

/// All users, and the pending logins.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    /// The default user of the settings.
    short_form: Option<Arc<User>>,
    /// Its password; empty if it has none.
    short_secret: String,
    /// The file as last read.
    mark: Mutex<Option<FileMark>>,
    roster: RwLock<Arc<Roster>>,
    // Release and Acquire: a thread that sees the number finds the roster, or a later one.
    generation: AtomicU64,
    remembered: Remembered,
    attempts: Attempts,
    /// Counters.
    pub counts: UserCounts,
}

impl Users {
    /// The users of the settings' file; none if there is no such setting.
    ///
    /// # Errors
    /// The error in the file, in one line.
    pub fn load(settings: &Settings) -> Result<Option<Arc<Users>>, Error> {
        let Some(path) = &settings.users else {
            return Ok(None);
        };
        let users = Users {
            path: path.clone(),
            short_form: short_form(settings),
            short_secret: settings.secrets.resp.clone(),
            // Before it is read: a change meanwhile is noticed later.
            mark: Mutex::new(FileMark::of(path)),
            roster: RwLock::default(),
            generation: AtomicU64::new(0),
            remembered: Remembered::new()?,
            attempts: Attempts::default(),
            counts: UserCounts::default(),
        };
        match users.read() {
            Ok(read) => users.replace(read),
            Err(FileError(reason)) => {
                let path = path.display().to_string();
                return Err(Error::UsersFile { path, reason });
            }
        };
        Ok(Some(Arc::new(users)))
    }

    /// Reads the file; users by their names.
    fn read(&self) -> Result<Vec<User>, FileError> {
        let mut users = file::read(&self.path)?;
        if let Some(user) = &self.short_form {
            if users.iter().any(|other| other.name == user.name) {
                return Err(FileError(format!(
                    "the user {DEFAULT_USER} is also defined by --password and --http-token; \
                     remove one of them"
                )));
            }
            users.push(User::clone(user));
        }
        users.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(users)
    }

    /// Puts a roster of these users in force; returns the old one.
    fn replace(&self, users: Vec<User>) -> Arc<Roster> {
        let mut place = self.roster.write();
        // Release: a thread that sees the number finds the roster; only this thread changes either.
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let since = |user: &User| {
            let before = place.find(user.name.as_bytes());
            let before = before.filter(|before| before.enabled);
            before.map_or(generation, |before| before.since)
        };
        let dated = users.into_iter().map(|user| {
            let since = since(&user);
            Arc::new(User { since, ..user })
        });
        let users = dated.collect();
        let before = std::mem::replace(&mut *place, Arc::new(Roster { users }));
        self.generation.store(generation, Ordering::Release);
        before
    }

    /// Reads the file again if it has changed since the last read, or if `anyway`: returns how many
    /// users were removed or changed, or why the old ones stay.
    pub fn reload(&self, anyway: bool) -> Option<Result<usize, String>> {
        let mark = FileMark::of(&self.path);
        let mut last = self.mark.lock();
        if !anyway && *last == mark {
            return None;
        }
        *last = mark;
        Some(match self.read() {
            Ok(read) => {
                let before = self.replace(read);
                // Relaxed: a count orders nothing.
                self.counts.reloads.fetch_add(1, Ordering::Relaxed);
                let now = self.roster();
                let stays = |user: &&Arc<User>| now.find(user.name.as_bytes()) == Some(*user);
                Ok(before.users.iter().filter(|user| !stays(user)).count())
            }
            Err(FileError(reason)) => {
                self.counts.reload_failures.fetch_add(1, Ordering::Relaxed);
                Err(reason)
            }
        })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn roster(&self) -> Arc<Roster> {
        let roster = self.roster.read();
        Arc::clone(&roster)
    }

    /// Grows when the users change.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The enabled user with this name.
    #[must_use]
    pub fn by_name(&self, name: &[u8]) -> Option<Arc<User>> {
        self.roster()
            .find(name)
            .filter(|user| user.enabled)
            .cloned()
    }

    /// The user with this name, whether or not it may log in.
    #[must_use]
    pub fn describe(&self, name: &[u8]) -> Option<Arc<User>> {
        self.roster().find(name).cloned()
    }

    /// The login of a client with a certificate of this owner: as the first by name, if several
    /// users have one of its names.
    #[must_use]
    pub fn by_certificate(&self, owner: &Arc<Owner>) -> Option<Login> {
        self.by_proof(Proof::Certificate(Arc::clone(owner)))
    }

    /// The login of a program of this user of the machine, over a socket file.
    #[must_use]
    pub fn by_uid(&self, uid: u32) -> Option<Login> {
        self.by_proof(Proof::Uid(uid))
    }

    /// The login of a client that has sent the token of the settings.
    #[must_use]
    pub fn by_token(&self) -> Option<Login> {
        let user = self.by_name(DEFAULT_USER.as_bytes());
        let user = user.filter(|_| self.short_form.is_some())?;
        Some(Login::new(user, Proof::Settings))
    }

    fn by_proof(&self, proof: Proof) -> Option<Login> {
        let roster = self.roster();
        let mut users = roster.users.iter().filter(|user| user.enabled);
        let user = users.find(|user| proof.is_of(user)).cloned();
        user.map(|user| Login::new(user, proof))
    }

    /// All users, by their names.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<User>> {
        self.roster().users.clone()
    }

    /// A MAC that only this process can compute.
    #[must_use]
    pub fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        self.remembered.digest(b"", bytes, "")
    }
}

/// The one user that a server without a file has, if it asks for a password or a token.
fn short_form(settings: &Settings) -> Option<Arc<User>> {
    let secrets = [&settings.secrets.resp, &settings.secrets.http];
    let is_there = secrets.iter().any(|secret| !secret.is_empty());
    is_there.then(|| Arc::new(User::everything(DEFAULT_USER)))
}
