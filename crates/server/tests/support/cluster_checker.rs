//! Cluster checker: load on a cluster whose nodes come and go, and whether a read was ever stale.
//!
//! Each key has one writer, which stores larger and larger numbers and sometimes deletes. A reader
//! notes which number was the last to be acknowledged, then reads: an older one is stale. A number
//! that was sent and never answered may appear at any time, as it may have been stored at any time.
//!
//! Some readers follow redirections, as clients do. Others ask one node for ever and wait as long
//! as it takes, so that a node which was frozen finds questions of theirs when it goes on.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use super::wait::wait_until;

const KEYS: usize = 96;
const WRITERS: usize = 2;
const READERS: usize = 2;
/// How long an impatient client waits.
const SHORT: Duration = Duration::from_millis(400);
/// How long one waits that asks one node for ever.
const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Watched {
    /// The last number that was acknowledged.
    acknowledged: AtomicU64,
    /// Numbers that were sent, of which nobody knows.
    unknown: Mutex<HashSet<u64>>,
}

#[derive(Default)]
struct Ledger {
    keys: Vec<Watched>,
    is_over: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
    writes: AtomicU64,
    stale: Mutex<Vec<String>>,
}

/// The running load.
pub(crate) struct ClusterChecker {
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<()>>,
}

impl ClusterChecker {
    /// Begins, with all addresses that nodes may ever have.
    pub(crate) fn start(nodes: &[String]) -> ClusterChecker {
        ClusterChecker::start_resting(nodes, Duration::ZERO)
    }

    /// The same with clients that rest so long before each request, where the faults take long.
    pub(crate) fn start_resting(nodes: &[String], rest: Duration) -> ClusterChecker {
        let ledger = Arc::new(Ledger {
            keys: (0..KEYS).map(|_| Watched::default()).collect(),
            ..Ledger::default()
        });
        let mut threads = Vec::new();
        let mut spawn = |run: Box<dyn FnOnce(&Ledger) + Send>| {
            let ledger = Arc::clone(&ledger);
            threads.push(std::thread::spawn(move || run(&ledger)));
        };
        for part in 0..WRITERS {
            let caller = Caller::of(nodes.to_vec(), SHORT, rest);
            spawn(Box::new(move |ledger| write(ledger, caller, part)));
        }
        for _ in 0..READERS {
            let caller = Caller::of(nodes.to_vec(), SHORT, rest);
            spawn(Box::new(move |ledger| read(ledger, caller)));
        }
        for node in nodes {
            let caller = Caller::of(vec![node.clone()], LONG, rest);
            spawn(Box::new(move |ledger| read(ledger, caller)));
        }
        ClusterChecker { ledger, threads }
    }

    /// Reads that found something so far.
    pub(crate) fn hits(&self) -> u64 {
        self.ledger.hits.load(Ordering::SeqCst)
    }

    /// Waits until so many more reads have found something.
    pub(crate) fn go_on(&self, hits: u64) {
        let until = self.hits() + hits;
        wait_until("the cluster answers", || self.hits() >= until);
    }

    /// Ends the load and checks that no read was stale.
    pub(crate) fn finish(self) {
        self.ledger.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let ledger = &self.ledger;
        let (writes, hits) = (count(&ledger.writes), count(&ledger.hits));
        println!(
            "{writes} writes, {hits} hits, {} misses",
            count(&ledger.misses)
        );
        let stale = ledger.stale.lock().unwrap();
        assert!(stale.is_empty(), "{stale:#?}");
    }
}

fn write(ledger: &Ledger, mut caller: Caller, part: usize) {
    let mut number = 0_u64;
    while !ledger.is_over.load(Ordering::SeqCst) {
        number += 1;
        let index = (number as usize * 7 + part) % (KEYS / WRITERS) * WRITERS + part;
        let (watched, key) = (&ledger.keys[index], format!("key-{index}"));
        watched.unknown.lock().unwrap().insert(number);
        let value = number.to_string();
        let answer = if number.is_multiple_of(11) {
            caller.ask(&["DEL", &key])
        } else {
            caller.ask(&["SET", &key, &value])
        };
        match answer {
            Answer::Given(_) => {
                watched.unknown.lock().unwrap().remove(&number);
                watched.acknowledged.store(number, Ordering::SeqCst);
                ledger.writes.fetch_add(1, Ordering::SeqCst);
            }
            Answer::Refused => {
                watched.unknown.lock().unwrap().remove(&number);
            }
            Answer::None => {}
        }
    }
}

