//! Generated pages: the stored ones are what the tables say.

mod limits; // docs/limits.md
mod metrics; // docs/metrics.md
mod settings; // docs/config.md

use crate::support::daemon;

use std::collections::BTreeSet;
use std::path::Path;

fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("CELLAR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == expected,
        "docs/{name} is stale; CELLAR_BLESS=1 regenerates it"
    );
}

#[test]
fn the_settings_page_is_what_the_table_says() {
    check("config.md", &settings::page());
}

/// Checks a file that packages install.
fn check_packaged(name: &str, expected: &[u8]) {
    let text = String::from_utf8(expected.to_vec()).unwrap();
    check(&format!("../packaging/made/{name}"), &text);
}

/// The beginning of each section that the generator writes.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Usage on the manual page.
const SYNOPSIS: &str = r".SH SYNOPSIS
\fBcellar\fR [\fIOPTION\fR]...
.br
\fBcellar\fR \fBtop\fR|\fBhealthcheck\fR|\fBdoctor\fR|\fBhash\-password\fR [\fIOPTION\fR]...
.br
\fBcellar migrate check\fR [\fIOPTION\fR]... \fIURL\fR
";

/// Sections of the manual page after the flags.
const AFTER_FLAGS: &str = r".SH ENVIRONMENT
Each flag that is a setting has a variable: CELLAR_MEMORY for \-\-memory. A flag overrides a
variable, and a variable overrides the settings file.
.SH FILES
.TP
/etc/cellar/cellar.toml
Settings file of the packages.
.TP
/etc/cellar/secrets
Variables with secrets, for the systemd unit of the packages. Only root can read it.
.SH SIGNALS
.TP
SIGTERM, SIGINT
The server answers the requests that it has received, and exits. A second signal ends it at once.
.TP
SIGHUP
The server reloads the settings file, the certificates and the users file.
.SH EXIT STATUS
0 after a shutdown, 1 if the shutdown was cut short, 2 if the server cannot start.
";

/// The manual page. It describes the subcommands, too, since packages have no other page.
fn manual(command: &clap::Command) -> Vec<u8> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    page.extend(SYNOPSIS.bytes());
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    page.extend(".SH SUBCOMMANDS\n".bytes());
    for one in command.get_subcommands() {
        let children: Vec<_> = one.get_subcommands().collect();
        match children[..] {
            [] => page.extend(described(one.get_name(), one, command).bytes()),
            _ => page.extend(children.iter().flat_map(|child| {
                let name = format!("{} {}", one.get_name(), child.get_name());
                described(&name, child, command).into_bytes()
            })),
        }
    }
    page.extend(AFTER_FLAGS.bytes());
    man.render_version_section(&mut page).unwrap();
    // Each section begins with the same definition of an apostrophe.
    let text = String::from_utf8(page).unwrap().replace(APOSTROPHE, "");
    format!("{APOSTROPHE}{text}").into_bytes()
}

/// A subcommand on the manual page: what it does, and the flags that the server does not have.
fn described(name: &str, one: &clap::Command, server: &clap::Command) -> String {
    let help = |flag: &clap::Arg| flag.get_help().map(ToString::to_string);
    let own = one.clone().mut_args(|flag| {
        let is_same =
            |known: &clap::Arg| known.get_id() == flag.get_id() && help(known) == help(&flag);
        let is_shared = server.get_arguments().any(is_same);
        flag.hide(is_shared)
    });
    let mut flags = Vec::new();
    clap_mangen::Man::new(own.disable_help_flag(true))
        .render_options_section(&mut flags)
        .unwrap();
    let flags = String::from_utf8(flags).unwrap();
    let (_, flags) = flags.split_once(".SH OPTIONS\n").unwrap_or_default();
    let about = one.get_about().map(ToString::to_string).unwrap_or_default();
    let name = name.replace('-', "\\-");
    format!(".SS cellar {name}\n{about}\n{flags}")
}

#[test]
fn the_manual_page_and_the_words_for_shells_are_what_the_flags_say() {
    let command = || cellar_config::settings::load::command().name("cellar");
    check_packaged("cellar.1", &manual(&command()));
    for (shell, name) in [
        (clap_complete::Shell::Bash, "cellar.bash"),
        (clap_complete::Shell::Zsh, "_cellar"),
        (clap_complete::Shell::Fish, "cellar.fish"),
    ] {
        let mut words = Vec::new();
        clap_complete::generate(shell, &mut command(), "cellar", &mut words);
        check_packaged(name, &words);
    }
}

