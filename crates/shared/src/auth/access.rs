//! Access: decides which clients may use a server, and how long a client may stay unknown.

use std::sync::Arc;

use super::login_limiter::LoginLimiter;
use super::unauthenticated::Unauthenticated;
use super::users::Users;
use super::wrong_protocol::WrongProtocols;

/// The access control of one server.
#[derive(Default)]
pub struct Access {
    /// The users; none without a users file.
    pub users: Option<Arc<Users>>,
    /// Limits wrong passwords and tokens per source.
    pub login_limiter: LoginLimiter,
    /// The connections that have to log in and have not.
    pub unauthenticated: Unauthenticated,
    /// Detects clients that speak another protocol than their port.
    pub wrong_protocol: WrongProtocols,
}
