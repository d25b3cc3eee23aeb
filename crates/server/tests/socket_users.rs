//! Users by who runs the program at the other end of a socket file, over all protocols.

use crate::support::wait::{PATIENCE, wait_until};
use crate::support::{daemon, users};

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use daemon::{Daemon, check, expect, set};
use users::{UsersFile, user};

/// A server with a socket file for each protocol, and a port for RESP.
struct Sockets {
    folder: TempDir,
    daemon: Daemon,
}

impl Sockets {
    fn serve(file: &UsersFile) -> Sockets {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let (memcached, http) = (path("memcached"), path("http"));
        let resp = format!("127.0.0.1:0,{}", path("resp"));
        let [users, file] = file.flags();
        let ports = ["--memcached", &memcached, "--resp", &resp, "--http", &http];
        let daemon = Daemon::spawn(&[&ports[..], &[&users, &file]].concat());
        Sockets { folder, daemon }
    }

    fn connect(&self, protocol: &str) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join(protocol)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The status that a request over HTTP gets.
    fn status(&self, line: &str, fields: &str) -> u16 {
        let mut stream = self.connect("http");
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
    }
}

/// A user of keys that begin with `shop:`, known by this number, with a password too; and an admin.
fn shop(uid: u32) -> String {
    let rows = format!("uids = [{uid}]\nprefixes = [\"shop:\"]");
    user("shop", "write", &rows) + &user("root", "admin", "")
}

/// Who runs this test.
fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn who_comes_by_a_socket_file_as_a_users_uid_is_that_user() {
    let sockets = Sockets::serve(&UsersFile::new(&shop(own_uid())));
    let mut resp = sockets.connect("resp");
    check(&mut resp, b"ACL WHOAMI\r\n", b"$4\r\nshop\r\n");
    check(&mut resp, b"SET shop:1 v\r\n", b"+OK\r\n");
    let refused = b"-NOPERM No permissions to access a key\r\n";
    check(&mut resp, b"GET other\r\n", refused);
    check(
        &mut resp,
        b"AUTH root root-pw\r\nGET other\r\n",
        b"+OK\r\n$-1\r\n",
    );

    let mut text = sockets.connect("memcached");
    check(
        &mut text,
        b"get shop:1\r\n",
        b"VALUE shop:1 0 1\r\nv\r\nEND\r\n",
    );
    let refused = b"CLIENT_ERROR not permitted\r\n";
    check(&mut text, b"get other\r\n", refused);

    let mut packets = sockets.connect("memcached");
    let get = |key: &str| {
        let bytes = key.len() as u8;
        let mut packet = vec![0x80, 0, 0, bytes, 0, 0, 0, 0, 0, 0, 0, bytes];
        packet.resize(24, 0);
        [&packet, key.as_bytes()].concat()
    };
    for (key, status) in [("shop:1", 0), ("other", 0x20)] {
        packets.write_all(&get(key)).unwrap();
        let mut head = [0; 24];
        packets.read_exact(&mut head).unwrap();
        assert_eq!(head[7], status, "{key}");
        let rest = u32::from_be_bytes(head[8..12].try_into().unwrap());
        packets.read_exact(&mut vec![0; rest as usize]).unwrap();
    }

    assert_eq!(sockets.status("GET /v1/cache/shop:1", ""), 200);
    assert_eq!(sockets.status("GET /v1/cache/other", ""), 403);
    // What a request says of itself comes first.
    let basic = |secrets: &str| {
        let secrets = BASE64_STANDARD.encode(secrets);
        format!("Authorization: Basic {secrets}\r\n")
    };
    let root = basic("root:root-pw");
    assert_eq!(sockets.status("GET /v1/cache/other", &root), 404);
    let wrong = basic("shop:root-pw");
    assert_eq!(sockets.status("GET /v1/cache/shop:1", &wrong), 401);
}

#[test]
fn a_password_that_is_wrong_is_not_stored_by_who_is_known_without_one() {
    let sockets = Sockets::serve(&UsersFile::new(&user(
        "shop",
        "write",
        &format!("uids = [{}]", own_uid()),
    )));
    let failure = b"CLIENT_ERROR authentication failure\r\n";
    let mut text = sockets.connect("memcached");
    check(&mut text, &set("k", b"shop shop-pW"), failure);
    check(&mut text, b"get k\r\n", b"END\r\n");
    // It is no password any more, and a name that is nobody's is a value at once.
    check(&mut text, &set("k", b"shop shop-pW"), b"STORED\r\n");
    let mut text = sockets.connect("memcached");
    check(&mut text, &set("k", b"somebody else"), b"STORED\r\n");
}

