//! House rules that neither the compiler nor clippy checks.
//!
//! Each rule is a function from text to [`Finding`]s; `tests/house.rs` applies all of them to the
//! repository. The crate has no dependencies and links nothing of Cellar, so that the rules run in
//! seconds, before anything else compiles.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod tree;
pub mod source;
pub mod page;
pub mod layers;
pub mod atomics;
pub mod names;
pub mod documents;
pub mod supply;
pub mod programs;

pub use tree::{File, Finding, Tree};
