//! Client: a connection as other connections see it: listed, named, notified, killed.
//!
//! A thread that sends something to a client of another event loop puts it into the client's inbox
//! and wakes that loop, which appends it to the replies when no reply is half written. The inbox is
//! bounded: a client that does not read is disconnected before it uses up the server's memory.
//!
//! Tests: at the end of this file; server/tests/resp.rs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use cellar_net::listener::told_of;
use cellar_net::mailbox::Mailbox;
use cellar_net::tls::owner::Owner;
use cellar_protocol::resp::command::TABLE;
use cellar_protocol::resp::{Command, Proto, Verb};
use parking_lot::{Mutex, MutexGuard};

use crate::auth::users::Login;
use crate::clients::budget::Budget;

/// Facts that the client has declared.
#[derive(Clone, Debug, Default)]
pub struct ClientFacts {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
    /// Its login; none before it has logged in, and without users.
    pub login: Option<Login>,
}

impl ClientFacts {
    /// The name of the connection's user.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<str>> {
        self.login.as_ref().map(|login| &login.user().name)
    }
}

/// The addresses and identity of a client's connection.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// The peer's address.
    pub peer: String,
    /// The local address that it connected to.
    pub local: String,
    /// The number of its socket's file descriptor.
    pub file: i32,
    /// The user ID that it runs as, if it connected to a Unix socket.
    pub uid: Option<u32>,
    /// Whether it uses TLS.
    pub is_tls: bool,
    /// The owner of its client certificate, if it has presented one.
    pub owner: Option<Arc<Owner>>,
}

impl Seat {
    /// Its origin, as logged.
    #[must_use]
    pub fn told(&self) -> String {
        told_of(&self.peer, self.uid)
    }
}

/// How many of something a client has, for listings.
#[derive(Debug)]
pub struct Counts {
    /// Subscriptions to channels.
    // Relaxed, like the next four: facts for listings.
    pub channels: AtomicUsize,
    /// Subscriptions to patterns.
    // Relaxed: see above.
    pub patterns: AtomicUsize,
    /// Subscriptions to channels of shards.
    // Relaxed: see above.
    pub shards: AtomicUsize,
    /// Watched keys.
    // Relaxed: see above.
    pub watched: AtomicUsize,
    /// Commands in its transaction; -1 outside of one.
    // Relaxed: see above.
    pub queued: AtomicI64,
    /// Whether its command waits for a value.
    // Relaxed: a fact for listings.
    pub waits: AtomicBool,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            channels: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            shards: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            waits: AtomicBool::new(false),
        }
    }
}

/// Bytes sent and received on a connection; only its own loop updates them.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes that it has sent.
    // Relaxed, like the next two: facts for listings.
    received_bytes: AtomicU64,
    /// Bytes that it was sent.
    // Relaxed: see above.
    sent_bytes: AtomicU64,
    /// Commands that it has sent.
    // Relaxed: see above.
    commands: AtomicU64,
}

impl Traffic {
    /// Counts bytes received from the client.
    #[inline]
    pub fn note_received(&self, bytes: usize) {
        add(&self.received_bytes, bytes as u64);
    }

    /// Counts bytes sent to the client.
    #[inline]
    pub fn note_sent(&self, bytes: usize) {
        add(&self.sent_bytes, bytes as u64);
    }

    /// Bytes that it has sent, bytes that it was sent, and its commands.
    #[must_use]
    pub fn totals(&self) -> [u64; 3] {
        let counts = [&self.received_bytes, &self.sent_bytes, &self.commands];
        counts.map(|count| count.load(Ordering::Relaxed))
    }
}

/// Adds to a counter that only one thread writes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    // Relaxed: no other thread writes it.
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(more), Ordering::Relaxed);
}

/// How a client's keys are tracked; see [`Tracking`](crate::clients::tracking::Tracking).
#[derive(Debug, Default)]
pub struct Tracker {
    /// Bits of [`Mode`](crate::clients::tracking::Mode).
    // Relaxed: a client's own thread sets it before it registers anything.
    pub mode: AtomicU32,
    /// The client that receives its invalidations; none for itself.
    pub redirect: Mutex<Option<Redirect>>,
}

