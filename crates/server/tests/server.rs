//! The server as its clients and operators meet it: one program of all tests that start servers of
//! their own, for it is linked once; `cargo test -p cellar --test server turns::` runs one file.
//!
//! Programs of their own are what takes minutes, and what other packages have by the same name.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod acl_log;
mod before_login;
mod clean_stop;
mod client_memory;
mod collections;
mod connections;
mod console;
mod crash;
mod default_ttl;
mod drain;
mod healthcheck;
mod http;
mod http_attacks;
mod http_hostile;
mod keep;
mod large_values;
mod logins;
mod memcached_binary;
mod memory;
mod metrics;
mod migrate;
mod monitor;
mod notify;
mod pause;
mod reload;
mod resp;
mod resp_admin;
mod resp_bits;
mod resp_clients;
mod resp_cuts;
mod resp_dump;
mod resp_expiry;
mod resp_functions;
mod resp_geo;
mod resp_hashes;
mod resp_keys;
mod resp_leases;
mod resp_lists;
mod resp_parts;
mod resp_pubsub;
mod resp_script_libraries;
mod resp_script_limits;
mod resp_script_sandbox;
mod resp_scripts;
mod resp_sets;
mod resp_sketches;
mod resp_sort;
mod resp_sorted_algebra;
mod resp_sorted_sets;
mod resp_strings;
mod resp_times;
mod resp_tracking;
mod resp_waits;
mod resp_watch;
mod restart;
mod secrets;
mod socket_users;
mod startup_errors;
mod status;
mod strangers;
mod tls;
mod top;
mod turns;
mod users;
mod users_attacks;
mod wall_clock;
mod watchdog;
