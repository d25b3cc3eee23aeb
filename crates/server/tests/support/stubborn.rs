//! Stubborn: clients that ask all the time, and try again after a clean close.
//!
//! A clean close is an end between two answers; a reset, half an answer or a refused connection is
//! an error.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::daemon::Daemon;
use super::wait::{PATIENCE, wait_until};

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where clients find a server now, and what became of their requests.
#[derive(Default)]
struct Field {
    /// The addresses for memcached's protocol, Redis's, and HTTP.
    addresses: Mutex<[String; 3]>,
    answered: Vec<AtomicU64>,
    /// Connections that were made.
    connects: AtomicU64,
    is_over: AtomicBool,
}

/// Clients that ask until all is over.
pub(crate) struct BySource {
    field: Arc<Field>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl BySource {
    /// Has a client ask in each of these ways.
    pub(crate) fn start(ways: &[Way], daemon: &Daemon) -> BySource {
        let field = Arc::new(Field {
            answered: ways.iter().map(|_| AtomicU64::new(0)).collect(),
            ..Field::default()
        });
        let mut crowd = BySource {
            field: Arc::clone(&field),
            clients: Vec::new(),
        };
        crowd.send_to(daemon);
        let ask = |(number, way): (usize, &Way)| {
            let (field, way) = (Arc::clone(&field), *way);
            std::thread::spawn(move || way.ask_on(number, &field))
        };
        crowd.clients = ways.iter().enumerate().map(ask).collect();
        crowd
    }

    /// Has new connections go to another server.
    pub(crate) fn send_to(&self, daemon: &Daemon) {
        let addresses = [&daemon.address, &daemon.resp, &daemon.http];
        *self.field.addresses.lock().unwrap() = addresses.map(String::clone);
    }

    /// Waits until each client was answered once more, or has failed.
    pub(crate) fn wait_for_all(&self) {
        for (number, answered) in self.field.answered.iter().enumerate() {
            let before = answered.load(Ordering::Relaxed);
            wait_until("each client is answered once more", || {
                let is_answered = answered.load(Ordering::Relaxed) != before;
                is_answered || self.clients[number].is_finished()
            });
        }
    }

    /// How many connections were made so far.
    pub(crate) fn connects(&self) -> u64 {
        self.field.connects.load(Ordering::Relaxed)
    }

    /// Ends it; none of the clients may have seen an error.
    pub(crate) fn end(self) {
        self.field.is_over.store(true, Ordering::Relaxed);
        for (number, client) in self.clients.into_iter().enumerate() {
            assert_eq!(client.join().unwrap(), Ok(()), "client {number}");
        }
    }
}

/// What a client speaks, and whether it keeps its connections.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    address: usize,
    request: &'static [u8],
    /// The whole answer; over HTTP the line of its status, a space and its body.
    answer: &'static [u8],
    depth: usize,
    keeps: bool,
}

/// The number of HTTP's address.
const HTTP: usize = 2;

/// A way to ask: at this address, so many requests at once.
pub(crate) const fn way(
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
            field.connects.fetch_add(1, Ordering::Relaxed);
            let stream = match TcpStream::connect(&address) {
                Ok(stream) => stream,
                // Its turn came so late that all others have moved.
                Err(_) if field.addresses.lock().unwrap()[self.address] != address => continue,
                Err(error) => return Err(format!("connecting: {error}")),
            };
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
            let then = if self.address == HTTP {
                http_answer(reader, self.answer)?
            } else {
                whole_answer(reader, self.answer)?
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
fn http_answer(reader: &mut BufReader<TcpStream>, answer: &[u8]) -> Result<Then, String> {
    if is_at_end(reader)? {
        return Ok(Then::IsClosed);
    }
    let answer = std::str::from_utf8(answer).unwrap();
    let (status, expected) = answer.rsplit_once(' ').unwrap();
    let (mut length, mut is_last) = (0, false);
    for number in 0.. {
        let mut line = String::new();
        let read = reader.read_line(&mut line);
        read.map_err(|error| format!("in a head: {error}"))?;
        let line = line.strip_suffix("\r\n").ok_or("half a head")?;
        match line.split_once(": ") {
            None if number == 0 && line == status => {}
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
    match (body == expected.as_bytes(), is_last && !is_at_end(reader)?) {
        (true, false) if is_last => Ok(Then::IsClosed),
        (true, false) => Ok(Then::GoesOn),
        _ => Err("another body, or more behind the last answer".to_owned()),
    }
}
