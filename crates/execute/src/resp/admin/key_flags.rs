//! Key flags: what a command does with its keys, by COMMAND INFO and COMMAND GETKEYSANDFLAGS.
//!
//! Source: `COMMAND INFO` of Redis 7; commands that only later versions or this server have follow
//! the same rules.

use cellar_protocol::resp::Verb;
use cellar_protocol::resp::command::{Command, Flags, Keys};

/// Flags of a key.
pub(super) type FlagWords = &'static [&'static str];

/// How a command uses its first key, and the others if that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyFlags {
    pub(super) first: FlagWords,
    pub(super) others: Option<FlagWords>,
}

const READS: FlagWords = &["RO", "access"];
const LOOKS: FlagWords = &["RO"];
const CHANGES: FlagWords = &["RW", "update"];
const READS_AND_CHANGES: FlagWords = &["RW", "access", "update"];
const TAKES: FlagWords = &["RW", "access", "delete"];
const TAKES_OUT: FlagWords = &["RW", "delete"];
const PUTS_IN: FlagWords = &["RW", "insert"];
const READS_AND_PUTS_IN: FlagWords = &["RW", "access", "insert"];
const READS_IN_PLACE: FlagWords = &["RW", "access"];
const STORES: FlagWords = &["OW", "update"];
const STORES_NEW: FlagWords = &["OW", "insert"];
const REMOVES: FlagWords = &["RM", "delete"];
const READS_OR_CHANGES: FlagWords = &["RW", "access", "update", "variable_flags"];
const NO_KEY: FlagWords = &["not_key"];

/// How any request of a command may use its keys.
pub(super) fn of_command(row: &Command) -> KeyFlags {
    let (first, others) = match row.verb {
        Verb::Bitop
        | Verb::Sunionstore
        | Verb::Sdiffstore
        | Verb::Zrangestore
        | Verb::Zunionstore
        | Verb::Zinterstore
        | Verb::Zdiffstore
        | Verb::Geosearchstore => (STORES, Some(READS)),
        Verb::Sinterstore => (CHANGES, Some(READS)),
        Verb::Rename => (TAKES, Some(STORES)),
        Verb::Renamenx => (TAKES, Some(STORES_NEW)),
        Verb::Copy => (READS, Some(STORES)),
        Verb::Pfmerge => (READS_AND_PUTS_IN, Some(READS)),
        Verb::Smove
        | Verb::Lmove
        | Verb::Lmovem
        | Verb::Rpoplpush
        | Verb::Blmove
        | Verb::Blmovem
        | Verb::Brpoplpush
        | Verb::Zmove
        | Verb::Zmovemember
        | Verb::Bzmove => (TAKES, Some(PUTS_IN)),
        _ => (of_all_keys(row), None),
    };
    KeyFlags { first, others }
}

/// The words of commands that do the same with all their keys.
fn of_all_keys(row: &Command) -> FlagWords {
    match row.verb {
        Verb::Set | Verb::Bitfield => READS_OR_CHANGES,
        Verb::Mset | Verb::Msetex | Verb::Setex | Verb::Psetex => STORES,
        Verb::Msetnx | Verb::Setnx => STORES_NEW,
        Verb::Getset
        | Verb::Getex
        | Verb::Incr
        | Verb::Decr
        | Verb::Incrby
        | Verb::Decrby
        | Verb::Incrbyfloat
        | Verb::Increx
        | Verb::Getlease
        | Verb::Setbit
        | Verb::Move
        | Verb::Hincrby
        | Verb::Hincrbyfloat
        | Verb::Hgetex
        | Verb::Zincrby => READS_AND_CHANGES,
        Verb::Getdel
        | Verb::Hgetdel
        | Verb::Spop
        | Verb::Lpop
        | Verb::Rpop
        | Verb::Lmpop
        | Verb::Blpop
        | Verb::Brpop
        | Verb::Blmpop
        | Verb::Zpopmin
        | Verb::Zpopmax
        | Verb::Zmpop
        | Verb::Bzpopmin
        | Verb::Bzpopmax
        | Verb::Bzmpop => TAKES,
        Verb::Pfcount => READS_IN_PLACE,
        Verb::Append
        | Verb::Pfadd
        | Verb::Hsetnx
        | Verb::Sadd
        | Verb::Lpush
        | Verb::Rpush
        | Verb::Lpushx
        | Verb::Rpushx
        | Verb::Linsert => PUTS_IN,
        Verb::Del | Verb::Unlink | Verb::Delifeq | Verb::Delex => REMOVES,
        Verb::Hdel
        | Verb::Srem
        | Verb::Ltrim
        | Verb::Lrem
        | Verb::Zrem
        | Verb::Zremrangebyscore
        | Verb::Zremrangebyrank
        | Verb::Zremrangebylex => TAKES_OUT,
        // Their destination key follows a keyword.
        Verb::Sort | Verb::Georadius | Verb::Georadiusbymember => READS,
        verb if looks_only(verb) => LOOKS,
        Verb::Ssubscribe | Verb::Sunsubscribe | Verb::Spublish => NO_KEY,
        _ if row.flags.has(Flags::READONLY) => READS,
        _ if row.flags.has(Flags::WRITE) => CHANGES,
        _ => READS_AND_CHANGES,
    }
}

