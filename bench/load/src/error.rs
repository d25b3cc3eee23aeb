//! Errors: why a measurement could not be made.

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other or exceed a limit.
    #[error("{0}")]
    Usage(String),
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The server closed a connection that still had requests to answer.
    #[error("the server closed a connection after {replies} replies of this thread")]
    Closed {
        /// Replies that arrived before.
        replies: u64,
    },
    /// The server's bytes are no replies to what was asked.
    #[error("the server's answer makes no sense: {0}")]
    Garbled(String),
    /// No reply came for a long time.
    #[error("no reply for {seconds} s while {in_flight} requests are open")]
    Stalled {
        /// How long nothing came.
        seconds: u64,
        /// Requests without a reply.
        in_flight: u64,
    },
    /// The measurement ran but what it found is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// Wraps a system error together with what was being done.
    pub fn system(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Error {
        Error::System {
            doing: doing.into(),
            source: source.into(),
        }
    }
}
