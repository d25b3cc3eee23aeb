//! Login limiter: bounds wrong attempts at a password or a token.
//!
//! Each source has a token bucket of [`BURST`] wrong attempts, refilled by one per [`REFILL_MS`].
//! While it is empty no attempt of the source is compared, so that a right one is not told apart.
//! Right attempts cost nothing.
//!
//! The buckets are in a table of fixed size; a source without attempts has none. If more sources
//! attempt than fit, the one with the fewest wrong attempts is dropped.
//!
//! Why: docs/decisions/0027.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use cellar_net::listener::UID_MARK;
use parking_lot::Mutex;

/// Wrong attempts that a source has before it has to wait.
pub const BURST: u64 = 30;
/// Time until it has one more.
pub const REFILL_MS: u64 = 1_000;
/// How far ahead a bucket may be filled for one more attempt to be compared.
const MOST_MS: u64 = (BURST - 1) * REFILL_MS;
/// Wrong attempts that cost a source no time.
const FREE_ATTEMPTS: u64 = 3;
/// The delay of the next attempt, and the longest delay.
pub const DELAY_MS_MIN: u64 = 125;
/// See above.
pub const DELAY_MS_MAX: u64 = 4_000;
/// Wrong attempts after which a connection ends.
pub const PER_CONNECTION_MAX: u8 = 10;
/// How long a source with a wrong attempt is distinguished from one without.
pub const RECENT_MS: u64 = 10 * 60 * 1_000;
/// Sets of buckets, a power of two.
const SETS: usize = 1 << 10;
/// Buckets that a source may be in.
const WAYS: usize = 4;
/// How a source begins that is an IPv4 address; no network of IPv6 begins with zeros and ones like
/// these.
const IPV4: u64 = 0xffff;
/// How one begins that is a user of the machine; none begins with zeros like these either.
const UID: u64 = 0xfffe;
/// Bits of a source that are not its network's: a /24 of IPv4, a /48 of IPv6.
const HOST_BITS_IPV4: u32 = 8;
const HOST_BITS_IPV6: u32 = 16;

/// The source of attempts: an IPv4 address, or the network of an IPv6 address (/64), which one
/// customer has whole; on a Unix socket the user ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u64);

impl Source {
    /// The source of a peer, as [`told_of`](cellar_net::listener::told_of) formats it.
    #[must_use]
    pub fn of(peer: &str) -> Source {
        let Ok(address) = peer.parse::<SocketAddr>() else {
            let uid = peer
                .rsplit_once(UID_MARK)
                .map(|(_, uid)| uid.parse::<u32>());
            let uid = uid.and_then(Result::ok);
            return uid.map_or(Source::default(), |uid| Source(u64::from(uid) | UID << 32));
        };
        Source(match address.ip().to_canonical() {
            IpAddr::V4(address) => u64::from(u32::from(address)) | IPV4 << 32,
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
        })
    }

    /// The network that it is in.
    #[must_use]
    pub fn network(self) -> Network {
        let host_bits = match self.0 >> 32 {
            IPV4 => HOST_BITS_IPV4,
            UID => 0,
            _ => HOST_BITS_IPV6,
        };
        Network(self.0 >> host_bits << host_bits)
    }
}

/// A group of sources that one customer can easily have: an IPv4 network (/24) or an IPv6 one
/// (/48); a Unix user ID is alone in its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(u64);

impl Network {
    /// The network as a source of its own: no peer's address has these bits.
    fn as_source(self) -> Source {
        Source(!self.0)
    }
}

/// How near to an attempt recent wrong ones came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// No recent wrong attempt.
    None,
    /// Others of its network.
    Network,
    /// Others of its source.
    Source,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAttempt {
    /// It was right.
    Right,
    /// It was wrong.
    Wrong,
    /// It was not compared: its source had too many wrong attempts.
    TooMany {
        /// Seconds until its next attempt is compared.
        wait_s: u64,
    },
}

/// One address that has tried.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    source: Source,
    /// When it will have all its attempts again, in engine milliseconds; not ahead: it is free.
    full_ms: u64,
}

