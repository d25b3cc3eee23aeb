//! memcached or Cellar as an origin, by meta commands, with requests that compare versions.
//!
//! memcached sends no invalidations. The cache's local time to live bounds the age of a copy; after
//! that a request asks whether the version is still the same, and the origin answers `HD` instead
//! of the value (`mg key c t v C<version>`). A server that sends the value nevertheless is asked
//! for the version alone from then on.
//!
//! Source: memcached doc/protocol.txt, "Meta Commands".

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_protocol::memcached::{KEY_BYTES_MAX, base64};
use tokio::sync::Mutex;

#[cfg(feature = "tls")]
use super::Tls;
use super::login::Login;
use super::{Answer, ClaimOptions, Claimed, Listener, Loaded, Origin, Pending, Turn, Version};
use crate::read_through::error::Error;

mod wire;
mod pipe;
mod door;

use door::Door;
use pipe::Pipe;
use wire::Reply;

/// memcached counts longer times as dates.
const RELATIVE_S_MAX: u64 = 30 * 24 * 60 * 60;

/// A server of memcached's meta commands.
///
/// One connection serves all; requests are pipelined. It is opened at the first use and again
/// after a loss.
pub struct Memcached {
    door: Door,
    timeout: Duration,
    pipe: Mutex<Option<Arc<Pipe>>>,
    /// Whether the server answers a request with a version without sending the value again.
    // Relaxed: a late update costs one more request.
    asks_by_version: AtomicBool,
}

impl fmt::Debug for Memcached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Memcached");
        shown.field("door", &self.door).finish_non_exhaustive()
    }
}

impl Memcached {
    /// The server at `address`: `host:port`, `tls:host:port` (with the feature `tls`) or
    /// `unix:/path`.
    pub fn open(address: impl Into<String>) -> Memcached {
        Memcached {
            door: Door::new(address.into()),
            timeout: Duration::from_secs(2),
            pipe: Mutex::new(None),
            asks_by_version: AtomicBool::new(true),
        }
    }

    /// How long an answer, or a connection, is waited for; two seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Memcached {
        self.timeout = timeout;
        self
    }

    /// The user as whom connections ask, by memcached's authentication in text.
    ///
    /// # Errors
    /// [`Error::Refused`] if the name is one that this cannot carry: empty, or with blanks.
    pub fn user(
        mut self,
        name: impl Into<String>,
        password: impl Into<String>,
    ) -> Result<Memcached, Error> {
        let (name, password) = (name.into(), password.into());
        self.door.login(Login { name, password })?;
        Ok(self)
    }

    /// The trusted authorities and the client certificate for a `tls:` address.
    ///
    /// # Errors
    /// [`Error::Connection`] if the address is not a `tls:` one, or a text is invalid.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: &Tls) -> Result<Memcached, Error> {
        self.door.tls(tls)?;
        Ok(self)
    }

    async fn pipe(&self) -> Result<Arc<Pipe>, Error> {
        let mut pipe = self.pipe.lock().await;
        if let Some(pipe) = pipe.as_ref().filter(|pipe| !pipe.is_lost()) {
            return Ok(Arc::clone(pipe));
        }
        let opened = self.door.open(self.timeout).await?;
        *pipe = Some(Arc::clone(&opened));
        Ok(opened)
    }

    async fn read(&self, key: &[u8], known: Option<Version>) -> Result<Loaded<Vec<u8>>, Error> {
        let pipe = self.pipe().await?;
        let same = |known: &Version| known.connection == pipe.number();
        match self.read_over(&pipe, key, known.filter(same)).await {
            // A connection that had died unnoticed: once more over another one.
            Err(Error::Connection(_)) => {
                let pipe = self.pipe().await?;
                self.read_over(&pipe, key, None).await
            }
            result => result,
        }
    }

    async fn read_over(
        &self,
        pipe: &Pipe,
        key: &[u8],
        known: Option<Version>,
    ) -> Result<Loaded<Vec<u8>>, Error> {
        // Relaxed: a hint; asked the wrong way, the answer is right all the same.
        let by_version = self.asks_by_version.load(Ordering::Relaxed);
        let Some(known) = known else {
            return loaded(pipe, self.ask(pipe, get(key, b" c t v")?).await?);
        };
        if !by_version {
            let reply = self.ask(pipe, get(key, b" c t")?).await?;
            if reply.version == Some(known.number) || reply.is_miss() {
                return loaded(pipe, reply);
            }
            return loaded(pipe, self.ask(pipe, get(key, b" c t v")?).await?);
        }
        let flags = format!(" c t v C{}", known.number);
        let mut reply = self.ask(pipe, get(key, flags.as_bytes())?).await?;
        let same = reply.version == Some(known.number) && !reply.leased;
        if same && reply.value.is_some() {
            self.asks_by_version.store(false, Ordering::Relaxed);
            reply.confirm();
        }
        loaded(pipe, reply)
    }

    /// Asks for a value and the lease of it.
    async fn read_claiming(
        &self,
        key: &[u8],
        options: ClaimOptions,
    ) -> Result<Claimed<Vec<u8>>, Error> {
        let pipe = self.pipe().await?;
        let mut flags = format!(" c t v N{}", whole_seconds(options.lease_timeout));
        if let Some(early) = options.early {
            flags.push_str(&format!(" R{}", whole_seconds(early)));
        }
        let reply = self.ask(&pipe, get(key, flags.as_bytes())?).await?;
        let turn = match (reply.won, reply.leased) {
            (true, _) => Turn::Ours(reply.version),
            (false, true) => Turn::Theirs,
            (false, false) => Turn::Nobody,
        };
        let loaded = loaded(&pipe, reply)?;
        Ok(Claimed { loaded, turn })
    }

    /// Stores a value on a condition; whether it was stored.
    async fn store_if(&self, request: Result<Vec<u8>, Error>) -> Result<bool, Error> {
        let request = request?;
        let pipe = self.pipe().await?;
        let reply = self.ask(&pipe, request).await?;
        if reply.is_other() {
            return Ok(false);
        }
        reply.expect_done("ms").map(|()| true)
    }

    async fn ask(&self, pipe: &Pipe, request: Vec<u8>) -> Result<Reply, Error> {
        pipe.ask(request, self.timeout).await
    }
}

