//! The page docs/commands.md, made from the tables of commands.
//!
//! A test fails when it is stale: `CELLAR_BLESS=1 cargo test -p cellar-protocol --test
//! commands_page` regenerates it.

use crate::{memcached, resp};

/// The page.
#[must_use]
pub fn commands() -> String {
    format!(
        "<!-- Generated from crates/protocol/src/memcached/command.rs and\n\
         crates/protocol/src/resp/command/table.rs; do not edit. -->\n\n\
         # Commands\n\n\
         {}\n{}",
        memcached::command::section(),
        resp::command::section()
    )
}
