//! Stops that nobody notices: servers are replaced under load, one after the other, and clients
//! that try again after a clean close see no error.
//!
//! Each server is told to stop once its successor is there; it goes on for `--lame-duck`, in which
//! clients that come find the successor, and then drains. A clean close is an end between two
//! answers; a reset, half an answer or a refused connection is an error. `CELLAR_STOPS=100`, as
//! `make soak` sets it, does more of them.

use crate::support::daemon::{Daemon, PATIENCE, check, set};
use crate::support::http::Http;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;

/// Stops in `make test`.
const STOPS: u32 = 30;
/// Requests that a client has under way.
const DEPTH: usize = 8;

/// Where clients find a server now, and what became of their requests.
#[derive(Default)]
struct Field {
    /// The addresses for memcached's protocol, Redis's, and HTTP.
    addresses: Mutex<[String; 3]>,
    answered: [AtomicU64; CLIENTS],
    is_over: AtomicBool,
}

/// What a client speaks, and whether it keeps its connections.
#[derive(Clone, Copy)]
struct Way {
    address: usize,
    request: &'static [u8],
    /// The whole answer; empty over HTTP, where it is read by its fields.
    answer: &'static [u8],
    depth: usize,
    keeps: bool,
}

const GET: &[u8] = b"get k\r\n";
const HIT: &[u8] = b"VALUE k 0 5\r\nvalue\r\nEND\r\n";
const BULK: &[u8] = b"$5\r\nvalue\r\n";
const HTTP: &[u8] = b"GET /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CLIENTS: usize = 7;
const WAYS: [Way; CLIENTS] = [
    way(0, GET, HIT, DEPTH, true),
    way(0, GET, HIT, 1, false),
    way(1, b"GET k\r\n", BULK, DEPTH, true),
    way(1, b"GET k\r\n", BULK, 1, true),
    way(1, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", BULK, 1, false),
    way(2, HTTP, b"", 1, true),
    way(2, HTTP, b"", 1, false),
];

const fn way(
    address: usize,
    request: &'static [u8],
    answer: &'static [u8],
    depth: usize,
    keeps: bool,
) -> Way {
    Way {
        address,
        request,
        answer,
        depth,
        keeps,
    }
}

/// How a connection goes on.
#[derive(PartialEq)]
enum Then {
    GoesOn,
    IsClosed,
}

impl Way {
    /// Asks until all is over, on new connections where one was closed between two answers.
    fn ask_on(&self, number: usize, field: &Field) -> Result<(), String> {
        while !field.is_over.load(Ordering::Relaxed) {
            let address = field.addresses.lock().unwrap()[self.address].clone();
            let stream = TcpStream::connect(address).map_err(|e| format!("connecting: {e}"))?;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut reader = BufReader::new(stream);
            while self.ask(&mut reader, &field.answered[number])? == Then::GoesOn && self.keeps {
                if field.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ask(&self, reader: &mut BufReader<TcpStream>, answered: &AtomicU64) -> Result<Then, String> {
        // What cannot be written was not received; whether the close was clean tells the read.
        let _ = reader.get_mut().write_all(&self.request.repeat(self.depth));
        for _ in 0..self.depth {
            let then = match self.answer {
                b"" => http_answer(reader)?,
                answer => whole_answer(reader, answer)?,
            };
            if then == Then::IsClosed {
                return Ok(then);
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Then::GoesOn)
    }
}

/// Whether a connection is at its clean end.
fn is_at_end(reader: &mut BufReader<TcpStream>) -> Result<bool, String> {
    loop {
        match reader.fill_buf() {
            Ok(bytes) => return Ok(bytes.is_empty()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("between two answers: {error}")),
        }
    }
}

fn whole_answer(reader: &mut BufReader<TcpStream>, answer: &[u8]) -> Result<Then, String> {
    if is_at_end(reader)? {
        return Ok(Then::IsClosed);
    }
    let mut bytes = vec![0; answer.len()];
    let read = reader.read_exact(&mut bytes);
    read.map_err(|error| format!("in an answer: {error}"))?;
    if bytes != answer {
        return Err(format!("{:?}", String::from_utf8_lossy(&bytes)));
    }
    Ok(Then::GoesOn)
}

/// Reads an answer over HTTP; one that says that it is the last has to be.
fn http_answer(reader: &mut BufReader<TcpStream>) -> Result<Then, String> {
    if is_at_end(reader)? {
        return Ok(Then::IsClosed);
    }
    let (mut length, mut is_last) = (0, false);
    for number in 0.. {
        let mut line = String::new();
        let read = reader.read_line(&mut line);
        read.map_err(|error| format!("in a head: {error}"))?;
        let line = line.strip_suffix("\r\n").ok_or("half a head")?;
        match line.split_once(": ") {
            None if number == 0 && line == "HTTP/1.1 200 OK" => {}
            None if line.is_empty() => break,
            Some(("Content-Length", text)) => length = text.parse().unwrap(),
            Some(("Connection", "close")) => is_last = true,
            Some(_) => {}
            None => return Err(line.to_owned()),
        }
    }
    let mut body = vec![0; length];
    let read = reader.read_exact(&mut body);
    read.map_err(|error| format!("in a body: {error}"))?;
    match (body == b"value", is_last && !is_at_end(reader)?) {
        (true, false) if is_last => Ok(Then::IsClosed),
        (true, false) => Ok(Then::GoesOn),
        _ => Err("another body, or more behind the last answer".to_owned()),
    }
}

fn start() -> Daemon {
    let daemon = Daemon::start(&["--lame-duck", "100ms", "--drain-timeout", "60s"]);
    check(&mut daemon.connect(), &set("k", b"value"), b"STORED\r\n");
    daemon
}

fn addresses(daemon: &Daemon) -> [String; 3] {
    [&daemon.address, &daemon.resp, &daemon.http].map(String::clone)
}

#[test]
fn clients_that_try_again_after_a_clean_close_see_no_error() {
    let stops = std::env::var("CELLAR_STOPS").map_or(STOPS, |text| text.parse().unwrap());
    let field = Arc::new(Field::default());
    let mut present = start();
    *field.addresses.lock().unwrap() = addresses(&present);
    let clients: Vec<_> = WAYS
        .into_iter()
        .enumerate()
        .map(|(number, way)| {
            let field = Arc::clone(&field);
            std::thread::spawn(move || way.ask_on(number, &field))
        })
        .collect();
    for stop in 0..stops {
        let next = start();
        *field.addresses.lock().unwrap() = addresses(&next);
        present.signal(Signal::TERM);
        assert_eq!(present.wait().code(), Some(0), "stop {stop}");
        present = next;
        // All go on at the successor.
        for (number, answered) in field.answered.iter().enumerate() {
            let before = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) == before && !clients[number].is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    field.is_over.store(true, Ordering::Relaxed);
    for (number, client) in clients.into_iter().enumerate() {
        assert_eq!(client.join().unwrap(), Ok(()), "client {number}");
    }
}

#[test]
fn a_lame_duck_lets_clients_in_while_probes_hear_that_it_stops() {
    let mut daemon = Daemon::start(&["--lame-duck", "3s"]);
    let mut kept = daemon.connect();
    check(&mut kept, &set("k", b"value"), b"STORED\r\n");
    let mut http = Http::to(&daemon);
    assert_eq!(http.get("/readyz").status, 200);
    daemon.signal(Signal::TERM);
    daemon.log_until("told to stop: not ready any more, and goes on for 3s");
    let answer = http.get("/readyz");
    assert_eq!((answer.status, answer.field("connection")), (503, "close"));
    assert_eq!(answer.text(), "stopping\n");
    let mut later = Http::to(&daemon);
    assert_eq!(later.get("/healthz").status, 200);
    check(&mut kept, GET, HIT);
    check(&mut daemon.connect(), GET, HIT);
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(TcpStream::connect(&daemon.address).is_err());
}
