//! Reclaim: how much of what is held nobody needs, while items are deleted and overwritten.
//!
//! Cellar alone says how many bytes those are, so no peer takes part. The control stores as often,
//! under keys that are there with values of the same size, which leaves nothing behind.

use std::time::Duration;

use serde_json::{Value, json};

use super::ChurnArgs;
use crate::expiry::figures::{Figures, Informant, Look};
use crate::race::beside;
use crate::spread::Spread;
use cellar_load::{
    Client, Error, Event, NS_PER_S, Random, Server, Wire, now_ns, sleep_until, usage,
};

/// Lengths of values, all as likely.
const VALUE_BYTES: std::ops::Range<u64> = 50..351;
/// Length of a value of the control, the mean of the others.
const EVEN_BYTES: u64 = 200;
/// Requests are sent together every so many nanoseconds.
const TICK_NS: u64 = 10_000_000;
const BATCH: u64 = 1_000;
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// The thread of Cellar's that reclaims.
const MAINTENANCE: &str = "cellar-maint";

/// Both loads on a fresh Cellar each; none if it is left out.
pub(super) fn measure(args: &ChurnArgs) -> Result<Value, Error> {
    let mut rows = Vec::new();
    let loads = [("the same sizes", true), ("deletes and other sizes", false)];
    for (load, is_control) in loads {
        let Some(recipe) = args.peers.cellar.recipe(Wire::Resp)? else {
            break;
        };
        let server = recipe.start(args.cpus.serving(args.held_mib()))?;
        let churn = Churn::begin(args, &server, is_control)?;
        rows.push(churn.watch(args, &server, load)?);
    }
    Ok(json!(rows))
}

impl ChurnArgs {
    /// Memory in which nothing is evicted.
    fn held_mib(&self) -> u64 {
        ((self.items * (VALUE_BYTES.end + 100)) >> 19).max(64)
    }
}

/// The keys that are there, and the connection on which they change.
struct Churn {
    client: Client,
    random: Random,
    live: Vec<u64>,
    next: u64,
    value: Vec<u8>,
    is_control: bool,
}

impl Churn {
    /// Stores all items once.
    fn begin(args: &ChurnArgs, server: &Server, is_control: bool) -> Result<Churn, Error> {
        let mut churn = Churn {
            client: Client::connect(server.address(), Wire::Resp, TIMEOUT)?,
            random: Random::seeded(1),
            live: Vec::new(),
            next: 0,
            value: vec![b'v'; VALUE_BYTES.end as usize],
            is_control,
        };
        while churn.next < args.items {
            (0..BATCH).for_each(|_| churn.store_new());
            churn.exchange()?;
        }
        Ok(churn)
    }

    fn store_new(&mut self) {
        self.live.push(self.next);
        self.store(self.next);
        self.next += 1;
    }

    fn store(&mut self, number: u64) {
        let range = VALUE_BYTES.end - VALUE_BYTES.start;
        let bytes = match self.is_control {
            true => EVEN_BYTES,
            false => VALUE_BYTES.start + self.random.below(range),
        };
        let key = key_of(number);
        self.client
            .set(key.as_bytes(), 0, &self.value[..bytes as usize]);
    }

    /// One request: of three, one stores a new item, one deletes, one overwrites.
    fn change(&mut self, turn: u64) {
        let place = self.random.below(self.live.len() as u64) as usize;
        match turn % 3 {
            _ if self.is_control => self.store(self.live[place]),
            0 => self.store_new(),
            1 => {
                let number = self.live.swap_remove(place);
                self.client.delete(key_of(number).as_bytes());
            }
            _ => self.store(self.live[place]),
        }
    }

    fn exchange(&mut self) -> Result<(), Error> {
        self.client.exchange(|event, _| match event {
            Event::Refused(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                Err(Error::Wrong(format!("a request was refused: {text}")))
            }
            _ => Ok(()),
        })
    }

    /// Changes items at the rate until the time is over.
    fn run(&mut self, args: &ChurnArgs) -> Result<(), Error> {
        let (started_ns, mut turn) = (now_ns(), 0);
        let until_ns = started_ns + (args.warm_s + args.watched_s) * NS_PER_S;
        let mut due_ns = started_ns;
        while due_ns < until_ns {
            due_ns += TICK_NS;
            let due = args.changes * (due_ns - started_ns) / NS_PER_S;
            while turn < due {
                self.change(turn);
                turn += 1;
            }
            self.exchange()?;
            sleep_until(due_ns);
        }
        Ok(())
    }

    /// Changes items, looks at the server meanwhile, and once more when it has come to rest.
    fn watch(mut self, args: &ChurnArgs, server: &Server, load: &str) -> Result<Value, Error> {
        let mut informant = Informant::connect(server)?;
        let watched_ns = now_ns() + args.warm_s * NS_PER_S;
        let (watched, ran) = beside(
            |is_over| -> Result<(Moment, Vec<Look>), Error> {
                sleep_until(watched_ns);
                let from = Moment::of(server)?;
                Ok((from, informant.watch(POLL, is_over)?))
            },
            || self.run(args),
        );
        ran?;
        let ((from, looks), until) = (watched?, Moment::of(server)?);
        sleep_until(now_ns() + args.rest_s * NS_PER_S);
        let rest = informant.ask()?;
        if rest.evicted > 0 {
            let what = format!("{} items were evicted, which reclaims too", rest.evicted);
            return Err(Error::Wrong(what));
        }
        let percent = |it: &Figures| it.dead_share().unwrap_or(f64::NAN) * 100.0;
        let reclaimable = Spread::of(looks.iter().map(|(_, it)| percent(it)).collect());
        eprintln!("reclaimable, {load}: {reclaimable:.1} %");
        Ok(json!({
            "load": load,
            "version": server.version()?,
            "reclaimable_percent": reclaimable,
            "rest_percent": percent(&rest),
            "maintenance_percent": until.percent_since(&from, |it| it.maintenance_ns),
            "server_percent": until.percent_since(&from, |it| it.cpu_ns),
        }))
    }
}

/// What processor time a server has taken, by a moment.
struct Moment {
    at_ns: u64,
    cpu_ns: u64,
    maintenance_ns: u64,
}

impl Moment {
    fn of(server: &Server) -> Result<Moment, Error> {
        let failed = |error| Error::system("reading processor time", error);
        Ok(Moment {
            at_ns: now_ns(),
            cpu_ns: usage::cpu_ns(server.pid()).map_err(failed)?,
            maintenance_ns: usage::threads_cpu_ns(server.pid(), MAINTENANCE).map_err(failed)?,
        })
    }

    /// The part of a processor since an earlier moment, in per cent.
    fn percent_since(&self, from: &Moment, spent: impl Fn(&Moment) -> u64) -> f64 {
        let took_ns = (self.at_ns - from.at_ns).max(1);
        (spent(self) - spent(from)) as f64 * 100.0 / took_ns as f64
    }
}

fn key_of(number: u64) -> String {
    format!("key:{number:012}")
}
