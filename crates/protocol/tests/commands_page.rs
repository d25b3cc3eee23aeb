//! The page docs/commands.md, made from the tables of commands: the stored one is not stale.

use std::fmt::Write;
use std::path::Path;

use cellar_protocol::memcached::binary::operation::{OPERATIONS, Operation, Part};
use cellar_protocol::memcached::command as text;
use cellar_protocol::resp::command::{Command, Group, TABLE};

#[test]
fn the_page_of_commands_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = page();
    if std::env::var_os("CELLAR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored, page,
        "docs/commands.md is stale: run this test with CELLAR_BLESS=1"
    );
}

fn page() -> String {
    format!(
        "<!-- Generated from crates/protocol/src/memcached/command.rs and\n\
         crates/protocol/src/resp/command/table.rs; do not edit. -->\n\n\
         # Commands\n\n\
         {}\n{}",
        memcached(),
        resp()
    )
}

/// The section about the commands of memcached's text protocol.
fn memcached() -> String {
    let mut page = String::from(
        "## memcached\n\n\
         The text protocol, classic and meta, as in memcached 1.6.45. Keys have 1 to 250\n\
         bytes. `exptime` is in seconds: 0 means none, a negative value has expired, and a\n\
         value above 30 days is a Unix time. Deliberate differences:\n\
         [conformance/README.md](../conformance/README.md).\n\n\
         | command | arguments | what it does | since |\n|---|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|");
    for command in text::COMMANDS {
        let syntax = cell(command.syntax);
        let syntax = if syntax.is_empty() {
            syntax
        } else {
            format!("`{syntax}`")
        };
        let text::Command {
            name,
            summary,
            since,
            ..
        } = command;
        writeln!(page, "| `{name}` | {syntax} | {summary} | {since} |").unwrap();
    }
    page.push_str("\n### Flags of the meta commands\n\n| flag | of | meaning |\n|---|---|---|\n");
    for text::Flag {
        flag,
        commands,
        summary,
    } in text::FLAGS
    {
        writeln!(page, "| `{flag}` | {commands} | {summary} |").unwrap();
    }
    page.push_str(&binary());
    page
}

/// The section about the requests of its binary protocol.
fn binary() -> String {
    let mut page = String::from(
        "\n### The binary protocol\n\n\
         If the first byte of a connection is 0x80, it uses memcached's binary protocol, with\n\
         the same items and semantics. Exptimes are unsigned, so none is in the past. Quiet\n\
         requests omit the usual reply, but not errors.\n\n\
         | request | opcode | quiet | extras | key | value | what it does |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let word = |part| match part {
        Part::No => "",
        Part::Yes => "yes",
        Part::Maybe => "optional",
    };
    for operation in OPERATIONS {
        let quiet = operation
            .quiet_code
            .map_or_else(String::new, |code| format!("0x{code:02x}"));
        let Operation {
            name,
            code,
            extras,
            key,
            value,
            summary,
            ..
        } = operation;
        let (extras, key, value) = (extras.trim_end(), word(*key), word(*value));
        writeln!(
            page,
            "| `{name}` | 0x{code:02x} | {quiet} | {extras} | {key} | {value} | {summary} |"
        )
        .unwrap();
    }
    page
}

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

/// The section about Redis's commands: a table for each group.
fn resp() -> String {
    let mut page = String::from(INTRODUCTION);
    for (group, heading) in GROUPS {
        let rows = TABLE.iter().filter(|row| row.group == group);
        let table: String = rows.flat_map(lines).collect();
        let head = "| command | arguments | what it does | since |\n|---|---|---|---|\n";
        write!(page, "\n### {heading}\n\n{head}{table}").unwrap();
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
