//! Rows: requests of any size for every command of all protocols, made from their tables.
//!
//! A command of RESP gets the arguments its row asks for; a few need words of their own to do
//! something ([`words`]). Memcached's are made from the syntax in its table, those of HTTP from
//! docs/openapi.json. So a new command is among them by itself.

use std::path::Path;

use cellar_protocol::memcached::binary::{OPERATIONS, Operation};
use cellar_protocol::memcached::command::COMMANDS;
use cellar_protocol::resp::Command;
use cellar_protocol::resp::command::{Group, TABLE};

use super::attack::Dialect;
use super::daemon::frame;

/// How much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// So many bytes.
    Bytes(usize),
    /// More than any limit allows: it is announced and not sent.
    Beyond,
}

/// Which part of a request has the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The first key, or the path.
    Key,
    /// An argument between the first and the last.
    Middle,
    /// The last argument, the value, or the body.
    Last,
    /// Many small arguments, or chunks of a body.
    Many,
    /// The command's name, the whole line, or a field of the head.
    Line,
    /// What stands behind the question mark of a path.
    Query,
}

/// One command.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    /// What of it can have a size.
    pub(crate) parts: Vec<Part>,
    /// Whether it may end the connection without an error.
    pub(crate) may_end: bool,
    /// Whether its answer has a head only.
    pub(crate) is_head: bool,
    make: Make,
}

enum Make {
    /// Arguments with the name, and the place of the first key.
    Resp(Vec<String>, Option<usize>),
    /// RESP as a line.
    Inline,
    /// The words behind the name, and whether a value follows.
    Memcached(Vec<String>, bool),
    /// The parts that a packet has.
    Packet(&'static Operation),
    /// Method and path.
    Http(String, String),
}

/// More bytes than a bulk string may have, and than any value may.
const TOO_MANY_BYTES: usize = (512 << 20) + 1;
/// More arguments than a command may have.
const TOO_MANY_ARGS: usize = (1 << 20) + 1;
/// Length of one of many small arguments; the longer one where many would be too many.
const SMALL_ARG_BYTES: usize = 16;
const SMALL_ARG_BYTES_MAX: usize = 64;
/// What follows the announcement of too much.
const BEGINNING_BYTES: usize = 1_000;
/// Seconds that commands wait for what is not there.
const WAIT_S: &str = "0.01";
/// Bytes of a chunk of a body.
const CHUNK_BYTES: usize = 60_000;

/// All commands of a protocol.
pub(crate) fn rows(dialect: Dialect) -> Vec<Row> {
    match dialect {
        Dialect::Resp => resp_rows(),
        Dialect::Memcached => memcached_rows(),
        Dialect::Binary => binary_rows(),
        Dialect::Http => http_rows(),
    }
}

impl Row {
    /// The request as its table asks for it.
    pub(crate) fn plain(&self) -> Vec<u8> {
        match &self.make {
            Make::Resp(words, _) => {
                let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                frame(&words)
            }
            Make::Inline => b"PING\r\n".to_vec(),
            Make::Memcached(words, has_value) => {
                let words = words.iter().map(|word| word.replace("<bytes>", "1"));
                let words: Vec<String> = [self.name.clone()].into_iter().chain(words).collect();
                let value = if *has_value { "1\r\n" } else { "" };
                format!("{}\r\n{value}", words.join(" ")).into_bytes()
            }
            Make::Packet(_) | Make::Http(..) => self.request(Part::Last, Size::Bytes(1), b'1'),
        }
    }

    /// The request whose `part` consists of `size` bytes of `filler`.
    pub(crate) fn request(&self, part: Part, size: Size, filler: u8) -> Vec<u8> {
        match &self.make {
            Make::Resp(words, key) => resp(words, *key, part, size, filler),
            Make::Inline => match size {
                Size::Bytes(bytes) => [b"PING ", &*vec![filler; bytes], b"\r\n"].concat(),
                Size::Beyond => [b"PING ", &*vec![filler; 128 << 10]].concat(),
            },
            Make::Memcached(words, has_value) => {
                memcached(&self.name, words, *has_value, part, size, filler)
            }
            Make::Packet(operation) => packet(operation, part, size, filler),
            Make::Http(method, path) => http(method, path, part, size, filler),
        }
    }

