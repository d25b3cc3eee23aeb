//! RESP, administration: what operators and libraries ask a server, and what they may change.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, error, ok};

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Value::Verbatim(text) | Value::Simple(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

fn field(info: &str, name: &str) -> String {
    let line = info.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then(|| value.to_owned())
    });
    line.unwrap_or_else(|| panic!("INFO has no {name}: {info}"))
}

#[test]
fn info_tells_what_exporters_and_libraries_read() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SET key value EX 1000");
    client.run("GET key");
    client.run("GET nothing");
    assert!(matches!(client.run("SELECT x"), Value::Error(_)));
    client.run("SELECT 3");
    client.run("SET a b");
    client.run("SET b b");
    let info = text(client.run("INFO"));
    for (name, expected) in [
        ("redis_version", "7.4.0"),
        ("redis_mode", "standalone"),
        ("tcp_port", daemon.resp.rsplit(':').next().unwrap()),
        ("connected_clients", "1"),
        ("maxmemory", "67108864"),
        ("maxmemory_policy", "allkeys-lfu"),
        ("loading", "0"),
        ("role", "master"),
        ("connected_slaves", "0"),
        ("cluster_enabled", "0"),
        ("keyspace_hits", "1"),
        ("keyspace_misses", "1"),
        ("total_commands_processed", "8"),
        ("db3", "keys=2,expires=0,avg_ttl=0"),
        ("errorstat_ERR", "count=1"),
    ] {
        assert_eq!(field(&info, name), expected, "{name}");
    }
    for name in ["used_memory", "used_memory_rss", "total_system_memory"] {
        assert!(field(&info, name).parse::<u64>().unwrap() > 0, "{name}");
    }
    assert_eq!(field(&info, "run_id").len(), 40);
    assert!(!info.contains("# Commandstats"));
    let calls = text(client.run("INFO commandstats"));
    assert!(calls.starts_with("# Commandstats\r\n"));
    assert!(field(&calls, "cmdstat_get").starts_with("calls=2,usec="));
    assert_eq!(text(client.run("INFO nosuch")), "");
    assert_eq!(client.run("CONFIG RESETSTAT"), ok());
    let info = text(client.run("INFO stats"));
    assert_eq!(field(&info, "keyspace_hits"), "0");
    assert_eq!(field(&info, "total_error_replies"), "0");
}

