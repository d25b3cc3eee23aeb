//! The log: one that nobody reads, or that cannot be written, costs lines and stops nobody.

use crate::support::wait::{PATIENCE, wait_until};
use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server of one loop with its log wherever a test has it.
struct Logged {
    child: Child,
    home: TempDir,
}

impl Logged {
    fn start(log: impl Into<Stdio>, flags: &[&str]) -> Logged {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("unix:{}", home.path().join(name).display());
        let child = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["--memory", "64MiB", "--threads", "1", "--memcached", "off"])
            .args(["--resp", &at("resp"), "--http", &at("http")])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Logged { child, home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A connection, once the server listens.
    fn connect(&mut self, name: &str) -> UnixStream {
        let path = self.path(name);
        let mut stream = None;
        wait_until(
            || format!("{} is listened at", path.display()),
            || {
                stream = UnixStream::connect(&path).ok();
                assert_eq!(self.child.try_wait().unwrap(), None, "it runs");
                stream.is_some()
            },
        );
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a line and checks the answer's.
    fn ask(&mut self, request: &str, expected: &str) {
        ask(&mut self.connect("resp"), request, expected);
    }

    /// How many lines were dropped.
    fn dropped(&mut self) -> u64 {
        let mut stream = self.connect("http");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("cellar_log_lines_dropped_total "));
        count.expect("it is a metric").parse().unwrap()
    }

    /// Waits until as many were dropped as wanted.
    fn wait_for_dropped(&mut self, least: u64) {
        wait_until(
            || format!("{least} lines are dropped"),
            || self.dropped() >= least,
        );
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(stream: &mut UnixStream, request: &str, expected: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), expected);
}

/// Long lines that one script logs: it takes a small part of any limit.
const LINES: usize = 50;

/// Has scripts log so many long lines, or a few more.
fn log_lines(server: &mut Logged, lines: usize) {
    let mut stream = server.connect("resp");
    let script = format!(
        "EVAL \"for i = 1, {LINES} do redis.log(redis.LOG_WARNING, string.rep('x', 1000)) end\" 0"
    );
    for _ in 0..lines.div_ceil(LINES) {
        ask(&mut stream, &script, "$-1\r\n");
    }
}

/// More lines than a pipe and the queue hold.
const MANY: usize = 3_000;

/// A server whose log is full, and who could read it.
fn full_log(flags: &[&str]) -> (PipeReader, Logged) {
    let (reader, writer) = pipe().unwrap();
    let mut server = Logged::start(writer, flags);
    log_lines(&mut server, MANY);
    (reader, server)
}

#[test]
fn a_log_whose_reader_went_away_stops_nobody() {
    let (reader, writer) = pipe().unwrap();
    let mut server = Logged::start(writer, &[]);
    server.ask("PING", "+PONG\r\n");
    drop(reader);
    log_lines(&mut server, 1);
    server.wait_for_dropped(1);
    // What a client of TLS says on a port without.
    let mut stranger = server.connect("resp");
    stranger
        .write_all(b"\x16\x03\x01\x00\x05hello\r\n")
        .unwrap();
    let _ = stranger.read(&mut [0; 64]);
    server.wait_for_dropped(2);
    server.ask("PING", "+PONG\r\n");
    server.stop();
}

#[test]
fn a_log_on_a_full_disk_stops_nobody() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut server = Logged::start(full, &[]);
    server.ask("PING", "+PONG\r\n");
    server.wait_for_dropped(1);
    server.stop();
}

#[test]
fn a_log_that_nobody_reads_stops_nobody_and_its_server_ends() {
    let (_reader, mut server) = full_log(&[]);
    server.wait_for_dropped(1);
    server.ask("PING", "+PONG\r\n");
    server.stop();
}

#[test]
fn a_log_that_nobody_reads_keeps_no_watchdog_from_its_work() {
    let flags = [
        "--watchdog",
        "1s",
        "--script-time-limit",
        "500ms",
        "--enable-debug-commands=on",
    ];
    let (_reader, mut server) = full_log(&flags);
    let mut held = server.connect("resp");
    held.write_all(b"DEBUG SLEEP 100\r\n").unwrap();
    assert_eq!(server.wait().signal(), Some(Signal::ABORT.as_raw()));
}

#[test]
fn all_lines_are_out_when_a_server_has_ended() {
    let (reader, mut server) = full_log(&[]);
    server.wait_for_dropped(1);
    let (sender, lines) = channel();
    let thread = std::thread::spawn(move || read_lines(reader, |line| sender.send(line).is_ok()));
    // Once there is room again.
    let mut asked = server.connect("resp");
    wait_until("a line is written again", || {
        let request = "EVAL \"redis.log(redis.LOG_WARNING, 'marked')\" 0";
        ask(&mut asked, request, "$-1\r\n");
        lines.try_iter().any(|line| line.contains("marked"))
    });
    server.stop();
    drop(thread.join());
    let rest: Vec<String> = lines.iter().collect();
    assert!(rest.last().unwrap().contains("cellar stopped"), "{rest:?}");
}

fn read_lines(log: PipeReader, take: impl Fn(String) -> bool) {
    for line in BufReader::new(log).lines() {
        if !take(line.unwrap()) {
            return;
        }
    }
}

#[test]
fn signals_that_mean_nothing_here_do_nothing() {
    let mut server = Logged::start(Stdio::null(), &[]);
    server.ask("PING", "+PONG\r\n");
    for signal in [Signal::USR1, Signal::USR2] {
        server.signal(signal);
        server.ask("PING", "+PONG\r\n");
    }
    server.stop();
}
