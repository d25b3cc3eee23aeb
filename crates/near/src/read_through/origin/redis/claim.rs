//! Leases over RESP, where the server has them (Cellar): GETLEASE and related commands.
//!
//! A claim is GETLEASE, GET and PTTL in one go: the first returns whose turn it is, the others read
//! the value with tracking of its changes. Whether the server knows GETLEASE is found out by
//! sending it. A key that is leased without a value reads as an empty one, so a client that reads
//! that sends one more request.
//!
//! In a cluster the present owner of the slot is asked. The loader's value is stored against the
//! version that the lease has: a slot that moved meanwhile is empty at its next owner, which gives
//! other versions, so that nothing is stored there. Why: docs/decisions/0063.
//!
//! Source: docs/leases.md. Tests: tests/coherence/leases.rs, tests/coherence/cluster_leases.rs.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};

use super::cluster::Cluster;
use super::link::Link;
use super::reply::{self, Failure, Redirect};
use super::{Redis, life, loaded, milliseconds};
use crate::read_through::error::Error;
use crate::read_through::origin::{Answer, ClaimOptions, Claimed, Loaded, Turn, Version};

/// What GETLEASE says.
struct Told {
    has_value: bool,
    turn: Turn,
    version: u64,
}

impl Link {
    /// Requests a value and whose turn it is to make it; `None` if the server has no leases.
    pub(super) async fn claim(
        &self,
        key: &[u8],
        options: ClaimOptions,
    ) -> Result<Option<Claimed<Vec<u8>>>, Failure> {
        if self.has_no_leases() {
            return Ok(None);
        }
        let mut pipeline = Pipeline::new();
        let getlease = pipeline.cmd("GETLEASE").arg(key);
        getlease
            .arg("LEASE")
            .arg(milliseconds(options.lease_timeout));
        if let Some(early) = options.early {
            getlease.arg("EARLY").arg(milliseconds(early));
        }
        pipeline.cmd("GET").arg(key).cmd("PTTL").arg(key);
        let grant = self.grant(key);
        let values = self.ask(&pipeline).await?;
        let [told, value, ttl] = <[Value; 3]>::try_from(values)
            .map_err(|_| Error::Protocol("no three answers to three commands".into()))?;
        let Some(told) = self.told(told)? else {
            return Ok(None);
        };
        let mut loaded = loaded(value, ttl)?;
        loaded.grant = grant;
        match told.turn {
            Turn::Nobody if self.is_told_of(key) => {}
            Turn::Nobody => loaded.ttl = Some(Duration::ZERO),
            // Good for the reader, not to be kept: it is about to be replaced.
            _ if told.has_value => loaded.ttl = Some(Duration::ZERO),
            _ => loaded = absent(),
        }
        if told.turn == Turn::Theirs {
            // A client that loads nevertheless, in the end, stores against the lease that it waited
            // for.
            loaded.version = Some(Version {
                number: told.version,
                connection: 0,
            });
        }
        Ok(Some(Claimed {
            loaded,
            turn: told.turn,
        }))
    }

    /// Whether the key holds only the lease with this number and no value.
    pub(super) async fn is_unmade(&self, key: &[u8], lease: u64) -> Result<bool, Error> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("GETLEASE").arg(key);
        let told = self.ask(&pipeline).await?.pop();
        // A new owner of the key's slot has no such lease.
        let told = told.and_then(|reply| self.told(reply).ok().flatten());
        Ok(told.is_some_and(|told| !told.has_value && told.version == lease))
    }

    /// Makes those answers absent that are placeholders of leases.
    pub(super) async fn unmask(
        &self,
        keys: &[&[u8]],
        answers: &mut [Result<Loaded<Vec<u8>>, Failure>],
    ) -> Result<(), Error> {
        let is_empty = |loaded: &Loaded<Vec<u8>>| match &loaded.answer {
            Answer::Value(value) => value.is_empty(),
            _ => false,
        };
        let places: Vec<usize> = (0..answers.len())
            .filter(|&place| answers[place].as_ref().is_ok_and(is_empty))
            .collect();
        if places.is_empty() || self.has_no_leases() {
            return Ok(());
        }
        let mut pipeline = Pipeline::new();
        for &place in &places {
            pipeline.cmd("GETLEASE").arg(keys[place]);
        }
        for (place, told) in places.into_iter().zip(self.ask(&pipeline).await?) {
            match self.told(told) {
                Ok(told) if told.as_ref().is_none_or(|told| told.has_value) => {}
                Ok(_) => answers[place] = Ok(absent()),
                // The slot has moved since: the answer may be a placeholder or a value.
                Err(failure) => answers[place] = Err(failure),
            }
        }
        Ok(())
    }

    /// Parses a reply to GETLEASE; `None` if the server refuses it, and for all later calls if it
    /// does not know the command. A redirection is a failure.
    fn told(&self, reply: Value) -> Result<Option<Told>, Failure> {
        let told = match reply::checked(reply) {
            Ok(reply) => parse(&reply),
            Err(Failure::Error(error)) if !is_unknown(&error) => return Ok(None),
            Err(Failure::Error(_)) => None,
            Err(redirect) => return Err(redirect),
        };
        self.note_leases(told.is_some());
        Ok(told)
    }
}

