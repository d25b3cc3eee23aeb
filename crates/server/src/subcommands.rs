//! Subcommands: `cellar doctor`, `healthcheck`, `hash-password`, `top`, `migrate check`.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod doctor; // `cellar doctor`
pub mod healthcheck; // `cellar healthcheck`
pub mod hash_password; // `cellar hash-password`
pub mod top; // `cellar top`
pub mod migrate; // `cellar migrate check`
