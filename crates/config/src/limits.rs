//! Limits: memory and work that one client may cause outside of the cache's memory.
//!
//! Each limit applies to one client; `--client-memory` limits the sum over all of them, see
//! `cellar_shared::clients::budget`.
//!
//! Tests: server/tests/client_memory.rs.

pub use cellar_protocol::http::decode::{FIELDS_BYTES_MAX, FIELDS_MAX, REQUEST_LINE_BYTES_MAX};
pub use cellar_protocol::memcached::{
    KEY_BYTES_MAX as MEMCACHED_KEY_BYTES_MAX, LINE_BYTES_MAX as MEMCACHED_LINE_BYTES_MAX,
};
pub use cellar_protocol::resp::decode::ARGS_MAX;

/// Bytes read from one socket in one iteration.
pub const READ_BYTES_MAX: usize = 16 << 10;
/// Bytes of a large value or a long request read from one socket in one iteration.
pub const LONG_READ_BYTES_MAX: usize = 256 << 10;
/// Size from which on an incomplete request is gathered outside of the arena.
pub const LONG_REQUEST_BYTES_MIN: usize = 64 << 10;
/// The arena of an event loop: the leftover of one connection and the read behind it, and space for
/// some sixty full reads. The system provides memory only for the used part.
pub const ARENA_BYTES: usize = LONG_READ_BYTES_MAX + (1 << 20);
const _: () = assert!(
    LONG_REQUEST_BYTES_MIN + 2 * READ_BYTES_MAX <= LONG_READ_BYTES_MAX
        && LONG_READ_BYTES_MAX + READ_BYTES_MAX <= ARENA_BYTES,
    "what is left over of one connection has room in an empty arena"
);

/// The error for a client that is closed because clients use too much memory.
pub const CLIENT_MEMORY_EXCEEDED: &str = "the connection is closed: its request needs more memory \
    than --client-memory has free";
/// The error for a client whose pipeline is refused.
pub const PIPELINE_TOO_LARGE: &str = "the pipeline is too large: requests whose replies are not \
    read need more than --client-memory has free";

/// Unwritten reply bytes from which on a connection gets no further request.
pub const WAITING_BYTES_MAX: usize = 32 << 10;
/// A larger reply buffer is freed when it is empty.
pub const KEPT_BUFFER_BYTES_MAX: usize = 2 * WAITING_BYTES_MAX;
/// Reply buffers that an event loop keeps for its connections' next replies.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// Unwritten reply bytes of several connections after which an iteration executes no more requests;
/// the others wait for the next one.
pub const TURN_REPLY_BYTES_MAX: usize = 8 << 20;
/// Longest reply that a command makes in one piece if the client chooses its length; also the limit
/// for all replies of a transaction together.
pub const REPLY_BYTES_MAX: usize = 32 << 20;
/// A transaction with longer replies needs free client memory for them.
pub const CHECKED_REPLY_BYTES_MIN: usize = 1 << 20;
/// Bytes that the arguments of a script or function may have together: they are copied into its
/// interpreter while no other client is served, some 0.7 ms per MiB.
pub const SCRIPT_ARGUMENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of the result of a command on several sets.
pub const RESULT_BYTES_MAX: usize = 64 << 20;
/// Bytes that the keys watched by one client may take, each as [`entry_bytes`] counts: EXEC checks
/// all of them in one step.
pub const WATCHED_BYTES_MAX: usize = 2 << 20;
/// Bytes that the keys of one client's blocking command may take, each with [`ENTRY_BYTES`].
pub const WAITED_BYTES_MAX: usize = 2 << 20;
/// The divisor of --client-memory for queued keyspace events: they have very many subscribers, or
/// come in a burst. Events above the limit are dropped and counted.
pub const WAITING_EVENT_SHARE: usize = 4;
/// Clients that may be blocked on keys at one time.
pub const WAITERS_MAX: usize = 1 << 16;
/// Bytes that one client's subscriptions may take: names, each as [`entry_bytes`] counts, and
/// compiled patterns.
pub const SUBSCRIPTION_BYTES_MAX: usize = 4 << 20;
/// Longest pattern for keys, channels or names; for CONFIG GET all patterns together.
pub const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Bytes of the patterns of one PSUBSCRIBE, which compiles all of them in one step.
pub const COMPILED_BYTES_MAX: usize = 256 << 10;
/// Longest name of a channel.
pub const CHANNEL_BYTES_MAX: usize = 64 << 10;
/// Bytes that the prefixes of one client's tracking may take, each as [`entry_bytes`] counts.
pub const PREFIX_BYTES_MAX: usize = 1 << 20;
/// Longest prefix of CLIENT TRACKING: a changed name is looked up once per prefix length in use.
pub const PREFIX_LENGTH_MAX: usize = 128;
/// Bookkeeping of a watched or awaited key, a subscription or a prefix, for the limits above: a
/// client frees all of them in one iteration.
pub const ENTRY_BYTES: usize = 512;

