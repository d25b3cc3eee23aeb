//! Logins of many at once, over all protocols: nobody pays for attempts that were not wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/http.rs"]
mod http;
#[path = "support/resp.rs"]
mod resp;
#[path = "support/users.rs"]
mod users;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use daemon::Daemon;
use http::Http;
use resp::{Client, ok};
use users::{UsersFile, user};

/// A server with as many users as that, u0 first.
fn serve(users: usize) -> (UsersFile, Daemon) {
    let users: Vec<String> = (0..users)
        .map(|number| user(&format!("u{number}"), "admin", ""))
        .collect();
    let file = UsersFile::new(&users.concat());
    let flags = file.flags();
    let daemon = Daemon::start(&flags.each_ref().map(String::as_str));
    (file, daemon)
}

/// A figure of `/metrics`, as the first user sees it.
fn metric(daemon: &Daemon, name: &str) -> u64 {
    let field = basic("u0:u0-pw");
    let page = Http::to(daemon).ask("GET /metrics", &[&field], b"");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_default().parse().unwrap()
}

fn basic(secrets: &str) -> String {
    format!("Authorization: Basic {}", BASE64_STANDARD.encode(secrets))
}

#[test]
fn sixty_users_who_are_right_at_once_neither_wait_for_each_other_nor_are_refused() {
    let (_file, daemon) = serve(60);
    let mut clients: Vec<Client> = (0..60).map(|_| Client::connect(&daemon)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let (name, password) = (format!("u{number}"), format!("u{number}-pw"));
        client.send(&[b"AUTH", name.as_bytes(), password.as_bytes()]);
    }
    for client in &mut clients {
        assert_eq!(client.read(), ok());
    }
    assert_eq!(metric(&daemon, "cellar_logins_slowed_total"), 0);
    assert_eq!(
        metric(&daemon, "cellar_logins_total{result=\"refused\"}"),
        0
    );
}
