//! TLS: what a client over it gets, what the server reads its certificates from, and what peers
//! that misbehave cost the others.

use crate::support::vitals::occupied_bytes;
use crate::support::wait::{PATIENCE, comes_true, wait_until};
use crate::support::{daemon, tls, users};

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_config::limits::HANDSHAKES_PER_SOURCE_MAX;
use rcgen::SanType;
use rustix::net::{AddressFamily, SocketType, bind, socket};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
use rustls::crypto::ring::default_provider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, HandshakeKind, ProtocolVersion,
    RootCertStore, SupportedCipherSuite, SupportedProtocolVersion,
};

use daemon::{Daemon, check, expect, hit, pattern, set};
use tls::{Authority, TlsClient, connect, dial, expect_close, shows, unspoken};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A server for `localhost` with this authority's certificate, TLS on memcached's port and Redis's,
/// plain HTTP.
fn server(authority: &Authority, more: &[&str]) -> Daemon {
    server_by(Daemon::start, authority, more)
}

/// The same, started in this way.
fn server_by(start: fn(&[&str]) -> Daemon, authority: &Authority, more: &[&str]) -> Daemon {
    authority.issue("server", "localhost", &["localhost"]);
    let (certificate, key) = (authority.path("server.pem"), authority.path("server.key"));
    let flags = [
        "--memcached",
        "tls:127.0.0.1:0",
        "--resp",
        "tls:127.0.0.1:0",
    ];
    let files = ["--tls-cert", &certificate, "--tls-key", &key];
    start(&[&flags[..], &files, more].concat())
}

fn both(authority: &Authority) -> Arc<ClientConfig> {
    Arc::new(authority.client(&VERSIONS))
}

/// The value of a figure in /metrics, which is asked for over plain HTTP.
fn figure(daemon: &Daemon, name: &str) -> String {
    let mut stream = daemon.connect_http();
    let request = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// Asks again and again until a figure is as wanted.
fn wait_for(daemon: &Daemon, name: &str, wanted: &str) {
    let what = || format!("{name} is {wanted}, not {}", figure(daemon, name));
    wait_until(what, || figure(daemon, name) == wanted);
}

/// Lets the time pass after which the server looks at its files.
fn have_files_looked_at(daemon: &Daemon) {
    daemon.advance(Duration::from_secs(1));
}

#[test]
fn every_protocol_is_served_over_both_versions() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--http", "tls:127.0.0.1:0"]);
    for version in VERSIONS {
        let config = Arc::new(authority.client(&[version]));
        let mut text = connect(&daemon.address, "localhost", &config);
        check(&mut text, &set("k", b"value"), b"STORED\r\n");
        let mut redis = connect(&daemon.resp, "localhost", &config);
        check(&mut redis, b"GET k\r\n", b"$5\r\nvalue\r\n");
        let mut config = authority.client(&[version]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut web = connect(&daemon.http, "localhost", &Arc::new(config));
        assert_eq!(web.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        let request = b"GET /v1/cache/k HTTP/1.0\r\nHost: localhost\r\n\r\n";
        web.write_all(request).unwrap();
        let mut reply = Vec::new();
        web.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200") && reply.ends_with(b"value"));
    }
}

#[test]
fn a_session_goes_on_by_its_ticket() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    for version in VERSIONS {
        let config = Arc::new(authority.client(&[version]));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut stream = connect(&daemon.address, "localhost", &config);
            check(&mut stream, b"mn\r\n", b"MN\r\n");
            assert_eq!(stream.conn.handshake_kind(), Some(kind), "{version:?}");
        }
    }
    assert_eq!(figure(&daemon, "cellar_tls_handshakes_total"), "4");
    assert_eq!(figure(&daemon, "cellar_tls_handshakes_resumed_total"), "2");
}

#[test]
fn a_certificate_is_the_login_of_the_user_that_it_names() {
    let authority = Authority::new();
    let file = users::UsersFile::new(
        "[[user]]\nname = \"ann\"\ncertificates = [\"ann.example\"]\nrole = \"read\"\n",
    );
    let path = file.path().display().to_string();
    let (authorities, http) = (authority.path("ca.pem"), "tls:127.0.0.1:0");
    let files = ["--tls-client-ca", &authorities, "--users", &path];
    let daemon = server(&authority, &[&files[..], &["--http", http]].concat());
    authority.issue("ann", "ann.example", &[]);
    authority.issue("bob", "bob.example", &[]);
    let client = |name: &str| Arc::new(authority.client_called(name, &VERSIONS));
    let (ann, bob) = (client("ann"), client("bob"));
    let open = |address: &str, config| connect(address, "localhost", config);
    let who = b"ACL WHOAMI\r\nSET a 1\r\n";
    let answer = "$3\r\nann\r\n-NOPERM User ann has no permissions to run the 'set' command\r\n";
    check(&mut open(&daemon.resp, &ann), who, answer.as_bytes());
    check(
        &mut open(&daemon.resp, &bob),
        b"PING\r\n",
        b"-NOAUTH Authentication required.\r\n",
    );
    let refused = b"END\r\nCLIENT_ERROR not permitted\r\n";
    check(
        &mut open(&daemon.address, &ann),
        b"get a\r\ndelete a\r\n",
        refused,
    );
    let unknown = b"CLIENT_ERROR unauthenticated\r\n";
    check(&mut open(&daemon.address, &bob), b"get a\r\n", unknown);
    let get = b"GET /v1/cache/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let address = daemon.http.trim_start_matches("tls:");
    check(&mut open(address, &ann), get, b"HTTP/1.1 404 ");
    check(&mut open(address, &bob), get, b"HTTP/1.1 401 ");
}

