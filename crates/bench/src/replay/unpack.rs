//! Unpacking: a file or stdin as plain bytes, whatever it is compressed with.
//!
//! What a file is shows in its first bytes, not in its name, so that stdin works the same way.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;

use cellar_load::error::Error;

/// The name that means stdin.
pub(super) const STDIN: &str = "-";

const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
const GZIP_MAGIC: &[u8] = &[0x1F, 0x8B];
const XZ_MAGIC: &[u8] = &[0xFD, b'7', b'z', b'X', b'Z', 0];
const MAGIC_BYTES_MAX: u64 = 6;

/// Opens a file, or stdin for `-`, and unpacks what is zstd, gzip or xz.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, Error> {
    let opening = |error| Error::system(format!("opening {}", path.display()), error);
    let source: Box<dyn Read> = if path.as_os_str() == STDIN {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(opening)?)
    };
    unpack(source).map_err(opening)
}

fn unpack(mut source: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::new();
    source
        .by_ref()
        .take(MAGIC_BYTES_MAX)
        .read_to_end(&mut magic)?;
    let starts = |with: &[u8]| magic.starts_with(with);
    let (is_zstd, is_gzip, is_xz) = (starts(ZSTD_MAGIC), starts(GZIP_MAGIC), starts(XZ_MAGIC));
    let whole = Cursor::new(magic).chain(source);
    Ok(if is_zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if is_xz {
        Box::new(XzDecoder::new_multi_decoder(whole))
    } else {
        Box::new(whole)
    })
}
