//! Fetch: reads status and history of a server over HTTP, with one connection per request.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cellar_config::dial::{PATIENCE, PeerStream, connect, encrypt};
use cellar_config::settings::top::{Target, TopOptions};
use cellar_execute::http::pages::status::Status;
use memchr::memmem;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Bytes of a reply at most.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Reads the status of a server.
///
/// # Errors
/// Why the request fails, in one line.
pub fn fetch(options: &TopOptions) -> Result<Status, String> {
    ask(options, "/v1/console/status")
}

/// Recent requests per second, one number per interval, the latest last; empty if the server does
/// not answer.
#[must_use]
pub fn remembered(options: &TopOptions) -> Vec<u64> {
    ask(options, "/v1/console/history").map_or_else(
        |_| Vec::new(),
        |remembered: TopHistory| remembered.requests(options.interval_ms),
    )
}

/// The part of the history that is shown.
#[derive(Debug, Deserialize)]
struct TopHistory {
    step_ms: u64,
    columns: TopHistoryColumns,
}

#[derive(Debug, Deserialize)]
struct TopHistoryColumns {
    requests: Vec<Option<f64>>,
}

impl TopHistory {
    fn requests(&self, interval_ms: u64) -> Vec<u64> {
        let steps = (interval_ms / self.step_ms.max(1)).max(1);
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        let mean =
            |rows: &[Option<f64>]| rows.iter().flatten().sum::<f64>() / rows.len().max(1) as f64;
        self.columns
            .requests
            .rchunks_exact(steps)
            .map(|rows| mean(rows) as u64)
            .rev()
            .collect()
    }
}

/// The reply of a server to a path.
fn ask<T: DeserializeOwned>(options: &TopOptions, path: &str) -> Result<T, String> {
    let (mut dial, host) = open(options)?;
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
    if let Some((name, password)) = &options.user {
        let both = STANDARD.encode(format!("{name}:{password}"));
        request.push_str(&format!("Authorization: Basic {both}\r\n"));
    } else if !options.token.is_empty() {
        request.push_str(&format!("Authorization: Bearer {}\r\n", options.token));
    }
    request.push_str("Connection: close\r\n\r\n");
    let asked = dial.write_all(request.as_bytes());
    asked.and_then(|()| dial.flush()).map_err(reason)?;
    let answer = read(dial.as_mut()).map_err(reason)?;
    let end = memmem::find(&answer, b"\r\n\r\n")
        .ok_or("the answer is not HTTP; use the address of --http")?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    match head.get(9..12) {
        Some(b"200") => {}
        Some(b"401") => return Err("the server requires --token or --user".to_owned()),
        other => {
            let status = String::from_utf8_lossy(other.unwrap_or_default());
            return Err(format!("the server returns status {status}"));
        }
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("the answer is not the status of a Cellar server: {error}"))
}

/// Connects; also returns the host name for the request.
fn open(options: &TopOptions) -> Result<(Box<dyn PeerStream>, &str), String> {
    match &options.target {
        Target::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(reason)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(reason)?;
            stream.set_write_timeout(Some(PATIENCE)).map_err(reason)?;
            Ok((Box::new(stream), "localhost"))
        }
        Target::Http(host) => Ok((Box::new(connect(host, 80)?), host)),
        Target::Https(host) => {
            let stream = connect(host, 443)?;
            Ok((Box::new(encrypt(stream, host, &options.trust)?), host))
        }
    }
}

/// Reads to the end of the connection. If TLS does not close it, the reply must still be complete.
fn read(dial: &mut dyn PeerStream) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    match dial.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

fn reason(error: io::Error) -> String {
    error.to_string()
}

/// One result.
#[derive(Clone, Debug, Default)]
pub struct TopAnswer {
    /// The status of the server.
    pub status: Status,
    /// Earlier requests per second, if they were unknown.
    pub before: Vec<u64>,
}

/// A thread that polls the server, so that a slow server does not block the terminal.
#[derive(Debug)]
pub struct Fetcher {
    answers: Receiver<Result<TopAnswer, String>>,
    /// Ends the thread when it is dropped.
    _stop: SyncSender<()>,
}

impl Fetcher {
    /// Starts to poll.
    #[must_use]
    pub fn start(options: TopOptions) -> Fetcher {
        let (answer, answers) = sync_channel(1);
        let (stop, stopped) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            let pause = Duration::from_millis(options.interval_ms);
            let mut is_known = false;
            loop {
                let found = fetch(&options).map(|status| TopAnswer {
                    status,
                    before: if is_known {
                        Vec::new()
                    } else {
                        remembered(&options)
                    },
                });
                is_known = found.is_ok();
                if answer.send(found).is_err()
                    || stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
        });
        Fetcher {
            answers,
            _stop: stop,
        }
    }

    /// The next result, if it has arrived.
    #[must_use]
    pub fn answer(&self) -> Option<Result<TopAnswer, String>> {
        self.answers.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_becomes_means_over_intervals() {
        let requests = [None, Some(2.0), Some(4.0), Some(10.0), Some(20.0)].to_vec();
        let remembered = TopHistory {
            step_ms: 1_000,
            columns: TopHistoryColumns { requests },
        };
        assert_eq!(remembered.requests(1_000), [0, 2, 4, 10, 20]);
        assert_eq!(remembered.requests(2_000), [3, 15]);
        assert_eq!(remembered.requests(100), [0, 2, 4, 10, 20]);
        assert!(remembered.requests(60_000).is_empty());
    }
}
