//! The text for Prometheus, and what in deploy/ reads it: promtool takes all of it, and every name
//! that a dashboard or an alert uses is there.

use crate::support::{daemon, http, tls};

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_config::settings::Settings;
use cellar_engine::{Cache, Config, SetOptions};
use cellar_net::tls::Keys;
use cellar_shared::metrics::deprecated::DEPRECATED;
use cellar_shared::metrics::text::MetricType;
use cellar_shared::metrics::{FAMILIES, exposition};
use cellar_shared::state::State;
use daemon::Daemon;
use http::Http;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn deploy(file: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(file)).unwrap()
}

/// The state of a daemon that has had some requests.
fn state() -> State {
    let cache = Cache::new(Config::with_memory(8 << 20)).unwrap();
    let authority = tls::Authority::new();
    authority.issue("server", "localhost", &["localhost"]);
    let settings = Settings {
        threads: 2,
        tls_cert: vec![authority.path("server.pem").into()],
        tls_key: vec![authority.path("server.key").into()],
        ..Settings::default()
    };
    let keys = Keys::load(&settings).unwrap();
    let mut state = State::new(cache, settings, 1_700_000_000_000);
    state.tls = Some(Arc::new(keys));
    let hour = SetOptions {
        deadline: state.cache.now().plus_ms(3_600_000),
        ..SetOptions::default()
    };
    for (database, options) in [(0, SetOptions::default()), (3, hour)] {
        let space = state.databases.space(database);
        let key = state.cache.key_in(space, b"key").unwrap();
        state.cache.set(key, b"value", &options).unwrap();
        assert!(state.cache.get(key, |_| ()).is_some());
    }
    for (counters, us) in state.statistics.loops.iter().zip([40, 15_000_000]) {
        counters.cmd_get.add(7);
        counters.get_hits.add(5);
        counters.load.note_turn(&[2, 1, 0], us);
        counters.load.note_opened(Protocol::Resp);
        counters.calls.add(cellar_protocol::resp::Verb::Get);
    }
    state
}

/// What promtool says.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(root().join(".tools/bin/promtool"))
        .args(arguments)
        .current_dir(root().join("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`make tools` installs promtool");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// The names of all families, with what a histogram's samples are called.
fn exposed() -> BTreeSet<String> {
    let text = exposition(&state());
    let mut names = BTreeSet::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert!(names.insert(name.to_owned()), "{name} stands there twice");
            if kind == "histogram" {
                names.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")));
            }
        }
    }
    names
}

/// The value of the sample that a line begins with.
fn value(text: &str, sample: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{sample} ")));
    line.unwrap_or_else(|| panic!("no {sample}"))
        .parse()
        .unwrap()
}

/// Every word of an expression that is the name of a figure.
fn names_in(expression: &str) -> Vec<&str> {
    const PREFIXES: [&str; 4] = ["cellar_", "memcached_", "redis_", "process_"];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c| !is_word(c));
    words
        .filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

#[test]
fn promtool_finds_nothing_wrong_with_the_text() {
    let said = promtool(&["check", "metrics"], &exposition(&state()));
    assert_eq!(said, "");
}

#[test]
fn the_text_tells_what_was_counted() {
    let text = exposition(&state());
    for (sample, expected) in [
        ("cellar_cmd_get_total", 14.0),
        (
            "memcached_commands_total{command=\"get\",status=\"hit\"}",
            10.0,
        ),
        ("redis_keyspace_hits_total", 10.0),
        ("redis_commands_total{cmd=\"get\"}", 2.0),
        ("redis_db_keys{db=\"db3\"}", 1.0),
        ("redis_db_keys_expiring{db=\"db3\"}", 1.0),
        ("cellar_database_keys{database=\"0\"}", 1.0),
        ("cellar_memory_bytes", f64::from(8 << 20)),
        ("cellar_requests_total{protocol=\"memcached\"}", 4.0),
        ("cellar_open_connections{protocol=\"resp\"}", 2.0),
        ("cellar_thread_busy_seconds_total{thread=\"1\"}", 15.0),
        (
            "cellar_request_duration_seconds_bucket{protocol=\"resp\",le=\"0.00002\"}",
            0.0,
        ),
        (
            "cellar_request_duration_seconds_bucket{protocol=\"resp\",le=\"0.00005\"}",
            1.0,
        ),
        (
            "cellar_request_duration_seconds_bucket{protocol=\"resp\",le=\"10\"}",
            1.0,
        ),
        (
            "cellar_request_duration_seconds_bucket{protocol=\"resp\",le=\"+Inf\"}",
            2.0,
        ),
        (
            "cellar_request_duration_seconds_count{protocol=\"memcached\"}",
            4.0,
        ),
        ("cellar_expiring_items{within=\"minute\"}", 0.0),
        ("cellar_expiring_items{within=\"day\"}", 1.0),
        ("cellar_expiring_items{within=\"never\"}", 1.0),
    ] {
        assert!((value(&text, sample) - expected).abs() < 1e-9, "{sample}");
    }
}

