//! Certificate: the validity and the host names of a server's certificate.

use std::ops::RangeInclusive;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The relevant facts of a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The host names that it is for, in lower case; `*.` stands for one label.
    pub names: Vec<String>,
    /// Its validity, in seconds of Unix time.
    pub valid_s: RangeInclusive<i64>,
}

/// The facts of a certificate; none if it cannot be parsed.
#[must_use]
pub fn facts(der: &[u8]) -> Option<CertificateFacts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    Some(CertificateFacts {
        names: names(&certificate),
        valid_s: validity.not_before.timestamp()..=validity.not_after.timestamp(),
    })
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = names.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    names.collect()
}

impl CertificateFacts {
    /// Whether it is for the server of this name.
    #[must_use]
    pub fn is_for(&self, server: &str) -> bool {
        let server = server.to_ascii_lowercase();
        let behind_label = server.split_once('.').map(|(_, rest)| rest);
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(rest) => behind_label == Some(rest),
            None => *name == server,
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn made(common: Option<&str>, names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate.der().to_vec()
    }

    #[test]
    fn names_and_times_are_read() {
        let facts = facts(&made(None, &["Cache.example", "*.in.example"])).unwrap();
        assert_eq!(facts.valid_s, 1_767_225_600..=1_798_761_600);
        for (server, is_for) in [
            ("cache.EXAMPLE", true),
            ("a.in.example", true),
            ("a.b.in.example", false),
            ("in.example", false),
            ("example", false),
        ] {
            assert_eq!(facts.is_for(server), is_for, "{server}");
        }
        assert_eq!(super::facts(b"no certificate"), None);
    }
}
