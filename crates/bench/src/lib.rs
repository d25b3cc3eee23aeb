//! Measurements of cache servers: a load generator, an echo floor, and comparisons made with them.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod error;
pub mod plot;
pub mod clock;
pub mod random;
pub mod quantity;
pub mod popularity;
pub mod record;
pub mod latency;
pub mod usage;
mod footprint;
pub mod address;
pub mod resp;
pub mod web;
pub mod wire;
pub mod client;
pub mod echo;
pub mod load;
pub mod spread;
pub mod goal;
pub mod versus;
pub mod machine;
pub mod page;
pub mod output;
pub mod process;
pub mod peers;
pub mod compare;
pub mod engine;
pub mod replay;
pub mod memory;
pub mod growth;
pub mod expiry;
pub mod service;
pub mod near;
pub mod reproduce;
pub mod java;
pub mod parts;
pub mod pages;
