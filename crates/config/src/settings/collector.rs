//! Collector: the setting for the OTLP collector that receives the metrics.

use std::fmt::{Display, Formatter, Result as Formatted};

use super::units::parse_duration_ms;

/// The port that collectors listen on, and the path that they take metrics at.
///
/// Source: opentelemetry.io/docs/specs/otlp.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";
/// Shortest interval between two exports.
const INTERVAL_MS_MIN: u64 = 1_000;

/// An OpenTelemetry collector that receives metrics over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its host and port.
    pub host: String,
    /// The path.
    pub path: String,
}

impl Collector {
    /// Reads `http://host:port/path`, of which port and path may be missing, or `off`.
    ///
    /// # Errors
    /// Why the text is not valid.
    pub fn parse(text: &str) -> Result<Option<Collector>, String> {
        if text == "off" {
            return Ok(None);
        }
        let refused = || format!("{text:?} is not a URL of the form http://host:port");
        let rest = text.strip_prefix("http://").ok_or_else(refused)?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(rest) || host.is_empty() || host.contains(['@', '?', '#']) {
            return Err(refused());
        }
        let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
        let host = match behind.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => host.to_owned(),
            Some(_) => return Err(refused()),
            None => format!("{host}:{PORT}"),
        };
        let path = if path.len() > 1 { path } else { PATH };
        Ok(Some(Collector {
            host,
            path: path.to_owned(),
        }))
    }
}

impl Display for Collector {
    fn fmt(&self, out: &mut Formatter<'_>) -> Formatted {
        write!(out, "http://{}{}", self.host, self.path)
    }
}

/// The interval between two exports.
pub(super) fn interval(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ms if ms < INTERVAL_MS_MIN => Err(format!("{text:?} is less than 1s")),
        ms => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_what_collectors_have() {
        for (text, expected) in [
            ("http://127.0.0.1", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]/", "http://[::1]:4318/v1/metrics"),
            ("http://[::1]:80", "http://[::1]:80/v1/metrics"),
            ("http://collector:9/own/path", "http://collector:9/own/path"),
        ] {
            let read = Collector::parse(text).unwrap().unwrap();
            assert_eq!(read.to_string(), expected);
            assert_eq!(Collector::parse(expected), Ok(Some(read)));
        }
        assert_eq!(Collector::parse("off"), Ok(None));
    }
}
