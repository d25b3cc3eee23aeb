//! Files: certificates and keys as they lie on disk, and whether they have changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_config::error::Error;
use cellar_config::settings::Settings;
use cellar_system::clock;
use cellar_system::named_file;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys, RootCertStore};

use super::certificate::{self, CertificateFacts};
use super::chain;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Permission bits by which other users may read or change a key.
const OTHERS: u32 = 0o006;

/// The paths of certificates and keys.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Each certificate, with its issuers behind it, and its key.
    pairs: Vec<(PathBuf, PathBuf)>,
    /// The authorities of clients.
    authorities: Option<PathBuf>,
}

/// The verifier of clients, and the expiry of the first of its authorities as a Unix time.
pub(super) type Verifier = (Arc<dyn ClientCertVerifier>, Option<i64>);

/// The identity of a file's version: its inode, its size, and the times of the last change of its
/// content and of its metadata, such as its mode.
pub(super) type Stamp = Option<(u64, u64, [i64; 4])>;

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Certified {
    pub(super) path: PathBuf,
    pub(super) facts: CertificateFacts,
    pub(super) key: Arc<CertifiedKey>,
}

impl Files {
    /// The files of the settings.
    pub(super) fn of(settings: &Settings) -> Result<Files, Error> {
        let (certificates, keys) = (&settings.tls_cert, &settings.tls_key);
        let fail = |flag: &'static str, reason: String| Error::Setting {
            flag,
            origin: String::new(),
            reason,
        };
        if certificates.is_empty() {
            let reason = "an address with tls: needs a certificate and its key; set --tls-cert \
                          and --tls-key";
            return Err(fail("tls-cert", reason.to_owned()));
        }
        if certificates.len() != keys.len() {
            let (certificates, keys) = (certificates.len(), keys.len());
            let reason =
                format!("each certificate needs its key: {certificates} certificates, {keys} keys");
            return Err(fail("tls-key", reason));
        }
        let pairs = certificates.iter().cloned().zip(keys.iter().cloned());
        Ok(Files {
            pairs: pairs.collect(),
            authorities: settings.tls_client_ca.clone(),
        })
    }

    /// The stamps of all files, to notice a change.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        let pairs = self.pairs.iter().flat_map(|(one, other)| [one, other]);
        let stamp = |path: &PathBuf| {
            let is = std::fs::metadata(path).ok()?;
            let changed = [is.mtime(), is.mtime_nsec(), is.ctime(), is.ctime_nsec()];
            Some((is.ino(), is.size(), changed))
        };
        pairs.chain(&self.authorities).map(stamp).collect()
    }

    /// Reads and checks all certificates and keys.
    pub(super) fn certified(&self, provider: &CryptoProvider) -> Result<Vec<Certified>, Error> {
        let pairs = self.pairs.iter();
        pairs.map(|pair| read_pair(pair, provider)).collect()
    }

    /// Verifies clients by the certificates of authorities; none if clients need no certificate.
    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Verifier>, Error> {
        let Some(path) = &self.authorities else {
            return Ok(None);
        };
        let fail = |reason: String| refused("tls-client-ca", path, reason);
        let (mut roots, mut first_end_s) = (RootCertStore::empty(), None);
        for certificate in read_certificates("tls-client-ca", path)? {
            let facts = certificate::facts(&certificate);
            let end_s = facts.map(|facts| *facts.valid_s.end());
            first_end_s = first_end_s.into_iter().chain(end_s).min();
            let added = roots.add(certificate);
            added.map_err(|error| fail(error.to_string()))?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let verifier = verifier.build().map_err(|error| fail(error.to_string()))?;
        Ok(Some((verifier, first_end_s)))
    }
}

/// Checks newly read certificates against those in force.
pub(super) fn check_beside(in_force: &[Certified], read: &[Certified]) -> Result<(), Error> {
    let known: Vec<_> = in_force
        .iter()
        .flat_map(|one| one.key.cert.iter().cloned())
        .collect();
    for one in read {
        let checked = chain::check_beside(&known, &one.key.cert);
        checked.map_err(|reason| refused("tls-cert", &one.path, reason))?;
    }
    Ok(())
}

fn refused(flag: &'static str, path: &Path, reason: String) -> Error {
    Error::TlsFile {
        flag,
        path: path.display().to_string(),
        reason,
    }
}

fn read_pair(
    (certificate, key): &(PathBuf, PathBuf),
    provider: &CryptoProvider,
) -> Result<Certified, Error> {
    let chain = read_certificates("tls-cert", certificate)?;
    let fail = |reason: &str| refused("tls-cert", certificate, reason.to_owned());
    let first = chain.first().and_then(|first| certificate::facts(first));
    let facts = first.ok_or_else(|| fail("the certificate cannot be parsed"))?;
    let now_s = clock::unix_s();
    if now_s > *facts.valid_s.end() {
        let end = clock::date(*facts.valid_s.end());
        return Err(fail(&format!("the certificate was valid until {end}")));
    }
    if now_s < *facts.valid_s.start() {
        let start = clock::date(*facts.valid_s.start());
        return Err(fail(&format!(
            "the certificate is not valid before {start}"
        )));
    }
    chain::check(&chain).map_err(|reason| fail(&reason))?;
    let private = read_key(key)?;
    let certified =
        CertifiedKey::from_der(chain, private, provider).map_err(|error| {
            let reason = match error {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("it does not match the certificate {}", certificate.display())
            }
            // Java writes keys of elliptic curves without their public part, which ring wants.
            TlsError::General(_) => {
                "it is no RSA, ECDSA or EdDSA key, or lacks its public part: `openssl ec -in KEY \
                 -out NEW` writes one of Java's with it"
                    .to_owned()
            }
            error => error.to_string(),
        };
            refused("tls-key", key, reason)
        })?;
    Ok(Certified {
        path: certificate.clone(),
        facts,
        key: Arc::new(certified),
    })
}

fn read_certificates(
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let (_, text) = read(flag, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let fail = |reason: String| refused(flag, path, reason);
    match certificates {
        Ok(none) if none.is_empty() => {
            Err(fail("the file contains no certificate in PEM".to_owned()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(fail(format!("no certificate can be read: {error}"))),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let (metadata, text) = read("tls-key", path)?;
    let fail = |reason: String| refused("tls-key", path, reason);
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS != 0 {
        let reason =
            format!("every user of this machine can read it (mode {mode:o}); use chmod 600");
        return Err(fail(reason));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let is_locked = text.windows(9).any(|word| word == b"ENCRYPTED");
        let reason = if is_locked {
            "the key is encrypted; write it without a passphrase: openssl pkey -in ... -out ..."
        } else {
            "the file contains no private key in PEM"
        };
        fail(reason.to_owned())
    })
}

/// A file, and what the system knows of the one that was read.
fn read(flag: &'static str, path: &Path) -> Result<(Metadata, Vec<u8>), Error> {
    let fail = |error: std::io::Error| refused(flag, path, error.to_string());
    let (file, metadata) = named_file::open(path).map_err(fail)?;
    let text = named_file::read(file, FILE_BYTES_MAX).map_err(fail)?;
    Ok((metadata, text))
}
