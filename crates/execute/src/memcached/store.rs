//! Stores: set, add, replace, append, prepend, cas and ms, for values received in any way.

use cellar_engine::{Error, Key};
use cellar_net::output::Output;
use cellar_protocol::memcached::{Meta, Store, Verb};

use super::answers::{AnswerForm, answer_classic, answer_meta};
use super::extension::{AddedBytes, Extension};
use super::order::Order;
use crate::context::{Context, Flow};

/// set, add, replace, append, prepend, cas.
#[inline]
pub(super) fn classic(
    request: &Store<'_>,
    key: Key<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let order = Order::classic(request, context);
    let result = order.run_ahead(key, request.value, None, context);
    if let Err(Error::NoRoomYet { bytes }) = result {
        let form = AnswerForm::Classic {
            noreply: request.noreply,
        };
        return Extension::of(key, order, form, AddedBytes::of(request.value))
            .wait(bytes, context, output);
    }
    answer_classic(&result, request.noreply, output);
    Flow::Continue
}

/// ms: its meta part, mode and value.
pub(super) fn meta(
    (meta, verb, value): (&Meta<'_>, Verb, &[u8]),
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let order = Order::meta(meta, verb, context);
    context.with_key(meta, key, |key| {
        let result = order.run_ahead(key, value, None, context);
        if let Err(Error::NoRoomYet { bytes }) = result {
            let form = AnswerForm::Meta(meta.to_owned());
            return Extension::of(key, order, form, AddedBytes::of(value))
                .wait(bytes, context, output);
        }
        answer_meta(&result, meta, (key, verb, value.len()), context, output);
        Flow::Continue
    })
}
