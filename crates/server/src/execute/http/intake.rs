//! Intake: what becomes of bytes that a client of HTTP sends.
//!
//! [`decode`] makes a [`Task`] of them, [`Intake::run`] does it. A body that is long or comes in
//! chunks is no part of a task: its bytes follow to [`Intake::feed`].

use cellar_protocol::http::{self as codec, Body, Decoded, Limits, Refused, Scan};

use super::upload::{Gathered, Rest, Upload, banner, receive, refuse_connection, time_out};
use super::{Peer, Prepared, execute, prepare, refuse};
use crate::auth::users::{Login, Users};
use crate::clients::pause::Effect;
use crate::execute::context::{self, Context, DecodedTask, Flow, Intake as _, Refusal, Used};
use crate::execute::filling::{SMALL_VALUE_BYTES_MAX, Transfer};
use crate::execute::http::route::Route;
use crate::net::mailbox::ClientSetup;
use crate::net::output::Output;
use crate::state::State;

/// What the decoder waits for.
const LIMITS: Limits = Limits {
    body_bytes_max: SMALL_VALUE_BYTES_MAX,
};

/// What one piece of input asks for.
#[derive(Debug)]
pub enum Task<'a> {
    /// A request.
    Run(Prepared<'a>),
    /// Making room for the body of a request.
    Body(Prepared<'a>, Body),
    /// An answer to what is no request, after which the connection is closed.
    Refuse(Refused),
}

impl Task<'_> {
    /// What it is to a pause.
    pub(in crate::execute) fn effect(&self) -> Effect {
        match self {
            Task::Run(prepared) | Task::Body(prepared, _) => prepared.effect(),
            Task::Refuse(_) => Effect::None,
        }
    }

    /// Whether its time depends on more than its own bytes: not that of one entry's.
    #[inline]
    pub(in crate::execute) fn is_heavy(&self) -> bool {
        !matches!(self, Task::Run(prepared) if matches!(prepared.route, Route::Entry(_)))
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(in crate::execute) fn ends_decoding(&self) -> bool {
        !matches!(self, Task::Run(_))
    }
}

/// What a connection keeps of the protocol: who asks, and the body that it receives.
#[derive(Debug, Default)]
pub struct Intake {
    peer: Peer,
    /// How far an incomplete head was looked at.
    scan: Scan,
    rest: Option<Rest>,
}

/// The first task in `input`, whose head was looked at so far, as one of all protocols'.
#[inline]
pub(in crate::execute) fn decode<'a>(
    input: &'a [u8],
    scan: &mut Scan,
    state: &State,
    found: impl FnOnce(DecodedTask<'a, Task<'a>>),
) -> Used {
    let (task, used) = match codec::decode(input, std::mem::take(scan), &LIMITS) {
        Decoded::Incomplete(looked_at) => {
            *scan = looked_at;
            return None;
        }
        Decoded::Nothing { used } => return Some(used),
        Decoded::Request { request, used } => {
            let mut prepared = prepare(request, state);
            prepared.is_last = used == input.len();
            found(DecodedTask {
                key: prepared.key(),
                task: Task::Run(prepared),
                stores: false,
                used,
            });
            return Some(used);
        }
        Decoded::Head {
            request,
            used,
            body,
        } => {
            let prepared = prepare(request, state);
            (Task::Body(prepared, body), used)
        }
        Decoded::Refused(refused) => (Task::Refuse(refused), input.len()),
    };
    found(DecodedTask::keyless(task, used));
    Some(used)
}

impl Intake {
    /// The intake of a client with this address, as
    /// [`Listener::accept`](crate::net::listener::Listener::accept) has it.
    #[must_use]
    pub fn new(address: &str, is_tls: bool, state: &State) -> Intake {
        let mut intake = Intake::of(address, state.users.is_some());
        intake.peer.is_tls = is_tls;
        intake.peer.is_asked |= !state.settings.http_token.is_empty();
        intake
    }

    /// The same on a server that has users or not, and no token.
    #[must_use]
    pub fn of(address: &str, has_users: bool) -> Intake {
        Intake {
            peer: Peer::at(address, has_users),
            ..Intake::default()
        }
    }

    /// How far an incomplete head was looked at.
    #[inline]
    pub(in crate::execute) fn scan(&self) -> Scan {
        self.scan
    }

    /// Keeps how far a head that is not whole was looked at.
    #[inline]
    pub(in crate::execute) fn keep(&mut self, scan: Scan, is_incomplete: bool) {
        self.scan = if is_incomplete { scan } else { Scan::default() };
    }