#[test]
fn a_certificate_without_a_common_name_is_a_login_by_its_other_names() {
    let authority = Authority::new();
    let rows = [
        ("host", "dns:shop.example"),
        ("mesh", "uri:spiffe://mesh/shop"),
        ("mail", "email:shop@mail.example"),
        ("any", "any.example"),
    ];
    let users = rows.map(|(name, row)| {
        let rest = format!("role = \"write\"\nprefixes = [\"{name}:\"]");
        format!("[[user]]\nname = \"{name}\"\ncertificates = [\"{row}\"]\n{rest}\n")
    });
    let file = users::UsersFile::new(&users.concat());
    let path = file.path().display().to_string();
    let (authorities, http) = (authority.path("ca.pem"), "tls:127.0.0.1:0");
    let files = ["--tls-client-ca", &authorities, "--users", &path];
    let daemon = server(&authority, &[&files[..], &["--http", http]].concat());
    let text = |text: &str| text.try_into().unwrap();
    for (name, san) in [
        ("host", SanType::DnsName(text("shop.example"))),
        ("mesh", SanType::URI(text("spiffe://mesh/shop"))),
        ("mail", SanType::Rfc822Name(text("shop@mail.example"))),
        ("any", SanType::DnsName(text("any.example"))),
        ("any", SanType::URI(text("any.example"))),
        // The same words as another kind of name are another's.
        ("", SanType::URI(text("shop.example"))),
        ("", SanType::DnsName(text("spiffe.mesh.shop"))),
    ] {
        authority.issue_unnamed("client", san.clone());
        let config = Arc::new(authority.client_called("client", &VERSIONS));
        let open = |address: &str| {
            let address = address.trim_start_matches("tls:");
            connect(address, "localhost", &config)
        };
        let get = |key: &str| format!("GET /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if name.is_empty() {
            let unknown = b"-NOAUTH Authentication required.\r\n";
            check(&mut open(&daemon.resp), b"ACL WHOAMI\r\n", unknown);
            let refused = b"HTTP/1.1 401 ";
            check(&mut open(&daemon.http), get("k").as_bytes(), refused);
            continue;
        }
        let whoami = format!("${}\r\n{name}\r\n", name.len());
        check(
            &mut open(&daemon.resp),
            b"ACL WHOAMI\r\n",
            whoami.as_bytes(),
        );
        let (own, other) = (get(&format!("{name}:k")), get("k"));
        check(&mut open(&daemon.http), own.as_bytes(), b"HTTP/1.1 404 ");
        check(&mut open(&daemon.http), other.as_bytes(), b"HTTP/1.1 403 ");
        let own = format!("get {name}:k\r\n");
        check(&mut open(&daemon.address), own.as_bytes(), b"END\r\n");
    }
}

#[test]
fn a_client_shows_a_certificate_where_one_is_asked_for() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let daemon = server(&authority, &["--tls-client-ca", &authority.path("ca.pem")]);
    authority.issue("alice", "alice", &[]);
    for version in VERSIONS {
        let config = Arc::new(authority.client_called("alice", &[version]));
        for _ in 0..2 {
            let mut redis = connect(&daemon.resp, "localhost", &config);
            redis.write_all(b"CLIENT INFO\r\n").unwrap();
            let mut line = [0; 512];
            let bytes = redis.read(&mut line).unwrap();
            let line = String::from_utf8_lossy(&line[..bytes]);
            assert!(line.contains(" identity=alice\n"), "{line}");
        }
        let none = both(&authority);
        refused(&daemon, &none);
    }
    let config = Arc::new(authority.client_called("alice", &VERSIONS));
    let mut redis = connect(&daemon.resp, "localhost", &config);
    redis.write_all(b"INFO tls\r\n").unwrap();
    let mut text = [0; 512];
    let bytes = redis.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..bytes]);
    for certificate in ["tls_server_cert", "tls_ca_cert"] {
        assert!(
            text.contains(&format!("{certificate}_expires_in_seconds:")),
            "{text}"
        );
    }
    authority.issue_for("old", "old", &[], (2020, 2021));
    refused(
        &daemon,
        &Arc::new(authority.client_called("old", &VERSIONS)),
    );
    stranger.issue("mallory", "alice", &[]);
    for end in ["pem", "key"] {
        let text = std::fs::read_to_string(stranger.path(&format!("mallory.{end}"))).unwrap();
        authority.write(&format!("mallory.{end}"), &text);
    }
    refused(
        &daemon,
        &Arc::new(authority.client_called("mallory", &VERSIONS)),
    );
}

