//! LCS: the longest subsequence that two strings have in common.
//!
//! Source: redis.io/docs/latest/commands/lcs; which of several longest ones is answered, and where
//! its ranges are cut, is as in Redis's `lcsCommand`.

use cellar_engine::{Change, Handle, Key};
use cellar_protocol::resp::number::parse_integer;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::ranges::length;
use super::values::{as_string, update};

/// Numbers in the table of lengths: it takes four times as many bytes, and as many steps to fill.
const CELLS_MAX: usize = 16 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    match_len_min: usize,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, Failure> {
        let mut options = Options::default();
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

pub(super) fn lcs(call: &mut Call<'_>) -> Outcome {
    let (first, second) = (call.first_key()?, call.key_at(2)?);
    let options = match Options::parse(&call.args[3..]) {
        Ok(options) => options,
        // As in Redis, the kinds come first.
        Err(failure) => {
            pinned(call, first)?;
            pinned(call, second)?;
            return Err(failure);
        }
    };
    let (first, second) = (pinned(call, first)?, pinned(call, second)?);
    let first: &[u8] = first.as_deref().unwrap_or(&[]);
    let second: &[u8] = second.as_deref().unwrap_or(&[]);
    let cells = (first.len() + 1).saturating_mul(second.len() + 1);
    if cells > CELLS_MAX {
        return Err(Failure::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let table = Table::of(first, second);
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

fn answer_matches(call: &mut Call<'_>, table: &Table<'_>, options: &Options) {
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

/// Equal bytes that stand together in both strings: where they begin, and how many they are.
#[derive(Debug, PartialEq, Eq)]
struct Match {
    first: usize,
    second: usize,
    len: usize,
}

/// For each pair of beginnings of two strings, how long their longest common subsequence is.
struct Table<'a> {
    first: &'a [u8],
    second: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    fn of(first: &'a [u8], second: &'a [u8]) -> Table<'a> {
        let width = second.len() + 1;
        let mut lengths = vec![0; (first.len() + 1) * width];
        for (row, byte) in first.iter().enumerate() {
            let (above, below) = lengths[row * width..].split_at_mut(width);
            for (column, other) in second.iter().enumerate() {
                below[column + 1] = if byte == other {
                    above[column] + 1
                } else {
                    above[column + 1].max(below[column])
                };
            }
        }
        Table {
            first,
            second,
            lengths,
        }
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.lengths[row * (self.second.len() + 1) + column]
    }

    fn longest(&self) -> usize {
        self.at(self.first.len(), self.second.len()) as usize
    }

    /// Walks from the ends of both strings and shows `each` the places of equal bytes.
    fn walk(&self, mut each: impl FnMut(usize, usize)) {
        let (mut row, mut column) = (self.first.len(), self.second.len());
        while row > 0 && column > 0 {
            if self.first[row - 1] == self.second[column - 1] {
                (row, column) = (row - 1, column - 1);
                each(row, column);
            } else if self.at(row - 1, column) > self.at(row, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
        }
    }

    fn common(&self) -> Vec<u8> {
        let mut common = Vec::with_capacity(self.longest());
        self.walk(|row, _| common.push(self.first[row]));
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
    use super::{Match, Table};

    #[test]
    fn the_longest_common_subsequence_is_found_with_its_ranges() {
        let table = Table::of(b"ohmytext", b"mynewtext");
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

    #[test]
    fn nothing_is_common_to_an_empty_string() {
        for (first, second) in [("", ""), ("a", ""), ("", "b"), ("a", "b")] {
            let table = Table::of(first.as_bytes(), second.as_bytes());
            assert_eq!((table.longest(), table.common()), (0, Vec::new()));
            assert!(table.matches().is_empty());
        }
    }
}
