//! Entries: the cached state of a key, and the handle that readers get.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::read_through::trust::{Grant, nanoseconds};
use crate::read_through::version::Version;

/// Pause before an entry is refreshed again after a failure; twice as long after each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The cached state of one key, with the times and the grant that bound it.
///
/// Times are on the cache's clock. They change when the origin confirms the entry.
#[derive(Debug)]
pub struct Entry<V> {
    value: Option<V>,
    version: Option<Version>,
    grant: Option<Grant>,
    // Relaxed: see `Entry::confirm`.
    asked_at_ns: AtomicU64,
    // Relaxed: see `Entry::confirm`.
    deadline_ns: AtomicU64,
    // Relaxed: it picks one refresher and orders nothing.
    refreshing: AtomicBool,
    /// How often in a row it could not be refreshed.
    // Relaxed: only one thread at a time refreshes it.
    failures: AtomicU32,
    /// No refresh is tried before this time.
    // Relaxed: if it is seen late, one more request is sent, or a refresh is a little later.
    paused_until_ns: AtomicU64,
    /// Whether a loader was asked before it was said that there is no value.
    loader_asked: bool,
}

/// How good an entry is for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It may be served.
    Fresh,
    /// It may be served, and the origin should be asked soon.
    Due,
    /// It may not be served, unless the origin fails.
    Stale,
}

impl<V> Entry<V> {
    /// The entry of an answer to a request sent at `asked_at`, valid until `deadline`.
    pub(crate) fn new(
        value: Option<V>,
        version: Option<Version>,
        grant: Option<Grant>,
        asked_at: Duration,
        deadline: Option<Duration>,
    ) -> Entry<V> {
        let entry = Entry {
            value,
            version,
            grant,
            asked_at_ns: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(0),
            refreshing: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            paused_until_ns: AtomicU64::new(0),
            loader_asked: false,
        };
        entry.confirm(asked_at, deadline);
        entry
    }

    /// The same, with a note whether a loader was asked for its value.
    pub(crate) fn loader_asked(mut self, asked: bool) -> Entry<V> {
        self.loader_asked = asked;
        self
    }

    /// Whether a reader with a loader need not call it.
    #[inline]
    pub(crate) fn needs_no_loader(&self) -> bool {
        self.value.is_some() || self.loader_asked
    }

    /// Notes that the origin has confirmed it.
    pub(crate) fn confirm(&self, asked_at: Duration, deadline: Option<Duration>) {
        let deadline_ns = deadline.map_or(u64::MAX, nanoseconds);
        // Relaxed: a reader may see one time from before and one from after; no mixture lets it
        // live longer than the later of the two would.
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
        self.asked_at_ns
            .store(nanoseconds(asked_at), Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.paused_until_ns.store(0, Ordering::Relaxed);
        self.refreshing.store(false, Ordering::Relaxed);
    }

    /// The value; none if the origin has none.
    pub fn value(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// Its version at the origin, if that can be asked for.
    pub(crate) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Whether a reader who accepts entries up to `age_max` may be served it at `now`; it is due in
    /// the last `ahead` of its life.
    #[inline]
    pub(crate) fn freshness(
        &self,
        now: Duration,
        age_max: Option<Duration>,
        ahead: Option<f64>,
    ) -> Freshness {
        let now_ns = nanoseconds(now);
        if let Some(grant) = &self.grant
            && !grant.holds_at_ns(now_ns)
        {
            return Freshness::Stale;
        }
        let asked_at_ns = self.asked_at_ns.load(Ordering::Relaxed);
        let age_end_ns =
            age_max.map_or(u64::MAX, |age| asked_at_ns.saturating_add(nanoseconds(age)));
        let end_ns = self.deadline_ns.load(Ordering::Relaxed).min(age_end_ns);
        if now_ns >= end_ns {
            return Freshness::Stale;
        }
        match ahead {
            Some(ahead) if is_due(now_ns, asked_at_ns, end_ns, ahead) => Freshness::Due,
            _ => Freshness::Fresh,
        }
    }

    /// Until when it was known to be valid, for a reader who accepts entries up to `age_max`.
    pub(crate) fn known_until(&self, age_max: Option<Duration>) -> Duration {
        let asked_at = Duration::from_nanos(self.asked_at_ns.load(Ordering::Relaxed));
        let deadline = Duration::from_nanos(self.deadline_ns.load(Ordering::Relaxed));
        let age_end = age_max.map_or(Duration::MAX, |age| asked_at.saturating_add(age));
        let trust_end = self
            .grant
            .as_ref()
            .map_or(Duration::MAX, Grant::known_until);
        deadline.min(age_end).min(trust_end)
    }

    /// How long it lives at the origin from the question on, if it ends there.
    pub(crate) fn life(&self) -> Option<Duration> {
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        let asked_at_ns = self.asked_at_ns.load(Ordering::Relaxed);
        let life_ns = deadline_ns.saturating_sub(asked_at_ns);
        (deadline_ns != u64::MAX).then_some(Duration::from_nanos(life_ns))
    }

    /// Whether it has been declared changed.
    pub(crate) fn is_void(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| !grant.is_valid())
    }

    /// Whether its connection is lost.
    pub(crate) fn has_lost_touch(&self) -> bool {
        self.grant.as_ref().is_some_and(Grant::has_ended)
    }

    /// Whether the caller is the first to see that it is due; not in the pause after a failure.
    pub(crate) fn claim_refresh(&self, now: Duration) -> bool {
        // Relaxed: as at their declarations.
        let paused_until_ns = self.paused_until_ns.load(Ordering::Relaxed);
        nanoseconds(now) >= paused_until_ns && !self.refreshing.swap(true, Ordering::Relaxed)
    }

    /// Notes that it could not be refreshed, and lets another one try after a pause.
    pub(crate) fn refresh_failed(&self, now: Duration) {
        // Relaxed: as at their declarations.
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(before));
        let until = now.saturating_add(pause.min(PAUSE_MAX));
        self.paused_until_ns
            .store(nanoseconds(until), Ordering::Relaxed);
        self.release_refresh();
    }

