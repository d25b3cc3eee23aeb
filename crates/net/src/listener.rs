//! Listeners: the TCP addresses and Unix sockets that accept clients, opened here or inherited
//! ([`OpenSockets`]).

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cellar_config::error::Error;
use cellar_config::protocol::Protocol;
use cellar_config::settings::address::Address;
use rustix::fs::{Access, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::open_sockets::{OpenSockets, place_of};
use crate::stream::{Stream, Transport};

/// Length of the accept queue; the system caps it at its own limit.
pub const BACKLOG: i32 = 4_096;
/// Separates a Unix socket's path from the peer's user ID in log lines.
pub const UID_MARK: &str = " uid=";

/// A bound and listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The transport of its connections.
    pub transport: Transport,
    /// The protocol of its connections.
    pub protocol: Protocol,
    /// The address in effect.
    pub address: Address,
    /// Whether another process opened it.
    pub is_inherited: bool,
    /// The socket file to remove at the end.
    file: Option<SocketFile>,
}

/// A socket file, identified by its inode: a file that has replaced it is not removed.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if device_and_inode(&self.path) == Some(self.device_and_inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SocketFile {
    /// The one that is there now.
    fn at(path: &Path) -> Option<SocketFile> {
        let device_and_inode = device_and_inode(path)?;
        Some(SocketFile {
            path: path.to_owned(),
            device_and_inode,
        })
    }

    /// Leaves the file in place: another process listens there.
    pub fn forget(mut self) {
        self.path = PathBuf::new();
    }
}

impl Listener {
    /// Listens at an address: on all addresses of a host name, or on a Unix socket with permission
    /// bits `mode`; on an inherited socket if one has the address.
    ///
    /// # Errors
    /// [`Error::Listen`] if the name cannot be resolved, an address cannot be bound or a file not
    /// created.
    pub fn at(
        protocol: Protocol,
        address: &Address,
        mode: u32,
        open: &mut OpenSockets,
    ) -> Result<Vec<Listener>, Error> {
        match address {
            Address::Tcp(name) => Listener::tcp(protocol, name, Address::Tcp, open),
            Address::Tls(name) => Listener::tcp(protocol, name, Address::Tls, open),
            Address::Unix(path) => match open.take(address) {
                Some(socket) => Ok(vec![Listener::inherited(protocol, address, socket)?]),
                None => Ok(vec![Listener::unix(protocol, path, mode)?]),
            },
        }
    }

    /// Tests whether [`Listener::at`] could listen at an address, without side effects; returns the
    /// resolved addresses.
    ///
    /// # Errors
    /// [`Error::Listen`] as there, and whether the reason is that another server listens there.
    pub fn try_at(protocol: Protocol, address: &Address) -> Result<Vec<Address>, (Error, bool)> {
        let fail = |reason: String, is_taken: bool| {
            let error = Error::Listen {
                flag: protocol.name(),
                address: address.to_string(),
                reason,
            };
            (error, is_taken)
        };
        let (name, show): (_, fn(String) -> Address) = match address {
            Address::Tcp(name) => (name, Address::Tcp),
            Address::Tls(name) => (name, Address::Tls),
            Address::Unix(path) => {
                let tried = try_file(path, SocketType::STREAM);
                tried.map_err(|(reason, is_taken)| fail(reason, is_taken))?;
                return Ok(vec![address.clone()]);
            }
        };
        let resolved = name.to_socket_addrs();
        let resolved = resolved.map_err(|error| fail(error.to_string(), false))?;
        let tried = resolved.map(|one| bind_tcp(one).map(|_| show(one.to_string())));
        let tried: Result<Vec<Address>, Errno> = tried.collect();
        tried.map_err(|errno| fail(reason(errno), errno == Errno::ADDRINUSE))
    }

    /// Listens at `address` on a socket that was open before this process. Its file keeps its
    /// owner.
    fn inherited(
        protocol: Protocol,
        address: &Address,
        socket: OwnedFd,
    ) -> Result<Listener, Error> {
        let is_file = address.file().is_some();
        let set_up = || -> Result<(), Errno> {
            rustix::io::ioctl_fionbio(&socket, true)?;
            if is_file {
                return Ok(());
            }
            set_tcp_options(&socket)
        };
        set_up().map_err(|errno| Error::Listen {
            flag: protocol.name(),
            address: address.to_string(),
            reason: reason(errno),
        })?;
        Ok(Listener {
            socket,
            transport: if is_file {
                Transport::Unix
            } else {
                Transport::Tcp
            },
            protocol,
            address: address.clone(),
            is_inherited: true,
            file: None,
        })
    }

