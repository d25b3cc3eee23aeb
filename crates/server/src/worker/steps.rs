//! Steps: what the bytes of all spans ask for, and doing it.

use cellar_engine::Cache;
use cellar_protocol::{http, memcached, resp};

use super::batch::{Codec, HTTP_LIMITS, HttpCodec, LIMITS, RespCodec, STEPS_MAX, Span, Step, Task};
use crate::connection::{Connection, Ending, Intake};
use crate::execute::{self, Context, Flow, Upload};

/// How far ahead of execution index lines are fetched.
const INDEX_AHEAD: usize = 20;
/// How far ahead of execution items are fetched.
const ITEM_AHEAD: usize = 10;

/// Decodes spans from index `next` on until the list of steps is full; where to go on.
#[inline]
pub(super) fn decode_spans<'a>(
    arena: &'a [u8],
    spans: &mut [Span],
    mut next: usize,
    cache: &Cache,
    steps: &mut Vec<Step<'a>>,
) -> usize {
    while let Some(span) = spans.get_mut(next) {
        while !span.stopped {
            if steps.len() == STEPS_MAX {
                return next;
            }
            let Some(task) = decode_next(arena, span, cache) else {
                break;
            };
            let is_last = task.ends_decoding();
            steps.push(Step {
                span: next,
                end: span.decoded,
                task,
            });
            if is_last {
                break;
            }
        }
        next += 1;
    }
    next
}

/// Decodes a span's next task, if it is whole.
#[inline]
fn decode_next<'a>(arena: &'a [u8], span: &mut Span, cache: &Cache) -> Option<Task<'a>> {
    while span.decoded < span.end {
        let input = &arena[span.decoded..span.end];
        let (task, used) = match &mut span.codec {
            Codec::Memcached => decode_memcached(input, cache)?,
            Codec::Resp(codec) => decode_resp(input, codec, cache)?,
            Codec::Http(codec) => decode_http(input, codec, cache)?,
        };
        let is_all_used = span.from == span.decoded;
        span.decoded += used;
        if task.is_some() {
            span.found = true;
            return task;
        }
        // Blank lines with nothing before them that is still to be executed: they are done with.
        if is_all_used {
            span.from = span.decoded;
        }
    }
    None
}

/// The first task in `input`, if it is whole, and its length.
type Found<'a> = Option<(Option<Task<'a>>, usize)>;

#[inline]
fn decode_memcached<'a>(input: &'a [u8], cache: &Cache) -> Found<'a> {
    use memcached::Decoded;
    let (task, used) = match memcached::decode(input, &LIMITS) {
        Decoded::Incomplete => return None,
        Decoded::Request { request, used } => {
            let prepared = execute::memcached::prepare(request, cache);
            (Task::Run(prepared), used)
        }
        Decoded::Upload {
            request,
            used,
            value_bytes,
        } => {
            let prepared = execute::memcached::prepare(request, cache);
            (Task::Upload(prepared, value_bytes), used)
        }
        Decoded::Refused(refused) => {
            let there = input.len() - refused.used;
            let beyond = refused.swallow.saturating_sub(there);
            let used = refused.used + refused.swallow.min(there);
            (Task::Refuse { refused, beyond }, used)
        }
    };
    Some((Some(task), used))
}

#[inline]
fn decode_resp<'a>(input: &'a [u8], codec: &mut RespCodec, cache: &Cache) -> Found<'a> {
    use resp::Plain;
    if let Some(args) = codec.tail {
        return decode_tail(input, args, codec);
    }
    if let Some(plain) = resp::decode_plain(input, &codec.limits) {
        // What was looked at belonged to these bytes.
        codec.scan = resp::Scan::default();
        let (task, used) = match plain {
            Plain::Get { key, used } => {
                let get = execute::resp::PlainGet::of(key, codec.space, cache);
                (Task::Get(get), used)
            }
            Plain::Set { key, value, used } => {
                let set = execute::resp::PlainSet::of(key, value, codec.space, cache);
                (Task::Set(set), used)
            }
        };
        return Some((Some(task), used));
    }
    decode_any(input, codec, cache)
}

