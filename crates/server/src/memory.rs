//! Memory: how much of it the machine, or the control group around this process, has, and how many
//! addresses this process may have.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::error::Error;
use crate::settings::units::round_size;

/// Addresses of a process with one event loop and no cache: program, libraries, heap, stacks.
const BASE_ADDRESS_BYTES: usize = 256 << 20;
/// Addresses of one more event loop: its stack, its buffers, and the heap that the system's
/// allocator sets aside for a thread.
const THREAD_ADDRESS_BYTES: usize = 72 << 20;

/// A limit and who sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemoryLimit {
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

/// Checks that this process may have the addresses that its cache reserves.
///
/// # Errors
/// [`Error::Memory`] if a limit of the process is below that.
pub fn check_addresses(
    memory_bytes: usize,
    cache_bytes: usize,
    threads: usize,
) -> Result<(), Error> {
    let needed = cache_bytes + BASE_ADDRESS_BYTES + threads * THREAD_ADDRESS_BYTES;
    for (resource, command, unit) in [
        (Resource::As, "ulimit -v", "LimitAS"),
        (Resource::Data, "ulimit -d", "LimitDATA"),
    ] {
        let Some(limit) = getrlimit(resource).current else {
            continue;
        };
        if limit < needed as u64 {
            return Err(Error::Memory(format!(
                "{} and {} need {} of addresses, which take memory only as they are used, but \
                 this process may have {} ({command}); lift that limit ({command} unlimited, or \
                 {unit}=infinity in its unit), or give less --memory",
                round_size(memory_bytes),
                count_threads(threads),
                round_size(needed),
                round_size(usize::try_from(limit).unwrap_or(usize::MAX)),
            )));
        }
    }
    Ok(())
}

fn count_threads(threads: usize) -> String {
    match threads {
        1 => "one thread".to_owned(),
        n => format!("{n} threads"),
    }
}

/// Why the system refused the addresses of a cache, and what helps.
#[must_use]
pub fn refused(memory_bytes: usize, cache_bytes: usize, code: i32) -> Error {
    refused_by(Path::new("/"), memory_bytes, cache_bytes, code)
}

fn refused_by(root: &Path, memory_bytes: usize, cache_bytes: usize, code: i32) -> Error {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let needs = format!(
        "{} need {} of addresses, which take memory only as they are used",
        round_size(memory_bytes),
        round_size(cache_bytes),
    );
    let is_strict = read("proc/sys/vm/overcommit_memory").trim() == "2";
    Error::Memory(if is_strict {
        let limit = kib_of(&read("proc/meminfo"), "CommitLimit:");
        let limit = limit.map_or(String::new(), |bytes| format!(" {}", round_size(bytes)));
        format!(
            "{needs}, but this machine promises at most{limit} to all processes together \
             (vm.overcommit_memory is 2); set it to 0 or 1 (sysctl vm.overcommit_memory=0), or \
             give less --memory"
        )
    } else {
        let reason = std::io::Error::from_raw_os_error(code);
        format!("{needs}, and the system refused them: {reason}; give less --memory")
    })
}

/// Bytes of memory in the machine.
#[must_use]
pub fn of_machine() -> Option<usize> {
    machine_bytes(Path::new("/"))
}

fn machine_bytes(root: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    kib_of(&text, "MemTotal:")
}

/// The bytes in a line of /proc/meminfo that begins like this.
fn kib_of(meminfo: &str, name: &str) -> Option<usize> {
    let mut lines = meminfo.lines();
    let line = lines.find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The tightest limit below `root`, the file system that describes the machine.
fn limit(root: &Path) -> Option<MemoryLimit> {
    let machine = machine_bytes(root).map(|bytes| MemoryLimit {
        bytes,
        owner: "this machine",
    });
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let group = groups
        .lines()
        .filter_map(|line| group_bytes(root, line))
        .min();
    let group = group.map(|bytes| MemoryLimit {
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
            Some(MemoryLimit {
                bytes: 2 << 20,
                owner: "this machine"
            })
        );
        assert_eq!(limit(Path::new("/nonexistent")), None);
    }

    #[test]
    fn the_tightest_group_on_the_path_counts_in_both_versions() {
        let group = Some(MemoryLimit {
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
    fn refused_addresses_are_told_with_what_helps() {
        let message = |files: &[(&str, &str)]| {
            let root = machine(files);
            refused_by(root.path(), 256 << 20, 4 << 30, 12).to_string()
        };
        let strict = [
            ("proc/sys/vm/overcommit_memory", "2\n"),
            (
                "proc/meminfo",
                "MemTotal: 4 kB\nCommitLimit:    2097152 kB\n",
            ),
        ];
        assert_eq!(
            message(&strict),
            "--memory: 256.0MiB need 4.0GiB of addresses, which take memory only as they are \
             used, but this machine promises at most 2.0GiB to all processes together \
             (vm.overcommit_memory is 2); set it to 0 or 1 (sysctl vm.overcommit_memory=0), or \
             give less --memory"
        );
        let other = message(&[("proc/sys/vm/overcommit_memory", "0\n")]);
        assert!(
            other.contains("the system refused them: Cannot allocate memory"),
            "{other}"
        );
        assert!(
            other.ends_with("; give less --memory") && !other.contains('\n'),
            "{other}"
        );
    }

    #[test]
    fn this_machine_has_less_than_an_exbibyte() {
        let message = check(1 << 60).unwrap_err().to_string();
        assert!(message.starts_with("--memory:"), "{message}");
    }
}
