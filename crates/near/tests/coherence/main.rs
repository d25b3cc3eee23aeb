//! The conformance suite for near caches: no read may return what was told as changed.
//!
//! [`subject`] is what a client has to offer to be judged. [`scripted`] holds races over a server
//! whose bytes the test sends one by one, [`live`] what happens over real servers, [`checker`] a
//! search for stale reads under load, [`moves`] the same over a cluster. [`faults`] breaks the
//! cache on purpose: the suite must notice.
//!
//! Page: docs/near-coherence.md. Why: docs/decisions/0022-near-coherence.md.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/wait.rs"]
mod wait;
mod subject;
mod fake;
mod scripted;
mod proxy;
mod servers;
mod live;
mod writer;
mod trouble;
mod ledger;
#[path = "../../../server/tests/support/etcd.rs"]
mod etcd;
#[path = "../../../server/tests/support/ports.rs"]
mod ports;
mod fleet;
mod checker;
mod moves;
mod faults;
mod memcached;
mod leases;
mod overwrites;
mod promises;
mod doors;
mod users;
mod cluster;
mod slots;
mod cluster_leases;
mod judged;
mod blocking;
