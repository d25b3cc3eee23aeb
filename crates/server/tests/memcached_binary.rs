//! memcached's binary protocol on real sockets: versions, uploads, pipelines, logins.
//!
//! What each answer looks like stands in conformance/memcached/binary*.txt; that they are those of
//! a memcached, foreign-clients/packets.py compares.

use crate::support::{daemon, tls, users};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::version::TLS13;

use cellar_protocol::memcached::binary::operation::code;
use cellar_protocol::memcached::binary::{HEAD_BYTES, OPERATIONS, PacketStatus};

use daemon::{Daemon, expect_end};
use tls::{Authority, connect};
use users::UsersFile;

/// Flags and exptime of a store: 7 and never.
const ITEM: [u8; 8] = [0, 0, 0, 7, 0, 0, 0, 0];

/// A request.
struct Ask<'a> {
    code: u8,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    version: u64,
    opaque: u32,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    code: u8,
    status: u16,
    opaque: u32,
    version: u64,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Ask<'a> {
    fn of(code: u8, key: &'a str) -> Ask<'a> {
        Ask {
            code,
            extras: b"",
            key: key.as_bytes(),
            value: b"",
            version: 0,
            opaque: 0,
        }
    }

    fn store(code: u8, key: &'a str, value: &'a [u8]) -> Ask<'a> {
        Ask {
            extras: &ITEM,
            value,
            ..Ask::of(code, key)
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.code];
        bytes.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&(body as u32).to_be_bytes());
        bytes.extend_from_slice(&self.opaque.to_be_bytes());
        bytes.extend_from_slice(&self.version.to_be_bytes());
        [&*bytes, self.extras, self.key, self.value].concat()
    }
}

fn told(stream: &mut impl Read) -> Told {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).unwrap();
    assert_eq!((head[0], head[5]), (0x81, 0));
    let key = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let extras = usize::from(head[4]);
    let mut body = vec![0; u32::from_be_bytes(head[8..12].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    Told {
        code: head[1],
        status: u16::from_be_bytes([head[6], head[7]]),
        opaque: u32::from_be_bytes(head[12..16].try_into().unwrap()),
        version: u64::from_be_bytes(head[16..].try_into().unwrap()),
        extras: body[..extras].to_vec(),
        key: body[extras..extras + key].to_vec(),
        value: body[extras + key..].to_vec(),
    }
}

fn ask(stream: &mut (impl Read + Write), ask: &Ask<'_>) -> Told {
    stream.write_all(&ask.bytes()).unwrap();
    told(stream)
}

fn counter(delta: u64, initial: u64, exptime: u32) -> Vec<u8> {
    [
        &delta.to_be_bytes()[..],
        &initial.to_be_bytes(),
        &exptime.to_be_bytes(),
    ]
    .concat()
}

#[test]
fn a_version_is_told_by_every_answer_and_asked_for_by_every_change() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let first = ask(&mut stream, &Ask::store(code::SET, "k", b"one"));
    assert_eq!((first.status, first.value.len()), (0, 0));
    assert_ne!(first.version, 0);
    let read = ask(&mut stream, &Ask::of(code::GETK, "k"));
    assert_eq!(read.version, first.version);
    assert_eq!(
        (&*read.extras, &*read.key, &*read.value),
        (&ITEM[..4], &b"k"[..], &b"one"[..])
    );

    let with = |request: Ask<'static>, version| Ask { version, ..request };
    for verb in [code::SET, code::ADD, code::REPLACE] {
        let wrong = with(Ask::store(verb, "k", b"two"), first.version + 1000);
        assert_eq!(ask(&mut stream, &wrong).status, PacketStatus::Exists.code());
    }
    let second = ask(
        &mut stream,
        &with(Ask::store(code::SET, "k", b"2"), first.version),
    );
    assert!(second.status == 0 && second.version != first.version);
    let counted = Ask {
        extras: &counter(5, 0, 0),
        version: second.version,
        ..Ask::of(code::INCREMENT, "k")
    };
    let third = ask(&mut stream, &counted);
    assert_eq!((third.status, &*third.value), (0, &7_u64.to_be_bytes()[..]));
    assert_eq!(
        ask(&mut stream, &counted).status,
        PacketStatus::Exists.code()
    );
    let append = |version| Ask {
        extras: b"",
        version,
        ..Ask::store(code::APPEND, "k", b"!")
    };
    let old = ask(&mut stream, &append(second.version));
    assert_eq!(old.status, PacketStatus::Exists.code());
    let fourth = ask(&mut stream, &append(third.version));
    assert_eq!(fourth.status, 0);
    let touch = Ask {
        extras: &[0, 0, 1, 0],
        ..Ask::of(code::TOUCH, "k")
    };
    let touched = ask(&mut stream, &touch);
    assert_eq!(
        (touched.version, &*touched.extras),
        (fourth.version, &ITEM[..4])
    );
    let gone = with(Ask::of(code::DELETE, "k"), third.version);
    assert_eq!(ask(&mut stream, &gone).status, PacketStatus::Exists.code());
    let gone = with(Ask::of(code::DELETE, "k"), fourth.version);
    assert_eq!(ask(&mut stream, &gone).status, 0);
}

