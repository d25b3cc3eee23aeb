//! Moves: the checker over a cluster, while nodes come, go, hang, die, and are cut off.
//!
//! Three nodes of Cellar, listed in a file or in etcd, and one more that comes and goes. A value
//! may be lost whenever slots move, so a read may find nothing; it may not find an older one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_near::fault::Fault;

use crate::checker::{BELIEF, TIMEOUT, seconds};
use crate::fleet::{Fleet, Listed};
use crate::ledger::{Ledger, Report, read, write, write_own};
use crate::subject::{Cellar, Subject};

/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(150);
/// After so many reads caches hold what they are to lose.
const READS: u64 = 2_000;
/// How long it may take until everything has happened.
const PATIENCE: Duration = Duration::from_secs(180);

/// What happens to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shift {
    /// One more node comes.
    Joined,
    /// It goes: from the list while it goes on, or, in etcd, as it is told to stop.
    Left,
    /// A node's process is killed (kill -9); once others have its slots, it comes back.
    Killed,
    /// A node's process is stopped (SIGSTOP): in etcd for longer than its lease, in a file's
    /// cluster, where it keeps its slots, for longer than it is believed.
    Stopped,
    /// A node is cut off from etcd, and not from its clients, until others have its slots.
    CutOff,
    /// The connections of all caches to all nodes are closed on the way.
    Cut,
    /// They stay open, and nothing comes through any more.
    Frozen,
}

const IN_FILE: [Shift; 6] = [
    Shift::Joined,
    Shift::Cut,
    Shift::Left,
    Shift::Stopped,
    Shift::Killed,
    Shift::Frozen,
];
const IN_ETCD: [Shift; 7] = [
    Shift::Joined,
    Shift::Stopped,
    Shift::Left,
    Shift::CutOff,
    Shift::Cut,
    Shift::Killed,
    Shift::Frozen,
];

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct MovesSetting {
    listed: Listed,
    maker: Cellar,
    shifts: &'static [Shift],
    keys: u64,
    seconds: u64,
}

impl MovesSetting {
    fn whole(listed: Listed, maker: Cellar) -> MovesSetting {
        MovesSetting {
            listed,
            maker,
            shifts: match listed {
                Listed::InFile => &IN_FILE,
                Listed::InEtcd => &IN_ETCD,
            },
            keys: 60,
            seconds: seconds(),
        }
    }

    /// A run of a broken cache, while nodes come and go.
    pub(crate) fn broken(fault: Fault) -> MovesSetting {
        MovesSetting {
            shifts: &[Shift::Joined, Shift::Left],
            seconds: 60,
            ..MovesSetting::whole(Listed::InFile, Cellar::broken(fault))
        }
    }

    fn is_broken(&self) -> bool {
        self.maker.fault != Fault::None
    }
}

/// What came of a run, and how often each shift came.
pub(crate) type Outcome = (Report, BTreeMap<Shift, u64>);

/// Runs it and judges every read; none without etcd.
pub(crate) async fn run(setting: &MovesSetting) -> Option<Outcome> {
    let mut fleet = Fleet::start(setting.listed).await?;
    let ledger = Ledger::new(setting.keys, BELIEF + TIMEOUT, setting.is_broken()).paced();
    let ledger = Arc::new(ledger);
    fleet.serve_all(&[0, 1, 2], &ledger).await;
    let mut tasks = Vec::new();
    for number in 0..4 {
        let writing = write(Arc::clone(&ledger), fleet.pen(number), number as u64 + 1);
        tasks.push(tokio::spawn(writing));
    }
    let mut caches = Vec::new();
    for number in 0..3 {
        let near = setting.maker.near_cluster(&fleet.addresses(), BELIEF);
        let subject: Arc<dyn Subject> = Arc::new(near.clone());
        for reader in 0..3 {
            let seed = number * 3 + reader + 101;
            let reading = read(Arc::clone(&ledger), Arc::clone(&subject), seed);
            tasks.push(tokio::spawn(reading));
        }
        tasks.push(tokio::spawn(write_own(
            Arc::clone(&ledger),
            subject,
            number,
        )));
        caches.push(near);
    }
    let counts = shift_all(&mut fleet, &ledger, setting).await;
    ledger.end();
    for task in tasks {
        task.await.expect("no task panics");
    }
    let mut report = ledger.report();
    caches.iter().for_each(|near| report.add(&near.stats()));
    Some((report, counts))
}

