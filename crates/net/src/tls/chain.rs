//! Chain: checks that the certificates of a file are those that their issuers signed.
//!
//! The key of an issuer in the same file verifies the signature of each certificate that names it,
//! and the first of several has its issuer there. The last one's issuer is usually only at the
//! clients: then its signature cannot be checked, but an issuer uses a serial number once, so a
//! certificate that differs from the one in force with its number is damaged. A signature by an
//! unsupported algorithm is left to the clients.
//!
//! Why: docs/decisions/0041. Tests: at the end of this file, server/tests/tls.rs.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

/// Checks the certificates of a file against each other.
///
/// Cost: one verification of a signature for each, some 0.1 ms.
///
/// # Errors
/// Which of them is wrong, counted from 1, and why.
pub(super) fn check(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let mut parsed = Vec::new();
    for (place, der) in chain.iter().enumerate() {
        let one = parse(der).ok_or_else(|| wrong(place, "cannot be understood"))?;
        parsed.push(one);
    }
    for (place, one) in parsed.iter().enumerate() {
        let mut issuers = parsed
            .iter()
            .filter(|issuer| is_issuer(issuer, one))
            .peekable();
        if issuers.peek().is_none() {
            if place == 0 && parsed.len() > 1 {
                return Err(wrong(place, "has no issuer in the file"));
            }
            continue;
        }
        if !issuers.any(|issuer| is_signed_by(one, issuer)) {
            return Err(wrong(
                place,
                "does not have the signature of its issuer in the file",
            ));
        }
    }
    Ok(())
}

/// Checks that no certificate differs from one in force with the same issuer and serial number.
///
/// # Errors
/// Which of them it is, counted from 1.
pub(super) fn check_beside(
    in_force: &[CertificateDer<'_>],
    chain: &[CertificateDer<'_>],
) -> Result<(), String> {
    let known: Vec<_> = in_force
        .iter()
        .filter_map(|der| Some((der, parse(der)?)))
        .collect();
    for (place, der) in chain.iter().enumerate() {
        let Some(one) = parse(der) else { continue };
        let is_same = |other: &X509Certificate<'_>| {
            other.issuer.as_raw() == one.issuer.as_raw() && other.raw_serial() == one.raw_serial()
        };
        if known
            .iter()
            .any(|(known, other)| is_same(other) && *known != der)
        {
            return Err(wrong(
                place,
                "differs from the one in force that has its issuer and serial number",
            ));
        }
    }
    Ok(())
}

fn wrong(place: usize, what: &str) -> String {
    format!("certificate {} {what}", place + 1)
}

/// A certificate; none if it cannot be understood, or names two algorithms for its signature.
fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, one) = X509Certificate::from_der(der).ok()?;
    let is_whole = rest.is_empty() && one.signature_algorithm == one.tbs_certificate.signature;
    is_whole.then_some(one)
}

/// Whether a certificate names this one as its issuer, by name and, if both have it, by key.
fn is_issuer(issuer: &X509Certificate<'_>, of: &X509Certificate<'_>) -> bool {
    if issuer.subject.as_raw() != of.issuer.as_raw() {
        return false;
    }
    let own = issuer
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
            _ => None,
        });
    let named = of
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                id.key_identifier.as_ref().map(|key| key.0)
            }
            _ => None,
        });
    own.is_none() || named.is_none() || own == named
}

fn is_signed_by(one: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    let verified = one.verify_signature(Some(issuer.public_key()));
    matches!(
        verified,
        Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm)
    )
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    type Der = CertificateDer<'static>;

    fn params(name: &str, is_ca: IsCa) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.is_ca = is_ca;
        params
    }

    /// A server's certificate, that of its issuer, and the root's.
    fn chain() -> [Der; 3] {
        let ca = || IsCa::Ca(BasicConstraints::Unconstrained);
        let [root_key, middle_key, key] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let root = params("root", ca()).self_signed(&root_key).unwrap();
        let issuer = Issuer::new(params("root", ca()), root_key);
        let middle = params("middle", ca())
            .signed_by(&middle_key, &issuer)
            .unwrap();
        let issuer = Issuer::new(params("middle", ca()), middle_key);
        let server = params("server", IsCa::NoCa)
            .signed_by(&key, &issuer)
            .unwrap();
        [server, middle, root].map(|one| one.der().clone())
    }

    fn flipped(der: &Der, at: usize) -> Der {
        let mut bytes = der.to_vec();
        bytes[at] ^= 1;
        bytes.into()
    }

    #[test]
    fn whole_chains_are_taken_in_any_order_and_with_others_beside() {
        let ([server, middle, root], [_, other, _]) = (chain(), chain());
        for chain in [
            &[server.clone()][..],
            std::slice::from_ref(&root),
            &[server.clone(), middle.clone()],
            &[server.clone(), middle.clone(), root.clone()],
            &[server.clone(), root.clone(), middle.clone()],
            &[server.clone(), other, middle.clone()],
        ] {
            assert_eq!(check(chain), Ok(()));
            assert_eq!(check_beside(chain, chain), Ok(()));
        }
        assert!(
            check(&[server, root])
                .unwrap_err()
                .contains("has no issuer in the file")
        );
    }

    #[test]
    fn a_changed_byte_of_a_signed_certificate_is_noticed() {
        let [server, middle, root] = chain();
        let of_server =
            (0..server.len()).map(|at| [flipped(&server, at), middle.clone(), root.clone()]);
        let of_middle =
            (0..middle.len()).map(|at| [server.clone(), flipped(&middle, at), root.clone()]);
        let overlooked = of_server
            .chain(of_middle)
            .filter(|chain| check(chain).is_ok());
        // The bytes that make the middle one name an issuer elsewhere, and an algorithm identifier
        // that the parser ignores.
        let overlooked = overlooked.count();
        assert!(overlooked < 60, "{overlooked}");
    }

    #[test]
    fn where_the_root_is_elsewhere_the_issuer_in_force_shows_what_is_damaged() {
        let [server, middle, _] = chain();
        let whole = [server.clone(), middle.clone()];
        let is_noticed = |at: &usize| {
            let chain = [server.clone(), flipped(&middle, *at)];
            check(&chain).is_err() || check_beside(&whole, &chain).is_err()
        };
        let overlooked = (0..middle.len()).filter(|at| !is_noticed(at)).count();
        // Its own number, and the name of its issuer.
        assert!(
            overlooked * 6 < middle.len(),
            "{overlooked} of {}",
            middle.len()
        );
        let cut = [server, middle[..middle.len() - 20].to_vec().into()];
        assert!(check(&cut).is_err());
    }
}