/// The target of a client's invalidations, valid while it belongs to the same user.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// The client.
    pub target: Arc<Client>,
    /// The target's number of user changes when it was named.
    owners: u64,
}

impl Redirect {
    /// Redirects to a client, while it keeps its current user.
    #[must_use]
    pub fn to(target: Arc<Client>) -> Redirect {
        let owners = target.owners();
        Redirect { target, owners }
    }

    /// Whether it is invalid: the target has disconnected, or belongs to another user.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.target.is_gone() || self.target.owners() != self.owners
    }
}

/// Messages queued for a client.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    /// Whether the loop was woken for the messages.
    called: bool,
    overflown: bool,
    /// The bytes taken for it from the budget.
    taken_bytes: usize,
}

/// The contents of an inbox, as its event loop finds them.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// These bytes, perhaps none.
    Bytes(Vec<u8>),
    /// The client has to be disconnected: it did not read, or was killed.
    Drop,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its number, never used twice.
    pub id: u64,
    /// Its addresses and identity.
    pub seat: Seat,
    /// When it connected, in engine milliseconds.
    pub since_ms: u64,
    /// When it last sent a command.
    // Relaxed: a fact for listings.
    pub active_ms: AtomicU64,
    /// The number of its database.
    // Relaxed: a fact for listings; its own loop keeps the number itself.
    pub database: AtomicU32,
    /// 2 or 3.
    // Relaxed: it orders nothing; its own loop alone changes it.
    pub protocol: AtomicU32,
    /// Numbers of its subscriptions, watched keys and the like.
    pub counts: Counts,
    /// Bytes sent and received.
    pub traffic: Traffic,
    /// How its keys are tracked.
    pub tracker: Tracker,
    /// How often its user has changed, to another one or to none.
    // Relaxed: a reader of the old number notifies of an earlier change, which the former user may
    // see.
    owners: AtomicU64,
    /// Its options: CLIENT NO-EVICT, CLIENT NO-TOUCH, and notifications of lost slots.
    // Relaxed: wishes that order nothing.
    pub wishes: [AtomicBool; 3],
    /// Whether it has declared that it follows redirections.
    // Relaxed: a fact for listings.
    pub follows_redirects: AtomicBool,
    /// The last command that it sent: its index in [`Verb`], plus one.
    // Relaxed: a fact for listings.
    command: AtomicUsize,
    // Relaxed: a fact for listings.
    is_monitor: AtomicBool,
    facts: Mutex<ClientFacts>,
    inbox: Mutex<Inbox>,
    // Relaxed: a request; the wake-up of the mailbox, which follows, orders the loop's reaction.
    is_killed: AtomicBool,
    // Relaxed: set under the inbox's lock, which orders it before whatever is put there.
    is_gone: AtomicBool,
    /// Its event loop's mailbox and its token there; a client without is only in tests.
    home: Option<(Arc<Vec<Mailbox>>, usize, u64)>,
    budget: Arc<Budget>,
    /// Bytes that its connection holds beside the inbox, for listings.
    // Relaxed: a fact for listings.
    held_bytes: AtomicUsize,
}

