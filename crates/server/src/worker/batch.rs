//! Batch: the requests that one turn of an event loop works on together.
//!
//! Received bytes of all ready connections stand side by side in one arena, a [`Span`] each;
//! decoded requests borrow from it. So a connection needs no read buffer of its own, and memory of
//! the cache is fetched ahead across requests of different clients.

use cellar_engine::Space;
use cellar_protocol::memcached::{Limits, Refused};
use cellar_protocol::{http, resp};

use crate::execute;
use crate::limits::ARENA_BYTES;
use crate::listener::Protocol;

/// Requests decoded before they are executed.
pub(super) const STEPS_MAX: usize = 512;
/// Longest value that is received through the arena; a longer one goes straight to the cache.
const SMALL_VALUE_BYTES_MAX: usize = 16 << 10;
/// Longest line of a read with many keys.
const KEYS_LINE_BYTES_MAX: usize = 1 << 20;

/// What the decoder waits for.
pub(super) const LIMITS: Limits = Limits {
    value_bytes_max: SMALL_VALUE_BYTES_MAX,
    keys_line_bytes_max: KEYS_LINE_BYTES_MAX,
};

/// What the decoder of HTTP waits for.
pub(super) const HTTP_LIMITS: http::Limits = http::Limits {
    body_bytes_max: SMALL_VALUE_BYTES_MAX,
};

/// How a connection's bytes are decoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codec {
    /// As memcached's requests.
    Memcached,
    /// As Redis's.
    Resp(RespCodec),
    /// As requests over HTTP.
    Http(HttpCodec),
}

impl Codec {
    /// The same for bytes of which nothing was looked at.
    #[inline]
    pub(super) fn afresh(self) -> Codec {
        match self {
            Codec::Memcached => self,
            Codec::Resp(codec) => Codec::Resp(RespCodec {
                scan: resp::Scan::default(),
                ..codec
            }),
            Codec::Http(_) => Codec::Http(HttpCodec {
                scan: http::Scan::default(),
            }),
        }
    }

    /// The protocol that it decodes.
    #[inline]
    pub(super) fn protocol(self) -> Protocol {
        match self {
            Codec::Memcached => Protocol::Memcached,
            Codec::Resp(_) => Protocol::Resp,
            Codec::Http(_) => Protocol::Http,
        }
    }
}

/// What decoding a client's requests over HTTP depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpCodec {
    /// How far an incomplete head was looked at.
    pub(super) scan: http::Scan,
}

/// What decoding a client's RESP depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespCodec {
    /// The space of the client's database, for hints.
    pub(super) space: Space,
    /// What the decoder may wait for.
    pub(super) limits: resp::Limits,
    /// How far an incomplete command was looked at.
    pub(super) scan: resp::Scan,
    /// The number of arguments to come that belong to the SET before.
    pub(super) tail: Option<usize>,
}

/// What one connection has received and not yet used.
#[derive(Debug)]
pub(super) struct Span {
    /// The connection.
    pub(super) slot: u32,
    /// What its bytes are.
    pub(super) codec: Codec,
    /// First byte that no executed request has used.
    pub(super) from: usize,
    /// First byte that is not decoded.
    pub(super) decoded: usize,
    /// End of the received bytes.
    pub(super) end: usize,
    /// Whether a request was found in it.
    pub(super) found: bool,
    /// Whether no further request of it may be executed in this turn.
    pub(super) stopped: bool,
}

