//! The errors of rustls, with remedies.

use std::io;
use std::time::Duration;

use gush_text::with_unit;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::names::NotFor;
use crate::open::OpenError;

const STEP: &str = "TLS handshake";
const DOUBT: &str = "does it speak TLS?";
const EXPECTED_NAME: &str = "commonname=NAME says which name it must have";

pub(super) fn late(limit: Duration) -> OpenError {
    OpenError::said(STEP, format!("the peer did not finish it within {}", with_unit(limit)))
        .hinted("does it speak TLS? handshake-timeout=SECONDS gives it more time")
}

/// A handshake that failed on the side that connects.
pub(super) fn of_client(error: io::Error) -> OpenError {
    match tls(&error) {
        Some(Error::InvalidCertificate(why)) => {
            let failed = certificate("the server's certificate", why);
            // Its name is no part of the handshake for socat.
            if is_of_name(why) { failed } else { failed.refused() }
        }
        found => common(found, error.to_string(), &error).refused(),
    }
}

/// A handshake that failed on the side that accepts.
pub(super) fn of_server(error: io::Error) -> OpenError {
    match tls(&error) {
        Some(Error::InvalidCertificate(why)) => certificate("the client's certificate", why),
        Some(Error::NoCertificatesPresented) => {
            OpenError::said(STEP, "the client shows no certificate")
                .hinted("verify=0 lets in clients without one")
        }
        found => common(found, error.to_string(), &error),
    }
}

/// The errors possible on both sides.
fn common(found: Option<&Error>, text: String, error: &io::Error) -> OpenError {
    match found {
        Some(found) => {
            let (why, hint) = described(found);
            OpenError::said(STEP, why).hinted_by(hint)
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::said(STEP, "the peer closed the connection before it was done").hinted(DOUBT)
        }
        None => {
            let failed = match error.raw_os_error() {
                Some(errno) => OpenError::new(STEP, io::Error::from_raw_os_error(errno)),
                None => OpenError::said(STEP, text),
            };
            match error.kind() {
                // A close with unread data resets the connection.
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => failed.hinted(DOUBT),
                _ => failed,
            }
        }
    }
}

/// An error that is not about a certificate, and the remedy.
fn described(error: &Error) -> (String, Option<&'static str>) {
    const ANOTHER: &str =
        "its software, or something between, does not speak TLS as the standard says";
    match error {
        // Bytes that are not TLS are read as an invalid record.
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => (
            "the peer does not speak TLS".into(),
            Some("for a plain connection say tcp, or tcp-listen"),
        ),
        Error::PeerIncompatible(why) => {
            let (lack, hint) = incompatible(why);
            (format!("nothing is spoken by both sides: {lack}"), hint)
        }
        Error::PeerMisbehaved(why) => (
            format!("the peer breaks the rules of TLS: {}", as_words(&format!("{why:?}"))),
            Some(ANOTHER),
        ),
        Error::NoApplicationProtocol => (NO_PROTOCOL.into(), None),
        Error::AlertReceived(alert) => alert_received(*alert),
        Error::General(why) => (why.clone(), None),
        Error::DecryptError => (
            "a record from the peer was altered on the way".into(),
            Some("something in between changes bytes"),
        ),
        other => (other.to_string(), None),
    }
}

/// The part of TLS that one side lacks, and the remedy.
fn incompatible(why: &PeerIncompatible) -> (String, Option<&'static str>) {
    use PeerIncompatible as Lack;
    const VERSIONS: &str = "1.2 and 1.3 are spoken, or what min-version= leaves of these";
    const UPDATE: &str = "the peer must allow one that is safe today: update or reconfigure it";
    let (lack, hint) = match why {
        Lack::ServerDoesNotSupportTls12Or13
        | Lack::ServerTlsVersionIsDisabledByOurConfig
        | Lack::SupportedVersionsExtensionRequired
        | Lack::Tls12NotOffered
        | Lack::Tls12NotOfferedOrEnabled => ("no version of TLS", VERSIONS),
        Lack::NoCipherSuitesInCommon => ("no cipher suite", UPDATE),
        Lack::NoKxGroupsInCommon
        | Lack::NamedGroupsExtensionRequired
        | Lack::KeyShareExtensionRequired
        | Lack::NoEcPointFormatsInCommon
        | Lack::EcPointsExtensionRequired
        | Lack::UncompressedEcPointsRequired => ("no way to agree on a key", UPDATE),
        Lack::NoSignatureSchemesInCommon
        | Lack::NoCertificateRequestSignatureSchemesInCommon
        | Lack::SignatureAlgorithmsExtensionRequired => (
            "no kind of signature",
            "the key of the certificate decides that: cert=FILE,key=FILE names another, such as ECDSA P-256",
        ),
        Lack::ExtendedMasterSecretExtensionRequired => ("no extended master secret", UPDATE),
        other => return (as_words(&format!("{other:?}")), None),
    };
    (lack.into(), Some(hint))
}

