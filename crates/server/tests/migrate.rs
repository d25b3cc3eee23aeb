//! `cellar migrate check`: against Cellar itself, and servers that lie.

use crate::support::daemon;
use crate::support::wait::wait_until;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use daemon::{Daemon, check, hit, set};

/// Runs the check with these arguments.
fn migrate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(["migrate", "check"])
        .args(arguments)
        .env_remove("CELLAR_MIGRATE_URL")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn page(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line of a check that failed.
fn failure(arguments: &[&str]) -> String {
    let output = migrate(arguments);
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(
        output.stdout.is_empty() && line.lines().count() == 1,
        "{line}"
    );
    line
}

/// A server for one client: gives `answers` in turn, one for each read, and then the last again.
fn scripted(answers: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut at = 0;
        while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
            if stream.write_all(&answers[at]).is_err() {
                return;
            }
            at = (at + 1).min(answers.len() - 1);
        }
    });
    address
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

#[test]
fn cellar_itself_has_all_that_it_is_used_for() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"v"), b"STORED\r\n");
    check(&mut stream, b"get k\r\n", &hit("k", b"v"));
    check(&mut stream, b"incr none 1\r\n", b"NOT_FOUND\r\n");
    check(&mut stream, b"delete k\r\n", b"DELETED\r\n");
    let output = migrate(&[&format!("memcached://{}", daemon.address)]);
    let text = page(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("memcached ") && text.contains("--memory 64MiB\n"),
        "{text}"
    );
    assert!(
        text.contains("  delete ") && text.contains("  incr "),
        "{text}"
    );
    let mut stream = daemon.connect_resp();
    check(&mut stream, b"PING\r\n", b"+PONG\r\n");
    check(&mut stream, b"CONFIG SET timeout 0\r\n", b"+OK\r\n");
    let output = migrate(&[&format!("redis://{}", daemon.resp)]);
    assert_eq!(output.status.code(), Some(0), "{}", page(&output));
    let text = page(&output);
    let (_, partly) = text.split_once("\npartly supported\n").unwrap();
    let (partly, here) = partly.split_once("\nsupported\n").unwrap();
    assert!(
        partly.contains("config set") && here.contains("ping"),
        "{text}"
    );
}

#[test]
fn redis_copies_its_items_by_migrate() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let daemon = Daemon::start(&[]);
    let (host, port) = daemon.resp.rsplit_once(':').unwrap();
    let copy = format!("MIGRATE {host} {port} \"\" 0 60000 COPY REPLACE KEYS text hash list");
    redis.run(&[
        "SET text new EX 1000",
        "HSET hash f v",
        "RPUSH list a b",
        &copy,
    ]);
    let mut stream = daemon.connect_resp();
    check(&mut stream, b"GET text\r\n", b"$3\r\nnew\r\n");
    check(&mut stream, b"HGET hash f\r\n", b"$1\r\nv\r\n");
    check(&mut stream, b"LLEN list\r\n", b":2\r\n");
    check(&mut stream, b"TTL text\r\n", b":1000\r\n");
}

