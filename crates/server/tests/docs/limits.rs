//! Page: docs/limits.md, generated from the limits themselves.
//!
//! The page has every public limit of the server; docs.rs lists the exceptions and why.

use std::fmt::Write;

use cellar_script::{
    FUNCTIONS_MAX, LIBRARIES_MAX, LIBRARY_BYTES_MAX, LIBRARY_FUNCTIONS_MAX, MEMORY_BYTES_MAX,
    PROGRAM_BYTES_MAX, SCRIPT_REPLY_BYTES_MAX, SCRIPTS_MAX, SOURCE_BYTES_MAX,
};

use cellar_cluster::list::NODES_MAX;
use cellar_config::limits::{
    ARENA_BYTES, ARGS_MAX, BATCH_KEYS_MAX, BATCH_VALUE_BYTES_MAX, CHANNEL_BYTES_MAX,
    CHUNKED_VALUE_BYTES_MAX, CLIENT_NAME_BYTES_MAX, COMMAND_ARGS_MAX, COMMAND_LOG_BYTES_MAX,
    COMMAND_LOG_ENTRIES_MAX, COMPILED_BYTES_MAX, CONFIG_PATTERNS_MAX, CONNECTION_BYTES,
    DOCUMENT_BYTES_MAX, EXPIRY_NAMES_BYTES_MAX, FIELDS_BYTES_MAX, FIELDS_MAX, HANDSHAKE_BYTES_MAX,
    HANDSHAKES_MAX, HANDSHAKES_PER_SOURCE_MAX, HOT_KEYS_MAX, LOG_BYTES_MAX, LOG_LINE_BYTES_MAX,
    LOG_LINES_MAX, MEMCACHED_KEY_BYTES_MAX, MEMCACHED_LINE_BYTES_MAX, PATTERN_BYTES_MAX,
    PREFIX_BYTES_MAX, PREFIX_LENGTH_MAX, PROGRAM_BYTES, PSUBSCRIBE_ARGS_MAX, REPLY_BYTES_MAX,
    REQUEST_LINE_BYTES_MAX, RESULT_BYTES_MAX, SCRATCH_BYTES, SCRIPT_ARGS_MAX,
    SCRIPT_ARGUMENT_BYTES_MAX, SPARE_BYTES, SUBSCRIPTION_BYTES_MAX, TLS_BYTES, TRACKED_KEYS_MAX,
    WAITED_BYTES_MAX, WAITERS_MAX, WATCHED_BYTES_MAX,
};
use cellar_config::settings::units::round_size;
use cellar_config::settings::{CONNECTIONS_MAX, DATABASES_MAX, THREADS_MAX};
use cellar_shared::auth::login_limiter::PER_CONNECTION_MAX;
use cellar_shared::auth::users::{
    HASH_BYTES_MAX, NAME_BYTES_MAX, OWN_HASH_BYTES, PASSWORD_BYTES_MAX, USERS_MAX, WAITING_MAX,
    WAITING_PER_SOURCE_MAX,
};
use cellar_shared::clients::monitors::MONITORS_MAX;
use cellar_shared::clients::tracking::TABLE_BYTES_MAX;
use cellar_shared::keyspace::content_types::{SEEN_MAX, TYPE_BYTES_MAX};
use cellar_shared::observe::acl_log::ACL_LOG_MAX;
use cellar_shared::observe::history::HISTORY_BYTES_MAX;
use cellar_shared::observe::hot_keys::HOT_KEYS_BYTES_MAX;

const HEAD: &str = "\
<!-- Written from the bounds in the sources of the server; do not edit by hand
(CELLAR_BLESS=1 cargo test -p cellar --test server docs:: regenerates it). -->

# Limits

`--memory` limits items, index and bookkeeping. The process uses at most the sum of this table in
addition, and most rows only if the feature is in use:

| what | at most |
|---|---|
";

const CLIENTS: &str = "
`--client-memory` limits the memory for all clients together: incomplete requests, pending replies,
and state such as subscriptions. The default is an eighth of `--memory`, from 96 MiB to 1 GiB. The
reply of the current command and incoming messages may exceed the limit for a moment. Messages never
use more than half of it.

Above the limit the server closes connections until an eighth is free. If a login is needed, it
closes unauthenticated connections first. It continues with those that have made no progress for a
second, the largest ones first, and closes those with CLIENT NO-EVICT last. A client that waits for
a reply and has received nothing of it gets an error first. All unauthenticated connections together
may use an eighth of the limit. Each event loop logs this once a minute. Freed memory is returned to
the operating system.

The replies of a transaction above 1 MiB use what the limit has free. A command whose reply finds no
memory returns an error in the transaction's reply, and its changes remain. The server then closes
connections until the next transaction finds memory for its replies.

Large values are received into, and sent from, the cache's own memory. Values that are being
received use at most half of it. The server closes slow connections after `--write-timeout`, or
after a second while such transfers use a quarter of the cache.

The limits of one client are:

| what | at most |
|---|---|
";

/// Limits of one client: the name, the limit, and the text for a limit of 0.
const CLIENT: [(&str, usize, &str); 12] = [
    (
        "a command, without the value of SET; half of it with more than 4,096 arguments",
        0,
        "`--client-memory`",
    ),
    (
        "a single reply, or all replies of a transaction",
        REPLY_BYTES_MAX,
        "",
    ),
    (
        "the result of a command before its reply begins",
        0,
        "half of `--client-memory`",
    ),
    (
        "the members in a reply of SINTER, SUNION, SDIFF; in SUNIONCARD of more than 16 sets",
        RESULT_BYTES_MAX,
        "",
    ),
    (
        "the arguments of a script or function",
        SCRIPT_ARGUMENT_BYTES_MAX,
        "",
    ),
    ("the reply of a script", SCRIPT_REPLY_BYTES_MAX, ""),
    (
        "pending messages, of all clients together",
        0,
        "half of `--client-memory`",
    ),
    ("commands queued by MULTI", 0, "half of `--client-memory`"),
    ("watched keys", WATCHED_BYTES_MAX, ""),
    ("keys of blocking commands", WAITED_BYTES_MAX, ""),
    ("subscriptions", SUBSCRIPTION_BYTES_MAX, ""),
    ("prefixes of CLIENT TRACKING", PREFIX_BYTES_MAX, ""),
];

