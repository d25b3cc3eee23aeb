//! `--state` with every product of settings: whatever they are, all items come back after a stop,
//! after a kill and with a takeover that also changes the memory.
//!
//! The engine's tests of the same name compare many more changes with a model.

use crate::support::daemon::{Daemon, check, expect, frame};
use crate::takeover::Place;

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;

use rustix::process::Signal;

/// A directory in memory for a cache.
struct Ground(PathBuf);

impl Ground {
    fn new(name: &str) -> Ground {
        let name = format!("cellar-restored-{}-{name}", std::process::id());
        let path = PathBuf::from("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        Ground(path)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    memory_mib: usize,
    keep: &'static str,
    max_value: &'static str,
    threads: &'static str,
    databases: &'static str,
}

const FIRST: Settings = Settings {
    memory_mib: 64,
    keep: "3:4MiB",
    max_value: "auto",
    threads: "2",
    databases: "16",
};

impl Settings {
    fn flags(&self, ground: &Ground) -> Vec<String> {
        let memory = format!("{}MiB", self.memory_mib);
        let state = ground.0.to_str().unwrap();
        let mut flags = vec!["--memory", &memory, "--state", state];
        flags.extend(["--threads", self.threads, "--databases", self.databases]);
        if !self.keep.is_empty() {
            flags.extend(["--noeviction-databases", self.keep]);
        }
        if self.max_value != "auto" {
            flags.extend(["--max-value", self.max_value]);
        }
        flags.into_iter().map(str::to_owned).collect()
    }
}

fn ask(stream: &mut TcpStream, args: &[&str], reply: &str) {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    stream.write_all(&frame(&args)).unwrap();
    expect(stream, reply.as_bytes());
}

fn store(daemon: &Daemon) {
    let mut memcached = daemon.connect();
    check(&mut memcached, b"set m 5 900 2\r\nab\r\n", b"STORED\r\n");
    let mut resp = daemon.connect_resp();
    let long = "x".repeat(50_000);
    ask(&mut resp, &["SET", "long", &long], "+OK\r\n");
    for database in ["1", "3"] {
        ask(&mut resp, &["SELECT", database], "+OK\r\n");
        ask(&mut resp, &["SET", "name", database], "+OK\r\n");
        ask(&mut resp, &["HSET", "hash", "f", database], ":1\r\n");
    }
}

fn check_all(daemon: &Daemon, what: &str) {
    let mut told = daemon.warnings().iter();
    let told = told.rfind(|line| line.contains("--state"));
    let told = told.expect("the log tells");
    assert!(told.contains("was restored"), "{what}: {told}");
    let mut memcached = daemon.connect();
    let found = b"VALUE m 5 2\r\nab\r\nEND\r\n";
    check(&mut memcached, b"get m\r\n", found);
    let mut resp = daemon.connect_resp();
    ask(&mut resp, &["STRLEN", "long"], ":50000\r\n");
    for database in ["1", "3"] {
        ask(&mut resp, &["SELECT", database], "+OK\r\n");
        let value = format!("$1\r\n{database}\r\n");
        ask(&mut resp, &["GET", "name"], &value);
        ask(&mut resp, &["HGET", "hash", "f"], &value);
    }
}

/// Stops, kills and takes over a server with these settings; the last with half as much memory
/// again.
fn run(settings: Settings) {
    let (ground, control) = (Ground::new(settings.threads), Place::new());
    let start = |settings: Settings| {
        let flags = settings.flags(&ground);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        control.start(&flags)
    };
    let mut daemon = start(settings);
    store(&daemon);
    for signal in [Signal::TERM, Signal::KILL] {
        daemon.signal(signal);
        daemon.wait();
        daemon = start(settings);
        check_all(&daemon, &format!("{settings:?} after {signal:?}"));
    }
    let more = Settings {
        memory_mib: settings.memory_mib * 3 / 2,
        ..settings
    };
    let flags = more.flags(&ground);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = control.succeed(&mut daemon, &flags);
    check_all(&daemon, &format!("{settings:?} after a takeover"));
}

#[test]
fn what_is_stored_comes_back_with_kept_databases_and_several_loops() {
    run(FIRST);
    run(Settings {
        keep: "3:8MiB",
        max_value: "1MiB",
        threads: "1",
        databases: "5",
        ..FIRST
    });
    run(Settings {
        keep: "",
        threads: "3",
        ..FIRST
    });
}

#[test]
fn what_is_stored_comes_back_with_every_product_of_settings() {
    for memory_mib in [64, 256] {
        for keep in ["", "3:4MiB", "1:2MiB,3:16MiB"] {
            for max_value in ["auto", "1MiB", "20MiB"] {
                for threads in ["1", "2", "4"] {
                    run(Settings {
                        memory_mib,
                        keep,
                        max_value,
                        threads,
                        ..FIRST
                    });
                }
            }
        }
    }
}
