//! Complexity: no command keeps an event loop from its other clients for long.
//!
//! Each row of the table says what the worst input of a command is. The short form runs these on a
//! hundred thousand keys and asks for no more than that others get their turns at all; the full
//! form (`CELLAR_COMPLEXITY=full`, with `CELLAR_BIN` an optimised server) on a million, and no
//! loop is held for longer than 10 ms. docs/complexity.md is made of the same table:
//! `CELLAR_BLESS=1` regenerates it. `CELLAR_COMPLEXITY_ONLY=lcs` runs the rows that name a command.

mod events;
mod probe;
mod table;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use self::events::EVENTS;
use self::probe::{Bench, Protocol, Size};
use self::table::{HTTP, MEMCACHED, MEMCACHED_BINARY, RESP, Row, STORES};
use cellar_protocol::memcached::binary::OPERATIONS;
use cellar_protocol::memcached::command::COMMANDS;
use cellar_protocol::resp::command::TABLE;

/// The names in rows.
fn names(rows: &[Row]) -> BTreeSet<&'static str> {
    let names: Vec<&str> = rows.iter().flat_map(|row| words(row.names)).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(
        unique.len(),
        names.len(),
        "a command stands in one row only"
    );
    unique
}

/// Names of commands; those of several words begin with these.
fn words(names: &'static str) -> Vec<&'static str> {
    let with_spaces = ["stats ", "lru_crawler ", "config get "];
    if with_spaces.iter().any(|begin| names.starts_with(begin)) {
        return vec![names];
    }
    names.split(' ').filter(|name| !name.is_empty()).collect()
}

/// What a row's commands cost; a command of Redis says so in its own table.
fn cost(row: &Row) -> String {
    if !row.cost.is_empty() {
        return row.cost.to_owned();
    }
    let mut costs: Vec<&str> = Vec::new();
    for name in words(row.names) {
        let (name, sub) = name.split_once('|').unwrap_or((name, ""));
        let mut command = TABLE.iter().find(|one| one.name == name).unwrap();
        if !sub.is_empty() {
            let mut of_it = command.subcommands.iter();
            command = of_it.find(|one| one.name == sub).unwrap();
        }
        if !costs.contains(&command.complexity) {
            costs.push(command.complexity);
        }
    }
    costs.join("; ")
}

#[test]
fn every_command_of_redis_has_a_row() {
    let all = TABLE.iter().flat_map(|row| {
        let subs = row.subcommands.iter();
        let subs = subs.map(|sub| format!("{}|{}", row.name, sub.name));
        subs.chain([row.name.to_owned()])
    });
    let all: BTreeSet<String> = all.collect();
    let named: BTreeSet<String> = names(RESP).into_iter().map(str::to_owned).collect();
    assert_eq!(named, all);
}

#[test]
fn every_command_of_memcached_has_a_row() {
    let all: BTreeSet<&str> = COMMANDS.iter().map(|command| command.name).collect();
    assert_eq!(names(MEMCACHED), all);
}

#[test]
fn every_request_of_the_binary_protocol_has_a_row() {
    let all: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
    assert_eq!(names(MEMCACHED_BINARY), all);
}

#[test]
fn every_path_of_http_has_a_row() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(document).unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap().keys();
    let all: BTreeSet<&str> = paths.map(String::as_str).collect();
    let named = names(HTTP);
    assert!(named.is_superset(&all), "{named:?} {all:?}");
}

