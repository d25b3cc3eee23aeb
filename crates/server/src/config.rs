//! Config: settings: how they are read, what CONFIG SET changes; fixed limits.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod error; // why the daemon does not start
pub mod protocol; // which protocols there are
pub mod dial; // a connection of a subcommand to a server, plain or over TLS
pub mod limits; // fixed limits, mostly of a connection
pub mod settings; // all settings, and how they are read
pub mod memory; // how much memory the machine or the control group has
pub mod logging; // one line an event on standard error
pub mod parameters; // what CONFIG GET shows and CONFIG SET changes
