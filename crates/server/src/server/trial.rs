//! Trial: the checks of a start without a start, for `cellar doctor`.
//!
//! They are the functions that a start calls, and nothing is left behind: addresses are bound and
//! released, files are read. A start ends at its first error; here each check is made.
//!
//! Tests: tests/healthcheck.rs.

use std::net::SocketAddr;

use cellar_config::error::Error;
use cellar_config::protocol::Protocol;
use cellar_config::settings::Settings;
use cellar_config::settings::address::Address;
use cellar_config::settings::load::Loaded;
use cellar_engine::{Cache, StateDir};
use cellar_net::listener::Listener;
use cellar_shared::auth::users::Users;

use super::{cache_config, check_addresses_of, fit, make_keys, open_address_error};
use crate::upgrade::handover::control_socket::ControlSocket;

/// The result of the checks.
#[derive(Debug, Default)]
pub struct Trial {
    /// Why a server with these settings does not start, except for the limit of open files.
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
    let (mut errors, mut taken, mut free) = (Vec::new(), Vec::new(), 0);
    let mut known: Vec<(Protocol, Address)> = Vec::new();
    for (protocol, address) in settings.all_addresses() {
        match Listener::try_at(protocol, &address) {
            Ok(bound) => {
                free += 1;
                errors.extend(given_twice(protocol, &bound, &known));
                known.extend(bound.iter().map(|it| (protocol, it.clone())));
                let exposed = bound
                    .iter()
                    .map(|it| open_address_error(settings, protocol, it));
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
    // In a hot restart the old server holds them.
    if !is_running && !settings.takeover {
        errors.extend(taken);
    }
    errors.extend(try_control(settings, is_running));
    (errors, is_running)
}

/// The errors for those bound addresses of a setting that another setting has, too.
fn given_twice(protocol: Protocol, bound: &[Address], known: &[(Protocol, Address)]) -> Vec<Error> {
    let same = |one: &Address| known.iter().find(|(_, other)| overlap(one, other));
    let found = bound.iter().filter_map(|one| same(one).map(|it| (one, it)));
    let error = |(one, (other, _)): (&Address, &(Protocol, Address))| Error::Listen {
        flag: protocol.name(),
        address: one.to_string(),
        reason: format!("--{} has the same address", other.name()),
    };
    found.map(error).collect()
}

/// Whether two listeners cannot have these addresses at the same time.
fn overlap(one: &Address, other: &Address) -> bool {
    if one.file().is_some() || other.file().is_some() {
        return one.file() == other.file();
    }
    let socket = |address: &Address| -> Option<SocketAddr> {
        let (host, port) = address.host_and_port()?;
        format!("{host}:{port}").parse().ok()
    };
    let (Some(one), Some(other)) = (socket(one), socket(other)) else {
        return false;
    };
    // A free port that the system chooses is another one each time.
    let has_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port()
        && one.port() != 0
        && one.is_ipv4() == other.is_ipv4()
        && (has_any || one.ip() == other.ip())
}

/// Why the socket of `--control` cannot be used, if it cannot.
fn try_control(settings: &Settings, is_running: bool) -> Option<Error> {
    let path = settings.control.as_deref()?;
    match ControlSocket::try_at(path) {
        Err((_, true)) if is_running || settings.takeover => None,
        Err((error, _)) => Some(error),
        Ok(()) if settings.takeover => {
            let shown = path.display();
            Some(Error::Takeover(format!("no server listens on {shown}")))
        }
        Ok(()) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_that_two_listeners_cannot_have() {
        let overlap = |one: &str, other: &str| {
            let parse = |text: &str| Address::parse_all(text).unwrap().remove(0);
            overlap(&parse(one), &parse(other))
        };
        for (one, other, expected) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "tls:127.0.0.1:1", true),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:1", "[::]:1", false),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", "unix:/b", false),
            ("unix:/a", "127.0.0.1:1", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
        }
    }
}
