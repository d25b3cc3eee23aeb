//! Users of Cellar's own file: what a near cache gets that is one of them, by password, by
//! certificate, over a socket file.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::redis::Tracking;
use cellar_near::origin::{Memcached, Origin, Redis, Remote};
use cellar_near::{Error, Near};

use crate::doors::Papers;
use crate::ports::free_port;
use crate::servers::{Client, Kind, Server, cellar};
use crate::subject::{Cellar, PATIENCE, fill, settles};

type Cache = Near<String, String>;

/// A server with users, and their papers: `shop`, who may change the suite's keys; `eyes`, who may
/// read them; `zero`, who may change those of database 0; `root`, who may do all; `mesh`, who has
/// the certificate and may change keys that begin with `mesh:`. Each password is name and `-pw`.
struct Home {
    papers: Papers,
    server: Server,
    /// The port of RESP over TLS.
    port: u16,
    /// Where memcached's protocol is spoken: plain, over TLS, at a socket file.
    memcached: [String; 3],
}

impl Home {
    async fn start(mesh: &str) -> Home {
        let papers = Papers::new();
        let rows = [
            ("shop", "write", "prefixes = [\"suite:\"]"),
            ("eyes", "read", "prefixes = [\"suite:\"]"),
            ("zero", "write", "databases = [0]"),
            ("root", "admin", ""),
        ];
        let users = rows.map(|(name, role, rest)| {
            let hash = hash(&format!("{name}-pw"));
            let of_all = format!("[[user]]\nname = \"{name}\"\nrole = \"{role}\"\n{rest}");
            format!("{of_all}\npasswords = [\"{hash}\"]\n")
        });
        let of_mesh = "[[user]]\nname = \"mesh\"\nrole = \"write\"\nprefixes = [\"mesh:\"]";
        let text = format!("{}{of_mesh}\n{mesh}\n", users.concat());
        papers.write("users.toml", &text);

        let (port, file) = (free_port(), papers.path("memcached.sock"));
        let plain = format!("127.0.0.1:{}", free_port());
        let secured = format!("tls:127.0.0.1:{}", free_port());
        let memcached = [plain, secured, format!("unix:{file}")];
        let resp = format!("tls:127.0.0.1:{port},unix:{}", papers.path("redis.sock"));
        let flags = [
            ["--users", &papers.path("users.toml")],
            ["--tls-cert", &papers.path("certificate.pem")],
            ["--tls-key", &papers.path("key.pem")],
            ["--tls-client-ca", &papers.path("certificate.pem")],
            ["--memcached", &memcached.join(",")],
            ["--resp", &resp],
        ];
        let server = Server::start_with(Kind::Cellar, flags.as_flattened()).await;
        Home {
            papers,
            server,
            port,
            memcached,
        }
    }

    /// Where RESP is spoken as the user with this name.
    fn redis(&self, name: &str) -> Redis {
        let origin = Redis::open(format!("redis://{}", self.server.address())).unwrap();
        origin
            .user(name, format!("{name}-pw"))
            .alive_bound(PATIENCE)
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
    }

    /// The same over TLS, with the certificate.
    fn rediss(&self) -> Redis {
        let origin = Redis::open(format!("rediss://127.0.0.1:{}", self.port)).unwrap();
        origin
            .tls(&self.papers.showing())
            .unwrap()
            .alive_bound(PATIENCE)
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
    }
}

