//! Names: what outlives the server beside its cache's memory, with `--state`.
//!
//! The cache knows spaces and flags by their numbers; which space each database is and which
//! content type each number means stands in a file beside its memory, a line each with its check.
//! A line is written before anything depends on it, so a server that is killed leaves what its
//! items mean. Lines are appended; when most of them are out of date, the file is written anew.
//!
//! Why: docs/decisions/0058. Tests: below; tests/restart.rs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_engine::StateDir;

/// The file, and the one that takes its place.
const FILE: &str = "names";
const NEXT_FILE: &str = "names.next";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Lines that may be out of date before the file is written anew.
const LINES_LEFT_MAX: usize = 1_000;
/// What the first line begins with.
const HEAD: &str = "cellar names 1";

/// What a server before this one left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// The space of each database, and the last number given out before it.
    pub databases: Option<(u32, Vec<u32>)>,
    /// Content types, in the order of their numbers.
    pub types: Vec<String>,
}

/// The file; each change of names is written there before anything depends on it.
#[derive(Debug)]
pub struct Names {
    dir: Arc<StateDir>,
    written: Mutex<WrittenNames>,
}

#[derive(Debug)]
struct WrittenNames {
    file: File,
    id: u64,
    named: KnownNames,
    /// Lines that a newer one replaces.
    old: usize,
}

impl KnownNames {
    /// What stands in a directory for the memory of that number.
    ///
    /// # Errors
    /// Why it cannot be believed.
    pub fn read(dir: &StateDir, id: u64) -> Result<KnownNames, String> {
        let path = dir.path().join(FILE);
        let length = std::fs::metadata(&path).map_or(0, |file| file.len());
        if length == 0 || length > FILE_BYTES_MAX {
            return Err("its file of names is not there".to_owned());
        }
        // Lines that were acknowledged are all there.
        if length < dir.note() {
            return Err("its file of names is too short".to_owned());
        }
        let text = std::fs::read(&path).map_err(|error| format!("its file of names: {error}"))?;
        KnownNames::parse(&text, id)
    }

    fn parse(text: &[u8], id: u64) -> Result<KnownNames, String> {
        let damaged = || "its file of names is damaged".to_owned();
        // What follows the last line end was being written when its server was killed.
        let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        let text = std::str::from_utf8(&text[..whole]).map_err(|_| damaged())?;
        let mut lines = text
            .split('\n')
            .map(|line| checked(line).ok_or_else(damaged));
        if lines.next().transpose()? != Some(head(id).as_str()) {
            return Err("its file of names belongs to other memory".to_owned());
        }
        let mut named = KnownNames::default();
        for line in lines {
            let line = line?;
            let (what, rest) = line.split_once(' ').ok_or_else(damaged)?;
            match what {
                "type" => named.types.push(rest.to_owned()),
                "databases" => {
                    let numbers: Result<Vec<u32>, _> = rest.split(' ').map(str::parse).collect();
                    let numbers = numbers.map_err(|_| damaged())?;
                    let (last, spaces) = numbers.split_first().ok_or_else(damaged)?;
                    named.databases = Some((*last, spaces.to_vec()));
                }
                _ => return Err(damaged()),
            }
        }
        Ok(named)
    }

    fn lines(&self, id: u64) -> String {
        let mut text = line(&head(id));
        if let Some((last, spaces)) = &self.databases {
            text += &line(&databases_line(*last, spaces));
        }
        for name in &self.types {
            text += &line(&format!("type {name}"));
        }
        text
    }
}

