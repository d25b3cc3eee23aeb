//! Fetch: the status of a server, over HTTP.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::pages::status::Status;
use crate::settings::top::TopOptions;

/// Longest time in seconds that an answer may take.
const PATIENCE_S: u64 = 5;
/// Longest answer.
const BODY_BYTES_MAX: u64 = 4 << 20;

/// Asks a server how it is.
///
/// # Errors
/// Why it does not say, in one line.
pub fn fetch(options: &TopOptions) -> Result<Status, String> {
    let url = format!("{}/v1/console/status", options.target);
    let mut request = minreq::get(url).with_timeout(PATIENCE_S);
    if !options.token.is_empty() {
        request = request.with_header("Authorization", format!("Bearer {}", options.token));
    }
    let response = request.send_lazy().map_err(|error| reason(&error))?;
    match response.status_code {
        200 => {}
        401 => return Err("it asks for its token (--token)".to_owned()),
        status => return Err(format!("it answers with status {status}")),
    }
    let mut body = Vec::new();
    let read = Read::take(response, BODY_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body)
        .map_err(|error| format!("its answer is no status of a cellar: {error}"))
}

fn reason(error: &minreq::Error) -> String {
    match error {
        minreq::Error::IoError(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// A thread that asks again and again, so that a server that takes its time holds up nothing.
#[derive(Debug)]
pub struct Fetcher {
    answers: Receiver<Result<Status, String>>,
    /// Ends the thread when it is dropped.
    _stop: SyncSender<()>,
}

impl Fetcher {
    /// Begins to ask.
    #[must_use]
    pub fn start(options: TopOptions) -> Fetcher {
        let (answer, answers) = sync_channel(1);
        let (stop, stopped) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            let pause = Duration::from_millis(options.interval_ms);
            while answer.send(fetch(&options)).is_ok()
                && stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
            {}
        });
        Fetcher {
            answers,
            _stop: stop,
        }
    }

    /// The next answer, if it is there.
    #[must_use]
    pub fn answer(&self) -> Option<Result<Status, String>> {
        self.answers.try_recv().ok()
    }
}
