//! Client: a connection as the others see it: listed, named, called, killed.
//!
//! Whoever has something to say to a client of another event loop puts it into the client's inbox
//! and calls its loop, which appends it to the replies when no reply is half written. The inbox is
//! bounded: a client that does not read loses its connection, not the server its memory.
//!
//! Tests: at the end of this file; tests/resp.rs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_protocol::resp::command::TABLE;
use cellar_protocol::resp::{Command, Proto, Verb};

use crate::auth::users::Login;
use crate::clients::budget::Budget;
use crate::net::listener::told_of;
use crate::net::mailbox::Mailbox;
use crate::net::tls::owner::Owner;

/// What the client told about itself.
#[derive(Clone, Debug, Default)]
pub struct ClientFacts {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
    /// Whose connection it is; none before it has logged in, and without users.
    pub login: Option<Login>,
}

impl ClientFacts {
    /// The name of whose connection it is.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<str>> {
        self.login.as_ref().map(|login| &login.user().name)
    }
}

/// Where a client comes from.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// The peer's address.
    pub peer: String,
    /// The address it came to.
    pub local: String,
    /// The number of its socket.
    pub file: i32,
    /// The user that it runs as, if it came by a socket file.
    pub uid: Option<u32>,
    /// Whether it came over TLS.
    pub is_tls: bool,
    /// Whose certificate it has shown, if it has.
    pub owner: Option<Arc<Owner>>,
}

impl Seat {
    /// Where it comes from, as the log is told.
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

/// What went to and fro on a connection; its own loop alone counts.
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
    /// Notes that it has sent so many bytes.
    #[inline]
    pub fn note_received(&self, bytes: usize) {
        add(&self.received_bytes, bytes as u64);
    }

    /// Notes that it was sent so many bytes.
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

/// Adds to a count that one thread alone changes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    // Relaxed: nobody else writes it.
    let before = count.load(Ordering::Relaxed);
    count.store(before.wrapping_add(more), Ordering::Relaxed);
}

/// How a client's keys are tracked; see [`Tracking`](crate::clients::tracking::Tracking).
#[derive(Debug, Default)]
pub struct Tracker {
    /// Bits of [`Mode`](crate::clients::tracking::Mode).
    // Relaxed: a client's own thread sets it before it registers anything.
    pub mode: AtomicU32,
    /// Who gets its invalidations; none for itself.
    pub redirect: Mutex<Option<Redirect>>,
}

/// A client that is told in another one's place, as long as it stays the same user's.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// The client.
    pub target: Arc<Client>,
    /// How often it had become another user's when it was named.
    owners: u64,
}

impl Redirect {
    /// To a client, for as long as it is whose it is now.
    #[must_use]
    pub fn to(target: Arc<Client>) -> Redirect {
        let owners = target.owners();
        Redirect { target, owners }
    }

    /// Whether it leads nowhere now: the client is gone, or another user's.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.target.is_gone() || self.target.owners() != self.owners
    }
}

/// What waits for a client.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    /// Whether the loop was called for what waits.
    called: bool,
    overflown: bool,
    /// What was taken for it from the budget.
    taken_bytes: usize,
}

