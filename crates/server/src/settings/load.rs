//! Load: command line, environment and settings file become one [`Settings`].
//!
//! Each source is checked whole, so a mistake in a value that another source overrides is still
//! told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};

use super::{Row, SWITCH, Settings, TABLE, migrate, top};
use crate::error::Error;

/// The subcommand for passwords.
const HASH_PASSWORD: &str = "hash-password";
/// Longest settings file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Variables that start with CELLAR_ and are no settings: switches of the tests, and what
/// Kubernetes sets in every pod for a service named `cellar`.
const FOREIGN_PREFIXES: [&str; 5] = [
    "CELLAR_BLESS",
    "CELLAR_FUZZ",
    "CELLAR_TEST",
    "CELLAR_SERVICE_",
    "CELLAR_PORT",
];

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody chose it.
    Default,
    /// The settings file.
    File,
    /// A CELLAR_* variable.
    Variable,
    /// A flag.
    Flag,
}

/// Settings, and where each came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
}

impl Loaded {
    /// Where the setting with this flag name came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).copied().unwrap_or(Origin::Default)
    }

    /// All settings as a TOML file, each with its origin.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        for row in TABLE {
            let origin = match self.origin(row.name) {
                Origin::Default => "default".to_owned(),
                Origin::File => "file".to_owned(),
                Origin::Variable => row.variable(),
                Origin::Flag => format!("--{}", row.name),
            };
            let shown = (row.show)(&self.settings);
            let value = shown
                .parse()
                .map_or(toml::Value::String(shown), toml::Value::Integer);
            text.push_str(&format!("{} = {value} # {origin}\n", row.key()));
        }
        text
    }

    fn apply(&mut self, row: &Row, text: &str, origin: Origin, place: &str) -> Result<(), Error> {
        (row.set)(&mut self.settings, text).map_err(|reason| Error::Setting {
            flag: row.name,
            origin: if place.is_empty() {
                String::new()
            } else {
                format!(" (from {place})")
            },
            reason,
        })?;
        self.origins.insert(row.name, origin);
        Ok(())
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Action {
    /// Serve with these settings.
    Run(Box<Loaded>),
    /// Print this text and exit: help, version, the settings.
    Print(String),
    /// Show the figures of a server that runs.
    Top(top::TopOptions),
    /// Tell what an old server is used for that is not here.
    MigrateCheck(migrate::MigrateOptions),
    /// Print the hash of a password that comes by standard input.
    HashPassword,
}

/// Reads the settings of this process.
///
/// `arguments` begins with the program's name. `variables` are all environment variables.
///
/// # Errors
/// The first mistake found, as one line.
pub fn load(
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Action, Error> {
    let arguments = joined_switches(arguments);
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    if let Some(matches) = matches.subcommand_matches("top") {
        return top::options(matches).map(Action::Top);
    }
    if let Some(matches) = matches.subcommand_matches("migrate") {
        return migrate::options(matches).map(Action::MigrateCheck);
    }
    if matches.subcommand_matches(HASH_PASSWORD).is_some() {
        return Ok(Action::HashPassword);
    }
    let variables = own_variables(variables)?;
    let mut loaded = Loaded {
        settings: Settings::default(),
        origins: BTreeMap::new(),
    };
    let file = matches
        .get_one::<String>("config")
        .or_else(|| variables.get("CELLAR_CONFIG"));
    if let Some(path) = file.filter(|path| !path.is_empty()) {
        read_file(&mut loaded, path)?;
    }
    for row in TABLE {
        if let Some(text) = variables.get(&row.variable()) {
            loaded.apply(row, text, Origin::Variable, &row.variable())?;
        }
    }
    for row in TABLE {
        if let Some(text) = matches.get_one::<String>(row.name) {
            loaded.apply(row, text, Origin::Flag, "")?;
        }
    }
    if matches.get_flag("print-config") {
        return Ok(Action::Print(loaded.print()));
    }
    Ok(Action::Run(Box::new(loaded)))
}

/// The arguments, `--switch on` as `--switch=on`: a switch alone means on, so what stands behind it
/// is its value only if it is one.
fn joined_switches(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let is_switch = |argument: &OsString| {
        let name = argument.to_str().and_then(|text| text.strip_prefix("--"));
        let rows = TABLE.iter().filter(|row| row.value == SWITCH);
        name.is_some_and(|name| rows.into_iter().any(|row| row.name == name))
    };
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        match joined.last_mut() {
            Some(last) if (argument == "on" || argument == "off") && is_switch(last) => {
                last.push("=");
                last.push(argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

/// The command line, from the table.
fn command() -> Command {
    let config = Arg::new("config").long("config").value_name("FILE").help(
        "Settings file in TOML; its keys are the flags with _ for -. A flag goes before a \
         CELLAR_* variable, a variable before the file.",
    );
    let print = Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Prints all settings with their origins as a settings file, and exits.");
    let rows = TABLE.iter().map(|row| {
        let help = format!("{} [default: {}]", row.help, row.default);
        let arg = Arg::new(row.name)
            .long(row.name)
            .value_name(row.value)
            .help(help);
        if row.value == SWITCH {
            arg.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("on")
        } else {
            arg
        }
    });
    Command::new("cellar")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Cache server for very many small, expiring items")
        .arg(config)
        .args(rows)
        .arg(print)
        .subcommand(top::command())
        .subcommand(migrate::command())
        .subcommand(Command::new(HASH_PASSWORD).about(
            "Reads a password from standard input and prints its hash, for the file of users",
        ))
        .disable_help_subcommand(true)
        .args_conflicts_with_subcommands(true)
}

/// Help and version are text; every other complaint becomes one line.
fn usage(error: &clap::Error) -> Result<Action, Error> {
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Ok(Action::Print(format!("{}\n", text.trim_end())));
    }
    let line = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    Err(Error::Usage(format!("{line}; --help lists all flags")))
}

/// The variables that are settings.
fn own_variables(
    all: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut own = BTreeMap::new();
    for (name, value) in all {
        let name = name.to_string_lossy().into_owned();
        let foreign = FOREIGN_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if !name.starts_with("CELLAR_") || foreign {
            continue;
        }
        if name != "CELLAR_CONFIG" && !TABLE.iter().any(|row| row.variable() == name) {
            return Err(Error::UnknownVariable { name });
        }
        own.insert(name, value.to_string_lossy().into_owned());
    }
    Ok(own)
}

fn read_file(loaded: &mut Loaded, path: &str) -> Result<(), Error> {
    let fail = |reason: String| Error::File {
        path: path.to_owned(),
        reason,
    };
    let size = std::fs::metadata(Path::new(path))
        .map_err(|e| fail(e.to_string()))?
        .len();
    if size > FILE_BYTES_MAX {
        return Err(fail(format!(
            "the file has {size} bytes, at most {FILE_BYTES_MAX} are read"
        )));
    }
    let text = std::fs::read_to_string(Path::new(path)).map_err(|e| fail(e.to_string()))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e
            .span()
            .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        fail(format!("line {line}: {}", e.message().replace('\n', " ")))
    })?;
    for (key, value) in &table {
        let Some(row) = TABLE.iter().find(|row| row.key() == *key) else {
            return Err(fail(format!("unknown key {key:?}")));
        };
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(on) if row.value == SWITCH => {
                if *on { "on" } else { "off" }.to_owned()
            }
            _ => {
                return Err(fail(format!(
                    "key {key:?} takes a string or a whole number"
                )));
            }
        };
        loaded.apply(row, &text, Origin::File, path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::{NamedTempFile, TempPath};

    use super::*;

    fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Loaded, String> {
        let arguments = std::iter::once("cellar").chain(arguments.iter().copied());
        let variables = variables
            .iter()
            .map(|(k, v)| (OsString::from(k), OsString::from(v)));
        match load(arguments.map(OsString::from), variables) {
            Ok(Action::Run(loaded)) => Ok(*loaded),
            Ok(Action::Print(text)) => Err(text),
            Ok(Action::Top(options)) => Err(format!("{options:?}")),
            Ok(Action::MigrateCheck(options)) => Err(format!("{options:?}")),
            Ok(Action::HashPassword) => Err("hash-password".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A settings file with this text; it goes with the path.
    fn file(text: &str) -> TempPath {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.into_temp_path()
    }

    fn text_of(path: &TempPath) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn a_flag_goes_before_a_variable_and_that_before_the_file() {
        let path = file("memory = \"1MiB\"\nthreads = 3\nmax_value = 2048\n");
        let variables = [("CELLAR_MEMORY", "2MiB"), ("CELLAR_THREADS", "4")];
        let loaded = run(
            &["--config", text_of(&path), "--memory", "3MiB"],
            &variables,
        )
        .unwrap();
        assert_eq!(loaded.settings.memory_bytes, 3 << 20);
        assert_eq!(loaded.settings.threads, 4);
        assert_eq!(loaded.settings.max_value_bytes, Some(2048));
        assert_eq!(loaded.origin("memory"), Origin::Flag);
        assert_eq!(loaded.origin("threads"), Origin::Variable);
        assert_eq!(loaded.origin("max-value"), Origin::File);
        assert_eq!(loaded.origin("http"), Origin::Default);
    }

    #[test]
    fn a_switch_is_a_bare_flag_or_says_on_or_off() {
        let path = file("release_memory = true\n");
        for (arguments, expected) in [
            (vec![], false),
            (vec!["--release-memory"], true),
            (vec!["--release-memory", "--memory", "3MiB"], true),
            (vec!["--release-memory=off"], false),
            (vec!["--release-memory", "on"], true),
            (vec!["--release-memory", "off"], false),
            (vec!["--memory", "3MiB", "--release-memory", "off"], false),
            (vec!["--config", text_of(&path)], true),
            (
                vec!["--config", text_of(&path), "--release-memory=off"],
                false,
            ),
        ] {
            let loaded = run(&arguments, &[]).unwrap();
            assert_eq!(loaded.settings.release_memory, expected, "{arguments:?}");
        }
        assert!(run(&["--release-memory=true"], &[]).is_err());
        for stray in [["--release-memory", "yes"], ["--release-memory=on", "off"]] {
            assert!(run(&stray, &[]).is_err(), "{stray:?}");
        }
        assert!(run(&[], &[("CELLAR_RELEASE_MEMORY", "on")]).is_ok());
    }

    #[test]
    fn every_mistake_is_one_line_that_names_its_place() {
        let unknown = file("memroy = \"1MiB\"\n");
        let broken = file("threads = 1\nmemory = \n");
        let wrong = file("threads = true\n");
        for (arguments, variables, expected) in [
            (
                vec!["--memory", "12QB"],
                vec![],
                "--memory: \"12QB\" is not a size",
            ),
            (vec!["--memory"], vec![], "--memory <SIZE>"),
            (vec!["--memroy", "1"], vec![], "--memroy"),
            (vec!["stray"], vec![], "stray"),
            (
                vec![],
                vec![("CELLAR_MEMORY", "x")],
                "--memory (from CELLAR_MEMORY)",
            ),
            (vec![], vec![("CELLAR_MEMROY", "1")], "CELLAR_MEMROY"),
            (
                vec!["--config", "/nonexistent"],
                vec![],
                "--config /nonexistent",
            ),
            (
                vec!["--config", text_of(&unknown)],
                vec![],
                "unknown key \"memroy\"",
            ),
            (vec!["--config", text_of(&broken)], vec![], "line 2"),
            (vec!["--config", text_of(&wrong)], vec![], "\"threads\""),
            (vec!["--http", "8080"], vec![], "is not an address"),
        ] {
            let message = run(&arguments, &variables).unwrap_err();
            assert!(message.contains(expected), "{arguments:?}: {message}");
            assert!(!message.trim_end().contains('\n'), "{message}");
        }
    }

    #[test]
    fn top_has_flags_of_its_own() {
        let shown = run(&["top", "--once"], &[("CELLAR_MEMROY", "1")]).unwrap_err();
        assert!(shown.contains("once: true"), "{shown}");
        for arguments in [["--memory", "1MiB", "top"], ["top", "--memory", "1MiB"]] {
            let message = run(&arguments, &[]).unwrap_err();
            assert!(message.contains("--help"), "{message}");
        }
    }

    #[test]
    fn variables_of_tests_and_of_kubernetes_are_no_settings() {
        let foreign = [
            ("CELLAR_BLESS", "1"),
            ("CELLAR_PORT_11211_TCP_ADDR", "10.0.0.1"),
            ("CELLAR_SERVICE_HOST", "10.0.0.1"),
        ];
        assert!(run(&[], &foreign).is_ok());
    }

    #[test]
    fn printed_settings_are_a_settings_file() {
        let text = run(&["--memory", "3MiB", "--print-config"], &[]).unwrap_err();
        assert!(text.contains("memory = \"3MiB\" # --memory"), "{text}");
        let path = file(&text);
        assert_eq!(
            run(&["--config", text_of(&path)], &[])
                .unwrap()
                .settings
                .memory_bytes,
            3 << 20
        );
    }
}
