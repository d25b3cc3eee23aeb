//! TLS: trusted authorities and client certificates of connections; rustls, with ring.

use std::fmt;

/// The trusted authorities and the client certificate of connections with TLS; texts in PEM.
/// Without any, they trust the system's authorities, and present no certificate.
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Option<Vec<u8>>,
    /// A certificate, with the chain to its authority, and its key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Believes servers with a certificate of an authority that the system knows.
    #[must_use]
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Believes only servers with a certificate of one of these authorities.
    #[must_use]
    pub fn authorities(mut self, certificates: impl Into<Vec<u8>>) -> Tls {
        self.authorities = Some(certificates.into());
        self
    }

    /// Shows a certificate to servers that ask for one.
    #[must_use]
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Tls {
        self.identity = Some((certificate.into(), key.into()));
        self
    }
}

#[cfg(feature = "redis")]
impl Tls {
    /// The same for redis-rs.
    pub(super) fn certificates(&self) -> redis::TlsCertificates {
        let identity = self.identity.clone();
        redis::TlsCertificates {
            client_tls: identity.map(|(certificate, key)| redis::ClientTlsConfig {
                client_cert: certificate,
                client_key: key,
            }),
            root_cert: self.authorities.clone(),
        }
    }
}

#[cfg(feature = "memcached")]
mod rustls_config {
    use std::sync::Arc;

    use rustls::pki_types::pem::{self, PemObject};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore};

    use super::Tls;
    use crate::read_through::error::Error;

    impl Tls {
        /// The same for rustls.
        ///
        /// # Errors
        /// [`Error::Connection`] if a text is invalid.
        pub(in crate::read_through::origin) fn config(&self) -> Result<Arc<ClientConfig>, Error> {
            let mut roots = RootCertStore::empty();
            match &self.authorities {
                Some(text) => {
                    for certificate in certificates(text).map_err(Error::connection)? {
                        roots.add(certificate).map_err(Error::connection)?;
                    }
                }
                None => {
                    // A certificate that rustls cannot parse is not trusted.
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                }
            }
            if roots.is_empty() {
                return Err(Error::connection("there is no authority to be believed"));
            }
            let config = ClientConfig::builder().with_root_certificates(roots);
            let Some((certificate, key)) = &self.identity else {
                return Ok(Arc::new(config.with_no_client_auth()));
            };
            let certificate = certificates(certificate).map_err(Error::connection)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::connection)?;
            let config = config.with_client_auth_cert(certificate, key);
            config.map(Arc::new).map_err(Error::connection)
        }
    }

    fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
        CertificateDer::pem_slice_iter(text).collect()
    }
}