/// Checks that a client does not come in.
fn refused(daemon: &Daemon, config: &Arc<ClientConfig>) {
    let mut stream = rustls::StreamOwned::new(unspoken(config, "localhost"), dial(&daemon.address));
    let _ = stream.write_all(b"mn\r\n");
    let answer = stream.read(&mut [0; 64]);
    let error = answer.expect_err("no request is answered").to_string();
    assert!(error.contains("alert"), "{error}");
}

#[test]
fn a_client_is_shown_the_certificate_that_it_asks_for() {
    let authority = Authority::new();
    authority.issue("server", "first-one", &["localhost"]);
    authority.issue("second", "second-one", &["cache.example", "*.in.example"]);
    let path = |file: &str| authority.path(file);
    let certificates = format!("{},{}", path("server.pem"), path("second.pem"));
    let keys = format!("{},{}", path("server.key"), path("second.key"));
    let flags = [
        "--memcached",
        "tls:127.0.0.1:0",
        "--tls-cert",
        &certificates,
    ];
    let daemon = Daemon::start(&[&flags[..], &["--tls-key", &keys]].concat());
    let config = both(&authority);
    for (server, common) in [
        ("localhost", "first-one"),
        ("cache.example", "second-one"),
        ("a.in.example", "second-one"),
    ] {
        let mut stream = connect(&daemon.address, server, &config);
        check(&mut stream, b"mn\r\n", b"MN\r\n");
        assert!(shows(&stream, common), "{server}");
    }
}

#[test]
fn who_has_no_cipher_in_common_with_it_is_told_so() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    // The server's only key is for ECDSA.
    let suites = vec![TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let provider = CryptoProvider {
        cipher_suites: suites,
        ..default_provider()
    };
    let config = ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_protocol_versions(&[&TLS12]).unwrap();
    let config = config.with_root_certificates(RootCertStore::empty());
    let config = Arc::new(config.with_no_client_auth());
    let mut client = unspoken(&config, "localhost");
    let answer = client.complete_io(&mut dial(&daemon.address));
    let error = answer.expect_err("it is refused").to_string();
    assert!(error.contains("HandshakeFailure"), "{error}");
}

#[test]
fn certificates_are_read_anew_when_they_change_and_when_it_is_told_to() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let fresh = || connect(&daemon.address, "localhost", &both(&authority));
    let mut old = fresh();
    assert_eq!(
        figure(
            &daemon,
            "cellar_tls_certificate_expiry_timestamp_seconds{certificate="
        ),
        "3786912000"
    );
    authority.issue_for("server", "second-one", &["localhost"], (2020, 2080));
    have_files_looked_at(&daemon);
    wait_for(
        &daemon,
        "cellar_tls_certificate_expiry_timestamp_seconds{",
        "3471292800",
    );
    assert!(shows(&fresh(), "second-one") && !shows(&old, "second-one"));
    check(&mut old, b"mn\r\n", b"MN\r\n");

    let reloads = figure(&daemon, "cellar_tls_reloads_total");
    let reloads: u32 = reloads.parse().unwrap();
    daemon.hang_up();
    wait_for(
        &daemon,
        "cellar_tls_reloads_total",
        &(reloads + 1).to_string(),
    );

    // What cannot be used leaves what there is, and is told once.
    let failures = figure(&daemon, "cellar_tls_reloads_failed_total");
    let failures: u32 = failures.parse().unwrap();
    authority.write("server.pem", "no certificate");
    let failed = "cellar_tls_reloads_failed_total";
    have_files_looked_at(&daemon);
    wait_for(&daemon, failed, &(failures + 1).to_string());
    daemon.hang_up();
    wait_for(&daemon, failed, &(failures + 2).to_string());
    assert!(shows(&fresh(), "second-one"));
    authority.issue("server", "third-one", &["localhost"]);
    have_files_looked_at(&daemon);
    wait_for(
        &daemon,
        "cellar_tls_certificate_expiry_timestamp_seconds{",
        "3786912000",
    );
    check(&mut old, b"mn\r\n", b"MN\r\n");
}

