//! Auth: users, wrong passwords, connections without a login.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod login_limiter; // how often a password or token may be wrong
pub mod by_source; // connections by source address
pub mod unauthenticated; // connections that have to log in and have not
pub mod users; // users, their logins and permissions
pub mod wrong_protocol; // clients that speak another protocol than the port
