//! Page: docs/config.md, written from the table of settings; behind it stand the parameters.

use super::TABLE;

const HEAD: &str = "\
# Settings

Written from the table in `crates/server/src/settings/table.rs`; do not edit by hand
(`CELLAR_BLESS=1 cargo test -p cellar --test server docs::` writes it anew).

A setting can be given in three places. A flag goes before a variable, a variable before the
settings file, the file before the default. An unknown flag, variable or key and a value that
cannot be used stop the server at start with one line and exit status 2.

    cellar --memory 1GiB --max-connections 2000
    CELLAR_MEMORY=1GiB CELLAR_MAX_CONNECTIONS=2000 cellar
    cellar --config cellar.toml          # or CELLAR_CONFIG=cellar.toml

    # cellar.toml
    memory = \"1GiB\"
    max_connections = 2000

`cellar --print-config` prints the settings in effect as such a file, each with its origin. For a
password or token it has `(set)`, with which no server starts: write the secret in its place.

A flag that takes `on|off` means on when it stands alone: `--release-memory`, `--release-memory on`
and `--release-memory=on` are the same.

Sizes: `64MiB`, `1GiB`, `500MB` or a number of bytes. Durations: `500ms`, `30s`, `10m`, `2h`, `1d`
or `0`. Variables that Kubernetes sets for a service named `cellar` (`CELLAR_SERVICE_*`,
`CELLAR_PORT*`) are ignored.

Memory outside of `--memory` is summed up in [limits](limits.md).

## While it runs

A setting whose column says so is changed by `CONFIG SET` under the name that stands there, until
the end of the process, and by the settings file: SIGHUP (`systemctl reload cellar`) has the file
read anew, and what it says otherwise than before takes effect at once. What flags and variables say
still goes before it. All others need a restart; if the file has changed one of them, the log names
it. A file that cannot be used, or is gone, changes nothing and is told in one line. The files that
`--users` and `--tls-*` name are read anew by themselves.

| flag | variable | key in the file | default | while it runs | meaning |
|---|---|---|---|---|---|
";

/// The page's text; `can_change` says which parameters of CONFIG can be set.
#[must_use]
pub fn page(can_change: fn(&str) -> bool) -> String {
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
    text
}