/// Bytes that a watched key, a subscription or a prefix counts for: its name is stored at the
/// client and in the shared table.
#[must_use]
pub const fn entry_bytes(name: &[u8]) -> usize {
    2 * name.len() + ENTRY_BYTES
}

/// Most arguments of a command that is not executed in chunks, and most keys of one that is atomic.
pub const COMMAND_ARGS_MAX: usize = 16_384;
/// Most arguments of a command that runs a script or a function: each becomes a Lua string before
/// it begins.
pub const SCRIPT_ARGS_MAX: usize = 262_144;
/// Most arguments of one PSUBSCRIBE: each pattern is compiled, and added to the registry that all
/// publishers search.
pub const PSUBSCRIBE_ARGS_MAX: usize = 4_096;
/// Most keys of a command under CLIENT TRACKING: they are registered at once, before any of them is
/// read. MGET, EXISTS and TOUCH take more, because they register those of each step.
pub const TRACKED_KEYS_MAX: usize = 2_048;
/// Most patterns of CONFIG GET; each is matched with each name.
pub const CONFIG_PATTERNS_MAX: usize = 256;
/// Longest name of a client, of its library and of that one's version.
pub const CLIENT_NAME_BYTES_MAX: usize = 4 << 10;
/// Most keys in a batch over HTTP.
pub const BATCH_KEYS_MAX: usize = 1_000;
/// Longest value in the reply of a batch.
pub const BATCH_VALUE_BYTES_MAX: usize = 1 << 20;
/// Longest value that is received in chunks, because it is gathered outside of the cache's memory.
pub const CHUNKED_VALUE_BYTES_MAX: usize = 16 << 20;
/// Longest JSON document, in either direction: parsing or writing escapes takes some milliseconds
/// for so many bytes.
pub const DOCUMENT_BYTES_MAX: usize = 2 << 20;

/// Bytes that the entries of each log of COMMANDLOG may take together: the oldest are removed
/// first.
pub const COMMAND_LOG_BYTES_MAX: usize = 4 << 20;
/// Bytes of the names of keys whose expiry is published.
pub const EXPIRY_NAMES_BYTES_MAX: usize = 4 << 20;
/// Most keys that HOTKEYS lists.
pub const HOT_KEYS_MAX: usize = 64;
/// Most entries of each log of COMMANDLOG, whatever their length: the highest `slowlog-max-len`.
pub const COMMAND_LOG_ENTRIES_MAX: usize = 10_000;
/// Queued log lines; further ones are dropped and counted.
pub const LOG_LINES_MAX: usize = 1_024;
/// Bytes that they may have together.
pub const LOG_BYTES_MAX: usize = 1 << 20;
/// Longest log line; a longer one is truncated.
pub const LOG_LINE_BYTES_MAX: usize = 16 << 10;
/// Memory of the program itself, in bytes.
pub const PROGRAM_BYTES: usize = 16 << 20;
/// Memory of an idle connection, in bytes: its entry, its session, its place in listings.
pub const CONNECTION_BYTES: usize = 4 << 10;
/// Additional memory of an idle TLS connection.
pub const TLS_BYTES: usize = 32 << 10;
/// Bytes that a client may send before its TLS handshake is done: most of them are certificates.
pub const HANDSHAKE_BYTES_MAX: usize = 32 << 10;
/// Concurrent TLS handshakes.
pub const HANDSHAKES_MAX: usize = 512;
/// Most of them from one source, an IPv4 address or an IPv6 network, so that others find places.
pub const HANDSHAKES_PER_SOURCE_MAX: usize = 64;
/// The stack of an event loop, of which the system provides only the used part. Scripts use most:
/// Lua allows 200 nested calls of its C functions, each with 9 KiB for `string.gsub`, and the
/// innermost may unpack a MessagePack of a thousand levels, some 600 bytes each; a build without
/// optimisation needs several times as much.
pub const LOOP_STACK_BYTES: usize = 8 << 20;
/// Reply buffers that one event loop keeps for reuse, in bytes.
pub const SPARE_BYTES: usize = SPARE_BUFFERS_MAX * KEPT_BUFFER_BYTES_MAX;
/// Memory that a command may need while it runs: copies of a value it changes, its arguments, its
/// reply. A part of it is kept for a second.
pub const SCRATCH_BYTES: usize = 64 << 20;
