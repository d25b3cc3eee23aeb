//! Linearizable: clients over three protocols, on several event loops, at few keys. What each of
//! them was answered must fit one order of all requests, in which each has its place between its
//! sending and its answer.
//!
//! The search is that of Wing and Gong with Lowe's memory of states: it takes any request as the
//! next one that no other request was answered before, and goes back where no answer fits. Rounds
//! are short, so that a search is, too; what the keys hold at the end of one is where the next
//! begins. For longer: `CELLAR_TEST_LINEARIZABLE_SECONDS=600 make test T=linearizable`.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_system::clock::Stopwatch;

use crate::support::daemon::Daemon;
use crate::support::http::Http;
use crate::support::resp::{Client, Value};

/// Keys at which all clients meet.
const KEYS: usize = 4;
/// Requests of a client in a round.
const REQUESTS: usize = 4;
/// Clients: of RESP, of memcached's protocol, of HTTP.
const CLIENTS: [usize; 3] = [4, 2, 1];
/// Scripts: to add to all keys, and to move what one holds to another.
const ADD: &str = "local r = {} for i = 1, #KEYS do r[i] = redis.call('incrby', KEYS[i], ARGV[1]) \
                   end return r";
const ADD_UNDECLARED: &str = "local r = {} for i = 2, #ARGV do \
                              r[i - 1] = redis.call('incrby', ARGV[i], ARGV[1]) end return r";

/// A part of a request; a request is several that are one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Read(usize),
    Write(usize, i64),
    Add(usize, i64),
    /// An addition whose sum nobody was told.
    AddUnseen(usize, i64),
    Delete(usize),
    /// One key's value becomes another's, if it has any.
    Rename(usize, usize),
}

/// What each key holds.
type State = [Option<i64>; KEYS];

impl Part {
    /// Does it; what it answers, if it does.
    fn apply(self, state: &mut State) -> Option<Option<i64>> {
        match self {
            Part::Read(key) => return Some(state[key]),
            Part::Write(key, value) => state[key] = Some(value),
            Part::Add(key, by) => {
                let sum = state[key].unwrap_or(0) + by;
                state[key] = Some(sum);
                return Some(Some(sum));
            }
            Part::AddUnseen(key, by) => state[key] = Some(state[key].unwrap_or(0) + by),
            Part::Delete(key) => return Some(Some(i64::from(state[key].take().is_some()))),
            Part::Rename(from, to) => {
                let value = state[from].take();
                if value.is_some() {
                    state[to] = value;
                }
                return Some(value.map(|_| 1));
            }
        }
        None
    }
}

/// A request that was answered.
#[derive(Clone, Debug)]
struct Event {
    parts: Vec<Part>,
    answers: Vec<Option<i64>>,
    /// When it was sent and when its answer was there, by one count of all clients.
    sent: u64,
    answered: u64,
}

impl Event {
    /// Does all parts; whether the answers are those that were given.
    fn fits(&self, state: &mut State) -> bool {
        let answers = self.parts.iter().filter_map(|part| part.apply(state));
        let mut given = self.answers.iter();
        let fit = answers.fold(true, |fit, answer| fit & (given.next() == Some(&answer)));
        fit && given.next().is_none()
    }
}

/// Whether some order of the events fits all answers and leads from one state to another.
fn is_linearizable(events: &[Event], begin: State, end: State) -> bool {
    fn search(
        events: &[Event],
        left: u64,
        state: State,
        end: State,
        seen: &mut HashSet<(u64, State)>,
    ) -> bool {
        if left == 0 {
            return state == end;
        }
        if !seen.insert((left, state)) {
            return false;
        }
        let is_left = |at: &usize| left >> at & 1 == 1;
        let first_answer = (0..events.len())
            .filter(is_left)
            .map(|at| events[at].answered)
            .min();
        let may_be_next = |at: &usize| Some(events[*at].sent) < first_answer;
        (0..events.len())
            .filter(is_left)
            .filter(may_be_next)
            .any(|at| {
                let mut next = state;
                events[at].fits(&mut next) && search(events, left & !(1 << at), next, end, seen)
            })
    }
    assert!(events.len() <= 64, "a bit for each");
    let all = u64::MAX.checked_shr(64 - events.len() as u32).unwrap_or(0);
    search(events, all, begin, end, &mut HashSet::new())
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

/// A client of one protocol.
enum Speaker {
    Resp(Client),
    Memcached(TcpStream),
    Http(Http),
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Bulk(bytes) => Some(std::str::from_utf8(bytes).unwrap().parse().unwrap()),
        Value::Integer(number) => Some(*number),
        Value::Simple(text) if text == "OK" => Some(1),
        Value::Error(text) if text == "ERR no such key" => None,
        Value::Null => None,
        other => panic!("{other:?}"),
    }
}

