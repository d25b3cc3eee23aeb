//! Renamed: settings whose old name still works, with a warning in the log.
//!
//! An old name works in all its forms, as a flag, a variable, a key of the settings file and a
//! parameter of CONFIG, until the release after the one that renamed it.
//!
//! Tests: settings/load.rs; server/tests/reload.rs, server/tests/resp_admin.rs.

use std::ffi::OsString;

use super::row::{key_of, variable_of};

/// A setting that had another name.
#[derive(Debug)]
pub struct Renamed {
    /// The flag before, without its dashes.
    pub old: &'static str,
    /// The flag now, without its dashes.
    pub new: &'static str,
}

/// All of them.
pub const RENAMED: &[Renamed] = &[Renamed {
    old: "keep",
    new: "noeviction-databases",
}];

/// The warning about an old name, as a flag, a variable or a key.
#[must_use]
pub fn warning(old: &str, new: &str) -> String {
    format!("{old} is now {new}; the next release will not accept the old name")
}

/// Replaces old names in the arguments by new ones; calls `warn` for each.
pub(super) fn new_flags(arguments: Vec<OsString>, warn: &mut Vec<String>) -> Vec<OsString> {
    let new_flag = |argument: OsString| {
        let text = argument.to_str().unwrap_or_default();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let found = RENAMED
            .iter()
            .find(|it| name.strip_prefix("--") == Some(it.old));
        let Some(Renamed { old, new }) = found else {
            return argument;
        };
        warn.push(warning(&format!("--{old}"), &format!("--{new}")));
        match value {
            Some(value) => format!("--{new}={value}").into(),
            None => format!("--{new}").into(),
        }
    };
    arguments.into_iter().map(new_flag).collect()
}

/// The new name of a variable that has an old one.
pub(super) fn new_variable(name: &str) -> Option<String> {
    let found = RENAMED.iter().find(|it| variable_of(it.old) == name);
    found.map(|it| variable_of(it.new))
}

/// The new name of a key of the settings file that has an old one.
pub(super) fn new_key(key: &str) -> Option<String> {
    let found = RENAMED.iter().find(|it| key_of(it.old) == key);
    found.map(|it| key_of(it.new))
}
