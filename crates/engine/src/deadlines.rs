//! Deadlines: when items expire, in the few bytes that a segment has for that.
//!
//! The modules are in layer order: a module imports only modules declared above it. Page:
//! docs/design/expiry.md.

pub(crate) mod deadline_encoding; // how deadlines are written in one segment
pub(crate) mod expiry_histogram; // when the bytes of a segment expire
pub(crate) mod timer_wheel; // how many items have expired at a moment
