//! Health check, doctor and help: what the subcommands that ask no secret print, and their status.

use crate::support::daemon::Daemon;
use crate::support::tls::Authority;
use crate::support::users::UsersFile;

use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;

/// Status and line of the binary with these arguments and variables, standard output and error
/// together.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellar"));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CELLAR_") {
            command.env_remove(variable);
        }
    }
    let output = command
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn check(arguments: &[&str], variables: &[(&str, &str)], status: i32, expected: &str) {
    let (code, text) = run(&[&["healthcheck"], arguments].concat(), variables);
    assert!(text.starts_with(expected), "{arguments:?}: {text}");
    assert_eq!((code, text.lines().count()), (Some(status), 1), "{text}");
}

#[test]
fn a_server_is_asked_where_its_settings_have_it_listen() {
    let folder = tempfile::tempdir().unwrap();
    let [resp, http] = ["resp", "http"].map(|name| folder.path().join(name));
    let [resp, http] = [resp, http].map(|path| format!("unix:{}", path.display()));
    let daemon = Daemon::spawn(&["--resp", &resp, "--http", &http]);
    let file = folder.path().join("cellar.toml");
    std::fs::write(&file, format!("http = \"{http}\"\n")).unwrap();
    let file = file.to_str().unwrap();
    let ready = format!("ready: http {http}\n");
    check(&["--config", file], &[], 0, &ready);
    check(&[], &[("CELLAR_CONFIG", file)], 0, &ready);
    check(&[], &[("CELLAR_HTTP", &http)], 0, &ready);
    let no_http = ("CELLAR_HTTP", "off");
    check(
        &[],
        &[no_http, ("CELLAR_RESP", &resp)],
        0,
        "ready: resp unix:",
    );
    let memcached = ("CELLAR_MEMCACHED", daemon.address.as_str());
    let no_resp = ("CELLAR_RESP", "off");
    let ready = format!("ready: memcached {}\n", daemon.address);
    check(&[], &[no_http, no_resp, memcached], 0, &ready);
    let target = format!("memcached={}", daemon.address);
    check(&["--target", &target], &[], 0, &ready);
}

#[test]
fn a_server_that_asks_for_a_login_is_ready_without_one() {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::spawn(&[&flags[0], &flags[1]]);
    for (protocol, address) in [
        ("memcached", &daemon.address),
        ("resp", &daemon.resp),
        ("http", &daemon.http),
    ] {
        let target = format!("{protocol}={address}");
        check(&["--target", &target], &[], 0, "ready: ");
    }
}

#[test]
fn over_tls_any_certificate_is_taken_unless_an_authority_is_given() {
    let authority = Authority::new();
    authority.issue("server", "server", &["cache.example", "127.0.0.1"]);
    authority.issue("other", "other", &["cache.example"]);
    let [cert, key] = ["server.pem", "server.key"].map(|file| authority.path(file));
    let tls = "tls:127.0.0.1:0";
    let daemon = Daemon::spawn(&[
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--resp",
        tls,
        "--http",
        tls,
    ]);
    let (ca, stranger) = (authority.path("ca.pem"), authority.path("other.pem"));
    for (protocol, address) in [("resp", &daemon.resp), ("http", &daemon.http)] {
        let target = format!("{protocol}={address}");
        check(&["--target", &target], &[], 0, "ready: ");
        check(&["--target", &target, "--tls-ca", &ca], &[], 0, "ready: ");
        let refused = format!("cellar: healthcheck: {protocol} tls:");
        check(
            &["--target", &target, "--tls-ca", &stranger],
            &[],
            1,
            &refused,
        );
    }
}

