//! Replays through the real program: every form of a trace, its errors, its report.
//!
//! The sample trace is drawn here from a seed: some popular keys, some scans, sizes and TTLs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::program::{Folder, PROGRAM};
use cellar_load::Random;
use serde_json::Value;

const ROWS: u64 = 30_000;
const KEYS: u64 = 6_000;

/// Fields of a report that others rely on.
const CONTRACT: [&str; 12] = [
    "requests",
    "hits",
    "misses",
    "miss_ratio",
    "items",
    "live_bytes",
    "dead_at_eviction_max_pct",
    "dead_mean_pct",
    "evicted",
    "expired",
    "rss_bytes",
    "overhead_bytes_per_item",
];

/// Requests at 100 a second: popular keys and, one in five, a key that comes by once.
fn sample(has_ttl: bool) -> String {
    let mut random = Random::seeded(42);
    let mut text = "op,ttl_s,key,time_s,value_bytes\n".to_owned();
    for row in 0..ROWS {
        let popular = random.unit().powi(3) * KEYS as f64;
        let key = match random.below(5) {
            0 => format!("once-{row}"),
            _ => format!("key-{popular:.0}"),
        };
        let op = ["get", "get", "", "set"][random.below(4) as usize];
        let ttl = match random.below(3) {
            0 if has_ttl => format!("{}.{}", random.below(90), random.below(10)),
            _ => "0".to_owned(),
        };
        let (seconds, bytes) = (row as f64 / 100.0, 20 + random.below(900));
        writeln!(text, "{op},{ttl},{key},{seconds},{bytes}").unwrap();
    }
    text
}

/// The same with all values of one length.
fn alike(sample: &str, value_bytes: u32) -> String {
    let mut lines = sample.lines();
    let header = lines.next().unwrap().to_owned() + "\n";
    let rows = lines.map(|line| line.rsplit_once(',').unwrap().0);
    header
        + &rows
            .map(|row| format!("{row},{value_bytes}\n"))
            .collect::<String>()
}

/// Runs `cellar-bench replay` with bytes on its stdin.
fn replay_of(stdin: &[u8], arguments: &[&str]) -> Output {
    let mut child = Command::new(PROGRAM)
        .arg("replay")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that reads no further closes the pipe.
        scope.spawn(move || pipe.write_all(stdin));
        child.wait_with_output().unwrap()
    })
}

fn replay(arguments: &[&str]) -> Output {
    replay_of(b"", arguments)
}

fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing but the report where no terminal is");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one run of a report.
fn run_of(output: &Output) -> Value {
    report(output)["runs"][0].clone()
}

/// What is found in a trace given on stdin, at 1 MiB.
fn report_of(trace: &str, options: &[&str]) -> Value {
    let arguments = [&["--memory", "1MiB", "--json"], options, &["-"]].concat();
    run_of(&replay_of(trace.as_bytes(), &arguments))
}

/// A report without what differs from run to run.
fn lasting(mut report: Value) -> Value {
    let fields = report.as_object_mut().unwrap();
    for field in ["rss_bytes", "seconds", "trace"] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    report
}

#[test]
fn every_packing_gives_the_same_result_from_a_file_and_from_stdin() {
    let folder = Folder::new();
    let plain = sample(true).into_bytes();
    let (first, second) = plain.split_at(plain.len() / 3);
    let expected = lasting(report_of(std::str::from_utf8(&plain).unwrap(), &[]));
    assert_eq!(expected["requests"], ROWS);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let forms = [
        ("a.csv", plain.clone()),
        ("a.csv.zst", zstd(&plain)),
        // What a file is shows in its content; packed files may be joined.
        ("b.csv", zstd(&plain)),
        ("joined.zst", [zstd(first), zstd(second)].concat()),
    ];
    for (name, bytes) in forms {
        let file = folder.put(name, &bytes);
        let from_file = run_of(&replay(&["--memory", "1MiB", "--json", &file]));
        assert_eq!(from_file["trace"], name.split('.').next().unwrap());
        assert_eq!(lasting(from_file), expected, "{name}");
        let from_stdin = replay_of(&bytes, &["--memory", "1MiB", "--json", "-"]);
        let from_stdin = run_of(&from_stdin);
        assert_eq!(from_stdin["trace"], "stdin");
        assert_eq!(lasting(from_stdin), expected, "{name} on stdin");
    }
}

