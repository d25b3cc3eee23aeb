//! Open sockets: listening sockets that another process opened, by their addresses.
//!
//! A service manager passes them at the start, or an old server hands them over. A listener for an
//! address looks here first ([`Listener::at`](crate::listener::Listener::at)): the clients in
//! such a socket's backlog are served, none is refused. Sockets that no listener takes are closed.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use cellar_config::settings::address::Address;
use rustix::net::{SocketAddrUnix, SocketType, sockopt};

/// Sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub struct OpenSockets(Vec<Open>);

#[derive(Debug)]
struct Open {
    socket: OwnedFd,
    address: Address,
}

impl OpenSockets {
    /// Adds one; where it listens.
    ///
    /// # Errors
    /// That it is not a listening stream socket.
    pub fn add(&mut self, socket: OwnedFd) -> Result<Address, String> {
        let is_stream = sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
        let is_listening = sockopt::socket_acceptconn(&socket) == Ok(true);
        let address = place_of(&socket).filter(|_| is_stream && is_listening);
        let address = address.ok_or("it is not a listening stream socket")?;
        self.0.push(Open {
            socket,
            address: address.clone(),
        });
        Ok(address)
    }

    /// The socket that listens at this address of the network.
    pub fn take_at(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        self.take(&Address::Tcp(address.to_string()))
    }

    /// The socket that listens at this address, with or without TLS.
    pub fn take(&mut self, place: &Address) -> Option<OwnedFd> {
        let index = self.0.iter().position(|open| open.address == *place)?;
        Some(self.0.swap_remove(index).socket)
    }

    /// The addresses of the sockets that no listener has taken.
    #[must_use]
    pub fn places(&self) -> Vec<Address> {
        self.0.iter().map(|open| open.address.clone()).collect()
    }
}

/// Where a socket is bound: an address of the network or a socket file.
pub fn place_of(socket: impl AsFd) -> Option<Address> {
    let bound = rustix::net::getsockname(socket).ok()?;
    if let Ok(address) = SocketAddr::try_from(bound.clone()) {
        return Some(Address::Tcp(address.to_string()));
    }
    let file = SocketAddrUnix::try_from(bound).ok()?;
    let path = file.path()?.to_str().ok().map(PathBuf::from)?;
    Some(Address::Unix(path))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_is_found_by_its_address_once() {
        let mut open = OpenSockets::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let place = open.add(listener.into()).unwrap();
        assert_eq!(place, Address::Tcp(address.to_string()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open.sock");
        open.add(UnixListener::bind(&path).unwrap().into()).unwrap();
        assert_eq!(open.places(), [place, Address::Unix(path.clone())]);
        assert!(open.take_at("127.0.0.1:1".parse().unwrap()).is_none());
        assert!(open.take_at(address).is_some() && open.take_at(address).is_none());
        assert!(open.take(&Address::Unix(path)).is_some());
    }

    #[test]
    fn what_takes_no_connections_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut open = OpenSockets::default();
        for socket in [client.into(), tempfile::tempfile().unwrap().into()] {
            assert!(open.add(socket).is_err());
        }
    }
}
