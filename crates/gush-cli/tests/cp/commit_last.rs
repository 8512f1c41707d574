//! `gush cp -r --commit-last`: files that appear when all else is there.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::cp::{below, cp, fails, names, stderr, stdout, succeeds, tree};
use crate::common::{gush, skipped, strace};

#[test]
fn a_manifest_comes_when_all_else_is_there() {
    let dir = tree(&["a/MANIFEST", "a/b/f", "a/c/d/g", "a/z", "a/b/MANIFEST"]);
    for threads in ["--threads=1", "--threads=4"] {
        let options = ["-rT", threads, "--commit-last=/MANIFEST", "--json", "a", "d"];
        let output = succeeds(dir.path(), &options);
        let reported: Vec<serde_json::Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let place =
            |name: &str| reported.iter().position(|record| record["source"] == name).unwrap();
        for name in ["a/b/f", "a/b", "a/c/d/g", "a/c/d", "a/c", "a/z", "a/b/MANIFEST"] {
            assert!(place(name) < place("a/MANIFEST"), "{threads} {name}");
        }
        assert_eq!(below(&dir.path().join("a")), below(&dir.path().join("d")));
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    let why =
        |name| format!("not copying '{name}': it is committed last, and other entries failed");
    assert!(said.contains(&(why("a/MANIFEST") + "\n")), "{said}");
    assert_eq!(
        below(&dir.path().join("d")),
        ["b", "b/f", "c", "c/d", "c/d/g", "z", "z/in the way"]
    );
    // An older one vouches for files that may be replaced by now.
    fs::write(dir.path().join("d/MANIFEST"), "old").unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    assert!(said.contains(&(why("a/MANIFEST") + " ('d/MANIFEST' is an older one)\n")), "{said}");
    assert!(said.contains(&(why("a/b/MANIFEST") + "\n")), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("d/MANIFEST")).unwrap(), "old");
}

/// A reader that finds the manifest may trust it: nobody finds a part.
#[test]
fn a_manifest_that_replaces_an_older_one_appears_whole() {
    let dir = tree(&["a/MANIFEST", "a/b/f", "d/MANIFEST"]);
    let at = |name: &str| dir.path().join(name);
    fs::write(at("d/MANIFEST"), "old").unwrap();
    // Whoever has the old one open keeps the old bytes.
    fs::hard_link(at("d/MANIFEST"), at("open")).unwrap();
    succeeds(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    assert_eq!(fs::read_to_string(at("d/MANIFEST")).unwrap(), "a/MANIFEST");
    assert_eq!(fs::read_to_string(at("open")).unwrap(), "old");
    // A link stays one, as in any tree.
    fs::remove_file(at("d/MANIFEST")).unwrap();
    symlink("real", at("d/MANIFEST")).unwrap();
    fs::write(at("d/real"), "old").unwrap();
    succeeds(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    assert_eq!(fs::read_link(at("d/MANIFEST")).unwrap(), Path::new("real"));
    assert_eq!(fs::read_to_string(at("d/real")).unwrap(), "a/MANIFEST");
}

/// What the older manifest names stays until the new one is there.
#[test]
fn a_mirror_removes_after_the_manifest() {
    for threads in ["--threads=1", "--threads=4"] {
        let dir = tree(&["a/MANIFEST", "a/b/f", "d/MANIFEST", "d/b/old", "d/old", "d/gone/x"]);
        let options = ["-rT", threads, "--delete", "--commit-last=MANIFEST", "--json", "a", "d"];
        for dry in [&["--dry-run"][..], &[]] {
            let output = succeeds(dir.path(), &[&options[..], dry].concat());
            let reported: Vec<serde_json::Value> =
                stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let place =
                |name: &str| reported.iter().position(|record| record["target"] == name).unwrap();
            for name in ["d/b/old", "d/old", "d/gone"] {
                assert!(place("d/MANIFEST") < place(name), "{threads} {name}: {reported:?}");
            }
        }
        assert_eq!(below(&dir.path().join("d")), ["MANIFEST", "b", "b/f"]);
        let [from, to] = ["a/b", "d/b"].map(|name| dir.path().join(name));
        fs::write(to.join("old"), "").unwrap();
        succeeds(dir.path(), &["-aT", threads, "--delete", "--commit-last=MANIFEST", "a", "d"]);
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&from), time(&to), "{threads}");
    }
}

