//! Bit operations: BITOP, which makes one string of several.
//!
//! The sources are taken in one step as they are then. A long result is computed in steps, in the
//! engine's memory; it replaces a value stored meanwhile.
//!
//! Source: redis.io/docs/latest/commands/bitop.

use cellar_engine::{DeleteOptions, Deleted, Draft, Error, Handle, Key, Kind, SetOptions};
use cellar_protocol::resp::Reply;

use crate::context::Context;
use crate::resp::append_failure;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::Progress;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::ranges::length;
use crate::resp::strings::values::{as_string, count_read};

/// Bytes of all sources together that one step processes.
const STEP_BYTES: usize = 2 << 20;
/// Bytes of the result that are computed at a time: together with those of the sources they fit
/// into the processor's L1 cache.
const BLOCK_BYTES: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logic {
    And,
    Or,
    Xor,
    Not,
    /// In the first and in no other.
    Diff,
    /// In some other and not in the first.
    Diff1,
    /// In the first and in some other.
    Andor,
    /// In exactly one.
    One,
}

impl Logic {
    fn parse(name: &[u8], sources: usize) -> Result<Logic, Failure> {
        let operation = match name.to_ascii_uppercase().as_slice() {
            b"AND" => Logic::And,
            b"OR" => Logic::Or,
            b"XOR" => Logic::Xor,
            b"NOT" if sources != 1 => {
                return Err(Failure::text(
                    "ERR BITOP NOT must be called with a single source key.",
                ));
            }
            b"NOT" => Logic::Not,
            b"ONE" => Logic::One,
            name @ (b"DIFF" | b"DIFF1" | b"ANDOR") if sources < 2 => {
                let name = String::from_utf8_lossy(name);
                let text =
                    format!("ERR BITOP {name} must be called with at least two source keys.");
                return Err(Failure::Text(text.into()));
            }
            b"DIFF" => Logic::Diff,
            b"DIFF1" => Logic::Diff1,
            b"ANDOR" => Logic::Andor,
            _ => return Err(Failure::Syntax),
        };
        Ok(operation)
    }

    /// Writes the bytes from `at` on; what a source lacks is zero.
    fn combine(self, sources: &[&[u8]], at: usize, out: &mut [u8]) {
        let scratch_bytes = match self.needs_scratch() {
            true => out.len().min(BLOCK_BYTES),
            false => 0,
        };
        let mut scratch = vec![0; scratch_bytes];
        let blocks = out.chunks_mut(BLOCK_BYTES).zip((at..).step_by(BLOCK_BYTES));
        for (number, (block, at)) in blocks.enumerate() {
            let scratch = &mut scratch[..block.len().min(scratch_bytes)];
            if number > 0 {
                scratch.fill(0);
            }
            self.combine_block(sources, at, block, scratch);
        }
    }

    fn needs_scratch(self) -> bool {
        !matches!(self, Logic::And | Logic::Or | Logic::Xor | Logic::Not)
    }

    /// The same of few bytes. `scratch`, if it is needed, is as long as `out` and zero, and is left
    /// with anything.
    fn combine_block(self, sources: &[&[u8]], at: usize, out: &mut [u8], scratch: &mut [u8]) {
        let bytes = out.len();
        let part = |source: &[u8]| {
            let start = at.min(source.len());
            (start, source.len().min(at + bytes))
        };
        for (place, source) in sources.iter().enumerate() {
            let (start, end) = part(source);
            let source = &source[start..end];
            match self {
                _ if place == 0 => {
                    let (copied, rest) = out.split_at_mut(source.len());
                    copied.copy_from_slice(source);
                    rest.fill(0);
                }
                Logic::And => {
                    let (both, rest) = out.split_at_mut(source.len());
                    zip(both, source, |one, other| one & other);
                    rest.fill(0);
                }
                Logic::Or => zip(out, source, |one, other| one | other),
                Logic::Xor => zip(out, source, |one, other| one ^ other),
                Logic::One => {
                    // The scratch buffer has what was seen twice.
                    let pairs = out.iter_mut().zip(&mut *scratch).zip(source);
                    pairs.for_each(|((one, twice), other)| {
                        *twice |= *one & other;
                        *one |= other;
                    });
                }
                // The scratch buffer has what is in any other.
                _ => zip(scratch, source, |one, other| one | other),
            }
        }
        match self {
            Logic::And | Logic::Or | Logic::Xor => {}
            Logic::Not => out.iter_mut().for_each(|byte| *byte = !*byte),
            Logic::Diff | Logic::One => zip(out, scratch, |one, other| one & !other),
            Logic::Diff1 => zip(out, scratch, |one, other| !one & other),
            Logic::Andor => zip(out, scratch, |one, other| one & other),
        }
    }
}

fn zip(out: &mut [u8], other: &[u8], join: impl Fn(u8, u8) -> u8) {
    let pairs = out.iter_mut().zip(other);
    pairs.for_each(|(one, other)| *one = join(*one, *other));
}

/// A result that is being made.
struct Making {
    operation: Logic,
    sources: Vec<Option<Handle>>,
    bytes: usize,
}

impl Making {
    /// Takes the sources.
    fn of(call: &Call<'_>, operation: Logic) -> Result<Making, Failure> {
        let mut sources = Vec::with_capacity(call.args.len() - 3);
        for index in 3..call.args.len() {
            let key = call.key_at(index)?;
            let found = (call.cache()).get(key, |item| as_string(Some(item)).map(|_| item.pin()));
            count_read(call, found.is_some());
            sources.push(found.transpose()?);
        }
        let lengths = sources.iter().flatten().map(|source| source.len());
        Ok(Making {
            operation,
            bytes: lengths.max().unwrap_or(0),
            sources,
        })
    }

