//! Load: command line, environment and settings file become one [`Settings`].
//!
//! All values of each source are checked, so an invalid value is an error even if another source
//! overrides it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use cellar_system::named_file;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::de::{DeTable, DeValue};

use super::renamed::{new_flags, new_key, new_variable, warning};
use super::{Row, SWITCH, Settings, TABLE, health, help, migrate, top, usage};
use crate::error::Error;

/// The subcommand that hashes passwords.
const HASH_PASSWORD: &str = "hash-password";
/// The subcommand that checks the host configuration.
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

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The settings file.
    File,
    /// A CELLAR_* variable.
    Variable,
    /// A flag.
    Flag,
}

/// Settings, and the origin of each.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
    given: Arc<Start>,
    /// Warnings about old names in the settings file.
    old_keys: Vec<String>,
}

/// The arguments and environment that the process was started with.
#[derive(Debug, Default)]
struct Start {
    file: Option<String>,
    /// The variables that are settings.
    variables: BTreeMap<String, String>,
    /// The flags by their names.
    flags: BTreeMap<&'static str, String>,
    /// Warnings about old names of flags and variables.
    old_names: Vec<String>,
}

/// How a settings file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// At the start: any file, also a pipe.
    First,
    /// While the server runs: only a regular file, because a pipe could block.
    Again,
}

impl Loaded {
    /// The origin of the setting with this flag name.
    #[must_use]
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).copied().unwrap_or(Origin::Default)
    }

    /// The settings file, if any.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.given.file.as_deref()
    }

    /// A warning for each setting that uses its old name.
    pub fn old_names(&self) -> impl Iterator<Item = &str> {
        let all = self.given.old_names.iter().chain(&self.old_keys);
        all.map(String::as_str)
    }

    /// The settings from flags, variables and the file, which is read again.
    ///
    /// # Errors
    /// The first mistake, in one line; also if the file is not a regular file.
    pub fn again(&self) -> Result<Loaded, Error> {
        Loaded::of(Arc::clone(&self.given), Occasion::Again)
    }

    fn of(given: Arc<Start>, occasion: Occasion) -> Result<Loaded, Error> {
        let mut loaded = Loaded {
            settings: Settings::default(),
            origins: BTreeMap::new(),
            given: Arc::clone(&given),
            old_keys: Vec::new(),
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

    /// All settings as a TOML file, each with its origin, after comments about old names.
    #[must_use]
    pub fn print(&self) -> String {
        let warnings = self
            .old_names()
            .map(|warning| format!("# warning: {warning}\n"));
        let mut text: String = warnings.collect();
        for row in TABLE {
            let origin = match self.origin(row.name) {
                Origin::Default => "default".to_owned(),
                Origin::File => "file".to_owned(),
                Origin::Variable => row.variable(),
                Origin::Flag => format!("--{}", row.name),
            };
            let shown = row.shown(&self.settings);
            let number = shown.parse::<i64>().ok();
            // A number with a leading zero is a name or a mode.
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

/// The action that the command line selects.
#[derive(Debug)]
pub enum Action {
    /// Serve with these settings.
    Run(Box<Loaded>),
    /// Print this text and exit: help, version, the settings.
    Print(String),
    /// Show metrics of a running server.
    Top(top::TopOptions),
    /// Report features of an old server that Cellar lacks.
    MigrateCheck(migrate::MigrateOptions),
    /// Print the hash of a password from standard input.
    HashPassword,
    /// Check settings and host configuration.
    Doctor(Box<Loaded>),
    /// Check whether a server is ready, or the error if the settings name none.
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
    let mut old_names = Vec::new();
    let arguments = new_flags(arguments.into_iter().collect(), &mut old_names);
    let arguments = words_as_flags(joined_switches(arguments));
    let asked = command().override_help(help::short());
    let matches = match asked.try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, &arguments),
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
        let loaded = first(given(matches, variables)?, old_names)?;
        return Ok(Action::Doctor(Box::new(loaded)));
    }
    if matches.get_flag("help-all") {
        return Ok(Action::Print(command().render_long_help().to_string()));
    }
    let loaded = first(given(&matches, variables)?, old_names)?;
    if matches.get_flag("print-config") {
        return Ok(Action::Print(loaded.print()));
    }
    Ok(Action::Run(Box::new(loaded)))
}

/// The settings at the start, with warnings about old names of flags.
fn first(mut given: Start, mut old_flags: Vec<String>) -> Result<Loaded, Error> {
    old_flags.append(&mut given.old_names);
    given.old_names = old_flags;
    Loaded::of(Arc::new(given), Occasion::First)
}

/// Settings from the command line and the environment.
fn given(
    matches: &ArgMatches,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Start, Error> {
    let (variables, old_names) = own_variables(variables)?;
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
        old_names,
    })
}

/// The arguments, with `--switch on` as `--switch=on`. A switch without a value means on, so the
/// next argument is its value only if it is `on` or `off`.
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

/// The arguments, with `help` and `version` as flags if they come first: `cellar help top` becomes
/// `cellar top --help`.
fn words_as_flags(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let flag = match arguments.get(1).and_then(|word| word.to_str()) {
        Some("help") => "--help",
        Some("version") => "--version",
        _ => return arguments,
    };
    arguments.remove(1);
    arguments.push(flag.into());
    arguments
}

/// A subcommand and its subcommands, each with a flag that describes its flags in full.
fn with_help_all(command: Command) -> Command {
    let help = Arg::new("help-all")
        .long("help-all")
        .action(ArgAction::HelpLong)
        .help("Describes every flag in full, and exits.");
    command.arg(help).mut_subcommands(with_help_all)
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
                    "Checks whether a server with these settings can start (memory, files, \
                     addresses), the source of a cluster's nodes, and the host configuration \
                     (file limits, huge pages, swap, control groups). Suggests fixes. Exit \
                     status: 0, or 1 if there is a problem",
                )
                .arg(config_flag())
                .args(flags()),
        )
        .subcommand(
            Command::new(HASH_PASSWORD).about(
                "Reads a password from standard input and prints its hash for the users file",
            ),
        )
        .mut_subcommands(with_help_all)
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

