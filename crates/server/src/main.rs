//! The `cellar` daemon.
#![deny(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use cellar::settings::load::{Action, load};
use cellar::{hash_password, logging, migrate, server, top};

/// Exit status when the server cannot start.
const REFUSED_STATUS: u8 = 2;
/// Exit status when an old server is used for something that is not here.
const MISSING_STATUS: u8 = 1;

fn main() -> ExitCode {
    abort_on_panic();
    let outcome = match load(std::env::args_os(), std::env::vars_os()) {
        Ok(Action::Print(text)) => {
            // A reader that has seen enough is no error.
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
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cellar: {error}");
            ExitCode::from(REFUSED_STATUS)
        }
    }
}

/// A panic in one event loop ends the process: half a server is worse than none.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}
