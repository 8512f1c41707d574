//! The committed header is the one that the comments and types of this crate make.

use std::path::Path;

use gush_test as _;

#[test]
fn the_header_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let made = cbindgen::generate_with_config(here, config).expect("a header");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let path = here.join("include/gush.h");
    if std::env::var_os("GUSH_BLESS").is_some() {
        std::fs::write(&path, &text).expect("write");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "include/gush.h is old: GUSH_BLESS=1 cargo test --test header");
}
