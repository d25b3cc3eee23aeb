//! Execution: the one place where requests meet the engine.
//!
//! A worker decodes what its connections sent, and for each request in order calls the protocol's
//! `prepare` (hashes the key, so that the worker can hint the cache far ahead) and `execute`.
//! [`Flow`] says how the connection goes on.
//!
//! Invariant: one call appends a bounded amount to the output; longer answers come back as
//! [`Flow::Unfinished`] and go on when the client has read.

pub mod context;
pub mod filling;
pub mod memcached;
pub mod resp;
pub mod http;

pub use context::{Context, Flow, Unfinished};
pub use filling::Filling;

/// How far an incomplete request over HTTP was looked at.
pub type HttpScan = cellar_protocol::http::Scan;

/// A storage command whose value is received straight into the engine's memory.
#[derive(Debug)]
pub enum Upload {
    /// memcached's set and its like.
    Memcached(Box<memcached::Upload>),
    /// SET.
    Resp(Box<resp::Upload>),
    /// PUT.
    Http(Box<http::Upload>),
}

impl Upload {
    /// Length of the value.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self {
            Upload::Memcached(upload) => upload.filling.value_bytes(),
            Upload::Resp(upload) => upload.filling.value_bytes(),
            Upload::Http(upload) => upload.filling.value_bytes(),
        }
    }

    /// Bytes to come, the line end included.
    #[inline]
    #[must_use]
    pub fn missing(&self) -> usize {
        match self {
            Upload::Memcached(upload) => upload.filling.missing(),
            Upload::Resp(upload) => upload.filling.missing(),
            Upload::Http(upload) => upload.filling.missing(),
        }
    }

    /// The value so far.
    #[inline]
    pub fn filling(&mut self) -> &mut Filling {
        match self {
            Upload::Memcached(upload) => &mut upload.filling,
            Upload::Resp(upload) => &mut upload.filling,
            Upload::Http(upload) => &mut upload.filling,
        }
    }
}
