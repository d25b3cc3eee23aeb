//! The section of docs/commands.md about RESP.

use std::fmt::Write;

use super::{Command, Group, TABLE};

const INTRODUCTION: &str = "## Redis\n\n\
    RESP2 and RESP3. The number of arguments includes the name; a plus sign is \"or more\".\n\
    \"Since\" is the first version of Redis with the command, of Valkey for `DELIFEQ`,\n\
    `SCRIPT SHOW`, `COMMANDLOG` and `CLUSTERSCAN`, and of Cellar for its own commands. Streams\n\
    are not implemented.\n";

/// The groups in the order of the page, with their headings.
const GROUPS: [(Group, &str); 15] = [
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::Hyperloglog, "HyperLogLog"),
    (Group::Generic, "Keys"),
    (Group::Hash, "Hashes"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Geo, "Geospatial indexes"),
    (Group::List, "Lists"),
    (Group::Pubsub, "Publish and subscribe"),
    (Group::Transactions, "Transactions"),
    (Group::Scripting, "Scripts"),
    (Group::Connection, "Connection"),
    (Group::Server, "Server"),
    (Group::Cluster, "Cluster"),
];

/// The section: a table for each group.
#[must_use]
pub fn section() -> String {
    let mut page = String::from(INTRODUCTION);
    for (group, heading) in GROUPS {
        let rows = TABLE.iter().filter(|row| row.group == group);
        let table: String = rows.flat_map(lines).collect();
        let head = "| command | arguments | what it does | since |\n|---|---|---|---|\n";
        write!(page, "\n### {heading}\n\n{head}{table}")
            .expect("writing into a string does not fail");
    }
    page
}

/// The lines of a command, or those of its subcommands.
fn lines(row: &Command) -> Vec<String> {
    if row.subcommands.is_empty() {
        return vec![line(&row.name.to_uppercase(), row)];
    }
    let name = |subcommand: &Command| format!("{} {}", row.name, subcommand.name).to_uppercase();
    let subcommands = row.subcommands.iter();
    subcommands.map(|sub| line(&name(sub), sub)).collect()
}

fn line(name: &str, row: &Command) -> String {
    let arguments = row.arity.unsigned_abs();
    let more = if row.arity < 0 { "+" } else { "" };
    let (summary, since) = (row.summary, row.since);
    format!("| `{name}` | {arguments}{more} | {summary} | {since} |\n")
}
