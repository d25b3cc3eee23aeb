//! Addresses: where a server listens, `HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::error::Error;
use crate::tls::{Stream, TlsArgs};

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A TCP port behind TLS.
    Tls(TlsPort),
    /// A UNIX socket.
    Unix(PathBuf),
}

/// A TCP port where TLS is spoken.
#[derive(Clone, Debug)]
pub struct TlsPort {
    port: SocketAddr,
    /// Whom the server has to be.
    name: ServerName<'static>,
    /// What the client believes and shows; without it there are no connections.
    config: Option<Arc<ClientConfig>>,
}

/// A port of this machine for a server that is to be started: nobody else gets it meanwhile.
///
/// A socket that does not listen is bound to it. So the system gives the port neither to others who
/// let it choose nor to the near end of a connection, while a server that sets `SO_REUSEADDR` may
/// bind it too (socket(7)).
#[derive(Debug)]
pub struct ReservedPort {
    address: Address,
    /// Holds the port.
    _socket: OwnedFd,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

impl Address {
    /// Connects; small packets leave at once. What std's stream of UNIX sockets asks of a socket is
    /// the same for both kinds.
    ///
    /// # Errors
    /// What the system answers.
    pub fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Tcp(address) => Ok(Stream::plain(connect_tcp(address)?)),
            Address::Tls(TlsPort { port, name, config }) => {
                let config = config.clone().ok_or(io::ErrorKind::Unsupported)?;
                let socket = connect_tcp(port)?;
                socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                Stream::encrypted(socket, config, name.clone())
            }
            Address::Unix(path) => Ok(Stream::plain(UnixStream::connect(path)?)),
        }
    }

    /// The same address with what TLS needs, where it is spoken.
    ///
    /// # Errors
    /// [`Error::Usage`] if that is missing, or given for another address.
    pub fn with_tls(mut self, tls: &TlsArgs) -> Result<Address, Error> {
        match &mut self {
            Address::Tls(port) => port.config = Some(tls.config()?),
            _ if tls.tls_ca.is_some() || tls.tls_cert.is_some() => {
                let what = "--tls-ca and --tls-cert are for tls:HOST:PORT".to_owned();
                return Err(Error::Usage(what));
            }
            _ => {}
        }
        Ok(self)
    }

    /// The TCP port; zero for a UNIX socket.
    pub fn port(&self) -> u16 {
        match self {
            Address::Tcp(address) | Address::Tls(TlsPort { port: address, .. }) => address.port(),
            Address::Unix(_) => 0,
        }
    }
}

impl ReservedPort {
    /// Takes a port that nobody has.
    ///
    /// # Errors
    /// What the system answers.
    pub fn take() -> io::Result<ReservedPort> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = reusable_socket(&any)?;
        net::bind(&socket, &any)?;
        let address = SocketAddr::try_from(net::getsockname(&socket)?)?;
        Ok(ReservedPort {
            address: Address::Tcp(address),
            _socket: socket,
        })
    }

    /// Where the server is to listen.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

fn connect_tcp(address: &SocketAddr) -> io::Result<UnixStream> {
    let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    Ok(UnixStream::from(OwnedFd::from(stream)))
}

/// Listens with so many sockets that do not block, one for each thread of a server. Where there are
/// several, the kernel deals connections out by a hash of their addresses.
pub(crate) fn listen(address: &SocketAddr, sockets: usize) -> io::Result<Vec<OwnedFd>> {
    let listen = |_| {
        let socket = reusable_socket(address)?;
        sockopt::set_socket_reuseport(&socket, sockets > 1)?;
        net::bind(&socket, address)?;
        net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    (0..sockets).map(listen).collect()
}

/// A socket that does not block and whose port may be bound again while it does not listen.
fn reusable_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: needs a path".to_owned());
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let (tls, bare) = text
            .strip_prefix("tls:")
            .map_or((false, text), |it| (true, it));
        let mut addresses = bare.to_socket_addrs().map_err(|error| {
            format!("{text:?} is no HOST:PORT, tls:HOST:PORT or unix:PATH ({error})")
        })?;
        let missing = || format!("{text:?} has no address");
        let port = addresses.next().ok_or_else(missing)?;
        if !tls {
            return Ok(Address::Tcp(port));
        }
        let host = bare.rsplit_once(':').map_or(bare, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|error| format!("{text:?}: {error}"))?;
        let config = None;
        Ok(Address::Tls(TlsPort { port, name, config }))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Tls(TlsPort { port, name, .. }) => {
                write!(f, "tls:{}:{}", name.to_str(), port.port())
            }
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_a_path() {
        for text in [
            "127.0.0.1:80",
            "tls:127.0.0.1:80",
            "tls:localhost:80",
            "unix:/run/c.sock",
        ] {
            let address = text.parse::<Address>().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.port() == 80, !text.starts_with("unix:"));
        }
        for bad in [
            "",
            "unix:",
            "127.0.0.1",
            "127.0.0.1:x",
            ":",
            "tls:",
            "tls:127.0.0.1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_reserved_port_is_the_server_s_alone() {
        let reserved = ReservedPort::take().unwrap();
        let address = reserved.address();
        assert!(address.connect().is_err(), "nobody listens yet");
        // Two threads of a server that share the port, too.
        let Address::Tcp(port) = address else {
            panic!("{address} is no port");
        };
        let listeners = listen(port, 2).unwrap();
        address.connect().unwrap();
        drop(listeners);
        let listener = listen(port, 1).unwrap();
        address.connect().unwrap();
        let other = listen(port, 1).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let other = ReservedPort::take().unwrap();
        assert_ne!(other.address().port(), address.port());
    }
}
