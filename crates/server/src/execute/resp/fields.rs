//! Fields: what commands on hashes have in common.

use cellar_engine::Handle;
use cellar_protocol::resp::Reply;

use super::call::Call;
use super::failure::Failure;
use super::notify::Class;
use crate::collection::hash::Field;
use crate::kind;

/// The hash of the first key.
pub(super) fn first_hash(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    call.value(call.first_key()?, kind::HASH)
}

/// Answers a field's value, or null.
pub(super) fn append_field(reply: &mut Reply<'_>, field: Option<Field<'_>>) {
    match field {
        Some(field) => reply.bulk(field.value),
        None => reply.null(),
    }
}

/// Tells that fields were removed, and perhaps the key.
pub(super) fn tell_removed(call: &mut Call<'_>, is_less: bool, is_gone: bool) {
    if is_less {
        call.notify(Class::Hash, "hdel", call.args[1]);
    }
    if is_gone {
        call.notify(Class::Generic, "del", call.args[1]);
    }
}
