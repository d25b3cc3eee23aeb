//! Source: where the list of a cluster's nodes comes from, as an operator writes it.

use std::fmt;
use std::path::PathBuf;

/// Where the list comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// `file:PATH`: a file, read anew when it changes.
    File(PathBuf),
}

impl ListSource {
    /// The source that a text stands for; none for `off`.
    ///
    /// # Errors
    /// How a source is written.
    pub fn parse(text: &str) -> Result<Option<ListSource>, String> {
        match text.split_once(':') {
            None if text == "off" => Ok(None),
            Some(("file", path)) if !path.is_empty() => Ok(Some(ListSource::File(path.into()))),
            _ => Err(format!(
                "{text:?} is no list of nodes; write file:PATH or off"
            )),
        }
    }

    /// The same as text.
    #[must_use]
    pub fn show(source: Option<&ListSource>) -> String {
        source.map_or_else(|| "off".to_owned(), ListSource::to_string)
    }
}

impl fmt::Display for ListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListSource::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// Longest name of a node.
const NAME_BYTES_MAX: usize = 64;

/// Checks what a node is called.
///
/// # Errors
/// How a name is written.
pub fn check_node_name(name: &str) -> Result<(), String> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_taken) {
        return Err(format!(
            "{name:?} is no name of a node: 1 to {NAME_BYTES_MAX} letters, digits and . _ - :"
        ));
    }
    Ok(())
}
