//! Families: values of real kinds, in files that `bench/families` has written.

use std::path::Path;

use cellar_load::Error;

/// Values of one kind.
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) values: Vec<Vec<u8>>,
}

impl Family {
    /// Reads a file of values, each behind its length in four bytes.
    pub(crate) fn read(path: &Path) -> Result<Family, Error> {
        let failed = |error| Error::system(format!("reading {}", path.display()), error);
        let bytes = std::fs::read(path).map_err(failed)?;
        let mut values = Vec::new();
        let mut left = &bytes[..];
        while let Some((length, rest)) = left.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let value = rest.split_at_checked(length).filter(|_| length > 0);
            let (value, behind) = value
                .ok_or_else(|| Error::Usage(format!("{} is no file of values", path.display())))?;
            values.push(value.to_vec());
            left = behind;
        }
        if values.is_empty() {
            return Err(Error::Usage(format!("{} has no values", path.display())));
        }
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Ok(Family { name, values })
    }

    pub(crate) fn mean_bytes(&self) -> u64 {
        let bytes: usize = self.values.iter().map(Vec::len).sum();
        (bytes / self.values.len()) as u64
    }

    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        format!("{}:{number:08}", self.name).into_bytes()
    }

    pub(crate) fn value(&self, number: u64) -> &[u8] {
        &self.values[number as usize % self.values.len()]
    }
}
