//! Router: a client of a cluster that reads through, follows MOVED, and counts what it misses.

use std::mem::take;

use cellar_cluster::slot::slot_of;
use cellar_load::{Address, Client, Error, Event, Records, Wire};
use serde::Serialize;

use super::fleet::{Fleet, FleetMap, PATIENCE};

/// Requests that are sent together.
const BATCH: usize = 64;

/// What passes over all records have come to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Passed {
    pub(super) gets: u64,
    pub(super) misses: u64,
    /// Refusals that named another node.
    pub(super) moved: u64,
    /// Other refusals, which are tried again.
    pub(super) refused: u64,
}

pub(super) struct Router {
    records: Records,
    /// The places of nodes by slot, as far as this client knows.
    owners: Vec<usize>,
    clients: Vec<Client>,
    ports: Vec<u16>,
}

/// What became of a request.
enum Fate {
    Done { is_hit: bool },
    Moved { slot: usize, port: u16 },
    Refused,
}

impl Router {
    /// A client of these nodes that knows this map.
    pub(super) fn to(fleet: &Fleet<'_>, map: &FleetMap, records: Records) -> Result<Router, Error> {
        let mut router = Router {
            records,
            owners: map.owners().to_vec(),
            clients: Vec::new(),
            ports: Vec::new(),
        };
        for node in &fleet.nodes {
            router.place_of(node.server.address().port())?;
        }
        Ok(router)
    }

    /// The place of the node at this port, which may be a new one.
    fn place_of(&mut self, port: u16) -> Result<usize, Error> {
        if let Some(place) = self.ports.iter().position(|it| *it == port) {
            return Ok(place);
        }
        let address = format!("127.0.0.1:{port}").parse::<Address>();
        let address = address.map_err(Error::Usage)?;
        self.clients
            .push(Client::connect(&address, Wire::Resp, PATIENCE)?);
        self.ports.push(port);
        Ok(self.ports.len() - 1)
    }

    /// Gets all records once, and stores those that are missing.
    pub(super) fn pass(&mut self) -> Result<Passed, Error> {
        let mut passed = Passed::default();
        let all: Vec<u64> = (0..self.records.keys()).collect();
        for some in all.chunks(BATCH * self.clients.len()) {
            let mut missing = Vec::new();
            let mut left = some.to_vec();
            while !left.is_empty() {
                left = self.ask(&left, false, &mut passed, &mut missing)?;
            }
            passed.gets += some.len() as u64;
            passed.misses += missing.len() as u64;
            while !missing.is_empty() {
                missing = self.ask(&take(&mut missing), true, &mut passed, &mut Vec::new())?;
            }
        }
        Ok(passed)
    }

    /// Gets or sets records; those that have to be asked for again.
    fn ask(
        &mut self,
        numbers: &[u64],
        is_set: bool,
        passed: &mut Passed,
        missing: &mut Vec<u64>,
    ) -> Result<Vec<u64>, Error> {
        let mut again = Vec::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut shares: Vec<Vec<u64>> = vec![Vec::new(); self.clients.len()];
        for number in numbers {
            key.clear();
            self.records.push_key(&mut key, *number);
            let owner = self.owners[usize::from(slot_of(&key))];
            shares[owner].push(*number);
            if is_set {
                value.clear();
                self.records.push_value(&mut value, *number, 0);
                self.clients[owner].set(&key, 0, &value);
            } else {
                self.clients[owner].get(&key);
            }
        }
        for (place, share) in shares.into_iter().enumerate() {
            let mut fates = Vec::new();
            self.clients[place].exchange(|event, value| {
                fates.push(fate(event, value.is_some()));
                Ok(())
            })?;
            for (number, fate) in share.into_iter().zip(fates) {
                match fate {
                    Fate::Done { is_hit } if !is_hit => missing.push(number),
                    Fate::Done { .. } => {}
                    Fate::Moved { slot, port } => {
                        passed.moved += 1;
                        self.owners[slot] = self.place_of(port)?;
                        again.push(number);
                    }
                    Fate::Refused => {
                        passed.refused += 1;
                        again.push(number);
                    }
                }
            }
        }
        Ok(again)
    }
}

impl Passed {
    pub(super) fn add(&mut self, other: Passed) {
        self.gets += other.gets;
        self.misses += other.misses;
        self.moved += other.moved;
        self.refused += other.refused;
    }
}

fn fate(event: Event<'_>, is_hit: bool) -> Fate {
    let Event::Refused(line) = event else {
        let is_set = matches!(event, Event::SetDone { .. });
        return Fate::Done {
            is_hit: is_hit || is_set,
        };
    };
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim().split(' ');
    let mut moved = || {
        words.next().filter(|word| *word == "-MOVED")?;
        let slot = words.next()?.parse().ok()?;
        let port = words.next()?.rsplit(':').next()?.parse().ok()?;
        Some(Fate::Moved { slot, port })
    };
    moved().unwrap_or(Fate::Refused)
}