#[test]
fn a_report_has_every_field_and_they_agree() {
    let report = report_of(&sample(true), &["--baseline", "lru,fifo,s3fifo,belady"]);
    let number = |field: &str| report[field].as_f64().unwrap_or_else(|| panic!("{field}"));
    for field in CONTRACT {
        assert!(number(field) >= 0.0, "{field}");
    }
    let (hits, misses) = (number("hits"), number("misses"));
    assert_eq!(hits + misses + number("sets"), ROWS as f64);
    assert_eq!(number("miss_ratio"), misses / (hits + misses));
    let by_cause = ["misses_absent", "misses_expired", "misses_evicted"];
    assert_eq!(by_cause.map(number).iter().sum::<f64>(), misses);
    assert!(number("expired") > 0.0 && number("evicted") > 0.0 && number("items") > 0.0);
    assert!(number("live_bytes") < 1_048_576.0);
    assert!(number("rss_bytes") < 4e6, "{} B", number("rss_bytes"));
    assert!((5.0..100.0).contains(&number("overhead_bytes_per_item")));
    for name in ["lru", "fifo", "s3fifo", "belady"] {
        let baseline = &report["baselines"][name];
        let ratio = misses / baseline["misses"].as_f64().unwrap();
        // Reading JSON rounds the last digit.
        let off = baseline["engine_misses_ratio"].as_f64().unwrap() - ratio;
        assert!(off.abs() < 1e-12, "{name}: {off}");
    }
}

#[test]
fn who_knows_the_future_misses_least() {
    for trace in [sample(true), alike(&sample(true), 200)] {
        let report = report_of(&trace, &["--baseline=lru,fifo,s3fifo,belady"]);
        let misses = |name: &str| report["baselines"][name]["misses"].as_u64().unwrap();
        for name in ["lru", "fifo", "s3fifo"] {
            assert!(misses("belady") < misses(name), "{name}: {report:#}");
        }
        assert!(misses("lru") < misses("fifo"), "{report:#}");
    }
}

#[test]
fn an_item_is_never_served_late_nor_dropped_early() {
    let trace = "time_s,key,ttl_s\n\
                 1000.000,a,5\n1000.000,b,0.25\n1000.000,c,0\n1000.249,b,9\n1000.250,b,0.25\n\
                 1004.999,a,9\n1005.000,a,5\n1005.001,a,9\n999999.0,c,1\n";
    let report = report_of(trace, &[]);
    // Missed: a, b and c when new, b at its 250th millisecond and a at its fifth second.
    assert_eq!(report["misses_absent"], 3);
    assert_eq!(report["misses_expired"], 2);
    assert_eq!(report["hits"], 4);
    assert_eq!(report["misses_evicted"], 0);
}

#[test]
fn time_that_goes_back_stands_still() {
    let trace = "key,time_s,ttl_s\na,10,5\nb,12,5\na,9,5\na,15,5\n";
    let report = report_of(trace, &[]);
    assert_eq!((&report["hits"], &report["misses"]), (&1.into(), &3.into()));
}

#[test]
fn only_the_key_is_required() {
    let report = report_of("key\na\nb\n\"a\"\n\n b \n", &["--baseline", "lru"]);
    assert_eq!((&report["hits"], &report["misses"]), (&2.into(), &2.into()));
    // Two keys of one byte with values of 100 bytes and 17 bytes of overhead.
    assert_eq!(report["footprint_bytes"], 2 * 118);
    assert_eq!(report["baselines"]["lru"]["misses"], 2);
}

#[test]
fn a_length_of_zero_is_a_hundred_bytes() {
    let report = report_of("key,value_bytes\na,0\nb,\nc,50\n", &[]);
    assert_eq!(report["footprint_bytes"], 3 * 18 + 250);
}

