//! Start-up errors: one clear line on standard error that names the flag, and exit status 2.

use crate::support::{daemon, users};

use std::process::{Command, Stdio};

use daemon::Daemon;

/// Runs the binary, which is expected to refuse, and gives its one line.
fn refusal(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(flags)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
    assert!(output.stdout.is_empty(), "{flags:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{flags:?}: {text}");
    assert!(lines[0].starts_with("cellar: "), "{text}");
    lines[0].to_owned()
}

fn check(flags: &[&str], variables: &[(&str, &str)], expected: &str) {
    let line = refusal(flags, variables);
    assert_eq!(
        line,
        format!("cellar: {expected}"),
        "{flags:?} {variables:?}"
    );
}

/// Flags of a server that listens on this socket and on no port, which other tests might have.
fn only(path: &str) -> [&str; 8] {
    let [memcached, resp, http] = ["--memcached", "--resp", "--http"];
    [memcached, "off", resp, "off", http, "off", "--unix", path]
}

#[test]
fn a_taken_port_is_told_with_its_address() {
    let daemon = Daemon::spawn(&[]);
    let expected = format!(
        "--memcached {}: another server uses the address; stop it or choose another address",
        daemon.address
    );
    check(&["--memcached", &daemon.address], &[], &expected);
}

#[test]
fn an_address_that_is_not_ours_or_means_nothing_is_told() {
    check(
        &["--memcached", "192.0.2.1:11211"],
        &[],
        "--memcached 192.0.2.1:11211: the address does not belong to this machine",
    );
    let line = refusal(&["--memcached", "no-such-host.invalid:11211"], &[]);
    assert!(
        line.starts_with("cellar: --memcached no-such-host.invalid:11211: "),
        "{line}"
    );
    check(
        &["--memcached", "11211"],
        &[],
        "--memcached: \"11211\" is not an address; write host:port, tls:host:port, unix:/path \
         or off",
    );
    check(
        &["--memcached", "off", "--resp", "off", "--http", "off"],
        &[],
        "--memcached: no listen address; set host:port or unix:/path",
    );
}

