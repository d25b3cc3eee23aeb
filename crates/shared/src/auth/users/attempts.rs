//! Attempts: logins by name and password, and the queue of those that have to be hashed.
//!
//! ```text
//! too many wrong ones of its source    TooMany, at once
//! right before, none wrong from there  Right, at once
//! the same attempt in the queue        joins it
//! else                                 queued for its hash, longer if others were wrong
//! ```
//!
//! A pending login holds a [`Ticket`], which wakes its event loop when it is settled. Only wrong
//! attempts slow their source, so its state is checked again when one is taken. Networks and names
//! alternate; [`Queue::take`] and [`Queue::make_place`] favour sources without wrong attempts.
//!
//! Invariant: each queued attempt has a flight, and so has each being compared; at most
//! [`WAITING_MAX`] wait, [`WAITING_PER_SOURCE_MAX`] of one source. A ticket is one connection's.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cellar_net::mailbox::Home;
use parking_lot::{Condvar, Mutex};
use zeroize::Zeroizing;

use super::file::NAME_BYTES_MAX;
use super::identity::{Login, Proof};
use super::secrets::{Mac256, PASSWORD_BYTES_MAX, PasswordChecker};
use super::{DEFAULT_USER, Users};
use crate::auth::login_limiter::{LoginLimiter, Network, Source, Suspicion, is_same};

/// Most different attempts that wait.
pub const WAITING_MAX: usize = 1_024;
/// Most of them from one source: a connection pool or the clients behind one address.
pub const WAITING_PER_SOURCE_MAX: usize = 64;
/// The part of the free places that one source may take: the fuller the queue, the fewer, so that
/// it takes dozens of sources to fill it.
const FREE_SHARE: usize = 8;
/// One in so many is taken regardless of recent wrong attempts, so that suspicious sources
/// progress, too.
const ALIKE_TURNS: u64 = 4;
/// When one has waited for so long, logins arrive faster than they are compared: then new ones are
/// taken before old ones, so that most do not wait at all.
const OVERLOADED_MS: u64 = 2_000;
/// Number of attempts with one name from which on it alternates with other names.
const MANY_WITH_NAME: usize = 8;
/// Number of queued attempts from which on those are skipped whose peers have shut down their
/// sides: most of these have disconnected, which only a write would reveal.
const LEAVING_MAX: usize = 8;
/// The hash that a wrong password is compared with where no user has one.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The result of a login.
#[derive(Clone, Debug)]
pub enum LoginResult {
    /// The name and password are right.
    Right(Login),
    /// They match no user.
    Wrong,
    /// They were not compared: the source had too many wrong attempts.
    TooMany {
        /// Seconds until its next attempt is compared.
        wait_s: u64,
    },
    /// They were not compared: the queue is full.
    Busy,
}

/// The state of a login.
#[derive(Debug)]
pub enum Attempt {
    /// It is settled.
    Settled(LoginResult),
    /// Its result is pending.
    Waits(Arc<Ticket>),
}

/// A pending result.
#[derive(Debug, Default)]
pub struct Ticket {
    inner: Mutex<TicketState>,
    /// Whether the peer sends nothing more.
    // Relaxed: it orders nothing; it may be seen an iteration late.
    is_leaving: AtomicBool,
}

#[derive(Debug, Default)]
struct TicketState {
    result: Option<LoginResult>,
    home: Option<Home>,
}

impl Ticket {
    /// The result, once it is there.
    #[must_use]
    pub fn result(&self) -> Option<LoginResult> {
        self.inner.lock().result.clone()
    }

    /// Whether the result is pending; then this connection's loop is woken for it.
    #[must_use]
    pub fn waits(&self, home: impl FnOnce() -> Home) -> bool {
        let mut inner = self.inner.lock();
        if inner.result.is_some() {
            return false;
        }
        inner.home = Some(home());
        true
    }

    /// Records that the peer has shut down its side: it may still read, or have disconnected.
    pub fn leave(&self) {
        // Relaxed: as declared.
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    fn is_leaving(&self) -> bool {
        // Relaxed: as declared.
        self.is_leaving.load(Ordering::Relaxed)
    }

    fn settle(&self, result: LoginResult) {
        let mut inner = self.inner.lock();
        inner.result = Some(result);
        if let Some(home) = inner.home.take() {
            home.call();
        }
    }
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
    /// That it is right, if that is known without a hash.
    known: Option<Proof>,
    /// Whether it is delayed.
    is_slowed: bool,
    /// The recent wrong attempts from its source or near it.
    suspicion: Suspicion,
}

/// The time when it is due, in engine milliseconds, and its number.
type WaitingTurn = (u64, u64);

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<WaitingTurn, WaitingAttempt>,
    /// The attempts that wait or are being compared, by source.
    lanes: HashMap<Source, Lane>,
    /// The same by networks, and by names.
    networks: HashMap<Network, Group>,
    names: HashMap<Box<[u8]>, Group>,
    last: u64,
    /// How many attempts were taken.
    turns: u64,
}

