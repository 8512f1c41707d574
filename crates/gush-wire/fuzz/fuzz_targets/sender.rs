//! A sender whose answers a hostile receiver makes up, in a copy to another machine or, with a
//! request that is made up, from one: it ends, and takes no copy to another machine for complete
//! unless each entry was answered as done.

#![no_main]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;

use gush_tree::{CopyOptions, Done, Error, Events};
use gush_wire::frame::{Input, Output};
use gush_wire::record::{Hello, ToReceiver, ToSender, Wish};
use gush_wire::{Request, Streams};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const FILES: usize = 3;
/// As many fit into a pipe that nobody reads.
const MOST_ANSWERS: usize = 1000;

static TREE: LazyLock<TempDir> = LazyLock::new(|| {
    let tree = tempfile::tempdir().expect("a temporary directory");
    for name in 0..FILES {
        fs::write(tree.path().join(name.to_string()), "data").expect("a small file");
    }
    tree
});

#[derive(Default)]
struct Counted {
    done: usize,
}

impl Events for Counted {
    fn entry_ended(&mut self, _: &Path, _: &Path, result: &Result<Done, Error>) {
        self.done += usize::from(result.is_ok());
    }
}

fn pipe() -> (File, File) {
    let (from, to) = io::pipe().expect("a pipe");
    (OwnedFd::from(from).into(), OwnedFd::from(to).into())
}

/// Takes what the sender has, and gives all answers at the first question, or at the end.
fn answer(
    (from, to): (File, File),
    wish: Option<Wish>,
    answers: &[u8],
) -> Result<(), gush_wire::Error> {
    let (mut input, mut output) = (Input::new(from), Output::new(to));
    output.record(&Hello::OURS)?;
    if let Some(wish) = wish {
        output.record(&ToReceiver::Send(wish))?;
    }
    output.flush()?;
    input.record::<Hello>()?;
    let mut output = Some(output);
    loop {
        let record = input.record()?;
        if let ToReceiver::Data { length, .. } = record {
            let _ = input.data(length as usize, None, None)?;
        }
        let is_asked = matches!(
            record,
            ToReceiver::Ask { .. } | ToReceiver::Link { .. } | ToReceiver::Finish { .. }
        );
        let Some(mut output) = output.take_if(|_| is_asked) else { continue };
        let mut left = answers;
        for _ in 0..MOST_ANSWERS {
            let Ok((record, rest)) = postcard::take_from_bytes::<ToSender>(left) else { break };
            output.record(&record)?;
            left = rest;
        }
        output.flush()?;
    }
}

fuzz_target!(|input: (bool, &[u8])| {
    let (is_pull, mut answers) = input;
    let mut wish = None;
    if is_pull {
        let Ok((mut made_up, rest)) = postcard::take_from_bytes::<Wish>(answers) else { return };
        answers = rest;
        made_up.sources = vec![TREE.path().as_os_str().as_bytes().to_vec()];
        // It would be waited for.
        made_up.limit_bytes_per_second = 0;
        wish = Some(made_up);
    }
    let ((from_sender, to_receiver), (from_receiver, to_sender)) = (pipe(), pipe());
    // libFuzzer's main leaves SIGPIPE as it is: no pipe may lose its reader.
    let _readers =
        [&from_sender, &from_receiver].map(|from| from.try_clone().expect("a descriptor"));
    let sources = [TREE.path()];
    let request = Request::new(&sources, Path::new("copy"), OsStr::new("host:"));
    let request = Request { is_exact: true, ..request };
    let mut options = CopyOptions::default();
    options.recursive = true;
    let streams = (from_receiver, to_receiver);
    let mut counted = Counted::default();
    let sent = thread::scope(|scope| {
        scope.spawn(|| answer((from_sender, to_sender), wish, answers));
        match is_pull {
            true => gush_wire::serve(streams.0, streams.1).map(|()| false),
            false => gush_wire::send(
                &request,
                &options,
                streams,
                (&(), Streams::Exactly(2)),
                &mut counted,
            ),
        }
    });
    if let Ok(true) = sent {
        // The directory, too.
        assert_eq!(counted.done, FILES + 1);
    }
});
