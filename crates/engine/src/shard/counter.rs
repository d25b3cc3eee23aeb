//! Counters: items whose value is a decimal number.
//!
//! The number is stored as text, as clients see it. Adding wraps at 2^64, subtracting stops at
//! zero.
//! Source: memcached doc/protocol.txt, "Increment/Decrement". Tests: tests/counter.rs.

use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::space::Kind;
use crate::insight::sample::Action;
use crate::interface::observer::Happened;
use crate::interface::options::Increment;
use crate::interface::outcome::Counted;
use crate::key::Key;
use crate::log::item::Spec;
use crate::shard::Shard;
use crate::store::{Content, Located};

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

impl Shard {
    /// Adds to or subtracts from the number that an item holds.
    pub(crate) fn increment(
        &mut self,
        key: Key<'_>,
        increment: &Increment,
        now: Instant,
    ) -> Result<Counted, Error> {
        let Some(mut located) = self.store.find(key, now) else {
            return self.create_counter(key, increment, now);
        };
        if located.layout.is_packed() {
            located = self.unpacked(key, &located, now)?;
        }
        let mut spec = self.store.spec_of(&located);
        if increment.when_version.is_some() && spec.version != increment.when_version {
            return Ok(Counted::Exists);
        }
        let old = self.store.with_item(&located, |item| number_in(item.value));
        let Some(old) = old.filter(|_| spec.kind == Kind::STRING) else {
            return Ok(Counted::NotANumber);
        };
        let number = if increment.subtract {
            old.saturating_sub(increment.delta)
        } else {
            old.wrapping_add(increment.delta)
        };
        let keep = if increment.keep_width {
            spec.value_bytes.min(DIGITS_MAX)
        } else {
            0
        };
        let mut text = [b' '; DIGITS_MAX];
        spec.value_bytes = write_digits(number, &mut text).max(keep);
        if spec.version.is_some() || increment.version || increment.new_version.is_some() {
            let next = increment.new_version.unwrap_or_else(|| self.next_version());
            spec.version = Some(next);
        }
        if let Some(deadline) = increment.touch {
            spec.deadline = deadline;
        }
        let value = &text[..spec.value_bytes];
        let stored = self.put(key, Some(located), &spec, Content::Bytes(value), now)?;
        if let Some(stored) = stored {
            self.note(key, Action::Set, &stored, now);
            let happened = Happened::Stored;
            self.store
                .report_with_deadline(key, happened, &stored, spec.deadline);
        }
        let version = spec.version.unwrap_or(0);
        Ok(Counted::Number {
            number,
            deadline: spec.deadline,
            version,
            created: false,
        })
    }

    fn create_counter(
        &mut self,
        key: Key<'_>,
        increment: &Increment,
        now: Instant,
    ) -> Result<Counted, Error> {
        let Some((number, deadline)) = increment.initial else {
            return Ok(Counted::NotFound);
        };
        let mut text = [b' '; DIGITS_MAX];
        let value_bytes = write_digits(number, &mut text);
        let version = increment.new_version;
        let version = version.or_else(|| increment.version.then(|| self.next_version()));
        let spec = Spec {
            version,
            ..Spec::of_key(key, value_bytes, deadline)
        };
        let stored: Option<Located> =
            self.put(key, None, &spec, Content::Bytes(&text[..value_bytes]), now)?;
        self.store.counts.stored += u64::from(stored.is_some());
        if let Some(stored) = stored {
            self.note(key, Action::Set, &stored, now);
            let happened = Happened::Created;
            self.store
                .report_with_deadline(key, happened, &stored, deadline);
        }
        let version = version.unwrap_or(0);
        Ok(Counted::Number {
            number,
            deadline,
            version,
            created: true,
        })
    }
}

/// The number a value holds: 1 to 20 digits that fit in 64 bits, then only spaces.
fn number_in(value: &[u8]) -> Option<u64> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, rest) = value.split_at(digits);
    if digits.is_empty() || digits.len() > DIGITS_MAX || rest.iter().any(|&byte| byte != b' ') {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Writes a number's digits to the front of `text`; returns how many.
fn write_digits(mut number: u64, text: &mut [u8; DIGITS_MAX]) -> usize {
    let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    for position in (0..digits).rev() {
        text[position] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_with_spaces_behind() {
        assert_eq!(number_in(b"0"), Some(0));
        assert_eq!(number_in(b"42  "), Some(42));
        assert_eq!(number_in(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            " ",
            " 1",
            "1 2",
            "-1",
            "1x",
            "18446744073709551616",
            "000000000000000000001",
        ] {
            assert_eq!(number_in(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn digits_are_written_without_leading_zeros() {
        for number in [0, 9, 10, 99, 100, u64::MAX] {
            let mut text = [b' '; DIGITS_MAX];
            let digits = write_digits(number, &mut text);
            assert_eq!(
                std::str::from_utf8(&text[..digits]).unwrap(),
                number.to_string()
            );
        }
    }
}