/// What one decoded piece of input asks for.
#[derive(Debug)]
pub(super) enum Task<'a> {
    /// A memcached request.
    Run(execute::memcached::Prepared<'a>),
    /// Making room for a large value of so many bytes.
    Upload(execute::memcached::Prepared<'a>, usize),
    /// An answer to what is no request.
    Refuse {
        /// The answer.
        refused: Refused,
        /// Bytes to drop that are not received yet.
        beyond: usize,
    },
    /// GET over RESP, without more ado.
    Get(execute::resp::PlainGet<'a>),
    /// SET over RESP, without options.
    Set(execute::resp::PlainSet<'a>),
    /// Any Redis command.
    Command(execute::resp::Prepared<'a>),
    /// Making room for the value of a SET.
    LargeSet {
        /// The key.
        key: &'a [u8],
        /// Length of the value.
        value_bytes: usize,
        /// How many arguments follow the value.
        args: usize,
    },
    /// The arguments behind such a value.
    Tail(resp::Args<'a>),
    /// A command that was a line of words with quotes, as a frame.
    Quoted(Vec<u8>),
    /// An answer to what is no command, after which the connection is closed.
    Misframed(Vec<u8>),
    /// A request over HTTP.
    Http(execute::http::Prepared<'a>),
    /// Making room for the body of a request over HTTP.
    Body(execute::http::Prepared<'a>, http::Body),
    /// An answer to what is no request over HTTP, after which the connection is closed.
    Unread(http::Refused),
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once, as the usual requests.
    #[inline]
    pub(super) fn is_quick(&self) -> bool {
        match self {
            Task::Get(_) | Task::Set(_) => true,
            Task::Run(prepared) => prepared.key().is_some(),
            _ => false,
        }
    }

    /// Whether the time of one that is not quick depends on more than its own bytes.
    pub(super) fn is_heavy(&self) -> bool {
        match self {
            Task::Command(prepared) => prepared.is_heavy(),
            _ => true,
        }
    }

    /// Whether the bytes behind it cannot be decoded before it was executed.
    #[inline]
    pub(super) fn ends_decoding(&self) -> bool {
        matches!(
            self,
            Task::Upload(..)
                | Task::LargeSet { .. }
                | Task::Misframed(_)
                | Task::Body(..)
                | Task::Unread(_)
        )
    }
}

/// A task and where it came from.
#[derive(Debug)]
pub(super) struct Step<'a> {
    /// Index of the span.
    pub(super) span: usize,
    /// Where its bytes end in the arena.
    pub(super) end: usize,
    /// What is to be done.
    pub(super) task: Task<'a>,
}

/// The arena and its spans.
pub(super) struct Batch {
    pub(super) arena: Vec<u8>,
    pub(super) used: usize,
    pub(super) spans: Vec<Span>,
    /// Memory for the list of steps; empty between batches.
    pub(super) steps: Vec<Step<'static>>,
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch {
            arena: vec![0; ARENA_BYTES],
            used: 0,
            spans: Vec::new(),
            steps: Vec::with_capacity(STEPS_MAX),
        }
    }

    /// Whether a connection whose turn may take so many bytes can have it now.
    ///
    /// In an empty batch it can, so that each turn gets on.
    #[inline]
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        if self.used + bytes <= self.arena.len() {
            return true;
        }
        let is_empty = self.spans.is_empty();
        if is_empty {
            self.arena.resize(self.used + bytes, 0);
        }
        is_empty
    }

    /// Adds a span of the bytes from `from` to `end`.
    #[inline]
    pub(super) fn add_span(&mut self, slot: u32, codec: Codec, from: usize, end: usize) {
        self.used = end;
        self.spans.push(Span {
            slot,
            codec,
            from,
            decoded: from,
            end,
            found: false,
            stopped: false,
        });
    }

    /// Forgets everything.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.spans.clear();
    }
}

/// The same list, empty, for steps of another lifetime: collecting in place keeps the memory.
#[inline]
pub(super) fn recycle<'a>(mut steps: Vec<Step<'_>>) -> Vec<Step<'a>> {
    steps.clear();
    steps
        .into_iter()
        .map(|_| unreachable!("the list is empty"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_steps_is_allocated_once() {
        let steps = Batch::new().steps;
        let memory = steps.as_ptr();
        let steps = recycle(recycle(steps));
        assert_eq!(steps.as_ptr(), memory);
        assert!(steps.capacity() >= STEPS_MAX);
    }
}
