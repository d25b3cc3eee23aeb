//! Intake: what becomes of bytes that a client of memcached's protocol sends.
//!
//! [`decode`] makes a [`Task`] of them, [`Intake::run`] does it. A long value is no part of a
//! task: its bytes follow to [`Intake::feed`].

use cellar_engine::Cache;
use cellar_protocol::memcached::{self as codec, Decoded, Limits, Refused, Storage};

use super::member::{Admitted, Member};
use super::upload::{Upload, receive};
use super::{Prepared, execute, execute_limited, prepare, refuse};
use crate::execute::context::{Ahead, Context, First, Flow, Next};
use crate::execute::filling::{LINE_END, SMALL_VALUE_BYTES_MAX, Transfer};
use crate::output::Output;
use crate::state::State;
use crate::users::Standing;

/// Longest line of a read with many keys.
const KEYS_LINE_BYTES_MAX: usize = 1 << 20;

/// What the decoder waits for.
const LIMITS: Limits = Limits {
    value_bytes_max: SMALL_VALUE_BYTES_MAX,
    keys_line_bytes_max: KEYS_LINE_BYTES_MAX,
};

/// What one piece of input asks for.
#[derive(Debug)]
pub enum Task<'a> {
    /// A request.
    Run(Prepared<'a>),
    /// Making room for a large value of so many bytes.
    Upload(Storage<'a>, usize),
    /// An answer to what is no request.
    Refuse {
        /// The answer.
        refused: Refused,
        /// Bytes to drop that are not received yet.
        beyond: usize,
    },
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once.
    #[inline]
    pub(in crate::execute) fn is_quick(&self) -> bool {
        matches!(self, Task::Run(prepared) if prepared.key().is_some())
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(in crate::execute) fn ends_decoding(&self) -> bool {
        matches!(self, Task::Upload(..))
    }
}

/// What a connection keeps of the protocol: the value that it receives, and whose it is.
#[derive(Debug, Default)]
pub struct Intake {
    upload: Option<Box<Upload>>,
    /// Whose it is; none on a server without users.
    member: Option<Box<Member>>,
}

/// The first task in `input`, as one of all protocols'.
#[inline]
pub(in crate::execute) fn decode<'a, T>(
    input: &'a [u8],
    cache: &Cache,
    wrap: impl Fn(Task<'a>) -> T,
) -> First<'a, T> {
    let (task, key, used) = match codec::decode(input, &LIMITS) {
        Decoded::Incomplete => return None,
        Decoded::Request { request, used } => {
            let prepared = prepare(request, cache);
            (wrap(Task::Run(prepared)), prepared.key(), used)
        }
        Decoded::Upload {
            storage,
            used,
            value_bytes,
        } => (wrap(Task::Upload(storage, value_bytes)), None, used),
        Decoded::Refused(refused) => {
            let there = input.len() - refused.used;
            let beyond = refused.swallow.saturating_sub(there);
            let used = refused.used + refused.swallow.min(there);
            (wrap(Task::Refuse { refused, beyond }), None, used)
        }
    };
    Some((Some(Ahead { task, key }), used))
}

/// Whether `input` is still no whole request, given that its first `looked_at` bytes were none.
pub(in crate::execute) fn is_still_incomplete(input: &[u8], looked_at: usize) -> bool {
    codec::is_still_incomplete(input, looked_at, &LIMITS)
}

impl Intake {
    /// The intake of a client with this address, as
    /// [`Listener::peer_of`](crate::listener::Listener::peer_of) has it.
    #[must_use]
    pub fn new(peer: &str, state: &State) -> Intake {
        Intake {
            upload: None,
            member: state.users.is_some().then(|| Box::new(Member::at(peer))),
        }
    }

    /// Lets go of a value that is not stored.
    pub(in crate::execute) fn abandon(&mut self) {
        self.upload = None;
    }

    /// Becomes a user's who has shown a certificate.
    pub(in crate::execute) fn become_of(&mut self, standing: Standing) {
        if let Some(member) = &mut self.member {
            member.standing = standing;
        }
    }

    /// Does what a task asks for.
    #[inline]
    pub(in crate::execute) fn run(
        &mut self,
        task: &Task<'_>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Next {
        match task {
            Task::Run(prepared) => Next::Flow(match &mut self.member {
                None => execute(prepared, context, output),
                Some(member) => match member.admit(&prepared.request, context, output) {
                    Admitted::Runs(None) => execute(prepared, context, output),
                    Admitted::Runs(Some(user)) => execute_limited(&user, prepared, context, output),
                    Admitted::Not(flow) => flow,
                },
            }),
            Task::Upload(storage, value_bytes) => {
                if let Some(member) = &mut self.member
                    && let Admitted::Not(_) = member.admit_upload(storage, context, output)
                {
                    return Next::Skip(value_bytes + LINE_END.len());
                }
                match receive(storage, *value_bytes, context, output) {
                    Ok(upload) => {
                        self.upload = Some(upload);
                        Next::Feed
                    }
                    Err(next) => next,
                }
            }
            Task::Refuse { refused, beyond } => match refuse(refused, context, output) {
                Flow::Continue if *beyond > 0 => Next::Skip(*beyond),
                flow => Next::Flow(flow),
            },
        }
    }

    /// The value under way.
    #[inline]
    pub(in crate::execute) fn transfer(&mut self) -> Option<Transfer<'_>> {
        let upload = self.upload.as_mut()?;
        Some(upload.filling.transfer())
    }

    /// Hands on more of the value; how many bytes were used, and how the connection goes on once
    /// the value is whole.
    pub(in crate::execute) fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let upload = self.upload.as_mut();
        let used = upload.map_or(0, |upload| upload.filling.fill_from(input));
        let whole = self.upload.take_if(|upload| upload.filling.is_whole());
        let flow = whole.map(|upload| {
            upload.finish(context, output);
            Flow::Continue
        });
        (used, flow)
    }

    /// Length of the value under way.
    #[inline]
    pub(in crate::execute) fn received_bytes(&self) -> usize {
        let upload = self.upload.as_ref();
        upload.map_or(0, |upload| upload.filling.value_bytes())
    }
}
