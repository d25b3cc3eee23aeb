//! Server processes of a measurement: started on a processor of choice, asked for their version,
//! stopped at the end whatever happens.
//!
//! A server dies with the thread that started it (`setpriv --pdeathsig`), so that an interrupted
//! comparison leaves nothing running.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::address::{Address, ReservedPort};
use crate::client::Client;
use crate::clock::{NS_PER_S, now_ns};
use crate::drive::{Drive, Limit};
use crate::error::Error;
use crate::usage;
use crate::wire::Wire;

/// How long a server may take to listen.
const START_S_MAX: u64 = 20;
/// How long a server may take to end before it is killed.
const STOP_S_MAX: u64 = 10;
const POLL: Duration = Duration::from_millis(10);
/// How often an ending server is looked at: another may be waiting for its place.
const END_POLL: Duration = Duration::from_millis(1);
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

impl Ingredients {
    /// So much memory and one thread, wherever it runs.
    pub fn of(memory_mib: u64) -> Ingredients {
        Ingredients {
            memory_mib,
            threads: 1,
            cpu: None,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    name: String,
    wire: Wire,
    child: Child,
    reserved: Arc<ReservedPort>,
    /// What it writes to stderr; the file has no name any more.
    output: File,
}

impl Recipe {
    /// A server of this name that speaks this protocol, by its program and arguments, which are
    /// separated by spaces.
    pub fn new(name: &str, wire: Wire, program: &str, arguments: &str) -> Recipe {
        let words = [program].into_iter().chain(arguments.split_whitespace());
        Recipe {
            name: name.to_owned(),
            words: words.map(str::to_owned).collect(),
            wire,
        }
    }

    /// Cellar, from the path of its program, as a server of one protocol.
    pub fn cellar(program: &str, wire: Wire) -> Recipe {
        let name = match wire {
            Wire::Memcached => "cellar",
            Wire::Resp => "cellar over RESP",
            Wire::Http => "cellar over HTTP",
        };
        let mut arguments = "--memory {memory_mib}MiB --threads {threads}".to_owned();
        for other in [Wire::Memcached, Wire::Resp, Wire::Http] {
            let is_it = other == wire;
            let address = if is_it { "127.0.0.1:{port}" } else { "off" };
            arguments += &format!(" --{} {address}", other.name());
        }
        Recipe::new(name, wire, program, &arguments)
    }

    /// memcached; as root it must be told to stay so.
    pub fn memcached(program: &str) -> Recipe {
        let arguments = "-l 127.0.0.1 -p {port} -U 0 -m {memory_mib} -t {threads} -u root";
        Recipe::new("memcached", Wire::Memcached, program, arguments)
    }

    /// redis-server, which writes nothing to disk.
    pub fn redis(program: &str) -> Recipe {
        let arguments = "--bind 127.0.0.1 --port {port} --maxmemory {memory_bytes} --appendonly no";
        let mut recipe = Recipe::new("redis-server", Wire::Resp, program, arguments);
        // An empty word: no snapshots.
        recipe.words.extend(["--save", ""].map(str::to_owned));
        recipe
    }

    /// BigCache or a plain map behind a server of HTTP, `cache, server`; BigCache with memory
    /// reserved for all entries of its life window.
    pub fn go_service(program: &str, message_bytes: usize, name: &str) -> Recipe {
        /// What BigCache writes beside an entry: its time, hash and lengths, and the id again.
        const HEADER_BYTES: usize = 48;
        let entry_bytes = message_bytes + HEADER_BYTES;
        let (cache, server) = name.split_once(", ").unwrap_or((name, ""));
        let kind = server.trim_end_matches("http").trim_end_matches('/');
        let arguments = format!(
            "-listen 127.0.0.1:{{port}} -memory-mib {{memory_mib}} -life {{life}} -entries \
             {{entries}} -entry-bytes {entry_bytes} -server {kind} -cache {cache}"
        );
        Recipe::new(name, Wire::Http, program, &arguments)
    }

    /// The same server with further arguments, its name with a further word.
    pub fn with(&self, suffix: &str, extra: &[&str]) -> Recipe {
        let extra = extra.iter().copied().filter(|word| !word.is_empty());
        let mut recipe = self.clone();
        recipe.name += suffix;
        recipe.words.extend(extra.map(str::to_owned));
        recipe
    }

    /// The same recipe under another name.
    pub fn named(self, name: &str) -> Recipe {
        let name = name.to_owned();
        Recipe { name, ..self }
    }

    /// The same recipe with this memory, to the byte where the server takes bytes.
    pub fn with_memory(&self, bytes: u64) -> Recipe {
        let exact = bytes.to_string();
        self.replaced(&[
            ("{memory_mib}MiB", &exact),
            ("{memory_bytes}", &exact),
            ("{memory_mib}", &(bytes >> 20).to_string()),
        ])
    }

    /// The same recipe with texts for what stands for them in its words.
    pub fn replaced(&self, texts: &[(&str, &str)]) -> Recipe {
        let replaced = |word: &String| {
            let word = word.clone();
            texts
                .iter()
                .fold(word, |word, (name, text)| word.replace(name, text))
        };
        Recipe {
            words: self.words.iter().map(replaced).collect(),
            ..self.clone()
        }
    }

    /// The command as somebody may type it, without the folder of the program.
    pub fn shown(&self) -> String {
        let program = self.words[0].rsplit('/').take(1);
        let shown = self.words[1..].iter().map(|word| match word.as_str() {
            "" => "\"\"",
            word => word,
        });
        let words = program.chain(shown);
        words.collect::<Vec<_>>().join(" ")
    }

    /// The echo floor of this program itself, for keys and values of these lengths.
    ///
    /// # Errors
    /// If the program's own path is unknown.
    pub fn echo(wire: Wire, key_bytes: usize, value_bytes: usize) -> Result<Recipe, Error> {
        let name = match wire {
            Wire::Memcached => "echo floor".to_owned(),
            other => format!("echo floor of {}", other.name()),
        };
        let own = std::env::current_exe()
            .map_err(|error| Error::system("finding this program", error))?;
        let arguments = format!(
            "echo --listen 127.0.0.1:{{port}} --threads {{threads}} --protocol {} \
             --key-bytes {key_bytes} --value-bytes {value_bytes}",
            wire.name()
        );
        let own = own.display().to_string();
        Ok(Recipe::new(&name, wire, &own, &arguments))
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// [`Error::Wrong`] with the server's last words, if it does not come up.
    pub fn start(&self, with: Ingredients) -> Result<Server, Error> {
        let reserved = ReservedPort::take()
            .map_err(|error| Error::system("looking for a free port", error))?;
        let mut server = self.spawn(with, Arc::new(reserved))?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts the server where another one listens, or has listened, and waits for nothing.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_in_place_of(&self, other: &Server, with: Ingredients) -> Result<Server, Error> {
        self.spawn(with, Arc::clone(&other.reserved))
    }

    fn spawn(&self, with: Ingredients, reserved: Arc<ReservedPort>) -> Result<Server, Error> {
        let port = reserved.address().port();
        let ready = self.replaced(&[
            ("{port}", &port.to_string()),
            ("{memory_mib}", &with.memory_mib.to_string()),
            ("{memory_bytes}", &(with.memory_mib << 20).to_string()),
            ("{threads}", &with.threads.to_string()),
        ]);
        let words = ready.words;
        // A file without a name, so that a measurement that is killed leaves nothing behind.
        let output = tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
        let (output, log) = output
            .map_err(|error| Error::system("making a file for the server's output", error))?;
        let child = command(&words, with.cpu, log)
            .spawn()
            .map_err(|error| Error::system(format!("starting {}", words.join(" ")), error))?;
        Ok(Server {
            name: self.name.clone(),
            wire: self.wire,
            child,
            reserved,
            output,
        })
    }
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
    pub fn address(&self) -> &Address {
        self.reserved.address()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The protocol it speaks.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// How it is asked over so many connections, one request at a time on each; what it uses
    /// meanwhile is told.
    pub fn drive(&self, connections: usize, limit: Limit) -> Drive {
        Drive {
            server_pid: Some(self.pid()),
            ..Drive::new(self.wire, self.address(), connections, limit)
        }
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

    /// The processor time its process has used, in nanoseconds.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn cpu_ns(&self) -> Result<u64, Error> {
        self.usage(usage::cpu_ns)
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
        match self.settle(until_ns)? {
            0 => Ok(()),
            cpu_ms => Err(Error::Wrong(format!(
                "{} does not come to rest: it still took {cpu_ms} ms of a processor in a second",
                self.name
            ))),
        }
    }

    /// The same, for a server that may always have something to do: the milliseconds of a processor
    /// that it took in the last second if that was more than a twentieth, else zero.
    ///
    /// # Errors
    /// Those of reading the system's figures.
    pub fn settle(&self, until_ns: u64) -> Result<u64, Error> {
        loop {
            let (cpu_ns, started_ns) = (self.usage(usage::cpu_ns)?, now_ns());
            std::thread::sleep(REST);
            // A thread that ends takes its time with it.
            let cpu_ns = self.usage(usage::cpu_ns)?.saturating_sub(cpu_ns);
            if cpu_ns * REST_PART <= now_ns() - started_ns {
                return Ok(0);
            }
            if now_ns() >= until_ns {
                return Ok((cpu_ns / 1_000_000).max(1));
            }
        }
    }

    fn usage(&self, read: fn(u32) -> io::Result<u64>) -> Result<u64, Error> {
        let failed = |error| Error::system(format!("reading {}'s figures", self.name), error);
        read(self.pid()).map_err(failed)
    }

    /// Checks that the process of a server that is to come up has not ended.
    ///
    /// # Errors
    /// [`Error::Wrong`] with the server's last words if it has.
    pub fn check_runs(&mut self) -> Result<(), Error> {
        let ended = self.child.try_wait();
        let ended =
            ended.map_err(|error| Error::system(format!("waiting for {}", self.name), error))?;
        ended.map_or(Ok(()), |status| {
            Err(self.failure(&format!("ended at once ({status})")))
        })
    }

    /// Sends its process a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            // An error means that it has ended since.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until its process has ended.
    ///
    /// # Errors
    /// [`Error::Wrong`] with its last words if that takes longer than so many seconds.
    pub fn wait(&mut self, seconds_max: u64) -> Result<(), Error> {
        let started_ns = now_ns();
        while matches!(self.child.try_wait(), Ok(None)) {
            if now_ns() - started_ns > seconds_max * NS_PER_S {
                return Err(self.failure(&format!("has not ended after {seconds_max} s")));
            }
            std::thread::sleep(END_POLL);
        }
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let started_ns = now_ns();
        loop {
            if self.address().connect().is_ok() {
                return Ok(());
            }
            self.check_runs()?;
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
        Error::Wrong(format!("{}: {what}\n{}", self.name, last.join("\n")))
    }

    fn end(&mut self) {
        self.signal(Signal::TERM);
        if self.wait(STOP_S_MAX).is_err() {
            eprintln!(
                "{} did not end after {STOP_S_MAX} s and is killed",
                self.name
            );
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_its_last_words() {
        let recipe = Recipe::new("bad", Wire::Memcached, "sh", "-c");
        let recipe = recipe.with("", &["echo memory is not there >&2; exit 3 # {port}"]);
        let error = recipe.start(Ingredients::of(64)).unwrap_err().to_string();
        assert!(error.contains("bad: ended at once"), "{error}");
        assert!(error.contains("memory is not there"), "{error}");
    }
}
