//! Settings of a near cache, and the builder made from them.
#![allow(unsafe_code, reason = "the caller's pointers are followed here")]

use std::time::Duration;

use cellar_near::origin::redis::Tracking;
use cellar_near::origin::{Memcached, Redis, Remote, Tls};
use cellar_near::{Near, NearBuilder};

use crate::border::{CELLAR_UNSET, Failure, bytes, time};
use crate::codec::{CodecIn, SlotCodec};
use crate::key::BytesKey;
use crate::store::{CELLAR_S3_FIFO, policy};
use crate::value::{Bytes, Maker, Slot, ValueType};

/// The server reports changes of each key that was read.
pub const CELLAR_TRACK_KEYS: i32 = 0;
/// The server reports changes of all keys with the prefix, and does not track single keys.
pub const CELLAR_TRACK_PREFIX: i32 = 1;
/// The server reports no changes; set `local_ttl_ms`.
pub const CELLAR_TRACK_OFF: i32 = 2;

/// A setting that is a time.
type TimeSetting = fn(NearBuilder<BytesKey, Slot>, Duration) -> NearBuilder<BytesKey, Slot>;

/// Default bound of a cache, in entries.
const ENTRIES_MAX: u64 = 10_000;
/// Longest address of a server, and longest prefix.
const TEXT_BYTES_MAX: usize = 4096;
/// Longest text of certificates or of a key; all authorities that a system trusts take a quarter of
/// it.
const PEM_BYTES_MAX: usize = 1 << 20;
/// How an address of a server that speaks memcached's protocol begins.
const MEMCACHED: &str = "memcached://";

/// Options of a near cache. `cellar_near_defaults` fills them. Times are in milliseconds;
/// `CELLAR_UNSET` means the default in docs/near.md, or none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NearOptions {
    /// The server: `redis://host:port`, `memcached://host:port`; over TLS `rediss://host:port`,
    /// `memcached://tls:host:port`.
    pub address: Bytes,
    /// The prefix of every key on the server.
    pub prefix: Bytes,
    /// Over TLS: trusted certificate authorities, in PEM; by default those of the system.
    pub tls_authorities: Bytes,
    /// A client certificate in PEM for servers that request one, followed by its issuers; none by
    /// default.
    pub tls_certificate: Bytes,
    /// Its key, in PEM. It is copied, so the caller may wipe its own.
    pub tls_key: Bytes,
    /// Limit of entries; 10,000 by default.
    pub entries_max: u64,
    /// If not zero, the limit in bytes, instead of `entries_max`: the key, the size of the value's
    /// slot, its bytes on the server, and 80 for the store itself. Each shard has an equal part of
    /// them.
    pub bytes_max: u64,
    /// The number of shards of the store; 0, the default: chosen for the machine.
    pub shards: usize,
    /// `CELLAR_S3_FIFO`, the default, or `CELLAR_LRU`.
    pub policy: i32,
    /// `CELLAR_TRACK_KEYS`, the default, or another; ignored with memcached.
    pub tracking: i32,
    /// Maximum age of a copy.
    pub local_ttl_ms: u64,
    /// How long a miss is cached.
    pub negative_ttl_ms: u64,
    /// The TTL on the server of values from writes and loaders.
    pub origin_ttl_ms: u64,
    /// How long a copy may be returned after its last valid moment if the server fails.
    pub serve_stale_ms: u64,
    /// The time after which another process may load; zero: no leases.
    pub lease_timeout_ms: u64,
    /// How long to wait for another process that loads.
    pub patience_ms: u64,
    /// The time-out of a request.
    pub timeout_ms: u64,
    /// How long a connection without messages is trusted.
    pub alive_bound_ms: u64,
    /// How long a call waits for the server and for other threads that load.
    pub wait_max_ms: u64,
    /// The last part of an entry's TTL in which it is refreshed, 0 to 1; 0, the default: never.
    pub refresh_ahead: f64,
    /// The part of a TTL that may be subtracted at random, 0 to 1; 0 by default.
    pub jitter: f64,
    /// The type of its values; all zero, the default: `cellar_bytes`.
    pub values: ValueType,
    /// The codec of its values; all zero for `cellar_bytes`.
    pub codec: CodecIn,
}

