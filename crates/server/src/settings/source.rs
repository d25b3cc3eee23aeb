//! Source: where the list of a cluster's nodes comes from, as an operator writes it.

use std::fmt;
use std::path::PathBuf;

/// Where the list comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `file:PATH`: a file, read anew when it changes.
    File(PathBuf),
}

impl Source {
    /// The source that a text stands for; none for `off`.
    ///
    /// # Errors
    /// How a source is written.
    pub fn parse(text: &str) -> Result<Option<Source>, String> {
        match text.split_once(':') {
            None if text == "off" => Ok(None),
            Some(("file", path)) if !path.is_empty() => Ok(Some(Source::File(path.into()))),
            _ => Err(format!(
                "{text:?} is no list of nodes; write file:PATH or off"
            )),
        }
    }

    /// The same as text.
    #[must_use]
    pub fn show(source: Option<&Source>) -> String {
        source.map_or_else(|| "off".to_owned(), Source::to_string)
    }

    /// Whether nodes hold leases, so that none serves what another may.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        match self {
            Source::File(_) => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}