#[test]
fn a_mirror_that_fails_before_its_manifest_removes_nothing() {
    // Another file, or the manifest itself, cannot take the place of what the filters keep.
    for hindered in ["z", "MANIFEST"] {
        let dir = tree(&["a/MANIFEST", "a/z", "d/old", "d/gone/x"]);
        let kept = dir.path().join("d").join(hindered);
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f.keep"), "").unwrap();
        let before = below(&dir.path().join("d"));
        let options = ["-rTv", "--delete", "--commit-last=MANIFEST", "--exclude=*.keep", "a", "d"];
        for dry in [&["--dry-run"][..], &[]] {
            let output = cp(dir.path(), &[&options[..], dry].concat());
            assert_eq!(output.status.code(), Some(1), "{hindered}");
            let said = stderr(&output);
            assert!(said.contains("d: what the source lacks was not removed: that"), "{said}");
            assert!(!stdout(&output).contains("remove"), "{}", stdout(&output));
            let after = below(&dir.path().join("d"));
            for name in &before {
                assert!(after.contains(name), "{hindered} {name}: {said}");
            }
        }
    }
}

/// The content of each file below a directory, and the text of each link.
fn contents(root: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let text = |path: &Path| fs::read_link(path).map(|text| text.into_os_string().into_vec());
    let content = |path: &Path| text(path).or_else(|_| fs::read(path)).ok();
    below(root).into_iter().map(|name| (name.clone(), content(&root.join(name)))).collect()
}

/// A tree, and an older one in its place where a directory, a file and a link are other kinds.
fn tree_of_other_kinds(more: &[&str]) -> tempfile::TempDir {
    let files = ["a/MANIFEST", "a/b", "a/c/x/y", "a/l", "a/s/b", "d/b/x/y", "d/c", "d/s/b/z"];
    let dir = tree(&[&files[..], more].concat());
    symlink("c", dir.path().join("d/l")).unwrap();
    fs::write(dir.path().join("d/MANIFEST"), "old").unwrap();
    dir
}

#[test]
fn what_gives_way_to_another_kind_is_removed_after_the_manifest() {
    for threads in ["--threads=1", "--threads=4"] {
        let dir = tree_of_other_kinds(&[]);
        let options = ["-rT", threads, "--delete", "--commit-last=MANIFEST", "--json", "a", "d"];
        let output = succeeds(dir.path(), &options);
        let records: Vec<serde_json::Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let manifest = records.iter().position(|record| record["source"] == "a/MANIFEST").unwrap();
        let is_removed = |record: &&serde_json::Value| record["action"] == "removed";
        let removed: Vec<_> = records[..manifest].iter().filter(is_removed).collect();
        assert!(removed.is_empty(), "{threads}: {removed:?}");
        let mut removed: Vec<_> = records[manifest..]
            .iter()
            .filter(is_removed)
            .map(|record| record["target"].as_str().unwrap())
            .collect();
        removed.sort_unstable();
        assert_eq!(removed, ["d/b", "d/c", "d/l", "d/s/b"], "{threads}");
        let [from, to] = ["a", "d"].map(|name| contents(&dir.path().join(name)));
        assert_eq!(from, to, "{threads}");
    }
}

#[test]
fn what_gave_way_to_another_kind_is_back_if_the_copy_fails_before_its_manifest() {
    // Another file, or the manifest itself, cannot take the place of what the filters keep.
    for (hindered, threads) in [("z", "--threads=1"), ("z", "--threads=4"), ("M", "--threads=1")] {
        let kept = format!("d/{hindered}/f.keep");
        let dir = tree_of_other_kinds(&["a/M", "a/z", "d/old", &kept]);
        let before = contents(&dir.path().join("d"));
        let options = ["--commit-last=MANIFEST", "--commit-last=M", "--exclude=*.keep", "a", "d"];
        let options = [&["-rTv", threads, "--delete", "--on-error=stop"][..], &options].concat();
        for options in [&options[..], &[&options[..], &["--on-error=continue"]].concat()] {
            // The other manifest must not come first.
            fs::rename(dir.path().join("a/MANIFEST"), dir.path().join("MANIFEST")).unwrap();
            let dry = cp(dir.path(), &[options, &["--dry-run"]].concat());
            assert!(!stdout(&dry).contains("remove"), "{}", stdout(&dry));
            let output = cp(dir.path(), options);
            fs::rename(dir.path().join("MANIFEST"), dir.path().join("a/MANIFEST")).unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            assert!(!stdout(&output).contains("removed"), "{}", stdout(&output));
            let after = contents(&dir.path().join("d"));
            for entry in &before {
                assert!(after.contains(entry), "{hindered} {entry:?}: {}", stderr(&output));
            }
            let is_temporary = |name: &str| name.contains(".gush-");
            assert!(!after.iter().any(|(name, _)| is_temporary(name)), "{after:?}");
        }
    }
}

