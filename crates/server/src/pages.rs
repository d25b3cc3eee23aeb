//! Pages: what is answered over HTTP outside of `/v1/cache`.
//!
//! A page is made as a whole, on the event loop that read the request. It may take milliseconds,
//! but holds no shard's lock longer than the engine's own figures do.
//!
//! Tests: at the end of this file; tests/http.rs, tests/console.rs.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::state::State;

mod query;
pub mod metrics;
pub mod status;
mod console;
mod access;
mod key;

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// GET, POST or DELETE; HEAD comes as GET.
    pub method: &'a str,
    /// The path, from its first slash, with its percent codes.
    pub path: &'a str,
    /// What follows the question mark, with its percent codes.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// Whether the peer is a program on this machine.
    pub peer_is_loopback: bool,
    /// The field Host.
    pub host: Option<&'a [u8]>,
    /// The field Authorization.
    pub authorization: Option<&'a [u8]>,
    /// The field If-None-Match.
    pub if_none_match: Option<&'a [u8]>,
}

/// The answer to it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// Further fields. Their values have no line ends.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Cow<'static, [u8]>,
}

impl Page {
    /// A page of text.
    #[must_use]
    pub fn text(status: u16, text: &'static str) -> Page {
        Page {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: Vec::new(),
            body: Cow::Borrowed(text.as_bytes()),
        }
    }

    /// A document in JSON.
    pub(crate) fn json(document: &impl Serialize) -> Page {
        let body = serde_json::to_vec(document).expect("names are strings, numbers are finite");
        Page {
            status: 200,
            content_type: "application/json",
            headers: vec![("Cache-Control", "no-store".to_owned())],
            body: Cow::Owned(body),
        }
    }

    /// An error in the form that all errors over HTTP have; neither part may need an escape in
    /// JSON.
    #[must_use]
    pub fn error(status: u16, code: &str, message: &str) -> Page {
        let text = format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"{message}\"}}}}\n");
        Page {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body: Cow::Owned(text.into_bytes()),
        }
    }
}

/// Whether a page is for everybody, token or not: those by which others see that the server lives.
#[must_use]
pub fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Whether a request bears the token that the operator asks for, where one is asked for.
#[must_use]
pub fn bears_token(authorization: Option<&[u8]>, expected: &str) -> bool {
    if expected.is_empty() {
        return true;
    }
    let Some((scheme, token)) = authorization.and_then(|field| field.split_at_checked(7)) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"bearer ") && is_same(token.trim_ascii(), expected.as_bytes())
}

/// Compares without telling by its time where two secrets differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// Answers a request.
#[must_use]
pub fn answer(request: &PageRequest<'_>, state: &State) -> Page {
    if let Some(refusal) = access::refusal(request, &state.settings.http_token) {
        return refusal;
    }
    match (request.method, request.path) {
        ("GET", "/healthz") => Page::text(200, "ok\n"),
        ("GET", "/readyz") if state.draining.load(Ordering::Relaxed) => {
            Page::text(503, "draining\n")
        }
        ("GET", "/readyz") => Page::text(200, "ready\n"),
        ("GET", "/metrics") => metrics::page(state),
        ("GET", "/v1/console/status") => status::page(state),
        (_, "/v1/console/key") => key::answer(request, state),
        ("GET", path) => console::answer(path, request.if_none_match).unwrap_or_else(not_found),
        (_, "/healthz" | "/readyz" | "/metrics" | "/v1/console/status") => not_allowed("GET, HEAD"),
        (_, path) if console::has(path) => not_allowed("GET, HEAD"),
        _ => not_found(),
    }
}

fn not_found() -> Page {
    Page::error(404, "no_such_page", "there is nothing at this path")
}

/// The answer to a method that a path does not have.
fn not_allowed(allowed: &'static str) -> Page {
    let mut page = Page::error(405, "method_not_allowed", "this path has no such method");
    page.headers.push(("Allow", allowed.to_owned()));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(path: &str, token: &str, peer_is_loopback: bool, authorization: &str) -> u16 {
        let cache = cellar_engine::Cache::new(cellar_engine::Config::with_memory(1 << 20));
        let settings = crate::settings::Settings {
            http_token: token.to_owned(),
            ..crate::settings::Settings::default()
        };
        let request = PageRequest {
            method: "GET",
            path,
            query: "",
            body: b"",
            peer_is_loopback,
            host: Some(b"127.0.0.1:8080"),
            authorization: Some(authorization.as_bytes()),
            if_none_match: None,
        };
        answer(&request, &State::new(cache.unwrap(), settings, 0)).status
    }

    #[test]
    fn other_machines_see_keys_and_settings_with_a_token_only() {
        let (path, bearing) = ("/v1/console/status", "Bearer key");
        assert_eq!(status(path, "", true, ""), 200);
        assert_eq!(status(path, "", false, ""), 403);
        assert_eq!(status(path, "", false, bearing), 403);
        assert_eq!(status(path, "key", false, ""), 401);
        assert_eq!(status(path, "key", false, bearing), 200);
        assert_eq!(status("/metrics", "", false, ""), 200);
    }

    #[test]
    fn a_token_has_to_be_borne_as_it_is() {
        for (field, allowed) in [
            (Some("Bearer s3cret"), true),
            (Some("bearer  s3cret "), true),
            (Some("Bearer s3cre"), false),
            (Some("Bearer s3crets"), false),
            (Some("Bearer "), false),
            (Some("Basic s3cret"), false),
            (Some("s3cret"), false),
            (None, false),
        ] {
            let field = field.map(str::as_bytes);
            assert_eq!(bears_token(field, "s3cret"), allowed, "{field:?}");
            assert!(bears_token(field, ""));
        }
    }
}
