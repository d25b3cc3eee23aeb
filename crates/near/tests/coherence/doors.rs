//! Doors: TLS with certificates that the test makes, users, socket files; over redis-server and
//! memcached.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Origin, Redis, Remote, Tls};
use cellar_near::{Error, Near};
use tempfile::TempDir;

use crate::ports::free_port;
use crate::servers::{Kind, Server};
use crate::subject::{Cellar, PATIENCE, settles};

type Cache = Near<String, String>;

/// A certificate that both sides show and believe, in files for servers.
pub(crate) struct Papers {
    folder: TempDir,
    certificate: String,
    key: String,
}

impl Papers {
    pub(crate) fn new() -> Papers {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let papers = Papers {
            folder: tempfile::tempdir().unwrap(),
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        };
        papers.write("certificate.pem", &papers.certificate);
        papers.write("key.pem", &papers.key);
        papers
    }

    /// Writes a file that its owner alone can read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// What believes the server and shows nothing.
    pub(crate) fn believing(&self) -> Tls {
        Tls::new().authorities(self.certificate.as_str())
    }

    /// What shows the certificate too.
    pub(crate) fn showing(&self) -> Tls {
        let (certificate, key) = (self.certificate.as_str(), self.key.as_str());
        self.believing().identity(certificate, key)
    }

    /// A redis-server that also listens for TLS, at the port that is returned.
    async fn redis(&self, clients: &str) -> (Server, u16) {
        let port = free_port();
        let (certificate, key) = (self.path("certificate.pem"), self.path("key.pem"));
        let flags = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &certificate],
            ["--tls-auth-clients", clients],
        ];
        let server = Server::start_with(Kind::Redis, flags.as_flattened()).await;
        (server, port)
    }

    /// A memcached with TLS that asks clients for a certificate, or does not.
    async fn memcached(&self, asks: bool) -> Server {
        let (certificate, key) = (self.path("certificate.pem"), self.path("key.pem"));
        let mode = if asks { 2 } else { 0 };
        let options = format!(
            "ssl_chain_cert={certificate},ssl_key={key},ssl_ca_cert={certificate},\
             ssl_verify_mode={mode}"
        );
        // The folder is its owner's alone.
        let flags = ["-u", "root", "-Z", "-o", &options];
        Server::start_with(Kind::Memcached, &flags).await
    }
}

fn near(origin: impl Origin) -> Cache {
    Near::builder(Remote::new(origin, Plain).prefix("suite:"))
        .local_ttl(Duration::from_secs(60))
        .build()
}

/// The same, but it waits as long as a busy machine may take to answer.
fn patient(origin: Redis) -> Redis {
    origin.timeout(PATIENCE).connect_timeout(PATIENCE)
}

/// What is written is read, by another cache too.
async fn check(make: impl Fn() -> Cache) {
    let (key, value) = ("k".to_owned(), "v".repeat(100_000));
    make().set(&key, &value).await.unwrap();
    let found = make().get(&key).await.unwrap().unwrap();
    assert_eq!(*found, value);
}

async fn is_away(cache: Cache) {
    let error = cache.get("k").await.unwrap_err();
    assert!(matches!(error, Error::Connection(_)), "{error}");
}