/// What the event loop finds in an inbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// These bytes, perhaps none.
    Bytes(Vec<u8>),
    /// The client has to go: it did not read, or somebody wants it gone.
    Drop,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its number, never used twice.
    pub id: u64,
    /// Where it comes from.
    pub seat: Seat,
    /// When it came, in engine milliseconds.
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
    /// How many of everything it has.
    pub counts: Counts,
    /// What went to and fro.
    pub traffic: Traffic,
    /// How its keys are tracked.
    pub tracker: Tracker,
    /// How often it has become another user's, or nobody's.
    // Relaxed: who reads the old number tells of what changed before, as to the user before.
    owners: AtomicU64,
    /// Whether it asked not to be evicted, not to count as a user of keys, and to hear which slots
    /// were lost.
    // Relaxed: wishes that order nothing.
    pub wishes: [AtomicBool; 3],
    /// Whether it has said that it follows redirections.
    // Relaxed: a fact for listings.
    pub follows_redirects: AtomicBool,
    /// The command it sent last: its place in [`Verb`], and one.
    // Relaxed: a fact for listings.
    command: AtomicUsize,
    // Relaxed: a fact for listings.
    is_monitor: AtomicBool,
    facts: Mutex<ClientFacts>,
    inbox: Mutex<Inbox>,
    // Relaxed: a request; the mailbox's call, which comes after, orders what the loop does.
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
    /// What it told about itself.
    pub fn facts(&self) -> MutexGuard<'_, ClientFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Notes that it is another user's from now on, or nobody's.
    pub fn note_other_owner(&self) {
        // Relaxed: as it says where it is declared.
        self.owners.fetch_add(1, Ordering::Relaxed);
    }

    fn owners(&self) -> u64 {
        // Relaxed: as it says where it is declared.
        self.owners.load(Ordering::Relaxed)
    }

    /// Notes whether it is shown each command as it runs.
    pub fn note_monitor(&self, is_one: bool) {
        // Relaxed: a fact for listings.
        self.is_monitor.store(is_one, Ordering::Relaxed);
    }

    /// Whether it is shown each command as it runs.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        self.is_monitor.load(Ordering::Relaxed)
    }

    /// Notes that it sends commands now.
    #[inline]
    pub fn note_active(&self, now_ms: u64) {
        // Relaxed: a fact for listings.
        self.active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Notes what it sends.
    #[inline]
    pub fn note_command(&self, verb: Verb) {
        self.note_last_command(verb);
        add(&self.traffic.commands, 1);
    }

    /// Notes which of the commands that were noted listings show.
    #[inline]
    pub fn note_last_command(&self, verb: Verb) {
        // Relaxed: a fact for listings.
        self.command.store(verb as usize + 1, Ordering::Relaxed);
    }

    /// What it sent last, as listings say it.
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

    /// Notes that its connection has ended: nothing is kept for it any more.
    pub fn end(&self) {
        let mut inbox = self.inbox();
        self.is_gone.store(true, Ordering::Relaxed);
        inbox.bytes = Vec::new();
        self.settle(&mut inbox);
    }

    /// Puts bytes into the inbox and calls the event loop; whether the client will get them. Its
    /// connection is closed if it has more to read than [`Budget::inbox_bytes_max`], or all inboxes
    /// together have.
    ///
    /// `append` writes whole messages in the client's protocol version.
    pub fn push(&self, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut inbox = self.inbox();
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

    /// Has the event loop close the connection.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        self.call();
    }

    /// Has the whole server finish what it has received, and stop.
    pub fn stop_server(&self) {
        if let Some((mailboxes, ..)) = &self.home {
            Mailbox::drain(mailboxes);
        }
    }

    /// Has all event loops look whether what waits for the end of a pause may go on.
    pub fn wake_loops(&self) {
        if let Some((mailboxes, ..)) = &self.home {
            mailboxes.iter().for_each(|mailbox| mailbox.waker.wake());
        }
    }

    /// Whether it has to go at once, even with a reply half written.
    pub fn is_overdue(&self) -> bool {
        self.inbox().overflown || self.is_killed.load(Ordering::Relaxed)
    }

    /// Takes from the budget what the inbox has grown by, or gives back; whether there was so much.
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
        self.inbox().bytes.len()
    }

    /// Bytes of memory that its inbox takes.
    #[must_use]
    pub fn inbox_bytes(&self) -> usize {
        self.inbox().taken_bytes
    }

    /// Notes what its connection holds.
    pub fn note_held(&self, bytes: usize) {
        // Relaxed: a fact for listings.
        self.held_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that it has the server hold.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed) + self.inbox_bytes() + size_of::<Client>()
    }

    /// Takes what waits; for the event loop.
    pub fn deliver(&self) -> Delivery {
        let mut inbox = self.inbox();
        inbox.called = false;
        if inbox.overflown || self.is_killed.load(Ordering::Relaxed) {
            return Delivery::Drop;
        }
        let bytes = std::mem::take(&mut inbox.bytes);
        self.settle(&mut inbox);
        Delivery::Bytes(bytes)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has its event loop look at its connection.
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
        self.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Forgets a client.
    pub fn remove(&self, id: u64) {
        if let Some(client) = self.lock().remove(&id) {
            client.end();
        }
    }

    /// The client with a number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// All clients, by their numbers.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(client.inbox().bytes.capacity(), 0);
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
