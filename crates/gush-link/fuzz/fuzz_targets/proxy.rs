//! No bytes make the PROXY header's reader panic, and its answer never takes more than there are.
#![no_main]

use gush_link::proxy::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((_, length))) = Header::read(bytes) {
        assert!(length <= bytes.len());
        assert!(matches!(Header::read(&bytes[..length]), Ok(Some(_))));
    }
});