    /// Makes some bytes more of the result; whether these were the last.
    fn step(&self, result: &mut Draft) -> Progress {
        let views = self.sources.iter();
        let views: Vec<&[u8]> = views
            .map(|source| source.as_deref().unwrap_or(&[]))
            .collect();
        let most = (STEP_BYTES / views.len()).max(1);
        let done = result.received_bytes();
        let bytes = most.min(self.bytes - done);
        let part = &mut result.buffer()[..bytes];
        self.operation.combine(&views, done, part);
        result.advance(bytes);
        if result.is_complete() {
            Progress::Last
        } else {
            Progress::More
        }
    }

    /// Reserves more memory for the result, or computes some bytes more of it, and stores it behind
    /// the last; returns the rest of the work, if any.
    fn go_on(
        &self,
        key: Key<'_>,
        mut draft: Draft,
        options: &SetOptions,
        context: Context<'_>,
    ) -> Result<Option<Draft>, Error> {
        if !draft.is_reserved() {
            draft.extend_reservation(context.cache())?;
            return Ok(Some(draft));
        }
        if self.step(&mut draft) == Progress::More {
            return Ok(Some(draft));
        }
        let replaced = context.replaced_by_store(key);
        context.cache().commit(draft, options)?;
        context.notify_replaced(replaced, Kind::STRING, key);
        Ok(None)
    }
}

pub(in crate::resp) fn bitop(call: &mut Call<'_>) -> Outcome {
    let operation = Logic::parse(call.args[1], call.args.len() - 3)?;
    let options = SetOptions {
        deadline: call.default_deadline(),
        ..SetOptions::default()
    };
    let begun = call.as_step(|call| {
        let making = Making::of(call, operation)?;
        let key = call.key_at(2)?;
        if making.bytes == 0 {
            let deleted = call.cache().delete(key, &DeleteOptions::default())?;
            if deleted == Deleted::Done {
                call.notify(Class::Generic, "del", key.bytes());
            }
            call.reply().integer(0);
            return Ok(None);
        }
        let draft = call.cache().reserve(key, making.bytes)?;
        if !draft.is_reserved() {
            return Ok(Some((making, draft)));
        }
        if let Some(draft) = making.go_on(key, draft, &options, call.context)? {
            return Ok(Some((making, draft)));
        }
        call.notify(Class::String, "set", key.bytes());
        call.reply().integer(length(making.bytes));
        Ok::<_, Failure>(None)
    })?;
    let Some((making, draft)) = begun else {
        return DONE;
    };
    let (space, key) = (call.space(), call.args[2].to_vec());
    let (proto, mut draft) = (call.session.proto, Some(draft));
    call.in_steps(move |context, output| {
        let hashed = context.cache().key_in(space, &key);
        let result = draft.take().map(|draft| {
            let key = hashed?;
            making.go_on(key, draft, &options, context)
        });
        match result {
            Some(Ok(Some(more))) => {
                draft = Some(more);
                return Progress::More;
            }
            Some(Err(error)) => append_failure(&error.into(), proto, context, output),
            _ => {
                if let Ok(key) = context.cache().key_in(space, &key) {
                    context.notify(Class::String, "set", key);
                }
                Reply::new(output.bytes(), proto).integer(length(making.bytes));
            }
        }
        Progress::Last
    })
}

#[cfg(test)]
mod tests {
    use super::Logic;

    #[test]
    fn each_operation_is_done_bit_by_bit_whatever_the_lengths() {
        let sources: [&[u8]; 3] = [&[0b0000_1111, 0xff, 3], &[0b0011_0011], &[0b0101_0101, 1]];
        for (name, expected) in [
            ("and", [0b0000_0001, 0, 0]),
            ("or", [0b0111_1111, 0xff, 3]),
            ("xor", [0b0110_1001, 0xfe, 3]),
            ("diff", [0b0000_1000, 0xfe, 3]),
            ("diff1", [0b0111_0000, 0, 0]),
            ("andor", [0b0000_0111, 1, 0]),
            ("one", [0b0110_1000, 0xfe, 3]),
        ] {
            let operation = Logic::parse(name.as_bytes(), 3).unwrap();
            let mut out = [9; 3];
            operation.combine(&sources, 0, &mut out);
            assert_eq!(out, expected, "{name}");
            for (at, wanted) in expected.into_iter().enumerate() {
                let mut byte = [9];
                operation.combine(&sources, at, &mut byte);
                assert_eq!(byte[0], wanted, "{name} at {at}");
            }
        }
        let mut out = [9; 2];
        Logic::Not.combine(&[&[1, 0xf0]], 0, &mut out);
        assert_eq!(out, [0xfe, 0x0f]);
    }

    #[test]
    fn long_strings_are_combined_as_single_bytes_are() {
        let bytes = |seed: usize, length: usize| -> Vec<u8> {
            (0..length).map(|at| ((at * seed) >> 3) as u8).collect()
        };
        let sources = [bytes(7, 20_001), bytes(13, 4_096), bytes(29, 9_000)];
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        for name in ["and", "or", "xor", "diff", "diff1", "andor", "one"] {
            let operation = Logic::parse(name.as_bytes(), 3).unwrap();
            let mut out = vec![9; 20_001];
            operation.combine(&sources, 0, &mut out);
            for (at, made) in out.into_iter().enumerate() {
                let mut byte = [9];
                operation.combine(&sources, at, &mut byte);
                assert_eq!(made, byte[0], "{name} at {at}");
            }
        }
    }
}