/// Returns the defaults, without an address and a prefix.
#[unsafe(no_mangle)]
pub extern "C" fn cellar_near_defaults() -> NearOptions {
    const NO_BYTES: Bytes = Bytes {
        data: std::ptr::null(),
        length: 0,
    };
    NearOptions {
        address: NO_BYTES,
        prefix: NO_BYTES,
        tls_authorities: NO_BYTES,
        tls_certificate: NO_BYTES,
        tls_key: NO_BYTES,
        entries_max: ENTRIES_MAX,
        bytes_max: 0,
        shards: 0,
        policy: CELLAR_S3_FIFO,
        tracking: CELLAR_TRACK_KEYS,
        local_ttl_ms: CELLAR_UNSET,
        negative_ttl_ms: CELLAR_UNSET,
        origin_ttl_ms: CELLAR_UNSET,
        serve_stale_ms: CELLAR_UNSET,
        lease_timeout_ms: CELLAR_UNSET,
        patience_ms: CELLAR_UNSET,
        timeout_ms: CELLAR_UNSET,
        alive_bound_ms: CELLAR_UNSET,
        wait_max_ms: CELLAR_UNSET,
        refresh_ahead: 0.0,
        jitter: 0.0,
        values: ValueType {
            size: 0,
            alignment: 0,
            drop: None,
        },
        codec: CodecIn {
            context: std::ptr::null_mut(),
            decode: None,
            encode: None,
        },
    }
}

impl NearOptions {
    /// A builder over the server that is named.
    ///
    /// # Safety
    /// The bytes of address, prefix, certificates and key are there.
    pub(crate) unsafe fn builder(
        &self,
        maker: Maker,
    ) -> Result<NearBuilder<BytesKey, Slot>, Failure> {
        let codec = SlotCodec::new(maker, self.codec)?;
        // SAFETY: as the caller promises.
        let address = unsafe { bytes(self.address.data, self.address.length, TEXT_BYTES_MAX) }?;
        let address = std::str::from_utf8(address)
            .map_err(|error| Failure::argument(format!("an address that is no text: {error}")))?;
        // SAFETY: as the caller promises.
        let prefix = unsafe { bytes(self.prefix.data, self.prefix.length, TEXT_BYTES_MAX) }?;
        // SAFETY: as the caller promises.
        let tls = unsafe { self.tls() }?;
        if let Some(server) = address.strip_prefix(MEMCACHED) {
            let mut origin = memcached(server)?;
            if let Some(tls) = &tls {
                origin = origin.tls(tls)?;
            }
            if let Some(timeout) = time(self.timeout_ms) {
                origin = origin.timeout(timeout);
            }
            return Ok(Near::builder(Remote::new(origin, codec).prefix(prefix)));
        }
        let mut origin = Redis::open(address)?.tracking(match self.tracking {
            CELLAR_TRACK_KEYS => Tracking::Keys,
            CELLAR_TRACK_PREFIX => Tracking::Broadcast(vec![prefix.to_vec()]),
            CELLAR_TRACK_OFF => Tracking::Off,
            other => return Err(Failure::argument(format!("there is no tracking {other}"))),
        });
        if let Some(tls) = &tls {
            origin = origin.tls(tls)?;
        }
        if let Some(timeout) = time(self.timeout_ms) {
            origin = origin.timeout(timeout).connect_timeout(timeout);
        }
        if let Some(bound) = time(self.alive_bound_ms) {
            origin = origin.alive_bound(bound);
        }
        Ok(Near::builder(Remote::new(origin, codec).prefix(prefix)))
    }

