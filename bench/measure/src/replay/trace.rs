//! A trace in memory: the requests of some cache, 32 bytes each, and every key once.
//!
//! Times count from the first request and never go back: a row that is older than the one before
//! it happens at the same moment.

use indexmap::IndexSet;

/// Bytes that a baseline pays for each item over key and value, as Cellar does.
pub(crate) const OVERHEAD_BYTES: u64 = 17;

/// The requests of some cache.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The file it came from, without its folder and endings.
    pub(crate) name: String,
    pub(crate) keys: Keys,
    pub(crate) rows: Vec<Row>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Milliseconds since the first request.
    pub(crate) at_ms: u64,
    /// Milliseconds to live; zero is for ever.
    pub(crate) ttl_ms: u64,
    /// Number of the key.
    pub(crate) key: u32,
    pub(crate) value_bytes: u32,
    /// Whether the row stores without reading before.
    pub(crate) is_set: bool,
}

impl Row {
    /// When an item that this row stores is gone.
    pub(crate) fn deadline_ms(self) -> u64 {
        match self.ttl_ms {
            0 => u64::MAX,
            ttl_ms => self.at_ms.saturating_add(ttl_ms),
        }
    }
}

impl Trace {
    /// Bytes of all keys with their last values and the overhead of each.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        let mut last = vec![0; self.keys.len()];
        for row in &self.rows {
            last[row.key as usize] = u64::from(row.value_bytes);
        }
        let values: u64 = last.iter().sum();
        values + self.keys.bytes() + self.keys.len() as u64 * OVERHEAD_BYTES
    }

    /// The same requests with all values longer or shorter by one factor, so that the footprint is
    /// about this; no value gets shorter than a byte.
    pub(crate) fn stretched(&self, footprint_bytes: u64) -> Trace {
        let fixed = self.keys.bytes() + self.keys.len() as u64 * OVERHEAD_BYTES;
        let values = (self.footprint_bytes() - fixed).max(1);
        let factor = footprint_bytes.saturating_sub(fixed) as f64 / values as f64;
        let rows = self.rows.iter().map(|&row| Row {
            value_bytes: ((f64::from(row.value_bytes) * factor) as u32).max(1),
            ..row
        });
        Trace {
            name: self.name.clone(),
            keys: self.keys.clone(),
            rows: rows.collect(),
        }
    }

    /// Drops all requests but the first `requests`, and the keys that are left without one.
    pub(crate) fn truncate(&mut self, requests: usize) {
        self.rows.truncate(requests);
        // Keys are numbered in the order of their first appearance.
        let keys = self.rows.iter().map(|row| row.key as usize + 1).max();
        self.keys.0.truncate(keys.unwrap_or(0));
    }

    /// Whether any item has a limited life.
    pub(crate) fn has_ttl(&self) -> bool {
        self.rows.iter().any(|row| row.ttl_ms != 0)
    }

    /// The longest value.
    pub(crate) fn value_bytes_max(&self) -> usize {
        let longest = self.rows.iter().map(|row| row.value_bytes).max();
        longest.unwrap_or(0) as usize
    }
}

/// The number of a row, from its place among less than 2^32.
pub(crate) fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a trace has less than 2^32 rows")
}

/// Every key once, numbered in the order of first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(IndexSet<Box<[u8]>>);

impl Keys {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of all keys.
    fn bytes(&self) -> u64 {
        self.0.iter().map(|key| key.len() as u64).sum()
    }

    /// The bytes of a key.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.0[number as usize]
    }

    /// The number of `key`, a fresh one if it was not met before; `None` after 2^32 keys.
    pub(crate) fn number(&mut self, key: &[u8]) -> Option<u32> {
        let known = self.0.get_index_of(key);
        let place = known.unwrap_or_else(|| self.0.insert_full(key.into()).0);
        u32::try_from(place).ok()
    }
}

#[cfg(test)]
impl Row {
    /// A row of a test.
    pub(crate) fn new(at_ms: u64, is_set: bool, key: u32, value_bytes: u32, ttl_ms: u64) -> Row {
        Row {
            at_ms,
            ttl_ms,
            key,
            value_bytes,
            is_set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number_and_its_bytes() {
        let mut keys = Keys::default();
        let names: Vec<String> = (0..10_000).map(|n| format!("key-{}", n % 5_000)).collect();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(keys.number(name.as_bytes()), Some(n as u32 % 5_000));
        }

        assert_eq!(keys.len(), 5_000);
        assert_eq!(keys.get(0), b"key-0");
        assert_eq!(keys.get(4_999), b"key-4999");
    }

    #[test]
    fn an_item_without_a_time_to_live_has_no_deadline() {
        let row = Row::new(5, true, 3, 9, 1_000);
        assert_eq!(row.deadline_ms(), 1_005);
        assert_eq!(Row { ttl_ms: 0, ..row }.deadline_ms(), u64::MAX);
    }

    #[test]
    fn a_footprint_counts_each_key_with_its_last_value() {
        let mut keys = Keys::default();
        let (a, b) = (keys.number(b"a"), keys.number(b"bcd"));
        let (a, b) = (a.unwrap(), b.unwrap());
        let mut trace = Trace {
            name: String::new(),
            keys,
            rows: vec![
                Row::new(0, false, a, 100, 0),
                Row::new(0, false, b, 10, 0),
                Row::new(1, true, a, 50, 7),
            ],
        };
        assert_eq!(trace.footprint_bytes(), (1 + 50 + 17) + (3 + 10 + 17));
        assert_eq!(trace.value_bytes_max(), 100);
        trace.truncate(1);
        assert_eq!((trace.rows.len(), trace.keys.len()), (1, 1));
        assert_eq!(trace.footprint_bytes(), 1 + 100 + 17);
    }
}