/// Help and version are text; any other error becomes one line.
fn usage(error: &clap::Error, arguments: &[OsString]) -> Result<Action, Error> {
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Ok(Action::Print(format!("{}\n", text.trim_end())));
    }
    Err(Error::Usage(usage::one_line(error, arguments)))
}

/// The variables that are settings, and warnings about old names.
fn own_variables(
    all: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(BTreeMap<String, String>, Vec<String>), Error> {
    let (mut own, mut old_names) = (BTreeMap::new(), Vec::new());
    for (name, value) in all {
        let name = name.to_string_lossy().into_owned();
        let foreign = FOREIGN_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if !name.starts_with("CELLAR_") || foreign {
            continue;
        }
        let name = match new_variable(&name) {
            Some(new) => {
                old_names.push(warning(&name, &new));
                new
            }
            None => name,
        };
        if name != "CELLAR_CONFIG" && !TABLE.iter().any(|row| row.variable() == name) {
            let names = TABLE.iter().map(Row::variable);
            let hint = usage::hint(&name, names, usage::Form::Variable);
            return Err(Error::UnknownVariable { name, hint });
        }
        if own.contains_key(&name) {
            return Err(Error::SetTwice { name });
        }
        own.insert(name, value.to_string_lossy().into_owned());
    }
    Ok((own, old_names))
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
    let line_at = |place: usize| text[..place].matches('\n').count() + 1;
    let table = DeTable::parse(&text).map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |span| line_at(span.start));
        fail(format!("line {line}: {}", e.message().replace('\n', " ")))
    })?;
    for (name, value) in table.get_ref() {
        let line = line_at(name.span().start);
        let key: &str = name.get_ref();
        let new = new_key(key);
        if let Some(new) = &new {
            let warned = warning(key, new);
            if table.get_ref().contains_key(new.as_str()) {
                return Err(fail(format!("line {line}: {warned}; {new} is set too")));
            }
            loaded
                .old_keys
                .push(format!("--config {path}: line {line}: {warned}"));
        }
        let key = new.as_deref().unwrap_or(key);
        let Some(row) = TABLE.iter().find(|row| row.key() == key) else {
            let hint = usage::hint(key, TABLE.iter().map(Row::key), usage::Form::Key);
            return Err(fail(format!("line {line}: unknown key {key:?}{hint}")));
        };
        let text = text_of(row, value.get_ref()).ok_or_else(|| {
            let takes = "takes a string or a whole number";
            fail(format!("line {line}: key {key:?} {takes}"))
        })?;
        loaded.apply(row, &text, Origin::File, &format!("{path}, line {line}"))?;
    }
    Ok(())
}

