//! Etcd: a node list from registrations in etcd, each under its node's own lease.
//!
//! ```text
//! empty  -> lease -> registered -> [ look -> release -> report -> look -> all report: take ]...
//!   ^                                                                                     |
//!   +--------------------- the lease is lost, or the server stops: all is released -------+
//! ```
//!
//! The follower reads all registrations when a watch or a renewal reports a change; the renewer
//! keeps the lease alive; the watcher only speeds this up.
//!
//! Invariants: a node registers that it follows a list only after it has released the slots that
//! the list takes from it; it takes slots only when one snapshot shows that all follow its list; it
//! serves taken slots only while its registration lasts. Why no slot has two owners then:
//! docs/decisions/0057. Tests: cluster_etcd.rs, cluster_members.rs, cluster_network.rs in tests/.

mod absence; // nodes that may still serve though etcd has dropped their registration
pub(super) mod login; // the credentials for etcd
mod gateway; // etcd's API

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::{scope, sleep};
use std::time::Duration;

use cellar_cluster::Cluster;
use cellar_cluster::list::NodeList;
use cellar_cluster::node::Node;
use cellar_cluster::ownership::now_ms;
use cellar_cluster::registration::{
    LOOK, MARGIN, PrefixSnapshot, RENEWALS, RegisteredNodes, Registration,
};
use cellar_config::dial::Trust;
use cellar_config::settings::source::EtcdPlace;

use self::absence::{Absences, may_end_early};
use self::gateway::{Gateway, Renewal};
use self::login::EtcdLogin;
use super::Signal;
use super::keeper::Keeper;

/// Pause before a failed operation is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Registers this node, and follows the registrations.
pub(super) struct Registrar {
    keeper: Arc<Keeper>,
    me: Node,
    lease_ms: u64,
    /// For the follower and the watcher.
    etcd: Gateway,
    /// For the renewer, and for the end, with shorter time limits.
    renewals: Gateway,
    prefix: String,
    source: String,
    /// Whether the warning was logged that this etcd may end leases too early.
    is_doubted: AtomicBool,
}

/// The next action of the follower.
#[derive(Debug, PartialEq, Eq)]
enum Wakeup {
    Look,
    End,
}

/// The key prefix of a cluster's nodes.
fn prefix_of(place: &EtcdPlace) -> String {
    format!("/cellar/{}/", place.cluster)
}

impl Registrar {
    /// Creates the registrar of a node in this etcd.
    ///
    /// # Errors
    /// An invalid certificate, key or password file.
    pub(super) fn of(
        keeper: Arc<Keeper>,
        me: Node,
        place: &EtcdPlace,
        (trust, login): (&Trust, Option<EtcdLogin>),
    ) -> Result<Registrar, String> {
        let lease_ms = keeper.state.settings.cluster_lease_ms;
        let login = login.map(Arc::new);
        let part = |parts| Duration::from_millis(lease_ms / parts);
        Ok(Registrar {
            keeper,
            me,
            lease_ms,
            etcd: Gateway::to(place, (trust, login.clone()), part(2))?,
            renewals: Gateway::to(place, (trust, login), part(MARGIN))?,
            prefix: prefix_of(place),
            source: format!("etcd:{}", place.urls.join(",")),
            is_doubted: AtomicBool::new(false),
        })
    }

