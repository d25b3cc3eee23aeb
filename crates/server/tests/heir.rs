//! `--takeover` with `--state`: the items go over in the old server's hands, at once, and whatever
//! goes wrong leaves them with it.

use crate::support::daemon::{Daemon, check, expect, hit, set};
use crate::support::wait::PATIENCE;
use crate::takeover::{Place, Taker};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

/// Where the items are, and the socket for successors.
struct House {
    control: Place,
    state: PathBuf,
}

impl House {
    fn new(name: &str) -> House {
        let state = format!("cellar-heir-{}-{name}", std::process::id());
        let state = Path::new("/dev/shm").join(state);
        let _ = std::fs::remove_dir_all(&state);
        House {
            control: Place::new(),
            state,
        }
    }

    fn start(&self) -> Daemon {
        self.control.start(&["--state", self.path()])
    }

    fn succeed(&self, old: &mut Daemon) -> Daemon {
        self.control.succeed(old, &["--state", self.path()])
    }

    fn path(&self) -> &str {
        self.state.to_str().unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// The line in which a server says what became of the cache.
fn told(daemon: &Daemon) -> &str {
    let mut told = daemon
        .warnings()
        .iter()
        .filter(|one| one.contains("--state"));
    told.next_back().expect("the log tells")
}

fn check_keeps_state(daemon: &Daemon) {
    let told = told(daemon);
    assert!(
        told.contains("restored after a clean stop") && told.contains("was_walked=false"),
        "{told}"
    );
}

#[test]
fn items_go_over_and_back_with_their_clients() {
    let house = House::new("over");
    let mut server = house.start();
    let mut client = server.connect();
    check(&mut client, &set("k", b"value"), b"STORED\r\n");
    let mut resp = server.connect_resp();
    check(&mut resp, b"HSET h f 1\r\n", b":1\r\n");
    check(&mut resp, b"FLUSHDB\r\nHSET h f 2\r\n", b"+OK\r\n:1\r\n");
    check(&mut client, &set("k", b"value"), b"STORED\r\n");
    for round in 0..4 {
        server = house.succeed(&mut server);
        check_keeps_state(&server);
        // Who takes over counts from zero, but for what is there.
        let counts = ["cmd_set", "cmd_get", "total_items", "curr_items"];
        let there = 2 + round;
        assert_eq!(counts.map(|name| server.stat(name)), [0, 0, 0, there]);
        check(&mut client, b"get k\r\n", &hit("k", b"value"));
        check(&mut resp, b"HGET h f\r\n", b"$1\r\n2\r\n");
        let name = format!("new-{round}");
        check(&mut client, &set(&name, b"x"), b"STORED\r\n");
    }
    // And a restart after it, and a kill.
    for signal in [Signal::TERM, Signal::KILL] {
        server.signal(signal);
        server.wait();
        server = house.start();
        let mut client = server.connect();
        for round in 0..4 {
            let name = format!("new-{round}");
            check(
                &mut client,
                format!("get {name}\r\n").as_bytes(),
                &hit(&name, b"x"),
            );
        }
    }
    assert!(told(&server).contains("restored after a kill"));
}

#[test]
fn no_acknowledged_write_is_lost_on_the_way() {
    let house = House::new("writes");
    let mut server = house.start();
    let (address, is_over) = (server.address.clone(), AtomicBool::new(false));
    let last = std::thread::scope(|scope| {
        let write = |name: String| {
            let (address, is_over) = (&address, &is_over);
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let mut acknowledged = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let number = (acknowledged + 1).to_string();
                    let mut reply = [0; 8];
                    let asked = stream.write_all(&set(&name, number.as_bytes()));
                    match asked.and_then(|()| stream.read_exact(&mut reply)) {
                        Ok(()) => {
                            assert_eq!(&reply, b"STORED\r\n");
                            acknowledged += 1;
                        }
                        Err(_) => stream = TcpStream::connect(address).unwrap(),
                    }
                }
                (name, acknowledged)
            })
        };
        let writers: Vec<_> = (0..4).map(|number| write(format!("w-{number}"))).collect();
        for _ in 0..5 {
            // paced: the writers go on between the takeovers.
            std::thread::sleep(Duration::from_millis(50));
            server = house.succeed(&mut server);
            check_keeps_state(&server);
        }
        is_over.store(true, Ordering::Relaxed);
        let ends = writers.into_iter().map(|writer| writer.join().unwrap());
        ends.collect::<Vec<(String, u64)>>()
    });
    let mut client = server.connect();
    for (name, acknowledged) in last {
        assert!(acknowledged > 0);
        let number = acknowledged.to_string();
        check(
            &mut client,
            format!("get {name}\r\n").as_bytes(),
            &hit(&name, number.as_bytes()),
        );
    }
}

