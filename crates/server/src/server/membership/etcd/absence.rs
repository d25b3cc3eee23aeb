//! Absence: nodes that are not registered any more, where etcd may end leases too early.
//!
//! Before versions 3.4.31 and 3.5.13 a member that has led and hangs ends leases, once it goes on,
//! that were renewed at another member meanwhile. The node whose lease that was may serve its
//! slots for as long as it believes in it, so nobody may take them for one lease more: who was
//! registered says only then that it follows the shorter list, and who comes waits before it
//! registers.
//!
//! Source: github.com/etcd-io/etcd/issues/15247. Tests: below, tests/cluster_members.rs.

use std::time::Duration;

use crate::cluster::registration::PrefixSnapshot;

/// The first patch, of each minor version of etcd 3, whose members ask the others before they end
/// a lease; later minors all do.
const MENDED: [(u64, u64); 2] = [(4, 31), (5, 13)];

/// Whether a version of etcd may end leases too early; one that nobody understands may.
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

/// Who was registered, and until when nobody takes what those had that are not any more.
#[derive(Debug)]
pub(super) struct Absences {
    /// How long that is from when they are missed, in milliseconds; 0 where leases end in time.
    pause_ms: u64,
    /// By which change each was registered.
    present: Vec<i64>,
    until_ms: u64,
}

impl Absences {
    /// Nobody is known yet.
    pub(super) fn of(pause_ms: u64) -> Absences {
        Absences {
            pause_ms,
            present: Vec::new(),
            until_ms: 0,
        }
    }

    /// Looks who is there, and who is not any more.
    pub(super) fn note(&mut self, snapshot: &PrefixSnapshot, now_ms: u64) {
        let entries = snapshot.entries.iter();
        let present: Vec<i64> = entries.map(|entry| entry.created).collect();
        if self.present.iter().any(|before| !present.contains(before)) {
            self.until_ms = now_ms + self.pause_ms;
        }
        self.present = present;
    }

    /// How long it still is until what the absent had may be taken.
    pub(super) fn left(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(now_ms))
    }

    /// How long somebody waits who has seen nobody before.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::registration::KeyValue;

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
        // One that comes again is another one.
        absences.note(&snapshot(&[1, 4]), 4_600);
        assert_eq!(absences.left(4_600), Duration::from_millis(3_000));
        assert_eq!(absences.left(7_600), Duration::ZERO);
        let mut trusting = Absences::of(0);
        trusting.note(&snapshot(&[1, 2]), 0);
        trusting.note(&snapshot(&[1]), 0);
        assert_eq!(trusting.left(0), Duration::ZERO);
    }
}
