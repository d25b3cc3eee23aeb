//! Stream: the bytes of one connection in both directions, over any transport.
//!
//! No other code reads, writes or ends a connection's socket, so a transport other than a plain
//! socket ([`encrypted`]) changes nothing else. The poller reports edges: after an edge the caller
//! reads until [`Stream::is_readable`] is false. How that is known depends on the transport. A
//! plain socket is drained by a read shorter than its buffer, which saves a further read; one over
//! TLS also checks its own decrypted bytes.
//!
//! Why: docs/decisions/0032, 0041.

mod ahead;
pub mod encrypted;

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use cellar_system::poller::{Interest, Ready};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustls::ServerConnection;

use self::ahead::ReadAhead;
use self::encrypted::{Encrypted, Handshake};
use crate::tls::owner::Owner;

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// A UNIX stream socket.
    Unix,
}

/// The known state of unread bytes from the peer.
#[derive(Clone, Copy, Debug, Default)]
struct Readiness {
    /// Whether any may be there.
    readable: bool,
    /// Whether the peer is known to have closed, so that a short read is not the last one.
    hung_up: bool,
    /// Whether the end of the peer's bytes was read.
    ended: bool,
    /// Whether the peer is known to read nothing more, either.
    gone: bool,
}

/// The two directions of one connection.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    transport: Transport,
    readiness: Readiness,
    /// The TLS state; none for a plain stream.
    encrypted: Option<Box<Encrypted>>,
    /// Bytes read ahead of their use; none for most connections.
    ahead: Option<Box<ReadAhead>>,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes arrived.
    Bytes(usize),
    /// Nothing is there for the present.
    Nothing,
    /// The peer has sent all it had.
    End,
    /// The connection is broken.
    Gone,
}

impl Stream {
    /// The stream of a connected socket that does not block.
    #[must_use]
    pub fn plain(socket: OwnedFd, transport: Transport) -> Stream {
        Stream {
            socket,
            transport,
            readiness: Readiness::default(),
            encrypted: None,
            ahead: None,
        }
    }

    /// Sends all bytes from now on through TLS, beginning with a handshake.
    pub fn encrypt(&mut self, connection: ServerConnection) {
        self.encrypted = Some(Box::new(Encrypted::new(connection)));
    }

    /// Continues the handshake as far as the peer allows. A peer that does not speak TLS has a
    /// plain stream afterwards.
    pub fn shake_hands(&mut self) -> Handshake {
        let Some(encrypted) = &mut self.encrypted else {
            return Handshake::Done;
        };
        let handshake = encrypted.shake_hands(&self.socket);
        match handshake {
            // The first requests may have arrived with the end of the handshake.
            Handshake::Done => self.readiness.readable = true,
            Handshake::Plain => self.encrypted = None,
            _ => {}
        }
        handshake
    }