    /// Does what a task asks for.
    #[inline]
    pub(in crate::execute) fn run(
        &mut self,
        task: &Task<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let peer = &mut self.peer;
        match task {
            Task::Run(prepared) => execute(prepared, peer, context, output),
            Task::Body(prepared, body) => {
                let rest = match self.rest.take() {
                    Some(Rest::Upload(upload)) => {
                        make_room(upload, (prepared, *body), context, output)
                    }
                    _ => receive(prepared, *body, peer, context, output),
                };
                match rest {
                    Ok(rest) => self.begin(rest, prepared, output),
                    Err(flow) => flow,
                }
            }
            Task::Refuse(refused) => refuse(refused, context, output),
        }
    }

    /// Begins with a body, for which there may be no room yet.
    fn begin(&mut self, rest: Rest, prepared: &Prepared<'_>, output: &mut Output) -> Flow {
        self.rest = Some(rest);
        if self.makes_room() {
            return Flow::Again;
        }
        banner(prepared, output);
        Flow::Feed
    }
}

impl context::Intake for Intake {
    fn become_of(&mut self, login: Login, users: &Users, _state: &State) {
        if let Some(asker) = &mut self.peer.asker {
            asker.certified = users.identity_of(login);
        }
    }

    #[inline]
    fn is_unauthenticated(&self) -> bool {
        self.peer.is_unauthenticated()
    }

    fn logs_in_each_time(&self) -> bool {
        true
    }

    #[inline]
    fn makes_room(&self) -> bool {
        matches!(&self.rest, Some(Rest::Upload(upload)) if !upload.filling.has_room())
    }

    #[inline]
    fn transfer(&mut self) -> Option<Transfer<'_>> {
        match self.rest.as_mut()? {
            Rest::Upload(upload) => upload.filling.transfer(),
            Rest::Gather(_) => Some(Transfer::Fed),
        }
    }

    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let (used, flow) = match self.rest.take() {
            None => return (0, None),
            Some(Rest::Upload(mut upload)) => {
                let used = upload.filling.fill_from(input);
                if !upload.filling.is_whole() {
                    self.rest = Some(Rest::Upload(upload));
                    return (used, None);
                }
                (used, upload.finish(context, output))
            }
            Some(Rest::Gather(mut gather)) => match gather.feed(input, context, output) {
                Gathered::More => {
                    self.rest = Some(Rest::Gather(gather));
                    return (input.len(), None);
                }
                Gathered::Whole(used) => (used, gather.finish(&mut self.peer, context, output)),
                Gathered::Refused => (0, Flow::Close),
            },
        };
        (used, Some(flow))
    }

    fn abandon(&mut self) {
        self.rest = None;
    }

    fn sender(&self) -> Option<&Login> {
        self.rest.as_ref()?;
        self.asker()
    }

    fn asker(&self) -> Option<&Login> {
        self.peer.under_way.as_ref()
    }

    #[inline]
    fn received_bytes(&self) -> usize {
        match &self.rest {
            Some(Rest::Upload(upload)) => upload.filling.value_bytes(),
            _ => 0,
        }
    }

    fn setup(&self, _state: &State) -> Option<ClientSetup> {
        let is_as_new = self.peer.is_as_new() && self.rest.is_none();
        is_as_new.then(ClientSetup::default)
    }

    fn refuse(&self, refusal: Refusal, context: Context<'_>, output: &mut Output) {
        refuse_connection(refusal, context, output);
    }

    fn time_out(&self, context: Context<'_>, output: &mut Output) -> bool {
        time_out(context, output);
        true
    }

    fn transfer_effect(&self) -> Effect {
        match &self.rest {
            Some(Rest::Gather(gather)) => gather.effect,
            Some(Rest::Upload(_)) | None => Effect::Writes,
        }
    }

    #[inline]
    fn held_bytes(&self) -> usize {
        match &self.rest {
            Some(Rest::Upload(upload)) => upload.held_bytes(),
            Some(Rest::Gather(gather)) => gather.held_bytes(),
            None => 0,
        }
    }
}

/// Takes the next step towards room for a body.
#[cold]
fn make_room(
    mut upload: Box<Upload>,
    request: (&Prepared<'_>, Body),
    context: Context<'_>,
    output: &mut Output,
) -> Result<Rest, Flow> {
    match upload.filling.make_room(context.cache()) {
        Ok(()) => Ok(Rest::Upload(upload)),
        Err(error) => Err(upload.refuse(&error, request, context, output)),
    }
}