/// Whether it reveals of a key only its existence, kind or size.
const fn looks_only(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Strlen
            | Verb::Exists
            | Verb::Touch
            | Verb::Type
            | Verb::Hexists
            | Verb::Hlen
            | Verb::Hstrlen
            | Verb::Sismember
            | Verb::Scard
            | Verb::Llen
            | Verb::Zcard
            | Verb::Watch
            | Verb::MemoryUsage
            | Verb::ObjectEncoding
            | Verb::ObjectFreq
            | Verb::ObjectIdletime
            | Verb::ObjectRefcount
    )
}

/// How this request uses its keys.
pub(super) fn of_request(row: &Command, request: &[&[u8]]) -> KeyFlags {
    let has = |word: &str| {
        let mut words = request.iter().skip(3);
        words.any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let first = match row.verb {
        Verb::Set if has("get") => READS_AND_CHANGES,
        // A condition on the old value reads it, and keeps the key where it does not hold.
        Verb::Set if ["ifeq", "ifne", "ifdeq", "ifdne"].into_iter().any(has) => CHANGES,
        Verb::Set => STORES,
        Verb::Delex if request.len() > 2 => TAKES_OUT,
        Verb::Bitfield if is_read_only(request) => READS,
        Verb::Bitfield => READS_AND_CHANGES,
        Verb::Sort | Verb::Georadius | Verb::Georadiusbymember => {
            return KeyFlags {
                first: READS,
                others: Some(STORES),
            };
        }
        _ => return of_command(row),
    };
    KeyFlags {
        first,
        others: None,
    }
}

/// Whether a BITFIELD only reads.
fn is_read_only(request: &[&[u8]]) -> bool {
    let mut words = request.iter().skip(2);
    !words.any(|arg| arg.eq_ignore_ascii_case(b"set") || arg.eq_ignore_ascii_case(b"incrby"))
}

/// The positions of keys with one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeySpec {
    pub(super) words: FlagWords,
    /// The argument at which the search begins.
    pub(super) begin: i64,
    /// Whether that is the number of the keys behind it.
    pub(super) is_count: bool,
    /// The last key, from the first one, or from the end if negative.
    pub(super) last: i64,
    pub(super) step: i64,
}

/// The specifications of a command's keys.
pub(super) fn specs(row: &Command) -> Vec<KeySpec> {
    if row.keys == Keys::NONE {
        return Vec::new();
    }
    let Keys {
        first,
        last,
        step,
        count,
        ..
    } = row.keys;
    let (first, last, step) = (i64::from(first), i64::from(last), i64::from(step));
    let roles = of_command(row);
    let relative = |begin: i64| if last < 0 { last } else { last - begin };
    let counted = |words: FlagWords| KeySpec {
        words,
        begin: i64::from(count),
        is_count: true,
        last: 0,
        step,
    };
    let span = |words: FlagWords, begin: i64, last: i64| KeySpec {
        words,
        begin,
        is_count: false,
        last,
        step,
    };
    match (roles.others, first, count) {
        (_, 0, _) => vec![counted(roles.first)],
        (others, _, 1..) => vec![
            span(roles.first, first, 0),
            counted(others.unwrap_or(roles.first)),
        ],
        (None, ..) => vec![span(roles.first, first, relative(first))],
        (Some(others), ..) => vec![
            span(roles.first, first, 0),
            span(others, first + 1, relative(first + 1)),
        ],
    }
}
