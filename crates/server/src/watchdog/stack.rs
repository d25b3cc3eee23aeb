//! Stack: which functions a thread of this process is in, as far as its memory tells.
//!
//! The words on its stack that point behind a call in the program's code are taken for where its
//! functions go on, innermost first. For a thread that waits the system tells where its stack ends;
//! for one that computes it does not, so that calls that are over are among those found.
//!
//! The thread itself is not asked: a signal handler that walks a stack may meet a lock that the
//! thread holds. Nothing here is unsafe: memory is read as the file that the system makes of it.

use std::fs::{File, read_to_string};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of a stack that are looked at.
const STACK_BYTES_MAX: u64 = 64 << 10;
/// The same of a thread whose stack's end is not known.
const UNKNOWN_BYTES_MAX: u64 = 16 << 10;
/// Most functions that are told.
const FRAMES_MAX: usize = 64;
/// Functions that are told whatever they are; of those further out, the program's own.
const INNERMOST: usize = 8;
/// Where files of the language's and the system's own libraries lie, as their makers name them.
const FOREIGN_PLACES: [&str; 3] = ["/rustc/", "./", "../"];
/// Bytes of the longest call.
const CALL_BYTES_MAX: usize = 7;
const WORD_BYTES: usize = size_of::<u64>();

/// The functions, a line each, of the thread with this folder, whose stack began at `top`.
pub(super) fn functions(folder: &Path, top: u64) -> Vec<String> {
    let Ok(memory) = File::open("/proc/self/mem") else {
        return Vec::new();
    };
    let code = code();
    // Words on a stack are aligned.
    let top = top & !(WORD_BYTES as u64 - 1);
    let mut lines = Vec::new();
    let (end, mut places) = match registers(folder) {
        Some((stack, at)) => (stack, vec![at]),
        None => (top.saturating_sub(UNKNOWN_BYTES_MAX), Vec::new()),
    };
    let bytes = top.saturating_sub(end).min(STACK_BYTES_MAX);
    let mut stack = vec![0; usize::try_from(bytes).unwrap_or(0)];
    let read = memory.read_at(&mut stack, end).unwrap_or(0);
    let words = stack[..read].as_chunks::<WORD_BYTES>().0;
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    places.extend(words.filter(|&word| {
        code.iter().any(|range| range.contains(&word)) && is_behind_a_call(&memory, word)
    }));
    for place in places {
        // The call itself lies before the place at which its function goes on.
        describe(place - 1, &mut lines);
        if lines.len() >= FRAMES_MAX {
            break;
        }
    }
    lines.truncate(FRAMES_MAX);
    lines
}

/// Where the stack of a thread that waits ends, and where it goes on.
fn registers(folder: &Path) -> Option<(u64, u64)> {
    let text = read_to_string(folder.join("syscall")).ok()?;
    let mut last = text.trim().rsplit(' ');
    let mut next = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
    let (at, stack) = (next()?, next()?);
    Some((stack, at))
}

/// Where the process's code lies.
fn code() -> Vec<Range<u64>> {
    let maps = read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let is_code = fields.next()?.contains('x');
        let number = |text| u64::from_str_radix(text, 16).ok();
        is_code.then_some(number(from)?..number(to)?)
    };
    maps.lines().filter_map(range).collect()
}

/// Whether the instruction before `place` is a call; other processors' code is not looked at.
fn is_behind_a_call(memory: &File, place: u64) -> bool {
    if !cfg!(target_arch = "x86_64") {
        return true;
    }
    let mut before = [0; CALL_BYTES_MAX];
    let from = place - CALL_BYTES_MAX as u64;
    if memory.read_exact_at(&mut before, from).is_err() {
        return false;
    }
    // E8 and four bytes; or FF /2 and what its operand takes.
    let is_indirect = |at: usize| before[at] == 0xff && (before[at + 1] >> 3) & 7 == 2;
    before[2] == 0xe8 || (0..CALL_BYTES_MAX - 1).any(is_indirect)
}

/// Adds the names of the function at `place` and of those that were inlined into it.
fn describe(place: u64, lines: &mut Vec<String>) {
    let address = std::ptr::with_exposed_provenance_mut(usize::try_from(place).unwrap_or(0));
    backtrace::resolve(address, |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        let line = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" at {}:{line}", file.display()),
            _ => String::new(),
        };
        let is_foreign = line.is_empty()
            || FOREIGN_PLACES
                .iter()
                .any(|place| line.starts_with(&format!(" at {place}")));
        let Some(name) = name else { return };
        let line = format!("{name}{line}");
        if (lines.len() < INNERMOST || !is_foreign) && !lines.contains(&line) {
            lines.push(line);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    type Begun = Sender<(PathBuf, u64)>;

    /// Tells where the caller's stack begins.
    fn begin(begun: &Begun, here: &u8) {
        let top = std::ptr::from_ref(here).addr() as u64;
        let number = rustix::thread::gettid().as_raw_nonzero();
        let folder = PathBuf::from(format!("/proc/self/task/{number}"));
        begun.send((folder, top)).unwrap();
    }

    #[inline(never)]
    fn waits_for_the_end(end: &Receiver<()>) {
        black_box(end.recv().is_err());
    }

    #[test]
    fn a_thread_that_waits_is_found_in_its_function() {
        let (begun, beginning) = channel();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let here = black_box(0);
            begin(&begun, &here);
            waits_for_the_end(&ended);
        });
        let (folder, top) = beginning.recv().unwrap();
        let is_found = is_found_in("waits_for_the_end", &folder, top);
        drop(end);
        thread.join().unwrap();
        assert!(is_found);
    }

    /// Looks for a function, for some time: it takes a moment until the thread is in it.
    fn is_found_in(function: &str, folder: &Path, top: u64) -> bool {
        let is_it = |line: &String| line.contains(function);
        (0..1_000).any(|_| functions(folder, top).iter().any(is_it))
    }

    #[inline(never)]
    fn one_turn(ended: &AtomicBool) -> bool {
        // Relaxed: the flag orders nothing.
        black_box(ended.load(Ordering::Relaxed))
    }

    #[inline(never)]
    fn computes_until(ended: &AtomicBool) {
        while !one_turn(ended) {}
        black_box(ended);
    }

    #[test]
    fn a_thread_that_computes_is_found_in_its_function() {
        let (begun, beginning) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let here = black_box(0);
            begin(&begun, &here);
            computes_until(&until);
        });
        let (folder, top) = beginning.recv().unwrap();
        let is_found = is_found_in("computes_until", &folder, top);
        ended.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(is_found);
    }
}