#[test]
fn a_damaged_issuer_leaves_the_certificates_in_force() {
    let authority = Authority::new();
    authority.issue_below("server", "first-one");
    let [certificate, key] = ["server.pem", "server.key"].map(|file| authority.path(file));
    let tls = ["--memcached", "tls:127.0.0.1:0", "--tls-cert", &certificate];
    let daemon = Daemon::start(&[&tls[..], &["--tls-key", &key]].concat());
    // Such a client verifies the chain.
    let fresh = || connect(&daemon.address, "localhost", &both(&authority));
    assert!(shows(&fresh(), "first-one"));
    let failed = "cellar_tls_reloads_failed_total";
    let mut failures: u32 = figure(&daemon, failed).parse().unwrap();
    let mut check_refused = |text: &str| {
        authority.write("server.pem", text);
        have_files_looked_at(&daemon);
        failures += 1;
        wait_for(&daemon, failed, &failures.to_string());
        assert!(shows(&fresh(), "first-one"));
    };
    let old = std::fs::read_to_string(&certificate).unwrap();
    std::fs::copy(&key, authority.path("first.key")).unwrap();
    let [own, issuer] = authority.issue_below("second", "second-one");
    std::fs::copy(authority.path("second.key"), &key).unwrap();
    let changed = |text: &str, line: usize| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let letter = if &lines[line][20..21] == "A" {
            "B"
        } else {
            "A"
        };
        lines[line].replace_range(20..21, letter);
        lines.join("\n") + "\n"
    };
    let line_of_issuer = own.lines().count();
    let whole = format!("{own}{issuer}");
    // A letter of the issuer's key.
    check_refused(&changed(&whole, line_of_issuer + 5));
    // Without its last lines, with and without the line that ends it.
    let lines: Vec<&str> = whole.lines().collect();
    let cut = lines[..lines.len() - 3].join("\n");
    check_refused(&format!("{cut}\n"));
    check_refused(&format!("{cut}\n-----END CERTIFICATE-----\n"));
    // Another's issuer.
    let [_, other] = authority.issue_below("third", "third-one");
    check_refused(&format!("{own}{other}"));
    // A letter of the signature of the one in force, which only its own issuer could verify.
    std::fs::copy(authority.path("first.key"), &key).unwrap();
    check_refused(&changed(&old, old.lines().count() - 3));
    std::fs::copy(authority.path("second.key"), &key).unwrap();
    authority.write("server.pem", &whole);
    have_files_looked_at(&daemon);
    wait_until("the whole one is in force", || {
        shows(&fresh(), "second-one")
    });
}

#[test]
fn a_key_that_was_refused_for_its_mode_is_read_when_that_is_right() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    authority.issue_for("second", "second-one", &["localhost"], (2020, 2080));
    let set_mode = |mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(authority.path("server.key"), mode).unwrap();
    };
    let text = |file: &str| std::fs::read_to_string(authority.path(file)).unwrap();
    let (key, certificate) = (text("second.key"), text("second.pem"));
    // The mode first, or the new key might be read while it is right.
    set_mode(0o644);
    have_files_looked_at(&daemon);
    wait_for(&daemon, "cellar_tls_reloads_failed_total", "1");
    std::fs::write(authority.path("server.key"), key).unwrap();
    authority.write("server.pem", &certificate);
    have_files_looked_at(&daemon);
    wait_for(&daemon, "cellar_tls_reloads_failed_total", "2");
    let fresh = || connect(&daemon.address, "localhost", &both(&authority));
    assert!(!shows(&fresh(), "second-one"));
    set_mode(0o600);
    have_files_looked_at(&daemon);
    let expiry = "cellar_tls_certificate_expiry_timestamp_seconds{";
    wait_for(&daemon, expiry, "3471292800");
    assert!(shows(&fresh(), "second-one"));
}

/// Checks that a server does not start with these two, for what is wrong with one of them.
fn check_files(authority: &Authority, pair: [&str; 2], flag: &str, reason: &str) {
    let [certificate, key] = pair.map(|file| authority.path(file));
    let line = refusal(&["--tls-cert", &certificate, "--tls-key", &key]);
    let wrong = if flag == "tls-cert" { certificate } else { key };
    let begin = format!("cellar: --{flag} {wrong}: ");
    assert!(line.starts_with(&begin) && line.contains(reason), "{line}");
}

#[test]
fn certificates_that_cannot_be_used_are_told() {
    let authority = Authority::new();
    authority.issue("good", "good", &["localhost"]);
    authority.issue_for("old", "old", &["localhost"], (2020, 2021));
    authority.issue_for("early", "early", &["localhost"], (2080, 2090));
    authority.write("empty", "");
    let none = "the file contains no certificate in PEM";
    let over = "valid until Fri, 01 Jan 2021 00:00:00 GMT";
    for (pair, reason) in [
        (["none", "good.key"], "No such file"),
        (["empty", "good.key"], none),
        (["good.key", "good.key"], none),
        (["old.pem", "old.key"], over),
        (["early.pem", "early.key"], "not valid before"),
    ] {
        check_files(&authority, pair, "tls-cert", reason);
    }
    let (certificate, key) = (authority.path("good.pem"), authority.path("good.key"));
    let line = refusal(&[]);
    assert!(line.contains("set --tls-cert and --tls-key"), "{line}");
    let authorities = authority.path("empty");
    let files = ["--tls-cert", &certificate, "--tls-key", &key];
    let line = refusal(&[&files[..], &["--tls-client-ca", &authorities]].concat());
    let begin = format!("cellar: --tls-client-ca {authorities}: ");
    assert!(line.starts_with(&begin), "{line}");
}