/// One of two manifests is there, and names the new entries: the older ones must not come back.
#[test]
fn a_new_manifest_keeps_what_it_names_if_another_one_fails() {
    // Of the last files, the deepest come first.
    let dir = tree_of_other_kinds(&["a/M", "a/w/MANIFEST", "d/M/f.keep"]);
    let options = ["--commit-last=M*", "--exclude=*.keep", "--threads=1", "a", "d"];
    let said = fails(dir.path(), &[&["-rT", "--delete"][..], &options].concat());
    assert!(said.contains("d: what the source lacks was not removed: that"), "{said}");
    for name in ["b", "c", "l", "s/b"] {
        let kept = format!("the older 'd/{name}' is kept: not everything was copied (it is 'd/");
        assert!(said.contains(&kept), "{said}");
    }
    let [from, to] = ["a", "d"].map(|name| contents(&dir.path().join(name)));
    for entry in from.iter().filter(|(name, _)| !["M", "MANIFEST"].contains(&name.as_str())) {
        assert!(to.contains(entry), "{entry:?} {to:?}");
    }
    fs::remove_dir_all(dir.path().join("d/M")).unwrap();
    succeeds(dir.path(), &[&["-rT", "--delete"][..], &options].concat());
    assert_eq!(contents(&dir.path().join("d")), from);
}

