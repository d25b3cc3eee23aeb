//! Findings: what is told of an old server.

use std::fmt::Write;

use serde::Serialize;

/// Most lines of what is there; what is missing and what to know is shown whole.
const THERE_LINES_MAX: usize = 40;

/// Something that an old server is used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedCommand {
    /// Its name, with a subcommand behind a space.
    pub command: String,
    /// How often it was called since the server started, or its figures were reset.
    pub calls: u64,
    /// Why it is not here, or what of it is not, and what to do; empty if all of it is here.
    pub hint: String,
}

impl UsedCommand {
    fn new(command: String, calls: u64, hint: &str) -> UsedCommand {
        UsedCommand {
            command,
            calls,
            hint: hint.to_owned(),
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// What the server is, and its version.
    pub server: String,
    /// What it is used for and is not here, most calls first.
    pub missing: Vec<UsedCommand>,
    /// What it is used for and is here in part: some calls return an error. Most calls first.
    pub partly: Vec<UsedCommand>,
    /// What it is used for and is here, most calls first.
    pub there: Vec<UsedCommand>,
    /// What else there is to know before the move.
    pub notes: Vec<String>,
}

impl Findings {
    /// Notes what a server is used for; `hint` is empty for what is here.
    pub fn push(&mut self, command: String, calls: u64, hint: &str) {
        let all = if hint.is_empty() {
            &mut self.there
        } else {
            &mut self.missing
        };
        all.push(UsedCommand::new(command, calls, hint));
    }

    /// Notes what a server is used for and is here in part; `hint` says which part.
    pub fn push_partly(&mut self, command: String, calls: u64, hint: &str) {
        self.partly.push(UsedCommand::new(command, calls, hint));
    }

    /// Brings what is called most to the front.
    pub fn sort(&mut self) {
        for all in [&mut self.missing, &mut self.partly, &mut self.there] {
            all.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.command.cmp(&b.command)));
        }
    }

    /// All of it as a text.
    #[must_use]
    pub fn page(&self, target: &str) -> String {
        let (missing, partly) = (self.missing.len(), self.partly.len());
        let mut text = format!(
            "{target}: {}; {} commands are used, {missing} of them not supported, {partly} in \
             part\n",
            self.server,
            missing + partly + self.there.len(),
        );
        let width = self.missing.iter().chain(&self.partly).chain(&self.there);
        let width = width.map(|row| row.command.len()).max().unwrap_or(0);
        for (title, rows) in [
            ("not supported", &self.missing),
            ("partly supported", &self.partly),
            ("supported", &self.there),
        ] {
            if rows.is_empty() {
                continue;
            }
            let most = match title {
                "supported" => THERE_LINES_MAX,
                _ => rows.len(),
            };
            let _ = write!(text, "\n{title}\n");
            for row in rows.iter().take(most) {
                let line = format!(
                    "  {:width$} {:>12} calls  {}",
                    row.command, row.calls, row.hint
                );
                let _ = writeln!(text, "{}", line.trim_end());
            }
            if rows.len() > most {
                let _ = writeln!(text, "  and {} more; --json has all", rows.len() - most);
            }
        }
        if !self.notes.is_empty() {
            text.push_str("\nnotes\n");
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }
}
