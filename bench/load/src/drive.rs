//! Drive: the loop that asks a server, or several alike, over many connections, whatever is asked.
//!
//! Closed loop: each connection sends a window of `depth` requests in one write, waits for all
//! their replies, and goes on; latency counts from the write. Open loop: requests are due at fixed
//! times whatever the server does; each takes the connection that has waited for longest among
//! those with room in their window, and its latency counts from the moment it was due, so a pause
//! of the server shows in every request it delays.
//!
//! Each thread runs its own epoll loop over its share of the connections. What is asked, and what
//! becomes of the replies, is a [`Traffic`].

mod worker;

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Barrier, OnceLock};
use std::time::Duration;

use clap::Args;

use self::worker::Worker;
pub(crate) use self::worker::part;
use crate::address::Address;
use crate::client::Client;
use crate::error::Error;
use crate::quantity::parse_count;
use crate::tls::Stream;
use crate::usage::{self, cpu_ns};
use crate::wire::{Event, Login, Wire};

/// A server that answers nothing for this long has failed.
const STALL_S: u64 = 10;

/// When a load ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// After so many requests.
    Requests(u64),
    /// After so many nanoseconds; requests in flight are still waited for.
    Nanoseconds(u64),
}

/// How one server is asked; the options of a load, as far as it has them.
#[derive(Args, Clone, Debug)]
pub struct Drive {
    /// Protocol the server speaks
    #[arg(
        long = "protocol",
        value_name = "PROTOCOL",
        default_value = "memcached"
    )]
    pub wire: Wire,
    /// The server: HOST:PORT, tls:HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub target: Address,
    /// Who asks; over HTTP the password comes with each request
    #[arg(long = "user", value_name = "NAME:PASSWORD")]
    pub login: Option<Login>,
    /// Connections, spread over the threads
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Requests in flight per connection, sent in one write (pipelining)
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// When it ends.
    #[arg(skip = Limit::Requests(0))]
    pub limit: Limit,
    /// Open loop: so many requests per second, whatever the server does
    #[arg(long = "rate", value_name = "PER_S", value_parser = parse_rate)]
    pub rate_per_s: Option<f64>,
    /// Databases of the Redis protocol, each with the connections that come next in turn; `0..1` is
    /// the one that a connection has anyway.
    #[arg(skip = 0..1)]
    pub databases: Range<usize>,
    /// Processors to bind the threads to, in turn
    #[arg(long, value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Process whose processor time per request is measured
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Further servers, with their processes. Connections go to each server in turn, and each
    /// server has its own part of the requests and of the records.
    #[arg(skip)]
    pub others: Vec<(Address, u32)>,
    /// Whether the threads look for replies without ever sleeping, so that no server pays for
    /// waking them.
    #[arg(skip)]
    pub is_sleepless: bool,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    Ok(parse_count(text)? as f64)
}

impl Drive {
    /// One request at a time on each of so many connections, without a processor of its own.
    pub fn new(wire: Wire, target: &Address, connections: usize, limit: Limit) -> Drive {
        Drive {
            wire,
            target: target.clone(),
            login: None,
            connections,
            depth: 1,
            limit,
            rate_per_s: None,
            databases: 0..1,
            cpus: Vec::new(),
            server_pid: None,
            others: Vec::new(),
            is_sleepless: false,
        }
    }

    /// How many servers are asked.
    pub fn servers(&self) -> usize {
        1 + self.others.len()
    }

    /// Where a server is.
    fn address(&self, server: usize) -> &Address {
        let other = server.checked_sub(1).map(|place| &self.others[place].0);
        other.unwrap_or(&self.target)
    }
}

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
pub struct Flight<R> {
    /// What was asked.
    pub request: R,
    /// When it was sent, or in an open loop when it was due.
    pub start_ns: u64,
}

/// What one thread asks, and what becomes of the replies.
pub trait Traffic: Send {
    /// What there is to know about a request when its reply comes.
    type Request: Copy + Send;
    /// What there is to know of the reply that is arriving on a connection.
    type Arriving: Default + Send;

    /// Appends the next request to a server, by its place among those of the drive.
    fn push_next(&mut self, out: &mut Vec<u8>, now_ns: u64, server: usize) -> Self::Request;

    /// Takes a piece of the reply to the oldest request of a connection.
    ///
    /// # Errors
    /// [`Error::Garbled`] if this is no reply to it.
    fn take(
        &mut self,
        flight: Flight<Self::Request>,
        arriving: &mut Self::Arriving,
        event: Event<'_>,
        now_ns: u64,
    ) -> Result<(), Error>;
}

/// What the loop has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Driven {
    /// On the monotonic clock.
    pub started_ns: u64,
    /// When the last reply had come.
    pub ended_ns: u64,
    /// Processor time of the load generator itself.
    pub own_cpu_ns: u64,
    /// Processor time of the server, if it was asked for.
    pub server_cpu_ns: Option<u64>,
    /// Requests of an open loop that were due but never sent.
    pub unsent: u64,
    /// Bytes of replies.
    pub received_bytes: u64,
}

