//! The receiver: records to files, below the target's directory.
//!
//! Each stream has a thread. What they share is the [session](session), in which a directory is
//! complete when as many of its entries have ended as the sender has counted, on whichever stream
//! the last one comes.

mod incoming;
mod join;
mod session;
mod stream;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_tree::CopyOptions;
use gush_tree::remote::Folder;

use crate::error::Error;
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::record::{Hello, ToReceiver, ToSender};
use session::Session;

/// Serves one session, or a further stream of one: reads records from `input`, makes what they
/// describe, and answers on `output`.
///
/// # Errors
/// When a stream fails, or the sender breaks the protocol. Entries that fail are answered.
pub fn receive(input: File, output: File) -> Result<(), Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    output.record(&Hello::OURS)?;
    output.flush()?;
    meet(&mut input)?;
    let (target, is_exact, is_directory, preserve) = match input.record()? {
        ToReceiver::Begin { target, is_exact, is_directory, preserve } => {
            (PathBuf::from(OsString::from_vec(target)), is_exact, is_directory, preserve)
        }
        ToReceiver::Join(token) => return join::hand_over(input, output, token),
        _ => return Err(Error::Protocol("no request came first".into())),
    };
    let (base, as_name) = match destination(&target, is_exact, is_directory) {
        Ok(found) => found,
        Err(why) => {
            output.record(&ToSender::Refused(why))?;
            return output.flush();
        }
    };
    let mut options = CopyOptions::default();
    options.preserve = preserve;
    let session = Arc::new(Session::new(base, as_name, options, output));
    let served = session.serve_first(&mut input);
    session.end();
    served
}

/// The directory in which the copies are made, and the name of the only one, if it is given.
fn destination(
    target: &Path,
    is_exact: bool,
    is_directory: bool,
) -> Result<(Arc<Folder>, Option<OsString>), String> {
    let target = if target.as_os_str().is_empty() { Path::new(".") } else { target };
    let open = |path: &Path| Folder::base(path).map_err(|error| error.to_string());
    if is_directory || (!is_exact && target.is_dir()) {
        return Ok((open(target)?, None));
    }
    let shown = gush_text::quote::always(target);
    let name = target.file_name().ok_or_else(|| format!("{shown} names no file to be made"))?;
    let above = match target.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    Ok((open(above)?, Some(name.to_owned())))
}
