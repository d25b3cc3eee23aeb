//! Memory: how much of it the machine, or the control group around this process, has, what of it
//! `--memory auto` takes, and how many addresses this process may have.
//!
//! Tests: at the end of this file, over made-up machines; server/tests/memory.rs.

use std::path::Path;

use cellar_system::cgroup;
use rustix::process::{Resource, getrlimit};

use crate::error::Error;
use crate::limits::{CONNECTION_BYTES, PROGRAM_BYTES, TLS_BYTES};
use crate::settings::Settings;
use crate::settings::units::round_size;

/// Addresses of a process with one event loop and no cache: program, libraries, heap, stacks.
const BASE_ADDRESS_BYTES: usize = 256 << 20;
/// Addresses of one more event loop: its stack, its buffers, and the heap that the system's
/// allocator sets aside for a thread.
const THREAD_ADDRESS_BYTES: usize = 72 << 20;

/// The part of a machine that `--memory auto` takes where no control group has a limit, as a
/// divisor.
pub const MACHINE_SHARE: usize = 2;
/// The least that `--memory auto` takes; it is rounded to this too.
const AUTO_BYTES_MIN: usize = 8 << 20;
const AUTO_STEP_BYTES: usize = 1 << 20;

/// A memory limit and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemoryLimit {
    bytes: usize,
    owner: &'static str,
}

/// Memory that the process may use beside a cache of this size: the program, all connections, and
/// what clients make it hold.
///
/// Source: docs/limits.md, without optional features: scripts, and names for client-side caching.
#[must_use]
pub fn beside_bytes(settings: &Settings, memory_bytes: usize) -> usize {
    let tls = if settings.speaks_tls() { TLS_BYTES } else { 0 };
    let connections = settings.max_connections * (CONNECTION_BYTES + tls);
    PROGRAM_BYTES + connections + settings.client_memory_beside(memory_bytes)
}

/// Computes the size for `--memory auto`; returns the log text, none if a size was given.
///
/// # Errors
/// [`Error::Memory`] if hardly anything is left, or if the available memory is unknown.
pub fn settle(settings: &mut Settings) -> Result<Option<String>, Error> {
    settle_by(Path::new("/"), settings)
}

fn settle_by(root: &Path, settings: &mut Settings) -> Result<Option<String>, Error> {
    if !settings.memory_is_auto {
        return Ok(None);
    }
    let fail = |reason: String| Error::Memory(format!("auto: {reason}"));
    let (bytes, said) = match (cgroup::memory_bytes(root), of_machine_by(root)) {
        // cgroup version 1 has a number beyond any machine's memory where no limit is set.
        (Some(limit), machine) if machine.is_none_or(|machine| limit < machine) => {
            let bytes = largest_within(settings, limit);
            let said = format!(
                "of the {} that its control group allows, {} are for the program, {} connections \
                 and what clients have it hold",
                round_size(limit),
                round_size(beside_bytes(settings, bytes)),
                settings.max_connections,
            );
            (bytes, said)
        }
        (_, Some(machine)) => {
            let said = format!("half of the {} of this machine", round_size(machine));
            (machine / MACHINE_SHARE, said)
        }
        _ => {
            return Err(fail(
                "the size of the memory is unknown; set a size".to_owned(),
            ));
        }
    };
    let bytes = bytes / AUTO_STEP_BYTES * AUTO_STEP_BYTES;
    if bytes < AUTO_BYTES_MIN {
        let bytes = round_size(bytes);
        return Err(fail(format!(
            "{said}, so {bytes} are left; allow more, lower --max-connections or --client-memory, \
             or set a size"
        )));
    }
    (settings.memory_bytes, settings.memory_is_auto) = (bytes, false);
    Ok(Some(format!(
        "--memory auto is {}: {said}",
        round_size(bytes)
    )))
}

