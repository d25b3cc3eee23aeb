//! Probe: a server with very much in it, a client that asks for the worst, and one that only pings.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cellar_system::clock::Stopwatch;

use crate::support::daemon::{Daemon, frame, pattern};
use crate::support::vitals::{forget_peak, occupied_bytes, processor_time};
use crate::support::wait::{PATIENCE, wait_until};

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Keys of the cache.
    pub(crate) keys: usize,
    /// Arguments of a command.
    args: usize,
    /// Members of a collection.
    members: usize,
    /// Bytes of the long value.
    big_bytes: usize,
    /// Bytes of a value that is stored where the cache is full, and the memory of that cache.
    stored_bytes: usize,
    full_memory: &'static str,
    /// Longest time for which the pinging client may be kept waiting.
    pub(crate) gap_us_max: u64,
    /// Tries of which the quickest counts, as a busy machine makes others wait too.
    tries: usize,
}

impl Size {
    /// A short form, for builds that are not optimised and machines that are busy.
    pub(crate) const SHORT: Size = Size {
        keys: 100_000,
        args: 40_000,
        members: 30_000,
        big_bytes: 16 << 20,
        stored_bytes: 8 << 20,
        full_memory: "64MiB",
        gap_us_max: 250_000,
        tries: 3,
    };
    /// All of it.
    pub(crate) const FULL: Size = Size {
        keys: 1_000_000,
        args: 199_996,
        members: 170_000,
        big_bytes: 256 << 20,
        stored_bytes: 24 << 20,
        full_memory: "512MiB",
        gap_us_max: 10_000,
        tries: 3,
    };
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp,
    Memcached,
    Http,
}

/// What came of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Longest time for which the server kept the pinging client waiting: it waited so long, and
    /// the server computed so long meanwhile. What a busy machine gives to others does not count.
    pub(crate) gap_us: u64,
    took_us: u64,
    cpu_ms: u64,
    bytes: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1_000.0;
        write!(
            formatter,
            "held for {:9.2} ms, took {:9.2} ms, {:5} ms of CPU, {} bytes",
            ms(self.gap_us),
            ms(self.took_us),
            self.cpu_ms,
            self.bytes
        )
    }
}

/// Time in which a loop has noticed who is gone and has taken apart what it left.
const SETTLED: Duration = Duration::from_millis(150);

/// A server with one event loop, filled.
pub(crate) struct Bench {
    daemon: Daemon,
    size: Size,
    stop: Arc<AtomicBool>,
    gap_us: Arc<AtomicU64>,
}

/// Clients that read nothing, and how often each sends its request.
const UNREAD_CLIENTS: usize = 30;
const UNREAD_REQUESTS: usize = 2;

/// What is asked last on a connection, so that its answer shows the end.
const END: &[u8] = b"*2\r\n$4\r\nPING\r\n$7\r\nTHE-END\r\n";

fn frame_of(args: &[Vec<u8>]) -> Vec<u8> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    frame(&args)
}

