//! `gush pv` cuts no packet of a pipe in packet mode (O_DIRECT of pipe(2), as of `dd
//! oflag=direct`).

use std::fs;

use crate::common::noise;
use crate::common::shell::{said, shell};
use tempfile::TempDir;

const STOPS_AT_BYTES: usize = 1500;

/// The bytes of the file `source`, and the command that writes the file in packets of 1000 bytes.
fn packets(dir: &TempDir) -> (Vec<u8>, &'static str) {
    let bytes = noise(10_000, 7);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    (bytes, "dd if=source bs=1000 oflag=direct status=none")
}

#[test]
fn packets_are_not_cut_by_small_buffers_and_rates() {
    for words in ["-O -B 100", "-O -L 100k", "-O -B 1", "-l -L 1G -B 100", "-l -S -s 1G -B 100"] {
        let dir = TempDir::new().unwrap();
        let (bytes, writer) = packets(&dir);
        let line = format!("set -o pipefail; {writer} | $G pv -q {words} >got");
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{words}: {}", said(&output));
        assert!(fs::read(dir.path().join("got")).unwrap() == bytes, "{words}: other bytes");
    }
}

#[test]
fn the_rest_of_a_packet_stays_where_the_size_ends_within() {
    for words in ["-O", "-O -B 100"] {
        let dir = TempDir::new().unwrap();
        let (bytes, writer) = packets(&dir);
        let pv = format!("$G pv -q {words} -S -s {STOPS_AT_BYTES}");
        let line = format!("set -o pipefail; {writer} | {{ {pv} >got && cat >rest; }}");
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{words}: {}", said(&output));
        let (got, rest) = bytes.split_at(STOPS_AT_BYTES);
        assert!(fs::read(dir.path().join("got")).unwrap() == got, "{words}: other bytes");
        assert!(fs::read(dir.path().join("rest")).unwrap() == rest, "{words}: another rest");
    }
}
