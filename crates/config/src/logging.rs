//! Logging: one line per event on standard error; never on the path of a request.
//!
//! Lines go through a [`queue`], so that a log that is not read blocks no thread; those of the
//! watchdog bypass it ([`straight`]).

mod queue;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use self::queue::{QueuedLines, Straight};
pub use self::queue::{dropped, finish};
use crate::settings::{LogFormat, Settings};
pub use cellar_protocol::printable;

/// The format and level of lines.
#[derive(Clone, Copy, Debug)]
struct LineStyle {
    format: LogFormat,
    level: LevelFilter,
    has_colours: bool,
}

/// The style of the log, once it has begun.
static STYLE: OnceLock<LineStyle> = OnceLock::new();

/// Sends log lines to standard error as the settings say; the first call wins.
pub fn start(settings: &Settings) {
    let style = LineStyle {
        format: settings.log_format,
        level: settings.log_level,
        has_colours: io::stderr().is_terminal(),
    };
    if STYLE.set(style).is_ok() {
        queue::start();
        let _ = lines(style, || QueuedLines).try_init();
    }
}

/// Does something whose lines are written at once, by this thread, whatever waits before them.
pub fn straight(tell: impl FnOnce()) {
    match STYLE.get() {
        Some(&style) => tracing::subscriber::with_default(lines(style, || Straight), tell),
        None => tell(),
    }
}

/// The subscriber that formats events as lines.
fn lines<W>(style: LineStyle, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let lines = fmt()
        .with_writer(writer)
        // It would write to standard error, and panic where that fails.
        .log_internal_errors(false)
        .with_ansi(style.has_colours)
        .with_target(false)
        .with_max_level(style.level);
    match style.format {
        LogFormat::Text => Box::new(lines.finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
    }
}
