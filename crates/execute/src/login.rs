//! Login: a name and a password, over any protocol.
//!
//! A result that is not ready yet is returned as [`Flow::Wait`](super::Flow): the same request runs
//! again when it is, and finds it in the connection's state.

use std::sync::Arc;

use cellar_shared::auth::users::{Attempt, LoginResult, Ticket, Users};

use super::context::Context;

/// The outcome that a connection waits for.
#[derive(Debug, Default)]
pub(super) struct Pending(Option<Arc<Ticket>>);

impl Pending {
    /// Checks a name and a password.
    ///
    /// # Errors
    /// The ticket of a pending check, to be awaited first.
    pub(super) fn log_in(
        &mut self,
        users: &Users,
        secrets: (&[u8], &[u8]),
        peer: &str,
        context: Context<'_>,
    ) -> Result<LoginResult, Arc<Ticket>> {
        let result = match self.0.take() {
            Some(ticket) => ticket.result().ok_or(ticket),
            None => {
                let (state, now) = (context.state, context.cache().now());
                match users.attempt(secrets, peer, &state.access.login_limiter, now.0) {
                    Attempt::Settled(result) => Ok(result),
                    Attempt::Waits(ticket) => Err(ticket),
                }
            }
        };
        match &result {
            Ok(LoginResult::Right(_)) => context.counters.auth_cmds.add(1),
            Ok(_) => {
                context.counters.auth_cmds.add(1);
                context.counters.auth_errors.add(1);
            }
            Err(ticket) => self.0 = Some(Arc::clone(ticket)),
        }
        result
    }
}