type Sets = Box<[[Bucket; WAYS]]>;

/// The addresses that have tried.
#[derive(Debug, Default)]
pub struct LoginLimiter {
    random: RandomState,
    /// Made for the first wrong attempt.
    sets: OnceLock<Mutex<Sets>>,
}

impl LoginLimiter {
    /// Compares an attempt from `source` at `now_ms` with a secret.
    pub fn compare(
        &self,
        source: Source,
        now_ms: u64,
        given: &[u8],
        secret: &[u8],
    ) -> LoginAttempt {
        let Some(sets) = self.sets.get() else {
            if is_same(given, secret) {
                return LoginAttempt::Right;
            }
            return self.compare_in(self.sets(), source, now_ms, given, secret);
        };
        self.compare_in(sets, source, now_ms, given, secret)
    }

    /// How long a hashed attempt from `source` is delayed, in milliseconds: the more wrong ones it
    /// had, the longer.
    ///
    /// # Errors
    /// Seconds until the next attempt is allowed.
    pub fn delay_ms(&self, source: Source, now_ms: u64) -> Result<u64, u64> {
        let ahead_ms = self.with(source, |bucket| bucket.full_ms.saturating_sub(now_ms));
        let ahead_ms = ahead_ms.unwrap_or(0);
        if ahead_ms > MOST_MS {
            return Err((ahead_ms - MOST_MS).div_ceil(1_000));
        }
        let wrong = ahead_ms.div_ceil(REFILL_MS);
        let doublings = wrong.checked_sub(FREE_ATTEMPTS).map(|times| times.min(16));
        let delay_ms = doublings.map(|times| DELAY_MS_MIN << times);
        Ok(delay_ms.map_or(0, |ms| ms.min(DELAY_MS_MAX)))
    }

    /// From where attempts were wrong within [`RECENT_MS`], as far as it is remembered.
    pub fn suspicion(&self, source: Source, now_ms: u64) -> Suspicion {
        // A bucket that was never used looks like that of the source of no address.
        let is_recent = |bucket: &Bucket| bucket.full_ms > 0 && now_ms < bucket.full_ms + RECENT_MS;
        let was_wrong = |source| self.with(source, is_recent).unwrap_or(false);
        if was_wrong(source) {
            Suspicion::Source
        } else if was_wrong(source.network().as_source()) {
            Suspicion::Network
        } else {
            Suspicion::None
        }
    }

    /// Counts an attempt that was wrong.
    pub fn blame(&self, source: Source, now_ms: u64) {
        self.blame_one(source, now_ms);
        self.blame_one(source.network().as_source(), now_ms);
    }

    fn blame_one(&self, source: Source, now_ms: u64) {
        let mut sets = self.sets().lock();
        let set = &mut sets[self.place(source)];
        let known = set.iter().position(|bucket| bucket.source == source);
        let least = || (0..WAYS).min_by_key(|&way| set[way].full_ms);
        let bucket = &mut set[known.or_else(least).unwrap_or(0)];
        let ahead_ms = known.map_or(0, |_| bucket.full_ms.saturating_sub(now_ms));
        *bucket = Bucket {
            source,
            full_ms: now_ms + ahead_ms + REFILL_MS,
        };
    }

    /// Calls `show` with the bucket of a source, if it has one.
    fn with<R>(&self, source: Source, show: impl FnOnce(&Bucket) -> R) -> Option<R> {
        let sets = self.sets.get()?.lock();
        let set = &sets[self.place(source)];
        set.iter().find(|bucket| bucket.source == source).map(show)
    }

    fn sets(&self) -> &Mutex<Sets> {
        self.sets
            .get_or_init(|| Mutex::new(vec![[Bucket::default(); WAYS]; SETS].into_boxed_slice()))
    }

    fn place(&self, source: Source) -> usize {
        self.random.hash_one(source) as usize % SETS
    }