#[test]
fn settings_are_found_by_pattern_and_only_some_change() {
    let daemon = Daemon::start(&["--databases", "20"]);
    let mut client = Client::connect(&daemon);
    assert_eq!(
        client.run("CONFIG GET DATABASES"),
        bulks(&["databases", "20"])
    );
    assert_eq!(client.run("CONFIG GET save"), bulks(&["save", ""]));
    let Value::Array(found) = client.run("CONFIG GET maxmemory* hz") else {
        panic!("CONFIG GET answers an array");
    };
    assert!(found.contains(&bulk("maxmemory-policy")) && found.contains(&bulk("hz")));
    assert_eq!(client.run("CONFIG SET hz 10 appendonly NO"), ok());
    assert_eq!(client.run("CONFIG GET hz"), bulks(&["hz", "10"]));
    for (request, reply) in [
        (
            "CONFIG SET nosuch 1",
            "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        ),
        (
            "CONFIG SET hz 20",
            "ERR CONFIG SET failed (possibly related to argument 'hz') - Cellar does not \
             implement this parameter",
        ),
        (
            "CONFIG SET appendonly yes",
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Cellar does not \
             implement this parameter",
        ),
        (
            "CONFIG SET active-expire-effort 11",
            "ERR CONFIG SET failed (possibly related to argument 'active-expire-effort') - \
             argument must be between 1 and 10 inclusive",
        ),
        (
            "CONFIG SET databases 3",
            "ERR CONFIG SET failed (possibly related to argument 'databases') - can't set \
             immutable config",
        ),
        (
            "CONFIG SET hz 1 hz 2",
            "ERR CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter",
        ),
        ("CONFIG SET hz 1 port", "ERR syntax error"),
        (
            "CONFIG GET",
            "ERR wrong number of arguments for 'config|get' command",
        ),
        (
            "CONFIG NOSUCH",
            "ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.",
        ),
        (
            "CONFIG REWRITE",
            "ERR The server is running without a config file",
        ),
    ] {
        assert_eq!(client.run(request), error(reply), "{request}");
    }
}

#[test]
fn commands_are_described_as_redis_describes_them() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let statuses = |words: &[&str]| {
        let words = words.iter().map(|&word| Value::Simple(word.to_owned()));
        Value::Set(words.collect())
    };
    let map = |pairs: Vec<(&str, Value)>| {
        let pairs = pairs.into_iter().map(|(name, value)| (bulk(name), value));
        Value::Map(pairs.collect())
    };
    let number = Value::Integer;
    let get = Value::Array(vec![
        bulk("get"),
        number(2),
        statuses(&["readonly", "fast"]),
        number(1),
        number(1),
        number(1),
        statuses(&["@read", "@fast", "@string"]),
        Value::Set(vec![]),
        Value::Set(vec![map(vec![
            ("flags", statuses(&["RO", "access"])),
            (
                "begin_search",
                map(vec![
                    ("type", bulk("index")),
                    ("spec", map(vec![("index", number(1))])),
                ]),
            ),
            (
                "find_keys",
                map(vec![
                    ("type", bulk("range")),
                    (
                        "spec",
                        map(vec![
                            ("lastkey", number(0)),
                            ("keystep", number(1)),
                            ("limit", number(0)),
                        ]),
                    ),
                ]),
            ),
        ])]),
        Value::Array(vec![]),
    ]);
    assert_eq!(
        client.run("COMMAND INFO get nosuch"),
        Value::Array(vec![get, Value::Null])
    );
}

#[test]
fn commands_tell_how_a_cluster_client_sends_them_to_several_nodes() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let check = |client: &mut Client, name: &str, expected: &[&str]| {
        let Value::Array(rows) = client.run(&format!("COMMAND INFO {name}")) else {
            panic!("COMMAND INFO answers an array");
        };
        let Value::Array(fields) = &rows[0] else {
            panic!("a command is an array: {rows:?}");
        };
        let tips = expected.iter().map(|tip| bulk(tip)).collect();
        let is_resp3 = matches!(fields[7], Value::Set(_));
        let tips = if is_resp3 {
            Value::Set(tips)
        } else {
            Value::Array(tips)
        };
        assert_eq!(fields[7], tips, "{name}");
    };
    for version in ["HELLO 2", "HELLO 3"] {
        client.run(version);
        for (name, tips) in [
            ("get", &[][..]),
            ("mget", &["request_policy:multi_shard"]),
            (
                "mset",
                &[
                    "request_policy:multi_shard",
                    "response_policy:all_succeeded",
                ],
            ),
            (
                "del",
                &["request_policy:multi_shard", "response_policy:agg_sum"],
            ),
            (
                "dbsize",
                &["request_policy:all_shards", "response_policy:agg_sum"],
            ),
            (
                "flushall",
                &["request_policy:all_shards", "response_policy:all_succeeded"],
            ),
            (
                "script|load",
                &["request_policy:all_nodes", "response_policy:all_succeeded"],
            ),
            ("spop", &["nondeterministic_output"]),
            ("hgetall", &["nondeterministic_output_order"]),
        ] {
            check(&mut client, name, tips);
        }
    }
}

