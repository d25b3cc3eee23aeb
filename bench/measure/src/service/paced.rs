//! The paced load: who takes part, asked at a fixed rate until messages expire as fast as they are
//! written.

use std::process::Command;

use serde_json::{Value, json};

use super::asking::{HEALTH_EVERY, ask};
use super::board::Board;
use super::found::{Counts, Found, tail};
use super::message::{ID_BYTES, Messages};
use super::{Participant, ServiceArgs};
use crate::measurement::both;
use crate::peers::{some, takes_part};
use crate::spread::Spread;
use cellar_load::{Drive, Error, Latencies, Limit, NS_PER_S, Recipe, Server, Wire, now_ns};

/// How long a server that was started may take to come to rest.
const REST_S_MAX: u64 = 60;

/// A server that takes part, and what came of all its rounds.
struct Contender {
    recipe: Recipe,
    version: String,
    /// Whether it keeps messages; the floor does not.
    is_cache: bool,
    counts: Counts,
    messages: u64,
    /// What was found in each round, and its resident bytes at the end.
    runs: Vec<(Found, f64)>,
}

/// Runs the load against each server in turn, a fresh one each time, round by round.
pub(super) fn measure(args: &ServiceArgs, messages: Messages) -> Result<Vec<Value>, Error> {
    let mut contenders = contenders(args, messages)?;
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for contender in &mut contenders {
            contender.run(args, messages)?;
        }
    }
    Ok(contenders.iter().map(Contender::summary).collect())
}

/// The servers that were asked for; without Go those on BigCache and the map are left out. A floor
/// alone is none.
fn contenders(args: &ServiceArgs, messages: Messages) -> Result<Vec<Contender>, Error> {
    let hint = "`make bench PART=service` makes it";
    let has_go = args.servers.iter().any(|it| it.in_go().is_some())
        && takes_part("--bigcache", &args.bigcache, hint)?;
    let mut contenders = Vec::new();
    for subject in &args.servers {
        match (subject, subject.in_go()) {
            (_, Some(name)) if has_go => {
                let recipe = Recipe::go_service(&args.bigcache, args.message_bytes.high, name);
                contenders.push(Contender::cache(recipe, "-version")?);
            }
            (Participant::Cellar, _) => contenders.extend(cellar(args)?),
            (Participant::Floor, _) => contenders.push(floor(messages)?),
            _ => {}
        }
    }
    if !contenders.iter().any(|it| it.is_cache) {
        contenders.clear();
    }
    some(contenders)
}

fn cellar(args: &ServiceArgs) -> Result<Option<Contender>, Error> {
    let Some(recipe) = args.cellar.recipe(Wire::Http)? else {
        return Ok(None);
    };
    let recipe = recipe.with("", &["--default-ttl", "http={life}"]);
    Contender::cache(recipe.named("cellar"), "--version").map(Some)
}

fn floor(messages: Messages) -> Result<Contender, Error> {
    let floor = Recipe::echo(Wire::Http, ID_BYTES, messages.content_bytes_mean())?;
    Ok(Contender::new(floor.named("echo floor"), "", false))
}

impl Participant {
    /// What it is called if it is a program in Go.
    fn in_go(self) -> Option<&'static str> {
        match self {
            Participant::Net => Some("bigcache, net/http"),
            Participant::Fast => Some("bigcache, fasthttp"),
            Participant::Map => Some("map, fasthttp"),
            Participant::Cellar | Participant::Floor => None,
        }
    }
}

impl Contender {
    fn new(recipe: Recipe, version: &str, is_cache: bool) -> Contender {
        Contender {
            recipe,
            version: version.to_owned(),
            is_cache,
            counts: Counts::default(),
            messages: 0,
            runs: Vec::new(),
        }
    }

    /// A cache that says of its version what its program does.
    fn cache(recipe: Recipe, option: &str) -> Result<Contender, Error> {
        let program = &recipe.words[0];
        let output = Command::new(program).arg(option).output();
        let output = output.map_err(|error| Error::system(format!("starting {program}"), error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let text = text.lines().next().unwrap_or_default().trim();
        let version = text.strip_prefix("cellar ").unwrap_or(text);
        Ok(Contender::new(recipe, version, true))
    }

    /// Starts the server with memory for all messages that live at once.
    fn start(&self, args: &ServiceArgs) -> Result<Server, Error> {
        let recipe = self.recipe.replaced(&[
            ("{entries}", &args.live_messages().to_string()),
            ("{life}", &format!("{}s", args.life_s)),
        ]);
        recipe.start(args.cpus.serving(args.memory_mib()))
    }

    /// Runs the load once, against a fresh server.
    fn run(&mut self, args: &ServiceArgs, messages: Messages) -> Result<(), Error> {
        let server = self.start(args)?;
        server.rest(now_ns() + REST_S_MAX * NS_PER_S)?;
        let mut board = Board::new(args.life_s);
        let limit = Limit::Nanoseconds(args.seconds() * NS_PER_S);
        let drive = Drive {
            cpus: vec![args.cpus.load_cpu],
            is_sleepless: true,
            rate_per_s: Some((args.rate * HEALTH_EVERY) as f64 / (HEALTH_EVERY - 1) as f64),
            ..server.drive(args.connections, limit)
        };
        let found = ask(
            &drive,
            messages,
            self.is_cache,
            &mut board,
            &mut self.counts,
        )?;
        let (name, mean_ms) = (&self.recipe.name, found.reads.mean_ms());
        eprintln!("{name:20} reads {mean_ms:7.3} ms");
        self.messages += board.written();
        self.runs.push((found, server.rss_bytes()? as f64));
        Ok(())
    }

    /// What was found in all rounds.
    fn summary(&self) -> Value {
        let runs = &self.runs;
        let latencies = |of: fn(&Found) -> &Latencies| {
            let each: Vec<&Latencies> = runs.iter().map(|(found, _)| of(found)).collect();
            tail(&each)
        };
        let unsent = runs.iter().map(|(found, _)| found.driven.unsent);
        let others = json!({
            "server": self.recipe.name,
            "version": self.version,
            "is_floor": !self.is_cache,
            "messages": self.messages,
            "unsent": unsent.sum::<u64>(),
            "rss_bytes": Spread::over(runs, |(_, rss_bytes)| *rss_bytes),
            "server_cpu_us_per_request": Spread::over(runs, |it| it.0.server_cpu_us_per_request()),
            "reads_ms": latencies(|found| &found.reads),
            "writes_ms": latencies(|found| &found.writes),
            "health_ms": latencies(|found| &found.health),
        });
        both(&self.counts, others)
    }
}