#[test]
fn a_bad_size_is_told_wherever_it_came_from() {
    let reason = "\"12QB\" is not a size; write 64MiB, 1GiB, 500MB or a number of bytes";
    check(&["--memory", "12QB"], &[], &format!("--memory: {reason}"));
    let variables = [("CELLAR_MEMORY", "12QB")];
    check(
        &[],
        &variables,
        &format!("--memory (from CELLAR_MEMORY): {reason}"),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("size.toml");
    std::fs::write(&path, "memory = \"12QB\"\n").unwrap();
    let path = path.to_str().unwrap();
    check(
        &["--config", path],
        &[],
        &format!("--memory (from {path}, line 1): {reason}"),
    );
    check(
        &["--max-value", "1GiB"],
        &[],
        "--max-value: 1GiB is more than 512MiB",
    );
}

#[test]
fn memory_that_is_not_there_is_told_with_what_is_there() {
    let line = refusal(&["--memory", "512TiB", "--memcached", "127.0.0.1:0"], &[]);
    assert!(
        line.starts_with("cellar: --memory: 512.0TiB are requested, but this "),
        "{line}"
    );
    assert!(line.contains(" has "), "{line}");
}

#[test]
fn a_time_to_live_for_nothing_that_there_is_is_told() {
    for (value, reason) in [
        (
            "http=10",
            "\"10\" is not a duration; write 500ms, 30s, 10m, 2h or 0",
        ),
        (
            "resp:16=1h",
            "database 16 does not exist; --databases is 16",
        ),
    ] {
        let expected = format!("--default-ttl: {reason}");
        check(&["--default-ttl", value], &[], &expected);
    }
}

#[test]
fn memory_that_cannot_be_kept_is_told() {
    for (value, reason) in [
        ("16:1MiB", "database 16 does not exist; --databases is 16"),
        (
            "3:9MiB",
            "the shares are 9MiB, but at most half of --memory is possible, 8MiB",
        ),
        (
            "0:1MiB",
            "database 0 always evicts, because memcached and HTTP use it",
        ),
        ("3", "\"3\" has no size; write 3,4:64MiB"),
        ("3:1KiB", "1KiB is too small; at least 1MiB"),
    ] {
        let expected = format!("--noeviction-databases: {reason}");
        check(
            &["--memory", "16MiB", "--noeviction-databases", value],
            &[],
            &expected,
        );
    }
}

#[test]
fn an_error_about_a_value_shows_the_value_and_the_valid_ones() {
    for (arguments, expected) in [
        (
            ["--compress", "yes"],
            "--compress: \"yes\" is neither auto nor off nor numbers of databases like 0,3",
        ),
        (
            ["--otlp-interval", "10ms"],
            "--otlp-interval: \"10ms\" is less than 1s",
        ),
        (
            ["--notify-keyspace-events", "Q"],
            "--notify-keyspace-events: \"Q\" has an unknown event flag; write K or E and flags, \
             for example KEA",
        ),
    ] {
        check(&arguments, &[], expected);
    }
}

#[test]
fn a_watchdog_that_would_bite_scripts_is_told() {
    check(
        &["--watchdog", "3s"],
        &[],
        "--watchdog: 3s is not more than --script-time-limit, 5s; set more, or off",
    );
}

#[test]
fn what_does_not_go_with_memory_that_outlives_the_server_is_told() {
    check(
        &["--takeover"],
        &[],
        "--takeover: needs --control PATH, the socket of the server to take over from",
    );
    let state = ["--state", "/nonexistent/state"];
    check(
        &[
            &state[..],
            &["--cluster", "file:/nonexistent/list", "--node", "a"],
        ]
        .concat(),
        &[],
        "--state: a cluster node cannot use --state: its items may have got another owner",
    );
}

#[test]
fn a_node_that_nobody_could_reach_and_an_etcd_that_cannot_be_asked_are_told() {
    let [memcached, resp, http] = ["--memcached", "--resp", "--http"];
    let ports = [memcached, "off", resp, "127.0.0.1:0", http, "off"];
    let node = [&ports[..], &["--node", "a", "--cluster"]].concat();
    let with = |rest: &[&'static str]| [&node[..], rest].concat();
    for (flags, expected) in [
        (
            with(&["etcd:http://127.0.0.1:1", "--announce-resp", "0.0.0.0:1"]),
            "--cluster etcd:http://127.0.0.1:1/cellar: node a: 0.0.0.0:1 is not a specific \
             address: clients cannot connect to it; set --announce-resp, --announce-memcached or \
             --announce-http",
        ),
        (
            with(&["etcd:https://h"]),
            "--cluster etcd:https://h:2379/cellar: etcd over TLS needs --cluster-ca FILE",
        ),
        (
            with(&["etcd:https://h", "--cluster-ca", "/nonexistent"]),
            "--cluster etcd:https://h:2379/cellar: /nonexistent: No such file or directory \
             (os error 2)",
        ),
        (
            with(&["etcd:http://h", "--cluster-lease", "1s"]),
            "--cluster-lease: \"1s\" is not in whole seconds from 2s to 60s",
        ),
        (
            with(&["etcd:http://h", "--cluster-cert", "/x"]),
            "--cluster-cert: --cluster-cert and --cluster-key must be set together",
        ),
        (
            with(&["etcd:http://h", "--cluster-user", "x"]),
            "--cluster-user: --cluster-user and --cluster-password-file must be set together",
        ),
        (
            with(&[
                "etcd:http://h",
                "--cluster-user",
                "x",
                "--cluster-password-file",
                "/y",
            ]),
            "--cluster etcd:http://h:2379/cellar: --cluster-password-file /y: No such file or \
             directory (os error 2)",
        ),
        (
            with(&["dns:_mysql._tcp.h"]),
            "--cluster dns:_mysql._tcp.h: \"_mysql._tcp.h\" is not a service of Cellar; write \
             dns:_redis._tcp.NAME, or _memcached or _http in place of _redis",
        ),
        (
            with(&["file:/x", "--announce-resp", "a:1"]),
            "--cluster: --announce-resp, --announce-memcached and --announce-http go with etcd: \
             and dns:; a file has the addresses itself",
        ),
    ] {
        check(&flags, &[], expected);
    }
}

#[test]
fn unknown_names_are_told() {
    check(
        &["--memroy", "1GiB"],
        &[],
        "unexpected argument '--memroy' found; a similar argument exists: '--memory'; --help-all \
         lists all flags",
    );
    check(
        &["--requirepass", "secret"],
        &[],
        "unexpected argument '--requirepass' found; write --password; --help-all lists all flags",
    );
    check(
        &["migrate", "check"],
        &[],
        "the following required arguments were not provided: <URL>; cellar migrate check --help \
         describes its arguments",
    );
    let line = refusal(&["--memory"], &[]);
    assert!(line.contains("--memory"), "{line}");
    check(
        &[],
        &[("CELLAR_MEMROY", "1GiB")],
        "environment variable CELLAR_MEMROY: unknown setting; did you mean CELLAR_MEMORY?; \
         --help-all lists all flags",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.toml");
    std::fs::write(&path, "memroy = \"1GiB\"\n").unwrap();
    let path = path.to_str().unwrap();
    check(
        &["--config", path],
        &[],
        &format!("--config {path}: line 1: unknown key \"memroy\"; did you mean memory?"),
    );
    check(
        &["--config", "/nonexistent/cellar.toml"],
        &[],
        "--config /nonexistent/cellar.toml: No such file or directory (os error 2)",
    );
}

#[test]
fn a_token_that_no_header_field_can_bear_is_told() {
    let expected = "--http-token: a token has only letters, digits and - . _ ~ + / =";
    check(&["--http-token", "two words"], &[], expected);
}

#[test]
fn a_unix_socket_that_cannot_be_made_is_told() {
    let unix = |path: &str| refusal(&only(path), &[]);
    assert_eq!(
        unix("/nonexistent/cellar.sock"),
        "cellar: --memcached unix:/nonexistent/cellar.sock: the directory does not exist"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        unix(file),
        format!("cellar: --memcached unix:{file}: a file exists there that is not a socket")
    );
    let long = format!("/tmp/{}", "x".repeat(120));
    assert_eq!(
        unix(&long),
        format!("cellar: --memcached unix:{long}: the path is too long for a socket (107 bytes)")
    );
    let [off, long] = ["off", &format!("unix:{long}")];
    check(
        &["--memcached", off, "--resp", off, "--http", long],
        &[],
        &format!("--http {long}: the path is too long for a socket (107 bytes)"),
    );
}

#[test]
fn a_unix_socket_with_a_living_server_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("living.sock");
    let path = path.to_str().unwrap();
    let _daemon = Daemon::spawn(&only(path));
    check(
        &only(path),
        &[],
        &format!("--memcached unix:{path}: another server uses this socket"),
    );
    assert!(std::os::unix::net::UnixStream::connect(path).is_ok());
}

#[test]
fn more_connections_than_open_files_are_told() {
    for (files, flags, needs) in [
        (200, "--max-connections 1000", "1000 connections need 1130"),
        // The default gives way, but not to nothing.
        (64, "", "even one connection needs 131"),
    ] {
        // Root may raise every limit unless that capability is taken away.
        let script = format!(
            "ulimit -Sn {files}; ulimit -Hn {files}
             if [ $(id -u) = 0 ]; then without='setpriv --bounding-set=-sys_resource'; fi
             exec $without {} --memcached 127.0.0.1:0 --memory 64MiB --threads 1 {flags}",
            env!("CARGO_BIN_EXE_cellar"),
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        let limit = format!("open files, the limit is {files}; increase ulimit -n");
        assert_eq!(
            text.trim_end(),
            format!("cellar: --max-connections: {needs} {limit}")
        );
    }
}

/// Runs the binary under a limit of the shell's and gives the one line that it refuses with.
fn refusal_under(limit: &str, flags: &str) -> String {
    let script = format!(
        "ulimit {limit}; exec {} --memcached 127.0.0.1:0 --resp off --http off --threads 1 {flags}",
        env!("CARGO_BIN_EXE_cellar"),
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn too_few_addresses_are_told_with_the_limit_and_what_helps() {
    for (limit, name, unit) in [
        ("-v 1000000", "ulimit -v", "LimitAS"),
        ("-d 1000000", "ulimit -d", "LimitDATA"),
    ] {
        let line = refusal_under(limit, "--memory 256MiB");
        assert!(
            line.starts_with("cellar: --memory: 256.0MiB and one thread need "),
            "{line}"
        );
        let rest = format!(
            " of addresses, which take memory only as they are used, but this process may have \
             976.5MiB ({name}); lift that limit ({name} unlimited, or {unit}=infinity in its \
             unit), or reduce --memory"
        );
        assert!(line.ends_with(&rest), "{line}");
    }
}

#[test]
fn as_many_addresses_as_were_asked_for_are_enough() {
    let line = refusal_under("-v 1000000", "--memory 256MiB");
    let (_, rest) = line.split_once("one thread need ").unwrap();
    let (gib, _) = rest.split_once("GiB").unwrap();
    // The number in the line is rounded down to a tenth.
    let kib = (gib.parse::<f64>().unwrap() + 0.1) * 1_048_576.0;
    for limit in ["-v", "-d"] {
        let script = format!(
            "ulimit {limit} {kib:.0}; exec {} --memcached 127.0.0.1:0 --resp off --http off \
             --threads 1 --memory 256MiB",
            env!("CARGO_BIN_EXE_cellar"),
        );
        let log = log_until_ready(Command::new("sh").args(["-c", &script]));
        assert!(log.contains("cellar ready"), "{log}");
    }
}

/// Starts the server and gives its log up to the line that says it is ready, or to its end.
fn log_until_ready(command: &mut Command) -> String {
    use std::io::{BufRead, BufReader};
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stderr.take().unwrap());
    let mut log = String::new();
    while reader.read_line(&mut log).unwrap() > 0 && !log.contains("cellar ready") {}
    child.kill().unwrap();
    child.wait().unwrap();
    log
}

#[test]
fn a_secret_that_leaves_another_way_open_is_warned_of() {
    let warnings = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellar"));
        command
            .args(["--memory", "64MiB", "--threads", "1"])
            .args(flags);
        let all = ["--memcached", "--resp", "--http"];
        for flag in all.iter().filter(|flag| !flags.contains(flag)) {
            command.args([flag, "127.0.0.1:0"]);
        }
        let log = log_until_ready(&mut command);
        assert!(log.contains("cellar ready"), "{log}");
        let lines = log.lines().filter(|line| line.contains("WARN"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (off, password) = ("off", ["--password", "s3cret"]);
    assert_eq!(warnings(&[]), [""; 0]);
    let all = warnings(&password);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(
        all[0].contains("--password does not protect memcached 127.0.0.1:"),
        "{all:?}"
    );
    assert!(
        all[0].contains(", http 127.0.0.1:") && !all[0].contains("s3cret"),
        "{all:?}"
    );
    let token = warnings(&["--http-token", "s3cret"]);
    assert!(
        token[0].contains("--http-token does not protect memcached"),
        "{token:?}"
    );
    assert!(token[0].contains(", resp 127.0.0.1:"), "{token:?}");
    let both = ["--password", "a", "--http-token", "b"];
    let both = warnings(&both);
    assert!(
        both[0].contains("--password and --http-token do not protect memcached"),
        "{both:?}"
    );
    let closed = ["--memcached", off, "--password", "a", "--http-token", "b"];
    assert_eq!(warnings(&closed), [""; 0]);
    assert_eq!(
        warnings(&["--memcached", off, "--http", off, "--password", "a"]),
        [""; 0]
    );
}

#[test]
fn an_address_that_others_reach_is_not_open_by_accident() {
    let file = users::UsersFile::new(&users::user("root", "admin", ""));
    let path = file.path().display().to_string();
    let off = |protocol: &str| {
        ["memcached", "resp", "http"]
            .into_iter()
            .filter(|other| *other != protocol)
            .flat_map(|other| [format!("--{other}"), "off".to_owned()])
            .collect::<Vec<_>>()
    };
    for (protocol, short_form) in [
        ("memcached", ""),
        ("resp", "password"),
        ("http", "http-token"),
    ] {
        let mut flags = off(protocol);
        flags.extend([format!("--{protocol}"), "0.0.0.0:0".to_owned()]);
        let with = |more: &[&str]| {
            let mut flags = flags.clone();
            flags.extend(more.iter().map(|flag| (*flag).to_owned()));
            flags
        };
        let plain = with(&[]);
        let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
        let line = refusal(&plain, &[]);
        assert!(
            line.starts_with(&format!("cellar: --{protocol} 0.0.0.0:")),
            "{line}"
        );
        assert!(
            line.contains("--users FILE") && line.ends_with("or set --insecure"),
            "{line}"
        );
        let secret = format!("--{short_form}");
        let mut ways = vec![with(&["--insecure"]), with(&["--users", &path])];
        if !short_form.is_empty() {
            assert!(line.contains(&secret), "{line}");
            ways.push(with(&[&secret, "s3cret"]));
        }
        for flags in ways {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let daemon = Daemon::spawn(&flags);
            let warned = daemon
                .warnings()
                .iter()
                .any(|line| line.contains("--insecure"));
            assert_eq!(warned, flags.contains(&"--insecure"), "{flags:?}");
        }
    }
}

#[test]
fn a_bad_file_of_users_is_told_with_its_line() {
    use std::os::unix::fs::PermissionsExt;
    let file = users::UsersFile::new("\n[[user]]\nname = \"a b\"\nrole = \"read\"\n");
    let path = file.path().display().to_string();
    let line = refusal(&["--users", &path], &[]);
    assert!(
        line.starts_with(&format!("cellar: --users {path}: line 3: a name has 1 to")),
        "{line}"
    );
    file.write("");
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let line = refusal(&["--users", &path], &[]);
    assert!(
        line.contains("every user of this machine has access (mode 644)"),
        "{line}"
    );
    let line = refusal(&["--users", "/nonexistent"], &[]);
    assert!(
        line.starts_with("cellar: --users /nonexistent: No such file"),
        "{line}"
    );
    let text = users::user("default", "read", "");
    file.write(&text);
    let line = refusal(&["--users", &path, "--password", "x"], &[]);
    assert!(
        line.contains("the user default is also defined by --password"),
        "{line}"
    );
}
