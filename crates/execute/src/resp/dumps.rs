//! Dumps: DUMP writes a value as bytes that RESTORE takes, here or in a Redis.
//!
//! A string is sent from the cache's memory; a collection is written some entries a step, and then
//! sent in pieces. The value is that of the first step.
//!
//! Source: redis.io/docs/latest/commands/dump. RESTORE: restore.rs.

pub(super) mod restore;

use cellar_engine::{Handle, Instant};
use cellar_net::output::Output;
use cellar_protocol::resp::{Proto, Reply};

use super::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use super::call::{Call, DONE, Outcome};
use crate::context::Context;
use cellar_values::dump::{self, Checksum, DumpWriter, Holds};
use cellar_values::{HASH, Hash, LIST, List, SET, SORTED_SET, Set, SortedSet};

/// Bytes of a string whose checksum one step makes.
const SUMMED_BYTES: usize = 4 << 20;
/// Bytes of entries that one step writes.
const WRITTEN_BYTES: usize = 256 << 10;

/// DUMP.
pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let (now, proto) = (call.now(), call.session.proto);
    let value = call.cache().get(key, |item| item.pin());
    let value = value.filter(|value| match value.kind() {
        HASH => !Hash::view(value, now).is_empty(),
        SET => !Set::view(value, now).is_empty(),
        _ => true,
    });
    let Some(value) = value else {
        call.reply().null();
        return DONE;
    };
    let holds = match value.kind() {
        LIST => Holds::List,
        SET => Holds::Set,
        SORTED_SET => Holds::SortedSet,
        HASH => Holds::Hash,
        _ => {
            let sum = dump::checksum();
            return call.work_in_steps(OfString::of(value, sum, proto));
        }
    };
    let work = OfCollection::of(call, value, holds);
    call.work_in_steps(work)
}

/// The dump of a string that is being made.
struct OfString {
    value: Option<Handle>,
    head: Vec<u8>,
    sum: Checksum,
    summed: usize,
    proto: Proto,
}

impl OfString {
    fn of(value: Handle, mut sum: Checksum, proto: Proto) -> OfString {
        let head = dump::head_of_string(value.len());
        sum.update(&head);
        OfString {
            value: Some(value),
            head,
            sum,
            summed: 0,
            proto,
        }
    }
}

impl Work for OfString {
    fn step(&mut self, _context: Context<'_>, output: &mut Output) -> Progress {
        let Some(value) = self.value.take() else {
            return Progress::Last;
        };
        let end = value.len().min(self.summed + SUMMED_BYTES);
        self.sum.update(&value[self.summed..end]);
        self.summed = end;
        if end < value.len() {
            self.value = Some(value);
            return Progress::More;
        }
        let footer = dump::footer(self.sum.clone(), dump::VERSION);
        let mut reply = Reply::new(output.bytes(), self.proto);
        reply.bulk_head(self.head.len() + value.len() + footer.len());
        reply.out.extend_from_slice(&self.head);
        output.push_value(value);
        output.bytes().extend_from_slice(&footer);
        output.bytes().extend_from_slice(b"\r\n");
        Progress::Last
    }
}

/// The dump of a collection that is being made, and then sent.
struct OfCollection {
    value: Handle,
    writer: Option<DumpWriter>,
    now: Instant,
    /// Where the entries begin that are not written.
    at: usize,
    proto: Proto,
    made: Vec<u8>,
    sent: usize,
}

impl OfCollection {
    fn of(call: &Call<'_>, value: Handle, holds: Holds) -> OfCollection {
        let now = call.now();
        let (mut count, mut first_ms) = (0, None);
        match holds {
            Holds::List => count = List::view(&value).len(),
            Holds::Set => count = Set::view(&value, now).len(),
            Holds::SortedSet => count = SortedSet::view(&value).len(),
            Holds::Hash => {
                let hash = Hash::view(&value, now);
                count += hash.len();
                first_ms = hash.next_deadline().instant().map(|at| call.unix_ms(at));
            }
        }
        OfCollection {
            writer: Some(DumpWriter::of(holds, count, first_ms)),
            at: match holds {
                Holds::List => List::view(&value).place(0),
                _ => 0,
            },
            value,
            now,
            proto: call.session.proto,
            made: Vec::new(),
            sent: 0,
        }
    }

    /// Writes some entries more; whether these were the last.
    fn write(&mut self, writer: &mut DumpWriter, context: Context<'_>) -> Progress {
        // In a step, so that it counts.
        writer.reserve(self.value.len());
        let full = writer.held_bytes() + WRITTEN_BYTES;
        for _ in 0..STEP_ITEMS {
            if writer.held_bytes() >= full {
                break;
            }
            let next = match self.value.kind() {
                LIST => {
                    let list = List::view(&self.value);
                    list.element(self.at).map(|(element, next)| {
                        writer.push(&element, &[], 0.0, 0);
                        next
                    })
                }
                SET => Set::view(&self.value, self.now)
                    .iter_from(self.at)
                    .next()
                    .map(|(member, next)| {
                        writer.push(&member, &[], 0.0, 0);
                        next
                    }),
                SORTED_SET => {
                    let set = SortedSet::view(&self.value);
                    // The highest first, as Redis does: so it is read in order.
                    set.len().checked_sub(self.at + 1).map(|rank| {
                        let (member, score) = set.at(rank);
                        writer.push(&member, &[], score, 0);
                        self.at + 1
                    })
                }
                _ => {
                    let hash = Hash::view(&self.value, self.now);
                    hash.iter_from(self.at).next().map(|(field, next)| {
                        let at = field.deadline.instant();
                        let expires_ms = at.map_or(0, |at| context.state().wall.unix_ms(at));
                        writer.push(&field.name, &field.value, 0.0, expires_ms);
                        next
                    })
                }
            };
            let Some(next) = next else {
                return Progress::Last;
            };
            self.at = next;
        }
        writer.sum();
        Progress::More
    }
}

impl Work for OfCollection {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        let mut reply = Reply::new(output.bytes(), self.proto);
        if let Some(mut writer) = self.writer.take() {
            if self.write(&mut writer, context) == Progress::More {
                self.writer = Some(writer);
                return Progress::More;
            }
            self.made = writer.finish();
            reply.bulk_head(self.made.len());
        }
        let end = self.made.len().min(self.sent + STEP_BYTES);
        reply.out.extend_from_slice(&self.made[self.sent..end]);
        self.sent = end;
        if end < self.made.len() {
            return Progress::More;
        }
        reply.crlf();
        Progress::Last
    }
}
