//! Sparse: registers as runs of equal values.
//!
//! | byte | run |
//! |---|---|
//! | `00nnnnnn` | n + 1 registers of zero |
//! | `01nnnnnn nnnnnnnn` | the same, for longer ones |
//! | `1vvvvvnn` | n + 1 registers of v + 1 |
//!
//! A change replaces one run by new ones, and joins equal neighbours in the order in which Redis
//! does, so that both have the same bytes.

use smallvec::SmallVec;

use super::{Flaw, REGISTERS};

/// Longest runs of zeros in one byte, and of others.
const SHORT_ZEROS_MAX: usize = 64;
const VALUES_MAX: usize = 4;
/// Highest value that a run can have.
const VALUE_MAX: u8 = 32;
/// Runs from the one before a change on that are looked at, to be joined.
const JOINED_MAX: usize = 5;
/// Bytes of the runs that take the place of one.
const MADE_BYTES_MAX: usize = 5;

/// Registers with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) value: u8,
    pub(super) length: usize,
}

impl Stretch {
    /// The run at the beginning of some bytes, and how many it takes.
    fn read(bytes: &[u8]) -> Option<(Stretch, usize)> {
        let &first = bytes.first()?;
        let zeros = |length| Stretch { value: 0, length };
        Some(match first >> 6 {
            0 => (zeros(usize::from(first) + 1), 1),
            1 => {
                let high = usize::from(first & 0x3f) << 8;
                (zeros((high | usize::from(*bytes.get(1)?)) + 1), 2)
            }
            _ => {
                let run = Stretch {
                    value: (first >> 2 & 0x1f) + 1,
                    length: usize::from(first & 3) + 1,
                };
                (run, 1)
            }
        })
    }
}

/// Appends a run; a length of zero is none.
pub(super) fn push(out: &mut impl Extend<u8>, run: Stretch) {
    // Lengths are at most those of all registers, which 14 bits hold.
    match run {
        Stretch { length: 0, .. } => {}
        Stretch { value: 0, length } if length <= SHORT_ZEROS_MAX => {
            out.extend([length as u8 - 1]);
        }
        Stretch { value: 0, length } => {
            let number = length - 1;
            out.extend([(number >> 8) as u8 | 0x40, number as u8]);
        }
        Stretch { value, length } => out.extend([0x80 | (value - 1) << 2 | (length as u8 - 1)]),
    }
}

/// Shows the runs of a HyperLogLog, at most as many as there are registers.
///
/// # Errors
/// At the end if they are not as long as all registers, or if more bytes follow.
#[inline]
pub(super) fn each_run(bytes: &[u8], mut show: impl FnMut(Stretch)) -> Result<(), Flaw> {
    let (mut rest, mut left) = (bytes, REGISTERS);
    while let Some((run, taken)) = Stretch::read(rest) {
        left = left.checked_sub(run.length).ok_or(Flaw::Corrupted)?;
        rest = &rest[taken..];
        show(run);
    }
    let is_whole = left == 0 && rest.is_empty();
    is_whole.then_some(()).ok_or(Flaw::Corrupted)
}

/// Where the run is that has a register.
struct Spot {
    /// Where the run begins, and the one before it.
    at: usize,
    before: usize,
    /// Its first register.
    first: usize,
    /// A start for a register behind this one.
    next: Start,
}

/// Where to begin to look for a register: a run, and its first register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    at: usize,
    first: usize,
}

impl Start {
    /// The first of all runs, which begin here.
    pub(super) fn of_all(at: usize) -> Start {
        Start { at, first: 0 }
    }
}

/// The spot of a register in the runs from `start` on, which is the first run, or lies two runs
/// before the one with the register.
///
/// # Errors
/// If they end before it, or are no runs.
fn find(bytes: &[u8], start: Start, index: usize) -> Result<Spot, Flaw> {
    let (mut at, mut before, mut first) = (start.at, start.at, start.first);
    // Of the run before, and of the one before that.
    let (mut last, mut next) = (start, start);
    while let Some(&byte) = bytes.get(at) {
        // As `Stretch::read`, for lengths alone: a change looks at some thousand runs.
        let (length, taken) = match byte >> 6 {
            0 => (usize::from(byte) + 1, 1),
            1 => {
                let low = bytes.get(at + 1).ok_or(Flaw::Corrupted)?;
                ((usize::from(byte & 0x3f) << 8 | usize::from(*low)) + 1, 2)
            }
            _ => (usize::from(byte & 3) + 1, 1),
        };
        if index < first + length {
            return Ok(Spot {
                at,
                before,
                first,
                next,
            });
        }
        (next, last) = (last, Start { at, first });
        (before, at) = (at, at + taken);
        first += length;
    }
    Err(Flaw::Corrupted)
}

/// The parameters of raising a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    pub(super) index: usize,
    pub(super) value: u8,
    /// The runs do not become longer than this.
    pub(super) bytes_max: usize,
}

/// Raises a register of the runs from `start` on; returns whether it was lower. `None` if that
/// cannot be sparse, or makes `bytes` too long: then nothing is changed. `start` becomes one for a
/// register behind this one, so that many registers in order cost one pass.
///
/// # Errors
/// If the runs end before it, or are no runs.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    start: &mut Start,
    raise: Raise,
) -> Result<Option<bool>, Flaw> {
    let Raise {
        index,
        value,
        bytes_max,
    } = raise;
    if value > VALUE_MAX {
        return Ok(None);
    }
    let Spot {
        at,
        before,
        first,
        next,
    } = find(bytes, *start, index)?;
    *start = next;
    let (run, taken) = Stretch::read(&bytes[at..]).ok_or(Flaw::Corrupted)?;
    if run.value >= value {
        return Ok(Some(false));
    }
    let mut made: SmallVec<[u8; MADE_BYTES_MAX]> = SmallVec::new();
    let length = index - first;
    push(&mut made, Stretch { length, ..run });
    push(&mut made, Stretch { value, length: 1 });
    let length = first + run.length - 1 - index;
    push(&mut made, Stretch { length, ..run });
    if made.len() > taken && bytes.len() + made.len() - taken > bytes_max {
        return Ok(None);
    }
    bytes.splice(at..at + taken, made);
    join(bytes, before);
    Ok(Some(true))
}

/// Joins runs of the same value from one on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_MAX {
        let Some((run, taken)) = Stretch::read(&bytes[at..]) else {
            return;
        };
        let next = Stretch::read(&bytes[at + taken..]).map(|(next, _)| next);
        let next = next.filter(|next| {
            run.value > 0 && next.value == run.value && run.length + next.length <= VALUES_MAX
        });
        let Some(next) = next else {
            at += taken;
            continue;
        };
        let mut joined: SmallVec<[u8; MADE_BYTES_MAX]> = SmallVec::new();
        let length = run.length + next.length;
        push(&mut joined, Stretch { length, ..run });
        // Both were one byte.
        bytes.splice(at..at + 2, joined);
    }
}
