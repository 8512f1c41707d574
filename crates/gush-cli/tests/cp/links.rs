//! `gush cp --preserve=links`: two names of one file stay two names of one file, and of no other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::cp::{stderr, succeeds, with_files, with_mounts};
use crate::common::{copied_gush, gush, nobody, skipped};

/// Runs the program as a user without privileges in `dir`, which that user gets to own.
fn as_nobody(dir: &Path, user: u32, arguments: &[&str]) -> Output {
    let program = copied_gush(dir);
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(path) = waiting.pop() {
        chown(&path, Some(user), Some(user)).unwrap();
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let mut command = Command::new(program);
    command.arg("cp").args(arguments).current_dir(dir).env("LC_ALL", "C.UTF-8");
    command.uid(user).gid(user).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_copy_that_failed_is_no_file_to_link_to() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    for options in [&["--preserve=links"][..], &["-d"], &["-a"], &["--preserve=links", "--atomic"]]
    {
        let dir = with_files(&[("a", b"new\n")]);
        let at = |name: &str| dir.path().join(name);
        fs::hard_link(at("a"), at("b")).unwrap();
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/a"), "OLD\n").unwrap();
        fs::set_permissions(at("d/a"), fs::Permissions::from_mode(0o444)).unwrap();
        let output = as_nobody(dir.path(), user, &[options, &["a", "b", "d"]].concat());
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        let said = stderr(&output);
        assert!(
            said.starts_with("gush: cp: cannot create regular file 'd/a': "),
            "{options:?}: {said}"
        );
        assert_eq!(fs::read_to_string(at("d/a")).unwrap(), "OLD\n", "{options:?}");
        assert_eq!(fs::read_to_string(at("d/b")).unwrap(), "new\n", "{options:?}: {said}");
        assert_eq!(fs::metadata(at("d/a")).unwrap().nlink(), 1, "{options:?}");
    }
}

#[test]
fn the_next_name_is_linked_to_the_first_copy_that_succeeded() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = with_files(&[("a", b"new\n")]);
    let at = |name: &str| dir.path().join(name);
    for name in ["b", "c"] {
        fs::hard_link(at("a"), at(name)).unwrap();
    }
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/a"), "OLD\n").unwrap();
    fs::set_permissions(at("d/a"), fs::Permissions::from_mode(0o444)).unwrap();
    as_nobody(dir.path(), user, &["--preserve=links", "a", "b", "c", "d"]);
    let inode = |name: &str| fs::metadata(at(name)).unwrap().ino();
    assert_eq!(inode("d/b"), inode("d/c"));
    assert_ne!(inode("d/a"), inode("d/b"));
    assert_eq!(fs::read_to_string(at("d/c")).unwrap(), "new\n");
}

#[test]
fn only_a_target_kept_for_being_newer_is_linked_to_as_with_gnu() {
    for (option, b) in [("-u", "kept\n"), ("-n", "new\n")] {
        let dir = with_files(&[("a", b"new\n")]);
        let at = |name: &str| dir.path().join(name);
        fs::hard_link(at("a"), at("b")).unwrap();
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/a"), "kept\n").unwrap();
        succeeds(dir.path(), &[option, "--preserve=links", "a", "b", "d"]);
        assert_eq!(fs::read_to_string(at("d/a")).unwrap(), "kept\n", "{option}");
        assert_eq!(fs::read_to_string(at("d/b")).unwrap(), b, "{option}");
        let inode = |name: &str| fs::metadata(at(name)).unwrap().ino();
        assert_eq!(inode("d/a") == inode("d/b"), option == "-u", "{option}");
    }
}

#[test]
fn a_file_is_copied_again_where_another_file_took_the_name_of_its_first_copy() {
    let dir = with_files(&[("a", b"new\n"), ("other", b"other\n")]);
    let at = |name: &str| dir.path().join(name);
    fs::hard_link(at("a"), at("b")).unwrap();
    fs::create_dir(at("d")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pause")).status().unwrap().success());
    let mut command = gush();
    command.args(["cp", "--preserve=links", "a", "pause", "b", "d"]).current_dir(dir.path());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // Opens when the program reads the FIFO: then `a` is copied, and `b` waits for this end to
    // close.
    let pause = fs::File::options().write(true).open(at("pause")).unwrap();
    fs::rename(at("other"), at("d/a")).unwrap();
    drop(pause);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        stderr(&output),
        "gush: cp: warning: 'd/b' is copied, not linked to 'd/a': that name has another inode by now\n"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(at("d/b")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(at("d/a")).unwrap(), "other\n");
}

/// As some file systems of FUSE number inodes: a rename gives the file another one.
#[test]
fn no_name_is_lost_where_inode_numbers_follow_names() {
    let dir = with_files(&[]);
    let text = "command -v unionfs >/dev/null || exit 99
        mkdir a rw ro && echo content >a/one && ln a/one a/two && unionfs -o cow rw=RW:ro=RO m || exit
        for options in -a '-a --atomic' '-a --resume' '-a --resume --atomic'; do
            $G cp $options -T a m/d && cmp a/one m/d/one && cmp a/two m/d/two || failed=1
            rm -r m/d
        done
        umount m
        exit ${failed-0}";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    match output.status.code() {
        Some(99) => skipped("unionfs is not installed"),
        status => assert_eq!(status, Some(0), "{}", stderr(&output)),
    }
}

#[test]
fn links_to_links_are_links_to_the_copied_link() {
    let dir = with_files(&[]);
    let at = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink("nowhere", at("a")).unwrap();
    fs::hard_link(at("a"), at("b")).unwrap();
    fs::create_dir(at("d")).unwrap();
    succeeds(dir.path(), &["-d", "a", "b", "d"]);
    let entry = |name: &str| fs::symlink_metadata(at(name)).unwrap();
    assert!(entry("d/b").is_symlink());
    assert_eq!(entry("d/a").ino(), entry("d/b").ino());
}
