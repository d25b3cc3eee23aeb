//! Named file: a file named by an operator, read without blocking.
//!
//! Threads that read such files again at run time have other work too: a named pipe in place of a
//! file, which opens only with a writer, would block that work forever.
//!
//! Tests: at the end of this file; server/tests/startup_errors.rs.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file for reading; what the system knows of the one that was opened, as another may take
/// its name.
///
/// # Errors
/// The system's; one that says so if it is not a regular file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let facts = file.metadata()?;
    if facts.is_file() {
        Ok((file, facts))
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// All bytes of an open file.
///
/// # Errors
/// The system's; one that says so if it has more than `most` bytes.
pub fn read(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            let error = open(path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file", "{path:?}");
        }
        std::fs::write(&file, "four").unwrap();
        assert_eq!(read(open(&file).unwrap().0, 4).unwrap(), b"four");
        let error = read(open(&file).unwrap().0, 3).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 3 bytes");
    }
}
