//! Memory: how much of it the machine, or the control group around this process, has.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::settings::units::round_size;

/// A limit and who sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    bytes: usize,
    owner: &'static str,
}

/// Checks that the memory asked for is there at all.
///
/// Where the system tells nothing, nothing is refused.
///
/// # Errors
/// [`Error::Memory`] if the machine or the control group has less.
pub fn check(memory_bytes: usize) -> Result<(), Error> {
    match limit(Path::new("/")) {
        Some(limit) if limit.bytes < memory_bytes => Err(Error::Memory(format!(
            "{} are asked for, but {} has {}",
            round_size(memory_bytes),
            limit.owner,
            round_size(limit.bytes),
        ))),
        _ => Ok(()),
    }
}

/// Bytes of memory in the machine.
#[must_use]
pub fn of_machine() -> Option<usize> {
    machine_bytes(Path::new("/"))
}

fn machine_bytes(root: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The tightest limit below `root`, the file system that describes the machine.
fn limit(root: &Path) -> Option<Limit> {
    let machine = machine_bytes(root).map(|bytes| Limit {
        bytes,
        owner: "this machine",
    });
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let group = groups
        .lines()
        .filter_map(|line| group_bytes(root, line))
        .min();
    let group = group.map(|bytes| Limit {
        bytes,
        owner: "this process's control group",
    });
    machine
        .into_iter()
        .chain(group)
        .min_by_key(|limit| limit.bytes)
}

/// The tightest limit along the path of one line of /proc/self/cgroup, versions 1 and 2.
fn group_bytes(root: &Path, line: &str) -> Option<usize> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (base, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    let base = root.join(base);
    let path = PathBuf::from(path.trim_start_matches('/'));
    let limits = path.ancestors().filter_map(|group| {
        std::fs::read_to_string(base.join(group).join(file))
            .ok()?
            .trim()
            .parse::<usize>()
            .ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_machine_is_the_limit_outside_of_groups() {
        let root = machine(&[MEMINFO, ("proc/self/cgroup", "0::/\n")]);
        assert_eq!(
            limit(root.path()),
            Some(Limit {
                bytes: 2 << 20,
                owner: "this machine"
            })
        );
        assert_eq!(limit(Path::new("/nonexistent")), None);
    }

    #[test]
    fn the_tightest_group_on_the_path_counts_in_both_versions() {
        let group = Some(Limit {
            bytes: 1 << 20,
            owner: "this process's control group",
        });
        let root = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "1048576\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
        ]);
        assert_eq!(limit(root.path()), group);
        let root = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/inner\n1:cpu:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
            (
                "sys/fs/cgroup/memory/inner/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        assert_eq!(limit(root.path()), group);
    }

    #[test]
    fn this_machine_has_less_than_an_exbibyte() {
        let message = check(1 << 60).unwrap_err().to_string();
        assert!(message.starts_with("--memory:"), "{message}");
    }
}
