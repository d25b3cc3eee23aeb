//! Listing: a client's line in CLIENT LIST, CLIENT INFO and ACL LOG.
//!
//! Source: redis.io/docs/latest/commands/client-list, in the form of 7.4.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use cellar_shared::auth::users::DEFAULT_USER;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::tracking::Mode;

/// A client's line in listings.
pub(super) fn describe(client: &Client, now_ms: u64) -> String {
    let facts = client.facts().clone();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let seconds = |since: u64| now_ms.saturating_sub(since) / 1_000;
    let counts = &client.counts;
    let mut line = String::new();
    let [received, sent, commands] = client.traffic.totals();
    // Writing into a string does not fail.
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
         oll=0 omem={} tot-mem={} events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={} \
         tot-net-in={received} tot-net-out={sent} tot-cmds={commands}",
        client.id,
        client.seat.peer,
        client.seat.local,
        client.seat.file,
        text(&facts.name),
        seconds(client.since_ms),
        seconds(client.active_ms.load(Ordering::Relaxed)),
        letters(client),
        capabilities(client),
        client.database.load(Ordering::Relaxed),
        counts.channels.load(Ordering::Relaxed),
        counts.patterns.load(Ordering::Relaxed),
        counts.shards.load(Ordering::Relaxed),
        counts.queued.load(Ordering::Relaxed),
        counts.watched.load(Ordering::Relaxed),
        client.waiting_bytes(),
        client.held_bytes(),
        client.command(),
        facts.user().map_or(DEFAULT_USER, |user| user),
        redirection(client),
        client.protocol.load(Ordering::Relaxed),
        text(&facts.library),
        text(&facts.library_version),
    );
    line.pop();
    if let Some(uid) = client.seat.uid {
        let _ = write!(line, " uid={uid}");
    }
    if let Some(owner) = &client.seat.owner {
        let _ = write!(line, " identity={}", word(owner.identity()));
    }
    line.push('\n');
    line
}

/// A name as one word, whatever a certificate has in it.
fn word(name: &str) -> String {
    let is_strange = |letter: char| letter.is_whitespace() || letter.is_control();
    name.replace(is_strange, "_")
}

/// The flags of a client in CLIENT LIST, a letter each.
pub(in crate::resp) fn letters(client: &Client) -> String {
    let mode = Mode::of(client);
    let letters = [
        (client.is_monitor(), 'O'),
        (client.is_subscriber(), 'P'),
        (client.counts.queued.load(Ordering::Relaxed) >= 0, 'x'),
        (client.counts.waits.load(Ordering::Relaxed), 'b'),
        (mode.has(Mode::ON), 't'),
        (mode.has(Mode::BROKEN), 'R'),
        (mode.has(Mode::BCAST), 'B'),
        (client.wishes[0].load(Ordering::Relaxed), 'e'),
        (client.wishes[1].load(Ordering::Relaxed), 'T'),
    ];
    let text: String = letters
        .into_iter()
        .filter_map(|(is, letter)| is.then_some(letter))
        .collect();
    if text.is_empty() {
        "N".to_owned()
    } else {
        text
    }
}

/// The declared capabilities of a client, a letter each, as in Valkey.
pub(in crate::resp) fn capabilities(client: &Client) -> &'static str {
    if client.follows_redirects.load(Ordering::Relaxed) {
        "r"
    } else {
        ""
    }
}

/// Where invalidations go: a number, 0 for the client itself, -1 for nowhere.
pub(in crate::resp) fn redirection(client: &Client) -> i64 {
    if !Mode::of(client).has(Mode::ON) {
        return -1;
    }
    let redirect = client.tracker.redirect.lock();
    redirect
        .as_ref()
        .map_or(0, |to| i64::try_from(to.target.id).unwrap_or(i64::MAX))
}
