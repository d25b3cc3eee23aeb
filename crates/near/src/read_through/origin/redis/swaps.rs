//! Swaps: SWAPDB exchanges two databases, and Redis sends no invalidations.
//!
//! Neither tracking mode of Redis reports it, by key or by prefix, and no keyspace event does. The
//! count in `INFO commandstats` changes, so that is polled; a changed line means that everything
//! may have changed. Cellar reports it like FLUSHALL, and has no such statistics; a cluster has one
//! database.
//!
//! Why: docs/decisions/0030-one-load-for-all-processes.md.

use redis::Value;

/// The prefix of each line of the statistics.
const ANY: &str = "cmdstat_";
/// The prefix of the line that counts SWAPDB.
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