#[test]
fn a_successor_that_leaves_leaves_the_items() {
    let house = House::new("left");
    let mut old = house.start();
    let mut client = old.connect();
    check(&mut client, &set("k", b"value"), b"STORED\r\n");
    let taker = Taker::to(&house.control);
    // Listeners, the control socket, the client, and the memory.
    let held = taker.reach("yours");
    assert!(held.len() >= 5, "{}", held.len());
    drop((taker, held));
    old.log_until("continuing to serve");
    check(&mut client, b"get k\r\n", &hit("k", b"value"));
    let mut resp = old.connect_resp();
    check(
        &mut resp,
        b"SELECT 3\r\nSET in three\r\n",
        b"+OK\r\n+OK\r\n",
    );
    let mut new = house.succeed(&mut old);
    check_keeps_state(&new);
    check(&mut client, b"get k\r\n", &hit("k", b"value"));
    new.signal(Signal::TERM);
    new.wait();
    let new = house.start();
    check(&mut new.connect(), b"get k\r\n", &hit("k", b"value"));
    let mut resp = new.connect_resp();
    check(
        &mut resp,
        b"SELECT 3\r\nGET in\r\n",
        b"+OK\r\n$5\r\nthree\r\n",
    );
}

#[test]
fn a_slow_reader_gets_its_value_whole_whatever_becomes_of_the_item() {
    const BYTES: usize = 8 << 20;
    let house = House::new("slow");
    let flags = [
        ["--state", house.path()],
        ["--max-value", "16MiB"],
        ["--drain-timeout", "60s"],
    ];
    let flags = flags.as_flattened();
    let mut old = house.control.start(flags);
    let mut client = old.connect();
    let value = vec![b'v'; BYTES];
    check(&mut client, &set("long", &value), b"STORED\r\n");
    let mut slow = old.connect();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"get long\r\n").unwrap();
    expect(&mut slow, format!("VALUE long 0 {BYTES}\r\n").as_bytes());
    let address = old.address.clone();
    let taking = std::thread::scope(|scope| {
        let taken = scope.spawn(|| house.control.succeed(&mut old, flags));
        let mut client = loop {
            let mut stream = TcpStream::connect(&address).unwrap();
            let mut stats = Vec::new();
            // Who comes while the old one leaves may be let go without an answer.
            let _ = stream.write_all(b"stats\r\nquit\r\n");
            let _ = stream.read_to_end(&mut stats);
            if String::from_utf8_lossy(&stats).contains("STAT restored 1") {
                break TcpStream::connect(&address).unwrap();
            }
        };
        check(&mut client, b"delete long\r\n", b"DELETED\r\n");
        for round in 0..12 {
            let other = vec![b'o'; BYTES];
            check(
                &mut client,
                &set(&format!("o-{round}"), &other),
                b"STORED\r\n",
            );
        }
        let mut left = BYTES;
        let mut bytes = vec![0; 1 << 16];
        while left > 0 {
            let most = bytes.len().min(left);
            let read = slow.read(&mut bytes[..most]).unwrap();
            assert!(read > 0 && bytes[..read].iter().all(|&byte| byte == b'v'));
            left -= read;
        }
        taken.join().unwrap()
    });
    check_keeps_state(&taking);
}