/// Lets one thing happen after the other, until the time is over and all have.
async fn shift_all(
    fleet: &mut Fleet,
    ledger: &Ledger,
    setting: &MovesSetting,
) -> BTreeMap<Shift, u64> {
    let mut counts = BTreeMap::new();
    let begun_at = ledger.now();
    for &shift in setting.shifts.iter().cycle() {
        ledger.wait_for_reads(READS).await;
        // A broken cache shows that it is once a copy is older than it may be.
        let pause = match setting.is_broken() {
            true => 2 * (BELIEF + TIMEOUT),
            false => PAUSE,
        };
        // paced: the schedule of the faults.
        tokio::time::sleep(pause).await;
        let ran = ledger.now() - begun_at;
        let is_complete = counts.len() == setting.shifts.len() || ran > PATIENCE;
        if ledger.has_ended() || is_complete && ran > Duration::from_secs(setting.seconds) {
            break;
        }
        befall(fleet, ledger, setting.listed, shift).await;
        *counts.entry(shift).or_default() += 1;
    }
    counts
}

async fn befall(fleet: &mut Fleet, ledger: &Ledger, listed: Listed, shift: Shift) {
    let is_in_file = listed == Listed::InFile;
    match shift {
        Shift::Cut => return fleet.proxies().for_each(|proxy| proxy.cut()),
        Shift::Frozen => return fleet.proxies().for_each(|proxy| proxy.freeze()),
        Shift::Stopped if is_in_file => {
            fleet.server(0).freeze();
            // paced: the server's process is stopped for longer than caches believe it.
            tokio::time::sleep(BELIEF * 3 / 2).await;
            return fleet.server(0).thaw();
        }
        _ => {}
    }
    ledger.begin_loss();
    match shift {
        Shift::Joined => {
            if !is_in_file {
                fleet.start_node(3).await;
            }
            fleet.list(3, true);
        }
        Shift::Left => {
            fleet.list(3, false);
            match listed {
                Listed::InFile => fleet.serves_nothing(3, ledger).await,
                Listed::InEtcd => fleet.server(3).end().await,
            }
        }
        Shift::Stopped => {
            fleet.server(0).freeze();
            let others: Vec<usize> = fleet
                .listed()
                .into_iter()
                .filter(|node| *node != 0)
                .collect();
            fleet.serve_all(&others, ledger).await;
            ledger.wait_for_reads(READS).await;
            fleet.server(0).thaw();
        }
        Shift::Killed => {
            fleet.server(1).crash();
            fleet.list(1, false);
            fleet.serve_all(&[0, 2], ledger).await;
            ledger.wait_for_reads(READS).await;
            fleet.start_node(1).await;
            fleet.list(1, true);
        }
        Shift::CutOff => {
            fleet.cut_off(true);
            fleet.serve_all(&[0, 1], ledger).await;
            ledger.wait_for_reads(READS).await;
            fleet.cut_off(false);
        }
        Shift::Cut | Shift::Frozen => {}
    }
    fleet.serve_all(&fleet.listed(), ledger).await;
    ledger.end_loss();
}

/// Runs it whole, and nothing may be stale.
async fn check(listed: Listed, maker: Cellar) {
    let setting = MovesSetting::whole(listed, maker);
    let Some((report, counts)) = run(&setting).await else {
        return;
    };
    println!("{setting:?}: {report:?} {counts:?}");
    assert_eq!(report.stale, Vec::<String>::new(), "{report:?}");
    assert!(report.hits > 0 && report.writes > 0, "{report:?}");
    assert!(report.own_writes > 0, "{report:?}");
    for shift in setting.shifts {
        assert!(
            counts.contains_key(shift),
            "{shift:?} never came: {counts:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_a_cluster_in_a_file() {
    check(Listed::InFile, Cellar::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_a_cluster_that_broadcasts() {
    check(Listed::InFile, Cellar::broadcast()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_the_bound_over_a_cluster_in_etcd() {
    check(Listed::InEtcd, Cellar::default()).await;
}
