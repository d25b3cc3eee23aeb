//! Pages: HTTP outside `/v1/cache`: console, status, history, metrics.
//!
//! The event loop that read the request builds the whole page. This may take milliseconds, but it
//! locks a shard no longer than the statistics of the engine do.
//!
//! Tests: at the end of this file; server/tests/http.rs, server/tests/console.rs.

use std::borrow::Cow;

use cellar_shared::auth::users::User;
use cellar_shared::state::State;
use serde::Serialize;

mod query;
pub mod metrics;
pub mod status; // metrics of the console, as JSON
pub mod history; // metrics and events of the last 24 hours, as JSON
mod console; // serves the files of the console
mod access;
mod key;

/// The response fields that ask for a user.
pub const USER_CHALLENGE: &str = "WWW-Authenticate: Basic realm=\"cellar\", charset=\"UTF-8\"\r\n\
    WWW-Authenticate: Bearer\r\n";

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
    /// Whether the client uses TLS.
    pub is_tls: bool,
    /// The field Host.
    pub host: Option<&'a [u8]>,
    /// Whether it bears the token that the operator asks for; false where none is asked for.
    pub bears_token: bool,
    /// Whether the server has users.
    pub has_users: bool,
    /// The user of the request, on a server with users.
    pub user: Option<&'a User>,
    /// The field If-None-Match.
    pub if_none_match: Option<&'a [u8]>,
}

/// The response.
#[derive(Clone, Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
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

/// A page and its methods.
#[derive(Clone, Copy, Debug)]
pub struct PageRow {
    /// The path.
    pub path: &'static str,
    /// The methods with which a request only reads.
    pub reads: &'static str,
    /// The methods with which it changes something.
    pub writes: Option<&'static str>,
    /// Whether it is for everybody, token or not.
    is_open: bool,
}

/// All pages but the files of the console. Public ones show only that the server is up.
pub const TABLE: &[PageRow] = &[
    row("/healthz", true),
    row("/readyz", true),
    row("/metrics", false),
    row("/v1/console/status", false),
    row("/v1/console/history", false),
    row("/v1/cluster", false),
    PageRow {
        writes: Some("DELETE"),
        ..row("/v1/console/key", false)
    },
];

const fn row(path: &'static str, is_open: bool) -> PageRow {
    PageRow {
        path,
        reads: "GET, HEAD",
        writes: None,
        is_open,
    }
}

fn find(path: &str) -> Option<&'static PageRow> {
    TABLE.iter().find(|row| row.path == path)
}

/// Whether a page is for everybody, token or not.
#[must_use]
pub fn is_open(path: &str) -> bool {
    find(path).is_some_and(|row| row.is_open)
}

/// The database that a page is about.
#[must_use]
pub fn database_of(path: &str, query: &str) -> u32 {
    match path {
        "/v1/console/key" => key::database_of(query),
        _ => 0,
    }
}

/// Whether a path requires the token if one is set: the console's files hold no data.
#[must_use]
pub fn asks_for_token(path: &str) -> bool {
    !is_open(path) && !console::has(path)
}

/// Answers a request.
#[must_use]
pub fn answer(request: &PageRequest<'_>, state: &State) -> Page {
    if let Some(refusal) = access::refusal(request, &state.settings.secrets.http) {
        return refusal;
    }
    let (method, path) = (request.method, request.path);
    let Some(row) = find(path) else {
        return match method {
            "GET" => console::answer(path, request.if_none_match).unwrap_or_else(not_found),
            _ if console::has(path) => not_allowed("GET, HEAD".to_owned()),
            _ => not_found(),
        };
    };
    if method != "GET" && row.writes != Some(method) {
        let writes = row.writes.map(|writes| format!(", {writes}"));
        return not_allowed(format!("{}{}", row.reads, writes.unwrap_or_default()));
    }
    match path {
        "/healthz" => Page::text(200, "ok\n"),
        "/readyz" if state.run.is_draining() => Page::text(503, "draining\n"),
        "/readyz" if state.run.is_leaving() => Page::text(503, "stopping\n"),
        "/readyz" if !state.serves() => Page::text(503, "not in its cluster\n"),
        "/readyz" => Page::text(200, "ready\n"),
        "/metrics" => metrics::page(state),
        "/v1/console/status" => status::page(request.user, state),
        "/v1/console/history" => history::page(request, state),
        "/v1/cluster" => cluster_page(request, state),
        "/v1/console/key" => key::answer(request, state),
        _ => not_found(),
    }
}

/// The nodes of the cluster and their slots; empty without a cluster.
fn cluster_page(request: &PageRequest<'_>, state: &State) -> Page {
    let table = state.cluster.as_ref().and_then(|cluster| cluster.table());
    let document = table.map(|table| table.document(request.is_tls).to_vec());
    let nobody = || b"{\"version\":0,\"node\":null,\"nodes\":[]}\n".to_vec();
    Page {
        status: 200,
        content_type: "application/json",
        headers: vec![("Cache-Control", "no-store".to_owned())],
        body: Cow::Owned(document.unwrap_or_else(nobody)),
    }
}

fn not_found() -> Page {
    Page::error(404, "no_such_page", "the path does not exist")
}

/// The response for a method that a path does not have.
fn not_allowed(allowed: String) -> Page {
    let mut page = Page::error(
        405,
        "method_not_allowed",
        "the path does not support this method; the header Allow lists the supported ones",
    );
    page.headers.push(("Allow", allowed));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    use cellar_config::protocol::ByProtocol;
    fn status(path: &str, token: &str, peer_is_loopback: bool, bears_token: bool) -> u16 {
        let cache = cellar_engine::Cache::new(cellar_engine::Config::with_memory(1 << 20));
        let settings = cellar_config::settings::Settings {
            secrets: ByProtocol {
                http: token.to_owned(),
                ..ByProtocol::default()
            },
            ..cellar_config::settings::Settings::default()
        };
        let request = PageRequest {
            method: "GET",
            path,
            query: "",
            body: b"",
            peer_is_loopback,
            is_tls: false,
            host: Some(b"127.0.0.1:8080"),
            bears_token,
            has_users: false,
            user: None,
            if_none_match: None,
        };
        answer(&request, &State::new(cache.unwrap(), settings, 0)).status
    }

    #[test]
    fn other_machines_see_keys_and_settings_with_a_token_only() {
        let path = "/v1/console/status";
        assert_eq!(status(path, "", true, false), 200);
        assert_eq!(status(path, "", false, false), 403);
        assert_eq!(status(path, "key", false, false), 401);
        assert_eq!(status(path, "key", false, true), 200);
        assert_eq!(status("/metrics", "", false, false), 200);
    }

    #[test]
    fn every_row_is_a_page() {
        for row in TABLE {
            let found = status(row.path, "", true, false);
            assert!(matches!(found, 200 | 400), "{} {found}", row.path);
        }
        assert_eq!(status("/nothing", "", true, false), 404);
    }
}
