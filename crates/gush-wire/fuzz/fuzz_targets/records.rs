//! Any bytes, read as frames and records of either side: an error, and never a panic or much
//! memory.

#![no_main]

use std::io::{Seek, Write};

use gush_wire::frame::Input;
use gush_wire::record::{ToReceiver, ToSender};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let stream = || {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("a small file");
        Input::new(file)
    };
    let mut input = stream();
    while input.record::<ToReceiver>().is_ok() {}
    let mut input = stream();
    while input.record::<ToSender>().is_ok() {}
});
