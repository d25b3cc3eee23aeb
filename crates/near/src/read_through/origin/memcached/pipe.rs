//! One connection, shared: requests go out as they come, replies come back in the same order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::wire::{self, Reply};
use crate::read_through::error::Error;

/// Requests that wait to be sent, before senders have to wait.
const QUEUE_MAX: usize = 1024;
/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Numbers of connections, so that versions are only compared on the connection that reported them.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

type Answered = oneshot::Sender<Result<Reply, Error>>;

/// A connection; it is never repaired.
pub(super) struct Pipe {
    number: u64,
    requests: mpsc::Sender<(Vec<u8>, Answered)>,
    /// Tells its task to end.
    end: Arc<Notify>,
    /// Whether it was abandoned: its task may run a moment longer.
    // Relaxed: a late reader gets an error from the pipe.
    lost: AtomicBool,
}

impl Pipe {
    /// Begins to send and to read on an open connection.
    pub(super) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Arc<Pipe> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let end = Arc::new(Notify::new());
        tokio::spawn(run(reader, writer, queue, Arc::clone(&end)));
        Arc::new(Pipe {
            // Relaxed: only the difference from all others matters.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            requests,
            end,
            lost: AtomicBool::new(false),
        })
    }

    /// Its number; no other connection of this process has it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it has ended.
    pub(super) fn is_lost(&self) -> bool {
        // Relaxed: a late reader gets an error from the pipe.
        self.lost.load(Ordering::Relaxed) || self.requests.is_closed()
    }

    /// Ends it, for everybody.
    fn give_up(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }

    /// Sends a request and waits for its reply.
    ///
    /// A connection that does not answer in time is abandoned, with all requests that wait for it:
    /// the server is gone, or so slow that a new connection will not be slower.
    pub(super) async fn ask(&self, request: Vec<u8>, limit: Duration) -> Result<Reply, Error> {
        let asked = async {
            let (sender, answer) = oneshot::channel();
            let ended = || {
                self.give_up();
                Error::connection("it has ended")
            };
            self.requests
                .send((request, sender))
                .await
                .map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        };
        match timeout(limit, asked).await {
            Ok(result) => result,
            Err(_) => {
                self.give_up();
                Err(Error::Timeout(limit))
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Sends and reads until the connection ends or is abandoned; then no request waits for it.
///
/// Both are one task, and the queue is emptied after it is closed: a request queued at that moment
/// would otherwise wait for its timeout.
async fn run(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<(Vec<u8>, Answered)>,
    end: Arc<Notify>,
) {
    let (sent, waiting) = mpsc::channel(QUEUE_MAX);
    {
        let mut writing = pin!(write(writer, &mut queue, sent));
        let mut reading = pin!(read(reader, waiting));
        let mut ended = pin!(end.notified());
        poll_fn(|context| {
            let is_over = writing.as_mut().poll(context).is_ready()
                || reading.as_mut().poll(context).is_ready()
                || ended.as_mut().poll(context).is_ready();
            if is_over {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
    queue.close();
    while queue.recv().await.is_some() {}
}

/// Sends the queued requests, as many at once as there are.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    queue: &mut mpsc::Receiver<(Vec<u8>, Answered)>,
    sent: mpsc::Sender<Answered>,
) {
    let mut batch = Vec::new();
    let mut bytes = Vec::new();
    while queue.recv_many(&mut batch, QUEUE_MAX).await > 0 {
        let mut answered = VecDeque::with_capacity(batch.len());
        for (request, sender) in batch.drain(..) {
            bytes.extend_from_slice(&request);
            answered.push_back(sender);
        }
        // The reader has to know the waiting request before the reply can arrive.
        for sender in answered {
            if sent.send(sender).await.is_err() {
                return;
            }
        }
        // The flush is for TLS, which holds bytes back.
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        bytes.clear();
    }
}

/// Delivers replies to the waiting requests, in order, until the connection ends.
async fn read(mut reader: impl AsyncRead + Unpin, mut waiting: mpsc::Receiver<Answered>) {
    let mut received = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        loop {
            match wire::read(&mut received) {
                Ok(None) => break,
                Ok(Some(reply)) => {
                    let Some(sender) = waiting.recv().await else {
                        return;
                    };
                    // Err means that no caller waits any more.
                    drop(sender.send(Ok(reply)));
                }
                Err(error) => {
                    if let Some(sender) = waiting.recv().await {
                        drop(sender.send(Err(error)));
                    }
                    return;
                }
            }
        }
        match reader.read(&mut buffer).await {
            Ok(bytes) if bytes > 0 => received.extend_from_slice(&buffer[..bytes]),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a question may wait; none does.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Answers the requests of so many reads, then closes the connection.
    async fn answer(mut far: tokio::io::DuplexStream, reads: usize) {
        let mut buffer = [0; 256];
        for _ in 0..reads {
            let read = far.read(&mut buffer).await.unwrap();
            let asked = buffer[..read].iter().filter(|byte| **byte == b'\n').count();
            far.write_all(&b"HD\r\n".repeat(asked)).await.unwrap();
        }
    }

    async fn ask_until_an_error(pipe: Arc<Pipe>) -> Error {
        loop {
            if let Err(error) = pipe.ask(b"mn\r\n".to_vec(), LIMIT).await {
                return error;
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn who_asks_while_the_connection_ends_is_told_at_once() {
        for round in 0..5_000 {
            let (near, far) = tokio::io::duplex(64 << 10);
            let (reader, writer) = tokio::io::split(near);
            let pipe = Pipe::start(reader, writer);
            let asking: Vec<_> = (0..4)
                .map(|_| tokio::spawn(ask_until_an_error(Arc::clone(&pipe))))
                .collect();
            tokio::spawn(answer(far, round % 8));
            for asked in asking {
                let error = asked.await.unwrap();
                assert!(
                    !matches!(error, Error::Timeout(_)),
                    "{error:?}, round {round}"
                );
            }
            assert!(pipe.is_lost());
        }
    }
}
