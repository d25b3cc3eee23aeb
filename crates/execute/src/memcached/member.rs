//! Member: a connection of a server with users.
//!
//! The first command is a `set` of any key whose value is a name and a password with a space
//! between them, as memcached's `-Y` has it; nothing else is understood before.
//!
//! A login with `noreply`, which pymemcache sends by default, has no answer, nor has any other
//! request with it. If it failed, the next request is answered `CLIENT_ERROR unauthenticated`.
//! memcached answers it, and each later answer is then taken for that of the request before.
//!
//! Source: memcached 1.6.45, doc/protocol.txt, "Authentication".

use std::sync::Arc;

use cellar_net::output::Output;
use cellar_protocol::memcached::{Request, Storage, Store, Verb, reply};
use cellar_shared::auth::users::{Identity, LoginResult, User, Users};

use crate::context::{Context, Flow};
use crate::login::Pending;
use crate::permission::check_memcached;

const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";
const FAILED: &str = "CLIENT_ERROR authentication failure";
const BUSY: &str = "SERVER_ERROR too many logins wait; try again";
const NOT_PERMITTED: &str = "CLIENT_ERROR not permitted";

/// The user and the source of a connection.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) identity: Identity,
    pub(super) pending: Pending,
    pub(super) peer: String,
    /// Whether it was logged in without a password, and has sent no request yet.
    is_new_guest: bool,
}

/// Whether a request may run: it lists only the keys that this user may read. A request that may
/// not run was answered, or waits.
pub(super) type Admitted = Result<Option<Arc<User>>, Flow>;

impl Member {
    /// Creates the member of a new connection.
    pub(super) fn at(peer: &str) -> Member {
        Member {
            identity: Identity::Unknown,
            pending: Pending::default(),
            peer: peer.to_owned(),
            is_new_guest: false,
        }
    }

    /// Assigns it to a user who is known without a password.
    pub(super) fn become_of(&mut self, identity: Identity) {
        self.is_new_guest = identity.is_known();
        self.identity = identity;
    }

    /// Whether a request may run.
    pub(super) fn admit(
        &mut self,
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Admitted {
        let Some(users) = &context.state.access.users else {
            return Ok(None);
        };
        if self.is_new_guest
            && let Some(flow) = self.introduce(users, request, context, output)
        {
            return Err(flow);
        }
        let Some(user) = self.identity.user(Some(users)) else {
            return Err(self.log_in(users, request, context, output));
        };
        if check_memcached(user, request).is_ok() {
            let is_limited = user.is_limited();
            return Ok(is_limited.then(|| Arc::clone(user)));
        }
        refuse(NOT_PERMITTED, request, context, output);
        Err(Flow::Continue)
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
        if self.identity.is_known() {
            return self.admit(&request, context, output);
        }
        // No name and password are that long.
        refuse(UNAUTHENTICATED, &request, context, output);
        Err(Flow::Continue)
    }

    /// A client that was logged in without a password may still send one, as configured, and then
    /// becomes that user's connection. Wrong credentials are refused, so that they are not stored
    /// as a value. Any other first request is an ordinary one.
    #[cold]
    fn introduce(
        &mut self,
        users: &Users,
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Option<Flow> {
        let secrets = secrets_of(request).filter(|(name, _)| users.by_name(name).is_some());
        let Some(secrets) = secrets else {
            self.is_new_guest = false;
            return None;
        };
        let flow = self.compare(users, secrets, request, context, output);
        self.is_new_guest = matches!(flow, Flow::Wait(_));
        Some(flow)
    }

    fn log_in(
        &mut self,
        users: &Users,
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        if matches!(request, Request::Quit) {
            return Flow::Close;
        }
        let Some(secrets) = secrets_of(request) else {
            refuse(UNAUTHENTICATED, request, context, output);
            return Flow::Continue;
        };
        self.compare(users, secrets, request, context, output)
    }

    /// Compares a name and a password, and answers.
    fn compare(
        &mut self,
        users: &Users,
        secrets: (&[u8], &[u8]),
        request: &Request<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let result = match self.pending.log_in(users, secrets, &self.peer, context) {
            Ok(result) => result,
            Err(ticket) => return Flow::Wait(ticket),
        };
        let (line, flow) = match result {
            LoginResult::Right(login) => {
                self.identity = users.identity_of(login);
                if !is_silent(request) {
                    output.bytes().extend_from_slice(reply::line::STORED);
                }
                return Flow::Continue;
            }
            LoginResult::Wrong => (FAILED, Flow::Continue),
            // Nothing is compared for this address now.
            LoginResult::TooMany { .. } => (FAILED, Flow::Close),
            LoginResult::Busy => (BUSY, Flow::Continue),
        };
        refuse(line, request, context, output);
        flow
    }
}

/// Refuses a request, with this line if its client waits for one.
fn refuse(line: &str, request: &Request<'_>, context: Context<'_>, output: &mut Output) {
    context.counters.protocol_errors.add(1);
    if !is_silent(request) {
        reply::text_line(output.bytes(), line);
    }
}

/// Name and password, if the request has the form of a login. Without a space the name matches no
/// user, and is as wrong as any other.
fn secrets_of<'a>(request: &Request<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let Request::Store(Store {
        verb: Verb::Set,
        value,
        ..
    }) = request
    else {
        return None;
    };
    let space = memchr::memchr(b' ', value).unwrap_or(value.len());
    Some((&value[..space], value.get(space + 1..).unwrap_or_default()))
}

/// Whether a client waits for no answer to a request.
fn is_silent(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Count { noreply, .. }
        | Request::Touch { noreply, .. }
        | Request::FlushAll { noreply, .. }
        | Request::MemoryLimit { noreply, .. }
        | Request::Okay { noreply } => *noreply,
        _ => false,
    }
}
