//! Uploads: a SET with a large value.
//!
//! SET's options follow its value, so a complete value waits until they are there.

use std::sync::Arc;

use cellar_net::output::Output;
use cellar_protocol::resp::command::find;
use cellar_protocol::resp::{Reply, Verb};
use cellar_shared::auth::users::Login;

use super::client::tracking::write_as;
use super::failure::Failure;
use super::{Intake, append_failure, check_access, strings};
use crate::context::{Context, Flow, Intake as _};
use crate::upload::{LineEnd, Upload};

/// The head of a SET whose value is on its way.
#[derive(Debug)]
pub(super) struct SetHead {
    /// How many arguments follow the value.
    args: usize,
}

impl Intake {
    /// Begins to receive the value of `SET key value`, with so many arguments behind it, or takes
    /// the next step towards its memory; without memory it answers.
    #[cold]
    pub(super) fn receive(
        &mut self,
        (key, args): (&[u8], usize),
        value_bytes: usize,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let upload = match self.upload.take() {
            Some(mut upload) => {
                let step = upload.draft.extend_reservation(context.cache());
                step.map(|()| upload).map_err(Failure::from)
            }
            None => self.begin((key, args), value_bytes, context),
        };
        match upload {
            Ok(upload) => {
                let flow = upload.flow();
                self.upload = Some(upload);
                flow
            }
            Err(failure) => {
                append_failure(&failure, self.session.proto, context, output);
                self.tail = (args > 0).then_some(args);
                LineEnd::CRLF.skip(value_bytes)
            }
        }
    }

    /// Begins to reserve memory for a value.
    fn begin(
        &mut self,
        (key, args): (&[u8], usize),
        value_bytes: usize,
        context: Context<'_>,
    ) -> Result<Box<Upload<SetHead>>, Failure> {
        // The options have not arrived yet: only the key is checked, because no option changes the
        // rest.
        self.check_set(key, context)?;
        let cache = context.cache();
        let hashed = cache.key_in(self.session.space(context.state), key)?;
        let draft = cache.reserve(hashed, value_bytes)?;
        Ok(Upload::new(key, draft, LineEnd::CRLF, SetHead { args }))
    }

    /// Whether the client may store under a key, here.
    fn check_set(&mut self, key: &[u8], context: Context<'_>) -> Result<(), Failure> {
        let Some(row) = find(b"set") else {
            return Ok(());
        };
        let checked = check_access(row, &[b"set", key, b""], &mut self.session, context);
        checked.inspect_err(|_| context.counters.times.note_rejected(Verb::Set))
    }

    /// Continues with a value that is complete: stores it, unless arguments follow; none if bytes
    /// are missing.
    pub(super) fn end_value(&mut self, context: Context<'_>, output: &mut Output) -> Option<Flow> {
        let upload = self.upload.take_if(|upload| upload.is_complete())?;
        if upload.has_wrong_end() {
            let mut reply = Reply::new(output.bytes(), self.session.proto);
            reply.error("ERR Protocol error: invalid CRLF in request");
            return Some(Flow::Close);
        }
        match upload.request.args {
            0 => self.store(Some(upload), &[], context, output),
            args => (self.upload, self.tail) = (Some(upload), Some(args)),
        }
        Some(Flow::Continue)
    }

    /// Stores the complete value as the arguments behind it say; they may also belong to a value
    /// that was refused.
    #[cold]
    pub(super) fn end_set(
        &mut self,
        args: &[&[u8]],
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let users = context.state.access.users.as_ref();
        let has_lost = |login: &Login| users.is_some_and(|users| !users.has_still(login));
        if self.sender().is_some_and(has_lost) {
            return Flow::Close;
        }
        if self.tail.take().is_some() {
            let upload = self.upload.take();
            self.store(upload, args, context, output);
        }
        Flow::Continue
    }

    fn store(
        &mut self,
        upload: Option<Box<Upload<SetHead>>>,
        options: &[&[u8]],
        context: Context<'_>,
        output: &mut Output,
    ) {
        if let Some(upload) = upload {
            let Upload { key, draft, .. } = *upload;
            // The slot may have moved to another node while the value arrived.
            match self.check_set(&key, context) {
                Err(failure) => append_failure(&failure, self.session.proto, context, output),
                Ok(()) => {
                    let client = Arc::clone(&self.session.client);
                    let session = &mut self.session;
                    write_as(&client, || {
                        strings::set_draft(&key, draft, options, session, context, output);
                    });
                }
            }
        }
        self.session.tracked.end_command(None, false);
    }
}
