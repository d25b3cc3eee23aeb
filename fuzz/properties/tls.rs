//! TLS's properties: no bytes before a handshake do more than end it, and what is encrypted behind
//! one is read as it was written, however it arrives.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use cellar_config::protocol::Protocol;
use cellar_config::settings::Settings;
use cellar_net::stream::encrypted::Handshake;
use cellar_net::stream::{Received, Stream, Transport};
use cellar_net::tls::Keys;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Pieces in which an input arrives.
const PIECES_MAX: usize = 9;
/// Longest input: sockets hold all of it.
const INPUT_BYTES_MAX: usize = 30_000;

/// The server's keys, and what a client believes.
fn world() -> &'static (Keys, Arc<ClientConfig>) {
    static WORLD: OnceLock<(Keys, Arc<ClientConfig>)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            path
        };
        let settings = Settings {
            tls_cert: vec![put("fuzz.pem", &made.cert.pem())],
            tls_key: vec![put("fuzz.key", &made.signing_key.serialize_pem())],
            ..Settings::default()
        };
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        (Keys::load(&settings).unwrap(), Arc::new(config))
    })
}

/// A stream whose handshake is to come, and its other end.
fn pair() -> (Stream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let mut stream = Stream::plain(near.into(), Transport::Unix);
    stream.encrypt(world().0.connection(Protocol::Http).unwrap());
    (stream, far)
}

fn client() -> ClientConnection {
    let server = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::clone(&world().1), server).unwrap()
}

fn pieces(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.chunks(data.len() / PIECES_MAX + 1)
}

/// What a client sends first.
pub(crate) fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    client().write_tls(&mut hello).unwrap();
    hello
}

/// Checks that bytes which no client sends come to no handshake.
pub(crate) fn check_hello(data: &[u8]) {
    let data = &data[..data.len().min(INPUT_BYTES_MAX)];
    let (mut stream, mut far) = pair();
    for piece in pieces(data) {
        far.write_all(piece).unwrap();
        match stream.shake_hands() {
            Handshake::Waiting => {}
            Handshake::Done => panic!("a handshake by chance"),
            _ => return,
        }
    }
    drop(far);
    assert_ne!(stream.shake_hands(), Handshake::Waiting);
}

/// Checks that bytes are read as they were written, and nothing else is read.
pub(crate) fn check_sealed(data: &[u8]) {
    let data = &data[..data.len().min(INPUT_BYTES_MAX)];
    let (mut stream, mut far) = pair();
    let mut client = client();
    while shake(&mut stream, &mut client, &mut far) {}
    let mut sealed = Vec::new();
    for piece in pieces(data) {
        client.writer().write_all(piece).unwrap();
        client.write_tls(&mut sealed).unwrap();
    }
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 + data.len() % 5_000];
    for piece in pieces(&sealed) {
        far.write_all(piece).unwrap();
        stream.look_again();
        while stream.is_readable() {
            if let Received::Bytes(bytes) = stream.read(&mut buffer) {
                received.extend_from_slice(&buffer[..bytes]);
            }
        }
    }
    assert!(
        received == data,
        "{} of {} bytes",
        received.len(),
        data.len()
    );
    // The same without a key is nobody's.
    far.write_all(data).unwrap();
    stream.look_again();
    while stream.is_readable() {
        assert!(!matches!(stream.read(&mut buffer), Received::Bytes(_)));
    }
}

/// Goes on with a handshake on both sides; whether it is not done.
fn shake(stream: &mut Stream, client: &mut ClientConnection, far: &mut UnixStream) -> bool {
    while client.wants_write() {
        client.write_tls(far).unwrap();
    }
    let handshake = stream.shake_hands();
    let mut bytes = Vec::new();
    let _ = far.read_to_end(&mut bytes);
    let mut bytes = &bytes[..];
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
    }
    assert!(matches!(handshake, Handshake::Waiting | Handshake::Done));
    handshake == Handshake::Waiting
}
