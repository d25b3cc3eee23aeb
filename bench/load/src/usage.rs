//! Usage: how much processor time and memory a process has used, read from `/proc`.
//!
//! Processor time comes from `schedstat` of all threads, in nanoseconds. It is exact while the
//! process sleeps, as a server does before and after a load; a thread that ends in between is lost.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_setaffinity};

const PAGE_BYTES: u64 = 4096;

/// Reads the processor time of a process since its start: nanoseconds, user and system, of all
/// threads.
///
/// # Errors
/// If there is no such process.
pub fn cpu_ns(pid: u32) -> io::Result<u64> {
    cpu_ns_of(pid, |_| true)
}

/// The same of its threads that are called so.
///
/// # Errors
/// If there is no such process.
pub fn threads_cpu_ns(pid: u32, name: &str) -> io::Result<u64> {
    let found = Cell::new(false);
    let ns = cpu_ns_of(pid, |path| {
        let is_it = fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        found.set(found.get() | is_it);
        is_it
    })?;
    match found.get() {
        true => Ok(ns),
        false => Err(io::Error::other(format!("no thread is called {name}"))),
    }
}

fn cpu_ns_of(pid: u32, counts: impl Fn(&Path) -> bool) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may end while the directory is read.
        if counts(&path)
            && let Ok(text) = fs::read_to_string(path.join("schedstat"))
        {
            let ns = text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
            sum += ns.unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Binds the calling thread to one processor.
///
/// # Errors
/// If there is no such processor for this process.
pub fn bind(cpu: usize) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// Reads the resident memory of a process in bytes, by a walk through its page tables.
///
/// # Errors
/// If there is no such process.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    kib_of(pid, "smaps_rollup", "Rss:")
}

/// Reads the most resident memory a process has had since its start, in bytes.
///
/// # Errors
/// If there is no such process.
pub fn rss_peak_bytes(pid: u32) -> io::Result<u64> {
    kib_of(pid, "status", "VmHWM:")
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
    Ok(pages.ok_or_else(malformed)? * PAGE_BYTES)
}

/// What stands behind `name` in a file of `/proc`, in bytes.
fn kib_of(pid: u32, file: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.ok_or_else(malformed)? * 1024)
}

fn malformed() -> io::Error {
    io::Error::other("malformed figures of a process")
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
        let before = cpu_ns(busy.id()).unwrap();
        while cpu_ns(busy.id()).unwrap() < before + 10_000_000 {
            std::thread::yield_now();
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(cpu_ns(u32::MAX).is_err());
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
}
