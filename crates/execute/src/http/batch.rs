//! Batches: many keys read or stored by one request.
//!
//! The items of a batch are processed in order, and one without memory, or without a value, does
//! not stop the others. A long reply is sent in chunks, the next when the client has read the last.

use cellar_config::limits::{BATCH_KEYS_MAX, BATCH_VALUE_BYTES_MAX};
use cellar_engine::When;
use cellar_net::output::Output;
use cellar_protocol::http::reply::{self, Stay};
use cellar_protocol::http::{Mark, Status};
use serde::Deserialize;

use super::call::{Call, DONE, Failure, Outcome};
use super::message::{self, Id, Message, append_failure};
use super::parameters;
use crate::context::{Context, Flow, Unfinished};

/// Bytes after which a reply continues in the next chunk.
const PIECE_BYTES: usize = 32 << 10;

fn too_many(keys: usize) -> Failure {
    let message = format!("a batch has at most {BATCH_KEYS_MAX} keys, this one has {keys}");
    Failure::new(Status::CONTENT_TOO_LARGE, "batch_too_large", "").says(message)
}

/// An item whose key another node of the cluster keeps: a batch is not sent elsewhere as a whole.
const ELSEWHERE: Failure = Failure::new(Status::CONFLICT, "moved", "");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ids<'a> {
    #[serde(borrow)]
    ids: Vec<Id<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    items: Vec<Message<'a>>,
}

/// The keys of a batch that are not answered yet.
#[derive(Debug)]
struct BatchRest {
    ids: std::vec::IntoIter<Box<str>>,
    /// Whether an item was answered before.
    began: bool,
    stay: Stay,
    /// Whether the answer is sent in chunks; else the end of the connection is its end.
    in_chunks: bool,
}

impl BatchRest {
    /// Appends items until enough for one call; returns whether those were all.
    fn append(&mut self, out: &mut Vec<u8>, context: Context<'_>) -> bool {
        for id in self.ids.by_ref() {
            if std::mem::replace(&mut self.began, true) {
                out.push(b',');
            }
            append_item(out, &id, context);
            if out.len() >= PIECE_BYTES {
                break;
            }
        }
        let is_all = self.ids.len() == 0;
        if is_all {
            out.extend_from_slice(b"]}\n");
        }
        is_all
    }

    /// Appends a piece of the body as it is sent.
    fn send(&self, piece: &[u8], is_all: bool, output: &mut Output) {
        if !self.in_chunks {
            return output.bytes().extend_from_slice(piece);
        }
        reply::chunk(output.bytes(), piece);
        if is_all {
            output.bytes().extend_from_slice(reply::LAST_CHUNK);
        }
    }

    fn flow(self: Box<Self>, is_all: bool) -> Flow {
        match (is_all, self.stay) {
            (false, _) => Flow::Unfinished(self),
            (true, Stay::Close) => Flow::Close,
            (true, _) => Flow::Continue,
        }
    }
}

impl Unfinished for BatchRest {
    fn resume(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let mut piece = Vec::new();
        let is_all = self.append(&mut piece, context);
        self.send(&piece, is_all, output);
        self.flow(is_all)
    }

    fn waiting_bytes(&self) -> usize {
        self.ids.as_slice().iter().map(|id| id.len()).sum()
    }
}

fn append_item(out: &mut Vec<u8>, id: &str, context: Context<'_>) {
    let key = match context.state.key(id.as_bytes()) {
        Ok(key) => key,
        Err(error) => return append_failure(out, id, &error.into()),
    };
    if !context.serves(id.as_bytes()) {
        return append_failure(out, id, &ELSEWHERE);
    }
    match message::read(key, context) {
        Ok(value) if value.len() > BATCH_VALUE_BYTES_MAX => {
            let failure = Failure::new(Status::CONFLICT, "too_large_for_json", "");
            append_failure(out, id, &failure);
        }
        Ok(value) => message::append(out, id, &value, context),
        Err(failure) => append_failure(out, id, &failure),
    }
}

/// POST of keys to be read.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let [] = parameters::take(&call.request.target, [])?;
    let Ids { ids } = message::document(call)?;
    if ids.len() > BATCH_KEYS_MAX {
        return Err(too_many(ids.len()));
    }
    for id in &ids {
        call.check_key(id.as_bytes())?;
    }
    let is_old = call.request.marks.has(Mark::Old);
    let ids = ids.into_iter().map(|Id(id)| Box::from(id));
    let mut rest = Box::new(BatchRest {
        ids: ids.collect::<Vec<_>>().into_iter(),
        began: false,
        stay: call.stay,
        in_chunks: !is_old,
    });
    let mut piece = b"{\"items\":[".to_vec();
    if rest.append(&mut piece, call.context) {
        call.json(Status::OK, b"", &piece);
        return DONE;
    }
    if is_old {
        (call.stay, rest.stay) = (Stay::Close, Stay::Close);
    }
    let mut head = call.head(Status::OK);
    head.raw(b"Content-Type: application/json\r\n");
    if !is_old {
        head.raw(b"Transfer-Encoding: chunked\r\n");
    }
    head.end_without_length();
    rest.send(&piece, false, call.output);
    Ok(Flow::Unfinished(rest))
}

/// POST of messages to be stored.
pub(super) fn put(call: &mut Call<'_>) -> Outcome {
    let [] = parameters::take(&call.request.target, [])?;
    let marks = call.request.marks;
    if marks.has(Mark::IfMatch) || marks.has(Mark::IfNoneMatch) {
        let message = "a batch has no conditions";
        return Err(Failure::bad("bad_condition", message));
    }
    let BatchBody { items } = message::document(call)?;
    if items.len() > BATCH_KEYS_MAX {
        return Err(too_many(items.len()));
    }
    // A batch with an invalid message stores nothing.
    let messages = items.iter().map(|item| item.check(call));
    let messages: Vec<_> = messages.collect::<Result<_, _>>()?;
    let mut failed = Vec::new();
    let mut stored = 0_usize;
    for (item, message) in items.iter().zip(&messages) {
        let here = call.context.serves(item.id.as_bytes());
        let here = if here { Ok(()) } else { Err(ELSEWHERE) };
        match here.and_then(|()| message.store(When::Always, call.context)) {
            Ok(()) => stored += 1,
            Err(failure) => {
                if !failed.is_empty() {
                    failed.push(b',');
                }
                append_failure(&mut failed, &item.id.0, &failure);
            }
        }
    }
    let mut document = format!("{{\"stored\":{stored},\"failed\":[").into_bytes();
    document.extend_from_slice(&failed);
    document.extend_from_slice(b"]}\n");
    call.json(Status::OK, b"", &document);
    DONE
}
