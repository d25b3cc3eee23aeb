//! TLS: the server's certificates and keys, and the configurations made from them.
//!
//! They are read at the start, on SIGHUP, and when a file has changed. If they cannot be read the
//! old ones stay in force. A handshake keeps those of its beginning.
//!
//! Versions 1.2 and 1.3 with rustls's suites, which all have forward secrecy; sessions resume by
//! tickets whose key is valid as long as the certificates in force, and rotates every six hours.
//!
//! Why: docs/decisions/0041. Tests: server/tests/tls.rs.

pub mod certificate; // what is read out of a certificate
pub mod owner; // what the owner of a client's certificate is called
mod chain; // checks that the certificates of a file are those that their issuers signed
mod files;

use std::sync::Arc;

use cellar_config::error::Error;
use cellar_config::protocol::{ByProtocol, Protocol};
use cellar_config::settings::Settings;
use parking_lot::Mutex;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{Error as TlsError, ServerConnection};

use self::files::{Certified, Files, Stamp};

/// The server's certificates and keys.
#[derive(Debug)]
pub struct Keys {
    files: Files,
    in_force: Mutex<InForce>,
}

/// The state that handshakes begin with.
#[derive(Clone, Debug)]
struct InForce {
    configs: ByProtocol<Arc<ServerConfig>>,
    certificates: Arc<[Certified]>,
    authorities_expiry_s: Option<i64>,
    stamps: Vec<Stamp>,
}

/// Which certificate a client is shown: one for the name that it asks for and with a signature that
/// it understands, else the first.
#[derive(Debug)]
struct Choice(Arc<[Certified]>);

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let is_understood = |one: &&Certified| one.key.key.choose_scheme(schemes).is_some();
        let server = hello.server_name();
        let is_asked_for = |one: &&Certified| server.is_some_and(|name| one.facts.is_for(name));
        let understood = || self.0.iter().filter(is_understood);
        let best = understood().find(is_asked_for);
        // Without a common signature any does: the handshake then ends with what is the matter.
        let chosen = best.or_else(|| understood().next());
        let chosen = chosen.or_else(|| self.0.first());
        chosen.map(|one| Arc::clone(&one.key))
    }
}

impl Keys {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// A one-line message if they are not valid.
    pub fn load(settings: &Settings) -> Result<Keys, Error> {
        let files = Files::of(settings)?;
        let in_force = Mutex::new(read(&files)?);
        Ok(Keys { files, in_force })
    }

    /// Reads them again.
    ///
    /// # Errors
    /// A message if they are not valid; the old ones stay in force.
    pub fn reload(&self) -> Result<(), Error> {
        let stamps = self.files.stamps();
        let read = read(&self.files);
        let mut in_force = self.in_force.lock();
        let agreed = read.and_then(|read| {
            files::check_beside(&in_force.certificates, &read.certificates)?;
            Ok(read)
        });
        match agreed {
            Ok(read) => *in_force = read,
            Err(error) => {
                // The files have not changed since: the caller decides when to retry.
                in_force.stamps = stamps;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a file has changed since they were read.
    #[must_use]
    pub fn have_changed(&self) -> bool {
        self.files.stamps() != self.in_force.lock().stamps
    }

    /// The server's side of a new connection.
    ///
    /// # Errors
    /// None that settings which were read can meet.
    pub fn connection(&self, protocol: Protocol) -> Result<ServerConnection, TlsError> {
        let config = Arc::clone(self.in_force.lock().configs.of(protocol));
        ServerConnection::new(config)
    }

    /// The files of the certificates in force, each with its expiry as a Unix time.
    #[must_use]
    pub fn expiries_s(&self) -> Vec<(String, i64)> {
        let certificates = Arc::clone(&self.in_force.lock().certificates);
        let expiry = |one: &Certified| (one.path.display().to_string(), *one.facts.valid_s.end());
        certificates.iter().map(expiry).collect()
    }

    /// The expiry of the first client CA to expire, as a Unix time; none if no client certificates
    /// are requested.
    #[must_use]
    pub fn authorities_expiry_s(&self) -> Option<i64> {
        self.in_force.lock().authorities_expiry_s
    }
}

/// Reads all files.
fn read(files: &Files) -> Result<InForce, Error> {
    // Before the files: what changes while they are read is read again.
    let stamps = files.stamps();
    let provider = Arc::new(default_provider());
    let certificates: Arc<[Certified]> = files.certified(&provider)?.into();
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_protocol_versions(&[&TLS13, &TLS12]);
    let config = config.map_err(impossible)?;
    let (config, authorities_expiry_s) = match files.verifier(&provider)? {
        Some((verifier, end_s)) => (config.with_client_cert_verifier(verifier), end_s),
        None => (config.with_no_client_auth(), None),
    };
    let mut config = config.with_cert_resolver(Arc::new(Choice(Arc::clone(&certificates))));
    // A key of tickets is as old as the authorities that its sessions were made by.
    config.ticketer = Ticketer::new().map_err(impossible)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    let configs = ByProtocol::from_fn(|protocol| {
        let mut config = config.clone();
        let names = protocol.row().alpn.iter();
        config.alpn_protocols = names.map(|name| name.to_vec()).collect();
        Arc::new(config)
    });
    Ok(InForce {
        configs,
        certificates,
        authorities_expiry_s,
        stamps,
    })
}

/// An error that has nothing to do with the files: the system has no random numbers, or the like.
fn impossible(error: TlsError) -> Error {
    Error::System {
        what: "preparing TLS",
        source: std::io::Error::other(error),
    }
}
