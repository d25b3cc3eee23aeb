//! Elsewhere: the reply for a key that another node of the cluster owns, with that node's address.
//!
//! Page: docs/http.md. Tests: server/tests/cluster.rs.

use std::borrow::Cow;

use cellar_cluster::slot::slot_of;
use cellar_config::settings::announced::Place;
use cellar_engine::Key;
use cellar_protocol::http::Status;

use super::PROTOCOL;
use super::call::{Call, Failure};

const NOT_SERVED: Failure = Failure::with(
    Status::UNAVAILABLE,
    "not_served",
    "no node serves this key now",
    "Retry-After: 1\r\n",
);

impl Call<'_> {
    /// The hashed key of bytes from a request, if this node owns it.
    pub(super) fn key_here<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Failure> {
        let key = self.key(bytes)?;
        self.check_slot(bytes)?;
        Ok(key)
    }

    /// Whether this node keeps a key.
    #[inline]
    pub(super) fn check_slot(&self, key: &[u8]) -> Result<(), Failure> {
        if self.context.serves(key) {
            return Ok(());
        }
        Err(failure(self, key))
    }
}

/// Why a key is not this node's.
#[cold]
fn failure(call: &Call<'_>, key: &[u8]) -> Failure {
    let Some(cluster) = &call.context.state.cluster else {
        return NOT_SERVED;
    };
    let reached_by = (PROTOCOL, call.is_tls);
    let moved = cluster.elsewhere(slot_of(key), reached_by, |place| moved_to(call, place));
    moved.unwrap_or(NOT_SERVED)
}

fn moved_to(call: &Call<'_>, place: Place<'_>) -> Failure {
    let scheme = if place.is_tls { "https" } else { "http" };
    let target = &call.request.target;
    let mark = if target.has_query() { "?" } else { "" };
    let location = format!(
        "Location: {scheme}://{place}{}{mark}{}\r\n",
        target.path(),
        target.query()
    );
    Failure {
        fields: Cow::Owned(location),
        ..Failure::new(Status::MOVED, "moved", "another node owns this key")
    }
}