/// As [`decode_resp`], for what is not plain.
fn decode_any<'a>(input: &'a [u8], codec: &mut RespCodec, cache: &Cache) -> Found<'a> {
    use resp::Decoded;
    let scan = std::mem::take(&mut codec.scan);
    let (task, used) = match resp::decode(input, scan, &codec.limits) {
        Decoded::Incomplete(scan) => {
            codec.scan = scan;
            return None;
        }
        Decoded::Nothing { used } => return Some((None, used)),
        Decoded::Request { request, used } => {
            let prepared = execute::resp::prepare(request, codec.space, cache);
            (Task::Command(prepared), used)
        }
        Decoded::Quoted { frame, used } => (Task::Quoted(frame), used),
        Decoded::Upload {
            key,
            value_bytes,
            used,
            args_left,
        } => {
            let task = Task::LargeSet {
                key,
                value_bytes,
                args: args_left,
            };
            (task, used)
        }
        Decoded::Refused { message, used } => (Task::Misframed(message), used),
    };
    Some((Some(task), used))
}

/// The arguments behind the value of a SET.
#[cold]
fn decode_tail<'a>(input: &'a [u8], args: usize, codec: &mut RespCodec) -> Found<'a> {
    use resp::Tail;
    let (task, used) = match resp::decode_tail(input, args, &codec.limits) {
        Tail::Incomplete => return None,
        Tail::Args { args, used } => (Task::Tail(args), used),
        Tail::Refused { message } => (Task::Misframed(message), input.len()),
    };
    codec.tail = None;
    Some((Some(task), used))
}

#[inline]
fn decode_http<'a>(input: &'a [u8], codec: &mut HttpCodec, cache: &Cache) -> Found<'a> {
    use http::Decoded;
    let scan = std::mem::take(&mut codec.scan);
    let (task, used) = match http::decode(input, scan, &HTTP_LIMITS) {
        Decoded::Incomplete(scan) => {
            codec.scan = scan;
            return None;
        }
        Decoded::Nothing { used } => return Some((None, used)),
        Decoded::Request { request, used } => {
            let prepared = execute::http::prepare(request, cache);
            (Task::Http(prepared), used)
        }
        Decoded::Head {
            request,
            used,
            body,
        } => {
            let prepared = execute::http::prepare(request, cache);
            (Task::Body(prepared, body), used)
        }
        Decoded::Refused(refused) => (Task::Unread(refused), input.len()),
    };
    Some((Some(task), used))
}

/// Starts loading what later steps will touch.
#[inline]
pub(super) fn fetch_ahead(cache: &Cache, steps: &[Step<'_>], index: usize) {
    if index == 0 {
        for step in &steps[..steps.len().min(INDEX_AHEAD)] {
            hint(step, |key| cache.hint_index(key));
        }
        for step in &steps[..steps.len().min(ITEM_AHEAD)] {
            hint(step, |key| cache.hint_item(key));
        }
    }
    if let Some(step) = steps.get(index + INDEX_AHEAD) {
        hint(step, |key| cache.hint_index(key));
    }
    if let Some(step) = steps.get(index + ITEM_AHEAD) {
        hint(step, |key| cache.hint_item(key));
    }
}

#[inline]
fn hint<'a>(step: &Step<'a>, load: impl FnOnce(cellar_engine::Key<'a>)) {
    let key = match &step.task {
        Task::Run(prepared) => prepared.key(),
        Task::Get(get) => Some(get.key),
        Task::Set(set) => Some(set.key),
        Task::Command(prepared) => prepared.key(),
        Task::Http(prepared) => prepared.key(),
        _ => None,
    };
    if let Some(key) = key {
        load(key);
    }
}

/// Executes one step; its replies go to the connection's output.
#[inline]
pub(super) fn run(
    context: Context<'_>,
    step: &Step<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
    now_ms: u64,
) {
    let begin = std::mem::replace(&mut span.from, step.end);
    if is_outdated(&step.task, &span.codec, connection) {
        (span.from, span.stopped) = (begin, true);
        return;
    }
    let flow = match &step.task {
        Task::Run(prepared) => {
            execute::memcached::execute(prepared, context, &mut connection.output)
        }
        Task::Get(get) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            execute::resp::execute_get(get, session, context, &mut connection.output)
        }
        Task::Set(set) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            execute::resp::execute_set(set, session, context, &mut connection.output)
        }
        Task::Command(prepared) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            execute::resp::execute(prepared, session, context, &mut connection.output)
        }
        Task::Http(prepared) => {
            let peer = &mut connection.http.as_mut().expect(HAS_LINK).peer;
            execute::http::execute(prepared, peer, context, &mut connection.output)
        }
        other => run_other(other, context, span, arena, connection, now_ms),
    };
    follow(flow, span, connection);
}