#[test]
fn a_login_by_a_uid_ends_when_the_user_has_another() {
    let file = UsersFile::new(&shop(own_uid()));
    let sockets = Sockets::serve(&file);
    let (mut resp, mut text) = (sockets.connect("resp"), sockets.connect("memcached"));
    let mut http = sockets.connect("http");
    let get = b"GET /v1/cache/shop:1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    check(&mut resp, b"SET shop:1 v\r\n", b"+OK\r\n");
    check(&mut text, b"touch shop:1 0\r\n", b"TOUCHED\r\n");
    check(&mut http, get, b"HTTP/1.1 200 OK\r\n");
    file.write(&shop(own_uid() + 1));
    sockets.daemon.log_until("reloaded the users file");
    check(
        &mut text,
        b"touch shop:1 0\r\n",
        b"CLIENT_ERROR unauthenticated\r\n",
    );
    assert_eq!(resp.read(&mut [0]).unwrap_or(0), 0);
    http.write_all(get).unwrap();
    let mut rest = String::new();
    while !rest.contains("HTTP/1.1 401") {
        let mut some = [0; 512];
        let bytes = http.read(&mut some).unwrap();
        assert!(bytes > 0 && !rest.contains("HTTP/1.1 200"), "{rest}");
        rest.push_str(&String::from_utf8_lossy(&some[..bytes]));
    }
}

#[test]
fn anybody_else_logs_in_and_the_log_says_who_could_not() {
    // Who runs the test is not this one, and not the one of the port.
    let file = UsersFile::new(&shop(own_uid() + 1));
    let sockets = Sockets::serve(&file);
    let unknown = b"-NOAUTH Authentication required.\r\n";
    check(&mut sockets.connect("resp"), b"PING\r\n", unknown);
    let mut text = sockets.connect("memcached");
    let unknown = b"CLIENT_ERROR unauthenticated\r\n";
    check(&mut text, b"get shop:1\r\n", unknown);
    assert_eq!(sockets.status("GET /v1/cache/shop:1", ""), 401);
    let failure = b"CLIENT_ERROR authentication failure\r\n";
    check(&mut text, &set("k", b"root guess"), failure);
    let told = sockets.daemon.log_until("a login failed").pop().unwrap();
    let uid = format!("uid={}", own_uid());
    assert!(told.contains(&uid) && told.contains("root"), "{told}");
    assert!(!told.contains("guess"), "{told}");
    // A value of who is not known yet is not told for a name.
    check(&mut text, &set("k", b"a-session-token"), failure);
    let told = sockets.daemon.log_until("a login failed").pop().unwrap();
    assert!(!told.contains("a-session-token"), "{told}");
    let mut resp = sockets.connect("resp");
    let wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    check(&mut resp, b"AUTH root guess\r\n", wrong);
    let told = sockets.daemon.log_until("a login failed").pop().unwrap();
    assert!(told.contains(&uid), "{told}");

    // A file that is read anew counts for who comes then.
    file.write(&shop(own_uid()));
    sockets.daemon.hang_up();
    wait_until("the file is read anew", || {
        sockets.status("GET /v1/cache/shop:1", "") == 404
    });
    // Over a port nobody knows who runs a program.
    let mut port = sockets.daemon.connect_resp();
    check(
        &mut port,
        b"PING\r\n",
        b"-NOAUTH Authentication required.\r\n",
    );
}

#[test]
fn who_is_known_and_says_a_password_all_the_same_leaves_it_nowhere() {
    let sockets = Sockets::serve(&UsersFile::new(&shop(own_uid())));
    // As clients of memcached begin that are given a user.
    let mut text = sockets.connect("memcached");
    let login = set("shop:login", b"root root-pw");
    check(&mut text, &login, b"STORED\r\n");
    check(&mut text, b"get shop:login other\r\n", b"END\r\n");
    // What begins with nobody's name is a value.
    let mut text = sockets.connect("memcached");
    let value = b"none of them";
    check(&mut text, &set("shop:2", value), b"STORED\r\n");
    text.write_all(b"get shop:2\r\n").unwrap();
    expect(&mut text, &daemon::hit("shop:2", value));
    // A later one is a value as well.
    check(&mut text, b"get shop:1\r\n", b"END\r\n");
    check(&mut text, &set("shop:1", b"root root-pw"), b"STORED\r\n");
    check(
        &mut text,
        b"get other\r\n",
        b"CLIENT_ERROR not permitted\r\n",
    );
}