#[test]
fn whatever_is_wrong_is_one_line_and_status_1() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let nobody = format!("http={address}");
    let begin = format!("cellar: healthcheck: http {address}: Connection refused");
    check(&["--target", &nobody], &[], 1, &begin);
    check(
        &["--target", "redis://h"],
        &[],
        1,
        "cellar: healthcheck: --target: ",
    );
    let gone = "cellar: healthcheck: --config /nonexistent: No such file";
    check(&["--config", "/nonexistent"], &[], 1, gone);
    let bad = ("CELLAR_HTTP", "8080");
    check(
        &[],
        &[bad],
        1,
        "cellar: healthcheck: --http (from CELLAR_HTTP): ",
    );
    let daemon = Daemon::spawn(&[]);
    let wrong = format!("http={}", daemon.address);
    let begin = format!("cellar: healthcheck: http {}: it answers ", daemon.address);
    check(&["--target", &wrong], &[], 1, &begin);
}

#[test]
fn a_server_that_is_to_stop_is_not_ready() {
    let mut daemon = Daemon::spawn(&["--lame-duck", "1d", "--drain-timeout", "1s"]);
    let target = format!("http={}", daemon.http);
    check(&["--target", &target], &[], 0, "ready: ");
    daemon.signal(Signal::TERM);
    daemon.log_until("shutting down");
    let begin = format!(
        "cellar: healthcheck: http {}: it answers HTTP/1.1 503",
        daemon.http
    );
    check(&["--target", &target], &[], 1, &begin);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(1));
}

#[test]
fn the_doctor_names_each_remedy_and_its_status_says_whether_there_is_one() {
    let script = format!(
        "ulimit -Sn 200; ulimit -Hn 200; exec {} doctor --max-connections 5000 --threads 1",
        env!("CARGO_BIN_EXE_cellar")
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "!!  open files: 200 allowed, 5130 needed for --max-connections 5000\n    \
                       -> ulimit -Hn 5130, or LimitNOFILE=5130"
        ),
        "{text}"
    );
    let (code, text) = run(&["doctor", "--max-connections", "10"], &[]);
    let well = text.ends_with("no problems found\n");
    assert_eq!(code, Some(i32::from(!well)), "{text}");
    let (code, text) = run(&["doctor", "--memory", "12QB"], &[]);
    assert_eq!((code, text.lines().count()), (Some(2), 1), "{text}");
}

#[test]
fn the_doctor_finds_whatever_the_server_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no socket").unwrap();
    let file = format!("unix:{}", file.display());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (memory, users) = (["--memory", "512TiB"], ["--users", "/nonexistent"]);
    let tls = ["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"];
    let tls = [&["--memcached", "tls:127.0.0.1:0"][..], &tls].concat();
    let open = ["--http", "0.0.0.0:0"];
    let off = ["--memcached", "off", "--http", "off", "--resp", "off"];
    for flags in [
        &memory[..],
        &users,
        &tls,
        &open,
        &off,
        &["--resp", &taken],
        &["--memcached", &file],
        &["--memcached", "unix:/nonexistent/socket"],
        &["--memory", "16MiB", "--noeviction-databases", "3:9MiB"],
        &["--watchdog", "3s"],
        &["--node", "a"],
        &["--memory", "1k"],
        &["--state", "/dev/null"],
        &["--state", "/nonexistent/state"],
    ] {
        let mut all = flags.to_vec();
        for flag in ["--memcached", "--resp", "--http"] {
            if !flags.contains(&flag) {
                all.extend([flag, "127.0.0.1:0"]);
            }
        }
        let (code, refused) = run(&all, &[]);
        assert_eq!(code, Some(2), "{refused}");
        // A server that chose a port names it.
        let reason = refused.trim_end().rsplit(": ").next().unwrap();
        let (code, text) = run(&[&["doctor"], &all[..]].concat(), &[]);
        assert_eq!(code, Some(1), "{flags:?}: {text}");
        assert!(text.contains("!!  start: --"), "{text}");
        assert!(
            text.contains(&format!("{reason}\n    -> ")),
            "{reason}: {text}"
        );
    }
    // All of what is wrong is told at once.
    let both = [&["doctor", "--http", "0.0.0.0:0"], &memory[..], &tls].concat();
    let (_, text) = run(&both, &[]);
    assert!(text.matches("!!  start: ").count() >= 3, "{text}");
}

