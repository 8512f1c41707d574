//! The names of a certificate: those that `commonname=` is compared with, and those of a pinned
//! certificate. The other comparison is webpki's.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, Error, OtherError};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::pinned::parsed;

/// A name of a certificate, and its kind as `openssl x509 -text` displays it.
#[derive(Debug)]
pub(super) struct Name {
    pub kind: &'static str,
    pub text: String,
}

/// The error of a certificate with other names.
#[derive(Debug)]
pub(super) struct NotFor {
    wanted: String,
    names: Vec<Name>,
}

impl fmt::Display for NotFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not for {}: its names are ", self.wanted)?;
        if self.names.is_empty() {
            return f.write_str("none");
        }
        for (at, Name { kind, text }) in self.names.iter().enumerate() {
            write!(f, "{}{kind}:{text}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFor {}

/// Has a verified certificate the name of `commonname=`? As in socat
/// (`openssl_handle_peer_certificate` of its xio-openssl.c) that is an alternative name or the
/// first common name.
pub(super) fn check_common(own: &CertificateDer<'_>, wanted: &str) -> Result<(), Error> {
    let own = parsed(own)?;
    let mut names = alternative_names(&own).unwrap_or_default();
    names.extend(common_names(&own).into_iter().take(1));
    let address = ipv6(wanted).map(|address| address.to_string());
    let is_wanted = |name: &Name| match name.kind {
        "IP" if name.text.contains(':') => address.as_ref() == Some(&name.text),
        _ => is_same(&name.text, wanted),
    };
    check(names, wanted, is_wanted)
}

/// Is a pinned certificate for the host? One without alternative names is for its common names
/// (RFC 2818).
pub(super) fn check_host(own: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    let own = parsed(own)?;
    let names = alternative_names(&own).unwrap_or_else(|| common_names(&own));
    let wanted = host.to_str();
    // An address of IPv6 is often given its brackets there.
    check(names, &wanted, |name| is_host(name.text.trim_matches(['[', ']']), &wanted))
}

fn check(names: Vec<Name>, wanted: &str, is_wanted: impl Fn(&Name) -> bool) -> Result<(), Error> {
    if names.iter().any(is_wanted) {
        return Ok(());
    }
    let error = NotFor { wanted: wanted.to_owned(), names };
    Err(CertificateError::Other(OtherError(Arc::new(error))).into())
}

fn common_names(own: &X509Certificate<'_>) -> Vec<Name> {
    let texts = own.subject().iter_common_name().map(|name| name.as_str().unwrap_or_default());
    texts.map(|text| Name { kind: "CN", text: text.to_owned() }).collect()
}

pub(super) fn alternative_names(own: &X509Certificate<'_>) -> Option<Vec<Name>> {
    let names = own.subject_alternative_name().ok().flatten()?;
    Some(names.value.general_names.iter().filter_map(alternative_name).collect())
}

fn alternative_name(name: &GeneralName<'_>) -> Option<Name> {
    match name {
        GeneralName::DNSName(name) => Some(Name { kind: "DNS", text: (*name).to_owned() }),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            Some(Name { kind: "IP", text: ip.to_string() })
        }
        _ => None,
    }
}

/// The address of IPv6 that `text` spells, also in brackets, and with the zone of a link-local one.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match inner.split_once('%') {
        None => inner.parse().ok(),
        Some((address, _)) => address.parse().ok().filter(Ipv6Addr::is_unicast_link_local),
    }
}

/// Letters of either case are the same, and `*` is one label (RFC 6125, 6.4.3).
fn is_host(given: &str, wanted: &str) -> bool {
    match given.strip_prefix("*.") {
        Some(rest) => {
            wanted.split_once('.').is_some_and(|(_, parent)| parent.eq_ignore_ascii_case(rest))
        }
        None => given.eq_ignore_ascii_case(wanted),
    }
}

/// Letter by letter; `*.` is one label or none (`openssl_check_name`).
fn is_same(given: &str, wanted: &str) -> bool {
    match given.strip_prefix("*.") {
        Some(rest) => {
            rest == wanted || wanted.split_once('.').is_some_and(|(_, parent)| parent == rest)
        }
        None => given == wanted,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    /// The answers of socat 1.8.0.3 to `OPENSSL:HOST:PORT,commonname=NAME` for certificates that
    /// cafile= names.
    #[test]
    fn commonname_accepts_what_socat_accepts() {
        const NAMES: &[&str] = &[
            "alice",
            "Alice",
            "bob",
            "Bob",
            "BOB",
            "Alice Smith",
            "example.org",
            "a.example.org",
            "A.example.org",
            "a.Example.org",
            "a.b.example.org",
            "*.example.org",
            "star",
            "x.star",
            "*.star",
            "127.0.0.1",
            "::1",
            "[::1]",
            "0::1",
            "[0::1]",
            "::1%lo",
            "::2",
            "[::2]",
            "FE80::1",
            "fe80::1%lo",
            "[fe80::1%lo]",
            "a",
            "b",
            "localhost",
            "q",
            "m",
            "after",
            "x",
        ];
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("alice", &[], &["alice"]),
            ("alice", &["DNS:bob"], &["alice", "bob"]),
            ("Alice Smith", &["DNS:Bob"], &["Bob", "Alice Smith"]),
            (
                "*.star",
                &["DNS:*.example.org"],
                &[
                    "example.org",
                    "a.example.org",
                    "A.example.org",
                    "*.example.org",
                    "star",
                    "x.star",
                    "*.star",
                ],
            ),
            (
                "[::2]",
                &["IP:127.0.0.1", "IP:::1"],
                &["127.0.0.1", "::1", "[::1]", "0::1", "[0::1]", "[::2]"],
            ),
            ("[::1]", &["IP:fe80::1"], &["[::1]", "FE80::1", "fe80::1%lo", "[fe80::1%lo]"]),
            ("x", &["DNS:127.0.0.1", "DNS:0::1"], &["127.0.0.1", "0::1", "x"]),
            ("", &["DNS:q"], &["q"]),
            ("m", &["URI:http://u", "DNS:after"], &["m", "after"]),
        ];
        let key = KeyPair::generate().expect("a key");
        for (common, alternatives, accepted) in cases {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            if !common.is_empty() {
                params.distinguished_name.push(DnType::CommonName, *common);
            }
            let read = |name: &&str| match name.split_once(':').expect("a kind") {
                ("DNS", name) => SanType::DnsName(name.try_into().expect("ASCII")),
                ("URI", name) => SanType::URI(name.try_into().expect("ASCII")),
                (_, ip) => SanType::IpAddress(ip.parse().expect("an address")),
            };
            params.subject_alt_names = alternatives.iter().map(read).collect();
            let own = params.self_signed(&key).expect("a certificate");
            for name in NAMES {
                let is_accepted = check_common(own.der(), name).is_ok();
                assert_eq!(
                    is_accepted,
                    accepted.contains(name),
                    "{common} {alternatives:?} {name}"
                );
            }
        }
    }

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(is_host("*.example.org", "a.EXAMPLE.org") && is_host("Localhost", "localhost"));
        assert!(!is_host("*.example.org", "a.b.example.org") && !is_host("*.org", "org"));
    }
}
