//! `gush serve-tree`: the other side of `gush cp SRC HOST:DST` and `HOST:SRC DST`, which ssh
//! starts.

use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;

use clap::{Command, CommandFactory, Parser};
use gush_text::os_text;

use crate::args;
use crate::talk::Talker;

/// Receive a tree from `gush cp SOURCE HOST:DEST`, or send one to `gush cp HOST:SOURCE DEST`
///
/// Either runs this command on HOST, where standard input and output carry the protocol of
/// docs/wire.md. The other side names what is written or read, with the rights of this user.
#[derive(Debug, Parser)]
#[command(name = "serve-tree", version, max_term_width = 100)]
struct ServeTreeArgs {}

const BY_HAND: &str = "is started by `gush cp SOURCE HOST:DEST`, not by hand";

/// The definition of `gush serve-tree`.
pub fn command() -> Command {
    ServeTreeArgs::command()
}

/// Runs `serve-tree` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let parsed: Result<ServeTreeArgs, _> = args::parse(command(), words, "gush serve-tree");
    if let Err(status) = parsed {
        return status;
    }
    let talker = Talker::new("gush serve-tree").ending_unread(gush_tree::remove_temporaries);
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() {
        return talker.fail(BY_HAND);
    }
    gush_process::ignore_sigpipe();
    if let Err(status) = talker.outlives_file_size_limit() {
        return status;
    }
    if let Err(errno) = gush_process::on_termination(gush_tree::remove_temporaries) {
        let why = gush_text::errno_text(errno);
        return talker.fail(format_args!("cannot watch for signals: {why}"));
    }
    gush_process::raise_descriptor_limit();
    let streams = (
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
    );
    let (served, may_be_silent) = match streams {
        (Ok(input), Ok(output)) => {
            let (input, output) = (File::from(input), File::from(output));
            // A further connection of a copy that has ended meanwhile says nothing, either, but its
            // stream is no device such as /dev/null.
            let kind = input.metadata().map(|found| found.file_type());
            let may_be_silent = kind.is_ok_and(|kind| !kind.is_char_device());
            // The other side sees the end of a stream when the last descriptor of it is closed.
            if let Ok(nowhere) = File::options().read(true).write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdin(&nowhere);
                let _ = rustix::stdio::dup2_stdout(&nowhere);
            }
            (gush_wire::serve(input, output), may_be_silent)
        }
        (Err(error), _) | (_, Err(error)) => {
            return talker
                .fail(format_args!("cannot use the standard streams: {}", os_text(&error)));
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(gush_wire::Error::Silent) if may_be_silent => ExitCode::SUCCESS,
        Err(gush_wire::Error::Silent) => talker.fail(BY_HAND),
        Err(error) => {
            // Streams of a session that has failed are not waited for. A message that nobody reads
            // ends the program and does the same, which is possible once.
            let status = match error {
                // The other side shows it, on the terminal where this would be shown, too.
                error if error.is_known_there() => ExitCode::FAILURE,
                error => talker.fail(error),
            };
            gush_tree::remove_temporaries();
            status
        }
    }
}
