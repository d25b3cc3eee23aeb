//! Source: the origin of a cluster's node list, as an operator writes it.

use std::fmt;
use std::path::PathBuf;

/// The origin of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// `file:PATH`: a file, read again when it changes.
    File(PathBuf),
    /// `dns:NAME`: the addresses of a name, resolved periodically.
    Dns(String),
    /// `etcd:URL,...`: nodes register in etcd, each under a lease.
    Etcd(EtcdPlace),
}

/// Where nodes register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPlace {
    /// Etcd's members, `http://host:port` or `https://host:port`.
    pub urls: Vec<String>,
    /// The name of the cluster, so that several clusters can use one etcd.
    pub cluster: String,
}

/// Etcd's port for clients.
const ETCD_PORT: u16 = 2379;
/// The default name of a cluster.
const ETCD_CLUSTER: &str = "cellar";
/// Most members of etcd.
const ETCD_URLS_MAX: usize = 9;

impl ListSource {
    /// Parses a source; none for `off`.
    ///
    /// # Errors
    /// The format of a source.
    pub fn parse(text: &str) -> Result<Option<ListSource>, String> {
        match text.split_once(':') {
            None if text == "off" => Ok(None),
            Some(("file", path)) if !path.is_empty() => Ok(Some(ListSource::File(path.into()))),
            Some(("dns", name)) => dns_name(name).map(|name| Some(ListSource::Dns(name))),
            Some(("etcd", place)) => EtcdPlace::parse(place).map(|one| Some(ListSource::Etcd(one))),
            _ => Err(format!(
                "{text:?} is not a source of nodes; write file:PATH, dns:NAME, etcd:URL,... or off"
            )),
        }
    }

    /// The same as text.
    #[must_use]
    pub fn show(source: Option<&ListSource>) -> String {
        source.map_or_else(|| "off".to_owned(), ListSource::to_string)
    }

    /// Whether nodes hold leases, so that two nodes never serve the same slot.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        match self {
            ListSource::File(_) | ListSource::Dns(_) => false,
            ListSource::Etcd(_) => true,
        }
    }
}

impl fmt::Display for ListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListSource::File(path) => write!(f, "file:{}", path.display()),
            ListSource::Dns(name) => write!(f, "dns:{name}"),
            ListSource::Etcd(place) => {
                write!(f, "etcd:{}/{}", place.urls.join(","), place.cluster)
            }
        }
    }
}

impl EtcdPlace {
    /// Reads URLs with commas between them; the last one's path is the cluster's name.
    fn parse(text: &str) -> Result<EtcdPlace, String> {
        const FORM: &str = "write etcd:http://host:2379,http://host:2379/NAME, or https:";
        let (text, cluster) = match text.rfind('/') {
            Some(at) if !text[..at].ends_with(['/', ':']) => (&text[..at], &text[at + 1..]),
            _ => (text, ETCD_CLUSTER),
        };
        check_node_name(cluster)
            .map_err(|_| format!("{cluster:?} is not a cluster name; {FORM}"))?;
        let urls = text.split(',').map(url);
        let urls: Option<Vec<String>> = urls.collect();
        let urls = urls.ok_or_else(|| format!("{text:?} is not a list of etcd URLs; {FORM}"))?;
        let is_tls = |url: &String| url.starts_with("https:");
        if urls.iter().any(is_tls) != urls.iter().all(is_tls) {
            return Err("all members of etcd must use TLS, or none".to_owned());
        }
        if urls.len() > ETCD_URLS_MAX {
            return Err(format!(
                "at most {ETCD_URLS_MAX} members of etcd are possible"
            ));
        }
        Ok(EtcdPlace {
            urls,
            cluster: cluster.to_owned(),
        })
    }

    /// Whether etcd is asked over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.urls.iter().all(|url| url.starts_with("https:"))
    }
}

/// A name that DNS may know.
fn dns_name(text: &str) -> Result<String, String> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.is_empty() || text.len() > 253 || !text.bytes().all(is_taken) {
        return Err(format!(
            "{text:?} is not a host name; write dns:cellar-headless.shop.svc"
        ));
    }
    Ok(text.to_owned())
}

/// A member's URL, with its port.
fn url(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, host) = text.split_once("://")?;
    let is_scheme = matches!(scheme, "http" | "https");
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if !is_scheme || host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    match behind.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => Some(text.to_owned()),
        Some(_) => None,
        None => Some(format!("{text}:{ETCD_PORT}")),
    }
}

/// Longest name of a node.
const NAME_BYTES_MAX: usize = 64;

/// Checks the name of a node.
///
/// # Errors
/// How a name is written.
pub fn check_node_name(name: &str) -> Result<(), String> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_taken) {
        return Err(format!(
            "{name:?} is not a node name: 1 to {NAME_BYTES_MAX} letters, digits and . _ - :"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_is_named_by_its_members_and_the_cluster_by_what_follows() {
        for (text, shown) in [
            ("etcd:http://h", "etcd:http://h:2379/cellar"),
            ("etcd:http://[::1]:9/", "etcd:http://[::1]:9/cellar"),
            (
                "etcd:https://a,https://b:9/shop",
                "etcd:https://a:2379,https://b:9/shop",
            ),
        ] {
            let text = text.strip_suffix('/').unwrap_or(text);
            let source = ListSource::parse(text).unwrap().unwrap();
            assert_eq!(source.to_string(), shown);
            assert!(source.has_leases());
            assert_eq!(ListSource::parse(shown), Ok(Some(source)));
        }
        let named = ListSource::parse("dns:_a._tcp.b.c").unwrap().unwrap();
        assert!(named.to_string() == "dns:_a._tcp.b.c" && !named.has_leases());
        for bad in [
            "dns:",
            "dns:a b",
            "dns:h:1",
            "etcd:",
            "etcd:h:1",
            "etcd:ftp://h",
            "etcd:http://",
            "etcd:http://h:0",
            "etcd:http://h:x",
            "etcd:http://a,https://b",
            "etcd:http://u:p@h",
            "etcd:http://h/a b",
            "etcd:http://h//",
        ] {
            assert!(ListSource::parse(bad).is_err(), "{bad}");
        }
    }
}
