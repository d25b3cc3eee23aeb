//! Uploads: a SET whose value is received straight into the engine's memory.
//!
//! SET's options follow its value, so a received value is a [`Tail`] until they are there.

use std::sync::Arc;

use cellar_engine::{Draft, Error};
use cellar_protocol::resp::command::find;
use cellar_protocol::resp::{Reply, Verb};

use crate::execute::context::{Context, Flow};
use crate::execute::filling::{Filling, LINE_END};
use crate::execute::resp::client::tracking::write_as;
use crate::execute::resp::failure::Failure;
use crate::execute::resp::session::Session;
use crate::execute::resp::{append_failure, check_access, strings};
use crate::net::output::Output;

/// A SET whose value is on its way.
#[derive(Debug)]
pub(in crate::execute::resp) struct Upload {
    /// The value so far.
    pub(in crate::execute::resp) filling: Filling,
    key: Box<[u8]>,
    /// How many arguments follow.
    args: usize,
}

/// A SET whose value is there, while the arguments behind it are not.
#[derive(Debug)]
pub(in crate::execute::resp) struct Tail {
    /// The value; none if it was refused.
    value: Option<(Box<[u8]>, Draft, usize)>,
    args: usize,
}

/// Reserves memory for the value of `SET key value`, with so many arguments behind it; without
/// memory it answers at once.
///
/// # Errors
/// How the connection continues without the value.
pub(in crate::execute::resp) fn receive(
    (key, args): (&[u8], usize),
    value_bytes: usize,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<Upload>, Flow> {
    // The options have not arrived yet: only the key is checked, because no option changes the
    // rest.
    if let Err(failure) = may_set(key, session, context) {
        context.counters.times.note_rejected(Verb::Set);
        append_failure(&failure, session.proto, context, output);
        return Err(Flow::Skip(value_bytes + LINE_END.len()));
    }
    let cache = context.cache();
    let hashed = cache.key_in(session.space(context.state), key);
    match hashed.and_then(|hashed| cache.reserve(hashed, value_bytes)) {
        Ok(room) => Ok(Box::new(Upload {
            filling: Filling::of(room, value_bytes),
            key: key.into(),
            args,
        })),
        Err(error) => Err(fail(value_bytes, error, session, context, output)),
    }
}

/// Whether a client may store under a key, here.
fn may_set(key: &[u8], session: &mut Session, context: Context<'_>) -> Result<(), Failure> {
    match find(b"set") {
        Some(row) => check_access(row, &[b"set", key, b""], session, context),
        None => Ok(()),
    }
}

/// Answers a SET without memory.
fn fail(
    value_bytes: usize,
    error: Error,
    session: &Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    append_failure(&error.into(), session.proto, context, output);
    Flow::Skip(value_bytes + LINE_END.len())
}

impl Upload {
    /// Answers that no memory is available.
    pub(in crate::execute::resp) fn refuse(
        self,
        error: Error,
        session: &Session,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        fail(self.filling.value_bytes(), error, session, context, output)
    }

    /// Continues with a complete value; none if no line end follows it.
    ///
    /// # Panics
    /// If bytes are missing.
    pub(in crate::execute::resp) fn finish(
        self,
        session: &Session,
        output: &mut Output,
    ) -> Option<Tail> {
        let value_bytes = self.filling.value_bytes();
        let Some(draft) = self.filling.finish_line() else {
            let mut reply = Reply::new(output.bytes(), session.proto);
            reply.error("ERR Protocol error: invalid CRLF in request");
            return None;
        };
        Some(Tail {
            value: Some((self.key, draft, value_bytes)),
            args: self.args,
        })
    }
}

impl Tail {
    /// The arguments behind a refused value, if any.
    pub(in crate::execute::resp) fn of_refused(args: usize) -> Option<Tail> {
        (args > 0).then_some(Tail { value: None, args })
    }

    /// How many arguments follow.
    pub(in crate::execute::resp) fn args(&self) -> usize {
        self.args
    }

    /// Length of the value.
    pub(in crate::execute::resp) fn value_bytes(&self) -> usize {
        let value = self.value.as_ref();
        value.map_or(0, |(_, _, value_bytes)| *value_bytes)
    }

    /// Stores the value as the arguments behind it say.
    pub(in crate::execute::resp) fn store(
        self,
        options: &[&[u8]],
        session: &mut Session,
        context: Context<'_>,
        output: &mut Output,
    ) {
        if let Some((key, draft, value_bytes)) = self.value {
            // The slot may have moved to another node while the value arrived.
            if let Err(failure) = may_set(&key, session, context) {
                context.counters.times.note_rejected(Verb::Set);
                append_failure(&failure, session.proto, context, output);
                return session.tracked.end_command(None, false);
            }
            let client = Arc::clone(&session.client);
            write_as(&client, || {
                strings::set_draft(
                    (&key, value_bytes),
                    draft,
                    options,
                    session,
                    context,
                    output,
                );
            });
        }
        session.tracked.end_command(None, false);
    }
}
