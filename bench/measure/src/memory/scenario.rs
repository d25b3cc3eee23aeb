//! The scenarios: what is stored, how often, and who keeps a connection open meanwhile.

use cellar_load::{Error, Random, Server, Stream, mix};

use super::client::Counter;

/// Values of a silent reader's requests.
const SILENT_VALUE_BYTES: usize = 200_000;
/// Requests that each silent reader sends.
const SILENT_REQUESTS: usize = 200;
/// Bytes that a counter takes at least, for the number of keys.
const COUNTER_BYTES: u64 = 20;

/// What a scenario stores.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Values of these lengths, as likely in each octave.
    Values { least: usize, most: usize },
    /// Numbers that are added to.
    Counters,
}

/// One way to use a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Memory, if it is less than that of the others.
    pub(super) memory_mib: Option<u64>,
    content: Content,
    /// Bytes stored, as a multiple of memory.
    volume: u64,
    /// Bytes of different keys with their values, as a percentage of memory.
    keys_percent: u64,
    /// Different times to live, in seconds from one on; zero stores without limit.
    ttls: u32,
    /// Connections that have stored and read one value and then wait.
    idle: usize,
    /// Connections that ask for large values and never read.
    silent: usize,
}

/// Values of these lengths, three times as many bytes as fit, all under new keys.
const fn plain(name: &'static str, least: usize, most: usize) -> Scenario {
    Scenario {
        name,
        memory_mib: None,
        content: Content::Values { least, most },
        volume: 3,
        keys_percent: 300,
        ttls: 0,
        idle: 0,
        silent: 0,
    }
}

/// All scenarios.
pub(super) const SCENARIOS: [Scenario; 7] = [
    plain("mixed sizes", 10, 1_000_000),
    Scenario {
        volume: 4,
        keys_percent: 110,
        ..plain("overwrites", 10, 8_000)
    },
    Scenario {
        // So many small items take long to store and to read back.
        memory_mib: Some(64),
        content: Content::Counters,
        volume: 1,
        keys_percent: 90,
        ..plain("counters", 0, 0)
    },
    plain("large values", 1_000_000, 1_000_000),
    Scenario {
        memory_mib: Some(8),
        volume: 12,
        keys_percent: 1_200,
        ttls: 40,
        ..plain("40 TTLs in 8 MiB", 10, 1_000)
    },
    Scenario {
        volume: 2,
        keys_percent: 200,
        idle: 1_000,
        ..plain("1,000 idle clients", 10, 1_000)
    },
    Scenario {
        volume: 2,
        keys_percent: 200,
        silent: 50,
        ..plain("silent readers", 10, 1_000)
    },
];

/// What a scenario has stored, with the connections it keeps open.
pub(super) struct Done {
    keys: u64,
    /// Stores that were made.
    stored: u64,
    /// Of these, stores that the server refused.
    pub(super) refused: u64,
    open: Vec<Stream>,
}

impl Scenario {
    /// Runs the scenario; the connections stay open until what is returned is dropped.
    pub(super) fn run(&self, server: &Server, memory_bytes: u64) -> Result<Done, Error> {
        let item_bytes = self.item_bytes();
        let keys = (memory_bytes * self.keys_percent / 100 / item_bytes).max(1);
        let mut done = Done {
            keys,
            stored: (memory_bytes * self.volume / item_bytes).max(1),
            refused: 0,
            open: Vec::new(),
        };
        for number in 0..self.idle {
            let mut client = Counter::connect(server)?;
            client.set(&format!("idle{number}"), 0, 1_000)?;
            client.get(&format!("idle{number}"))?;
            client.finish()?;
            done.open.push(client.into_stream());
        }
        let mut client = Counter::connect(server)?;
        if self.silent > 0 {
            client.set("silent", 0, SILENT_VALUE_BYTES)?;
            client.finish()?;
        }
        for _ in 0..self.silent {
            let silent = Counter::connect(server)?;
            done.open
                .push(silent.ask_and_leave("silent", SILENT_REQUESTS)?);
        }
        let mut random = Random::seeded(keys);
        for number in 0..done.stored {
            // New keys in order, then any of them again.
            let key = if number < keys {
                number
            } else {
                random.below(keys)
            };
            let key = key_of(key);
            match self.content {
                Content::Counters => client.count(&key)?,
                Content::Values { least, most } => {
                    let ttl_s = match self.ttls {
                        0 => 0,
                        ttls => 1 + (mix(number) % u64::from(ttls)) as u32,
                    };
                    client.set(&key, ttl_s, length(&mut random, least, most))?;
                }
            }
        }
        done.refused = client.finish()?.refused;
        Ok(done)
    }

    /// About how many bytes an item has, key included.
    fn item_bytes(&self) -> u64 {
        match self.content {
            Content::Counters => COUNTER_BYTES,
            Content::Values { least, most } => {
                let mut random = Random::seeded(1);
                let sum: usize = (0..4_000).map(|_| length(&mut random, least, most)).sum();
                sum as u64 / 4_000 + key_of(0).len() as u64
            }
        }
    }
}

impl Done {
    /// Connections that were open at the end, with the one that stored.
    pub(super) fn connections(&self) -> usize {
        self.open.len() + 1
    }

    /// Reads every key: how many items are found, and the bytes of their keys and values.
    pub(super) fn read_back(&self, server: &Server) -> Result<(u64, u64), Error> {
        let mut client = Counter::connect(server)?;
        for number in 0..self.keys.min(self.stored) {
            client.get(&key_of(number))?;
        }
        let held = client.finish()?;
        let key_bytes = key_of(0).len() as u64;
        Ok((held.items, held.items * key_bytes + held.value_bytes))
    }
}

fn key_of(number: u64) -> String {
    format!("key:{number:08}")
}

/// A length between the two, as likely in each octave.
fn length(random: &mut Random, least: usize, most: usize) -> usize {
    let (least, most) = (least as f64, most as f64);
    (least * (most / least).powf(random.unit())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_lie_between_their_limits_and_half_of_them_below_the_geometric_mean() {
        let mut random = Random::seeded(1);
        let lengths: Vec<usize> = (0..10_000)
            .map(|_| length(&mut random, 10, 1_000))
            .collect();
        assert!(lengths.iter().all(|length| (10..=1_000).contains(length)));
        let small = lengths.iter().filter(|&&length| length < 100).count();
        assert!((4_500..5_500).contains(&small), "{small}");
    }

    #[test]
    fn every_scenario_has_a_name_of_its_own() {
        let names = SCENARIOS.map(|scenario| scenario.name);
        for name in names {
            assert_eq!(names.iter().filter(|&&other| other == name).count(), 1);
        }
    }
}
