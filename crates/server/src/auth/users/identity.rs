//! Identity: whose a connection is, and for how long.
//!
//! A login lasts as long as what it was made with: the user has to be in the file without a break,
//! may log in, and has the hash, the certificate's name or the uid that let it in. A user that is
//! made anew under an old name inherits no connection.
//!
//! Why: docs/decisions/0050. Tests: tests/users_attacks.rs, tests/socket_users.rs.

use std::sync::Arc;

use super::Users;
use super::role::User;
use crate::net::tls::owner::Owner;

/// What let a user in.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A password with this hash.
    Password(Arc<str>),
    /// The password or the token of the settings, which do not change.
    Settings,
    /// A certificate of this owner.
    Certificate(Arc<Owner>),
    /// A program of this user of the machine.
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

/// A user who is logged in.
#[derive(Clone, Debug)]
pub struct Login {
    user: Arc<User>,
    proof: Proof,
    /// Of the roster in which it was looked up; none has the number zero.
    generation: u64,
}

impl Login {
    /// A user who has shown this, as it was found: not yet looked up again.
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

    /// Looks the user up again; whether it is still the one that was let in.
    #[cold]
    fn renew(&mut self, users: &Users) -> bool {
        // The number first: a roster that comes later is noticed the next time.
        let generation = users.generation();
        let Some(user) = users.still(self) else {
            return false;
        };
        (self.user, self.generation) = (user, generation);
        true
    }
}

impl Users {
    /// The user of a login as it is now, if the login is still in force.
    fn still(&self, login: &Login) -> Option<Arc<User>> {
        let now = self.by_name(login.user.name.as_bytes())?;
        let is_same = now.since == login.user.since && login.proof.is_of(&now);
        is_same.then_some(now)
    }

    /// Whether a login is still in force, and its user may still do the same.
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
        // What has changed since its user was found is noticed now.
        if login.renew(self) {
            Identity::User(login)
        } else {
            Identity::Unknown
        }
    }
}

/// Whose a connection is.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// Anybody's who may do all: there is no file of users, and the listener's own secret was told
    /// if it has one.
    Free,
    /// Nobody's: it has to log in first.
    #[default]
    Unknown,
    /// A user's.
    User(Login),
}

impl Identity {
    /// The identity of a connection that just came: `Unknown` with users, else `Free` unless
    /// its listener has a secret.
    #[must_use]
    pub fn of_new(users: Option<&Users>, has_secret: bool) -> Identity {
        if users.is_some() || has_secret {
            Identity::Unknown
        } else {
            Identity::Free
        }
    }

    /// Whether nothing has to be looked at.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Identity::Free)
    }

    /// Whether it is somebody's, as far as is known.
    #[inline]
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self, Identity::Unknown)
    }

    /// The user in force; none of a connection that has to log in, or needs no user.
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
