//! Process: facts of the system about this process and its machine.
//!
//! They are read on request; facts that the system does not report are missing.

/// Clock ticks a second in Linux's process statistics.
const TICKS_PER_S: u64 = 100;
/// Bytes of a page in Linux's process statistics.
const PAGE_BYTES: u64 = 4096;

/// Processor time, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// In the program.
    pub user_us: u64,
    /// In the system.
    pub system_us: u64,
}

/// The processor time of the process so far.
#[must_use]
pub fn cpu() -> Option<Cpu> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, which may hold spaces.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next_us = || Some(fields.next()?.parse::<u64>().ok()? * (1_000_000 / TICKS_PER_S));
    Some(Cpu {
        user_us: next_us()?,
        system_us: next_us()?,
    })
}

/// Bytes of the process that are in the machine's memory.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}

/// The system's name, release and processor, as `uname` has them.
#[must_use]
pub fn system() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()]
        .map(|part| part.to_string_lossy().into_owned())
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_system() {
        assert!(resident_bytes().unwrap() > PAGE_BYTES);
        assert!(cpu().is_some());
        assert_eq!(system().split(' ').count(), 3);
    }
}
