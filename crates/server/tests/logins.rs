//! Logins over every protocol: who is right pays for nobody, who is wrong is slowed by address.

use crate::support::vitals::processor_time;
use crate::support::wait::{PATIENCE, wait_until};
use crate::support::{daemon, http, users};

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cellar_system::clock::Stopwatch;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use daemon::{Daemon, frame, set};
use http::Http;
use users::{UsersFile, user};

/// A way to say a name and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// memcached's text protocol.
    Text,
    /// Its binary one.
    Binary,
    Resp,
    Http,
}

const DOORS: [Door; 4] = [Door::Text, Door::Binary, Door::Resp, Door::Http];

/// What a login came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Right,
    Wrong,
    /// Too many wait.
    Busy,
    /// Too many were wrong.
    TooMany,
}

impl Door {
    /// How the answer begins.
    fn beginnings(self) -> [(&'static str, Told); 4] {
        match self {
            Door::Text => [
                ("STORED\r\n", Told::Right),
                ("CLIENT_ERROR authentication failure\r\n", Told::Wrong),
                (
                    "SERVER_ERROR too many logins wait; try again\r\n",
                    Told::Busy,
                ),
                ("CLIENT_ERROR authentication failure", Told::TooMany),
            ],
            Door::Binary => [
                ("0", Told::Right),
                ("32", Told::Wrong),
                ("133", Told::Busy),
                ("32", Told::TooMany),
            ],
            Door::Resp => [
                ("+OK\r\n", Told::Right),
                ("-WRONGPASS invalid username-password pair", Told::Wrong),
                (
                    "-ERR too many passwords wait to be checked; try again\r\n",
                    Told::Busy,
                ),
                ("-ERR too many wrong passwords", Told::TooMany),
            ],
            Door::Http => [
                ("HTTP/1.1 404 ", Told::Right),
                ("HTTP/1.1 401 ", Told::Wrong),
                ("HTTP/1.1 503 ", Told::Busy),
                ("HTTP/1.1 429 ", Told::TooMany),
            ],
        }
    }

    fn address(self, daemon: &Daemon) -> SocketAddr {
        let address = match self {
            Door::Text | Door::Binary => &daemon.address,
            Door::Resp => &daemon.resp,
            Door::Http => &daemon.http,
        };
        address.parse().unwrap()
    }

    /// The bytes that say a name and a password.
    fn login(self, name: &str, password: &str) -> Vec<u8> {
        match self {
            Door::Text => set("login", format!("{name} {password}").as_bytes()),
            Door::Binary => {
                let secrets = format!("\0{name}\0{password}");
                let mechanism = b"PLAIN";
                let mut packet = vec![0x80, 0x21, 0, mechanism.len() as u8];
                packet.resize(8, 0);
                packet.extend_from_slice(&((mechanism.len() + secrets.len()) as u32).to_be_bytes());
                packet.resize(24, 0);
                [&packet, &mechanism[..], secrets.as_bytes()].concat()
            }
            Door::Resp => frame(&[b"AUTH", name.as_bytes(), password.as_bytes()]),
            Door::Http => {
                let field = basic(&format!("{name}:{password}"));
                format!("GET /v1/cache/none HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n")
                    .into_bytes()
            }
        }
    }
}

/// A connection on which one login was tried.
struct Visitor {
    door: Door,
    stream: TcpStream,
}

impl Visitor {
    /// One from this address of the machine, who says a name and a password.
    fn at(daemon: &Daemon, door: Door, from: [u8; 4], secrets: (&str, &str)) -> Visitor {
        Visitor::at_address(door.address(daemon), door, from, secrets)
    }

    fn at_address(
        address: SocketAddr,
        door: Door,
        from: [u8; 4],
        secrets: (&str, &str),
    ) -> Visitor {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        connect(&socket, &address).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&door.login(secrets.0, secrets.1)).unwrap();
        Visitor { door, stream }
    }

    /// Whether the server has answered.
    fn is_answered(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let bytes = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        bytes.is_ok()
    }

    /// What it is told, and all of the answer that came with it.
    fn told(&mut self) -> (Told, String) {
        let mut answer = vec![0; 4096];
        let bytes = self.stream.read(&mut answer).unwrap();
        let answer = match self.door {
            // The status of a packet.
            Door::Binary => u16::from_be_bytes([answer[6], answer[7]]).to_string(),
            _ => String::from_utf8_lossy(&answer[..bytes]).into_owned(),
        };
        let beginnings = self.door.beginnings();
        let found = beginnings
            .into_iter()
            .find(|(text, _)| answer.starts_with(text));
        let (_, told) = found.unwrap_or_else(|| panic!("{:?}: {answer}", self.door));
        (told, answer)
    }
}

