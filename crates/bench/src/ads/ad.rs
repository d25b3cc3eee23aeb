//! Ads: nested values as an ad service has them, in Redis as JSON, and who knows their versions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use cellar_load::clock::now_ns;
use cellar_load::error::Error;
use cellar_load::random::Random;

/// Ads written to the server in one go.
const FILL_BATCH: u64 = 500;

/// One ad.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Ad {
    pub(super) id: u64,
    /// One more with each change.
    pub(super) version: u64,
    pub(super) bid: f64,
    advertiser: String,
    budget: Budget,
    targeting: Targeting,
    creatives: Vec<Creative>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Budget {
    daily: f64,
    spent: f64,
    currency: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Targeting {
    cities: Vec<u32>,
    hours: Vec<u8>,
    interests: BTreeMap<String, f64>,
    devices: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Creative {
    id: u64,
    title: String,
    url: String,
    width: u32,
    height: u32,
    labels: BTreeMap<String, String>,
}

impl Ad {
    /// The ad with this id as it is in this version.
    pub(super) fn new(id: u64, version: u64) -> Ad {
        let mut random = Random::seeded(id);
        let mut below = |end: u64| random.below(end);
        let interests = (0..6).map(|_| (format!("interest-{}", below(500)), 0.25));
        let interests = interests.collect();
        let creatives = (0..4).map(|number| Creative {
            id: id * 10 + number,
            title: format!("Creative {number} of ad {id}, with a title of usual length"),
            url: format!("https://ads.example/landing/{id}/{number}?campaign={id}"),
            width: 640,
            height: 360,
            labels: BTreeMap::from([
                ("format".to_owned(), "native".to_owned()),
                ("language".to_owned(), "en".to_owned()),
            ]),
        });
        Ad {
            id,
            version,
            bid: 0.01 + id as f64 / 1000.0,
            advertiser: format!("advertiser-{}", id % 997),
            budget: Budget {
                daily: 500.0,
                spent: 12.5,
                currency: "EUR".to_owned(),
            },
            creatives: creatives.collect(),
            targeting: Targeting {
                cities: (0..12).map(|_| below(3000) as u32).collect(),
                hours: (6..23).collect(),
                interests,
                devices: vec!["phone".to_owned(), "tablet".to_owned()],
            },
        }
    }

    /// The ad as Redis has it.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an ad has no map with keys that are no text")
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Ad, Error> {
        serde_json::from_slice(bytes).map_err(|error| Error::Garbled(error.to_string()))
    }

    /// What a request wants of an ad: a figure that depends on all parts of it.
    pub(super) fn score(&self) -> f64 {
        let interest: f64 = self.targeting.interests.values().sum();
        let area: u32 = self
            .creatives
            .iter()
            .map(|one| one.width * one.height)
            .sum();
        self.bid * interest + f64::from(area) * self.budget.spent / self.budget.daily
    }
}

/// Writes all ads in their first version.
pub(super) fn fill(url: &str, ads: u64) -> Result<(), Error> {
    let mut connection = connect(url)?;
    for begin in (0..ads).step_by(FILL_BATCH as usize) {
        let mut command = redis::cmd("MSET");
        for id in begin..ads.min(begin + FILL_BATCH) {
            command.arg(id).arg(Ad::new(id, 0).encode());
        }
        command.query::<()>(&mut connection).map_err(failed)?;
    }
    Ok(())
}

/// A connection of redis-rs's.
pub(super) fn connect(url: &str) -> Result<redis::Connection, Error> {
    let client = redis::Client::open(url).map_err(failed)?;
    client.get_connection().map_err(failed)
}

/// What went wrong between redis-rs and the server.
pub(super) fn failed(error: redis::RedisError) -> Error {
    Error::Server {
        name: "the server".to_owned(),
        what: error.to_string(),
    }
}

/// What was written last of each ad, and when.
#[derive(Debug)]
pub(super) struct LastWrites {
    ads: Vec<(AtomicU64, AtomicU64)>,
}

impl LastWrites {
    pub(super) fn new(ads: u64) -> LastWrites {
        let blank = |_| (AtomicU64::new(0), AtomicU64::new(0));
        LastWrites {
            ads: (0..ads).map(blank).collect(),
        }
    }

    /// The version that was written last.
    pub(super) fn version(&self, id: u64) -> u64 {
        // Acquire: pairs with the Release in `note`.
        self.ads[id as usize].0.load(Ordering::Acquire)
    }

    /// Notes that a version has been written.
    pub(super) fn note(&self, id: u64, version: u64) {
        let (newest, at_ns) = &self.ads[id as usize];
        // Relaxed: the version, stored behind it, publishes it.
        at_ns.store(now_ns(), Ordering::Relaxed);
        // Release: who sees the version sees its time.
        newest.store(version, Ordering::Release);
    }

    /// Whether a newer version has been there for longer than `grace_ns`.
    pub(super) fn is_stale(&self, ad: &Ad, grace_ns: u64) -> bool {
        let newest = self.version(ad.id);
        // Relaxed: the version was loaded before.
        let written_ns = self.ads[ad.id as usize].1.load(Ordering::Relaxed);
        newest > ad.version && now_ns().saturating_sub(written_ns) > grace_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ad_comes_back_from_its_bytes() {
        let ad = Ad::new(7, 3);
        let bytes = ad.encode();
        assert!((1_000..3_000).contains(&bytes.len()), "{}", bytes.len());
        let back = Ad::decode(&bytes).unwrap();
        assert_eq!((back.id, back.version), (7, 3));
        assert!((back.score() - ad.score()).abs() < 1e-9 && ad.score() > 0.0);
        assert!(Ad::decode(b"{}").is_err());
    }

    #[test]
    fn what_is_older_than_the_last_write_is_stale_after_a_while() {
        let writes = LastWrites::new(10);
        let old = Ad::new(3, 0);
        assert!(!writes.is_stale(&old, 0));
        writes.note(3, 1);
        assert!(!writes.is_stale(&old, u64::MAX));
        std::thread::yield_now();
        while !writes.is_stale(&old, 0) {}
        assert!(!writes.is_stale(&Ad::new(3, 1), 0));
    }
}
