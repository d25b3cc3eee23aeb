//! The engine through its public interface: one program of all tests, so that it is linked once.
//! `make test T=keep` runs those whose name has this word.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod claims;
mod collisions;
#[cfg(not(miri))]
mod compress;
mod copies;
mod counter;
mod counting;
mod edit;
mod evict;
mod expiry;
mod few_large;
mod handles;
mod insight;
mod keep;
mod killed;
mod lease;
mod listing;
mod model;
mod observer;
mod optimistic;
mod overdue;
mod extent_reservations;
mod reclaim;
mod resize;
mod restart;
mod restored;
mod room;
mod clean_stop;
mod space;
mod stress;
mod timeline;
mod update;
mod upkeep;
mod mass_expiration;
