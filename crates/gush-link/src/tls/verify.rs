//! Verifies servers by another name than the one in SNI, or not at all, and clients.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::material::Authorities;
use super::names;
use super::pinned;

/// Which server certificates are accepted.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Those for `name`, whatever the SNI, that the authorities vouch for.
    Named { name: Name, by: Authorities },
    /// Any: for `verify=0`.
    Any,
}

/// The name that a server's certificate must have.
#[derive(Debug)]
pub(super) enum Name {
    /// By the rules of webpki, or of a pinned certificate.
    Host(ServerName<'static>),
    /// As `commonname=` says.
    Common(String),
}

/// The signatures of handshakes, for either verifier.
macro_rules! verifies_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12(message, certificate, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// Accepts a wanted certificate; signatures are always verified.
#[derive(Debug)]
pub(super) struct Verifier {
    pub wanted: Wanted,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Wanted::Named { name, by } = &self.wanted {
            let is_pinned = by.pinned.holds(own, now, |usage| usage.server_auth)?;
            if !is_pinned {
                let (own, algorithms) = (ParsedCertificate::try_from(own)?, self.algorithms.all);
                let (roots, between) = (&by.roots, by.with_known(between));
                verify_server_cert_signed_by_trust_anchor(&own, roots, &between, now, algorithms)?;
            }
            match name {
                Name::Common(name) => names::check_common(own, name)?,
                Name::Host(host) if is_pinned => names::check_host(own, host)?,
                Name::Host(host) => verify_server_name(&ParsedCertificate::try_from(own)?, host)?,
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    verifies_signatures!();
}

fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let Some(key) = pinned::key_bits_of_v1(certificate) else {
        return verify_tls12_signature(message, certificate, signed, algorithms);
    };
    // One scheme of TLS 1.2 may stand for several curves, of which the key has one.
    let of_scheme = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
    let mut fitting = of_scheme.flat_map(|(_, fitting)| fitting.iter());
    let is_signed = |algorithm: &&dyn SignatureVerificationAlgorithm| {
        algorithm.verify_signature(&key, message, signed.signature()).is_ok()
    };
    match fitting.any(is_signed) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// By the key alone: webpki parses no certificate of version 1.
fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = pinned::public_key(certificate)?;
    verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
}

/// Accepts clients whose certificate is pinned, or that `chain` accepts.
#[derive(Debug)]
pub(super) struct Clients {
    /// The name that their certificates have, if only those are accepted.
    pub name: Option<String>,
    pub by: Authorities,
    pub chain: Arc<dyn ClientCertVerifier>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !self.by.pinned.holds(own, now, |usage| usage.client_auth)? {
            self.chain.verify_client_cert(own, &self.by.with_known(between), now)?;
        }
        self.name.as_ref().map_or(Ok(()), |name| names::check_common(own, name))?;
        Ok(ClientCertVerified::assertion())
    }

    verifies_signatures!();
}