impl Driven {
    /// What this thread and another have counted.
    fn with(self, other: Driven) -> Driven {
        Driven {
            started_ns: self.started_ns.min(other.started_ns),
            ended_ns: self.ended_ns.max(other.ended_ns),
            own_cpu_ns: self.own_cpu_ns + other.own_cpu_ns,
            server_cpu_ns: None,
            unsent: self.unsent + other.unsent,
            received_bytes: self.received_bytes + other.received_bytes,
        }
    }
}

/// Asks with one thread for each traffic until the limit; the traffics again, and what was counted.
/// Each connection has asked for `key` before, so that accepting it is over.
///
/// # Errors
/// [`Error`] if the server cannot be reached, closes a connection, stops answering, or answers
/// nonsense.
pub fn drive<T: Traffic>(
    drive: &Drive,
    key: &[u8],
    traffics: Vec<T>,
) -> Result<(Vec<T>, Driven), Error> {
    let mut connections = connect(drive, key)?;
    // The first error, at which the other threads end.
    let failure = OnceLock::new();
    let threads = traffics.len();
    let start = Barrier::new(threads + 1);
    let server_cpu_ns = || server_cpu(drive);
    let (before, ended) = std::thread::scope(|scope| {
        let spawn = |(thread, traffic)| {
            let left = threads - thread;
            let first = connections.len() - connections.len() / left;
            let own = connections.split_off(first);
            let (failure, start) = (&failure, &start);
            scope.spawn(move || {
                let bound = bind(drive, thread);
                let worker = bound
                    .and_then(|()| Worker::new(drive, threads, (first, own), traffic, failure));
                start.wait();
                let ended = worker.and_then(|worker| worker.run(thread, threads));
                ended.map_err(|error| failure.set(error)).ok()
            })
        };
        let spawned: Vec<_> = traffics.into_iter().enumerate().map(spawn).collect();
        let before = server_cpu_ns();
        start.wait();
        let ended = spawned.into_iter().map(|thread| thread.join());
        let ended = ended.map(|it| it.unwrap_or_else(|panic| resume_unwind(panic)));
        (before, ended.collect::<Vec<_>>())
    });
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let (traffics, driven): (Vec<T>, Vec<Driven>) = ended.into_iter().flatten().unzip();
    let nothing = || Error::Wrong("no thread of the load has ended".to_owned());
    let mut driven = driven
        .into_iter()
        .reduce(Driven::with)
        .ok_or_else(nothing)?;
    let spent = before?.zip(server_cpu_ns()?);
    driven.server_cpu_ns = spent.map(|(before, after)| after.saturating_sub(before));
    Ok((traffics, driven))
}

/// Processor time of all servers, if it is asked for.
fn server_cpu(drive: &Drive) -> Result<Option<u64>, Error> {
    let others = drive.others.iter().map(|(_, pid)| *pid);
    let times = drive.server_pid.into_iter().chain(others).map(|pid| {
        let doing = || format!("reading the processor time of process {pid}");
        cpu_ns(pid).map_err(|error| Error::system(doing(), error))
    });
    let sum = times.sum::<Result<u64, Error>>()?;
    Ok(drive.server_pid.map(|_| sum))
}

fn bind(drive: &Drive, thread: usize) -> Result<(), Error> {
    let cpu = drive.cpus.iter().cycle().nth(thread);
    let bound = cpu.map_or(Ok(()), |cpu| usage::bind(*cpu));
    bound.map_err(|error| Error::system("binding a thread to a processor", error))
}

/// Opens all connections and has each answer one request.
///
/// # Errors
/// [`Error`] if one is not let in, or not answered.
pub fn connect(drive: &Drive, key: &[u8]) -> Result<Vec<Stream>, Error> {
    let mut streams = Vec::with_capacity(drive.connections);
    let databases = drive.databases.clone().cycle();
    for (place, database) in databases.take(drive.connections).enumerate() {
        let address = drive.address(place % drive.servers());
        let failed = |error| Error::system(format!("connecting to {address}"), error);
        let mut client = Client::connect(address, drive.wire, Duration::from_secs(STALL_S))?;
        if let Some(login) = &drive.login {
            client.log_in(login);
        }
        if database > 0 {
            client.select(database);
        }
        client.get(key);
        client.exchange(|event, _| match event {
            Event::Refused(line) => Err(Error::Garbled(String::from_utf8_lossy(line).into_owned())),
            _ => Ok(()),
        })?;
        let stream = client.into_stream();
        stream.socket().set_nonblocking(true).map_err(failed)?;
        streams.push(stream);
    }
    Ok(streams)
}