#[test]
fn commands_are_counted_listed_and_taken_apart() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let Value::Integer(count) = client.run("COMMAND COUNT") else {
        panic!("COMMAND COUNT answers a number");
    };
    let Value::Array(all) = client.run("COMMAND") else {
        panic!("COMMAND answers an array");
    };
    assert_eq!(i64::try_from(all.len()).unwrap(), count);
    let Value::Array(names) = client.run("COMMAND LIST") else {
        panic!("COMMAND LIST answers an array");
    };
    let count_of = |is_sub: bool| {
        let is_wanted = |name: &&Value| name.shown().contains('|') == is_sub;
        names.iter().filter(is_wanted).count()
    };
    assert_eq!(i64::try_from(count_of(false)).unwrap(), count);
    assert!(count_of(true) > 50 && names.contains(&bulk("config|get")));
    client.check(
        "COMMAND LIST FILTERBY MODULE x => []
         COMMAND LIST FILTERBY ACLCAT nosuch => []
         COMMAND LIST FILTERBY ACLCAT transaction => [multi, exec, discard, watch, unwatch]
         COMMAND LIST FILTERBY x y => -ERR syntax error
         COMMAND INFO nosuch => [nil]",
    );
    assert_eq!(
        client.run("COMMAND GETKEYS mset a 1 b 2"),
        bulks(&["a", "b"])
    );
    assert_eq!(
        client.run("COMMAND GETKEYS ping x"),
        error("ERR The command has no key arguments")
    );
    assert_eq!(
        client.run("COMMAND LIST FILTERBY PATTERN hincr*"),
        bulks(&["hincrby", "hincrbyfloat"])
    );
    let Value::Map(docs) = client.run("COMMAND DOCS memory") else {
        panic!("COMMAND DOCS answers a map");
    };
    assert_eq!(docs[0].0, bulk("memory"));
}

#[test]
fn command_docs_tell_arguments_as_redis_does() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let field = |map: &Value, name: &str| {
        let Value::Map(pairs) = map else {
            panic!("{map:?} is no map");
        };
        let found = pairs.iter().find(|(key, _)| *key == bulk(name));
        found.map(|(_, value)| value.clone())
    };
    let docs = client.run("COMMAND DOCS getex config|set");
    let getex = field(&docs, "getex").unwrap();
    let Some(Value::Array(arguments)) = field(&getex, "arguments") else {
        panic!("{getex:?}");
    };
    assert_eq!(field(&getex, "complexity"), Some(bulk("O(1)")));
    assert_eq!(field(&arguments[0], "type"), Some(bulk("key")));
    assert_eq!(
        field(&arguments[0], "key_spec_index"),
        Some(Value::Integer(0))
    );
    assert_eq!(field(&arguments[1], "type"), Some(bulk("oneof")));
    let Some(Value::Array(expirations)) = field(&arguments[1], "arguments") else {
        panic!("{arguments:?}");
    };
    assert_eq!(field(&expirations[0], "token"), Some(bulk("EX")));
    assert_eq!(field(&expirations[0], "name"), Some(bulk("seconds")));
    assert_eq!(field(&expirations[4], "type"), Some(bulk("pure-token")));
    let set = field(&docs, "config|set").unwrap();
    assert!(field(&set, "arguments").is_some(), "{set:?}");
}

#[test]
fn every_container_explains_its_subcommands() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for container in [
        "CONFIG", "COMMAND", "MEMORY", "SLOWLOG", "LATENCY", "ACL", "CLIENT",
    ] {
        let Value::Array(lines) = client.run(&format!("{container} HELP")) else {
            panic!("{container} HELP answers an array");
        };
        let first = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        assert_eq!(lines[0], Value::Simple(first));
        assert!(lines.contains(&Value::Simple("HELP".to_owned())));
    }
}