    /// Whether the server waits for what it was told of rather than refuse it at once.
    pub(crate) fn is_awaited(&self, part: Part, size: Size) -> bool {
        let is_value = match &self.make {
            Make::Packet(operation) => operation.takes(8, 1, 1) || operation.takes(0, 1, 1),
            _ => self.dialect == Dialect::Memcached,
        };
        is_value && part == Part::Last && size == Size::Beyond
    }
}

fn resp_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for command in TABLE {
        if command.subcommands.is_empty() {
            rows.push(resp_row(command, None));
        }
        let of_container = |row| resp_row(row, Some(command.name));
        rows.extend(command.subcommands.iter().map(of_container));
    }
    let row = |name: &str, make, parts| Row {
        name: name.to_owned(),
        dialect: Dialect::Resp,
        parts,
        may_end: false,
        is_head: false,
        make,
    };
    let words = vec!["unknown".to_owned(), "1".to_owned(), "1".to_owned()];
    let parts = vec![Part::Line, Part::Last, Part::Many];
    rows.push(row("(unknown)", Make::Resp(words, None), parts));
    rows.push(row("(line)", Make::Inline, vec![Part::Line]));
    rows
}

fn resp_row(command: &Command, container: Option<&str>) -> Row {
    let mut args: Vec<String> = container.map(str::to_owned).into_iter().collect();
    args.push(command.name.to_owned());
    let named = args.len();
    let name = args.join(" ");
    args.extend(words(&name).iter().map(|word| (*word).to_owned()));
    let least = usize::from(command.arity.unsigned_abs());
    let keys = command.keys;
    let first_key = match (keys.first, keys.count) {
        (0, 0) => None,
        (0, count) => Some(usize::from(count) + 1),
        (first, _) => Some(first as usize),
    };
    let is_bare = args.len() == named;
    while args.len() < least {
        args.push("1".to_owned());
    }
    if let Some(key) = first_key.filter(|key| is_bare && *key < args.len()) {
        args[key] = key_of(command.group).to_owned();
    }
    assert!(command.takes(args.len()), "{name}: {args:?}");
    let mut parts = vec![Part::Last, Part::Many];
    if args.len() > named + 1 {
        parts.extend([Part::Key, Part::Middle]);
    }
    Row {
        may_end: matches!(command.name, "quit" | "kill"),
        dialect: Dialect::Resp,
        is_head: false,
        parts,
        make: Make::Resp(args, first_key),
        name,
    }
}

/// A key that holds what a group's commands are for.
fn key_of(group: Group) -> &'static str {
    match group {
        Group::Hash => "hash",
        Group::Set => "set",
        Group::SortedSet | Group::Geo => "zset",
        Group::List => "list",
        Group::Hyperloglog => "sketch",
        _ => "string",
    }
}