#[test]
fn nobody_waits_long_for_the_worst_of_any_command() {
    let size = match std::env::var("CELLAR_COMPLEXITY").as_deref() {
        Ok("full") => Size::FULL,
        _ => Size::SHORT,
    };
    let only = std::env::var("CELLAR_COMPLEXITY_ONLY").unwrap_or_default();
    let mut bench = Bench::start(size);
    let mut late = Vec::new();
    for (protocol, rows) in [
        (Protocol::Resp, RESP),
        (Protocol::Memcached, MEMCACHED),
        (Protocol::Http, HTTP),
    ] {
        let rows = rows.iter().filter(|row| row.names.contains(&only));
        for (row, probe) in rows.flat_map(|row| row.probes.iter().map(move |probe| (row, probe))) {
            let outcome = bench.run(protocol, probe);
            println!("{probe:50} {outcome}");
            if !row.is_one_step() && outcome.gap_us > size.gap_us_max {
                late.push(format!("{probe}: {outcome}"));
            }
        }
    }
    for event in EVENTS.iter().filter(|event| event.name.contains(&only)) {
        let outcome = event.run(&bench);
        println!("{:50} {outcome}", event.name);
        if outcome.gap_us > size.gap_us_max {
            late.push(format!("{}: {outcome}", event.name));
        }
    }
    assert!(late.is_empty(), "held for too long:\n{}", late.join("\n"));
}

#[test]
fn nobody_waits_long_for_who_stores_where_the_cache_is_full() {
    let size = match std::env::var("CELLAR_COMPLEXITY").as_deref() {
        Ok("full") => Size::FULL,
        _ => Size::SHORT,
    };
    let only = std::env::var("CELLAR_COMPLEXITY_ONLY").unwrap_or_default();
    let mut bench = Bench::start_full(size);
    let mut late = Vec::new();
    for probe in STORES
        .iter()
        .filter(|probe| probe.to_lowercase().contains(&only))
    {
        let outcome = bench.run_full(probe);
        println!("{probe:50} {outcome}");
        let name = probe.split(' ').next().unwrap_or_default().to_lowercase();
        let row = RESP.iter().find(|row| words(row.names).contains(&&*name));
        let is_one_step = row.is_some_and(Row::is_one_step);
        if !is_one_step && outcome.gap_us > size.gap_us_max {
            late.push(format!("{probe}: {outcome}"));
        }
    }
    assert!(late.is_empty(), "held for too long:\n{}", late.join("\n"));
}

/// Tests of a part of Redis's commands each: one of all takes minutes.
macro_rules! parts_of_redis {
    ($($name:ident: $part:literal;)*) => {
        const PARTS: usize = [$($part),*].len();
        $(
            #[test]
            fn $name() {
                check_unread(&[(Protocol::Resp, RESP)], |place| place % PARTS == $part);
            }
        )*
    };
}

parts_of_redis! {
    redis_commands_of_part_0_stay_within_memory_when_nobody_reads_their_replies: 0;
    redis_commands_of_part_1_stay_within_memory_when_nobody_reads_their_replies: 1;
    redis_commands_of_part_2_stay_within_memory_when_nobody_reads_their_replies: 2;
    redis_commands_of_part_3_stay_within_memory_when_nobody_reads_their_replies: 3;
    redis_commands_of_part_4_stay_within_memory_when_nobody_reads_their_replies: 4;
    redis_commands_of_part_5_stay_within_memory_when_nobody_reads_their_replies: 5;
}

#[test]
fn the_worst_of_any_other_request_stays_within_memory_when_nobody_reads_its_reply() {
    let tables = [(Protocol::Memcached, MEMCACHED), (Protocol::Http, HTTP)];
    check_unread(&tables, |_| true);
}

/// Checks the probes whose places in the tables are meant.
fn check_unread(tables: &[(Protocol, &[Row])], is_meant: impl Fn(usize) -> bool) {
    const MIB: usize = 1 << 20;
    // The memory, that for clients, and what the process needs beside both.
    const MAX_BYTES: usize = (256 + 16 + 32) * MIB;
    let only = std::env::var("CELLAR_COMPLEXITY_ONLY").unwrap_or_default();
    let bench = Bench::start_small("256MiB", "16MiB");
    let mut over = Vec::new();
    for &(protocol, rows) in tables {
        let probes = rows
            .iter()
            .flat_map(|row| row.probes.iter().map(move |probe| (row, probe)));
        for (place, (row, probe)) in probes.enumerate() {
            if !is_meant(place) || !row.names.contains(&only) {
                continue;
            }
            let bytes = bench.unread(protocol, probe);
            println!("{probe:50} {} MiB", bytes / MIB);
            if bytes > MAX_BYTES {
                over.push(format!("{probe}: {} MiB", bytes / MIB));
            }
        }
    }
    assert!(over.is_empty(), "too much memory:\n{}", over.join("\n"));
}

