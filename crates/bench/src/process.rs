//! Server processes of a measurement: started on a processor of choice, asked for their version,
//! stopped at the end whatever happens.
//!
//! A server dies with the thread that started it (`setpriv --pdeathsig`), so that an interrupted
//! comparison leaves nothing running.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::address::{Address, ReservedPort};
use crate::client::Client;
use crate::clock::{NS_PER_S, now_ns};
use crate::error::Error;
use crate::usage;
use crate::wire::Wire;

/// How long a server may take to listen.
const START_S_MAX: u64 = 20;
/// How long a server may take to end before it is killed.
const STOP_S_MAX: u64 = 10;
const POLL: Duration = Duration::from_millis(10);
/// A server is at rest when it needs no more than this part of a processor for this long.
const REST_PART: u64 = 20;
const REST: Duration = Duration::from_secs(1);
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Last lines of a failed server's output that are shown.
const OUTPUT_LINES_MAX: usize = 10;

/// How to start a server; `{port}`, `{memory_mib}`, `{memory_bytes}` and `{threads}` in the words
/// are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its name in tables.
    pub name: String,
    /// Program and arguments.
    pub words: Vec<String>,
    /// The protocol it speaks at `{port}`.
    pub wire: Wire,
}

/// What a recipe is started with.
#[derive(Clone, Copy, Debug)]
pub struct Ingredients {
    /// Memory for items.
    pub memory_mib: u64,
    /// Threads.
    pub threads: usize,
    /// The processor to bind to.
    pub cpu: Option<usize>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    name: String,
    wire: Wire,
    child: Child,
    reserved: ReservedPort,
    /// What it writes to stderr; the file has no name any more.
    output: File,
}

impl Recipe {
    /// Cellar, from the path of its program.
    #[must_use]
    pub fn cellar(program: &str, extra: &[String]) -> Recipe {
        let words = [
            program,
            "--memory",
            "{memory_mib}MiB",
            "--threads",
            "{threads}",
        ];
        let listen = [
            "--memcached",
            "127.0.0.1:{port}",
            "--resp",
            "off",
            "--http",
            "off",
        ];
        let words = words.into_iter().chain(listen);
        Recipe {
            name: "cellar".to_owned(),
            words: words
                .map(str::to_owned)
                .chain(extra.iter().cloned())
                .collect(),
            wire: Wire::Memcached,
        }
    }

    /// Cellar as a server of the Redis protocol.
    #[must_use]
    pub fn cellar_resp(program: &str, extra: &[String]) -> Recipe {
        let swapped = |word: String| match word.as_str() {
            "--memcached" => "--resp".to_owned(),
            "--resp" => "--memcached".to_owned(),
            _ => word,
        };
        let memcached = Recipe::cellar(program, extra);
        Recipe {
            name: "cellar over RESP".to_owned(),
            words: memcached.words.into_iter().map(swapped).collect(),
            wire: Wire::Resp,
        }
    }

    /// Cellar as a server of HTTP.
    #[must_use]
    pub fn cellar_http(program: &str, extra: &[String]) -> Recipe {
        let swapped = |word: String| match word.as_str() {
            "--memcached" => "--http".to_owned(),
            "--http" => "--memcached".to_owned(),
            _ => word,
        };
        let memcached = Recipe::cellar(program, extra);
        Recipe {
            name: "cellar over HTTP".to_owned(),
            words: memcached.words.into_iter().map(swapped).collect(),
            wire: Wire::Http,
        }
    }

    /// memcached; as root it must be told to stay so.
    #[must_use]
    pub fn memcached(program: &str) -> Recipe {
        let command = "-l 127.0.0.1 -p {port} -U 0 -m {memory_mib} -t {threads} -u root";
        Recipe {
            name: "memcached".to_owned(),
            words: [program]
                .into_iter()
                .chain(command.split(' '))
                .map(str::to_owned)
                .collect(),
            wire: Wire::Memcached,
        }
    }

    /// redis-server, which writes nothing to disk, with `extra` arguments, such as a policy.
    #[must_use]
    pub fn redis(program: &str, extra: &[&str]) -> Recipe {
        let command = "--bind 127.0.0.1 --port {port} --maxmemory {memory_bytes} --appendonly no";
        let words = [program].into_iter().chain(command.split(' '));
        // An empty word: no snapshots.
        let words = words.chain(["--save", ""]).chain(extra.iter().copied());
        Recipe {
            name: "redis-server".to_owned(),
            words: words.map(str::to_owned).collect(),
            wire: Wire::Resp,
        }
    }

