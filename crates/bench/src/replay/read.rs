//! Reading a trace: CSV with a header, columns from [`COLUMNS`] in any order, only `key` required.
//!
//! `op` is `get` (the default) or `set`; a value of zero or no length has 100 bytes; a TTL of zero
//! is for ever; times and TTLs are seconds and may have a fraction. Anything else is refused with
//! its file and line, because a trace that is read wrongly gives numbers that look right. Whether a
//! file is packed shows in its first bytes, not in its name, so that stdin works the same way.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

use cellar_engine::KEY_BYTES_MAX;
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

use super::trace::{Keys, Row, Trace};
use cellar_load::{Error, Random};

/// Columns a trace may have.
const COLUMNS: [&str; 5] = ["time_s", "op", "key", "value_bytes", "ttl_s"];
/// Length of values the trace does not tell.
const VALUE_BYTES_DEFAULT: u32 = 100;
/// Largest time and TTL in seconds, some 3,000 years.
const SECONDS_MAX: f64 = 1e11;
/// Endings that say how a file is packed, not what it holds.
const ENDINGS: [&str; 2] = [".zst", ".csv"];
/// What packed bytes begin with.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// The name that means stdin, and how it is called in reports and errors.
const STDIN: &str = "-";
const STDIN_NAME: &str = "stdin";
const LINE_END: &[u8] = b"\n";

/// Reads a trace from a file, or from stdin for `-`; this share of the sets over keys that appeared
/// before stores another length.
pub(crate) fn read(path: &Path, resize_share: f64) -> Result<Trace, Error> {
    let name = name_of(path);
    let file = match name.as_str() {
        STDIN_NAME => STDIN_NAME.to_owned(),
        _ => path.display().to_string(),
    };
    let parser = Parser::new(open(path)?, file, resize_share)?;
    parser.trace(name)
}

/// Opens a file, or stdin, and unpacks what is packed.
fn open(path: &Path) -> Result<Box<dyn Read>, Error> {
    let opening = |error| Error::system(format!("opening {}", path.display()), error);
    let source: Box<dyn Read> = if path.as_os_str() == STDIN {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(opening)?)
    };
    unpack(source).map_err(opening)
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

fn name_of(path: &Path) -> String {
    if path.as_os_str() == STDIN {
        return STDIN_NAME.to_owned();
    }
    let file = path.file_name().unwrap_or(path.as_os_str());
    let mut name = file.to_string_lossy().into_owned();
    for ending in ENDINGS {
        if let Some(stem) = name.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
            name = stem.to_owned();
        }
    }
    name
}

/// A trace that is being read.
struct Parser<R> {
    rows: Reader<Chain<R, &'static [u8]>>,
    /// Its name in errors.
    file: String,
    columns: Columns,
    resize_share: f64,
    random: Random,
    keys: Keys,
    /// The first time in the trace, from which all others count.
    start_s: Option<f64>,
    last_ms: u64,
}

/// Where each of [`COLUMNS`] stands in a row.
struct Columns([Option<usize>; COLUMNS.len()]);

impl Columns {
    const TIME: usize = 0;
    const OP: usize = 1;
    const KEY: usize = 2;
    const VALUE_BYTES: usize = 3;
    const TTL: usize = 4;

    fn of(header: &ByteRecord) -> Result<Columns, String> {
        let known = || COLUMNS.join(", ");
        let mut columns = Columns([None; COLUMNS.len()]);
        for (place, field) in header.iter().enumerate() {
            let name = String::from_utf8_lossy(field.trim_ascii()).into_owned();
            let column = COLUMNS.iter().position(|column| **column == name);
            let column = column
                .ok_or_else(|| format!("there is no column {name:?}; columns are {}", known()))?;
            if columns.0[column].replace(place).is_some() {
                return Err(format!("the column {name} stands there twice"));
            }
        }
        match columns.0[Columns::KEY] {
            Some(_) => Ok(columns),
            None => Err(format!(
                "the column key is missing; columns are {}",
                known()
            )),
        }
    }

    /// A field without the spaces around it; empty if the trace has no such column.
    fn field<'r>(&self, column: usize, record: &'r ByteRecord) -> &'r [u8] {
        let field = self.0[column].and_then(|place| record.get(place));
        field.unwrap_or(b"").trim_ascii()
    }
}

