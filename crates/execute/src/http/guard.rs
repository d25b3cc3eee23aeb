//! Guard: access checks for all requests, whatever their path.
//!
//! ```text
//! Host     an address, localhost, a name of this server's; or the request bears the token   421
//! Origin   of the same host, or of one that was given by name                              403
//! Fetch    requests of a browser for pages of other origins only read                      403
//! token    right; compared only while its sender may attempt                       401, 429, 503
//! ```
//!
//! So a page from elsewhere in a browser changes nothing here, and reads nothing even if its host
//! name resolves to this server. Every path is checked, pages too.
//!
//! Why: docs/decisions/0027. Tests: server/tests/http_attacks.rs.

use std::borrow::Cow;
use std::sync::Arc;

use cellar_protocol::http::reply::Stay;
use cellar_protocol::http::{Mark, Method, Status};
use cellar_shared::auth::login_limiter::{LoginAttempt, is_same};
use cellar_shared::auth::users::{LoginResult, Ticket, Users};

use super::Peer;
use super::asker::Claim;
use super::call::{Call, Failure};
use super::pages;
use super::route::Route;
use crate::permission::of_path;

/// Longest name of this server that a connection remembers.
const NOTED_HOST_BYTES_MAX: usize = 64;
/// Longest name that a refusal repeats.
const NAME_BYTES_MAX: usize = 255;

const CROSS_SITE: Failure = Failure::new(
    Status::FORBIDDEN,
    "cross_site",
    "a web page of another origin may not change the cache",
);

const UNAUTHORIZED: Failure = Failure {
    status: Status::UNAUTHORIZED,
    code: "unauthorized",
    message: Cow::Borrowed("the server requires its token"),
    fields: Cow::Borrowed("WWW-Authenticate: Bearer\r\n"),
};

pub(super) const UNKNOWN_USER: Failure = Failure {
    message: Cow::Borrowed("the server requires a user name and a password"),
    fields: Cow::Borrowed(pages::USER_CHALLENGE),
    ..UNAUTHORIZED
};

const TOO_MANY_WRONG_LOGINS: Failure = Failure {
    status: Status::TOO_MANY_REQUESTS,
    code: "too_many_guesses",
    message: Cow::Borrowed("too many wrong tokens from this address; wait before you try again"),
    fields: Cow::Borrowed("Retry-After: 1\r\n"),
};

const TOO_MANY_LOGINS: Failure = Failure {
    status: Status::UNAVAILABLE,
    code: "too_many_logins",
    message: Cow::Borrowed("too many passwords wait to be checked; try again"),
    fields: Cow::Borrowed("Retry-After: 1\r\n"),
};

/// Checks the sender; returns whether the request bears the token, or is a user's. Pages check by
/// themselves, because some are public.
#[inline]
pub(super) fn check(call: &mut Call<'_>, peer: &mut Peer, route: Route<'_>) -> Result<bool, Stop> {
    let state = call.context.state;
    let token = state.settings.secrets.http.as_str();
    let is_named_right = is_named_right(call, peer);
    let is_needed = match route {
        Route::Page => pages::asks_for_token(call.request.target.path()),
        _ => true,
    };
    let is_looked_at = is_needed || !is_named_right;
    let bears_token = match &state.access.users {
        None if token.is_empty() => false,
        None => is_looked_at && bears_token(call, peer, token)?,
        Some(users) => is_looked_at && is_of_user(call, peer, users)?,
    };
    check_sender(call, is_named_right || bears_token)?;
    let asks = !token.is_empty() || state.access.users.is_some();
    if route != Route::Page && asks && !bears_token {
        return Err(unauthorized(state.access.users.is_some()).into());
    }
    if call.login.is_some() {
        let target = &call.request.target;
        let path = route.row().map_or_else(|| target.path(), |row| row.path);
        let database = match route {
            Route::Page => pages::database_of(target.path(), target.query()),
            _ => 0,
        };
        call.check_need_in(of_path(path, call.request.method), database)?;
    }
    Ok(bears_token)
}