    /// Checks that this etcd answers and lets this node read the registrations.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(
        place: &EtcdPlace,
        (trust, login): (&Trust, Option<EtcdLogin>),
        patience: Duration,
    ) -> Result<(), String> {
        let etcd = Gateway::to(place, (trust, login.map(Arc::new)), patience)?;
        etcd.list(&prefix_of(place)).map(drop)
    }

    /// Registers and follows, repeatedly, until the end.
    pub(super) fn run(&self, signals: &Receiver<Signal>, sender: &Sender<Signal>) {
        while !self.keeper.is_over() {
            if let Err(reason) = self.session(signals, sender) {
                self.judge(Err(reason));
            }
            // Signals of this session's renewer are not for the next session.
            let stop = signals.try_iter().any(|signal| signal == Signal::Stop);
            if stop || signals.recv_timeout(RETRY) == Ok(Signal::Stop) {
                return;
            }
        }
    }

    /// Signals each change of the registrations to the follower, until the end.
    pub(super) fn watch(&self, sender: &Sender<Signal>) {
        while !self.keeper.is_over() {
            let mut is_heard = true;
            let ended = self.etcd.watch(&self.prefix, || {
                is_heard = sender.send(Signal::Changed).is_ok();
            });
            if !is_heard {
                return;
            }
            tracing::debug!("the watch of the registrations has ended: {ended:?}");
            sleep(RETRY);
        }
    }

    /// One lease from its beginning to its end.
    fn session(&self, signals: &Receiver<Signal>, sender: &Sender<Signal>) -> Result<(), String> {
        while !self.keeper.wait_until_empty(RETRY) {
            if self.keeper.is_over() {
                return Ok(());
            }
        }
        let absences = self.absences()?;
        if self.keeper.is_over() {
            return Ok(());
        }
        let sent_ms = now_ms();
        let granted = self.etcd.grant(self.lease_ms.div_ceil(1_000))?;
        let outcome = self.registered((granted, absences), sent_ms, signals, sender);
        // In this order: no node may take slots before this one has released them.
        self.cluster().hold_until(0);
        self.keeper.lose_all();
        let revoked = self.renewals.revoke(granted.lease);
        tracing::debug!("returned the lease: {revoked:?}");
        outcome
    }

    /// The registered nodes, once no node can still serve whose lease etcd has ended too early.
    fn absences(&self) -> Result<Absences, String> {
        let Some(version) = self.etcd.doubtful_version(may_end_early)? else {
            return Ok(Absences::of(0));
        };
        // Relaxed: the first session logs it, once.
        if !self.is_doubted.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                version,
                "etcd of several members may end leases too early before 3.4.31 and 3.5.13: slots \
                 of a node that has gone are taken one lease later"
            );
        }
        let mut absences = Absences::of(self.lease_ms.div_ceil(1_000) * 1_000);
        absences.note(&self.etcd.list(&self.prefix)?, now_ms());
        let mut until_ms = now_ms() + absences.pause().as_millis() as u64;
        while now_ms() < until_ms && !self.keeper.is_over() {
            sleep(RETRY);
            if now_ms() >= until_ms {
                let now_ms = now_ms();
                absences.note(&self.etcd.list(&self.prefix)?, now_ms);
                until_ms = now_ms + absences.left(now_ms).as_millis() as u64;
            }
        }
        Ok(absences)
    }

    /// Registers under a lease, and follows for as long as it holds.
    fn registered(
        &self,
        (granted, absences): (Renewal, Absences),
        sent_ms: u64,
        signals: &Receiver<Signal>,
        sender: &Sender<Signal>,
    ) -> Result<(), String> {
        self.check_list()?;
        let record = Registration::of(&self.me, self.keeper.state.start_unix_s());
        let stored = self
            .etcd
            .put_if((&self.key(), &record.bytes()), 0, granted.lease)?;
        let Some(created) = stored else {
            return Err(format!(
                "{} is registered already, by another server or by this one before it was \
                 restarted; this one waits until that lease has ended",
                self.me.name
            ));
        };
        self.hold(sent_ms, granted);
        scope(|threads| {
            let (halt, halted) = std::sync::mpsc::channel();
            threads.spawn(move || self.renew(granted.lease, &halted, sender));
            let outcome = self.follow((granted.lease, created), (record, absences), signals);
            drop(halt);
            outcome
        })
    }

    /// Whether the registrations form a cluster with this node.
    fn check_list(&self) -> Result<(), String> {
        let mut snapshot = self.etcd.list(&self.prefix)?;
        snapshot.entries.retain(|entry| entry.name != self.me.name);
        let mut nodes = vec![self.me.clone()];
        if !snapshot.entries.is_empty() {
            nodes.extend_from_slice(RegisteredNodes::of(&snapshot)?.list.nodes());
        }
        NodeList::of(nodes).map(|_| ())
    }

    /// Follows what is registered until the lease is lost or the server stops.
    fn follow(
        &self,
        (lease, created): (i64, i64),
        (mut record, mut absences): (Registration, Absences),
        signals: &Receiver<Signal>,
    ) -> Result<(), String> {
        let (mut seen, mut patience, mut is_agreed) = (0, Duration::ZERO, false);
        let mut lapse = Lapse::default();
        while self.wait(signals, patience, seen, &mut lapse) == Wakeup::Look {
            patience = RETRY;
            let snapshot = match self.etcd.list(&self.prefix) {
                Ok(snapshot) => snapshot,
                Err(reason) => {
                    self.judge(Err(reason));
                    continue;
                }
            };
            if snapshot.revision < seen {
                return Err("etcd has lost changes that this node had seen".to_owned());
            }
            let own = snapshot
                .entries
                .iter()
                .find(|entry| entry.created == created);
            let Some(own) = own else {
                self.count_loss();
                return Err("this node is no longer registered".to_owned());
            };
            absences.note(&snapshot, now_ms());
            let turned = self.turn_to(&snapshot, &mut record, &mut is_agreed);
            let value = record.bytes();
            let outcome = turned.and_then(|all_follow| {
                if own.value == value {
                    return Ok(Some(all_follow));
                }
                if absences.left(now_ms()) > Duration::ZERO {
                    return Ok(None);
                }
                let put = self.etcd.put_if((&self.key(), &value), own.changed, lease);
                put.map(|_| None)
            });
            match outcome {
                // A stored entry has to appear in a snapshot first; one that had to wait is stored
                // later.
                Ok(None) => patience = absences.left(now_ms()),
                Ok(Some(all_follow)) => {
                    if all_follow && !is_agreed {
                        self.keeper.agree();
                        is_agreed = true;
                    }
                    (seen, patience) = (snapshot.revision, LOOK);
                    self.judge(Ok(()));
                }
                Err(reason) => {
                    seen = snapshot.revision;
                    self.judge(Err(reason));
                }
            }
        }
        Ok(())
    }

    /// Releases the slots that a snapshot's list takes, if it is another list; returns whether all
    /// follow it.
    fn turn_to(
        &self,
        snapshot: &PrefixSnapshot,
        record: &mut Registration,
        is_agreed: &mut bool,
    ) -> Result<bool, String> {
        let registered = RegisteredNodes::of(snapshot)?;
        if registered.digest != record.follows {
            *is_agreed = false;
            self.keeper.give_up_for(registered.list)?;
            record.follows = registered.digest;
        }
        Ok(registered.is_agreed)
    }

    /// Waits for a change that was not `seen`.
    fn wait(
        &self,
        signals: &Receiver<Signal>,
        patience: Duration,
        seen: i64,
        lapse: &mut Lapse,
    ) -> Wakeup {
        let until_ms = now_ms() + patience.as_millis() as u64;
        loop {
            lapse.note(&self.keeper);
            let left_ms = until_ms.saturating_sub(now_ms());
            // The end of the lease is noticed on time.
            let lease_ms = self
                .cluster()
                .lease_left_ms()
                .filter(|left_ms| *left_ms > 0);
            let pause_ms = lease_ms.map_or(left_ms, |lease_ms| left_ms.min(lease_ms + 1));
            let signal = match signals.recv_timeout(Duration::from_millis(pause_ms)) {
                Err(RecvTimeoutError::Timeout) if pause_ms < left_ms => continue,
                Err(RecvTimeoutError::Timeout) => return Wakeup::Look,
                Err(RecvTimeoutError::Disconnected) => return Wakeup::End,
                Ok(signal) => signal,
            };
            // One read covers all signals so far.
            let said: Vec<Signal> = [signal].into_iter().chain(signals.try_iter()).collect();
            if said.contains(&Signal::Stop) {
                return Wakeup::End;
            }
            if said.contains(&Signal::Lost) {
                self.count_loss();
                tracing::error!("the lease of this node has expired in etcd: deleting all items");
                return Wakeup::End;
            }
            let is_new = |signal: &Signal| match signal {
                Signal::Revision(revision) => *revision > seen,
                _ => true,
            };
            if said.iter().any(is_new) {
                return Wakeup::Look;
            }
        }
    }

    /// Renews a lease until told to stop, or until it no longer exists.
    fn renew(&self, lease: i64, halted: &Receiver<()>, sender: &Sender<Signal>) {
        let often = Duration::from_millis(self.lease_ms / RENEWALS);
        let mut pause = often;
        while halted.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let sent_ms = now_ms();
            let said = match self.renewals.keep_alive(lease) {
                Ok(Renewal { ttl_s: 0, .. }) => Signal::Lost,
                Ok(renewal) => {
                    self.hold(sent_ms, renewal);
                    pause = often;
                    Signal::Revision(renewal.revision)
                }
                Err(reason) => {
                    tracing::debug!("the lease was not renewed: {reason}");
                    pause = RETRY;
                    continue;
                }
            };
            if sender.send(said).is_err() || said == Signal::Lost {
                return;
            }
        }
    }

    /// Holds the lease for as long as etcd, which heard of it no earlier than `sent_ms`, keeps it,
    /// but for the margin.
    fn hold(&self, sent_ms: u64, renewal: Renewal) {
        let length_ms = self.lease_ms.min(renewal.ttl_s * 1_000);
        self.cluster()
            .hold_until(sent_ms + length_ms - length_ms / MARGIN);
    }

    fn cluster(&self) -> &Cluster {
        &self.keeper.cluster
    }

    fn key(&self) -> String {
        format!("{}{}", self.prefix, self.me.name)
    }

    fn count_loss(&self) {
        // Relaxed: only reported.
        let counts = &self.cluster().counts;
        counts.lost_leases.fetch_add(1, Ordering::Relaxed);
    }

    /// Records whether the session is in order, and logs once why not.
    fn judge(&self, outcome: Result<(), String>) {
        self.keeper.judge_once(outcome, &self.source);
    }
}

/// Whether the lease was seen to have ended here, though etcd may still keep it.
#[derive(Debug, Default)]
struct Lapse {
    is_over: bool,
}

impl Lapse {
    fn note(&mut self, keeper: &Keeper) {
        let is_over = !keeper.cluster.is_leased();
        if is_over == self.is_over {
            return;
        }
        self.is_over = is_over;
        if is_over {
            keeper.mistrust_near_caches();
            tracing::warn!("the lease was not renewed in time: serving nothing until it is");
        } else {
            tracing::info!("the lease was renewed: serving again");
        }
    }
}
