//! Certificates, keys and authorities, out of files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::pinned::{Pinned, is_self_signed};
use crate::address::{Opt, OptionSet};
use crate::open::OpenError;

/// The certificate and key by which we identify ourselves.
pub(super) struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Reads `cert=`, and the key from `key=` or from the same file.
pub(super) fn identity(options: &OptionSet) -> Result<Option<Identity>, OpenError> {
    let Some(file) = options.path(Opt::Certificate) else { return Ok(None) };
    let chain = certificates(file, SWAPPED)?;
    let key_file = options.path(Opt::Key).unwrap_or(file);
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| match error {
        pem::Error::NoItemsFound => no_key(key_file, options.has(Opt::Key)),
        other => unreadable(key_file, other),
    })?;
    Ok(Some(Identity { chain, key }))
}

/// Who vouches for a peer.
#[derive(Debug)]
pub(super) struct Authorities {
    pub roots: Arc<RootCertStore>,
    pub pinned: Pinned,
    /// Authorities that need another to vouch for them.
    pub between: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// What a peer has sent `between` its certificate and the root's, and what is known here.
    pub fn with_known<'c>(&'c self, between: &'c [CertificateDer<'c>]) -> Vec<CertificateDer<'c>> {
        between.iter().chain(&self.between).cloned().collect()
    }
}

/// Whom `cafile=` and `capath=` trust, or else this system. As with OpenSSL, and unlike with
/// webpki, a chain ends in a self-signed certificate.
pub(super) fn authorities(options: &OptionSet) -> Result<Authorities, OpenError> {
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    if let Some(file) = options.path(Opt::CaFile) {
        named.extend(certificates(file, "cafile=FILE names certificates of authorities")?);
    }
    if let Some(directory) = options.path(Opt::CaPath) {
        named.extend(hashed(directory)?);
    }
    let (pinned, between): (Vec<_>, _) = named.into_iter().partition(is_self_signed);
    if let Some(file) = options.path(Opt::CaFile).or_else(|| options.path(Opt::CaPath)) {
        if pinned.is_empty() {
            return Err(OpenError::said(step(file), "no certificate in it is self-signed")
                .hinted("add that of the authority which all others have been signed by"));
        }
        for certificate in &pinned {
            roots.add(certificate.clone()).map_err(|error| {
                OpenError::said(
                    step(file),
                    format!("a certificate in it cannot be trusted: {error}"),
                )
            })?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(OpenError::said(
                "find whom this system trusts",
                "no authority is installed",
            )
            .hinted("install ca-certificates, or name authorities by cafile=FILE"));
        }
    }
    Ok(Authorities { roots: Arc::new(roots), pinned: Pinned(pinned), between })
}

/// The certificates in the files of `directory` that OpenSSL would look for: those called by a hash
/// and a number (openssl-rehash(1)).
fn hashed(directory: &OsStr) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let files = fs::read_dir(directory).map_err(|error| OpenError::new(step(directory), error))?;
    let is_hashed = |name: &OsStr| {
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        parts.is_some_and(|(hash, number)| {
            hash.len() == 8
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && number.parse::<u32>().is_ok()
        })
    };
    let files = files.flatten().filter(|file| is_hashed(&file.file_name()));
    let found = files.filter_map(|file| CertificateDer::pem_file_iter(file.path()).ok());
    let found: Vec<_> = found.flatten().flatten().collect();
    match found.is_empty() {
        false => Ok(found),
        true => {
            Err(OpenError::said(step(directory), "no file there has a certificate and its name")
                .hinted("`openssl rehash DIRECTORY` gives its files the names that are looked for"))
        }
    }
}

/// Do the options say whom to trust?
pub(super) fn is_said(options: &OptionSet) -> bool {
    options.has(Opt::CaFile) || options.has(Opt::CaPath)
}

/// The certificates of `file`; `key_hint` is the remedy where the file holds a key instead.
fn certificates(file: &OsStr, key_hint: &str) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(file, error))?;
    let chain: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| unreadable(file, error))?;
    if !chain.is_empty() {
        return Ok(chain);
    }
    let none = || OpenError::said(step(file), "no certificate in PEM form is in it");
    Err(match Held::of(file) {
        Held::Key => OpenError::said(step(file), "it holds a private key, and no certificate")
            .hinted(key_hint),
        Held::Der => none().hinted("one in DER form is converted by openssl x509 -inform der"),
        Held::Certificate | Held::Other => {
            none().hinted("one begins with the line -----BEGIN CERTIFICATE-----")
        }
    })
}

/// The error of `file`, which `key=` names, or `cert=` where there is no `key=`.
fn no_key(file: &OsStr, is_named: bool) -> OpenError {
    let none = || OpenError::said(step(file), "no private key in PEM form is in it");
    match Held::of(file) {
        Held::Certificate => {
            OpenError::said(step(file), "it holds a certificate, and no private key")
                .hinted(if is_named { SWAPPED } else { "key=FILE names the file of the key" })
        }
        Held::Key => none().hinted("a key with a password must be decrypted first: openssl pkey"),
        Held::Der => none().hinted("one in DER form is converted by openssl pkey -inform der"),
        Held::Other => none().hinted("one begins with the line -----BEGIN PRIVATE KEY-----"),
    }
}

const SWAPPED: &str = "cert= and key= may be swapped";

/// The content of a file in which something was looked for in vain.
enum Held {
    Key,
    Certificate,
    Der,
    Other,
}

impl Held {
    fn of(file: &OsStr) -> Self {
        const MOST_BYTES: u64 = 1 << 20;
        let mut bytes = Vec::new();
        // A FIFO is never opened again: that would wait for another writer.
        if fs::metadata(file).is_ok_and(|about| about.is_file()) {
            let _ = File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
        }
        let text = String::from_utf8_lossy(&bytes);
        let begins =
            |kind| text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(kind));
        if begins("PRIVATE KEY-----") {
            Self::Key
        } else if begins("CERTIFICATE-----") {
            Self::Certificate
        } else if bytes.first() == Some(&0x30) {
            // The first byte of a SEQUENCE (X.690, 8.9), as keys and certificates are in DER form.
            Self::Der
        } else {
            Self::Other
        }
    }
}

fn step(file: &OsStr) -> String {
    format!("read {}", file.display())
}

fn unreadable(file: &OsStr, error: pem::Error) -> OpenError {
    match error {
        pem::Error::Io(error) => OpenError::new(step(file), error)
            .passing(false)
            .hinted("the file must be there and readable; gush link --make-cert PREFIX makes a pair for a first try"),
        other => OpenError::said(step(file), format!("it is not a valid PEM file: {other}")),
    }
}