/// A server with as many users as that, u0 first.
fn serve(users: usize, more: &[&str]) -> (UsersFile, Daemon) {
    let file = file_of(users);
    let flags = file.flags();
    let flags = flags.each_ref().map(String::as_str);
    let daemon = Daemon::start(&[&flags[..], more].concat());
    (file, daemon)
}

fn file_of(users: usize) -> UsersFile {
    let users: Vec<String> = (0..users)
        .map(|number| user(&format!("u{number}"), "admin", ""))
        .collect();
    UsersFile::new(&users.concat())
}

/// A figure of `/metrics`, as the first user sees it.
fn metric(daemon: &Daemon, name: &str) -> u64 {
    let field = basic("u0:u0-pw");
    let page = Http::to(daemon).ask("GET /metrics", &[&field], b"");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_default().parse().unwrap()
}

fn basic(secrets: &str) -> String {
    format!("Authorization: Basic {}", BASE64_STANDARD.encode(secrets))
}

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];

#[test]
fn sixty_users_who_are_right_at_once_neither_wait_for_each_other_nor_are_refused() {
    let (_file, daemon) = serve(60, &[]);
    let come = |number: usize| {
        let (name, password) = (format!("u{number}"), format!("u{number}-pw"));
        Visitor::at(&daemon, DOORS[number % 4], HERE, (&name, &password))
    };
    let mut visitors: Vec<Visitor> = (0..60).map(come).collect();
    for visitor in &mut visitors {
        assert_eq!(visitor.told().0, Told::Right, "{:?}", visitor.door);
    }
    assert_eq!(metric(&daemon, "cellar_logins_slowed_total"), 0);
    assert_eq!(
        metric(&daemon, "cellar_logins_total{result=\"refused\"}"),
        0
    );
}

#[test]
fn who_is_wrong_again_and_again_slows_its_own_address_and_the_log_names_it() {
    for door in DOORS {
        let (_file, daemon) = serve(1, &[]);
        let guess = || Visitor::at(&daemon, door, HERE, ("u0", "the-guess"));
        for _ in 0..3 {
            assert_eq!(guess().told().0, Told::Wrong, "{door:?}");
        }
        // The fourth is late, and nobody else.
        let mut late = guess();
        wait_until("a login is slowed", || slowed(&daemon) == 1);
        let mut other = Visitor::at(&daemon, door, ELSEWHERE, ("u0", "u0-pw"));
        assert_eq!(other.told().0, Told::Right, "{door:?}");
        daemon.advance(Duration::from_millis(125));
        assert_eq!(late.told().0, Told::Wrong, "{door:?}");
        assert_eq!(slowed(&daemon), 1, "{door:?}");
        check_log(door);
    }
}

/// Checks what the log says of logins that failed at a door.
fn check_log(door: Door) {
    let file = file_of(1);
    let flags = file.flags();
    let daemon = Daemon::spawn(&flags.each_ref().map(String::as_str));
    // A name that is nobody's may be a password, so it is not told.
    let shown = ["u0", "(unknown)", "(unknown)"];
    for (name, shown) in ["u0", "nobody", "pass-word"].iter().zip(shown) {
        let mut visitor = Visitor::at(&daemon, door, HERE, (name, "the-guess"));
        assert_eq!(visitor.told().0, Told::Wrong, "{door:?}");
        let lines = daemon.log_until("a login failed");
        let is_told = lines.iter().any(|line| line.contains("the-guess"));
        assert!(!is_told, "{door:?}: {lines:?}");
        let told = lines.last().unwrap();
        let is_named = told.contains("127.0.0.1:") && told.contains(shown);
        assert!(is_named, "{door:?}: {told}");
        assert_eq!(told.contains(name), *name == shown, "{door:?}: {told}");
    }
}

