//! Packed: long lists of short texts on their way into a state.
//!
//! For each string that is made from outside a protected call is set up, which takes several times
//! as long as the string. So many short ones are handed over as one, with their lengths, and cut
//! apart in Lua, under the hook that looks at the clock.

use mlua::{Function, Lua, Result, Table};

use crate::script::limit::Limit;

/// Lists from this length on are worth it.
pub(super) const VALUES_MIN: usize = 32;
/// Texts up to this length go together: a length is written in two bytes.
const SHORT_BYTES_MAX: usize = 1 << 10;
/// Bytes that go together, so that there are not many of them twice.
const PACKED_BYTES_MAX: usize = 32 << 10;

/// A list of texts; `spread` is the prelude's.
pub(super) fn list(lua: &Lua, limit: &Limit, spread: &Function, values: &[&[u8]]) -> Result<Table> {
    let list = lua.create_table_with_capacity(values.len(), 0)?;
    let (mut text, mut lengths, mut first) = (Vec::new(), Vec::new(), 1);
    let put = |text: &mut Vec<u8>, lengths: &mut Vec<u8>, first: usize| {
        let packed = (lua.create_string(&*lengths)?, lua.create_string(&*text)?);
        text.clear();
        lengths.clear();
        spread.call::<()>((&list, first, packed.0, packed.1))
    };
    for (place, value) in (1..).zip(values) {
        limit.tick()?;
        let is_short = value.len() <= SHORT_BYTES_MAX;
        if !lengths.is_empty() && (!is_short || text.len() + value.len() > PACKED_BYTES_MAX) {
            put(&mut text, &mut lengths, first)?;
        }
        if !is_short {
            list.raw_set(place, lua.create_string(value)?)?;
            continue;
        }
        if lengths.is_empty() {
            first = place;
        }
        text.extend_from_slice(value);
        lengths.extend_from_slice(&(value.len() as u16).to_be_bytes());
    }
    if !lengths.is_empty() {
        put(&mut text, &mut lengths, first)?;
    }
    limit.check()?;
    Ok(list)
}
