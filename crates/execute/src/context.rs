//! Context: what every execution needs, how a connection continues after one, and what each
//! protocol implements.

use std::sync::Arc;

use cellar_cluster::Cluster;
use cellar_cluster::slot::slot_of;
use cellar_config::limits::{CLIENT_MEMORY_EXCEEDED, PIPELINE_TOO_LARGE};
use cellar_config::protocol::Protocol;
use cellar_engine::{Cache, Deadline, Draft, Instant, Key, Kind};
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::Output;
use cellar_shared::auth::users::{Login, Ticket, Users};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::events::Class;
use cellar_shared::clients::exclusive_lock::{ExclusiveReason, Pass};
use cellar_shared::clients::pause::Effect;
use cellar_shared::clients::waiters::Waiter;
use cellar_shared::observe::counters::Counters;
use cellar_shared::state::State;

use crate::section::{KeySection, Wish};

/// The state that a request is executed with.
#[derive(Clone, Copy)]
pub struct Context<'s> {
    pub(crate) state: &'s State,
    pub(crate) counters: &'s Counters,
    pub(crate) pass: &'s Pass<'s>,
    /// The section on known keys of which the request is a part.
    pub(crate) section: Option<&'s KeySection<'s>>,
}

/// The moment at which a step on several keys runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// That of the event-loop iteration, as for a command on one key.
    Iteration,
    /// The present: for scripts and transactions, which may take long.
    Present,
}

/// How a connection continues after a task, whatever its protocol.
#[derive(Debug)]
pub enum Flow {
    /// With its next request.
    Continue,
    /// Not at all: pending replies are written, then the connection is closed.
    Close,
    /// With the same request once more, when this ticket is settled; nothing was answered.
    Wait(Arc<Ticket>),
    /// With the same bytes once more, in the next iteration of its event loop: they are decoded
    /// differently now, or their request needs preparation first.
    Again,
    /// With the rest of the request, whose bytes are fed to it.
    Feed,
    /// After this many further bytes, which are dropped.
    Skip(usize),
    /// With its next request, after another client has answered this one.
    Park(Arc<Waiter>),
    /// With [`Unfinished::resume`] when the output has drained, and only then with its next
    /// request.
    Unfinished(Box<dyn Unfinished>),
}

/// How the rest of a request is received.
#[derive(Debug)]
pub enum Transfer<'d> {
    /// The next bytes are read straight into this value.
    Direct(&'d mut Draft),
    /// The next bytes are read as requests are, and fed to it.
    Fed,
}

/// Length of what was found at the beginning of the input, if that was whole. A task was handed on
/// unless there was nothing to be done.
pub type Used = Option<usize>;

/// Why a connection is closed that needs more memory than clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// For its pipeline, whose replies it does not read.
    Pipeline,
    /// For one request, or together with the memory of all other clients.
    ClientMemory,
}

impl Refusal {
    /// The error text for the client.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Pipeline => PIPELINE_TOO_LARGE,
            Refusal::ClientMemory => CLIENT_MEMORY_EXCEEDED,
        }
    }

    /// The same as a word for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Refusal::Pipeline => "pipeline_too_large",
            Refusal::ClientMemory => "client_memory_exceeded",
        }
    }
}

/// Takes the task that a decoder has found.
///
/// Decoders hand it over rather than return it: a task is large, and which kind it is they know, so
/// that no more of it is moved than it has. For that, implementations are always inlined.
pub trait Found<'a, T> {
    /// Takes a task.
    fn found(self, ahead: DecodedTask<'a, T>);
}

/// A decoded request, and what the cache is hinted about before it runs.
#[derive(Debug)]
pub struct DecodedTask<'a, T> {
    /// The task.
    pub task: T,
    /// The key that it looks up first, for a prefetch hint.
    pub key: Option<Key<'a>>,
    /// Whether it stores under that key.
    pub stores: bool,
    /// Length of its bytes.
    pub used: usize,
}

impl<'a, T> DecodedTask<'a, T> {
    /// A task without a known key.
    #[inline]
    pub(super) fn keyless(task: T, used: usize) -> DecodedTask<'a, T> {
        DecodedTask {
            task,
            key: None,
            stores: false,
            used,
        }
    }

    /// The same as a task of all protocols'.
    #[inline(always)]
    pub(super) fn map<U>(self, wrap: impl FnOnce(T) -> U) -> DecodedTask<'a, U> {
        DecodedTask {
            task: wrap(self.task),
            key: self.key,
            stores: self.stores,
            used: self.used,
        }
    }
}

