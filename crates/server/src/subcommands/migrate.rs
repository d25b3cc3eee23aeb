//! Migrate: `cellar migrate check`, what an old server is used for that is not here.
//!
//! It asks with commands that only read. Nothing that the other end sends makes it wait longer
//! than [`wire::TIME_MAX`] in all or hold more than [`wire::ANSWER_BYTES_MAX`].
//!
//! Tests: tests/migrate.rs, and at the end of the children.

pub mod wire; // what is asked and answered, within bounds
pub mod findings; // what is told of a server
pub mod redis;
pub mod memcached;

use std::io::Write;

use self::wire::OldLink;
use crate::config::error::Error;
use crate::config::settings::migrate::{MigrateOptions, OldProtocol};

/// Asks a server and prints what it is used for; whether all of that is here.
///
/// # Errors
/// [`Error::Migrate`] if it cannot be asked.
pub fn run(options: &MigrateOptions) -> Result<bool, Error> {
    let found = OldLink::open(options).and_then(|mut link| match options.protocol {
        OldProtocol::Redis | OldProtocol::Rediss => redis::ask(&mut link, options.user.as_ref()),
        OldProtocol::Memcached => memcached::ask(&mut link, options.user.as_ref()),
    });
    let found = found.map_err(|reason| Error::Migrate(format!("{options}: {reason}")))?;
    let text = if options.json {
        let text = serde_json::to_string_pretty(&found);
        text.map_err(|error| Error::Migrate(error.to_string()))? + "\n"
    } else {
        found.page(&options.to_string())
    };
    // A reader that has seen enough is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(found.missing.is_empty())
}
