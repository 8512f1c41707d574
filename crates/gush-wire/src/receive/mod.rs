//! The receiver: records to files, below the target's directory.
//!
//! Each stream has a thread. What they share is the [session](session), in which a directory is
//! complete when as many of its entries have ended as the sender has counted, on whichever stream
//! the last one comes.

mod incoming;
mod join;
mod session;
mod stream;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_tree::remote::Folder;
use gush_tree::{CopyOptions, Filter, Update};

use crate::error::Error;
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::record::{Hello, Rules, ToReceiver, ToSender};
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
    let (target, is_exact, is_directory, rules) = match input.record()? {
        ToReceiver::Begin { target, is_exact, is_directory, rules } => {
            (at_home(OsString::from_vec(target)), is_exact, is_directory, rules)
        }
        ToReceiver::Join(token) => return join::hand_over(input, output, token),
        _ => return Err(Error::Protocol("no request came first".into())),
    };
    // What an interrupted copy has begun is the copy, and not the directory to copy into.
    let mark = Mark::of(&target).filter(|_| rules.resumes && !is_directory);
    let is_exact = is_exact || mark.as_ref().is_some_and(Mark::is_there);
    let begun = options(rules).and_then(|options| {
        let (base, as_name) = destination(&target, is_exact, is_directory)?;
        Ok((base, as_name, options))
    });
    let session = match begun {
        Ok((base, as_name, options)) => Arc::new(Session::new(base, as_name, options, output)),
        Err(why) => {
            output.record(&ToSender::Refused(why))?;
            return output.flush();
        }
    };
    let mark = mark.filter(|_| session.is_named());
    if let Some(mark) = &mark {
        mark.set();
    }
    let served = session.serve_first(&mut input);
    session.end();
    if let (Ok(()), Some(mark)) = (&served, mark) {
        mark.remove();
    }
    served
}

/// `~` is the home directory, as a shell of this machine reads it; no shell has read the target.
fn at_home(target: OsString) -> PathBuf {
    let below = match target.as_bytes() {
        b"~" => Some(&b""[..]),
        text => text.strip_prefix(b"~/"),
    };
    match (below, std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(OsStr::from_bytes(below)),
        _ => PathBuf::from(target),
    }
}

/// A file next to the target, while a copy that can be resumed makes the target. The same command
/// then goes on, where it would copy into a directory that is there.
struct Mark(PathBuf);

impl Mark {
    fn of(target: &Path) -> Option<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name()?);
        name.push(".gush-copy");
        Some(Self(target.with_file_name(name)))
    }

    fn is_there(&self) -> bool {
        self.0.symlink_metadata().is_ok_and(|there| there.is_file())
    }

    /// Without it, a command that is repeated copies into the target: it is not worth a failure.
    fn set(&self) {
        let _ = File::create_new(&self.0);
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The options of a copy by these rules.
fn options(rules: Rules) -> Result<CopyOptions, String> {
    let mut options = CopyOptions::default();
    options.preserve = rules.preserve;
    // A file gets its name last, with its times: one of the same size and time is complete.
    options.update = match (rules.update, rules.resumes) {
        (Update::All, true) => Update::Changed,
        (update, _) => update,
    };
    options.mirror = rules.is_mirror;
    options.resume = rules.resumes;
    options.dry_run = rules.is_dry_run;
    if !rules.filter.is_empty() {
        let filter: Vec<_> = rules
            .filter
            .into_iter()
            .map(|(includes, pattern)| (includes, OsString::from_vec(pattern)))
            .collect();
        options.filter = Some(Filter::new(&filter)?);
    }
    Ok(options)
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
