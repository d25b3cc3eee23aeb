//! Page: docs/config.md, generated from the table of settings, then the parameters of CONFIG.

use cellar_config::parameters::{self, can_change};
use cellar_config::settings::TABLE;

const HEAD: &str = "\
<!-- Written from the table in crates/config/src/settings/table.rs; do not edit by hand
(CELLAR_BLESS=1 cargo test -p cellar --test server docs:: regenerates it). -->

# Settings

You can set a setting in three places. A flag overrides an environment variable, a variable
overrides the settings file, and the file overrides the default. An unknown flag, variable or key,
or an invalid value, ends the server at start with one line and exit status 2.

    cellar --memory 1GiB --max-connections 2000
    CELLAR_MEMORY=1GiB CELLAR_MAX_CONNECTIONS=2000 cellar
    cellar --config cellar.toml          # or CELLAR_CONFIG=cellar.toml

    # cellar.toml
    memory = \"1GiB\"
    max_connections = 2000

`cellar --print-config` prints the settings in effect as such a file, each with its origin. For a
password or token it prints `(set)`. No server starts with this value; replace it by the secret.

A flag with the values `on|off` means on without a value: `--release-memory`, `--release-memory on`
and `--release-memory=on` are the same.

Sizes are `64MiB`, `1GiB`, `500MB` or a number of bytes; `64m` and `1g` are `64MiB` and `1GiB`.
Durations are `500ms`, `30s`, `10m`, `2h`, `1d` or `0`. The server ignores the variables that
Kubernetes sets for a service named `cellar` (`CELLAR_SERVICE_*`, `CELLAR_PORT*`).

[Limits](limits.md) lists the memory that the process uses outside of `--memory`.

## While it runs

`CONFIG SET` changes a setting with a name in this column until the process ends. A changed value in
the settings file does the same: SIGHUP (`systemctl reload cellar`) makes the server read the file
again. Flags and variables still override the file. All other settings need a restart; if the file
has changed one of them, the log names it. If the file is invalid or missing, the server logs one
line and changes nothing. The server reloads the files of `--users` and `--tls-*` automatically.

| flag | variable | key in the file | default | while it runs | meaning |
|---|---|---|---|---|---|
";

/// The page's text.
pub(super) fn page() -> String {
    let mut text = HEAD.to_owned();
    for row in TABLE {
        let parameter = row.parameter.filter(|name| can_change(name));
        text.push_str(&format!(
            "| `--{} {}` | `{}` | `{}` | {} | {} | {} |\n",
            row.name,
            row.value.replace('|', "\\|"),
            row.variable(),
            row.key(),
            row.default,
            parameter.map_or_else(|| "restart".to_owned(), |name| format!("`{name}`")),
            row.help,
        ));
    }
    text + &parameters::page()
}
