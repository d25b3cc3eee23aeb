//! `cellar-bench service` as a program: that it runs to its end against Cellar and the floor, that
//! no message is lost, and that it tells what it found. What it found depends on the machine and is
//! not checked.

use std::path::Path;
use std::process::Output;

use crate::program::{self, Folder, PROGRAM, cellar, figures};

/// Runs a quick service against these servers; figures and page go to the folder.
fn run(folder: &Folder, cellar: &str, bigcache: &str, options: &str) -> Output {
    let servers = format!("--cellar {cellar} --bigcache {bigcache}");
    program::run(folder, &format!("service --quick {servers} {options}"))
}

#[test]
fn cellar_keeps_every_message_and_tells_how_long_requests_took() {
    let Some(cellar) = cellar() else { return };
    let folder = Folder::new();
    let output = run(&folder, &cellar, "off", "--rate 1500");
    let figures = figures(&folder, &output);
    let servers = figures["servers"].as_array().unwrap();
    let names: Vec<&str> = servers
        .iter()
        .map(|it| it["server"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cellar", "echo floor"]);
    for server in servers {
        // Two rounds of three lives of a second, one request more for each twenty.
        let count = |name: &str| server[name].as_u64().unwrap();
        // A busy machine may ask for some when their time is over.
        let answered = ["hits", "expired", "stored", "healthy"].map(count);
        assert_eq!(answered.iter().sum::<u64>(), 9450, "all that were due");
        assert_eq!(count("healthy"), 450, "{server}");
        for count in ["lost", "wrong", "refused", "unsent"] {
            assert_eq!(server[count], 0, "{count} of {server}");
        }
        for kind in ["reads_ms", "writes_ms", "health_ms"] {
            let tail = &server[kind];
            assert!(tail["p50"]["median"].as_f64() <= tail["max"]["median"].as_f64());
            assert!(tail.get("p99_999").is_none(), "too few requests: {tail}");
        }
    }
    let cellar = &servers[0];
    assert!(cellar["read_back"].as_u64().unwrap() > 300, "{cellar}");
    let messages = cellar["messages"].as_u64().unwrap();
    // Half of the requests, and those that have nothing to read yet.
    assert!((4200..6000).contains(&messages), "{messages}");
    let page = folder.read("page.md");
    for part in ["(page-tail.svg)", "| cellar (", "p99.999"] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
}

#[test]
fn messages_that_were_evicted_are_found_missing() {
    let Some(cellar) = cellar() else { return };
    let folder = Folder::new();
    // More messages in a life than there is memory for, however few of them a busy machine sends;
    // and a life longer than it is held up, or they would be over when they are asked for.
    let options = "--rate 5000 --life 8s --lives 1 --rounds 1 --memory-mib 4 \
                   --message-bytes 4096";
    let servers = format!("service --cellar {cellar} --bigcache off {options}");
    let output = program::run(&folder, &servers);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("messages were lost, 0 are not"), "{errors}");
}

#[test]
fn the_service_on_bigcache_is_measured_too() {
    let program = Path::new(PROGRAM).ancestors().nth(2).unwrap();
    let program = program.join("release/bigcache-service");
    if !program.exists() {
        println!("skipped: {} is not built", program.display());
        return;
    }
    let folder = Folder::new();
    let program = program.display().to_string();
    let output = run(&folder, "off", &program, "--rate 1000");
    let figures = figures(&folder, &output);
    for server in figures["servers"].as_array().unwrap() {
        for count in ["lost", "wrong", "refused"] {
            assert_eq!(server[count], 0, "{count} of {server}");
        }
    }
    let page = folder.read("page.md");
    assert!(page.contains("| bigcache, fasthttp (go") && page.contains("| map, fasthttp (go"));
}

#[test]
fn options_that_make_no_sense_are_refused_with_their_name() {
    let folder = Folder::new();
    for (options, name) in [
        ("--connections 0", "--connections"),
        ("--message-bytes 10", "--message-bytes"),
        ("--life 0", "--life"),
        ("--lives 0.1", "--lives"),
        ("--rounds 0", "--rounds"),
        ("", "no server"),
    ] {
        let output = run(&folder, "off", "off", options);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(name), "{errors}");
    }
}