    /// The same recipe under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Recipe {
        let name = name.to_owned();
        Recipe { name, ..self }
    }

    /// The same recipe with this memory, to the byte where the server takes bytes.
    #[must_use]
    pub fn with_memory(&self, bytes: u64) -> Recipe {
        let mib = (bytes >> 20).to_string();
        let exact = bytes.to_string();
        let words = self.words.iter().map(|word| {
            word.replace("{memory_mib}MiB", &exact)
                .replace("{memory_bytes}", &exact)
                .replace("{memory_mib}", &mib)
        });
        Recipe {
            name: self.name.clone(),
            words: words.collect(),
            wire: self.wire,
        }
    }

    /// The command as somebody may type it, without the folder of the program.
    #[must_use]
    pub fn shown(&self) -> String {
        let words = self
            .words
            .iter()
            .enumerate()
            .map(|(place, word)| match word {
                program if place == 0 => program.rsplit('/').next().unwrap_or(program),
                word if word.is_empty() => "\"\"",
                word => word,
            });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The echo floor of this program itself.
    ///
    /// # Errors
    /// If the program's own path is unknown.
    pub fn echo(wire: Wire, key_bytes: usize, value_bytes: usize) -> Result<Recipe, Error> {
        let own = std::env::current_exe()
            .map_err(|error| Error::system("finding this program", error))?;
        let command = format!(
            "echo --listen 127.0.0.1:{{port}} --protocol {} --key-bytes {key_bytes} \
             --value-bytes {value_bytes} --threads {{threads}}",
            wire.name(),
        );
        let words = command.split(' ').map(str::to_owned);
        Ok(Recipe {
            name: match wire {
                Wire::Memcached => "echo floor".to_owned(),
                other => format!("echo floor of {}", other.name()),
            },
            words: [own.display().to_string()]
                .into_iter()
                .chain(words)
                .collect(),
            wire,
        })
    }

    /// The echo floor for HTTP, whose replies have so many bytes.
    ///
    /// # Errors
    /// If the program's own path is unknown.
    pub fn echo_http(reply_bytes: usize) -> Result<Recipe, Error> {
        let floor = Recipe::echo(Wire::Http, 0, 0)?.named("echo floor");
        let command = format!(
            "echo --listen 127.0.0.1:{{port}} --http-reply-bytes {reply_bytes} \
             --threads {{threads}}"
        );
        let words = command.split(' ').map(str::to_owned);
        Ok(Recipe {
            words: floor.words.into_iter().take(1).chain(words).collect(),
            ..floor
        })
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// [`Error::Server`] with the server's last words, if it does not come up.
    pub fn start(&self, with: Ingredients) -> Result<Server, Error> {
        let reserved = ReservedPort::take()
            .map_err(|error| Error::system("looking for a free port", error))?;
        let port = reserved.address().port();
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| {
                word.replace("{port}", &port.to_string())
                    .replace("{memory_mib}", &with.memory_mib.to_string())
                    .replace("{memory_bytes}", &(with.memory_mib << 20).to_string())
                    .replace("{threads}", &with.threads.to_string())
            })
            .collect();
        let (output, log) = nameless_file()
            .map_err(|error| Error::system("making a file for the server's output", error))?;
        let child = command(&words, with.cpu, log)
            .spawn()
            .map_err(|error| Error::system(format!("starting {}", words.join(" ")), error))?;
        let mut server = Server {
            name: self.name.clone(),
            wire: self.wire,
            child,
            reserved,
            output,
        };
        server.wait_until_ready()?;
        Ok(server)
    }
}

/// Two handles on a file that goes away by itself with the last of them, so that a measurement that
/// is killed leaves nothing behind.
fn nameless_file() -> io::Result<(File, File)> {
    let named = tempfile::Builder::new().append(true).tempfile()?;
    let (file, path) = named.into_parts();
    path.close()?;
    let other = file.try_clone()?;
    Ok((file, other))
}

/// The command, bound to its processor and to this thread's life.
fn command(words: &[String], cpu: Option<usize>, log: File) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(cpu) = cpu {
        command.args(["taskset", "-c", &cpu.to_string()]);
    }
    // Settings from the environment would change what is measured.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CELLAR_") {
            command.env_remove(name);
        }
    }
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command
}

impl Server {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.reserved.address()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The protocol it speaks.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The version it tells.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn version(&self) -> Result<String, Error> {
        Client::connect(self.address(), self.wire, ASK_TIMEOUT)?.version()
    }

