//! Reload: at SIGHUP the settings file is read anew; what can change does, the rest is named.

use crate::support::daemon::Daemon;
use crate::support::resp::Client;

use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;

/// A server with a settings file.
struct Settings {
    folder: TempDir,
    daemon: Daemon,
}

impl Settings {
    fn start(text: &str, flags: &[&str]) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cellar.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let daemon = Daemon::start_of_file(path, flags);
        Settings { folder, daemon }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cellar.toml")
    }

    /// Writes the file anew, and gives what the log says of it up to these words.
    fn reload(&self, text: &str, words: &str) -> String {
        std::fs::write(self.path(), text).unwrap();
        self.hang_up(words)
    }

    fn hang_up(&self, words: &str) -> String {
        self.daemon.signal(Signal::HUP);
        self.daemon.log_until(words).join("\n")
    }

    fn parameter(&self, name: &str, value: &str) {
        Client::connect(&self.daemon).check(&format!("CONFIG GET {name} => [{name}, {value}]"));
    }
}

#[test]
fn what_can_change_takes_effect_and_the_rest_waits_for_a_restart() {
    let server = Settings::start("idle_timeout = \"5m\"\n", &[]);
    server.parameter("timeout", "300");
    let told = server.reload(
        "idle_timeout = \"10m\"\ndefault_ttl = \"1h\"\nexpire_effort = 3\nmax_value = \"1MiB\"\n\
         notify_keyspace_events = \"KEA\"\nrelease_memory = true\ndatabases = 17\n\
         tracking_table_max_keys = 5\npassword = \"s3cret\"\n",
        "needs a restart",
    );
    for (name, value) in [
        ("timeout", "600"),
        ("default-ttl", "1h"),
        ("active-expire-effort", "3"),
        ("notify-keyspace-events", "AKE"),
        ("release-memory", "yes"),
        ("tracking-table-max-keys", "5"),
        ("databases", "16"),
    ] {
        server.parameter(name, value);
    }
    assert!(
        told.contains("timeout=600") && told.contains("default-ttl=1h"),
        "{told}"
    );
    let waiting = told.lines().last().unwrap();
    assert!(
        waiting.ends_with("needs a restart: --databases, --password, --max-value"),
        "{waiting}"
    );
    assert!(!told.contains("s3cret"), "{told}");
    let mut client = Client::connect(&server.daemon);
    client.check(
        "SET k v => +OK
         TTL k => :3600",
    );
    // What has to wait is told each time, and all of it is in effect that has gone away.
    let told = server.reload("max_value = \"1MiB\"\n", "needs a restart");
    assert!(told.ends_with("needs a restart: --max-value"), "{told}");
    server.parameter("timeout", "0");
    server.parameter("default-ttl", "0");
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_is_told_in_one_line() {
    let server = Settings::start("idle_timeout = \"5m\"\n", &[]);
    for (text, reason) in [
        ("idle_timeout = \"10m\"\nthreads = \n", "line 2"),
        ("idle_timeout = \"10m\"\nthreads = 0\n", "--threads"),
        ("idle_timeout = \"10m\"\nmemroy = 1\n", "unknown key"),
        (
            "idle_timeout = \"10m\"\ndefault_ttl = \"resp:16=1m\"\n",
            "--default-ttl: database 16 does not exist",
        ),
        (
            "idle_timeout = \"10m\"\nnoeviction_databases = \"1:1GiB\"\n",
            "--noeviction-databases: the shares are 1GiB",
        ),
    ] {
        let told = server.reload(text, "keeping the old settings");
        assert!(told.lines().count() == 1 && told.contains(reason), "{told}");
        server.parameter("timeout", "300");
    }
    std::fs::remove_file(server.path()).unwrap();
    let told = server.hang_up("keeping the old settings");
    assert!(told.contains("No such file"), "{told}");
    std::fs::write(server.path(), [0xff]).unwrap();
    let told = server.hang_up("keeping the old settings");
    assert!(told.contains("not valid UTF-8"), "{told}");
    server.parameter("timeout", "300");
}

#[test]
fn a_pipe_in_the_place_of_the_file_holds_nothing_up() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let server = Settings::start("", &[]);
    std::fs::remove_file(server.path()).unwrap();
    mknodat(CWD, server.path(), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let told = server.hang_up("keeping the old settings");
    assert!(told.contains("not a regular file"), "{told}");
}

#[test]
fn flags_go_before_the_file_and_what_config_set_has_changed_stays() {
    let server = Settings::start("idle_timeout = \"5m\"\n", &["--default-ttl", "1m"]);
    let mut client = Client::connect(&server.daemon);
    client.check("CONFIG SET timeout 7 active-expire-effort 2 => +OK");
    let told = server.reload(
        "idle_timeout = \"5m\"\ndefault_ttl = \"2m\"\n",
        "reloaded the settings",
    );
    assert!(told.contains("no setting that can change"), "{told}");
    server.parameter("timeout", "7");
    server.parameter("default-ttl", "1m");
    server.reload("idle_timeout = \"6m\"\n", "reloaded the settings");
    server.parameter("timeout", "360");
    server.parameter("active-expire-effort", "2");
}

#[test]
fn less_memory_takes_effect_and_more_than_was_reserved_waits() {
    let server = Settings::start("memory = \"32MiB\"\n", &[]);
    server.reload("memory = \"16MiB\"\n", "reloaded the settings");
    server.parameter("maxmemory", "16777216");
    let told = server.reload("memory = \"64MiB\"\n", "needs a restart");
    assert!(
        told.contains("needs a restart: --memory (maxmemory must be from"),
        "{told}"
    );
    server.parameter("maxmemory", "16777216");
    let told = server.hang_up("needs a restart");
    assert!(told.contains("--memory ("), "told again: {told}");
}
