//! Page: docs/limits.md, written from the bounds themselves.

use crate::history::HISTORY_BYTES_MAX;
use crate::limits::{
    ARENA_BYTES, CHANNEL_BYTES_MAX, CONNECTION_BYTES, HANDSHAKE_BYTES_MAX, HANDSHAKES_MAX,
    LOG_BYTES_MAX, PATTERN_BYTES_MAX, PREFIX_BYTES_MAX, PROGRAM_BYTES, REPLY_BYTES_MAX,
    RESULT_BYTES_MAX, SCRATCH_BYTES, SCRIPT_ARGUMENT_BYTES_MAX, SCRIPT_REPLY_BYTES_MAX,
    SLOW_LOG_BYTES_MAX, SPARE_BYTES, SUBSCRIPTION_BYTES_MAX, TLS_BYTES, WAITED_BYTES_MAX,
    WAITERS_MAX, WAITING_EVENT_BYTES_MAX, WATCHED_BYTES_MAX,
};
use crate::script::{LIBRARY_BYTES_MAX, MEMORY_BYTES_MAX, PROGRAM_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::settings::units::round_size;
use crate::tracking::TABLE_BYTES_MAX;
use crate::users::{HASH_BYTES_MAX, OWN_HASH_BYTES};

const HEAD: &str = "\
# Limits

Written from the bounds in `crates/server/src/limits.rs`; do not edit by hand
(`CELLAR_BLESS=1 cargo test -p cellar --test server docs::` writes it anew).

`--memory` is all that items, index and bookkeeping take. What the process takes beside it is at
most the sum of these; most of it only where it is used:

| what | at most |
|---|---|
";

const CLIENTS: &str = "
`--client-memory` (an eighth of `--memory`, from 96 MiB to 1 GiB, unless it is set) bounds what all
clients together have the server hold: requests that are not whole, replies that wait, and what is
set up for them. It may be exceeded for a moment: by the reply of the command that runs, and by
messages that come in meanwhile, which never take more than half of it. Then connections are closed
until an eighth is free: where a login is needed first those without one, then those that have not
got on for a second, among them the largest first; last those that asked for CLIENT NO-EVICT. All
that have not logged in have an eighth of it together, and are closed above that. Each event loop
tells of it in the log once a minute. Freed memory goes back to the system. Large values
are received in, and sent from, the cache's own memory: those on their way in hold at most half of
it, and slow ones are dropped after `--write-timeout`, or after a second while a quarter of the
cache is held by such transfers.

Within that, one client is held to:

| what | at most |
|---|---|
";

/// What one client may hold: what it is, its bound, and what stands in the place of a bound of 0.
const CLIENT: [(&str, usize, &str); 11] = [
    (
        "a command, a value of SET not counted",
        0,
        "`--client-memory`",
    ),
    (
        "a reply in one piece, or all of a transaction",
        REPLY_BYTES_MAX,
        "",
    ),
    (
        "the members that SINTER, SUNION or SDIFF answers",
        RESULT_BYTES_MAX,
        "",
    ),
    (
        "the arguments of a script or function",
        SCRIPT_ARGUMENT_BYTES_MAX,
        "",
    ),
    ("the answer of a script", SCRIPT_REPLY_BYTES_MAX, ""),
    (
        "messages that wait while it reads, of all clients together",
        0,
        "half of `--client-memory`",
    ),
    ("commands queued by MULTI", 0, "half of `--client-memory`"),
    ("watched keys", WATCHED_BYTES_MAX, ""),
    ("keys that it waits for", WAITED_BYTES_MAX, ""),
    ("subscriptions", SUBSCRIPTION_BYTES_MAX, ""),
    ("prefixes of CLIENT TRACKING", PREFIX_BYTES_MAX, ""),
];

/// The page's text.
#[must_use]
pub fn page() -> String {
    let beside = [
        ("the program", PROGRAM_BYTES, ""),
        ("idle connections", CONNECTION_BYTES, " for each"),
        ("those over TLS", CONNECTION_BYTES + TLS_BYTES, " for each"),
        (
            "TLS handshakes under way",
            HANDSHAKES_MAX * (HANDSHAKE_BYTES_MAX + TLS_BYTES),
            "",
        ),
        ("clients together", 0, "`--client-memory`"),
        ("arenas for requests", ARENA_BYTES, " for each event loop"),
        ("spare reply buffers", SPARE_BYTES, " for each event loop"),
        (
            "the commands that run",
            SCRATCH_BYTES,
            " for each event loop",
        ),
        (
            "scripts and functions",
            MEMORY_BYTES_MAX,
            " for each event loop that runs some",
        ),
        ("sources of scripts", SOURCE_BYTES_MAX, ""),
        ("libraries of functions", LIBRARY_BYTES_MAX, ""),
        ("names remembered for CLIENT TRACKING", TABLE_BYTES_MAX, ""),
        (
            "a user's password that is compared, one at a time",
            HASH_BYTES_MAX,
            ", as much as its hash says",
        ),
        ("log lines that wait to be written", LOG_BYTES_MAX, ""),
        (
            "keyspace events that wait to be told",
            WAITING_EVENT_BYTES_MAX,
            "",
        ),
        ("slow commands (SLOWLOG)", SLOW_LOG_BYTES_MAX, ""),
        (
            "what the console is told of the last 24 hours",
            HISTORY_BYTES_MAX,
            "",
        ),
    ];
    let rows = |rows: &[(&str, usize, &str)]| -> String {
        let row = |&(what, bytes, more): &(&str, usize, &str)| match bytes {
            0 => format!("| {what} | {more} |\n"),
            _ => format!("| {what} | {}{more} |\n", round_size(bytes)),
        };
        rows.iter().map(row).collect()
    };
    [HEAD, &rows(&beside), CLIENTS, &rows(&CLIENT), &counts()].concat()
}

/// What is bounded by numbers.
fn counts() -> String {
    format!(
        "\nAt most {WAITERS_MAX} clients wait for keys at one time (`BLPOP` and its kin). A \
         script or a library of functions has at most {}. What clients\nleave behind counts for \
         them until it is freed. A pattern, of KEYS, SCAN or PSUBSCRIBE for \
         example,\nhas at most {}, as have \
         all of CONFIG GET together; the name of a channel at most {}. To compare with a hash of\n\
         `cellar hash-password` takes {}.\n",
        round_size(PROGRAM_BYTES_MAX),
        round_size(PATTERN_BYTES_MAX),
        round_size(CHANNEL_BYTES_MAX),
        round_size(OWN_HASH_BYTES)
    )
}