/// `no cipher suites in common` for `NoCipherSuitesInCommon`.
fn as_words(variant: &str) -> String {
    // A variant may have a value.
    let name = variant.split(['(', ' ', '{']).next().unwrap_or_default();
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn certificate(whose: &str, why: &CertificateError) -> OpenError {
    let said = |what: String| OpenError::said(STEP, format!("{whose} {what}"));
    if let Some((what, hint)) = unusable(why) {
        return said(what.to_owned()).hinted(hint);
    }
    match why {
        // Of the certificate, by another authority of the same name, or of the handshake.
        CertificateError::BadSignature => said(
            "is signed by no authority that is trusted, or the peer does not have its key".into(),
        )
        .hinted("cafile=FILE names an authority to trust; the key must be that of the certificate"),
        CertificateError::UnknownIssuer
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            said("is signed by no authority that is trusted".into())
                .hinted("cafile=FILE names an authority to trust")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = match presented.is_empty() {
                true => "none (a subjectAltName is needed, a common name does not count)".into(),
                false => presented.iter().map(|name| typed(name)).collect::<Vec<_>>().join(", "),
            };
            let kind = if matches!(expected, ServerName::IpAddress(_)) { "IP" } else { "DNS" };
            said(format!("is not for {kind}:{}: its names are {names}", expected.to_str()))
                .hinted(EXPECTED_NAME)
        }
        CertificateError::Other(other) if is_of_name(why) => {
            said(other.to_string()).hinted(EXPECTED_NAME)
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            said(format!("has expired, {} ago", days(ago)))
                .hinted("renew it; is this machine's clock right?")
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = not_before.as_secs().saturating_sub(time.as_secs());
            said(format!("is valid only in {}", days(left)))
                .hinted("is this machine's clock right?")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            said(format!("is for another purpose: {why}"))
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => said(
            "is an authority's own (basicConstraints CA:TRUE)".into(),
        )
        .hinted("cafile=FILE may name it itself; gush link --make-cert makes one of a server"),
        other => said(format!("is not accepted: {other}")),
    }
}

fn is_of_name(why: &CertificateError) -> bool {
    match why {
        CertificateError::NotValidForNameContext { .. } => true,
        CertificateError::Other(other) => other.0.is::<NotFor>(),
        _ => false,
    }
}

fn days(seconds: u64) -> String {
    match seconds / 86_400 {
        0 => "less than a day".into(),
        1 => "a day".into(),
        days => format!("{days} days"),
    }
}

/// `DNS:localhost` of `DnsName("localhost")`, as webpki shows a name of a certificate.
fn typed(name: &str) -> String {
    let Some((kind, inner)) = name.split_once('(') else { return name.to_owned() };
    let kind = match kind {
        "DnsName" => "DNS",
        "IpAddress" => "IP",
        other => other,
    };
    format!("{kind}:{}", inner.trim_end_matches(')').trim_matches('"'))
}

/// What is wrong with any certificate like this, for any verifier, and the remedy.
pub(super) fn unusable(why: &CertificateError) -> Option<(&'static str, &'static str)> {
    match why {
        CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            Some((
                "is of version 1 of X.509, and version 3 is needed",
                "cafile=FILE may name it itself; gush link --make-cert makes version 3",
            ))
        }
        CertificateError::BadEncoding => {
            Some(("is malformed", "openssl x509 -in FILE -text shows what is in it"))
        }
        _ => None,
    }
}

const NO_PROTOCOL: &str = "no protocol of alpn= is known to both sides";

/// The meaning of a peer's alert (RFC 8446, 6.2) with the alert's name there, and the remedy.
fn alert_received(alert: AlertDescription) -> (String, Option<&'static str>) {
    use AlertDescription as Alert;
    let name = alert_name(alert);
    let with_name = |what: &str| format!("{what} ({name})");
    match alert {
        Alert::CertificateRequired => {
            (with_name("the peer requires a certificate"), Some("cert=FILE,key=FILE names one"))
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateRevoked => (
            with_name("the peer refuses our certificate"),
            Some("it must trust the authority, and of a server expects the name that it asked for"),
        ),
        Alert::CertificateExpired => (
            with_name("the peer refuses our certificate"),
            Some("it has expired for the peer: renew it; is the clock right on both sides?"),
        ),
        Alert::ProtocolVersion => (
            with_name("the peer speaks no version of TLS that we do"),
            Some("1.2 and 1.3 are spoken, or what min-version= leaves of these"),
        ),
        Alert::HandshakeFailure | Alert::InsufficientSecurity => (
            with_name("the peer finds nothing that both sides speak"),
            Some(
                "it may want a certificate (cert=FILE,key=FILE), or ciphers that are not safe today",
            ),
        ),
        Alert::UnrecognisedName => (
            with_name("the peer serves no such name"),
            Some("sni=NAME, or the host in the address, says which one is asked for"),
        ),
        Alert::AccessDenied => (
            with_name("the peer lets our certificate in, and not us"),
            Some("its rules decide that; cert=FILE,key=FILE names another certificate"),
        ),
        Alert::DecryptError => (
            with_name("the peer cannot verify a signature of ours"),
            Some(
                "the key must be that of the certificate, and the peer must trust the authority that signed it",
            ),
        ),
        Alert::InternalError => {
            (with_name("the peer failed by itself"), Some("its own log may say why; try again"))
        }
        Alert::UserCanceled => (with_name("the peer gave the handshake up"), Some("try again")),
        Alert::NoApplicationProtocol => {
            (with_name(NO_PROTOCOL), Some("alpn=NAME+NAME names those to offer"))
        }
        Alert::DecodeError
        | Alert::IllegalParameter
        | Alert::UnexpectedMessage
        | Alert::BadRecordMac
        | Alert::RecordOverflow => (
            with_name("the peer does not take what it received"),
            Some("does it speak TLS at this port? something between may change bytes"),
        ),
        _ => (with_name("the peer refuses"), Some("its own log may say why")),
    }
}

/// The name of an alert in the registry of TLS alerts (RFC 8446, B.2, and IANA).
fn alert_name(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::UnknownCA => "unknown_ca".into(),
        Alert::UnrecognisedName => "unrecognized_name".into(),
        Alert::UnknownPSKIdentity => "unknown_psk_identity".into(),
        // Reserved since TLS 1.1.
        Alert::NoCertificate => "no_certificate_RESERVED".into(),
        Alert::Unknown(number) => format!("alert {number}"),
        named => as_words(&format!("{named:?}")).replace(' ', "_"),
    }
}