    /// Makes the file of an inherited socket this process's, with permission bits `mode`: it is
    /// removed at the end.
    pub fn adopt_file(&mut self, mode: u32) {
        if let Some(path) = self.address.file().filter(|_| self.is_inherited) {
            // The owner may have set other bits, which are acceptable.
            let _ = rustix::fs::chmod(path, Mode::from_raw_mode(mode));
            self.file = SocketFile::at(path);
        }
    }

    /// Leaves its socket file in place at the end: another process listens there.
    pub fn keep_file(&mut self) {
        if let Some(file) = self.file.take() {
            file.forget();
        }
    }

    /// Listens on all addresses of `host:port`, formatted by `show`.
    fn tcp(
        protocol: Protocol,
        name: &str,
        show: fn(String) -> Address,
        open: &mut OpenSockets,
    ) -> Result<Vec<Listener>, Error> {
        let fail = |reason: String| Error::Listen {
            flag: protocol.name(),
            address: show(name.to_owned()).to_string(),
            reason,
        };
        let resolved = name
            .to_socket_addrs()
            .map_err(|error| fail(error.to_string()))?;
        let mut listeners: Vec<Listener> = Vec::new();
        for one in resolved {
            if let Some(socket) = open.take_at(one) {
                let address = show(one.to_string());
                listeners.push(Listener::inherited(protocol, &address, socket)?);
                continue;
            }
            let listener = Listener::tcp_at(protocol, one, show);
            listeners.push(listener.map_err(|errno| fail(reason(errno)))?);
        }
        if listeners.is_empty() {
            return Err(fail("the name has no address".to_owned()));
        }
        Ok(listeners)
    }

    fn tcp_at(
        protocol: Protocol,
        address: SocketAddr,
        show: fn(String) -> Address,
    ) -> Result<Listener, Errno> {
        let socket = bind_tcp(address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(Listener {
            socket,
            transport: Transport::Tcp,
            protocol,
            address: show(bound.to_string()),
            is_inherited: false,
            file: None,
        })
    }

    /// Listens on a UNIX socket file with permission bits `mode`.
    fn unix(protocol: Protocol, path: &Path, mode: u32) -> Result<Listener, Error> {
        let made = listen_on_file(path, mode, SocketType::STREAM);
        let (socket, file) = made.map_err(|reason| Error::Listen {
            flag: protocol.name(),
            address: Address::Unix(path.to_owned()).to_string(),
            reason,
        })?;
        Ok(Listener {
            socket,
            transport: Transport::Unix,
            protocol,
            address: Address::Unix(path.to_owned()),
            is_inherited: false,
            file: Some(file),
        })
    }

    /// Accepts one waiting connection and its peer's address, without blocking. For a Unix socket
    /// the address is the file's path and port 0, as in Redis.
    ///
    /// # Errors
    /// `AGAIN` if none waits, `MFILE` and the like if the system lacks resources for it.
    pub fn accept(&self) -> Result<(Stream, String), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        let peer = match &self.address {
            Address::Unix(path) => format!("{}:0", path.display()),
            Address::Tcp(_) | Address::Tls(_) => text_of(peer),
        };
        Ok((Stream::plain(socket, self.transport), peer))
    }

    /// Whether its connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.address.is_tls()
    }
}

/// Whether only programs on this machine can reach an address whose name is resolved.
#[must_use]
pub fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Tcp(address) | Address::Tls(address) => {
            let address = address.parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        }
    }
}

/// Whether an address, as [`Listener::accept`] gives it, is one of this machine's own.
#[must_use]
pub fn is_of_this_machine(peer: &str) -> bool {
    let address = peer.parse::<SocketAddr>();
    peer.starts_with('/') || address.is_ok_and(|it| it.ip().to_canonical().is_loopback())
}

/// The address of a connection's peer; empty for a Unix socket, or after a disconnect.
#[must_use]
pub fn peer_address(stream: &Stream) -> String {
    text_of(rustix::net::getpeername(stream).ok().flatten())
}

