//! Replies other than values: redirections, refusals, invalid replies.

use redis::{RedisError, ServerError, Value};

use crate::read_through::error::Error;

/// Where a cluster says the key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// At another node for good.
    Moved,
    /// At this address while it is being moved.
    Ask(String),
    /// Nowhere for a moment.
    Wait,
}

/// Why there is no value.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Another node has to be asked.
    Redirect(Redirect),
    /// It failed.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

/// The value, unless the server has refused.
pub(super) fn checked(value: Value) -> Result<Value, Failure> {
    match value {
        Value::ServerError(error) => Err(refused(&error)),
        value => Ok(value),
    }
}

fn refused(error: &ServerError) -> Failure {
    let details = error.details().unwrap_or_default();
    match error.code() {
        "MOVED" => Failure::Redirect(Redirect::Moved),
        "ASK" => match details.split_whitespace().nth(1) {
            Some(address) => Failure::Redirect(Redirect::Ask(address.to_owned())),
            None => Failure::Redirect(Redirect::Moved),
        },
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
            Failure::Redirect(Redirect::Wait)
        }
        code => Failure::Error(Error::Refused(format!("{code} {details}").into())),
    }
}

/// A reply of the wrong kind.
pub(super) fn nonsense(command: &str, value: &Value) -> Failure {
    Failure::Error(Error::Protocol(format!("{value:?} to {command}").into()))
}

/// Converts an error of redis-rs.
pub(super) fn failed(error: &RedisError) -> Error {
    if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
        Error::connection(error)
    } else {
        Error::Refused(error.to_string().into())
    }
}
