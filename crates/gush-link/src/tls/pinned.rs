//! Certificates that are trusted themselves, not by an authority's signature: `cafile=` names the
//! peer's own, which is self-signed. webpki takes it for an authority's, and parses no version 1.

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, Error};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ExtendedKeyUsage;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// The self-signed certificates that `cafile=` and `capath=` name.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned(pub Vec<CertificateDer<'static>>);

impl Pinned {
    /// Is this one of them, valid `now`, and for this `purpose`? An authority has to vouch for any
    /// other.
    pub fn holds(
        &self,
        own: &CertificateDer<'_>,
        now: UnixTime,
        purpose: fn(&ExtendedKeyUsage<'_>) -> bool,
    ) -> Result<bool, Error> {
        if !self.0.iter().any(|pinned| pinned == own) {
            return Ok(false);
        }
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
        let usage = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
        match usage.is_none_or(|usage| usage.value.any || purpose(usage.value)) {
            true => Ok(true),
            false => Err(CertificateError::InvalidPurpose.into()),
        }
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

/// Does no other vouch for the certificate?
pub(super) fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    parsed(certificate).is_ok_and(|parsed| parsed.subject() == parsed.issuer())
}

/// The parts of a certificate of any version.
pub(super) fn parsed<'a>(own: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    match X509Certificate::from_der(own) {
        Ok((_, parsed)) => Ok(parsed),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}