/// An address of the internet; nothing of any other.
fn text_of(address: Option<SocketAddrAny>) -> String {
    let address = address.and_then(|any| SocketAddr::try_from(any).ok());
    address.map_or(String::new(), |address| address.to_string())
}

/// The local address of a connection; that of a Unix socket has the form of its peer's, see
/// [`Listener::accept`].
#[must_use]
pub fn local_address(stream: &Stream) -> String {
    let Ok(address) = rustix::net::getsockname(stream) else {
        return String::new();
    };
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return address.to_string();
    }
    let file = SocketAddrUnix::try_from(address).ok();
    let path = file.as_ref().and_then(|file| file.path());
    path.map_or(String::new(), |path| {
        format!("{}:0", path.to_string_lossy())
    })
}

/// A connection's peer as [`Listener::accept`] has it, of one whose listener is not known.
#[must_use]
pub fn came_from(stream: &Stream) -> String {
    match stream.transport() {
        Transport::Tcp => peer_address(stream),
        Transport::Unix => local_address(stream),
    }
}

/// The user ID of the peer of a Unix socket, as the system reports it.
#[must_use]
pub fn peer_uid(stream: &Stream) -> Option<u32> {
    if stream.transport() != Transport::Unix {
        return None;
    }
    let credentials = sockopt::socket_peercred(stream).ok();
    credentials.map(|credentials| credentials.uid.as_raw())
}

/// A peer as logged: its address, as [`Listener::accept`] returns it, and the user ID for a Unix
/// socket.
#[must_use]
pub fn told_of(peer: &str, uid: Option<u32>) -> String {
    match uid {
        Some(uid) => format!("{peer}{UID_MARK}{uid}"),
        None => peer.to_owned(),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn new_socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, kind, flags, None)
}

/// A socket that has this address and does not listen yet.
fn bind_tcp(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = new_socket(family, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    set_tcp_options(&socket)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Accepted sockets inherit both. Keep-alive detects clients that vanished without closing.
fn set_tcp_options(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)
}

/// Listens on a Unix socket of this kind with permission bits `mode`.
///
/// The file of a server that has ended is replaced.
///
/// # Errors
/// Why not: a server answers there, or what the system says.
pub fn listen_on_file(
    path: &Path,
    mode: u32,
    kind: SocketType,
) -> Result<(OwnedFd, SocketFile), String> {
    if is_dead_socket(path, kind)? {
        std::fs::remove_file(path).map_err(|error| error.to_string())?;
    }
    let bind = || -> Result<(OwnedFd, SocketFile), Errno> {
        let socket = new_socket(AddressFamily::UNIX, kind)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        let file = SocketFile::at(path).ok_or(Errno::NOENT)?;
        // No client can connect before the call to listen, so the mode holds from the start.
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok((socket, file))
    };
    bind().map_err(reason)
}

/// The path of a Unix socket that was open before this process.
pub fn inherited_file(socket: impl AsFd) -> Option<SocketFile> {
    place_of(socket)?.file().and_then(SocketFile::at)
}

/// A connection to a socket file.
///
/// # Errors
/// The system's, when nobody listens there or the path is too long.
pub fn connect_to_file(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = new_socket(AddressFamily::UNIX, kind)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The error for a socket file where a server listens.
const SOCKET_IN_USE: &str = "another server uses this socket";

/// Checks whether a socket file could be made at this path.
///
/// # Errors
/// Why not, and whether the reason is that another server listens there.
pub fn try_file(path: &Path, kind: SocketType) -> Result<(), (String, bool)> {
    is_dead_socket(path, kind).map_err(|reason| {
        let is_taken = reason == SOCKET_IN_USE;
        (reason, is_taken)
    })?;
    check_place(path).map_err(|errno| (reason(errno), false))
}

/// Whether this path is a socket file of a server that has ended; an error if it is anything else.
fn is_dead_socket(path: &Path, kind: SocketType) -> Result<bool, String> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(false);
    };
    if !metadata.file_type().is_socket() {
        return Err("a file exists there that is not a socket".to_owned());
    }
    match connect_to_file(path, kind) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // A full backlog belongs to a running server, and so does a socket of another kind.
        Ok(_) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SOCKET_IN_USE.to_owned()),
        Err(errno) => Err(reason(errno)),
    }
}