/// The attempts of one source.
#[derive(Debug, Default)]
struct Lane {
    /// The tickets that wait for the same attempt.
    flights: HashMap<Mac256, Vec<Weak<Ticket>>>,
    /// [`Queue::turns`] when one of its attempts was last taken, or when it was added.
    turn: u64,
}

/// The attempts of one network, or with one name.
#[derive(Debug)]
struct Group {
    flights: usize,
    /// As that of a lane.
    turn: u64,
    /// The same if one was taken, else zero.
    had_turn: u64,
    /// The number of its first attempt.
    first: u64,
}

/// Removes an attempt from its group, and the group if it becomes empty.
fn leave<K: Eq + Hash>(groups: &mut HashMap<K, Group>, key: &K) {
    if let Some(group) = groups.get_mut(key) {
        group.flights -= 1;
        if group.flights == 0 {
            groups.remove(key);
        }
    }
}

impl Queue {
    /// Whether the queue has a place for one more from a source.
    fn has_place(&self, source: Source) -> bool {
        let free = WAITING_MAX.saturating_sub(self.waiting.len());
        let places = (free / FREE_SHARE).clamp(1, WAITING_PER_SOURCE_MAX);
        free > 0 && self.count_of(source) < places
    }

    fn count_of(&self, source: Source) -> usize {
        self.lanes.get(&source).map_or(0, |lane| lane.flights.len())
    }

    fn count_in(&self, network: Network) -> usize {
        let lane = self.networks.get(&network);
        lane.map_or(0, |lane| lane.flights)
    }

    /// Removes an attempt to make a place when the queue is full: if the new one is the only one of
    /// its source, one that is more suspicious, else as [`of_largest`](Self::of_largest) chooses.
    /// Cost: a look at each queued attempt.
    fn make_place(&mut self, newcomer: &WaitingAttempt) -> Option<WaitingAttempt> {
        let own = self.count_of(newcomer.source);
        if self.waiting.len() < WAITING_MAX || own >= WAITING_PER_SOURCE_MAX {
            return None;
        }
        let of_wrong = match own {
            0 => self.any_of(|one| one.suspicion > newcomer.suspicion),
            _ => None,
        };
        let leaving = of_wrong.or_else(|| self.of_largest(newcomer))?;
        self.waiting.remove(&leaving)
    }

    /// The attempt to remove by numbers alone, if any: from the network with most attempts if it
    /// keeps at least as many as the newcomer's then has, else from the newcomer's own network.
    /// Within that, the newest of the source with most; a random one if each source has one, so
    /// that none stays for being early.
    fn of_largest(&self, newcomer: &WaitingAttempt) -> Option<WaitingTurn> {
        let own = self.count_of(newcomer.source);
        let home = newcomer.source.network();
        let at_home = self.count_in(home);
        let counts = self.networks.iter().map(|(&one, lane)| (lane.flights, one));
        let (in_largest, largest) = counts.max()?;
        let is_larger = in_largest >= at_home + 2;
        // From anywhere, if each network has one and the newcomer's has none.
        let from = match is_larger {
            true => Some(largest),
            false => (at_home > 0).then_some(home),
        };
        let is_from = |source: Source| from.is_none_or(|from| source.network() == from);
        let lanes = self.lanes.iter().filter(|(source, _)| is_from(**source));
        let counts = lanes.map(|(&one, lane)| (lane.flights.len(), one));
        let (count, most) = counts.max()?;
        if count >= own + 2 {
            let of_it = self.waiting.iter().filter(|(_, one)| one.source == most);
            return of_it
                .map(|(&turn, _)| turn)
                .max_by_key(|&(_, number)| number);
        }
        let was_wrong = newcomer.suspicion == Suspicion::Source;
        let may_come = own == 0 && (is_larger || !was_wrong);
        may_come.then(|| self.any_of(|one| is_from(one.source)))?
    }

    /// A random one of the queued attempts.
    fn any_of(&self, may_leave: impl Fn(&WaitingAttempt) -> bool) -> Option<WaitingTurn> {
        let those = self.waiting.iter().filter(|(_, one)| may_leave(one));
        let drawn = those.map(|(&turn, _)| (fastrand::u64(..), turn));
        drawn.min().map(|(_, turn)| turn)
    }

