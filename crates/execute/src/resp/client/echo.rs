//! Echo: messages that are returned unchanged.
//!
//! A long one takes over its request's buffer, and is sent a piece per iteration; then the buffer
//! is freed in pieces, too, because each page costs the system some time.
//!
//! Tests: server/tests/turns.rs, server/tests/client_memory.rs, server/tests/complexity.rs.

use cellar_config::limits::ARENA_BYTES;
use cellar_net::output::Output;

use crate::context::{Context, Flow, Unfinished};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::session::ReplyMode;

/// A message of more bytes goes back in pieces: no such request was read by way of the arena, so
/// its bytes are its own.
const WHOLE_BYTES_MAX: usize = ARENA_BYTES;
/// Bytes that one iteration sends.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes that one iteration frees.
const FREED_BYTES: usize = 8 << 20;

/// A message being returned.
#[derive(Debug)]
struct Returning {
    /// Its request, once it is taken over.
    frame: Vec<u8>,
    /// Where the rest of the message begins: in memory at first, and then in the request.
    from: usize,
    /// Bytes of it still to send.
    left: usize,
    /// Whether all of it is answered, and only its bytes are left.
    is_answered: bool,
}

impl Unfinished for Returning {
    fn resume(mut self: Box<Self>, _context: Context<'_>, output: &mut Output) -> Flow {
        if self.is_answered {
            let kept = self.frame.len().saturating_sub(FREED_BYTES);
            self.frame.truncate(kept);
            self.frame.shrink_to_fit();
            return match kept {
                0 => Flow::Continue,
                _ => Flow::Unfinished(self),
            };
        }
        let end = self.from + self.left.min(PIECE_BYTES);
        let Some(piece) = self.frame.get(self.from..end) else {
            // The request's buffer was not handed over.
            return Flow::Close;
        };
        output.bytes().extend_from_slice(piece);
        self.left -= piece.len();
        self.from = end;
        if self.left == 0 {
            output.bytes().extend_from_slice(b"\r\n");
            self.is_answered = true;
        }
        Flow::Unfinished(self)
    }

    fn waiting_bytes(&self) -> usize {
        self.frame.len()
    }

    fn adopt(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        let at = self.from.checked_sub(frame.as_ptr().addr());
        let at = at.filter(|at| at + self.left <= frame.len());
        let Some(at) = at.filter(|_| self.frame.is_empty()) else {
            return Some(frame);
        };
        (self.frame, self.from) = (frame, at);
        None
    }

    fn into_buffer(self: Box<Self>) -> Option<Vec<u8>> {
        Some(self.frame)
    }
}

/// Answers a message, which is one of the arguments.
fn answer(call: &mut Call<'_>, message: &[u8]) -> Outcome {
    if message.len() <= WHOLE_BYTES_MAX || !call.session.may_wait() {
        call.reply().bulk(message);
        return DONE;
    }
    if call.session.reply_mode != ReplyMode::On {
        return DONE;
    }
    call.context.pass.note_heavy();
    call.reply().bulk_head(message.len());
    Ok(Flow::Unfinished(Box::new(Returning {
        frame: Vec::new(),
        from: message.as_ptr().addr(),
        left: message.len(),
        is_answered: false,
    })))
}

pub(in crate::resp) fn ping(call: &mut Call<'_>) -> Outcome {
    if call.session.is_confined() && call.args.len() <= 2 {
        let message = call.args.get(1).copied().unwrap_or_default();
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(b"pong");
        return answer(call, message);
    }
    match call.args {
        [_] => {
            call.reply().simple("PONG");
            DONE
        }
        [_, message] => answer(call, message),
        _ => Err(Failure::text(
            "ERR wrong number of arguments for 'ping' command",
        )),
    }
}

pub(in crate::resp) fn echo(call: &mut Call<'_>) -> Outcome {
    answer(call, call.args[1])
}
