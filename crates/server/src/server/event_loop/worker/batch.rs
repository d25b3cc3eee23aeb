//! Batch: the requests of several connections that an event loop processes together.
//!
//! The received bytes of these connections are adjacent in one arena, a [`Span`] each; decoded
//! requests borrow from it. So a connection needs no read buffer, and memory of the cache is
//! prefetched across requests of different clients.

use cellar_config::limits::ARENA_BYTES;
use cellar_config::protocol::Protocol;
use cellar_engine::{Cache, Candidate, IndexHint};
use cellar_execute::{Codec, DecodedTask, Task};

/// Connections that are read before the first of them is answered: enough for memory to be
/// prefetched, few enough that none waits long for the writes of the others.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// The same for resumed connections, each of which may use its whole share.
pub(super) const GOING_ON_MAX: usize = 16;
/// Requests decoded before they are executed.
pub(super) const STEPS_MAX: usize = 512;

/// The bytes that one connection has received and not yet used.
#[derive(Debug)]
pub(super) struct Span {
    /// The connection.
    pub(super) slot: u32,
    /// The codec of its bytes.
    pub(super) codec: Codec,
    /// The protocol that it decodes.
    pub(super) protocol: Protocol,
    /// First byte that no executed request has used.
    pub(super) from: usize,
    /// First byte that is not decoded.
    pub(super) decoded: usize,
    /// End of the received bytes.
    pub(super) end: usize,
    /// Whether a request was found in it.
    pub(super) found: bool,
    /// Whether no further request of it may be executed in this iteration.
    pub(super) stopped: bool,
}

/// A task and the span that it was decoded from.
#[derive(Debug)]
pub(super) struct Step<'a> {
    /// Index of the span.
    pub(super) span: usize,
    /// Where its bytes end in the arena.
    pub(super) end: usize,
    /// The task to execute.
    pub(super) task: Task<'a>,
    /// Whether that is quick: see [`Task::is_quick`].
    pub(super) is_quick: bool,
    /// The key's position in the index, if known.
    pub(super) hint: Option<IndexHint>,
    /// The probable position of the key's item, after the lookup.
    pub(super) hinted: Option<Candidate>,
}

impl<'a> Step<'a> {
    /// The step that a task is, of this span, whose bytes end there; the index lines of its key are
    /// loaded from here on.
    #[inline(always)]
    pub(super) fn of(
        ahead: DecodedTask<'a, Task<'a>>,
        span: usize,
        end: usize,
        cache: &Cache,
    ) -> Step<'a> {
        let stores = ahead.stores;
        Step {
            span,
            end,
            is_quick: ahead.task.is_quick(),
            task: ahead.task,
            hint: ahead.key.map(|key| match stores {
                true => cache.hint_write(key),
                false => cache.hint_read(key),
            }),
            hinted: None,
        }
    }
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

    /// Whether the arena has space for a connection that may read so many bytes.
    ///
    /// An empty batch always has, so that each iteration makes progress.
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
            protocol: codec.protocol(),
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
