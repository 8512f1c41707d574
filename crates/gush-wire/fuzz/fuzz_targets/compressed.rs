//! Compressed data that a hostile sender makes up: an error, or as much data as it announced. What
//! is compressed here comes back.

#![no_main]

use gush_wire::compress::{Packer, Unpacker};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, &[u8])| {
    let (length, bytes) = (input.0 as usize, input.1);
    let mut unpacker = Unpacker::new().expect("memory");
    if let Ok(data) = unpacker.unpack(bytes, length) {
        assert_eq!(data.len(), length);
    }
    if let Some(packed) = Packer::new(1).expect("memory").pack(bytes) {
        assert!(packed.len() < bytes.len());
        assert_eq!(unpacker.unpack(packed, bytes.len()).expect("it was packed here"), bytes);
    }
});
