//! A host: a server with three doors, which are TCP, TLS and a socket file.

use std::io::Write;

use tempfile::{NamedTempFile, TempDir};

use cellar_load::{Address, Error, Ingredients, Recipe, ReservedPort, Server, TlsArgs};

/// What servers show to clients, made for this run: an ECDSA key on P-256 and its certificate.
pub(super) struct Identity {
    certificate: NamedTempFile,
    key: NamedTempFile,
    /// Where the socket files lie.
    folder: TempDir,
}

/// A running server.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) server: Server,
    /// Its doors by name: TCP, TLS, the socket file.
    pub(super) doors: [(&'static str, Address); 3],
    _tls_port: ReservedPort,
}

/// Cellar with all doors open.
pub(super) fn cellar(recipe: &Recipe) -> Recipe {
    let address = "127.0.0.1:{port}";
    let doors = format!("{address},tls:127.0.0.1:{{tls_port}},unix:{{socket}}");
    let keys = ["--tls-cert", "{certificate}", "--tls-key", "{key}"];
    recipe.replaced(&[(address, &doors)]).with("", &keys)
}

/// redis-server with all doors open.
pub(super) fn redis(redis: &Recipe) -> Recipe {
    let options = "--tls-port {tls_port} --unixsocket {socket} --tls-auth-clients no \
                   --tls-cert-file {certificate} --tls-key-file {key} \
                   --tls-ca-cert-file {certificate}";
    let options: Vec<&str> = options.split(' ').collect();
    redis.with("", &options)
}

impl Identity {
    pub(super) fn new() -> Result<Identity, Error> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .map_err(|error| Error::Wrong(format!("making a certificate: {error}")))?;
        let unwritable = |error| Error::system("writing a certificate", error);
        let file = |text: String| {
            // Nobody else may read it.
            let mut file = NamedTempFile::new()?;
            file.write_all(text.as_bytes())?;
            Ok(file)
        };
        Ok(Identity {
            certificate: file(made.cert.pem()).map_err(unwritable)?,
            key: file(made.signing_key.serialize_pem()).map_err(unwritable)?,
            folder: TempDir::new().map_err(unwritable)?,
        })
    }

    /// Starts a server with its doors open.
    pub(super) fn start(&self, recipe: &Recipe, with: Ingredients) -> Result<Host, Error> {
        let tls_port = ReservedPort::take()
            .map_err(|error| Error::system("looking for a free port", error))?;
        let port = tls_port.address().port();
        let socket = self.folder.path().join(port.to_string());
        let server = recipe.replaced(&[
            ("{tls_port}", &port.to_string()),
            ("{socket}", &socket.display().to_string()),
            (
                "{certificate}",
                &self.certificate.path().display().to_string(),
            ),
            ("{key}", &self.key.path().display().to_string()),
        ]);
        let server = server.start(with)?;
        let tls = format!("tls:127.0.0.1:{port}").parse::<Address>();
        let believed = TlsArgs {
            tls_ca: Some(self.certificate.path().to_owned()),
            ..TlsArgs::default()
        };
        let tls = tls.map_err(Error::Usage)?.with_tls(&believed)?;
        Ok(Host {
            name: recipe.name.clone(),
            doors: [
                ("TCP", server.address().clone()),
                ("TLS", tls),
                ("socket file", Address::Unix(socket)),
            ],
            server,
            _tls_port: tls_port,
        })
    }
}
