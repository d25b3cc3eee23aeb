//! A server that takes part, with a connection to it.

use super::connection::Connection;
use crate::peers::CpuArgs;
use cellar_load::{Error, Recipe, Server, usage};

/// A running server.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) connection: Connection,
}

impl Contestant {
    /// Starts a server with so much memory and one thread.
    /// [`Error`] if it does not come up.
    pub(crate) fn start(recipe: &Recipe, cpus: CpuArgs, mib: u64) -> Result<Contestant, Error> {
        let server = recipe.start(cpus.serving(mib))?;
        let connection = Connection::connect(server.address())?;
        let name = recipe.name.clone();
        Ok(Contestant {
            name,
            server,
            connection,
        })
    }

    /// Processor time that it has used so far; exact while it waits for requests.
    /// [`Error::System`] if it has ended.
    pub(crate) fn cpu_ns(&self) -> Result<u64, Error> {
        usage::cpu_ns(self.server.pid()).map_err(|error| Error::system("reading a server", error))
    }
}
