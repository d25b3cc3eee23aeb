//! Fields: what commands on hashes have in common.

use cellar_engine::Handle;
use cellar_protocol::resp::Reply;
use cellar_shared::keyspace::kind;

use crate::resp::call::Call;
use crate::resp::call::notify::Class;
use crate::resp::failure::Failure;
use cellar_values::hash::Field;

/// The hash of the first key.
pub(in crate::resp) fn first_hash(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    call.value(call.first_key()?, kind::HASH)
}

/// Answers a field's value, or null.
pub(in crate::resp) fn append_field(reply: &mut Reply<'_>, field: Option<Field<'_>>) {
    match field {
        Some(field) => reply.bulk(field.value),
        None => reply.null(),
    }
}

/// Tells that fields were removed, if some were, and perhaps the key.
pub(in crate::resp) fn notify_removed<'f>(
    call: &mut Call<'_>,
    fields: impl Iterator<Item = &'f [u8]>,
    is_gone: bool,
) {
    let mut fields = fields.peekable();
    if fields.peek().is_some() {
        call.notify_fields("hdel", fields);
    }
    if is_gone {
        call.notify(Class::Generic, "del", call.args[1]);
    }
}