/// The page's text.
pub(super) fn page() -> String {
    let beside = [
        ("the program", PROGRAM_BYTES, ""),
        ("idle connections", CONNECTION_BYTES, " for each"),
        (
            "idle connections over TLS",
            CONNECTION_BYTES + TLS_BYTES,
            " for each",
        ),
        (
            "TLS handshakes in progress",
            HANDSHAKES_MAX * (HANDSHAKE_BYTES_MAX + TLS_BYTES),
            "",
        ),
        ("clients together", 0, "`--client-memory`"),
        (
            "pending keyspace events",
            0,
            "a quarter of `--client-memory`",
        ),
        ("arenas for requests", ARENA_BYTES, " for each event loop"),
        ("spare reply buffers", SPARE_BYTES, " for each event loop"),
        ("running commands", SCRATCH_BYTES, " for each event loop"),
        (
            "scripts and functions",
            MEMORY_BYTES_MAX,
            " for each event loop that runs them",
        ),
        ("sources of scripts", SOURCE_BYTES_MAX, ""),
        ("libraries of functions", LIBRARY_BYTES_MAX, ""),
        ("tracked key names (CLIENT TRACKING)", TABLE_BYTES_MAX, ""),
        (
            "checking a password, two at a time",
            HASH_BYTES_MAX,
            " each, as specified by its hash",
        ),
        ("pending log lines", LOG_BYTES_MAX, ""),
        (
            "slow and large commands (COMMANDLOG)",
            3 * COMMAND_LOG_BYTES_MAX,
            "",
        ),
        ("keys of a measurement (HOTKEYS)", HOT_KEYS_BYTES_MAX, ""),
        (
            "names of keys whose expiry is published",
            EXPIRY_NAMES_BYTES_MAX,
            "",
        ),
        (
            "history of the last 24 hours for the console",
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
Longer input returns an error. Longer log lines are cut off.

| longest | at most |
|---|---|
";

const LENGTHS: [(&str, usize); 19] = [
    ("key", cellar_engine::KEY_BYTES_MAX),
    ("key over the memcached protocol", MEMCACHED_KEY_BYTES_MAX),
    (
        "line of the memcached protocol, except `get`",
        MEMCACHED_LINE_BYTES_MAX,
    ),
    (
        "pattern of KEYS, SCAN or PSUBSCRIBE, and all patterns of CONFIG GET",
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
    ("HTTP request line", REQUEST_LINE_BYTES_MAX),
    ("HTTP headers", FIELDS_BYTES_MAX),
    ("stored Content-Type", TYPE_BYTES_MAX),
    ("JSON document over HTTP", DOCUMENT_BYTES_MAX),
    ("value in chunks over HTTP", CHUNKED_VALUE_BYTES_MAX),
    ("value in the reply to an HTTP batch", BATCH_VALUE_BYTES_MAX),
    ("log line", LOG_LINE_BYTES_MAX),
    (
        "input before a TLS handshake is complete",
        HANDSHAKE_BYTES_MAX,
    ),
];

/// Limits on counts.
const COUNTS: [(&str, usize); 26] = [
    ("arguments of a command", ARGS_MAX),
    (
        "arguments of a command that does not run in steps",
        COMMAND_ARGS_MAX,
    ),
    ("arguments of EVAL, FCALL and similar", SCRIPT_ARGS_MAX),
    ("arguments of PSUBSCRIBE", PSUBSCRIBE_ARGS_MAX),
    (
        "keys that one command reads with CLIENT TRACKING",
        TRACKED_KEYS_MAX,
    ),
    ("patterns of CONFIG GET", CONFIG_PATTERNS_MAX),
    ("keys of an HTTP batch", BATCH_KEYS_MAX),
    ("headers of an HTTP request", FIELDS_MAX),
    ("different Content-Types", SEEN_MAX),
    ("clients blocked on keys (BLPOP and similar)", WAITERS_MAX),
    ("clients in MONITOR", MONITORS_MAX),
    (
        "entries of SLOWLOG, and of each log of COMMANDLOG",
        COMMAND_LOG_ENTRIES_MAX,
    ),
    ("keys that HOTKEYS lists", HOT_KEYS_MAX),
    ("entries of ACL LOG", ACL_LOG_MAX),
    ("pending log lines", LOG_LINES_MAX),
    ("scripts", SCRIPTS_MAX),
    ("libraries of functions", LIBRARIES_MAX),
    ("functions", FUNCTIONS_MAX),
    ("functions of a library", LIBRARY_FUNCTIONS_MAX),
    ("TLS handshakes in progress", HANDSHAKES_MAX),
    (
        "TLS handshakes in progress of one address",
        HANDSHAKES_PER_SOURCE_MAX,
    ),
    ("passwords waiting to be checked", WAITING_MAX),
    (
        "passwords waiting to be checked of one address",
        WAITING_PER_SOURCE_MAX,
    ),
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

/// Limits that are numbers.
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
        "\nMemory of closed clients counts until it is freed. Checking a password with a hash of\n\
         `cellar hash-password` needs {}.\n",
        round_size(OWN_HASH_BYTES)
    );
    text
}