/// What breaks Prometheus's rules in a name of ours.
///
/// Source: prometheus.io/docs/practices/naming.
fn naming_problem(name: &str, kind: &str, help: &str) -> Option<&'static str> {
    // Suffixes of samples, and units that are no base units.
    const TAKEN: [&str; 4] = ["_count", "_sum", "_bucket", "_total"];
    const NO_BASE_UNIT: [&str; 7] = ["percent", "ppm", "share", "ms", "us", "kb", "minutes"];
    const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];
    let base = name.strip_suffix("_total").unwrap_or(name);
    let words: Vec<&str> = base.split('_').collect();
    let is_time = help.contains("Unix time");
    let is_named_as_time =
        name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds";
    if kind == "counter" && base == name {
        Some("a counter without _total")
    } else if kind != "counter" && TAKEN.iter().any(|suffix| name.ends_with(suffix)) {
        Some("the suffix of a counter or of a histogram's samples")
    } else if words.iter().any(|word| NO_BASE_UNIT.contains(word)) {
        Some("a unit that is no base unit")
    } else if words[..words.len() - 1]
        .iter()
        .any(|word| UNITS.contains(word))
    {
        Some("a unit that is not the last word")
    } else if is_time != is_named_as_time {
        Some("a Unix time without _timestamp_seconds, or the reverse")
    } else {
        None
    }
}

/// Name, type and help of each family.
fn families(text: &str) -> Vec<(&str, &str, &str)> {
    let families = text.split("# HELP ").skip(1);
    let parts = families.map(|family| {
        let (head, rest) = family.split_once('\n').unwrap();
        let (name, help) = head.split_once(' ').unwrap();
        let (kind, _) = rest.split_once('\n').unwrap();
        (name, kind.rsplit(' ').next().unwrap(), help)
    });
    parts.collect()
}

/// The problems of all names of ours that are not deprecated.
fn naming_problems<'t>(families: &[(&'t str, &str, &str)]) -> Vec<(&'t str, &'static str)> {
    let names: BTreeSet<&str> = families.iter().map(|(name, ..)| *name).collect();
    let ours = families.iter().filter(|(name, _, help)| {
        (name.starts_with("cellar_") || name.starts_with("process_"))
            && !help.starts_with("Deprecated: ")
    });
    let problems = ours.filter_map(|&(name, kind, help)| {
        let base = name
            .strip_suffix("_total")
            .filter(|base| names.contains(base));
        let clash = base.map(|_| "a counter with the name of another metric");
        Some((name, naming_problem(name, kind, help).or(clash)?))
    });
    problems.collect()
}

#[test]
fn a_running_server_names_its_metrics_by_the_rules_of_prometheus() {
    let authority = tls::Authority::new();
    authority.issue("server", "localhost", &["localhost"]);
    let files = ["server.pem", "server.key"].map(|file| authority.path(file));
    let flags = [
        "--memcached",
        "tls:127.0.0.1:0",
        "--tls-cert",
        &files[0],
        "--tls-key",
        &files[1],
    ];
    let daemon = Daemon::start(&flags);
    let answer = Http::to(&daemon).get("/metrics");
    let families = families(answer.text());
    assert!(families.len() > 150, "{}", families.len());
    assert_eq!(naming_problems(&families), []);
    // Those of a cluster's node, too.
    let rows = FAMILIES.into_iter().flatten().map(|family| {
        let kind = match family.kind {
            MetricType::Count => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        (family.name, kind, family.help)
    });
    assert_eq!(naming_problems(&rows.collect::<Vec<_>>()), []);
}

#[test]
fn an_old_name_is_shown_with_the_new_one_and_says_so() {
    let text = exposition(&state());
    let first = |name: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut samples = lines.filter(|line| line.split(['{', ' ']).next() == Some(name));
        let value = samples.next().and_then(|line| line.rsplit(' ').next());
        value.map(|value| value.parse::<f64>().unwrap())
    };
    for old in DEPRECATED
        .iter()
        .filter(|old| !old.name.starts_with("cellar_cluster_"))
    {
        let help = format!(
            "# HELP {} Deprecated: use {}. Removed in 0.2.\n",
            old.old, old.name
        );
        assert!(text.contains(&help), "{help}");
        let (now, before) = (first(old.name).unwrap(), first(old.old).unwrap());
        let scaled = now * f64::from(old.per_unit);
        assert!(
            (scaled - before).abs() < 1e-6 * before.max(1.0),
            "{}",
            old.old
        );
    }
}

