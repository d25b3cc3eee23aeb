//! Load: command line, environment and settings file become one [`Settings`].
//!
//! Each source is checked whole, so a mistake in a value that another source overrides is still
//! told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{Row, SWITCH, Settings, TABLE, health, help, migrate, top};
use crate::error::Error;
use crate::named_file;

/// The subcommand for passwords.
const HASH_PASSWORD: &str = "hash-password";
/// The subcommand that looks at the machine.
const DOCTOR: &str = "doctor";
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
    given: Arc<Start>,
}

/// What the process was started with.
#[derive(Debug, Default)]
struct Start {
    file: Option<String>,
    /// The variables that are settings.
    variables: BTreeMap<String, String>,
    /// The flags by their names.
    flags: BTreeMap<&'static str, String>,
}

/// How a settings file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// At the start, whatever it is: a pipe too.
    First,
    /// While the server runs: a regular file, for nothing is waited for.
    Again,
}

impl Loaded {
    /// Where the setting with this flag name came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).copied().unwrap_or(Origin::Default)
    }

    /// The settings file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.given.file.as_deref()
    }

    /// The settings as flags, variables and the file say now: the file is read anew.
    ///
    /// # Errors
    /// The first mistake found, as one line; also that the file is no regular one.
    pub fn again(&self) -> Result<Loaded, Error> {
        Loaded::of(Arc::clone(&self.given), Occasion::Again)
    }

    fn of(given: Arc<Start>, occasion: Occasion) -> Result<Loaded, Error> {
        let mut loaded = Loaded {
            settings: Settings::default(),
            origins: BTreeMap::new(),
            given: Arc::clone(&given),
        };
        if let Some(path) = &given.file {
            read_file(&mut loaded, path, occasion)?;
        }
        for row in TABLE {
            if let Some(text) = given.variables.get(&row.variable()) {
                loaded.apply(row, text, Origin::Variable, &row.variable())?;
            }
        }
        for row in TABLE {
            if let Some(text) = given.flags.get(row.name) {
                loaded.apply(row, text, Origin::Flag, "")?;
            }
        }
        Ok(loaded)
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
            let shown = row.shown(&self.settings);
            let number = shown.parse::<i64>().ok();
            // A number with a zero before it is a name, or a mode.
            let number = number.filter(|number| number.to_string() == shown);
            let value = number.map_or(toml::Value::String(shown), toml::Value::Integer);
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
    /// Tell what keeps this machine from the speed of a server with these settings.
    Doctor(Box<Loaded>),
    /// Ask a server whether it is ready; or why there is nobody to ask.
    Healthcheck(Result<health::HealthOptions, String>),
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
    let asked = command().override_help(help::short());
    let matches = match asked.try_get_matches_from(arguments) {
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
    if let Some(matches) = matches.subcommand_matches(health::HEALTHCHECK) {
        let settings = || {
            let given = given(matches, variables).map_err(|error| error.to_string())?;
            let loaded = Loaded::of(Arc::new(given), Occasion::First);
            Ok(loaded.map_err(|error| error.to_string())?.settings)
        };
        return Ok(Action::Healthcheck(health::options(matches, settings)));
    }
    if let Some(matches) = matches.subcommand_matches(DOCTOR) {
        let loaded = Loaded::of(Arc::new(given(matches, variables)?), Occasion::First)?;
        return Ok(Action::Doctor(Box::new(loaded)));
    }
    if matches.get_flag("help-all") {
        return Ok(Action::Print(command().render_long_help().to_string()));
    }
    let loaded = Loaded::of(Arc::new(given(&matches, variables)?), Occasion::First)?;
    if matches.get_flag("print-config") {
        return Ok(Action::Print(loaded.print()));
    }
    Ok(Action::Run(Box::new(loaded)))
}

/// What command line and environment say.
fn given(
    matches: &ArgMatches,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Start, Error> {
    let variables = own_variables(variables)?;
    let file = matches.get_one::<String>("config");
    let file = file.or_else(|| variables.get("CELLAR_CONFIG")).cloned();
    let flags = TABLE.iter().filter_map(|row| {
        // A subcommand may have some of them, or none.
        let text = matches.try_get_one::<String>(row.name).ok()??;
        Some((row.name, text.clone()))
    });
    Ok(Start {
        file: file.filter(|path| !path.is_empty()),
        flags: flags.collect(),
        variables,
    })
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
#[must_use]
pub fn command() -> Command {
    let print = Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Prints all settings and their origins in the format of a settings file, and exits.");
    let help = Arg::new("help-all")
        .long("help-all")
        .action(ArgAction::SetTrue)
        .help("Describes every flag in full, and exits.");
    Command::new("cellar")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Cache server for many small, expiring items")
        .arg(config_flag())
        .args(flags())
        .arg(print)
        .arg(help)
        .subcommand(top::command())
        .subcommand(migrate::command())
        .subcommand(health::command(config_flag()))
        .subcommand(
            Command::new(DOCTOR)
                .about(
                    "Checks the host configuration for a server with these settings (file limits, \
                     huge pages, swap, control groups) and suggests fixes. Exit status: 0, or 1 \
                     if there is a problem",
                )
                .arg(config_flag())
                .args(flags()),
        )
        .subcommand(
            Command::new(HASH_PASSWORD).about(
                "Reads a password from standard input and prints its hash for the users file",
            ),
        )
        .disable_help_subcommand(true)
        .args_conflicts_with_subcommands(true)
}

/// The flag for the settings file.
fn config_flag() -> Arg {
    Arg::new("config").long("config").value_name("FILE").help(
        "Settings file in TOML; its keys are the flags with _ for -. A flag overrides a CELLAR_* \
         variable, and a variable overrides the file.",
    )
}

/// A flag for each setting.
fn flags() -> impl Iterator<Item = Arg> {
    TABLE.iter().map(|row| {
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
    })
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
    Err(Error::Usage(format!("{line}; --help-all lists all flags")))
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

fn read_file(loaded: &mut Loaded, path: &str, occasion: Occasion) -> Result<(), Error> {
    let fail = |reason: String| Error::File {
        path: path.to_owned(),
        reason,
    };
    let file = match occasion {
        Occasion::First => File::open(path),
        Occasion::Again => named_file::open(Path::new(path)).map(|(file, _)| file),
    };
    let bytes = file.and_then(|file| named_file::read(file, FILE_BYTES_MAX));
    let text = String::from_utf8(bytes.map_err(|e| fail(e.to_string()))?);
    let text = text.map_err(|_| fail("it is not valid UTF-8".to_owned()))?;
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
            Ok(Action::Doctor(loaded)) => Ok(*loaded),
            Ok(Action::Healthcheck(options)) => Err(format!("{options:?}")),
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
            (vec!["--memory"], vec![], "--memory <SIZE|auto>"),
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
    fn help_is_short_unless_all_is_asked_for() {
        for flag in ["--help", "-h"] {
            let text = run(&[flag], &[]).unwrap_err();
            assert!(text.lines().count() < 40, "{text}");
            assert!(
                text.contains("--help-all") && !text.contains("\n\n\n"),
                "{text}"
            );
        }
        let text = run(&["--help-all"], &[]).unwrap_err();
        for row in TABLE {
            assert!(
                text.contains(&format!("--{} ", row.name)) || row.value == SWITCH,
                "{}",
                row.name
            );
        }
        let text = run(&["top", "--help"], &[]).unwrap_err();
        assert!(text.contains("--target"), "{text}");
    }

    #[test]
    fn the_doctor_and_the_health_check_read_the_settings() {
        let loaded = run(
            &["doctor", "--memory", "3MiB", "--insecure"],
            &[("CELLAR_THREADS", "4")],
        );
        let settings = loaded.unwrap().settings;
        assert_eq!((settings.memory_bytes, settings.threads), (3 << 20, 4));
        let path = file("http = \"off\"\nresp = \"[::1]:7\"\n");
        let asked = run(&["healthcheck", "--config", text_of(&path)], &[]).unwrap_err();
        assert!(
            asked.contains("[::1]:7") && asked.contains("Resp"),
            "{asked}"
        );
        let asked = run(&["healthcheck"], &[("CELLAR_HTTP", "here")]).unwrap_err();
        assert!(
            asked.starts_with("Err") && asked.contains("CELLAR_HTTP"),
            "{asked}"
        );
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
    fn every_printed_value_is_read_as_what_it_was() {
        let text = "memory = \"auto\"\nthreads = 3\nusers = \"007\"\nunix = \"/a \\\"b\"\n\
                    unix_mode = \"070\"\nhttp = \"unix:/x,tls:h:1\"\ninsecure = true\n\
                    lame_duck = \"90s\"\nwatchdog = \"off\"\nmax_value = 7\nkeep = \"3:1MiB\"\n\
                    default_ttl = \"10m,resp:3=1h\"\nhttp_hosts = \"*\"\ntls_cert = \"1\"\n";
        let path = file(text);
        let one = run(&["--config", text_of(&path)], &[]).unwrap();
        let printed = run(&["--config", text_of(&path), "--print-config"], &[]).unwrap_err();
        let path = file(&printed);
        let other = run(&["--config", text_of(&path)], &[]).unwrap();
        for row in TABLE {
            assert!(
                row.is_same(&one.settings, &other.settings),
                "{}: {printed}",
                row.name
            );
        }
        assert_eq!(other.settings.users, Some("007".into()));
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
