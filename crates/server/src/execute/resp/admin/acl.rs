//! ACL: there is one user, who may do everything.

use cellar_protocol::resp::command::{Command, TABLE};

use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::failure::Failure;

/// Categories of Redis, in the order in which ACL CAT shows them; some have no command here.
const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// ACL CAT
pub(in crate::execute::resp) fn categories(call: &mut Call<'_>) -> Outcome {
    let names = match call.args {
        [_, _] => CATEGORIES.map(str::to_owned).to_vec(),
        [_, _, category] => members(category)?,
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
            );
            return Err(Failure::Text(text.into()));
        }
    };
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names {
        reply.bulk(name);
    }
    DONE
}

/// The commands of a category, subcommands as `container|name`.
fn members(category: &[u8]) -> Result<Vec<String>, Failure> {
    let shown = String::from_utf8_lossy(category);
    if !CATEGORIES.contains(&shown.to_lowercase().as_str()) {
        return Err(Failure::Text(
            format!("ERR Unknown category '{shown}'").into(),
        ));
    }
    let mut names = Vec::new();
    for row in TABLE {
        if is_in(row, category) {
            names.push(row.name.to_owned());
        }
        let rows = row.subcommands.iter().filter(|sub| is_in(sub, category));
        names.extend(rows.map(|sub| format!("{}|{}", row.name, sub.name)));
    }
    Ok(names)
}

/// Whether a command belongs to a category.
pub(in crate::execute::resp) fn is_in(row: &Command, category: &[u8]) -> bool {
    let mut categories = row.categories();
    categories.any(|one| one.as_bytes().eq_ignore_ascii_case(category))
}

/// ACL LIST
pub(in crate::execute::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let rights = if call.context.state.settings.password.is_empty() {
        "user default on nopass ~* &* +@all"
    } else {
        "user default on ~* &* +@all"
    };
    let mut reply = call.reply();
    reply.array(1);
    reply.bulk(rights);
    DONE
}

/// ACL WHOAMI
pub(in crate::execute::resp) fn who_am_i(call: &mut Call<'_>) -> Outcome {
    call.reply().bulk("default");
    DONE
}
