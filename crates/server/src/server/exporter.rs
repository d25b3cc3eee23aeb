//! Exporter: sends the metrics to an OpenTelemetry collector, on its own thread.
//!
//! If a collector fails to accept them, the log says so, once until it succeeds again; the failed
//! samples are dropped, and later ones continue the counts. The thread is never joined: it ends
//! with the process.
//!
//! Tests: tests/otlp.rs.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use cellar_config::dial::connect;
use cellar_config::settings::collector::Collector;
use cellar_shared::metrics::exposition;
use cellar_shared::metrics::otlp::{SentBy, request};
use cellar_shared::state::State;
use cellar_system::ticker::Ticker;

/// The longest response that is read.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Starts the thread, if the settings name a collector. It may be sending for as long as the
/// collector takes, so let it go rather than stop it.
///
/// # Errors
/// The system's, when it is out of threads.
pub(crate) fn start(state: &Arc<State>) -> io::Result<Option<Ticker>> {
    let Some(collector) = state.settings.otlp.clone() else {
        return Ok(None);
    };
    let state = Arc::clone(state);
    let pause = Duration::from_millis(state.settings.otlp_interval_ms);
    let mut was_taken = true;
    let ticker = Ticker::start("cellar-otlp", pause, move || {
        let taken = send(&state, &collector);
        match &taken {
            Err(reason) if was_taken => {
                tracing::warn!("{collector} does not accept metrics: {reason}");
            }
            Ok(()) if !was_taken => tracing::info!("{collector} accepts metrics again"),
            _ => {}
        }
        was_taken = taken.is_ok();
        pause
    });
    ticker.map(Some)
}

fn send(state: &State, collector: &Collector) -> Result<(), String> {
    let start_ns = state.start_unix_s() * 1_000_000_000;
    let now_ns = state.wall.unix_ms(state.cache.now()) * 1_000_000;
    let origin = SentBy {
        instance: &state.run.id,
        start_ns,
        now_ns: now_ns.max(start_ns),
    };
    let body = request(&exposition(state), &origin);
    let mut stream = connect(&collector.host, 80)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Length: {}\r\nUser-Agent: cellar/{}\r\nConnection: close\r\n\r\n",
        collector.path,
        collector.host,
        body.len(),
        env!("CARGO_PKG_VERSION"),
    );
    let told = |error: io::Error| error.to_string();
    stream.write_all(head.as_bytes()).map_err(told)?;
    stream.write_all(&body).map_err(told)?;
    let mut answer = Vec::new();
    // Its first line is enough, however the connection ends.
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    match answer.get(..12) {
        Some([b'H', b'T', b'T', b'P', b'/', .., b' ', b'2', _, _]) => Ok(()),
        Some(line) => Err(format!("it answers {}", line.escape_ascii())),
        None => Err("it does not answer".to_owned()),
    }
}