#[test]
fn slow_commands_are_listed_with_who_sent_them() {
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    assert_eq!(
        client.run("CONFIG SET slowlog-log-slower-than 100000"),
        ok()
    );
    assert_eq!(client.run("DEBUG SLEEP 0.15"), ok());
    client.run("PING");
    assert_eq!(client.run("SLOWLOG LEN"), Value::Integer(1));
    let Value::Array(entries) = client.run("SLOWLOG GET") else {
        panic!("SLOWLOG GET answers an array");
    };
    let Value::Array(entry) = &entries[0] else {
        panic!("an entry is an array");
    };
    assert_eq!(entry[3], bulks(&["DEBUG", "SLEEP", "0.15"]));
    assert!(matches!(entry[2], Value::Integer(150_000..)));
    assert_eq!(client.run("SLOWLOG RESET"), ok());
    assert_eq!(client.run("SLOWLOG GET"), Value::Array(vec![]));
    assert_eq!(client.run("CONFIG SET slowlog-log-slower-than 0"), ok());
    client.run("PING");
    assert_eq!(client.run("CONFIG SET slowlog-max-len 1"), ok());
    assert_eq!(client.run("SLOWLOG LEN"), Value::Integer(1));
}

#[test]
fn the_slow_log_keeps_as_many_as_it_says() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let reply = text_of_error(client.run("CONFIG SET slowlog-max-len 100000000"));
    assert!(reply.contains("between 0 and 10000 inclusive"), "{reply}");
    assert_eq!(
        client.run("CONFIG GET slowlog-max-len"),
        bulks(&["slowlog-max-len", "128"])
    );
    assert_eq!(client.run("CONFIG SET slowlog-max-len 10000"), ok());
}

#[test]
fn debug_is_refused_unless_the_settings_allow_it() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for request in ["DEBUG SLEEP 0", "DEBUG NOSUCH"] {
        let reply = text_of_error(client.run(request));
        assert!(
            reply.starts_with("ERR DEBUG command not allowed."),
            "{reply}"
        );
    }
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    assert_eq!(client.run("DEBUG PAUSE-CRON 0"), ok());
    assert_eq!(client.run("DEBUG PROTOCOL true"), Value::Integer(1));
    client.run("HELLO 3");
    assert_eq!(client.run("DEBUG PROTOCOL true"), Value::Boolean(true));
    let pushed = Value::Push(vec![bulk("server-cpu-usage"), Value::Integer(42)]);
    assert_eq!(client.run("DEBUG PROTOCOL push"), pushed);
    assert_eq!(
        client.read(),
        bulk("Some real reply following the push reply")
    );
    let reply = text_of_error(client.run("DEBUG NOSUCH"));
    assert!(reply.starts_with("ERR unknown subcommand or wrong number"));
}

fn text_of_error(value: Value) -> String {
    match value {
        Value::Error(text) => text,
        other => panic!("no error: {other:?}"),
    }
}

#[test]
fn shutdown_drains_and_ends_the_server() {
    let mut daemon = Daemon::spawn(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SHUTDOWN MAYBE"), error("ERR syntax error"));
    assert_eq!(
        client.run("SHUTDOWN ABORT"),
        error("ERR No shutdown in progress.")
    );
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    assert!(client.is_closed());
    assert!(daemon.wait().success());
}

#[test]
fn questions_about_other_servers_and_users_have_plain_answers() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(
        client.run("ROLE"),
        Value::Array(vec![
            bulk("master"),
            Value::Integer(0),
            Value::Array(vec![])
        ])
    );
    assert_eq!(
        client.run("CLUSTER INFO"),
        error("ERR This instance has cluster support disabled")
    );
    assert_eq!(client.run("ACL WHOAMI"), bulk("default"));
    assert_eq!(
        client.run("ACL LIST"),
        bulks(&["user default on nopass ~* &* +@all"])
    );
    assert_eq!(
        client.run("ACL CAT nosuch"),
        error("ERR Unknown category 'nosuch'")
    );
    assert_eq!(client.run("LATENCY LATEST"), Value::Array(vec![]));
    assert_eq!(client.run("LATENCY RESET"), Value::Integer(0));
    assert_eq!(client.run("FUNCTION FLUSH"), ok());
    let Value::Array(time) = client.run("TIME") else {
        panic!("TIME answers an array");
    };
    assert_eq!(time.len(), 2);
    client.run("SET key value");
    let Value::Integer(bytes) = client.run("MEMORY USAGE key SAMPLES 0") else {
        panic!("MEMORY USAGE answers a number");
    };
    assert!((8..100).contains(&bytes));
    assert_eq!(client.run("MEMORY USAGE nothing"), Value::Null);
    client.run("HSET hash field value");
    let usage = client.run("MEMORY USAGE hash");
    assert!(
        matches!(usage, Value::Integer(bytes) if bytes > 14),
        "{usage:?}"
    );
}

