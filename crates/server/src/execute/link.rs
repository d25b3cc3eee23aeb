//! Link: what is spoken on a connection, and what is kept for it.
//!
//! An event loop handles bytes, buffers and turns; what the bytes mean is known here and below.
//! For each protocol there is a variant of [`Link`], of [`Codec`] and of [`Task`], and an
//! implementation of [`Intake`]: `memcached.rs`, `resp.rs`, `http.rs`.
//!
//! ```text
//! Link::codec      before a turn's bytes are looked at
//! Codec::decode    bytes -> tasks, ahead of execution: they know their keys, for hints
//! Link::run        a task in its turn -> a reply, and how it goes on
//! Link::feed       the rest of a request that is too long for one turn
//! Link::settle     what is kept of bytes that are no whole request
//! ```
//!
//! Why: docs/decisions/0032.

use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use cellar_engine::Candidate;
use cellar_protocol::http::Scan;

use super::context::{Context, DecodedTask, Flow, Found, Intake, Used};
use super::filling::Transfer;
use super::{http, memcached, resp};
use crate::clients::client::{Client, Seat};
use crate::clients::pause::Effect;
use crate::config::protocol::Protocol;
use crate::net::listener::{local_address, peer_uid, told_of};
use crate::net::mailbox::Mailbox;
use crate::net::output::Output;
use crate::net::stream::Stream;
use crate::net::tls::owner::Owner;
use crate::state::State;

/// What a connection keeps of its protocol. It dereferences to its [`Intake`]; what an event loop
/// asks of each request is matched and inlined instead, which costs less.
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
    /// As requests over HTTP, of which an incomplete one was looked at so far.
    Http(Scan),
}

/// What one decoded piece of input asks for.
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
    /// The link of a connection that just came from `peer`, as
    /// [`Listener::accept`](crate::net::listener::Listener::accept) has it, and is served at
    /// `home`, an event loop and a token there.
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

    /// Lets in a client who has shown a certificate of this owner, or came by a socket file as this
    /// user of the machine, if either is a user.
    fn log_in_unasked(&mut self, owner: Option<&Arc<Owner>>, uid: Option<u32>, state: &State) {
        let Some(users) = &state.users else {
            return;
        };
        let of_owner = owner.and_then(|owner| users.by_certificate(owner));
        let of_uid = || uid.and_then(|uid| users.by_uid(uid));
        let Some(login) = of_owner.or_else(of_uid) else {
            return;
        };
        self.become_of(login, users, state);
    }

    /// What is spoken.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Link::Memcached(_) => Protocol::Memcached,
            Link::Resp(_) => Protocol::Resp,
            Link::Http(_) => Protocol::Http,
        }
    }

    /// Whether a refused value is answered before it has arrived, as HTTP's clients expect. Clients
    /// of memcached may fail if a reply comes while they write their request.
    #[inline]
    pub(crate) fn answers_early(&self) -> bool {
        matches!(self, Link::Http(_))
    }

    /// How the next bytes are to be decoded.
    #[inline]
    #[must_use]
    pub fn codec(&self, state: &State) -> Codec {
        match self {
            Link::Memcached(intake) => Codec::Memcached(intake.codec()),
            Link::Resp(intake) => Codec::Resp(intake.codec(state)),
            Link::Http(intake) => Codec::Http(intake.scan()),
        }
    }

    /// Does what a task asks for, whose key's item probably lies where a hint has found it; its
    /// replies go to `output`.
    #[inline(always)]
    pub fn run(
        &mut self,
        task: &Task<'_>,
        hinted: Option<Candidate>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match (self, task) {
            (Link::Memcached(intake), Task::Memcached(task)) => {
                intake.run(task, hinted, context, output)
            }
            (Link::Resp(intake), Task::Resp(task)) => intake.run(task, hinted, context, output),
            (Link::Http(intake), Task::Http(task)) => intake.run(task, context, output),
            // Its bytes were decoded for another protocol than is spoken.
            _ => Flow::Again,
        }
    }

    /// What a task is to a pause.
    #[cold]
    #[must_use]
    pub fn effect(&self, task: &Task<'_>, context: Context<'_>) -> Effect {
        match (self, task) {
            (_, Task::Memcached(task)) => task.effect(),
            (_, Task::Http(task)) => task.effect(),
            (Link::Resp(intake), Task::Resp(task)) => intake.effect(task, context),
            // Its bytes are decoded once more.
            (_, Task::Resp(_)) => Effect::None,
        }
    }

    /// Whether memory is being reserved for the value of a request, whose bytes wait meanwhile.
    #[inline]
    #[must_use]
    pub fn makes_room(&self) -> bool {
        each!(self, intake => intake.makes_room())
    }

    /// How the rest of a request comes in, if one is under way and there is memory for it.
    #[inline]
    pub fn transfer(&mut self) -> Option<Transfer<'_>> {
        each!(self, intake => intake.transfer())
    }

    /// The client as others see it; none where nobody does.
    #[inline]
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        each!(self, intake => intake.client())
    }

    /// Whether the value of a request has come, and more of that request has not.
    #[inline]
    #[must_use]
    pub fn awaits_tail(&self) -> bool {
        each!(self, intake => intake.awaits_tail())
    }

    /// Bytes of the cache's memory that the request under way holds.
    #[inline]
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        each!(self, intake => intake.received_bytes())
    }

    /// Bytes of the heap that it holds.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        each!(self, intake => intake.held_bytes())
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

    /// Whether the request whose rest is received was begun by a user who is gone since, or may do
    /// something else.
    #[must_use]
    pub fn has_lost_sender(&self, state: &State) -> bool {
        let Some(users) = &state.users else {
            return false;
        };
        self.sender().is_some_and(|login| !users.has_still(login))
    }

    /// The same of the request whose answer goes on.
    #[must_use]
    pub fn has_lost_asker(&self, state: &State) -> bool {
        let Some(users) = &state.users else {
            return false;
        };
        self.asker().is_some_and(|login| !users.has_still(login))
    }

    /// Notes that a turn is over, and whether it left an incomplete request that `codec` has
    /// looked at.
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