/// A password's hash, as an operator makes it.
fn hash(password: &str) -> String {
    let mut command = Command::new(cellar());
    command.arg("hash-password");
    let mut hashing = command
        .env_remove("CELLAR_BIN")
        .env_remove("CELLAR_CHECKER_SECONDS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = hashing.stdin.as_mut().unwrap();
    input.write_all(password.as_bytes()).unwrap();
    let output = hashing.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn near(origin: impl Origin, prefix: &str) -> Cache {
    Near::builder(Remote::new(origin, Plain).prefix(prefix))
        .local_ttl(Duration::from_secs(60))
        .build()
}

/// What is written is read, by another cache too.
async fn serves(make: impl Fn() -> Cache) {
    let (key, value) = ("k".to_owned(), "v".repeat(100_000));
    make().set(&key, &value).await.unwrap();
    let found = make().get(&key).await.unwrap().unwrap();
    assert_eq!(*found, value);
}

/// Neither reads nor writes, and is told so by a word of the server's.
async fn is_refused(cache: &Cache, word: &str) {
    let (read, written) = (cache.get("k").await, cache.set("k", &"v".to_owned()).await);
    for error in [read.unwrap_err(), written.unwrap_err()] {
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.to_string().contains("-pw"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_some_keys_is_told_of_their_changes_and_refused_the_others() {
    let home = Home::start("uids = [65533]").await;
    let root = Client::known(&home.server, "root", "root-pw").await;
    let suite = vec![b"suite:".to_vec()];
    for tracking in [Tracking::Keys, Tracking::Broadcast(suite)] {
        for name in ["shop", "eyes"] {
            root.set("told", "old").await;
            let cache = near(home.redis(name).tracking(tracking.clone()), "suite:");
            fill(&Cellar::default(), &cache, "told", Some("old"))
                .await
                .unwrap();
            assert!(cache.peek("told").is_some(), "{name}: {tracking:?}");
            root.set("told", "new").await;
            settles(&Cellar::default(), &cache, "told", Some("new"))
                .await
                .unwrap();
        }
    }
    serves(|| near(home.redis("shop"), "suite:")).await;
    is_refused(&near(home.redis("shop"), "other:"), "NOPERM").await;
    // Nobody is told of the keys of others.
    let others = Tracking::Broadcast(vec![b"other:".to_vec()]);
    let cache = near(home.redis("shop").tracking(others), "other:");
    is_refused(&cache, "NOPERM").await;

    let plain = &home.memcached[0];
    let open = |name: &str, prefix: &str| {
        let origin = Memcached::open(plain).timeout(PATIENCE);
        let origin = origin.user(name, format!("{name}-pw"));
        near(origin.unwrap(), prefix)
    };
    serves(|| open("shop", "suite:")).await;
    is_refused(&open("shop", "other:"), "not permitted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_write_loads_for_all_and_gives_a_lease_back_without_a_value() {
    let home = Home::start("uids = [65533]").await;
    // Whoever waited for the lease's end or for its patience to end would be late.
    let [first, second] = ["shop", "shop"].map(|name| {
        let builder = Near::builder(Remote::new(home.redis(name), Plain).prefix("suite:"));
        let builder = builder.lease_timeout(PATIENCE * 20);
        builder.patience(PATIENCE * 20).build() as Cache
    });
    let failing = || async { Err::<Option<String>, _>("on purpose") };
    let failed = first.get_or_load("k", failing).await.unwrap_err();
    assert!(matches!(failed, Error::Loader(_)), "{failed}");
    let making = || async { Ok::<_, Error>(Some("made".to_owned())) };
    let loading = tokio::time::timeout(PATIENCE, second.get_or_load("k", making));
    let made = loading.await.expect("it need not wait").unwrap().unwrap();
    assert_eq!(**made, *"made");
    let found = first.get("k").await.unwrap().unwrap();
    assert_eq!(**found, *"made");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_writes_nothing_and_who_is_wrong_does_neither() {
    let home = Home::start("uids = [65533]").await;
    let root = Client::known(&home.server, "root", "root-pw").await;
    root.set("k", "v").await;
    let plain = &home.memcached[0];
    let over_text = Memcached::open(plain).timeout(PATIENCE);
    let over_text = over_text.user("eyes", "eyes-pw").unwrap();
    for cache in [
        near(home.redis("eyes"), "suite:"),
        near(over_text, "suite:"),
    ] {
        assert_eq!(**cache.get("k").await.unwrap().unwrap(), *"v");
        let written = cache.set("k", &"w".to_owned()).await.unwrap_err();
        assert!(matches!(written, Error::Refused(_)), "{written:?}");
    }
    // One whose databases are numbered is told of no changes, as they would be of all databases.
    is_refused(&near(home.redis("zero"), "suite:"), "NOPERM").await;
    serves(|| near(home.redis("zero").tracking(Tracking::Off), "suite:")).await;
    let wrong = home.redis("shop").user("shop", "eyes-pw");
    let error = near(wrong, "suite:").get("k").await.unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_a_user_and_a_password_another_one() {
    let home = Home::start("certificates = [\"dns:localhost\"]").await;
    serves(|| near(home.rediss(), "mesh:")).await;
    is_refused(&near(home.rediss(), "suite:"), "NOPERM").await;
    let named = || home.rediss().user("shop", "shop-pw");
    serves(|| near(named(), "suite:")).await;
    is_refused(&near(named(), "mesh:"), "NOPERM").await;

    let tls = home.papers.showing();
    let origin = || Memcached::open(&home.memcached[1]).timeout(PATIENCE);
    let open = || origin().tls(&tls).unwrap();
    serves(|| near(open(), "mesh:")).await;
    is_refused(&near(open(), "suite:"), "not permitted").await;
    let named = || open().user("shop", "shop-pw").unwrap();
    serves(|| near(named(), "suite:")).await;
    is_refused(&near(named(), "mesh:"), "not permitted").await;

    let root = Client::known(&home.server, "root", "root-pw").await;
    let cache = near(home.rediss(), "mesh:");
    root.run(&["SET", "mesh:told", "old"]).await;
    fill(&Cellar::default(), &cache, "told", Some("old"))
        .await
        .unwrap();
    root.run(&["SET", "mesh:told", "new"]).await;
    settles(&Cellar::default(), &cache, "told", Some("new"))
        .await
        .unwrap();
    // What said the password did not become a value.
    let left = root
        .run(&["EXISTS", "auth", "suite:auth", "mesh:auth"])
        .await;
    assert_eq!(left, redis::Value::Int(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_by_a_socket_file_is_a_user_by_its_uid_or_its_password() {
    let own = rustix::process::geteuid().as_raw();
    let home = Home::start(&format!("uids = [{own}]")).await;
    let file = home.papers.path("redis.sock");
    let open = || Redis::open(format!("unix:{file}")).unwrap();
    serves(|| near(open(), "mesh:")).await;
    is_refused(&near(open(), "suite:"), "NOPERM").await;
    serves(|| near(open().user("shop", "shop-pw"), "suite:")).await;

    let open = || Memcached::open(&home.memcached[2]).timeout(PATIENCE);
    serves(|| near(open(), "mesh:")).await;
    is_refused(&near(open(), "suite:"), "not permitted").await;
    serves(|| near(open().user("shop", "shop-pw").unwrap(), "suite:")).await;
}