    fn compare_in(
        &self,
        sets: &Mutex<Sets>,
        source: Source,
        now_ms: u64,
        given: &[u8],
        secret: &[u8],
    ) -> LoginAttempt {
        let mut sets = sets.lock();
        let set = &mut sets[self.place(source)];
        let known = set.iter_mut().find(|bucket| bucket.source == source);
        let ahead_ms = known
            .as_ref()
            .map_or(0, |bucket| bucket.full_ms.saturating_sub(now_ms));
        if ahead_ms > MOST_MS {
            let wait_s = (ahead_ms - MOST_MS).div_ceil(1_000);
            return LoginAttempt::TooMany { wait_s };
        }
        if is_same(given, secret) {
            return LoginAttempt::Right;
        }
        let bucket = match known {
            Some(bucket) => bucket,
            None => {
                let least = set.iter_mut().min_by_key(|bucket| bucket.full_ms);
                least.expect("a set has buckets")
            }
        };
        *bucket = Bucket {
            source,
            full_ms: now_ms + ahead_ms + REFILL_MS,
        };
        LoginAttempt::Wrong
    }
}

/// Compares in a time that does not depend on where the difference is.
#[must_use]
pub fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let pairs = given.iter().zip(secret);
    let difference = pairs.fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == secret.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_net::listener::told_of;

    const SECRET: &[u8] = b"s3cret";

    fn attempt(
        login_limiter: &LoginLimiter,
        source: Source,
        now_ms: u64,
        given: &[u8],
    ) -> LoginAttempt {
        login_limiter.compare(source, now_ms, given, SECRET)
    }

    #[test]
    fn who_was_wrong_too_often_has_to_wait_whatever_he_says() {
        let (login_limiter, now_ms) = (LoginLimiter::default(), 5_000_000);
        let (one, other) = (Source::of("192.0.2.7:1"), Source::of("192.0.2.8:1"));
        for _ in 0..BURST {
            assert_eq!(
                attempt(&login_limiter, one, now_ms, b"x"),
                LoginAttempt::Wrong
            );
        }
        for given in [b"x".as_slice(), SECRET] {
            let expected = LoginAttempt::TooMany { wait_s: 1 };
            assert_eq!(attempt(&login_limiter, one, now_ms + 1, given), expected);
        }
        assert_eq!(
            attempt(&login_limiter, other, now_ms, SECRET),
            LoginAttempt::Right
        );
        let later_ms = now_ms + REFILL_MS;
        assert_eq!(
            attempt(&login_limiter, one, later_ms, SECRET),
            LoginAttempt::Right
        );
        assert_eq!(
            attempt(&login_limiter, one, later_ms, b"x"),
            LoginAttempt::Wrong
        );
        let expected = LoginAttempt::TooMany { wait_s: 1 };
        assert_eq!(attempt(&login_limiter, one, later_ms, SECRET), expected);
        let much_later_ms = later_ms + BURST * REFILL_MS;
        for _ in 0..BURST {
            assert_eq!(
                attempt(&login_limiter, one, much_later_ms, b"x"),
                LoginAttempt::Wrong
            );
        }
    }

    #[test]
    fn the_more_were_wrong_the_longer_the_next_waits() {
        let login_limiter = LoginLimiter::default();
        let source = Source::of("192.0.2.7:1");
        let delays: Vec<_> = (0..=BURST)
            .map(|_| {
                let delay = login_limiter.delay_ms(source, 1_000);
                login_limiter.blame(source, 1_000);
                delay
            })
            .collect();
        let expected = [0, 0, 0, 125, 250, 500, 1_000, 2_000, 4_000, 4_000].map(Ok);
        assert_eq!(delays[..10], expected);
        assert_eq!(delays[BURST as usize - 1..], [Ok(DELAY_MS_MAX), Err(1)]);
        assert_eq!(login_limiter.delay_ms(source, 1_000_000), Ok(0));
        assert_eq!(login_limiter.delay_ms(Source::default(), 1_000), Ok(0));
    }

    #[test]
    fn a_day_of_guesses_from_one_address_is_some_tens_of_thousands() {
        let login_limiter = LoginLimiter::default();
        let source = Source::of("192.0.2.7:1");
        let tries =
            (0..86_400 * 4).map(|quarter| attempt(&login_limiter, source, quarter * 250, b"x"));
        let compared = tries.filter(|one| *one == LoginAttempt::Wrong).count() as u64;
        assert!(
            (86_400..86_400 + 2 * BURST).contains(&compared),
            "{compared}"
        );
    }

    #[test]
    fn however_many_addresses_guess_the_table_stays_and_who_guesses_most_is_kept() {
        let login_limiter = LoginLimiter::default();
        let worst = Source::of("192.0.2.7:1");
        for _ in 0..BURST {
            attempt(&login_limiter, worst, 0, b"x");
        }
        for network in 0..100_000_u64 {
            let _ = attempt(&login_limiter, Source(network << 16 | 1), 0, b"x");
        }
        assert_eq!(
            attempt(&login_limiter, worst, 0, SECRET),
            LoginAttempt::TooMany { wait_s: 1 }
        );
        let sets = login_limiter.sets.get().unwrap().lock();
        assert_eq!(sets.len() * WAYS, 4_096);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let of = Source::of;
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1]:9"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_eq!(of("192.0.2.7:1"), of("[::ffff:192.0.2.7]:2"));
        assert_ne!(of("192.0.2.7:1"), of("192.0.2.8:1"));
    }

    #[test]
    fn a_network_has_the_sources_that_one_customer_may_have() {
        let of = |peer: &str| Source::of(peer).network();
        assert_eq!(of("192.0.2.7:1"), of("192.0.2.255:1"));
        assert_ne!(of("192.0.2.7:1"), of("192.0.3.7:1"));
        assert_eq!(of("[2001:db8:1:2::1]:1"), of("[2001:db8:1:ffff::1]:1"));
        assert_ne!(of("[2001:db8:1::1]:1"), of("[2001:db8:2::1]:1"));
        let of = |uid| Source::of(&told_of("/run/a.sock:0", Some(uid))).network();
        assert_ne!(of(1_000), of(1_001));
    }

    #[test]
    fn who_was_wrong_once_is_known_for_minutes() {
        let (login_limiter, now_ms) = (LoginLimiter::default(), 5_000_000);
        let (one, other) = (Source::of("192.0.2.7:1"), Source::of("192.0.2.8:1"));
        assert_eq!(login_limiter.suspicion(one, now_ms), Suspicion::None);
        login_limiter.blame(one, now_ms);
        assert_eq!(login_limiter.suspicion(one, now_ms), Suspicion::Source);
        let at_ms = now_ms + RECENT_MS;
        assert_eq!(login_limiter.suspicion(one, at_ms), Suspicion::Source);
        let later_ms = at_ms + REFILL_MS;
        assert_eq!(login_limiter.suspicion(one, later_ms), Suspicion::None);
        assert_eq!(login_limiter.suspicion(other, now_ms), Suspicion::Network);
        let elsewhere = Source::of("192.0.3.7:1");
        assert_eq!(login_limiter.suspicion(elsewhere, now_ms), Suspicion::None);
        assert_eq!(
            login_limiter.suspicion(Source::default(), 1),
            Suspicion::None
        );
    }

    #[test]
    fn each_user_of_the_machine_is_one_source_whatever_the_socket_file() {
        let of = |path: &str, uid| Source::of(&told_of(path, uid));
        let one = of("/run/a.sock:0", Some(1000));
        assert_eq!(one, of("/run/b uid=7.sock:0", Some(1000)));
        assert_ne!(one, of("/run/a.sock:0", Some(0)));
        assert_ne!(of("/run/a.sock:0", Some(0)), of("/run/a.sock:0", None));
        assert_ne!(one, Source::of("0.0.3.232:1"));
    }

    #[test]
    fn secrets_are_the_same_or_not() {
        for (given, expected) in [
            ("s3cret", true),
            ("s3cre", false),
            ("s3crets", false),
            ("S3cret", false),
            ("", false),
        ] {
            assert_eq!(is_same(given.as_bytes(), SECRET), expected, "{given}");
        }
        assert!(is_same(b"", b""));
    }
}
