//! Failures: why a command was refused, in the words that clients of Redis test for.
//!
//! Source: the replies of redis-server 7.

use std::borrow::Cow;

use cellar_engine::Error;

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The key holds another kind of value.
    WrongType,
    /// Options that do not go together or are unknown.
    Syntax,
    /// An argument or value is no integer of 64 bits.
    NotInteger,
    /// An argument or value is no number.
    NotFloat,
    /// A number is outside of its range.
    Overflow,
    /// A time to live that is no time; the command's name.
    BadExpire(&'static str),
    /// A value would be longer than the server allows.
    TooLong,
    /// All memory is held by values in transfer.
    Busy,
    /// The file system of --state is full.
    StateFull,
    /// The memory that is kept for the database is full.
    Full,
    /// None yet: it is run once more when there is room for what it stores.
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
