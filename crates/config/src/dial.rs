//! Dial: connections of subcommands to a server, in plain text or over TLS.
//!
//! Tests: server/tests/top.rs, server/tests/migrate.rs, server/tests/healthcheck.rs.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, Error as TlsError,
    RootCertStore, SignatureScheme, StreamOwned,
};

/// Longest time that a server may send nothing.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A connection, encrypted or not.
pub trait PeerStream: Read + Write {}

impl<T: Read + Write> PeerStream for T {}

/// The CA and the client certificate of a TLS client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The CA that has to have signed the server's certificate.
    pub ca: Option<PathBuf>,
    /// The client certificate presented to it, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Connects to `host:port`, or to this port of the host.
///
/// # Errors
/// A one-line message if no address answers.
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
pub fn encrypt<S: PeerStream>(
    stream: S,
    host: &str,
    trust: &Trust,
) -> Result<StreamOwned<ClientConnection, S>, String> {
    speak(stream, host, config(trust)?)
}

fn speak<S: PeerStream>(
    stream: S,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<StreamOwned<ClientConnection, S>, String> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|error| error.to_string())?;
    let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(tls, stream))
}

/// The same without a check of the server's certificate: for requests without secrets, whose
/// answers only show whether a server is there.
///
/// # Errors
/// A one-line message if that fails.
pub fn encrypt_to_anyone<S: PeerStream>(
    stream: S,
    host: &str,
    trust: &Trust,
) -> Result<StreamOwned<ClientConnection, S>, String> {
    let config = ClientConfig::builder().dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(Anyone::default()));
    speak(stream, host, with_identity(config, trust)?)
}

fn config(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let ca = trust.ca.as_deref().ok_or("TLS needs --tls-ca FILE")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| bad(ca, &error))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    with_identity(config, trust)
}

fn with_identity(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    trust: &Trust,
) -> Result<Arc<ClientConfig>, String> {
    Ok(Arc::new(match &trust.identity {
        None => config.with_no_client_auth(),
        Some((shown, path)) => {
            let key = PrivateKeyDer::from_pem_file(path).map_err(|error| bad(path, &error))?;
            let config = config.with_client_auth_cert(certificates(shown)?, key);
            config.map_err(|error| bad(shown, &error))?
        }
    }))
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl Default for Anyone {
    fn default() -> Anyone {
        Anyone(ring::default_provider().signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _issuers: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _status: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    all.map_err(|error| bad(file, &error))
}

fn bad(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}