impl Origin for Memcached {
    fn start(&self, _listener: Arc<dyn Listener<[u8]>>) {}

    fn load<'a>(
        &'a self,
        key: &'a [u8],
        known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<Vec<u8>>, Error>> {
        Box::pin(self.read(key, known))
    }

    fn load_many<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
    ) -> Pending<'a, Vec<Result<Loaded<Vec<u8>>, Error>>> {
        Box::pin(futures_util::future::join_all(
            keys.iter().map(|key| self.read(key, None)),
        ))
    }

    fn store<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let pipe = self.pipe().await?;
            let reply = self.ask(&pipe, set(key, value, ttl, "")?).await?;
            reply.expect_done("ms")
        })
    }

    fn store_absent<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(self.store_if(set(key, value, ttl, " ME")))
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let pipe = self.pipe().await?;
            let reply = self.ask(&pipe, request(b"md ", key, b"")?).await?;
            if reply.is_absent() {
                return Ok(false);
            }
            reply.expect_done("md").map(|()| true)
        })
    }

    fn claim<'a>(
        &'a self,
        key: &'a [u8],
        options: ClaimOptions,
    ) -> Pending<'a, Result<Claimed<Vec<u8>>, Error>> {
        Box::pin(async move {
            match self.read_claiming(key, options).await {
                // A connection that was lost unnoticed, so the lease may have gone to no client.
                Err(Error::Connection(_)) => {
                    let loaded = self.read(key, None).await?;
                    Ok(Claimed::without_leases(loaded, options))
                }
                claimed => claimed,
            }
        })
    }

    fn store_claimed<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
        lease: u64,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(self.store_if(set(key, value, ttl, &format!(" C{lease}"))))
    }

    fn release<'a>(&'a self, key: &'a [u8], lease: u64) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let pipe = self.pipe().await?;
            let flags = format!(" C{lease}");
            let reply = self
                .ask(&pipe, request(b"md ", key, flags.as_bytes())?)
                .await?;
            if reply.is_other() {
                return Ok(());
            }
            reply.expect_done("md")
        })
    }
}

