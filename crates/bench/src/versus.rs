//! Versus: one figure of Cellar's beside a peer's, so that a page can say first where a peer wins.

use std::fmt::Write;

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, costs, misses.
    Less,
    /// Throughputs, shares found.
    More,
}

/// A figure of Cellar's and the same figure of a peer's.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// What was measured, with its unit.
    pub what: String,
    /// Who else was measured.
    pub peer: String,
    /// Cellar's figure.
    pub ours: f64,
    /// The peer's figure.
    pub theirs: f64,
    /// Which of the two is better.
    pub better: Better,
}

impl Versus {
    /// Two figures of which the smaller is better.
    pub fn less(what: impl Into<String>, ours: f64, peer: &str, theirs: f64) -> Versus {
        Versus {
            what: what.into(),
            peer: peer.to_owned(),
            ours,
            theirs,
            better: Better::Less,
        }
    }

    /// Two figures of which the larger is better.
    pub fn more(what: impl Into<String>, ours: f64, peer: &str, theirs: f64) -> Versus {
        Versus {
            better: Better::More,
            ..Versus::less(what, ours, peer, theirs)
        }
    }

    /// Whether the peer's figure is the better one, by however little.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self.better {
            Better::Less => self.theirs < self.ours,
            Better::More => self.theirs > self.ours,
        }
    }

    fn row(&self) -> String {
        let ratio = self.ours / self.theirs;
        let ratio = if ratio.is_finite() {
            format!("{ratio:.3}")
        } else {
            "-".to_owned()
        };
        let (ours, theirs) = (figure(self.ours), figure(self.theirs));
        let (what, peer) = (&self.what, &self.peer);
        format!("| {what} | {peer} | {theirs} | {ours} | {ratio} |")
    }
}

/// A figure with four digits or so, whatever its size; an infinite one was never reached.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "not in this run".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 || value == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// The section of a page on peers that are better, in Markdown.
#[must_use]
pub fn section(all: &[Versus]) -> String {
    let lost: Vec<&Versus> = all.iter().filter(|versus| versus.is_lost()).collect();
    if all.is_empty() {
        return "No peer takes part in this measurement.\n".to_owned();
    }
    if lost.is_empty() {
        let count = all.len();
        return format!("In none of the {count} figures compared in this run is a peer better.\n");
    }
    let mut text = format!(
        "In {} of {} figures compared:\n\n\
         | figure | peer | its | Cellar's | Cellar's over it |\n|---|---|---|---|---|\n",
        lost.len(),
        all.len()
    );
    for versus in lost {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", versus.row());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_better_is_a_row_and_one_that_is_not_is_none() {
        let all = [
            Versus::less("misses", 2.0, "memcached", 1.0),
            Versus::less("even misses", 2.0, "memcached", 2.0),
            Versus::more("gets/s", 2000.0, "redis", 2500.4),
            Versus::more("sets/s", 2.0, "redis", 1.0),
            Versus::less("s until done", f64::INFINITY, "redis", 3.0),
        ];
        let text = section(&all);
        assert!(text.starts_with("In 3 of 5 figures"), "{text}");
        assert!(text.contains("| misses | memcached | 1.000 | 2.000 | 2.000 |"));
        assert!(text.contains("| gets/s | redis | 2500 | 2000 | 0.800 |"));
        assert!(text.contains("| s until done | redis | 3.000 | not in this run | - |"));
        assert!(!text.contains("even") && !text.contains("sets/s"));
    }

    #[test]
    fn no_loss_and_no_peer_are_told_apart() {
        assert!(section(&[]).starts_with("No peer"));
        let won = [Versus::less("misses", 1.0, "memcached", 2.0)];
        assert!(section(&won).contains("none of the 1 figures"));
    }
}
