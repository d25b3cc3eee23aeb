//! Ads: nested values as an ad service has them, in Redis as JSON, and when each version was
//! written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use cellar_load::{Error, Random, now_ns};

/// Ads written to the server in one go.
const FILL_BATCH: u64 = 100;
/// Creatives of an ad: they make it as large as docs/decisions/0040-the-ladder-again.md wants it.
const CREATIVES: u64 = 16;

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
        let creatives = (0..CREATIVES).map(|number| Creative {
            id: id * 100 + number,
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

    /// What a request wants of an ad: what it bids here, if there is money left.
    pub(super) fn score(&self, city: u32) -> f64 {
        let is_near = self.targeting.cities.contains(&city);
        let is_solvent = self.budget.spent < self.budget.daily;
        self.bid * f64::from(u8::from(is_solvent)) * if is_near { 2.0 } else { 1.0 }
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
    Error::Wrong(format!("the server: {error}"))
}

/// When each version of each ad was acknowledged.
#[derive(Debug)]
pub(super) struct Writes {
    ads: Vec<Mutex<Vec<u64>>>,
    /// How many versions there are of each beside the first.
    newest: Vec<AtomicU64>,
}

impl Writes {
    pub(super) fn new(ads: u64) -> Writes {
        Writes {
            ads: (0..ads).map(|_| Mutex::default()).collect(),
            newest: (0..ads).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The version that was written last.
    pub(super) fn version(&self, id: u64) -> u64 {
        // Acquire: pairs with the Release in `note`.
        self.newest[id as usize].load(Ordering::Acquire)
    }

    /// Notes that the version after the last has been acknowledged.
    pub(super) fn note(&self, id: u64) {
        self.times(id).push(now_ns());
        // Release: who sees the version finds its time.
        self.newest[id as usize].fetch_add(1, Ordering::Release);
    }

    /// For how long a newer version than this had been acknowledged at `asked_ns`.
    pub(super) fn stale_ns(&self, ad: &Ad, asked_ns: u64) -> Option<u64> {
        if self.version(ad.id) <= ad.version {
            return None;
        }
        let next_ns = *self.times(ad.id).get(ad.version as usize)?;
        asked_ns.checked_sub(next_ns)
    }

    fn times(&self, id: u64) -> MutexGuard<'_, Vec<u64>> {
        let times = self.ads[id as usize].lock();
        times.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ad_comes_back_from_its_bytes() {
        let ad = Ad::new(7, 3);
        let bytes = ad.encode();
        let back = Ad::decode(&bytes).unwrap();
        assert_eq!((back.id, back.version), (7, 3));
        assert!((back.score(1) - ad.score(1)).abs() < 1e-9 && ad.score(1) > 0.0);
        assert!(Ad::decode(b"{}").is_err());
    }

    #[test]
    fn an_ad_is_stale_from_the_moment_when_the_next_one_was_acknowledged() {
        let writes = Writes::new(10);
        let [first, second] = [0, 1].map(|version| Ad::new(3, version));
        let before = now_ns();
        assert_eq!(writes.stale_ns(&first, before), None);
        writes.note(3);
        let between = now_ns();
        writes.note(3);
        let after = now_ns();
        assert_eq!(writes.stale_ns(&first, before), None);
        assert!(writes.stale_ns(&first, between) < writes.stale_ns(&first, after));
        assert!(writes.stale_ns(&second, after) < writes.stale_ns(&first, after));
        assert_eq!(writes.stale_ns(&Ad::new(3, 2), after), None);
    }
}
