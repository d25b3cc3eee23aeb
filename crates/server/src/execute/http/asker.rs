//! Asker: which user sends the requests of a connection.
//!
//! Each request says so by itself: `Basic`, or `Bearer` with the same text in base64. What was
//! right last is known again by a MAC of the whole field, as long as that login is in force. Who
//! has shown a certificate, or came by a socket file as a user of the machine whom a user is, needs
//! none.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use super::call::Call;
use crate::auth::login_limiter::is_same;
use crate::auth::users::{Identity, Login, LoginResult, Ticket, Users};
use crate::execute::login::Pending;

/// Whose a connection is, and where it comes from.
#[derive(Debug)]
pub(super) struct Asker {
    /// Without a password: by its certificate, or as who runs the program at a socket file's end.
    pub(super) certified: Identity,
    /// By the field that was right last, and its MAC.
    last: Option<([u8; 32], Identity)>,
    pending: Pending,
    peer: String,
}

/// What a field says of who asks.
pub(super) enum Claim {
    /// The name and the password of a user, right or wrong.
    Tried(LoginResult),
    /// It has to be waited for.
    Waits(Arc<Ticket>),
    /// It is no name and password.
    None,
}

impl Asker {
    /// The asker that just came.
    pub(super) fn at(peer: &str) -> Asker {
        Asker {
            certified: Identity::Unknown,
            last: None,
            pending: Pending::default(),
            peer: peer.to_owned(),
        }
    }

    /// Whether it is somebody's, as far as is known.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        let last = self.last.as_ref();
        self.certified.is_known() || last.is_some_and(|(_, identity)| identity.is_known())
    }

    /// The login of the user whom its certificate or its socket names.
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