fn read(ledger: &Ledger, mut caller: Caller) {
    while !ledger.is_over.load(Ordering::SeqCst) {
        let index = caller.draw(KEYS);
        let (watched, key) = (&ledger.keys[index], format!("key-{index}"));
        let before = watched.acknowledged.load(Ordering::SeqCst);
        match caller.ask(&["GET", &key]) {
            Answer::Given(None) => {
                ledger.misses.fetch_add(1, Ordering::SeqCst);
            }
            Answer::Given(Some(text)) => {
                ledger.hits.fetch_add(1, Ordering::SeqCst);
                let found: u64 = text.parse().unwrap();
                if found < before && !watched.unknown.lock().unwrap().contains(&found) {
                    let told = format!("{key} is {found} after {before}, by {:?}", caller.nodes);
                    ledger.stale.lock().unwrap().push(told);
                }
            }
            Answer::Refused | Answer::None => {}
        }
    }
}

/// How a request ended.
#[derive(Debug, PartialEq)]
enum Answer {
    /// It was executed.
    Given(Option<String>),
    /// It was not.
    Refused,
    /// Nobody knows.
    None,
}

/// A client that is sent from node to node.
struct Caller {
    nodes: Vec<String>,
    patience: Duration,
    rest: Duration,
    /// The node that is asked next, and the connection to it.
    current: String,
    stream: Option<BufReader<TcpStream>>,
    random: u64,
}

impl Caller {
    fn of(nodes: Vec<String>, patience: Duration, rest: Duration) -> Caller {
        static SEED: AtomicU64 = AtomicU64::new(1);
        Caller {
            current: nodes[0].clone(),
            nodes,
            patience,
            rest,
            stream: None,
            random: SEED
                .fetch_add(1, Ordering::SeqCst)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// A number below `end`.
    fn draw(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % end
    }

    fn ask(&mut self, words: &[&str]) -> Answer {
        if self.rest > Duration::ZERO {
            // paced: the pace of the load.
            sleep(self.rest);
        }
        // Any node may be asked, and a node that should know better would be found out.
        if self.draw(32) == 0 {
            self.turn_elsewhere();
        }
        for _ in 0..4 {
            if self.stream.is_none() && !self.connect() {
                self.turn_elsewhere();
                return Answer::Refused;
            }
            let Some(line) = self.exchange(words) else {
                self.turn_elsewhere();
                return Answer::None;
            };
            if let Some(moved) = line.strip_prefix("-MOVED ") {
                let place = moved.split(' ').nth(1).unwrap().to_owned();
                // One that asks one node for ever learns that the key is not that node's.
                if self.nodes.len() == 1 {
                    return Answer::Refused;
                }
                (self.current, self.stream) = (place, None);
            } else if line.starts_with("-CLUSTERDOWN") {
                // paced: the pace of the load.
                sleep(Duration::from_millis(2));
                return Answer::Refused;
            } else if line.starts_with('-') {
                panic!("{words:?}: {line}");
            } else if line == "$-1" {
                return Answer::Given(None);
            } else {
                return Answer::Given(Some(line));
            }
        }
        Answer::Refused
    }

    fn connect(&mut self) -> bool {
        let address: SocketAddr = self.current.parse().unwrap();
        let Ok(stream) = TcpStream::connect_timeout(&address, SHORT) else {
            // paced: the pace of the load.
            sleep(Duration::from_millis(20));
            return false;
        };
        stream.set_read_timeout(Some(self.patience)).unwrap();
        stream.set_nodelay(true).unwrap();
        self.stream = Some(BufReader::new(stream));
        true
    }

    fn turn_elsewhere(&mut self) {
        let next = self.draw(self.nodes.len());
        (self.current, self.stream) = (self.nodes[next].clone(), None);
    }

    /// Sends a command and reads its answer: a line, of a bulk string its text.
    fn exchange(&mut self, words: &[&str]) -> Option<String> {
        let stream = self.stream.as_mut()?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        let Some(bytes) = line.strip_prefix('$').filter(|bytes| *bytes != "-1") else {
            return Some(line);
        };
        let mut value = vec![0; bytes.parse::<usize>().ok()? + 2];
        stream.read_exact(&mut value).ok()?;
        value.truncate(value.len() - 2);
        String::from_utf8(value).ok()
    }
}
