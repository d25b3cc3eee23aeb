//! Encrypted: the transport of a connection over TLS, beside its socket.
//!
//! A read returns decrypted bytes first, then takes more from the socket. A write encrypts a piece
//! and sends it; while a part of its ciphertext does not fit into the socket buffer, the write is
//! *owed*: it returns AGAIN, is called again with the same bytes in front, and then reports them as
//! taken. So no other code knows of ciphertext, and a connection with pending ciphertext is one
//! with replies left.
//!
//! Why: docs/decisions/0041. Tests: server/tests/tls.rs.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellar_config::limits::HANDSHAKE_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ServerConnection;

use super::{Readiness, Received, Stream};
use crate::tls::owner::Owner;

/// The first byte of what a client sends that wants to speak TLS.
const HELLO: u8 = 0x16;
/// Bytes that are encrypted before the first of them is sent.
const SEALED_BYTES_MAX: usize = 32 << 10;
/// Times that the socket is read for one read of the stream.
const SOCKET_READS_MAX: usize = 8;
/// Ciphertext that may arrive without yielding plaintext: a whole record, and before it all key
/// updates and empty records that rustls accepts in a row. More would be a handshake message in
/// pieces; the only one that a client sends after its handshake, a key update, has 5 bytes.
const UNDIGESTED_BYTES_MAX: usize = 18 << 10;
/// Ciphertext without plaintext from which on its rest has a time limit. Less may be key updates,
/// which are processed and need nothing more.
const AWAITED_BYTES_MIN: usize = 4 << 10;

/// The state of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The peer has to send more, or to read.
    Waiting,
    /// It is done.
    Done,
    /// The peer does not speak TLS.
    Plain,
    /// The two do not agree; why.
    Refused(String),
    /// The connection is broken.
    Gone,
}

/// The TLS state of a connection.
#[derive(Debug)]
pub(super) struct Encrypted {
    connection: ServerConnection,
    /// How many of the caller's bytes are encrypted, while their ciphertext waits to be sent.
    owed_bytes: usize,
    /// Bytes that arrived before the handshake was done.
    hello_bytes: usize,
    /// Bytes that arrived after it since the last plaintext.
    undigested_bytes: usize,
    /// The owner of the peer's certificate.
    pub(super) owner: Option<Arc<Owner>>,
}

/// The socket as rustls reads it.
struct SocketReader<'a> {
    socket: &'a OwnedFd,
    /// Whether a read has found the socket empty, or took less than it had space for.
    is_drained: bool,
    /// The first byte of the last read.
    first: Option<u8>,
}

impl Read for SocketReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len();
        let read = rustix::net::recv(self.socket, &mut *buffer, RecvFlags::empty());
        let bytes = read.map_err(io::Error::from)?.0;
        self.is_drained = bytes < wanted;
        self.first = buffer[..bytes].first().copied();
        Ok(bytes)
    }
}