/// What the doctor says to these flags, on addresses that are free.
fn doctor(flags: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["doctor"];
    for flag in ["--memcached", "--resp", "--http"] {
        if !flags.contains(&flag) {
            all.extend([flag, "127.0.0.1:0"]);
        }
    }
    run(&[&all[..], flags].concat(), &[])
}

#[test]
fn the_doctor_finds_a_control_socket_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("file"), "no socket").unwrap();
    for (flags, expected) in [
        (
            &["--control", &path("file")][..],
            "file: a file exists there that is not a socket\n",
        ),
        (
            &["--control", "/nonexistent/control"],
            "!!  start: --control /nonexistent/control: ",
        ),
        (
            &["--control", &path("none"), "--takeover"],
            "!!  start: --takeover: no server listens on ",
        ),
    ] {
        let (code, text) = doctor(flags);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let (_, text) = doctor(&["--control", &path("new")]);
    assert!(text.contains("ok  start: "), "{text}");
    assert!(!folder.path().join("new").exists());
}

#[test]
fn the_doctor_finds_an_address_that_is_given_twice() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    for flags in [
        &["--resp", &address, "--memcached", &address][..],
        &["--resp", &format!("{address},{address}")],
        &[
            "--unix",
            "/tmp/cellar-twice",
            "--resp",
            "unix:/tmp/cellar-twice",
        ],
    ] {
        let (code, text) = doctor(flags);
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains(" has the same address\n"),
            "{flags:?}: {text}"
        );
    }
}

#[test]
fn the_doctor_asks_the_source_of_a_clusters_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("nodes.toml");
    let source = format!("file:{}", list.display());
    let flags = |source| {
        [
            "--cluster",
            source,
            "--node",
            "a",
            "--announce-resp",
            "127.0.0.1:1",
        ]
    };
    let (code, text) = doctor(&flags(&source));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("!!  cluster: file:") && text.contains("No such file"),
        "{text}"
    );
    std::fs::write(&list, "a resp=127.0.0.1:1\n").unwrap();
    let (_, text) = doctor(&flags(&source));
    assert!(text.contains("ok  cluster: file:"), "{text}");
    for source in ["etcd:http://127.0.0.1:1", "dns:nothing.invalid"] {
        let (code, text) = doctor(&flags(source));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("!!  cluster: {source}")), "{text}");
        assert!(text.contains("until the source answers"), "{text}");
    }
}

#[test]
fn the_doctor_and_the_printed_settings_warn_of_old_names() {
    let warning = "--keep is now --noeviction-databases; the next release will not accept";
    let (code, text) = doctor(&["--keep", "3:1MiB"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("!!  old name: {warning}")), "{text}");
    let (code, text) = run(&["--keep", "3:1MiB", "--print-config"], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with(&format!("# warning: {warning}")), "{text}");
    assert!(
        text.contains("noeviction_databases = \"3:1MiB\" # --noeviction"),
        "{text}"
    );
}

#[test]
fn the_doctor_of_a_server_that_runs_finds_its_addresses_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket").display().to_string();
    let daemon = Daemon::spawn(&["--unix", &socket]);
    let addresses = [
        ["--memcached", &daemon.address],
        ["--resp", &daemon.resp],
        ["--http", &daemon.http],
        ["--unix", &socket],
    ];
    let (_, text) = run(&[&["doctor"], &addresses.concat()[..]].concat(), &[]);
    assert!(
        text.contains("ok  start: the server can start after the server that uses its addresses"),
        "{text}"
    );
    let free = [
        "doctor",
        "--memcached",
        "127.0.0.1:0",
        "--resp",
        "127.0.0.1:0",
    ];
    let (_, text) = run(&[&free[..], &["--http", "127.0.0.1:0"]].concat(), &[]);
    assert!(
        text.contains("ok  start: the server can start with these settings\n"),
        "{text}"
    );
}

#[test]
fn a_log_that_is_no_terminal_is_not_told_what_to_type() {
    let daemon = Daemon::spawn(&[]);
    daemon.signal(Signal::HUP);
    let log = daemon.log_until("SIGHUP").join("\n");
    assert!(!log.contains("cellar --help"), "{log}");
}
