//! Compile: compiles test programs and shows how far the compiler is.
//!
//! Cargo reports what it made as JSON, one line an artifact. Its progress bar comes on standard
//! error, also where that is no terminal, and becomes the status that the caller shows.
//!
//! clippy-driver takes the compiler's place for our own crates: it compiles as rustc does and lints
//! on the way, so that the lints compile nothing a second time. Cargo repeats the warnings of what
//! it does not compile anew, so their number is right in each run.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::targets::{Target, Workspace};

/// How far something is, in words; shared with whoever shows it.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<Mutex<String>>);

impl Status {
    /// Replaces the words.
    pub fn set(&self, words: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = words.into();
    }

    /// The words.
    #[must_use]
    pub fn get(&self) -> String {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.clone()
    }
}

/// The compiler of our own crates, if it is installed.
const LINTER: &str = "clippy-driver";

/// What came of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The test programs.
    pub programs: Vec<Program>,
    /// How many warnings compiler and lints had.
    pub warnings: usize,
    /// Whether the lints ran.
    pub is_linted: bool,
}

/// A compiled test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// `server/server` for the test program `server` in crates/server, `server/lib` for the tests
    /// in its sources, `server/main` for those in the sources of its binary.
    pub name: String,
    /// The file to run.
    pub file: PathBuf,
    /// The package's folder, where it runs.
    pub folder: PathBuf,
}

/// Compiles the test programs of `targets`, or of the whole `workspace` if there are none.
///
/// The workspace stays selected as a whole, so that each crate has the same features as when all
/// tests are compiled and nothing is compiled a second time for others. Of libraries all are
/// compiled where one is wanted.
///
/// # Errors
/// What Cargo could not do. The compiler's own messages went to standard error.
pub fn programs(
    workspace: Workspace,
    targets: &[Target],
    status: &Status,
) -> Result<Compiled, String> {
    let mut flags = ["--workspace", "--manifest-path", workspace.manifest()]
        .map(str::to_owned)
        .to_vec();
    for name in targets.iter().filter_map(|target| target.program.as_ref()) {
        flags.extend(["--test".to_owned(), name.clone()]);
    }
    if targets.iter().any(|target| target.program.is_none()) {
        flags.push("--lib".to_owned());
    }
    let mut compiled = cargo(&flags, status)?;
    let is_wanted = |program: &Program| {
        targets.is_empty() || targets.iter().any(|target| target.name() == program.name)
    };
    compiled.programs.retain(is_wanted);
    Ok(compiled)
}

fn cargo(flags: &[String], status: &Status) -> Result<Compiled, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let is_linted = Command::new(LINTER).arg("--version").output().is_ok();
    let mut command = Command::new(cargo);
    if is_linted {
        command.env("RUSTC_WORKSPACE_WRAPPER", LINTER);
    }
    let mut child = command
        .args(["test", "--locked", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .args(flags)
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "100")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    let errors = child.stderr.take().expect("it is piped");
    let shown = status.clone();
    let warnings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&warnings);
    let reader = thread::spawn(move || show(errors, &shown, &counted));
    let output = child.stdout.take().expect("it is piped");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let programs = lines.filter_map(|line| program(&line)).collect();
    let done = child.wait().map_err(|error| error.to_string())?;
    // A panic there loses messages and nothing else.
    let _ = reader.join();
    if !done.success() {
        return Err("the tests do not compile".to_owned());
    }
    Ok(Compiled {
        programs,
        // Relaxed: the thread that counts has ended.
        warnings: warnings.load(Ordering::Relaxed),
        is_linted,
    })
}

/// Takes Cargo's progress as the status; prints what else it has to say, and counts the warnings.
fn show(stream: impl Read, status: &Status, warnings: &AtomicUsize) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        if !matches!(byte[0], b'\r' | b'\n') {
            line.push(byte[0]);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        match progress(&text) {
            Some(words) => status.set(words),
            None if is_message(&text) => {
                // Relaxed: whoever reads the count waits for this thread's end.
                warnings.fetch_add(usize::from(is_warning(&text)), Ordering::Relaxed);
                eprintln!("{text}");
            }
            None => {}
        }
    }
}

/// `213 of 345: cellar` from Cargo's progress bar.
fn progress(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("] ")?;
    let (counts, names) = rest.split_once(':').unwrap_or((rest, ""));
    let (done, all) = counts.trim().split_once('/')?;
    let (done, all): (u32, u32) = (done.parse().ok()?, all.parse().ok()?);
    let names: String = names.trim().chars().take(60).collect();
    Some(format!("{done} of {all}: {names}"))
}

/// Whether a line begins a warning, and is not Cargo's sum of them.
fn is_warning(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    line.starts_with("warning") && !line.contains("generated ")
}

/// Whether a line is more than the name of what Cargo works on.
fn is_message(line: &str) -> bool {
    const WORK: [&str; 9] = [
        "Compiling",
        "Downloading",
        "Downloaded",
        "Updating",
        "Locking",
        "Finished",
        "Executable",
        "Blocking",
        "Fresh",
    ];
    let word = line.split_whitespace().next().unwrap_or_default();
    // The colours of a terminal surround the words.
    let word = word.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    !line.trim().is_empty() && !WORK.contains(&word) && !line.contains("\u{1b}[K")
}

/// The test program that a line of Cargo's report names.
fn program(line: &str) -> Option<Program> {
    let profile = line.split_once("\"profile\":{")?.1.split_once('}')?.0;
    if !profile.contains("\"test\":true") {
        return None;
    }
    let target = line.split_once("\"target\":{")?.1;
    let kind = target.split_once("\"kind\":[\"")?.1.split_once('"')?.0;
    let name = match kind {
        "test" | "example" => text_of(target, "name")?,
        "bin" => "main",
        _ => "lib",
    };
    let folder = Path::new(text_of(line, "manifest_path")?)
        .parent()?
        .to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    Some(Program {
        name: format!("{package}/{name}"),
        file: PathBuf::from(text_of(line, "executable")?),
        folder,
    })
}

/// The string behind a key; none if it is no string.
fn text_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let start = format!("\"{key}\":\"");
    Some(line.split_once(&start)?.1.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_cargo_names_a_program() {
        let line = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/engine/Cargo.toml","#,
            r#""target":{"kind":["KIND"],"name":"keep","test":true},"#,
            r#""profile":{"opt_level":"1","test":true},"executable":"/w/target/keep-1"}"#
        );
        let named = |kind| program(&line.replace("KIND", kind)).unwrap().name;
        assert_eq!(named("test"), "engine/keep");
        assert_eq!(named("lib"), "engine/lib");
        assert_eq!(named("bin"), "engine/main");
        assert_eq!(
            program(&line.replace(r#""opt_level":"1","test":true"#, "")),
            None
        );
        let without = line.replace(r#""/w/target/keep-1""#, "null");
        assert_eq!(program(&without), None);
    }

    #[test]
    fn the_progress_bar_becomes_words() {
        let bar = "    Building [=======>      ] 213/345: cellar, cellar-near";
        assert_eq!(progress(bar).unwrap(), "213 of 345: cellar, cellar-near");
        assert_eq!(progress("error[E0432]: unresolved import"), None);
        assert!(is_message("error: could not compile"));
        assert!(!is_message("   Compiling libc v0.2"));
    }
}
