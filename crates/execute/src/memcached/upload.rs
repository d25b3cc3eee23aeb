//! Uploads: storage commands with a large value.
//!
//! [`Intake::receive`] takes the decoded command, and reserves memory for its value;
//! [`Upload::finish`] stores a complete one.

use cellar_engine::{Error, Key};
use cellar_net::output::Output;
use cellar_protocol::memcached::binary::{self as packets, Packet};
use cellar_protocol::memcached::refusal::BAD_DATA;
use cellar_protocol::memcached::{Storage, reply};

use super::answers::{self, AnswerForm, packet_failure};
use super::extension::{AddedBytes, Extension};
use super::order::Order;
use super::{Intake, binary, elsewhere};
use crate::context::{Context, Flow};
use crate::upload::{LineEnd, Upload, ValueSource};

/// A storage command whose value is on its way.
#[derive(Debug)]
pub(super) struct StoreRequest {
    order: Order,
    form: AnswerForm,
}

type StoreUpload = Upload<StoreRequest>;

impl Intake {
    /// Begins to receive the value of a storage command, or takes the next step towards its memory;
    /// without memory it answers.
    #[cold]
    pub(super) fn receive(
        &mut self,
        (storage, value_bytes): (&Storage<'_>, usize),
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let upload = match self.upload.take() {
            Some(upload) => upload.extend(context, output),
            None => {
                if let Some(member) = &mut self.member
                    && member.admit_upload(storage, context, output).is_err()
                {
                    return LineEnd::CRLF.skip(value_bytes);
                }
                begin(storage, value_bytes, context, output)
            }
        };
        self.go_on(upload)
    }

    /// The same of a packet.
    #[cold]
    pub(super) fn receive_packet(
        &mut self,
        (packet, value_bytes): (&Packet<'_>, usize),
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let upload = match self.upload.take() {
            Some(upload) => upload.extend(context, output),
            None => {
                let member = self.member.as_deref_mut();
                match binary::admit_upload(member, packet, context, output) {
                    Ok(_) => begin_packet(packet, value_bytes, context, output),
                    Err(Flow::Continue) => Err(LineEnd::NONE.skip(value_bytes)),
                    Err(flow) => Err(flow),
                }
            }
        };
        self.go_on(upload)
    }

    /// Continues with a value, which may have no memory yet.
    fn go_on(&mut self, upload: Result<Box<StoreUpload>, Flow>) -> Flow {
        match upload {
            Ok(upload) => {
                let flow = upload.flow();
                self.upload = Some(upload);
                flow
            }
            Err(flow) => flow,
        }
    }
}

impl Upload<StoreRequest> {
    /// Takes the next step towards memory; without memory it answers.
    ///
    /// # Errors
    /// How the connection continues without the value.
    fn extend(
        mut self: Box<Self>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Result<Box<Self>, Flow> {
        let Err(error) = self.draft.extend_reservation(context.cache()) else {
            return Ok(self);
        };
        let (key, value_bytes) = (context.key(&self.key), self.draft.value_bytes());
        Err(fail(
            key,
            value_bytes,
            &self.request,
            &error,
            context,
            output,
        ))
    }

    /// Stores a complete value and answers, or lets it wait for more memory.
    pub(super) fn finish(self, context: Context<'_>, output: &mut Output) -> Flow {
        let has_wrong_end = self.has_wrong_end();
        let Upload {
            key,
            draft,
            request: StoreRequest { order, form },
            ..
        } = self;
        let noreply = matches!(form, AnswerForm::Classic { noreply: true });
        if has_wrong_end {
            context.counters.protocol_errors.add(1);
            if !noreply {
                reply::text_line(output.bytes(), BAD_DATA);
            }
            return Flow::Continue;
        }
        // The slot may have moved to another node while the value arrived.
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
        let value_bytes = draft.value_bytes();
        let result = order.run(key, ValueSource::Draft(draft), context);
        form.answer(&result, (key, order.verb, value_bytes), context, output);
        Flow::Continue
    }
}

/// Begins to reserve memory for the value of a storage command.
///
/// # Errors
/// How the connection continues without the value.
fn begin(
    storage: &Storage<'_>,
    value_bytes: usize,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<StoreUpload>, Flow> {
    match storage {
        Storage::Classic(store)
            if elsewhere::refused(store.key, store.noreply, context, output) =>
        {
            Err(LineEnd::CRLF.skip(value_bytes))
        }
        Storage::Classic(store) => {
            let request = StoreRequest {
                order: Order::classic(store, context),
                form: AnswerForm::Classic {
                    noreply: store.noreply,
                },
            };
            reserve(
                context.key(store.key),
                value_bytes,
                request,
                context,
                output,
            )
        }
        Storage::Meta { meta, verb } => context.with_key(meta, None, |key| {
            if elsewhere::refused(key.bytes(), false, context, output) {
                return Err(LineEnd::CRLF.skip(value_bytes));
            }
            let request = StoreRequest {
                order: Order::meta(meta, *verb, context),
                form: AnswerForm::Meta(meta.to_owned()),
            };
            reserve(key, value_bytes, request, context, output)
        }),
    }
}

/// The same for a packet.
///
/// # Errors
/// How the connection continues without the value.
fn begin_packet(
    packet: &Packet<'_>,
    value_bytes: usize,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<StoreUpload>, Flow> {
    if elsewhere::answered_packet(packet, context, output) {
        return Err(LineEnd::NONE.skip(value_bytes));
    }
    let Some(order) = binary::order(packet, context) else {
        return Err(LineEnd::NONE.skip(value_bytes));
    };
    let form = AnswerForm::Packet(packet.head);
    let key = context.key(packet.key);
    reserve(
        key,
        value_bytes,
        StoreRequest { order, form },
        context,
        output,
    )
}

fn reserve(
    key: Key<'_>,
    value_bytes: usize,
    request: StoreRequest,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Box<StoreUpload>, Flow> {
    let max = context.memcached_value_bytes_max();
    let draft = if value_bytes > max {
        let bytes = value_bytes;
        Err(Error::TooLarge { bytes, max })
    } else {
        context.cache().reserve(key, value_bytes)
    };
    match draft {
        Ok(draft) => {
            let line_end = request.form.line_end();
            Ok(Upload::new(key.bytes(), draft, line_end, request))
        }
        Err(error) => Err(fail(key, value_bytes, &request, &error, context, output)),
    }
}

/// Answers a store without memory.
fn fail(
    key: Key<'_>,
    value_bytes: usize,
    StoreRequest { order, form }: &StoreRequest,
    error: &Error,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    order.fail(key, error, context);
    answer_failure(error, form, output);
    form.line_end().skip(value_bytes)
}

fn answer_failure(error: &Error, form: &AnswerForm, output: &mut Output) {
    if let AnswerForm::Packet(head) = form {
        return packets::reply::failed(output.bytes(), *head, packet_failure(error));
    }
    let noreply = matches!(form, AnswerForm::Classic { noreply: true });
    super::answer(answers::failure(error), noreply, output);
}
