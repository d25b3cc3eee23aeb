//! The last stage: a near cache, which the server tells what has changed.

use cellar_near::codec::Json;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error as NearError, Near};
use tokio::runtime::{Builder, Runtime};

use super::ad::Ad;
use super::stage::{Reader, Stage};
use cellar_load::error::Error;

/// A near cache and the thread of its connection.
pub(super) struct NearStage {
    name: &'static str,
    near: Near<u64, Ad>,
    runtime: Runtime,
}

impl NearStage {
    pub(super) fn new(name: &'static str, url: &str, held: u64) -> Result<NearStage, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::system("starting a runtime", error))?;
        let origin = Redis::open(url).map_err(failed)?;
        let entered = runtime.enter();
        let near = Near::builder(Remote::new(origin, Json))
            .entries_max(held)
            .build();
        drop(entered);
        Ok(NearStage {
            name,
            near,
            runtime,
        })
    }
}

impl Stage for NearStage {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Error> {
        Ok(Box::new(NearReader(self)))
    }

    fn hits_and_misses(&self) -> (u64, u64) {
        let stats = self.near.stats();
        (stats.hits, stats.misses)
    }
}

struct NearReader<'s>(&'s NearStage);

impl Reader for NearReader<'_> {
    fn read(&mut self, ids: &[u64], show: &mut dyn FnMut(&Ad)) -> Result<(), Error> {
        let ads = self.0.near.get_many(ids);
        let ads = self.0.runtime.block_on(ads).map_err(failed)?;
        for (ad, id) in ads.iter().zip(ids) {
            match ad {
                Some(ad) => show(ad),
                None => return Err(Error::Wrong(format!("the server has no ad {id}"))),
            }
        }
        Ok(())
    }
}

fn failed(error: NearError) -> Error {
    Error::Server {
        name: "the near cache".to_owned(),
        what: error.to_string(),
    }
}
