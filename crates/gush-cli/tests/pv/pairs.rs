//! Transfers between every pair of an input and an output.

use std::fs;

use crate::common::shell::{said, shell, source};

/// Pipe and file on either side: the kernel's way differs for each pair.
const PAIRS: [&str; 6] = [
    "$G pv WORDS source | cat >got",
    "cat source | $G pv WORDS >got",
    "cat source | $G pv WORDS | cat >got",
    "$G pv WORDS <source >got",
    "$G pv WORDS -o got source",
    "cat source | $G pv WORDS -o got",
];

/// Moves a file with each of these options by every pair, and compares the bytes.
pub fn every_byte_arrives(options: &[&str]) {
    let (dir, bytes) = source();
    for words in options {
        for line in PAIRS {
            // Without pipefail the status of pv would be hidden by cat's.
            let line = format!("set -o pipefail; {}", line.replace("WORDS", words));
            let output = shell(dir.path(), &line);
            assert!(output.status.success(), "{line}: {}", said(&output));
            let got = fs::read(dir.path().join("got")).unwrap();
            assert!(got == bytes, "{line}: {} bytes", got.len());
        }
    }
}
