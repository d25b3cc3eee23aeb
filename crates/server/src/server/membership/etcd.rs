//! Etcd: a list of what is registered there, each node under a lease of its own.
//!
//! ```text
//! empty  -> lease -> registered -> [ look -> give up -> say so -> look -> all say so: take ]...
//!   ^                                                                                     |
//!   +--------------------- the lease is lost, or the server stops: all is given up -------+
//! ```
//!
//! The follower looks at all that is registered whenever a watch or a renewal says that something
//! has changed; the renewer keeps the lease; the watcher is a help that nothing depends on.
//!
//! Invariants: a node registers that it follows a list only after it has given up what the list
//! takes; it takes slots only when one snapshot shows that all follow the snapshot's list; what it
//! took it serves only while its registration lasts. Why no slot has two owners then:
//! docs/decisions/0057. Tests: tests/cluster_etcd.rs, cluster_members.rs, cluster_network.rs.

mod absence; // who may still serve though etcd has forgotten it
pub(super) mod login; // as whom
mod gateway; // etcd's API

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::{scope, sleep};
use std::time::Duration;

use self::absence::{Absences, may_end_early};
use self::gateway::{Gateway, Renewal};
use self::login::EtcdLogin;
use super::Signal;
use super::keeper::Keeper;
use crate::cluster::Cluster;
use crate::cluster::list::NodeList;
use crate::cluster::node::Node;
use crate::cluster::ownership::now_ms;
use crate::cluster::registration::{
    LOOK, MARGIN, PrefixSnapshot, RENEWALS, RegisteredNodes, Registration,
};
use crate::config::dial::Trust;
use crate::config::settings::source::EtcdPlace;

/// How long after something has failed it is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Who registers this node, and follows what is registered.
pub(super) struct Registrar {
    keeper: Arc<Keeper>,
    me: Node,
    lease_ms: u64,
    /// For the follower and the watcher.
    etcd: Gateway,
    /// For the renewer, and for the end, which wait less long.
    renewals: Gateway,
    prefix: String,
    source: String,
    /// Whether it was told that this etcd may end leases too early.
    is_doubted: AtomicBool,
}

/// What the follower does next.
#[derive(Debug, PartialEq, Eq)]
enum Wakeup {
    Look,
    End,
}

/// How the keys of a cluster's nodes begin.
fn prefix_of(place: &EtcdPlace) -> String {
    format!("/cellar/{}/", place.cluster)
}

impl Registrar {
    /// Who registers a node in this etcd.
    ///
    /// # Errors
    /// A certificate, key or file of a password that cannot be used.
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

    /// Checks that this etcd answers and lets this node read what is registered.
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

    /// Registers and follows, again and again, until the end.
    pub(super) fn run(&self, signals: &Receiver<Signal>, sender: &Sender<Signal>) {
        while !self.keeper.is_over() {
            if let Err(reason) = self.session(signals, sender) {
                self.judge(Err(reason));
            }
            // What the renewer of this session has said is not for the next one.
            let stop = signals.try_iter().any(|signal| signal == Signal::Stop);
            if stop || signals.recv_timeout(RETRY) == Ok(Signal::Stop) {
                return;
            }
        }
    }

    /// Tells the follower when something was registered or has gone, until the end.
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
        // In this order: nobody may take anything before this node has let go of it.
        self.cluster().hold_until(0);
        self.keeper.lose_all();
        let revoked = self.renewals.revoke(granted.lease);
        tracing::debug!("returned the lease: {revoked:?}");
        outcome
    }

    /// Who is there, once nobody can serve any more whom etcd has forgotten too early.
    fn absences(&self) -> Result<Absences, String> {
        let Some(version) = self.etcd.doubtful_version(may_end_early)? else {
            return Ok(Absences::of(0));
        };
        // Relaxed: it is told once, by whichever session is the first.
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

    /// Whether what is registered forms a cluster with this node.
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
                // What was stored has to be seen in a snapshot; what was not yet is to be.
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

    /// Gives up what a snapshot's list takes, if it is another list; whether all follow it.
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

    /// Waits until there is something to look at that was not `seen`.
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
            // The end of the lease is noticed when it comes.
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
            // One look is enough for all that was said so far.
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

    /// Renews a lease until told to stop, or until there is no such lease.
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
        // Relaxed: a figure to look at.
        let counts = &self.cluster().counts;
        counts.lost_leases.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether all is well, and says once why not.
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