#[test]
fn a_server_that_lies_or_breaks_off_is_an_error_in_one_line() {
    // It goes on and on, and each part of it is right.
    let part = bulk(&"x".repeat(60_000));
    let endless = [b"*60000\r\n".to_vec(), part.repeat(80)].concat();
    for (answer, expected) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "not speak the Redis protocol",
        ),
        (b"*999999999\r\n".to_vec(), "too many values"),
        (b"$99999999999\r\n".to_vec(), "not speak the Redis protocol"),
        (b"*1\r\n".repeat(100_000), "too many values"),
        (b":1\r\n".to_vec(), "is not text"),
        (b"-ERR \x1b[2Jno\r\n".to_vec(), "it answers ERR"),
        (
            bulk("redis_version:7.0.15\r\n"),
            "INFO commandstats lists no commands",
        ),
        (vec![b'+'; 70_000], "not speak the Redis protocol"),
        (endless, "more than 4 MiB"),
    ] {
        let line = failure(&[&format!("redis://{}", scripted(vec![answer]))]);
        assert!(line.contains(expected), "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
    let line = failure(&[&format!(
        "memcached://{}",
        scripted(vec![b"+OK\r\n".to_vec()])
    )]);
    assert!(line.contains("not speak the memcached protocol"), "{line}");
    // A closed port, and what is no address.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let line = failure(&[&format!("redis://{free}")]);
    assert!(line.contains("refused"), "{line}");
    let line = failure(&["http://a:secret@old"]);
    assert!(
        line.contains("redis://") && !line.contains("secret"),
        "{line}"
    );
    failure(&[]);
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let line = failure(&[&format!("redis://{}", scripted(vec![Vec::new()]))]);
    assert!(line.contains("does not answer within 10 s"), "{line}");
}

#[test]
fn what_was_refused_by_rights_is_told_too() {
    let entry: Vec<u8> = [
        &b"*1\r\n*6\r\n"[..],
        &bulk("count"),
        b":3\r\n",
        &bulk("reason"),
        &bulk("command"),
        &bulk("object"),
        &bulk("ft.search"),
    ]
    .concat();
    let info = bulk("valkey_version:8.0.1\r\ncmdstat_get:calls=1,usec=1\r\n");
    let address = scripted(vec![info, entry, b"-NOPERM no\r\n".to_vec()]);
    let output = migrate(&[&format!("redis://{address}")]);
    let text = page(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("ft.search") && text.contains("refused by ACL"),
        "{text}"
    );
    assert!(text.contains("settings cannot be read"), "{text}");
}

/// A redis-server on a port of its own.
struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    /// Starts one; `None` where there is none.
    fn start(more: &[&str]) -> Option<Redis> {
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let process = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--dir", "/tmp"])
                .args(more)
                .stdout(Stdio::null())
                .stdin(Stdio::null())
                .spawn();
            let Ok(process) = process else {
                println!("skipped: there is no redis-server");
                return None;
            };
            let mut redis = Redis { process, port };
            if redis.is_there() {
                return Some(redis);
            }
        }
        panic!("redis-server finds its port taken each time");
    }

    /// Waits until it serves; whether it does so at its port, which another server may have taken
    /// since it was free.
    fn is_there(&mut self) -> bool {
        let mut is_over = false;
        wait_until("redis-server starts", || {
            is_over = self.process.try_wait().unwrap().is_some();
            is_over || TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        let own = format!("process_id:{}\r\n", self.process.id());
        if is_over {
            return false;
        }
        // One with a password tells nothing more than that it is there.
        let answer = self.answer("INFO server");
        answer.contains(&own) || answer.starts_with("-NOAUTH")
    }

    /// Sends a line at a time, and waits until it is answered.
    fn run(&self, lines: &[&str]) {
        for line in lines {
            let answer = self.answer(line);
            assert!(!answer.starts_with('-'), "{line}: {answer}");
        }
    }

    /// What comes first of the answer to a line.
    fn answer(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 8192];
        let bytes = stream.read(&mut answer).unwrap();
        assert!(bytes > 0, "{line}");
        String::from_utf8_lossy(&answer[..bytes]).into_owned()
    }

    fn url(&self, user: &str) -> String {
        format!("redis://{user}127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_a_redis_is_used_for_is_compared_with_what_is_here() {
    let Some(redis) = Redis::start(&["--maxmemory-policy", "noeviction"]) else {
        return;
    };
    redis.run(&[
        "SET a 1",
        "XADD s * a 1",
        "EVAL \"return redis.call('xlen','s')\" 0",
        "LASTSAVE",
        "ACL SETUSER ada on >secret ~* -@all",
    ]);
    let output = migrate(&[&redis.url("")]);
    let told = page(&output);
    for expected in [
        ": Redis ",
        "xadd",
        "xlen",
        "streams",
        "eval",
        "noeviction",
        "scripts ran 1",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert_eq!(output.status.code(), Some(1), "{told}");
    let output = migrate(&["--json", &redis.url("")]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = json["missing"].as_array().unwrap().iter();
    let missing: Vec<&str> = missing
        .map(|row| row["command"].as_str().unwrap())
        .collect();
    assert_eq!(missing, ["acl setuser", "xadd", "xlen"], "{json}");
}

#[test]
fn who_asks_is_said_where_a_server_asks_for_it_and_is_not_repeated() {
    let Some(redis) = Redis::start(&["--requirepass", "s3cret"]) else {
        return;
    };
    assert!(failure(&[&redis.url("")]).contains("NOAUTH"));
    let output = migrate(&[&redis.url(":s3cret@")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = failure(&[&redis.url("ada:wr0ng@")]);
    assert!(
        told.contains("WRONGPASS") && !told.contains("wr0ng"),
        "{told}"
    );
}
