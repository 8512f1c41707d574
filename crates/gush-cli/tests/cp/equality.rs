//! Options that promise an equal tree: no file of the target is written by two of its names.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::common::cp::{cp, fails, stderr, stdout, succeeds, with_mounts};

/// A source of two files, and a target in which both names are one file, which a snapshot has, too.
fn linked_target() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["a", "d", "snapshot"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("a/1"), "one").unwrap();
    fs::write(at("a/2"), "two two").unwrap();
    fs::write(at("d/1"), "older").unwrap();
    fs::hard_link(at("d/1"), at("d/2")).unwrap();
    fs::hard_link(at("d/1"), at("snapshot/1")).unwrap();
    dir
}

fn texts(dir: &Path, names: [&str; 3]) -> [String; 3] {
    names.map(|name| fs::read_to_string(dir.join(name)).unwrap())
}

#[test]
fn a_promise_of_equality_breaks_hard_links_of_the_target() {
    for promise in [
        &["--delete"][..],
        &["--verify"],
        &["--resume"],
        &["--stable"],
        &["--fsync"],
        &["--checksum"],
        &["--update=changed"],
        &["--commit-last=none"],
        &["--delete", "--verify", "--preallocate"],
        &["--verify", "--no-confine"],
    ] {
        for threads in ["--threads=1", "--threads=4"] {
            let dir = linked_target();
            let options = [&["-rT", threads], promise, &["a", "d"]].concat();
            succeeds(dir.path(), &options);
            let found = texts(dir.path(), ["d/1", "d/2", "snapshot/1"]);
            assert_eq!(found, ["one", "two two", "older"], "{options:?}");
        }
    }
}

#[test]
fn ranks_break_hard_links_of_the_target() {
    let dir = linked_target();
    let text = "$G cp -rT --shard=1/2 a d & $G cp -rT --shard=0/2 a d && wait $!";
    let output = crate::common::cp::script(dir.path(), text);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = texts(dir.path(), ["d/1", "d/2", "snapshot/1"]);
    assert_eq!(found, ["one", "two two", "older"]);
}

/// Another rank may write to the file at the end of the link.
#[test]
fn ranks_that_promise_equality_write_through_no_link_of_the_target() {
    let dir = linked_target();
    fs::remove_file(dir.path().join("d/1")).unwrap();
    fs::write(dir.path().join("d/kept"), "kept").unwrap();
    symlink("kept", dir.path().join("d/1")).unwrap();
    let text = "$G cp -rT --verify --shard=1/2 a d & $G cp -rT --verify --shard=0/2 a d; wait";
    let said = stderr(&crate::common::cp::script(dir.path(), text));
    assert!(said.contains("not writing to 'd/1': a symbolic link to a file"), "{said}");
    assert_eq!(texts(dir.path(), ["d/kept", "d/2", "snapshot/1"]), ["kept", "two two", "older"]);
}

#[test]
fn a_tree_replaces_the_files_of_one_copied_before() {
    for promise in ["--verify", "--checksum", "--update=changed", "--fsync", "--stable"] {
        let dir = linked_target();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("b")).unwrap();
        fs::write(at("b/2"), "another").unwrap();
        succeeds(dir.path(), &["-r", promise, "a/.", "b/.", "d"]);
        assert_eq!(texts(dir.path(), ["d/1", "d/2", "snapshot/1"]), ["one", "another", "older"]);
    }
}

/// A file that is kept, and then gives way to a link, leaves its inode number to new files: at once
/// on ext4 and XFS.
#[test]
fn new_files_may_have_the_inode_numbers_of_files_that_became_links() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: String| dir.path().join(name);
    ["a", "d"].into_iter().for_each(|name| fs::create_dir(at(name.into())).unwrap());
    for pair in 0..100 {
        fs::write(at(format!("a/{pair}")), "same").unwrap();
        fs::write(at(format!("a/new{pair}")), "new").unwrap();
        for name in [pair.to_string(), format!("link{pair}")] {
            fs::write(at(format!("d/{name}")), "same").unwrap();
        }
        fs::hard_link(at(format!("a/{pair}")), at(format!("a/link{pair}"))).unwrap();
    }
    succeeds(dir.path(), &["-rdT", "--threads=1", "--checksum", "a", "d"]);
    for pair in 0..100 {
        assert_eq!(fs::read_to_string(at(format!("d/new{pair}"))).unwrap(), "new");
    }
}

#[test]
fn without_a_promise_hard_links_of_the_target_are_written_through_as_by_gnu() {
    let dir = linked_target();
    succeeds(dir.path(), &["-rT", "--threads=1", "a", "d"]);
    let [first, second, snapshot] = texts(dir.path(), ["d/1", "d/2", "snapshot/1"]);
    assert!(first == second && second == snapshot && first != "older", "{first}");
    // The name of one file alone: the user asks for this file.
    succeeds(dir.path(), &["--verify", "a/1", "d/1"]);
    assert_eq!(texts(dir.path(), ["d/1", "d/2", "snapshot/1"]), ["one"; 3]);
}

#[test]
fn a_promise_for_several_operands_breaks_hard_links_of_the_target() {
    let dir = linked_target();
    succeeds(dir.path(), &["--verify", "a/1", "a/2", "d"]);
    let found = texts(dir.path(), ["d/1", "d/2", "snapshot/1"]);
    assert_eq!(found, ["one", "two two", "older"]);
}

