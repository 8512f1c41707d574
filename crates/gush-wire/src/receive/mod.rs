//! The receiver: records to files, below the target's directory.
//!
//! Each stream has a thread. What they share is the [session](session), in which a directory is
//! complete when as many of its entries have ended as the sender has counted, on whichever stream
//! the last one comes.

mod answers;
mod bounds;
mod folders;
mod incoming;
mod links;
mod session;
mod shown;
mod stream;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use gush_tree::remote::Folder;
use gush_tree::{CopyOptions, Events, strip_trailing_slashes};

use crate::error::Error;
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::record::{Hello, Rules, Streams, ToReceiver, ToSender, Token, Wish};
use crate::send::{Request, Transport};
use session::Session;
use shown::Shown;

/// Receives the sources from the other side of a pair of streams, from it and to it, and of those
/// that `transport` can add. Returns whether all of them arrived; what did not is reported to
/// `events`.
///
/// # Errors
/// When the session ends before all is there.
pub fn receive(
    request: &Request<'_>,
    options: &CopyOptions,
    (input, output): (File, File),
    (transport, streams): (&dyn Transport, Streams),
    events: &mut dyn Events,
) -> Result<bool, Error> {
    if request.target.as_os_str().is_empty() {
        return Err(Error::Local("the target has no name".into()));
    }
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    let sources = request.sources.iter().map(|path| path.as_os_str().as_bytes().to_vec());
    let wish = ToReceiver::Send(Wish::of(sources.collect(), options, request.compresses, streams));
    let greeted = output.record(&Hello::OURS).and_then(|_| match output.record(&wish)? {
        true => output.flush(),
        false => Err(Error::Local("the sources have names of more than 1 MiB".into())),
    });
    meet(&mut input)?;
    greeted?;
    let place = Place {
        target: request.target.to_path_buf(),
        is_exact: request.is_exact,
        is_directory: request.is_directory || request.sources.len() > 1,
    };
    let rules = Rules::of(options);
    let (invites, invited) = sync_channel(1);
    let invites = (streams.most() > 1).then_some(invites);
    let (shown, happened) = Shown::new(request, options, events.wants_counts(), invites);
    let no_thread = |error| Error::Io { doing: "starting a thread", error };
    thread::scope(|scope| {
        let making = thread::Builder::new()
            .spawn_scoped(scope, move || {
                let made = make(&place, rules, &mut input, output, Some(shown));
                transport.release();
                made
            })
            .map_err(no_thread)?;
        // Without a thread the sender goes on with one stream.
        let _ = thread::Builder::new().spawn_scoped(scope, move || {
            if let Ok((session, token)) = invited.recv() {
                join_all(&session, transport, streams, token);
            }
        });
        for event in happened {
            event(events);
        }
        making.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Opens the streams to which the sender has invited.
fn join_all(session: &Session, transport: &dyn Transport, streams: Streams, token: Token) {
    let is_asked = streams.is_asked();
    thread::scope(|scope| {
        for _ in 1..streams.most() {
            let joins = || session.join(transport, token, is_asked);
            if thread::Builder::new().spawn_scoped(scope, joins).is_err() {
                break;
            }
        }
    });
}

/// Where the copies go.
pub(crate) struct Place {
    pub target: PathBuf,
    pub is_exact: bool,
    pub is_directory: bool,
}

/// Makes what the records describe, and answers them. Returns whether all of it was made.
pub(crate) fn make(
    place: &Place,
    rules: Rules,
    input: &mut Input,
    mut output: Output,
    shown: Option<Shown>,
) -> Result<bool, Error> {
    let Place { target, is_exact, is_directory } = place;
    let begun = rules.options().and_then(|options| {
        let (base, as_name) = destination(target, *is_exact, *is_directory)?;
        Ok((base, as_name, options))
    });
    let session = match begun {
        Ok((base, as_name, options)) => {
            // The user at this side knows it.
            if shown.is_none() {
                output.record(&ToSender::Begun { is_exact: as_name.is_some() })?;
                output.flush()?;
            }
            let mut session = Session::new(base, as_name, options, output, shown);
            session.names_directory = target.as_os_str().as_bytes().ends_with(b"/");
            Arc::new(session)
        }
        Err(why) => {
            output.record(&ToSender::Refused(why.clone()))?;
            output.flush()?;
            return shown.map_or(Ok(false), |_| Err(Error::Local(why)));
        }
    };
    let served = session.serve_first(input);
    session.end();
    if let (Ok(()), Some(shown)) = (&served, &session.shown) {
        shown.ends_explanations();
    }
    let served = served.map_err(|error| session.failure().unwrap_or(error));
    let served = served.map_err(|error| session.tells_end(error));
    served.map(|()| session.shown.is_none() || session.is_whole())
}

/// The directory in which the copies are made, and the name of the only one, if it is given.
fn destination(
    target: &Path,
    is_exact: bool,
    is_directory: bool,
) -> Result<(Arc<Folder>, Option<OsString>), String> {
    let said = |error: gush_tree::Error| error.to_string();
    let is_here = target.as_os_str().is_empty();
    if is_directory || (!is_exact && (is_here || target.is_dir())) {
        return Ok((Folder::base(target).map_err(said)?, None));
    }
    // A path's components leave a `.` at the end out.
    let last = strip_trailing_slashes(target).as_os_str().as_bytes();
    let Some(name) = target.file_name().filter(|_| !last.ends_with(b"/.")) else {
        // Of `.`, `..` and `/` the copy is the directory itself.
        let base = if target == Path::new(".") { Path::new("") } else { target };
        return Ok((Folder::copy_itself(base).map_err(said)?, Some(".".into())));
    };
    let shown = gush_text::quote::always(target);
    if target.symlink_metadata().is_ok_and(|there| there.is_symlink()) {
        return Err(format!(
            "{shown} is a symbolic link, which a copy between machines would replace: name what it \
             leads to, or remove it"
        ));
    }
    let above = Folder::base(target.parent().unwrap_or(Path::new(""))).map_err(said)?;
    Ok((above, Some(name.to_owned())))
}