#[test]
fn memory_stats_has_the_fields_that_clients_read_by_name() {
    let daemon = Daemon::start(&[]);
    let stats = Client::connect(&daemon).run("MEMORY STATS").shown();
    for name in [
        "allocator-fragmentation.ratio",
        "allocator-rss.ratio",
        "allocator-rss.bytes",
        "rss-overhead.ratio",
        "rss-overhead.bytes",
        "fragmentation",
    ] {
        assert!(stats.contains(name), "{name} in {stats}");
    }
}

#[test]
fn deleted_bytes_are_reclaimable_and_not_stale() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for number in 0..3_000 {
        client.run(&format!("SET key:{number} value-of-some-length EX 86400"));
    }
    for number in (0..3_000).step_by(3) {
        client.run(&format!("DEL key:{number}"));
    }
    let info = client.run("INFO").shown();
    let field = |name: &str| {
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name} in {info}"))
    };
    assert_eq!(field("expired_stale_perc"), "0.00");
    assert_eq!(field("used_memory_overdue"), "0");
    let reclaimable: u64 = field("used_memory_reclaimable").parse().unwrap();
    assert!(reclaimable >= 20_000, "{reclaimable}");
    let stats = client.run("MEMORY STATS").shown();
    for name in ["reclaimable.bytes", "overdue.bytes"] {
        assert!(stats.contains(name), "{stats}");
    }
    let doctor = client.run("MEMORY DOCTOR").shown();
    let sentence = format!("{reclaimable} bytes (");
    assert!(doctor.contains(&sentence), "{doctor}");
}

#[test]
fn roles_of_keys_are_told_key_by_key() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(
        "COMMAND GETKEYSANDFLAGS SET a b => [[a, [+OW, +update]]]
        COMMAND GETKEYSANDFLAGS SET a b GET => [[a, [+RW, +access, +update]]]
        COMMAND GETKEYSANDFLAGS SET a b IFEQ c => [[a, [+RW, +update]]]
        COMMAND GETKEYSANDFLAGS SET a b IFDNE 0123456789abcdef => [[a, [+RW, +update]]]
        COMMAND GETKEYSANDFLAGS SET a b IFEQ c GET => [[a, [+RW, +access, +update]]]
        COMMAND GETKEYSANDFLAGS DELEX a => [[a, [+RM, +delete]]]
        COMMAND GETKEYSANDFLAGS DELEX a IFEQ c => [[a, [+RW, +delete]]]
        COMMAND GETKEYSANDFLAGS COPY a b => [[a, [+RO, +access]], [b, [+OW, +update]]]
        COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 => [[a, [+RO, +access]]]
        COMMAND GETKEYSANDFLAGS SORT a STORE b => [[a, [+RO, +access]], [b, [+OW, +update]]]
        COMMAND GETKEYSANDFLAGS SORT a => [[a, [+RO, +access]]]
        COMMAND GETKEYSANDFLAGS GEORADIUS a 1 1 1 m STORE b => \
         [[a, [+RO, +access]], [b, [+OW, +update]]]
        COMMAND GETKEYSANDFLAGS SPUBLISH a b => [[a, [+not_key]]]
        COMMAND GETKEYS SSUBSCRIBE a b => [a, b]
        COMMAND GETKEYSANDFLAGS RENAME a b => [[a, [+RW, +access, +delete]], [b, [+OW, +update]]]",
    );
}