/// Checks that a socket file can be made at this path.
fn check_place(path: &Path) -> Result<(), Errno> {
    SocketAddrUnix::new(path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    rustix::fs::access(
        folder.unwrap_or(Path::new(".")),
        Access::WRITE_OK | Access::EXEC_OK,
    )
}

fn device_and_inode(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Explains an error of bind or listen to an operator.
fn reason(errno: Errno) -> String {
    match errno {
        Errno::ADDRINUSE => {
            "another server uses the address; stop it or choose another address".to_owned()
        }
        Errno::ADDRNOTAVAIL => "the address does not belong to this machine".to_owned(),
        Errno::ACCESS => "no permission; a port below 1024 needs root or CAP_NET_BIND_SERVICE, a \
                          socket file a directory that this user may write to"
            .to_owned(),
        Errno::NOENT => "the directory does not exist".to_owned(),
        Errno::NAMETOOLONG => "the path is too long for a socket (107 bytes)".to_owned(),
        other => std::io::Error::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_zero_tells_the_port_it_took_and_a_taken_port_is_an_error() {
        let any = Address::Tcp("127.0.0.1:0".to_owned());
        let mut open = OpenSockets::default();
        let listeners = Listener::at(Protocol::Memcached, &any, 0, &mut open).unwrap();
        assert!(is_local(&listeners[0].address));
        let taken = listeners[0].address.to_string();
        let error =
            Listener::tcp(Protocol::Memcached, &taken, Address::Tls, &mut open).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("another server uses the address"),
            "{error}"
        );
    }

    #[test]
    fn a_living_socket_is_an_error_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("life.sock");
        let living = Listener::unix(Protocol::Memcached, &path, 0o600).unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let error = Listener::unix(Protocol::Memcached, &path, 0o600).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("another server uses this socket"),
            "{error}"
        );
        drop(living);
        assert!(!path.exists(), "removed at the end");

        let dead = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(dead);
        assert!(path.exists(), "the standard library leaves the file");
        drop(Listener::unix(Protocol::Memcached, &path, 0o600).unwrap());
        std::fs::write(&path, "precious").unwrap();
        let error = Listener::unix(Protocol::Memcached, &path, 0o600).unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
    }

    #[test]
    fn a_socket_that_is_open_already_is_listened_at_and_those_who_wait_are_let_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open.sock");
        let file = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Address::Tls(tcp.local_addr().unwrap().to_string());
        let _waiting = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let mut open = OpenSockets::default();
        open.add(file.into()).unwrap();
        open.add(tcp.into()).unwrap();
        for address in [place, Address::Unix(path.clone())] {
            let listeners = Listener::at(Protocol::Resp, &address, 0o640, &mut open).unwrap();
            let listener = &listeners[0];
            assert_eq!((listeners.len(), &listener.address), (1, &address));
            assert!(listener.is_inherited);
            assert_eq!(listener.accept().is_ok(), listener.is_tls());
            assert_eq!(listener.accept().unwrap_err(), Errno::AGAIN);
        }
        assert!(
            open.places().is_empty() && path.exists(),
            "another server has replaced its file"
        );
        open.add(
            std::os::unix::net::UnixListener::bind(path.with_extension("2"))
                .unwrap()
                .into(),
        )
        .unwrap();
        let address = Address::Unix(path.with_extension("2"));
        let mut listeners = Listener::at(Protocol::Resp, &address, 0o640, &mut open).unwrap();
        listeners[0].adopt_file(0o640);
        let mode = std::fs::metadata(path.with_extension("2")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o640);
        drop(listeners);
        assert!(!path.with_extension("2").exists());
    }

    #[test]
    fn a_kept_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.sock");
        let mut listener = Listener::unix(Protocol::Memcached, &path, 0o600).unwrap();
        listener.keep_file();
        drop(listener);
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_took_its_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("successor.sock");
        let old = Listener::unix(Protocol::Memcached, &path, 0o600).unwrap();
        let moved = path.with_extension("old");
        std::fs::rename(&path, &moved).unwrap();
        std::fs::write(&path, "another's").unwrap();
        drop(old);
        assert!(path.exists());
    }
}
