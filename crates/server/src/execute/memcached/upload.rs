//! Uploads: storage commands whose value is received straight into the engine's memory.
//!
//! [`receive`] takes the decoded command line; the worker reads bytes into [`Upload::buffer`] and
//! tells [`Upload::advance`]; [`finish`] stores the value. An upload that is dropped leaves
//! nothing.

use cellar_engine::{Draft, Error, Key};
use cellar_protocol::memcached::refusal::BAD_DATA;
use cellar_protocol::memcached::{OwnedMeta, Request, reply};

use super::Prepared;
use super::store::{self, Order, Source};
use crate::execute::context::Context;
use crate::output::Output;

/// The line end behind a value.
const LINE_END: [u8; 2] = *b"\r\n";

/// A value on its way in.
#[derive(Debug)]
pub struct Upload {
    draft: Draft,
    value_bytes: usize,
    received: usize,
    line_end: [u8; LINE_END.len()],
    key: Box<[u8]>,
    order: Order,
    form: Form,
}

/// How the store is answered.
#[derive(Debug)]
enum Form {
    Classic { noreply: bool },
    Meta(OwnedMeta),
}

/// What becomes of a value that is to be received.
#[derive(Debug)]
pub enum Received {
    /// It goes into this upload.
    Upload(Box<Upload>),
    /// It is refused and answered; so many bytes, its line end included, are to be dropped.
    Swallow(usize),
}

impl Upload {
    /// Where the next bytes go; empty when all are there.
    pub fn buffer(&mut self) -> &mut [u8] {
        match self.received.checked_sub(self.value_bytes) {
            None => &mut self.draft.value_mut()[self.received..self.value_bytes],
            Some(of_end) => &mut self.line_end[of_end..],
        }
    }

    /// Notes that the first `bytes` of [`Upload::buffer`] are filled.
    ///
    /// # Panics
    /// If that is more than the buffer holds.
    pub fn advance(&mut self, bytes: usize) {
        assert!(
            bytes <= self.buffer().len(),
            "only bytes that fit can have been received"
        );
        self.received += bytes;
    }

    /// Takes what it can from `input`; returns how much that was.
    pub fn fill_from(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        while taken < input.len() && !self.is_whole() {
            let buffer = self.buffer();
            let bytes = buffer.len().min(input.len() - taken);
            buffer[..bytes].copy_from_slice(&input[taken..taken + bytes]);
            self.advance(bytes);
            taken += bytes;
        }
        taken
    }

    /// Whether value and line end are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.missing() == 0
    }

    /// Bytes to come, the line end included.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_bytes + LINE_END.len() - self.received
    }
}

/// Makes room for the value of a storage command; one that finds none is answered at once.
///
/// # Panics
/// If the request is no storage command.
pub fn receive(
    prepared: &Prepared<'_>,
    value_bytes: usize,
    context: Context<'_>,
    output: &mut Output,
) -> Received {
    match prepared.request() {
        Request::Store(request) => {
            let key = prepared.key().expect("a storage command has a key");
            let order = Order::classic(request, context);
            let form = Form::Classic {
                noreply: request.noreply,
            };
            start(key, value_bytes, (order, form), context, output)
        }
        Request::MetaSet { meta, verb, .. } => context.with_key(meta, prepared.key(), |key| {
            let order = Order::meta(meta, *verb, context);
            start(
                key,
                value_bytes,
                (order, Form::Meta(meta.to_owned())),
                context,
                output,
            )
        }),
        other => panic!("only storage commands have a value: {other:?}"),
    }
}

fn start(
    key: Key<'_>,
    value_bytes: usize,
    (order, form): (Order, Form),
    context: Context<'_>,
    output: &mut Output,
) -> Received {
    match context.cache().draft(key, value_bytes) {
        Ok(draft) => {
            let (line_end, key) = ([0; LINE_END.len()], key.bytes().into());
            let upload = Upload {
                draft,
                value_bytes,
                received: 0,
                line_end,
                key,
                order,
                form,
            };
            Received::Upload(Box::new(upload))
        }
        Err(error) => {
            order.fail(key, &error, context);
            answer_failure(&error, &form, output);
            Received::Swallow(value_bytes + LINE_END.len())
        }
    }
}

fn answer_failure(error: &Error, form: &Form, output: &mut Output) {
    let noreply = matches!(form, Form::Classic { noreply: true });
    super::answer(store::failure(error), noreply, output);
}

/// Stores a value that is whole, and answers.
///
/// # Panics
/// If bytes are missing.
pub fn finish(upload: Upload, context: Context<'_>, output: &mut Output) {
    assert!(
        upload.is_whole(),
        "an upload is finished when all its bytes are there"
    );
    let Upload {
        draft,
        value_bytes,
        line_end,
        key,
        order,
        form,
        ..
    } = upload;
    if line_end != LINE_END {
        context.counters.protocol_errors.add(1);
        if !matches!(form, Form::Classic { noreply: true }) {
            reply::text_line(output.bytes(), BAD_DATA);
        }
        return;
    }
    let key = context.key(&key);
    let result = order.run(key, Source::Draft(draft), context);
    match &form {
        Form::Classic { noreply } => store::answer_classic(&result, *noreply, output),
        Form::Meta(meta) => {
            let meta = meta.borrow();
            store::answer_meta(
                &result,
                &meta,
                (key, order.verb, value_bytes),
                context,
                output,
            );
        }
    }
}
