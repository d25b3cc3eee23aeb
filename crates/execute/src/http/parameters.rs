//! Parameters: what the query of a request says, and times to live.
//!
//! A parameter that the path does not have is refused rather than overlooked: a misspelt `ttl`
//! would keep a value for ever.

use std::borrow::Cow;

use cellar_config::settings::units::parse_duration_ms;
use cellar_engine::Deadline;
use cellar_protocol::http::target::decode_percent;
use cellar_protocol::http::{Mark, Target};

use super::PROTOCOL;
use super::call::{Call, Failure, shown};

pub(super) const BAD_TTL: Failure = Failure::bad(
    "bad_ttl",
    "the TTL is not valid; write a number of seconds or a duration such as 500ms, 30s, 10m or 2h, \
     not 0",
);

fn bad_ttl(text: &str) -> Failure {
    BAD_TTL.says(format!("'{}': {}", shown(text), BAD_TTL.message))
}

/// The time to live of what stays until it is evicted, whatever the server's default is.
pub(super) const NEVER: &str = "never";

/// The values of the parameters with these names, in their order.
pub(super) fn take<'a, const N: usize>(
    target: &Target<'a>,
    names: [&str; N],
) -> Result<[Option<Cow<'a, str>>; N], Failure> {
    let mut values = [const { None }; N];
    if !target.has_query() {
        return Ok(values);
    }
    for (name, value) in target.parameters() {
        let Some(place) = names.iter().position(|known| *known == name) else {
            let message = match names.as_slice() {
                [] => "this path has no parameters".to_owned(),
                names => format!(
                    "unknown parameter '{}'; this path has: {}",
                    shown(name),
                    names.join(", ")
                ),
            };
            return Err(Failure::bad("unknown_parameter", "").says(message));
        };
        let Some(text) = decode_percent(value.as_bytes()).and_then(text) else {
            return Err(Failure::bad(
                "bad_percent_code",
                "a parameter has an invalid percent-encoding or is not UTF-8",
            ));
        };
        if values[place].replace(text).is_some() {
            let message = format!("the parameter '{name}' occurs twice");
            return Err(Failure::bad("bad_parameter", "").says(message));
        }
    }
    Ok(values)
}

fn text(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// A positive time in milliseconds: seconds, or a number with its unit.
pub(super) fn milliseconds(text: &str) -> Result<u64, Failure> {
    let ms = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse::<u64>().ok().and_then(|s| s.checked_mul(1_000))
    } else {
        parse_duration_ms(text).ok()
    };
    ms.filter(|ms| *ms > 0).ok_or_else(|| bad_ttl(text))
}

impl Call<'_> {
    /// The moment in so many milliseconds.
    pub(super) fn deadline_in(&self, ms: u64) -> Deadline {
        self.context.cache().now().plus_ms(ms)
    }

    /// The deadline that a parameter names for a value that is stored, if it is there.
    pub(super) fn named_deadline(&self, ttl: Option<&str>) -> Result<Option<Deadline>, Failure> {
        Ok(match ttl {
            None => None,
            Some(NEVER) => Some(Deadline::NEVER),
            Some(ttl) => Some(self.deadline_in(milliseconds(ttl)?)),
        })
    }

    /// The same of the parameter, else of the header.
    pub(super) fn deadline(&self, ttl: Option<&str>) -> Result<Option<Deadline>, Failure> {
        if ttl.is_some() {
            return self.named_deadline(ttl);
        }
        let max_age_s = self.max_age_s()?;
        Ok(max_age_s.map(|seconds| self.deadline_in(seconds.saturating_mul(1_000))))
    }

    /// The deadline of a value that is stored without one.
    pub(super) fn default_deadline(&self) -> Deadline {
        self.context.default_deadline(PROTOCOL, 0)
    }

    /// The seconds that Cache-Control gives a value, less its Age; `None` if it does not say.
    fn max_age_s(&self) -> Result<Option<u64>, Failure> {
        if !self.request.marks.has(Mark::CacheControl) {
            return Ok(None);
        }
        let mut max_age_s = None;
        for directive in directives(self.request.fields(Mark::CacheControl)) {
            let (name, value) = match equals_sign(directive) {
                Some(at) => (&directive[..at], &directive[at + 1..]),
                None => (directive, &b""[..]),
            };
            if name.eq_ignore_ascii_case(b"no-store") {
                return Err(Failure::bad(
                    "bad_ttl",
                    "Cache-Control: no-store forbids to store the value",
                ));
            }
            if name.eq_ignore_ascii_case(b"max-age") {
                let seconds = seconds(value).ok_or(BAD_TTL)?;
                if max_age_s.replace(seconds).is_some() {
                    return Err(BAD_TTL);
                }
            }
        }
        let Some(max_age_s) = max_age_s else {
            return Ok(None);
        };
        let age_s = match self.request.field(Mark::Age) {
            Some(value) => seconds(value).ok_or(BAD_TTL)?,
            None => 0,
        };
        match max_age_s.saturating_sub(age_s) {
            0 => Err(BAD_TTL),
            left_s => Ok(Some(left_s)),
        }
    }
}

/// The parts of a list in header fields.
fn directives<'a>(fields: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let parts = fields.flat_map(|field| field.split(|byte| *byte == b','));
    parts
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
}

fn equals_sign(directive: &[u8]) -> Option<usize> {
    directive.iter().position(|byte| *byte == b'=')
}

/// A number of seconds in a header field, in quotes or without.
fn seconds(value: &[u8]) -> Option<u64> {
    let digits = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        for (text, ms) in [
            ("1", 1_000),
            ("600", 600_000),
            ("10m", 600_000),
            ("1500ms", 1_500),
        ] {
            assert_eq!(milliseconds(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "0",
            "0s",
            "-1",
            "1.5",
            "1 s",
            "10 m",
            "99999999999999999999",
            "soon",
        ] {
            assert_eq!(milliseconds(text), Err(bad_ttl(text)), "{text}");
        }
    }

    #[test]
    fn parameters_are_known_and_stand_once() {
        let take = |query| {
            let target = Target::of_parts("/", query);
            take(&target, ["a", "b"]).map_err(|failure| failure.code)
        };
        assert_eq!(take(""), Ok([None, None]));
        assert_eq!(take("b=%32&a"), Ok([Some("".into()), Some("2".into())]));
        assert_eq!(take("a=1&a=2"), Err("bad_parameter"));
        assert_eq!(take("a=%4"), Err("bad_percent_code"));
        assert_eq!(take("a=%ff"), Err("bad_percent_code"));
        assert_eq!(take("A=1"), Err("unknown_parameter"));
    }
}
