//! Patterns: length limits of patterns from clients, and names of channels.
//!
//! A pattern is parsed in one piece, into several times its bytes, and compared with many names; so
//! a longer one is refused first. Tests: server/tests/resp_keys.rs, server/tests/resp_pubsub.rs.

use cellar_config::limits::{CHANNEL_BYTES_MAX, PATTERN_BYTES_MAX};
use cellar_protocol::resp::glob::Pattern;

use super::failure::Failure;

const _: () = assert!(
    PATTERN_BYTES_MAX == 65_536 && CHANNEL_BYTES_MAX == 65_536,
    "the refusals name the limits"
);

/// Takes a pattern apart.
///
/// # Errors
/// That it is too long.
pub(super) fn pattern(text: &[u8]) -> Result<Pattern, Failure> {
    check_patterns(&[text])?;
    Ok(Pattern::new(text))
}

/// The same, but case-insensitive, for lowercase names.
///
/// # Errors
/// That it is too long.
pub(super) fn pattern_of_any_case(text: &[u8]) -> Result<Pattern, Failure> {
    check_patterns(&[text])?;
    Ok(Pattern::new(&text.to_ascii_lowercase()))
}

/// Refuses patterns that are too long together.
///
/// # Errors
/// That they are.
pub(super) fn check_patterns(texts: &[&[u8]]) -> Result<(), Failure> {
    if texts.iter().map(|text| text.len()).sum::<usize>() > PATTERN_BYTES_MAX {
        return Err(Failure::text("ERR pattern is longer than 65536 bytes"));
    }
    Ok(())
}

/// Refuses a name of a channel that is too long.
///
/// # Errors
/// That it is.
pub(super) fn check_channel(name: &[u8]) -> Result<(), Failure> {
    if name.len() > CHANNEL_BYTES_MAX {
        return Err(Failure::text("ERR channel is longer than 65536 bytes"));
    }
    Ok(())
}
