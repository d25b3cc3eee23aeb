//! Link: what is spoken on a connection, and what is kept for it.
//!
//! An event loop handles bytes, buffers and turns; what the bytes mean is known here and below.
//! For each protocol there is a variant of [`Link`], of [`Codec`] and of [`Task`], and a room that
//! does the work: `memcached/intake.rs`, `resp/intake.rs`, `http/intake.rs`.
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

use std::os::fd::AsRawFd;
use std::sync::Arc;

use cellar_protocol::http::Scan;
use cellar_protocol::memcached::Limits as TextLimits;

use super::context::{Context, DecodedTask, Flow, Refusal, Used};
use super::filling::Transfer;
use super::memcached::intake::Dialect;
use super::{http, memcached, resp};
use crate::clients::client::{Client, Seat};
use crate::clients::pause::Effect;
use crate::config::protocol::Protocol;
use crate::net::listener::{local_address, peer_uid, told_of};
use crate::net::mailbox::{ClientSetup, Mailbox};
use crate::net::output::Output;
use crate::net::stream::Stream;
use crate::net::tls::owner::Owner;
use crate::state::State;

/// What a connection keeps of its protocol.
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
    Memcached(&'static TextLimits),
    /// As those of its binary protocol.
    MemcachedBinary,
    /// As either, by the first byte of a connection.
    MemcachedFirst(&'static TextLimits),
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

impl Codec {
    /// The protocol that it decodes.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Codec::Memcached(_) | Codec::MemcachedBinary | Codec::MemcachedFirst(_) => {
                Protocol::Memcached
            }
            Codec::Resp(_) => Protocol::Resp,
            Codec::Http(_) => Protocol::Http,
        }
    }

    /// Hands the first task in `input` to `found`.
    #[inline]
    pub fn decode<'a>(
        &mut self,
        input: &'a [u8],
        state: &State,
        found: impl FnOnce(DecodedTask<'a, Task<'a>>),
    ) -> Used {
        if let Codec::MemcachedFirst(limits) = *self {
            *self = Codec::of_first(input, limits)?;
        }
        match self {
            Codec::Memcached(limits) => {
                let found = |ahead: DecodedTask<'a, _>| found(ahead.map(Task::Memcached));
                memcached::intake::decode(input, limits, state, found)
            }
            Codec::Resp(codec) => {
                let found = |ahead: DecodedTask<'a, _>| found(ahead.map(Task::Resp));
                codec.decode(input, &state.cache, found)
            }
            Codec::Http(scan) => {
                let found = |ahead: DecodedTask<'a, _>| found(ahead.map(Task::Http));
                http::intake::decode(input, scan, state, found)
            }
            Codec::MemcachedBinary => {
                let found = |ahead: DecodedTask<'a, _>| found(ahead.map(Task::Memcached));
                memcached::intake::decode_packet(input, state, found)
            }
            Codec::MemcachedFirst(_) => None,
        }
    }

    /// Decides what a connection speaks, which it does from then on.
    #[cold]
    fn of_first(input: &[u8], limits: &'static TextLimits) -> Option<Codec> {
        match Dialect::of(input) {
            Dialect::Unknown => None,
            Dialect::Text => Some(Codec::Memcached(limits)),
            Dialect::Binary => Some(Codec::MemcachedBinary),
        }
    }
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
            Protocol::Http => Link::Http(http::Intake::new(&told, state)),
        };
        if let Link::Http(intake) = &mut link
            && stream.is_encrypted()
        {
            intake.note_tls();
        }
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
        match self {
            Link::Memcached(intake) => intake.become_of(users.identity_of(login)),
            Link::Resp(intake) => intake.become_of(login, users, state),
            Link::Http(intake) => intake.become_of(users.identity_of(login)),
        }
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

    /// How the next bytes are to be decoded.
    #[inline]
    #[must_use]
    pub fn codec(&self, state: &State) -> Codec {
        match self {
            Link::Memcached(intake) => match intake.dialect() {
                Dialect::Text => Codec::Memcached(intake.limits()),
                Dialect::Binary => Codec::MemcachedBinary,
                Dialect::Unknown => Codec::MemcachedFirst(intake.limits()),
            },
            Link::Resp(intake) => Codec::Resp(intake.codec(state)),
            Link::Http(intake) => Codec::Http(intake.scan()),
        }
    }

    /// Does what a task asks for; its replies go to `output`.
    #[inline]
    pub fn run(&mut self, task: &Task<'_>, context: Context<'_>, output: &mut Output) -> Flow {
        match (self, task) {
            (Link::Memcached(intake), Task::Memcached(task)) => intake.run(task, context, output),
            (Link::Resp(intake), Task::Resp(task)) => intake.run(task, context, output),
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

    /// What the request under way is to a pause.
    #[must_use]
    pub fn transfer_effect(&self) -> Effect {
        match self {
            Link::Memcached(_) | Link::Resp(_) => Effect::Writes,
            Link::Http(intake) => intake.transfer_effect(),
        }
    }

    /// Whether room is being made for the value of a request, whose bytes wait meanwhile.
    #[inline]
    #[must_use]
    pub fn makes_room(&self) -> bool {
        match self {
            Link::Memcached(intake) => intake.makes_room(),
            Link::Resp(intake) => intake.makes_room(),
            Link::Http(intake) => intake.makes_room(),
        }
    }

    /// How the rest of a request comes in, if one is under way and there is room for it.
    #[inline]
    pub fn transfer(&mut self) -> Option<Transfer<'_>> {
        match self {
            Link::Memcached(intake) => intake.transfer(),
            Link::Resp(intake) => intake.transfer(),
            Link::Http(intake) => intake.transfer(),
        }
    }

    /// Hands on more of the request under way; how many bytes were used, and how the connection
    /// goes on once the request is whole.
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
        match self {
            Link::Memcached(intake) => intake.feed(input, context, output),
            Link::Resp(intake) => intake.feed(input, context, output),
            Link::Http(intake) => intake.feed(input, context, output),
        }
    }

    /// Whether the request whose rest is received was begun by a user who is gone since, or may do
    /// something else.
    #[must_use]
    pub fn has_lost_sender(&self, state: &State) -> bool {
        let Some(users) = &state.users else {
            return false;
        };
        let sender = match self {
            Link::Memcached(intake) => intake.sender(),
            Link::Resp(intake) => intake.sender(),
            Link::Http(intake) => intake.sender(),
        };
        sender.is_some_and(|login| !users.has_still(login))
    }

    /// The same of the request whose answer goes on.
    #[must_use]
    pub fn has_lost_asker(&self, state: &State) -> bool {
        let Some(users) = &state.users else {
            return false;
        };
        let asker = match self {
            Link::Memcached(intake) => intake.asker(),
            Link::Resp(intake) => intake.asker(),
            Link::Http(intake) => intake.asker(),
        };
        asker.is_some_and(|login| !users.has_still(login))
    }

    /// Lets go of the request under way.
    pub fn abandon(&mut self) {
        match self {
            Link::Memcached(intake) => intake.abandon(),
            Link::Resp(intake) => intake.abandon(),
            Link::Http(intake) => intake.abandon(),
        }
    }

    /// Notes that a turn is over, and whether it left an incomplete request that `codec` has
    /// looked at.
    #[inline]
    pub fn settle(&mut self, codec: &Codec, is_incomplete: bool, now_ms: u64) {
        match (self, codec) {
            (Link::Resp(intake), Codec::Resp(codec)) => {
                intake.client().note_active(now_ms);
                intake.keep(codec, is_incomplete);
            }
            (Link::Http(intake), Codec::Http(scan)) => intake.keep(*scan, is_incomplete),
            (Link::Memcached(intake), Codec::Memcached(_)) => intake.keep(Dialect::Text),
            (Link::Memcached(intake), Codec::MemcachedBinary) => intake.keep(Dialect::Binary),
            _ => {}
        }
    }

    /// Whether `input` is known to be no whole request, given that its first `looked_at` bytes
    /// were none.
    #[must_use]
    pub fn is_still_incomplete(&self, input: &[u8], looked_at: usize) -> bool {
        match self {
            Link::Memcached(intake) if intake.dialect() == Dialect::Text => {
                intake.is_still_incomplete(input, looked_at)
            }
            // Their decoders remember how far they have looked, or look at little.
            Link::Memcached(_) | Link::Resp(_) | Link::Http(_) => false,
        }
    }

    /// Whether a request is half done: its value has come, more of it has not.
    #[inline]
    #[must_use]
    pub fn awaits_tail(&self) -> bool {
        match self {
            Link::Resp(intake) => intake.awaits_tail(),
            Link::Memcached(_) | Link::Http(_) => false,
        }
    }

    /// Whether a login is needed, and there was none.
    #[inline]
    #[must_use]
    pub fn is_unauthenticated(&self) -> bool {
        match self {
            Link::Memcached(intake) => intake.is_unauthenticated(),
            Link::Resp(intake) => intake.is_unauthenticated(),
            Link::Http(intake) => intake.is_unauthenticated(),
        }
    }

    /// What another process has to know to go on with the connection; none if it cannot.
    #[must_use]
    pub fn setup(&self, state: &State) -> Option<ClientSetup> {
        let is_as_new = match self {
            Link::Memcached(intake) => intake.is_as_new(),
            Link::Resp(intake) => return intake.setup(state),
            Link::Http(intake) => intake.is_as_new(),
        };
        is_as_new.then(ClientSetup::default)
    }

    /// Has a connection that just came be as it was in another process; whether it can.
    #[must_use]
    pub fn restore(&mut self, setup: &ClientSetup, state: &State) -> bool {
        match self {
            Link::Resp(intake) => intake.restore(setup, state),
            Link::Memcached(_) | Link::Http(_) => true,
        }
    }

    /// The client as others see it; none where nobody does.
    #[inline]
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        match self {
            Link::Resp(intake) => Some(intake.client()),
            Link::Memcached(_) | Link::Http(_) => None,
        }
    }

    /// Bytes of the cache's memory that the request under way holds.
    #[inline]
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        match self {
            Link::Memcached(intake) => intake.received_bytes(),
            Link::Resp(intake) => intake.received_bytes(),
            Link::Http(intake) => intake.received_bytes(),
        }
    }

    /// Bytes of other memory that it holds.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Link::Memcached(_) => 0,
            Link::Resp(intake) => intake.held_bytes(),
            Link::Http(intake) => intake.held_bytes(),
        }
    }

    /// Tells a client why its connection is about to be closed.
    pub fn refuse(&self, refusal: Refusal, context: Context<'_>, output: &mut Output) {
        match self {
            Link::Memcached(intake) => intake.refuse(refusal.text(), output),
            Link::Resp(_) => {
                let text = format!("-ERR {}\r\n", refusal.text());
                output.bytes().extend_from_slice(text.as_bytes());
            }
            Link::Http(_) => http::refuse_connection(refusal, context, output),
        }
    }

    /// Tells a client that its request took too long to come, where that can be told; whether it
    /// was.
    pub fn time_out(&self, context: Context<'_>, output: &mut Output) -> bool {
        match self {
            Link::Http(_) => {
                http::time_out(context, output);
                true
            }
            Link::Memcached(_) | Link::Resp(_) => false,
        }
    }

    /// Forgets a client that is gone. What takes long to be taken apart still counts as held; it is
    /// left to [`Link::take_apart`].
    pub fn end(&mut self, state: &State) {
        match self {
            Link::Resp(intake) => intake.end(state),
            Link::Memcached(_) | Link::Http(_) => {}
        }
    }

    /// Takes apart some of what a client has left behind, at most so many names; how many it were.
    /// If it were fewer, nothing is left.
    pub fn take_apart(&mut self, most: usize, state: &State) -> usize {
        match self {
            Link::Resp(intake) => intake.take_apart(most, state),
            Link::Memcached(_) | Link::Http(_) => 0,
        }
    }
}
