//! Attempts: a name and a password, and what they come to.
//!
//! ```text
//! too many wrong from there           TooMany, at once
//! right before, none wrong from there Right, at once
//! the same attempt under way          joins it
//! else                                waits: for its turn, if others from there were wrong,
//!                                     and for its hash
//! ```
//!
//! Who waits holds a [`Ticket`], which calls its event loop when it is settled.
//!
//! Invariant: there are as many flights as waiting attempts, at most [`WAITING_MAX`]; a ticket
//! belongs to a connection, of which there are at most as many as the settings say.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zeroize::Zeroizing;

use super::file::NAME_BYTES_MAX;
use super::role::User;
use super::secrets::{self, Mac256, PASSWORD_BYTES_MAX};
use super::{DEFAULT_USER, Users};
use crate::guesses::{Guesses, Source, is_same};
use crate::logging::printable;
use crate::mailbox::Home;

/// Most different attempts that wait.
const WAITING_MAX: usize = 1_024;
/// What the password of a user that there is not is compared with, so that it takes as long.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What became of a name and a password.
#[derive(Clone, Debug)]
pub enum LoginResult {
    /// They are this user's.
    Right(Arc<User>),
    /// They are nobody's.
    Wrong,
    /// They were not looked at: too many from there were wrong.
    TooMany {
        /// Seconds until others are looked at.
        wait_s: u64,
    },
    /// They were not looked at: too many wait.
    Busy,
}

/// How an attempt goes on.
#[derive(Debug)]
pub enum Attempt {
    /// It is over.
    Settled(LoginResult),
    /// Its outcome comes later.
    Waits(Arc<Ticket>),
}

/// An outcome that comes later.
#[derive(Debug, Default)]
pub struct Ticket {
    inner: Mutex<TicketState>,
}

#[derive(Debug, Default)]
struct TicketState {
    result: Option<LoginResult>,
    home: Option<Home>,
}

impl Ticket {
    /// The outcome, once there is one.
    #[must_use]
    pub fn result(&self) -> Option<LoginResult> {
        self.lock().result.clone()
    }

    /// Whether there is none yet; then this connection's loop is called when there is.
    #[must_use]
    pub fn waits(&self, home: impl FnOnce() -> Home) -> bool {
        let mut inner = self.lock();
        if inner.result.is_some() {
            return false;
        }
        inner.home = Some(home());
        true
    }

    fn settle(&self, result: LoginResult) {
        let mut inner = self.lock();
        inner.result = Some(result);
        if let Some(home) = inner.home.take() {
            home.call();
        }
    }

