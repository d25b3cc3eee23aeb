//! Link: the protocol of a connection, and its state.
//!
//! An event loop handles bytes, buffers and iterations; this module and those below interpret the
//! bytes. Each protocol has a variant of [`Link`], of [`Codec`] and of [`Task`], and an
//! implementation of [`Intake`]: `memcached.rs`, `resp.rs`, `http.rs`.
//!
//! ```text
//! Link::codec      before the bytes of an iteration are decoded
//! Codec::decode    bytes -> tasks, ahead of execution: they know their keys, for hints
//! Link::run        executes a task -> a reply, and how the connection continues
//! Link::feed       the rest of a request that is too long for one iteration
//! Link::settle     keeps the state of an incomplete request
//! ```
//!
//! Why: docs/decisions/0032.

use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_engine::Candidate;
use cellar_net::listener::{local_address, peer_uid, told_of};
use cellar_net::mailbox::Mailbox;
use cellar_net::output::Output;
use cellar_net::stream::Stream;
use cellar_net::tls::owner::Owner;
use cellar_protocol::http::Scan;
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::client::{Client, Seat};
use cellar_shared::clients::pause::Effect;
use cellar_shared::state::State;

use super::context::{Context, DecodedTask, Flow, Found, Intake, Transfer, Used};
use super::{http, memcached, resp};

/// The protocol state of a connection. It dereferences to its [`Intake`]; the calls that an event
/// loop makes per request are matched and inlined instead, which costs less.
#[derive(Debug)]
pub enum Link {
    /// memcached's text and meta commands, or its binary protocol.
    Memcached(memcached::Intake),
    /// RESP, Redis's protocol.
    Resp(Box<resp::Intake>),
    /// HTTP/1.1 and 1.0.
    Http(http::Intake),
}

/// How the bytes of a connection are decoded, as long as none of its tasks is run.
#[derive(Clone, Copy, Debug)]
pub enum Codec {
    /// As memcached's requests.
    Memcached(memcached::Codec),
    /// As Redis's.
    Resp(resp::Codec),
    /// As HTTP requests, of which an incomplete one was scanned so far.
    Http(Scan),
}

/// A decoded piece of input.
#[derive(Debug)]
pub enum Task<'a> {
    /// Of memcached.
    Memcached(memcached::Task<'a>),
    /// Of Redis.
    Resp(resp::Task<'a>),
    /// Of HTTP.
    Http(http::Task<'a>),
}

/// Evaluates an expression of a link's intake, whichever protocol it implements.
macro_rules! each {
    ($link:expr, $intake:ident => $done:expr) => {
        match $link {
            Link::Memcached($intake) => $done,
            Link::Resp($intake) => $done,
            Link::Http($intake) => $done,
        }
    };
}

impl Codec {
    /// The protocol that it decodes.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Codec::Memcached(_) => Protocol::Memcached,
            Codec::Resp(_) => Protocol::Resp,
            Codec::Http(_) => Protocol::Http,
        }
    }

    /// Hands the first task in `input` to `found`.
    #[inline(always)]
    pub fn decode<'a>(
        &mut self,
        input: &'a [u8],
        state: &State,
        found: impl Found<'a, Task<'a>>,
    ) -> Used {
        match self {
            Codec::Memcached(codec) => codec.decode(input, state, AsTask(found)),
            Codec::Resp(codec) => codec.decode(input, &state.cache, AsTask(found)),
            Codec::Http(scan) => http::decode(input, scan, state, AsTask(found)),
        }
    }
}

/// Takes a task of one protocol as one of all protocols'.
struct AsTask<F>(F);

impl<'a, T, F: Found<'a, Task<'a>>> Found<'a, T> for AsTask<F>
where
    Task<'a>: From<T>,
{
    #[inline(always)]
    fn found(self, ahead: DecodedTask<'a, T>) {
        self.0.found(ahead.map(Task::from));
    }
}

