//! Help: what the subcommand HELP of every container answers, made of the table of commands.

use cellar_protocol::resp::command;

use crate::resp::call::{Call, DONE, Outcome};

/// Lists the subcommands of the container that the request names.
pub(in crate::resp) fn help(call: &mut Call<'_>) -> Outcome {
    let container = command::find(call.args[0]);
    let rows = container.map_or(&[][..], |row| row.subcommands);
    let name = String::from_utf8_lossy(call.args[0]).to_uppercase();
    let mut reply = call.reply();
    reply.array(2 * rows.len() + 1);
    reply.simple(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for row in rows {
        reply.simple(&row.name.to_uppercase());
        reply.simple(&format!("    {}", row.summary));
    }
    DONE
}