    /// The trusted authorities and the client certificate, if the caller sets any.
    ///
    /// # Safety
    /// The bytes of certificates and key are there.
    unsafe fn tls(&self) -> Result<Option<Tls>, Failure> {
        let pem = |given: &Bytes| {
            // SAFETY: as the caller promises.
            unsafe { bytes(given.data, given.length, PEM_BYTES_MAX) }
        };
        let authorities = pem(&self.tls_authorities)?;
        let (certificate, key) = (pem(&self.tls_certificate)?, pem(&self.tls_key)?);
        if certificate.is_empty() != key.is_empty() {
            let what = "tls_certificate and tls_key belong together";
            return Err(Failure::argument(what));
        }
        if authorities.is_empty() && key.is_empty() {
            return Ok(None);
        }
        let mut tls = Tls::new();
        if !authorities.is_empty() {
            tls = tls.authorities(authorities);
        }
        if !key.is_empty() {
            tls = tls.identity(certificate, key);
        }
        Ok(Some(tls))
    }

    /// Sets the options that do not depend on the server.
    pub(crate) fn adjust(
        &self,
        mut near: NearBuilder<BytesKey, Slot>,
    ) -> Result<NearBuilder<BytesKey, Slot>, Failure> {
        let weigh = |key: &BytesKey, value: &Slot| {
            let key_bytes = u32::try_from(key.as_bytes().len()).unwrap_or(u32::MAX);
            value.weight().saturating_add(key_bytes)
        };
        near = match self.bytes_max {
            0 => near.entries_max(self.entries_max),
            bytes => near.bytes_max(bytes, weigh),
        };
        near = near.policy(policy(self.policy)?);
        if self.shards > 0 {
            near = near.shards(self.shards);
        }
        let set: [(u64, TimeSetting); 5] = [
            (self.local_ttl_ms, NearBuilder::local_ttl),
            (self.negative_ttl_ms, NearBuilder::negative_ttl),
            (self.origin_ttl_ms, NearBuilder::origin_ttl),
            (self.serve_stale_ms, NearBuilder::serve_stale),
            (self.patience_ms, NearBuilder::patience),
        ];
        for (milliseconds, setting) in set {
            if let Some(given) = time(milliseconds) {
                near = setting(near, given);
            }
        }
        near = match self.lease_timeout_ms {
            CELLAR_UNSET => near,
            0 => near.without_leases(),
            timeout_ms => near.lease_timeout(Duration::from_millis(timeout_ms)),
        };
        for part in [self.refresh_ahead, self.jitter] {
            if !(0.0..=1.0).contains(&part) {
                return Err(Failure::argument(format!("{part} is no part of a whole")));
            }
        }
        if self.refresh_ahead > 0.0 {
            near = near.refresh_ahead(self.refresh_ahead);
        }
        Ok(near.jitter(self.jitter))
    }
}

/// The server at `host:port`, `tls:host:port` or `unix:/path`, the first two with `name:password@`
/// before them if it asks for a user.
fn memcached(address: &str) -> Result<Memcached, cellar_near::Error> {
    match address.rsplit_once('@') {
        Some((login, door)) if !address.starts_with("unix:") => {
            let (name, password) = login.split_once(':').unwrap_or((login, ""));
            Memcached::open(door).user(name, password)
        }
        _ => Ok(Memcached::open(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_user_whose_password_is_not_shown() {
        for (address, name, door) in [
            ("h:1", "None", "h:1"),
            ("ada:se@cret@h:1", "ada", "h:1"),
            ("unix:/s@1", "None", "unix:/s@1"),
        ] {
            let shown = format!("{:?}", memcached(address).unwrap());
            assert!(
                shown.contains(name) && shown.contains(&format!("{door:?}")),
                "{shown}"
            );
            assert!(!shown.contains("cret"), "{shown}");
        }
        assert!(memcached("a b:c@h:1").is_err());
    }
}
