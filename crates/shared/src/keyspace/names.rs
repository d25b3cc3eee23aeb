//! Names: the file that outlives the server beside its cache's memory, with `--state`.
//!
//! The cache knows spaces and flags by their numbers. This file records which space each database
//! is and which content type each number means, one line each with a check of it and of all lines
//! before it. A line is written before anything depends on it, so after a kill the file still
//! explains all items. Lines are appended; when most of them are out of date, the file is
//! rewritten.
//!
//! Why: docs/decisions/0058. Tests: below; server/tests/restart.rs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_engine::StateDir;
use parking_lot::Mutex;

/// The file, and the one that replaces it.
const FILE: &str = "names";
const NEXT_FILE: &str = "names.next";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Out-of-date lines that trigger a rewrite of the file.
const LINES_LEFT_MAX: usize = 1_000;
/// Start of the first line.
const HEAD: &str = "cellar names 2";
/// The check before the first line.
const NO_LINES: u64 = 0x6e61_6d65_7321_0a0d;

/// The names that an earlier server has left.
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
    /// The check of the last line.
    check: u64,
}

impl KnownNames {
    /// Reads the file of a directory for the memory of that number.
    ///
    /// # Errors
    /// A message if the file is not valid.
    pub fn read(dir: &StateDir, id: u64) -> Result<KnownNames, String> {
        let path = dir.path().join(FILE);
        let length = std::fs::metadata(&path).map_or(0, |file| file.len());
        if length == 0 || length > FILE_BYTES_MAX {
            return Err("its file of names is not there".to_owned());
        }
        let text = std::fs::read(&path).map_err(|error| format!("its file of names: {error}"))?;
        // All acknowledged lines are there, and whole.
        let acknowledged = dir
            .note()
            .ok_or("the length of its file of names is damaged")?;
        if (whole_bytes(&text) as u64) < acknowledged {
            return Err("its file of names is too short".to_owned());
        }
        KnownNames::parse(&text, id)
    }

    fn parse(text: &[u8], id: u64) -> Result<KnownNames, String> {
        let damaged = || "its file of names is damaged".to_owned();
        let whole = text[..whole_bytes(text)].strip_suffix(b"\n");
        let text = std::str::from_utf8(whole.unwrap_or_default()).map_err(|_| damaged())?;
        let mut check = NO_LINES;
        let mut lines = text
            .split('\n')
            .map(|line| checked(&mut check, line).ok_or_else(damaged));
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

    /// All lines, and the check of the last.
    fn lines(&self, id: u64) -> (String, u64) {
        let mut check = NO_LINES;
        let mut text = line(&mut check, &head(id));
        if let Some((last, spaces)) = &self.databases {
            text += &line(&mut check, &databases_line(*last, spaces));
        }
        for name in &self.types {
            text += &line(&mut check, &format!("type {name}"));
        }
        (text, check)
    }
}

impl Names {
    /// Writes what is known so far beside the memory of that number.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(dir: &Arc<StateDir>, id: u64, named: KnownNames) -> std::io::Result<Names> {
        // The old file is not to be read by the length of the new one.
        dir.set_note(0);
        let (text, check) = named.lines(id);
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
                check,
            }),
        })
    }

    /// Writes the file again: another process has replaced it.
    pub fn renew(&self) {
        let mut written = self.written.lock();
        written.old = LINES_LEFT_MAX + 1;
        self.append(&mut written, "");
    }

    /// Records which space each database is, and the last number given out.
    pub fn note_databases(&self, last: u32, spaces: Vec<u32>) {
        let text = databases_line(last, &spaces);
        let mut written = self.written.lock();
        written.named.databases = Some((last, spaces));
        written.old += 1;
        self.append(&mut written, &text);
    }

    /// Records the next content type.
    pub fn note_type(&self, name: &str) {
        let mut written = self.written.lock();
        written.named.types.push(name.to_owned());
        self.append(&mut written, &format!("type {name}"));
    }

    /// Appends a line. If that fails, the memory must not be reused: its items would change their
    /// meaning.
    fn append(&self, written: &mut WrittenNames, text: &str) {
        if let Err(error) = self.write(written, text) {
            self.dir.spoil();
            tracing::error!(%error, "--state: cannot write names; a restart will empty the cache");
        }
    }

    fn write(&self, written: &mut WrittenNames, text: &str) -> std::io::Result<()> {
        if written.old > LINES_LEFT_MAX {
            let (text, check) = written.named.lines(written.id);
            self.dir.set_note(0);
            written.file = write_anew(self.dir.path(), &text)?;
            (written.old, written.check) = (0, check);
            self.dir.set_note(text.len() as u64);
            return Ok(());
        }
        let text = line(&mut written.check, text);
        written.file.write_all(text.as_bytes())?;
        let length = written.file.metadata()?.len();
        self.dir.set_note(length);
        Ok(())
    }
}

