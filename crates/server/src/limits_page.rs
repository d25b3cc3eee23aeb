//! Page: docs/limits.md, written from the bounds themselves.
//!
//! Each public bound of this crate stands here; tests/docs.rs knows those that do not, and why.

use std::fmt::Write;

use crate::cluster::list::NODES_MAX;
use crate::content_types::{SEEN_MAX, TYPE_BYTES_MAX};
use crate::deadlines::NAMES_BYTES_MAX as DEADLINE_NAMES_BYTES_MAX;
use crate::denials::DENIALS_MAX;
use crate::guesses::PER_CONNECTION_MAX;
use crate::history::HISTORY_BYTES_MAX;
use crate::limits::{
    ARENA_BYTES, ARGS_MAX, BATCH_KEYS_MAX, BATCH_VALUE_BYTES_MAX, CHANNEL_BYTES_MAX,
    CHUNKED_VALUE_BYTES_MAX, CLIENT_NAME_BYTES_MAX, COMMAND_ARGS_MAX, COMPILED_BYTES_MAX,
    CONFIG_PATTERNS_MAX, CONNECTION_BYTES, DOCUMENT_BYTES_MAX, FIELDS_BYTES_MAX, FIELDS_MAX,
    HANDSHAKE_BYTES_MAX, HANDSHAKES_MAX, HANDSHAKES_PER_SOURCE_MAX, LOG_BYTES_MAX,
    LOG_LINE_BYTES_MAX, LOG_LINES_MAX, MEMCACHED_KEY_BYTES_MAX, MEMCACHED_LINE_BYTES_MAX,
    PATTERN_BYTES_MAX, PREFIX_BYTES_MAX, PREFIX_LENGTH_MAX, PROGRAM_BYTES, REPLY_BYTES_MAX,
    REQUEST_LINE_BYTES_MAX, RESULT_BYTES_MAX, SCRATCH_BYTES, SCRIPT_ARGUMENT_BYTES_MAX,
    SCRIPT_REPLY_BYTES_MAX, SLOW_LOG_BYTES_MAX, SLOW_LOG_ENTRIES_MAX, SPARE_BYTES,
    SUBSCRIPTION_BYTES_MAX, TLS_BYTES, TRACKED_KEYS_MAX, WAITED_BYTES_MAX, WAITERS_MAX,
    WAITING_EVENT_BYTES_MAX, WATCHED_BYTES_MAX,
};
use crate::monitors::MONITORS_MAX;
use crate::script::{
    FUNCTIONS_MAX, LIBRARIES_MAX, LIBRARY_BYTES_MAX, LIBRARY_FUNCTIONS_MAX, MEMORY_BYTES_MAX,
    PROGRAM_BYTES_MAX, SCRIPTS_MAX, SOURCE_BYTES_MAX,
};
use crate::settings::units::round_size;
use crate::settings::{CONNECTIONS_MAX, DATABASES_MAX, THREADS_MAX};
use crate::tracking::TABLE_BYTES_MAX;
use crate::users::{
    HASH_BYTES_MAX, NAME_BYTES_MAX, OWN_HASH_BYTES, PASSWORD_BYTES_MAX, USERS_MAX, WAITING_MAX,
    WAITING_PER_SOURCE_MAX,
};

const HEAD: &str = "\
# Limits

Written from the bounds in the sources of `crates/server`; do not edit by hand
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
const CLIENT: [(&str, usize, &str); 12] = [
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
        "what a command gathers before its reply begins",
        0,
        "half of `--client-memory`",
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
            "names of keys whose expiry is told",
            DEADLINE_NAMES_BYTES_MAX,
            "",
        ),
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
    [
        HEAD,
        &rows(&beside),
        CLIENTS,
        &rows(&CLIENT),
        LENGTHS_HEAD,
        &lengths(),
        &counts(),
    ]
    .concat()
}

const LENGTHS_HEAD: &str = "
What is longer is refused with an error that says so, or cut off in the log:

| longest | at most |
|---|---|
";