/// Chooses by chance, in the same way in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }

    fn key(&mut self) -> usize {
        self.below(KEYS as u64) as usize
    }

    /// Two different keys.
    fn pair(&mut self) -> [usize; 2] {
        let first = self.key();
        [
            first,
            (first + 1 + self.below(KEYS as u64 - 1) as usize) % KEYS,
        ]
    }
}

impl Speaker {
    /// Sends a request that is chosen by chance; what it was, and its answers.
    fn request(&mut self, chance: &mut Chance, unique: i64) -> (Vec<Part>, Vec<Option<i64>>) {
        match self {
            Speaker::Resp(client) => resp_request(client, chance, unique),
            Speaker::Memcached(stream) => memcached_request(stream, chance, unique),
            Speaker::Http(http) => {
                let key = chance.key();
                let path = format!("/v1/cache/{}", name(key));
                if chance.below(2) == 0 {
                    let found = http.get(&path);
                    let value = (found.status == 200).then(|| found.text().parse().unwrap());
                    return (vec![Part::Read(key)], vec![value]);
                }
                let stored = http.put(&path, unique.to_string().as_bytes());
                assert!(stored.status < 300, "{}", stored.status);
                (vec![Part::Write(key, unique)], Vec::new())
            }
        }
    }
}

fn resp_request(
    client: &mut Client,
    chance: &mut Chance,
    unique: i64,
) -> (Vec<Part>, Vec<Option<i64>>) {
    let [one, other] = chance.pair();
    let (first, second) = (name(one), name(other));
    let numbers = |value: Value| match value {
        Value::Array(values) => values.iter().map(number).collect(),
        value => vec![number(&value)],
    };
    let both = [one, other];
    match chance.below(10) {
        0 => {
            client.run(&format!("MSET {first} {unique} {second} {unique}"));
            (
                both.map(|key| Part::Write(key, unique)).to_vec(),
                Vec::new(),
            )
        }
        1 | 2 => {
            let seen = client.run(&format!("MGET {first} {second}"));
            (both.map(Part::Read).to_vec(), numbers(seen))
        }
        3 | 4 => {
            let parts = both.map(|key| Part::Add(key, unique)).to_vec();
            client.run("MULTI");
            client.run(&format!("INCRBY {first} {unique}"));
            client.run(&format!("INCRBY {second} {unique}"));
            (parts, numbers(client.run("EXEC")))
        }
        5 | 6 => {
            let (number, names) = (unique.to_string(), [first.as_bytes(), second.as_bytes()]);
            let sums = client.call(&match chance.below(2) {
                0 => [
                    b"EVAL",
                    ADD.as_bytes(),
                    b"2",
                    names[0],
                    names[1],
                    number.as_bytes(),
                ],
                _ => [
                    b"EVAL",
                    ADD_UNDECLARED.as_bytes(),
                    b"0",
                    number.as_bytes(),
                    names[0],
                    names[1],
                ],
            });
            if let Value::Error(text) = &sums {
                // The script was refused its second key: it had written the first.
                assert!(text.contains("not declared"), "{text}");
                return (vec![Part::AddUnseen(one, unique)], Vec::new());
            }
            (
                both.map(|key| Part::Add(key, unique)).to_vec(),
                numbers(sums),
            )
        }
        7 => {
            let done = client.run(&format!("RENAME {first} {second}"));
            (vec![Part::Rename(one, other)], numbers(done))
        }
        8 => {
            let seen = client.run(&format!("GET {first}"));
            (vec![Part::Read(one)], numbers(seen))
        }
        _ => {
            let gone = client.run(&format!("DEL {first}"));
            (vec![Part::Delete(one)], numbers(gone))
        }
    }
}

