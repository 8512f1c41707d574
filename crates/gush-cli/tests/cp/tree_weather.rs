//! `gush cp -r` in bad weather: full and read-only targets, loops of links, names taken by
//! something of another type. Each entry is copied, or reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::cp::{fails, stderr, stdout, with_mounts};
use crate::common::{noise, not_applicable, skipped, words_of};
use rustix::io::Errno;

/// Some small files around a large one.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a/b", "a/y"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
        for number in 0..20 {
            fs::write(dir.path().join(name).join(number.to_string()), name.repeat(100)).unwrap();
        }
    }
    fs::write(dir.path().join("a/large"), noise(3 << 20, 1)).unwrap();
    dir
}

/// Is a file, or a directory above, named in a message?
fn is_reported(file: &str, said: &str) -> bool {
    let mut above = Path::new(file).ancestors().filter(|path| !path.as_os_str().is_empty());
    above.any(|path| said.contains(&format!("'m/d/{}'", path.display())))
}

#[test]
fn a_tree_that_finds_no_space_reports_each_file_that_it_lacks() {
    let dir = tree();
    for (limit, options) in [
        ("size=1m", "-a"),
        ("size=1m", "-r --threads 3"),
        ("size=1m", "-a --atomic"),
        ("nr_inodes=20", "-a"),
        ("nr_inodes=20", "-r --threads 3"),
    ] {
        let text = format!(
            "mount -t tmpfs -o {limit} none m && \"$G\" cp {options} a m/d; echo $? && cd a && \
             find . -type f -printf '%P\\n' | while read f; do cmp -s $f ../m/d/$f || echo $f; done"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        let (out, said) = (stdout(&output), stderr(&output));
        let files = out.strip_prefix("1\n").unwrap_or_else(|| panic!("{limit}: {out}{said}"));
        assert!(said.contains("No space left on device"), "{limit} {options}: {said}");
        assert!(!files.is_empty(), "{limit} {options}: nothing failed");
        for file in files.lines() {
            assert!(is_reported(file, &said), "{limit} {options}: {file} is not in {said}");
        }
    }
}

#[test]
fn a_tree_on_a_read_only_file_system_is_reported_and_changes_nothing() {
    let dir = tree();
    let text = "mount -t tmpfs none m && mkdir -p m/d/b && echo old >m/d/b/0 && mount -o remount,ro m && \
                \"$G\" cp -a -T a m/d; echo $?; find m/d -type f; cat m/d/b/0";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert_eq!(stdout(&output), "1\nm/d/b/0\nold\n", "{}", stderr(&output));
    let said = stderr(&output);
    for path in ["m/d/large", "m/d/y", "m/d/b/0", "m/d/b/19"] {
        assert!(said.contains(&format!("'{path}'")), "{path}: {said}");
    }
    assert!(said.contains("Read-only file system"), "{said}");
}

#[test]
fn a_loop_of_links_is_reported_and_all_else_is_copied() {
    let dir = tree();
    symlink("loop", dir.path().join("a/b/loop")).unwrap();
    let said = fails(dir.path(), &["-rL", "a", "d"]);
    let reported = format!("cannot stat 'a/b/loop': {}", words_of(Errno::LOOP));
    assert!(said.contains(&reported), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for name in ["b/0", "b/19", "y/7", "large"] {
        let [from, to] = ["a", "d"].map(|root| fs::read(dir.path().join(root).join(name)).unwrap());
        assert!(from == to, "{name}");
    }
}

#[test]
fn a_name_taken_by_another_type_is_reported_and_all_else_is_copied() {
    let dir = tree();
    for name in ["d/large", "d/b/0"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("d/y"), "a file").unwrap();
    let said = fails(dir.path(), &["-rT", "a", "d"]);
    for words in [
        "cannot overwrite directory 'd/large' with non-directory 'a/large'",
        "cannot overwrite directory 'd/b/0' with non-directory 'a/b/0'",
        "cannot overwrite non-directory 'd/y' with directory 'a/y'",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("d/y")).unwrap(), "a file");
    for number in 1..20 {
        let [from, to] = ["a/b", "d/b"]
            .map(|name| fs::read(dir.path().join(name).join(number.to_string())).unwrap());
        assert!(from == to, "{number}");
    }
}

/// exFAT, by a program of user space: no links of either kind, no FIFOs, no attributes, no holes,
/// no owners or modes.
#[test]
fn a_target_without_links_and_holes_gets_all_else() {
    let dir = tempfile::tempdir().unwrap();
    let make = "command -v mount.exfat-fuse mkfs.exfat >&2 || exit 99
        mkdir -p t/b && echo 1 >t/f && ln t/f t/g && ln -s f t/l && ln -s ../f t/b/k && mkfifo t/p
        echo 2 >t/x && echo 3 >t/b/y && chmod 600 t/x && setfattr -n user.x -v y t/x t/b/y
        truncate -s 8M t/hole && echo end >>t/hole && touch -d 2001-01-01 t/x t/b
        truncate -s 64M image && mkfs.exfat image >&2 && D=$(losetup -f --show image) || exit 98
        mount.exfat-fuse $D m >&2 || { losetup -d $D; exit 98; }
        losetup -d $D
        cp -a t m/gnu 2>gnu; echo $?
        \"$G\" cp -a t m/d 2>gush; echo $?
        for name in x b/y hole; do cmp t/$name m/d/$name && echo same; done
        [ $(stat -c %b m/d/hole) -ge 16384 ] && echo filled
        stat -c %Y m/d/x m/d/b
        [ -f m/d/f ] && cat m/d/f; [ -f m/d/g ] && cat m/d/g
        umount m";
    let Some(output) = with_mounts(dir.path(), make) else { return };
    if output.status.code() == Some(99) {
        return skipped("no exfat-fuse, or no exfatprogs");
    }
    if output.status.code() == Some(98) {
        return not_applicable(&format!("no exFAT can be mounted: {}", stderr(&output).trim()));
    }
    // One name of the file with two is copied, and the other one is no link.
    let expected = "1\n1\nsame\nsame\nsame\nfilled\n978307200\n978307200\n1\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    let said = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let (gnus, ours) = (said("gnu"), said("gush"));
    // An entry that is missing is named, each one; what is there without its attributes is not.
    for (name, what) in [("l", "symbolic link"), ("b/k", "symbolic link"), ("p", "fifo")] {
        assert!(ours.contains(&format!("cannot create {what} 'm/d/{name}': ")), "{ours}");
    }
    assert_eq!(ours.lines().filter(|line| line.contains("cannot create hard link")).count(), 1);
    assert_eq!(ours.lines().count(), gnus.lines().count(), "{ours}{gnus}");
}