const LENGTHS: [(&str, usize); 19] = [
    ("key", cellar_engine::KEY_BYTES_MAX),
    ("key over memcached's protocol", MEMCACHED_KEY_BYTES_MAX),
    (
        "line of memcached's protocol, those of `get` not counted",
        MEMCACHED_LINE_BYTES_MAX,
    ),
    (
        "pattern of KEYS, SCAN or PSUBSCRIBE, and all of CONFIG GET",
        PATTERN_BYTES_MAX,
    ),
    ("all patterns of one PSUBSCRIBE", COMPILED_BYTES_MAX),
    ("name of a channel", CHANNEL_BYTES_MAX),
    ("prefix of CLIENT TRACKING", PREFIX_LENGTH_MAX),
    (
        "name of a client, of its library and its version",
        CLIENT_NAME_BYTES_MAX,
    ),
    ("name of a user", NAME_BYTES_MAX),
    ("password", PASSWORD_BYTES_MAX),
    ("script, and library of functions", PROGRAM_BYTES_MAX),
    ("first line of HTTP", REQUEST_LINE_BYTES_MAX),
    ("fields of HTTP", FIELDS_BYTES_MAX),
    ("Content-Type that is kept", TYPE_BYTES_MAX),
    ("document of JSON over HTTP", DOCUMENT_BYTES_MAX),
    (
        "value that comes in chunks over HTTP",
        CHUNKED_VALUE_BYTES_MAX,
    ),
    (
        "value that a batch over HTTP answers",
        BATCH_VALUE_BYTES_MAX,
    ),
    ("log line", LOG_LINE_BYTES_MAX),
    ("bytes before a TLS handshake is done", HANDSHAKE_BYTES_MAX),
];

/// What is counted, and at most how many there are.
const COUNTS: [(&str, usize); 23] = [
    ("arguments of a command", ARGS_MAX),
    (
        "arguments of a command that does not work in steps",
        COMMAND_ARGS_MAX,
    ),
    (
        "keys that one command reads for CLIENT TRACKING",
        TRACKED_KEYS_MAX,
    ),
    ("patterns of CONFIG GET", CONFIG_PATTERNS_MAX),
    ("keys of a batch over HTTP", BATCH_KEYS_MAX),
    ("fields of a request over HTTP", FIELDS_MAX),
    ("Content-Types that are told apart", SEEN_MAX),
    (
        "clients that wait for keys (BLPOP and its kin)",
        WAITERS_MAX,
    ),
    ("clients in MONITOR", MONITORS_MAX),
    ("entries of SLOWLOG", SLOW_LOG_ENTRIES_MAX),
    ("entries of ACL LOG", DENIALS_MAX),
    ("log lines that wait to be written", LOG_LINES_MAX),
    ("scripts", SCRIPTS_MAX),
    ("libraries of functions", LIBRARIES_MAX),
    ("functions", FUNCTIONS_MAX),
    ("functions of a library", LIBRARY_FUNCTIONS_MAX),
    ("TLS handshakes under way", HANDSHAKES_MAX),
    ("those of one address", HANDSHAKES_PER_SOURCE_MAX),
    ("passwords that wait to be compared", WAITING_MAX),
    ("those of one address", WAITING_PER_SOURCE_MAX),
    (
        "wrong passwords on one connection",
        PER_CONNECTION_MAX as usize,
    ),
    ("users", USERS_MAX),
    ("nodes of a cluster", NODES_MAX),
];

fn lengths() -> String {
    let row = |&(what, bytes): &(&str, usize)| match bytes % 1_024 {
        0 => format!("| {what} | {} |\n", round_size(bytes)),
        _ => format!("| {what} | {bytes} bytes |\n"),
    };
    LENGTHS.iter().map(row).collect()
}

/// What is bounded by numbers.
fn counts() -> String {
    let mut text = String::from("\n| number of | at most |\n|---|---|\n");
    let settings = [
        ("`--threads`", THREADS_MAX),
        ("`--databases`", DATABASES_MAX),
        ("`--max-connections`", CONNECTIONS_MAX),
    ];
    for (what, count) in COUNTS.iter().chain(&settings) {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "| {what} | {count} |");
    }
    let _ = write!(
        text,
        "\nWhat clients leave behind counts for them until it is freed. To compare with a hash \
         of\n`cellar hash-password` takes {}.\n",
        round_size(OWN_HASH_BYTES)
    );
    text
}
