//! Secrets: what a server was told stands in no answer, no log, no title and no core.

use crate::support::{daemon, http, resp, users};

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use daemon::{Daemon, set};
use http::Http;
use resp::Client;
use users::UsersFile;

const PASSWORD: &str = "l0ve-letter";
const TOKEN: &str = "0p3n-sesame";
/// What a client says of a user's, right and wrong; and a part of every hash.
const SAID: [&str; 3] = ["root-pw", "wr0ng-guess", "argon2id"];

fn check(what: &str, text: &str) {
    for secret in [PASSWORD, TOKEN].into_iter().chain(SAID) {
        assert!(!text.contains(secret), "{what} has {secret}: {text}");
    }
}

/// Looks at what other programs of the machine see of the process.
fn check_titles(daemon: &Daemon) {
    let process = format!("/proc/{}", daemon.id());
    let read = |name: &str| std::fs::read(format!("{process}/{name}")).unwrap_or_default();
    check(
        "its command line",
        &String::from_utf8_lossy(&read("cmdline")),
    );
    for thread in std::fs::read_dir(format!("{process}/task")).unwrap() {
        let title = std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap();
        assert!(title.starts_with("cellar"), "{title}");
    }
}

fn check_statistics(daemon: &Daemon) {
    let mut stream = daemon.connect();
    let login = set("login", b"root root-pw");
    daemon::check(&mut stream, &login, b"STORED\r\n");
    for group in ["", " settings", " items", " hotkeys"] {
        std::io::Write::write_all(&mut stream, format!("stats{group}\r\n").as_bytes()).unwrap();
        let mut told = Vec::new();
        while !told.ends_with(b"END\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
            told.push(byte[0]);
        }
        check(group, &String::from_utf8_lossy(&told));
    }
}

#[test]
fn secrets_stand_in_no_answer_no_log_and_no_title() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("cellar.toml");
    let text = format!("password = \"{PASSWORD}\"\nhttp_token = \"{TOKEN}\"\n");
    std::fs::write(&settings, text).unwrap();
    let settings = settings.to_str().unwrap();
    let flags = ["--config", settings, "--log-level", "trace", &users, &path];
    let daemon = Daemon::spawn(&flags);

    let mut client = Client::connect(&daemon);
    client.run("AUTH root wr0ng-guess");
    client.run("HELLO 3 AUTH root wr0ng-guess");
    client.run(&format!("AUTH default {PASSWORD}"));
    client.run("AUTH root root-pw");
    client.run("CONFIG SET slowlog-log-slower-than 0");
    client.run("AUTH root root-pw");
    client.run("SCRIPT LOAD return");
    for command in [
        "INFO everything",
        "CONFIG GET *",
        "CLIENT LIST",
        "CLIENT INFO",
        "ACL LIST",
        "ACL GETUSER root",
        "ACL LOG",
        "SLOWLOG GET 128",
        "COMMAND DOCS auth",
        "MEMORY STATS",
        "LATENCY LATEST",
    ] {
        check(command, &client.run(command).shown());
    }
    check_statistics(&daemon);
    let field = format!("Authorization: Bearer {TOKEN}");
    for path in ["/metrics", "/v1/console/status", "/v1/console/history", "/"] {
        let response = Http::to(&daemon).ask(&format!("GET {path}"), &[&field], b"");
        assert_eq!(response.status, 200, "{path}");
        check(path, &String::from_utf8_lossy(&response.body));
    }
    Http::to(&daemon).ask("GET /metrics", &["Authorization: Bearer wr0ng-guess"], b"");

    check_titles(&daemon);
    let shown = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(flags)
        .arg("--print-config")
        .output()
        .unwrap();
    assert!(shown.status.success());
    check("--print-config", &String::from_utf8_lossy(&shown.stdout));
    check("--print-config", &String::from_utf8_lossy(&shown.stderr));
    daemon.signal(Signal::HUP);
    for line in std::iter::from_fn(|| daemon.log.recv_timeout(Duration::from_secs(1)).ok()) {
        check("its log", &line);
    }
    daemon
        .warnings()
        .iter()
        .for_each(|line| check("its log", line));
}

/// Whether the system writes cores to a file, and would write one of a process that allows it.
fn dumps_core(flags: &[&str]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -c unlimited; exec \"$@\"", "bash"])
        .arg(env!("CARGO_BIN_EXE_cellar"))
        .args([
            "--memory",
            "8MiB",
            "--threads",
            "1",
            "--resp",
            "off",
            "--http",
            "off",
        ])
        .args(["--memcached", "127.0.0.1:0"])
        .args(flags)
        .current_dir(folder.path())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("cellar ready") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0);
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, Signal::ABORT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    status.core_dumped()
}

#[test]
fn a_server_with_secrets_leaves_no_core() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    assert!(!dumps_core(&[&users, &path]));
    // Where the system writes none at all, there is nothing to compare with.
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() == "core" {
        assert!(dumps_core(&[]));
    }
}