/// Makes tasks of a protocol tasks of all.
macro_rules! task_of {
    ($($protocol:ident: $module:ident;)*) => {
        $(impl<'a> From<$module::Task<'a>> for Task<'a> {
            #[inline(always)]
            fn from(task: $module::Task<'a>) -> Task<'a> {
                Task::$protocol(task)
            }
        })*
    };
}

task_of! {
    Memcached: memcached;
    Resp: resp;
    Http: http;
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once, as the usual requests.
    #[inline]
    #[must_use]
    pub fn is_quick(&self) -> bool {
        match self {
            Task::Memcached(task) => task.is_quick(),
            Task::Resp(task) => task.is_quick(),
            Task::Http(_) => false,
        }
    }

    /// Whether the time of one that is not quick depends on more than its own bytes.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        match self {
            Task::Memcached(_) => true,
            Task::Resp(task) => task.is_heavy(),
            Task::Http(task) => task.is_heavy(),
        }
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    #[must_use]
    pub fn ends_decoding(&self) -> bool {
        match self {
            Task::Memcached(task) => task.ends_decoding(),
            Task::Resp(task) => task.ends_decoding(),
            Task::Http(task) => task.ends_decoding(),
        }
    }
}

impl Link {
    /// Creates the link of a new connection from `peer`, with the address as
    /// [`Listener::accept`](cellar_net::listener::Listener::accept) returns it, served at `home`,
    /// an event loop and a token there.
    #[must_use]
    pub fn new(
        protocol: Protocol,
        (peer, stream): (String, &Stream),
        home: (Arc<Vec<Mailbox>>, usize, u64),
        now_ms: u64,
        state: &State,
    ) -> Link {
        let (uid, owner) = (peer_uid(stream), stream.owner());
        let told = told_of(&peer, uid);
        let mut link = match protocol {
            Protocol::Memcached => Link::Memcached(memcached::Intake::new(&told, state)),
            Protocol::Resp => {
                let seat = Seat {
                    peer,
                    local: local_address(stream),
                    file: stream.as_raw_fd(),
                    uid,
                    is_tls: stream.is_encrypted(),
                    owner: owner.clone(),
                };
                let client = state.clients.add(seat, Some(home), now_ms);
                Link::Resp(Box::new(resp::Intake::new(client, state)))
            }
            Protocol::Http => Link::Http(http::Intake::new(&told, stream.is_encrypted(), state)),
        };
        link.log_in_unasked(owner.as_ref(), uid, state);
        link
    }

    /// Logs in a client by its certificate's owner, or by its Unix user ID on a Unix socket, if a
    /// user is configured for either.
    fn log_in_unasked(&mut self, owner: Option<&Arc<Owner>>, uid: Option<u32>, state: &State) {
        let Some(users) = &state.access.users else {
            return;
        };
        let of_owner = owner.and_then(|owner| users.by_certificate(owner));
        let of_uid = || uid.and_then(|uid| users.by_uid(uid));
        let Some(login) = of_owner.or_else(of_uid) else {
            return;
        };
        self.become_of(login, users, state);
    }

