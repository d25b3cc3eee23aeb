//! Goals: figures that a measurement must reach, and whether it did.

use std::fmt::Write;

/// A figure and its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// What was measured, and in which unit.
    pub what: String,
    /// The limit as it is shown.
    pub limit: String,
    /// The figure as it is shown.
    pub found: String,
    /// Whether the figure keeps to the limit.
    pub is_reached: bool,
}

impl Goal {
    /// A figure that may be as large as its limit; shown with so many digits behind the point.
    ///
    /// A figure that is no number misses.
    #[must_use]
    pub fn at_most(what: impl Into<String>, limit: f64, found: f64, digits: usize) -> Goal {
        Goal {
            what: what.into(),
            limit: format!("<= {limit}"),
            found: format!("{found:.digits$}"),
            is_reached: found <= limit,
        }
    }

    fn verdict(&self) -> &'static str {
        if self.is_reached { "reached" } else { "MISSED" }
    }
}

/// The goals as a table in Markdown; nothing if there are none.
#[must_use]
pub fn table(goals: &[Goal]) -> String {
    let mut text = String::new();
    if goals.is_empty() {
        return text;
    }
    text += "| goal | limit | found | |\n|---|---|---|---|\n";
    for goal in goals {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            goal.what,
            goal.limit,
            goal.found,
            goal.verdict()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_at_its_limit_and_missed_beyond() {
        let goals = [
            Goal::at_most("a", 1.2, 1.2, 2),
            Goal::at_most("b", 1.2, 1.201, 3),
            Goal::at_most("c", 1.2, f64::NAN, 2),
        ];
        assert_eq!(
            table(&goals),
            "| goal | limit | found | |\n|---|---|---|---|\n\
             | a | <= 1.2 | 1.20 | reached |\n\
             | b | <= 1.2 | 1.201 | MISSED |\n\
             | c | <= 1.2 | NaN | MISSED |\n"
        );
        assert_eq!(table(&[]), "");
    }
}
