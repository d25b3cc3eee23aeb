//! OTLP: the metrics of `/metrics` in the Protocol Buffers format of OpenTelemetry collectors.
//!
//! They are converted from the text for Prometheus ([`super::exposition`]), so names, labels,
//! descriptions and values are the same. Counters are cumulative sums from the server's start,
//! histograms have explicit bounds.
//!
//! Source: opentelemetry/proto/metrics/v1/metrics.proto, opentelemetry.io/docs/specs/otlp.
//! Tests: at the end of this file; server/tests/otlp.rs decodes all of it.

use std::collections::BTreeMap;

/// Figures since the start count on from their last value.
const CUMULATIVE: u64 = 2;

/// The resource attributes beside the metrics.
#[derive(Clone, Copy, Debug)]
pub struct SentBy<'a> {
    /// A unique name of this run of the server.
    pub instance: &'a str,
    /// Unix time of the start, in nanoseconds.
    pub start_ns: u64,
    /// Unix time of now.
    pub now_ns: u64,
}

/// A message of Protocol Buffers as it grows.
#[derive(Debug, Default)]
struct Encoded(Vec<u8>);

impl Encoded {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// The number of a field and how its value is written.
    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn fixed(&mut self, field: u64, value: u64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Encoded)) {
        let mut inner = Encoded::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u64, name: &str, value: &str) {
        self.message(field, |pair| {
            pair.text(1, name);
            pair.message(2, |any| any.text(1, value));
        });
    }

    fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes);
    }
}

/// A line of the text: its name and labels, and its value.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    figure: &'a str,
}

/// All metrics of a text for Prometheus as a request to a collector.
#[must_use]
pub fn request(exposition: &str, origin: &SentBy<'_>) -> Vec<u8> {
    let mut all = Encoded::default();
    all.message(1, |of_resource| {
        of_resource.message(1, |resource| {
            resource.attribute(1, "service.name", "cellar");
            resource.attribute(1, "service.version", env!("CARGO_PKG_VERSION"));
            resource.attribute(1, "service.instance.id", origin.instance);
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.text(1, "cellar");
                scope.text(2, env!("CARGO_PKG_VERSION"));
            });
            for family in exposition.split("# HELP ").skip(1) {
                of_scope.message(2, |metric| put(metric, family, origin));
            }
        });
    });
    all.0
}

/// A family: its name and its words, a line with its type, its samples.
fn put(metric: &mut Encoded, family: &str, origin: &SentBy<'_>) {
    let mut lines = family.lines();
    let head = lines.next().unwrap_or_default();
    let (name, help) = head.split_once(' ').unwrap_or((head, ""));
    let kind = lines.next().and_then(|line| line.rsplit(' ').next());
    metric.text(1, name);
    metric.text(2, &unescaped(help));
    let samples = lines.filter_map(sample);
    match kind {
        Some("histogram") => metric.message(9, |histogram| {
            for (labels, bins) in histograms(samples) {
                histogram.message(1, |point| put_histogram(point, &labels, &bins, origin));
            }
            histogram.number(2, CUMULATIVE);
        }),
        Some("counter") => metric.message(7, |sum| {
            samples.for_each(|line| sum.message(1, |point| put_point(point, &line, origin)));
            sum.number(2, CUMULATIVE);
            sum.number(3, 1);
        }),
        _ => metric.message(5, |gauge| {
            samples.for_each(|line| gauge.message(1, |point| put_point(point, &line, origin)));
        }),
    }
}

fn put_point(point: &mut Encoded, line: &Line<'_>, origin: &SentBy<'_>) {
    for (name, value) in &line.labels {
        point.attribute(7, name, value);
    }
    point.fixed(2, origin.start_ns);
    point.fixed(3, origin.now_ns);
    match (line.figure.parse::<i64>(), line.figure.parse::<f64>()) {
        (Ok(whole), _) => point.fixed(6, whole.cast_unsigned()),
        (_, Ok(figure)) => point.fixed(4, figure.to_bits()),
        _ => {}
    }
}

/// One histogram of the text.
#[derive(Debug, Default)]
struct Bins {
    bounds: Vec<f64>,
    /// How many were at most as large as each bound, and all.
    below: Vec<u64>,
    sum: f64,
}

/// Samples by their labels, in the order of these.
fn histograms<'a>(
    samples: impl Iterator<Item = Line<'a>>,
) -> BTreeMap<Vec<(&'a str, String)>, Bins> {
    let mut found: BTreeMap<Vec<(&str, String)>, Bins> = BTreeMap::new();
    for mut line in samples {
        let bound = match line.labels.last() {
            Some((_, bound)) if line.name.ends_with("_bucket") => Some(bound.parse()),
            _ => None,
        };
        if bound.is_some() {
            line.labels.pop();
        }
        let bins = found.entry(line.labels).or_default();
        let count = || line.figure.parse().unwrap_or_default();
        match bound {
            // The last one has no bound: it is infinite.
            Some(bound) => {
                bins.bounds
                    .extend(bound.ok().filter(|bound: &f64| bound.is_finite()));
                bins.below.push(count());
            }
            None if line.name.ends_with("_sum") => {
                bins.sum = line.figure.parse().unwrap_or_default();
            }
            None => {}
        }
    }
    found
}

fn put_histogram(point: &mut Encoded, labels: &[(&str, String)], bins: &Bins, origin: &SentBy<'_>) {
    for (name, value) in labels {
        point.attribute(9, name, value);
    }
    point.fixed(2, origin.start_ns);
    point.fixed(3, origin.now_ns);
    point.fixed(4, bins.below.last().copied().unwrap_or_default());
    point.fixed(5, bins.sum.to_bits());
    let before = [0].iter().chain(&bins.below);
    let counts = bins.below.iter().zip(before);
    point.packed(6, counts.map(|(below, before)| below - before.min(below)));
    point.packed(7, bins.bounds.iter().map(|bound| bound.to_bits()));
}

/// Parses a line: `name{label="value",...} value`.
fn sample(line: &str) -> Option<Line<'_>> {
    let (rest, figure) = line.rsplit_once(' ')?;
    let Some((name, mut left)) = rest.split_once('{') else {
        return Some(Line {
            name: rest,
            labels: Vec::new(),
            figure,
        });
    };
    let mut labels = Vec::new();
    while let Some((label, value)) = left.split_once("=\"") {
        let end = end_of(value)?;
        labels.push((label, unescaped(&value[..end])));
        left = value[end + 1..].trim_start_matches([',', '}']);
    }
    Some(Line {
        name,
        labels,
        figure,
    })
}

/// Where a value in quotes ends.
fn end_of(value: &str) -> Option<usize> {
    let mut is_escaped = false;
    value.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next().map(|escaped| match escaped {
                'n' => '\n',
                other => other,
            })),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_with_what_was_escaped() {
        let expected = Line {
            name: "a_total",
            labels: vec![("x", "q\"\\\n,}".to_owned()), ("y", String::new())],
            figure: "1.5",
        };
        let line = "a_total{x=\"q\\\"\\\\\\n,}\",y=\"\"} 1.5";
        assert_eq!(sample(line), Some(expected));
        let expected = Line {
            name: "b",
            labels: Vec::new(),
            figure: "-7",
        };
        assert_eq!(sample("b -7"), Some(expected));
    }

    #[test]
    fn numbers_are_written_as_the_format_says() {
        let mut message = Encoded::default();
        message.number(1, 300);
        message.text(2, "ab");
        message.fixed(3, 1);
        let expected = [8, 172, 2, 18, 2, b'a', b'b', 25, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(message.0, expected);
    }
}
