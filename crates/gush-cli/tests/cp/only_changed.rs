//! `gush cp --checksum` and `--update=changed`: only what has changed is copied.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common::cp::{fails, stdout, succeeds, tree};

#[test]
fn only_what_changed_is_copied() {
    let dir = tree(&["a/same", "a/bytes", "a/time", "a/size"]);
    let at = |name: &str| dir.path().join(name);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    succeeds(dir.path(), &["-a", "a", "d"]);
    fs::write(at("d/bytes"), "A/BYTES").unwrap();
    fs::write(at("d/size"), "longer").unwrap();
    fs::write(at("d/size"), "much longer").unwrap();
    for name in ["same", "bytes", "size"] {
        for root in ["a", "d"] {
            fs::File::options()
                .write(true)
                .open(at(root).join(name))
                .unwrap()
                .set_modified(then)
                .unwrap();
        }
    }
    fs::File::options().write(true).open(at("d/time")).unwrap().set_modified(then).unwrap();
    let copied = |options: &[&str]| {
        let output = succeeds(dir.path(), &[&["-rvT", "--dry-run"], options, &["a", "d"]].concat());
        let reported = stdout(&output);
        let mut said: Vec<_> =
            reported.lines().map(|line| line.replacen("would copy ", "", 1)).collect();
        said.sort();
        said
    };
    assert_eq!(copied(&["--update=changed"]), ["'a/size' -> 'd/size'", "'a/time' -> 'd/time'"]);
    assert_eq!(copied(&["--checksum"]), ["'a/bytes' -> 'd/bytes'", "'a/size' -> 'd/size'"]);
    succeeds(dir.path(), &["-rT", "--checksum", "a", "d"]);
    assert_eq!(fs::read_to_string(at("d/bytes")).unwrap(), "a/bytes");
    assert!(copied(&["--checksum"]).is_empty());
    let said = fails(dir.path(), &["-r", "--checksum", "-u", "a", "d"]);
    assert!(said.contains("--checksum cannot be used with -u or -n"), "{said}");
}