/// A key of an elliptic curve as keytool writes it.
const KEY_OF_JAVA: &str = "\
-----BEGIN PRIVATE KEY-----
MEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEBBCBuFSHfB0qWSVR88V8I
g8apkrx4jqhypIpN/AJ5KOBp+A==
-----END PRIVATE KEY-----
";

#[test]
fn keys_that_cannot_be_used_are_told() {
    let authority = Authority::new();
    authority.issue("good", "good", &["localhost"]);
    authority.issue("other", "other", &["localhost"]);
    let text = std::fs::read_to_string(authority.path("good.key")).unwrap();
    authority.write("open.key", &text);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(authority.path("open.key"), open).unwrap();
    authority.write("java.key", KEY_OF_JAVA);
    for (key, reason) in [
        (
            "java.key",
            "`openssl ec -in KEY -out NEW` writes one of Java's",
        ),
        ("good.pem", "the file contains no private key in PEM"),
        ("other.key", "it does not match the certificate "),
        ("open.key", "every user of this machine can read it"),
    ] {
        check_files(&authority, ["good.pem", key], "tls-key", reason);
    }
    let line = refusal(&["--tls-cert", &authority.path("good.pem")]);
    let reason = "each certificate needs its key: 1 certificates, 0 keys";
    assert!(line.contains(reason), "{line}");
}

/// The one line of a server that does not start.
fn refusal(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args([
            "--memcached",
            "tls:127.0.0.1:0",
            "--resp",
            "off",
            "--http",
            "off",
        ])
        .args(flags)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn who_comes_to_the_wrong_port_is_told() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--http", "tls:127.0.0.1:0"]);
    let plain = Daemon::start(&[]);
    let http = |what: &str| {
        let body = format!("{{\"error\":{{\"code\":\"wrong_port\",\"message\":\"{what}\"}}}}\n");
        format!("Content-Length: {}", body.len())
    };
    for (here, request, expected) in [
        (
            &daemon.address,
            "get k\r\n",
            "ERROR this port speaks TLS only\r\n".to_owned(),
        ),
        (
            &daemon.resp,
            "PING\r\n",
            "-ERR this port speaks TLS only\r\n".to_owned(),
        ),
        (
            &daemon.http,
            "GET / HTTP/1.1\r\n\r\n",
            http("this port speaks TLS only"),
        ),
        (
            &plain.address,
            "",
            "ERROR this port does not speak TLS\r\n".to_owned(),
        ),
        (
            &plain.resp,
            "",
            "-ERR this port does not speak TLS\r\n".to_owned(),
        ),
        (&plain.http, "", http("this port does not speak TLS")),
    ] {
        let mut stream = dial(here);
        if request.is_empty() {
            let mut hello = Vec::new();
            let mut client = unspoken(&both(&authority), "localhost");
            client.write_tls(&mut hello).unwrap();
            stream.write_all(&hello).unwrap();
        } else {
            stream.write_all(request.as_bytes()).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(&expected), "{here} {request}: {answer}");
    }
}

/// A connection whose bytes go one at a time.
struct Trickle(TcpStream);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Trickle {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(&bytes[..1])?;
        // paced: the pieces come one at a time.
        std::thread::sleep(Duration::from_micros(300));
        Ok(1)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn records_may_be_cut_at_every_byte() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    for version in VERSIONS {
        let config = Arc::new(authority.client(&[version]));
        let client = unspoken(&config, "localhost");
        let mut stream = rustls::StreamOwned::new(client, Trickle(dial(&daemon.address)));
        let value = pattern(3, 1_000);
        check(&mut stream, &set("cut", &value), b"STORED\r\n");
        check(&mut stream, b"get cut\r\n", &hit("cut", &value));
    }
}

/// A client of TLS 1.3 that seals whatever records it likes.
struct Sealer {
    socket: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    number: u64,
}

impl Sealer {
    /// One that has shaken hands in the usual way, and was answered once.
    fn connect(authority: &Authority, address: &str) -> Sealer {
        let mut config = authority.client(&[&TLS13]);
        config.enable_secret_extraction = true;
        let mut stream = connect(address, "localhost", &Arc::new(config));
        check(&mut stream, b"mn\r\n", b"MN\r\n");
        let (client, socket) = stream.into_parts();
        let Some(SupportedCipherSuite::Tls13(suite)) = client.negotiated_cipher_suite() else {
            panic!("no suite of TLS 1.3");
        };
        let (number, secrets) = client.dangerous_extract_secrets().unwrap().tx;
        let (key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("a suite that the test does not know"),
        };
        Sealer {
            socket,
            encrypter: suite.aead_alg.encrypter(key, iv),
            number,
        }
    }

