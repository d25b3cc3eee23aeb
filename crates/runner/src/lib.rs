//! Runs the tests of the workspace.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod tiers; // which test belongs to which tier
pub mod targets; // which test programs there are, and which of them has a test
pub mod compile; // compiles test programs and shows how far the compiler is
pub mod process; // one child process: its output, its time limit
pub mod suite; // runs the Rust tests, several at once, each in a process of its own
pub mod groups; // runs whole groups of tests side by side and shows how far each is