/// How many logins were slowed, asked for from an address that is not.
fn slowed(daemon: &Daemon) -> u64 {
    let mut visitor = Visitor::at(daemon, Door::Http, ELSEWHERE, ("u0", "u0-pw"));
    assert_eq!(visitor.told().0, Told::Right);
    let field = basic("u0:u0-pw");
    let ask =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n\r\n");
    let stream = &mut visitor.stream;
    stream.write_all(ask.as_bytes()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let mut lines = page.lines();
    let found = lines.find_map(|line| line.strip_prefix("cellar_logins_slowed_total "));
    found.unwrap().parse().unwrap()
}

#[test]
fn who_says_all_it_has_to_say_at_once_and_ends_is_answered() {
    let (_file, daemon) = serve(1, &[]);
    for door in DOORS {
        for (password, expected) in [("u0-pw", Told::Right), ("x", Told::Wrong)] {
            let mut visitor = Visitor::at(&daemon, door, HERE, ("u0", password));
            visitor.stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(visitor.told().0, expected, "{door:?}");
        }
        // Or the fourth guess would be late.
        daemon.advance(Duration::from_secs(1));
    }
}

/// More logins than one address may have under way.
const CROWD: usize = 72;
/// More than the places that become free while the late ones connect.
const LATE: usize = 5;
/// A hash that takes a second or more to compare with, the slowest that a file may have. Nothing
/// matches it.
const SLOW_HASH: &str = "$argon2id$v=19$m=65536,t=64,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                         AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Takes the visitors that the server has answered out of the list, and whether one of them was
/// told that too many logins wait.
fn is_busy_told_to_one_of(visitors: &mut Vec<Visitor>) -> bool {
    let answered = visitors.extract_if(.., |one| one.is_answered());
    let mut told = answered.map(|mut one| {
        let (told, answer) = one.told();
        if told == Told::Busy && one.door == Door::Http {
            assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
            assert!(answer.contains("\"too_many_logins\""), "{answer}");
        }
        told
    });
    told.any(|told| told == Told::Busy)
}

#[test]
fn who_finds_the_queue_of_logins_full_is_told_so_at_every_door() {
    let user = format!("[[user]]\nname = \"u\"\npasswords = [\"{SLOW_HASH}\"]\nrole = \"read\"\n");
    let file = UsersFile::new(&user);
    let [flag, path] = file.flags();
    // A process of its own: it is ended amid a comparison.
    let daemon = Daemon::spawn(&[&flag, &path, "--threads", "1"]);
    // Equal guesses would share one comparison.
    let mut passwords = (0..).map(|number| format!("x{number}"));
    let mut guess = |door: Door| {
        let password = passwords.next().unwrap();
        Visitor::at(&daemon, door, HERE, ("u", &password))
    };
    let mut crowd: Vec<Visitor> = (0..CROWD).map(|_| guess(Door::Text)).collect();
    // Which of several listeners is looked at first is not said: the others come when it is full.
    wait_until("the queue is full", || is_busy_told_to_one_of(&mut crowd));
    let late = DOORS
        .iter()
        .flat_map(|&door| std::iter::repeat_n(door, LATE));
    let mut late: Vec<Visitor> = late.map(guess).collect();
    // Places become free meanwhile, so that some of them are compared.
    for door in DOORS {
        let (mut waiting, others) = late.into_iter().partition(|one| one.door == door);
        late = others;
        wait_until("one of them finds the queue full", || {
            is_busy_told_to_one_of(&mut waiting)
        });
        // They keep their places.
        crowd.append(&mut waiting);
    }
    drop(crowd);
}

/// Guesses of passwords each second, the networks that they come from, and for how long.
const GUESSES_PER_S: u64 = 100;
const GUESSING_NETWORKS: u64 = 400;
const GUESSING_S: u64 = 12;
/// Right logins meanwhile, each of a user whose password was not compared before.
const RIGHT_LOGINS: u64 = 20;
/// Most threads that compare passwords at one time.
const COMPARING_THREADS: u64 = 2;
/// Time in which a right login is let in.
const LET_IN_US_MAX: u64 = 2_000_000;

/// An address of a network from which passwords are guessed.
fn guesser(number: u64) -> [u8; 4] {
    let network = number % GUESSING_NETWORKS;
    [127, 10 + (network / 200) as u8, (network % 200) as u8, 1]
}

/// Has passwords of so many users guessed over and over, each from the next network, until all time
/// is over; how many it were.
fn guess_from_many_networks(address: SocketAddr, users: u64) -> u64 {
    let (watch, mut open) = (Stopwatch::start(), VecDeque::new());
    let mut guesses = 0;
    while watch.us() < GUESSING_S * 1_000_000 {
        let (name, password) = (format!("u{}", guesses % users), format!("guess {guesses}"));
        open.push_back(Visitor::at_address(
            address,
            Door::Resp,
            guesser(guesses),
            (&name, &password),
        ));
        // They wait for their answers for a while.
        if open.len() as u64 > GUESSING_NETWORKS {
            open.pop_front();
        }
        guesses += 1;
        let due_us = guesses * 1_000_000 / GUESSES_PER_S;
        // paced: so many guesses come each second.
        std::thread::sleep(Duration::from_micros(due_us.saturating_sub(watch.us())));
    }
    guesses
}

#[test]
fn right_logins_get_in_soon_while_hundreds_of_networks_guess_one_users_passwords() {
    check_right_logins(1, |_| ());
}

#[test]
fn right_logins_get_in_soon_while_networks_that_were_wrong_guess_everybodys_passwords() {
    // Names that nobody can have are wrong at once, and count as any other.
    let long = "n".repeat(65);
    check_right_logins(RIGHT_LOGINS + 1, |daemon| {
        for number in 0..GUESSING_NETWORKS {
            let mut visitor = Visitor::at(daemon, Door::Resp, guesser(number), (&long, "x"));
            assert_eq!(visitor.told().0, Told::Wrong);
        }
    });
}

/// Checks that each of many users gets in soon at its first login, while passwords of so many of
/// them are guessed; `prepare` is done before.
fn check_right_logins(guessed: u64, prepare: impl FnOnce(&Daemon)) {
    let users: Vec<String> = (0..=RIGHT_LOGINS)
        .map(|number| {
            let hash =
                cellar_shared::auth::users::hash(format!("right {number}").as_bytes()).unwrap();
            format!("[[user]]\nname = \"u{number}\"\npasswords = [\"{hash}\"]\nrole = \"read\"\n")
        })
        .collect();
    let file = UsersFile::new(&users.concat());
    let [flag, path] = file.flags();
    let daemon = Daemon::spawn(&[&flag, &path, "--threads", "1"]);
    let address = Door::Resp.address(&daemon);
    prepare(&daemon);
    let before = processor_time(daemon.id());
    let (guesses, waits_us) = std::thread::scope(|scope| {
        let guessing = scope.spawn(|| guess_from_many_networks(address, guessed));
        let mut waits_us = Vec::new();
        for number in 1..=RIGHT_LOGINS {
            // paced: right logins come all the while.
            std::thread::sleep(Duration::from_millis(
                GUESSING_S * 1_000 / (RIGHT_LOGINS + 4),
            ));
            waits_us.push(wait_of_right_login(&daemon, number));
        }
        (guessing.join().unwrap(), waits_us)
    });
    let processor = processor_time(daemon.id()).saturating_sub(before);
    let longest_us = waits_us.iter().copied().max().unwrap_or(0);
    let mean_us = waits_us.iter().sum::<u64>() / RIGHT_LOGINS;
    println!("{guesses} guesses in {GUESSING_S} s: {processor:?} of processor time; right logins");
    println!("waited for {mean_us} us in the mean, {longest_us} us at most");
    assert!(longest_us < LET_IN_US_MAX, "{waits_us:?}");
    assert!(
        processor.as_secs() <= COMPARING_THREADS * GUESSING_S + 2,
        "{processor:?}"
    );
}

/// How long the server lets a user wait at its first login, from a network of its own. What a busy
/// machine gives to others does not count.
fn wait_of_right_login(daemon: &Daemon, number: u64) -> u64 {
    let (watch, used) = (Stopwatch::start(), processor_time(daemon.id()));
    let from = [127, 200, number as u8, 1];
    let (name, password) = (format!("u{number}"), format!("right {number}"));
    let mut visitor = Visitor::at(daemon, Door::Resp, from, (&name, &password));
    assert_eq!(visitor.told().0, Told::Right);
    let used = processor_time(daemon.id()).saturating_sub(used);
    watch.us().min(used.as_micros() as u64 / COMPARING_THREADS)
}

#[test]
fn an_address_that_was_wrong_thirty_times_is_not_looked_at_at_any_door() {
    let (_file, daemon) = serve(1, &["--threads", "1"]);
    // Names that nobody can have are wrong at once, and count as any other.
    let long = "n".repeat(65);
    for door in DOORS {
        for _ in 0..31 {
            Visitor::at(&daemon, Door::Resp, HERE, (&long, "x")).told();
        }
        let mut visitor = Visitor::at(&daemon, door, HERE, ("u0", "u0-pw"));
        let (told, answer) = visitor.told();
        // memcached's protocols have one word for both.
        let expected = match door {
            Door::Text | Door::Binary => Told::Wrong,
            Door::Resp | Door::Http => Told::TooMany,
        };
        assert_eq!(told, expected, "{door:?}: {answer}");
        let mut other = Visitor::at(&daemon, door, ELSEWHERE, ("u0", "u0-pw"));
        assert_eq!(other.told().0, Told::Right, "{door:?}");
    }
}