    /// Whether its handshake resumed an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        let encrypted = self.encrypted.as_ref();
        encrypted.is_some_and(|encrypted| encrypted.is_resumed())
    }

    /// The owner of the peer's certificate, which a CA of `--tls-client-ca` has signed.
    #[must_use]
    pub fn owner(&self) -> Option<Arc<Owner>> {
        self.encrypted.as_ref()?.owner.clone()
    }

    /// Bytes of memory that it takes: what waits for free space in the socket, and the read-ahead.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let encrypted = self.encrypted.as_ref();
        encrypted.map_or(0, |encrypted| encrypted.held_bytes()) + self.ahead_bytes()
    }

    /// Bytes of memory that its read-ahead takes.
    #[inline]
    #[must_use]
    pub fn ahead_bytes(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.held_bytes())
    }

    /// Whether its bytes are the socket's, and the peer may send more: then another process can go
    /// on with the socket.
    #[must_use]
    pub fn can_move(&self) -> bool {
        self.encrypted.is_none() && self.ahead.is_none() && !self.is_leaving()
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.encrypted.is_some()
    }

    /// Its transport.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The events that the poller is to report from the beginning.
    ///
    /// A Unix socket reports writability after each reply that the peer reads, so that is requested
    /// only while replies wait; a TCP socket reports it only after it was full.
    #[must_use]
    pub fn first_interest(&self) -> Interest {
        match self.transport {
            Transport::Tcp => Interest::ReadsAndWrites,
            Transport::Unix => Interest::Reads,
        }
    }

    /// Whether there may be bytes to read, or their end.
    #[inline]
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.readiness.readable || self.ahead.is_some()
    }

    /// Whether there may be bytes for [`read_ahead`](Self::read_ahead), or their end.
    #[must_use]
    pub fn has_more_ahead(&self) -> bool {
        self.readiness.readable
    }

    /// Whether the end of the peer's bytes was read.
    #[inline]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.readiness.ended && self.ahead.is_none()
    }

    /// Whether the peer has disconnected and can read no reply.
    #[inline]
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.readiness.gone
    }

    /// Whether the peer is known to send nothing more: it has shut down its side, or disconnected.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let Readiness {
            hung_up,
            ended,
            gone,
            ..
        } = self.readiness;
        hung_up || ended || gone
    }

    /// Records an event of the poller.
    #[inline]
    pub fn note_edge(&mut self, ready: &Ready) {
        if ready.readable {
            self.readiness.readable = true;
            self.readiness.hung_up |= ready.hung_up;
            self.readiness.gone |= ready.gone;
        }
    }

    /// Makes the next iteration read, whether an edge was reported or not.
    pub fn look_again(&mut self) {
        self.readiness.readable = true;
    }

    /// Reads once, and records whether more may be there.
    ///
    /// Bytes read ahead come first.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Received {
        match &self.ahead {
            None => self.receive(buffer),
            Some(_) => self.read_kept(buffer),
        }
    }

    /// Reads what was read ahead.
    #[cold]
    fn read_kept(&mut self, buffer: &mut [u8]) -> Received {
        let bytes = self.ahead.as_mut().map_or(0, |ahead| ahead.read(buffer));
        if self.ahead.as_ref().is_some_and(|ahead| ahead.is_empty()) {
            self.ahead = None;
        }
        Received::Bytes(bytes)
    }

    /// Takes bytes from the socket that cannot be used yet, at most 64 KiB.
    ///
    /// [`read`](Self::read) returns them later, and then the end of the stream.
    pub fn read_ahead(&mut self) -> Received {
        let mut ahead = self.ahead.take().unwrap_or_default();
        let received = self.receive(ahead.free());
        if let Received::Bytes(bytes) = received {
            ahead.advance(bytes);
        }
        if !ahead.is_empty() {
            self.ahead = Some(ahead);
        }
        received
    }

    /// Releases the read-ahead; returns its memory, to be freed in pieces.
    #[must_use]
    pub fn take_ahead(&mut self) -> Vec<Vec<u8>> {
        let ahead = self.ahead.take();
        ahead.map_or_else(Vec::new, |ahead| ahead.into_chunks())
    }

    /// Reads once from the socket.
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        let wanted = buffer.len();
        let readiness = &mut self.readiness;
        if let Some(encrypted) = &mut self.encrypted {
            return encrypted.read(&self.socket, readiness, buffer);
        }
        match rustix::net::recv(&self.socket, buffer, RecvFlags::empty()) {
            Ok((0, _)) => {
                readiness.readable = false;
                readiness.ended = true;
                Received::End
            }
            Ok((bytes, _)) => {
                readiness.readable = bytes == wanted || readiness.hung_up;
                Received::Bytes(bytes)
            }
            Err(Errno::AGAIN) => {
                readiness.readable = false;
                readiness.hung_up = false;
                Received::Nothing
            }
            Err(Errno::INTR) => Received::Nothing,
            Err(_) => {
                readiness.readable = false;
                Received::Gone
            }
        }
    }

    /// Writes once; returns how many bytes were taken.
    ///
    /// # Errors
    /// `AGAIN` if the socket buffer is full; others when the connection is broken.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if let Some(encrypted) = &mut self.encrypted {
            return encrypted.write(&self.socket, &[IoSlice::new(bytes)]);
        }
        rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
    }

    /// The same for bytes that lie in several places.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if let Some(encrypted) = &mut self.encrypted {
            return encrypted.write(&self.socket, pieces);
        }
        rustix::io::writev(&self.socket, pieces)
    }

    /// Ends the sending side: TLS close_notify, if any, and a shutdown of the socket.
    pub fn end_writing(&mut self) {
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.end(&self.socket);
        }
        // A connection that is already broken needs no shutdown.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.end(&self.socket);
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    const EDGE: Ready = Ready {
        token: 0,
        readable: true,
        writable: false,
        hung_up: false,
        gone: false,
    };

    fn pair() -> (Stream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (Stream::plain(near.into(), Transport::Unix), far)
    }

    #[test]
    fn a_short_read_drains_a_stream_whose_peer_is_there() {
        let (mut stream, mut peer) = pair();
        assert!(!stream.is_readable());
        peer.write_all(b"get a\r\n").unwrap();
        stream.note_edge(&EDGE);
        assert_eq!(stream.read(&mut [0; 4]), Received::Bytes(4));
        assert!(stream.is_readable());
        assert_eq!(stream.read(&mut [0; 4]), Received::Bytes(3));
        assert!(!stream.is_readable() && !stream.has_ended());
        assert_eq!(stream.read(&mut [0; 4]), Received::Nothing);
    }

    #[test]
    fn what_was_read_ahead_comes_before_the_rest_and_the_end_behind_it() {
        let (mut stream, mut peer) = pair();
        peer.write_all(b"get a\r\n").unwrap();
        stream.note_edge(&EDGE);
        assert_eq!(stream.read_ahead(), Received::Bytes(7));
        assert_eq!(stream.read_ahead(), Received::Nothing);
        assert!(stream.is_readable() && !stream.has_more_ahead() && !stream.can_move());
        peer.write_all(b"get b\r\n").unwrap();
        drop(peer);
        stream.note_edge(&Ready {
            hung_up: true,
            ..EDGE
        });
        assert_eq!(stream.read_ahead(), Received::Bytes(7));
        assert_eq!(stream.read_ahead(), Received::End);
        assert!(stream.is_readable() && !stream.has_ended());
        let mut buffer = [0; 10];
        assert_eq!(stream.read(&mut buffer), Received::Bytes(10));
        assert_eq!(&buffer, b"get a\r\nget");
        assert_eq!(stream.read(&mut buffer), Received::Bytes(4));
        assert_eq!(stream.ahead_bytes(), 0);
        assert!(stream.has_ended());
    }

    #[test]
    fn the_end_is_read_behind_the_last_bytes_of_a_peer_that_is_gone() {
        let (mut stream, mut peer) = pair();
        peer.write_all(b"quit\r\n").unwrap();
        drop(peer);
        stream.note_edge(&Ready {
            hung_up: true,
            ..EDGE
        });
        assert_eq!(stream.read(&mut [0; 64]), Received::Bytes(6));
        assert!(stream.is_readable() && !stream.has_ended());
        assert_eq!(stream.read(&mut [0; 64]), Received::End);
        assert!(!stream.is_readable() && stream.has_ended());
    }
}
