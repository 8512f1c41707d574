//! Verifies servers by another name than the one in SNI, or not at all, and clients.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::pinned::{self, Pinned};

/// Which server certificates are accepted.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Those for `name`, whatever the SNI, that are `pinned` or that `chain` accepts.
    Named { name: ServerName<'static>, pinned: Pinned, chain: Arc<dyn ServerCertVerifier> },
    /// Any: for `verify=0`.
    Any,
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
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.wanted {
            Wanted::Named { name, pinned, chain } => match pinned.check(own, Some(name), now) {
                Some(checked) => checked.map(|()| ServerCertVerified::assertion()),
                None => chain.verify_server_cert(own, between, name, ocsp, now),
            },
            Wanted::Any => Ok(ServerCertVerified::assertion()),
        }
    }

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

/// Accepts clients whose certificate is `pinned`, or that `chain` accepts.
#[derive(Debug)]
pub(super) struct Clients {
    /// The name that their certificates have, if only those are accepted.
    pub name: Option<String>,
    pub pinned: Pinned,
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
        let verified = match self.pinned.check(own, None, now) {
            Some(checked) => checked.map(|()| ClientCertVerified::assertion()),
            None => self.chain.verify_client_cert(own, between, now),
        }?;
        self.name.as_ref().map_or(Ok(()), |name| pinned::is_of_client(own, name))?;
        Ok(verified)
    }

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
}