/// What stands behind a command's name if numbers and a key would not do.
fn words(name: &str) -> &'static [&'static str] {
    match name {
        "hexpire" | "hpexpire" | "hexpireat" | "hpexpireat" => &["hash", "100", "FIELDS", "1", "1"],
        "httl" | "hpttl" | "hexpiretime" | "hpexpiretime" | "hpersist" | "hgetex" | "hgetdel" => {
            &["hash", "FIELDS", "1", "1"]
        }
        "hsetex" => &["hash", "FIELDS", "1", "1", "1"],
        "sexpire" | "spexpire" | "sexpireat" | "spexpireat" => &["set", "100", "MEMBERS", "1", "1"],
        "sttl" | "spttl" | "sexpiretime" | "spexpiretime" | "spersist" | "saddex" => {
            &["set", "MEMBERS", "1", "1"]
        }
        "eval" | "eval_ro" => &["return {KEYS[1], ARGV[1]}", "1", "string", "1"],
        "evalsha" | "evalsha_ro" => &["e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", "string"],
        "script load" => &["return 1"],
        "fcall" | "fcall_ro" => &["nosuch", "1", "string", "1"],
        "msetex" => &["1", "string", "1"],
        "bitop" => &["or", "string", "string2", "string3"],
        "bitfield" => &["string", "set", "u8", "0", "1"],
        "bitfield_ro" => &["string", "get", "u8", "0"],
        "zunion" | "zinter" | "zdiff" | "zintercard" => &["1", "zset"],
        "zunionstore" | "zinterstore" | "zdiffstore" => &["zset2", "1", "zset"],
        "zrangestore" => &["zset2", "zset", "0", "-1"],
        "zmpop" => &["1", "zset", "min"],
        "restore" => &["string", "0", "1"],
        "sort" | "sort_ro" => &["list", "alpha", "by", "*"],
        "geoadd" => &["zset", "1", "1", "1"],
        "geosearch" => &["zset", "fromlonlat", "1", "1", "byradius", "1", "km"],
        "geosearchstore" => &[
            "zset2",
            "zset",
            "fromlonlat",
            "1",
            "1",
            "byradius",
            "1",
            "km",
        ],
        "georadius" | "georadius_ro" => &["zset", "1", "1", "1", "km"],
        "georadiusbymember" | "georadiusbymember_ro" => &["zset", "1", "1", "km"],
        "sintercard" | "sunioncard" | "sdiffcard" => &["1", "set"],
        "lset" | "ltrim" | "lrange" => &["list", "0", "1"],
        "linsert" => &["list", "BEFORE", "1", "1"],
        "lmove" | "lmovem" => &["list", "list2", "LEFT", "RIGHT"],
        "rpoplpush" => &["list", "list2"],
        "lmpop" => &["1", "list", "LEFT"],
        // What is not there is waited for: not for long.
        "blpop" | "brpop" => &["list", WAIT_S],
        "bzpopmin" | "bzpopmax" => &["zset", WAIT_S],
        "blmove" | "blmovem" => &["list", "list2", "LEFT", "RIGHT", WAIT_S],
        "brpoplpush" => &["list", "list2", WAIT_S],
        "blmpop" => &[WAIT_S, "1", "list", "LEFT"],
        "zmove" => &["zset", "zset2", "min"],
        "zmovemember" => &["zset", "zset2", "members", "1", "1"],
        "bzmove" => &["zset", "zset2", "min", WAIT_S],
        "bzmpop" => &[WAIT_S, "1", "zset", "min"],
        "smove" => &["set", "set2", "1"],
        "lcs" | "rename" | "copy" => &["string", "string2"],
        "hscan" => &["hash", "0"],
        "sscan" => &["set", "0"],
        "zscan" => &["zset", "0"],
        "scan" | "clusterscan" => &["0"],
        "zrangebylex" | "zlexcount" | "zremrangebylex" => &["zset", "-", "+"],
        "zrevrangebylex" => &["zset", "+", "-"],
        "zadd" => &["zset", "1", "1"],
        "command getkeys" | "command getkeysandflags" => &["get", "string"],
        "config get" => &["*"],
        "config set" => &["slowlog-max-len", "128"],
        "keys" => &["*"],
        "swapdb" => &["1", "2"],
        _ => &[],
    }
}

fn resp(words: &[String], key: Option<usize>, part: Part, size: Size, filler: u8) -> Vec<u8> {
    let mut args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let place = match part {
        Part::Key => key.unwrap_or(1).min(args.len() - 1),
        Part::Middle => args.len() / 2,
        Part::Line => 0,
        Part::Last | Part::Many | Part::Query => args.len().max(2) - 1,
    };
    let bytes = match size {
        Size::Bytes(bytes) => bytes,
        Size::Beyond if part == Part::Many => {
            return format!("*{TOO_MANY_ARGS}\r\n$1\r\n1\r\n").into_bytes();
        }
        Size::Beyond => {
            let before = frame(&args[..place.min(args.len())]);
            let before = &before[before.iter().position(|byte| *byte == b'\n').unwrap() + 1..];
            let head = format!("*{}\r\n", args.len().max(place + 1));
            let large = format!("${TOO_MANY_BYTES}\r\n");
            let beginning = vec![filler; BEGINNING_BYTES];
            return [head.as_bytes(), before, large.as_bytes(), &beginning].concat();
        }
    };
    if part == Part::Many {
        let most = usize::from(bytes > 1 << 20);
        let each = [SMALL_ARG_BYTES, SMALL_ARG_BYTES_MAX][most];
        let small: Vec<Vec<u8>> = (0..bytes.div_ceil(each).max(1))
            .map(|number| format!("{number:0each$}").into_bytes())
            .collect();
        // What waits does so for the time behind its keys.
        let is_time = args.last() == Some(&WAIT_S.as_bytes());
        let time = args.pop_if(|_| is_time);
        args.extend(small.iter().map(Vec::as_slice));
        args.extend(time);
        return frame(&args);
    }
    let payload = vec![filler; bytes];
    match args.get_mut(place) {
        Some(arg) => *arg = &payload,
        None => args.push(&payload),
    }
    frame(&args)
}