#[test]
fn no_dashboard_and_no_alert_reads_an_old_name() {
    for file in ["grafana/cellar.json", "prometheus/cellar.rules.yml"] {
        let text = deploy(file);
        for name in names_in(&text) {
            assert!(
                DEPRECATED.iter().all(|old| old.old != name),
                "{file}: {name}"
            );
        }
    }
}

#[test]
fn dashboards_of_the_usual_exporters_find_their_names() {
    // Sources: memcached-mixin and redis-mixin of grafana/jsonnet-libs, dashboards 37, 763 and
    // 11835 of grafana.com, the exporters' own examples.
    let wanted = "memcached_up memcached_version memcached_uptime_seconds memcached_time_seconds \
        memcached_commands_total memcached_current_bytes memcached_limit_bytes \
        memcached_current_items memcached_items_total memcached_items_evicted_total \
        memcached_items_reclaimed_total memcached_read_bytes_total memcached_written_bytes_total \
        memcached_current_connections memcached_max_connections memcached_connections_total \
        memcached_connections_rejected_total memcached_malloced_bytes redis_up \
        redis_uptime_in_seconds redis_start_time_seconds redis_instance_info \
        redis_connected_clients redis_blocked_clients redis_memory_used_bytes \
        redis_memory_max_bytes redis_memory_used_rss_bytes redis_memory_fragmentation_ratio \
        redis_commands_total redis_commands_processed_total redis_keyspace_hits_total \
        redis_keyspace_misses_total redis_net_input_bytes_total redis_net_output_bytes_total \
        redis_db_keys redis_db_keys_expiring redis_expired_keys_total redis_evicted_keys_total \
        redis_connected_slaves redis_rejected_connections_total \
        redis_connections_received_total redis_total_system_memory_bytes";
    let exposed = exposed();
    let missing: Vec<&str> = wanted
        .split_whitespace()
        .filter(|name| !exposed.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_name_in_deploy_is_shown() {
    let exposed = exposed();
    for file in [
        "grafana/cellar.json",
        "prometheus/cellar.rules.yml",
        "prometheus/cellar.rules.test.yml",
    ] {
        let text = deploy(file);
        let names = names_in(&text);
        assert!(names.len() > 3, "{file} reads nothing");
        for name in names {
            assert!(
                exposed.contains(name),
                "{file} reads {name}, which nothing shows"
            );
        }
    }
}

#[test]
fn the_rules_are_valid_and_do_what_their_tests_say() {
    for arguments in [
        ["check", "rules", "cellar.rules.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "cellar.rules.test.yml"],
    ] {
        promtool(&arguments, "");
    }
}

/// Every query of the dashboard, with its variables as Grafana would fill them in.
fn queries() -> Vec<String> {
    let dashboard: serde_json::Value =
        serde_json::from_str(&deploy("grafana/cellar.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let filled = |query: &str| {
        let query = query.replace("$__rate_interval", "1m");
        query.replace("$job", ".*").replace("$instance", ".*")
    };
    queries.map(filled).collect()
}

#[test]
fn prometheus_understands_every_query_of_the_dashboard() {
    let rule = |(number, query)| serde_json::json!({"record": format!("q{number}"), "expr": query});
    let rules: Vec<serde_json::Value> = (1..).zip(queries()).map(rule).collect();
    let count = rules.len();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yml");
    let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(&file, groups.to_string()).unwrap();
    let said = promtool(&["check", "rules", file.to_str().unwrap()], "");
    assert!(
        said.contains(&format!("{count} rules found")) && count > 20,
        "{said}"
    );
}

#[test]
fn the_dashboard_can_be_imported_and_has_all_its_panels() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&deploy("grafana/cellar.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    assert!(dashboard.get("id").is_none(), "an id is another instance's");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["type"], "datasource");
    let (mut ids, mut places, mut text) = (BTreeSet::new(), BTreeSet::new(), String::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()));
        let place = &panel["gridPos"];
        let corner = (place["x"].as_u64().unwrap(), place["y"].as_u64().unwrap());
        assert!(places.insert(corner) && corner.0 + place["w"].as_u64().unwrap() <= 24);
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            assert!(!names_in(expression).is_empty(), "{expression}");
            text.push_str(expression);
        }
    }
    for name in [
        "cellar_requests_total",
        "cellar_gets_total",
        "cellar_miss_reasons_total",
        "cellar_request_duration_seconds_bucket",
        "cellar_memory_state_bytes",
        "cellar_expiry_lag_seconds_bucket",
        "cellar_curve_misses_total",
        "cellar_evicted_total",
        "cellar_open_connections",
        "cellar_thread_busy_seconds_total",
    ] {
        assert!(text.contains(name), "no panel shows {name}");
    }
}