impl<R: Read> Parser<R> {
    fn new(source: R, file: String, resize_share: f64) -> Result<Parser<R>, Error> {
        // Every line has an end, so that the reader's line is always the one behind the record.
        let source = source.chain(LINE_END);
        let mut rows = ReaderBuilder::new()
            .terminator(Terminator::Any(b'\n'))
            .from_reader(source);
        let header = rows.byte_headers().map_err(explain);
        let columns = header.and_then(Columns::of);
        Ok(Parser {
            columns: columns.map_err(|what| bad(&file, line_of_last(&rows), what))?,
            rows,
            file,
            resize_share,
            random: Random::seeded(1),
            keys: Keys::default(),
            start_s: None,
            last_ms: 0,
        })
    }

    fn trace(mut self, name: String) -> Result<Trace, Error> {
        let mut record = ByteRecord::new();
        let mut rows = Vec::new();
        loop {
            let is_there = self.rows.read_byte_record(&mut record).map_err(explain);
            let row = is_there.and_then(|is_there| match is_there {
                true => self.row(&record).map(Some),
                false => Ok(None),
            });
            let line = || line_of_last(&self.rows);
            let Some(row) = row.map_err(|what| bad(&self.file, line(), what))? else {
                break;
            };
            if u32::try_from(rows.len()).is_err() {
                return Err(bad(&self.file, line(), "more than 2^32 rows".to_owned()));
            }
            rows.push(row);
        }
        Ok(Trace {
            name,
            keys: self.keys,
            rows,
        })
    }

    fn row(&mut self, record: &ByteRecord) -> Result<Row, String> {
        let field = |column| self.columns.field(column, record);
        let is_set = match field(Columns::OP) {
            b"" | b"get" => false,
            b"set" => true,
            other => return Err(format!("op is get or set, not {}", shown(other))),
        };
        let key = field(Columns::KEY);
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let bytes = key.len();
            return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes, not {bytes}"));
        }
        let time = seconds(field(Columns::TIME), COLUMNS[Columns::TIME])?;
        let ttl = seconds(field(Columns::TTL), COLUMNS[Columns::TTL])?.unwrap_or(0.0);
        let mut value_bytes = value_bytes(field(Columns::VALUE_BYTES))?;
        let known = self.keys.len();
        let too_many = || "a trace has less than 2^32 keys".to_owned();
        let key = self.keys.number(key).ok_or_else(too_many)?;
        if is_set && (key as usize) < known && self.random.unit() < self.resize_share {
            value_bytes = resized(value_bytes, &mut self.random);
        }
        let at_ms = self.at_ms(time);
        Ok(Row {
            at_ms,
            ttl_ms: ttl_ms(ttl),
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

/// The line, from 1, on which the record read last ends.
fn line_of_last<R: Read>(rows: &Reader<R>) -> u64 {
    (rows.position().line() - 1).max(1)
}

fn bad(file: &str, line: u64, what: String) -> Error {
    Error::Wrong(format!("{file}, line {line}: {what}"))
}

/// What is wrong with the file, without the line, which stands before it.
fn explain(error: csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} fields instead of {expected_len}"),
        _ => error.to_string(),
    }
}

fn shown(field: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(field))
}

/// A time in seconds; `None` for an empty field.
fn seconds(field: &[u8], column: &str) -> Result<Option<f64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let number = std::str::from_utf8(field)
        .ok()
        .and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(number) if (0.0..=SECONDS_MAX).contains(&number) => Ok(Some(number)),
        _ => Err(format!(
            "{column} is a number of seconds from 0 to {SECONDS_MAX:e}, not {}",
            shown(field)
        )),
    }
}

fn value_bytes(field: &[u8]) -> Result<u32, String> {
    if field.is_empty() {
        return Ok(VALUE_BYTES_DEFAULT);
    }
    let number = std::str::from_utf8(field)
        .ok()
        .and_then(|text| text.parse().ok());
    match number {
        Some(0) => Ok(VALUE_BYTES_DEFAULT),
        Some(bytes) => Ok(bytes),
        None => Err(format!(
            "value_bytes is a whole number below 2^32, not {}",
            shown(field)
        )),
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