#[test]
fn counters_wrap_stop_and_begin() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let mut count = |code, delta, initial, exptime| {
        let extras = counter(delta, initial, exptime);
        let request = Ask {
            extras: &extras,
            ..Ask::of(code, "n")
        };
        let told = ask(&mut stream, &request);
        let number = <[u8; 8]>::try_from(&*told.value).map(u64::from_be_bytes);
        (told.status, number.ok())
    };
    let missing = (PacketStatus::NotFound.code(), None);
    assert_eq!(count(code::INCREMENT, 1, 5, u32::MAX), missing);
    assert_eq!(count(code::INCREMENT, 1, u64::MAX, 0), (0, Some(u64::MAX)));
    assert_eq!(count(code::INCREMENT, 3, 0, 0), (0, Some(2)));
    assert_eq!(count(code::DECREMENT, 5, 0, 0), (0, Some(0)));
}

#[test]
fn both_forms_see_the_same_items() {
    let daemon = Daemon::start(&[]);
    let mut text = daemon.connect();
    let mut binary = daemon.connect();
    daemon::check(&mut text, b"set k 7 0 3\r\nada\r\n", b"STORED\r\n");
    assert_eq!(ask(&mut binary, &Ask::of(code::GET, "k")).value, b"ada");
    assert_eq!(
        ask(&mut binary, &Ask::store(code::REPLACE, "k", b"bob")).status,
        0
    );
    daemon::check(&mut text, b"get k\r\n", b"VALUE k 7 3\r\nbob\r\nEND\r\n");
    // What a connection speaks, it speaks for good.
    text.write_all(&Ask::of(code::NOOP, "").bytes()).unwrap();
    daemon::expect(&mut text, b"ERROR\r\n");
    expect_end(&mut text);
    binary.write_all(b"get k\r\n").unwrap();
    expect_end(&mut binary);
}

#[test]
fn many_requests_at_once_are_answered_in_order() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let mut all = Vec::new();
    for number in 0..2_000_u32 {
        let key = format!("key:{number}");
        let value = number.to_string();
        all.extend(Ask::store(code::SETQ, &key, value.as_bytes()).bytes());
        let key = format!("key:{}", number / 2 * 3);
        let mut read = Ask::of(code::GETKQ, &key);
        read.opaque = number;
        all.extend(read.bytes());
    }
    all.extend(Ask::of(code::NOOP, "").bytes());
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&all));
    let mut next = 0;
    loop {
        let told = told(&mut stream);
        if told.code == code::NOOP {
            break;
        }
        assert!(told.opaque >= next && told.status == 0);
        next = told.opaque + 1;
        let number = told.opaque / 2 * 3;
        assert_eq!(told.key, format!("key:{number}").as_bytes());
        assert_eq!(told.value, number.to_string().as_bytes());
    }
    sender.join().unwrap().unwrap();
    assert!(next > 0);
}

