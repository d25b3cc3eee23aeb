//! Handshakes: TLS handshakes of new connections, on a thread beside the event loops.
//!
//! A loop gets a stream that is ready to read, so it never computes a signature. At most
//! [`HANDSHAKES_MAX`] handshakes are in progress, [`HANDSHAKES_PER_SOURCE_MAX`] of one source, for
//! [`PATIENCE_MS`] at most; above that the oldest handshake of the source with the most is closed.
//! A peer that has not finished its handshake costs its socket and a bounded number of bytes.
//!
//! The thread also reloads certificates and keys, on SIGHUP and when a file has changed. It retries
//! files that it could not use, because time alone may make a certificate valid.
//!
//! Why: docs/decisions/0041. Tests: tests/tls.rs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use cellar_config::limits::{HANDSHAKES_MAX, HANDSHAKES_PER_SOURCE_MAX};
use cellar_net::mailbox::{Arrival, Mailbox};
use cellar_net::stream::Stream;
use cellar_net::stream::encrypted::Handshake;
use cellar_net::tls::Keys;
use cellar_shared::auth::by_source::BySource;
use cellar_shared::auth::login_limiter::Source;
use cellar_shared::auth::wrong_protocol::Spoken;
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use cellar_system::poller::{Interest, Poller};
use cellar_system::signals::Hangups;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::server::event_loop::admission::{Admission, refuse};

/// Connections in a handshake or waiting to begin one.
pub(crate) const GUESTS_MAX: usize = 2 * HANDSHAKES_MAX;
/// The same for one source, so that one source cannot use up the limit for the others.
const GUESTS_PER_SOURCE_MAX: usize = GUESTS_MAX / 4;
/// Longest time from the accept of a connection until its handshake is done.
const PATIENCE_MS: u64 = 10_000;
/// How often the thread checks the files, and the handshakes for time-outs.
const LOOK_MS: u64 = 1_000;
/// How long after a failed reload it is retried.
const RETRY_MS: u64 = 60_000;
/// Shortest time between two log lines about failed handshakes.
const TOLD_MS: u64 = 1_000;
/// Token of the mailbox's waker; a handshake's is its number.
const WAKE_TOKEN: u64 = u64::MAX;
/// Token of SIGHUP.
const HANGUP_TOKEN: u64 = u64::MAX - 1;

/// The queue of clients for the handshake thread.
#[derive(Clone)]
pub(crate) struct Antechamber {
    mailbox: Arc<Mailbox>,
    guests: Arc<Guests>,
    state: Arc<State>,
}

/// Connections per source in a handshake or waiting for one.
#[derive(Debug, Default)]
struct Guests(Mutex<HashMap<Source, usize>>);

impl Guests {
    /// Counts one more connection of a source, unless the source has reached its limit.
    fn take(&self, source: Source) -> bool {
        let mut counts = self.0.lock();
        let count = counts.entry(source).or_default();
        let has_place = *count < GUESTS_PER_SOURCE_MAX;
        *count += usize::from(has_place);
        has_place
    }

    /// Counts one less of a source.
    fn give(&self, source: Source) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&source);
            }
        }
    }
}

/// A handshake in progress.
struct Guest {
    arrival: Arrival,
    source: Source,
    /// When it has taken too long.
    until_ms: u64,
}

/// The error of the last reload of certificates and keys, if any.
#[derive(Debug, Default)]
struct Refusal {
    /// The error as last logged.
    told: String,
    /// When the reload is retried.
    retry_ms: Option<u64>,
}

impl Refusal {
    /// Records an error; returns whether it differs from the last logged one.
    fn note(&mut self, reason: String, now_ms: u64) -> bool {
        self.retry_ms = Some(now_ms + RETRY_MS);
        let is_news = self.told != reason;
        self.told = reason;
        is_news
    }

    /// Whether it is time to try again.
    fn is_due(&self, now_ms: u64) -> bool {
        self.retry_ms.is_some_and(|retry_ms| retry_ms <= now_ms)
    }
}

/// The thread's own.
struct Handshakes {
    admission: Admission,
    keys: Arc<Keys>,
    mailbox: Arc<Mailbox>,
    guests: Arc<Guests>,
    hangups: Hangups,
    poller: Poller,
    /// By number: the first is the oldest.
    under_way: BTreeMap<u64, Guest>,
    /// Handshake numbers by source.
    by_source: BySource,
    /// The highest number given out.
    last: u64,
    refusal: Refusal,
    look_ms: u64,
    tell_ms: u64,
}

