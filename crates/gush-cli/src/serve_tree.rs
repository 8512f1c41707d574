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
use crate::console::Console;

/// Receive a tree from `gush cp SOURCE HOST:DEST`, or send one to `gush cp HOST:SOURCE DEST`
///
/// Either runs this command on HOST, where standard input and output carry the protocol of
/// docs/wire.md. The other side names what is written or read, with the rights of this user.
#[derive(Debug, Parser)]
#[command(name = "serve-tree", version, max_term_width = 100)]
struct ServeTreeArgs {}

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
    let console = Console::new("gush serve-tree").ending_unread(gush_tree::remove_temporaries);
    // A terminal, or /dev/null: the other side has a pipe or a socket.
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = input.and_then(|input| input.metadata()).map(|found| found.file_type());
    if kind.is_ok_and(|kind| kind.is_char_device()) || std::io::stdout().is_terminal() {
        return console.fail("not to be run by hand: `gush cp SOURCE HOST:DEST` starts it");
    }
    gush_process::ignore_sigpipe();
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    if let Err(errno) = gush_process::on_termination(gush_tree::remove_temporaries) {
        let why = gush_text::errno_text(errno);
        return console.fail(format_args!("cannot watch for signals: {why}"));
    }
    gush_process::raise_descriptor_limit();
    let streams = (
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
    );
    let served = match streams {
        (Ok(input), Ok(output)) => {
            // The other side sees the end of a stream when the last descriptor of it is closed.
            if let Ok(nowhere) = File::options().read(true).write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdin(&nowhere);
                let _ = rustix::stdio::dup2_stdout(&nowhere);
            }
            gush_wire::serve(File::from(input), File::from(output))
        }
        (Err(error), _) | (_, Err(error)) => {
            return console
                .fail(format_args!("cannot use the standard streams: {}", os_text(&error)));
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Streams of a session that has failed are not waited for. A message that nobody reads
            // ends the program and does the same, which is possible once.
            let status = match error {
                // The other side shows it, on the terminal where this would be shown, too.
                error if error.is_known_there() => ExitCode::FAILURE,
                error => console.fail(error),
            };
            gush_tree::remove_temporaries();
            status
        }
    }
}
