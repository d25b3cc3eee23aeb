//! Values: parsers for values of settings other than units, addresses and lists.
//!
//! Tests: table.rs.

use std::path::{Path, PathBuf};

use tracing::level_filters::LevelFilter;

use super::address::Address;
use super::source::check_node_name;
use super::units::{parse_duration_ms, parse_size, show_size};
use super::{CLIENT_MEMORY_BYTES_MIN, EXPIRE_EFFORT_MAX, LogFormat};

/// A whole number within these bounds.
pub(super) fn number(text: &str, min: usize, max: usize) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(format!("{text:?} is not a number from {min} to {max}")),
    }
}

/// A file, or `off` for none.
pub(super) fn path(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "off" => Ok(None),
        "" => Err("the path is empty; write off for none".to_owned()),
        path => Ok(Some(PathBuf::from(path))),
    }
}

/// The name of a cluster node, or `none`.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok(String::new()),
        name => check_node_name(name).map(|()| name.to_owned()),
    }
}

/// A user of etcd's, or `off`.
pub(super) fn etcd_user(text: &str) -> Result<Option<String>, String> {
    match text {
        "off" => Ok(None),
        "" => Err("the name is empty; write off for none".to_owned()),
        name => Ok(Some(name.to_owned())),
    }
}

/// Announced addresses, or `listen` for the listen addresses.
pub(super) fn announced(text: &str) -> Result<Vec<Address>, String> {
    match text {
        "listen" => Ok(Vec::new()),
        _ => Address::parse_all(text),
    }
}

/// The same as text.
pub(super) fn show_announced(addresses: &[Address]) -> String {
    match addresses {
        [] => "listen".to_owned(),
        _ => Address::show_all(addresses),
    }
}

/// How long a lease of etcd is.
pub(super) fn lease(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ms if ms % 1_000 == 0 && (2_000..=60_000).contains(&ms) => Ok(ms),
        _ => Err(format!("{text:?} is not in whole seconds from 2s to 60s")),
    }
}

/// A file or directory as [`path`] reads it.
pub(super) fn show_path(path: Option<&Path>) -> String {
    path.map_or_else(|| "off".to_owned(), |path| path.display().to_string())
}

/// Files with commas between them, or `off` for none.
pub(super) fn paths(text: &str) -> Result<Vec<PathBuf>, String> {
    match text {
        "off" => Ok(Vec::new()),
        _ if text.split(',').any(str::is_empty) => {
            Err("a path is empty; write off for none".to_owned())
        }
        _ => Ok(text.split(',').map(PathBuf::from).collect()),
    }
}

/// Files as they are written.
pub(super) fn show_paths(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "off".to_owned();
    }
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(",")
}

/// See `Config::expire_effort` of the engine.
pub(super) fn effort(text: &str) -> Result<u8, String> {
    let effort = number(text, 1, usize::from(EXPIRE_EFFORT_MAX))?;
    Ok(effort as u8)
}

/// `on` or `off`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

/// Permission bits in octal.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(bits) if bits <= 0o777 => Ok(bits),
        _ => Err(format!(
            "{text:?} is not a file mode; write three octal digits such as 770"
        )),
    }
}

/// A limit on values, or `auto` for none.
pub(super) fn value_limit(text: &str) -> Result<Option<usize>, String> {
    let limit = cellar_engine::Config::VALUE_BYTES_LIMIT;
    if text == "auto" {
        return Ok(None);
    }
    match parse_size(text)? {
        0 => Err("a limit of 0 bytes is not possible".to_owned()),
        bytes if bytes > limit => Err(format!("{text} is more than {}", show_size(limit))),
        bytes => Ok(Some(bytes)),
    }
}

/// A bound on what clients hold, or `auto` for none.
pub(super) fn client_memory(text: &str) -> Result<Option<usize>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match parse_size(text)? {
        bytes if bytes < CLIENT_MEMORY_BYTES_MIN => Err(format!(
            "{text} is less than {}",
            show_size(CLIENT_MEMORY_BYTES_MIN)
        )),
        bytes => Ok(Some(bytes)),
    }
}

/// Milliseconds, not zero.
pub(super) fn non_zero_duration(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        0 => Err("0 is not allowed here".to_owned()),
        ms => Ok(ms),
    }
}

/// A level of log lines.
pub(super) fn level(text: &str) -> Result<LevelFilter, String> {
    text.parse()
        .ok()
        .filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()))
        .ok_or_else(|| {
            format!("{text:?} is not a level; write off, error, warn, info, debug or trace")
        })
}

/// A form of log lines.
pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is not a format; write text or json")),
    }
}