    /// The protocol.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Link::Memcached(_) => Protocol::Memcached,
            Link::Resp(_) => Protocol::Resp,
            Link::Http(_) => Protocol::Http,
        }
    }

    /// Whether a refused value is answered before it has arrived, as HTTP clients expect. memcached
    /// clients may fail if a reply arrives while they send their request.
    #[inline]
    pub fn answers_early(&self) -> bool {
        matches!(self, Link::Http(_))
    }

    /// The codec for the next bytes.
    #[inline]
    #[must_use]
    pub fn codec(&self, state: &State) -> Codec {
        match self {
            Link::Memcached(intake) => Codec::Memcached(intake.codec()),
            Link::Resp(intake) => Codec::Resp(intake.codec(state)),
            Link::Http(intake) => Codec::Http(intake.scan()),
        }
    }

    /// Runs a task, with the probable position of its key's item from a hint; its replies go to
    /// `output`.
    #[inline(always)]
    pub fn run(
        &mut self,
        task: &Task<'_>,
        hinted: Option<Candidate>,
        context: &Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match (self, task) {
            (Link::Memcached(intake), Task::Memcached(task)) => {
                intake.run(task, hinted, context, output)
            }
            (Link::Resp(intake), Task::Resp(task)) => intake.run(task, hinted, context, output),
            (Link::Http(intake), Task::Http(task)) => intake.run(task, hinted, *context, output),
            // Its bytes were decoded for another protocol than the connection's.
            _ => Flow::Again,
        }
    }

    /// How a task counts for a pause.
    #[cold]
    #[must_use]
    pub fn effect(&self, task: &Task<'_>, context: Context<'_>) -> Effect {
        match (self, task) {
            (_, Task::Memcached(task)) => task.effect(),
            (_, Task::Http(task)) => task.effect(),
            (Link::Resp(intake), Task::Resp(task)) => intake.effect(task, context),
            // Its bytes are decoded again.
            (_, Task::Resp(_)) => Effect::None,
        }
    }

    /// Whether memory is being reserved for the value of a request, whose bytes wait meanwhile.
    #[inline]
    #[must_use]
    pub fn makes_room(&self) -> bool {
        each!(self, intake => intake.makes_room())
    }

    /// How the rest of a request is received, if one is in progress and has its memory.
    #[inline]
    pub fn transfer(&mut self) -> Option<Transfer<'_>> {
        each!(self, intake => intake.transfer())
    }

    /// The client as other clients see it; none for protocols without such clients.
    #[inline]
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        each!(self, intake => intake.client())
    }

    /// Whether the value of a request has arrived, but not the rest of that request.
    #[inline]
    #[must_use]
    pub fn awaits_tail(&self) -> bool {
        each!(self, intake => intake.awaits_tail())
    }

    /// The bytes that the state of the protocol holds.
    #[inline]
    #[must_use]
    pub fn held(&self) -> Held {
        each!(self, intake => intake.held())
    }

    /// As [`Intake::feed`], unless the client's user may no longer send it.
    pub fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        if self.has_lost_sender(context.state) {
            self.abandon();
            return (input.len(), Some(Flow::Close));
        }
        each!(self, intake => intake.feed(input, context, output))
    }

    /// Whether the user who sent the request being received was deleted since, or has lost
    /// permissions.
    #[must_use]
    pub fn has_lost_sender(&self, state: &State) -> bool {
        let Some(users) = &state.access.users else {
            return false;
        };
        self.sender().is_some_and(|login| !users.has_still(login))
    }

    /// The same for the request whose reply resumes.
    #[must_use]
    pub fn has_lost_asker(&self, state: &State) -> bool {
        let Some(users) = &state.access.users else {
            return false;
        };
        self.asker().is_some_and(|login| !users.has_still(login))
    }

    /// Ends an iteration: records whether it left an incomplete request that `codec` has scanned.
    #[inline]
    pub fn settle(&mut self, codec: &Codec, is_incomplete: bool, now_ms: u64) {
        match (self, codec) {
            (Link::Resp(intake), Codec::Resp(codec)) => {
                intake.keep(codec, is_incomplete, now_ms);
            }
            (Link::Http(intake), Codec::Http(scan)) => intake.keep(*scan, is_incomplete),
            (Link::Memcached(intake), Codec::Memcached(codec)) => intake.keep(codec),
            _ => {}
        }
    }
}

impl Deref for Link {
    type Target = dyn Intake;

    fn deref(&self) -> &Self::Target {
        match self {
            Link::Memcached(intake) => intake,
            Link::Resp(intake) => &**intake,
            Link::Http(intake) => intake,
        }
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Link::Memcached(intake) => intake,
            Link::Resp(intake) => &mut **intake,
            Link::Http(intake) => intake,
        }
    }
}
