//! Errors of requests to the origin. A missing key is no error.

use std::sync::Arc;
use std::time::Duration;

/// Why a value could not be read or written.
///
/// Cheap to clone: all callers that waited for the same load get the same error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The origin cannot be reached, or the connection ended before the answer.
    #[error("no connection to the origin: {0}")]
    Connection(Arc<str>),
    /// The origin did not answer in time; a write may have happened nevertheless.
    #[error("no answer from the origin within {0:?}")]
    Timeout(Duration),
    /// The origin refused the request.
    #[error("the origin refused: {0}")]
    Refused(Arc<str>),
    /// The origin answered something that makes no sense as an answer to the request.
    #[error("the origin answered nonsense: {0}")]
    Protocol(Arc<str>),
    /// The bytes are no value of the wanted type, or the value cannot be written as bytes.
    #[error("the value cannot be converted: {0}")]
    Codec(Arc<str>),
    /// The key is too long for the origin.
    #[error("a key of {bytes} bytes, at most {max} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The origin's limit.
        max: usize,
    },
    /// The caller's own function failed.
    #[error("the loader failed: {0}")]
    Loader(Arc<dyn std::error::Error + Send + Sync>),
    /// A blocking call that would wait was made where an async runtime runs: it would block all
    /// other tasks of its thread, perhaps the one that it waits for.
    #[error("a blocking call inside an async runtime would stop its thread: await Near instead")]
    InsideRuntime,
    /// A loader requests the key that it is loading: it would wait for itself.
    #[error("the loader of a key asks for the same key")]
    OwnLoad,
    /// The thread behind a blocking cache cannot be started.
    #[error("no thread for the cache's connections: {0}")]
    Thread(Arc<str>),
    /// The origin can only be read.
    #[error("this origin takes no writes")]
    ReadOnly,
}

impl Error {
    /// An [`Error::Loader`] around any error.
    pub fn loader(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Loader(Arc::from(error.into()))
    }

    /// Whether the origin cannot be reached, or is silent.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Error::Connection(_) | Error::Timeout(_))
    }

    /// An [`Error::Codec`] with the text of any error.
    pub fn codec(error: impl std::fmt::Display) -> Error {
        Error::Codec(error.to_string().into())
    }

    /// An [`Error::Connection`] with the text of any error.
    pub fn connection(error: impl std::fmt::Display) -> Error {
        Error::Connection(error.to_string().into())
    }
}