fn memcached_request(
    stream: &mut TcpStream,
    chance: &mut Chance,
    unique: i64,
) -> (Vec<Part>, Vec<Option<i64>>) {
    let key = chance.key();
    let reads = chance.below(2) == 0;
    let (line, end) = match reads {
        true => (format!("get {}\r\n", name(key)), "END\r\n"),
        false => {
            let value = unique.to_string();
            let line = format!("set {} 0 0 {}\r\n{value}\r\n", name(key), value.len());
            (line, "STORED\r\n")
        }
    };
    stream.write_all(line.as_bytes()).unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(end.as_bytes()) {
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    if !reads {
        return (vec![Part::Write(key, unique)], Vec::new());
    }
    let answer = String::from_utf8(answer).unwrap();
    let value = answer.lines().nth(1).map(|value| value.parse().unwrap());
    (vec![Part::Read(key)], vec![value])
}

fn speakers(daemon: &Daemon) -> Vec<Speaker> {
    let [resp, memcached, http] = CLIENTS;
    let resp = (0..resp).map(|_| Speaker::Resp(Client::connect(daemon)));
    let memcached = (0..memcached).map(|_| Speaker::Memcached(daemon.connect()));
    let http = (0..http).map(|_| Speaker::Http(Http::to(daemon)));
    resp.chain(memcached).chain(http).collect()
}

/// What the keys hold, when nobody writes.
fn state_of(client: &mut Client) -> State {
    std::array::from_fn(|key| number(&client.run(&format!("GET {}", name(key)))))
}

/// Runs rounds for so long, and checks each.
fn check_rounds(loops: &str, lasting: Duration, seed: u64) -> u64 {
    let daemon = Daemon::start(&["--threads", loops]);
    let mut looks = Client::connect(&daemon);
    let mut speakers: Vec<_> = speakers(&daemon)
        .into_iter()
        .map(|one| (one, Vec::new()))
        .collect();
    let clock = AtomicU64::new(0);
    let (watch, mut rounds, mut begin) = (Stopwatch::start(), 0, state_of(&mut looks));
    while u128::from(watch.us()) < lasting.as_micros() {
        rounds += 1;
        let start = Barrier::new(speakers.len());
        std::thread::scope(|scope| {
            for (number, (speaker, events)) in speakers.iter_mut().enumerate() {
                let (clock, start) = (&clock, &start);
                scope.spawn(move || {
                    let mut chance = Chance(seed + rounds * 1_000_003 + number as u64 * 7 + 1);
                    events.clear();
                    start.wait();
                    for request in 0..REQUESTS {
                        let unique = (rounds * 100 + number as u64 * 10 + request as u64) as i64;
                        let sent = clock.fetch_add(1, Ordering::SeqCst);
                        let (parts, answers) = speaker.request(&mut chance, unique);
                        let answered = clock.fetch_add(1, Ordering::SeqCst);
                        events.push(Event {
                            parts,
                            answers,
                            sent,
                            answered,
                        });
                    }
                });
            }
        });
        let events: Vec<Event> = speakers
            .iter()
            .flat_map(|(_, events)| events.clone())
            .collect();
        let end = state_of(&mut looks);
        assert!(
            is_linearizable(&events, begin, end),
            "no order fits, from {begin:?} to {end:?}: {events:#?}"
        );
        begin = end;
    }
    rounds
}

#[test]
fn what_clients_of_all_protocols_are_answered_fits_one_order() {
    let seconds = std::env::var("CELLAR_TEST_LINEARIZABLE_SECONDS");
    let seconds: f64 = seconds.map_or(6.0, |seconds| seconds.parse().unwrap());
    for (place, loops) in ["2", "4", "8"].into_iter().enumerate() {
        let rounds = check_rounds(loops, Duration::from_secs_f64(seconds / 3.0), place as u64);
        assert!(rounds > 0);
    }
}

fn event(parts: &[Part], answers: &[Option<i64>], (sent, answered): (u64, u64)) -> Event {
    Event {
        parts: parts.to_vec(),
        answers: answers.to_vec(),
        sent,
        answered,
    }
}

#[test]
fn the_search_finds_an_order_where_there_is_one_and_none_where_there_is_none() {
    let (begin, end) = (
        [Some(0), Some(0), None, None],
        [Some(1), Some(1), None, None],
    );
    let stores = event(&[Part::Write(0, 1), Part::Write(1, 1)], &[], (0, 9));
    let reads = |first, second, times| {
        event(
            &[Part::Read(0), Part::Read(1)],
            &[Some(first), Some(second)],
            times,
        )
    };
    for (first, second, fits) in [(0, 0, true), (1, 1, true), (1, 0, false), (0, 1, false)] {
        let events = [stores.clone(), reads(first, second, (1, 2))];
        assert_eq!(
            is_linearizable(&events, begin, end),
            fits,
            "{first}, {second}"
        );
    }
    // What one read has seen, a later one does not lose.
    let events = [stores.clone(), reads(1, 1, (1, 2)), reads(0, 0, (3, 4))];
    assert!(!is_linearizable(&events, begin, end));
    let events = [stores.clone(), reads(0, 0, (1, 2)), reads(1, 1, (3, 4))];
    assert!(is_linearizable(&events, begin, end));
    // A lost addition.
    let add = |sum, times| event(&[Part::Add(2, 1)], &[Some(sum)], times);
    let end = [Some(0), Some(0), Some(1), None];
    assert!(!is_linearizable(
        &[add(1, (0, 2)), add(1, (1, 3))],
        begin,
        end
    ));
    assert!(!is_linearizable(&[stores], begin, begin));
}