    /// Lets another one refresh it.
    pub(crate) fn release_refresh(&self) {
        self.refreshing.store(false, Ordering::Relaxed);
    }
}

/// Whether `now` lies in the last part `ahead` of the time between `from` and `end`.
fn is_due(now_ns: u64, from_ns: u64, end_ns: u64, ahead: f64) -> bool {
    if end_ns == u64::MAX {
        return false;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a time, to within nanoseconds"
    )]
    let ahead_ns = (end_ns.saturating_sub(from_ns) as f64 * ahead) as u64;
    now_ns >= end_ns.saturating_sub(ahead_ns)
}

/// A value held by a reader: it lives until its last holder drops it, whatever the cache does.
///
/// Cloning costs one atomic addition; nothing is copied.
#[derive(Debug)]
pub struct Held<V> {
    entry: Arc<Entry<V>>,
    stale: bool,
}

impl<V> Held<V> {
    /// The value of `entry`; none if it says that there is none.
    pub(crate) fn of(entry: Arc<Entry<V>>, stale: bool) -> Option<Held<V>> {
        entry.value.is_some().then_some(Held { entry, stale })
    }

    /// Whether it was served although it is out of date, because the origin failed.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Its entry, which always has a value; for callers that count references themselves.
    #[must_use]
    pub fn into_entry(self) -> Arc<Entry<V>> {
        self.entry
    }
}

impl<V> Clone for Held<V> {
    fn clone(&self) -> Self {
        Held {
            entry: Arc::clone(&self.entry),
            stale: self.stale,
        }
    }
}

impl<V> Deref for Held<V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.entry
            .value
            .as_ref()
            .expect("only entries with a value are held")
    }
}

impl<V> AsRef<V> for Held<V> {
    fn as_ref(&self) -> &V {
        self
    }
}

impl<V: PartialEq> PartialEq<V> for Held<V> {
    fn eq(&self, other: &V) -> bool {
        **self == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_through::trust::Trust;

    const SECOND: Duration = Duration::from_secs(1);

    fn entry(deadline: Option<Duration>) -> Entry<u32> {
        Entry::new(Some(7), None, None, 10 * SECOND, deadline)
    }

    #[test]
    fn the_reader_decides_how_old_a_entry_may_be() {
        let entry = entry(Some(20 * SECOND));
        assert_eq!(entry.freshness(15 * SECOND, None, None), Freshness::Fresh);
        let young = Some(4 * SECOND);
        assert_eq!(entry.freshness(15 * SECOND, young, None), Freshness::Stale);
        let old = Some(60 * SECOND);
        assert_eq!(entry.freshness(20 * SECOND, old, None), Freshness::Stale);
    }

    #[test]
    fn a_entry_is_due_in_the_last_part_of_its_life() {
        let entry = entry(Some(20 * SECOND));
        let ahead = Some(0.2);
        assert_eq!(entry.freshness(17 * SECOND, None, ahead), Freshness::Fresh);
        assert_eq!(entry.freshness(18 * SECOND, None, ahead), Freshness::Due);
        let now = 18 * SECOND;
        assert!(entry.claim_refresh(now) && !entry.claim_refresh(now));
        assert_eq!(
            self::entry(None).freshness(18 * SECOND, None, ahead),
            Freshness::Fresh
        );
    }

    #[test]
    fn confirming_makes_it_young_again() {
        let entry = entry(Some(20 * SECOND));
        entry.confirm(19 * SECOND, Some(29 * SECOND));
        assert_eq!(
            entry.freshness(25 * SECOND, Some(10 * SECOND), None),
            Freshness::Fresh
        );
    }

    #[test]
    fn without_its_connection_a_entry_is_stale_but_known_for_a_while() {
        let trust = Trust::new();
        trust.extend(15 * SECOND);
        let entry = Entry::new(Some(7), None, Some(trust.grant()), 10 * SECOND, None);
        assert_eq!(entry.freshness(14 * SECOND, None, None), Freshness::Fresh);
        assert_eq!(entry.freshness(15 * SECOND, None, None), Freshness::Stale);
        trust.end();
        assert_eq!(entry.freshness(14 * SECOND, None, None), Freshness::Stale);
        assert_eq!(entry.known_until(None), 15 * SECOND);
        assert!(!entry.is_void() && entry.has_lost_touch());
    }
}
