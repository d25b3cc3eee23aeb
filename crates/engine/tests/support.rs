//! What the tests share.

pub(crate) mod cache;
pub(crate) mod model;
pub(crate) mod random;
pub(crate) mod workload;
