//! TLS: certificates that a test makes, and clients that speak it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

/// A client over TLS.
pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Who signs the certificates of a test, and the folder where they lie.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// An authority whose own certificate is `ca.pem`.
    pub(crate) fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "the authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// The path of one of its files.
    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    /// Makes `FILE.pem` and `FILE.key`, for these names.
    pub(crate) fn issue(&self, file: &str, common: &str, names: &[&str]) {
        self.issue_for(file, common, names, (2020, 2090));
    }

    /// The same, valid from the first of one year to the first of another.
    pub(crate) fn issue_for(&self, file: &str, common: &str, names: &[&str], years: (i32, i32)) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        self.sign(file, &params);
    }

    /// Makes `FILE.pem` and `FILE.key` for an owner without a common name, who has this one.
    pub(crate) fn issue_unnamed(&self, file: &str, name: SanType) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![name];
        self.sign(file, &params);
    }

    /// Makes `FILE.pem` and `FILE.key` for localhost, signed by an authority whose certificate,
    /// signed by this one, stands behind; both in PEM.
    pub(crate) fn issue_below(&self, file: &str, common: &str) -> [String; 2] {
        let named = |name: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut below = named(&format!("issuer of {common}"), &[]);
        below.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let (below_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let issuer = below.signed_by(&below_key, &self.issuer).unwrap().pem();
        let own = named(common, &["localhost"]);
        let own = own
            .signed_by(&key, &Issuer::new(below, below_key))
            .unwrap()
            .pem();
        self.write(&format!("{file}.key"), &key.serialize_pem());
        self.write(&format!("{file}.pem"), &format!("{own}{issuer}"));
        [own, issuer]
    }

    fn sign(&self, file: &str, params: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{file}.key"), &key.serialize_pem());
        self.write(&format!("{file}.pem"), &certificate.pem());
    }

    /// Writes a file that its owner alone can read, in one step.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let (path, new) = (self.path(file), self.path(&format!("{file}.new")));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &path).unwrap();
    }

    /// What a client believes that trusts this authority and speaks one version, or both.
    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let config = self.trusting(versions);
        config.with_no_client_auth()
    }

    /// The same, with the certificate in `FILE.pem`.
    pub(crate) fn client_called(
        &self,
        file: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let chain = CertificateDer::pem_file_iter(self.path(&format!("{file}.pem"))).unwrap();
        let chain: Result<Vec<_>, _> = chain.collect();
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{file}.key"))).unwrap();
        let config = self.trusting(versions);
        config.with_client_auth_cert(chain.unwrap(), key).unwrap()
    }

    fn trusting(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(versions).unwrap();
        config.with_root_certificates(roots)
    }
}

/// A connection to `address`, which may have `tls:` in front; its reads fail rather than hang.
pub(crate) fn dial(address: &str) -> TcpStream {
    let address = address.strip_prefix("tls:").unwrap_or(address);
    let stream = TcpStream::connect(address).expect("the server listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A client's side of a connection that has not begun.
pub(crate) fn unspoken(config: &Arc<ClientConfig>, server: &str) -> ClientConnection {
    let server = ServerName::try_from(server.to_owned()).unwrap();
    ClientConnection::new(Arc::clone(config), server).unwrap()
}

/// A client whose handshake is done.
pub(crate) fn connect(address: &str, server: &str, config: &Arc<ClientConfig>) -> TlsClient {
    let mut stream = StreamOwned::new(unspoken(config, server), dial(address));
    stream.flush().unwrap();
    stream
}

/// The common name of the certificate that a server has shown, as it stands in its bytes.
pub(crate) fn shows(stream: &TlsClient, common: &str) -> bool {
    let shown = stream.conn.peer_certificates().unwrap();
    let (shown, common) = (shown[0].as_ref(), common.as_bytes());
    shown.windows(common.len()).any(|part| part == common)
}

/// Checks that the server says that it ends, and says nothing else.
pub(crate) fn expect_close(stream: &mut TlsClient) {
    let mut rest = Vec::new();
    // rustls takes an end without a word for an error.
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
}
