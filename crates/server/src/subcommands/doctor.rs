//! Doctor: checks settings and host configuration, and suggests fixes.
//!
//! It finds errors that prevent a start, limits of the machine and the control group that make the
//! server slow, cluster sources that do not answer, and old names of settings. It changes nothing.
//! A value that the system does not report counts as correct. [`try_start`] runs the checks of a
//! start.
//! Tests: at the end of this file, with simulated machines; tests/healthcheck.rs.

use std::fs;
use std::path::Path;

use cellar_config::memory;
use cellar_config::settings::Settings;
use cellar_config::settings::load::Loaded;
use cellar_config::settings::source::ListSource;
use cellar_config::settings::units::round_size;
use cellar_net::listener::BACKLOG;
use cellar_system::cgroup;
use rustix::process::{Resource, getrlimit};

use crate::server::membership;
use crate::server::{Trial, open_files, try_start};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    what: &'static str,
    /// The state that was found.
    state: String,
    /// How to fix it; `None` if it is correct.
    remedy: Option<String>,
}

/// The fix for an error of a start, whose text names the setting.
const CANNOT_START: &str = "the server cannot start; change the setting that the line names";

/// Checks this machine for a server with these settings. Returns the lines to print, and whether it
/// found no problem.
#[must_use]
pub fn run(loaded: &Loaded) -> (String, bool) {
    let mut settings = loaded.settings.clone();
    let most = getrlimit(Resource::Nofile).maximum;
    let mut findings = look_at_start(&try_start(loaded));
    findings.extend(look_at_old_names(loaded));
    findings.extend(look_at_cluster(&settings));
    // The checks of a start report this error, too.
    let _ = memory::settle(&mut settings);
    findings.extend(look(Path::new("/"), &settings, most));
    let is_well = findings.iter().all(|one| one.remedy.is_none());
    (report(&findings), is_well)
}

fn look_at_start(trial: &Trial) -> Vec<Finding> {
    let refused = trial.errors.iter();
    let refused = refused.map(|it| finding("start", it.to_string(), false, CANNOT_START.into()));
    let state = match trial.is_running {
        true => "the server can start after the server that uses its addresses stops",
        false => "the server can start with these settings",
    };
    if trial.errors.is_empty() {
        return vec![finding("start", state.to_owned(), true, String::new())];
    }
    refused.collect()
}

/// A finding for each setting that has its old name.
fn look_at_old_names(loaded: &Loaded) -> Vec<Finding> {
    let remedy = || "use the new name".to_owned();
    let old = |text: &str| finding("old name", text.to_owned(), false, remedy());
    loaded.old_names().map(old).collect()
}

/// Whether the list of the cluster's nodes can be read.
fn look_at_cluster(settings: &Settings) -> Option<Finding> {
    let source = settings.cluster.as_ref()?;
    let outcome = membership::check(source, settings);
    let remedy = match source {
        ListSource::File(_) => CANNOT_START,
        ListSource::Dns(_) | ListSource::Etcd(_) => {
            "until the source answers the node serves nothing; check --cluster and the network"
        }
    };
    let state = match &outcome {
        Ok(()) => format!("{source} can be read"),
        Err(reason) => format!("{source}: {reason}"),
    };
    Some(finding(
        "cluster",
        state,
        outcome.is_ok(),
        remedy.to_owned(),
    ))
}

fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding {
        what,
        state,
        remedy,
    } in findings
    {
        let mark = if remedy.is_some() { "!!" } else { "ok" };
        text.push_str(&format!("{mark}  {what}: {state}\n"));
        if let Some(remedy) = remedy {
            text.push_str(&format!("    -> {remedy}\n"));
        }
    }
    text.push_str(
        match findings.iter().filter(|one| one.remedy.is_some()).count() {
            0 => "no problems found\n".to_owned(),
            1 => "1 problem found\n".to_owned(),
            n => format!("{n} problems found\n"),
        }
        .as_str(),
    );
    text
}