impl Client {
    /// Facts that it has declared.
    pub fn facts(&self) -> MutexGuard<'_, ClientFacts> {
        self.facts.lock()
    }

    /// The version of the protocol that it speaks.
    #[must_use]
    pub fn proto(&self) -> Proto {
        if self.protocol.load(Ordering::Relaxed) == 3 {
            Proto::V3
        } else {
            Proto::V2
        }
    }

    /// Whether it has subscriptions.
    #[must_use]
    pub fn is_subscriber(&self) -> bool {
        let Counts {
            channels,
            patterns,
            shards,
            ..
        } = &self.counts;
        let counts = [channels, patterns, shards];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Whether it watches keys.
    #[must_use]
    pub fn watches(&self) -> bool {
        // Relaxed: a fact for listings.
        self.counts.watched.load(Ordering::Relaxed) > 0
    }

    /// Records that it belongs to another user from now on, or to none.
    pub fn note_other_owner(&self) {
        // Relaxed: as it says where it is declared.
        self.owners.fetch_add(1, Ordering::Relaxed);
    }

    fn owners(&self) -> u64 {
        // Relaxed: as it says where it is declared.
        self.owners.load(Ordering::Relaxed)
    }

    /// Records whether it runs MONITOR.
    pub fn note_monitor(&self, is_one: bool) {
        // Relaxed: a fact for listings.
        self.is_monitor.store(is_one, Ordering::Relaxed);
    }

    /// Whether it runs MONITOR.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        self.is_monitor.load(Ordering::Relaxed)
    }

    /// Records that it is active now.
    #[inline]
    pub fn note_active(&self, now_ms: u64) {
        // Relaxed: a fact for listings.
        self.active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records its command.
    #[inline]
    pub fn note_command(&self, verb: Verb) {
        self.note_last_command(verb);
        add(&self.traffic.commands, 1);
    }

    /// Records which of a request's commands the listings show.
    #[inline]
    pub fn note_last_command(&self, verb: Verb) {
        // Relaxed: a fact for listings.
        self.command.store(verb as usize + 1, Ordering::Relaxed);
    }

    /// Its last command, as listings show it.
    #[must_use]
    pub fn command(&self) -> String {
        let number = self.command.load(Ordering::Relaxed).checked_sub(1);
        let name = number.and_then(command_name);
        name.unwrap_or_else(|| "NULL".to_owned())
    }

    /// Whether its connection has ended or is about to.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || self.is_killed.load(Ordering::Relaxed)
    }

    /// Records that its connection has ended: nothing is queued for it any more.
    pub fn end(&self) {
        let mut inbox = self.inbox.lock();
        self.is_gone.store(true, Ordering::Relaxed);
        inbox.bytes = Vec::new();
        self.settle(&mut inbox);
    }

    /// Puts bytes into the inbox and wakes the event loop; returns whether the client will get
    /// them. Its connection is closed if its inbox, or all together, exceed
    /// [`Budget::inbox_bytes_max`].
    ///
    /// `append` writes whole messages in the client's protocol version.
    pub fn push(&self, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.overflown || self.is_gone() {
            return false;
        }
        append(&mut inbox.bytes);
        // Relaxed: a fact for listings, close enough for a bound.
        let waiting_bytes = self.held_bytes.load(Ordering::Relaxed) + inbox.bytes.len();
        self.budget.note_unread(waiting_bytes);
        if waiting_bytes > self.budget.inbox_bytes_max() || !self.settle(&mut inbox) {
            inbox.overflown = true;
            inbox.bytes = Vec::new();
            self.settle(&mut inbox);
        }
        if !std::mem::replace(&mut inbox.called, true) {
            self.call();
        }
        !inbox.overflown
    }

    /// Makes the event loop close the connection.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        self.call();
    }

    /// Makes the whole server finish received requests, and stop.
    pub fn stop_server(&self) {
        if let Some((mailboxes, ..)) = &self.home {
            Mailbox::drain(mailboxes);
        }
    }

    /// Makes all event loops check whether paused requests may resume.
    pub fn wake_loops(&self) {
        if let Some((mailboxes, ..)) = &self.home {
            mailboxes.iter().for_each(|mailbox| mailbox.waker.wake());
        }
    }

    /// Whether it has to be closed at once, even with a reply half written.
    pub fn is_overdue(&self) -> bool {
        self.inbox.lock().overflown || self.is_killed.load(Ordering::Relaxed)
    }

    /// Takes the growth of the inbox from the budget, or returns bytes; returns whether enough were
    /// left.
    fn settle(&self, inbox: &mut Inbox) -> bool {
        let (before, after) = (inbox.taken_bytes, inbox.bytes.capacity());
        let index = self.home.as_ref().map_or(0, |(_, index, _)| *index);
        let is_there = if after > before {
            self.budget.take_inbox(index, after - before)
        } else {
            self.budget.give_inbox(index, before - after);
            true
        };
        if is_there {
            inbox.taken_bytes = after;
        }
        is_there
    }

    /// Bytes that wait in its inbox.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.inbox.lock().bytes.len()
    }

    /// Bytes of memory that its inbox takes.
    #[must_use]
    pub fn inbox_bytes(&self) -> usize {
        self.inbox.lock().taken_bytes
    }

    /// Records the memory of its connection.
    pub fn note_held(&self, bytes: usize) {
        // Relaxed: a fact for listings.
        self.held_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the server holds for it.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed) + self.inbox_bytes() + size_of::<Client>()
    }

    /// Takes the queued messages; called by the event loop.
    pub fn deliver(&self) -> Delivery {
        let mut inbox = self.inbox.lock();
        inbox.called = false;
        if inbox.overflown || self.is_killed.load(Ordering::Relaxed) {
            return Delivery::Drop;
        }
        let bytes = std::mem::take(&mut inbox.bytes);
        self.settle(&mut inbox);
        Delivery::Bytes(bytes)
    }

    /// Makes its event loop check its connection.
    pub fn call(&self) {
        if let Some((mailboxes, index, token)) = &self.home {
            mailboxes[*index].call(*token);
        }
    }
}

