//! A connection without a socket: bytes in, answer bytes out.
//!
//! It does for one connection what a worker does for many, without hints, and is shared by the
//! tests that replay transcripts, feed garbage, and fuzz.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar::execute::memcached::{Received, Upload, execute, finish, prepare, receive, refuse};
use cellar::execute::{Context, Flow, Unfinished, http};
use cellar::output::Output;
use cellar::settings::Settings;
use cellar::state::State;
use cellar_engine::{Cache, Clock, Config};
use cellar_protocol::http as wire;
use cellar_protocol::memcached::{Decoded, Limits, decode};

/// Unix time at engine time zero in tests, in milliseconds.
pub(crate) const UNIX_MS_AT_ZERO: u64 = 1_700_000_000_000;

/// A state with one thread, its cache on `clock`, and values up to 1 MiB.
pub(crate) fn state(clock: Arc<dyn Clock>, memory_bytes: usize, unix_ms_at_zero: u64) -> State {
    let settings = Settings {
        memory_bytes,
        threads: 1,
        ..Settings::default()
    };
    let config = Config {
        clock,
        seed: Some(7),
        lease_ms: settings.lease_ms,
        value_bytes_max: settings.value_bytes_max(),
        update_bytes_max: settings.update_bytes_max(),
        ..Config::with_memory(memory_bytes)
    };
    let cache = Cache::new(config).expect("the memory of a test is there");
    let state = State::new(cache, settings, unix_ms_at_zero);
    state.connections.store(1, Ordering::Relaxed);
    state
}

/// One connection.
#[derive(Default)]
pub(crate) struct Session {
    input: Vec<u8>,
    output: Output,
    upload: Option<Box<Upload>>,
    /// What of a request over HTTP is under way; none on a connection of memcached's protocol.
    http: Option<Web>,
    peer: http::Peer,
    unfinished: Option<Box<dyn Unfinished>>,
    swallow: usize,
    closed: bool,
    longest_answer: usize,
}

/// A request over HTTP that is not whole.
#[derive(Default)]
struct Web {
    scan: wire::Scan,
    upload: Option<Box<http::Upload>>,
    gather: Option<Box<http::Gather>>,
}

/// What the decoder of HTTP waits for in tests.
const WEB_LIMITS: wire::Limits = wire::Limits {
    body_bytes_max: 16 << 10,
};

impl Session {
    /// A connection for HTTP.
    #[allow(dead_code, reason = "not every test that shares this file asks")]
    pub(crate) fn http() -> Session {
        Session {
            http: Some(Web::default()),
            peer: http::Peer::at("127.0.0.1:1"),
            ..Session::default()
        }
    }

    /// Whether the server has closed the connection.
    #[allow(dead_code, reason = "not every test that shares this file asks")]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Most bytes that one call of the execution appended.
    #[allow(dead_code, reason = "not every test that shares this file asks")]
    pub(crate) fn longest_answer(&self) -> usize {
        self.longest_answer
    }

    /// Receives `bytes` and returns all that is answered by now.
    pub(crate) fn feed(&mut self, bytes: &[u8], state: &State) -> Vec<u8> {
        if self.closed {
            return Vec::new();
        }
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        let mut answers = Vec::new();
        while !self.closed {
            let step = self.step(&input[used..], state);
            let answer = self.output.take();
            self.longest_answer = self.longest_answer.max(answer.len());
            answers.extend_from_slice(&answer);
            match step {
                Some(more) => used += more,
                None => break,
            }
        }
        input.drain(..used);
        self.input = input;
        answers
    }

