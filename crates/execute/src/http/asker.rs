//! Asker: the user who sends the requests of a connection.
//!
//! Each request carries its credentials: `Basic`, or `Bearer` with the same text in base64. The
//! last valid field is recognised by its MAC while that login is in force. A client with a
//! configured certificate, or on a Unix socket with a configured user ID, needs none.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cellar_shared::auth::login_limiter::is_same;
use cellar_shared::auth::users::{Identity, Login, LoginResult, Ticket, Users};
use zeroize::Zeroizing;

use super::call::Call;
use crate::login::Pending;

/// The user and the source of a connection.
#[derive(Debug)]
pub(super) struct Asker {
    /// The user without a password: by certificate, or by the user ID of the Unix socket's peer.
    pub(super) certified: Identity,
    /// The user by the last valid field, with its MAC.
    last: Option<([u8; 32], Identity)>,
    pending: Pending,
    peer: String,
}

/// The result of an Authorization field.
pub(super) enum Claim {
    /// The name and the password of a user, right or wrong.
    Tried(LoginResult),
    /// The result is pending.
    Waits(Arc<Ticket>),
    /// It is not a name and a password.
    None,
}

impl Asker {
    /// Creates the asker of a new connection.
    pub(super) fn at(peer: &str) -> Asker {
        Asker {
            certified: Identity::Unknown,
            last: None,
            pending: Pending::default(),
            peer: peer.to_owned(),
        }
    }

    /// Whether its user is known, as far as no request is needed.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        let last = self.last.as_ref();
        self.certified.is_known() || last.is_some_and(|(_, identity)| identity.is_known())
    }

    /// The login by its certificate or Unix socket.
    pub(super) fn certified(&mut self, users: &Users) -> Option<Login> {
        login_of(&mut self.certified, users)
    }

    /// The user whom an Authorization field names.
    pub(super) fn claim(&mut self, field: &[u8], users: &Users, call: &Call<'_>) -> Claim {
        let mac = users.mac(field);
        if let Some((last, identity)) = &mut self.last
            && is_same(last, &mac)
            && let Some(login) = login_of(identity, users)
        {
            return Claim::Tried(LoginResult::Right(login));
        }
        let Some(text) = secrets_of(field) else {
            return Claim::None;
        };
        let Some(colon) = memchr::memchr(b':', &text) else {
            return Claim::None;
        };
        let secrets = (&text[..colon], &text[colon + 1..]);
        match self
            .pending
            .log_in(users, secrets, &self.peer, call.context)
        {
            Err(ticket) => Claim::Waits(ticket),
            Ok(result) => {
                self.last = match &result {
                    LoginResult::Right(login) => Some((mac, users.identity_of(login.clone()))),
                    _ => None,
                };
                Claim::Tried(result)
            }
        }
    }
}

/// The login in force.
fn login_of(identity: &mut Identity, users: &Users) -> Option<Login> {
    identity.user(Some(users))?;
    identity.last_login().cloned()
}

/// Name, colon and password of a field.
///
/// Source: RFC 7617, section 2.
fn secrets_of(field: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let space = memchr::memchr(b' ', field)?;
    let (scheme, text) = field.split_at(space);
    let is_one = [b"basic".as_slice(), b"bearer"]
        .iter()
        .any(|one| scheme.eq_ignore_ascii_case(one));
    let decoded = is_one.then(|| BASE64_STANDARD.decode(text.trim_ascii()).ok())?;
    decoded.map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_holds_a_name_and_a_password_in_base64() {
        for (field, expected) in [
            ("Basic YTpi", Some("a:b")),
            ("basic  YTpi ", Some("a:b")),
            ("Bearer YTpi", Some("a:b")),
            ("Digest YTpi", None),
            ("Basic", None),
            ("Basic *", None),
            ("", None),
        ] {
            let found = secrets_of(field.as_bytes());
            assert_eq!(
                found.as_ref().map(|text| &text[..]),
                expected.map(str::as_bytes),
                "{field}"
            );
        }
    }
}