#[test]
fn info_has_the_fields_of_later_versions() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut other = Client::connect(&daemon);
    let mut listener = Client::connect(&daemon);
    client.run("HSET h a 1 b 2");
    client.run("HPEXPIRE h 10 FIELDS 1 a");
    client.run("CONFIG SET notify-keyspace-events Eh");
    other.run("WATCH a b");
    listener.run("SUBSCRIBE channel");
    daemon.expire(std::time::Duration::from_millis(20));
    assert_eq!(client.run("HGET h a"), Value::Null);
    let info = text(client.run("INFO everything"));
    for (name, expected) in [
        ("pubsub_clients", "1"),
        ("watching_clients", "1"),
        ("total_watched_keys", "2"),
        ("evicted_scripts", "0"),
        ("acl_access_denied_auth", "0"),
        ("acl_access_denied_db", "0"),
        ("expired_subkeys", &field(&info, "expired_fields")),
    ] {
        assert_eq!(field(&info, name), expected, "{name}");
    }
    for name in ["eventloop_cycles", "used_memory_peak_time"] {
        assert!(field(&info, name).parse::<u64>().unwrap() > 0, "{name}");
    }
    for name in [
        "eventloop_duration_sum",
        "eventloop_duration_cmd_sum",
        "instantaneous_eventloop_cycles_per_sec",
        "instantaneous_eventloop_duration_usec",
        "used_active_time_main_thread",
    ] {
        assert!(field(&info, name).parse::<f64>().is_ok(), "{name}");
    }
}

#[test]
fn modules_and_replication_are_answered_as_of_a_server_that_has_none() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(
        "MODULE LIST => []
        MODULE LOAD x => -ERR unknown subcommand 'LOAD'. Try MODULE HELP.
        REPLICAOF NO ONE => +OK
        SLAVEOF no one => +OK
        REPLICAOF host 6379 => -ERR this server does not replicate: REPLICAOF takes NO ONE only
        FAILOVER => -ERR FAILOVER requires connected replicas.
        FAILOVER ABORT => -ERR No failover in progress.
        LOLWUT VERSION x => -ERR value is not an integer or out of range",
    );
    for request in ["LOLWUT", "LOLWUT VERSION 5 1 2"] {
        let shown = client.run(request).shown();
        assert!(shown.contains("Redis ver. "), "{shown}");
    }
}

#[test]
fn the_slow_log_of_commandlog_is_the_one_of_slowlog() {
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    client.run("CONFIG SET slowlog-log-slower-than 100000");
    assert_eq!(client.run("DEBUG SLEEP 0.15"), ok());
    assert_eq!(client.run("COMMANDLOG LEN slow"), Value::Integer(1));
    assert_eq!(
        client.run("COMMANDLOG GET -1 SLOW"),
        client.run("SLOWLOG GET")
    );
    client.check(
        "COMMANDLOG GET 0 slow => []
        COMMANDLOG GET -2 slow => -ERR count should be greater than or equal to -1
        COMMANDLOG GET 1 fast => \
         -ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG RESET slow => +OK
        COMMANDLOG LEN slow => :0",
    );
}

#[test]
fn a_policy_that_evicts_any_key_may_be_set_under_each_of_its_names() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for policy in [
        "allkeys-lru",
        "ALLKEYS-LRM",
        "allkeys-random",
        "allkeys-lfu",
    ] {
        assert_eq!(
            client.run(&format!("CONFIG SET maxmemory-policy {policy}")),
            ok()
        );
        let policy = policy.to_lowercase();
        client.check(&format!(
            "CONFIG GET maxmemory-policy => [maxmemory-policy, {policy}]"
        ));
        assert_eq!(
            field(&text(client.run("INFO memory")), "maxmemory_policy"),
            policy
        );
    }
    for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
        let refused = text_of_error(client.run(&format!("CONFIG SET maxmemory-policy {policy}")));
        assert!(
            refused.ends_with("use --noeviction-databases for databases without eviction"),
            "{refused}"
        );
    }
    let refused = text_of_error(client.run("CONFIG SET maxmemory-policy best"));
    assert!(
        refused.contains("must be one of the following"),
        "{refused}"
    );
}

