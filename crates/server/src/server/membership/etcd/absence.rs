//! Absence: nodes whose registration has ended, where etcd may end leases too early.
//!
//! Before versions 3.4.31 and 3.5.13 a former leader that hangs and resumes ends leases that were
//! renewed at another member meanwhile. The node of such a lease may serve its slots for as long as
//! it considers the lease valid, so no node may take them for the time of one more lease:
//! registered nodes announce the shorter list only then, and new nodes wait before they register.
//!
//! Source: github.com/etcd-io/etcd/issues/15247. Tests: below, tests/cluster_members.rs.

use std::time::Duration;

use cellar_cluster::registration::PrefixSnapshot;

/// The first fixed patch of each minor version of etcd 3, whose members check with the others
/// before they end a lease; later minors all do.
const MENDED: [(u64, u64); 2] = [(4, 31), (5, 13)];

/// Whether a version of etcd may end leases too early; an unparsable one may.
pub(super) fn may_end_early(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) =
        (parts.next(), parts.next(), parts.next())
    else {
        return true;
    };
    let mended = MENDED.iter().find(|(of, _)| *of == minor);
    match (major, mended) {
        (3, Some((_, from))) => patch < *from,
        (3, None) => minor < MENDED[0].0,
        _ => major < 3,
    }
}

/// The registered nodes, and until when no node takes the slots of missing ones.
#[derive(Debug)]
pub(super) struct Absences {
    /// The pause after a node is missed, in milliseconds; 0 if leases end on time.
    pause_ms: u64,
    /// The revision in which each was registered.
    present: Vec<i64>,
    until_ms: u64,
}

impl Absences {
    /// No node is known yet.
    pub(super) fn of(pause_ms: u64) -> Absences {
        Absences {
            pause_ms,
            present: Vec::new(),
            until_ms: 0,
        }
    }

    /// Records which nodes are registered, and which no longer are.
    pub(super) fn note(&mut self, snapshot: &PrefixSnapshot, now_ms: u64) {
        let entries = snapshot.entries.iter();
        let present: Vec<i64> = entries.map(|entry| entry.created).collect();
        if self.present.iter().any(|before| !present.contains(before)) {
            self.until_ms = now_ms + self.pause_ms;
        }
        self.present = present;
    }

    /// Time left until the slots of missing nodes may be taken.
    pub(super) fn left(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(now_ms))
    }

    /// How long a node waits that has seen no registrations before.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_cluster::registration::KeyValue;

    #[test]
    fn versions_are_known_by_their_patch() {
        for (version, may) in [
            ("3.3.27", true),
            ("3.4.0", true),
            ("3.4.30", true),
            ("3.4.31", false),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0-rc.1", false),
            ("4.0.0", false),
            ("2.3.8", true),
            ("", true),
            ("3.5", true),
        ] {
            assert_eq!(may_end_early(version), may, "{version}");
        }
    }

    #[test]
    fn what_the_absent_had_is_left_alone_for_one_lease() {
        let snapshot = |created: &[i64]| PrefixSnapshot {
            revision: 9,
            entries: created
                .iter()
                .map(|created| KeyValue {
                    name: String::new(),
                    value: Vec::new(),
                    created: *created,
                    changed: 9,
                })
                .collect(),
        };
        let mut absences = Absences::of(3_000);
        absences.note(&snapshot(&[1, 2]), 0);
        absences.note(&snapshot(&[1, 2, 3]), 1_000);
        assert_eq!(absences.left(1_000), Duration::ZERO, "nobody is missed");
        absences.note(&snapshot(&[1, 3]), 2_000);
        absences.note(&snapshot(&[1, 3]), 4_000);
        assert_eq!(absences.left(4_500), Duration::from_millis(500));
        // A node that registers again counts as another one.
        absences.note(&snapshot(&[1, 4]), 4_600);
        assert_eq!(absences.left(4_600), Duration::from_millis(3_000));
        assert_eq!(absences.left(7_600), Duration::ZERO);
        let mut trusting = Absences::of(0);
        trusting.note(&snapshot(&[1, 2]), 0);
        trusting.note(&snapshot(&[1]), 0);
        assert_eq!(trusting.left(0), Duration::ZERO);
    }
}
