//! RESTORE: stores a value from the bytes of DUMP, of this server or of Redis.
//!
//! Checksum, entries and their conversion are processed in steps; a small dump takes one. Nothing
//! is stored before all of it has been validated. A value stored meanwhile counts: without REPLACE
//! it stays.
//!
//! Source: redis.io/docs/latest/commands/restore.

mod builder; // a collection that is being made

use cellar_engine::{
    Deadline, DeleteOptions, Deleted, Draft, Kind, SetOptions, Space, Stored, When,
};
use cellar_net::output::Output;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Proto, Reply};
use cellar_shared::keyspace::kind::STRING;
use cellar_values::dump::{
    self, BadDump, Checksum, DumpEntry, DumpReader, FOOTER_BYTES, Inflating,
};
use cellar_values::dump::{OpenedDump, is_readable};

use self::builder::Builder;
use crate::context::Context;
use crate::resp::append_failure;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, Work};
use crate::resp::call::{Call, Outcome};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::session::preparation::AHEAD_BYTES_MIN;

/// Bytes that one step sums, copies or decompresses.
const STEP_WORK: usize = 1 << 20;
/// The cost of reading an entry, as bytes of work.
const ENTRY_WORK: usize = 512;
/// Highest frequency that FREQ accepts.
const FREQUENCY_MAX: i64 = 255;

const BAD_CHECKSUM: Failure = Failure::text("ERR DUMP payload version or checksum are wrong");
const BUSY_KEY: Failure = Failure::text("BUSYKEY Target key name already exists.");

impl From<BadDump> for Failure {
    fn from(_: BadDump) -> Failure {
        Failure::text("ERR Bad data format")
    }
}

/// The options of RESTORE.
#[derive(Clone, Copy, Debug, Default)]
struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
}

impl RestoreOptions {
    fn parse(args: &[&[u8]]) -> Result<RestoreOptions, Failure> {
        let mut options = RestoreOptions::default();
        let (mut has_idle, mut has_frequency) = (false, false);
        let mut args = args;
        while let [name, rest @ ..] = args {
            args = match (name.to_ascii_uppercase().as_slice(), rest) {
                (b"REPLACE", rest) => {
                    options.replaces = true;
                    rest
                }
                (b"ABSTTL", rest) => {
                    options.is_absolute = true;
                    rest
                }
                (b"IDLETIME", [idle, rest @ ..]) if !has_frequency => {
                    has_idle = true;
                    let bad = "ERR Invalid IDLETIME value, must be >= 0";
                    check_number(idle, i64::MAX, bad)?;
                    rest
                }
                (b"FREQ", [frequency, rest @ ..]) if !has_idle => {
                    has_frequency = true;
                    let bad = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    check_number(frequency, FREQUENCY_MAX, bad)?;
                    rest
                }
                _ => return Err(Failure::Syntax),
            };
        }
        Ok(options)
    }
}

/// Whether a text is a number from zero to another; nothing is done with it.
fn check_number(text: &[u8], most: i64, bad: &'static str) -> Result<(), Failure> {
    let number = parse_integer(text).ok_or(Failure::NotInteger)?;
    let is_within = (0..=most).contains(&number);
    is_within.then_some(()).ok_or(Failure::text(bad))
}

/// RESTORE.
pub(in crate::resp) fn restore(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let options = RestoreOptions::parse(&call.args[4..])?;
    if !options.replaces && call.cache().facts(key, |_| ()).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let unit = if options.is_absolute {
        Unit::PxAt
    } else {
        Unit::Px
    };
    let deadline = match ttl {
        ..0 => return Err(Failure::text("ERR Invalid TTL value, must be >= 0")),
        0 => call.default_deadline(),
        ttl => unit.deadline(ttl, "restore", call.context)?,
    };
    let payload = call.args[3];
    let footer = payload
        .len()
        .checked_sub(FOOTER_BYTES)
        .ok_or(BAD_CHECKSUM)?;
    let version = u16::from_le_bytes([payload[footer], payload[footer + 1]]);
    if !is_readable(version) {
        return Err(BAD_CHECKSUM);
    }
    let work = Restoring {
        key: call.args[1].to_vec(),
        space: call.space(),
        database: call.session.database,
        replaces: options.replaces,
        deadline,
        proto: call.session.proto,
        payload: call.copy_of(3)?,
        kind: STRING,
        stage: Stage::Summing {
            sum: dump::checksum(),
            at: 0,
        },
    };
    call.work_in_steps(work)
}

