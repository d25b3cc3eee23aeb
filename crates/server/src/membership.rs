//! Membership: who keeps the map of the cluster in force, on threads of their own.
//!
//! One thread hears of lists ([`file`]) and has the [`Keeper`] follow them; another one, the
//! sweeper, empties slots that this node has lost. A list that cannot be used is told in one line
//! and changes nothing.
//!
//! Why: docs/decisions/0057. Tests: tests/cluster.rs.

mod keeper;
mod sweep; // who empties the slots that were lost
mod file; // a list in a file

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use self::file::ListFile;
use self::keeper::Keeper;
use crate::error::Error;
use crate::settings::source::ListSource;
use crate::state::State;

/// The running threads.
#[derive(Debug)]
pub(crate) struct Membership {
    stop: Sender<()>,
    keeper: Arc<Keeper>,
    threads: [JoinHandle<()>; 2],
}

impl Membership {
    /// Reads the list and starts the threads, if the settings name a cluster.
    ///
    /// # Errors
    /// The list cannot be used, or the system is out of threads.
    pub(crate) fn start(state: &Arc<State>) -> Result<Option<Membership>, Error> {
        let (Some(source), Some(cluster)) = (&state.settings.cluster, &state.cluster) else {
            return Ok(None);
        };
        let keeper = Arc::new(Keeper::new(Arc::clone(state), Arc::clone(cluster)));
        let (stop, stopped) = channel();
        let follower = match source {
            ListSource::File(path) => {
                let mut file = ListFile::at(path);
                let first = file.read(&keeper);
                first.map_err(|reason| Error::Setting {
                    flag: "cluster",
                    origin: format!(" {source}"),
                    reason,
                })?;
                let keeper = Arc::clone(&keeper);
                spawn("cellar-cluster", move || file.follow(&keeper, &stopped))
            }
        };
        let sweeper = Arc::clone(&keeper);
        let sweeper = spawn("cellar-sweep", move || sweep::run(&sweeper));
        let threads = [follower.map_err(no_thread)?, sweeper.map_err(no_thread)?];
        Ok(Some(Membership {
            stop,
            keeper,
            threads,
        }))
    }

    /// Stops the threads and waits for their end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        self.keeper.stop();
        for thread in self.threads {
            // A panic has ended the whole process already.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(run)
}

fn no_thread(source: io::Error) -> Error {
    Error::System {
        what: "starting the threads of the cluster",
        source,
    }
}
