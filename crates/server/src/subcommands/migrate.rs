//! Migrate: `cellar migrate check`, which features of a Redis or memcached Cellar lacks.
//!
//! It sends read-only commands. It takes at most [`wire::TIME_MAX`] in all, and a reply uses at
//! most [`wire::ANSWER_BYTES_MAX`], whatever the server sends.
//!
//! Tests: tests/migrate.rs, and at the end of the children.

pub mod wire; // what is asked and answered, within bounds
pub mod findings; // the results of a check
pub mod redis;
pub mod memcached;

use std::io::Write;

use cellar_config::error::Error;
use cellar_config::settings::migrate::{MigrateOptions, OldProtocol};

use self::wire::OldLink;

/// Queries a server and prints which features it uses. Returns whether Cellar has all of them.
///
/// # Errors
/// [`Error::Migrate`] if the query fails.
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
    // A closed output pipe is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(found.missing.is_empty())
}
