//! Vitals: what the system says of a server's process: memory, descriptors, processor time.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

/// `VmRSS` or `VmHWM` of a process, in bytes, less the pages of files that it maps (`RssFile`).
///
/// The kernel decides how many pages of the program's own file are mapped at once. It depends on
/// the page cache and on the build profile, not on what the server stores.
pub(crate) fn occupied_bytes(process: u32, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let size = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        // A process that has ended has no such line.
        let kib = line.unwrap_or(":0 kB").trim_start_matches(':');
        kib.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    };
    size(name).saturating_sub(size("RssFile"))
}

/// Open files, sockets among them.
pub(crate) fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .count()
}

/// Processor time of all its threads.
pub(crate) fn processor_time(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_thread = |path: std::path::PathBuf| {
        let line = std::fs::read_to_string(path.join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<u64>().ok()
    };
    let threads = threads.filter_map(|entry| of_thread(entry.ok()?.path()));
    Duration::from_nanos(threads.sum())
}

/// Sets `VmHWM` back to what the process occupies at present.
pub(crate) fn forget_peak(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
}

/// Lets this process have as many open files as the system allows; how many that are.
pub(crate) fn raise_descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    limit.maximum.map_or(usize::MAX, |most| most as usize)
}