async fn is_refused(cache: Cache, word: &str) {
    let error = cache.get("k").await.unwrap_err();
    assert!(error.to_string().contains(word), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_over_tls_and_a_stranger_is_not_believed() {
    let papers = Papers::new();
    let (server, port) = papers.redis("no").await;
    let client = server.client().await;
    client.set("k", "old").await;

    let open = || Redis::open(format!("rediss://localhost:{port}")).unwrap();
    let origin = open().tls(&papers.believing()).unwrap();
    let cache = near(origin.alive_bound(PATIENCE));
    settles(&Cellar::default(), &cache, "k", Some("old"))
        .await
        .unwrap();
    assert!(cache.peek("k").is_some());
    client.set("k", "new").await;
    settles(&Cellar::default(), &cache, "k", Some("new"))
        .await
        .unwrap();
    // Nobody whom the system believes has signed this.
    is_away(near(open().timeout(Duration::from_secs(5)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let papers = Papers::new();
    let (_server, port) = papers.redis("yes").await;
    let redis = |tls: Tls| {
        let origin = Redis::open(format!("rediss://127.0.0.1:{port}")).unwrap();
        near(patient(origin).tls(&tls).unwrap())
    };
    check(|| redis(papers.showing())).await;
    is_away(redis(papers.believing())).await;

    for asks in [false, true] {
        let server = papers.memcached(asks).await;
        let address = format!("tls:{}", server.address());
        let origin = || Memcached::open(&address).timeout(PATIENCE);
        let open = |tls: Tls| near(origin().tls(&tls).unwrap());
        check(|| open(papers.showing())).await;
        if asks {
            is_away(open(papers.believing())).await;
        } else {
            check(|| open(papers.believing())).await;
            is_away(near(Memcached::open(&address))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_a_password_comes_in_and_others_do_not() {
    let server = Server::start(Kind::Redis).await;
    let client = server.client().await;
    let user = "ACL SETUSER ada on >secret allkeys allchannels allcommands";
    client.run(&user.split(' ').collect::<Vec<_>>()).await;
    client.run(&["CONFIG", "SET", "requirepass", "other"]).await;
    let redis = |password: &str| {
        let origin = patient(Redis::open(format!("redis://{}", server.address())).unwrap());
        near(origin.user("ada", password))
    };
    check(|| redis("secret")).await;
    let error = redis("wrong secret").get("k").await.unwrap_err();
    assert!(
        matches!(error, Error::Refused(_) | Error::Connection(_)),
        "{error}"
    );

    let papers = Papers::new();
    std::fs::write(papers.path("users"), "ada:secret\n").unwrap();
    let flags = ["-u", "root", "-Y", &papers.path("users")];
    let server = Server::start_with(Kind::Memcached, &flags).await;
    let open = |password: &str| {
        let origin = Memcached::open(server.address()).timeout(PATIENCE);
        let origin = origin.user("ada", password);
        near(origin.unwrap())
    };
    check(|| open("secret")).await;
    is_refused(open("wrong"), "authentication failure").await;
    is_refused(near(Memcached::open(server.address())), "unauthenticated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_files_lead_to_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let socket = path.to_str().unwrap();
    let _server = Server::start_with(Kind::Redis, &["--unixsocket", socket]).await;
    check(|| near(Redis::open(format!("unix:{socket}")).unwrap())).await;

    let path = folder.path().join("memcached.sock");
    let socket = path.to_str().unwrap();
    let _server = Server::start_with(Kind::Memcached, &["-u", "root", "-s", socket]).await;
    check(|| near(Memcached::open(format!("unix:{socket}")))).await;
    assert!(Path::new(socket).exists());
    is_away(near(Memcached::open("unix:/nowhere/at.all"))).await;
}

#[test]
fn settings_that_fit_no_door_are_refused() {
    let papers = Papers::new();
    let tls = papers.believing();
    let error = Memcached::open("127.0.0.1:1").tls(&tls).unwrap_err();
    assert!(error.to_string().contains("write tls:host:port"), "{error}");
    let error = Redis::open("redis://127.0.0.1")
        .unwrap()
        .tls(&tls)
        .unwrap_err();
    assert!(error.to_string().contains("rediss://"), "{error}");
    for (authorities, word) in [("", "no authority"), ("-----BEGIN CERTIFICATE-----", "")] {
        let tls = Tls::new().authorities(authorities);
        let error = Memcached::open("tls:127.0.0.1:1").tls(&tls).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    for (name, password) in [("", "x"), ("two words", "x"), ("ada", "x\r\nflush_all")] {
        assert!(
            Memcached::open("h:1").user(name, password).is_err(),
            "{name:?}"
        );
    }
}
