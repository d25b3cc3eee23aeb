//! HyperLogLog: PFADD, PFCOUNT and PFMERGE, on strings that count different elements.
//!
//! A command on several HyperLogLogs takes all of them in one step, and merges very many of them in
//! further steps. The result of PFMERGE's later steps is merged into the current value of its key.
//!
//! Source: redis.io/docs/latest/commands, group "hyperloglog".

use cellar_engine::{Change, Handle, Item, Key, Splice};
use cellar_protocol::resp::Reply;
use cellar_values::hyperloglog::{self, Flaw, HyperLogLog, REGISTERS};

use crate::resp::append_failure;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::Progress;
use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::{as_string, count_read, store_keeping, update, write_parts};
use crate::resp::strings::windows::Windows;

/// HyperLogLogs that one step merges.
const MERGED_MAX: usize = 128;
/// Elements with more bytes are hashed over several iterations.
const HASHED_BYTES_MAX: usize = 8 << 20;
/// With more elements a register is raised once, to the highest of its values.
const RAISED_MAX: usize = 512;

impl From<Flaw> for Failure {
    fn from(flaw: Flaw) -> Failure {
        Failure::text(match flaw {
            Flaw::NotHyperLogLog => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Flaw::Corrupted => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// The string of an item, which must begin with the header of a HyperLogLog.
fn as_hll(old: Option<Item<'_>>) -> Result<Option<Item<'_>>, Failure> {
    let old = as_string(old)?;
    if let Some(item) = old {
        hyperloglog::check_head(item.value)?;
    }
    Ok(old)
}

/// The registers that elements raise, in the order of the elements; long ones are hashed over
/// several iterations.
///
/// # Errors
/// [`Failure::NoRoomYet`] if the command has to run again.
fn rows(call: &Call<'_>) -> Result<Vec<(usize, u8)>, Failure> {
    let (elements, preparation) = (&call.args[2..], &call.session.preparation);
    let rows = match preparation.take_rows() {
        Some(rows) => rows,
        None => {
            let bytes: usize = elements.iter().map(|element| element.len()).sum();
            if bytes > HASHED_BYTES_MAX && call.session.may_ask_ahead() {
                preparation.ask_rows(2);
                return Err(Failure::NoRoomYet);
            }
            elements
                .iter()
                .map(|one| hyperloglog::row_of(one))
                .collect()
        }
    };
    Ok(highest_of(rows))
}

/// Reduces very many rows to the highest of each register, in their order.
fn highest_of(mut rows: Vec<(usize, u8)>) -> Vec<(usize, u8)> {
    if rows.len() > RAISED_MAX {
        let mut highest = vec![0; REGISTERS];
        for &(index, value) in &rows {
            highest[index] = highest[index].max(value);
        }
        rows.retain(|&(index, value)| {
            let is_highest = highest[index] == value;
            if is_highest {
                // The next one with the same value changes nothing.
                highest[index] = 0;
            }
            is_highest
        });
    }
    rows
}

/// Raises registers of a dense HyperLogLog where they lie; whether any was lower.
fn raise_dense(
    call: &Call<'_>,
    value: &[u8],
    rows: impl Iterator<Item = (usize, u8)>,
    scratch: &mut Vec<u8>,
) -> (bool, Change) {
    let is_lower = |&(index, row): &(usize, u8)| hyperloglog::dense_register(value, index) < row;
    let raised: Vec<_> = rows.filter(is_lower).collect();
    if raised.is_empty() {
        return (false, Change::Keep);
    }
    let bytes = raised
        .iter()
        .map(|&(index, _)| hyperloglog::register_bytes(index));
    let windows = Windows::of(bytes.chain([hyperloglog::STALE_BYTE]), value, scratch);
    for &(index, row) in &raised {
        let place = windows.place(hyperloglog::register_bytes(index));
        hyperloglog::raise_register(&mut scratch[place], index, row);
    }
    hyperloglog::make_stale(&mut scratch[windows.place(hyperloglog::STALE_BYTE)]);
    (true, write_parts(call, windows.parts(value.len()), 0))
}

pub(in crate::resp) fn pfadd(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let rows = rows(call)?;
    let is_changed = update(call, key, |old, scratch| {
        let old = as_hll(old)?;
        if rows.is_empty() && old.is_some() {
            return Ok((false, Change::Keep));
        }
        let mut hll = match old {
            Some(item) if hyperloglog::is_dense(item.value) => {
                return Ok(raise_dense(call, item.value, rows.iter().copied(), scratch));
            }
            Some(item) => HyperLogLog::of(item.value)?,
            None => HyperLogLog::empty(),
        };
        let mut is_changed = old.is_none();
        for &(index, value) in &rows {
            is_changed |= hll.raise(index, value)?;
        }
        if !is_changed {
            return Ok((false, Change::Keep));
        }
        *scratch = hll.stale();
        Ok((true, store_keeping(call, old)))
    })?;
    if is_changed {
        call.notify(Class::String, "pfadd", key.bytes());
    }
    call.integer(i64::from(is_changed))
}

pub(in crate::resp) fn pfcount(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 2 {
        return count_many(call);
    }
    let count = update(call, call.first_key()?, |old, scratch| {
        let Some(item) = as_hll(old)? else {
            return Ok((None, Change::Keep));
        };
        if let Some(count) = hyperloglog::told(item.value) {
            return Ok((Some(count), Change::Keep));
        }
        let count = hyperloglog::count(item.value)?;
        let (bytes, at) = hyperloglog::telling(count);
        scratch.extend_from_slice(&bytes);
        let splice = Splice {
            at,
            from: 0,
            len: bytes.len(),
        };
        Ok((Some(count), Change::splice(vec![splice])))
    })?;
    count_read(call, count.is_some());
    call.integer(count.unwrap_or(0) as i64)
}

/// HyperLogLog that are being merged.
struct Merging {
    sources: Vec<Handle>,
    merged: usize,
    /// The merged registers: a dense HyperLogLog.
    dense: Vec<u8>,
    /// Whether one of the sources is dense, so that the result is, too.
    is_dense: bool,
}

impl Merging {
    /// Takes the HyperLogLogs of these arguments.
    fn of(call: &Call<'_>, first: usize) -> Result<Merging, Failure> {
        let mut sources = Vec::new();
        for index in first..call.args.len() {
            let key = call.key_at(index)?;
            let found = call.cache().get(key, |item| {
                let item = as_hll(Some(item))?;
                Ok::<_, Failure>(item.map(|item| item.pin()))
            });
            count_read(call, found.is_some());
            sources.extend(found.transpose()?.flatten());
        }
        let first = sources.first().filter(|first| hyperloglog::is_dense(first));
        let dense = first.map(|first| hyperloglog::uncounted(first));
        Ok(Merging {
            is_dense: sources.iter().any(|source| hyperloglog::is_dense(source)),
            sources,
            merged: dense.is_some().into(),
            dense: dense.unwrap_or_else(hyperloglog::no_elements),
        })
    }

    /// Merges some more.
    fn step(&mut self) -> Result<Progress, Failure> {
        let end = self.sources.len().min(self.merged + MERGED_MAX);
        for source in &self.sources[self.merged..end] {
            hyperloglog::merge(source, &mut self.dense)?;
        }
        self.merged = end;
        Ok(if end < self.sources.len() {
            Progress::More
        } else {
            Progress::Last
        })
    }
}

/// PFCOUNT of several keys: how many different elements they were given together.
fn count_many(call: &mut Call<'_>) -> Outcome {
    let mut merging = call.as_step(|call| Merging::of(call, 1))?;
    let proto = call.session.proto;
    call.in_steps(move |context, output| {
        match merging.step() {
            Ok(Progress::More) => return Progress::More,
            Ok(Progress::Last) => match hyperloglog::count(&merging.dense) {
                Ok(count) => Reply::new(output.bytes(), proto).integer(count as i64),
                Err(flaw) => append_failure(&flaw.into(), proto, context, output),
            },
            Err(failure) => append_failure(&failure, proto, context, output),
        }
        Progress::Last
    })
}

/// Raises the registers of a key's HyperLogLog to the merged ones. `is_merged`: its own registers
/// are among them.
fn store(call: &Call<'_>, key: Key<'_>, merging: &Merging, is_merged: bool) -> Result<(), Failure> {
    update(call, key, |old, scratch| {
        let old = as_hll(old)?;
        if merging.is_dense || old.is_some_and(|item| hyperloglog::is_dense(item.value)) {
            scratch.extend_from_slice(&merging.dense);
            if let Some(item) = old {
                hyperloglog::copy_count(item.value, scratch);
                if !is_merged {
                    hyperloglog::merge(item.value, scratch)?;
                }
            }
            return Ok(((), store_keeping(call, old)));
        }
        let mut hll = match old {
            Some(item) => HyperLogLog::of(item.value)?,
            None => HyperLogLog::empty(),
        };
        hll.raise_all(&merging.dense)?;
        *scratch = hll.stale();
        Ok(((), store_keeping(call, old)))
    })
}

pub(in crate::resp) fn pfmerge(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let begun = call.as_step(|call| {
        let mut merging = Merging::of(call, 1)?;
        if merging.step()? == Progress::More {
            return Ok(Some(merging));
        }
        // The key's value is one of them, and is overwritten in place if no reader holds it.
        merging.sources.clear();
        store(call, key, &merging, true)?;
        Ok::<_, Failure>(None)
    })?;
    let Some(mut merging) = begun else {
        call.notify(Class::String, "pfadd", key.bytes());
        return call.ok();
    };
    let mut session = call.session.for_script(call.context.state);
    session.set_proto(call.session.proto);
    let (command, key) = (call.command, call.args[1].to_vec());
    call.in_steps(move |context, output| {
        let proto = session.proto;
        let stored = match merging.step() {
            Ok(Progress::More) => return Progress::More,
            Ok(Progress::Last) => {
                let mut call = Call {
                    command,
                    args: &[b"", &key],
                    key: None,
                    session: &mut session,
                    context,
                    output,
                };
                finish(&mut call, &merging)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = stored {
            append_failure(&failure, proto, context, output);
        }
        Progress::Last
    })
}

/// Stores what later steps have merged, and answers.
fn finish(call: &mut Call<'_>, merging: &Merging) -> Result<(), Failure> {
    let key = call.key_at(1)?;
    store(call, key, merging, false)?;
    call.notify(Class::String, "pfadd", key.bytes());
    call.reply().ok();
    Ok(())
}
