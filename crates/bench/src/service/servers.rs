//! Servers: who takes part, and how they are started.

use std::process::Command;

use super::ServiceArgs;
use super::message::{ID_BYTES, Messages};
use crate::peers::{some, takes_part};
use cellar_load::{Error, Recipe, Server, Wire};

/// A server that takes part: a cache, which keeps messages, or the floor.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) recipe: Recipe,
    pub(super) version: String,
    pub(super) is_cache: bool,
}

impl Contender {
    /// Starts the server with memory for all messages that live at once.
    pub(super) fn start(&self, args: &ServiceArgs) -> Result<Server, Error> {
        let recipe = self.recipe.replaced(&[
            ("{entries}", &args.live_messages().to_string()),
            ("{life}", &format!("{}s", args.life_s)),
        ]);
        recipe.start(args.cpus.serving(args.memory_mib()))
    }
}

/// All servers, Cellar first, the floor last.
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
    let mut contenders = some(contenders)?;
    let floor = Recipe::echo(Wire::Http, ID_BYTES, messages.content_bytes_mean())?;
    contenders.push(Contender {
        recipe: floor.named("echo floor"),
        version: String::new(),
        is_cache: false,
    });
    Ok(contenders)
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
        is_cache: true,
    })
}