/// Why a request is not run, or not yet.
pub(super) enum Stop {
    /// It is refused.
    Failure(Failure),
    /// Its user's password is being compared.
    Wait(Arc<Ticket>),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

/// Checks the name of the server and the page that a browser sends a request for.
#[inline]
fn check_sender(call: &Call<'_>, is_named_right: bool) -> Result<(), Failure> {
    if !is_named_right {
        return Err(wrong_host(call));
    }
    let marks = call.request.marks;
    if marks.has(Mark::Origin) && !is_origin_ours(call) {
        return Err(CROSS_SITE);
    }
    let only_reads = matches!(call.request.method, Method::Get | Method::Head);
    if marks.has(Mark::CrossSite) && !only_reads {
        return Err(CROSS_SITE);
    }
    Ok(())
}

/// Whether the request is a user's, who is recorded in the call.
fn is_of_user(call: &mut Call<'_>, peer: &mut Peer, users: &Users) -> Result<bool, Stop> {
    let token = call.context.state.settings.secrets.http.as_str();
    let Some(asker) = &mut peer.asker else {
        return Ok(false);
    };
    let Some(field) = call.request.field(Mark::Authorization) else {
        call.login = asker.certified(users);
        return Ok(call.login.is_some());
    };
    match asker.claim(field, users, call) {
        Claim::Waits(ticket) => Err(Stop::Wait(ticket)),
        Claim::Tried(LoginResult::Right(login)) => {
            call.login = Some(login);
            Ok(true)
        }
        Claim::Tried(LoginResult::Wrong) => {
            call.stay = Stay::Close;
            Ok(false)
        }
        Claim::Tried(LoginResult::TooMany { .. }) => {
            call.stay = Stay::Close;
            Err(TOO_MANY_WRONG_LOGINS.into())
        }
        Claim::Tried(LoginResult::Busy) => {
            call.stay = Stay::Close;
            Err(TOO_MANY_LOGINS.into())
        }
        Claim::None if token.is_empty() => Ok(false),
        Claim::None => {
            let is_right = bears_token(call, peer, token)?;
            call.login = users.by_token().filter(|_| is_right);
            Ok(call.login.is_some())
        }
    }
}

/// The refusal of a request without credentials, or with wrong ones.
fn unauthorized(has_users: bool) -> Failure {
    if has_users {
        UNKNOWN_USER
    } else {
        UNAUTHORIZED
    }
}

/// Whether the request names this server as it is called.
#[inline]
fn is_named_right(call: &Call<'_>, peer: &mut Peer) -> bool {
    let hosts = &call.context.state.settings.http_hosts;
    let request = call.request;
    // Browsers always send this field.
    let is_right = request.host.is_none_or(|host| {
        peer.right_host.as_deref() == Some(host) || hosts.has(host) && note_right(peer, host)
    });
    is_right && request.authority().is_none_or(|host| hosts.has(host))
}

/// Records the first valid name, unless it is long, so that it need not be checked again.
#[cold]
fn note_right(peer: &mut Peer, host: &[u8]) -> bool {
    if peer.right_host.is_none() && host.len() <= NOTED_HOST_BYTES_MAX {
        peer.right_host = Some(host.into());
    }
    true
}

/// The refusal of a request that names another server; it says what lets it in.
#[cold]
fn wrong_host(call: &Call<'_>) -> Failure {
    let request = call.request;
    let name = request.authority().or(request.host).unwrap_or_default();
    // No byte of it needs an escape in JSON.
    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\<>&".contains(&byte);
    let message = if !name.is_empty() && name.bytes().all(is_plain) {
        Cow::Owned(format!(
            "the host {name} is not a name of this server; add it to --http-hosts"
        ))
    } else {
        Cow::Borrowed("the Host header is not a name of this server; add it to --http-hosts")
    };
    Failure {
        message,
        ..Failure::new(Status::MISDIRECTED, "wrong_host", "")
    }
}

/// Whether the page that a browser sends the request for comes from this server.
#[cold]
fn is_origin_ours(call: &Call<'_>) -> bool {
    let request = call.request;
    let origin = request.field(Mark::Origin).unwrap_or_default();
    let host = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    let hosts = &call.context.state.settings.http_hosts;
    host.is_some_and(|origin| {
        let is_host = request
            .host
            .is_some_and(|host| origin.eq_ignore_ascii_case(host));
        is_host || hosts.names(origin)
    })
}

/// Whether the request bears the token. A wrong one ends the connection, so that each attempt costs
/// a new one, and soon the right to attempt.
fn bears_token(call: &mut Call<'_>, peer: &mut Peer, token: &str) -> Result<bool, Failure> {
    let field = call.request.field(Mark::Authorization);
    let Some(given) = field.and_then(bearer) else {
        return Ok(false);
    };
    if peer.bore_token && is_same(given, token.as_bytes()) {
        return Ok(true);
    }
    peer.bore_token = false;
    let now_ms = call.context.cache().now().0;
    let login_limiter = &call.context.state.access.login_limiter;
    match login_limiter.compare(peer.source, now_ms, given, token.as_bytes()) {
        LoginAttempt::Right => {
            peer.bore_token = true;
            Ok(true)
        }
        LoginAttempt::Wrong => {
            call.stay = Stay::Close;
            Ok(false)
        }
        LoginAttempt::TooMany { .. } => {
            call.stay = Stay::Close;
            Err(TOO_MANY_WRONG_LOGINS)
        }
    }
}

/// The token of an Authorization field with scheme Bearer.
fn bearer(field: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = field.split_at_checked(7)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_its_scheme() {
        for (field, token) in [
            ("Bearer s3cret", Some("s3cret")),
            ("bearer  s3cret ", Some("s3cret")),
            ("Bearer ", Some("")),
            ("Basic s3cret", None),
            ("s3cret", None),
            ("", None),
        ] {
            assert_eq!(
                bearer(field.as_bytes()),
                token.map(str::as_bytes),
                "{field}"
            );
        }
    }
}
