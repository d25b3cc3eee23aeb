//! Attempts: a name and a password, and what they come to.
//!
//! ```text
//! too many wrong from there           TooMany, at once
//! right before, none wrong from there Right, at once
//! the same attempt under way          joins it
//! else                                waits for its hash, and longer if others were wrong
//! ```
//!
//! Who waits holds a [`Ticket`], which calls its event loop when it is settled. Only what was found
//! wrong slows others from there, so each is looked at anew at its turn; one for whom nobody waits
//! is not compared.
//!
//! Invariant: each waiting attempt has a flight, and so has the one that is being compared; at most
//! [`WAITING_MAX`] wait, [`WAITING_PER_SOURCE_MAX`] of one source. A ticket is a connection's.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use zeroize::Zeroizing;

use super::file::NAME_BYTES_MAX;
use super::secrets::{self, Mac256, PASSWORD_BYTES_MAX};
use super::standing::{Login, Proof};
use super::{DEFAULT_USER, Users};
use crate::guesses::{Guesses, Source, is_same};
use crate::logging::printable;
use crate::mailbox::Home;

/// Most different attempts that wait.
const WAITING_MAX: usize = 1_024;
/// Most of them that come from one source: a pool or the people behind one address.
const WAITING_PER_SOURCE_MAX: usize = 64;
/// The part of the free places that one source may hold: the fuller the queue, the fewer, so that
/// it takes dozens of sources to fill it.
const FREE_SHARE: usize = 8;
/// What the password of a user that there is not is compared with, so that it takes as long.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What became of a name and a password.
#[derive(Clone, Debug)]
pub enum LoginResult {
    /// They let this user in.
    Right(Login),
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

/// What is known of a password without a hash.
#[derive(Clone, Debug)]
enum Known {
    Right(Proof),
    Wrong,
    Nothing,
}

/// An attempt that waits.
#[derive(Debug)]
pub struct WaitingAttempt {
    flight: Mac256,
    source: Source,
    came_ms: u64,
    peer: String,
    name: Box<[u8]>,
    password: Zeroizing<Vec<u8>>,
    hashes: Vec<Arc<str>>,
    /// What is known of it without a hash.
    known: Known,
    /// Whether it is looked at late.
    is_slowed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    /// By the moment of their turns, in engine milliseconds, and their numbers.
    waiting: BTreeMap<(u64, u64), WaitingAttempt>,
    /// Who waits for the same attempt, by where it comes from.
    flights: HashMap<Source, HashMap<Mac256, Vec<Weak<Ticket>>>>,
    last: u64,
}

impl Queue {
    /// Whether there is a place for one more from a source.
    fn has_place(&self, source: Source) -> bool {
        let free = WAITING_MAX.saturating_sub(self.waiting.len());
        let places = (free / FREE_SHARE).clamp(1, WAITING_PER_SOURCE_MAX);
        free > 0 && self.flights.get(&source).map_or(0, HashMap::len) < places
    }

    fn line_up(&mut self, attempt: WaitingAttempt, turn_ms: u64) {
        self.last += 1;
        self.waiting.insert((turn_ms, self.last), attempt);
    }

    /// Takes those who wait for an attempt off, as far as they are still there.
    fn land(&mut self, attempt: &WaitingAttempt) -> Vec<Arc<Ticket>> {
        let Some(flights) = self.flights.get_mut(&attempt.source) else {
            return Vec::new();
        };
        let tickets = flights.remove(&attempt.flight).unwrap_or_default();
        if flights.is_empty() {
            self.flights.remove(&attempt.source);
        }
        tickets.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether anybody still waits for an attempt.
    fn is_awaited(&self, attempt: &WaitingAttempt) -> bool {
        let flights = self.flights.get(&attempt.source);
        let tickets = flights.and_then(|flights| flights.get(&attempt.flight));
        tickets.is_some_and(|tickets| tickets.iter().any(|ticket| ticket.strong_count() > 0))
    }
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
            guesses.blame(source, now_ms);
            return Attempt::Settled(self.note_wrong(name, peer));
        }
        let user = self.by_name(name);
        let hashes = user.as_ref().map(|user| user.hashes.clone());
        let hashes = hashes.unwrap_or_default();
        let known = self.known(name, password, &hashes);
        match (&known, user) {
            (Known::Right(proof), Some(user)) if delay_ms == 0 => {
                count(&self.counts.right);
                let login = Login::new(user, proof.clone());
                return Attempt::Settled(LoginResult::Right(login));
            }
            (Known::Wrong, _) if delay_ms == 0 => {
                guesses.blame(source, now_ms);
                return Attempt::Settled(self.note_wrong(name, peer));
            }
            _ => {}
        }
        let attempt = WaitingAttempt {
            flight: self.remembered.digest(name, password, ""),
            source,
            came_ms: now_ms,
            peer: peer.to_owned(),
            name: name.into(),
            password: Zeroizing::new(password.to_vec()),
            hashes,
            known,
            is_slowed: delay_ms > 0,
        };
        self.line_up(attempt, delay_ms)
    }

