//! Trial: the checks of a start without a start, for `cellar doctor`.
//!
//! They are the functions that a start calls, and nothing is left behind: addresses are bound and
//! released, files are read. A start ends at its first error; here each check is made.
//!
//! Tests: tests/healthcheck.rs.

use cellar_engine::{Cache, StateDir};

use super::{cache_config, check_addresses_of, exposure_error, fit, make_keys};
use crate::error::Error;
use crate::listener::Listener;
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::settings::address::Address;
use crate::settings::load::Loaded;
use crate::users::Users;

/// What the checks found.
#[derive(Debug, Default)]
pub struct Trial {
    /// Why a server with these settings does not start, but for the limit of open files.
    pub errors: Vec<Error>,
    /// Whether another server listens at every address of the settings.
    pub is_running: bool,
}

/// Checks whether a server with these settings can start.
#[must_use]
pub fn try_start(loaded: &Loaded) -> Trial {
    let mut settings = loaded.settings.clone();
    let mut errors = fit::misfits(&mut settings, loaded);
    let config = cache_config(&settings);
    let sizes = Cache::check(&config).map_err(|error| Error::Memory(error.to_string()));
    let state = settings.state.as_deref().map(StateDir::check);
    let state = state.unwrap_or(Ok(()));
    // Of memory that no machine has, the addresses cannot be counted.
    let addresses = sizes.and_then(|()| match errors.is_empty() {
        true => check_addresses_of(&settings, &config).map(drop),
        false => Ok(()),
    });
    let files = [
        addresses.err(),
        state.map_err(|error| Error::State(error.to_string())).err(),
        make_keys(&settings).err(),
        Users::load(&settings).err(),
    ];
    errors.extend(files.into_iter().flatten());
    let (refused, is_running) = try_addresses(&settings);
    errors.extend(refused);
    Trial { errors, is_running }
}

/// Tries to bind each address; what cannot be used, and whether all of them are taken.
fn try_addresses(settings: &Settings) -> (Vec<Error>, bool) {
    let all = Protocol::ALL.into_iter();
    let all = all.flat_map(|one| {
        settings
            .addresses(one)
            .iter()
            .map(move |it| (one, it.clone()))
    });
    let unix = settings.unix.iter();
    let unix = unix.map(|path| (Protocol::Memcached, Address::Unix(path.clone())));
    let (mut errors, mut taken, mut free) = (Vec::new(), Vec::new(), 0);
    for (protocol, address) in all.chain(unix) {
        match Listener::try_at(protocol, &address) {
            Ok(bound) => {
                free += 1;
                let exposed = bound
                    .iter()
                    .map(|it| exposure_error(settings, protocol, it));
                errors.extend(exposed.filter_map(Result::err));
            }
            Err((error, true)) => taken.push(error),
            Err((error, false)) => errors.push(error),
        }
    }
    if free == 0 && taken.is_empty() && errors.is_empty() {
        errors.extend(super::no_address().err());
    }
    let is_running = free == 0 && !taken.is_empty() && errors.is_empty();
    // The server that is to be taken over has them.
    if !is_running && !settings.takeover {
        errors.extend(taken);
    }
    (errors, is_running)
}