/// The next stage.
enum Stage {
    Summing {
        sum: Checksum,
        at: usize,
    },
    /// A value is copied, or decompressed, from these bytes of the payload, when its memory is
    /// reserved.
    Copying {
        draft: Draft,
        from: std::ops::Range<usize>,
        inflating: Option<Inflating>,
    },
    Reading {
        reader: DumpReader,
        builder: Builder,
        entry: DumpEntry,
    },
    Building(Builder),
    Over,
}

/// A value on its way into the cache.
struct Restoring {
    key: Vec<u8>,
    space: Space,
    database: u32,
    replaces: bool,
    deadline: Deadline,
    proto: Proto,
    payload: Vec<u8>,
    kind: Kind,
    stage: Stage,
}

impl Restoring {
    /// Works until about one step is done; returns whether more is left.
    fn work(&mut self, context: Context<'_>) -> Result<Progress, Failure> {
        let mut left = STEP_WORK;
        while left > 0 {
            let stage = std::mem::replace(&mut self.stage, Stage::Over);
            self.stage = match stage {
                Stage::Summing { sum, at } => self.sum(sum, at, context, &mut left)?,
                Stage::Copying {
                    draft,
                    from,
                    inflating,
                } => self.copy((draft, from), inflating, context, &mut left)?,
                Stage::Reading {
                    mut reader,
                    mut builder,
                    mut entry,
                } => {
                    if reader.next(&mut entry)? {
                        let bytes = entry.name.len() + entry.value.len();
                        left = left.saturating_sub(bytes + ENTRY_WORK);
                        builder.add(&entry, context)?;
                        Stage::Reading {
                            reader,
                            builder,
                            entry,
                        }
                    } else {
                        Stage::Building(builder)
                    }
                }
                Stage::Building(builder) => self.build(builder, context, &mut left)?,
                Stage::Over => return Ok(Progress::Last),
            };
        }
        Ok(match self.stage {
            Stage::Over => Progress::Last,
            _ => Progress::More,
        })
    }

    /// Adds some bytes to the checksum; after the last the payload is parsed.
    fn sum(
        &mut self,
        mut sum: Checksum,
        at: usize,
        context: Context<'_>,
        left: &mut usize,
    ) -> Result<Stage, Failure> {
        // The checksum is of the version, too.
        let end = self.payload.len() - (FOOTER_BYTES - 2);
        let next = end.min(at + *left);
        sum.update(&self.payload[at..next]);
        *left -= (next - at) / 4;
        if next < end {
            *left = 0;
            return Ok(Stage::Summing { sum, at: next });
        }
        if self.payload[end..] != sum.finalize().to_le_bytes() {
            return Err(BAD_CHECKSUM);
        }
        if self.is_over(context) {
            return self.drop_old(context).map(|()| Stage::Over);
        }
        let cache = context.cache();
        let key = cache.key_in(self.space, &self.key)?;
        Ok(
            match dump::open(&mut self.payload, cache.collection_bytes_max())? {
                OpenedDump::Integer(number) => {
                    self.store(context, number.to_string().as_bytes())?;
                    Stage::Over
                }
                OpenedDump::Text(from, None) if from.len() <= *left => {
                    let text = self.payload[from].to_vec();
                    self.store(context, &text)?;
                    Stage::Over
                }
                OpenedDump::Text(from, packed) => Stage::Copying {
                    draft: cache.reserve(key, packed.unwrap_or(from.len()))?,
                    from,
                    inflating: packed.map(|_| Inflating::default()),
                },
                OpenedDump::Entries(reader) => Stage::Reading {
                    builder: Builder::of(reader.holds, self.deadline, context),
                    reader,
                    entry: DumpEntry::default(),
                },
            },
        )
    }

