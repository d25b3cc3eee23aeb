//! Reload: reads the settings file again on SIGHUP, on its own thread.
//!
//! A setting that can change at run time is applied if its value in the file differs from the last
//! read; so changes by CONFIG SET stay, unless the file changes the setting too. Other changes are
//! listed in the log. An invalid file changes nothing.
//!
//! Certificate and users files are watched elsewhere. Tests: tests/reload.rs.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use cellar_config::error::Error;
use cellar_config::memory;
use cellar_config::parameters::{Refused, can_change, of_settings};
use cellar_config::settings::load::Loaded;
use cellar_config::settings::{Row, Settings, TABLE};
use cellar_shared::state::State;
use cellar_shared::state::changes;
use cellar_system::poller::{Interest, Poller, Waker};
use cellar_system::signals::Hangups;

use crate::upgrade::notify::{self, Notice};

/// Longest sleep.
const SLEEP_MS: u32 = 60_000;
/// Token of SIGHUP.
const HANGUP_TOKEN: u64 = 0;
/// Token of the end.
const STOP_TOKEN: u64 = 1;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Reload {
    stop: Waker,
    thread: JoinHandle<()>,
}

/// The state of the thread.
struct Rereader {
    state: Arc<State>,
    /// The settings at the start.
    started: Loaded,
    /// The settings applied since.
    applied: Settings,
    hangups: Hangups,
    poller: Poller,
}

/// The result of reading the file again.
#[derive(Default)]
struct Reread {
    /// Changed parameters.
    changed: Vec<String>,
    /// Settings that require a restart.
    waiting: Vec<String>,
}

impl Reload {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it is out of threads or files.
    pub(crate) fn start(loaded: &Loaded, state: Arc<State>) -> io::Result<Reload> {
        let (stop, hangups, poller) = (Waker::new()?, Hangups::take_over()?, Poller::new()?);
        poller.add(&stop, STOP_TOKEN, Interest::Level)?;
        poller.add(&hangups, HANGUP_TOKEN, Interest::Level)?;
        let reader = Rereader {
            state,
            started: loaded.clone(),
            applied: loaded.settings.clone(),
            hangups,
            poller,
        };
        let thread = Builder::new().name("cellar-reload".to_owned());
        let thread = thread.spawn(move || reader.run())?;
        Ok(Reload { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        self.stop.wake();
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

impl Rereader {
    fn run(mut self) {
        loop {
            let count = self.poller.wait(SLEEP_MS);
            let count = count.expect("waiting for a file that is open does not fail");
            if (0..count).any(|index| self.poller.ready(index).token == STOP_TOKEN) {
                return;
            }
            if self.hangups.take() {
                notify::tell(Notice::Reloading);
                self.hear();
                notify::tell(Notice::Ready);
            }
        }
    }

    fn hear(&mut self) {
        if self.started.file().is_none() {
            if self.state.tls.is_none() && self.state.access.users.is_none() {
                tracing::info!(
                    "SIGHUP: the server has no settings file, certificates or users file to reload"
                );
            }
            return;
        }
        match self.read() {
            Err(error) => tracing::error!("keeping the old settings: {error}"),
            Ok(Reread { changed, waiting }) => {
                let changed = match changed.len() {
                    0 => "no setting that can change at run time".to_owned(),
                    _ => changed.join(" "),
                };
                tracing::info!(changed, "reloaded the settings");
                if !waiting.is_empty() {
                    tracing::warn!("needs a restart: {}", waiting.join(", "));
                }
            }
        }
    }

    /// Reads the file again and applies it.
    fn read(&mut self) -> Result<Reread, Error> {
        let again = self.started.again()?;
        again
            .old_names()
            .for_each(|warning| tracing::warn!("{warning}"));
        let wanted = again.settings;
        let mut effective = wanted.clone();
        memory::settle(&mut effective)?;
        effective.check()?;
        let mut outcome = Reread::default();
        for row in TABLE {
            match row.parameter.filter(|name| can_change(name)) {
                Some(name) if !row.is_same(&self.applied, &wanted) => {
                    let value = of_settings(name, &effective);
                    if self.change((row, name), &value, &mut outcome) {
                        row.copy(&wanted, &mut self.applied);
                    }
                }
                Some(_) => {}
                None if row.is_same(&self.started.settings, &wanted) => {}
                None => outcome.waiting.push(format!("--{}", row.name)),
            }
        }
        Ok(outcome)
    }

    /// Gives a parameter its value; whether it has that now.
    fn change(&self, (row, name): (&Row, &str), value: &str, outcome: &mut Reread) -> bool {
        match changes::make(&self.state, &[(name.as_bytes(), value.as_bytes())]) {
            Ok(_) => {
                outcome.changed.push(format!("{name}={value}"));
                return true;
            }
            Err(Refused::Value { reason, .. }) => {
                outcome.waiting.push(format!("--{} ({reason})", row.name));
            }
            Err(Refused::Unknown(_)) => outcome.waiting.push(format!("--{}", row.name)),
        }
        false
    }
}
