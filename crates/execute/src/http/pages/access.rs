//! Access: which requests may see which page.
//!
//! ```text
//!                        without a token or users   with a token or users
//! /healthz, /readyz      all requests               all requests
//! files of the console   local requests             all requests: the files contain no data
//! data of the console    local requests             requests with the token or of a user
//! other pages            all requests               requests with the token or of a user
//! ```
//!
//! A request counts as local if it comes from a program on this machine and its Host field is an IP
//! address or `localhost`. With another name, a page from another site may have made the browser
//! send it (DNS rebinding), or a proxy may forward requests of other clients.
//!
//! Tests: at the end of this file; server/tests/console.rs.

use cellar_config::settings::hosts::{is_address, is_localhost};

use super::{Page, PageRequest, console, is_open};

/// The error for a request that may not see the page.
pub(super) fn refusal(request: &PageRequest<'_>, token: &str) -> Option<Page> {
    let path = request.path;
    let is_file = console::has(path);
    let is_console = is_file || path.starts_with("/v1/console/");
    if is_open(path) {
        return None;
    }
    if token.is_empty() && !request.has_users {
        let is_refused = is_console && !comes_as_this_machine(request);
        return is_refused.then(|| {
            Page::error(
                403,
                "forbidden",
                "the console is for this machine, by its address or as localhost, unless the \
                 server has a token: --http-token",
            )
        });
    }
    if is_file || request.bears_token {
        return None;
    }
    let mut page = Page::error(401, "unauthorized", "the server requires its token");
    // The console asks by itself; a browser would ask before it, for the whole server.
    if request.has_users && !is_console {
        let basic = "Basic realm=\"cellar\", charset=\"UTF-8\"";
        page.headers.push(("WWW-Authenticate", basic.to_owned()));
    }
    page.headers.push(("WWW-Authenticate", "Bearer".to_owned()));
    Some(page)
}

fn comes_as_this_machine(request: &PageRequest<'_>) -> bool {
    let is_this = |host| is_address(host) || is_localhost(host);
    request.peer_is_loopback && request.host.is_some_and(is_this)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 4] = ["/", "/assets/main.js", "/v1/console/status", "/metrics"];

    /// The status that each of the paths is refused with, or 0.
    fn refusals(token: &str, peer_is_loopback: bool, host: &str, bears_token: bool) -> [u16; 4] {
        PATHS.map(|path| {
            let request = PageRequest {
                method: "GET",
                path,
                query: "",
                body: b"",
                peer_is_loopback,
                is_tls: false,
                host: Some(host.as_bytes()),
                bears_token,
                has_users: false,
                user: None,
                if_none_match: None,
            };
            refusal(&request, token).map_or(0, |page| page.status)
        })
    }

    #[test]
    fn without_a_token_the_console_is_for_this_machine() {
        for host in [
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8080",
            "[::1]",
            "10.0.0.1",
        ] {
            assert_eq!(refusals("", true, host, false), [0; 4], "{host}");
        }
        for host in [
            "rebound.example:8080",
            "localhost.example",
            "",
            "[localhost]",
            "127.0.0.1.x",
        ] {
            assert_eq!(
                refusals("", true, host, false),
                [403, 403, 403, 0],
                "{host}"
            );
        }
        assert_eq!(refusals("", false, "127.0.0.1", false), [403, 403, 403, 0]);
    }

    #[test]
    fn with_a_token_only_the_files_are_for_everybody() {
        for is_loopback in [false, true] {
            let asked = |bears| refusals("s3cret", is_loopback, "cache.example", bears);
            assert_eq!(asked(false), [0, 0, 401, 401]);
            assert_eq!(asked(true), [0; 4]);
        }
    }
}
