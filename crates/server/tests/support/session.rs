//! A connection without a socket: bytes in, answer bytes out.
//!
//! It does for one connection of any protocol what a worker does for many, without hints: requests
//! one after the other, long values past the decoder, long answers in pieces. What others have to
//! tell a client is delivered between requests. It is shared by the tests that replay transcripts,
//! feed garbage, and fuzz.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::settings::Settings;
use cellar_engine::{Cache, Clock, Config};
use cellar_execute::{
    Context, DecodedTask, Flow, Found, Link, Task, Unfinished, http, memcached, resp,
};
use cellar_net::output::Output;
use cellar_shared::clients::client::{Delivery, Seat};
use cellar_shared::keyspace::observer::Observer;
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;

/// Unix time at engine time zero in tests, in milliseconds.
pub(crate) const UNIX_MS_AT_ZERO: u64 = 1_700_000_000_000;

/// A state with one thread, its cache on `clock`, and values up to 1 MiB.
pub(crate) fn state(clock: Arc<dyn Clock>, memory_bytes: usize, unix_ms_at_zero: u64) -> State {
    let settings = Settings {
        memory_bytes,
        threads: 1,
        ..Settings::default()
    };
    state_of(settings, clock, unix_ms_at_zero)
}

/// The same with these settings.
pub(crate) fn state_of(settings: Settings, clock: Arc<dyn Clock>, unix_ms_at_zero: u64) -> State {
    let cache = cache_of(&settings, clock, None);
    let state = State::new(cache, settings, unix_ms_at_zero);
    state.connections.store(1, Ordering::Relaxed);
    state
}

/// A state with one thread and a small memory that runs by the clock of event loops, and whose
/// cache tells of changes.
pub(crate) fn state_over(clock: LoopClock) -> State {
    let settings = Settings {
        memory_bytes: 8 << 20,
        threads: 1,
        ..Settings::default()
    };
    let observer = Arc::new(Observer::new(&settings));
    let cache = cache_of(&settings, clock.engine(), Some(Arc::clone(&observer)));
    State::observed(cache, settings, clock, observer)
}

fn cache_of(settings: &Settings, clock: Arc<dyn Clock>, observer: Option<Arc<Observer>>) -> Cache {
    let config = Config {
        clock,
        observer: observer.map(|observer| observer as Arc<dyn cellar_engine::Observer>),
        seed: Some(7),
        lease_ms: settings.lease_ms,
        keep: settings
            .keep
            .shares()
            .iter()
            .map(|share| share.bytes)
            .collect(),
        value_bytes_max: settings.value_bytes_max(),
        ..Config::with_memory(settings.memory_bytes)
    };
    Cache::new(config).expect("the memory of a test is there")
}

/// One connection.
pub(crate) struct Session {
    link: Link,
    input: Vec<u8>,
    output: Output,
    unfinished: Option<Box<dyn Unfinished>>,
    swallow: usize,
    closed: bool,
    longest_answer: usize,
}

impl Session {
    fn of(link: Link) -> Session {
        Session {
            link,
            input: Vec::new(),
            output: Output::default(),
            unfinished: None,
            swallow: 0,
            closed: false,
            longest_answer: 0,
        }
    }

    /// A connection for memcached's protocol.
    pub(crate) fn memcached() -> Session {
        Session::of(Link::Memcached(memcached::Intake::default()))
    }

    /// A connection for Redis's protocol.
    pub(crate) fn resp(seat: Seat, state: &State) -> Session {
        let client = state.clients.add(seat, None, 0);
        Session::of(Link::Resp(Box::new(resp::Intake::new(client, state))))
    }

    /// A connection for HTTP.
    pub(crate) fn http() -> Session {
        Session::of(Link::Http(http::Intake::of("127.0.0.1:1", false)))
    }

    /// Bytes of the cache's memory that what is under way holds.
    pub(crate) fn received_bytes(&self) -> usize {
        self.link.held().cached
    }

    /// Bytes of other memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.link.held().beside
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Most bytes that one call of the execution appended.
    pub(crate) fn longest_answer(&self) -> usize {
        self.longest_answer
    }

    /// Is gone for others.
    pub(crate) fn end(&mut self, state: &State) {
        self.link.end(state);
    }