/// A file that needs no copy keeps its bytes, whichever of its names comes first.
#[test]
fn a_name_that_is_equal_stays_so_where_another_name_of_its_file_is_not() {
    for equal in ["1", "2"] {
        let dir = linked_target();
        fs::copy(dir.path().join("a").join(equal), dir.path().join("d/1")).unwrap();
        let inode = |name: &str| fs::metadata(dir.path().join("d").join(name)).unwrap().ino();
        let before = inode(equal);
        succeeds(dir.path(), &["-rT", "--checksum", "a", "d"]);
        assert_eq!(texts(dir.path(), ["d/1", "d/2", "a/1"]), ["one", "two two", "one"]);
        assert_eq!(inode(equal), before, "{equal}");
    }
}

/// Copies `a` to `d` and expects that one of two names of a file is refused, by the dry run, too.
fn refuses_one_of(dir: &Path, options: &[&str], [first, second]: [&str; 2]) {
    for dry in [&["--dry-run"][..], &[]] {
        let words = [options, dry, &["a", "d"]].concat();
        let said = fails(dir, &words);
        let refused = |name: &str| {
            said.contains(&format!("not writing to '{name}': this name leads to a file"))
        };
        assert!(refused(first) != refused(second), "{words:?}: {said}");
    }
}

#[test]
fn a_file_that_a_link_of_the_target_leads_to_is_written_once() {
    for promise in ["--verify", "--checksum", "--stable", "--resume"] {
        for (link, to) in [("1", "2"), ("2", "1")] {
            let dir = linked_target();
            let at = |name: &str| dir.path().join("d").join(name);
            fs::remove_file(at("1")).unwrap();
            fs::remove_file(at("2")).unwrap();
            fs::write(at(to), "old").unwrap();
            symlink(to, at(link)).unwrap();
            let threads = "--threads=1";
            if promise == "--resume" {
                let said = fails(dir.path(), &["-rT", threads, promise, "a", "d"]);
                assert_eq!(said.matches(": this name leads to a file").count(), 1, "{said}");
                // Going on, as with every target that the journal does not know, the link is
                // replaced.
                succeeds(dir.path(), &["-rT", threads, promise, "a", "d"]);
                assert_eq!(texts(dir.path(), ["d/1", "d/2", "a/1"]), ["one", "two two", "one"]);
                continue;
            }
            refuses_one_of(dir.path(), &["-rT", threads, promise], ["d/1", "d/2"]);
            succeeds(dir.path(), &["-rT", "--remove-destination", promise, "a", "d"]);
            assert_eq!(texts(dir.path(), ["d/1", "d/2", "a/1"]), ["one", "two two", "one"]);
        }
    }
}

#[test]
fn a_file_made_by_a_copy_is_not_written_again_through_a_link() {
    let dir = linked_target();
    let at = |name: &str| dir.path().join("d").join(name);
    fs::remove_file(at("1")).unwrap();
    fs::remove_file(at("2")).unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/f"), "below").unwrap();
    // The file at the end of the link is in a directory that the copy makes.
    symlink("b/f", at("1")).unwrap();
    let output = cp(dir.path(), &["-rT", "--verify", "--json", "a", "d"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(fs::read_to_string(at("b/f")).unwrap(), "below", "{}", stderr(&output));
}

#[test]
fn an_equal_file_at_the_end_of_a_link_of_the_target_is_not_written_by_its_own_name() {
    let dir = linked_target();
    let at = |name: &str| dir.path().join("d").join(name);
    fs::remove_file(at("1")).unwrap();
    fs::write(at("2"), "one").unwrap();
    symlink("2", at("1")).unwrap();
    fs::remove_file(dir.path().join("snapshot/1")).unwrap();
    let said = fails(dir.path(), &["-rT", "--checksum", "--threads=1", "a", "d"]);
    assert_eq!(said.matches(": this name leads to a file").count(), 1, "{said}");
}

#[test]
fn a_directory_that_two_names_of_the_target_lead_to_gets_no_file_twice() {
    let files = [("a/x/f", "first"), ("a/y/f", "second file"), ("d/x/old", "old")];
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink("x", dir.path().join("d/y")).unwrap();
    let options = ["-rT", "--threads=1", "--verify", "--keep-directory-symlink", "a", "d"];
    let said = fails(dir.path(), &options);
    assert_eq!(said.matches("f': this name leads").count(), 1, "{said}");
    for options in ["", "--remove-destination", "--atomic", "-f"] {
        let script = format!(
            "rm -r d; mkdir -p d/x d/y && mount --bind d/x d/y && \
            $G cp -rT --threads=1 --verify {options} a d; echo $?; cat d/x/f"
        );
        let Some(output) = with_mounts(dir.path(), &script) else { return };
        let (reported, said) = (stdout(&output), stderr(&output));
        // The copy that was made first, whichever of the two.
        assert!(
            ["1\nfirst", "1\nsecond file"].contains(&&*reported),
            "{options}: {reported} {said}"
        );
        let refusals = said.matches("f': this name leads").count();
        assert_eq!(refusals, 1, "{options}: {said}");
    }
}
