//! Fetch: the status of a server, over HTTP, on a connection for each question.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::pages::status::Status;
use crate::settings::top::{Target, TopOptions};

/// Longest time that the server may be silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A connection, encrypted or not.
trait Carrier: Read + Write {}

impl<T: Read + Write> Carrier for T {}

/// Asks a server how it is.
///
/// # Errors
/// Why it does not say, in one line.
pub fn fetch(options: &TopOptions) -> Result<Status, String> {
    let (mut carrier, host) = open(options)?;
    let mut request = format!("GET /v1/console/status HTTP/1.1\r\nHost: {host}\r\n");
    if let Some((name, password)) = &options.user {
        let both = STANDARD.encode(format!("{name}:{password}"));
        request.push_str(&format!("Authorization: Basic {both}\r\n"));
    } else if !options.token.is_empty() {
        request.push_str(&format!("Authorization: Bearer {}\r\n", options.token));
    }
    request.push_str("Connection: close\r\n\r\n");
    let asked = carrier.write_all(request.as_bytes());
    asked.and_then(|()| carrier.flush()).map_err(reason)?;
    let answer = read(carrier.as_mut()).map_err(reason)?;
    let end = memmem::find(&answer, b"\r\n\r\n").ok_or("its answer is no HTTP")?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    match head.get(9..12) {
        Some(b"200") => {}
        Some(b"401") => return Err("it asks for its token (--token) or a user (--user)".to_owned()),
        other => {
            let status = String::from_utf8_lossy(other.unwrap_or_default());
            return Err(format!("it answers with status {status}"));
        }
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("its answer is no status of a cellar: {error}"))
}

/// Connects; also what the server is called in a request.
fn open(options: &TopOptions) -> Result<(Box<dyn Carrier>, &str), String> {
    match &options.target {
        Target::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(reason)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(reason)?;
            stream.set_write_timeout(Some(PATIENCE)).map_err(reason)?;
            Ok((Box::new(stream), "localhost"))
        }
        Target::Http(host) => Ok((Box::new(connect(host, 80)?), host)),
        Target::Https(host) => {
            let config = config(options)?;
            let name = host
                .rsplit_once(':')
                .map_or(host.as_str(), |(name, _)| name);
            let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned());
            let name = name.map_err(|error| error.to_string())?;
            let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
            Ok((Box::new(StreamOwned::new(tls, connect(host, 443)?)), host))
        }
    }
}

/// Connects to `host:port`, or to this port of the host.
fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let named = host.to_socket_addrs();
    let addresses = named.or_else(|_| (host.trim_matches(['[', ']']), port).to_socket_addrs());
    let mut failure = "the name has no address".to_owned();
    for address in addresses.map_err(reason)? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).map_err(reason)?;
                stream.set_write_timeout(Some(PATIENCE)).map_err(reason)?;
                return Ok(stream);
            }
            Err(error) => failure = error.to_string(),
        }
    }
    Err(failure)
}

/// Whom it believes, and what it shows of itself.
fn config(options: &TopOptions) -> Result<Arc<ClientConfig>, String> {
    let ca = options.tls_ca.as_deref();
    let ca = ca.ok_or("https needs --tls-ca FILE")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| bad(ca, &error))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(match &options.tls_identity {
        None => config.with_no_client_auth(),
        Some((shown, path)) => {
            let key = PrivateKeyDer::from_pem_file(path).map_err(|error| bad(path, &error))?;
            let config = config.with_client_auth_cert(certificates(shown)?, key);
            config.map_err(|error| bad(shown, &error))?
        }
    }))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    all.map_err(|error| bad(file, &error))
}

fn bad(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

/// All up to the end of the connection; one that TLS does not end has to be whole all the same.
fn read(carrier: &mut dyn Carrier) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    match carrier.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

fn reason(error: io::Error) -> String {
    error.to_string()
}

/// A thread that asks again and again, so that a server that takes its time holds up nothing.
#[derive(Debug)]
pub struct Fetcher {
    answers: Receiver<Result<Status, String>>,
    /// Ends the thread when it is dropped.
    _stop: SyncSender<()>,
}

impl Fetcher {
    /// Begins to ask.
    #[must_use]
    pub fn start(options: TopOptions) -> Fetcher {
        let (answer, answers) = sync_channel(1);
        let (stop, stopped) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            let pause = Duration::from_millis(options.interval_ms);
            while answer.send(fetch(&options)).is_ok()
                && stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
            {}
        });
        Fetcher {
            answers,
            _stop: stop,
        }
    }

    /// The next answer, if it is there.
    #[must_use]
    pub fn answer(&self) -> Option<Result<Status, String>> {
        self.answers.try_recv().ok()
    }
}