/// Parses a reply to `mg`.
fn loaded(pipe: &Pipe, reply: Reply) -> Result<Loaded<Vec<u8>>, Error> {
    let answer = match reply.value {
        // Only the mark of a lease that another client holds.
        Some(value) if value.is_empty() && reply.leased => Answer::Absent,
        Some(value) => Answer::Value(value),
        None if reply.is_miss() => Answer::Absent,
        None if reply.is_done() => Answer::Unchanged,
        None => return Err(reply.refusal("mg")),
    };
    let mut loaded = Loaded::new(answer);
    loaded.ttl = reply.ttl_s.map(ttl_of);
    if reply.leased {
        // Out of date, or about to be replaced: good for the reader, not to be kept.
        loaded.ttl = Some(Duration::ZERO);
    }
    loaded.version = reply.version.map(|number| Version {
        number,
        connection: pipe.number(),
    });
    Ok(loaded)
}

/// The time that is left for certain: memcached counts whole seconds, and the current one may be
/// over at once.
fn ttl_of(left_s: u64) -> Duration {
    Duration::from_secs(left_s.saturating_sub(1))
}

fn get(key: &[u8], flags: &[u8]) -> Result<Vec<u8>, Error> {
    request(b"mg ", key, flags)
}

/// Whole seconds, rounded up: zero would be for ever.
fn whole_seconds(time: Duration) -> u64 {
    let seconds = time
        .as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0));
    seconds.clamp(1, RELATIVE_S_MAX)
}

/// Stores a value, on the condition that its flag says, if there is one.
fn set(key: &[u8], value: &[u8], ttl: Option<Duration>, condition: &str) -> Result<Vec<u8>, Error> {
    let mut flags = format!(" {}", value.len());
    match ttl.map(|ttl| ttl.as_secs().min(RELATIVE_S_MAX)) {
        None => {}
        // Less than a second: zero would mean for ever, so it expires at once.
        Some(0) => flags.push_str(" T-1"),
        Some(seconds) => flags.push_str(&format!(" T{seconds}")),
    }
    flags.push_str(condition);
    let mut request = request(b"ms ", key, flags.as_bytes())?;
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    Ok(request)
}

/// One line; a key that memcached's text protocol cannot represent is sent as base64.
fn request(command: &[u8], key: &[u8], flags: &[u8]) -> Result<Vec<u8>, Error> {
    let mut line = command.to_vec();
    let plain = !key.is_empty() && key.iter().all(|byte| byte.is_ascii_graphic());
    let start = line.len();
    if plain {
        line.extend_from_slice(key);
    } else {
        base64::encode(&mut line, key);
    }
    let bytes = line.len() - start;
    if bytes > KEY_BYTES_MAX || key.is_empty() {
        return Err(Error::KeyTooLong {
            bytes,
            max: KEY_BYTES_MAX,
        });
    }
    line.extend_from_slice(flags);
    if !plain {
        line.extend_from_slice(b" b");
    }
    line.extend_from_slice(b"\r\n");
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_and_odd_keys_go_as_base64() {
        assert_eq!(get(b"k", b" c t v").unwrap(), b"mg k c t v\r\n");
        assert_eq!(get(b"a b", b" v").unwrap(), b"mg YSBi v b\r\n");
        let ttl = Some(Duration::from_millis(1500));
        let plain = set(b"k", b"abc", ttl, "").unwrap();
        assert_eq!(plain, b"ms k 3 T1\r\nabc\r\n");
        let brief = Some(Duration::from_millis(999));
        let brief = set(b"k", b"abc", brief, "").unwrap();
        assert_eq!(brief, b"ms k 3 T-1\r\nabc\r\n");
        let claimed = set(b"k", b"abc", None, " C7").unwrap();
        assert_eq!(claimed, b"ms k 3 C7\r\nabc\r\n");
    }

    #[test]
    fn a_key_that_is_too_long_is_refused_before_it_is_sent() {
        let long = get(&[b'k'; 251], b"");
        assert!(matches!(
            long,
            Err(Error::KeyTooLong {
                bytes: 251,
                max: 250
            })
        ));
        assert!(get(&[0; 188], b"").is_err(), "base64 counts");
    }
}
