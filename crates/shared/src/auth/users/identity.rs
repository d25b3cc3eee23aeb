//! Identity: the user of a connection, and how long that lasts.
//!
//! A login lasts as long as its basis: the user is in the file without interruption, is enabled,
//! and still has the hash, certificate name or user ID that it logged in with. A user that is
//! recreated under an old name inherits no connection.
//!
//! Why: docs/decisions/0050. Tests: server/tests/users_attacks.rs, server/tests/socket_users.rs.

use std::sync::Arc;

use cellar_net::tls::owner::Owner;

use super::Users;
use super::role::User;

/// The proof that a user has logged in with.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A password with this hash.
    Password(Arc<str>),
    /// The password or the token of the settings, which do not change.
    Settings,
    /// A certificate of this owner.
    Certificate(Arc<Owner>),
    /// A program with this user ID, over a Unix socket.
    Uid(u32),
}

impl Proof {
    /// Whether it lets a user in.
    pub(super) fn is_of(&self, user: &User) -> bool {
        match self {
            Proof::Password(hash) => user.hashes.contains(hash),
            Proof::Settings => true,
            Proof::Certificate(owner) => {
                let mut rows = user.certificates.iter();
                rows.any(|row| owner.is_meant_by(row))
            }
            Proof::Uid(uid) => user.uids.contains(uid),
        }
    }
}

/// A logged-in user.
#[derive(Clone, Debug)]
pub struct Login {
    user: Arc<User>,
    proof: Proof,
    /// The number of the roster in which it was looked up; zero is never used.
    generation: u64,
}

impl Login {
    /// A user with this proof, as found: not yet looked up again.
    pub(super) fn new(user: Arc<User>, proof: Proof) -> Login {
        Login {
            user,
            proof,
            generation: 0,
        }
    }

    /// The user when it was last looked up.
    #[inline]
    #[must_use]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Looks the user up again; returns whether the login is still valid.
    #[cold]
    fn renew(&mut self, users: &Users) -> bool {
        // The number first: a later roster is noticed the next time.
        let generation = users.generation();
        let Some(user) = users.still(self) else {
            return false;
        };
        (self.user, self.generation) = (user, generation);
        true
    }
}

impl Users {
    /// The current user of a login, if the login is still in force.
    fn still(&self, login: &Login) -> Option<Arc<User>> {
        let now = self.by_name(login.user.name.as_bytes())?;
        let is_same = now.since == login.user.since && login.proof.is_of(&now);
        is_same.then_some(now)
    }

    /// Whether a login is still in force, with the same permissions.
    #[must_use]
    pub fn has_still(&self, login: &Login) -> bool {
        login.generation == self.generation()
            || self
                .still(login)
                .is_some_and(|now| now.may_the_same(&login.user))
    }

    /// The identity of a connection on which this login was just made.
    #[must_use]
    pub fn identity_of(&self, mut login: Login) -> Identity {
        // Changes since its user was found are noticed now.
        if login.renew(self) {
            Identity::User(login)
        } else {
            Identity::Unknown
        }
    }
}

/// The user of a connection.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// Without restrictions: no users file exists, and the listener's password or token was given
    /// if it has one.
    Free,
    /// Unknown: it has to log in first.
    #[default]
    Unknown,
    /// A user.
    User(Login),
}

impl Identity {
    /// The identity of a new connection: `Unknown` with users, else `Free` unless its listener has
    /// a password or token.
    #[must_use]
    pub fn of_new(users: Option<&Users>, has_secret: bool) -> Identity {
        if users.is_some() || has_secret {
            Identity::Unknown
        } else {
            Identity::Free
        }
    }

    /// Whether it may do everything without checks.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Identity::Free)
    }

    /// Whether the connection needs no login, as far as is known.
    #[inline]
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self, Identity::Unknown)
    }

    /// The user in force; none for a connection that has to log in, or needs no user.
    #[inline]
    pub fn user(&mut self, users: Option<&Users>) -> Option<&Arc<User>> {
        let (Identity::User(login), Some(users)) = (&mut *self, users) else {
            return None;
        };
        if login.generation != users.generation() && !login.renew(users) {
            *self = Identity::Unknown;
            return None;
        }
        self.last_user()
    }

    /// The user when it was last looked up.
    #[inline]
    #[must_use]
    pub fn last_user(&self) -> Option<&Arc<User>> {
        self.last_login().map(Login::user)
    }

    /// The login when its user was last looked up.
    #[inline]
    #[must_use]
    pub fn last_login(&self) -> Option<&Login> {
        match self {
            Identity::User(login) => Some(login),
            Identity::Free | Identity::Unknown => None,
        }
    }
}
