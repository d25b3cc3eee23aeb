//! A connection of Redis's protocol without a socket: bytes in, answer bytes out.
//!
//! It does for one connection what a worker does for many: requests one after the other, long
//! values of SET past the decoder, the arguments behind them, long answers in pieces. What others
//! have to tell the client is delivered between requests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use cellar::client::{Delivery, Seat};
use cellar::execute::resp::{
    Received, Session, Upload, execute, finish, finish_tail, prepare, receive, refuse,
};
use cellar::execute::{Context, Flow, Unfinished};
use cellar::output::Output;
use cellar::state::State;
use cellar_protocol::resp::{Decoded, Limits, Scan, Tail, decode, decode_tail};

/// One connection.
pub(crate) struct Talk<'s> {
    state: &'s State,
    session: Session,
    input: Vec<u8>,
    scan: Scan,
    output: Output,
    upload: Option<Box<Upload>>,
    unfinished: Option<Box<dyn Unfinished>>,
    swallow: usize,
    closed: bool,
}

impl<'s> Talk<'s> {
    /// A client that just came.
    pub(crate) fn new(state: &'s State) -> Talk<'s> {
        let client = state.clients.add(Seat::default(), None, 0);
        Talk {
            state,
            session: Session::new(client, state),
            input: Vec::new(),
            scan: Scan::default(),
            output: Output::default(),
            upload: None,
            unfinished: None,
            swallow: 0,
            closed: false,
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Receives `bytes` and returns all that is answered by now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        let mut answers = Vec::new();
        while !self.closed {
            let step = self.step(&input[used..]);
            answers.extend_from_slice(&self.output.take());
            if self.unfinished.is_none() {
                match self.session.client.deliver() {
                    Delivery::Bytes(bytes) => answers.extend_from_slice(&bytes),
                    Delivery::Drop => self.closed = true,
                }
            }
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
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        let state = self.state;
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
        if let Some(mut upload) = self.upload.take() {
            let bytes = upload.filling.fill_from(input);
            if upload.filling.is_whole() {
                let flow = finish(*upload, &mut self.session, context, &mut self.output);
                self.follow(flow);
                return Some(bytes);
            }
            self.upload = Some(upload);
            return (bytes > 0).then_some(bytes);
        }
        let limits = self.session.limits();
        match self.session.tail_args() {
            Some(count) => self.step_tail(input, count, &limits, context),
            None => self.step_request(input, &limits, context),
        }
    }

    fn step_request(
        &mut self,
        input: &[u8],
        limits: &Limits,
        context: Context<'_>,
    ) -> Option<usize> {
        let space = self.session.space(self.state);
        let cache = context.cache();
        let (session, output) = (&mut self.session, &mut self.output);
        let scan = std::mem::take(&mut self.scan);
        let (flow, used) = match decode(input, scan, limits) {
            Decoded::Incomplete(scan) => {
                self.scan = scan;
                return None;
            }
            Decoded::Nothing { used } => return Some(used),
            Decoded::Request { request, used } => {
                let prepared = prepare(request, space, cache);
                (execute(&prepared, session, context, output), used)
            }
            Decoded::Quoted { frame, used } => {
                let prepared = prepare(Decoded::unquoted(&frame), space, cache);
                (execute(&prepared, session, context, output), used)
            }
            Decoded::Upload {
                key,
                value_bytes,
                used,
                args_left,
            } => {
                match receive(key, value_bytes, args_left, session, context, output) {
                    Received::Upload(upload) => self.upload = Some(upload),
                    Received::Swallow(bytes) => self.swallow = bytes,
                }
                (Flow::Continue, used)
            }
            Decoded::Refused { message, used } => {
                (refuse(&message, session, context, output), used)
            }
        };
        self.follow(flow);
        Some(used)
    }

    /// The arguments behind the value of a SET.
    fn step_tail(
        &mut self,
        input: &[u8],
        count: usize,
        limits: &Limits,
        context: Context<'_>,
    ) -> Option<usize> {
        match decode_tail(input, count, limits) {
            Tail::Incomplete => None,
            Tail::Args { args, used } => {
                finish_tail(&args, &mut self.session, context, &mut self.output);
                Some(used)
            }
            Tail::Refused { message } => {
                let flow = refuse(&message, &self.session, context, &mut self.output);
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

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        cellar::execute::resp::end(&mut self.session, self.state);
    }
}
