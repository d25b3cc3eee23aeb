//! Auth: users, limits on wrong passwords, unauthenticated connections.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod login_limiter; // limits wrong passwords and tokens by source address
pub mod by_source; // counts connections by source address
pub mod unauthenticated; // unauthenticated connections
pub mod users; // users, their logins and permissions
pub mod wrong_protocol; // detects clients that speak the wrong protocol
pub mod access; // all of these, of one server