/// Whether a command before it in the same batch has changed how this task's bytes are to be
/// decoded: they are decoded again in the next turn.
#[inline]
fn is_outdated(task: &Task<'_>, codec: &Codec, connection: &Connection) -> bool {
    if !matches!(task, Task::LargeSet { .. } | Task::Misframed(_)) {
        return false;
    }
    let (Codec::Resp(codec), Some(session)) = (codec, &connection.session) else {
        return false;
    };
    codec.limits != session.limits()
}

/// Why a step of a Redis command finds a session.
const HAS_SESSION: &str = "a connection whose bytes are RESP has a session";

/// Why a step of a request over HTTP finds what is known of its client.
const HAS_LINK: &str = "a connection whose bytes are HTTP has a link";

/// Goes on as an execution said.
#[inline]
pub(super) fn follow(flow: Flow, span: &mut Span, connection: &mut Connection) {
    match flow {
        Flow::Continue => span.stopped |= connection.output.is_full(),
        Flow::Close => {
            connection.end_after_output();
            span.stopped = true;
            span.from = span.end;
        }
        Flow::Unfinished(rest) => {
            connection.unfinished = Some(rest);
            span.stopped = true;
        }
    }
}

/// What is not simply a request.
fn run_other(
    task: &Task<'_>,
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
    now_ms: u64,
) -> Flow {
    let output = &mut connection.output;
    match task {
        Task::Upload(prepared, value_bytes) => {
            let received = execute::memcached::receive(prepared, *value_bytes, context, output);
            connection.start_transfer(now_ms);
            match received {
                execute::memcached::Received::Upload(upload) => {
                    begin_value(Upload::Memcached(upload), context, span, arena, connection)
                }
                execute::memcached::Received::Swallow(bytes) => skip_value(bytes, span, connection),
            }
        }
        Task::LargeSet {
            key,
            value_bytes,
            args,
        } => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            let received =
                execute::resp::receive(key, *value_bytes, *args, session, context, output);
            connection.start_transfer(now_ms);
            match received {
                execute::resp::Received::Upload(upload) => {
                    begin_value(Upload::Resp(upload), context, span, arena, connection)
                }
                execute::resp::Received::Swallow(bytes) => skip_value(bytes, span, connection),
            }
        }
        Task::Quoted(frame) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            let request = resp::Decoded::unquoted(frame);
            let space = session.space(context.state());
            let prepared = execute::resp::prepare(request, space, context.cache());
            execute::resp::execute(&prepared, session, context, output)
        }
        Task::Tail(args) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            execute::resp::finish_tail(args, session, context, output);
            Flow::Continue
        }
        Task::Refuse { refused, beyond } => {
            if *beyond > 0 {
                connection.start_transfer(now_ms);
                connection.intake = Intake::Skip(*beyond);
            }
            execute::memcached::refuse(refused, context, &mut connection.output)
        }
        Task::Misframed(message) => {
            let session = connection.session.as_ref().expect(HAS_SESSION);
            execute::resp::refuse(message, session, context, output)
        }
        Task::Body(prepared, body) => {
            let peer = &mut connection.http.as_mut().expect(HAS_LINK).peer;
            let received = execute::http::receive(prepared, *body, peer, context, output);
            connection.start_transfer(now_ms);
            begin_body(received, context, span, arena, connection)
        }
        Task::Unread(refused) => execute::http::refuse(refused, context, output),
        Task::Run(_) | Task::Get(_) | Task::Set(_) | Task::Command(_) | Task::Http(_) => {
            unreachable!("requests were run by the caller")
        }
    }
}

