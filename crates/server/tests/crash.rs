//! Crash: a server that is killed in the middle of anything leaves nothing but an empty cache,
//! which comes up at once on the same port.

use crate::support::daemon;
use crate::support::wait::PATIENCE;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use daemon::{Daemon, check, hit, pattern, set};
use rustix::process::Signal;

/// Moments at which the server is killed: milliseconds after its load began, and whether it had
/// been told to stop before.
const MOMENTS: [(u64, bool); 6] = [
    (1, false),
    (7, false),
    (40, true),
    (90, false),
    (150, true),
    (260, false),
];

/// Requests of one kind, until the server is gone; every answer that comes is right.
fn load(address: &str, thread: u64) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes = [50, 3_000, 700_000][thread as usize % 3];
    for number in 0.. {
        let key = format!("key{thread}-{}", number % 100);
        let value = pattern(number, bytes);
        let request = [set(&key, &value), format!("get {key}\r\n").into_bytes()].concat();
        let expected = [b"STORED\r\n".as_slice(), &hit(&key, &value)].concat();
        let mut answer = vec![0; expected.len()];
        if stream.write_all(&request).is_err() {
            return;
        }
        let mut filled = 0;
        while filled < answer.len() {
            match stream.read(&mut answer[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => filled += bytes,
            }
        }
        assert!(
            answer[..filled] == expected[..filled],
            "a wrong answer before the end"
        );
        if filled < answer.len() {
            return;
        }
    }
}

#[test]
fn a_killed_server_comes_back_empty_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let (home, socket) = (folder.path().join("home"), folder.path().join("socket"));
    std::fs::create_dir(&home).unwrap();
    let unix = socket.to_str().unwrap();
    let mut daemon = Daemon::start_in(&home, &["--unix", unix]);
    for (ms, is_stopping) in MOMENTS {
        // The port and the socket file.
        let addresses = daemon.address.clone();
        let (address, _) = addresses.split_once(',').unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || load(address, thread));
            }
            // paced: the moment of the kill.
            std::thread::sleep(Duration::from_millis(ms));
            if is_stopping {
                daemon.signal(Signal::TERM);
                // paced: the moment of the kill.
                std::thread::sleep(Duration::from_millis(3));
            }
            daemon.signal(Signal::KILL);
        });
        daemon.wait();
        daemon = Daemon::start_in(&home, &["--memcached", &addresses]);
        assert_eq!(daemon.address, addresses);
        assert_eq!(daemon.stat("curr_items"), 0);
        let mut stream = daemon.connect();
        check(&mut stream, b"get key0-0 key1-0\r\n", b"END\r\n");
        check(&mut stream, &set("k", b"value"), b"STORED\r\n");
        check(&mut stream, b"get k\r\n", &hit("k", b"value"));
        check(&mut stream, b"flush_all\r\n", b"OK\r\n");
    }
    drop(daemon);
    let left: Vec<_> = std::fs::read_dir(&home).unwrap().collect();
    assert!(left.is_empty(), "files are left: {left:?}");
}