#[test]
fn memory_is_changed_while_it_runs() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut client = Client::connect(&daemon);
    let value = vec![b'v'; 10_000];
    let fill = |client: &mut Client| {
        for number in 0..8_000 {
            client.send(&[b"SET", format!("key{number}").as_bytes(), &value]);
        }
        (0..8_000).for_each(|_| assert_eq!(client.read(), ok()));
    };
    let used = |client: &mut Client| {
        let info = text(client.run("INFO memory"));
        field(&info, "used_memory").parse::<u64>().unwrap()
    };
    fill(&mut client);
    assert!(used(&mut client) > 50 << 20);
    assert_eq!(client.run("CONFIG SET maxmemory 20mb"), ok());
    client.check("CONFIG GET maxmemory => [maxmemory, 20971520]");
    assert_eq!(
        field(&text(client.run("INFO memory")), "maxmemory"),
        "20971520"
    );
    let step = std::time::Duration::from_millis(10);
    daemon.advance_until("items are evicted", step, || used(&mut client) <= 20 << 20);
    fill(&mut client);
    assert!(used(&mut client) <= 20 << 20);
    assert_eq!(client.run("CONFIG SET maxmemory 67108864"), ok());
    // What was given back is there again a little later.
    daemon.advance_until("all memory is used", step, || {
        fill(&mut client);
        used(&mut client) > 50 << 20
    });
    for wrong in ["0", "65mb", "15mb"] {
        let refused = "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - \
            maxmemory must be from 16777216 to 67108864 bytes, the --memory of the start";
        assert_eq!(
            client.run(&format!("CONFIG SET maxmemory {wrong}")),
            error(refused)
        );
    }
}

#[test]
fn info_keysizes_counts_the_lengths_of_all_values() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for number in 0..10_000 {
        client.run(&format!("SET key:{number} twelve-bytes"));
    }
    for command in [
        // With an empty value behind the blank.
        "SET empty ",
        "SETRANGE long 1500 x",
        "RPUSH list 1 2 3 4 5",
        "SADD set 1",
        "SADD timed a b c",
        "SEXPIRE timed 100 MEMBERS 1 a",
        "ZADD sorted 1 a 2 b",
        "HSET hash a 1 b 2 c 3 d 4",
        "SELECT 3",
        "RPUSH list 1",
        "SET number 7",
    ] {
        client.run(command);
    }
    let expected = "# Keysizes\r\n\
         db0_distrib_strings_sizes:0=1,8=10000,1K=1\r\n\
         db0_distrib_lists_items:4=1\r\n\
         db0_distrib_sets_items:1=1,2=1\r\n\
         db0_distrib_zsets_items:2=1\r\n\
         db0_distrib_hashes_items:4=1\r\n\
         db3_distrib_strings_sizes:1=1\r\n\
         db3_distrib_lists_items:1=1\r\n";
    assert_eq!(text(client.run("INFO keysizes")), expected);
    let both = text(client.run("INFO keysizes modules"));
    assert_eq!(both, format!("# Modules\r\n\r\n{expected}"));
    for general in ["INFO", "INFO all", "INFO everything"] {
        let shown = text(client.run(general));
        assert!(
            !shown.contains("Keysizes"),
            "{general}: it looks at all keys"
        );
    }
    let in_script = client.run("EVAL return(redis.call('INFO','keysizes')) 0");
    assert_eq!(text(in_script), expected);
}
