//! Config: settings, `CONFIG SET`, fixed limits, logging.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod error; // errors that prevent the start
pub mod protocol; // the protocols, one row each
pub mod dial; // outgoing connections, plain or over TLS
pub mod limits; // fixed limits, mostly of a connection
pub mod settings; // all settings; reads flags, variables and the settings file
pub mod memory; // memory of the machine or the control group
pub mod logging; // one line per event on standard error
pub mod parameters; // parameters of CONFIG GET and CONFIG SET
