//! File range: a range of a file that is a region's memory and outlives the process.
//!
//! It is mapped, shared, over addresses that the region has reserved. So a store to the region is a
//! store to the file's pages. Pages are allocated when they are written, and freed by a hole in the
//! file.
//!
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::base::error::Error;

/// From where on a file is a region's memory.
#[derive(Clone, Debug)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
}

impl FileRange {
    /// Maps the stretch over reserved addresses.
    #[cfg(not(miri))]
    pub(super) fn map(&self, base: *mut u8, bytes: usize) -> Result<(), Error> {
        let offset = libc::off_t::try_from(self.at).map_err(|_| reserve_error(bytes))?;
        // SAFETY: the caller reserved these addresses and has not used them; the new mapping takes
        // their range whole.
        let mapping = unsafe {
            libc::mmap(
                base.cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
                self.file.as_raw_fd(),
                offset,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(reserve_error(bytes));
        }
        Ok(())
    }

    /// The interpreter maps no files.
    #[cfg(miri)]
    pub(super) fn map(&self, _: *mut u8, bytes: usize) -> Result<(), Error> {
        Err(reserve_error(bytes))
    }

    /// Gives the memory of a part back to the system, which reads as zero after.
    pub(super) fn punch(&self, at: usize, bytes: usize) -> bool {
        self.fallocate(
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            at,
            bytes,
        )
    }

    /// Makes the file have memory for a part.
    pub(super) fn allocate(&self, at: usize, bytes: usize) -> bool {
        self.fallocate(libc::FALLOC_FL_KEEP_SIZE, at, bytes)
    }

    fn fallocate(&self, mode: libc::c_int, at: usize, bytes: usize) -> bool {
        let range = (
            libc::off_t::try_from(self.at + at as u64),
            libc::off_t::try_from(bytes),
        );
        let (Ok(at), Ok(bytes)) = range else {
            return false;
        };
        // SAFETY: the call takes numbers and a descriptor that is open.
        unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, bytes) == 0 }
    }
}

fn reserve_error(bytes: usize) -> Error {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Error::Reserve { bytes, code }
}
