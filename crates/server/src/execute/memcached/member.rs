//! Member: a connection of a server with users.
//!
//! The first command is a `set` of any key whose value is a name and a password with a space
//! between them, as memcached's `-Y` has it; nothing else is understood before.
//!
//! Source: memcached 1.6.45, doc/protocol.txt, "Authentication".

use std::sync::Arc;

use cellar_protocol::memcached::{Request, Storage, Store, Verb, reply};

use crate::execute::context::{Context, Flow};
use crate::execute::login::Pending;
use crate::execute::permission::check_memcached;
use crate::output::Output;
use crate::users::{LoginResult, Standing, User, Users};

const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";
const FAILED: &str = "CLIENT_ERROR authentication failure";
const BUSY: &str = "SERVER_ERROR too many logins wait; try again";
const NOT_PERMITTED: &str = "CLIENT_ERROR not permitted";

/// Whose a connection is, and where it comes from.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) standing: Standing,
    pending: Pending,
    peer: String,
}

/// What a request may do.
pub(super) enum Admitted {
    /// It runs; of the keys that it lists, those alone that this user may see.
    Runs(Option<Arc<User>>),
    /// It was answered, or waits.
    Not(Flow),
}

impl Member {
    /// The member that just came.
    pub(super) fn at(peer: &str) -> Member {
        Member {
            standing: Standing::Unknown,
            pending: Pending::default(),
            peer: peer.to_owned(),
        }
    }

    /// Whether a request may run.
    pub(super) fn admit(
        &mut self,
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Admitted {
        let Some(users) = &context.state.users else {
            return Admitted::Runs(None);
        };
        let Some(user) = self.standing.user(Some(users)) else {
            return Admitted::Not(self.log_in(users, request, context, output));
        };
        if check_memcached(user, request).is_ok() {
            let is_limited = user.is_limited();
            return Admitted::Runs(is_limited.then(|| Arc::clone(user)));
        }
        context.counters.protocol_errors.add(1);
        if !is_silent(request) {
            reply::text_line(output.bytes(), NOT_PERMITTED);
        }
        Admitted::Not(Flow::Continue)
    }

    /// The same of a value that is too long to be a part of its request.
    pub(super) fn admit_upload(
        &mut self,
        storage: &Storage<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Admitted {
        let request = match storage {
            Storage::Classic(store) => Request::Store(*store),
            Storage::Meta { meta, verb } => Request::MetaSet {
                meta: *meta,
                verb: *verb,
                value: b"",
            },
        };
        if self.standing.is_known() {
            return self.admit(&request, context, output);
        }
        // No name and password are so long.
        context.counters.protocol_errors.add(1);
        reply::text_line(output.bytes(), UNAUTHENTICATED);
        Admitted::Not(Flow::Continue)
    }

    fn log_in(
        &mut self,
        users: &Users,
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let value = match request {
            Request::Quit => return Flow::Close,
            Request::Store(Store {
                verb: Verb::Set,
                value,
                ..
            }) => value,
            _ => {
                context.counters.protocol_errors.add(1);
                reply::text_line(output.bytes(), UNAUTHENTICATED);
                return Flow::Continue;
            }
        };
        // Without a space it is nobody's name, and as wrong as any other.
        let space = memchr::memchr(b' ', value).unwrap_or(value.len());
        let secrets = (&value[..space], value.get(space + 1..).unwrap_or_default());
        let result = match self.pending.log_in(users, secrets, &self.peer, context) {
            Ok(result) => result,
            Err(ticket) => return Flow::Wait(ticket),
        };
        let (line, flow) = match result {
            LoginResult::Right(user) => {
                self.standing = users.standing_of(user);
                output.bytes().extend_from_slice(reply::line::STORED);
                return Flow::Continue;
            }
            LoginResult::Wrong => (FAILED, Flow::Continue),
            // Nothing is compared for this address now.
            LoginResult::TooMany { .. } => (FAILED, Flow::Close),
            LoginResult::Busy => (BUSY, Flow::Continue),
        };
        context.counters.protocol_errors.add(1);
        reply::text_line(output.bytes(), line);
        flow
    }
}

/// Whether a client waits for no answer to a request.
fn is_silent(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Count { noreply, .. }
        | Request::Touch { noreply, .. }
        | Request::FlushAll { noreply, .. }
        | Request::Okay { noreply } => *noreply,
        _ => false,
    }
}
