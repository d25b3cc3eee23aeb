//! Fake: a server of RESP3 whose answers the test sends itself, byte by byte if it likes.
//!
//! What a connection begins with (HELLO, CLIENT, SELECT) and PING it answers by itself. A GET or
//! PTTL is answered from a table, unless the test holds questions: then it gets them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::subject::{PATIENCE, name_of};

type Command = Vec<Vec<u8>>;

/// What the table has of a key.
#[derive(Clone)]
struct Row {
    value: String,
    ttl_ms: i64,
}

#[derive(Default)]
struct State {
    rows: Mutex<HashMap<String, Row>>,
    peers: Mutex<Vec<Peer>>,
    holds: AtomicBool,
    deaf: AtomicBool,
}

/// The server.
pub(crate) struct Fake {
    address: String,
    state: Arc<State>,
    questions: tokio::sync::Mutex<mpsc::UnboundedReceiver<Question>>,
}

/// The writing side of one connection.
#[derive(Clone)]
pub(crate) struct Peer {
    writer: Arc<tokio::sync::Mutex<Option<OwnedWriteHalf>>>,
}

/// A command that waits for the test.
pub(crate) struct Question {
    pub(crate) command: Command,
    pub(crate) peer: Peer,
}

impl Fake {
    /// A server without keys.
    pub(crate) async fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::<State>::default();
        let (sender, questions) = mpsc::unbounded_channel();
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&accepting), sender.clone()));
            }
        });
        Fake {
            address,
            state,
            questions: tokio::sync::Mutex::new(questions),
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Puts a value into the table; nobody is told.
    pub(crate) fn put(&self, key: &str, value: &str) {
        self.put_for(key, value, -1);
    }

    /// The same with a time to live, which only PTTL knows of.
    pub(crate) fn put_for(&self, key: &str, value: &str, ttl_ms: i64) {
        let row = Row {
            value: value.to_owned(),
            ttl_ms,
        };
        self.state.rows.lock().unwrap().insert(name_of(key), row);
    }

    /// Hands questions to the test from here on.
    pub(crate) fn hold(&self) {
        self.state.holds.store(true, Ordering::SeqCst);
    }

    /// Answers from the table again.
    pub(crate) fn release(&self) {
        self.state.holds.store(false, Ordering::SeqCst);
    }

    /// Answers nothing at all any more on the connections that there are.
    pub(crate) fn go_deaf(&self) {
        self.state.deaf.store(true, Ordering::SeqCst);
        self.state.peers.lock().unwrap().clear();
    }

    /// Answers new connections, while those from before stay open and silent.
    pub(crate) fn hear_new_ones(&self) {
        self.state.deaf.store(false, Ordering::SeqCst);
    }

    /// The commands that ask for `keys`, with what the client asks beside them.
    pub(crate) async fn question(&self, keys: &[&str]) -> Result<Vec<Question>, String> {
        let mut missing: Vec<String> = keys.iter().map(|key| name_of(key)).collect();
        let mut commands = Vec::new();
        let mut questions = self.questions.lock().await;
        while !missing.is_empty() {
            let next = tokio::time::timeout(PATIENCE, questions.recv()).await;
            let next = next.map_err(|_| format!("nobody asks for {missing:?}"))?;
            let next = next.expect("the server lives");
            if !is_called(&next.command, "PTTL") {
                missing.retain(|name| !next.names(name));
            }
            commands.push(next);
        }
        // What comes with the last one has been sent in the same breath.
        let breath = Duration::from_millis(20);
        while let Ok(Some(next)) = tokio::time::timeout(breath, questions.recv()).await {
            commands.push(next);
        }
        Ok(commands)
    }

    /// The bytes that answer these commands from the table.
    pub(crate) fn answers(&self, commands: &[Question]) -> Vec<Vec<u8>> {
        let rows = self.state.rows.lock().unwrap();
        commands
            .iter()
            .map(|question| answer(&question.command, &rows))
            .collect()
    }

    /// Sends bytes to all connections.
    pub(crate) async fn send_all(&self, bytes: &[u8]) {
        let peers = self.state.peers.lock().unwrap().clone();
        for peer in peers {
            peer.send(bytes).await;
        }
    }

    /// Closes all connections.
    pub(crate) async fn close_all(&self) {
        let peers = std::mem::take(&mut *self.state.peers.lock().unwrap());
        for peer in peers {
            peer.close().await;
        }
    }
}

impl Question {
    /// Whether it asks for this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.command[1..]
            .iter()
            .any(|known| known == name.as_bytes())
    }
}

