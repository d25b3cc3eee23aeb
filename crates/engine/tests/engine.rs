//! The engine through its public interface: one program of all tests, so that it is linked once.
//! `make test T=keep` runs those whose name has this word.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod claims;
mod clean_stop;
mod collisions;
#[cfg(not(miri))]
mod compress;
#[cfg(not(miri))]
mod compressed_state;
mod copies;
mod counter;
mod counting;
mod edit;
mod evict;
mod expiry;
mod extent_reservations;
mod few_large;
mod handles;
mod insight;
mod keep;
mod killed;
mod lease;
mod listing;
mod maintenance;
mod mass_expiration;
mod model;
mod observer;
mod optimistic;
mod overdue;
mod reclaim;
mod resize;
mod restart;
mod restored;
mod room;
mod space;
mod stress;
mod timeline;
#[cfg(not(miri))]
mod unchecked;
mod update;
