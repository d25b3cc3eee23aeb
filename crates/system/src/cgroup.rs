//! Control groups: the memory and processor limits of this process, versions 1 and 2.
//!
//! The tightest limit along the path of a group applies. If the system reports none, there is no
//! limit. Tests: at the end of this file, with temporary trees of files.

use std::fs;
use std::path::{Path, PathBuf};

/// Thousandths of a processor.
pub const WHOLE_CPU: u64 = 1_000;

/// Most bytes of memory that the group of this process may take, by the files below `root`.
#[must_use]
pub fn memory_bytes(root: &Path) -> Option<usize> {
    let limits = folders(root, "memory")
        .into_iter()
        .filter_map(|(folder, is_new)| {
            let file = if is_new {
                "memory.max"
            } else {
                "memory.limit_in_bytes"
            };
            number(&folder.join(file))
        });
    limits.min()
}

/// How much processor time it may take at once, in thousandths of a processor.
#[must_use]
pub fn cpu_thousandths(root: &Path) -> Option<u64> {
    let limits = folders(root, "cpu")
        .into_iter()
        .filter_map(|(folder, is_new)| {
            let (quota, period): (u64, u64) = if is_new {
                let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            } else {
                // -1 is not a number here, and no limit there.
                let quota = number(&folder.join("cpu.cfs_quota_us"))?;
                let period = number(&folder.join("cpu.cfs_period_us"))?;
                (quota as u64, period as u64)
            };
            quota.saturating_mul(WHOLE_CPU).checked_div(period)
        });
    limits.min()
}

/// Whether the group of this process may use no swap.
#[must_use]
pub fn is_without_swap(root: &Path) -> bool {
    let files = folders(root, "memory").into_iter();
    let mut files = files.filter(|(_, is_new)| *is_new);
    files.any(|(folder, _)| number(&folder.join("memory.swap.max")) == Some(0))
}

/// The folders of the process's group of one controller and of the groups around it, and whether
/// they are of version 2.
fn folders(root: &Path, controller: &str) -> Vec<(PathBuf, bool)> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let is_new = controllers.is_empty();
        if !is_new && !controllers.split(',').any(|one| one == controller) {
            continue;
        }
        // Version 1 has a folder for each controller, by the name of the list or its own.
        let names: &[&str] = if is_new {
            &[""]
        } else {
            &[controllers, controller]
        };
        let path = PathBuf::from(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let folder = |name| root.join("sys/fs/cgroup").join(name).join(group);
            folders.extend(names.iter().map(|name| (folder(name), is_new)));
        }
    }
    folders
}

fn number(file: &Path) -> Option<usize> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod fake_machine;

#[cfg(test)]
mod tests {
    use super::fake_machine::machine;
    use super::*;

    #[test]
    fn the_tightest_group_on_the_path_counts_in_both_versions() {
        let new = machine(&[
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "1048576\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.swap.max", "0\n"),
            ("sys/fs/cgroup/outer/cpu.max", "350000 100000\n"),
            ("sys/fs/cgroup/outer/inner/cpu.max", "150000 100000\n"),
        ]);
        let old = machine(&[
            (
                "proc/self/cgroup",
                "4:memory:/inner\n1:cpu,cpuacct:/inner\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
            (
                "sys/fs/cgroup/memory/inner/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us",
                "75000\n",
            ),
            (
                "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us",
                "50000\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        for root in [new.path(), old.path()] {
            assert_eq!(memory_bytes(root), Some(1 << 20));
            assert_eq!(cpu_thousandths(root), Some(1_500));
        }
        assert!(is_without_swap(new.path()) && !is_without_swap(old.path()));
    }

    #[test]
    fn without_a_limit_there_is_none() {
        let free = machine(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ]);
        let broken = machine(&[
            ("proc/self/cgroup", "nonsense\n0::/a\n1:cpu:/a\n"),
            ("sys/fs/cgroup/a/memory.max", "much\n"),
            ("sys/fs/cgroup/a/cpu.max", "1\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "1\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0\n"),
        ]);
        for root in [free.path(), broken.path(), Path::new("/nonexistent")] {
            assert_eq!(memory_bytes(root), None);
            assert_eq!(cpu_thousandths(root), None);
            assert!(!is_without_swap(root));
        }
    }
}
