//! Requests drawn from a seed: skewed, with loops, sizes, TTLs and writes as asked for.

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) now_ms: u64,
    pub(crate) key: u64,
    pub(crate) is_write: bool,
    pub(crate) value_bytes: usize,
    pub(crate) ttl_ms: Option<u64>,
}

/// What requests are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) keys: u64,
    pub(crate) requests: u64,
    /// Key of rank r is asked for in proportion to r to the power of minus this.
    pub(crate) skew: f64,
    /// One of these for each key.
    pub(crate) ttls_ms: &'static [Option<u64>],
    /// Least and most.
    pub(crate) value_bytes: (u64, u64),
    pub(crate) write_percent: u64,
    /// Requests that go round in a loop of `loop_keys` further keys.
    pub(crate) scan_percent: u64,
    pub(crate) loop_keys: u64,
    pub(crate) per_second: u64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            keys: 100_000,
            requests: 300_000,
            skew: 0.9,
            ttls_ms: &[None],
            value_bytes: (100, 100),
            write_percent: 0,
            scan_percent: 0,
            loop_keys: 1,
            per_second: 1_000,
        }
    }
}

impl Workload {
    /// The requests, the same each time.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Request> {
        let sums: Vec<f64> = (1..=self.keys)
            .scan(0.0, |sum, rank| {
                *sum += (rank as f64).powf(-self.skew);
                Some(*sum)
            })
            .collect();
        let all = sums.last().copied().unwrap_or(1.0);
        let (workload, mut random, mut scanned) = (*self, 0x2545_f491_4f6c_dd1d_u64, 0);
        let mut draw = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
        };
        (0..self.requests).map(move |number| {
            let key = if draw() % 100 < workload.scan_percent {
                scanned += 1;
                workload.keys + scanned % workload.loop_keys
            } else {
                let at = draw() as f64 / (1_u64 << 53) as f64 * all;
                sums.partition_point(|&sum| sum < at) as u64
            };
            let of_key = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let (least, most) = workload.value_bytes;
            Request {
                now_ms: 60_000 + number * 1_000 / workload.per_second,
                key,
                is_write: draw() % 100 < workload.write_percent,
                value_bytes: (least + of_key % (most - least + 1)) as usize,
                ttl_ms: workload.ttls_ms[(of_key >> 20) as usize % workload.ttls_ms.len()],
            }
        })
    }
}
