//! Marks: conditions for storing loads on a server without leases (Redis, Valkey).
//!
//! Before a loader runs, its load stores a mark beside the key, or finds that of another load, and
//! records a digest of mark and value. The loader's value is stored by a script that compares the
//! digest. Every write through a near cache removes the mark first, and a write by any other client
//! changes the value; either way nothing is stored.
//!
//! A mark expires, so a load that takes longer than `lease_timeout` stores nothing. In a cluster
//! mark and key have the same slot; a key for which no such name exists has no mark.
//!
//! Page: docs/near-coherence.md. Tests: tests/coherence/overwrites.rs.

use std::time::Duration;

use cellar_protocol::resp::slot::slot_of;
use redis::{Cmd, Value};

use super::{Redis, life, milliseconds};
use crate::read_through::error::Error;
use crate::read_through::origin::{ClaimOptions, Claimed, Turn};

/// How often a key is read whose value changes whenever its mark is set.
const ATTEMPTS_MAX: usize = 4;
/// The suffix of a mark's name.
const SUFFIX: &[u8] = b":loading";
/// Tells the digest of a mark from the number of a lease, which has at most 63 bits.
const DIGEST_BIT: u64 = 1 << 63;

/// Sixty bits of a digest, as text: a number of Lua's has too few.
const DIGEST: &str = "
local function digest(mark, value)
  return string.sub(redis.sha1hex(mark .. (value and '=' .. value or '')), 1, 15)
end
local value = redis.call('GET', KEYS[1])
";

/// Sets a mark and returns the digest, unless there is a value with more than `early` left.
const BEGIN: &str = "
if value then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > tonumber(ARGV[3]) then return false end
end
local mark = redis.call('GET', KEYS[2]) or ARGV[1]
redis.call('SET', KEYS[2], mark, 'PX', ARGV[2])
return digest(mark, value)
";

/// Stores a loader's value, if mark and value still have the digest.
const STORE: &str = "
local mark = redis.call('GET', KEYS[2])
if not mark or digest(mark, value) ~= ARGV[1] then return false end
redis.call('DEL', KEYS[2])
if ARGV[3] then
  redis.call('SET', KEYS[1], ARGV[2], ARGV[3], ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
";

impl Redis {
    /// Requests a value, and stores a mark if it is missing or has too little time left.
    pub(super) async fn claim_by_mark(
        &self,
        key: &[u8],
        options: ClaimOptions,
    ) -> Result<Claimed<Vec<u8>>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let loaded = self.load_one(key).await?;
            let claimed = Claimed::without_leases(loaded, options);
            let Some(name) = mark_of(key).filter(|_| claimed.turn != Turn::Nobody) else {
                return Ok(claimed);
            };
            if !self.link(key).await?.has_no_leases() {
                return Ok(claimed);
            }
            match self.write(key, begin(key, &name, options)).await {
                // Another client has stored a value since the read.
                Ok(Value::Nil) => {}
                Ok(digest) => {
                    let turn = Turn::Ours(lease_of(&digest));
                    return Ok(Claimed { turn, ..claimed });
                }
                // The user may run no scripts: a value is stored if there is none then.
                Err(Error::Refused(_)) => return Ok(claimed),
                Err(error) => return Err(error),
            }
        }
        let loaded = self.load_one(key).await?;
        Ok(Claimed::without_leases(loaded, options))
    }
}

/// Whether a number is that of a lease of the server's, and not a digest.
pub(super) fn is_lease(number: u64) -> bool {
    number & DIGEST_BIT == 0
}

/// The command that stores against a digest.
pub(super) fn store(key: &[u8], value: &[u8], ttl: Option<Duration>, number: u64) -> Cmd {
    let mut command = script(STORE, key, &mark_of(key).unwrap_or_default());
    command.arg(format!("{:015x}", number & !DIGEST_BIT));
    command.arg(value);
    command.arg(ttl.map(life));
    command
}

/// The command that removes the mark of a key.
pub(super) fn remove(key: &[u8]) -> Option<Cmd> {
    let mut command = redis::cmd("DEL");
    command.arg(mark_of(key)?);
    Some(command)
}

fn begin(key: &[u8], name: &[u8], options: ClaimOptions) -> Cmd {
    let mut command = script(BEGIN, key, name);
    command.arg(fastrand::u64(..));
    command.arg(milliseconds(options.lease_timeout));
    match options.early {
        Some(early) => command.arg(milliseconds(early)),
        None => command.arg(-1),
    };
    command
}

fn script(text: &str, key: &[u8], name: &[u8]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(format!("{DIGEST}{text}"));
    command.arg(2).arg(key).arg(name);
    command
}

/// The name of a key's mark, below the same prefix and in the same slot; none for a few odd keys.
fn mark_of(key: &[u8]) -> Option<Vec<u8>> {
    let mut name = key.to_vec();
    if !key.contains(&b'{') {
        name.push(b'{');
        name.extend_from_slice(key);
        name.push(b'}');
    }
    name.extend_from_slice(SUFFIX);
    (slot_of(&name) == slot_of(key)).then_some(name)
}

/// The number under which a digest is stored against; none if it is no digest.
fn lease_of(digest: &Value) -> Option<u64> {
    let Value::BulkString(digits) = digest else {
        return None;
    };
    let digits = str::from_utf8(digits).ok()?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    Some(number | DIGEST_BIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_has_the_slot_of_its_key_and_begins_with_it() {
        for key in [&b"user:7"[..], b"{user}:7", b"a{b}c", b"\xff\0"] {
            let name = mark_of(key).expect("it has a mark");
            assert!(name.starts_with(key) && name != key);
            assert_eq!(slot_of(&name), slot_of(key));
        }
        for odd in [&b"a}b"[..], b"", b"{}a"] {
            let same = |name: Vec<u8>| slot_of(&name) == slot_of(odd);
            assert!(mark_of(odd).is_none_or(same));
        }
    }

    #[test]
    fn a_digest_is_no_lease_and_is_sent_as_it_came() {
        let digest = Value::BulkString(b"00ffffffffffff1".to_vec());
        let number = lease_of(&digest).unwrap();
        assert!(!is_lease(number) && is_lease(7));
        let packed = store(b"k", b"v", None, number).get_packed_command();
        let packed = String::from_utf8(packed).unwrap();
        assert!(packed.contains("\r\n00ffffffffffff1\r\n"));
        assert_eq!(lease_of(&Value::Nil), None);
    }
}
