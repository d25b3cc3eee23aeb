//! Servers: redis-server and memcached on free loopback ports, stopped with their holder.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

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
        for _ in 0..2_000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return running;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{program} does not listen");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens at: the system's choice, given back.
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

    /// The address of the one that tells of changes.
    pub(crate) fn redis(&self) -> String {
        format!("redis://127.0.0.1:{}", self.redis.port)
    }

    /// The address of the other.
    pub(crate) fn memcached(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.memcached.port)
    }
}