fn memcached_rows() -> Vec<Row> {
    let row = |command: &cellar_protocol::memcached::command::Command| {
        let words = command.syntax.split(' ').filter_map(|word| match word {
            "" => None,
            "<key>" | "<key>*" => Some("string"),
            "<bytes>" => Some("<bytes>"),
            "<flag>*" => Some("v"),
            _ if word.starts_with('[') => None,
            _ if word.starts_with('<') => Some("1"),
            _ => Some(word.split('|').next().unwrap_or(word)),
        });
        let words: Vec<String> = words.map(str::to_owned).collect();
        let has_value = words.iter().any(|word| word == "<bytes>");
        let mut parts = vec![Part::Last, Part::Many];
        if words.iter().any(|word| word == "string") {
            parts.push(Part::Key);
        }
        parts.extend((words.len() > 2).then_some(Part::Middle));
        Row {
            name: command.name.to_owned(),
            dialect: Dialect::Memcached,
            parts,
            may_end: command.name == "quit",
            is_head: false,
            make: Make::Memcached(words, has_value),
        }
    };
    let mut rows: Vec<Row> = COMMANDS.iter().map(row).collect();
    rows.push(Row {
        name: String::new(),
        dialect: Dialect::Memcached,
        parts: vec![Part::Last, Part::Many],
        may_end: false,
        is_head: false,
        make: Make::Memcached(Vec::new(), false),
    });
    rows
}

fn memcached(
    name: &str,
    words: &[String],
    has_value: bool,
    part: Part,
    size: Size,
    filler: u8,
) -> Vec<u8> {
    let is_value = has_value && part == Part::Last;
    let bytes = match size {
        Size::Bytes(bytes) => bytes,
        Size::Beyond => TOO_MANY_BYTES,
    };
    let there = bytes.min(if size == Size::Beyond {
        64 << 10
    } else {
        bytes
    });
    let announced = if is_value { bytes } else { 1 };
    let mut words: Vec<String> = words
        .iter()
        .map(|word| word.replace("<bytes>", &announced.to_string()))
        .collect();
    let payload = || String::from_utf8(vec![filler; there]).unwrap();
    match part {
        Part::Key => {
            let key = words.iter_mut().find(|word| *word == "string");
            *key.unwrap() = payload();
        }
        Part::Middle => {
            let middle = words.len() / 2;
            words[middle] = payload();
        }
        Part::Many => {
            let each = SMALL_ARG_BYTES;
            let small = (0..there.div_ceil(each).max(1)).map(|number| format!("{number:0each$}"));
            words.extend(small);
        }
        _ if !is_value => words.push(payload()),
        _ => {}
    }
    words.insert(0, name.to_owned());
    let mut request = words.join(" ").into_bytes();
    request.extend_from_slice(b"\r\n");
    if is_value {
        request.resize(request.len() + there, filler);
    } else if has_value {
        request.push(filler);
    }
    if has_value {
        request.extend_from_slice(b"\r\n");
    }
    request
}

fn binary_rows() -> Vec<Row> {
    let row = |operation: &'static Operation| Row {
        name: operation.name.to_owned(),
        dialect: Dialect::Binary,
        parts: vec![Part::Last, Part::Key],
        may_end: operation.name == "quit",
        is_head: false,
        make: Make::Packet(operation),
    };
    OPERATIONS.iter().map(row).collect()
}

