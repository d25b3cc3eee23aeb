//! Health check: asks a running server whether it is ready, for containers and systemd units.
//!
//! It sends one request, prints one line and sets the exit status. It sends no secret: `/readyz`
//! needs no token, and an error that asks for a login shows that the server is ready. So over TLS
//! it accepts any certificate, unless a CA is given.
//!
//! Tests: tests/healthcheck.rs.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use cellar_config::dial::{PATIENCE, PeerStream, connect, encrypt, encrypt_to_anyone};
use cellar_config::logging::printable;
use cellar_config::protocol::Protocol;
use cellar_config::settings::address::Address;
use cellar_config::settings::health::{HealthOptions, HealthTarget};

/// Bytes of a reply that are read at most.
const ANSWER_BYTES_MAX: usize = 512;
/// Characters of a reply that are shown.
const SHOWN_LETTERS_MAX: usize = 80;

/// Queries the server; returns the line to print.
///
/// # Errors
/// Why the server is not ready, in one line.
pub fn run(options: &HealthOptions) -> Result<String, String> {
    let target = &options.target;
    let answer = ask(options).map_err(|reason| format!("{target}: {reason}"))?;
    if is_ready(target.protocol, &answer) {
        return Ok(format!("ready: {target}"));
    }
    let said = match answer.lines().next() {
        Some(line) => printable(line).chars().take(SHOWN_LETTERS_MAX).collect(),
        None => "nothing".to_owned(),
    };
    Err(format!("{target}: it answers {said}"))
}

fn ask(options: &HealthOptions) -> Result<String, String> {
    let HealthTarget { protocol, address } = &options.target;
    let mut dial = open(address, options)?;
    let asked = dial.write_all(protocol.row().health_request);
    asked.and_then(|()| dial.flush()).map_err(reason)?;
    line_of(dial.as_mut()).map_err(reason)
}

/// The beginning of a reply, with its first line.
fn line_of(dial: &mut dyn PeerStream) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut piece = [0; ANSWER_BYTES_MAX];
    while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
        match dial.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => answer.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether a reply shows that the server is ready; a server that asks for a login is ready.
fn is_ready(protocol: Protocol, answer: &str) -> bool {
    let beginnings = protocol.row().health_replies;
    beginnings
        .iter()
        .any(|beginning| answer.starts_with(beginning))
}

fn open(address: &Address, options: &HealthOptions) -> Result<Box<dyn PeerStream>, String> {
    Ok(match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(reason)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(reason)?;
            stream.set_write_timeout(Some(PATIENCE)).map_err(reason)?;
            Box::new(stream)
        }
        Address::Tcp(host) => Box::new(connect(host, 0)?),
        Address::Tls(host) if options.trust.ca.is_some() => {
            Box::new(encrypt(connect(host, 0)?, host, &options.trust)?)
        }
        Address::Tls(host) => Box::new(encrypt_to_anyone(connect(host, 0)?, host, &options.trust)?),
    })
}

fn reason(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}