/// The socket as rustls writes it.
struct SocketWriter<'a>(&'a OwnedFd);

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [piece] => self.write(piece),
            pieces => Ok(rustix::io::writev(self.0, pieces)?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Encrypted {
    pub(super) fn new(mut connection: ServerConnection) -> Encrypted {
        connection.set_buffer_limit(Some(SEALED_BYTES_MAX));
        Encrypted {
            connection,
            owed_bytes: 0,
            hello_bytes: 0,
            undigested_bytes: 0,
            owner: None,
        }
    }

    /// Continues the handshake as far as the peer allows.
    pub(super) fn shake_hands(&mut self, socket: &OwnedFd) -> Handshake {
        loop {
            match self.flush(socket) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Handshake::Waiting,
                Err(_) => return Handshake::Gone,
            }
            if !self.connection.is_handshaking() {
                self.owner = self.certificate().and_then(Owner::of).map(Arc::new);
                return Handshake::Done;
            }
            if self.hello_bytes > HANDSHAKE_BYTES_MAX {
                return Handshake::Refused("the client's messages are too long".to_owned());
            }
            match self.hear_hello(socket) {
                Ok(()) => {}
                Err(ending) => return ending,
            }
        }
    }

    /// Reads and understands more of the peer's side of the handshake.
    fn hear_hello(&mut self, socket: &OwnedFd) -> Result<(), Handshake> {
        let mut source = SocketReader::of(socket);
        match self.connection.read_tls(&mut source) {
            Ok(0) => return Err(Handshake::Gone),
            Ok(_) if self.hello_bytes == 0 && source.first != Some(HELLO) => {
                return Err(Handshake::Plain);
            }
            Ok(bytes) => self.hello_bytes += bytes,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Err(Handshake::Waiting),
                ErrorKind::Interrupted => return Ok(()),
                _ => return Err(Handshake::Gone),
            },
        }
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the alert to the peer, which may have disconnected.
            let _ = self.flush(socket);
            return Err(Handshake::Refused(error.to_string()));
        }
        Ok(())
    }

    /// The peer's certificate.
    fn certificate(&self) -> Option<&[u8]> {
        let chain = self.connection.peer_certificates()?;
        chain.first().map(|certificate| certificate.as_ref())
    }

    /// Whether the handshake resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Bytes of unsent ciphertext, as a lower bound, and of incomplete records.
    pub(super) fn held_bytes(&self) -> usize {
        self.owed_bytes + self.undigested_bytes
    }

    /// Whether the last bytes need more to be decrypted.
    fn awaits_rest(&self) -> bool {
        self.undigested_bytes >= AWAITED_BYTES_MIN
    }

    pub(super) fn read(
        &mut self,
        socket: &OwnedFd,
        readiness: &mut Readiness,
        buffer: &mut [u8],
    ) -> Received {
        let (mut filled, mut reads) = (0, 0);
        loop {
            match self.connection.reader().read(&mut buffer[filled..]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Its end, with or without close_notify: requests carry their own length.
                Ok(0) | Err(_) => {
                    readiness.readable = filled > 0;
                    readiness.ended = filled == 0;
                    return received(filled, Received::End);
                }
                Ok(bytes) => filled += bytes,
            }
            if filled == buffer.len() || !readiness.readable || reads == SOCKET_READS_MAX {
                break;
            }
            reads += 1;
            if self.fetch(socket, readiness).is_err() {
                readiness.readable = filled > 0;
                return received(filled, Received::Gone);
            }
        }
        // Bytes beyond the buffer are decrypted already. If the rest of a record is awaited, the
        // next read finds nothing and reports that, after the whole requests.
        readiness.readable |= filled == buffer.len() || filled > 0 && self.awaits_rest();
        received(filled, Received::Nothing)
    }

    /// Takes what the socket has, once, and decrypts it.
    fn fetch(&mut self, socket: &OwnedFd, readiness: &mut Readiness) -> Result<(), ()> {
        let mut source = SocketReader::of(socket);
        match self.connection.read_tls(&mut source) {
            Ok(bytes) => {
                self.undigested_bytes += bytes;
                readiness.readable = !source.is_drained || readiness.hung_up;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                readiness.readable = false;
                readiness.hung_up = false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(()),
        }
        let digested = self.connection.process_new_packets();
        if self.connection.wants_write() {
            // An alert, or the refusal of a new handshake; no reply waits for it.
            let _ = self.flush(socket);
        }
        if digested.map_err(|_| ())?.plaintext_bytes_to_read() > 0 {
            self.undigested_bytes = 0;
        }
        // rustls itself would keep 64 KiB of a message of a handshake, and wait.
        let is_bounded = self.undigested_bytes <= UNDIGESTED_BYTES_MAX;
        is_bounded.then_some(()).ok_or(())
    }

    /// Encrypts a piece and sends it; how many bytes were taken.
    pub(super) fn write(
        &mut self,
        socket: &OwnedFd,
        pieces: &[IoSlice<'_>],
    ) -> Result<usize, Errno> {
        self.flush(socket)?;
        if self.owed_bytes > 0 {
            return Ok(std::mem::take(&mut self.owed_bytes));
        }
        let sealed = self.connection.writer().write_vectored(pieces);
        let bytes = sealed.map_err(|_| Errno::PIPE)?;
        match self.flush(socket) {
            Err(Errno::AGAIN) => {
                self.owed_bytes = bytes;
                Err(Errno::AGAIN)
            }
            sent => sent.map(|()| bytes),
        }
    }

    /// Sends all ciphertext that waits.
    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut SocketWriter(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    /// Sends the peer the end of the stream (close_notify).
    pub(super) fn end(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        // A peer that does not read misses the alert.
        let _ = self.flush(socket);
    }
}

impl Stream {
    /// Whether the peer has sent only a part of a unit that is decrypted as a whole: a record, or a
    /// TLS handshake message.
    pub fn awaits_rest(&self) -> bool {
        let encrypted = self.encrypted.as_ref();
        encrypted.is_some_and(|encrypted| encrypted.awaits_rest())
    }
}

impl<'a> SocketReader<'a> {
    fn of(socket: &'a OwnedFd) -> SocketReader<'a> {
        SocketReader {
            socket,
            is_drained: false,
            first: None,
        }
    }
}

/// The result of a read: its bytes, or `otherwise` if it had none.
fn received(filled: usize, otherwise: Received) -> Received {
    match filled {
        0 => otherwise,
        bytes => Received::Bytes(bytes),
    }
}
