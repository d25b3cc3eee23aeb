//! Fit: adapts settings to the machine: open files, memory, and settings that depend on others.
//!
//! A default is reduced to what the machine allows; an explicit value that does not fit is an
//! error.
//! Tests: tests/startup_errors.rs.

use cellar_config::error::Error;
use cellar_config::memory;
use cellar_config::settings::Settings;
use cellar_config::settings::load::{Loaded, Origin};
use cellar_config::settings::units::show_duration_ms;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::server::event_loop::handshakes::GUESTS_MAX;

/// Open files besides connections and event loops: standard streams, listeners, signals.
const OTHER_FILES: usize = 128;
/// Open files of one event loop: its epoll instance and its mailbox.
const FILES_PER_THREAD: usize = 2;

/// Fits the settings to one thing.
type Fit = fn(&mut Settings, &Loaded) -> Result<(), Error>;

/// The checks beside the limit of open files, in the order of a start.
const FITS: [Fit; 4] = [
    |settings, _| fit_memory(settings),
    |settings, loaded| fit_watchdog(settings, loaded.origin("watchdog")),
    |settings, loaded| {
        fit_databases(settings, loaded.origin("databases"));
        Ok(())
    },
    |settings, _| settings.check(),
];

/// Fits the settings to what the machine and each other let them be.
pub(super) fn fit(settings: &mut Settings, loaded: &Loaded) -> Result<(), Error> {
    fit_open_files(settings, loaded.origin("max-connections"))?;
    FITS.iter().try_for_each(|fit| fit(settings, loaded))
}

/// All errors that [`fit`] would return one after the other, except those about open files.
pub(super) fn misfits(settings: &mut Settings, loaded: &Loaded) -> Vec<Error> {
    let results = FITS.iter().map(|fit| fit(settings, loaded));
    results.filter_map(Result::err).collect()
}

/// Chooses the size of the cache if none is set, and checks that so much memory is available.
fn fit_memory(settings: &mut Settings) -> Result<(), Error> {
    if let Some(said) = memory::settle(settings)? {
        tracing::info!("{said}");
    }
    memory::check(settings.memory_bytes)?;
    if let Some(warning) = memory::warning(settings) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// The most open files that a server with these settings may need.
#[must_use]
pub fn open_files(settings: &Settings) -> u64 {
    (settings.max_connections + other_files(settings)) as u64
}

fn other_files(settings: &Settings) -> usize {
    let guests = if settings.speaks_tls() { GUESTS_MAX } else { 0 };
    OTHER_FILES + settings.threads * FILES_PER_THREAD + guests
}

/// Raises the limit of open files for all connections.
///
/// A default number of connections is reduced; an explicit one is not.
fn fit_open_files(settings: &mut Settings, origin: Origin) -> Result<(), Error> {
    let (others, wanted) = (other_files(settings), open_files(settings));
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
    // Only a privileged process may raise the hard limit too.
    let hard = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum.map(|m| m.max(wanted)),
    };
    let soft = Rlimit {
        current: Some(raised),
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, hard).is_err() {
        setrlimit(Resource::Nofile, soft).map_err(Error::system("raising the file limit"))?;
    }
    let files = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |n| n as usize);
    let room = files.saturating_sub(others);
    if room >= settings.max_connections {
        return Ok(());
    }
    if origin != Origin::Default || room == 0 {
        let (least, asked) = (others + 1, settings.max_connections);
        let wanted = match origin {
            Origin::Default => format!("even one connection needs {least}"),
            _ => format!("{asked} connections need {wanted}"),
        };
        return Err(Error::Setting {
            flag: "max-connections",
            origin: String::new(),
            reason: format!("{wanted} open files, the limit is {files}; increase ulimit -n"),
        });
    }
    tracing::warn!(
        max_connections = room,
        "reduced --max-connections: the limit of open files is {files}"
    );
    settings.max_connections = room;
    Ok(())
}

/// Ensures that the watchdog does not take a running script for a hanging loop.
///
/// A default is adapted; an explicit time is not.
fn fit_watchdog(settings: &mut Settings, origin: Origin) -> Result<(), Error> {
    if settings.watchdog_ms == 0 || settings.watchdog_ms > settings.script_time_ms {
        return Ok(());
    }
    if origin != Origin::Default {
        return Err(Error::Setting {
            flag: "watchdog",
            origin: String::new(),
            reason: format!(
                "{} is not more than --script-time-limit, {}; set more, or off",
                show_duration_ms(settings.watchdog_ms),
                show_duration_ms(settings.script_time_ms),
            ),
        });
    }
    settings.watchdog_ms = settings.script_time_ms.saturating_mul(2);
    Ok(())
}

/// A node of a cluster has one database, unless a number was asked for: clients of a cluster expect
/// no more.
fn fit_databases(settings: &mut Settings, origin: Origin) {
    if settings.cluster.is_some() && origin == Origin::Default {
        settings.databases = 1;
    }
}
