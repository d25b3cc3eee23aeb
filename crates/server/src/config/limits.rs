//! Limits: what one client may have the server hold outside of the cache's memory.
//!
//! Each bound holds for one client; the sum over all of them is bounded by `--client-memory`, see
//! [`Budget`](crate::clients::budget::Budget).
//!
//! Tests: tests/client_memory.rs.

pub use cellar_protocol::http::decode::{FIELDS_BYTES_MAX, FIELDS_MAX, REQUEST_LINE_BYTES_MAX};
pub use cellar_protocol::memcached::{
    KEY_BYTES_MAX as MEMCACHED_KEY_BYTES_MAX, LINE_BYTES_MAX as MEMCACHED_LINE_BYTES_MAX,
};
pub use cellar_protocol::resp::decode::ARGS_MAX;

/// Bytes taken from one socket in one turn.
pub const READ_BYTES_MAX: usize = 16 << 10;
/// Bytes of a large value or a long request taken from one socket in one turn.
pub const LONG_READ_BYTES_MAX: usize = 256 << 10;
/// A request that is not whole and has so many bytes is gathered outside of the arena.
pub const LONG_REQUEST_BYTES_MIN: usize = 64 << 10;
/// The arena of an event loop: what one connection can have left over and is read behind it, and
/// room for some sixty full reads. The system gives memory to the part that is used.
pub const ARENA_BYTES: usize = LONG_READ_BYTES_MAX + (1 << 20);
const _: () = assert!(
    LONG_REQUEST_BYTES_MIN + 2 * READ_BYTES_MAX <= LONG_READ_BYTES_MAX
        && LONG_READ_BYTES_MAX + READ_BYTES_MAX <= ARENA_BYTES,
    "what is left over of one connection has room in an empty arena"
);

/// What a client is told that is closed because clients use too much memory.
pub const CLIENT_MEMORY_EXCEEDED: &str = "the connection is closed: its request needs more memory \
    than --client-memory has free";
/// What a client is told whose pipeline is refused.
pub const PIPELINE_TOO_LARGE: &str = "the pipeline is too large: requests whose replies are not \
    read need more than --client-memory has free";

/// Waiting reply bytes from which a connection gets no further request.
pub const WAITING_BYTES_MAX: usize = 32 << 10;
/// A larger reply buffer is given back to the allocator when it is empty.
pub const KEPT_BUFFER_BYTES_MAX: usize = 2 * WAITING_BYTES_MAX;
/// Reply buffers that an event loop keeps for its connections' next replies.
pub const SPARE_BUFFERS_MAX: usize = 64;
/// Waiting reply bytes of several connections with which a turn's requests end; the others wait for
/// the next turn.
pub const TURN_REPLY_BYTES_MAX: usize = 8 << 20;
/// Longest reply that a command makes in one piece where the client chooses its length, and all
/// replies of a transaction together.
pub const REPLY_BYTES_MAX: usize = 32 << 20;
/// A transaction whose replies take more needs free client memory for them.
pub const CHECKED_REPLY_BYTES_MIN: usize = 1 << 20;
/// Bytes that the arguments of a script or function may have together: they are copied to where it
/// runs while nobody else is served, some 0.7 ms for each MiB.
pub const SCRIPT_ARGUMENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of the members that a command on several sets finds.
pub const RESULT_BYTES_MAX: usize = 64 << 20;
/// Bytes that the keys one client watches may take, each as [`entry_bytes`] says: EXEC looks at all
/// of them in one step.
pub const WATCHED_BYTES_MAX: usize = 2 << 20;
/// Bytes that the keys one client waits for may take, each with [`ENTRY_BYTES`].
pub const WAITED_BYTES_MAX: usize = 2 << 20;
/// The part of --client-memory that keyspace events may take that are not told yet: very many
/// listen to them, or they come in a burst. What is above is dropped and counted.
pub const WAITING_EVENT_SHARE: usize = 4;
/// Clients that may wait for keys at one time.
pub const WAITERS_MAX: usize = 1 << 16;
/// Bytes that one client's subscriptions may take: names, each as [`entry_bytes`] says, and
/// what patterns become.
pub const SUBSCRIPTION_BYTES_MAX: usize = 4 << 20;
/// Longest pattern that keys, channels or names are compared with; all of CONFIG GET together.
pub const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Bytes of the patterns of one PSUBSCRIBE, which compiles all of them in one step.
pub const COMPILED_BYTES_MAX: usize = 256 << 10;
/// Longest name of a channel that is listened or published to.
pub const CHANNEL_BYTES_MAX: usize = 64 << 10;
/// Bytes that the prefixes of one client's tracking may take, each as [`entry_bytes`] says.
pub const PREFIX_BYTES_MAX: usize = 1 << 20;
/// Longest prefix of CLIENT TRACKING: a changed name is looked up by each length that there is.
pub const PREFIX_LENGTH_MAX: usize = 128;
/// Bookkeeping of a watched or waited-for key, a subscription or a prefix, for the bounds above: a
/// client loses all of them in one turn.
pub const ENTRY_BYTES: usize = 512;