#[test]
fn the_limits_page_is_what_the_bounds_say() {
    check("limits.md", &limits::page());
}

/// The crates whose limits the page has.
const WITH_LIMITS: [&str; 8] = [
    "script", "system", "config", "net", "cluster", "shared", "execute", "server",
];

/// Public bounds that are not on the page of limits: what they are, and the bounds.
const NOT_ON_THE_PAGE: [(&str, &[&str]); 4] = [
    (
        "how work is cut into pieces",
        &[
            "net/src/output.rs WRITE_BYTES_MAX",
            "config/src/limits.rs READ_BYTES_MAX",
            "config/src/limits.rs LONG_READ_BYTES_MAX",
            "config/src/limits.rs WAITING_BYTES_MAX",
            "config/src/limits.rs TURN_REPLY_BYTES_MAX",
        ],
    ),
    (
        "parts of a bound that is on the page",
        &[
            "server/src/server/event_loop/handshakes.rs GUESTS_MAX",
            "config/src/limits.rs KEPT_BUFFER_BYTES_MAX",
            "config/src/limits.rs SPARE_BUFFERS_MAX",
            "shared/src/observe/history.rs SECONDS_MAX",
            "shared/src/observe/history.rs MINUTES_MAX",
            "shared/src/observe/history/events.rs DETAIL_BYTES_MAX",
            "shared/src/observe/history/events.rs EVENTS_BYTES_MAX",
        ],
    ),
    (
        "on another page, beside what they belong to",
        &[
            "shared/src/auth/login_limiter.rs DELAY_MS_MAX",
            "config/src/settings.rs EXPIRE_EFFORT_MAX",
            "server/src/server/event_loop/acceptor.rs LISTENERS_MAX",
            "cluster/src/node.rs WEIGHT_MAX",
        ],
    ),
    (
        "of `cellar migrate check`, not of the server",
        &[
            "server/src/subcommands/migrate/wire.rs TIME_MAX",
            "server/src/subcommands/migrate/wire.rs ANSWER_BYTES_MAX",
            "server/src/subcommands/migrate/wire.rs VALUES_MAX",
        ],
    ),
];

/// The public bounds of the sources below a folder, as in [`NOT_ON_THE_PAGE`]: with the path of
/// their file below `root`.
fn public_bounds(root: &Path, folder: &Path) -> BTreeSet<String> {
    let mut bounds = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bounds.extend(public_bounds(root, &path));
            continue;
        }
        let file = path.strip_prefix(root).unwrap().display();
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.lines().filter_map(|line| {
            let line = line.trim().replace("pub(crate) ", "pub ");
            let (name, _) = line.strip_prefix("pub const ")?.split_once(':')?;
            name.ends_with("_MAX").then(|| format!("{file} {name}"))
        });
        bounds.extend(names);
    }
    bounds
}

#[test]
fn each_public_bound_is_on_the_page_of_limits_or_has_a_reason_not_to_be() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = include_str!("docs/limits.rs");
    let words = page.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let shown: BTreeSet<&str> = words.collect();
    let mut bounds = BTreeSet::new();
    for name in WITH_LIMITS {
        bounds.extend(public_bounds(&crates, &crates.join(name).join("src")));
    }
    let is_shown = |bound: &str| {
        bound
            .split(' ')
            .nth(1)
            .is_some_and(|name| shown.contains(name))
    };
    let others = NOT_ON_THE_PAGE.iter().flat_map(|(_, bounds)| bounds.iter());
    let others: BTreeSet<String> = others.map(|bound| (*bound).to_owned()).collect();
    let missing = bounds.difference(&others).filter(|bound| !is_shown(bound));
    let missing: Vec<&String> = missing.collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let gone: Vec<&String> = others.difference(&bounds).collect();
    assert!(gone.is_empty(), "there are no such bounds: {gone:?}");
}

#[test]
fn the_metrics_page_is_what_the_tables_say() {
    check("metrics.md", &metrics::page());
}

#[test]
fn stats_shows_every_figure_under_the_name_on_the_page() {
    let daemon = daemon::Daemon::start(&[]);
    for name in cellar_shared::metrics::tables::stat_names() {
        daemon.stat(name);
    }
}