/// All checks of the system below `root`; `files` is the limit of open files of this process.
fn look(root: &Path, settings: &Settings, files: Option<u64>) -> Vec<Finding> {
    let looks = [
        Some(look_at_files(settings, files)),
        look_at_huge_pages(root),
        look_at_swap(root),
        look_at_memory(root, settings),
        look_at_processors(root, settings),
        look_at_backlog(root),
        look_at_overcommit(root),
    ];
    looks.into_iter().flatten().collect()
}

/// A finding that is correct, or has this fix.
fn finding(what: &'static str, state: String, is_right: bool, remedy: String) -> Finding {
    Finding {
        what,
        state,
        remedy: (!is_right).then_some(remedy),
    }
}

fn look_at_files(settings: &Settings, most: Option<u64>) -> Finding {
    let needed = open_files(settings);
    let allowed = most.map_or("any number".to_owned(), |most| most.to_string());
    finding(
        "open files",
        format!(
            "{allowed} allowed, {needed} needed for --max-connections {}",
            settings.max_connections
        ),
        most.is_none_or(|most| most >= needed),
        format!(
            "ulimit -Hn {needed}, or LimitNOFILE={needed} in its unit; or fewer --max-connections"
        ),
    )
}

fn look_at_huge_pages(root: &Path) -> Option<Finding> {
    let text = read(root, "sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split(['[', ']']).nth(1)?.to_owned();
    Some(finding(
        "huge pages",
        format!("{chosen}; the server uses them for full memory segments"),
        chosen != "never",
        "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, as root".to_owned(),
    ))
}

fn look_at_swap(root: &Path) -> Option<Finding> {
    let text = read(root, "proc/swaps")?;
    let kib = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<usize>().ok());
    let bytes = kib.sum::<usize>().saturating_mul(1024);
    let is_out = cgroup::is_without_swap(root);
    let state = match bytes {
        0 => "none".to_owned(),
        _ if is_out => format!("{}, none for its control group", round_size(bytes)),
        _ => format!(
            "{}: reading an item in swap waits for the disk",
            round_size(bytes)
        ),
    };
    Some(finding(
        "swap",
        state,
        bytes == 0 || is_out,
        "swapoff -a, or MemorySwapMax=0 in its unit; sysctl vm.swappiness=1 reduces swapping"
            .to_owned(),
    ))
}

fn look_at_memory(root: &Path, settings: &Settings) -> Option<Finding> {
    let limit = cgroup::memory_bytes(root).filter(|&limit| {
        // cgroup version 1 has a number beyond any machine's memory where no limit is set.
        memory::of_machine_by(root).is_none_or(|machine| limit < machine)
    })?;
    let beside = memory::beside_bytes(settings, settings.memory_bytes);
    let needed = settings.memory_bytes + beside;
    Some(finding(
        "memory of the control group",
        format!(
            "{}; --memory is {}, and the process needs up to {} beside it",
            round_size(limit),
            round_size(settings.memory_bytes),
            round_size(beside),
        ),
        needed <= limit,
        format!(
            "allow {} (MemoryMax=, --memory of the container), or --memory auto",
            round_size(needed)
        ),
    ))
}

fn look_at_processors(root: &Path, settings: &Settings) -> Option<Finding> {
    let all = cgroup::cpu_thousandths(root)?;
    let (whole, part) = (all / cgroup::WHOLE_CPU, all % cgroup::WHOLE_CPU);
    let threads = settings.threads as u64;
    Some(finding(
        "CPU quota of the control group",
        format!("{whole}.{part:03} processors for --threads {threads}"),
        threads * cgroup::WHOLE_CPU <= all,
        format!(
            "--threads {}: loops that have used up the quota stand still until the next period; \
             or a quota of {threads}",
            whole.max(1)
        ),
    ))
}

