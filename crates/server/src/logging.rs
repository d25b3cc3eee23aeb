//! Logging: one line an event on standard error; never on the way of a request.

use std::io::IsTerminal;

use tracing_subscriber::fmt;

use crate::settings::{LogFormat, Settings};

/// Sends log lines to standard error as the settings say; the first call wins.
pub fn start(settings: &Settings) {
    let lines = fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_max_level(settings.log_level);
    let _ = match settings.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
