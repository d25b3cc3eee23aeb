//! Servers: redis-server and memcached on free loopback ports; dropping the struct stops them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use tempfile::TempDir;

use crate::wait::wait_until;

/// A running server.
struct Running {
    child: Child,
    port: u16,
}

impl Running {
    fn start(program: &str, flags: &[&str], port_flag: &str) -> Running {
        let port = free_port();
        let child = Command::new(program)
            .args(flags)
            .args([port_flag, &port.to_string()])
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error} (make tools installs it)"));
        let running = Running { child, port };
        let what = format!("{program} listens");
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until(what.as_str(), listens);
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port: the system chose it, and it was released again.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Both servers, without keys.
pub(crate) struct Servers {
    redis: Running,
    memcached: Running,
}

impl Servers {
    pub(crate) fn start() -> Servers {
        let quiet = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let local = ["-u", "nobody", "-U", "0", "-l", "127.0.0.1"];
        Servers {
            redis: Running::start("redis-server", &quiet, "--port"),
            memcached: Running::start("memcached", &local, "-p"),
        }
    }

    /// The address of redis-server.
    pub(crate) fn redis(&self) -> String {
        format!("redis://127.0.0.1:{}", self.redis.port)
    }

    /// The address of memcached.
    pub(crate) fn memcached(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.memcached.port)
    }
}

/// Both servers over TLS; each requests client certificates.
pub(crate) struct SecuredServers {
    papers: TempDir,
    /// The TLS port, besides the plain one.
    _redis: Running,
    redis_port: u16,
    memcached: Running,
}

impl SecuredServers {
    pub(crate) fn start() -> SecuredServers {
        let papers = tempfile::tempdir().unwrap();
        write_papers(papers.path());
        let path = |name: &str| papers.path().join(name).display().to_string();
        let redis_port = free_port();
        let tls = [
            ["--bind", "127.0.0.1"],
            ["--save", ""],
            ["--tls-port", &redis_port.to_string()],
            ["--tls-cert-file", &path("server.pem")],
            ["--tls-key-file", &path("server.key")],
            ["--tls-ca-cert-file", &path("ca.pem")],
            ["--tls-auth-clients", "yes"],
        ];
        let options = format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={},ssl_verify_mode=2",
            path("server.pem"),
            path("server.key"),
            path("ca.pem")
        );
        // Only the owner can read the folder.
        let secured = [
            "-u",
            "root",
            "-U",
            "0",
            "-l",
            "127.0.0.1",
            "-Z",
            "-o",
            &options,
        ];
        SecuredServers {
            _redis: Running::start("redis-server", tls.as_flattened(), "--port"),
            redis_port,
            memcached: Running::start("memcached", &secured, "-p"),
            papers,
        }
    }

    /// The address of redis-server.
    pub(crate) fn redis(&self) -> String {
        format!("rediss://localhost:{}", self.redis_port)
    }

    /// The address of memcached.
    pub(crate) fn memcached(&self) -> String {
        format!("memcached://tls:localhost:{}", self.memcached.port)
    }

    /// The folder of `ca.pem`, `client.pem` and `client.key`.
    pub(crate) fn papers(&self) -> &str {
        self.papers.path().to_str().unwrap()
    }
}

/// Creates a certificate authority, and certificates of it for a server and a client.
fn write_papers(folder: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate with its issuer's name for self-signed.
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "the authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let all = [
        ("server", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", ExtendedKeyUsagePurpose::ClientAuth),
    ];
    for (name, purpose) in all {
        let key = KeyPair::generate().unwrap();
        let mut signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        signed.extended_key_usages = vec![purpose];
        let signed = signed.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{name}.pem")), signed.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}
