//! A sender whose answers a hostile receiver makes up: it ends, and takes no copy for complete unless
//! each entry was answered as done.

#![no_main]

use std::fs::{self, File};
use std::io::Seek;
use std::path::Path;
use std::sync::LazyLock;

use gush_tree::{CopyOptions, Done, Error, Events};
use gush_wire::Request;
use gush_wire::frame::Output;
use gush_wire::record::{Hello, ToSender};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const FILES: usize = 3;

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

fuzz_target!(|bytes: &[u8]| {
    let mut stream = tempfile::tempfile().expect("a temporary file");
    let mut output = Output::new(stream.try_clone().expect("a descriptor"));
    output.record(&Hello::OURS).expect("a file takes all");
    let mut left = bytes;
    while let Ok((record, rest)) = postcard::take_from_bytes::<ToSender>(left) {
        left = rest;
        output.record(&record).expect("a file takes all");
    }
    output.flush().expect("a file takes all");
    stream.rewind().expect("a file can be read again");
    let records = File::options().write(true).open("/dev/null").expect("/dev/null");
    let request = Request {
        sources: &[TREE.path()],
        target: Path::new("copy"),
        shown: Path::new("host:copy"),
        is_exact: true,
        is_directory: false,
    };
    let mut options = CopyOptions::default();
    options.recursive = true;
    let mut counted = Counted::default();
    let sent = gush_wire::send(&request, &options, (stream, records), &mut counted, &|| ());
    if let Ok(true) = sent {
        // The directory, too.
        assert_eq!(counted.done, FILES + 1);
    }
});