/// Writes the file under another name first, so that a whole one always exists.
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

/// Bytes of the whole lines: the rest was being written when its server was killed.
fn whole_bytes(text: &[u8]) -> usize {
    let end = text.iter().rposition(|&byte| byte == b'\n');
    end.map_or(0, |end| end + 1)
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

/// A line with its check, behind one whose check is `before`, which becomes this one's.
fn line(before: &mut u64, text: &str) -> String {
    *before = check(*before, text);
    format!("{before:016x} {text}\n")
}

/// The text of a line, if it is whole and follows the lines that it was written after.
fn checked<'l>(before: &mut u64, line: &'l str) -> Option<&'l str> {
    let (sum, text) = line.split_once(' ')?;
    *before = check(*before, text);
    (sum == format!("{before:016x}")).then_some(text)
}

fn check(before: u64, text: &str) -> u64 {
    // The end counts too, so that no line is a part of a longer one.
    text.bytes().chain([b'\n']).fold(before, |sum, byte| {
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
        let (text, mut check) = named().lines(7);
        assert_eq!(KnownNames::parse(text.as_bytes(), 7), Ok(named()));
        let later = text + &line(&mut check, "databases 18 0 18 17");
        let later = KnownNames::parse(later.as_bytes(), 7).unwrap();
        assert_eq!(later.databases, Some((18, vec![0, 18, 17])));
    }

    #[test]
    fn a_line_that_was_being_written_is_none() {
        let (text, mut check) = named().lines(7);
        let torn = text + &line(&mut check, "databases 18 0 18 17")[..20];
        assert_eq!(KnownNames::parse(torn.as_bytes(), 7), Ok(named()));
    }

    #[test]
    fn no_file_is_believed_in_which_a_bit_is_wrong() {
        let (text, _) = named().lines(7);
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_end = bit / 8 == text.len() - 1;
            assert!(is_end || KnownNames::parse(&bytes, 7).is_err(), "bit {bit}");
        }
        assert!(KnownNames::parse(text.as_bytes(), 8).is_err());
        assert!(KnownNames::parse(b"", 7).is_err());
    }

    #[test]
    fn no_line_is_believed_at_another_place_or_of_another_server() {
        let of = |types: [&str; 2], id: u64| {
            let types = types.map(str::to_owned).to_vec();
            let named = KnownNames { types, ..named() };
            let (text, _) = named.lines(id);
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let parse = |lines: &[String]| KnownNames::parse((lines.join("\n") + "\n").as_bytes(), 7);
        let lines = of(["image/gif", "image/png"], 7);
        assert!(parse(&lines).is_ok());
        let mut swapped = lines.clone();
        swapped.swap(2, 3);
        assert!(parse(&swapped).is_err());
        let mut mixed = lines;
        mixed[3] = of(["image/gif", "image/jpg"], 8)[3].clone();
        assert!(parse(&mixed).is_err());
    }
}
