//! `-U`: everything is stored in a file first, and written out from there.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::ending::lock;
use super::moving::Output;
use super::status::Status;
use super::transfer::{Moved, Setting, Stage, close, refuse_input, unopened};
use crate::files;

/// Moves the inputs to the file `name`, and that to `output`. `-` is a file that nobody else sees.
///
/// An input that cannot be read is left out, as without `-U`. Where the file could not be written, or a signal has
/// come, nothing is passed on.
///
/// # Errors
/// The status of a failure before the first byte; the message has been written already.
pub fn run(setting: &Setting<'_>, name: &OsStr, output: Output) -> Result<Moved, Status> {
    // First, since creating the file would empty it.
    refuse_input(setting.options, setting.talker, name)?;
    let unopened = |error: std::io::Error| {
        setting.talker.say(unopened(setting.talker, name, &error));
        Status::UNOPENED
    };
    let (file, path) = match name.as_encoded_bytes() {
        b"-" => (own_file().map_err(unopened)?, None),
        _ => {
            let how = &mut File::options();
            let file = files::open(name, how.write(true).create(true).truncate(true));
            (file.map_err(unopened)?, Some(name.to_owned()))
        }
    };
    // The path of a file without a name needs a descriptor that stays open.
    let kept = file.try_clone().map_err(unopened)?;
    let path = path.unwrap_or_else(|| gush_text::fd_path(kept.as_raw_fd()).into());
    let inputs = &setting.options.files;
    let stored = setting.transfer(inputs, setting.expected, Output::File(file), Stage::Store)?;
    let closed = close(stored.output, setting.talker);
    let mut status = stored.status;
    status.add(closed);
    // A file without a name goes with the process, and so do the bytes there that are not passed on.
    let tell_loss = |stored_bytes: u64, passed_bytes: u64| {
        let lost_bytes = stored_bytes.saturating_sub(passed_bytes);
        if name.as_encoded_bytes() == b"-" && lost_bytes > 0 {
            lock(&setting.screen)
                .say(format_args!("{lost_bytes} bytes were stored but not delivered"));
        }
    };
    if stored.is_cut || closed != Status::default() {
        tell_loss(stored.bytes, 0);
        return Ok(Moved { status, output, is_cut: true, bytes: 0, count: 0 });
    }
    let bytes = kept.metadata().ok().map(|file| file.len()).filter(|&bytes| bytes > 0);
    let expected = match setting.options.counts_lines() {
        true => Some(stored.count).filter(|&lines| lines > 0),
        false => bytes,
    };
    let mut forwarded = setting.transfer(&[path], expected, output, Stage::Forward)?;
    if forwarded.status != Status::default() {
        tell_loss(bytes.unwrap_or(0), forwarded.bytes);
    }
    forwarded.status.add(status);
    Ok(forwarded)
}

/// A file whose name is gone already.
fn own_file() -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("gush-pv-{}", std::process::id()));
    let mut how = File::options();
    // O_EXCL follows no link that somebody put into /tmp under this name.
    let file = how.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    // The name went, the file stays as long as the descriptor: even a kill leaves nothing behind.
    std::fs::remove_file(&path)?;
    Ok(file)
}
