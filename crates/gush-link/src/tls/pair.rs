//! A self-signed certificate and its key, for a first try.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gush_text::{os_text, quote};
use rustls::pki_types::ServerName;

/// How long a pair is valid.
const LASTS: Duration = Duration::from_secs(365 * 24 * 3600);
/// The clocks of two machines may differ.
const SLACK: Duration = Duration::from_secs(24 * 3600);

/// A self-signed certificate and its private key, as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, which is also the authority that a client has to trust.
    pub certificate: PathBuf,
    /// The private key, which only the owner may read.
    pub key: PathBuf,
}

/// Why no pair was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// No certificate can have such a name.
    #[error("no certificate can be made for {names}: {why}")]
    Name {
        /// The names asked for.
        names: String,
        /// The fault of the names.
        why: String,
    },
    /// A file cannot be made; one that is there is never overwritten.
    #[error("{}: cannot be made: {words}", path.display(), words = os_text(why))]
    File {
        /// Which file.
        path: PathBuf,
        /// The operating system's error.
        why: io::Error,
    },
}

impl Pair {
    /// Makes `PREFIX.crt` and `PREFIX.key`, or `gush.crt` and `gush.key` in a directory `prefix`,
    /// for hosts of these names and addresses, valid for a year.
    ///
    /// # Errors
    /// [`PairError`], and then neither file is left.
    ///
    /// ```
    /// let dir = tempfile::tempdir()?;
    /// let pair = gush_link::Pair::make(dir.path(), &["localhost".to_owned()])?;
    /// assert_eq!(pair.key, dir.path().join("gush.key"));
    /// assert!(gush_link::Pair::make(dir.path(), &["localhost".to_owned()]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn make(prefix: &Path, names: &[String]) -> Result<Self, PairError> {
        let prefix = if prefix.is_dir() { prefix.join("gush") } else { prefix.to_owned() };
        let with = |extension: &str| {
            let mut name = prefix.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        let pair = Self { certificate: with(".crt"), key: with(".key") };
        if let Some(odd) = names.iter().find(|name| !is_of_host(name)) {
            let why = "neither the name of a host nor an address".to_owned();
            return Err(PairError::Name { names: quote::always(Path::new(odd)).to_string(), why });
        }
        let (certificate, key) = pems(names)
            .map_err(|error| PairError::Name { names: names.join(", "), why: error.to_string() })?;
        write_new(&pair.key, 0o600, &key)?;
        if let Err(error) = write_new(&pair.certificate, 0o644, &certificate) {
            let _ = std::fs::remove_file(&pair.key);
            return Err(error);
        }
        Ok(pair)
    }
}

/// Can a client ask for the name, or for one that this wildcard stands for?
fn is_of_host(name: &str) -> bool {
    ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok()
}

fn pems(names: &[String]) -> Result<(String, String), rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut certificate = rcgen::CertificateParams::new(names)?;
    let now = SystemTime::now();
    certificate.not_before = (now - SLACK).into();
    certificate.not_after = (now + LASTS).into();
    // No authority of the system has this name.
    let name = format!("{} (gush, for a first try)", names.join(", "));
    certificate.distinguished_name.push(rcgen::DnType::CommonName, name);
    Ok((certificate.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), PairError> {
    let fail = |why| PairError::File { path: path.to_owned(), why };
    let opened = std::fs::File::options().write(true).create_new(true).mode(mode).open(path);
    opened.map_err(fail)?.write_all(text.as_bytes()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        fail(error)
    })
}
