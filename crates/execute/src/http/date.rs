//! Date: the Date field of responses, formatted once a second.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use cellar_protocol::http::reply::DATE_BYTES;

use crate::context::Context;

thread_local! {
    /// The second that was written last, and how it reads.
    static LAST: Cell<(u64, [u8; DATE_BYTES])> = const {
        Cell::new((u64::MAX, [b' '; DATE_BYTES]))
    };
}

/// The present second, for a `Date`.
#[inline]
pub(super) fn now(context: Context<'_>) -> [u8; DATE_BYTES] {
    let unix_s = context.unix_s(context.cache().now());
    let (second, text) = LAST.get();
    if second == unix_s {
        return text;
    }
    let text = written(unix_s);
    LAST.set((unix_s, text));
    text
}

fn written(unix_s: u64) -> [u8; DATE_BYTES] {
    /// The last second of the year 9999, behind which dates have no such form.
    const UNIX_S_MAX: u64 = 253_402_300_799;
    let at = UNIX_EPOCH + Duration::from_secs(unix_s.min(UNIX_S_MAX));
    let text = httpdate::fmt_http_date(at);
    let bytes = text.as_bytes().try_into();
    bytes.expect("a date of four-digit years has 29 characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_reads_in_29_characters() {
        for (unix_s, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(written(unix_s), text.as_bytes());
        }
    }
}
