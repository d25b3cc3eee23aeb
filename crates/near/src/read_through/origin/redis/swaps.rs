//! Swaps: SWAPDB exchanges two databases, and Redis tells nobody.
//!
//! No tracking of Redis's hears of it, by key or by prefix, and no keyspace event tells of it. What
//! moves is the count in `INFO commandstats`, so that is read again and again; another line than
//! the last one means that everything may have changed. Cellar tells of it like of FLUSHALL, and
//! keeps no such statistics; a cluster has one database.
//!
//! Why: docs/decisions/0030-one-load-for-all-processes.md.

use redis::Value;

/// What begins each line of the statistics.
const ANY: &str = "cmdstat_";
/// What begins the line that counts.
const SWAPDB: &str = "cmdstat_swapdb:";

/// The line of SWAPDB, empty if there was none; `None` if the reply has no statistics.
pub(super) fn swaps(reply: &Value) -> Option<String> {
    let text = match reply {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let mut lines = text.lines();
    if !text.contains(ANY) {
        return None;
    }
    let line = lines.find(|line| line.starts_with(SWAPDB));
    Some(line.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_swapdb_is_found_and_a_server_without_statistics_has_none() {
        let reply = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let none = "# Commandstats\r\ncmdstat_client:calls=1,usec=6\r\n";
        assert_eq!(swaps(&reply(none)).as_deref(), Some(""));
        let some = format!("{none}cmdstat_swapdb:calls=2,usec=9\r\n");
        let line = "cmdstat_swapdb:calls=2,usec=9";
        assert_eq!(swaps(&reply(&some)).as_deref(), Some(line));
        assert_eq!(swaps(&reply("# Commandstats\r\n")), None);
        assert_eq!(swaps(&Value::Okay), None);
    }
}