#[test]
fn overwrites_can_be_given_other_lengths() {
    let sets = |times: usize| {
        let rows = (0..200).map(|key| format!("k{key:03},set,100\n"));
        "key,op,value_bytes\n".to_owned() + &rows.collect::<String>().repeat(times)
    };
    let value_bytes = |times: usize, options: &[&str]| {
        let report = report_of(&sets(times), options);
        report["footprint_bytes"].as_u64().unwrap() / 200 - 21
    };
    assert_eq!(value_bytes(2, &[]), 100);
    assert_eq!(value_bytes(1, &["--resize-overwrites", "1"]), 100);
    let mean = value_bytes(2, &["--resize-overwrites", "1"]);
    // As many of 50 to 100 bytes as of 100 to 200.
    assert!((104..121).contains(&mean), "{mean}");
    let dead = |options: &[&str]| {
        let report = report_of(&alike(&sample(false), 400), options);
        report["dead_mean_pct"].as_f64().unwrap()
    };
    let (fitting, resized) = (dead(&[]), dead(&["--resize-overwrites", "1"]));
    assert!(resized > fitting + 0.5, "{fitting} {resized}");
}

#[test]
fn a_bad_row_is_an_error_with_file_and_line() {
    let folder = Folder::new();
    for (text, line, word) in [
        ("", 1, "key is missing"),
        ("time_s,op\n1,get\n", 1, "key is missing"),
        ("key,ttl\na,1\n", 2, "`ttl`"),
        ("key,key\na,b\n", 2, "duplicate"),
        ("key,op\na,get\nb,delete\n", 3, "`delete`"),
        ("key,op\na,get\nb\n", 3, "1 fields instead of 2"),
        ("key,op\na,get\n\n\nb,get,7\n", 5, "3 fields instead of 2"),
        ("key,time_s\na,now\n", 2, "time_s"),
        ("key,time_s\na,-1\n", 2, "time_s"),
        ("key,ttl_s\na,1\nb,nan\n", 3, "ttl_s"),
        ("key,value_bytes\na,1.5\n", 2, "value_bytes"),
        ("key,value_bytes\na,4294967296\n", 2, "value_bytes"),
        ("op,key\nget,\n", 2, "a key has"),
        ("key,op\r\na,get\r\nb,put", 3, "`put`"),
    ] {
        let file = folder.put("trace.csv", text.as_bytes());
        let output = replay(&["--memory", "1MiB", &file]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text:?}: {errors}");
        let place = format!("{file}, line {line}: ");
        assert!(errors.contains(&place), "{text:?}: {errors}");
        assert!(errors.contains(word), "{text:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_file_that_is_missing_or_cut_off_is_an_error() {
    let folder = Folder::new();
    let whole = zstd::encode_all(sample(false).as_bytes(), 1).unwrap();
    let cut = folder.put("cut.csv.zst", &whole[..whole.len() / 2]);
    let missing = folder.path("missing.csv").to_str().unwrap().to_owned();
    for file in [cut, missing] {
        let output = replay(&["--memory", "1MiB", &file]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(&file), "{errors}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    let file = folder.put("a.csv", b"key\na\n");
    for (options, word) in [
        (&[][..], "--memory"),
        (&["--memory", "1KiB"], "at least"),
        (&["--memory", "1MiB", "--baseline", "mru"], "mru"),
        (&["--memory", "5%", "--stretch", "5%"], "--stretch"),
        (
            &["--memory", "1MiB", "--resize-overwrites", "2"],
            "--resize",
        ),
    ] {
        let output = replay(&[options, &[&file]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {errors}");
        assert!(errors.contains(word), "{options:?}: {errors}");
    }
}

#[test]
fn a_sweep_reports_each_size_and_says_which_are_too_small() {
    let folder = Folder::new();
    let file = folder.put("sample.csv", sample(true).as_bytes());
    let options = ["--memory", "0.001%,20%,60%", "--baseline", "lru"];
    let sweep = [&options[..], &[&file]].concat();
    let swept = report(&replay(&[&sweep[..], &["--json"]].concat()));
    let runs = swept["runs"].as_array().unwrap();
    let sizes: Vec<_> = runs.iter().map(|run| run["size"].as_str()).collect();
    assert_eq!(sizes, [Some("20 %"), Some("60 %")]);
    assert!(runs[0]["misses"].as_u64() > runs[1]["misses"].as_u64());
    assert_eq!(swept["skipped"].as_array().unwrap().len(), 1);
    let table = replay(&sweep);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("sample was not run at 0.001 %"), "{table}");
    for size in ["20 %", "60 %"] {
        assert!(table.contains(&format!("| sample | {size} = ")), "{table}");
    }
}

#[test]
fn several_traces_run_one_after_the_other_on_fresh_caches() {
    let folder = Folder::new();
    let file = folder.put("sample.csv", sample(true).as_bytes());
    let json = folder.path("report.json").to_str().unwrap().to_owned();
    let option = format!("--json={json}");
    let output = replay(&["--memory", "2MiB", &option, &file, &file]);
    assert!(output.status.success() && output.stdout.is_empty());
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let [first, second] = [0, 1].map(|at| lasting(report["runs"][at].clone()));
    assert_eq!(first, second);
    assert!(report["runs"][2].is_null());
}

#[test]
fn a_page_compares_with_lru_and_shows_its_plots() {
    let folder = Folder::new();
    let file = folder.put("sample.csv", sample(true).as_bytes());
    let page = folder.path("misses.md");
    let page_of = page.to_str().unwrap();
    let options = [
        "--memory",
        "20%,60%",
        "--baseline",
        "lru",
        "--page",
        page_of,
    ];
    let output = replay(&[&options[..], &[&file]].concat());
    assert!(output.status.success());
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("| trace | 20 % | 60 % |"), "{text}");
    for plot in ["misses-ratios.svg", "misses-sample.svg"] {
        assert!(text.contains(plot), "{text}");
        let svg = std::fs::read_to_string(folder.path(plot)).unwrap();
        assert!(svg.contains("<polyline"), "{plot}");
    }
}

const PEERS: [&str; 2] = ["/usr/bin/memcached", "/usr/bin/redis-server"];
#[test]
fn a_contest_finds_each_servers_setting_below_the_limit() {
    if PEERS.iter().any(|program| !Path::new(program).exists()) {
        println!("skipped: one of {PEERS:?} is not installed");
        return;
    }
    let folder = Folder::new();
    let file = folder.put("sample.csv", sample(true).as_bytes());
    let page = folder.path("contest.md").to_str().unwrap().to_owned();
    let output = Command::new(PROGRAM)
        .args(["contest", "--quick", "--cellar", "off", "--json"])
        .args(["--rss", "4MiB,48MiB", "--page", &page, &file])
        .args(["--peer", "again=/usr/bin/memcached"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let contest: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = contest["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * 4);
    for result in results {
        let number = |field: &str| result[field].as_u64().unwrap();
        let fits = number("rss_peak_bytes") <= number("rss_limit_bytes");
        assert_eq!(result["fits"], fits);
        // No such server starts in 4 MiB; with 48 MiB none has to evict.
        assert_eq!(fits, number("rss_limit_bytes") > 10 << 20, "{result:#}");
        assert!(number("rss_end_bytes") <= number("rss_peak_bytes"));
        assert!(number("misses") > 0);
        assert!(result["version"].as_str().unwrap().contains('.'));
        assert_eq!(result["ttl_left_out"], true);
    }
    let text = std::fs::read_to_string(page).unwrap();
    for server in ["redis-server allkeys-lfu", "again"] {
        assert!(text.contains(server), "{text}");
    }
}

#[test]
fn values_are_stretched_until_a_size_is_a_share_of_the_footprint() {
    let options = ["--memory", "1MiB,4MiB", "--stretch", "25%", "--json", "-"];
    let report = report(&replay_of(sample(true).as_bytes(), &options));
    for (run, memory_mib) in report["runs"].as_array().unwrap().iter().zip([1, 4]) {
        let footprint = run["footprint_bytes"].as_f64().unwrap();
        let expected = f64::from((memory_mib * 4) << 20);
        assert!((footprint / expected - 1.0).abs() < 0.05, "{footprint}");
        assert!(run["evicted"].as_u64().unwrap() > 0);
    }
}