    /// Does one thing; returns the bytes used, or `None` if more must come first.
    fn step(&mut self, input: &[u8], state: &State) -> Option<usize> {
        let pass = state.gates.enter(0);
        let context = Context::new(state, &state.counters[0], &pass);
        if let Some(unfinished) = self.unfinished.take() {
            let flow = unfinished.go_on(context, &mut self.output);
            self.follow(flow);
            return Some(0);
        }
        if self.swallow > 0 {
            let bytes = self.swallow.min(input.len());
            self.swallow -= bytes;
            return (bytes > 0).then_some(bytes);
        }
        if self.http.is_some() {
            return self.step_http(input, context);
        }
        if let Some(mut upload) = self.upload.take() {
            let bytes = upload.filling.fill_from(input);
            if upload.filling.is_whole() {
                finish(*upload, context, &mut self.output);
                return Some(bytes);
            }
            self.upload = Some(upload);
            return (bytes > 0).then_some(bytes);
        }
        match decode(input, &Limits::default()) {
            Decoded::Incomplete => None,
            Decoded::Request { request, used } => {
                let prepared = prepare(request, &state.cache);
                let flow = execute(&prepared, context, &mut self.output);
                self.follow(flow);
                Some(used)
            }
            Decoded::Upload {
                request,
                used,
                value_bytes,
            } => {
                let prepared = prepare(request, &state.cache);
                match receive(&prepared, value_bytes, context, &mut self.output) {
                    Received::Upload(upload) => self.upload = Some(upload),
                    Received::Swallow(bytes) => self.swallow = bytes,
                }
                Some(used)
            }
            Decoded::Refused(refused) => {
                self.swallow = refused.swallow;
                let flow = refuse(&refused, context, &mut self.output);
                self.follow(flow);
                Some(refused.used)
            }
        }
    }

    /// The same for HTTP.
    fn step_http(&mut self, input: &[u8], context: Context<'_>) -> Option<usize> {
        let peer = &mut self.peer;
        let web = self.http.as_mut()?;
        if let Some(mut upload) = web.upload.take() {
            let bytes = upload.filling.fill_from(input);
            if upload.filling.is_whole() {
                let flow = http::finish(*upload, context, &mut self.output);
                self.follow(flow);
                return Some(bytes);
            }
            web.upload = Some(upload);
            return (bytes > 0).then_some(bytes);
        }
        if let Some(mut gather) = web.gather.take() {
            return match gather.feed(input, context, &mut self.output) {
                http::Gathered::More => {
                    web.gather = Some(gather);
                    (!input.is_empty()).then_some(input.len())
                }
                http::Gathered::Whole(used) => {
                    let flow = gather.finish(peer, context, &mut self.output);
                    self.follow(flow);
                    Some(used)
                }
                http::Gathered::Refused => {
                    self.closed = true;
                    Some(input.len())
                }
            };
        }
        let scan = std::mem::take(&mut web.scan);
        match wire::decode(input, scan, &WEB_LIMITS) {
            wire::Decoded::Incomplete(scan) => {
                web.scan = scan;
                None
            }
            wire::Decoded::Nothing { used } => Some(used),
            wire::Decoded::Request { request, used } => {
                let prepared = http::prepare(request, context.cache());
                let flow = http::execute(&prepared, peer, context, &mut self.output);
                self.follow(flow);
                Some(used)
            }
            wire::Decoded::Head {
                request,
                used,
                body,
            } => {
                let prepared = http::prepare(request, context.cache());
                match http::receive(&prepared, body, peer, context, &mut self.output) {
                    http::Received::Upload(upload) => web.upload = Some(upload),
                    http::Received::Gather(gather) => web.gather = Some(gather),
                    http::Received::Swallow(bytes) => self.swallow = bytes,
                    http::Received::Close => self.closed = true,
                }
                Some(used)
            }
            wire::Decoded::Refused(refused) => {
                let flow = http::refuse(&refused, context, &mut self.output);
                self.follow(flow);
                Some(input.len())
            }
        }
    }

    fn follow(&mut self, flow: Flow) {
        match flow {
            Flow::Continue => {}
            Flow::Close => self.closed = true,
            Flow::Unfinished(unfinished) => self.unfinished = Some(unfinished),
        }
    }
}