/// A value of the file as a flag would have it.
fn text_of(row: &Row, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        DeValue::Boolean(on) if row.value == SWITCH => Some(if *on { "on" } else { "off" }.into()),
        _ => None,
    }
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

    /// A settings file with this text; dropping the path deletes it.
    fn file(text: &str) -> TempPath {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.into_temp_path()
    }

    fn path_of(path: &TempPath) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn a_flag_goes_before_a_variable_and_that_before_the_file() {
        let path = file("memory = \"1MiB\"\nthreads = 3\nmax_value = 2048\n");
        let variables = [("CELLAR_MEMORY", "2MiB"), ("CELLAR_THREADS", "4")];
        let loaded = run(
            &["--config", path_of(&path), "--memory", "3MiB"],
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
            (vec!["--config", path_of(&path)], true),
            (
                vec!["--config", path_of(&path), "--release-memory=off"],
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

    /// Checks that the error is one line that contains a text.
    fn refused(arguments: &[&str], variables: &[(&str, &str)], expected: &str) {
        let message = run(arguments, variables).unwrap_err();
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.trim_end().contains('\n'), "{message}");
    }

    #[test]
    fn a_mistake_on_the_command_line_is_one_line_that_names_it() {
        for (arguments, expected) in [
            (
                &["--memory", "12QB"][..],
                "--memory: \"12QB\" is not a size",
            ),
            (&["--memory"], "--memory <SIZE|auto>"),
            (
                &["--memroy", "1"],
                "unexpected argument '--memroy' found; a similar argument exists: '--memory'; \
                 --help-all",
            ),
            (&["stray"], "stray"),
            (&["docter"], "a similar subcommand exists: 'doctor'"),
            (&["-p", "1"], "'-p' found; write --resp 127.0.0.1:6379"),
            (&["-m64"], "'-m' found; write --memory 64MiB;"),
            (&["-m", "1024"], "'-m' found; write --memory 1024MiB;"),
            (&["--memory-limit=64"], "found; write --memory 64MiB;"),
            (&["-m"], "'-m' found; write --memory NMiB"),
            (&["--maxmemory=1g"], "'--maxmemory' found; write --memory;"),
            (
                &["cellar.toml"],
                "write --config cellar.toml for a settings file",
            ),
            (&["redis.conf"], "Cellar reads no redis.conf"),
            (
                &["migrate", "check"],
                "were not provided: <URL>; cellar migrate check --help",
            ),
            (&["migrate"], "requires a subcommand"),
            (&["help", "tpo"], "'tpo'"),
            (&["--config", "/nonexistent"], "--config /nonexistent"),
            (&["--http", "8080"], "is not an address"),
        ] {
            refused(arguments, &[], expected);
        }
    }

    #[test]
    fn a_key_of_another_server_leads_to_the_key_of_this_one() {
        for (text, expected) in [
            (
                "maxmemory = \"1gb\"",
                "unknown key \"maxmemory\"; write memory",
            ),
            (
                "port = 6379",
                "unknown key \"port\"; write resp = \"127.0.0.1:6379\" for the Redis protocol",
            ),
            ("aclfile = \"users\"", "write users = \"FILE\""),
        ] {
            let path = file(text);
            let message = run(&["--config", path.to_str().unwrap()], &[]).unwrap_err();
            assert!(
                message.contains(expected) && !message.contains("; write --"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_mistake_in_a_variable_is_one_line_that_names_it() {
        for (variable, expected) in [
            (("CELLAR_MEMORY", "x"), "--memory (from CELLAR_MEMORY)"),
            (
                ("CELLAR_MEMROY", "1"),
                "CELLAR_MEMROY: unknown setting; did you mean CELLAR_MEMORY?; --help-all",
            ),
            (
                ("CELLAR_MAXMEMORY", "1"),
                "unknown setting; write CELLAR_MEMORY;",
            ),
        ] {
            refused(&[], &[variable], expected);
        }
    }

    #[test]
    fn a_mistake_in_a_file_is_one_line_that_names_its_line() {
        for (text, expected) in [
            (
                "# A comment.\nmemroy = \"1MiB\"\n",
                "line 2: unknown key \"memroy\"; did you mean memory?",
            ),
            (
                "maxclients = 10\n",
                "line 1: unknown key \"maxclients\"; write max_connections",
            ),
            ("threads = 1\nmemory = \"12QB\"\n", "line 2)"),
            ("threads = 1\nmemory = \n", "line 2"),
            ("threads = true\n", "\"threads\""),
        ] {
            let settings = file(text);
            refused(&["--config", path_of(&settings)], &[], expected);
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
        for arguments in [["top", "--help"], ["top", "--help-all"], ["help", "top"]] {
            let text = run(&arguments, &[]).unwrap_err();
            assert!(
                text.contains("--target") && text.contains("Usage:"),
                "{text}"
            );
        }
        let text = run(&["migrate", "check", "--help-all"], &[]).unwrap_err();
        assert!(
            text.contains("memcached://") && text.contains("Usage:"),
            "{text}"
        );
        assert_eq!(
            run(&["help"], &[]).unwrap_err(),
            run(&["--help"], &[]).unwrap_err()
        );
        let version = run(&["--version"], &[]).unwrap_err();
        assert_eq!(run(&["version"], &[]).unwrap_err(), version);
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
        let asked = run(&["healthcheck", "--config", path_of(&path)], &[]).unwrap_err();
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
    fn an_old_name_works_in_every_form_and_the_log_tells_the_new_one() {
        let path = file("memory = \"16MiB\"\nkeep = \"3:1MiB\"\n");
        let (flag, joined) = (["--keep", "3:1MiB"], ["--keep=3:1MiB"]);
        for (arguments, variables, warned) in [
            (
                &flag[..],
                vec![],
                "--keep is now --noeviction-databases; the next",
            ),
            (
                &joined,
                vec![],
                "--keep is now --noeviction-databases; the next",
            ),
            (
                &[],
                vec![("CELLAR_KEEP", "3:1MiB")],
                "CELLAR_KEEP is now CELLAR_NOEVICTION_DATABASES; the next",
            ),
            (
                &["--config", path_of(&path)],
                vec![],
                "line 2: keep is now noeviction_databases; the next",
            ),
        ] {
            let loaded = run(arguments, &variables).unwrap();
            assert_eq!(loaded.settings.keep.to_string(), "3:1MiB");
            let mut warnings = loaded.given.old_names.iter().chain(&loaded.old_keys);
            let warning = warnings.next().unwrap();
            assert!(
                warning.contains(warned) && warnings.next().is_none(),
                "{warning}"
            );
            assert!(loaded.print().contains("noeviction_databases = \"3:1MiB\""));
        }
        let loaded = run(&["--noeviction-databases", "3:1MiB"], &[]).unwrap();
        assert!(loaded.given.old_names.is_empty() && loaded.old_keys.is_empty());
        // Both names at once are a mistake.
        let both = file("keep = \"3:1MiB\"\nnoeviction_databases = \"3:1MiB\"\n");
        let variables = [
            ("CELLAR_KEEP", "3:1MiB"),
            ("CELLAR_NOEVICTION_DATABASES", "none"),
        ];
        for message in [
            run(&["--keep", "none", "--noeviction-databases", "none"], &[]),
            run(&["--config", path_of(&both)], &[]),
            run(&[], &variables),
        ] {
            let message = message.unwrap_err();
            assert!(!message.trim_end().contains('\n'), "{message}");
        }
    }

    #[test]
    fn every_printed_value_is_read_as_what_it_was() {
        let text = "memory = \"auto\"\nthreads = 3\nusers = \"007\"\nunix = \"/a \\\"b\"\n\
                    unix_mode = \"070\"\nhttp = \"unix:/x,tls:h:1\"\ninsecure = true\n\
                    lame_duck = \"90s\"\nwatchdog = \"off\"\nmax_value = 7\n\
                    noeviction_databases = \"3:1MiB\"\n\
                    default_ttl = \"10m,resp:3=1h\"\nhttp_hosts = \"*\"\ntls_cert = \"1\"\n";
        let path = file(text);
        let one = run(&["--config", path_of(&path)], &[]).unwrap();
        let printed = run(&["--config", path_of(&path), "--print-config"], &[]).unwrap_err();
        let path = file(&printed);
        let other = run(&["--config", path_of(&path)], &[]).unwrap();
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
            run(&["--config", path_of(&path)], &[])
                .unwrap()
                .settings
                .memory_bytes,
            3 << 20
        );
    }
}
