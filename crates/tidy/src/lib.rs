//! House rules that neither the compiler nor clippy checks.
//!
//! Each rule is a function from text to [`Finding`]s; `tests/house.rs` applies all of them to the
//! repository. The crate links nothing of Cellar but what runs its tests, so that the rules run
//! in seconds, before anything else compiles.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod tree;
pub mod source;
pub mod page;
pub mod layers;
pub mod atomics;
pub mod documents;
pub mod anchors;
pub mod figures;
pub mod described;
pub mod troubleshooting;
pub mod language;
pub mod retired;
pub mod supply;
pub mod programs;
pub mod sleeps;
pub mod tiers;

pub use tree::{File, Finding, Tree};