/// Starts to receive a large value with what of it is in the arena.
fn begin_value(
    mut upload: Upload,
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
) -> Flow {
    // What follows was not decoded: it waits for the next turn.
    span.stopped = true;
    let filling = upload.filling();
    span.from += filling.fill_from(&arena[span.from..span.end]);
    if filling.is_whole() {
        return finish(upload, context, connection);
    }
    connection.intake = Intake::Value(upload);
    Flow::Continue
}

/// Starts to receive the body of a request over HTTP with what of it is in the arena.
#[cold]
fn begin_body(
    received: execute::http::Received,
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
) -> Flow {
    use execute::http::Received;
    match received {
        Received::Upload(upload) => {
            begin_value(Upload::Http(upload), context, span, arena, connection)
        }
        Received::Gather(gather) => {
            // What follows was not decoded: it waits for the next turn.
            span.stopped = true;
            gather_body(gather, context, span, arena, connection)
        }
        Received::Swallow(bytes) => skip_value(bytes, span, connection),
        Received::Close => Flow::Close,
    }
}

/// Goes on with a body that is gathered, and runs its request when it is whole.
pub(super) fn gather_body(
    mut gather: Box<execute::http::Gather>,
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
) -> Flow {
    use execute::http::Gathered;
    let input = &arena[span.from..span.end];
    let output = &mut connection.output;
    match gather.feed(input, context, output) {
        Gathered::More => {
            span.from = span.end;
            connection.intake = Intake::Body(gather);
            Flow::Continue
        }
        Gathered::Whole(used) => {
            span.from += used;
            let peer = &mut connection.http.as_mut().expect(HAS_LINK).peer;
            gather.finish(peer, context, output)
        }
        Gathered::Refused => Flow::Close,
    }
}

/// Drops a refused value.
fn skip_value(bytes: usize, span: &mut Span, connection: &mut Connection) -> Flow {
    span.stopped = true;
    let dropped = bytes.min(span.end - span.from);
    span.from += dropped;
    if dropped < bytes {
        connection.intake = Intake::Skip(bytes - dropped);
    }
    Flow::Continue
}

/// Goes on with a value that is whole.
pub(super) fn finish(upload: Upload, context: Context<'_>, connection: &mut Connection) -> Flow {
    match upload {
        Upload::Memcached(upload) => {
            execute::memcached::finish(*upload, context, &mut connection.output);
            Flow::Continue
        }
        Upload::Resp(upload) => {
            let session = connection.session.as_mut().expect(HAS_SESSION);
            execute::resp::finish(*upload, session, context, &mut connection.output)
        }
        Upload::Http(upload) => execute::http::finish(*upload, context, &mut connection.output),
    }
}

/// Runs the command at the beginning of what is left over, if it is whole; whether it is.
pub(super) fn run_frame(
    context: Context<'_>,
    codec: Codec,
    slot: u32,
    connection: &mut Connection,
    now_ms: u64,
) -> bool {
    let mut frame = std::mem::take(&mut connection.leftover);
    let mut span = Span {
        slot,
        codec,
        from: 0,
        decoded: 0,
        end: frame.len(),
        found: false,
        stopped: false,
    };
    let is_whole = if let Some(task) = decode_next(&frame, &mut span, context.cache()) {
        let end = span.decoded;
        let step = Step { span: 0, end, task };
        run(context, &step, &mut span, &frame, connection, now_ms);
        true
    } else {
        false
    };
    if !is_whole {
        frame.drain(..span.from);
        connection.leftover = frame;
    } else if connection.ending == Ending::No || connection.ending == Ending::AfterRequests {
        connection.leftover = frame[span.from..].to_vec();
        connection.backlog = !connection.leftover.is_empty();
        if matches!(connection.intake, Intake::Frame) {
            connection.intake = Intake::Requests;
        }
    }
    connection.note_waiting(is_whole, !is_whole, now_ms);
    keep_scan(span.codec, connection);
    is_whole
}

/// Keeps how far a request that is not whole was looked at.
#[inline]
pub(super) fn keep_scan(codec: Codec, connection: &mut Connection) {
    match (codec, &mut connection.session, &mut connection.http) {
        (Codec::Resp(codec), Some(session), _) => session.scan = codec.scan,
        (Codec::Http(codec), _, Some(link)) => link.scan = codec.scan,
        _ => {}
    }
}
