//! Reading a trace: CSV with a header, the fields of [`Line`] in any order, only `key` required.
//!
//! `op` is `get` (the default) or `set`; a value of zero or no length has 100 bytes; a TTL of zero
//! is for ever; times and TTLs are seconds and may have a fraction. Anything else is refused with
//! its file and line, because a trace that is read wrongly gives numbers that look right. Whether a
//! file is packed shows in its first bytes, not in its name, so that stdin works the same way.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use cellar_engine::KEY_BYTES_MAX;
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder, Terminator, Trim};
use serde::Deserialize;

use super::trace::{Keys, Row, Trace};
use cellar_load::{Error, Random};

/// Length of values the trace does not tell.
const VALUE_BYTES_DEFAULT: u32 = 100;
/// Largest time and TTL in seconds, some 3,000 years.
const SECONDS_MAX: f64 = 1e11;
/// Endings that say how a file is packed, not what it holds.
const ENDINGS: [&str; 2] = [".zst", ".csv"];
/// What packed bytes begin with.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// The path that means stdin, and how it is called in reports and errors.
const STDIN: &str = "-";
const STDIN_NAME: &str = "stdin";
/// Behind all lines, so that the reader's line is always the one behind the record.
const LINE_END: &[u8] = b"\n";

/// One request as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'r> {
    time_s: Option<f64>,
    #[serde(default)]
    op: Verb,
    key: &'r [u8],
    value_bytes: Option<u32>,
    ttl_s: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Verb {
    #[default]
    #[serde(alias = "")]
    Get,
    Set,
}

/// Reads a trace from a file, or from stdin for `-`; this share of the sets over keys that appeared
/// before stores another length.
pub(crate) fn read(path: &Path, resize_share: f64) -> Result<Trace, Error> {
    let is_stdin = path.as_os_str() == STDIN;
    let file = if is_stdin { STDIN_NAME.as_ref() } else { path };
    let opened = open(path, is_stdin).and_then(unpack);
    let source =
        opened.map_err(|error| Error::system(format!("opening {}", file.display()), error))?;
    let mut lines = ReaderBuilder::new()
        .terminator(Terminator::Any(b'\n'))
        .trim(Trim::All)
        .from_reader(source.chain(LINE_END));
    let mut parser = Parser {
        resize_share,
        random: Random::seeded(1),
        keys: Keys::default(),
        rows: Vec::new(),
        start_s: None,
        last_ms: 0,
    };
    parser.read(&mut lines).map_err(|what| {
        let line = (lines.position().line() - 1).max(1);
        Error::Wrong(format!("{}, line {line}: {what}", file.display()))
    })?;
    Ok(Trace {
        name: name_of(file),
        keys: parser.keys,
        rows: parser.rows,
    })
}

fn open(path: &Path, is_stdin: bool) -> io::Result<Box<dyn Read>> {
    Ok(match is_stdin {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path)?),
    })
}

fn unpack(mut source: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::new();
    let mut begin = source.by_ref().take(ZSTD_MAGIC.len() as u64);
    begin.read_to_end(&mut magic)?;
    let is_packed = magic == ZSTD_MAGIC;
    let whole = Cursor::new(magic).chain(source);
    Ok(match is_packed {
        true => Box::new(zstd::Decoder::new(whole)?),
        false => Box::new(whole),
    })
}

/// The name of a file without the endings.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    let mut name = name.to_string_lossy().into_owned();
    for ending in ENDINGS {
        if let Some(stem) = name.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
            name = stem.to_owned();
        }
    }
    name
}

/// A trace that is being read.
struct Parser {
    resize_share: f64,
    random: Random,
    keys: Keys,
    rows: Vec<Row>,
    /// The first time in the trace, from which all others count.
    start_s: Option<f64>,
    last_ms: u64,
}

impl Parser {
    fn read(&mut self, lines: &mut Reader<impl Read>) -> Result<(), String> {
        let none = ByteRecord::new();
        let header = lines.byte_headers().map_err(|error| explain(&error, &none));
        let header = header?.clone();
        if !header.iter().any(|name| name == b"key") {
            return Err("the column key is missing".to_owned());
        }
        let mut record = ByteRecord::new();
        let explain = |error| explain(&error, &header);
        while lines.read_byte_record(&mut record).map_err(explain)? {
            let line = record.deserialize(Some(&header)).map_err(explain)?;
            let row = self.row(&line)?;
            if u32::try_from(self.rows.len()).is_err() {
                return Err("more than 2^32 rows".to_owned());
            }
            self.rows.push(row);
        }
        Ok(())
    }

    fn row(&mut self, line: &Line<'_>) -> Result<Row, String> {
        let bytes = line.key.len();
        if bytes == 0 || bytes > KEY_BYTES_MAX {
            return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes, not {bytes}"));
        }
        for (name, seconds) in [("time_s", line.time_s), ("ttl_s", line.ttl_s)] {
            if seconds.is_some_and(|it| !(0.0..=SECONDS_MAX).contains(&it)) {
                return Err(format!("{name} is 0 to {SECONDS_MAX:e}"));
            }
        }
        let value_bytes = line.value_bytes.filter(|bytes| *bytes > 0);
        let mut value_bytes = value_bytes.unwrap_or(VALUE_BYTES_DEFAULT);
        let known = self.keys.len();
        let too_many = || "a trace has less than 2^32 keys".to_owned();
        let key = self.keys.number(line.key).ok_or_else(too_many)?;
        let is_set = line.op == Verb::Set;
        if is_set && (key as usize) < known && self.random.unit() < self.resize_share {
            value_bytes = resized(value_bytes, &mut self.random);
        }
        Ok(Row {
            at_ms: self.at_ms(line.time_s),
            ttl_ms: ttl_ms(line.ttl_s.unwrap_or(0.0)),
            key,
            value_bytes,
            is_set,
        })
    }

    /// The time as milliseconds since the first row; without one nothing moves.
    fn at_ms(&mut self, time_s: Option<f64>) -> u64 {
        if let Some(time_s) = time_s {
            let start_s = *self.start_s.get_or_insert(time_s);
            self.last_ms = self.last_ms.max(milliseconds(time_s - start_s));
        }
        self.last_ms
    }
}

/// What is wrong with a line, without its number, which stands before it.
fn explain(error: &csv::Error, header: &ByteRecord) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} fields instead of {expected_len}"),
        ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|at| header.get(at as usize));
            let column = String::from_utf8_lossy(column.unwrap_or(b"a field"));
            format!("{column}: {}", err.kind())
        }
        _ => error.to_string(),
    }
}

/// A TTL that is not zero does not become "for ever" by rounding.
fn ttl_ms(ttl_s: f64) -> u64 {
    match milliseconds(ttl_s) {
        0 if ttl_s > 0.0 => 1,
        ms => ms,
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// Another length: half to double, as likely as not the shorter.
fn resized(value_bytes: u32, random: &mut Random) -> u32 {
    let bytes = u64::from(value_bytes);
    let (low, high) = ((bytes / 2).max(1), bytes.saturating_mul(2));
    let drawn = if random.bits() & 1 == 0 {
        low + random.below(bytes - low + 1)
    } else {
        bytes + random.below(high - bytes + 1)
    };
    u32::try_from(drawn).unwrap_or(u32::MAX)
}