impl Names {
    /// Writes what is known so far beside the memory of that number.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(dir: &Arc<StateDir>, id: u64, named: KnownNames) -> std::io::Result<Names> {
        // Nobody reads the file of before by the length of the new one.
        dir.set_note(0);
        let text = named.lines(id);
        let file = write_anew(dir.path(), &text)?;
        dir.set_note(text.len() as u64);
        let old = 0;
        Ok(Names {
            dir: Arc::clone(dir),
            written: Mutex::new(WrittenNames {
                file,
                id,
                named,
                old,
            }),
        })
    }

    /// Writes the file again: somebody else has put another in its place.
    pub fn renew(&self) {
        let mut written = self.written();
        written.old = LINES_LEFT_MAX + 1;
        self.append(&mut written, "");
    }

    /// Notes which space each database is, and the last number given out.
    pub fn note_databases(&self, last: u32, spaces: Vec<u32>) {
        let text = databases_line(last, &spaces);
        let mut written = self.written();
        written.named.databases = Some((last, spaces));
        written.old += 1;
        self.append(&mut written, &text);
    }

    /// Notes the next content type.
    pub fn note_type(&self, name: &str) {
        let mut written = self.written();
        written.named.types.push(name.to_owned());
        self.append(&mut written, &format!("type {name}"));
    }

    fn written(&self) -> MutexGuard<'_, WrittenNames> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line. If that cannot be done, nobody may go on with the memory: its items would
    /// mean something else.
    fn append(&self, written: &mut WrittenNames, text: &str) {
        if let Err(error) = self.write(written, text) {
            self.dir.spoil();
            tracing::error!(%error, "--state: names cannot be written; a restart will begin empty");
        }
    }

    fn write(&self, written: &mut WrittenNames, text: &str) -> std::io::Result<()> {
        if written.old > LINES_LEFT_MAX {
            let text = written.named.lines(written.id);
            self.dir.set_note(0);
            written.file = write_anew(self.dir.path(), &text)?;
            written.old = 0;
            self.dir.set_note(text.len() as u64);
            return Ok(());
        }
        let text = line(text);
        written.file.write_all(text.as_bytes())?;
        let length = written.file.metadata()?.len();
        self.dir.set_note(length);
        Ok(())
    }
}

/// Writes the file under another name first, so that there is always a whole one.
fn write_anew(dir: &Path, text: &str) -> std::io::Result<File> {
    let next: PathBuf = dir.join(NEXT_FILE);
    let _ = std::fs::remove_file(&next);
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&next, dir.join(FILE))?;
    Ok(file)
}

fn head(id: u64) -> String {
    format!("{HEAD} {id:016x}")
}

fn databases_line(last: u32, spaces: &[u32]) -> String {
    let mut text = format!("databases {last}");
    for space in spaces {
        text += &format!(" {space}");
    }
    text
}

/// A line with its check.
fn line(text: &str) -> String {
    format!("{:016x} {text}\n", check(text))
}

/// The text of a line whose check is right.
fn checked(line: &str) -> Option<&str> {
    let (sum, text) = line.split_once(' ')?;
    (sum == format!("{:016x}", check(text))).then_some(text)
}

fn check(text: &str) -> u64 {
    text.bytes().fold(0x6e61_6d65_7321_0a0d, |sum, byte| {
        let mixed = (sum ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> KnownNames {
        KnownNames {
            databases: Some((17, vec![0, 1, 17])),
            types: vec!["image/png".to_owned(), "a/b; c=\"d e\"".to_owned()],
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let text = named().lines(7);
        assert_eq!(KnownNames::parse(text.as_bytes(), 7), Ok(named()));
        let later = text + &line("databases 18 0 18 17");
        let later = KnownNames::parse(later.as_bytes(), 7).unwrap();
        assert_eq!(later.databases, Some((18, vec![0, 18, 17])));
    }

    #[test]
    fn a_line_that_was_being_written_is_none() {
        let text = named().lines(7);
        let torn = text.clone() + &line("databases 18 0 18 17")[..20];
        assert_eq!(KnownNames::parse(torn.as_bytes(), 7), Ok(named()));
    }

    #[test]
    fn no_file_is_believed_in_which_a_bit_is_wrong() {
        let text = named().lines(7);
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_end = bit / 8 == text.len() - 1;
            assert!(is_end || KnownNames::parse(&bytes, 7).is_err(), "bit {bit}");
        }
        assert!(KnownNames::parse(text.as_bytes(), 8).is_err());
        assert!(KnownNames::parse(b"", 7).is_err());
    }
}
