//! `-U`: stores everything in a file first, and writes the output from there.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::moving::Output;
use super::signals::lock;
use super::status::Status;
use super::transfer::{Session, Stage, close, refuse_input, unopened};
use crate::files;

/// Moves the inputs to the file `name`, and that to `output`. `-` is an unnamed temporary file.
///
/// An input that cannot be read is skipped, as without `-U`. If the file cannot be written, or on a
/// signal, nothing is passed on.
///
/// # Errors
/// The status; the error has been reported.
pub fn run(
    session: &Session<'_>,
    name: &OsStr,
    output: Output,
) -> Result<(Status, Output), Status> {
    // First, since creating the file would truncate it.
    refuse_input(session.options, session.console, name)?;
    let unopened = |error: std::io::Error| {
        Status::UNOPENED.report(session.console, unopened(session.console, name, &error))
    };
    let (file, path) = match name.as_encoded_bytes() {
        b"-" => (own_file().map_err(unopened)?, None),
        _ => {
            let how = &mut File::options();
            let file = files::open(name, how.write(true).create(true).truncate(true));
            (file.map_err(unopened)?, Some(name.to_owned()))
        }
    };
    // The path of an unnamed file needs an open descriptor.
    let kept = file.try_clone().map_err(unopened)?;
    let path = path.unwrap_or_else(|| gush_text::fd_path(kept.as_raw_fd()).into());
    let inputs = &session.options.files;
    let stored = session.transfer(inputs, session.expected, Output::File(file), Stage::Store)?;
    let closed = close(stored.output, session.console);
    let mut status = stored.status;
    status.add(closed);
    // An unnamed file vanishes with the process, and so do its bytes that are not passed on.
    let report_loss = |stored_bytes: u64, passed_bytes: u64| {
        let lost_bytes = stored_bytes.saturating_sub(passed_bytes);
        if name.as_encoded_bytes() == b"-" && lost_bytes > 0 {
            lock(&session.screen)
                .say(format_args!("{lost_bytes} bytes were stored but not delivered"));
        }
    };
    if stored.is_stopped || closed != Status::default() {
        report_loss(stored.state.bytes(), 0);
        return Ok((status, output));
    }
    let bytes = kept.metadata().ok().map(|file| file.len()).filter(|&bytes| bytes > 0);
    let expected = match session.options.counts_lines() {
        true => Some(stored.state.count()).filter(|&lines| lines > 0),
        false => bytes,
    };
    let forwarded = session.transfer(&[path], expected, output, Stage::Forward)?;
    if forwarded.status != Status::default() {
        report_loss(bytes.unwrap_or(0), forwarded.state.bytes());
    }
    status.add(forwarded.status);
    Ok((status, forwarded.output))
}

/// An unnamed file.
fn own_file() -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("gush-pv-{}", std::process::id()));
    let mut how = File::options();
    // O_EXCL follows no link that another user put there.
    let file = how.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    // Unlinked, so that even SIGKILL leaves no file.
    std::fs::remove_file(&path)?;
    Ok(file)
}