/// The copy of the manifest itself fails after its old name was set aside.
#[test]
fn what_gave_way_is_back_if_the_manifest_of_another_kind_cannot_be_written() {
    let dir = tree(&["a/b", "d/MANIFEST/x", "d/b/y"]);
    fs::write(dir.path().join("a/MANIFEST"), vec![7; 1 << 20]).unwrap();
    let before = contents(&dir.path().join("d"));
    // 64 KiB a file; the signal for a larger one is ignored, so that the write fails.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" cp -rT --delete --commit-last=MANIFEST a d";
    let gush = env!("CARGO_BIN_EXE_gush");
    let mut command = std::process::Command::new("bash");
    let output = command.args(["-c", script, gush]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(contents(&dir.path().join("d")), before, "{}", stderr(&output));
}

/// A link that leads out of the tree is a last file that is there.
#[test]
fn a_new_link_keeps_what_it_names_if_another_last_file_fails() {
    let dir = tree(&["a/b", "a/w/f", "a/M", "d/b/y", "d/M/f.keep", "outside"]);
    symlink(dir.path().join("outside"), dir.path().join("a/w/latest")).unwrap();
    let options = ["--commit-last=M", "--commit-last=latest", "--exclude=*.keep", "--threads=1"];
    let said = fails(dir.path(), &[&["-rT", "--delete"][..], &options, &["a", "d"]].concat());
    assert!(fs::symlink_metadata(dir.path().join("d/w/latest")).is_ok(), "{said}");
    assert!(dir.path().join("d/b").is_file(), "{said}");
    assert!(said.contains("the older 'd/b' is kept: not everything was copied"), "{said}");
}

#[test]
fn a_copy_killed_before_its_manifest_ends_in_the_right_tree_when_run_again() {
    for resume in [&["--resume"][..], &[]] {
        let dir = tree_of_other_kinds(&[]);
        let [from, to] = ["a", "d"].map(|name| dir.path().join(name));
        fs::write(from.join("b"), [7; 100_000]).unwrap();
        let old = contents(&to.join("b"));
        let options = [&["-rT", "--delete", "--commit-last=MANIFEST", "a", "d"][..], resume];
        let options = options.concat();
        let limited = ["cp", "--limit=1000", "--threads=1"];
        let copy = &mut gush();
        let mut copy = copy.args(limited).args(&options).current_dir(dir.path()).spawn().unwrap();
        let aside = || names(&to).into_iter().find(|name| name.starts_with(".b.gush-"));
        while aside().is_none() {
            assert!(copy.try_wait().unwrap().is_none(), "the copy takes minutes");
            std::thread::yield_now();
        }
        copy.kill().unwrap();
        copy.wait().unwrap();
        assert_eq!(contents(&to.join(aside().unwrap())), old, "nothing is lost");
        assert_eq!(fs::read_to_string(to.join("MANIFEST")).unwrap(), "old");
        succeeds(dir.path(), &options);
        assert_eq!(contents(&from), contents(&to));
        assert_eq!(names(dir.path()), ["a", "d"]);
    }
}

/// More directories than may be open at once wait for their last file, and have something to remove
/// after it.
#[test]
fn directories_that_wait_for_their_last_file_need_few_descriptors() {
    let of_one = |dir: usize| [format!("a/{dir}/f"), format!("a/{dir}/M"), format!("d/{dir}/old")];
    let files: Vec<_> = (0..100).flat_map(of_one).collect();
    let dir = tree(&files.iter().map(String::as_str).collect::<Vec<_>>());
    for (options, to) in [("--delete", "d"), ("", "new")] {
        let text = format!("ulimit -n 40; $G cp -rT {options} --commit-last=M a {to}");
        let output = crate::common::cp::script(dir.path(), &text);
        assert!(output.status.success(), "{options}: {}", stderr(&output));
        assert_eq!(below(&dir.path().join(to)), below(&dir.path().join("a")), "{options}");
    }
}

#[test]
fn what_is_in_a_directory_that_comes_last_comes_last() {
    let dir = tree(&["a/b/f", "a/meta/f", "a/meta/x/g", "a/z"]);
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=meta/", "a", "d"]);
    for name in ["a/meta/f", "a/meta/x/g"] {
        assert!(said.contains(&format!("not copying '{name}': it is committed last")), "{said}");
    }
    assert_eq!(below(&dir.path().join("d")), ["b", "b/f", "meta", "meta/x", "z", "z/in the way"]);
    // A file of that name is no directory.
    let dir = tree(&["a/meta", "a/z"]);
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    fails(dir.path(), &["-rT", "--commit-last=meta/", "a", "d"]);
    assert_eq!(below(&dir.path().join("d")), ["meta", "z", "z/in the way"]);
}

/// Copies `a` to `d`, and returns the calls before the one that makes a manifest, with the path of
/// each descriptor.
fn calls_before_the_manifest(dir: &Path) -> Result<Vec<String>, String> {
    let mut traced = strace(&["-y", "-o", "calls", "-e", "trace=openat,linkat,fsync"])?;
    let options = ["cp", "-r", "--threads=1", "--commit-last=MANIFEST", "a", "d"];
    let output = traced.args(options).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = fs::read_to_string(dir.join("calls")).unwrap();
    let is_made = |call: &str| call.contains("\"MANIFEST\"") && call.contains("linkat(");
    let before: Vec<_> =
        calls.lines().take_while(|call| !is_made(call)).map(str::to_owned).collect();
    assert!(before.len() < calls.lines().count(), "{calls}");
    Ok(before)
}

#[test]
fn every_directory_that_waits_is_on_stable_storage_before_the_first_manifest() {
    let dir = tree(&["a/b/MANIFEST", "a/c/MANIFEST", "a/d/e/MANIFEST"]);
    for name in ["b", "c", "d/e"] {
        fs::create_dir(dir.path().join("a").join(name).join("empty")).unwrap();
    }
    let calls = match calls_before_the_manifest(dir.path()) {
        Ok(calls) => calls,
        Err(why) => return skipped(&why),
    };
    for name in ["d", "d/b", "d/c", "d/d", "d/d/e"] {
        let is_synced = |call: &str| call.contains("fsync(") && call.contains(&format!("/{name}>"));
        assert!(calls.iter().any(|call| is_synced(call)), "{name}: {calls:#?}");
    }
}

#[test]
fn all_else_is_on_stable_storage_before_the_manifest_is_made() {
    let dir = tree(&["a/MANIFEST", "a/b/f", "a/c/g", "a/z"]);
    let calls = match calls_before_the_manifest(dir.path()) {
        Ok(calls) => calls,
        Err(why) => return skipped(&why),
    };
    let synced = calls.iter().filter(|call| call.contains("fsync(")).count();
    // Three files and their directories, the two directories that are complete, and the root.
    const FEWEST: usize = 3 + 3 + 2 + 1;
    assert!(synced >= FEWEST, "{calls:#?}");
    assert!(calls.iter().filter(|call| call.contains("O_CREAT")).count() >= 3, "{calls:#?}");
}