    /// Receives `bytes` and returns all that is answered by now.
    pub(crate) fn feed(&mut self, bytes: &[u8], state: &State) -> Vec<u8> {
        self.feed_for(usize::MAX, bytes, state)
    }

    /// The same, but does so many things at most.
    pub(crate) fn feed_for(&mut self, steps: usize, bytes: &[u8], state: &State) -> Vec<u8> {
        if self.closed {
            return Vec::new();
        }
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        let mut answers = Vec::new();
        for _ in 0..steps {
            if self.closed {
                break;
            }
            let step = self.step(&input[used..], state);
            let answer = self.output.take();
            self.longest_answer = self.longest_answer.max(answer.len());
            answers.extend_from_slice(&answer);
            answers.extend_from_slice(&self.deliver());
            match step {
                Some(0) => {}
                Some(more) => {
                    used += more;
                    self.hand_over(&mut input, &mut used);
                }
                None => break,
            }
        }
        input.drain(..used);
        self.input = input;
        answers
    }

    /// Offers what was received to an answer that goes on.
    fn hand_over(&mut self, input: &mut Vec<u8>, used: &mut usize) {
        if let Some(rest) = &mut self.unfinished {
            let behind = input[*used..].to_vec();
            match rest.adopt(std::mem::take(input)) {
                Some(back) => *input = back,
                None => (*input, *used) = (behind, 0),
            }
        }
    }

    /// Bytes of its request that an answer still holds.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let rest = self.unfinished.as_ref();
        rest.map_or(0, |rest| rest.waiting_bytes())
    }

    /// What others have to tell the client, unless a reply is half written.
    fn deliver(&mut self) -> Vec<u8> {
        let client = self.link.client().filter(|_| self.unfinished.is_none());
        match client.map(|client| client.deliver()) {
            Some(Delivery::Bytes(bytes)) => bytes,
            Some(Delivery::Drop) => {
                self.closed = true;
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Does one thing; returns the bytes used, or `None` if more must come first.
    fn step(&mut self, input: &[u8], state: &State) -> Option<usize> {
        let pass = state.exclusive_lock.enter(0);
        let context = Context::new(state, &state.statistics.loops[0], &pass);
        if let Some(unfinished) = self.unfinished.take() {
            let flow = unfinished.resume(context, &mut self.output);
            self.follow(flow, state);
            return Some(0);
        }
        if self.swallow > 0 {
            let bytes = self.swallow.min(input.len());
            self.swallow -= bytes;
            return (bytes > 0).then_some(bytes);
        }
        if self.link.transfer().is_some() {
            let (used, flow) = self.link.feed(input, context, &mut self.output);
            let is_whole = flow.is_some();
            if let Some(flow) = flow {
                self.follow(flow, state);
            }
            return (used > 0 || is_whole).then_some(used);
        }
        let mut codec = self.link.codec(state);
        let mut found = None;
        let used = codec.decode(input, state, Kept(&mut found));
        self.link.settle(&codec, used.is_none(), 0);
        let used = used?;
        if let Some(found) = found {
            match self.link.run(&found.task, None, &context, &mut self.output) {
                Flow::Skip(bytes) => self.swallow = bytes,
                // Room is being made for the value behind it.
                Flow::Again => return Some(0),
                flow => self.follow(flow, state),
            }
        }
        Some(used)
    }

    fn follow(&mut self, flow: Flow, state: &State) {
        match flow {
            Flow::Continue | Flow::Feed => {}
            Flow::Close => self.closed = true,
            Flow::Unfinished(unfinished) => self.unfinished = Some(unfinished),
            // Nobody else is there that could answer it.
            Flow::Park(waiter) => {
                let _ = state.observer.unwait(&waiter);
            }
            Flow::Again | Flow::Skip(_) => unreachable!("only a task ends so"),
            Flow::Wait(_) => panic!("there are no users here that could be waited for"),
        }
    }
}

/// Keeps the task that was decoded.
struct Kept<'v, 'a>(&'v mut Option<DecodedTask<'a, Task<'a>>>);

impl<'a> Found<'a, Task<'a>> for Kept<'_, 'a> {
    fn found(self, ahead: DecodedTask<'a, Task<'a>>) {
        *self.0 = Some(ahead);
    }
}
