//! How a connection is opened: by redis-rs, or as a lane where the blocking face asks for it.
//!
//! A lane is a socket of ours under redis-rs's protocol. With TLS there is none: a stream that
//! encrypts writes to and reads from its socket when it likes.

use std::io;

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;

use crate::read_through::lane::{self, LaneHandle, Socket};

/// A connection, and its lane if it has one.
pub(super) type Dialled = (MultiplexedConnection, Option<LaneHandle>);

/// Opens a connection to the server of `client`.
pub(super) async fn dial(
    client: &Client,
    config: AsyncConnectionConfig,
    limit: std::time::Duration,
) -> Result<Dialled, RedisError> {
    let info = client.get_connection_info();
    let background = lane::background().filter(|_| can_be_lane(info));
    let Some(background) = background else {
        let config = config.set_connection_timeout(Some(limit));
        let opening = client.get_multiplexed_async_connection_with_config(&config);
        return Ok((opening.await?, None));
    };
    match timeout(limit, dial_lane(info, config, background)).await {
        Ok(dialled) => dialled,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// Whether the address is one for a plain socket, which is set up as we know how to.
fn can_be_lane(info: &ConnectionInfo) -> bool {
    // How long it lingers is written, and cannot be read but so.
    let lingers = |tcp: &TcpSettings| !format!("{tcp:?}").contains("linger_time: None");
    match info.addr() {
        ConnectionAddr::Tcp(..) => !lingers(info.tcp_settings()),
        ConnectionAddr::Unix(_) => true,
        _ => false,
    }
}

async fn dial_lane(
    info: &ConnectionInfo,
    config: AsyncConnectionConfig,
    background: u64,
) -> Result<Dialled, RedisError> {
    let (stream, opened) = lane::open(connect(info).await?)?;
    let connecting = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
    let (connection, driver) = connecting.await?;
    Ok((connection, Some(opened.drive(background, driver))))
}

/// A connected socket; of several addresses the first that answers, as redis-rs does.
async fn connect(info: &ConnectionInfo) -> io::Result<Socket> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let addresses: Vec<_> = lookup_host((host.as_str(), *port)).await?.collect();
            if addresses.is_empty() {
                return Err(io::Error::other("no address found for host"));
            }
            let dials = addresses.into_iter().map(TcpStream::connect).map(Box::pin);
            let (socket, _) = select_ok(dials).await?;
            set_up(socket.into_std()?, info.tcp_settings()).map(Socket::Tcp)
        }
        ConnectionAddr::Unix(path) => {
            Ok(Socket::Unix(UnixStream::connect(path).await?.into_std()?))
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

fn set_up(socket: std::net::TcpStream, tcp: &TcpSettings) -> io::Result<std::net::TcpStream> {
    let socket = socket2::Socket::from(socket);
    socket.set_tcp_nodelay(tcp.nodelay())?;
    if let Some(keepalive) = tcp.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    socket.set_tcp_user_timeout(tcp.user_timeout())?;
    Ok(socket.into())
}