impl Antechamber {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it is out of files or threads.
    pub(crate) fn start(
        admission: Admission,
        keys: Arc<Keys>,
        clock: LoopClock,
    ) -> Result<(Antechamber, JoinHandle<Result<(), Errno>>), std::io::Error> {
        let mailbox = Arc::new(Mailbox::new()?);
        let hangups = Hangups::take_over()?;
        let poller = Poller::new()?;
        poller.add(&mailbox.waker, WAKE_TOKEN, Interest::Reads)?;
        poller.add(&hangups, HANGUP_TOKEN, Interest::Level)?;
        let guests = Arc::new(Guests::default());
        let antechamber = Antechamber {
            mailbox: Arc::clone(&mailbox),
            guests: Arc::clone(&guests),
            state: Arc::clone(&admission.state),
        };
        let handshakes = Handshakes {
            admission,
            keys,
            mailbox,
            guests,
            hangups,
            poller,
            under_way: BTreeMap::new(),
            by_source: BySource::default(),
            last: 0,
            refusal: Refusal::default(),
            look_ms: 0,
            tell_ms: 0,
        };
        let thread = thread::Builder::new().name("cellar-tls".to_owned());
        let thread = thread.spawn(move || handshakes.run(&clock))?;
        Ok((antechamber, thread))
    }

    /// Queues a connection; closes it if a limit is reached.
    pub(crate) fn post(&self, arrival: Arrival) {
        let is_full = self.mailbox.connections() >= GUESTS_MAX;
        if is_full || !self.guests.take(Source::of(&arrival.peer)) {
            self.state.statistics.acceptor.tls_handshakes_failed.add(1);
            return;
        }
        Mailbox::post(std::slice::from_ref(&*self.mailbox), arrival);
    }

    /// Makes the thread check the clock.
    pub(crate) fn wake(&self) {
        self.mailbox.waker.wake();
    }

    /// Makes the thread end.
    pub(crate) fn stop(&self) {
        Mailbox::drain(std::slice::from_ref(&*self.mailbox));
    }
}

impl Handshakes {
    fn run(mut self, clock: &LoopClock) -> Result<(), Errno> {
        while !self.mailbox.is_draining() {
            let now_ms = clock.us() / 1_000;
            if self.look_ms <= now_ms {
                self.look_ms = now_ms + LOOK_MS;
                self.look(now_ms);
            }
            let sleep_ms = u32::try_from(self.look_ms - now_ms).unwrap_or(0);
            let count = self.poller.wait(sleep_ms)?;
            let now_ms = clock.us() / 1_000;
            for index in 0..count {
                match self.poller.ready(index).token {
                    WAKE_TOKEN => self.take_in(now_ms),
                    HANGUP_TOKEN if self.hangups.take() => self.reload(now_ms),
                    HANGUP_TOKEN => {}
                    number => self.go_on(number, now_ms),
                }
            }
        }
        Ok(())
    }

    fn state(&self) -> &State {
        &self.admission.state
    }

    /// Begins the handshakes of all queued connections.
    fn take_in(&mut self, now_ms: u64) {
        while let Some(mut arrival) = self.mailbox.take() {
            let source = Source::of(&arrival.peer);
            self.make_place(source, now_ms);
            self.last += 1;
            let number = self.last;
            let added = self
                .poller
                .add(&arrival.stream, number, Interest::ReadsAndWrites);
            let connection = self.keys.connection(arrival.protocol);
            let (Ok(()), Ok(connection)) = (added, connection) else {
                self.give_up(arrival, "no room for it", now_ms);
                continue;
            };
            arrival.stream.encrypt(connection);
            let until_ms = now_ms + PATIENCE_MS;
            let guest = Guest {
                arrival,
                source,
                until_ms,
            };
            self.under_way.insert(number, guest);
            self.by_source.add(source, number);
        }
    }

    /// Makes a place for one more of a source: closes the oldest of that source, or of the source
    /// with most.
    fn make_place(&mut self, source: Source, now_ms: u64) {
        let (leaving, why) = if self.by_source.count_of(source) >= HANDSHAKES_PER_SOURCE_MAX {
            (
                self.by_source.oldest_of(source),
                "too many from this address",
            )
        } else if self.under_way.len() >= HANDSHAKES_MAX {
            (self.by_source.oldest_of_most(), "too many at one time")
        } else {
            return;
        };
        if let Some(guest) = leaving.and_then(|number| self.take_out(number)) {
            self.give_up(guest.arrival, why, now_ms);
        }
    }

    fn take_out(&mut self, number: u64) -> Option<Guest> {
        let guest = self.under_way.remove(&number)?;
        self.by_source.remove(guest.source, number);
        Some(guest)
    }

