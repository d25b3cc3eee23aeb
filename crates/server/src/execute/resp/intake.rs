//! Intake: what becomes of bytes that a client of the Redis protocol sends.
//!
//! [`Codec::decode`] makes a [`Task`] of them, [`Intake::run`] does it. GET and SET without options
//! are tasks of their own; the value of a long SET is no part of a task: its bytes follow to
//! [`Intake::feed`], and the arguments behind it are a task again ([`Task::Tail`]).

pub(super) mod plain;
pub(super) mod upload;

use std::sync::Arc;

use cellar_engine::{Cache, Space};
use cellar_protocol::resp::{self as wire, Args, Decoded, Limits, Plain, Scan};

use self::plain::{PlainGet, PlainSet, execute_get, execute_set};
use self::upload::{Tail, Upload, receive};
use super::session::Session;
use super::{Prepared, execute, prepare, refuse};
use crate::auth::users::{Login, Users};
use crate::clients::client::Client;
use crate::clients::pause::Effect;
use crate::execute::context::{self, Context, DecodedTask, Flow, Intake as _, Refusal, Used};
use crate::execute::filling::Transfer;
use crate::net::mailbox::ClientSetup;
use crate::net::output::Output;
use crate::state::State;

/// What one piece of input asks for.
#[derive(Debug)]
pub enum Task<'a> {
    /// GET, without more ado.
    Get(PlainGet<'a>),
    /// SET, without options.
    Set(PlainSet<'a>),
    /// Any command.
    Command(Prepared<'a>),
    /// A command that was a line of words with quotes, as a frame.
    Quoted(Vec<u8>),
    /// Making room for the value of a SET.
    LargeSet {
        /// The key.
        key: &'a [u8],
        /// Length of the value.
        value_bytes: usize,
        /// How many arguments follow the value.
        args: usize,
        /// What it was decoded by.
        limits: Limits,
    },
    /// The arguments behind such a value.
    Tail(Args<'a>),
    /// An answer to what is no command, after which the connection is closed.
    Refuse {
        /// The answer.
        message: Vec<u8>,
        /// What it was decoded by.
        limits: Limits,
    },
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once, as the usual requests.
    #[inline]
    pub(in crate::execute) fn is_quick(&self) -> bool {
        matches!(self, Task::Get(_) | Task::Set(_))
    }

    /// Whether the time of one that is not quick depends on more than its own bytes.
    pub(in crate::execute) fn is_heavy(&self) -> bool {
        match self {
            Task::Command(prepared) => prepared.is_heavy(),
            _ => true,
        }
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(in crate::execute) fn ends_decoding(&self) -> bool {
        matches!(self, Task::LargeSet { .. } | Task::Refuse { .. })
    }
}

/// What decoding a client's bytes depends on, as long as none of its commands runs.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The space of the client's database.
    space: Space,
    limits: Limits,
    /// How far an incomplete command was looked at.
    scan: Scan,
    /// The number of arguments to come that belong to the SET before.
    tail: Option<usize>,
    /// Whether a client monitors: commands are shown to it with their names as they came, which
    /// plain requests do not keep.
    is_shown: bool,
}

impl Codec {
    /// The first task in `input`, as one of all protocols'.
    #[inline]
    pub(in crate::execute) fn decode<'a>(
        &mut self,
        input: &'a [u8],
        cache: &Cache,
        found: impl FnOnce(DecodedTask<'a, Task<'a>>),
    ) -> Used {
        if let Some(args) = self.tail {
            return self.decode_tail(input, args, found);
        }
        if self.is_shown {
            return self.decode_any(input, cache, found);
        }
        let Some(plain) = wire::decode_plain(input, &self.limits) else {
            return self.decode_any(input, cache, found);
        };
        // What was looked at belonged to these bytes.
        self.scan = Scan::default();
        match plain {
            Plain::Get { key, used } => {
                let get = PlainGet::of(key, self.space, cache);
                found(DecodedTask {
                    key: Some(get.key),
                    task: Task::Get(get),
                    stores: false,
                    used,
                });
                Some(used)
            }
            Plain::Set { key, value, used } => {
                let set = PlainSet::of(key, value, self.space, cache);
                found(DecodedTask {
                    key: Some(set.key),
                    task: Task::Set(set),
                    stores: true,
                    used,
                });
                Some(used)
            }
        }
    }

    /// The same for what is not plain.
    fn decode_any<'a>(
        &mut self,
        input: &'a [u8],
        cache: &Cache,
        found: impl FnOnce(DecodedTask<'a, Task<'a>>),
    ) -> Used {
        let limits = self.limits;
        let scan = std::mem::take(&mut self.scan);
        let mut key = None;
        let (task, used) = match wire::decode(input, scan, &limits) {
            Decoded::Incomplete(scan) => {
                self.scan = scan;
                return None;
            }
            Decoded::Nothing { used } => return Some(used),
            Decoded::Request { request, used } => {
                let prepared = prepare(request, self.space, cache);
                key = prepared.key();
                (Task::Command(prepared), used)
            }
            Decoded::Quoted { frame, used } => (Task::Quoted(frame), used),
            Decoded::Upload {
                key: of_set,
                value_bytes,
                used,
                args_left: args,
            } => {
                let task = Task::LargeSet {
                    key: of_set,
                    value_bytes,
                    args,
                    limits,
                };
                (task, used)
            }
            Decoded::Refused { message, used } => (Task::Refuse { message, limits }, used),
        };
        let stores = false;
        found(DecodedTask {
            task,
            key,
            stores,
            used,
        });
        Some(used)
    }

    /// The arguments behind the value of a SET.
    #[cold]
    fn decode_tail<'a>(
        &mut self,
        input: &'a [u8],
        args: usize,
        found: impl FnOnce(DecodedTask<'a, Task<'a>>),
    ) -> Used {
        let limits = self.limits;
        let (task, used) = match wire::decode_tail(input, args, &limits) {
            wire::Tail::Incomplete => return None,
            wire::Tail::Args { args, used } => (Task::Tail(args), used),
            wire::Tail::Refused { message } => (Task::Refuse { message, limits }, input.len()),
        };
        self.tail = None;
        found(DecodedTask::keyless(task, used));
        Some(used)
    }
}