/// A reply with more pieces to come.
pub trait Unfinished: std::fmt::Debug + Send {
    /// Appends the next piece.
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow;

    /// Whether a part of the answer may have been appended.
    fn has_begun(&self) -> bool {
        true
    }

    /// Bytes of the request that it still holds.
    fn waiting_bytes(&self) -> usize;

    /// Gets the bytes of its request before it resumes, if they have a buffer of their own; returns
    /// those that it does not take over.
    fn adopt(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        Some(frame)
    }

    /// The request buffer that it has taken over, if it is abandoned.
    fn into_buffer(self: Box<Self>) -> Option<Vec<u8>> {
        None
    }
}

/// The protocol state of a connection, beside its codec: the request in progress, and the client's
/// identity. Each protocol implements it.
pub trait Intake {
    /// Assigns the connection to a user who is known without a password.
    fn become_of(&mut self, login: Login, users: &Users, state: &State);

    /// Whether a login is needed, and is missing.
    fn is_unauthenticated(&self) -> bool;

    /// Whether each request carries its own credentials.
    fn logs_in_each_time(&self) -> bool {
        false
    }

    /// Whether memory is being reserved for the value of a request, whose bytes wait meanwhile.
    fn makes_room(&self) -> bool;

    /// How the rest of a request is received, if one is in progress and has its memory.
    fn transfer(&mut self) -> Option<Transfer<'_>>;

    /// How the request in progress counts for a pause.
    fn transfer_effect(&self) -> Effect {
        Effect::Writes
    }

    /// Passes more bytes to the current request; returns how many were used, and how the connection
    /// continues once the request is whole.
    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>);

    /// Releases the current request.
    fn abandon(&mut self);

    /// The login that sent the current request.
    fn sender(&self) -> Option<&Login>;

    /// The login that sent the last request, whose reply may be incomplete.
    fn asker(&self) -> Option<&Login>;

    /// The bytes that it holds.
    fn held(&self) -> Held;

    /// Whether `input` is known to be no whole request, given that its first `looked_at` bytes
    /// were none. Most decoders remember how far they have looked, or look at little.
    fn is_still_incomplete(&self, _input: &[u8], _looked_at: usize) -> bool {
        false
    }

    /// Whether the value of a request has arrived, but not the rest of that request.
    #[inline]
    fn awaits_tail(&self) -> bool {
        false
    }

    /// The state that another process needs to continue with the connection; none if it cannot.
    fn setup(&self, state: &State) -> Option<ClientSetup>;

    /// Restores the state of a connection from another process; returns whether that is possible.
    fn restore(&mut self, _setup: &ClientSetup, _state: &State) -> bool {
        true
    }

    /// The client as other clients see it; none for protocols without such clients.
    #[inline]
    fn client(&self) -> Option<&Client> {
        None
    }

    /// Sends a client the reason why its connection is about to be closed.
    fn refuse(&self, refusal: Refusal, context: Context<'_>, output: &mut Output);

    /// Sends a client the error that its request took too long, if the protocol has one; returns
    /// whether it was sent.
    fn time_out(&self, _context: Context<'_>, _output: &mut Output) -> bool {
        false
    }

    /// Removes a client that has disconnected. State that takes long to free still counts as client
    /// memory, and is left to [`Intake::take_apart`].
    fn end(&mut self, _state: &State) {}

    /// Frees some of a closed client's state, at most `most` names; returns how many. If it were
    /// fewer, nothing is left.
    fn take_apart(&mut self, _most: usize, _state: &State) -> usize {
        0
    }
}

