//! `gush cp` from and to files that are not regular: FIFOs, sockets, devices, files that the kernel
//! makes up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::common::cp::{cp, script, stderr, stdout};
use crate::common::{noise, skipped};

#[test]
fn fifos_are_read_and_written_like_files() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(dir.path(), "mkfifo p; echo through >p & \"$G\" cp p b && cat b");
    assert_eq!(stdout(&output), "through\n", "{output:?}");
    let output = script(dir.path(), "echo into >a; cat p & \"$G\" cp a p && wait && test -p p");
    assert_eq!(stdout(&output), "into\n", "{output:?}");
    assert!(output.status.success());
}

/// Both pipes look the same, and only a read tells what comes.
#[test]
fn a_pipe_is_read_whatever_rule_compares_it_with_its_target() {
    for rule in ["--checksum", "--update=changed"] {
        let dir = tempfile::tempdir().unwrap();
        let line = "mkfifo p q; touch -d @1 p q; timeout 20 cat q >got & \
                    timeout 20 sh -c 'echo through >p' & timeout 20 \"$G\" cp RULE p q; wait; cat got";
        let output = script(dir.path(), &line.replace("RULE", rule));
        assert_eq!(stdout(&output), "through\n", "{rule}: {output:?}");
    }
}

#[test]
fn sockets_are_refused_as_sources_and_recreated_by_recursive() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let output = cp(dir.path(), &["s", "b"]);
    assert_eq!(
        stderr(&output),
        "gush: cp: cannot open 's' for reading: No such device or address\n"
    );
    assert!(cp(dir.path(), &["-R", "s", "b"]).status.success());
    assert!(fs::metadata(dir.path().join("b")).unwrap().file_type().is_socket());
}

#[test]
fn devices_as_targets_stay_devices() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(10_000, 6)).unwrap();
    for options in [&["-p"][..], &["-v"], &["--sparse=always"]] {
        let null = gush_test::device("null", dir.path());
        if options == ["-p"] && null.is_symlink() {
            skipped("no permission to make a device");
            fs::remove_file(&null).unwrap();
            continue;
        }
        let before = fs::metadata(&null).unwrap();
        let arguments: Vec<_> = options.iter().copied().chain(["a", "null"]).collect();
        let output = cp(dir.path(), &arguments);
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let after = fs::metadata(&null).unwrap();
        assert_eq!(before.ino(), after.ino());
        // Keeping the mode keeps it for a device, too.
        assert_eq!(before.mode() == after.mode(), options != ["-p"]);
        assert!(after.file_type().is_char_device());
        fs::remove_file(&null).unwrap();
    }
    let _full = gush_test::device("full", dir.path());
    let output = cp(dir.path(), &["a", "full"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn made_up_files_are_copied_whole() {
    let dir = tempfile::tempdir().unwrap();
    for source in ["/proc/cpuinfo", "/proc/self/maps", "/proc/filesystems"] {
        // They may be read-only, and so is the copy.
        let _ = fs::remove_file(dir.path().join("b"));
        let output = cp(dir.path(), &[source, "b"]);
        assert!(output.status.success(), "{source}: {}", stderr(&output));
        assert!(fs::metadata(dir.path().join("b")).unwrap().len() > 0, "{source}");
    }
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), fs::read("/proc/filesystems").unwrap());
}

#[test]
fn the_same_file_through_proc_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "content").unwrap();
    for command in ["\"$G\" cp a /proc/self/fd/7 7>>a", "\"$G\" cp /proc/self/fd/7 a 7<a"] {
        let output = script(dir.path(), command);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(stderr(&output).contains("are the same file"), "{}", stderr(&output));
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"content");
    }
}

/// Longer than any first guess: the kernel answers ERANGE until the buffer is long enough.
#[test]
fn long_attributes_and_long_lists_of_them_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("t")).unwrap();
    let file = dir.path().join("t/a");
    fs::write(&file, "content").unwrap();
    let mut set = BTreeMap::new();
    for (name, bytes) in [("long", 1000), ("short", 0), ("one-more", 257), ("exact", 256)] {
        set.insert(format!("user.{name}"), vec![b'x'; bytes]);
    }
    // Their names alone take more than a kilobyte.
    set.extend((0..30).map(|number| (format!("user.{number:040}"), vec![b'y'])));
    for (name, value) in &set {
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(&file, name.as_str(), value, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSPC) => {
                return crate::common::not_applicable("the file system keeps no such attributes");
            }
            Err(errno) => panic!("{name}: {errno}"),
        }
    }
    for words in [&["-a", "t/a", "b"][..], &["-a", "--atomic", "t/a", "c"], &["-aT", "t", "d"]] {
        let output = cp(dir.path(), words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        let copy = dir.path().join(if words[1] == "t" { "d/a" } else { words[words.len() - 1] });
        for (name, value) in &set {
            let mut kept = vec![0; 4096];
            let bytes = rustix::fs::getxattr(&copy, name.as_str(), &mut kept[..]).expect(name);
            assert!(kept[..bytes] == value[..], "{words:?}: {name}");
        }
    }
}