/// What a connection keeps of the protocol: the client's session, and the SET that it receives.
#[derive(Debug)]
pub struct Intake {
    session: Session,
    /// How far an incomplete command was looked at.
    scan: Scan,
    upload: Option<Box<Upload>>,
    /// The value that was received last, as long as arguments behind it have yet to come.
    tail: Option<Tail>,
}

impl Intake {
    /// The intake of a client that just came.
    #[must_use]
    pub fn new(client: Arc<Client>, state: &State) -> Intake {
        Intake {
            session: Session::of_connection(client, state),
            scan: Scan::default(),
            upload: None,
            tail: None,
        }
    }

    /// How the next bytes are to be decoded.
    #[inline]
    pub(in crate::execute) fn codec(&self, state: &State) -> Codec {
        Codec {
            space: self.session.space(state),
            limits: self.session.limits(),
            scan: self.scan,
            tail: self.tail.as_ref().map(Tail::args),
            is_shown: state.monitors.are_there(),
        }
    }

    /// Keeps how far a command that is not whole was looked at, and notes that the client is active.
    #[inline]
    pub(in crate::execute) fn keep(&mut self, codec: &Codec, is_incomplete: bool, now_ms: u64) {
        self.session.client.note_active(now_ms);
        self.scan = if is_incomplete {
            codec.scan
        } else {
            Scan::default()
        };
    }

    /// Does what a task asks for.
    #[inline]
    pub(in crate::execute) fn run(
        &mut self,
        task: &Task<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let session = &mut self.session;
        match task {
            Task::Get(get) => execute_get(get, session, context, output),
            Task::Set(set) => execute_set(set, session, context, output),
            Task::Command(prepared) => execute(prepared, session, context, output),
            Task::Quoted(frame) => {
                let request = Decoded::unquoted(frame);
                let prepared = prepare(request, session.space(context.state), context.cache());
                execute(&prepared, session, context, output)
            }
            // A command before it has changed what its bytes mean.
            Task::LargeSet { limits, .. } | Task::Refuse { limits, .. }
                if *limits != session.limits() =>
            {
                Flow::Again
            }
            Task::LargeSet { args, .. } if self.upload.is_some() => {
                self.make_room(*args, context, output)
            }
            Task::LargeSet {
                key,
                value_bytes,
                args,
                ..
            } => self.begin_upload((*key, *args), *value_bytes, context, output),
            Task::Tail(args) => self.store_tail(args, context, output),
            Task::Refuse { message, .. } => refuse(message, session, context, output),
        }
    }

    /// What a task is to a pause.
    pub(in crate::execute) fn effect(&self, task: &Task<'_>, context: Context<'_>) -> Effect {
        let session = &self.session;
        match task {
            Task::Get(_) => Effect::Reads,
            Task::Set(_) | Task::LargeSet { .. } | Task::Tail(_) => Effect::Writes,
            Task::Command(prepared) => prepared.effect(session, context),
            Task::Quoted(frame) => {
                let request = Decoded::unquoted(frame);
                let space = session.space(context.state);
                prepare(request, space, context.cache()).effect(session, context)
            }
            Task::Refuse { .. } => Effect::None,
        }
    }

