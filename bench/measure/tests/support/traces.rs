//! Traces: requests of real caches, for tests that ask the engine alone.
//!
//! They lie beside the project, in ../shared/traces; where they are absent, a test says so.

use std::io::Read;
use std::path::{Path, PathBuf};

use cellar_engine::{Cache, Deadline, Instant, SetOptions};

/// Requests of a trace that are replayed.
const REQUESTS_MAX: usize = 400_000;
/// What the values are made of.
static VALUE: [u8; 1 << 20] = [7; 1 << 20];

/// One line of a trace.
pub(crate) struct Request {
    pub(crate) now: Instant,
    pub(crate) key: String,
    pub(crate) is_write: bool,
    value_bytes: usize,
    ttl_s: u64,
}

impl Request {
    /// Stores what it stores, or would after a miss.
    pub(crate) fn store(&self, cache: &Cache) {
        let deadline = match self.ttl_s {
            0 => Deadline::NEVER,
            ttl_s => cache.now().plus_ms(ttl_s * 1_000),
        };
        let options = SetOptions {
            deadline,
            ..SetOptions::default()
        };
        let key = cache.key(self.key.as_bytes()).unwrap();
        // A value beyond the limit of a small cache is refused, as it would be by a server.
        let _ = cache.set(key, &VALUE[..self.value_bytes], &options);
    }
}

/// Where the traces are.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let is_there = folder.is_dir();
    if !is_there {
        eprintln!("skipped: there is no folder {}", folder.display());
    }
    is_there.then_some(folder)
}

/// The beginning of a real trace.
pub(crate) fn real(name: &str) -> Option<Vec<Request>> {
    let path = folder()?.join(format!("{name}.csv.zst"));
    let text = zstd::Decoder::new(std::fs::File::open(path).unwrap()).unwrap();
    Some(parse(text))
}

/// The beginning of a trace.
pub(crate) fn parse(text: impl Read) -> Vec<Request> {
    let mut reader = csv::Reader::from_reader(text);
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|header| header == name);
    let columns = ["time_s", "key", "value_bytes", "ttl_s"].map(|name| column(name).unwrap());
    let op = column("op");
    let request = |row: csv::StringRecord| {
        let number = |place: usize| row[columns[place]].parse::<u64>().unwrap();
        let value_bytes = if number(2) == 0 { 100 } else { number(2) };
        Request {
            now: Instant(1_000 + number(0) * 1_000),
            key: format!("key {}", &row[columns[1]]),
            is_write: op.is_some_and(|op| &row[op] == "set"),
            value_bytes: (value_bytes as usize).min(VALUE.len()),
            ttl_s: number(3),
        }
    };
    let rows = reader.records().take(REQUESTS_MAX);
    rows.map(|row| request(row.unwrap())).collect()
}