#[test]
fn long_values_go_to_the_caches_memory_and_longer_ones_nowhere() {
    let daemon = Daemon::start(&["--memory", "256MiB", "--max-value", "64MiB"]);
    let mut stream = daemon.connect();
    let large = daemon::pattern(1, 40 << 20);
    assert_eq!(
        ask(&mut stream, &Ask::store(code::SET, "large", &large)).status,
        0
    );
    let read = ask(&mut stream, &Ask::of(code::GET, "large"));
    assert!(read.value == large && read.extras == ITEM[..4]);
    // Beyond the limit it is told, and skipped; what is behind it is answered.
    let longer = vec![b'v'; 65 << 20];
    let all = [
        Ask::store(code::SETQ, "large", &longer).bytes(),
        Ask::of(code::GETKQ, "large").bytes(),
        Ask::of(code::NOOP, "").bytes(),
    ];
    stream.write_all(&all.concat()).unwrap();
    let refused = told(&mut stream);
    assert_eq!(
        (refused.code, refused.status),
        (code::SETQ, PacketStatus::TooLarge.code())
    );
    assert_eq!(refused.value, b"Too large.");
    assert_eq!(told(&mut stream).code, code::NOOP);
    assert!(daemon.stat("store_too_large") > 0);
    // A value that comes in pieces, and one that does not come.
    let medium = daemon::pattern(2, 100_000);
    for piece in Ask::store(code::ADD, "medium", &medium)
        .bytes()
        .chunks(9_999)
    {
        stream.write_all(piece).unwrap();
    }
    assert_eq!(told(&mut stream).status, 0);
    assert_eq!(
        ask(&mut stream, &Ask::of(code::GET, "medium")).value,
        medium
    );
    let part = &Ask::store(code::SET, "medium", &medium).bytes()[..50_000];
    daemon.connect().write_all(part).unwrap();
    assert_eq!(
        ask(&mut stream, &Ask::of(code::GET, "medium")).value,
        medium
    );
}

#[test]
fn statistics_are_packets_up_to_an_empty_one() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    for name in [
        "", "settings", "items", "slabs", "sizes", "expiry", "mrc", "misses", "hotkeys",
    ] {
        stream
            .write_all(&Ask::of(code::STAT, name).bytes())
            .unwrap();
        let mut facts = 0;
        loop {
            let told = told(&mut stream);
            assert_eq!((told.code, told.status), (code::STAT, 0));
            if told.key.is_empty() {
                assert!(told.value.is_empty());
                break;
            }
            facts += 1;
        }
        assert!(facts > 0 || name == "hotkeys", "{name}");
    }
}

/// A connection that has logged in as this user, whose password is its name and `-pw`.
fn member(daemon: &Daemon, name: &str) -> TcpStream {
    let mut stream = daemon.connect();
    assert_eq!(
        log_in(&mut stream, name, &format!("{name}-pw")).value,
        b"Authenticated"
    );
    stream
}

fn log_in(stream: &mut TcpStream, name: &str, password: &str) -> Told {
    let value = format!("\0{name}\0{password}");
    let request = Ask {
        value: value.as_bytes(),
        ..Ask::of(code::SASL_AUTH, "PLAIN")
    };
    ask(stream, &request)
}

#[test]
fn who_has_not_logged_in_may_do_nothing_else() {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::start(&flags.each_ref().map(String::as_str));
    let denied = PacketStatus::Denied.code();
    let mut stream = daemon.connect();
    assert_eq!(
        ask(&mut stream, &Ask::of(code::SASL_LIST, "")).value,
        b"PLAIN"
    );
    assert_eq!(ask(&mut stream, &Ask::of(code::VERSION, "")).status, 0);
    let step = Ask::of(code::SASL_STEP, "PLAIN");
    assert_eq!(ask(&mut stream, &step).status, denied);
    let other = Ask {
        value: b"\0writer\0writer-pw",
        ..Ask::of(code::SASL_AUTH, "CRAM-MD5")
    };
    assert_eq!(ask(&mut stream, &other).status, denied);
    let wrong = log_in(&mut stream, "writer", "reader-pw");
    assert_eq!(
        (wrong.status, &*wrong.value),
        (denied, &b"Auth failure."[..])
    );
    // What comes behind a login waits for it.
    let login = Ask {
        value: b"\0writer\0writer-pw",
        ..Ask::of(code::SASL_AUTH, "PLAIN")
    };
    let all = [login.bytes(), Ask::store(code::SET, "a", b"1").bytes()];
    stream.write_all(&all.concat()).unwrap();
    assert_eq!(told(&mut stream).value, b"Authenticated");
    assert_eq!(told(&mut stream).status, 0);
    // One that fails takes away what was.
    assert_eq!(log_in(&mut stream, "writer", "").status, denied);
    assert_eq!(ask(&mut stream, &Ask::of(code::GET, "a")).status, denied);
    expect_end(&mut stream);
    let mut stream = daemon.connect();
    let upload = Ask::store(code::SET, "a", &[b'x'; 1_000_000]).bytes();
    let _ = stream.write_all(&upload[..100]);
    assert_eq!(told(&mut stream).status, denied);
    expect_end(&mut stream);
}