impl Peer {
    /// Sends bytes in one go.
    pub(crate) async fn send(&self, bytes: &[u8]) {
        if let Some(writer) = &mut *self.writer.lock().await {
            // The client may have gone.
            let _ = writer.write_all(bytes).await;
        }
    }

    /// Sends bytes one by one.
    pub(crate) async fn trickle(&self, bytes: &[u8]) {
        for byte in bytes {
            self.send(std::slice::from_ref(byte)).await;
            tokio::task::yield_now().await;
        }
    }

    /// Closes the connection.
    pub(crate) async fn close(&self) {
        if let Some(mut writer) = self.writer.lock().await.take() {
            let _ = writer.shutdown().await;
        }
    }
}

/// The push that says that keys have changed.
pub(crate) fn push(keys: &[&str]) -> Vec<u8> {
    let mut bytes = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    for key in keys.iter().map(|key| name_of(key)) {
        bytes.push_str(&format!("${}\r\n{key}\r\n", key.len()));
    }
    bytes.into_bytes()
}

/// The push that says that everything has changed.
pub(crate) fn push_null() -> Vec<u8> {
    b">2\r\n$10\r\ninvalidate\r\n_\r\n".to_vec()
}

async fn serve(stream: TcpStream, state: Arc<State>, sender: mpsc::UnboundedSender<Question>) {
    stream.set_nodelay(true).unwrap();
    let (mut reader, writer) = stream.into_split();
    let peer = Peer {
        writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
    };
    if !state.deaf.load(Ordering::SeqCst) {
        state.peers.lock().unwrap().push(peer.clone());
    }
    let mut received = Vec::new();
    while let Some(command) = next_command(&mut reader, &mut received).await {
        // Deaf to this one: it is not among the peers any more.
        let known = state
            .peers
            .lock()
            .unwrap()
            .iter()
            .any(|known| known.is(&peer));
        if !known {
            continue;
        }
        let is_data = ["GET", "MGET", "PTTL"]
            .iter()
            .any(|name| is_called(&command, name));
        if is_data && state.holds.load(Ordering::SeqCst) {
            let peer = peer.clone();
            let _ = sender.send(Question { command, peer });
            continue;
        }
        let bytes = answer(&command, &state.rows.lock().unwrap());
        peer.send(&bytes).await;
    }
    peer.close().await;
}

impl Peer {
    fn is(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.writer, &other.writer)
    }
}

fn is_called(command: &Command, name: &str) -> bool {
    command[0].eq_ignore_ascii_case(name.as_bytes())
}

fn answer(command: &Command, rows: &HashMap<String, Row>) -> Vec<u8> {
    let row = |name: &Vec<u8>| rows.get(&String::from_utf8_lossy(name).into_owned());
    let value = |name| match row(name) {
        Some(row) => format!("${}\r\n{}\r\n", row.value.len(), row.value),
        None => "_\r\n".to_owned(),
    };
    let text = match command[0].to_ascii_uppercase().as_slice() {
        b"HELLO" => "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n\
            $5\r\nproto\r\n:3\r\n"
            .to_owned(),
        b"PING" => "+PONG\r\n".to_owned(),
        b"GET" => value(&command[1]),
        b"MGET" => {
            let values: String = command[1..].iter().map(value).collect();
            format!("*{}\r\n{values}", command.len() - 1)
        }
        b"PTTL" => format!(":{}\r\n", row(&command[1]).map_or(-2, |row| row.ttl_ms)),
        _ => "+OK\r\n".to_owned(),
    };
    text.into_bytes()
}

/// Reads one command, an array of bulk strings.
async fn next_command(reader: &mut OwnedReadHalf, received: &mut Vec<u8>) -> Option<Command> {
    loop {
        if let Some((command, used)) = parse(received) {
            received.drain(..used);
            return Some(command);
        }
        let mut buffer = [0; 4096];
        let bytes = reader
            .read(&mut buffer)
            .await
            .ok()
            .filter(|&bytes| bytes > 0)?;
        received.extend_from_slice(&buffer[..bytes]);
    }
}

fn parse(received: &[u8]) -> Option<(Command, usize)> {
    let (count, mut at) = number_line(received, 0, b'*')?;
    let mut command = Vec::new();
    for _ in 0..count {
        let (bytes, start) = number_line(received, at, b'$')?;
        at = start + bytes + 2;
        received.get(..at)?;
        command.push(received[start..start + bytes].to_vec());
    }
    Some((command, at))
}

/// The number behind `mark` at `at`, and where the next line begins.
fn number_line(received: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let rest = received.get(at..)?.strip_prefix(&[mark])?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, at + 1 + end + 2))
}
