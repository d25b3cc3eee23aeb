//! Carriers: how the subcommands reach a server, in plain text or over TLS.
//!
//! Tests: tests/top.rs, tests/migrate.rs.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Longest time that a server may be silent.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A connection, encrypted or not.
pub trait Carrier: Read + Write {}

impl<T: Read + Write> Carrier for T {}

/// Whom a client over TLS believes, and what it shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Who has signed the server's certificate.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to it, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Connects to `host:port`, or to this port of the host.
///
/// # Errors
/// Why nobody is there, in one line.
pub fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let named = host.to_socket_addrs();
    let addresses = named.or_else(|_| (host.trim_matches(['[', ']']), port).to_socket_addrs());
    let mut failure = "the name has no address".to_owned();
    for address in addresses.map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                let read = stream.set_read_timeout(Some(PATIENCE));
                let both = read.and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                return both.map(|()| stream).map_err(|error| error.to_string());
            }
            Err(error) => failure = error.to_string(),
        }
    }
    Err(failure)
}

/// Speaks TLS over a connection to `host`, which may have a port behind it.
///
/// # Errors
/// Why that cannot be, in one line.
pub fn encrypt<S: Carrier>(
    stream: S,
    host: &str,
    trust: &Trust,
) -> Result<StreamOwned<ClientConnection, S>, String> {
    let config = config(trust)?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|error| error.to_string())?;
    let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(tls, stream))
}

fn config(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let ca = trust.ca.as_deref().ok_or("TLS needs --tls-ca FILE")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| bad(ca, &error))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(match &trust.identity {
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
