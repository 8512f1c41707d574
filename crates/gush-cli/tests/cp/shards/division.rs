//! Which rank copies which file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{end, start, state, tree};
use crate::common::cp::{fails, names, script, stderr, succeeds};
use crate::common::{noise, skipped, strace};

/// For each name of a file, the ranks that make a call with the name, in their whole lives. Two
/// ranks copy `a` to `d`.
fn ranks_that_name(dir: &Path, names: &[&str]) -> Result<BTreeMap<String, Vec<u32>>, String> {
    let mut ranks = Vec::new();
    for rank in [0, 1] {
        let log = dir.join(format!("calls-{rank}"));
        let mut traced = strace(&["-o", log.to_str().unwrap(), "-e", "trace=%file"])?;
        traced.args(["cp", "-a", &format!("--shard={rank}/2"), "a", "d"]).current_dir(dir);
        ranks.push(traced.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    let mut named_by: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for rank in [0, 1] {
        let calls = fs::read_to_string(dir.join(format!("calls-{rank}"))).unwrap();
        for name in names.iter().filter(|name| calls.contains(&format!("\"{name}\""))) {
            named_by.entry((*name).to_owned()).or_default().push(rank);
        }
    }
    Ok(named_by)
}

#[test]
fn no_rank_looks_at_a_file_of_another() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/sub/below")).unwrap();
    let files: Vec<String> = (0..60).map(|number| format!("of-one-{number}")).collect();
    for (number, name) in files.iter().enumerate() {
        let at = dir.path().join(["a", "a/sub", "a/sub/below"][number % 3]).join(name);
        match number % 5 {
            0 => symlink("some/where", at).unwrap(),
            _ => fs::write(at, "some bytes").unwrap(),
        }
    }
    // Each file has two names, in two directories.
    for number in 0..10 {
        let name = dir.path().join(format!("a/two-names-{number}"));
        fs::write(&name, "some bytes").unwrap();
        fs::hard_link(name, dir.path().join(format!("a/sub/second-name-{number}"))).unwrap();
    }
    let pairs: Vec<[String; 2]> = (0..10)
        .map(|number| [format!("two-names-{number}"), format!("second-name-{number}")])
        .collect();
    let all: Vec<&str> = files.iter().chain(pairs.iter().flatten()).map(String::as_str).collect();
    let named_by = match ranks_that_name(dir.path(), &all) {
        Ok(named_by) => named_by,
        Err(why) => return skipped(&why),
    };
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(named_by.len(), all.len());
    // Both have some: the rank that copies a file is the only one that ever names it, also when
    // rank 0 completes the directories.
    let of_rank = |rank: u32| named_by.values().filter(|ranks| **ranks == [rank]).count();
    assert!(of_rank(0) > 0 && of_rank(1) > 0, "{named_by:?}");
    assert_eq!(of_rank(0) + of_rank(1), all.len(), "{named_by:?}");
    for [one, other] in &pairs {
        assert_eq!(named_by[one], named_by[other], "{one} and {other} are one file");
    }
}

#[test]
fn files_with_names_in_several_directories_are_linked_by_any_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a/x/y", "a/z"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    for number in 0..40 {
        let first = dir.path().join(format!("a/first-{number}"));
        match number % 4 {
            0 => symlink("nowhere", &first).unwrap(),
            _ => fs::write(&first, noise(number * 10, 3)).unwrap(),
        }
        for other in ["x", "x/y", "z"] {
            let other = dir.path().join("a").join(other).join(format!("n{number}"));
            fs::hard_link(&first, other).unwrap();
        }
    }
    for words in [["-a", "a", "d"], ["-aL", "a", "d"]] {
        if words[0] == "-aL" {
            // Links that lead nowhere are an error with -L; now they lead to a file of the tree.
            fs::write(dir.path().join("a/nowhere"), "somewhere").unwrap();
            let text = "for d in a/x a/x/y a/z; do ln a/nowhere $d/nowhere; done";
            assert!(script(dir.path(), text).status.success());
        }
        succeeds(dir.path(), &[words[0], words[1], "one"]);
        for ranks in [2, 3, 5] {
            let started: Vec<_> = (0..ranks)
                .map(|rank| start(dir.path(), &format!("{rank}/{ranks}"), &words))
                .collect();
            for rank in started {
                let (status, said) = end(rank);
                assert_eq!(status, Some(0), "{words:?} {ranks}: {said}");
            }
            let (copied, expected) = (state(&dir.path().join("d")), state(&dir.path().join("one")));
            assert_eq!(copied.1, expected.1, "{words:?} {ranks}");
            // Rank 0 gives directories of both copies the times of the source.
            assert_eq!(copied.0, expected.0, "{words:?} {ranks}");
            fs::remove_dir_all(dir.path().join("d")).unwrap();
        }
        fs::remove_dir_all(dir.path().join("one")).unwrap();
    }
}

/// Ranks do as the first one of them has written.
#[test]
fn ranks_divide_a_tree_by_the_rule_of_the_one_that_began() {
    let dir = tree();
    let rule = dir.path().join(".d.gush-shards/rule");
    let begin = |text: &str| {
        fs::create_dir(dir.path().join(".d.gush-shards")).unwrap();
        symlink(text, &rule).unwrap();
    };
    begin("paths");
    let ranks = ["0/2", "1/2"].map(|shard| start(dir.path(), shard, &["-a", "a", "d"]));
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
    // Of a source that has another inode number elsewhere.
    begin("inodes-1");
    let said = fails(dir.path(), &["-aT", "--shard=0/2", "a", "d"]);
    // Where the numbers of this source do not last, that is the reason; they are not those of the
    // rank that began in any case.
    assert!(
        said.contains("not copying 'a': the ranks divide this tree by inode numbers"),
        "{said}"
    );
}

/// On an overlay, the listing may have other inode numbers than a look.
#[test]
fn ranks_copy_a_tree_on_a_file_system_without_lasting_inode_numbers() {
    let dir = tree();
    let text = "mkdir upper work all && cp -a a/b/f2 upper/more && ln upper/more upper/again &&
        mount -t overlay -o lowerdir=a,upperdir=upper,workdir=work none all && mount -t tmpfs none store && cd store &&
        \"$1\" cp -a --shard 0/2 ../all d & first=$!
        until test -L store/.d.gush-shards/rule; do sleep 0.01; kill -0 $first || exit; done; readlink store/.d.gush-shards/rule
        cd store && \"$1\" cp -a --shard 1/2 ../all d && wait $first && \"$1\" cp -a d ../copied && ls -A && cp -a ../all ../expected";
    fs::create_dir(dir.path().join("store")).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "bash", "-c", text, "bash", env!("CARGO_BIN_EXE_gush")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = stderr(&output);
    if said.contains("unshare failed") || said.contains("mount: ") {
        return skipped(&format!("no overlay of this test's own: {said}"));
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "paths\nd\n", "{said}");
    assert_eq!(state(&dir.path().join("copied")), state(&dir.path().join("expected")));
}
