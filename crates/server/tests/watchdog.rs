//! Watchdog: an event loop that stands still is told of and counted, ends the process when that
//! takes too long, and does not keep a server that is told to stop.

use crate::support::{daemon, resp};

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;

use daemon::Daemon;
use resp::Client;
use rustix::process::Signal;

/// A server whose loops can be made to stand still, and a folder for what the system makes of it.
fn start(flags: &[&str]) -> (Daemon, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let all = [&["--enable-debug-commands=on"], flags].concat();
    (Daemon::start_in(home.path(), &all), home)
}

/// Has the loop of a new client sleep, and does not wait for it.
fn hold(daemon: &Daemon, seconds: &str) -> std::net::TcpStream {
    let mut client = daemon.connect_resp();
    let request = format!("DEBUG SLEEP {seconds}\r\n");
    client.write_all(request.as_bytes()).unwrap();
    client
}

/// The sum of a metric over all loops.
fn metric(daemon: &Daemon, name: &str) -> f64 {
    let mut stream = daemon.connect_http();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let of_loop = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix("{thread=\"")?;
        rest.split(' ').nth(1)?.parse::<f64>().ok()
    };
    text.lines().filter_map(of_loop).sum()
}

#[test]
fn a_loop_that_stands_still_is_told_of_and_counted_and_may_go_on() {
    let (daemon, _home) = start(&[]);
    assert!(metric(&daemon, "cellar_loop_stalls_total") < 0.5);
    // Longer than need be: of a machine that is short of processors the watchdog sees only a part.
    let mut held = hold(&daemon, "4");
    let line = daemon.log_until("is blocked").pop().unwrap();
    assert!(line.contains("WARN"), "{line}");
    assert!(line.contains("began_last=\"debug\""), "{line}");
    daemon::expect(&mut held, b"+OK\r\n");
    daemon.log_until("no longer blocked");
    assert!((metric(&daemon, "cellar_loop_stalls_total") - 1.0).abs() < 0.5);
    assert!(metric(&daemon, "cellar_loop_stalled_seconds") < 0.5);
    assert_eq!(Client::connect(&daemon).run("PING").shown(), "+PONG");
}

#[test]
fn a_loop_that_hangs_ends_the_process_and_says_what_it_does() {
    let (mut daemon, _home) = start(&["--watchdog", "1s", "--script-time-limit", "500ms"]);
    let _held = hold(&daemon, "50");
    let line = daemon.log_until("--watchdog: aborting").pop().unwrap();
    assert!(
        line.contains("ERROR") && line.contains("began_last=\"debug\""),
        "{line}"
    );
    assert!(line.contains(" state=S"), "{line}");
    let status = daemon.wait();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status}");
}

#[test]
fn a_script_may_use_its_time() {
    let limits = ["--watchdog", "30s", "--script-time-limit", "3s"];
    let (daemon, _home) = start(&limits);
    let mut client = Client::connect(&daemon);
    let reply = client.call(&[b"EVAL", b"while true do end", b"0"]).shown();
    assert!(reply.starts_with('-'), "{reply}");
    let line = daemon.log_until("is blocked").pop().unwrap();
    assert!(line.contains("began_last=\"eval\""), "{line}");
    assert_eq!(client.run("PING").shown(), "+PONG");
}

/// Each loop waits for scripts of the others for longer than --watchdog, in all.
#[test]
fn scripts_within_their_time_end_no_server_however_many_there_are() {
    let limits = [
        "--watchdog=2s",
        "--script-time-limit=250ms",
        "--threads",
        "4",
    ];
    let (daemon, _home) = start(&limits);
    let mut busy: Vec<Client> = (0..12).map(|_| Client::connect(&daemon)).collect();
    for client in &mut busy {
        client.send(&[b"EVAL", b"while true do end", b"0"]);
    }
    for client in &mut busy {
        let reply = client.read().shown();
        assert!(reply.starts_with('-'), "{reply}");
    }
    assert_eq!(Client::connect(&daemon).run("PING").shown(), "+PONG");
}

#[test]
fn a_server_whose_loop_hangs_ends_when_it_is_told_to() {
    for threads in ["1", "2"] {
        let (mut daemon, _home) = start(&[
            "--watchdog=off",
            "--threads",
            threads,
            "--drain-timeout=100ms",
            "--script-time-limit=100ms",
        ]);
        let _held = hold(&daemon, "50");
        let _other = hold(&daemon, "50");
        daemon.log_until("is blocked");
        daemon.signal(Signal::TERM);
        daemon.log_until("exiting without a drain");
        assert_eq!(daemon.wait().code(), Some(1));
    }
}

#[test]
fn a_long_limit_on_scripts_moves_the_default() {
    let (mut daemon, _home) = start(&["--script-time-limit", "10m"]);
    assert_eq!(Client::connect(&daemon).run("PING").shown(), "+PONG");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(0));
}
