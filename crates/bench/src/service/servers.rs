//! Servers: who takes part, how they are started, and how long the floor's replies are.

use std::process::Command;

use super::ServiceArgs;
use super::asking::{Asks, Order};
use super::board::Board;
use super::found::Counts;
use super::message::{Messages, Method};
use crate::peers::{some, takes_part};
use cellar_load::drive::Limit;
use cellar_load::error::Error;
use cellar_load::process::{Recipe, Server};
use cellar_load::quantity::ByteRange;
use cellar_load::wire::Wire;

/// Memory for the few messages of a probe.
const PROBE_MIB: u64 = 64;

/// A server that takes part: a cache, which keeps messages, or a floor.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) recipe: Recipe,
    pub(super) version: String,
    /// The method to which it answers with as many bytes as the first cache, if it is a floor.
    floor_of: Option<Method>,
}

impl Contender {
    pub(super) fn name(&self) -> &str {
        &self.recipe.name
    }

    pub(super) fn is_cache(&self) -> bool {
        self.floor_of.is_none()
    }

    /// Whether it is asked with this method. The floor with the longest replies, those to a GET, is
    /// also put under the paced load.
    pub(super) fn answers(&self, method: Method) -> bool {
        self.floor_of.is_none_or(|it| it == method)
    }

    /// Starts the server, which keeps messages for so long, with memory for so many.
    pub(super) fn start(
        &self,
        args: &ServiceArgs,
        life_s: u64,
        messages: u64,
    ) -> Result<Server, Error> {
        let recipe = self.recipe.replaced(&[
            ("{entries}", &messages.to_string()),
            ("{life}", &format!("{life_s}s")),
        ]);
        recipe.start(args.cpus.serving(args.memory_mib(messages)))
    }
}

/// All servers, Cellar first, the floors last.
///
/// # Errors
/// [`Error::Usage`] if none is left, or a program is not built.
pub(super) fn contenders(args: &ServiceArgs, messages: Messages) -> Result<Vec<Contender>, Error> {
    let mut contenders = Vec::new();
    if let Some(recipe) = args.cellar.recipe(Wire::Http)? {
        let recipe = recipe.with("", &["--default-ttl", "http={life}"]);
        contenders.push(cache(recipe.named("cellar"), "--version")?);
    }
    let hint = "`make bench PART=service` makes it";
    if takes_part("--bigcache", &args.bigcache, hint)? {
        for name in GO_SERVICES {
            let recipe = Recipe::go_service(&args.bigcache, args.message_bytes.high, name);
            contenders.push(cache(recipe, "-version")?);
        }
    }
    let contenders = some(contenders)?;
    let lengths = probe(args, messages, &contenders[0])?;
    let floors = lengths.into_iter().map(|(method, reply_bytes)| {
        Ok(Contender {
            recipe: Recipe::echo_http(reply_bytes)?,
            version: String::new(),
            floor_of: Some(method),
        })
    });
    let floors: Result<Vec<Contender>, Error> = floors.collect();
    Ok(contenders.into_iter().chain(floors?).collect())
}

/// What keeps messages in Go, and what stands before it; the map is the ordinary cache.
const GO_SERVICES: [&str; 3] = ["bigcache, net/http", "bigcache, fasthttp", "map, fasthttp"];

/// A cache that says of its version what its program does.
fn cache(recipe: Recipe, option: &str) -> Result<Contender, Error> {
    let program = &recipe.words[0];
    let output = Command::new(program).arg(option).output();
    let output = output.map_err(|error| Error::system(format!("starting {program}"), error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.lines().next().unwrap_or_default().trim();
    Ok(Contender {
        version: text.strip_prefix("cellar ").unwrap_or(text).to_owned(),
        recipe,
        floor_of: None,
    })
}

/// How many bytes a server answers to each method, for a message of mean length.
fn probe(
    args: &ServiceArgs,
    messages: Messages,
    contender: &Contender,
) -> Result<Vec<(Method, usize)>, Error> {
    let few = ServiceArgs {
        memory_mib: Some(PROBE_MIB),
        connections: 1,
        ..args.clone()
    };
    let server = contender.start(&few, args.life_s, 0)?;
    let mean = Messages::new(ByteRange::fixed(messages.mean_bytes()))?;
    let drive = few.drive(&server, Limit::Requests(1));
    let mut board = Board::new(args.life_s, u64::MAX, 1);
    let mut lengths = Vec::new();
    for method in [Method::Post, Method::Put, Method::Get] {
        let order = Order {
            asks: Asks::Only(method),
            messages: mean,
            is_cache: true,
        };
        let mut counts = Counts::default();
        let found = order.run(&drive, &mut board, &mut counts)?;
        if counts.hits + counts.stored != 1 {
            let what = counts.first_refusal.unwrap_or_default();
            return Err(Error::Wrong(format!("{}: {what}", contender.name())));
        }
        lengths.push((
            method,
            usize::try_from(found.driven.received_bytes).unwrap_or(0),
        ));
    }
    Ok(lengths)
}
