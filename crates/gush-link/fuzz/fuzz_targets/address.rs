//! Any text is an address that displays as itself, or has a wrong piece that can be pointed at.
#![no_main]

use gush_link::address::Address;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<Address>() {
        Ok(address) => assert_eq!(address.to_string().parse(), Ok(address)),
        Err(error) => {
            assert!(error.text().get(error.span()).is_some());
            assert!(error.to_string().lines().count() >= 3);
        }
    }
});