/// Whether a refusal means that a command is not known here, or not to this user.
fn is_unknown(error: &Error) -> bool {
    let Error::Refused(text) = error else {
        return false;
    };
    ["ERR ", "NOPERM "]
        .iter()
        .any(|code| text.starts_with(code))
}

impl Redis {
    /// Requests a key's value, and whose turn it is to make it, from the owner of its slot; `None`
    /// if that node has no leases.
    pub(super) async fn claim_at_owner(
        &self,
        cluster: &Arc<Cluster>,
        key: &[u8],
        options: ClaimOptions,
    ) -> Result<Option<Claimed<Vec<u8>>>, Error> {
        let mut lost_at = None;
        for attempt in 1.. {
            let node = cluster.node_of(key).await?;
            let claimed = match node.link().await {
                Err(error) => Err(error.into()),
                Ok(link) => {
                    let claimed = link.claim(key, options).await;
                    if matches!(claimed, Err(Failure::Error(Error::Connection(_)))) {
                        lost_at = Some(node.number());
                    }
                    claimed
                }
            };
            let failure = match claimed {
                Ok(Some(claimed)) if lost_at == Some(node.number()) => {
                    return Ok(Some(not_waiting(claimed)));
                }
                Ok(claimed) => return Ok(claimed),
                Err(failure) => failure,
            };
            let redirect = self.redirect_after(failure, attempt)?;
            if matches!(redirect, Redirect::Ask(_)) {
                return Ok(None);
            }
            cluster.turn(&redirect, attempt).await?;
        }
        unreachable!("the last attempt returns")
    }
}

/// The claim of a client that has sent it before to the same node, over a connection that was lost:
/// the lease that it is told to wait for may be its own.
fn not_waiting(claimed: Claimed<Vec<u8>>) -> Claimed<Vec<u8>> {
    let turn = match (claimed.turn, &claimed.loaded.answer) {
        (Turn::Theirs, Answer::Absent) => Turn::Ours(None),
        (turn, _) => turn,
    };
    Claimed { turn, ..claimed }
}

/// The command that stores against a lease.
pub(super) fn store(key: &[u8], value: &[u8], ttl: Option<Duration>, lease: u64) -> redis::Cmd {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(value).arg("CAS").arg(lease);
    command.arg(ttl.map(life));
    command
}

/// The command that returns a lease: it removes the placeholder by storing an expired value, unless
/// another value was stored meanwhile. It is not a script, which would need more permissions.
pub(super) fn release(key: &[u8], lease: u64) -> redis::Cmd {
    let mut command = redis::cmd("SET");
    command.arg(key).arg("").arg("CAS").arg(lease);
    command.arg("PXAT").arg(1);
    command
}

/// No value for now, not to be remembered.
fn absent() -> Loaded<Vec<u8>> {
    let mut absent = Loaded::new(Answer::Absent);
    absent.ttl = Some(Duration::ZERO);
    absent
}

/// Reads the reply to GETLEASE: value, milliseconds that are left, state, version.
fn parse(reply: &Value) -> Option<Told> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [value, _left_ms, state, version] = &parts[..] else {
        return None;
    };
    let version = match version {
        Value::Int(version) => u64::try_from(*version).ok()?,
        _ => return None,
    };
    let state: String = redis::from_redis_value(state.clone()).ok()?;
    let turn = match state.as_str() {
        "fresh" => Turn::Nobody,
        "won" | "stale-won" => Turn::Ours(Some(version)),
        "wait" | "stale-wait" => Turn::Theirs,
        "miss" => Turn::Ours(None),
        _ => return None,
    };
    Some(Told {
        has_value: !matches!(value, Value::Nil),
        turn,
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_getlease_says_is_read_and_anything_else_is_no_lease() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let reply = |value: Value, state: &str| {
            parse(&Value::Array(vec![
                value,
                Value::Int(30_000),
                bulk(state),
                Value::Int(7),
            ]))
        };
        let won = reply(Value::Nil, "won").unwrap();
        assert!(!won.has_value && won.turn == Turn::Ours(Some(7)));
        let wait = reply(bulk("old"), "stale-wait").unwrap();
        assert!(wait.has_value && wait.turn == Turn::Theirs);
        assert_eq!(reply(bulk("v"), "fresh").unwrap().turn, Turn::Nobody);
        assert!(reply(bulk("v"), "unheard of").is_none());
        assert!(parse(&Value::Okay).is_none());
    }
}