/// `CELLAR_PIPELINE_MB` is the size of the pipelines; 5 if it is not set.
#[test]
fn any_command_may_stand_amid_a_pipeline_that_is_sent_before_anything_is_read() {
    let only = std::env::var("CELLAR_COMPLEXITY_ONLY").unwrap_or_default();
    let megabytes = std::env::var("CELLAR_PIPELINE_MB").map_or(5, |text| text.parse().unwrap());
    let bench = Bench::start_small("160MiB", "96MiB");
    let mut stuck = Vec::new();
    for (protocol, rows) in [(Protocol::Resp, RESP), (Protocol::Memcached, MEMCACHED)] {
        let rows = rows.iter().filter(|row| row.names.contains(&only));
        for probe in rows.flat_map(|row| row.probes) {
            if !bench.amid_pipeline(protocol, probe, megabytes * 1_000_000) {
                stuck.push(*probe);
            }
        }
    }
    assert!(stuck.is_empty(), "not answered:\n{}", stuck.join("\n"));
}

#[test]
fn the_page_is_what_the_table_says() {
    let mut page = String::from(
        "# Complexity of commands\n\n\
         For each command the table shows the cost, the worst input, and the bound on the time for \
         which it\nblocks an event loop. A command that would take more than a few milliseconds \
         runs in steps: the first\n50 microseconds at once, then one step per event-loop \
         iteration. Other commands run between the steps\nand see the completed ones. EXEC and \
         scripts are atomic and do not run in steps. Neither do SPOP,\nZPOPMIN, ZPOPMAX and \
         ZREMRANGEBY*, which change a collection at once: removing half of the members of\n4 MiB \
         blocks the loop for 3 to 8 milliseconds.\n\n\
         An invalidation for a client that tracks a key takes 0.1 to 0.4 microseconds. MSET, DEL \
         and UNLINK\nprocess as many keys per step as cause 16,384 invalidations. Every other \
         request, such as EXEC, a\nscript or a SET that evicts, sends up to 65,536. If there are \
         more, all tracking clients get one full\ninvalidation, as after FLUSHALL.\n\n\
         If the cache is full, the server reclaims the memory for a long value in steps before \
         the command runs;\nthe command is then one step. It copies long arguments and values of \
         other keys in steps too. Commands\nin EXEC and scripts reclaim the memory at once, and \
         so does a command for which the steps found none.\n\n\
         A command has at most 1,048,576 arguments, as in Redis. They are decoded and copied in \
         one iteration,\nwhich takes about 5 milliseconds for 200,000. Pipelined requests of one \
         connection get 1 ms of each\niteration, short ones 0.15 ms, but at least \
         one request runs.\n\n\
         This page is generated from crates/server/tests/complexity/table.rs; the test beside it \
         runs the\nworst inputs.\n",
    );
    for (title, rows) in [
        ("Redis protocol", RESP),
        ("memcached protocol", MEMCACHED),
        ("memcached binary protocol", MEMCACHED_BINARY),
        ("HTTP", HTTP),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| commands | cost | worst input | bound |\n|---|---|---|---|\n"
        );
        for row in rows {
            let names: Vec<String> = words(row.names)
                .iter()
                .map(|name| format!("`{}`", name.replace('|', " ")))
                .collect();
            let (names, cost) = (names.join(", "), cost(row));
            let (worst, bound) = (row.worst, row.bound);
            let _ = writeln!(page, "| {names} | {cost} | {worst} | {bound} |");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/complexity.md");
    if std::env::var_os("CELLAR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/complexity.md is stale; CELLAR_BLESS=1 regenerates it"
    );
}