    /// Takes the next due attempt, a more suspicious one only if no other is due; once in
    /// [`ALIKE_TURNS`] suspicion is ignored.
    ///
    /// Networks alternate, the longest-waiting first. While some have waited for [`OVERLOADED_MS`],
    /// the newest network is first (adaptive LIFO). Names with many attempts alternate before that:
    /// an attacker who tries one name from hundreds of networks delays that name alone. Cost:
    /// examines each queued attempt.
    fn take(&mut self, now_ms: u64) -> Option<WaitingAttempt> {
        let is_alike = self.turns.is_multiple_of(ALIKE_TURNS);
        let due = || self.waiting.range(..=(now_ms, u64::MAX));
        // Suspicious attempts are delayed on purpose.
        let waited = due().filter(|(_, one)| one.suspicion == Suspicion::None);
        let waited_ms = waited.map(|(_, one)| now_ms.saturating_sub(one.came_ms));
        let is_overloaded = waited_ms.max() >= Some(OVERLOADED_MS);
        let waiting = self.waiting.len();
        let next = due().min_by_key(|(turn, one)| {
            let network = &self.networks[&one.source.network()];
            let name = &self.names[&one.name];
            let of_source = self.lanes[&one.source].turn;
            let order = if is_alike {
                let latest = network.turn.max(name.turn);
                [latest, network.turn, of_source, 0]
            } else if is_overloaded {
                let with_name = u64::from(name.flights >= MANY_WITH_NAME) * name.had_turn;
                let newest_first = u64::MAX - network.first;
                [with_name, network.had_turn, newest_first, of_source]
            } else {
                // If several names have equally many attempts, alternating between them would make
                // some wait twice as long as others.
                let has_most = name.flights * 3 > waiting * 2;
                let with_name = u64::from(has_most) * name.had_turn;
                [with_name, network.turn, of_source, 0]
            };
            let suspicion = match is_alike {
                true => Suspicion::None,
                false => one.suspicion,
            };
            (suspicion, order, **turn)
        });
        let turn = *next?.0;
        let attempt = self.waiting.remove(&turn)?;
        self.turns += 1;
        if let Some(lane) = self.lanes.get_mut(&attempt.source) {
            lane.turn = self.turns;
        }
        let network = self.networks.get_mut(&attempt.source.network());
        let name = self.names.get_mut(&attempt.name);
        for group in [network, name].into_iter().flatten() {
            (group.turn, group.had_turn) = (self.turns, self.turns);
        }
        Some(attempt)
    }

    /// Adds a new flight, with its first ticket.
    fn enter(&mut self, attempt: &WaitingAttempt, ticket: &Arc<Ticket>) {
        let (source, turn, first) = (attempt.source, self.turns, self.last);
        let new = || Group {
            flights: 0,
            turn,
            had_turn: 0,
            first,
        };
        let network = self.networks.entry(source.network()).or_insert_with(new);
        network.flights += 1;
        let name = self.names.entry(attempt.name.clone()).or_insert_with(new);
        name.flights += 1;
        let lane = self.lanes.entry(source).or_insert_with(|| Lane {
            turn,
            ..Lane::default()
        });
        let tickets = vec![Arc::downgrade(ticket)];
        lane.flights.insert(attempt.flight, tickets);
    }

    fn line_up(&mut self, attempt: WaitingAttempt, turn_ms: u64) {
        self.last += 1;
        self.waiting.insert((turn_ms, self.last), attempt);
    }

    /// Removes the tickets of an attempt and returns those whose connections still exist.
    fn land(&mut self, attempt: &WaitingAttempt) -> Vec<Arc<Ticket>> {
        let Some(lane) = self.lanes.get_mut(&attempt.source) else {
            return Vec::new();
        };
        let Some(tickets) = lane.flights.remove(&attempt.flight) else {
            return Vec::new();
        };
        if lane.flights.is_empty() {
            self.lanes.remove(&attempt.source);
        }
        leave(&mut self.networks, &attempt.source.network());
        leave(&mut self.names, &attempt.name);
        tickets.iter().filter_map(Weak::upgrade).collect()
    }

    /// Marks the queued attempts of a source, and of its network, as suspicious.
    fn mark_wrong(&mut self, source: Source) {
        for one in self.waiting.values_mut() {
            if one.source == source {
                one.suspicion = Suspicion::Source;
            } else if one.source.network() == source.network() {
                one.suspicion = one.suspicion.max(Suspicion::Network);
            }
        }
    }

    /// Whether any client still waits for an attempt; one that has shut down its side counts while
    /// few wait.
    fn is_awaited(&self, attempt: &WaitingAttempt) -> bool {
        let lane = self.lanes.get(&attempt.source);
        let tickets = lane.and_then(|lane| lane.flights.get(&attempt.flight));
        let are_few = self.waiting.len() < LEAVING_MAX;
        let waits = |ticket: &Weak<Ticket>| {
            let ticket = ticket.upgrade();
            ticket.is_some_and(|ticket| are_few || !ticket.is_leaving())
        };
        tickets.is_some_and(|tickets| tickets.iter().any(waits))
    }
}

