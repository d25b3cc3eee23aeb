//! `cellar hash-password`: the hash of a password, for the file of users.
//!
//! The password comes from standard input only, because other users can read arguments and
//! variables. On a terminal the command prompts twice and does not echo the input.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use cellar_config::error::Error;
use cellar_shared::auth::users;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// Longest input that is read.
const INPUT_BYTES_MAX: u64 = 64 << 10;

/// Reads a password and prints its hash.
///
/// # Errors
/// The input cannot be read, or is no valid password.
pub fn run() -> Result<(), Error> {
    let password = read().map_err(|error| Error::Password(error.to_string()))?;
    let hash = users::hash(&password).map_err(Error::Password)?;
    // A closed output pipe is no error.
    let _ = writeln!(io::stdout(), "{hash}");
    Ok(())
}

fn read() -> io::Result<Zeroizing<Vec<u8>>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut password = Zeroizing::new(Vec::new());
        stdin
            .lock()
            .take(INPUT_BYTES_MAX)
            .read_to_end(&mut password)?;
        strip_line_end(&mut password);
        return Ok(password);
    }
    let _silence = Silence::begin()?;
    let first = ask("Password: ")?;
    if *first != *ask("Once more: ")? {
        return Err(io::Error::other("the passwords differ"));
    }
    Ok(first)
}

fn ask(prompt: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::new());
    let mut out = io::stderr();
    write!(out, "{prompt}")?;
    io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    writeln!(out)?;
    strip_line_end(&mut line);
    Ok(line)
}

/// The line end that `echo` or a terminal adds is not part of the password.
fn strip_line_end(line: &mut Vec<u8>) {
    for end in *b"\n\r" {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
}

/// Disables the echo of a terminal until it is dropped.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> io::Result<Silence> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Silence { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