    fn lock(&self) -> MutexGuard<'_, TicketState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that waits.
#[derive(Debug)]
pub struct WaitingAttempt {
    flight: Mac256,
    source: Source,
    peer: String,
    name: Box<[u8]>,
    password: Zeroizing<Vec<u8>>,
    hashes: Vec<Arc<str>>,
    /// Whether it is right, if that is known without a hash.
    known: Option<bool>,
}

#[derive(Debug, Default)]
struct Queue {
    /// By the moment of their turns, in engine milliseconds, and their numbers.
    waiting: BTreeMap<(u64, u64), WaitingAttempt>,
    /// Who waits for the same attempt.
    flights: HashMap<Mac256, Vec<Arc<Ticket>>>,
    last: u64,
}

/// All attempts that wait.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    queue: Mutex<Queue>,
    called: Condvar,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    // Relaxed: a count orders nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Users {
    /// Looks at a name and a password that came from a peer, at this engine millisecond.
    #[must_use]
    pub fn attempt(
        &self,
        (name, password): (&[u8], &[u8]),
        peer: &str,
        guesses: &Guesses,
        now_ms: u64,
    ) -> Attempt {
        let source = Source::of(peer);
        let delay_ms = match guesses.delay_ms(source, now_ms) {
            Ok(delay_ms) => delay_ms,
            Err(wait_s) => {
                count(&self.counts.refused);
                return Attempt::Settled(LoginResult::TooMany { wait_s });
            }
        };
        if name.len() > NAME_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
            guesses.suspect(source, now_ms);
            return Attempt::Settled(self.note_wrong(name, peer));
        }
        let user = self.by_name(name);
        let hashes = user.as_ref().map(|user| user.hashes.clone());
        let hashes = hashes.unwrap_or_default();
        let known = self.known(name, password, &hashes);
        match (known, user) {
            (Some(true), Some(user)) if delay_ms == 0 => {
                count(&self.counts.right);
                return Attempt::Settled(LoginResult::Right(user));
            }
            (Some(false), _) if delay_ms == 0 => {
                guesses.suspect(source, now_ms);
                return Attempt::Settled(self.note_wrong(name, peer));
            }
            _ => {}
        }
        let attempt = WaitingAttempt {
            flight: self.remembered.digest(name, password, ""),
            source,
            peer: peer.to_owned(),
            name: name.into(),
            password: Zeroizing::new(password.to_vec()),
            hashes,
            known,
        };
        self.line_up(attempt, (now_ms, delay_ms), guesses)
    }

    /// Whether a password is right or wrong, if that is known without a hash.
    fn known(&self, name: &[u8], password: &[u8], hashes: &[Arc<str>]) -> Option<bool> {
        if self.short_form.is_some() && name == DEFAULT_USER.as_bytes() {
            let secret = self.short_secret.as_bytes();
            return Some(!secret.is_empty() && is_same(password, secret));
        }
        let digests = self.remembered.digests(name, password, hashes);
        let is_known = digests.iter().any(|digest| self.remembered.has(digest));
        is_known.then_some(true)
    }

    /// Lets an attempt wait, beside one that is the same.
    fn line_up(
        &self,
        attempt: WaitingAttempt,
        (now_ms, delay_ms): (u64, u64),
        guesses: &Guesses,
    ) -> Attempt {
        let ticket = Arc::new(Ticket::default());
        let mut queue = self.attempts.lock();
        if let Some(tickets) = queue.flights.get_mut(&attempt.flight) {
            tickets.push(Arc::clone(&ticket));
            return Attempt::Waits(ticket);
        }
        if queue.flights.len() >= WAITING_MAX {
            count(&self.counts.refused);
            return Attempt::Settled(LoginResult::Busy);
        }
        // Counted before it is looked at: many at once are as many guesses.
        guesses.suspect(attempt.source, now_ms);
        if delay_ms > 0 {
            count(&self.counts.slowed);
        }
        queue.last += 1;
        let place = (now_ms + delay_ms, queue.last);
        queue
            .flights
            .insert(attempt.flight, vec![Arc::clone(&ticket)]);
        queue.waiting.insert(place, attempt);
        drop(queue);
        self.attempts.called.notify_one();
        Attempt::Waits(ticket)
    }

    /// The next attempt whose turn has come; none if there is none within some milliseconds.
    #[must_use]
    pub fn next_attempt(&self, now_ms: u64, wait_ms_max: u64) -> Option<WaitingAttempt> {
        let mut queue = self.attempts.lock();
        let due = |queue: &Queue| queue.waiting.first_key_value().map(|((ms, _), _)| *ms);
        let is_due = |queue: &Queue| due(queue).is_some_and(|ms| ms <= now_ms);
        if !is_due(&queue) {
            let wait_ms = due(&queue).map_or(wait_ms_max, |ms| (ms - now_ms).min(wait_ms_max));
            let waited = self
                .attempts
                .called
                .wait_timeout(queue, Duration::from_millis(wait_ms));
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // What has become due meanwhile is found by the next call, which knows the time.
        is_due(&queue)
            .then(|| queue.waiting.pop_first())?
            .map(|(_, attempt)| attempt)
    }

    /// Compares an attempt's password, which takes tens of milliseconds for each hash, and settles
    /// it.
    pub fn settle(&self, attempt: &WaitingAttempt, guesses: &Guesses) {
        let is_right = attempt.known.unwrap_or_else(|| self.compare(attempt));
        // The file may have changed since.
        let user = self.by_name(&attempt.name).filter(|user| {
            let is_short = self
                .short_form
                .as_ref()
                .is_some_and(|short| short.name == user.name);
            is_short || attempt.hashes.iter().any(|hash| user.hashes.contains(hash))
        });
        let right = user.filter(|_| is_right);
        if right.is_some() {
            guesses.forgive(attempt.source);
        }
        let tickets = self.attempts.lock().flights.remove(&attempt.flight);
        for ticket in tickets.unwrap_or_default() {
            let result = match &right {
                Some(user) => {
                    count(&self.counts.right);
                    LoginResult::Right(Arc::clone(user))
                }
                None => self.note_wrong(&attempt.name, &attempt.peer),
            };
            ticket.settle(result);
        }
    }

    fn compare(&self, attempt: &WaitingAttempt) -> bool {
        let WaitingAttempt {
            password, hashes, ..
        } = attempt;
        if hashes.is_empty() {
            count(&self.counts.hashes);
            secrets::is_right(password, NOBODYS_HASH);
            return false;
        }
        let is_of = |hash: &&Arc<str>| {
            count(&self.counts.hashes);
            secrets::is_right(password, hash)
        };
        let Some(hash) = hashes.iter().find(is_of) else {
            return false;
        };
        let digest = self.remembered.digest(&attempt.name, password, hash);
        self.remembered.add(&digest);
        true
    }

    /// Counts and logs an attempt that was wrong; never its password.
    fn note_wrong(&self, name: &[u8], peer: &str) -> LoginResult {
        count(&self.counts.wrong);
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
        tracing::warn!(user = printable(&name), address = peer, "a login failed");
        LoginResult::Wrong
    }
}