    /// Reserves more memory for a value, or copies some more bytes of it, and stores it after the
    /// last.
    fn copy(
        &mut self,
        (mut draft, from): (Draft, std::ops::Range<usize>),
        mut inflating: Option<Inflating>,
        context: Context<'_>,
        left: &mut usize,
    ) -> Result<Stage, Failure> {
        let source = &self.payload[from.clone()];
        let is_whole = if !draft.is_reserved() {
            draft.extend_reservation(context.cache())?;
            false
        } else if let Some(inflating) = &mut inflating {
            inflating.step(source, draft.value_mut(), *left)?
        } else {
            let rest = &source[draft.received_bytes()..];
            draft.fill_from(&rest[..rest.len().min(*left)]);
            draft.is_complete()
        };
        *left = 0;
        if !is_whole {
            return Ok(Stage::Copying {
                draft,
                from,
                inflating,
            });
        }
        let key = context.cache().key_in(self.space, &self.key)?;
        let replaced = context.replaced_by_store(key);
        let stored = context.cache().commit(draft, &self.options())?;
        self.note_stored(context, (stored, replaced))?;
        Ok(Stage::Over)
    }

    /// Continues with a collection whose entries are all read, and finally stores it.
    fn build(
        &mut self,
        mut builder: Builder,
        context: Context<'_>,
        left: &mut usize,
    ) -> Result<Stage, Failure> {
        if builder.is_empty() {
            return Err(BadDump.into());
        }
        if !builder.step(left) {
            return Ok(Stage::Building(builder));
        }
        self.kind = builder.kind();
        let (value, deadline) = builder.finish(context)?;
        if value.is_empty() {
            // All its fields have expired.
            return self.drop_old(context).map(|()| Stage::Over);
        }
        self.deadline = deadline;
        if value.len() >= AHEAD_BYTES_MIN {
            let cache = context.cache();
            let key = cache.key_in(self.space, &self.key)?;
            if let Ok(draft) = cache.try_reserve(key, value.len()) {
                *left = 0;
                let from = 0..value.len();
                self.payload = value;
                return Ok(Stage::Copying {
                    draft,
                    from,
                    inflating: None,
                });
            }
        }
        self.store(context, &value)?;
        Ok(Stage::Over)
    }

    fn is_over(&self, context: Context<'_>) -> bool {
        self.deadline.has_passed(context.cache().now())
    }

    /// Removes the key's value, instead of storing an expired one.
    fn drop_old(&self, context: Context<'_>) -> Result<(), Failure> {
        let key = context.cache().key_in(self.space, &self.key)?;
        if self.replaces {
            let deleted = context.cache().delete(key, &DeleteOptions::default())?;
            if deleted == Deleted::Done {
                self.notify(context, "del");
            }
        }
        Ok(())
    }

    fn options(&self) -> SetOptions {
        SetOptions {
            kind: self.kind,
            deadline: self.deadline,
            when: if self.replaces {
                When::Always
            } else {
                When::Absent
            },
            ..SetOptions::default()
        }
    }

    fn store(&self, context: Context<'_>, value: &[u8]) -> Result<(), Failure> {
        let key = context.cache().key_in(self.space, &self.key)?;
        let replaced = context.replaced_by_store(key);
        let stored = context.cache().set(key, value, &self.options())?;
        self.note_stored(context, (stored, replaced))
    }

    fn note_stored(
        &self,
        context: Context<'_>,
        (stored, replaced): (Stored, Option<Kind>),
    ) -> Result<(), Failure> {
        if !matches!(stored, Stored::Done { .. }) {
            return Err(BUSY_KEY);
        }
        self.notify(context, "restore");
        let key = context.cache().key_in(self.space, &self.key)?;
        context.notify_replaced(replaced, self.kind, key);
        Ok(())
    }

    fn notify(&self, context: Context<'_>, event: &'static str) {
        let observer = &context.state().observer;
        observer.notify(Class::Generic, event, &self.key, self.database);
    }
}

impl Work for Restoring {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        match self.work(context) {
            Ok(Progress::More) => return Progress::More,
            Ok(Progress::Last) => Reply::new(output.bytes(), self.proto).ok(),
            Err(failure) => append_failure(&failure, self.proto, context, output),
        }
        Progress::Last
    }
}