impl<'s> Context<'s> {
    /// A context that counts into `counters`, which belong to the calling thread, as does the
    /// pass.
    #[inline]
    #[must_use]
    pub fn new(state: &'s State, counters: &'s Counters, pass: &'s Pass<'s>) -> Context<'s> {
        // The request was received before the clock is read here. However late it runs, it counts
        // as executed at this moment, while the lease was valid.
        if let Some(cluster) = &state.cluster {
            let is_leased = cluster.is_leased();
            pass.note_leased(is_leased);
            if !is_leased {
                // A tracking client takes any reply as proof that it got all invalidations.
                state.tell_of_the_leases_end();
            }
        }
        Context {
            state,
            counters,
            pass,
            section: None,
        }
    }

    /// Runs `run` while no other event loop executes and the clock stands still. Nested calls just
    /// run it, as does a section on keys: [`KeySection::cover`] refuses commands in it that would
    /// need this.
    pub(crate) fn exclusively<R>(&self, reason: ExclusiveReason, run: impl FnOnce() -> R) -> R {
        let run = || {
            let _held = self.state.clock.hold();
            run()
        };
        match self.section {
            None => self.pass.exclusively(reason, run),
            Some(_) => run(),
        }
    }

    /// Whether what is executed is part of one step, or the only event loop executes it.
    #[inline]
    pub(crate) fn is_in_step(&self) -> bool {
        self.section.is_some() || self.pass.is_exclusive()
    }

    /// Runs `run` while the clock stands still and no other event loop accesses the shards of some
    /// keys. As part of another step it just runs.
    pub(crate) fn on_keys<R>(
        &self,
        (wish, moment): (&Wish, Moment),
        run: impl FnOnce(Context<'_>) -> R,
    ) -> R {
        let hold = || match moment {
            Moment::Iteration => self.state.clock.hold_still(),
            Moment::Present => self.state.clock.hold(),
        };
        if self.is_in_step() {
            let _held = hold();
            return run(*self);
        }
        let section = KeySection::begin(self.cache(), wish);
        // After the claims: changes by other loops in these shards are earlier.
        let _held = hold();
        run(Context {
            section: Some(&section),
            ..*self
        })
    }

    /// Whether this node serves a key: always without a cluster.
    #[inline]
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        match &self.state.cluster {
            None => true,
            Some(cluster) => self.serves_slot(cluster, slot_of(key)),
        }
    }

    /// Whether this node may serve at all: always, unless it is a cluster node whose lease has
    /// expired.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.pass.is_leased()
    }

    /// Whether this node, if in a cluster, serves a slot.
    #[inline]
    pub(crate) fn serves_slot(&self, cluster: &Cluster, slot: u16) -> bool {
        self.pass.is_leased() && cluster.serves(slot)
    }

    /// The state shared by all event loops.
    #[inline]
    #[must_use]
    pub fn state(&self) -> &'s State {
        self.state
    }

    /// The cache.
    #[inline]
    #[must_use]
    pub fn cache(&self) -> &'s Cache {
        &self.state.cache
    }

    /// The deadline of an item that is stored without a time to live: by `--default-ttl`.
    #[inline]
    pub(crate) fn default_deadline(&self, protocol: Protocol, database: u32) -> Deadline {
        let now = || self.cache().now();
        self.state.default_ttls.deadline(protocol, database, now)
    }

    /// The Unix time of an engine's moment, in seconds.
    pub(crate) fn unix_s(&self, at: Instant) -> u64 {
        self.state.wall.unix_ms(at) / 1000
    }

    /// The hashed key of decoded bytes.
    #[inline]
    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let key = self.state.key(bytes);
        key.expect("a decoded key has 1 to 250 bytes")
    }

    /// A key that was hashed when its request was decoded: an earlier request may have swapped
    /// database 0 with another one.
    #[inline(always)]
    pub(crate) fn key_now<'k>(&self, key: Key<'k>) -> Key<'k> {
        if key.space() == self.state.shared_space() {
            return key;
        }
        self.key(key.bytes())
    }

    /// Publishes a keyspace event if events of its class are.
    #[inline]
    pub(crate) fn notify(&self, class: Class, event: &str, key: Key<'_>) {
        let observer = &self.state.observer;
        if observer.events().has(class)
            && let Some(database) = self.state.databases.database_of(key.space())
        {
            observer.notify(class, event, key.bytes(), database);
        }
    }

    /// The kind of the item that a store is about to replace; none also if no client is notified of
    /// it.
    ///
    /// Another event loop may replace the item in between: then the event names the kind before
    /// that.
    #[inline(always)]
    pub(crate) fn replaced_by_store(&self, key: Key<'_>) -> Option<Kind> {
        if !self.state.observer.events().tells_of_overwrites() {
            return None;
        }
        self.cache().facts(key, |facts| facts.kind)
    }

    /// Publishes that a whole value of a kind was stored over one of the other kind, if there was
    /// one.
    #[inline]
    pub(crate) fn notify_replaced(&self, replaced: Option<Kind>, kind: Kind, key: Key<'_>) {
        let Some(replaced) = replaced else {
            return;
        };
        self.notify(Class::Overwritten, "overwritten", key);
        if replaced != kind {
            self.notify(Class::TypeChanged, "type_changed", key);
        }
    }

    /// Publishes that an item's deadline was set or removed.
    #[inline]
    pub(crate) fn notify_deadline(&self, deadline: Deadline, key: Key<'_>) {
        let is_over = deadline == Deadline::NEVER;
        self.notify(
            Class::Generic,
            if is_over { "persist" } else { "expire" },
            key,
        );
    }
}
