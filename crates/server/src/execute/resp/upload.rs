//! Uploads: a SET whose value is received straight into the engine's memory.
//!
//! SET's options follow its value, so a received value waits in the session until they are there.

use std::sync::Arc;

use cellar_protocol::resp::Reply;

use super::session::{Session, Tail};
use super::tracking::write_as;
use super::{append_failure, strings};
use crate::execute::context::{Context, Flow};
use crate::execute::filling::{Filling, LINE_END};
use crate::output::Output;

/// A SET whose value is on its way.
#[derive(Debug)]
pub struct Upload {
    /// The value so far.
    pub filling: Filling,
    key: Box<[u8]>,
    args: usize,
}

/// What becomes of a value that is to be received.
#[derive(Debug)]
pub enum Received {
    /// It goes into this upload.
    Upload(Box<Upload>),
    /// It is refused and answered; so many bytes, its line end included, are to be dropped.
    Swallow(usize),
}

/// Makes room for the value of `SET key value`, which `args` arguments follow; one that finds none
/// is answered at once.
pub fn receive(
    key: &[u8],
    value_bytes: usize,
    args: usize,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Received {
    let cache = context.cache();
    let hashed = cache.key_in(session.space(context.state), key);
    match hashed.and_then(|hashed| cache.draft(hashed, value_bytes)) {
        Ok(draft) => Received::Upload(Box::new(Upload {
            filling: Filling::of(draft, value_bytes),
            key: key.into(),
            args,
        })),
        Err(error) => {
            append_failure(&error.into(), session.proto, context, output);
            if args > 0 {
                session.tail = Some(Tail {
                    draft: None,
                    value_bytes: 0,
                    key: Box::default(),
                    args,
                });
            }
            Received::Swallow(value_bytes + LINE_END.len())
        }
    }
}

/// Goes on with a value that is whole: stores it, or waits for the arguments behind it.
///
/// # Panics
/// If bytes are missing.
pub fn finish(
    upload: Upload,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let Upload { filling, key, args } = upload;
    let value_bytes = filling.value_bytes();
    let Some(draft) = filling.finish() else {
        let mut reply = Reply::new(output.bytes(), session.proto);
        reply.error("ERR Protocol error: expected a line end behind the value");
        return Flow::Close;
    };
    session.tail = Some(Tail {
        draft: Some(draft),
        value_bytes,
        key,
        args,
    });
    if args == 0 {
        finish_tail(&[], session, context, output);
    }
    Flow::Continue
}

/// Stores a received value as the arguments behind it say.
///
/// # Panics
/// If there is no value.
pub fn finish_tail(
    options: &[&[u8]],
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) {
    let tail = session.tail.take().expect("arguments follow a value");
    if let Some(draft) = tail.draft {
        let client = Arc::clone(&session.client);
        write_as(&client, || {
            strings::set_draft(&tail.key, draft, options, session, context, output);
        });
    }
    session.tracked.end_command(None, false);
}