    /// Sends one record.
    fn send(&mut self, typ: ContentType, payload: &[u8]) {
        let message = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        let sealed = self.encrypter.encrypt(message, self.number).unwrap();
        self.number += 1;
        self.socket.write_all(&sealed.encode()).unwrap();
    }

    /// Sends the beginning of a message of a handshake that announces 65,000 bytes.
    fn begin_message(&mut self, bytes: usize) {
        let mut message = vec![4, 0, 0xfd, 0xe8];
        message.resize(bytes, 0);
        self.send(ContentType::Handshake, &message);
    }

    /// Whether the server has ended the connection by now.
    fn is_ended(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let end = self.socket.read_to_end(&mut Vec::new());
        self.socket.set_nonblocking(false).unwrap();
        end.map_or_else(
            |error| error.kind() == std::io::ErrorKind::ConnectionReset,
            |_| true,
        )
    }
}

#[test]
fn a_message_of_a_handshake_that_is_not_finished_is_bounded() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--threads", "1"]);
    let mut other = connect(&daemon.address, "localhost", &both(&authority));
    let mut client = Sealer::connect(&authority, &daemon.address);
    client.begin_message(16_000);
    // The only loop has looked at it when it answers this.
    check(&mut other, b"mn\r\n", b"MN\r\n");
    assert!(!client.is_ended());
    client.send(ContentType::Handshake, &[0; 4_000]);
    wait_until("the client is hung up on", || client.is_ended());
    // Another one is served, and may fill its records.
    let value = pattern(5, 500_000);
    check(&mut other, &set("k", &value), b"STORED\r\n");
    check(&mut other, b"get k\r\n", &hit("k", &value));
}

#[test]
fn the_rest_of_a_record_has_limited_time() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--write-timeout", "1s"]);
    let mut quiet = connect(
        &daemon.address,
        "localhost",
        &Arc::new(authority.client(&[&TLS13])),
    );
    check(&mut quiet, b"mn\r\n", b"MN\r\n");
    for _ in 0..20 {
        quiet.conn.refresh_traffic_keys().unwrap();
        quiet.flush().unwrap();
    }
    let mut alone = Sealer::connect(&authority, &daemon.address);
    alone.begin_message(12_000);
    // Whether a whole request comes with it or not.
    let mut behind = Sealer::connect(&authority, &daemon.address);
    behind.send(ContentType::ApplicationData, b"mn\r\n");
    behind.begin_message(16_000);
    let (mut is_over, mut is_other_over) = (false, false);
    daemon.advance_until("both have ended", Duration::from_secs(1), || {
        is_over |= alone.is_ended();
        is_other_over |= behind.is_ended();
        is_over && is_other_over
    });
    // Changes of keys are whole, however long nothing comes after them.
    check(&mut quiet, b"mn\r\n", b"MN\r\n");
}

#[test]
fn keys_may_change_between_requests() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut stream = connect(&daemon.address, "localhost", &config);
    let value = pattern(9, 40_000);
    for number in 0..100 {
        for _ in 0..number % 8 {
            stream.conn.refresh_traffic_keys().unwrap();
        }
        check(&mut stream, &set("k", &value), b"STORED\r\n");
        check(&mut stream, b"get k\r\n", &hit("k", &value));
    }
}

#[test]
fn large_values_go_both_ways_and_a_slow_reader_gets_all() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    for version in VERSIONS {
        let config = Arc::new(authority.client(&[version]));
        let mut stream = connect(&daemon.address, "localhost", &config);
        let value = pattern(7, 1_000_000);
        check(&mut stream, &set("large", &value), b"STORED\r\n");
        check(&mut stream, b"get large\r\n", &hit("large", &value));
        check(&mut stream, &set("small", &value[..100]), b"STORED\r\n");
        // More than sockets hold waits in both directions.
        let mut socket = stream.sock.try_clone().unwrap();
        let requests = [b"get small\r\n".repeat(10_000), b"get large\r\n".repeat(20)].concat();
        let mut sealed = Vec::new();
        for piece in requests.chunks(10_000) {
            stream.conn.writer().write_all(piece).unwrap();
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut sealed).unwrap();
            }
        }
        let pauses = figure(&daemon, "cellar_output_pauses_total");
        let writer = std::thread::spawn(move || socket.write_all(&sealed));
        wait_until("answers wait to be read", || {
            figure(&daemon, "cellar_output_pauses_total") != pauses
        });
        let (small, large) = (hit("small", &value[..100]), hit("large", &value));
        for number in 0..10_000 {
            if number % 1_000 == 0 {
                // paced: the reader is slow.
                std::thread::sleep(Duration::from_millis(10));
            }
            expect(&mut stream, &small);
        }
        (0..20).for_each(|_| expect(&mut stream, &large));
        writer.join().unwrap().unwrap();
        check(&mut stream, b"mn\r\n", b"MN\r\n");
    }
}