#[test]
fn a_certificate_is_a_login() {
    let authority = Authority::new();
    let file = UsersFile::new(
        "[[user]]\nname = \"ann\"\ncertificates = [\"ann.example\"]\nrole = \"read\"\n",
    );
    authority.issue("server", "localhost", &["localhost"]);
    let files = ["server.pem", "server.key", "ca.pem"].map(|name| authority.path(name));
    let users = file.path().display().to_string();
    let daemon = Daemon::start(&[
        "--memcached",
        "tls:127.0.0.1:0",
        "--tls-cert",
        &files[0],
        "--tls-key",
        &files[1],
        "--tls-client-ca",
        &files[2],
        "--users",
        &users,
    ]);
    let (missing, denied) = (PacketStatus::NotFound.code(), PacketStatus::Denied.code());
    for (name, found) in [("ann", missing), ("bob", denied)] {
        authority.issue(name, &format!("{name}.example"), &[]);
        let config = Arc::new(authority.client_called(name, &[&TLS13]));
        let mut stream = connect(&daemon.address, "localhost", &config);
        let get = ask(&mut stream, &Ask::of(code::GET, "a"));
        assert_eq!(get.status, found, "a read for {name}");
        if name == "ann" {
            let set = ask(&mut stream, &Ask::store(code::SET, "a", b"1"));
            assert_eq!(set.status, denied, "a store is not for who only reads");
        }
    }
}

#[test]
fn every_request_is_refused_to_whom_it_is_not_for() {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::start(&flags.each_ref().map(String::as_str));
    let others = [
        "get",
        "getk",
        "noop",
        "version",
        "verbosity",
        "stat",
        "sasl_list_mechs",
    ];
    for (user, most) in [("reader", 0), ("writer", 1), ("root", 2)] {
        let mut stream = member(&daemon, user);
        for row in OPERATIONS {
            if matches!(row.name, "quit" | "sasl_auth" | "sasl_step") {
                continue;
            }
            let need = match row.name {
                "flush" => 2,
                name => usize::from(!others.contains(&name)),
            };
            let extras = vec![0; usize::from(row.extras_bytes)];
            let key = if row.takes(extras.len(), 0, 0) {
                ""
            } else {
                "a"
            };
            for code in std::iter::once(row.code).chain(row.quiet_code) {
                let request = Ask {
                    extras: &extras,
                    ..Ask::of(code, key)
                };
                let noop = Ask::of(code::NOOP, "");
                let noop = Ask { opaque: 1, ..noop };
                stream
                    .write_all(&[request.bytes(), noop.bytes()].concat())
                    .unwrap();
                let mut is_refused = false;
                loop {
                    let told = told(&mut stream);
                    is_refused |= told.value == b"Not permitted";
                    if told.opaque == 1 {
                        break;
                    }
                }
                assert_eq!(is_refused, need > most, "{user}: {}", row.name);
            }
        }
    }
    let mut app = member(&daemon, "app");
    assert_eq!(
        ask(&mut app, &Ask::store(code::SET, "app:1", b"v")).status,
        0
    );
    let beyond = ask(&mut app, &Ask::store(code::SET, "other", b"v"));
    assert_eq!(beyond.value, b"Not permitted");
    let beyond = ask(&mut app, &Ask::store(code::SET, "other", &[b'v'; 500_000]));
    assert_eq!(beyond.value, b"Not permitted");
    assert_eq!(ask(&mut app, &Ask::of(code::GET, "app:1")).value, b"v");
}
