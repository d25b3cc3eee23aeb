//! Helpers: the threads beside the event loops, which serve no client.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cellar_config::error::Error;
use cellar_config::settings::load::Loaded;
use cellar_system::ticker::Ticker;

use super::no_thread;
use crate::server::checker::Checker;
use crate::server::event_loop::worker::Common;
use crate::server::exporter;
use crate::server::login_worker::LoginWorker;
use crate::server::maintenance;
use crate::server::membership::Membership;
use crate::server::recorder;
use crate::server::reload::Reload;
use crate::server::trainer;
use crate::server::watchdog::Watchdog;

/// Background threads, which serve no clients.
pub(super) struct Helpers {
    maintenance: Ticker,
    recorder: Ticker,
    trainer: Ticker,
    exporter: Option<Ticker>,
    login_worker: Option<LoginWorker>,
    watchdog: Watchdog,
    reload: Reload,
    checker: Option<Checker>,
    membership: Option<Membership>,
}

impl Helpers {
    /// Starts them; `told` is set when a signal asked the server to stop, and `old` reports the end
    /// of the old server in a hot restart.
    pub(super) fn start(
        loaded: &Loaded,
        common: &Common,
        told: Arc<AtomicBool>,
        old: Option<OwnedFd>,
    ) -> Result<Helpers, Error> {
        let (state, clock) = (&common.state, &common.clock);
        let membership = Membership::start(state)?;
        let start = || -> std::io::Result<Helpers> {
            Ok(Helpers {
                maintenance: maintenance::start(Arc::clone(state), clock.clone(), old)?,
                recorder: recorder::start(Arc::clone(state), clock.clone())?,
                trainer: trainer::start(Arc::clone(state))?,
                exporter: exporter::start(state)?,
                login_worker: LoginWorker::start(state, clock)?,
                watchdog: Watchdog::start(Arc::clone(state), told)?,
                reload: Reload::start(loaded, Arc::clone(state))?,
                checker: Checker::start(state)?,
                membership,
            })
        };
        start().map_err(no_thread)
    }

    /// Makes the periodic ones run now, and waits until they have.
    pub(super) fn tick_now(&self) {
        for ticker in [&self.maintenance, &self.recorder, &self.trainer]
            .into_iter()
            .chain(&self.exporter)
        {
            ticker.tick_now();
        }
    }

    /// Stops them and waits for them to end.
    pub(super) fn stop(self) {
        self.maintenance.stop();
        self.recorder.stop();
        self.trainer.stop();
        if let Some(login_worker) = self.login_worker {
            login_worker.stop();
        }
        self.reload.stop();
        if let Some(membership) = self.membership {
            membership.stop();
        }
        if let Some(checker) = self.checker {
            checker.stop();
        }
        self.watchdog.stop();
    }
}
