//! Crowd: clients that mean no good, each in a state in which it could cost a server something.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::attack::{Dialect, PATIENCE};
use super::daemon::frame;

/// Length of the value that those who never read ask for.
pub(crate) const VALUE_BYTES: usize = 15_000;
/// Requests of those who never read.
pub(crate) const UNREAD_REQUESTS: usize = 20;
/// Connections from one address.
const CLIENTS_PER_ADDRESS: usize = 2_000;

/// What a client has begun and does not end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    /// Sent when it comes.
    first: fn() -> Vec<u8>,
    /// What it sends again and again, a byte at a time; nothing if it only waits.
    trickle: &'static [u8],
}

impl State {
    /// Whether it leaves answers unread that are more than its system takes for it.
    pub(crate) fn never_reads(&self) -> bool {
        matches!(self.name, "never reading" | "in a script")
    }
}

/// All of them; what needs no upload of its own is there for each protocol.
pub(crate) const STATES: &[State] = &[
    state("idle", Dialect::Memcached, Vec::new, b""),
    state(
        "partial line",
        Dialect::Memcached,
        || b"get k k k".to_vec(),
        b" k",
    ),
    state(
        "partial value",
        Dialect::Memcached,
        || b"set k 0 0 9000\r\nab".to_vec(),
        b"x",
    ),
    state(
        "never reading",
        Dialect::Memcached,
        || b"get large\r\n".repeat(UNREAD_REQUESTS),
        b"",
    ),
    state("partial key", Dialect::Memcached, || b"mg ".to_vec(), b"k"),
    state("idle", Dialect::Resp, || frame(&[b"PING"]), b""),
    state(
        "partial frame",
        Dialect::Resp,
        || b"*9000\r\n$4\r\nMGET\r\n".to_vec(),
        b"$1\r\nk\r\n",
    ),
    state(
        "partial value",
        Dialect::Resp,
        || b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000\r\n".to_vec(),
        b"x",
    ),
    state("partial line", Dialect::Resp, || b"MGET k".to_vec(), b" k"),
    state(
        "never reading",
        Dialect::Resp,
        || frame(&[b"GET", b"large"]).repeat(UNREAD_REQUESTS),
        b"",
    ),
    state(
        "subscribed",
        Dialect::Resp,
        || b"SUBSCRIBE news\r\nPSUBSCRIBE n*\r\n".to_vec(),
        b"",
    ),
    state("in MULTI", Dialect::Resp, in_multi, b"GET k\r\n"),
    state("in tracking", Dialect::Resp, in_tracking, b""),
    state(
        "watching",
        Dialect::Resp,
        || b"WATCH k large\r\n".to_vec(),
        b"",
    ),
    state("in a script", Dialect::Resp, in_script, b""),
    state("idle", Dialect::Http, || get("/healthz"), b""),
    state(
        "partial head",
        Dialect::Http,
        || b"GET /v1/cache/k HTTP/1.1\r\nX: ".to_vec(),
        b"y",
    ),
    state(
        "partial body",
        Dialect::Http,
        || put("Content-Length: 9000"),
        b"x",
    ),
    state(
        "partial chunk",
        Dialect::Http,
        || put("Transfer-Encoding: chunked"),
        b"1\r\nx\r\n",
    ),
    state(
        "never reading",
        Dialect::Http,
        || get("/v1/cache/large").repeat(UNREAD_REQUESTS),
        b"",
    ),
];

const fn state(
    name: &'static str,
    dialect: Dialect,
    first: fn() -> Vec<u8>,
    trickle: &'static [u8],
) -> State {
    State {
        name,
        dialect,
        first,
        trickle,
    }
}

fn in_multi() -> Vec<u8> {
    [
        frame(&[b"MULTI"]),
        frame(&[b"GET", b"large"]).repeat(UNREAD_REQUESTS),
    ]
    .concat()
}

fn in_tracking() -> Vec<u8> {
    b"HELLO 3\r\nCLIENT TRACKING ON\r\nMGET k large\r\n".to_vec()
}

fn in_script() -> Vec<u8> {
    frame(&[
        b"EVAL",
        b"return redis.call('get', KEYS[1])",
        b"1",
        b"large",
    ])
    .repeat(UNREAD_REQUESTS)
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn put(field: &str) -> Vec<u8> {
    format!("PUT /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n").into_bytes()
}

/// One of the crowd.
pub(crate) struct Member {
    pub(crate) stream: TcpStream,
    state: State,
    sent: usize,
}

impl Member {
    /// Comes from an address of its own group and does what its state begins with.
    pub(crate) fn come(number: usize, state: State, address: &str) -> Member {
        let host = Ipv4Addr::new(127, 0, 0, 2 + (number / CLIENTS_PER_ADDRESS) as u8);
        let mut stream = connect_from(host, address);
        stream.write_all(&(state.first)()).unwrap();
        Member {
            stream,
            state,
            sent: 0,
        }
    }

    /// Sends one more byte, if its state has one.
    pub(crate) fn trickle(&mut self) {
        if let Some(byte) = self.state.trickle.iter().cycle().nth(self.sent % 1_000) {
            self.sent += 1;
            // It may have been thrown out, as is right.
            let _ = self.stream.write(&[*byte]);
        }
    }
}

/// A connection from this address of the machine itself.
pub(crate) fn connect_from(host: Ipv4Addr, address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(host, 0)).unwrap();
    connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Throws away what has come, without waiting.
pub(crate) fn discard(stream: &mut TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 64 << 10];
    while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    stream.set_nonblocking(false).unwrap();
}
