//! Uploads: storage commands whose value is received straight into the engine's memory.
//!
//! [`receive`] takes the decoded command line; the value's bytes go into the [`Filling`];
//! [`Upload::finish`] stores it. Dropping an upload frees its memory.

use cellar_engine::{Error, Key};
use cellar_protocol::memcached::binary::{self as packets, Packet};
use cellar_protocol::memcached::refusal::BAD_DATA;
use cellar_protocol::memcached::{Storage, reply};

use super::answers::{self, AnswerForm, packet_failure};
use super::binary;
use super::elsewhere;
use super::extension::{AddedBytes, Extension};
use super::order::Order;
use crate::execute::context::{Context, Flow};
use crate::execute::filling::{Filling, LINE_END, ValueSource};
use crate::net::output::Output;

/// A storage command whose value is on its way.
#[derive(Debug)]
pub(super) struct Upload {
    /// The value so far.
    pub(super) filling: Filling,
    key: Box<[u8]>,
    order: Order,
    form: AnswerForm,
}

impl Upload {
    /// Answers that no memory is available.
    pub(super) fn refuse(self, error: &Error, context: Context<'_>, output: &mut Output) -> Flow {
        let key = context.key(&self.key);
        let value_bytes = self.filling.value_bytes();
        let how = (&self.order, &self.form);
        fail(key, value_bytes, how, error, context, output)
    }

    /// Stores a complete value and answers, or lets it wait for more memory.
    ///
    /// # Panics
    /// If bytes are missing.
    pub(super) fn finish(self, context: Context<'_>, output: &mut Output) -> Flow {
        let Upload {
            filling,
            key,
            order,
            form,
        } = self;
        let value_bytes = filling.value_bytes();
        let draft = match form {
            AnswerForm::Packet(_) => Some(filling.finish()),
            _ => filling.finish_line(),
        };
        let Some(draft) = draft else {
            context.counters.protocol_errors.add(1);
            if !matches!(form, AnswerForm::Classic { noreply: true }) {
                reply::text_line(output.bytes(), BAD_DATA);
            }
            return Flow::Continue;
        };
        // The slot may have moved to another node while the value arrived.
        let noreply = matches!(form, AnswerForm::Classic { noreply: true });
        let is_refused = match form {
            AnswerForm::Packet(head) => elsewhere::refused_packet(head, &key, context, output),
            _ => elsewhere::refused(&key, noreply, context, output),
        };
        if is_refused {
            return Flow::Continue;
        }
        let key = context.key(&key);
        if order.end().is_some() {
            return Extension::of(key, order, form, AddedBytes::Draft(draft)).run(context, output);
        }
        let result = order.run(key, ValueSource::Draft(draft), context);
        form.answer(&result, (key, order.verb, value_bytes), context, output);
        Flow::Continue
    }
}

/// The same for a packet.
///
/// # Errors
/// How the connection continues without the value.
pub(super) fn receive_packet(
    packet: &Packet<'_>,
    value_bytes: usize,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<Upload>, Flow> {
    if elsewhere::answered_packet(packet, context, output) {
        return Err(Flow::Skip(value_bytes));
    }
    let Some(order) = binary::order(packet, context) else {
        return Err(Flow::Skip(value_bytes));
    };
    let form = AnswerForm::Packet(packet.head);
    start(
        context.key(packet.key),
        value_bytes,
        (order, form),
        context,
        output,
    )
}

/// Reserves memory for the value of a storage command; without memory it answers at once.
///
/// # Errors
/// How the connection continues without the value.
pub(super) fn receive(
    storage: &Storage<'_>,
    value_bytes: usize,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<Upload>, Flow> {
    match storage {
        Storage::Classic(store)
            if elsewhere::refused(store.key, store.noreply, context, output) =>
        {
            Err(Flow::Skip(value_bytes + LINE_END.len()))
        }
        Storage::Classic(store) => {
            let order = Order::classic(store, context);
            let form = AnswerForm::Classic {
                noreply: store.noreply,
            };
            let key = context.key(store.key);
            start(key, value_bytes, (order, form), context, output)
        }
        Storage::Meta { meta, verb } => context.with_key(meta, None, |key| {
            if elsewhere::refused(key.bytes(), false, context, output) {
                return Err(Flow::Skip(value_bytes + LINE_END.len()));
            }
            let order = Order::meta(meta, *verb, context);
            let form = AnswerForm::Meta(meta.to_owned());
            start(key, value_bytes, (order, form), context, output)
        }),
    }
}

fn start(
    key: Key<'_>,
    value_bytes: usize,
    (order, form): (Order, AnswerForm),
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<Upload>, Flow> {
    let max = context.memcached_value_bytes_max();
    let room = if value_bytes > max {
        let bytes = value_bytes;
        Err(Error::TooLarge { bytes, max })
    } else {
        context.cache().reserve(key, value_bytes)
    };
    match room {
        Ok(room) => Ok(Box::new(Upload {
            filling: match form {
                AnswerForm::Packet(_) => Filling::without_line_end(room, value_bytes),
                _ => Filling::of(room, value_bytes),
            },
            key: key.bytes().into(),
            order,
            form,
        })),
        Err(error) => Err(fail(
            key,
            value_bytes,
            (&order, &form),
            &error,
            context,
            output,
        )),
    }
}

/// Answers a store without memory.
fn fail(
    key: Key<'_>,
    value_bytes: usize,
    (order, form): (&Order, &AnswerForm),
    error: &Error,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    order.fail(key, error, context);
    answer_failure(error, form, output);
    Flow::Skip(value_bytes + form.line_end_bytes())
}

fn answer_failure(error: &Error, form: &AnswerForm, output: &mut Output) {
    if let AnswerForm::Packet(head) = form {
        return packets::reply::failed(output.bytes(), *head, packet_failure(error));
    }
    let noreply = matches!(form, AnswerForm::Classic { noreply: true });
    super::answer(answers::failure(error), noreply, output);
}