    /// Makes room for the value of a SET.
    #[cold]
    fn begin_upload(
        &mut self,
        (key, args): (&[u8], usize),
        value_bytes: usize,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match receive((key, args), value_bytes, &mut self.session, context, output) {
            Ok(upload) => self.go_on(upload),
            Err(flow) => {
                self.tail = Tail::of_refused(args);
                flow
            }
        }
    }

    /// Goes on with a value, for which there may be no room yet.
    fn go_on(&mut self, upload: Box<Upload>) -> Flow {
        let has_room = upload.filling.has_room();
        self.upload = Some(upload);
        if has_room { Flow::Feed } else { Flow::Again }
    }

    /// Takes the next step towards room for the value of a SET, which so many arguments follow.
    #[cold]
    fn make_room(&mut self, args: usize, context: Context<'_>, output: &mut Output) -> Flow {
        let Some(mut upload) = self.upload.take() else {
            return Flow::Again;
        };
        match upload.filling.make_room(context.cache()) {
            Ok(()) => self.go_on(upload),
            Err(error) => {
                self.tail = Tail::of_refused(args);
                upload.refuse(error, &self.session, context, output)
            }
        }
    }

    /// Stores the value that was received last as these arguments say.
    #[cold]
    fn store_tail(&mut self, args: &[&[u8]], context: Context<'_>, output: &mut Output) -> Flow {
        let state = context.state;
        let users = state.users.as_ref();
        let has_lost = |login: &Login| users.is_some_and(|users| !users.has_still(login));
        if self.sender().is_some_and(has_lost) {
            return Flow::Close;
        }
        if let Some(tail) = self.tail.take() {
            tail.store(args, &mut self.session, context, output);
        }
        Flow::Continue
    }
}

impl context::Intake for Intake {
    fn become_of(&mut self, login: Login, users: &Users, state: &State) {
        self.session.log_in(login, users, state);
    }

    #[inline]
    fn is_unauthenticated(&self) -> bool {
        !self.session.identity.is_known()
    }

    #[inline]
    fn makes_room(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| !upload.filling.has_room())
            || self.session.preparation.is_again()
    }

    #[inline]
    fn transfer(&mut self) -> Option<Transfer<'_>> {
        let upload = self.upload.as_mut()?;
        upload.filling.transfer()
    }

    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let upload = self.upload.as_mut();
        let used = upload.map_or(0, |upload| upload.filling.fill_from(input));
        let whole = self.upload.take_if(|upload| upload.filling.is_whole());
        let flow = whole.map(|upload| {
            let Some(tail) = upload.finish(&self.session, output) else {
                return Flow::Close;
            };
            match tail.args() {
                0 => tail.store(&[], &mut self.session, context, output),
                _ => self.tail = Some(tail),
            }
            Flow::Continue
        });
        (used, flow)
    }

    fn abandon(&mut self) {
        self.upload = None;
        self.tail = None;
        self.session.preparation.end();
    }

    fn sender(&self) -> Option<&Login> {
        let is_under_way = self.upload.is_some() || self.tail.is_some();
        self.asker().filter(|_| is_under_way)
    }

    fn asker(&self) -> Option<&Login> {
        self.session.identity.last_login()
    }

    #[inline]
    fn received_bytes(&self) -> usize {
        let upload = self.upload.as_ref();
        let coming = upload.map_or(0, |upload| upload.filling.value_bytes());
        let received = self.tail.as_ref().map_or(0, Tail::value_bytes);
        coming + received + self.session.preparation.received_bytes()
    }

    fn setup(&self, state: &State) -> Option<ClientSetup> {
        let is_between = self.upload.is_none() && self.tail.is_none();
        is_between.then(|| self.session.setup(state))?
    }

    fn restore(&mut self, setup: &ClientSetup, state: &State) -> bool {
        self.session.restore(setup, state)
    }

    #[inline]
    fn client(&self) -> Option<&Client> {
        Some(&self.session.client)
    }

    #[inline]
    fn awaits_tail(&self) -> bool {
        self.tail.is_some()
    }

    #[inline]
    fn held_bytes(&self) -> usize {
        self.session.held_bytes()
    }

    fn refuse(&self, refusal: Refusal, _context: Context<'_>, output: &mut Output) {
        let text = format!("-ERR {}\r\n", refusal.text());
        output.bytes().extend_from_slice(text.as_bytes());
    }

    fn end(&mut self, state: &State) {
        self.session.leave(state);
    }

    fn take_apart(&mut self, most: usize, state: &State) -> usize {
        self.session.take_apart(most, state)
    }
}
