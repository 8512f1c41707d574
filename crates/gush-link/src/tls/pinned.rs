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

/// Is a client's certificate, which is verified otherwise, for `name`? As for socat
/// (`openssl_handle_peer_certificate` of its xio-openssl.c): by an alternative name or the first
/// common name.
pub(super) fn is_of_client(own: &CertificateDer<'_>, name: &str) -> Result<(), Error> {
    let own = parsed(own)?;
    let mut names = alternative_names(&own).unwrap_or_default();
    let common = own.subject().iter_common_name().next().and_then(|common| common.as_str().ok());
    // Of the names, an alternative one alone is an address, in whatever spelling.
    let address =
        name.parse::<std::net::Ipv6Addr>().map_or_else(|_| name.to_owned(), |ip| ip.to_string());
    if names.iter().any(|given| is_same_client(given, &address))
        || common.is_some_and(|given| is_same_client(given, name))
    {
        return Ok(());
    }
    names.extend(common.map(str::to_owned));
    Err(not_valid_for(ServerName::try_from(name.to_owned()).ok(), name, &names))
}

fn not_valid_for(expected: Option<ServerName<'static>>, name: &str, names: &[String]) -> Error {
    match expected {
        Some(expected) => {
            let presented = names.iter().map(|name| format!("DnsName(\"{name}\")")).collect();
            CertificateError::NotValidForNameContext { expected, presented }.into()
        }
        None => Error::General(format!(
            "the certificate is not for {name}: its names are {}",
            names.join(", ")
        )),
    }
}

/// Is the certificate for `name`? One without a subjectAltName is for its common name (RFC 2818).
fn is_for(own: &X509Certificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let names = alternative_names(own).unwrap_or_else(|| {
        let common = own.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        // An address of IPv6 is often given its brackets there.
        common.map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
    });
    let wanted = name.to_str();
    match names.iter().any(|given| is_same(given, &wanted)) {
        true => Ok(()),
        false => Err(not_valid_for(Some(name.to_owned()), &wanted, &names)),
    }
}

fn alternative_names(own: &X509Certificate<'_>) -> Option<Vec<String>> {
    let names = own.subject_alternative_name().ok().flatten()?;
    Some(names.value.general_names.iter().filter_map(shown).collect())
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

/// Letter by letter; `*.` is one label or none.
fn is_same_client(given: &str, wanted: &str) -> bool {
    match given.strip_prefix("*.") {
        Some(rest) => {
            rest == wanted || wanted.split_once('.').is_some_and(|(_, parent)| parent == rest)
        }
        None => given == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_compared_as_by_socat() {
        for (given, wanted, expected) in [
            ("alice", "alice", true),
            ("Alice", "alice", false),
            ("Alice Smith", "Alice Smith", true),
            ("*.alice", "alice", true),
            ("*.alice", "a.alice", true),
            ("*.alice", "b.a.alice", false),
            ("*.alice", "Alice", false),
            ("a.alice", "*.alice", false),
            ("::1", "0::1", false),
            ("127.0.0.1", "127.0.0.2", false),
        ] {
            assert_eq!(is_same_client(given, wanted), expected, "{given}, {wanted}");
        }
    }

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(is_same("*.example.org", "a.EXAMPLE.org") && is_same("Localhost", "localhost"));
        assert!(!is_same("*.example.org", "a.b.example.org") && !is_same("*.org", "org"));
    }
}
