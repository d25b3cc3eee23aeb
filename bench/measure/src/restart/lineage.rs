//! Lineage: a server with a folder in memory, and those that come after it in the same place.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::peers::PeerArgs;
use cellar_load::{
    Address, Client, Error, Event, Ingredients, NS_PER_S, Recipe, Server, Wire, now_ns, unix_ns,
};

/// How long a server may take to end, and the next one to answer.
const PATIENCE_S: u64 = 180;
/// How often a server that is to come up is asked, and how long it may leave that open.
const POLL: Duration = Duration::from_millis(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(PATIENCE_S);

/// How a server is told to keep its items, in a folder of its own.
const CELLAR: &[&str] = &["--state", "{folder}/state", "--control", "{folder}/control"];
const MEMCACHED: &[&str] = &["-e", "{folder}/memory"];
/// A save point that no run reaches: what is left is the snapshot of a clean stop.
const REDIS: &[&str] = &["--dir", "{folder}", "--save", "3600 1000000000"];
const REDIS_LOG: &[&str] = &["--dir", "{folder}", "--appendonly", "yes"];

/// A server that may go on with the items of the one before it.
#[derive(Clone, Debug)]
pub(super) struct Founder {
    pub(super) recipe: Recipe,
    /// What it hears as a clean stop.
    pub(super) stop: Signal,
    /// Whether the next one is started in another second of the clock than that of its end.
    is_next_second: bool,
    /// What a successor is told that takes over from a running server, where there is such a thing.
    takeover: Option<&'static str>,
}

/// Cellar, unless it is left out.
pub(super) fn cellar(peers: &PeerArgs) -> Result<Option<Founder>, Error> {
    let recipe = peers.cellar.recipe(Wire::Memcached)?;
    Ok(recipe.map(|recipe| Founder {
        recipe: recipe.with("", CELLAR),
        stop: Signal::TERM,
        is_next_second: false,
        takeover: Some("--takeover"),
    }))
}

/// All servers: Cellar first, each Redis with snapshots and with a log.
pub(super) fn all(peers: &PeerArgs) -> Result<Vec<Founder>, Error> {
    let peer = |recipe: Recipe, suffix, extra, (stop, is_next_second)| Founder {
        recipe: recipe.with(suffix, extra),
        stop,
        is_next_second,
        takeover: None,
    };
    let mut all: Vec<Founder> = cellar(peers)?.into_iter().collect();
    // It does not believe what was noted in the very second of its start.
    let memcached = peers.of(Wire::Memcached);
    all.extend(memcached.map(|it| peer(it, "", MEMCACHED, (Signal::USR1, true))));
    let by_term = (Signal::TERM, false);
    for redis in peers.of(Wire::Resp) {
        all.push(peer(redis.clone(), ", snapshot", REDIS, by_term));
        all.push(peer(redis, ", log", REDIS_LOG, by_term));
    }
    Ok(all)
}

/// A running server of a founder's. At the end it is killed, for nobody comes after it.
#[derive(Debug)]
pub(super) struct Lineage {
    founder: Founder,
    with: Ingredients,
    pub(super) server: Server,
    /// Goes after the server.
    _folder: TempDir,
}

impl Founder {
    /// Starts the first server, in an empty folder below this one.
    pub(super) fn start(&self, below: &Path, with: Ingredients) -> Result<Lineage, Error> {
        let folder = TempDir::with_prefix_in("cellar-bench-", below);
        let folder = folder.map_err(|error| Error::system("making a folder in memory", error))?;
        let mut founder = self.clone();
        let path = folder.path().display().to_string();
        founder.recipe = founder.recipe.replaced(&[("{folder}", &path)]);
        Ok(Lineage {
            server: founder.recipe.start(with)?,
            founder,
            with,
            _folder: folder,
        })
    }
}

impl Lineage {
    /// Where it listens, and those after it.
    pub(super) fn at(&self) -> (Address, Wire) {
        (self.server.address().clone(), self.server.wire())
    }

    /// Ends the server by a signal; how long that took.
    pub(super) fn end(&mut self, signal: Signal) -> Result<f64, Error> {
        let started_ns = now_ns();
        self.server.signal(signal);
        self.server.wait(PATIENCE_S)?;
        Ok(ms_since(started_ns))
    }

    /// Starts the next server; how long it took from there to its first answer, which is no error,
    /// to who asks for a key, and whether that is a hit.
    pub(super) fn begin(&mut self, key: &[u8]) -> Result<(f64, bool), Error> {
        if self.founder.is_next_second {
            let left_ns = NS_PER_S - unix_ns() % NS_PER_S;
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
        let started_ns = now_ns();
        let next = &self.founder.recipe;
        self.server = next.start_in_place_of(&self.server, self.with)?;
        loop {
            if let Some(is_hit) = self.ask(key) {
                return Ok((ms_since(started_ns), is_hit));
            }
            self.server.check_runs()?;
            if ms_since(started_ns) > PATIENCE_S as f64 * 1e3 {
                let what = format!("does not answer after {PATIENCE_S} s");
                return Err(Error::Wrong(format!(
                    "{}: {what}",
                    self.founder.recipe.name
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether the key is there; nothing if the server does not say.
    fn ask(&self, key: &[u8]) -> Option<bool> {
        let (address, wire) = (self.server.address(), self.server.wire());
        let mut client = Client::connect(address, wire, ANSWER_TIMEOUT).ok()?;
        client.get(key);
        let mut told = None;
        let exchanged = client.exchange(|event, value| {
            told = (event == Event::GetDone).then_some(value.is_some());
            Ok(())
        });
        exchanged.ok()?;
        told
    }

    /// Puts a new server in the place of this one, in the way that lets clients notice least.
    pub(super) fn renew(&mut self, key: &[u8]) -> Result<(), Error> {
        let Some(word) = self.founder.takeover else {
            self.end(self.founder.stop)?;
            self.begin(key)?;
            return Ok(());
        };
        let next = self.founder.recipe.with("", &[word]);
        let next = next.start_in_place_of(&self.server, self.with)?;
        let mut old = std::mem::replace(&mut self.server, next);
        old.wait(PATIENCE_S)
    }
}

impl Drop for Lineage {
    fn drop(&mut self) {
        self.server.signal(Signal::KILL);
    }
}

fn ms_since(started_ns: u64) -> f64 {
    (now_ns() - started_ns) as f64 / 1e6
}