/// A GET of a path, or the POST of what stands behind it.
fn http_request(words: &str) -> Vec<u8> {
    let (path, body) = words.split_once(' ').unwrap_or((words, ""));
    let all = |item: &dyn Fn(usize) -> String| (0..1_000).map(item).collect::<Vec<_>>().join(",");
    let content = "x".repeat(2_000);
    let body = match body {
        "{ids}" => format!(r#"{{"ids":[{}]}}"#, all(&|n| format!(r#""key:{n}""#))),
        "{escapes}" => {
            let content = "\\u0041".repeat(330);
            let message = |n| format!(r#"{{"id":"posted:{n}","content":"{content}"}}"#);
            format!(r#"{{"items":[{}]}}"#, all(&message))
        }
        "{escape}" => {
            let content = "\\u0041".repeat(340_000);
            format!(r#"{{"id":"posted","content":"{content}"}}"#)
        }
        "{messages}" => {
            let message = |n| format!(r#"{{"id":"posted:{n}","content":"{content}"}}"#);
            format!(r#"{{"items":[{}]}}"#, all(&message))
        }
        body => body.to_owned(),
    };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    format!("{method} {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// As long a script as may be sent.
fn program() -> String {
    let line = "local value = redis.call('GET', KEYS[1]) if value then return value end\n";
    let lines = (63 << 10) / (line.len() + 7);
    format!("do {line}end\n").repeat(lines)
}

/// A script of as many different strings as there is room for.
fn strings() -> String {
    let strings = (0..10_000).map(|at| format!("'{at:x}'"));
    format!("return {{{}}}", strings.collect::<Vec<_>>().join(","))
}

/// As many functions as a library may have.
fn library() -> String {
    let function = |at| format!("redis.register_function('f{at}', function() return {at} end)\n");
    let functions: String = (0..1_000).map(function).collect();
    format!("#!lua name=library\n{functions}")
}

/// The command that adds members all over the earth.
fn places(members: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let places = members.flat_map(|member| {
        let east = (member * 7_919 % 360_000) as f64 / 1_000.0 - 180.0;
        let north = (member * 104_729 % 160_000) as f64 / 1_000.0 - 80.0;
        [format!("{east}"), format!("{north}"), format!("m{member}")]
    });
    let command = ["GEOADD", "earth"].map(str::to_owned);
    command
        .into_iter()
        .chain(places)
        .map(String::into_bytes)
        .collect()
}

impl Bench {
    /// Starts and fills it.
    pub(crate) fn start(size: Size) -> Bench {
        let memory = if size.keys > 500_000 {
            "2GiB"
        } else {
            "512MiB"
        };
        let daemon = Daemon::spawn(&["--threads", "1", "--memory", memory]);
        let bench = Bench {
            daemon,
            size,
            stop: Arc::default(),
            gap_us: Arc::default(),
        };
        bench.fill();
        bench.ping();
        bench
    }

    /// Starts and fills one of which clients may hold little.
    pub(crate) fn start_small(memory: &str, client_memory: &str) -> Bench {
        let flags = ["--threads", "2", "--memory", memory];
        let more = [
            "--client-memory",
            client_memory,
            "--max-connections",
            "2000",
        ];
        let bench = Bench {
            daemon: Daemon::spawn(&[&flags[..], &more].concat()),
            size: Size::SHORT,
            stop: Arc::default(),
            gap_us: Arc::default(),
        };
        bench.fill();
        bench
    }

    /// Starts one and fills it until items leave.
    pub(crate) fn start_full(size: Size) -> Bench {
        let memory = ["--threads", "1", "--memory", size.full_memory];
        let daemon = Daemon::spawn(&[&memory[..], &["--max-value", "512MiB"]].concat());
        let bench = Bench {
            daemon,
            size,
            stop: Arc::default(),
            gap_us: Arc::default(),
        };
        bench.ping();
        bench
    }

    /// As [`Bench::run`], each time with a cache in which nothing is free, and what the probe needs
    /// stored anew.
    pub(crate) fn run_full(&mut self, words: &str) -> Outcome {
        let mut best: Option<Outcome> = None;
        for _ in 0..self.size.tries {
            self.prepare_full();
            let outcome = self.run_once(Protocol::Resp, words);
            best = match best {
                Some(best) if best.gap_us <= outcome.gap_us => Some(best),
                _ => Some(outcome),
            };
            if outcome.gap_us <= self.size.gap_us_max {
                break;
            }
        }
        best.unwrap()
    }

    fn prepare_full(&self) {
        let mut client = Asking(self.daemon.connect_resp());
        client.ask(&[b"DEL", b"made", b"other"]);
        if !client
            .ask(&[b"EXISTS", b"set", b"list", b"sorted"])
            .starts_with(b":3")
        {
            self.fill_collections(&mut client);
        }
        let before = client.evicted();
        for first in (0..).step_by(2_000) {
            let names: Vec<String> = (first..first + 2_000).map(|n| format!("{n}")).collect();
            let pairs = names.iter().flat_map(|name| [name.as_bytes(), &[b'v'; 20]]);
            client.ask(&[&b"MSET"[..]].into_iter().chain(pairs).collect::<Vec<_>>());
            if first % 50_000 == 0 && client.evicted() > before + 10_000 {
                break;
            }
        }
        // Their room is made of what is there, and they are too new to leave for it.
        client.ask(&[b"SET", b"source", &pattern(1, self.size.stored_bytes)]);
        client.ask(&[b"SET", b"long", &pattern(2, (4 << 20) - 1)]);
    }

    fn fill_collections(&self, client: &mut Asking) {
        client.ask(&[b"DEL", b"set", b"list", b"sorted"]);
        for first in (0..self.size.members).step_by(2_000) {
            let members: Vec<String> = (first..(first + 2_000).min(self.size.members))
                .map(|member| format!("member {member}"))
                .collect();
            let list = members.iter().map(|member| member.as_bytes());
            for head in [[&b"SADD"[..], b"set"], [b"RPUSH", b"list"]] {
                client.ask(&head.into_iter().chain(list.clone()).collect::<Vec<_>>());
            }
            let pairs = list.flat_map(|member| [&b"1"[..], member]);
            let head = [&b"ZADD"[..], b"sorted"];
            client.ask(&head.into_iter().chain(pairs).collect::<Vec<_>>());
        }
    }

    fn fill(&self) {
        let mut stream = self.daemon.connect_resp();
        let mut call = |args: Vec<Vec<u8>>| {
            stream.write_all(&frame_of(&args)).unwrap();
            stream.write_all(END).unwrap();
            read_to_end(&mut stream, b"$7\r\nTHE-END\r\n")
        };
        let text = |text: &str| text.as_bytes().to_vec();
        for first in (0..self.size.keys).step_by(2_000) {
            let keys = first..(first + 2_000).min(self.size.keys);
            let pairs = keys.flat_map(|key| [text(&format!("key:{key}")), text("v")]);
            call([text("MSET")].into_iter().chain(pairs).collect());
        }
        for first in (0..self.size.members).step_by(2_000) {
            let members = || {
                let all = first..(first + 2_000).min(self.size.members);
                all.map(|member| text(&format!("m{member}")))
            };
            let fields = members().flat_map(|member| [member, Vec::new()]);
            let swapped = members().flat_map(|member| [text("1"), member]);
            let elements = members();
            let others = members().map(|member| [member, text("x")].concat());
            call(places(first..(first + 2_000).min(self.size.members)));
            call(
                [text("SADD"), text("set")]
                    .into_iter()
                    .chain(members())
                    .collect(),
            );
            call(
                [text("SADD"), text("other")]
                    .into_iter()
                    .chain(others)
                    .collect(),
            );
            call(
                [text("HSET"), text("hash")]
                    .into_iter()
                    .chain(fields)
                    .collect(),
            );
            call(
                [text("RPUSH"), text("list")]
                    .into_iter()
                    .chain(elements)
                    .collect(),
            );
            call(
                [text("ZADD"), text("sorted")]
                    .into_iter()
                    .chain(swapped)
                    .collect(),
            );
        }
        for name in ["set", "hash", "sorted", "list", "earth"] {
            call(vec![
                text("COPY"),
                text(name),
                text(&format!("copy:{name}")),
            ]);
        }
        call(vec![
            text("SET"),
            text("big"),
            pattern(1, self.size.big_bytes),
        ]);
        call(vec![text("SET"), text("long"), pattern(2, (4 << 20) - 1)]);
        call(vec![text("SET"), text("one"), pattern(3, 4_094)]);
        call(vec![text("SET"), text("two"), pattern(4, 4_094)]);
    }

    /// Lets a client ping from now on.
    fn ping(&self) {
        let mut stream = self.daemon.connect_resp();
        let (stop, gap_us) = (Arc::clone(&self.stop), Arc::clone(&self.gap_us));
        let server = self.daemon.id();
        std::thread::spawn(move || {
            let mut answer = [0; 7];
            let mut before = processor_time(server);
            while !stop.load(Ordering::Relaxed) {
                let watch = Stopwatch::start();
                let asked = stream.write_all(b"PING\r\n");
                if asked.and_then(|()| stream.read_exact(&mut answer)).is_err() {
                    return;
                }
                let waited = Duration::from_micros(watch.us());
                let after = processor_time(server);
                let kept = waited.min(after.saturating_sub(before));
                before = after;
                gap_us.fetch_max(kept.as_micros() as u64, Ordering::Relaxed);
                // paced: a client that asks from time to time.
                std::thread::sleep(Duration::from_micros(200));
            }
        });
    }

    /// Asks, and tells how long the others waited; the best of some tries.
    pub(crate) fn run(&mut self, protocol: Protocol, words: &str) -> Outcome {
        self.best_of(|| self.run_once(protocol, words))
    }

    /// A new connection for the Redis protocol.
    pub(crate) fn client(&self) -> TcpStream {
        self.daemon.connect_resp()
    }

    /// A section of INFO.
    pub(crate) fn info(&self, section: &str) -> String {
        let mut client = crate::support::resp::Client::connect(&self.daemon);
        client.run(&format!("INFO {section}")).shown()
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.size.keys
    }

    /// As much of something as its size allows, of what there is of it in the full form.
    pub(crate) fn scaled(&self, full: usize) -> usize {
        full * self.size.args / Size::FULL.args
    }

    /// Does something, and tells how long the others waited until its consequences were over.
    pub(crate) fn watch(&self, act: impl FnOnce()) -> Outcome {
        // paced: what was prepared is over.
        std::thread::sleep(SETTLED);
        self.gap_us.store(0, Ordering::Relaxed);
        let before = processor_time(self.daemon.id());
        let watch = Stopwatch::start();
        act();
        let took_us = watch.us();
        // paced: what is measured goes on behind the answer.
        std::thread::sleep(SETTLED);
        Outcome {
            gap_us: self.gap_us.load(Ordering::Relaxed),
            took_us,
            cpu_ms: processor_time(self.daemon.id())
                .saturating_sub(before)
                .as_millis() as u64,
            bytes: 0,
        }
    }

    /// The best of some tries.
    pub(crate) fn best_of(&self, run: impl Fn() -> Outcome) -> Outcome {
        let mut best = run();
        for _ in 1..self.size.tries {
            if best.gap_us <= self.size.gap_us_max {
                break;
            }
            let again = run();
            if again.gap_us < best.gap_us {
                best = again;
            }
        }
        best
    }

    fn run_once(&self, protocol: Protocol, words: &str) -> Outcome {
        let mut stream = self.connect(protocol);
        let mut request = self.request(protocol, words);
        let end = match protocol {
            Protocol::Resp => {
                request.extend_from_slice(END);
                &b"$7\r\nTHE-END\r\n"[..]
            }
            Protocol::Memcached => {
                request.extend_from_slice(b"mn\r\n");
                b"MN\r\n"
            }
            Protocol::Http => b"",
        };
        let mut sender = stream.try_clone().unwrap();
        self.gap_us.store(0, Ordering::Relaxed);
        let before = processor_time(self.daemon.id());
        let watch = Stopwatch::start();
        let sending = std::thread::spawn(move || sender.write_all(&request));
        let bytes = read_to_end(&mut stream, end);
        let took_us = watch.us();
        sending.join().unwrap().unwrap();
        // paced: a ping that waits is counted when it is answered.
        std::thread::sleep(Duration::from_millis(2));
        Outcome {
            gap_us: self.gap_us.load(Ordering::Relaxed),
            took_us,
            cpu_ms: processor_time(self.daemon.id())
                .saturating_sub(before)
                .as_millis() as u64,
            bytes,
        }
    }

    fn connect(&self, protocol: Protocol) -> TcpStream {
        match protocol {
            Protocol::Resp => self.daemon.connect_resp(),
            Protocol::Memcached => self.daemon.connect(),
            Protocol::Http => self.daemon.connect_http(),
        }
    }

    /// The bytes of a probe.
    fn request(&self, protocol: Protocol, words: &str) -> Vec<u8> {
        match protocol {
            Protocol::Resp => {
                let frames = words.split(" ; ").map(|words| match words {
                    "{queue}" => self.queue(),
                    "{stores}" => Self::stores(),
                    words => frame_of(&self.expanded(words)),
                });
                frames.collect::<Vec<_>>().concat()
            }
            Protocol::Memcached => [&*self.expanded(words).join(&b' '), b"\r\n"].concat(),
            Protocol::Http => http_request(words),
        }
    }

    /// Sends a probe in the middle of a pipeline of so many bytes, all before anything is read, and
    /// then ends; whether all was taken and the connection came to its end.
    pub(crate) fn amid_pipeline(&self, protocol: Protocol, words: &str, bytes: usize) -> bool {
        let filler = match protocol {
            Protocol::Resp => frame(&[b"ECHO", &[b'e'; 1_000]]),
            _ => format!("mg {} k\r\n", "k".repeat(200)).into_bytes(),
        };
        let half = filler.repeat(bytes / 2 / filler.len());
        let mut stream = self.connect(protocol);
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let probe = self.request(protocol, words);
        for part in [&half, &probe, &half] {
            match stream.write_all(part) {
                // A command that ends the connection.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                _ => {}
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// Has many clients send a probe again and again and read nothing; most bytes of memory that
    /// the server has occupied meanwhile.
    pub(crate) fn unread(&self, protocol: Protocol, words: &str) -> usize {
        let server = self.daemon.id();
        forget_peak(server);
        let request = self.request(protocol, words);
        let clients: Vec<TcpStream> = (0..UNREAD_CLIENTS)
            .map(|_| self.connect(protocol))
            .collect();
        for stream in &clients {
            stream.set_nonblocking(true).unwrap();
        }
        let mut sent = vec![0; UNREAD_CLIENTS];
        let all = request.len() * UNREAD_REQUESTS;
        let mut before = Duration::ZERO;
        wait_until("nothing more is taken", || {
            let mut moved = 0;
            for (mut stream, sent) in clients.iter().zip(&mut sent) {
                let rest = &request[*sent % request.len()..];
                if *sent < all
                    && let Ok(bytes) = stream.write(rest)
                {
                    *sent += bytes;
                    moved += bytes;
                }
            }
            // paced: a server that has more to do uses a processor meanwhile.
            std::thread::sleep(Duration::from_millis(20));
            let after = processor_time(server);
            // A thread that has ended has no time any more.
            let spent = after.saturating_sub(std::mem::replace(&mut before, after));
            let is_busy = spent > Duration::from_millis(5);
            moved == 0 && !is_busy
        });
        occupied_bytes(server, "VmHWM")
    }

    /// The words of a probe, with what stands in braces made long.
    fn expanded(&self, words: &str) -> Vec<Vec<u8>> {
        let Size {
            keys,
            args,
            members,
            ..
        } = self.size;
        let many = |count: usize, name: &dyn Fn(usize) -> String| {
            (0..count).map(|place| name(place).into_bytes()).collect()
        };
        let list = |word: &str| -> Vec<Vec<u8>> {
            match word {
                "{keys}" => many(args, &|place| format!("key:{}", place % keys)),
                "{missing}" => many(args, &|place| format!("no:{place}")),
                "{keys9k}" => many(args.min(9_600), &|place| format!("key:{place}")),
                "{missing9k}" => many(args.min(9_600), &|place| format!("no:{place}")),
                "{fields8k}" => many(16_000, &|place| format!("m{}", place / 2 * 13)),
                "{members1k}" => many(1_024, &|place| format!("m{}", place * 7)),
                "{fields16k}" => many(16_000, &|place| format!("m{}", place * 7)),
                "{4k}" => many(4_000, &|place| format!("no:{place}")),
                "{pairs15k}" => many(args.min(15_800), &|place| format!("key:{place}")),
                "{program}" => vec![program().into_bytes()],
                "{strings}" => vec![strings().into_bytes()],
                "{library}" => vec![library().into_bytes()],
                "{missing16k}" => many(args.min(16_000), &|place| format!("no:{place}")),
                "{sketches}" => many(16_000, &|_| "sketch".to_owned()),
                "{lines}" => many(args.min(60_000), &|place| format!("key:{}", place % keys)),
                "{nolines}" => many(args.min(60_000), &|place| format!("no:{place}")),
                "{members}" => many(args, &|place| format!("m{}", place % (members + 1_000))),
                "{pairs}" => many(args / 2 * 2, &|place| format!("key:{}", place % keys)),
                "{fewpairs}" => many(16_000, &|place| format!("new:{place}")),
                "{ids}" => many(16_000, &|place| place.to_string()),
                "{gets}" => many(args, &|_| "get".to_owned()),
                "{names}" => many(args.min(7_000), &|place| format!("name:{place}")),
                "{patterns}" => many(args.min(4_095), &|place| format!("name:{place}")),
                "{waited}" => many(args.min(3_900), &|place| format!("wait:{place}")),
                "{prefixes}" => many(2 * args.min(1_500), &|place| match place % 2 {
                    0 => "PREFIX".to_owned(),
                    _ => format!("prefix:{place}:"),
                }),
                "{huge}" => vec![vec![b'x'; self.scaled(100 << 20)]],
                "{value}" => vec![pattern(6, self.size.stored_bytes)],
                "{manyvalues}" => {
                    let values = self.size.stored_bytes / 4_096;
                    let pair = |n| [format!("short:{n}").into_bytes(), vec![b'v'; 4_096]];
                    (0..values).flat_map(pair).collect()
                }
                "{argument}" => vec![vec![b'x'; 4 << 20]],
                "{scored4k}" => many(4_000, &|place| match place % 2 {
                    0 => format!("{place}.5"),
                    _ => format!("m{}", place * 41 % members),
                }),
                "{tenth}" => vec![(members / 10).to_string().into_bytes()],
                "{half}" => vec![(members / 2).to_string().into_bytes()],
                "{stars}" => many(256, &|_| "*a*b*c".to_owned()),
                word if word.starts_with("{dump:") => {
                    vec![self.dump(word[6..].trim_end_matches('}'))]
                }
                word => vec![word.as_bytes().to_vec()],
            }
        };
        words.split(' ').flat_map(list).collect()
    }

    /// As many short commands as a transaction takes.
    fn queue(&self) -> Vec<u8> {
        let keys = self.size.keys;
        let get = |at: usize| format!("key:{}", at.wrapping_mul(7_919) % keys);
        let gets = (0..self.size.args.min(12_000)).map(|at| frame(&[b"GET", get(at).as_bytes()]));
        gets.collect::<Vec<_>>().concat()
    }

    /// The same of commands that store keys that were not there.
    fn stores() -> Vec<u8> {
        static ROUND: AtomicU64 = AtomicU64::new(0);
        let round = ROUND.fetch_add(1, Ordering::Relaxed);
        let set = |at: usize| format!("stored:{round}:{at}");
        let sets = (0..12_000).map(|at| frame(&[b"SET", set(at).as_bytes(), b"v"]));
        sets.collect::<Vec<_>>().concat()
    }

    /// What DUMP answers for a key.
    fn dump(&self, key: &str) -> Vec<u8> {
        let mut dump = None;
        // The server may close a connection while those of the probe before hold all memory.
        wait_until("a key is dumped", || {
            dump = self.try_dump(key).ok();
            dump.is_some()
        });
        dump.unwrap()
    }

    fn try_dump(&self, key: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = self.daemon.connect_resp();
        stream.write_all(&frame(&[b"DUMP", key.as_bytes()]))?;
        let (mut length, mut byte) = (String::new(), [0]);
        while byte != [b'\n'] {
            stream.read_exact(&mut byte)?;
            length.extend(
                char::from(byte[0])
                    .to_digit(10)
                    .map(|digit| digit.to_string()),
            );
        }
        let mut dump = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut dump)?;
        Ok(dump)
    }
}

/// A client that reads each answer.
struct Asking(TcpStream);

impl Asking {
    fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.0.write_all(&frame(args)).unwrap();
        self.0.write_all(END).unwrap();
        let mut answer = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while !answer.ends_with(b"$7\r\nTHE-END\r\n") {
            let bytes = self.0.read(&mut buffer).unwrap();
            assert!(bytes > 0, "the connection was ended");
            answer.extend_from_slice(&buffer[..bytes]);
        }
        answer
    }

    fn evicted(&mut self) -> u64 {
        let answer = self.ask(&[b"INFO", b"stats"]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let count = text.split("evicted_keys:").nth(1);
        let count = count.and_then(|rest| rest.split('\r').next());
        count.unwrap().parse().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Reads until `end` comes, or the end of the connection; how many bytes that were.
pub(crate) fn read_to_end(stream: &mut TcpStream, end: &[u8]) -> usize {
    let mut buffer = vec![0; 1 << 20];
    let (mut tail, mut total) = (Vec::new(), 0);
    loop {
        let bytes = stream.read(&mut buffer).unwrap();
        if bytes == 0 {
            assert!(end.is_empty(), "the connection was ended");
            return total;
        }
        total += bytes;
        tail.extend_from_slice(&buffer[bytes.saturating_sub(end.len())..bytes]);
        tail.drain(..tail.len().saturating_sub(end.len()));
        if !end.is_empty() && tail == end {
            return total;
        }
    }
}
