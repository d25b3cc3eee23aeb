//! LCS: the longest subsequence that two strings have in common.
//!
//! Source: redis.io/docs/latest/commands/lcs; which of several longest ones is answered, and where
//! its ranges are cut, is as in Redis's `lcsCommand`.

use cellar_engine::{Change, Handle, Key};
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::ranges::length;
use crate::resp::strings::values::{as_string, update};

/// Pairs of places in both strings: the table takes a bit for each, and is made 64 at a time.
const CELLS_MAX: usize = 16 << 20;
/// Longest string; the walk through the table takes a step for each byte.
const BYTES_MAX: usize = 1 << 20;

/// The options of LCS.
#[derive(Clone, Copy, Debug, Default)]
struct LcsOptions {
    len: bool,
    idx: bool,
    with_match_len: bool,
    match_len_min: usize,
}

impl LcsOptions {
    fn parse(args: &[&[u8]]) -> Result<LcsOptions, Failure> {
        let mut options = LcsOptions::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            match name.to_ascii_uppercase().as_slice() {
                b"LEN" => options.len = true,
                b"IDX" => options.idx = true,
                b"WITHMATCHLEN" => options.with_match_len = true,
                b"MINMATCHLEN" => {
                    let number = args.next().ok_or(Failure::Syntax)?;
                    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
                    options.match_len_min = usize::try_from(number).unwrap_or(0);
                }
                _ => return Err(Failure::Syntax),
            }
        }
        if options.len && options.idx {
            return Err(Failure::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

pub(in crate::resp) fn lcs(call: &mut Call<'_>) -> Outcome {
    let (first, second) = (call.first_key()?, call.key_at(2)?);
    let options = match LcsOptions::parse(&call.args[3..]) {
        Ok(options) => options,
        // As in Redis, type errors come first.
        Err(failure) => {
            pinned(call, first)?;
            pinned(call, second)?;
            return Err(failure);
        }
    };
    let (first, second) = call.as_step(|call| {
        let first = pinned(call, first)?;
        Ok::<_, Failure>((first, pinned(call, second)?))
    })?;
    let first: &[u8] = first.as_deref().unwrap_or(&[]);
    let second: &[u8] = second.as_deref().unwrap_or(&[]);
    let cells = (first.len() + 1).saturating_mul(second.len() + 1);
    if cells > CELLS_MAX || first.len().max(second.len()) > BYTES_MAX {
        return Err(Failure::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let table = LcsTable::of(first, second);
    if options.len {
        return call.integer(length(table.longest()));
    }
    if !options.idx {
        call.reply().bulk(table.common());
        return DONE;
    }
    answer_matches(call, &table, &options);
    DONE
}

fn answer_matches(call: &mut Call<'_>, table: &LcsTable<'_>, options: &LcsOptions) {
    let matches = table.matches();
    let is_shown = |found: &&Match| found.len >= options.match_len_min;
    let shown: Vec<&Match> = matches.iter().filter(is_shown).collect();
    let mut reply = call.reply();
    reply.map(2);
    reply.bulk("matches");
    reply.array(shown.len());
    for found in shown {
        reply.array(2 + usize::from(options.with_match_len));
        for start in [found.first, found.second] {
            reply.array(2);
            reply.integer(length(start));
            reply.integer(length(start + found.len - 1));
        }
        if options.with_match_len {
            reply.integer(length(found.len));
        }
    }
    reply.bulk("len");
    reply.integer(length(table.longest()));
}

/// The string of a key.
fn pinned(call: &Call<'_>, key: Key<'_>) -> Result<Option<Handle>, Failure> {
    let value = update(call, key, |old, _| {
        Ok((as_string(old)?.map(|item| item.pin()), Change::Keep))
    });
    value.map_err(|failure| match failure {
        Failure::WrongType => Failure::text("ERR The specified keys must contain string values"),
        other => other,
    })
}

/// A range of equal bytes in both strings: its positions, and its length.
#[derive(Debug, PartialEq, Eq)]
struct Match {
    first: usize,
    second: usize,
    len: usize,
}

/// For each beginning of the longer string, in which places the longest common subsequence with
/// the beginnings of the shorter one grows: a bit for each byte of the shorter one, zero where it
/// does. So a row is a few words, and is made from the one before it word by word.
///
/// Source: Hyyro, "Bit-parallel LCS-length computation revisited", 2004.
struct LcsTable<'a> {
    long: &'a [u8],
    short: &'a [u8],
    /// Whether the longer one is the second string.
    is_swapped: bool,
    /// Words of a row.
    width: usize,
    /// One row more than the longer string has bytes; the first one is of its empty beginning.
    rows: Vec<u64>,
}

const BITS: usize = u64::BITS as usize;

impl<'a> LcsTable<'a> {
    fn of(first: &'a [u8], second: &'a [u8]) -> LcsTable<'a> {
        let is_swapped = second.len() > first.len();
        let (long, short) = if is_swapped {
            (second, first)
        } else {
            (first, second)
        };
        let width = short.len().div_ceil(BITS);
        let mut places = vec![0_u64; 256 * width];
        for (place, &byte) in short.iter().enumerate() {
            places[usize::from(byte) * width + place / BITS] |= 1 << (place % BITS);
        }
        let mut rows = Vec::with_capacity((long.len() + 1) * width);
        rows.resize(width, u64::MAX);
        for (row, &byte) in long.iter().enumerate() {
            let mut carry = 0;
            for word in 0..width {
                let above = rows[row * width + word];
                let equal = above & places[usize::from(byte) * width + word];
                let (sum, one) = above.overflowing_add(equal);
                let (sum, other) = sum.overflowing_add(carry);
                carry = u64::from(one | other);
                rows.push(sum | (above & !equal));
            }
        }
        LcsTable {
            long,
            short,
            is_swapped,
            width,
            rows,
        }
    }

    /// The length for the first bytes of both.
    fn at(&self, row: usize, column: usize) -> usize {
        let words = &self.rows[row * self.width..][..self.width];
        let (whole, rest) = (column / BITS, column % BITS);
        let ones = words[..whole]
            .iter()
            .map(|word| word.count_zeros() as usize);
        let last = words
            .get(whole)
            .map_or(0, |word| (!word & ((1 << rest) - 1)).count_ones());
        ones.sum::<usize>() + last as usize
    }

    /// Whether the length grows with the byte of the shorter one before `column`.
    fn grows(&self, row: usize, column: usize) -> bool {
        let place = column - 1;
        self.rows[row * self.width + place / BITS] >> (place % BITS) & 1 == 0
    }

    fn longest(&self) -> usize {
        self.at(self.long.len(), self.short.len())
    }

    /// Walks from the ends of both strings and shows `each` the places of equal bytes.
    fn walk(&self, mut each: impl FnMut(usize, usize)) {
        let (mut row, mut column) = (self.long.len(), self.short.len());
        // The lengths here and with one byte less of the longer string.
        let mut here = self.at(row, column);
        let mut above = row.checked_sub(1).map_or(0, |row| self.at(row, column));
        while row > 0 && column > 0 {
            if self.long[row - 1] == self.short[column - 1] {
                above -= usize::from(self.grows(row - 1, column));
                (row, column) = (row - 1, column - 1);
                if self.is_swapped {
                    each(column, row);
                } else {
                    each(row, column);
                }
                here = above;
                above = row.checked_sub(1).map_or(0, |row| self.at(row, column));
                continue;
            }
            let left = here - usize::from(self.grows(row, column));
            // Of equals the second string loses its byte first.
            let loses_row = if self.is_swapped {
                left <= above
            } else {
                above > left
            };
            if loses_row {
                row -= 1;
                here = above;
                above = row.checked_sub(1).map_or(0, |row| self.at(row, column));
            } else {
                above -= usize::from(self.grows(row - 1, column));
                column -= 1;
                here = left;
            }
        }
    }

    fn common(&self) -> Vec<u8> {
        let mut common = Vec::with_capacity(self.short.len());
        let first = if self.is_swapped {
            self.short
        } else {
            self.long
        };
        self.walk(|row, _| common.push(first[row]));
        common.reverse();
        common
    }

    /// The ranges of the walk, the last one first.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.walk(|first, second| match matches.last_mut() {
            Some(last) if last.first == first + 1 && last.second == second + 1 => {
                (last.first, last.second, last.len) = (first, second, last.len + 1);
            }
            _ => matches.push(Match {
                first,
                second,
                len: 1,
            }),
        });
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::{LcsTable, Match};

    #[test]
    fn the_longest_common_subsequence_is_found_with_its_ranges() {
        let table = LcsTable::of(b"ohmytext", b"mynewtext");
        assert_eq!(table.longest(), 6);
        assert_eq!(table.common(), b"mytext");
        let (text, my) = (
            Match {
                first: 4,
                second: 5,
                len: 4,
            },
            Match {
                first: 2,
                second: 0,
                len: 2,
            },
        );
        assert_eq!(table.matches(), [text, my]);
    }

    /// The table of all lengths, byte by byte, and the walk through it as in Redis.
    fn slow_walk(first: &[u8], second: &[u8]) -> (usize, Vec<(usize, usize)>) {
        let width = second.len() + 1;
        let mut lengths = vec![0; (first.len() + 1) * width];
        for row in 1..=first.len() {
            for column in 1..width {
                lengths[row * width + column] = if first[row - 1] == second[column - 1] {
                    lengths[(row - 1) * width + column - 1] + 1
                } else {
                    lengths[(row - 1) * width + column].max(lengths[row * width + column - 1])
                };
            }
        }
        let (mut row, mut column, mut walk) = (first.len(), second.len(), Vec::new());
        while row > 0 && column > 0 {
            if first[row - 1] == second[column - 1] {
                (row, column) = (row - 1, column - 1);
                walk.push((row, column));
            } else if lengths[(row - 1) * width + column] > lengths[row * width + column - 1] {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        (lengths[first.len() * width + second.len()], walk)
    }

    #[test]
    fn the_walk_is_that_of_a_table_of_all_lengths() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..400_u16 {
            let letters = 1 + (round % 5) as u8;
            let mut string = |most: usize| -> Vec<u8> {
                let bytes = random.usize(0..=most);
                (0..bytes).map(|_| b'a' + random.u8(..letters)).collect()
            };
            let (first, second) = (string(200), string(200));
            let table = LcsTable::of(&first, &second);
            let mut walk = Vec::new();
            table.walk(|one, other| walk.push((one, other)));
            assert_eq!((table.longest(), walk), slow_walk(&first, &second));
        }
    }

    #[test]
    fn nothing_is_common_to_an_empty_string() {
        for (first, second) in [("", ""), ("a", ""), ("", "b"), ("a", "b")] {
            let table = LcsTable::of(first.as_bytes(), second.as_bytes());
            assert_eq!((table.longest(), table.common()), (0, Vec::new()));
            assert!(table.matches().is_empty());
        }
    }
}