    /// What is known of a password without a hash.
    fn known(&self, name: &[u8], password: &[u8], hashes: &[Arc<str>]) -> Known {
        if self.short_form.is_some() && name == DEFAULT_USER.as_bytes() {
            let secret = self.short_secret.as_bytes();
            return match !secret.is_empty() && is_same(password, secret) {
                true => Known::Right(Proof::Settings),
                false => Known::Wrong,
            };
        }
        let digests = self.remembered.digests(name, password, hashes);
        let known = digests
            .iter()
            .position(|digest| self.remembered.has(digest));
        known.map_or(Known::Nothing, |place| {
            Known::Right(Proof::Password(Arc::clone(&hashes[place])))
        })
    }

    /// Lets an attempt wait, beside one from there that is the same.
    fn line_up(&self, attempt: WaitingAttempt, delay_ms: u64) -> Attempt {
        let ticket = Arc::new(Ticket::default());
        let mut queue = self.attempts.lock();
        let flights = queue.flights.get_mut(&attempt.source);
        if let Some(tickets) = flights.and_then(|flights| flights.get_mut(&attempt.flight)) {
            tickets.retain(|ticket| ticket.strong_count() > 0);
            tickets.push(Arc::downgrade(&ticket));
            return Attempt::Waits(ticket);
        }
        if !queue.has_place(attempt.source) {
            count(&self.counts.refused);
            return Attempt::Settled(LoginResult::Busy);
        }
        if delay_ms > 0 {
            count(&self.counts.slowed);
        }
        let flights = queue.flights.entry(attempt.source).or_default();
        flights.insert(attempt.flight, vec![Arc::downgrade(&ticket)]);
        let turn_ms = attempt.came_ms + delay_ms;
        queue.line_up(attempt, turn_ms);
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

    /// Settles an attempt whose turn has come, unless its source has become slow since; comparing
    /// takes tens of milliseconds for each hash.
    pub fn settle(&self, mut attempt: WaitingAttempt, guesses: &Guesses, now_ms: u64) {
        let mut queue = self.attempts.lock();
        if !queue.is_awaited(&attempt) {
            queue.land(&attempt);
            return;
        }
        match guesses.delay_ms(attempt.source, now_ms) {
            Ok(delay_ms) if attempt.came_ms + delay_ms > now_ms => {
                if !std::mem::replace(&mut attempt.is_slowed, true) {
                    count(&self.counts.slowed);
                }
                let turn_ms = attempt.came_ms + delay_ms;
                queue.line_up(attempt, turn_ms);
            }
            Ok(_) => {
                drop(queue);
                self.settle_now(&attempt, guesses, now_ms);
            }
            Err(wait_s) => {
                for ticket in queue.land(&attempt) {
                    count(&self.counts.refused);
                    ticket.settle(LoginResult::TooMany { wait_s });
                }
            }
        }
    }

    fn settle_now(&self, attempt: &WaitingAttempt, guesses: &Guesses, now_ms: u64) {
        // The same may have been found right meanwhile, from elsewhere.
        let known = match &attempt.known {
            Known::Nothing => self.known(&attempt.name, &attempt.password, &attempt.hashes),
            known => known.clone(),
        };
        let proof = match known {
            Known::Right(proof) => Some(proof),
            Known::Wrong => None,
            Known::Nothing => self.compare(attempt).map(Proof::Password),
        };
        // The file may have changed since.
        let user = self.by_name(&attempt.name);
        let right = user.zip(proof).filter(|(user, proof)| proof.is_of(user));
        let right = right.map(|(user, proof)| Login::new(user, proof));
        if right.is_none() {
            guesses.blame(attempt.source, now_ms);
        }
        let tickets = self.attempts.lock().land(attempt);
        for ticket in tickets {
            let result = match &right {
                Some(login) => {
                    count(&self.counts.right);
                    LoginResult::Right(login.clone())
                }
                None => self.note_wrong(&attempt.name, &attempt.peer),
            };
            ticket.settle(result);
        }
    }

    /// The hash that an attempt's password has.
    fn compare(&self, attempt: &WaitingAttempt) -> Option<Arc<str>> {
        let WaitingAttempt {
            password, hashes, ..
        } = attempt;
        if hashes.is_empty() {
            count(&self.counts.hashes);
            secrets::is_right(password, NOBODYS_HASH);
            return None;
        }
        let is_of = |hash: &&Arc<str>| {
            count(&self.counts.hashes);
            secrets::is_right(password, hash)
        };
        let hash = hashes.iter().find(is_of)?;
        let digest = self.remembered.digest(&attempt.name, password, hash);
        self.remembered.add(&digest);
        Some(Arc::clone(hash))
    }

    /// Counts and logs an attempt that was wrong; never its password.
    fn note_wrong(&self, name: &[u8], peer: &str) -> LoginResult {
        count(&self.counts.wrong);
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
        tracing::warn!(user = printable(&name), address = peer, "a login failed");
        LoginResult::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn users() -> Arc<Users> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let hash = secrets::hash(b"pw").unwrap();
        let text = format!("[[user]]\nname = \"a\"\npasswords = [\"{hash}\"]\nrole = \"admin\"\n");
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        let settings = Settings {
            users: Some(path),
            ..Settings::default()
        };
        Users::load(&settings).unwrap().unwrap()
    }

    /// How many of as many different attempts from a peer find a place.
    fn places(users: &Users, guesses: &Guesses, peer: &str, attempts: usize) -> usize {
        let try_one = |number: usize| {
            let name = format!("u{number}");
            users.attempt((name.as_bytes(), b"x"), peer, guesses, 1_000)
        };
        let waits = |attempt: &Attempt| matches!(attempt, Attempt::Waits(_));
        (0..attempts).map(try_one).filter(waits).count()
    }

    #[test]
    fn one_source_holds_its_share_of_the_queue_and_the_next_finds_a_place() {
        let (users, guesses) = (users(), Guesses::default());
        let most = WAITING_PER_SOURCE_MAX;
        assert_eq!(places(&users, &guesses, "[2001:db8::1]:1", 50), 50);
        users.attempts.lock().waiting.clear();
        users.attempts.lock().flights.clear();
        assert_eq!(places(&users, &guesses, "[2001:db8::1]:1", 100), most);
        let again = users.attempt((b"v", b"x"), "[2001:db8::2]:1", &guesses, 1_000);
        assert!(matches!(again, Attempt::Settled(LoginResult::Busy)));
        for host in 0..37 {
            let peer = format!("192.0.2.{host}:1");
            assert!(places(&users, &guesses, &peer, 100) > 0, "{host}");
        }
        assert_eq!(places(&users, &guesses, "198.51.100.1:1", 1), 1);
    }

    #[test]
    fn an_attempt_that_nobody_waits_for_is_not_compared() {
        let (users, guesses) = (users(), Guesses::default());
        drop(users.attempt((b"a", b"x"), "192.0.2.1:1", &guesses, 1_000));
        let attempt = users.next_attempt(1_000, 0).unwrap();
        users.settle(attempt, &guesses, 1_000);
        assert_eq!(users.counts.hashes.load(Ordering::Relaxed), 0);
        assert!(users.attempts.lock().flights.is_empty());
    }
}
