//! `cellar-bench near` as a program: it works, and the store keeps to its memory.

use std::process::Command;

/// So many that what the process takes besides, its code above all, is little for each.
const ENTRIES: u64 = 1_000_000;
/// Key and value of the memory rows.
const RAW_BYTES: f64 = 128.0;
const OVERHEAD_BYTES_MAX: f64 = 64.0;

fn run(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_cellar-bench");
    let output = Command::new(program).args(arguments).output();
    let output = output.expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn an_entry_of_the_local_store_takes_at_most_64_bytes_over_key_and_value() {
    for cache in ["cellar", "cellar-ttl"] {
        let growth = run(&["footprint", "near", cache, &ENTRIES.to_string()]);
        let each = growth.trim().parse::<f64>().unwrap() / ENTRIES as f64;
        assert!(each - RAW_BYTES <= OVERHEAD_BYTES_MAX, "{cache}: {each}");
    }
}

#[test]
fn a_quick_run_shows_every_cache_and_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let keys = (0..2_000).map(|n| format!("{}\n", n * n % 97));
    std::fs::write(&trace, format!("key\n{}", keys.collect::<String>())).unwrap();
    let text = run(&[
        "near",
        "--quick",
        "--entries",
        "2k",
        "--operations",
        "2000",
        trace.to_str().unwrap(),
    ]);
    for name in [
        "cellar-near",
        "quick_cache",
        "moka",
        "hit ratio over quick_cache's",
    ] {
        assert!(text.contains(name), "{text}");
    }
}
