//! Certificates that are trusted themselves, not by an authority's signature: `cafile=` names the
//! peer's own. webpki takes a self-signed one for an authority's, and parses none of version 1.

use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, Error};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// The certificates that `cafile=` and `capath=` name.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned(pub Vec<CertificateDer<'static>>);

impl Pinned {
    /// Is this one of them, valid `now` and for `name`? `None` if it is none of them, and an
    /// authority has to vouch for it.
    pub fn check(
        &self,
        own: &CertificateDer<'_>,
        name: Option<&ServerName<'_>>,
        now: UnixTime,
    ) -> Option<Result<(), Error>> {
        let is_pinned = self.0.iter().any(|pinned| pinned == own);
        is_pinned.then(|| {
            let parsed = parsed(own)?;
            let seconds = |time: i64| {
                UnixTime::since_unix_epoch(std::time::Duration::from_secs(
                    u64::try_from(time).unwrap_or(0),
                ))
            };
            let not_before = seconds(parsed.validity().not_before.timestamp());
            let not_after = seconds(parsed.validity().not_after.timestamp());
            if now < not_before {
                return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
            }
            if now > not_after {
                return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
            }
            name.map_or(Ok(()), |name| is_for(&parsed, name))
        })
    }
}

/// The key of a certificate, by which a handshake of TLS 1.3 is signed.
pub(super) fn public_key(
    own: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    Ok(parsed(own)?.public_key().raw.to_vec().into())
}

/// The bits of the key of a certificate of version 1, which webpki does not parse.
pub(super) fn key_bits_of_v1(own: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = parsed(own).ok()?;
    let bits = parsed.public_key().subject_public_key.data.to_vec();
    (parsed.version() == X509Version::V1).then_some(bits)
}

fn parsed<'a>(own: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    match X509Certificate::from_der(own) {
        Ok((_, parsed)) => Ok(parsed),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}

/// Is the certificate, which is verified otherwise, for `name`?
pub(super) fn has_name(own: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    is_for(&parsed(own)?, name)
}

/// Is the certificate for `name`? One without a subjectAltName is for its common name (RFC 2818).
fn is_for(own: &X509Certificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let alternative = own.subject_alternative_name().ok().flatten();
    let names: Vec<String> = match alternative {
        Some(names) => names.value.general_names.iter().filter_map(shown).collect(),
        None => {
            let common = own.subject().iter_common_name().filter_map(|name| name.as_str().ok());
            // An address of IPv6 is often given its brackets there.
            common.map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
        }
    };
    let wanted = name.to_str();
    if names.iter().any(|given| is_same(given, &wanted)) {
        return Ok(());
    }
    let presented = names.iter().map(|name| format!("DnsName(\"{name}\")")).collect();
    let expected = name.to_owned();
    Err(CertificateError::NotValidForNameContext { expected, presented }.into())
}

fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// Letters of either case are the same, and `*` is one label (RFC 6125, 6.4.3).
fn is_same(given: &str, wanted: &str) -> bool {
    match given.strip_prefix("*.") {
        Some(rest) => {
            wanted.split_once('.').is_some_and(|(_, parent)| parent.eq_ignore_ascii_case(rest))
        }
        None => given.eq_ignore_ascii_case(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(is_same("*.example.org", "a.EXAMPLE.org") && is_same("Localhost", "localhost"));
        assert!(!is_same("*.example.org", "a.b.example.org") && !is_same("*.org", "org"));
    }
}
