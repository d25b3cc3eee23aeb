//! Inherited: listening sockets that a service manager passes at the start.
//!
//! A socket named like a protocol, `memcached`, `resp` or `http`, optionally with `-tls` behind it,
//! replaces that protocol's addresses: the manager sets the address. Its name is that of its unit
//! (`cellar-resp.socket`) or the one set in the unit (`FileDescriptorName=resp`). Others were
//! stored in the manager by an earlier run of this server: a listener for their address uses them,
//! and without one they are removed.
//!
//! Source: sd_listen_fds(3). Tests: tests/activation.rs.

use std::collections::BTreeMap;
use std::env;
use std::os::fd::{AsFd, OwnedFd};

use cellar_config::error::Error;
use cellar_config::logging::printable;
use cellar_config::protocol::{ByProtocol, Protocol};
use cellar_config::settings::Settings;
use cellar_config::settings::address::Address;
use cellar_net::listener::Listener;
use cellar_net::open_sockets::OpenSockets;
use listenfd::ListenFd;

use crate::upgrade::notify;

/// The variable with the names, between colons.
const NAMES: &str = "LISTEN_FDNAMES";
/// The prefix of the names of sockets that the manager stores for this server.
const KEPT: &str = "kept-";

/// The sockets that were passed.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Names of stored sockets by address.
    kept: BTreeMap<String, String>,
}

impl Inherited {
    /// Adds the passed sockets to `open`; changes the settings that a passed socket overrides.
    ///
    /// # Errors
    /// [`Error::Socket`] for one that nothing is known to do with.
    pub(crate) fn take(
        settings: &mut Settings,
        open: &mut OpenSockets,
    ) -> Result<Inherited, Error> {
        let names = env::var(NAMES).unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut inherited = Inherited::default();
        let mut named = ByProtocol::<Vec<Address>>::default();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            let fail = |reason: &str| Error::Socket {
                name: printable(name),
                reason: reason.to_owned(),
            };
            let socket = take_at(&mut passed, index);
            let socket = socket.ok_or_else(|| fail("it is not a listening stream socket"))?;
            let place = open.add(socket).map_err(|reason| fail(&reason))?;
            if name.starts_with(KEPT) {
                inherited.kept.insert(place.to_string(), name.to_owned());
                continue;
            }
            let (protocol, is_tls) = meaning(name).ok_or_else(|| {
                fail("call it memcached, resp or http, with -tls for TLS (FileDescriptorName=)")
            })?;
            let address = match place {
                Address::Tcp(place) if is_tls => Address::Tls(place),
                place => place,
            };
            named.of_mut(protocol).push(address);
        }
        for (protocol, addresses) in named.iter().filter(|(_, all)| !all.is_empty()) {
            settings.listen.of_mut(protocol).clone_from(addresses);
        }
        Ok(inherited)
    }

    /// Stores the sockets for the next run in the manager, and removes those without a listener.
    pub(crate) fn keep(&self, listeners: &mut [Listener]) {
        let is_listened_at = |place: &str| listeners.iter().any(|one| place_of(one) == place);
        for (place, name) in &self.kept {
            if !is_listened_at(place) {
                tracing::info!(
                    address = %place,
                    "closed an inherited socket that is not in the settings"
                );
                notify::keep_no_more(name);
            }
        }
        if !notify::keeps_sockets() {
            return;
        }
        for listener in listeners {
            let place = place_of(listener);
            let is_kept = if listener.is_inherited {
                self.kept.contains_key(&place)
            } else {
                notify::keep(&name_of(&place), listener.as_fd())
            };
            if is_kept {
                listener.keep_file();
            }
        }
    }
}

/// The address of a listener, with or without TLS.
fn place_of(listener: &Listener) -> String {
    match &listener.address {
        Address::Tls(address) => address.clone(),
        other => other.to_string(),
    }
}

/// The name of a stored socket: colons separate names.
fn name_of(place: &str) -> String {
    format!("{KEPT}{}", place.replace(':', "."))
}

/// The protocol of a socket with this name, and whether it uses TLS.
fn meaning(name: &str) -> Option<(Protocol, bool)> {
    let name = name.strip_suffix(".socket").unwrap_or(name);
    let name = name.strip_prefix("cellar-").unwrap_or(name);
    let (name, is_tls) = match name.strip_suffix("-tls") {
        Some(name) => (name, true),
        None => (name, false),
    };
    Protocol::named(name).map(|one| (one, is_tls))
}

/// The socket at this place, if it is one of a stream.
fn take_at(passed: &mut ListenFd, index: usize) -> Option<OwnedFd> {
    if let Ok(Some(socket)) = passed.take_tcp_listener(index) {
        return Some(socket.into());
    }
    let socket = passed.take_unix_listener(index).ok().flatten()?;
    Some(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_units_and_of_descriptors_say_what_is_spoken() {
        for (name, expected) in [
            ("memcached", Some((Protocol::Memcached, false))),
            (
                "cellar-memcached.socket",
                Some((Protocol::Memcached, false)),
            ),
            ("resp-tls", Some((Protocol::Resp, true))),
            ("cellar-http-tls.socket", Some((Protocol::Http, true))),
            ("cellar.socket", None),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(meaning(name), expected, "{name}");
        }
        assert_eq!(name_of("[::1]:6379"), "kept-[..1].6379");
    }
}
