//! The door: where a server is, how its connections are opened, and as whom.
//!
//! Source of the authentication: memcached doc/protocol.txt, "Authentication": the first command
//! of a connection is a `set` whose value is name and password.

use std::sync::Arc;
#[cfg(feature = "tls")]
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(feature = "tls")]
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::pipe::Pipe;
use crate::read_through::error::Error;
#[cfg(feature = "tls")]
use crate::read_through::origin::Tls;
use crate::read_through::origin::login::Login;

/// How addresses begin that are not `host:port`.
const TLS: &str = "tls:";
const UNIX: &str = "unix:";
/// Longest answer to a name and password.
const ANSWER_BYTES_MAX: usize = 512;

/// How connections to one server are opened.
#[derive(Debug)]
pub(super) struct Door {
    address: String,
    login: Option<Login>,
    /// Not set before the first connection: the system's authorities.
    #[cfg(feature = "tls")]
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Door {
    pub(super) fn new(address: String) -> Door {
        Door {
            address,
            login: None,
            #[cfg(feature = "tls")]
            tls: OnceLock::new(),
        }
    }

    /// The user of all connections.
    pub(super) fn login(&mut self, login: Login) -> Result<(), Error> {
        let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        if !is_word(&login.name) || login.password.contains(['\r', '\n']) {
            let what = "memcached's authentication carries no name with blanks and no line ends";
            return Err(Error::Refused(what.into()));
        }
        self.login = Some(login);
        Ok(())
    }

    /// The trusted authorities of connections.
    #[cfg(feature = "tls")]
    pub(super) fn tls(&mut self, tls: &Tls) -> Result<(), Error> {
        if !self.address.starts_with(TLS) {
            let what = format!(
                "{:?} is an address without TLS; write tls:host:port",
                self.address
            );
            return Err(Error::connection(what));
        }
        self.tls = OnceLock::from(tls.config()?);
        Ok(())
    }

    /// Connects.
    pub(super) async fn open(&self, limit: Duration) -> Result<Arc<Pipe>, Error> {
        let opened = timeout(limit, self.connect()).await;
        opened.map_err(|_| Error::Timeout(limit))?
    }

    async fn connect(&self) -> Result<Arc<Pipe>, Error> {
        if let Some(path) = self.address.strip_prefix(UNIX) {
            let stream = UnixStream::connect(path).await;
            let mut stream = stream.map_err(Error::connection)?;
            self.greet(&mut stream).await?;
            let (reader, writer) = stream.into_split();
            return Ok(Pipe::start(reader, writer));
        }
        if let Some(address) = self.address.strip_prefix(TLS) {
            return self.connect_tls(address).await;
        }
        let mut stream = connect_tcp(&self.address).await?;
        self.greet(&mut stream).await?;
        let (reader, writer) = stream.into_split();
        Ok(Pipe::start(reader, writer))
    }

    #[cfg(feature = "tls")]
    async fn connect_tls(&self, address: &str) -> Result<Arc<Pipe>, Error> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(Error::connection)?;
        let config = match self.tls.get() {
            Some(config) => config,
            None => {
                let config = Tls::new().config()?;
                self.tls.get_or_init(|| config)
            }
        };
        let stream = connect_tcp(address).await?;
        let stream = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name, stream);
        let mut stream = stream.await.map_err(Error::connection)?;
        self.greet(&mut stream).await?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Pipe::start(reader, writer))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_async, reason = "the other one waits")]
    async fn connect_tls(&self, address: &str) -> Result<Arc<Pipe>, Error> {
        let what = format!("tls:{address} needs the feature `tls`, which this build lacks");
        Err(Error::connection(what))
    }

    /// Authenticates, if a user is set.
    async fn greet(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Error> {
        let Some(Login { name, password }) = &self.login else {
            return Ok(());
        };
        let bytes = name.len() + 1 + password.len();
        let request = format!("set auth 0 0 {bytes}\r\n{name} {password}\r\n");
        let sent = stream.write_all(request.as_bytes()).await;
        sent.map_err(Error::connection)?;
        stream.flush().await.map_err(Error::connection)?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") && answer.len() < ANSWER_BYTES_MAX {
            answer.push(stream.read_u8().await.map_err(Error::connection)?);
        }
        if answer == b"STORED\r\n" {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&answer);
        Err(Error::Refused(
            format!("the user {name:?}: {}", answer.trim_end()).into(),
        ))
    }
}

async fn connect_tcp(address: &str) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(Error::connection)?;
    stream.set_nodelay(true).map_err(Error::connection)?;
    Ok(stream)
}
