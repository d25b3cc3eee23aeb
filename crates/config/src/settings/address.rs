//! Address: listen addresses, as an operator writes them.

use std::fmt;
use std::path::{Path, PathBuf};

/// Prefix of the path of a UNIX socket.
const UNIX: &str = "unix:";
/// Prefix of a host with TLS.
const TLS: &str = "tls:";

/// A listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`; port 0 takes a free one.
    Tcp(String),
    /// `tls:host:port`: the same, over TLS.
    Tls(String),
    /// `unix:/path`: a socket file.
    Unix(PathBuf),
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// A message if the text is invalid.
    pub fn parse(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path);
            let is_whole = path.is_absolute() && path.file_name().is_some();
            let error = || format!("{text:?} has no absolute path; write unix:/run/cellar.sock");
            return is_whole.then_some(Address::Unix(path)).ok_or_else(error);
        }
        let (make, rest): (fn(String) -> Address, &str) = match text.strip_prefix(TLS) {
            Some(rest) => (Address::Tls, rest),
            None => (Address::Tcp, text),
        };
        let parts = rest.rsplit_once(':');
        let is_address =
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if is_address {
            return Ok(make(rest.to_owned()));
        }
        Err(format!(
            "{text:?} is not an address; write host:port, tls:host:port, unix:/path or off"
        ))
    }

    /// Parses a list of addresses with commas, or `off` for none.
    ///
    /// # Errors
    /// A message if one of them is invalid.
    pub fn parse_all(text: &str) -> Result<Vec<Address>, String> {
        if text == "off" {
            return Ok(Vec::new());
        }
        let addresses = text.split(',').map(|one| Address::parse(one.trim()));
        addresses.collect()
    }

    /// The same list as text.
    #[must_use]
    pub fn show_all(addresses: &[Address]) -> String {
        if addresses.is_empty() {
            return "off".to_owned();
        }
        let texts: Vec<String> = addresses.iter().map(Address::to_string).collect();
        texts.join(",")
    }

    /// Whether it uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Address::Tls(_))
    }

    /// Host and port; `None` for a UNIX socket.
    #[must_use]
    pub fn host_and_port(&self) -> Option<(&str, &str)> {
        match self {
            Address::Tcp(text) | Address::Tls(text) => text.rsplit_once(':'),
            Address::Unix(_) => None,
        }
    }

    /// The path of a UNIX socket; `None` for a network address.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Address::Tcp(_) | Address::Tls(_) => None,
            Address::Unix(path) => Some(path),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(text) => f.write_str(text),
            Address::Tls(text) => write!(f, "{TLS}{text}"),
            Address::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in [
            "127.0.0.1:11211",
            "[::1]:0",
            "tls:[::1]:6380,tls:cache.example:1",
            "unix:/run/cellar.sock",
            "localhost:1,unix:/a b",
            "off",
        ] {
            let addresses = Address::parse_all(text).unwrap();
            assert_eq!(Address::show_all(&addresses), text);
        }
        let addresses = Address::parse_all("h:1, unix:/s").unwrap();
        assert_eq!(addresses[0].host_and_port(), Some(("h", "1")));
        assert_eq!(addresses[1].host_and_port(), None);
    }

    #[test]
    fn what_is_no_address_is_told_with_how_to_write_one() {
        for text in [
            "11211",
            ":11211",
            "h:99999",
            "h:1,,",
            "",
            "h:1,off",
            "tls:11211",
        ] {
            let error = Address::parse_all(text).unwrap_err();
            assert!(
                error.ends_with("write host:port, tls:host:port, unix:/path or off"),
                "{error}"
            );
        }
        for text in ["unix:", "unix:relative", "unix:/"] {
            let error = Address::parse_all(text).unwrap_err();
            assert!(error.contains("unix:/run/cellar.sock"), "{error}");
        }
    }
}