    /// The resident memory of its process.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn rss_bytes(&self) -> Result<u64, Error> {
        self.usage(usage::rss_bytes)
    }

    /// The most resident memory its process has had.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn rss_peak_bytes(&self) -> Result<u64, Error> {
        self.usage(usage::rss_peak_bytes)
    }

    /// Waits until the server has done what it does of itself after it was filled, so that a load
    /// finds it as it is for good: until it needs no more than a twentieth of a processor for a
    /// second.
    ///
    /// # Errors
    /// [`Error::Wrong`] if it still needs more when `until_ns` has come.
    pub fn rest(&self, until_ns: u64) -> Result<(), Error> {
        let used = || {
            let time = usage::cpu_time(self.pid());
            time.map_err(|error| Error::system("asking for a server's processor time", error))
        };
        loop {
            let (cpu_ns, started_ns) = (used()?.ns, now_ns());
            std::thread::sleep(REST);
            // A thread that ends takes its time with it.
            let cpu_ns = used()?.ns.saturating_sub(cpu_ns);
            if cpu_ns * REST_PART <= now_ns() - started_ns {
                return Ok(());
            }
            if now_ns() >= until_ns {
                return Err(Error::Wrong(format!(
                    "{} does not come to rest: it still took {} ms of a processor in a second",
                    self.name,
                    cpu_ns / 1_000_000
                )));
            }
        }
    }

    fn usage(&self, read: fn(u32) -> io::Result<u64>) -> Result<u64, Error> {
        let failed = |error| Error::system(format!("reading {}'s memory", self.name), error);
        read(self.pid()).map_err(failed)
    }

    /// Ends the server and waits for its end.
    pub fn stop(mut self) {
        self.end();
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let started_ns = now_ns();
        loop {
            if self.address().connect().is_ok() {
                return Ok(());
            }
            let ended = self
                .child
                .try_wait()
                .map_err(|error| Error::system(format!("waiting for {}", self.name), error))?;
            if let Some(status) = ended {
                return Err(self.failure(&format!("ended at once ({status})")));
            }
            if now_ns() - started_ns > START_S_MAX * NS_PER_S {
                return Err(self.failure(&format!("does not listen after {START_S_MAX} s")));
            }
            std::thread::sleep(POLL);
        }
    }

    fn failure(&mut self, what: &str) -> Error {
        let mut bytes = Vec::new();
        // Without its last words the failure is still told.
        let _ = self
            .output
            .rewind()
            .and_then(|()| self.output.read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..];
        Error::Server {
            name: self.name.clone(),
            what: format!("{what}\n{}", last.join("\n")),
        }
    }

    fn end(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // Errors mean that it has ended already.
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
            let started_ns = now_ns();
            while matches!(self.child.try_wait(), Ok(None)) {
                if now_ns() - started_ns > STOP_S_MAX * NS_PER_S {
                    eprintln!(
                        "{} did not end after {STOP_S_MAX} s and is killed",
                        self.name
                    );
                    let _ = self.child.kill();
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The recipe of `name=command with {port}`.
///
/// # Errors
/// A sentence, if the text has another form.
pub fn parse_peer(text: &str) -> Result<Recipe, String> {
    let (name, command) = text
        .split_once('=')
        .filter(|(name, command)| !name.is_empty() && command.contains("{port}"))
        .ok_or_else(|| format!("{text:?} is not NAME=COMMAND with {{port}} in it"))?;
    Ok(Recipe {
        name: name.to_owned(),
        words: command.split_whitespace().map(str::to_owned).collect(),
        wire: Wire::Memcached,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Ingredients = Ingredients {
        memory_mib: 64,
        threads: 1,
        cpu: None,
    };

    #[test]
    fn a_peer_is_a_name_and_a_command_with_a_port() {
        let peer = parse_peer("other=/bin/x -p {port} -m {memory_mib}").unwrap();
        assert_eq!(peer.name, "other");
        assert_eq!(peer.words, ["/bin/x", "-p", "{port}", "-m", "{memory_mib}"]);
        for bad in ["x", "=a {port}", "name=command"] {
            assert!(parse_peer(bad).is_err());
        }
    }

    #[test]
    fn memory_is_given_to_the_byte_where_a_server_takes_bytes() {
        let recipes = [
            Recipe::cellar("cellar", &[]),
            Recipe::redis("redis-server", &[]),
            Recipe::memcached("memcached"),
        ];
        let [cellar, redis, memcached] = recipes.map(|recipe| {
            let words = recipe.with_memory((5 << 20) + 7).words;
            words.join(" ")
        });
        assert!(cellar.contains("--memory 5242887 "), "{cellar}");
        assert!(redis.contains("--maxmemory 5242887 "), "{redis}");
        assert!(memcached.contains("-m 5 "), "{memcached}");
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_its_last_words() {
        let words = ["sh", "-c", "echo memory is not there >&2; exit 3 # {port}"];
        let recipe = Recipe {
            name: "bad".to_owned(),
            words: words.map(str::to_owned).to_vec(),
            wire: Wire::Memcached,
        };
        let error = recipe.start(PLAIN).unwrap_err().to_string();
        assert!(error.contains("bad: ended at once"), "{error}");
        assert!(error.contains("memory is not there"), "{error}");
    }
}
