//! `cellar-bench` as a program: all tests that start it, in one program of their own, for it is
//! linked once. One file of them, in `bench/`: `cargo test --test measurements replay::`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/program.rs"]
mod program;
#[path = "../../../crates/server/tests/support/wait.rs"]
mod wait;

mod cluster;
mod collections;
mod engine;
mod load;
mod near;
mod promises;
mod replay;
mod restart;
mod service;
mod tls;
