//! Usage: how much processor time and memory a process has used, read from `/proc`.
//!
//! Processor time comes from `schedstat` of all threads (nanoseconds), or from `stat` (10 ms) where
//! the kernel keeps no such figures. It is exact while the process sleeps, as a server does before
//! and after a load; a thread that ends in between is lost.

use std::fs;
use std::io;

use serde::Serialize;

/// The kernel's unit of time in `stat`, the same on all its platforms that matter here.
const STAT_TICK_NS: u64 = 10_000_000;
const PAGE_BYTES: u64 = 4096;

/// Where processor time was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuSource {
    /// Nanoseconds per thread.
    Schedstat,
    /// Ticks of 10 ms.
    Stat,
}

/// Processor time of a process since its start.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    /// Nanoseconds, user and system, of all threads.
    pub ns: u64,
    /// How it was found.
    pub source: CpuSource,
}

/// Reads the processor time of a process.
///
/// # Errors
/// If there is no such process.
pub fn cpu_time(pid: u32) -> io::Result<CpuTime> {
    match schedstat_ns(pid)? {
        Some(ns) => Ok(CpuTime {
            ns,
            source: CpuSource::Schedstat,
        }),
        None => {
            let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            let ticks = stat_ticks(&text).ok_or_else(|| io::Error::other("malformed stat"))?;
            Ok(CpuTime {
                ns: ticks * STAT_TICK_NS,
                source: CpuSource::Stat,
            })
        }
    }
}

/// The sum over all threads; `None` if the kernel keeps none.
fn schedstat_ns(pid: u32) -> io::Result<Option<u64>> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while the directory is read.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        sum += text
            .split(' ')
            .next()
            .and_then(|ns| ns.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok((sum > 0).then_some(sum))
}

/// User and system time; the fields stand behind the name, which may hold spaces and brackets.
fn stat_ticks(text: &str) -> Option<u64> {
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Reads the resident memory of a process in bytes.
///
/// # Errors
/// If there is no such process.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    let malformed = || io::Error::other("malformed memory figures");
    // `statm` counts per processor and may lag; the roll-up walks the page tables.
    if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Rss:"))
            .ok_or_else(malformed)?;
        let kib: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .map_err(|_| malformed())?;
        return Ok(kib * 1024);
    }
    rss_counted_bytes(pid)
}

/// Reads the resident memory of a process as the kernel counts it along: a look at a counter, which
/// may lag a little, and does not hold the process up.
///
/// # Errors
/// If there is no such process.
pub fn rss_counted_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let malformed = || io::Error::other("malformed memory figures");
    Ok(pages.ok_or_else(malformed)? * PAGE_BYTES)
}

/// Reads the most resident memory a process has had since its start, in bytes.
///
/// # Errors
/// If there is no such process.
pub fn rss_peak_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("malformed memory figures"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_another_process() {
        // This process would not do: its threads, other tests, end and take their time with them.
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let before = cpu_time(busy.id()).unwrap().ns;
        while cpu_time(busy.id()).unwrap().ns < before + STAT_TICK_NS {
            std::thread::yield_now();
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(cpu_time(u32::MAX).is_err());
    }

    #[test]
    fn a_process_reads_its_own_memory() {
        let own = std::process::id();
        assert!(rss_bytes(own).unwrap() > 100_000);
        assert!(rss_counted_bytes(own).unwrap() > 100_000);
        assert!(rss_counted_bytes(u32::MAX).is_err());
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        assert!(rss_peak_bytes(own).unwrap() > block.len() as u64);
    }

    #[test]
    fn stat_is_read_behind_a_name_with_spaces_and_brackets() {
        let text = "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 99";
        assert_eq!(stat_ticks(text), Some(300));
        assert_eq!(stat_ticks("12 (x"), None);
    }
}
