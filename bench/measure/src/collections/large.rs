//! Large: a set of many members is built, scanned, emptied one by one, deleted, expired, evicted
//! and restarted; how long another client waits for its PING at most meanwhile.
//!
//! The wait by the clock contains what the machine takes from the server; the processor time that
//! the server used during one wait does not, but is told by the kernel in steps of its timer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::connection::{Connection, Reply};
use super::contestant::Contestant;
use super::request::{Request, Shape};
use crate::peers::CpuArgs;
use cellar_load::{Address, Error, Recipe, now_ns, usage};

/// Bytes of a member, and memory for each, so that eviction has something to take.
const MEMBER_BYTES: usize = 10;
const MEMORY_BYTES: u64 = 64;
const MEMORY_MIB_MIN: u64 = 32;
/// Sets that are built until the first is evicted.
const OTHERS_MAX: u64 = 400;
/// Looks at whether the expired set is gone.
const LOOKS_MAX: usize = 100_000;
const SECONDS_MAX: u64 = 60;

/// The longest waits of one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    longest_ns: u64,
    longest_cpu_ns: u64,
}

/// Cellar in all phases.
/// [`Error`] if it refuses something, or loses the set in a restart.
pub(crate) fn measure(cellar: &Recipe, cpus: CpuArgs, members: u64) -> Result<Value, Error> {
    let folder = tempfile::tempdir_in("/dev/shm");
    let folder = folder.map_err(|error| Error::system("making a folder", error))?;
    let state = folder.path().join("state").display().to_string();
    let recipe = cellar.with("", &["--state", &state]);
    let memory_mib = ((members * MEMORY_BYTES) >> 20).max(MEMORY_MIB_MIN);
    let mut it = Contestant::start(&recipe, cpus, memory_mib)?;
    let mut rows = Vec::new();
    for (name, phase) in PHASES {
        let (pid, address) = (it.server.pid(), it.server.address().clone());
        let shape = Shape {
            elements: members,
            value_bytes: MEMBER_BYTES,
            copies: 1,
        };
        let connection = &mut it.connection;
        let waits = beside(pid, &address, || phase(connection, &shape))?;
        let (ns, cpu_ns) = (waits.longest_ns, waits.longest_cpu_ns);
        let (ms, cpu_ms) = (ns as f64 / 1e6, cpu_ns as f64 / 1e6);
        eprintln!("{name:20} longest wait {ms:8.2} ms, of the server {cpu_ms:8.2} ms");
        rows.push(json!({"phase": name, "longest_ms": ms, "longest_cpu_ms": cpu_ms}));
    }
    let restart_s = restart(&recipe, it, cpus, memory_mib, members)?;
    Ok(json!({"members": members, "phases": rows, "restart_s": restart_s}))
}

type Phase = fn(&mut Connection, &Shape) -> Result<(), Error>;

const PHASES: [(&str, Phase); 8] = [
    ("built", |it, shape| add(it, shape)),
    ("scanned", |it, shape| scan(it, shape)),
    ("SREM of each", |it, shape| {
        Request::parse("SREM set {m}").fill(shape, it)
    }),
    ("built, deleted", |it, shape| {
        add(it, shape)?;
        it.ask(&["DEL", "set"]).map(|_| ())
    }),
    ("built, unlinked", |it, shape| {
        add(it, shape)?;
        it.ask(&["UNLINK", "set"]).map(|_| ())
    }),
    ("built, expired", |it, shape| expire(it, shape)),
    ("built, evicted", evict),
    ("built, flushed", |it, shape| {
        add(it, shape)?;
        it.ask(&["FLUSHALL"]).map(|_| ())
    }),
];

fn add(it: &mut Connection, shape: &Shape) -> Result<(), Error> {
    Request::parse("SADD set {m}").fill(shape, it)
}

fn scan(it: &mut Connection, shape: &Shape) -> Result<(), Error> {
    let mut cursor = "0".to_owned();
    let mut seen = 0;
    loop {
        let reply = it.ask(&["SSCAN", "set", &cursor, "COUNT", "1000"])?;
        let parts = reply.list();
        seen += parts.get(1).map_or(0, |members| members.list().len()) as u64;
        cursor = parts.first().map_or("0", Reply::text).to_owned();
        if cursor == "0" {
            break;
        }
    }
    if seen >= shape.elements {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "SSCAN shows {seen} of {} members",
        shape.elements
    )))
}

fn expire(it: &mut Connection, shape: &Shape) -> Result<(), Error> {
    add(it, shape)?;
    it.ask(&["PEXPIRE", "set", "1"])?;
    wait_for(it, "DBSIZE")
}

/// Builds other sets until the first has left.
fn evict(it: &mut Connection, shape: &Shape) -> Result<(), Error> {
    add(it, shape)?;
    for other in 0..OTHERS_MAX {
        Request::parse(&format!("SADD set:{other} {{m}}")).fill(shape, it)?;
        if it.ask(&["EXISTS", "set"])? == Reply::Number(0) {
            return Ok(());
        }
    }
    Err(Error::Wrong("the set is not evicted".to_owned()))
}

/// Asks until the answer is none.
fn wait_for(it: &mut Connection, question: &str) -> Result<(), Error> {
    for _ in 0..LOOKS_MAX {
        if it.ask(&[question])? == Reply::Number(0) {
            return Ok(());
        }
    }
    Err(Error::Wrong("the expired set does not leave".to_owned()))
}

/// The longest waits for a PING while `work` runs.
fn beside(
    pid: u32,
    address: &Address,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Waits, Error> {
    let is_over = AtomicBool::new(false);
    scope(|threads| {
        let pinging = threads.spawn(|| ping(pid, address, &is_over));
        let done = work();
        // Relaxed: nothing but the flag is passed on.
        is_over.store(true, Ordering::Relaxed);
        let waits = pinging.join();
        done?;
        waits.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn ping(pid: u32, address: &Address, is_over: &AtomicBool) -> Result<Waits, Error> {
    let cpu_ns = || usage::cpu_ns(pid).map_err(|error| Error::system("reading a server", error));
    let mut connection = Connection::connect(address)?;
    let mut waits = Waits::default();
    // Relaxed: nothing but the flag is passed on.
    while !is_over.load(Ordering::Relaxed) {
        let (begun_ns, begun_cpu_ns) = (now_ns(), cpu_ns()?);
        connection.ask(&["PING"])?;
        waits.longest_ns = waits.longest_ns.max(now_ns() - begun_ns);
        let used_ns = cpu_ns()?.saturating_sub(begun_cpu_ns);
        waits.longest_cpu_ns = waits.longest_cpu_ns.max(used_ns);
    }
    Ok(waits)
}

/// Ends the server with the set in it, and starts it again; seconds until it serves the set.
fn restart(
    recipe: &Recipe,
    mut it: Contestant,
    cpus: CpuArgs,
    memory_mib: u64,
    members: u64,
) -> Result<f64, Error> {
    let shape = Shape {
        elements: members,
        value_bytes: MEMBER_BYTES,
        copies: 1,
    };
    add(&mut it.connection, &shape)?;
    it.server.signal(Signal::TERM);
    it.server.wait(SECONDS_MAX)?;
    let begun_ns = now_ns();
    let mut it = Contestant::start(recipe, cpus, memory_mib)?;
    let there = it.connection.ask(&["SCARD", "set"])?;
    if there != Reply::Number(members.cast_signed()) {
        return Err(Error::Wrong(format!(
            "of the set is there after a restart: {there:?}"
        )));
    }
    Ok((now_ns() - begun_ns) as f64 / 1e9)
}
