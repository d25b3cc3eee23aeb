//! The `cellar` daemon.
#![deny(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use cellar::server;
use cellar::subcommands::doctor;
use cellar::subcommands::hash_password;
use cellar::subcommands::healthcheck;
use cellar::subcommands::migrate;
use cellar::subcommands::top;
use cellar_config::logging;
use cellar_config::settings::load::{Action, load};

/// Exit status when the server cannot start.
const REFUSED_STATUS: u8 = 2;
/// Exit status when something keeps a server from its start or its speed.
const FOUND_STATUS: u8 = 1;
/// Exit status when a server is not ready, whatever the reason: health checkers give other numbers
/// another meaning.
const UNHEALTHY_STATUS: u8 = 1;
/// Exit status when an old server is used for something that is not here.
const MISSING_STATUS: u8 = 1;

fn main() -> ExitCode {
    abort_on_panic();
    let outcome = match load(std::env::args_os(), std::env::vars_os()) {
        Ok(Action::Print(text)) => {
            // A reader that closes the output early is not an error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Action::Run(loaded)) => {
            logging::start(&loaded.settings);
            server::run(&loaded)
        }
        Ok(Action::Top(options)) => top::run(&options),
        Ok(Action::MigrateCheck(options)) => match migrate::run(&options) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(MISSING_STATUS),
            Err(error) => Err(error),
        },
        Ok(Action::HashPassword) => hash_password::run(),
        Ok(Action::Doctor(loaded)) => {
            let (text, is_well) = doctor::run(&loaded);
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::from(if is_well { 0 } else { FOUND_STATUS });
        }
        Ok(Action::Healthcheck(options)) => {
            return healthcheck(options.and_then(|options| healthcheck::run(&options)));
        }
        Err(error) => Err(error),
    };
    let is_read = logging::finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An unread log must not keep the process from ending.
            if is_read {
                let _ = writeln!(std::io::stderr(), "cellar: {error}");
            }
            ExitCode::from(REFUSED_STATUS)
        }
    }
}

/// Prints the one line of a health check.
fn healthcheck(outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(line) => {
            let _ = writeln!(std::io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "cellar: healthcheck: {reason}");
            ExitCode::from(UNHEALTHY_STATUS)
        }
    }
}

/// A panic in one event loop ends the process: half a server is worse than none.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if logging::finish() {
            report(info);
        }
        std::process::abort();
    }));
}