/// The largest cache that fits with all beside it.
fn largest_within(settings: &Settings, limit: usize) -> usize {
    // The memory beside the cache grows with the cache, so bisection finds the size.
    let (mut fits, mut too_large) = (0, limit);
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        if middle + beside_bytes(settings, middle) <= limit {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    fits
}

/// The warning to log if cache and clients together may exceed the available memory.
#[must_use]
pub fn warning(settings: &Settings) -> Option<String> {
    warning_by(Path::new("/"), settings)
}

fn warning_by(root: &Path, settings: &Settings) -> Option<String> {
    let limit = limit(root)?;
    let beside = beside_bytes(settings, settings.memory_bytes);
    if settings.memory_bytes + beside <= limit.bytes {
        return None;
    }
    Some(format!(
        "{} has {}, but --memory {} and what connections and clients may take beside it, {}, are \
         more: the system may end this process when they do; reduce --memory, or auto",
        limit.owner,
        round_size(limit.bytes),
        round_size(settings.memory_bytes),
        round_size(beside),
    ))
}

/// Checks that the requested memory is available at all.
///
/// If the system reports no limit, everything passes.
///
/// # Errors
/// [`Error::Memory`] if the machine or the control group has less.
pub fn check(memory_bytes: usize) -> Result<(), Error> {
    match limit(Path::new("/")) {
        Some(limit) if limit.bytes < memory_bytes => Err(Error::Memory(format!(
            "{} are requested, but {} has {}; set a smaller size or auto",
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
                 {unit}=infinity in its unit), or reduce --memory",
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
             reduce --memory"
        )
    } else {
        let reason = std::io::Error::from_raw_os_error(code);
        format!("{needs}, and the system refused them: {reason}; reduce --memory")
    })
}

/// Bytes of memory in the machine.
#[must_use]
pub fn of_machine() -> Option<usize> {
    of_machine_by(Path::new("/"))
}

/// The same by the files below `root`.
#[must_use]
pub fn of_machine_by(root: &Path) -> Option<usize> {
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
    let machine = of_machine_by(root).map(|bytes| MemoryLimit {
        bytes,
        owner: "this machine",
    });
    let group = cgroup::memory_bytes(root).map(|bytes| MemoryLimit {
        bytes,
        owner: "this process's control group",
    });
    machine
        .into_iter()
        .chain(group)
        .min_by_key(|limit| limit.bytes)
}

#[cfg(test)]
#[path = "../../system/src/cgroup/fake_machine.rs"]
mod fake_machine;

#[cfg(test)]
mod tests {
    use super::fake_machine::machine;
    use super::*;

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
    fn the_tighter_of_machine_and_group_is_the_limit() {
        let root = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "1048576\n"),
        ]);
        let group = MemoryLimit {
            bytes: 1 << 20,
            owner: "this process's control group",
        };
        assert_eq!(limit(root.path()), Some(group));
    }

    /// A machine with 16 GiB whose group has this limit.
    fn group(limit: &str) -> tempfile::TempDir {
        machine(&[
            ("proc/meminfo", "MemTotal:  16777216 kB\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", limit),
        ])
    }

    fn auto() -> Settings {
        Settings {
            memory_is_auto: true,
            ..Settings::default()
        }
    }

    #[test]
    fn auto_takes_what_the_group_leaves_and_not_a_mebibyte_more() {
        for gib in [1_usize, 2, 5, 12] {
            let root = group(&(gib << 30).to_string());
            let mut settings = auto();
            let said = settle_by(root.path(), &mut settings).unwrap().unwrap();
            let taken = |bytes: usize| bytes + beside_bytes(&settings, bytes);
            assert!(!settings.memory_is_auto);
            assert!(taken(settings.memory_bytes) <= gib << 30, "{said}");
            assert!(
                taken(settings.memory_bytes + (1 << 20)) > gib << 30,
                "{said}"
            );
            assert_eq!(warning_by(root.path(), &settings), None);
            assert!(said.contains(&format!("of the {gib}.0GiB")), "{said}");
        }
        let root = group("4884901888\n");
        let mut settings = auto();
        settle_by(root.path(), &mut settings).unwrap();
        // As in the guide: 4 GiB require 4.6.
        assert!(settings.memory_bytes > 3 << 30 && settings.memory_bytes < 5 << 30);
    }

    #[test]
    fn auto_is_half_of_a_machine_whose_group_has_no_limit() {
        for limit in ["max\n", "9223372036854771712\n", "17179869184\n"] {
            let root = group(limit);
            let mut settings = auto();
            let said = settle_by(root.path(), &mut settings).unwrap().unwrap();
            assert_eq!(settings.memory_bytes, 8 << 30);
            assert_eq!(
                said,
                "--memory auto is 8.0GiB: half of the 16.0GiB of this machine"
            );
        }
    }

    #[test]
    fn auto_says_why_it_cannot_be() {
        let root = group("104857600\n");
        let error = settle_by(root.path(), &mut auto()).unwrap_err().to_string();
        assert!(
            error.starts_with("--memory: auto: of the 100.0MiB"),
            "{error}"
        );
        assert!(error.contains("lower --max-connections"), "{error}");
        let error = settle_by(Path::new("/nonexistent"), &mut auto()).unwrap_err();
        assert!(error.to_string().contains("set a size"), "{error}");
        assert!(matches!(
            settle_by(root.path(), &mut Settings::default()),
            Ok(None)
        ));
    }

    #[test]
    fn a_limit_that_clients_may_break_is_warned_of() {
        let root = group("300000000\n");
        let warning = warning_by(root.path(), &Settings::default()).unwrap();
        assert!(
            warning.starts_with("this process's control group has 286.1MiB, but --memory 256.0MiB"),
            "{warning}"
        );
        assert_eq!(
            warning_by(group("max\n").path(), &Settings::default()),
            None
        );
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
             reduce --memory"
        );
        let other = message(&[("proc/sys/vm/overcommit_memory", "0\n")]);
        assert!(
            other.contains("the system refused them: Cannot allocate memory"),
            "{other}"
        );
        assert!(
            other.ends_with("; reduce --memory") && !other.contains('\n'),
            "{other}"
        );
    }

    #[test]
    fn this_machine_has_less_than_an_exbibyte() {
        let message = check(1 << 60).unwrap_err().to_string();
        assert!(message.starts_with("--memory:"), "{message}");
    }
}