fn look_at_backlog(root: &Path) -> Option<Finding> {
    let most: i32 = read(root, "proc/sys/net/core/somaxconn")?
        .trim()
        .parse()
        .ok()?;
    Some(finding(
        "listen backlog",
        format!("{most} (net.core.somaxconn); the server requests {BACKLOG}"),
        most >= BACKLOG,
        format!("sysctl net.core.somaxconn={BACKLOG}: bursts of new clients are not refused"),
    ))
}

fn look_at_overcommit(root: &Path) -> Option<Finding> {
    let mode = read(root, "proc/sys/vm/overcommit_memory")?;
    let mode = mode.trim();
    Some(finding(
        "memory overcommit",
        format!("{mode} (vm.overcommit_memory)"),
        mode != "2",
        "sysctl vm.overcommit_memory=0: the cache reserves addresses that take memory only as they \
         are used"
            .to_owned(),
    ))
}

fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

#[cfg(test)]
#[path = "../../../system/src/cgroup/fake_machine.rs"]
mod fake_machine;

#[cfg(test)]
mod tests {
    use super::fake_machine::machine;
    use super::*;

    fn settings() -> Settings {
        Settings {
            threads: 2,
            ..Settings::default()
        }
    }

    /// The problems of a machine that has these files.
    fn wrong(files: &[(&str, &str)], most: Option<u64>) -> Vec<&'static str> {
        let root = machine(files);
        let findings = look(root.path(), &settings(), most);
        let wrong = findings.iter().filter(|one| one.remedy.is_some());
        wrong.map(|one| one.what).collect()
    }

    const SWAPS: &str = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1048576 0 -2\n";
    const GROUP: (&str, &str) = ("proc/self/cgroup", "0::/\n");

    #[test]
    fn each_thing_is_found_where_it_is_wrong_and_not_where_it_is_right() {
        let max = "sys/fs/cgroup/memory.max";
        let cpu = "sys/fs/cgroup/cpu.max";
        let swap = "proc/swaps";
        let huge = "sys/kernel/mm/transparent_hugepage/enabled";
        for (bad, good, name) in [
            (
                vec![(huge, "always madvise [never]\n")],
                vec![(huge, "always [madvise] never\n")],
                "huge pages",
            ),
            (
                vec![(swap, SWAPS)],
                vec![(swap, "Filename Type Size\n")],
                "swap",
            ),
            (
                vec![GROUP, (swap, SWAPS)],
                vec![
                    GROUP,
                    (swap, SWAPS),
                    ("sys/fs/cgroup/memory.swap.max", "0\n"),
                ],
                "swap",
            ),
            (
                vec![GROUP, (max, "300000000\n")],
                vec![GROUP, (max, "500000000\n")],
                "memory of the control group",
            ),
            (
                vec![GROUP, (cpu, "150000 100000\n")],
                vec![GROUP, (cpu, "200000 100000\n")],
                "CPU quota of the control group",
            ),
            (
                vec![("proc/sys/net/core/somaxconn", "128\n")],
                vec![("proc/sys/net/core/somaxconn", "4096\n")],
                "listen backlog",
            ),
            (
                vec![("proc/sys/vm/overcommit_memory", "2\n")],
                vec![("proc/sys/vm/overcommit_memory", "1\n")],
                "memory overcommit",
            ),
        ] {
            assert_eq!(wrong(&bad, None), [name]);
            assert_eq!(wrong(&good, None), [""; 0], "{name}");
        }
        assert_eq!(wrong(&[], Some(1_024)), ["open files"]);
        assert_eq!(wrong(&[], Some(1 << 20)), [""; 0]);
    }

    #[test]
    fn the_report_has_a_remedy_behind_what_is_wrong() {
        let root = machine(&[("proc/sys/net/core/somaxconn", "128\n")]);
        let text = report(&look(root.path(), &settings(), None));
        assert_eq!(
            text,
            "ok  open files: any number allowed, 10132 needed for --max-connections 10000\n\
             !!  listen backlog: 128 (net.core.somaxconn); the server requests 4096\n    \
             -> sysctl net.core.somaxconn=4096: bursts of new clients are not refused\n\
             1 problem found\n"
        );
    }
}