#[test]
fn an_end_is_told() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--idle-timeout", "5s"]);
    let config = both(&authority);
    let fresh = |daemon: &Daemon| connect(&daemon.address, "localhost", &config);
    let mut quitter = fresh(&daemon);
    check(&mut quitter, b"mn\r\nquit\r\n", b"MN\r\n");
    expect_close(&mut quitter);
    let mut idle = fresh(&daemon);
    check(&mut idle, b"mn\r\n", b"MN\r\n");
    daemon.advance(Duration::from_secs(6));
    expect_close(&mut idle);
    let mut last = fresh(&daemon);
    check(&mut last, b"mn\r\n", b"MN\r\n");
    daemon.stop();
    expect_close(&mut last);
}

#[test]
fn a_client_beyond_the_limit_is_told_over_tls() {
    let authority = Authority::new();
    let daemon = server(&authority, &["--max-connections", "3"]);
    let config = both(&authority);
    let fresh = || connect(&daemon.address, "localhost", &config);
    let mut inside: Vec<TlsClient> = (0..3).map(|_| fresh()).collect();
    for stream in &mut inside {
        check(stream, b"mn\r\n", b"MN\r\n");
    }
    let mut outside = fresh();
    expect(&mut outside, b"ERROR Too many open connections\r\n");
    expect_close(&mut outside);
}

#[test]
fn handshakes_that_are_not_finished_hold_nobody_up() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let config = both(&authority);
    let mut hello = Vec::new();
    unspoken(&config, "localhost")
        .write_tls(&mut hello)
        .unwrap();
    let half: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = dial(&daemon.address);
            stream.write_all(&hello[..hello.len() / 2]).unwrap();
            stream
        })
        .collect();
    // The oldest of them have made room, before one comes that all later ones would push out.
    let over = (half.len() - HANDSHAKES_PER_SOURCE_MAX).to_string();
    wait_for(&daemon, "cellar_tls_handshakes_failed_total", &over);
    let mut stream = connect(&daemon.address, "localhost", &config);
    check(&mut stream, b"mn\r\n", b"MN\r\n");
    let ended = half.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut stream = *stream;
        !matches!(stream.read(&mut [0; 64]), Err(error)
            if error.kind() == std::io::ErrorKind::WouldBlock)
    });
    let ended = ended.count();
    assert!((530..600).contains(&ended), "{ended}");
    // A first message without end is not listened to.
    let mut endless = dial(&daemon.address);
    let mut bytes = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];
    bytes.resize(bytes.len() + 200_000, 0);
    let _ = endless.write_all(&bytes);
    let mut answer = Vec::new();
    // An alert, unless the reset was quicker.
    let _ = endless.read_to_end(&mut answer);
    assert!(answer.len() < 64);
    check(&mut stream, b"mn\r\n", b"MN\r\n");
}

/// A connection to a server on this machine that comes from an address of it.
fn dial_from(source: [u8; 4], address: &str) -> TcpStream {
    let address = address.strip_prefix("tls:").unwrap_or(address);
    let address: SocketAddr = address.parse().unwrap();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream
}

#[test]
fn handshakes_of_one_address_leave_places_for_others() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let config = both(&authority);
    let early = dial_from([127, 0, 0, 2], &daemon.address);
    wait_for(&daemon, "cellar_tls_handshakes_failed_total", "0");
    let crowd: Vec<TcpStream> = (0..600).map(|_| dial(&daemon.address)).collect();
    let late = dial_from([127, 0, 0, 3], &daemon.address);
    for socket in [early, late] {
        let mut stream = rustls::StreamOwned::new(unspoken(&config, "localhost"), socket);
        check(&mut stream, b"mn\r\n", b"MN\r\n");
    }
    drop(crowd);
}

#[test]
fn when_all_handshakes_are_taken_the_address_with_most_gives_way() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let config = both(&authority);
    // The first of all, and alone.
    let early = dial_from([127, 0, 0, 2], &daemon.address);
    wait_for(&daemon, "cellar_tls_handshakes_failed_total", "0");
    let hosts = (10..20).flat_map(|host| std::iter::repeat_n(host, 60));
    let crowd: Vec<TcpStream> = hosts
        .map(|host| dial_from([127, 0, 0, host], &daemon.address))
        .collect();
    let late = dial_from([127, 0, 0, 3], &daemon.address);
    for socket in [late, early] {
        let mut stream = rustls::StreamOwned::new(unspoken(&config, "localhost"), socket);
        check(&mut stream, b"mn\r\n", b"MN\r\n");
    }
    let failed = figure(&daemon, "cellar_tls_handshakes_failed_total");
    assert!(failed.parse::<u64>().unwrap() >= 80, "{failed}");
    drop(crowd);
}

