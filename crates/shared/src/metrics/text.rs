//! Text: Prometheus's text format, version 0.0.4.
//!
//! A family is a `# HELP` and a `# TYPE` line and its samples. Tests: at the end of this file;
//! server/tests/metrics.rs has `promtool` read all of it.

use std::fmt::{Display, Write};

use super::facts::Facts;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, from zero at start.
    Count,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl MetricType {
    /// Prometheus's name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricType::Count => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        }
    }
}

/// One metric, or one for each value of its labels.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// How it moves.
    pub kind: MetricType,
    /// Its labels with commas between them.
    pub labels: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Writes its samples from the facts.
    pub write: fn(&Facts<'_>, &mut Samples<'_>),
}

/// A label and its value.
pub type Label<'a> = (&'a str, &'a str);

/// The text as it grows.
#[derive(Debug, Default)]
pub struct Text(String);

/// The samples of one family.
pub struct Samples<'t> {
    name: &'t str,
    text: &'t mut String,
}

impl Text {
    /// Adds a family; one without samples is left out.
    pub fn family(&mut self, family: &Family, facts: &Facts<'_>) {
        self.samples(family.name, family.kind, family.help, |samples| {
            (family.write)(facts, samples);
        });
    }

    /// Adds a family with these samples; one without samples is left out.
    pub fn samples(
        &mut self,
        name: &str,
        kind: MetricType,
        help: &str,
        write: impl FnOnce(&mut Samples<'_>),
    ) {
        let begin = self.0.len();
        self.0.push_str("# HELP ");
        self.0.push_str(name);
        self.0.push(' ');
        escape(&mut self.0, help, false);
        // Writing to a string does not fail.
        let _ = write!(self.0, "\n# TYPE {name} {}\n", kind.name());
        let head = self.0.len();
        write(&mut Samples {
            name,
            text: &mut self.0,
        });
        if self.0.len() == head {
            self.0.truncate(begin);
        }
    }

    /// The whole text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Samples<'_> {
    /// A sample without labels.
    pub fn one(&mut self, value: impl Display) {
        self.line("", &[], value);
    }

    /// A sample with labels.
    pub fn with(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.line("", labels, value);
    }

    /// A histogram: `counts` by bin, one more than there are bounds, and the sum of all values.
    pub fn histogram(&mut self, labels: &[Label<'_>], bounds: &[f64], counts: &[u64], sum: f64) {
        let mut below = 0;
        for (place, count) in counts.iter().enumerate() {
            below += count;
            let bound = bounds.get(place).map(f64::to_string);
            let bound = ("le", bound.as_deref().unwrap_or("+Inf"));
            self.line("_bucket", &[labels, &[bound]].concat(), below);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, below);
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (label, value) in labels {
            self.text.push(separator);
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(self.text, value, true);
            self.text.push('"');
            separator = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Appends text on one line; in a label's value quotes are escaped too.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_help_type_and_samples_with_what_would_break_a_line_escaped() {
        let mut text = Text::default();
        text.samples(
            "one_total",
            MetricType::Count,
            "Says \"no\\yes\"\nand more.",
            |samples| {
                samples.one(7);
                samples.with(&[("a", "x\"y"), ("b", "c:\\d\ne")], 1.5);
            },
        );
        text.samples("none", MetricType::Gauge, "Nothing.", |_| {});
        let expected = "# HELP one_total Says \"no\\\\yes\"\\nand more.\n# TYPE one_total counter\n\
            one_total 7\none_total{a=\"x\\\"y\",b=\"c:\\\\d\\ne\"} 1.5\n";
        assert_eq!(text.into_string(), expected);
    }

    #[test]
    fn a_histogram_counts_all_below_each_bound() {
        let mut text = Text::default();
        text.samples("t_seconds", MetricType::Histogram, "Time.", |samples| {
            samples.histogram(&[("p", "x")], &[0.00001, 2.0], &[3, 0, 4], 9.25);
        });
        let text = text.into_string();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "t_seconds_bucket{p=\"x\",le=\"0.00001\"} 3",
                "t_seconds_bucket{p=\"x\",le=\"2\"} 3",
                "t_seconds_bucket{p=\"x\",le=\"+Inf\"} 7",
                "t_seconds_sum{p=\"x\"} 9.25",
                "t_seconds_count{p=\"x\"} 7",
            ]
        );
    }
}
