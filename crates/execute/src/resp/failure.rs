//! Failures: why a command was refused, in the words that clients of Redis test for.
//!
//! Source: the replies of redis-server 7.

use std::borrow::Cow;

use cellar_engine::Error;
use cellar_protocol::resp::Command;

/// Longest part of an unknown command that its refusal repeats.
pub(super) const REPEATED_BYTES_MAX: usize = 128;

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The key holds another kind of value.
    WrongType,
    /// Options that do not go together or are unknown.
    Syntax,
    /// An argument or value is not a 64-bit integer.
    NotInteger,
    /// An argument or value is not a number.
    NotFloat,
    /// A number is outside of its range.
    Overflow,
    /// An invalid time to live; the command's name.
    BadExpire(&'static str),
    /// A value would be longer than the server allows.
    TooLong,
    /// All memory is held by values in transfer.
    Busy,
    /// The file system of --state is full.
    StateFull,
    /// The memory reserved for the database is full.
    Full,
    /// No reply yet: the command runs again when memory for its value is free.
    NoRoomYet,
    /// The key is longer than the engine takes.
    KeyTooLong,
    /// Any other text, its code included.
    Text(Cow<'static, str>),
    /// The same of a failure that was counted where it happened, and is passed on.
    Passed(String),
}

impl Failure {
    /// A failure with a text of its own, its code included.
    pub(super) const fn text(text: &'static str) -> Failure {
        Failure::Text(Cow::Borrowed(text))
    }

    /// The line a client gets, without its first byte and line end.
    pub(super) fn line(&self) -> Cow<'static, str> {
        let text = match self {
            Failure::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            Failure::Syntax => "ERR syntax error",
            Failure::NotInteger => "ERR value is not an integer or out of range",
            Failure::NotFloat => "ERR value is not a valid float",
            Failure::Overflow => "ERR increment or decrement would overflow",
            Failure::BadExpire(command) => {
                return format!("ERR invalid expire time in '{command}' command").into();
            }
            Failure::TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Failure::Busy | Failure::NoRoomYet => {
                "OOM command not allowed when all memory is held by transfers"
            }
            Failure::StateFull => "OOM command not allowed when the file system of --state is full",
            Failure::Full => "OOM command not allowed when used memory > 'maxmemory'.",
            Failure::KeyTooLong => "ERR key is longer than 65535 bytes",
            Failure::Text(text) => return text.clone(),
            Failure::Passed(text) => return text.clone().into(),
        };
        Cow::Borrowed(text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::TooLarge { .. } => Failure::TooLong,
            Error::KeyLength { .. } => Failure::KeyTooLong,
            Error::Full => Failure::Full,
            Error::StateFull => Failure::StateFull,
            Error::NoRoomYet { .. } => Failure::NoRoomYet,
            _ => Failure::Busy,
        }
    }
}

/// A command has more or fewer arguments than it takes.
pub(super) fn wrong_arity(command: &Command, args: &[&[u8]]) -> Failure {
    let name = String::from_utf8_lossy(args[0]).to_lowercase();
    let is_sub = !command.name.eq_ignore_ascii_case(&name);
    let name = if is_sub {
        format!("{name}|{}", command.name)
    } else {
        name
    };
    Failure::Text(format!("ERR wrong number of arguments for '{name}' command").into())
}

/// A container has no such subcommand.
pub(super) fn unknown_subcommand(command: &Command, name: &[u8]) -> Failure {
    let name = repeated(name, REPEATED_BYTES_MAX);
    let container = command.name.to_uppercase();
    Failure::Text(format!("ERR unknown subcommand '{name}'. Try {container} HELP.").into())
}

/// The beginning of a word in a refusal: as in Redis, of text that ends at the first zero byte.
pub(super) fn repeated(word: &[u8], most: usize) -> String {
    let word = &word[..word.len().min(most)];
    let end = word.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&word[..end.unwrap_or(word.len())]);
    text.replace(['\r', '\n'], " ")
}

/// The command does not exist.
///
/// Source: Redis 7, `commandCheckExistence`.
pub(super) fn unknown(args: &[&[u8]]) -> Failure {
    let name = args.first().map(|name| repeated(name, REPEATED_BYTES_MAX));
    let mut words = String::new();
    for arg in args.iter().skip(1) {
        if words.len() >= REPEATED_BYTES_MAX {
            break;
        }
        let arg = repeated(arg, REPEATED_BYTES_MAX - words.len());
        words.push_str(&format!("'{arg}' "));
    }
    let name = name.unwrap_or_default();
    let text = format!("ERR unknown command '{name}', with args beginning with: {words}");
    Failure::Text(text.into())
}
