//! TLS of a client: what it believes, what it shows, and a socket whose bytes may be encrypted.
//!
//! A plain socket costs one branch more than none. What comes encrypted is read from the socket in
//! large pieces whatever is in it, so a record costs no system call of its own.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::mem::{MaybeUninit, take};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::Error;

/// Bytes of ciphertext read at a time.
const CIPHERTEXT_BYTES: usize = 32 << 10;
/// The least room for what is read: all that the ciphertext may hold, with the record begun before.
pub(crate) const ROOM_BYTES_MIN: usize = CIPHERTEXT_BYTES + (32 << 10);

/// What TLS needs beside an address.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Who has signed the certificate of a server behind tls:, a PEM file
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The certificate to show to it, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The same for rustls; each connection makes a whole handshake, as a client of its own would.
    ///
    /// # Errors
    /// [`Error::Usage`] if a file is missing or holds something else.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let ca = self.tls_ca.as_deref();
        let ca = ca.ok_or_else(|| Error::Usage("tls: needs --tls-ca FILE".to_owned()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| bad(ca, &error))?;
        }
        if roots.is_empty() {
            return Err(bad(ca, &"no certificate of an authority"));
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match (&self.tls_cert, &self.tls_key) {
            (Some(shown), Some(path)) => {
                let key = PrivateKeyDer::from_pem_file(path).map_err(|error| bad(path, &error))?;
                let config = config.with_client_auth_cert(certificates(shown)?, key);
                config.map_err(|error| bad(shown, &error))?
            }
            _ => config.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    all.map_err(|error| bad(path, &error))
}

fn bad(path: &Path, error: &dyn Display) -> Error {
    Error::Usage(format!("{}: {error}", path.display()))
}

/// A connection to a server, encrypted or not.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes that are encrypted and not all sent; nobody has been told that they are taken.
    owed_bytes: usize,
}

impl Stream {
    /// A connection without TLS.
    pub fn plain(socket: UnixStream) -> Stream {
        Stream {
            socket,
            tls: None,
            owed_bytes: 0,
        }
    }

    /// A connection with TLS, after the handshake.
    ///
    /// # Errors
    /// If the server is not whom it should be, or the handshake fails otherwise.
    pub fn encrypted(
        mut socket: UnixStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Stream> {
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        let tls = Some(Box::new(tls));
        Ok(Stream {
            tls,
            ..Stream::plain(socket)
        })
    }

    /// The socket, to be waited for and to be told how long it waits.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// What it is encrypted with, if it is.
    pub fn cipher(&self) -> Option<String> {
        let suite = self.tls.as_ref()?.negotiated_cipher_suite()?;
        suite.suite().as_str().map(str::to_owned)
    }

    /// Takes what has come, nothing at the end; tells too whether the socket is empty then, so that
    /// its next bytes are another event.
    ///
    /// # Errors
    /// What the system answers, or TLS; for a socket that does not wait `WouldBlock`.
    ///
    /// # Panics
    /// If the buffer is shorter than [`ROOM_BYTES_MIN`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let Some(tls) = &mut self.tls else {
            let (bytes, _) = recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
            return Ok((bytes, bytes < buffer.len()));
        };
        assert!(buffer.len() >= ROOM_BYTES_MIN, "room for all that may come");
        let mut room = [MaybeUninit::<u8>::uninit(); CIPHERTEXT_BYTES];
        loop {
            let ((ciphertext, _), _) = recv(&self.socket, &mut room[..], RecvFlags::empty())?;
            let is_empty = ciphertext.len() < CIPHERTEXT_BYTES;
            let mut is_over = ciphertext.is_empty();
            let (mut rest, mut bytes) = (&*ciphertext, 0);
            while !rest.is_empty() && !is_over {
                tls.read_tls(&mut rest)?;
                let state = tls.process_new_packets().map_err(io::Error::other)?;
                is_over = state.peer_has_closed();
                let waiting = state.plaintext_bytes_to_read();
                tls.reader()
                    .read_exact(&mut buffer[bytes..bytes + waiting])?;
                bytes += waiting;
            }
            // Without any, it was the server's own business.
            if bytes > 0 || is_over {
                return Ok((bytes, is_empty));
            }
        }
    }

    /// Sends the front of `bytes` and tells how many it took. After an error the same bytes have to
    /// come again: some of them may be on their way.
    ///
    /// # Errors
    /// As [`Stream::receive`].
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?);
        };
        if self.owed_bytes == 0 {
            self.owed_bytes = tls.writer().write(bytes)?;
        }
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(take(&mut self.owed_bytes))
    }

    /// Sends all of them, on a socket that waits.
    ///
    /// # Errors
    /// As [`Stream::receive`].
    pub fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }
}
