//! `--make-cert`: a certificate and a key for a first try of TLS, and the two commands to try.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use gush_link::{Pair, PairError};
use gush_text::{in_brackets, quote};

use crate::console::{Console, remedy_to_store};

/// The names of this machine.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Makes `PREFIX.crt` and `PREFIX.key`; `words` are the prefix and the names.
pub fn run(words: &[OsString], console: &Console) -> ExitCode {
    let Some((prefix, names)) = words.split_first().filter(|(prefix, _)| !prefix.is_empty()) else {
        return console.fail("--make-cert: a PREFIX is missing");
    };
    let mut names: Vec<_> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.is_empty() {
        names.extend(NAMES.map(str::to_owned));
    }
    let pair = match Pair::make(Path::new(prefix), &names) {
        Ok(pair) => pair,
        Err(error) => return console.fail(with_remedy(&error)),
    };
    let (certificate, key) = (path(&pair.certificate), path(&pair.key));
    let host = if names[0].contains(':') { format!("[{}]", names[0]) } else { names[0].clone() };
    let lines = format!(
        "gush link tls-listen:4433,cert={certificate},key={key} -\n\
         gush link - tls:{host}:4433,cafile={certificate}\n"
    );
    console.page(lines.as_bytes())
}

/// The error, with its remedy.
fn with_remedy(error: &PairError) -> String {
    let by_errno = match error {
        PairError::File { why, path } => in_brackets(remedy_to_store(path, why).as_deref()),
        _ => String::new(),
    };
    let remedy = match error {
        PairError::File { why, .. } => match why.kind() {
            ErrorKind::AlreadyExists => {
                " (nothing is overwritten: choose another PREFIX, or remove it first)"
            }
            ErrorKind::PermissionDenied if by_errno.is_empty() => {
                " (the directory must be writable to this user)"
            }
            _ => &by_errno,
        },
        _ => "",
    };
    format!("{error}{remedy}")
}

/// A path quoted for a shell.
fn path(path: &Path) -> String {
    // A comma would begin the next option of the address.
    quote::if_needed(path).to_string().replace(',', "\\,")
}
