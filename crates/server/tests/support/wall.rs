//! Wall: the wall clock of one process, moved while it runs, whatever language it is written in.
//!
//! Programs ask for the time in a page that the system maps into each of them, the vDSO. There its
//! function is replaced, in that process alone, by one that asks the kernel and adds an offset to
//! the wall clock; the other clocks stay as they are.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::{File, read_dir, read_to_string};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::process::{Pid, Signal, kill_process};

use super::wait::wait_until;

/// The function that tells the time, in the vDSO of x86-64.
const FUNCTION: &[u8] = b"__vdso_clock_gettime\0";
/// `mov eax, 228; syscall; test edi, edi; jne end; mov rcx, [rip+offset]; add [rsi], rcx`, at the
/// end `ret`, and what fills it up to the offset.
const INSTEAD: [u8; OFFSET_AT] = [
    0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 10, 0x48, 0x8b, 0x0d, 6, 0, 0, 0, 0x48, 0x01,
    0x0e, 0xc3, 0x90, 0x90,
];
/// Where the offset stands behind its beginning, in seconds.
const OFFSET_AT: usize = 24;

/// Moves a process's wall clock to so many seconds from the machine's; false, which is told, where
/// nobody knows how.
pub(crate) fn move_clock(process: u32, seconds: i64) -> bool {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("left out: how a process's clock is moved is known of x86-64 alone");
        return false;
    }
    let pages = pages(process);
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/mem"))
        .unwrap();
    let mut image = vec![0; (pages.end - pages.start) as usize];
    memory.read_exact_at(&mut image, pages.start).unwrap();
    let at = pages.start + function(&image);
    let mut code = INSTEAD.to_vec();
    code.extend(seconds.to_le_bytes());
    let pid = Pid::from_raw(process.cast_signed()).unwrap();
    loop {
        kill_process(pid, Signal::STOP).unwrap();
        let is_outside = stopped_outside(process, &pages);
        if is_outside {
            memory.write_all_at(&code, at).unwrap();
        }
        kill_process(pid, Signal::CONT).unwrap();
        if is_outside {
            return true;
        }
    }
}

/// Where the vDSO is in a process.
fn pages(process: u32) -> Range<u64> {
    let maps = read_to_string(format!("/proc/{process}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, rest) = line.split_once('-').unwrap();
    let end = rest.split(' ').next().unwrap();
    let number = |digits| u64::from_str_radix(digits, 16).unwrap();
    number(start)..number(end)
}

/// Waits until all threads have stopped; whether none did so within these pages.
fn stopped_outside(process: u32, pages: &Range<u64>) -> bool {
    let is_stopped = |task: &std::path::Path| {
        let stat = read_to_string(task.join("stat")).unwrap_or_default();
        stat.is_empty() || stat.rsplit(") ").next().unwrap().starts_with(['T', 'Z'])
    };
    let is_outside = |task: &std::path::Path| {
        let stands = read_to_string(task.join("syscall")).unwrap_or_default();
        let counter = stands.trim().rsplit("0x").next().unwrap_or_default();
        u64::from_str_radix(counter, 16).is_ok_and(|counter| !pages.contains(&counter))
    };
    let tasks = || {
        let tasks = read_dir(format!("/proc/{process}/task")).unwrap();
        tasks.map(|task| task.unwrap().path()).collect::<Vec<_>>()
    };
    wait_until("all threads have stopped", || {
        tasks().iter().all(|task| is_stopped(task))
    });
    tasks().iter().all(|task| is_outside(task))
}

/// Where the function begins in the image, by the symbols of its ELF sections.
fn function(image: &[u8]) -> u64 {
    let number = |at: usize, bytes: usize| {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(&image[at..at + bytes]);
        u64::from_le_bytes(wide)
    };
    let place = |at: usize| usize::try_from(number(at, 8)).unwrap();
    let sections = place(0x28);
    let section = |index: u64| sections + usize::try_from(index).unwrap() * 64;
    const DYNAMIC_SYMBOLS: u64 = 11;
    let symbols = (0..number(0x3c, 2)).map(section);
    let symbols = symbols
        .into_iter()
        .find(|at| number(at + 4, 4) == DYNAMIC_SYMBOLS)
        .unwrap();
    let names = place(section(number(symbols + 0x28, 4)) + 0x18);
    let (first, bytes) = (place(symbols + 0x18), place(symbols + 0x20));
    let is_it = |at: &usize| {
        let name = names + usize::try_from(number(*at, 4)).unwrap();
        image[name..].starts_with(FUNCTION)
    };
    let symbol = (first..first + bytes).step_by(24).find(is_it).unwrap();
    let size = number(symbol + 16, 8);
    assert!(size as usize >= OFFSET_AT + 8, "it has {size} bytes");
    number(symbol + 8, 8)
}