/// What a watched key, a subscription or a prefix counts for: its name stands at the client and
/// where all are.
#[must_use]
pub const fn entry_bytes(name: &[u8]) -> usize {
    2 * name.len() + ENTRY_BYTES
}

/// Most arguments of a command that is not worked off in parts, and most keys of one of which
/// nobody sees a part done.
pub const COMMAND_ARGS_MAX: usize = 16_384;
/// Most arguments of a command that runs a script or a function: each becomes a string of Lua
/// before it begins.
pub const SCRIPT_ARGS_MAX: usize = 262_144;
/// Most arguments of one PSUBSCRIBE: each pattern is compiled, and entered where others look for
/// those that match.
pub const PSUBSCRIBE_ARGS_MAX: usize = 4_096;
/// Most keys of a command whose client is told when one of them changes: they are entered at once,
/// before any of them is read. MGET, EXISTS and TOUCH take more, for they enter those of each step.
pub const TRACKED_KEYS_MAX: usize = 2_048;
/// Most patterns of CONFIG GET; each is tried on each name.
pub const CONFIG_PATTERNS_MAX: usize = 256;
/// Longest name of a client, of its library and of that one's version.
pub const CLIENT_NAME_BYTES_MAX: usize = 4 << 10;
/// Most keys in a batch over HTTP.
pub const BATCH_KEYS_MAX: usize = 1_000;
/// Longest value that is answered in a batch.
pub const BATCH_VALUE_BYTES_MAX: usize = 1 << 20;
/// Longest value that is received in chunks, because it is gathered beside the cache's memory.
pub const CHUNKED_VALUE_BYTES_MAX: usize = 16 << 20;
/// Longest document of JSON, in either direction: to read escapes, or to write them, takes some
/// milliseconds for so many bytes.
pub const DOCUMENT_BYTES_MAX: usize = 2 << 20;

/// Bytes that the entries of each log of COMMANDLOG may take together: the oldest go first.
pub const COMMAND_LOG_BYTES_MAX: usize = 4 << 20;
/// Most keys that HOTKEYS lists.
pub const HOT_KEYS_MAX: usize = 64;
/// Most entries of each log of COMMANDLOG, whatever their length: the highest `slowlog-max-len`.
pub const COMMAND_LOG_ENTRIES_MAX: usize = 10_000;
/// Log lines that may wait to be written; further ones are dropped and counted.
pub const LOG_LINES_MAX: usize = 1_024;
/// Bytes that they may have together.
pub const LOG_BYTES_MAX: usize = 1 << 20;
/// Longest log line; the rest of a longer one is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 16 << 10;
/// What the program itself takes, in bytes.
pub const PROGRAM_BYTES: usize = 16 << 20;
/// What an idle connection takes, in bytes: its entry, its session, its place in listings.
pub const CONNECTION_BYTES: usize = 4 << 10;
/// What an idle connection over TLS takes besides.
pub const TLS_BYTES: usize = 32 << 10;
/// Bytes that a client may send before its TLS handshake is done: most of them are certificates.
pub const HANDSHAKE_BYTES_MAX: usize = 32 << 10;
/// TLS handshakes under way at one time.
pub const HANDSHAKES_MAX: usize = 512;
/// Most of them that one source may have, so that those of others find places: an IPv4 address, or
/// a network of IPv6.
pub const HANDSHAKES_PER_SOURCE_MAX: usize = 64;
/// The stack of an event loop, of which the system gives what is used. A script uses most: Lua lets
/// 200 of its functions in C call each other, of which `string.gsub` takes 9 KiB each time, and
/// what the last of them calls may unpack a MessagePack of a thousand levels, some 600 bytes each;
/// both are several times as large in a build that nothing has optimised.
pub const LOOP_STACK_BYTES: usize = 8 << 20;
/// What one event loop keeps of reply buffers.
pub const SPARE_BYTES: usize = SPARE_BUFFERS_MAX * KEPT_BUFFER_BYTES_MAX;
/// What a command may need while it runs: copies of a value it changes, its arguments, its reply. A
/// part of it is kept for a second.
pub const SCRATCH_BYTES: usize = 64 << 20;
