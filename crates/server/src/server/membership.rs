//! Membership: keeps the cluster map current, on its own threads.
//!
//! One thread receives lists ([`file`], [`dns`], [`etcd`]) and lets the [`Keeper`] follow them;
//! another one, the sweeper, empties slots that this node has lost. An invalid list gives one log
//! line and changes nothing.
//!
//! Why: docs/decisions/0057. Tests: tests/cluster.rs, tests/cluster_etcd.rs.

mod keeper;
mod sweep; // empties the slots that were lost
mod file; // a list in a file
mod dns; // the addresses of a name
mod etcd; // what is registered in etcd, under leases

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use cellar_cluster::list::NodeList;
use cellar_cluster::node::Node;
use cellar_config::dial::Trust;
use cellar_config::error::Error;
use cellar_config::settings::Settings;
use cellar_config::settings::source::{EtcdPlace, ListSource};
use cellar_shared::state::State;

use self::dns::NamedList;
use self::etcd::Registrar;
use self::etcd::login::EtcdLogin;
use self::file::ListFile;
use self::keeper::Keeper;

/// How long a check waits for a member of etcd.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);

/// A message to the thread that receives lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// It is to end.
    Stop,
    /// Something may have changed.
    Changed,
    /// This is the last of all changes.
    Revision(i64),
    /// The lease no longer exists.
    Lost,
}

/// The running threads.
#[derive(Debug)]
pub(crate) struct Membership {
    signals: Sender<Signal>,
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
        let refused = |reason: String| Error::Setting {
            flag: "cluster",
            origin: format!(" {source}"),
            reason,
        };
        let (signals, heard) = channel();
        let follower = match source {
            ListSource::File(path) => {
                let mut file = ListFile::at(path);
                file.read(&keeper).map_err(refused)?;
                let keeper = Arc::clone(&keeper);
                spawn("cellar-cluster", move || file.follow(&keeper, &heard))
            }
            ListSource::Dns(name) => {
                let announced = keeper.state.settings.announced();
                let list = NamedList::of(name, announced).map_err(refused)?;
                let keeper = Arc::clone(&keeper);
                spawn("cellar-cluster", move || list.follow(&keeper, &heard))
            }
            ListSource::Etcd(place) => {
                let registrar = registrar(&keeper, place).map_err(refused)?;
                follow_etcd(registrar, heard, &signals)
            }
        };
        let sweeper = Arc::clone(&keeper);
        let sweeper = spawn("cellar-sweep", move || sweep::run(&sweeper));
        let threads = [follower.map_err(no_thread)?, sweeper.map_err(no_thread)?];
        Ok(Some(Membership {
            signals,
            keeper,
            threads,
        }))
    }

    /// Stops the threads and waits for their end.
    pub(crate) fn stop(self) {
        self.keeper.stop();
        // A thread that has ended already needs no signal.
        let _ = self.signals.send(Signal::Stop);
        for thread in self.threads {
            // A panic has ended the whole process already.
            let _ = thread.join();
        }
    }
}

/// Checks that the source of the cluster's list can be read now, and changes nothing.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check(source: &ListSource, settings: &Settings) -> Result<(), String> {
    match source {
        ListSource::File(path) => ListFile::at(path).check(),
        ListSource::Dns(name) => NamedList::of(name, settings.announced())?.look().map(drop),
        ListSource::Etcd(place) => {
            let (trust, login) = identity(settings);
            Registrar::check(place, (&trust, login), CHECK_PATIENCE)
        }
    }
}

/// Creates the registrar of this node in etcd.
fn registrar(keeper: &Arc<Keeper>, place: &EtcdPlace) -> Result<Arc<Registrar>, String> {
    let settings = &keeper.state.settings;
    let me = Node {
        name: settings.node.clone(),
        weight: settings.node_weight,
        announced: settings.announced(),
    };
    // A node that no client could reach is to be reported at the start.
    NodeList::of(vec![me.clone()]).map_err(|reason| {
        format!("{reason}; set --announce-resp, --announce-memcached or --announce-http")
    })?;
    let (trust, login) = identity(settings);
    Registrar::of(Arc::clone(keeper), me, place, (&trust, login)).map(Arc::new)
}

/// The trusted CA, the certificate and the login for connections to etcd.
fn identity(settings: &Settings) -> (Trust, Option<EtcdLogin>) {
    let certificate = settings.cluster_cert.clone();
    let trust = Trust {
        ca: settings.cluster_ca.clone(),
        identity: certificate.zip(settings.cluster_key.clone()),
    };
    let user = settings.cluster_user.clone();
    let login = user.zip(settings.cluster_password_file.clone());
    (trust, login.map(|(user, file)| EtcdLogin::of(user, file)))
}

/// Starts the threads that follow the registrations. The watching thread is never joined: it blocks
/// while nothing changes, and ends with the process.
fn follow_etcd(
    registrar: Arc<Registrar>,
    heard: Receiver<Signal>,
    signals: &Sender<Signal>,
) -> io::Result<JoinHandle<()>> {
    let (watcher, told) = (Arc::clone(&registrar), signals.clone());
    spawn("cellar-watch", move || watcher.watch(&told))?;
    let told = signals.clone();
    spawn("cellar-cluster", move || registrar.run(&heard, &told))
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