/// The error of an established stream: in TLS 1.3 a server may refuse our certificate only then.
pub(super) fn of_stream(error: io::Error) -> io::Error {
    if let Some(tls) = tls(&error) {
        let what = match described(tls) {
            (what, Some(hint)) => format!("TLS: {what} ({hint})"),
            (what, None) => format!("TLS: {what}"),
        };
        return io::Error::new(error.kind(), what);
    }
    match (error.kind(), error.raw_os_error()) {
        // Without an errno, it is rustls that reports a missing close_notify.
        (io::ErrorKind::UnexpectedEof, None) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "TLS: the connection ended without close_notify, so what came may be cut",
        ),
        _ => error,
    }
}

fn tls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_certificate_has_its_type() {
        // As in `openssl x509 -text`: a name may look like an address.
        assert_eq!(typed("DnsName(\"127.0.0.1\")"), "DNS:127.0.0.1");
        assert_eq!(typed("IpAddress(127.0.0.1)"), "IP:127.0.0.1");
    }

    #[test]
    fn every_alert_has_its_registered_name_and_a_remedy() {
        // https://www.iana.org/assignments/tls-parameters, registry "TLS Alerts".
        for (number, name) in [
            (0, "close_notify"),
            (10, "unexpected_message"),
            (20, "bad_record_mac"),
            (22, "record_overflow"),
            (40, "handshake_failure"),
            (41, "no_certificate_RESERVED"),
            (42, "bad_certificate"),
            (43, "unsupported_certificate"),
            (44, "certificate_revoked"),
            (45, "certificate_expired"),
            (46, "certificate_unknown"),
            (47, "illegal_parameter"),
            (48, "unknown_ca"),
            (49, "access_denied"),
            (50, "decode_error"),
            (51, "decrypt_error"),
            (70, "protocol_version"),
            (71, "insufficient_security"),
            (80, "internal_error"),
            (86, "inappropriate_fallback"),
            (90, "user_canceled"),
            (109, "missing_extension"),
            (110, "unsupported_extension"),
            (112, "unrecognized_name"),
            (113, "bad_certificate_status_response"),
            (115, "unknown_psk_identity"),
            (116, "certificate_required"),
            (120, "no_application_protocol"),
            (200, "alert 200"),
        ] {
            let (what, hint) = described(&Error::AlertReceived(AlertDescription::from(number)));
            assert!(what.ends_with(&format!(" ({name})")), "{number}: {what}");
            assert!(hint.is_some(), "{number}: {what}");
        }
    }

    #[test]
    fn reasons_of_the_library_are_words() {
        use rustls::PeerMisbehaved;
        let said = |error: Error| OpenError::to_string(&of_client(io::Error::other(error)));
        let suites = said(PeerIncompatible::NoCipherSuitesInCommon.into());
        assert!(suites.ends_with("nothing is spoken by both sides: no cipher suite"), "{suites}");
        let rare = said(PeerIncompatible::NullCompressionRequired.into());
        assert!(rare.ends_with("by both sides: null compression required"), "{rare}");
        let general = said(Error::General("no luck".to_owned()));
        assert_eq!(general, "TLS handshake: no luck");
        let with_value = said(PeerIncompatible::ServerRejectedEncryptedClientHello(None).into());
        assert!(with_value.ends_with(": server rejected encrypted client hello"), "{with_value}");
        let bad = said(PeerMisbehaved::TooMuchEarlyDataReceived.into());
        assert!(bad.ends_with("rules of TLS: too much early data received"), "{bad}");
        let open = of_stream(io::Error::other(Error::from(PeerMisbehaved::TooManyEmptyFragments)));
        assert!(open.to_string().contains("too many empty fragments ("), "{open}");
    }
}
