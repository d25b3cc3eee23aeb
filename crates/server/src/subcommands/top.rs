//! Top: `cellar top`, live metrics of a running server in a terminal.
//!
//! A thread polls the status of the server (`/v1/console/status`). The rates come from two
//! statuses; earlier values come from `/v1/console/history`. If the server does not answer, the
//! screen shows the error and the last metrics, and the thread tries again.
//!
//! Tests: tests/top.rs, and at the end of the children.

pub mod words;
pub mod look;
pub mod draw;
pub mod fetch;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_config::error::Error;
use cellar_config::settings::top::TopOptions;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::draw::{Scene, draw, plain};
use self::fetch::{Fetcher, TopAnswer, fetch, remembered};
use self::look::Look;

/// Interval between checks for pressed keys.
const KEYS_PAUSE: Duration = Duration::from_millis(50);
/// Throughput values that are stored.
const HISTORY_MAX: usize = 240;
/// Size of the output of `--once`.
const PAPER: (u16, u16) = (120, 42);

/// Shows the metrics until the user quits.
///
/// # Errors
/// [`Error::Top`] if the server does not answer with `--once`, [`Error::System`] if the terminal
/// fails.
pub fn run(options: &TopOptions) -> Result<(), Error> {
    if options.once || !std::io::stdout().is_terminal() {
        return once(options);
    }
    let terminal = |source| Error::System {
        what: "using the terminal",
        source,
    };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(terminal)?;
    }
    show_cursor_on_panic();
    // This also restores the terminal after a panic.
    let screen = ratatui::try_init();
    let shown = screen.and_then(|screen| show(screen, options, &ended));
    ratatui::try_restore().map_err(terminal)?;
    shown.map_err(terminal)
}

/// A panic ends the process before the screen is dropped, which would show the cursor again.
fn show_cursor_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let _ = execute!(std::io::stdout(), Show);
        report(info);
    }));
}

/// Prints the metrics of one interval.
fn once(options: &TopOptions) -> Result<(), Error> {
    let ask = || {
        fetch(options)
            .map_err(|reason| Error::Top(format!("{} does not answer: {reason}", options.target)))
    };
    let first = Look::first(ask()?);
    std::thread::sleep(Duration::from_millis(options.interval_ms));
    let look = first.next(ask()?);
    let mut history = remembered(options);
    history.push(look.requests() as u64);
    let scene = Scene {
        target: &options.target.to_string(),
        look: Some(&look),
        history: &history,
        trouble: None,
    };
    // A closed output pipe is no error.
    let _ = std::io::stdout().write_all(plain(&scene, PAPER.0, PAPER.1).as_bytes());
    Ok(())
}

/// The data received so far.
#[derive(Debug, Default)]
struct View {
    look: Option<Look>,
    history: Vec<u64>,
    trouble: Option<String>,
}

impl View {
    fn take(&mut self, answer: Result<TopAnswer, String>) {
        match answer {
            Err(reason) => self.trouble = Some(reason),
            Ok(TopAnswer { status, before }) => {
                if !before.is_empty() {
                    let first = before.len().saturating_sub(HISTORY_MAX);
                    self.history = before[first..].to_vec();
                }
                let look = match self.look.take() {
                    Some(look) => look.next(status),
                    None => Look::first(status),
                };
                if !look.is_first() {
                    if self.history.len() == HISTORY_MAX {
                        self.history.remove(0);
                    }
                    self.history.push(look.requests() as u64);
                }
                self.look = Some(look);
                self.trouble = None;
            }
        }
    }
}

/// Draws after each change, until `q`.
fn show(
    mut screen: DefaultTerminal,
    options: &TopOptions,
    ended: &AtomicBool,
) -> std::io::Result<()> {
    let fetcher = Fetcher::start(options.clone());
    let target = options.target.to_string();
    let mut view = View::default();
    let mut is_stale = true;
    // Relaxed: nothing but the flag is passed on.
    while !ended.load(Ordering::Relaxed) {
        while let Some(answer) = fetcher.answer() {
            view.take(answer);
            is_stale = true;
        }
        if std::mem::take(&mut is_stale) {
            let scene = Scene {
                target: &target,
                look: view.look.as_ref(),
                history: &view.history,
                trouble: view.trouble.as_deref(),
            };
            screen.draw(|frame| {
                let area = frame.area();
                draw(&scene, area, frame.buffer_mut());
            })?;
        }
        if !event::poll(KEYS_PAUSE)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if ends(key) => return Ok(()),
            Event::Resize(..) => is_stale = true,
            _ => {}
        }
    }
    Ok(())
}

/// Whether a key quits: q, Escape, Control-C.
fn ends(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        KeyCode::Char('q') | KeyCode::Esc => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_execute::http::pages::status::Status;

    #[test]
    fn a_server_that_goes_away_is_told_about_and_its_figures_stay() {
        let mut view = View::default();
        view.take(Err("refused".to_owned()));
        assert!(view.look.is_none() && view.trouble.is_some());
        for uptime_ms in [1_000, 2_000] {
            let mut status = Status::default();
            status.server.uptime_ms = uptime_ms;
            let before = if uptime_ms == 1_000 {
                vec![7; 300]
            } else {
                Vec::new()
            };
            view.take(Ok(TopAnswer { status, before }));
        }
        assert!(view.trouble.is_none());
        assert_eq!(view.history.len(), HISTORY_MAX);
        assert_eq!(view.history[HISTORY_MAX - 2..], [7, 0]);
        view.take(Err("refused".to_owned()));
        assert!(view.look.is_some());
        assert_eq!(view.trouble.as_deref(), Some("refused"));
    }
}
