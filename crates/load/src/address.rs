//! Addresses: where a server listens, `HOST:PORT` or `unix:PATH`.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A UNIX socket.
    Unix(PathBuf),
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
    pub fn connect(&self) -> io::Result<UnixStream> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                Ok(UnixStream::from(OwnedFd::from(stream)))
            }
            Address::Unix(path) => UnixStream::connect(path),
        }
    }

    /// Listens with so many sockets that do not block, one for each thread of a server. Where there
    /// are several, the kernel deals connections out by a hash of their addresses.
    ///
    /// # Errors
    /// What the system answers; several sockets cannot share a UNIX socket's path.
    pub fn listen(&self, sockets: usize) -> io::Result<Vec<OwnedFd>> {
        match self {
            Address::Tcp(address) => {
                let is_shared = sockets > 1;
                (0..sockets)
                    .map(|_| listen_tcp(address, is_shared))
                    .collect()
            }
            Address::Unix(path) if sockets == 1 => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(vec![listener.into()])
            }
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The TCP port; zero for a UNIX socket.
    pub fn port(&self) -> u16 {
        match self {
            Address::Tcp(address) => address.port(),
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

/// A socket that does not block, and that others may listen beside if it is shared.
fn listen_tcp(address: &SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let socket = reusable_socket(address)?;
    sockopt::set_socket_reuseport(&socket, is_shared)?;
    net::bind(&socket, address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
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
        let mut addresses = text
            .to_socket_addrs()
            .map_err(|error| format!("{text:?} is no HOST:PORT or unix:PATH ({error})"))?;
        addresses
            .next()
            .map(Address::Tcp)
            .ok_or_else(|| format!("{text:?} has no address"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_a_path() {
        assert_eq!(
            "127.0.0.1:11211".parse::<Address>().unwrap().to_string(),
            "127.0.0.1:11211"
        );
        assert_eq!(
            "unix:/run/c.sock".parse(),
            Ok(Address::Unix(PathBuf::from("/run/c.sock")))
        );
        assert_eq!("127.0.0.1:80".parse::<Address>().unwrap().port(), 80);
        for bad in ["", "unix:", "127.0.0.1", "127.0.0.1:x", ":"] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_reserved_port_is_the_server_s_alone() {
        let reserved = ReservedPort::take().unwrap();
        let address = reserved.address();
        assert!(address.connect().is_err(), "nobody listens yet");
        // Two threads of a server that share the port, too.
        let listeners = address.listen(2).unwrap();
        address.connect().unwrap();
        drop(listeners);
        let listener = address.listen(1).unwrap();
        address.connect().unwrap();
        let other = address.listen(1).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert_ne!(ReservedPort::take().unwrap().address(), address);
    }
}
