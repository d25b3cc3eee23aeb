//! Writer: a client without a cache that sets keys, over Redis's protocol or memcached's.
//!
//! It waits for its answer far longer than any server is stopped: a write that is given up may
//! happen after the next one. Not without end: a driver may lose a request when its connection is
//! killed.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::RwLock;

use crate::servers::Server;

/// How long an answer is waited for.
const WAIT: Duration = Duration::from_secs(5);

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
            return TcpStream::connect(address).await.ok().map(Writer::Text);
        }
        let client = redis::Client::open(format!("redis://{address}")).unwrap();
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(WAIT))
            .set_response_timeout(Some(WAIT));
        let opening = client.get_multiplexed_async_connection_with_config(&config);
        opening.await.ok().map(Writer::Resp)
    }

    /// Sets a key.
    pub(crate) async fn set(&mut self, name: &str, value: &str) -> Result<(), ()> {
        match self {
            Writer::Resp(_) => self.run(&["SET", name, value]).await,
            Writer::Text(_) => {
                let request = format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
                self.speak(&request, b"STORED\r\n").await
            }
        }
    }

    /// Removes everything.
    pub(crate) async fn flush(&mut self) -> Result<(), ()> {
        match self {
            Writer::Resp(_) => self.run(&["FLUSHALL"]).await,
            Writer::Text(_) => self.speak("flush_all\r\n", b"OK\r\n").await,
        }
    }

    /// Ends the connections of all others, where that can be asked for.
    pub(crate) async fn kill_others(&mut self) -> Result<(), ()> {
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        self.run(&kill).await
    }

    async fn run(&mut self, words: &[&str]) -> Result<(), ()> {
        let Writer::Resp(connection) = self else {
            return Err(());
        };
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let ran: redis::RedisResult<redis::Value> = command.query_async(connection).await;
        ran.map(drop).map_err(drop)
    }

    async fn speak(&mut self, request: &str, expected: &[u8]) -> Result<(), ()> {
        let Writer::Text(stream) = self else {
            return Err(());
        };
        stream.write_all(request.as_bytes()).await.map_err(drop)?;
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).await.map_err(drop)?;
        (answer == expected).then_some(()).ok_or(())
    }
}
