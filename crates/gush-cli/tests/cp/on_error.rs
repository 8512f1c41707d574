//! `gush cp -r --on-error`: a copy that goes on after failures, or stops at the first.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common::cp::{cp, fails, script, stderr, stdout, tree};

#[test]
fn failures_are_listed_at_the_end_and_the_first_one_may_end_all() {
    let files = ["a/b", "a/c", "z", "d/a/b/in the way", "d/a/c/in the way"];
    let dir = tree(&files);
    let output = cp(dir.path(), &["-r", "--on-error=continue", "a", "z", "d"]);
    let said = stderr(&output);
    let mut failed: Vec<_> = said.lines().collect();
    assert_eq!(failed[2], "gush: cp: 2 failures in all:", "{said}");
    failed.sort_unstable();
    assert_eq!(failed.len(), 5);
    assert!(failed[1].contains("cannot overwrite directory") && failed[1] == failed[2], "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("d/z")).unwrap(), "z");
    fs::remove_file(dir.path().join("d/z")).unwrap();
    let output = cp(dir.path(), &["-r", "--on-error=stop", "a", "z", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("1 failure in all:"), "{said}");
    assert!(!dir.path().join("d/z").exists());
}

#[test]
fn a_copy_that_stops_gives_its_directories_their_attributes() {
    let dir = tree(&["a/b/1/f", "a/b/2/f", "a/b/3/f", "a/b/4/f"]);
    // A file cannot take the place of a directory, whichever subdirectory comes first.
    for number in 1..=4 {
        fs::create_dir_all(dir.path().join(format!("d/b/{number}/f"))).unwrap();
    }
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["a/b", "a"] {
        fs::File::open(dir.path().join(name)).unwrap().set_modified(then).unwrap();
    }
    let said = fails(dir.path(), &["-aT", "--threads=1", "--on-error=stop", "a", "d"]);
    assert!(said.contains("1 failure in all:"), "{said}");
    for name in ["d/b", "d"] {
        let about = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(about.modified().unwrap(), then, "{name}");
    }
}

#[test]
fn a_copy_that_stops_in_a_file_gives_its_new_directories_their_modes() {
    // Directories without a right that the copy needs, and with one that a directory under way
    // withholds. In whichever comes first, the file grows beyond the limit: also root's write fails
    // then.
    let make = "umask 0; mkdir -p a/1/x a/2/x a/3/x; for n in 1 2 3; do head -c 64K /dev/zero >a/$n/x/f; done; \
                chmod 577 a/?/x; chmod 557 a/?; chmod 575 a";
    for options in ["-r", "-a", "-r --atomic", "-r --threads=1", "-r --no-preserve=mode"] {
        let dir = tempfile::tempdir().unwrap();
        let copy = format!("trap '' XFSZ; ulimit -f 8; \"$G\" cp {options} --on-error=stop a d");
        // At last so that an ordinary user can remove them.
        let modes = "find d -type d -printf '%m %p\\n'; chmod -R u+w .";
        let output = script(dir.path(), &format!("{make}; {copy}; echo $?; {modes}"));
        let (reported, said) = (stdout(&output), stderr(&output));
        assert!(
            said.contains("File too large") && reported.starts_with("1\n"),
            "{options}: {said}"
        );
        let mut made = 0;
        for line in reported.lines().skip(1) {
            let expected = match line.split('/').count() {
                _ if options.contains("no-preserve") => "777",
                1 => "575",
                2 => "557",
                _ => "577",
            };
            assert!(line.starts_with(expected), "{options}: {line}\n{said}");
            made += 1;
        }
        assert!(made >= 3, "{options}: {reported}{said}");
    }
}
