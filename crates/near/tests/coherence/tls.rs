//! TLS: the near cache over rustls, with a certificate that the test makes.

use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near};

use crate::servers::{Kind, Server, free_port};
use crate::subject::{Cellar, PATIENCE, settles};

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_over_tls_and_a_stranger_is_not_believed() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let certificate = made.cert.pem();
    let certificate_path = put("certificate.pem", &certificate);
    let key_path = put("key.pem", &made.signing_key.serialize_pem());
    let port = free_port().to_string();
    let server = Server::start_with(
        Kind::Redis,
        &[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &certificate_path,
            "--tls-key-file",
            &key_path,
            "--tls-auth-clients",
            "no",
            "--tls-ca-cert-file",
            &certificate_path,
        ],
    )
    .await;
    let client = server.client().await;
    client.set("k", "old").await;

    let address = format!("rediss://localhost:{port}");
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(certificate.into_bytes()),
    };
    let tls = redis::Client::build_with_tls(address.as_str(), certificates).unwrap();
    let origin = Redis::with_client(tls).alive_bound(PATIENCE);
    let near: Near<String, String> =
        Near::builder(Remote::new(origin, Plain).prefix("suite:")).build();
    settles(&Cellar::default(), &near, "k", Some("old"))
        .await
        .unwrap();
    assert!(near.peek("k").is_some());
    client.set("k", "new").await;
    settles(&Cellar::default(), &near, "k", Some("new"))
        .await
        .unwrap();

    let stranger = Redis::open(address)
        .unwrap()
        .timeout(Duration::from_secs(5));
    let near: Near<String, String> = Near::builder(Remote::new(stranger, Plain)).build();
    assert!(matches!(
        near.get("k").await,
        Err(Error::Connection(_) | Error::Refused(_))
    ));
}
