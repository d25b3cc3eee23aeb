//! Metrics: `/metrics`, for Prometheus.

use std::borrow::Cow;

use cellar_shared::metrics::{CONTENT_TYPE, exposition};
use cellar_shared::state::State;

use super::Page;

/// GET /metrics
#[must_use]
pub fn page(state: &State) -> Page {
    Page {
        status: 200,
        content_type: CONTENT_TYPE,
        headers: Vec::new(),
        body: Cow::Owned(exposition(state).into_bytes()),
    }
}
