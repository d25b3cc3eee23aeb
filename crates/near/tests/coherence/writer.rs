//! Writer: a client without a cache that sets keys, over Redis's protocol or memcached's.
//!
//! It waits for its answer far longer than any server is stopped: a write that is given up may
//! happen after the next one. Not without end: an answer that never comes is told as such. So that
//! it is the server that is silent then, no client library stands between: a request that is handed
//! to one while its connection ends can be lost there.

use std::fmt::Write;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::RwLock;

use crate::servers::Server;

/// How long it may take until a cluster's other nodes serve all slots; one of them may be stopped
/// until they do, on a busy machine far longer than its lease.
pub(crate) const HEALING: Duration = Duration::from_secs(120);
/// How long an answer is waited for.
const WAIT: Duration = HEALING.saturating_add(Duration::from_secs(60));

/// Why a request was not answered as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The connection has ended, or the server refused.
    Ended,
    /// Neither an answer came nor the connection's end: a server must not do that.
    Silent,
}

/// A connection.
pub(crate) struct Writer {
    stream: BufReader<TcpStream>,
    speaks_text: bool,
}

impl Writer {
    /// A connection to the server of the moment, if it can be reached.
    pub(crate) async fn open(server: &RwLock<Server>) -> Option<Writer> {
        let (address, speaks_text) = {
            let server = server.read().await;
            (server.address(), server.speaks_text_alone())
        };
        Writer::connect(&address, speaks_text).await
    }

    /// A connection over Redis's protocol.
    pub(crate) async fn open_at(address: &str) -> Option<Writer> {
        Writer::connect(address, false).await
    }

    async fn connect(address: &str, speaks_text: bool) -> Option<Writer> {
        let stream = within_wait(TcpStream::connect(address)).await?.ok()?;
        Some(Writer {
            stream: BufReader::new(stream),
            speaks_text,
        })
    }

    /// Sets a key; what the server says if it does not.
    pub(crate) async fn try_set(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let answer = match self.speaks_text {
            true => {
                let request = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
                self.speak(&request).await?
            }
            false => self.ask(&["SET", name, value]).await?,
        };
        match answer.as_str() {
            "STORED" | "+OK" => Ok(()),
            _ => Err(Refused::Says(answer)),
        }
    }

    /// The same where it makes no difference why a server refuses.
    pub(crate) async fn set(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        self.try_set(name, value)
            .await
            .map_err(|refused| refused.failed())
    }

    /// Removes everything.
    pub(crate) async fn flush(&mut self) -> Result<(), Failed> {
        let answer = match self.speaks_text {
            true => self.speak("flush_all\r\n").await?,
            false => self.ask(&["FLUSHALL"]).await?,
        };
        let is_done = answer.trim_start_matches('+') == "OK";
        is_done.then_some(()).ok_or(Failed::Ended)
    }

    /// Ends the connections of all others, where that can be asked for.
    pub(crate) async fn kill_others(&mut self) -> Result<(), Failed> {
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        let answer = self.ask(&kill).await?;
        answer.starts_with(':').then_some(()).ok_or(Failed::Ended)
    }

    /// Sends a command over Redis's protocol; the reply's first line.
    async fn ask(&mut self, words: &[&str]) -> Result<String, Failed> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            write!(request, "${}\r\n{word}\r\n", word.len()).expect("memory is there");
        }
        self.speak(&request).await
    }

    /// Sends a request; the answer's first line, without its end.
    async fn speak(&mut self, request: &str) -> Result<String, Failed> {
        let mut line = String::new();
        let speaking = async {
            self.stream.write_all(request.as_bytes()).await?;
            self.stream.read_line(&mut line).await
        };
        let spoken = within_wait(speaking).await.ok_or(Failed::Silent)?;
        spoken.map_err(|_| Failed::Ended)?;
        let whole = line.strip_suffix("\r\n").ok_or(Failed::Ended)?;
        Ok(whole.to_owned())
    }
}

/// Why a key was not set.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The server says so.
    Says(String),
    /// There was no answer.
    Failed(Failed),
}

impl Refused {
    fn failed(self) -> Failed {
        match self {
            Refused::Says(_) => Failed::Ended,
            Refused::Failed(failed) => failed,
        }
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Refused {
        Refused::Failed(failed)
    }
}

async fn within_wait<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(WAIT, what).await.ok()
}
