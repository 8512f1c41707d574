//! The errors of rustls, as sentences with a remedy.

use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error};

use crate::open::OpenError;

const STEP: &str = "TLS handshake";

pub(super) fn late(limit: Duration) -> OpenError {
    OpenError::said(STEP, format!("the peer did not finish it within {limit:?}"))
        .hinted("does it speak TLS? handshake-timeout=SECONDS gives it more time")
}

/// A handshake that failed on the side that connects.
pub(super) fn of_client(error: io::Error) -> OpenError {
    match tls(&error) {
        Some(Error::InvalidCertificate(why)) => certificate("the server's certificate", why),
        found => common(found, error.to_string(), &error),
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
        // What is no TLS at all is read as a record that makes no sense.
        Some(Error::InvalidMessage(_) | Error::InappropriateMessage { .. }) => {
            OpenError::said(STEP, "the peer does not speak TLS")
                .hinted("for a plain connection say tcp, or tcp-listen")
        }
        Some(Error::PeerIncompatible(why)) => {
            OpenError::said(STEP, format!("nothing is spoken by both sides: {why:?}"))
        }
        Some(Error::NoApplicationProtocol) => OpenError::said(STEP, NO_PROTOCOL),
        Some(Error::AlertReceived(alert)) => {
            let (what, hint) = alert_received(*alert);
            OpenError::said(STEP, what).hinted_by(hint)
        }
        Some(_) => OpenError::said(STEP, text),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::said(STEP, "the peer closed the connection before it was done")
                .hinted("does it speak TLS?")
        }
        None => match error.raw_os_error() {
            Some(errno) => OpenError::new(STEP, io::Error::from_raw_os_error(errno)),
            None => OpenError::said(STEP, text),
        },
    }
}

fn certificate(whose: &str, why: &CertificateError) -> OpenError {
    let said = |what: String| OpenError::said(STEP, format!("{whose} {what}"));
    match why {
        // Of the certificate, where an authority of the same name signed something else, or of the handshake.
        CertificateError::BadSignature => said(
            "is signed by no authority that is trusted, or is shown by somebody who has not its key".into(),
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
                false => presented.iter().map(|name| bare(name)).collect::<Vec<_>>().join(", "),
            };
            said(format!("is not for {}: its names are {names}", expected.to_str()))
                .hinted("commonname=NAME says which name it must have")
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
        .hinted(
            "make it with -addext basicConstraints=critical,CA:FALSE, or by gush link --make-cert",
        ),
        other => said(format!("is not accepted: {other}")),
    }
}

fn days(seconds: u64) -> String {
    match seconds / 86_400 {
        0 => "less than a day".into(),
        1 => "a day".into(),
        days => format!("{days} days"),
    }
}

/// `localhost` of `DnsName("localhost")`, as webpki shows a name of a certificate.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

const NO_PROTOCOL: &str = "no protocol of alpn= is known to both sides";

/// The meaning of a peer's alert (RFC 8446, 6.2), and the remedy.
fn alert_received(alert: AlertDescription) -> (String, Option<&'static str>) {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => {
            ("the peer wants a certificate of ours".into(), Some("cert=FILE,key=FILE names one"))
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked => (
            format!("the peer refuses our certificate ({alert:?})"),
            Some("it must trust the authority, and of a server expects the name that it asked for"),
        ),
        Alert::ProtocolVersion => (
            "the peer speaks no version of TLS that we do".into(),
            Some("1.2 and 1.3 are spoken, or what min-version= leaves of these"),
        ),
        Alert::NoApplicationProtocol => (NO_PROTOCOL.into(), None),
        _ => (format!("the peer refuses ({alert:?})"), None),
    }
}

/// The error of a stream that is open: in TLS 1.3 a server may refuse our certificate only then.
pub(super) fn of_stream(error: io::Error) -> io::Error {
    if let Some(tls) = tls(&error) {
        let what = match tls {
            Error::AlertReceived(alert) => match alert_received(*alert) {
                (what, Some(hint)) => format!("TLS: {what} ({hint})"),
                (what, None) => format!("TLS: {what}"),
            },
            other => format!("TLS: {other}"),
        };
        return io::Error::new(error.kind(), what);
    }
    match (error.kind(), error.raw_os_error()) {
        // Without a number of the kernel's it is rustls that tells of a missing close_notify.
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
