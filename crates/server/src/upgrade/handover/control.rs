//! Control: what a server begins with: a socket of its own for new processes, or that of the server
//! from which it takes over.

use std::os::fd::OwnedFd;

use cellar_config::error::Error;
use cellar_config::settings::Settings;
use cellar_config::settings::address::Address;
use cellar_net::listener::Listener;
use cellar_net::mailbox::Arrival;
use cellar_net::open_sockets::OpenSockets;

use super::claim::{Offer, Predecessor};
use super::control_socket::ControlSocket;
use super::hand_over::TakeoverPeer;

/// The control socket, and the old server.
#[derive(Debug, Default)]
pub(crate) struct Control {
    control_socket: Option<ControlSocket>,
    claim: Option<Predecessor>,
    /// Where the old server listens.
    offered: Vec<Address>,
}

impl Control {
    /// Starts as the settings say; the sockets of an old server are added to `open`.
    ///
    /// # Errors
    /// The old server is missing, or a server runs though none should.
    pub(crate) fn begin(settings: &Settings, open: &mut OpenSockets) -> Result<Control, Error> {
        let Some(path) = &settings.control else {
            return Ok(Control::default());
        };
        if !settings.takeover {
            let control_socket = Some(ControlSocket::make(path)?);
            return Ok(Control {
                control_socket,
                ..Control::default()
            });
        }
        let Offer {
            claim,
            control_socket,
            places,
        } = Predecessor::ask(path, open)?;
        Ok(Control {
            control_socket: Some(control_socket),
            claim: Some(claim),
            offered: places,
        })
    }

    /// Checks that the listeners overlap with those of the old server, of whose sockets these are
    /// `left`, and logs the differences.
    ///
    /// # Errors
    /// [`Error::Takeover`] if they have none in common.
    pub(crate) fn check(&self, listeners: &[Listener], left: &[Address]) -> Result<(), Error> {
        if self.claim.is_none() {
            return Ok(());
        }
        let theirs = Address::show_all(&self.offered);
        if self.offered.iter().all(|one| left.contains(one)) {
            return Err(Error::Takeover(format!(
                "the old server listens on {theirs}, this one on none of these"
            )));
        }
        if !left.is_empty() {
            let addresses = Address::show_all(left);
            tracing::warn!("no longer listening on {addresses}");
        }
        let new = listeners.iter().filter(|one| !one.is_inherited);
        let new: Vec<Address> = new.map(|one| one.address.clone()).collect();
        if !new.is_empty() {
            let addresses = Address::show_all(&new);
            tracing::info!("listening on additional addresses: {addresses}");
        }
        Ok(())
    }

    /// Stops the old server, now that all that can fail has been done; returns the memory of its
    /// items, if that outlives it.
    ///
    /// # Errors
    /// [`Error::Takeover`] if it continues.
    pub(crate) fn take(&mut self, clients_max: usize) -> Result<Option<OwnedFd>, Error> {
        let claim = self.claim.as_mut();
        claim.map_or(Ok(None), |claim| claim.take(clients_max))
    }

    /// A descriptor that reports the end of the old server's process, if any.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn old_process(&self) -> std::io::Result<Option<OwnedFd>> {
        let claim = self.claim.as_ref();
        Ok(claim.map(Predecessor::process).transpose()?.flatten())
    }

    /// Whether this server takes over from another.
    pub(crate) fn takes_over(&self) -> bool {
        self.claim.is_some()
    }

    /// How a new process takes over from this server.
    pub(crate) fn takeover_peer(&mut self, drain_ms: u64) -> Option<TakeoverPeer> {
        let control_socket = self.control_socket.take()?;
        Some(TakeoverPeer::new(control_socket, drain_ms))
    }

    /// Completes the takeover; returns the old server's clients, if any.
    ///
    /// # Errors
    /// [`Error::Takeover`] if it continues.
    pub(crate) fn finish(self) -> Result<Option<Vec<Arrival>>, Error> {
        let Some(claim) = self.claim else {
            return Ok(None);
        };
        let (pid, version) = (claim.pid, claim.server.clone());
        let clients = claim.begin()?;
        let count = clients.len();
        tracing::info!(pid, version, clients = count, "took over");
        Ok(Some(clients))
    }
}
