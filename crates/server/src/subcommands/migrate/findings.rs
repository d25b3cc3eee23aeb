//! Findings: the report about an old server.

use std::fmt::Write;

use serde::Serialize;

/// Most lines about supported commands; missing ones and notes are shown without a limit.
const THERE_LINES_MAX: usize = 40;

/// A command or feature that clients of the old server use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedCommand {
    /// Its name; a subcommand follows after a space.
    pub command: String,
    /// Calls since the server started or its statistics were reset.
    pub calls: u64,
    /// What Cellar lacks and what to do; empty if Cellar supports all of it.
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
    /// The name and version of the server.
    pub server: String,
    /// Used, and missing in Cellar; most calls first.
    pub missing: Vec<UsedCommand>,
    /// Used, and supported in part: some calls return an error. Most calls first.
    pub partly: Vec<UsedCommand>,
    /// Used and supported; most calls first.
    pub there: Vec<UsedCommand>,
    /// Notes for the migration.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a used feature; `hint` is empty if Cellar supports it.
    pub fn push(&mut self, command: String, calls: u64, hint: &str) {
        let all = if hint.is_empty() {
            &mut self.there
        } else {
            &mut self.missing
        };
        all.push(UsedCommand::new(command, calls, hint));
    }

    /// Adds a used feature that Cellar supports in part; `hint` says which part.
    pub fn push_partly(&mut self, command: String, calls: u64, hint: &str) {
        self.partly.push(UsedCommand::new(command, calls, hint));
    }

    /// Sorts by calls, most calls first.
    pub fn sort(&mut self) {
        for all in [&mut self.missing, &mut self.partly, &mut self.there] {
            all.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.command.cmp(&b.command)));
        }
    }

    /// The report as text.
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