    /// Continues a handshake.
    fn go_on(&mut self, number: u64, now_ms: u64) {
        let Some(guest) = self.under_way.get_mut(&number) else {
            return;
        };
        let handshake = guest.arrival.stream.shake_hands();
        if handshake == Handshake::Waiting {
            return;
        }
        let Some(Guest { mut arrival, .. }) = self.take_out(number) else {
            return;
        };
        match handshake {
            Handshake::Waiting => {}
            Handshake::Done => self.admit(arrival),
            Handshake::Plain => {
                let text = Spoken::Plain.refusal(arrival.protocol);
                let (state, peer) = (self.state(), arrival.peer.clone());
                let wrong_protocol = &state.access.wrong_protocol;
                wrong_protocol.note(arrival.protocol, Spoken::Plain, now_ms, || peer);
                refuse(&mut arrival.stream, &text);
                self.give_up(arrival, "the client does not speak TLS", now_ms);
            }
            Handshake::Refused(why) => self.give_up(arrival, &why, now_ms),
            Handshake::Gone => self.give_up(arrival, "the client went away", now_ms),
        }
    }

    /// Admits a client whose handshake is done.
    fn admit(&self, arrival: Arrival) {
        let counters = &self.state().statistics.handshakes;
        counters.tls_handshakes.add(1);
        if arrival.stream.is_resumed() {
            counters.tls_handshakes_resumed.add(1);
        }
        self.note_gone(&arrival);
        if self.poller.remove(&arrival.stream).is_ok() {
            self.admission.admit(arrival, counters);
        }
    }

    /// Counts one connection less.
    fn note_gone(&self, arrival: &Arrival) {
        self.mailbox.note_closed();
        self.guests.give(Source::of(&arrival.peer));
    }

    /// Ends a handshake that is not done.
    fn give_up(&mut self, mut arrival: Arrival, why: &str, now_ms: u64) {
        self.state()
            .statistics
            .handshakes
            .tls_handshakes_failed
            .add(1);
        self.note_gone(&arrival);
        if self.tell_ms <= now_ms {
            self.tell_ms = now_ms + TOLD_MS;
            let (peer, protocol) = (&arrival.peer, arrival.protocol.name());
            tracing::info!(peer, protocol, why, "TLS handshake failed");
        }
        end(&mut arrival.stream);
    }

    /// Ends handshakes that take too long, and reads files that have changed.
    fn look(&mut self, now_ms: u64) {
        let overdue = |handshakes: &Handshakes| {
            let (&number, guest) = handshakes.under_way.first_key_value()?;
            (guest.until_ms <= now_ms).then_some(number)
        };
        while let Some(guest) = overdue(self).and_then(|number| self.take_out(number)) {
            self.give_up(guest.arrival, "it took too long", now_ms);
        }
        if self.keys.have_changed() {
            self.reload(now_ms);
        } else if self.refusal.is_due(now_ms) {
            self.retry(now_ms);
        }
    }

    /// Reloads certificates and keys, and logs the result in any case.
    fn reload(&mut self, now_ms: u64) {
        self.refusal = Refusal::default();
        self.retry(now_ms);
    }

    /// Reloads certificates and keys; does not log the same error twice.
    fn retry(&mut self, now_ms: u64) {
        let counters = &self.admission.state.statistics.handshakes;
        match self.keys.reload() {
            Ok(()) => {
                self.refusal = Refusal::default();
                counters.tls_reloads.add(1);
                tracing::info!("reloaded certificates and keys");
            }
            Err(error) => {
                counters.tls_reloads_failed.add(1);
                if self.refusal.note(error.to_string(), now_ms) {
                    tracing::error!(%error, "keeping the old certificates and keys");
                }
            }
        }
    }
}

/// Ends a stream so that its last bytes arrive.
fn end(stream: &mut Stream) {
    refuse(stream, b"");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_tried_again_each_minute_and_told_once() {
        let mut refusal = Refusal::default();
        assert!(!refusal.is_due(u64::MAX));
        assert!(refusal.note("not valid yet".to_owned(), 5));
        assert!(!refusal.is_due(4 + RETRY_MS) && refusal.is_due(5 + RETRY_MS));
        assert!(!refusal.note("not valid yet".to_owned(), 5 + RETRY_MS));
        assert!(!refusal.is_due(4 + 2 * RETRY_MS) && refusal.is_due(5 + 2 * RETRY_MS));
        assert!(refusal.note("no such file".to_owned(), 5 + 2 * RETRY_MS));
    }
}