#[test]
fn a_storm_of_handshakes_leaves_others_served() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let config = both(&authority);
    let mut served = connect(&daemon.address, "localhost", &config);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(connect(&daemon.address, "localhost", &both(&authority)));
                }
            });
        }
        for _ in 0..2_000 {
            check(&mut served, b"mn\r\n", b"MN\r\n");
        }
        wait_until("handshakes are made beside it", || {
            check(&mut served, b"mn\r\n", b"MN\r\n");
            let done = figure(&daemon, "cellar_tls_handshakes_total");
            done.parse::<u64>().unwrap() > 10
        });
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A first message of a client, with this version and one suite.
fn hello(version: [u8; 2], suite: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.extend([0, 0, 2, suite[0], suite[1], 1, 0]);
    // supported_groups x25519, signature_algorithms ecdsa_secp256r1_sha256
    body.extend([0, 16, 0, 10, 0, 4, 0, 2, 0, 29, 0, 13, 0, 4, 0, 2, 4, 3]);
    let length = u8::try_from(body.len()).unwrap();
    [&[0x16, 3, 1, 0, length + 4, 1, 0, 0, length], &body[..]].concat()
}

#[test]
fn old_versions_and_weak_suites_are_refused() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let good = [0xc0, 0x2b];
    // No such version; nothing in common, or no certificate for it.
    let (version_alert, suite_alerts) = ([70], [40, 49]);
    for (version, suite, alerts) in [
        ([3, 1], good, &version_alert[..]),
        ([3, 2], good, &version_alert),
        // RSA without forward secrecy, CBC, RC4, none.
        ([3, 3], [0, 0x9c], &suite_alerts),
        ([3, 3], [0xc0, 0x09], &suite_alerts),
        ([3, 3], [0, 5], &suite_alerts),
        ([3, 3], [0, 2], &suite_alerts),
    ] {
        let mut stream = dial(&daemon.address);
        stream.write_all(&hello(version, suite)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (first, level) = (answer[0], answer[5]);
        assert_eq!(
            (first, answer.len(), level),
            (0x15, 7, 2),
            "{version:?} {suite:?}"
        );
        assert!(
            alerts.contains(&answer[6]),
            "{version:?} {suite:?}: {answer:?}"
        );
    }
    let mut stream = dial(&daemon.address);
    stream.write_all(&hello([3, 3], good)).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, [0x16], "the hello is understood");
}

#[test]
fn nothing_is_agreed_on_twice() {
    let authority = Authority::new();
    let daemon = server(&authority, &[]);
    let address = daemon.address.trim_start_matches("tls:");
    let client = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect", address])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    let Ok(mut client) = client else {
        return;
    };
    let mut input = client.stdin.take().unwrap();
    let mut errors = client.stderr.take().unwrap();
    // It tells of its handshake before it reads its input.
    let said = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok);
    let is_done = said.any(|line| line.contains("Verify return code"));
    assert!(is_done, "there was no handshake");
    input.write_all(b"R\n").unwrap();
    // It ends by itself when it is refused, and sooner when its input does.
    let listening = std::thread::spawn(move || {
        let mut said = String::new();
        errors.read_to_string(&mut said).map(|_| said)
    });
    comes_true(PATIENCE, || listening.is_finished());
    drop(input);
    let said = listening.join().unwrap().unwrap();
    client.wait().unwrap();
    assert!(said.contains("no renegotiation"), "{said}");
    let mut stream = connect(&daemon.address, "localhost", &both(&authority));
    check(&mut stream, b"mn\r\n", b"MN\r\n");
}

#[test]
fn an_idle_connection_holds_little() {
    const CONNECTIONS: usize = 400;
    let authority = Authority::new();
    let daemon = server_by(Daemon::spawn, &authority, &[]);
    let config = both(&authority);
    let resident = || occupied_bytes(daemon.id(), "VmRSS");
    let value = pattern(1, 15_000);
    let open = || {
        let mut stream = connect(&daemon.address, "localhost", &config);
        check(&mut stream, &set("k", &value), b"STORED\r\n");
        check(&mut stream, b"get k\r\n", &hit("k", &value));
        stream
    };
    let warm: Vec<TlsClient> = (0..50).map(|_| open()).collect();
    let before = resident();
    let idle: Vec<TlsClient> = (0..CONNECTIONS).map(|_| open()).collect();
    let each = (resident() - before) / CONNECTIONS;
    assert!(each <= 32 << 10, "{each} bytes each");
    drop((warm, idle));
}
