//! The side that another machine has started: its second record says what is wanted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::join::hand_over;
use crate::record::{Hello, ToReceiver};
use crate::{receive, send};

/// Serves one session, or a further stream of one: receives what comes on `input` and answers on
/// `output`, or sends what the other side wants.
///
/// # Errors
/// When a stream fails, or the other side breaks the protocol. Entries that fail are reported to
/// it. One that is gone before it has said anything asks for nothing.
pub fn serve(input: File, output: File) -> Result<(), Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    output.record(&Hello::OURS)?;
    let request = output.flush().and_then(|()| meet(&mut input)).and_then(|()| input.record());
    match request {
        // A further connection of a copy that has ended meanwhile, say.
        Err(Error::Silent) => Ok(()),
        Err(Error::Io { error, .. }) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        request => serve_request(request?, input, output),
    }
}

fn serve_request(request: ToReceiver, mut input: Input, output: Output) -> Result<(), Error> {
    match request {
        ToReceiver::Begin { target, is_exact, is_directory, rules } => {
            let place = receive::Place { target: at_home(&target), is_exact, is_directory };
            receive::make(&place, rules, &mut input, output, None).map(drop)
        }
        ToReceiver::Send(wish) => send::serve(wish, input, output),
        ToReceiver::Join(token) => hand_over(input, output, token),
        _ => Err(Error::Protocol("no request came first".into())),
    }
}

/// `~` is the home directory, as a shell of this machine reads it; no shell has read the path.
pub(crate) fn at_home(path: &[u8]) -> PathBuf {
    let below = if path == b"~" { Some(&b""[..]) } else { path.strip_prefix(b"~/") };
    match (below, std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(OsStr::from_bytes(below)),
        _ => Path::new(OsStr::from_bytes(path)).to_path_buf(),
    }
}
