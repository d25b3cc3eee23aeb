//! Writer: a client without a cache that sets keys, over Redis's protocol or memcached's.
//!
//! It waits for its answer far longer than any server is stopped: a write that is given up may
//! happen after the next one. Not without end: an answer that never comes is told as such.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::RwLock;

use crate::servers::Server;

/// How long an answer is waited for.
const WAIT: Duration = Duration::from_secs(20);

/// Why a request was not answered as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The connection has ended, or the server refused.
    Ended,
    /// Neither an answer came nor the connection's end: a server must not do that.
    Silent,
}

/// A connection.
pub(crate) enum Writer {
    Resp(MultiplexedConnection),
    Text(TcpStream),
}

impl Writer {
    /// A connection to the server of the moment, if it answers.
    pub(crate) async fn open(server: &RwLock<Server>) -> Option<Writer> {
        let (address, is_text) = {
            let server = server.read().await;
            (server.address(), server.speaks_text_alone())
        };
        if is_text {
            let opened = within_wait(TcpStream::connect(address)).await?;
            return opened.ok().map(Writer::Text);
        }
        connect(&address).await.map(Writer::Resp)
    }

    /// Sets a key.
    pub(crate) async fn set(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        match self {
            Writer::Resp(_) => self.run(&["SET", name, value]).await,
            Writer::Text(_) => {
                let request = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
                self.speak(&request, b"STORED\r\n").await
            }
        }
    }

    /// Removes everything.
    pub(crate) async fn flush(&mut self) -> Result<(), Failed> {
        match self {
            Writer::Resp(_) => self.run(&["FLUSHALL"]).await,
            Writer::Text(_) => self.speak("flush_all\r\n", b"OK\r\n").await,
        }
    }

    /// Ends the connections of all others, where that can be asked for.
    pub(crate) async fn kill_others(&mut self) -> Result<(), Failed> {
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        self.run(&kill).await
    }

    async fn run(&mut self, words: &[&str]) -> Result<(), Failed> {
        let Writer::Resp(connection) = self else {
            return Err(Failed::Ended);
        };
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let ran: redis::RedisResult<redis::Value> = command.query_async(connection).await;
        ran.map(drop).map_err(|error| match error.is_timeout() {
            true => Failed::Silent,
            false => Failed::Ended,
        })
    }

    async fn speak(&mut self, request: &str, expected: &[u8]) -> Result<(), Failed> {
        let Writer::Text(stream) = self else {
            return Err(Failed::Ended);
        };
        let mut answer = vec![0; expected.len()];
        let speaking = async {
            stream.write_all(request.as_bytes()).await?;
            stream.read_exact(&mut answer).await
        };
        let spoken = within_wait(speaking).await.ok_or(Failed::Silent)?;
        spoken.map_err(|_| Failed::Ended)?;
        (answer == expected).then_some(()).ok_or(Failed::Ended)
    }
}

/// A patient connection over Redis's protocol, if somebody answers.
pub(crate) async fn connect(address: &str) -> Option<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://{address}")).unwrap();
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(WAIT))
        .set_response_timeout(Some(WAIT));
    let opening = client.get_multiplexed_async_connection_with_config(&config);
    opening.await.ok()
}

async fn within_wait<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(WAIT, what).await.ok()
}
