//! Resp: a client of the Redis protocol for tests; replies become [`Value`]s.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use cellar_system::clock::Stopwatch;

use super::daemon::{Daemon, frame};
use super::wait::wait_until;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Double(String),
    Boolean(bool),
    Verbatim(String),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
}

impl Value {
    /// As one line: `:1`, `+OK`, `-ERR text`, `value`, `nil`, `[a, [b, :2]]`.
    pub(crate) fn shown(&self) -> String {
        let list = |values: &[Value]| {
            let values: Vec<String> = values.iter().map(Value::shown).collect();
            format!("[{}]", values.join(", "))
        };
        match self {
            Value::Simple(text) => format!("+{text}"),
            Value::Error(text) => format!("-{text}"),
            Value::Integer(number) => format!(":{number}"),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Verbatim(text) => text.clone(),
            Value::Null => "nil".to_owned(),
            Value::Double(text) => format!(",{text}"),
            Value::Boolean(yes) => format!("#{yes}"),
            Value::Array(values) | Value::Set(values) | Value::Push(values) => list(values),
            Value::Map(pairs) => {
                let pairs = pairs
                    .iter()
                    .flat_map(|(key, value)| [key.clone(), value.clone()]);
                list(&pairs.collect::<Vec<_>>())
            }
        }
    }
}

/// A bulk string.
pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// An array of bulk strings.
pub(crate) fn bulks(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| bulk(text)).collect())
}

/// The status OK.
pub(crate) fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

/// An error with this text.
pub(crate) fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

/// An array of integers.
pub(crate) fn integers(numbers: &[i64]) -> Value {
    let integers = numbers.iter().map(|&number| Value::Integer(number));
    Value::Array(integers.collect())
}

/// A reply, or the one that was expected if it tells what is left of a time that began no longer
/// ago than `late_us`.
fn in_time(command: &str, reply: Value, expected: &Value, late_us: u64) -> Value {
    if !(command.starts_with("TTL ") || command.starts_with("HTTL ")) {
        return reply;
    }
    let late_ms = i64::try_from(late_us.div_ceil(1_000)).unwrap();
    let fits = |pair: (&Value, &Value)| match pair {
        (Value::Integer(left), Value::Integer(expected)) if *expected > 0 => {
            // Rounded as the server rounds.
            let least = (expected * 1_000 - late_ms + 500) / 1_000;
            (least..=*expected).contains(left)
        }
        (left, expected) => left == expected,
    };
    let is_in_time = match (&reply, expected) {
        (Value::Array(left), Value::Array(expected)) => {
            left.len() == expected.len() && left.iter().zip(expected).all(fits)
        }
        one => fits(one),
    };
    if is_in_time { expected.clone() } else { reply }
}

/// Runs commands and compares each with its reply.
pub(crate) fn check(client: &mut Client, steps: &[(&str, Value)]) {
    for (command, expected) in steps {
        let reply = client.run(command);
        let reply = in_time(command, reply, expected, client.connected.us());
        assert_eq!(&reply, expected, "{command}");
    }
}

/// Sends lines to a server of their own and compares the replies; see [`Client::check`].
pub(crate) fn check_alone(lines: &str) {
    let daemon = Daemon::start(&[]);
    Client::connect(&daemon).check(lines);
}

/// Waits until the server runs a command of this name, as CLIENT LIST tells on the event loop with
/// the fewest connections.
pub(crate) fn wait_for_command(daemon: &Daemon, name: &str) {
    let mut observer = Client::connect(daemon);
    let at_it = format!(" cmd={name} ");
    let is_at_it = || observer.run("CLIENT LIST").shown().contains(&at_it);
    wait_until(|| format!("a client runs {name}"), is_at_it);
}

/// A connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    /// Since it was connected: no time that it began itself began before.
    connected: Stopwatch,
}

impl Client {
    /// Connects to a server's RESP port.
    pub(crate) fn connect(daemon: &Daemon) -> Client {
        Client {
            reader: BufReader::new(daemon.connect_resp()),
            connected: Stopwatch::start(),
        }
    }

    /// Sends words, which are separated by single spaces, and reads the reply.
    pub(crate) fn run(&mut self, words: &str) -> Value {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.call(&args)
    }

    /// Sends the commands of some lines and compares the replies, which stand behind ` => `.
    pub(crate) fn check(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (words, expected) = line.split_once(" => ").unwrap();
            let mut reply = self.run(words);
            if let Some(seconds) = expected
                .strip_prefix(':')
                .and_then(|text| text.parse().ok())
            {
                let expected = Value::Integer(seconds);
                reply = in_time(words, reply, &expected, self.connected.us());
            }
            assert_eq!(reply.shown(), expected, "{words}");
        }
    }

    /// Sends a command and reads the reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Value {
        self.send(args);
        self.read()
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, args: &[&[u8]]) {
        self.send_raw(&frame(args));
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Whether the server has closed the connection; waits for bytes or the end.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.reader.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether the server has closed the connection by now; nothing is waited for.
    pub(crate) fn has_been_closed(&mut self) -> bool {
        self.reader.get_ref().set_nonblocking(true).unwrap();
        let is_closed = self.is_closed();
        self.reader.get_ref().set_nonblocking(false).unwrap();
        is_closed
    }

    /// Reads a reply if the beginning of one has come.
    pub(crate) fn try_read(&mut self) -> Option<Value> {
        let stream = self.reader.get_ref();
        stream.set_nonblocking(true).unwrap();
        let has_come = self.reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.reader.get_ref().set_nonblocking(false).unwrap();
        has_come.then(|| self.read())
    }

    /// Its connection, if no reply was read in part.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.reader.into_inner()
    }

    /// Throws away what has come.
    pub(crate) fn skip(&mut self) {
        let bytes = self.reader.fill_buf().map_or(0, <[u8]>::len);
        self.reader.consume(bytes);
    }

    /// Reads one reply or push.
    pub(crate) fn read(&mut self) -> Value {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let length = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(length()),
            "," => Value::Double(rest.to_owned()),
            "#" => Value::Boolean(rest == "t"),
            "_" => Value::Null,
            "$" if length() < 0 => Value::Null,
            "*" if length() < 0 => Value::Null,
            "$" => Value::Bulk(self.bytes(length())),
            "=" => {
                let text = self.bytes(length());
                Value::Verbatim(String::from_utf8(text[4..].to_vec()).unwrap())
            }
            "*" => Value::Array(self.values(length())),
            "~" => Value::Set(self.values(length())),
            ">" => Value::Push(self.values(length())),
            "%" => {
                let pairs = (0..length()).map(|_| (self.read(), self.read()));
                Value::Map(pairs.collect())
            }
            other => panic!("no reply begins with {other:?}: {line:?}"),
        }
    }

    fn values(&mut self, count: i64) -> Vec<Value> {
        (0..count).map(|_| self.read()).collect()
    }

    fn bytes(&mut self, length: i64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(bytes.len() - 2);
        bytes
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the connection ended: {line:?}");
        line.truncate(line.len() - 2);
        line
    }
}
