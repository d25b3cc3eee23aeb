//! The cache without a server: one program of all tests that need no process of their own, for each
//! would compile the client's types anew; `cargo test -p cellar-near --test without_server races::`
//! runs one file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "read-through")]
#[path = "../support/script.rs"]
mod script;
#[cfg(feature = "read-through")]
#[path = "../support/shelf.rs"]
mod shelf;
#[path = "../support/wait.rs"]
mod wait;

#[cfg(feature = "read-through")]
mod blocking;
#[cfg(feature = "read-through")]
mod coherence_model;
mod good_guesses;
mod guide;
#[cfg(feature = "read-through")]
mod loading;
mod loading_local;
mod local;
mod local_stress;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "read-through")]
mod races;
#[cfg(feature = "read-through")]
mod reading;