/// All attempts that wait.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    queue: Mutex<Queue>,
    called: Condvar,
}

fn count(counter: &AtomicU64) {
    // Relaxed: a count orders nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Users {
    /// Starts a login with a name and a password from a peer, at this engine millisecond.
    #[must_use]
    pub fn attempt(
        &self,
        (name, password): (&[u8], &[u8]),
        peer: &str,
        login_limiter: &LoginLimiter,
        now_ms: u64,
    ) -> Attempt {
        let source = Source::of(peer);
        let delay_ms = match login_limiter.delay_ms(source, now_ms) {
            Ok(delay_ms) => delay_ms,
            Err(wait_s) => {
                count(&self.counts.refused);
                return Attempt::Settled(LoginResult::TooMany { wait_s });
            }
        };
        if name.len() > NAME_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
            login_limiter.blame(source, now_ms);
            return Attempt::Settled(self.note_wrong(name, peer));
        }
        let user = self.by_name(name);
        let hashes = user.as_ref().map(|user| user.hashes.clone());
        let hashes = hashes.unwrap_or_default();
        let known = self.known(name, password, &hashes);
        if let (Some(proof), Some(user), 0) = (&known, user, delay_ms) {
            count(&self.counts.right);
            let login = Login::new(user, proof.clone());
            return Attempt::Settled(LoginResult::Right(login));
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
            suspicion: login_limiter.suspicion(source, now_ms),
        };
        self.line_up(attempt, delay_ms)
    }

    /// The proof that a password is right, if that is known without a hash. Any other is hashed,
    /// even if no hash exists for it: a quick reply would reveal that.
    fn known(&self, name: &[u8], password: &[u8], hashes: &[Arc<str>]) -> Option<Proof> {
        if self.short_form.is_some() && name == DEFAULT_USER.as_bytes() {
            let secret = self.short_secret.as_bytes();
            if !secret.is_empty() && is_same(password, secret) {
                return Some(Proof::Settings);
            }
        }
        let digests = self.remembered.digests(name, password, hashes);
        let known = digests
            .iter()
            .position(|digest| self.remembered.has(digest));
        known.map(|place| Proof::Password(Arc::clone(&hashes[place])))
    }

    /// Queues an attempt, or joins the same one of its source.
    fn line_up(&self, attempt: WaitingAttempt, delay_ms: u64) -> Attempt {
        let ticket = Arc::new(Ticket::default());
        let mut queue = self.attempts.queue.lock();
        let lane = queue.lanes.get_mut(&attempt.source);
        if let Some(tickets) = lane.and_then(|lane| lane.flights.get_mut(&attempt.flight)) {
            tickets.retain(|ticket| ticket.strong_count() > 0);
            tickets.push(Arc::downgrade(&ticket));
            return Attempt::Waits(ticket);
        }
        if !queue.has_place(attempt.source) {
            let Some(leaving) = queue.make_place(&attempt) else {
                count(&self.counts.refused);
                return Attempt::Settled(LoginResult::Busy);
            };
            for ticket in queue.land(&leaving) {
                count(&self.counts.refused);
                ticket.settle(LoginResult::Busy);
            }
        }
        if delay_ms > 0 {
            count(&self.counts.slowed);
        }
        queue.enter(&attempt, &ticket);
        let turn_ms = attempt.came_ms + delay_ms;
        queue.line_up(attempt, turn_ms);
        drop(queue);
        self.attempts.called.notify_one();
        Attempt::Waits(ticket)
    }

    /// The next due attempt; none if none becomes due within some milliseconds.
    #[must_use]
    pub fn next_attempt(&self, now_ms: u64, wait_ms_max: u64) -> Option<WaitingAttempt> {
        let mut queue = self.attempts.queue.lock();
        let due = |queue: &Queue| queue.waiting.first_key_value().map(|((ms, _), _)| *ms);
        let is_due = |queue: &Queue| due(queue).is_some_and(|ms| ms <= now_ms);
        if !is_due(&queue) {
            let wait_ms = due(&queue).map_or(wait_ms_max, |ms| (ms - now_ms).min(wait_ms_max));
            let wait = Duration::from_millis(wait_ms);
            self.attempts.called.wait_for(&mut queue, wait);
        }
        // The next call, which knows the time, finds attempts that have become due meanwhile.
        queue.take(now_ms)
    }

    /// Settles a due attempt, unless its source has to be delayed since; comparing takes tens of
    /// milliseconds for each hash.
    pub fn settle(
        &self,
        mut attempt: WaitingAttempt,
        checker: &mut PasswordChecker,
        login_limiter: &LoginLimiter,
        now_ms: u64,
    ) {
        let mut queue = self.attempts.queue.lock();
        if !queue.is_awaited(&attempt) {
            for ticket in queue.land(&attempt) {
                count(&self.counts.refused);
                ticket.settle(LoginResult::Busy);
            }
            return;
        }
        match login_limiter.delay_ms(attempt.source, now_ms) {
            Ok(delay_ms) if attempt.came_ms + delay_ms > now_ms => {
                if !std::mem::replace(&mut attempt.is_slowed, true) {
                    count(&self.counts.slowed);
                }
                let turn_ms = attempt.came_ms + delay_ms;
                queue.line_up(attempt, turn_ms);
            }
            Ok(_) => {
                drop(queue);
                self.settle_now(&attempt, checker, login_limiter, now_ms);
            }
            Err(wait_s) => {
                for ticket in queue.land(&attempt) {
                    count(&self.counts.refused);
                    ticket.settle(LoginResult::TooMany { wait_s });
                }
            }
        }
    }

    fn settle_now(
        &self,
        attempt: &WaitingAttempt,
        checker: &mut PasswordChecker,
        login_limiter: &LoginLimiter,
        now_ms: u64,
    ) {
        // The same may have been found right meanwhile, from another source.
        let found = || self.known(&attempt.name, &attempt.password, &attempt.hashes);
        let known = attempt.known.clone().or_else(found);
        let proof = known.or_else(|| self.compare(attempt, checker).map(Proof::Password));
        // The file may have changed since.
        let user = self.by_name(&attempt.name);
        let right = user.zip(proof).filter(|(user, proof)| proof.is_of(user));
        let right = right.map(|(user, proof)| Login::new(user, proof));
        if right.is_none() {
            login_limiter.blame(attempt.source, now_ms);
        }
        let mut queue = self.attempts.queue.lock();
        if right.is_none() {
            queue.mark_wrong(attempt.source);
        }
        let tickets = queue.land(attempt);
        drop(queue);
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
    fn compare(&self, attempt: &WaitingAttempt, checker: &mut PasswordChecker) -> Option<Arc<str>> {
        let WaitingAttempt {
            password, hashes, ..
        } = attempt;
        let mut is_right = |hash: &str| {
            count(&self.counts.hashes);
            checker.is_right(password, hash)
        };
        let Some(hash) = hashes.iter().find(|hash| is_right(hash)) else {
            // The same number of hashes for every name, of a user or not: a wrong attempt takes the
            // time of the user with most hashes.
            let most = self.roster().most_hashes();
            let most = most.map_or(vec![Arc::from(NOBODYS_HASH)], |user| user.hashes.clone());
            most.iter().skip(hashes.len()).for_each(|hash| {
                is_right(hash);
            });
            return None;
        };
        let digest = self.remembered.digest(&attempt.name, password, hash);
        self.remembered.add(&digest);
        Some(Arc::clone(hash))
    }

    /// Counts and logs a wrong attempt; never its password, nor a name without a user: that may be
    /// a misplaced password, or over memcached's protocol a value.
    fn note_wrong(&self, name: &[u8], peer: &str) -> LoginResult {
        count(&self.counts.wrong);
        let user = self.by_name(name);
        let user = user.as_ref().map_or("(unknown)", |user| &*user.name);
        tracing::warn!(user, address = peer, "a login failed");
        LoginResult::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::users::hash;
    use cellar_config::protocol::ByProtocol;
    use cellar_config::settings::Settings;

    fn users() -> Arc<Users> {
        let hash = hash(b"pw").unwrap();
        users_of(&format!(
            "[[user]]\nname = \"a\"\npasswords = [\"{hash}\"]\nrole = \"admin\"\n"
        ))
    }

    fn users_of(text: &str) -> Arc<Users> {
        users_with(text, Settings::default())
    }

    fn users_with(text: &str, settings: Settings) -> Arc<Users> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        let settings = Settings {
            users: Some(path),
            ..settings
        };
        Users::load(&settings).unwrap().unwrap()
    }

    /// How many of as many different attempts from a peer find a place.
    fn places(users: &Users, login_limiter: &LoginLimiter, peer: &str, attempts: usize) -> usize {
        let try_one = |number: usize| {
            let name = format!("u{number}");
            users.attempt((name.as_bytes(), b"x"), peer, login_limiter, 1_000)
        };
        let waits = |attempt: &Attempt| matches!(attempt, Attempt::Waits(_));
        (0..attempts).map(try_one).filter(waits).count()
    }

    #[test]
    fn one_source_holds_its_share_of_the_queue_and_the_next_finds_a_place() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let most = WAITING_PER_SOURCE_MAX;
        assert_eq!(places(&users, &login_limiter, "[2001:db8::1]:1", 50), 50);
        *users.attempts.queue.lock() = Queue::default();
        assert_eq!(places(&users, &login_limiter, "[2001:db8::1]:1", 100), most);
        let again = users.attempt((b"v", b"x"), "[2001:db8::2]:1", &login_limiter, 1_000);
        assert!(matches!(again, Attempt::Settled(LoginResult::Busy)));
        for host in 0..37 {
            let peer = format!("192.0.2.{host}:1");
            assert!(places(&users, &login_limiter, &peer, 100) > 0, "{host}");
        }
        assert_eq!(places(&users, &login_limiter, "198.51.100.1:1", 1), 1);
    }

    #[test]
    fn a_name_that_hundreds_of_networks_try_holds_up_that_name_alone() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let attempt = |name: &[u8], peer: &str| {
            let attempt = users.attempt((name, peer.as_bytes()), peer, &login_limiter, 1_000);
            let Attempt::Waits(ticket) = attempt else {
                panic!("it waits: {attempt:?}");
            };
            ticket
        };
        let from = |network: usize| format!("10.{}.{}.1:1", network / 200, network % 200);
        let guessed: Vec<_> = (0..400)
            .map(|network| attempt(b"a", &from(network)))
            .collect();
        let next = || users.next_attempt(1_000, 0).unwrap().name;
        assert_eq!((&*next(), &*next()), (&b"a"[..], &b"a"[..]));
        let other = attempt(b"b", "192.0.2.1:1");
        assert!([next(), next()].iter().any(|name| **name == *b"b"));
        assert_eq!(&*next(), b"a");
        drop((guessed, other));
    }

    /// Compares the next attempt with no hash: its password says what it is.
    fn compare_next(users: &Users, login_limiter: &LoginLimiter, at_ms: u64) {
        let Some(attempt) = users.next_attempt(at_ms, 0) else {
            return;
        };
        let is_right = attempt.password.starts_with(b"right");
        if !is_right {
            login_limiter.blame(attempt.source, at_ms);
        }
        let mut queue = users.attempts.queue.lock();
        if !is_right {
            queue.mark_wrong(attempt.source);
        }
        for ticket in queue.land(&attempt) {
            ticket.settle(LoginResult::Wrong);
        }
    }

    /// The longest time that a right login waits while so many networks, none of them suspicious,
    /// guess passwords of so many users, 100 a second, and the server compares 77.
    fn longest_wait_ms(networks: u64, names: u64) -> u64 {
        const COMPARING_MS: u64 = 13;
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let attempt = |name: String, password: String, peer: &str, at_ms: u64| {
            let secrets = (name.as_bytes(), password.as_bytes());
            match users.attempt(secrets, peer, &login_limiter, at_ms) {
                Attempt::Waits(ticket) => ticket,
                Attempt::Settled(result) => panic!("{result:?}"),
            }
        };
        let (mut guesses, mut logins, mut longest_ms) = (Vec::new(), Vec::new(), 0);
        for ms in 1_000..21_000_u64 {
            if ms.is_multiple_of(10) {
                let number = ms / 10 % networks;
                let peer = format!("10.{}.{}.1:1", number / 200, number % 200);
                let name = format!("user {}", ms / 10 % names);
                if let Ok(0) = login_limiter.delay_ms(Source::of(&peer), ms) {
                    guesses.push(attempt(name, format!("guess {ms}"), &peer, ms));
                }
            }
            if ms.is_multiple_of(250) {
                let peer = format!("192.0.{}.1:1", ms / 250);
                let name = format!("user {}", ms / 250 % names);
                logins.push((ms, attempt(name, format!("right {ms}"), &peer, ms)));
            }
            if ms.is_multiple_of(COMPARING_MS) {
                compare_next(&users, &login_limiter, ms);
            }
            logins.retain(|(came_ms, ticket)| {
                let waits = ticket.result().is_none();
                longest_ms = longest_ms.max(ms - came_ms);
                waits
            });
        }
        longest_ms
    }

    #[test]
    fn a_first_login_waits_for_two_seconds_at_most_while_new_networks_guess_passwords() {
        for names in [1, 2, 20, 400] {
            let longest_ms = longest_wait_ms(400, names);
            println!("{names} names: {longest_ms} ms");
            assert!(longest_ms < 2_000, "{names} names: {longest_ms} ms");
        }
    }

    #[test]
    fn a_login_from_a_new_network_is_compared_before_the_guesses_that_were_there_first() {
        let names = |count: usize| move |number: usize| format!("user {}", number % count);
        for (name, most) in [(names(15), 2 * 15), (names(400), ALIKE_TURNS as usize)] {
            let (users, login_limiter) = (users(), LoginLimiter::default());
            let attempt = |number: usize, peer: &str| {
                let name = name(number);
                users.attempt(
                    (name.as_bytes(), peer.as_bytes()),
                    peer,
                    &login_limiter,
                    1_000,
                )
            };
            let from = |network: usize| format!("10.{}.{}.1:1", network / 200, network % 200);
            let guesses: Vec<_> = (0..400).map(|one| attempt(one, &from(one))).collect();
            // One attempt of each name was taken.
            (0..40).for_each(|_| drop(users.next_attempt(1_000, 0)));
            let login = attempt(7, FRESH);
            let turns = turns_until(&users, FRESH, 1_000 + OVERLOADED_MS).unwrap();
            assert!(turns <= most, "{turns} of {most}");
            drop((guesses, login));
        }
    }

    #[test]
    fn an_address_with_one_login_gets_its_turn_however_full_the_queue_is() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let mut tickets = Vec::new();
        let mut attempt = |name: String, peer: &str| {
            let secrets = (name.as_bytes(), b"x".as_slice());
            match users.attempt(secrets, peer, &login_limiter, 1_000) {
                Attempt::Waits(ticket) => {
                    tickets.push(Arc::clone(&ticket));
                    Some(ticket)
                }
                Attempt::Settled(_) => None,
            }
        };
        for host in 0..80 {
            for number in 0..20 {
                attempt(format!("u{number}"), &format!("192.0.2.{host}:1"));
            }
        }
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        let refused = || users.counts.refused.load(Ordering::Relaxed);
        let before = refused();
        let ticket = attempt("v".to_owned(), "198.51.100.1:1").expect("it finds a place");
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        // One was removed for it; no more enter when all have as many.
        assert!(attempt("v".to_owned(), "192.0.2.1:1").is_none());
        assert_eq!(refused() - before, 2);
        let mut turns = (0..=80).map(|_| users.next_attempt(1_000, 0).unwrap());
        let turn = turns.position(|attempt| *attempt.name == *b"v");
        assert!(turn.is_some());
        assert!(ticket.result().is_none());
        let is_busy = |ticket: &Arc<Ticket>| matches!(ticket.result(), Some(LoginResult::Busy));
        assert!(tickets.iter().any(is_busy));
    }

    /// Fills the queue with one attempt of each of `networks`.
    fn fill(users: &Users, login_limiter: &LoginLimiter) {
        for host in 0..WAITING_MAX {
            let peer = format!("10.{}.{}.1:1", host / 256, host % 256);
            assert_eq!(places(users, login_limiter, &peer, 1), 1, "{host}");
        }
    }

    /// The number of attempts taken before one of this source.
    fn turns_until(users: &Users, peer: &str, now_ms: u64) -> Option<usize> {
        let source = Source::of(peer);
        let mut turns = (0..=WAITING_MAX).map_while(|_| users.next_attempt(now_ms, 0));
        turns.position(|attempt| attempt.source == source)
    }

    const FRESH: &str = "198.51.100.1:1";
    const OTHER: &str = "203.0.113.1:1";

    #[test]
    fn a_queue_full_of_sources_that_were_wrong_makes_room_for_one_that_was_not() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        for host in 0..WAITING_MAX {
            let peer = format!("10.{}.{}.1:1", host / 256, host % 256);
            login_limiter.blame(Source::of(&peer), 1_000);
        }
        login_limiter.blame(Source::of(OTHER), 1_000);
        fill(&users, &login_limiter);
        let wrong = || {
            let queue = users.attempts.queue.lock();
            // The network of a dropped source may still be known.
            let was_wrong = |one: &&WaitingAttempt| one.suspicion != Suspicion::None;
            queue.waiting.values().filter(was_wrong).count()
        };
        let before = wrong();
        // The table of attempts has forgotten a few at most.
        assert!(before > WAITING_MAX / 2, "{before}");
        assert_eq!(places(&users, &login_limiter, FRESH, 1), 1);
        assert_eq!(wrong(), before - 1);
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        assert_eq!(places(&users, &login_limiter, OTHER, 1), 0);
        // Before the suspicious ones.
        let turns = turns_until(&users, FRESH, 1_000).unwrap();
        let others = (WAITING_MAX - before) * ALIKE_TURNS as usize;
        assert!(turns <= others + ALIKE_TURNS as usize, "{turns}, {before}");
    }

    #[test]
    fn a_queue_full_of_sources_that_were_not_wrong_makes_room_for_one_more() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        fill(&users, &login_limiter);
        login_limiter.blame(Source::of(OTHER), 1_000);
        assert_eq!(places(&users, &login_limiter, OTHER, 1), 0);
        assert_eq!(places(&users, &login_limiter, FRESH, 2), 1);
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        let queue = users.attempts.queue.lock();
        assert_eq!(queue.networks.len(), WAITING_MAX);
        assert_eq!(queue.lanes.len(), WAITING_MAX);
    }

    #[test]
    fn the_addresses_of_a_few_networks_keep_nobody_elses_login_waiting() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let networks = 8;
        let hosts = WAITING_MAX / networks;
        let knock = |host: usize| {
            for network in 0..networks {
                places(
                    &users,
                    &login_limiter,
                    &format!("10.0.{network}.{host}:1"),
                    1,
                );
            }
        };
        (0..hosts).for_each(knock);
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        assert_eq!(places(&users, &login_limiter, FRESH, 1), 1);
        // They replace each other, and not an attempt of another network.
        (hosts..2 * hosts).for_each(knock);
        assert_eq!(users.attempts.queue.lock().waiting.len(), WAITING_MAX);
        assert_eq!(users.attempts.queue.lock().count_of(Source::of(FRESH)), 1);
        let turns = turns_until(&users, FRESH, 1_000).unwrap();
        assert!(turns <= networks, "{turns}");
    }

    #[test]
    fn what_is_wrong_costs_as_many_hashes_whoever_is_named() {
        let hash = hash(b"pw").unwrap();
        let rows = [("a", 1), ("b", 3), ("c", 0)].map(|(name, count)| {
            let hashes = vec![format!("\"{hash}\""); count].join(", ");
            let rows = format!("passwords = [{hashes}]\nuids = [{count}]\nrole = \"read\"");
            format!("[[user]]\nname = \"{name}\"\n{rows}\n")
        });
        let settings = Settings {
            secrets: ByProtocol {
                http: "t0ken".to_owned(),
                ..ByProtocol::default()
            },
            ..Settings::default()
        };
        let users = users_with(&rows.concat(), settings);
        let login_limiter = LoginLimiter::default();
        let mut before = 0;
        let names = ["a", "b", "c", "nobody", DEFAULT_USER];
        for (host, name) in names.iter().enumerate() {
            let peer = format!("192.0.2.{host}:1");
            let secrets = (name.as_bytes(), b"x".as_slice());
            let Attempt::Waits(ticket) = users.attempt(secrets, &peer, &login_limiter, 1_000)
            else {
                panic!("{name} is known without a hash");
            };
            let attempt = users.next_attempt(1_000, 0).unwrap();
            users.settle(
                attempt,
                &mut PasswordChecker::default(),
                &login_limiter,
                1_000,
            );
            assert!(matches!(ticket.result(), Some(LoginResult::Wrong)));
            let hashes = users.counts.hashes.load(Ordering::Relaxed);
            assert_eq!(hashes - before, 3, "{name}");
            before = hashes;
        }
    }

    #[test]
    fn an_attempt_that_nobody_waits_for_is_not_compared() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        drop(users.attempt((b"a", b"x"), "192.0.2.1:1", &login_limiter, 1_000));
        let attempt = users.next_attempt(1_000, 0).unwrap();
        users.settle(
            attempt,
            &mut PasswordChecker::default(),
            &login_limiter,
            1_000,
        );
        assert_eq!(users.counts.hashes.load(Ordering::Relaxed), 0);
        assert!(users.attempts.queue.lock().lanes.is_empty());
    }

    #[test]
    fn an_address_of_a_network_without_failures_comes_before_new_ones_of_others() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        for network in 0..100 {
            login_limiter.blame(Source::of(&format!("10.0.{network}.1:1")), 1_000);
        }
        // Each attempt comes from its own address.
        for host in 2..12 {
            for network in 0..100 {
                places(
                    &users,
                    &login_limiter,
                    &format!("10.0.{network}.{host}:1"),
                    1,
                );
            }
        }
        assert!(users.attempts.queue.lock().waiting.len() > WAITING_MAX / 2);
        assert_eq!(places(&users, &login_limiter, FRESH, 1), 1);
        let turns = turns_until(&users, FRESH, 1_000).unwrap();
        assert!(turns < ALIKE_TURNS as usize, "{turns}");
    }

    #[test]
    fn a_crowd_that_has_ended_its_side_is_told_that_too_many_wait() {
        let (users, login_limiter) = (users(), LoginLimiter::default());
        let tickets: Vec<_> = (0..100)
            .map(|host| {
                let peer = format!("192.0.2.{host}:1");
                match users.attempt((b"a", b"x"), &peer, &login_limiter, 1_000) {
                    Attempt::Waits(ticket) => ticket,
                    Attempt::Settled(result) => panic!("{result:?}"),
                }
            })
            .collect();
        tickets.iter().for_each(|ticket| ticket.leave());
        while let Some(attempt) = users.next_attempt(1_000, 0) {
            users.settle(
                attempt,
                &mut PasswordChecker::default(),
                &login_limiter,
                1_000,
            );
        }
        let hashes = users.counts.hashes.load(Ordering::Relaxed);
        assert_eq!(hashes, LEAVING_MAX as u64);
        assert!(tickets.iter().all(|ticket| ticket.result().is_some()));
    }
}