/// The name of the command with this `verb as usize`, as listings say it.
#[must_use]
pub fn command_name(verb: usize) -> Option<String> {
    let is_it = |command: &&Command| command.verb as usize == verb;
    TABLE.iter().find_map(|command| {
        if is_it(&command) {
            return Some(command.name.to_owned());
        }
        let sub = command.subcommands.iter().find(is_it)?;
        Some(format!("{}|{}", command.name, sub.name))
    })
}

/// All clients that have a number.
#[derive(Debug, Default)]
pub struct Clients {
    budget: Arc<Budget>,
    last: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// No clients yet, whose inboxes take from this budget.
    #[must_use]
    pub fn new(budget: Arc<Budget>) -> Clients {
        Clients {
            budget,
            ..Clients::default()
        }
    }

    /// Registers a client; `home` is its loop's mailbox, by index, and its token there.
    pub fn add(
        &self,
        seat: Seat,
        home: Option<(Arc<Vec<Mailbox>>, usize, u64)>,
        now_ms: u64,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            // Relaxed: the number orders nothing.
            id: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            seat,
            since_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            database: AtomicU32::new(0),
            protocol: AtomicU32::new(2),
            counts: Counts::default(),
            traffic: Traffic::default(),
            tracker: Tracker::default(),
            owners: AtomicU64::new(0),
            wishes: [const { AtomicBool::new(false) }; 3],
            follows_redirects: AtomicBool::new(false),
            command: AtomicUsize::new(0),
            is_monitor: AtomicBool::new(false),
            facts: Mutex::default(),
            inbox: Mutex::default(),
            is_killed: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            home,
            budget: Arc::clone(&self.budget),
            held_bytes: AtomicUsize::new(0),
        });
        self.all.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Forgets a client.
    pub fn remove(&self, id: u64) {
        if let Some(client) = self.all.lock().remove(&id) {
            client.end();
        }
    }

    /// The client with a number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).cloned()
    }

    /// All clients, by their numbers.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Arc<Client> {
        Clients::default().add(Seat::default(), None, 0)
    }

    #[test]
    fn what_is_pushed_is_delivered_once_in_order() {
        let client = client();
        client.push(|out| out.extend_from_slice(b"one "));
        client.push(|out| out.extend_from_slice(b"two"));
        assert_eq!(client.deliver(), Delivery::Bytes(b"one two".to_vec()));
        assert_eq!(client.deliver(), Delivery::Bytes(Vec::new()));
    }

    #[test]
    fn a_client_that_does_not_read_has_to_go_and_holds_no_memory() {
        let budget = Arc::new(Budget::new(4_000, 1));
        let client = Clients::new(budget).add(Seat::default(), None, 0);
        let push = || client.push(|out| out.resize(out.len() + 900, b'x'));
        assert_eq!([push(), push(), push()], [true, true, false]);
        assert_eq!(client.inbox.lock().bytes.capacity(), 0);
        assert_eq!(client.budget.bytes(), 0);
        assert_eq!(client.deliver(), Delivery::Drop);
    }

    #[test]
    fn numbers_are_not_used_twice() {
        let clients = Clients::default();
        let first = clients.add(Seat::default(), None, 0).id;
        clients.remove(first);
        let second = clients.add(Seat::default(), None, 0).id;
        assert!(second > first && clients.find(first).is_none());
        assert_eq!(clients.list().len(), 1);
    }
}
