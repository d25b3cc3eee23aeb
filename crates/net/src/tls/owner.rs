//! Owner: the names of the owner of a client's certificate.
//!
//! They are the common name of its subject, or without one its alternative names: host, URI or mail
//! address. Other kinds of names are ignored.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    /// The common name of the subject.
    Subject,
    /// Of a host.
    Dns,
    /// A URI.
    Uri,
    /// An address of mail.
    Email,
}

impl NameKind {
    const ALL: [NameKind; 4] = [
        NameKind::Subject,
        NameKind::Dns,
        NameKind::Uri,
        NameKind::Email,
    ];

    /// The word before a name that has to be of this kind.
    fn word(self) -> &'static str {
        match self {
            NameKind::Subject => "subject:",
            NameKind::Dns => "dns:",
            NameKind::Uri => "uri:",
            NameKind::Email => "email:",
        }
    }
}

/// The owner of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// All its names, the subject's first; at least one.
    names: Vec<(NameKind, Box<str>)>,
}

impl Owner {
    /// The owner of this certificate; none if it has no name, or cannot be parsed.
    #[must_use]
    pub fn of(der: &[u8]) -> Option<Owner> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let common = certificate.subject().iter_common_name();
        let common = common.filter_map(|name| name.as_str().ok());
        let common = common.map(|name| (NameKind::Subject, Box::from(name)));
        // One that cannot be parsed has no other names.
        let others = certificate.subject_alternative_name().ok().flatten();
        let others = others.map(|names| names.value.general_names.iter().filter_map(kind_and_text));
        let names = common.take(1).chain(others.into_iter().flatten());
        let names: Vec<_> = names.filter(|(_, name)| !name.is_empty()).collect();
        (!names.is_empty()).then_some(Owner { names })
    }

    /// Its name in listings: the common name, or else the first alternative name.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.names.first().map_or("", |(_, name)| name)
    }

    /// Whether a row of a users file names it: `subject:`, `dns:`, `uri:` or `email:` and a name of
    /// that kind; or a name alone, which is the common name, or any alternative name without one.
    #[must_use]
    pub fn is_meant_by(&self, row: &str) -> bool {
        let has = |kind: NameKind, row: &str| {
            let mut names = self.names.iter();
            names.any(|(of, name)| *of == kind && **name == *row)
        };
        for kind in NameKind::ALL {
            if let Some(name) = row.strip_prefix(kind.word()) {
                return has(kind, name);
            }
        }
        match self.names.first() {
            Some((NameKind::Subject, name)) => **name == *row,
            _ => self.names.iter().any(|(_, name)| **name == *row),
        }
    }
}

fn kind_and_text(name: &GeneralName<'_>) -> Option<(NameKind, Box<str>)> {
    match name {
        GeneralName::DNSName(name) => Some((NameKind::Dns, Box::from(*name))),
        GeneralName::URI(name) => Some((NameKind::Uri, Box::from(*name))),
        GeneralName::RFC822Name(name) => Some((NameKind::Email, Box::from(*name))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    /// The owner of a certificate with these names: of a host, as a URI, of mail.
    fn owner(common: Option<&str>, names: [Option<&str>; 3]) -> Option<Owner> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        let kinds = [SanType::DnsName, SanType::URI, SanType::Rfc822Name];
        for (name, kind) in names.into_iter().zip(kinds) {
            let name = name.map(|name| kind(name.try_into().unwrap()));
            params.subject_alt_names.extend(name);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Owner::of(certificate.der())
    }

    const NAMES: [Option<&str>; 3] = [Some("a.example"), Some("spiffe://a/b"), Some("a@b.example")];

    #[test]
    fn an_owner_is_called_by_the_common_name_or_else_by_another() {
        let of = |common, names| owner(common, names).map(|owner| owner.identity().to_owned());
        assert_eq!(of(Some("alice"), NAMES).as_deref(), Some("alice"));
        assert_eq!(of(None, NAMES).as_deref(), Some("a.example"));
        let mail = [None, None, NAMES[2]];
        assert_eq!(of(Some(""), mail).as_deref(), Some("a@b.example"));
        assert_eq!(of(None, [None; 3]), None);
        assert_eq!(Owner::of(b"no certificate"), None);
    }

    #[test]
    fn a_row_means_a_name_of_its_kind_or_what_the_owner_is_called() {
        let named = owner(Some("alice"), NAMES).unwrap();
        let unnamed = owner(None, NAMES).unwrap();
        for (row, expected) in [
            ("alice", [true, false]),
            ("subject:alice", [true, false]),
            ("a.example", [false, true]),
            ("spiffe://a/b", [false, true]),
            ("a@b.example", [false, true]),
            ("dns:a.example", [true, true]),
            ("uri:spiffe://a/b", [true, true]),
            ("email:a@b.example", [true, true]),
            ("dns:alice", [false, false]),
            ("uri:a.example", [false, false]),
            ("dns:", [false, false]),
            ("Alice", [false, false]),
        ] {
            let meant = [&named, &unnamed].map(|owner| owner.is_meant_by(row));
            assert_eq!(meant, expected, "{row}");
        }
    }
}