/// A packet whose key or value has a size; a key is announced as long as a head can.
fn packet(operation: &Operation, part: Part, size: Size, filler: u8) -> Vec<u8> {
    let bytes = match size {
        Size::Bytes(bytes) => bytes,
        Size::Beyond => TOO_MANY_BYTES,
    };
    let extras = usize::from(operation.extras_bytes);
    let (key, value) = match part {
        Part::Key => (bytes.min(usize::from(u16::MAX)), 0),
        _ => (usize::from(!operation.takes(extras, 0, 0)), bytes),
    };
    let there = if size == Size::Beyond {
        64 << 10
    } else {
        key + value
    };
    let mut request = vec![0x80, operation.code];
    request.extend_from_slice(&(key as u16).to_be_bytes());
    request.extend_from_slice(&[operation.extras_bytes, 0, 0, 0]);
    request.extend_from_slice(&((extras + key + value) as u32).to_be_bytes());
    request.resize(24 + extras, 0);
    request.resize(24 + extras + there, filler);
    request
}

fn http_rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = std::fs::read_to_string(path).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        let methods = methods.filter(|word| *word != "parameters");
        found
            .extend(methods.map(|method| (method.to_uppercase(), path.replace("{key}", "string"))));
    }
    // Paths that are for the console alone, and one that there is not.
    for (method, path) in [
        ("GET", "/v1/console/key"),
        ("GET", "/"),
        ("POST", "/nothing"),
    ] {
        found.push((method.to_owned(), path.to_owned()));
    }
    let row = |(method, path): (String, String)| Row {
        name: format!("{method} {path}"),
        dialect: Dialect::Http,
        parts: vec![Part::Last, Part::Many, Part::Query, Part::Line, Part::Key],
        may_end: false,
        is_head: method == "HEAD",
        make: Make::Http(method, path),
    };
    found.into_iter().map(row).collect()
}

fn http(method: &str, path: &str, part: Part, size: Size, filler: u8) -> Vec<u8> {
    let bytes = match size {
        Size::Bytes(bytes) => bytes,
        Size::Beyond => TOO_MANY_BYTES,
    };
    let there = bytes.min(if size == Size::Beyond {
        256 << 10
    } else {
        bytes
    });
    let payload = || String::from_utf8(vec![filler; there]).unwrap();
    let (mut path, mut fields) = (path.to_owned(), String::new());
    match part {
        Part::Key => path.push_str(&payload()),
        Part::Query => path.push_str(&format!("?ttl={}", payload())),
        Part::Line => fields = format!("X-Field: {}\r\n", payload()),
        _ => {}
    }
    let mut body = document(&path, payload);
    if method == "POST" {
        fields.push_str("Content-Type: application/json\r\n");
    }
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}");
    match (part, size) {
        (Part::Last, Size::Bytes(_)) => {
            request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        }
        (Part::Last, Size::Beyond) => {
            request.push_str(&format!("Content-Length: {TOO_MANY_BYTES}\r\n\r\n"));
        }
        (Part::Many, Size::Beyond) => {
            request.push_str(&format!(
                "Transfer-Encoding: chunked\r\n\r\n{TOO_MANY_BYTES:x}\r\n"
            ));
        }
        (Part::Many, Size::Bytes(_)) => {
            request.push_str("Transfer-Encoding: chunked\r\n\r\n");
            while !body.is_empty() {
                let rest = body.split_off(body.len().min(CHUNK_BYTES));
                request.push_str(&format!("{:x}\r\n{body}\r\n", body.len()));
                body = rest;
            }
            request.push_str("0\r\n\r\n");
        }
        _ => request.push_str("\r\n"),
    }
    request.into_bytes()
}

/// A body that fits the path and has what was asked for in it.
fn document(path: &str, payload: impl Fn() -> String) -> String {
    match path {
        "/v1/cache" => format!("{{\"id\":\"string\",\"content\":\"{}\"}}", payload()),
        "/v1/cache/batch/put" => {
            let message = format!("{{\"id\":\"string\",\"content\":\"{}\"}}", payload());
            format!("{{\"items\":[{message}]}}")
        }
        "/v1/cache/batch/get" => format!("{{\"ids\":[\"string\",\"{}\"]}}", payload()),
        _ => payload(),
    }
}
