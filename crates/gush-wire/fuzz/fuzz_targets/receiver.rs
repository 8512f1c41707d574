//! A receiver served with records that a hostile sender makes up, in a copy to another machine or
//! from one: it ends, and makes nothing outside its target.

#![no_main]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Seek;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gush_tree::CopyOptions;
use gush_wire::frame::Output;
use gush_wire::record::{Hello, Rules, ToReceiver};
use gush_wire::{Request, Streams};
use libfuzzer_sys::fuzz_target;

/// Longer data is announced and does not come.
const MOST_SENT_BYTES: u32 = 64 << 10;

fuzz_target!(|input: (bool, bool, &[u8])| {
    let (is_pull, is_packed, bytes) = input;
    let Ok((rules, mut left)) = postcard::take_from_bytes::<Rules>(bytes) else { return };
    let place = tempfile::tempdir().expect("a temporary directory");
    let (target, outside) = (place.path().join("target"), place.path().join("outside"));
    fs::create_dir(&target).and_then(|()| fs::create_dir(&outside)).expect("directories");
    let mut stream = tempfile::tempfile().expect("a temporary file");
    let mut output = Output::new(stream.try_clone().expect("a descriptor"));
    if is_packed {
        output.compress().expect("memory");
    }
    let mut options = CopyOptions::default();
    (options.recursive, options.mirror) = (true, rules.is_mirror);
    (options.update, options.preserve) = (rules.update, rules.preserve);
    let begin = ToReceiver::Begin {
        target: target.as_os_str().as_bytes().to_vec(),
        is_exact: false,
        is_directory: true,
        rules,
    };
    output.record(&Hello::OURS).expect("a file takes all");
    if !is_pull {
        output.record(&begin).expect("a file takes all");
    }
    while let Ok((record, rest)) = postcard::take_from_bytes::<ToReceiver>(left) {
        left = rest;
        // It would name another target.
        if matches!(record, ToReceiver::Begin { .. }) {
            continue;
        }
        output.record(&record).expect("a file takes all");
        if let ToReceiver::Data { length: length @ 1..=MOST_SENT_BYTES, .. } = record {
            output.data(&vec![b'x'; length as usize]).expect("a file takes all");
        }
    }
    output.flush().expect("a file takes all");
    stream.rewind().expect("a file can be read again");
    let answers = File::options().write(true).open("/dev/null").expect("/dev/null");
    match is_pull {
        true => {
            let sources = [Path::new("a"), Path::new(".")];
            let request = Request::new(&sources, &target, OsStr::new("host:"));
            let request = Request { is_directory: true, ..request };
            let _ = gush_wire::receive(
                &request,
                &options,
                (stream, answers),
                (&(), Streams::Exactly(2)),
                &mut (),
            );
        }
        false => drop(gush_wire::serve(stream, answers)),
    }
    assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 0);
    assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 2);
});
