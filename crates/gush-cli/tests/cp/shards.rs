//! `gush cp -r --shard`: one tree copied by several processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::cp::{fails, names, script, stderr, succeeds};
use crate::common::{gush, noise, skipped, strace};

/// A tree with each kind of entry that a copy keeps.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a");
    for (number, name) in ["", "b", "b/c", "b/c/d", "e", "empty"].into_iter().enumerate() {
        let at = root.join(name);
        fs::create_dir_all(&at).unwrap();
        for file in 0..20 * usize::from(name != "empty") {
            fs::write(at.join(format!("f{file}")), noise(file * 999, number as u64)).unwrap();
        }
    }
    symlink("b/f1", root.join("link")).unwrap();
    for name in ["e/one", "b/c/two", "three"] {
        fs::hard_link(root.join("b/f3"), root.join(name)).unwrap();
    }
    let text =
        "cd a && mkfifo e/fifo && truncate -s 9M e/hole && chmod 4710 b/f4 && chmod 555 b/c/d &&
        chmod 1777 e && find . -depth -exec touch -h -d '2001-02-03 04:05:06.789' {} +";
    let output = script(dir.path(), text);
    assert!(output.status.success(), "{}", stderr(&output));
    dir
}

/// Everything that find tells of a tree, its files' contents, and which names are one file.
fn state(root: &Path) -> (String, BTreeMap<String, Vec<String>>) {
    let text = "find . -type d -printf '%P %y %m %U %G %T@\\n' -o -printf '%P %y %m %U %G %T@ %s %n %l\\n' | sort;
        find . -type f -print0 | sort -z | xargs -0 cksum";
    let output = script(root, text);
    assert!(output.status.success(), "{}", stderr(&output));
    let links =
        String::from_utf8(script(root, "find . -type f -printf '%i %P\\n' | sort").stdout).unwrap();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in links.lines() {
        let (inode, name) = line.split_once(' ').unwrap();
        names.entry(inode.to_owned()).or_default().push(name.to_owned());
    }
    // Inode numbers differ in the copy; the first name stands for each file.
    let one_each = names.into_values().map(|names| (names[0].clone(), names)).collect();
    (String::from_utf8(output.stdout).unwrap(), one_each)
}

fn start(dir: &Path, shard: &str, words: &[&str]) -> Child {
    // Ranks are started and not waited for: rank 0 ends last, when all others have reported.
    let mut command = gush();
    command.arg("cp").arg(format!("--shard={shard}")).args(words).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit status and what the process said.
fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ranks_in_any_order_copy_a_tree_as_one_process_does() {
    let dir = tree();
    let expected = state(&dir.path().join("a"));
    let orders: [&[u32]; 6] =
        [&[0, 1], &[1, 0], &[2, 0, 1], &[0, 2, 1], &[3, 1, 0, 2], &[0, 1, 2, 3]];
    for order in orders {
        let ranks: Vec<_> = order
            .iter()
            .map(|rank| {
                (rank, start(dir.path(), &format!("{rank}/{}", order.len()), &["-a", "a", "d"]))
            })
            .collect();
        for (rank, child) in ranks {
            let (status, said) = end(child);
            assert_eq!(status, Some(0), "{order:?} {rank}: {said}");
            let summary = format!("gush: cp: {} ranks: 106 files, ", order.len());
            assert_eq!(said.starts_with(&summary), *rank == 0, "{order:?} {rank}: {said}");
            assert_eq!(said.lines().count(), usize::from(*rank == 0), "{said}");
        }
        assert_eq!(state(&dir.path().join("d")), expected, "{order:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

#[test]
fn a_rank_that_starts_late_goes_to_the_directory_that_another_made() {
    let dir = tree();
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    assert_eq!(end(start(dir.path(), "1/2", &["-a", "a", "d"])).0, Some(0));
    assert_eq!(end(first).0, Some(0));
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    // A directory that was there before is one to copy into.
    fs::create_dir(dir.path().join("there")).unwrap();
    let ranks = ["1/2", "0/2"].map(|shard| start(dir.path(), shard, &["-a", "a", "there"]));
    for rank in ranks {
        assert_eq!(end(rank).0, Some(0));
    }
    assert_eq!(names(&dir.path().join("there")), ["a"]);
    assert_eq!(state(&dir.path().join("there/a")), state(&dir.path().join("a")));
}

#[test]
fn ranks_look_once_at_the_name_of_a_small_file_that_is_another_ranks() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/sub")).unwrap();
    for number in 0..50 {
        fs::write(dir.path().join(format!("a/sub/f{number}")), "some bytes").unwrap();
    }
    let mut looks: BTreeMap<String, usize> = BTreeMap::new();
    for rank in [1, 0] {
        let mut traced = match strace(&["-o", "looks", "-e", "trace=newfstatat,statx"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        // One thread, so that no two lines of the trace are mixed.
        traced.args(["cp", "-a", "--threads=1", &format!("--shard={rank}/2"), "a", "d"]);
        let output = traced.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        for line in fs::read_to_string(dir.path().join("looks")).unwrap().lines() {
            if let Some(name) = line.split('"').nth(1).filter(|name| name.starts_with('f')) {
                *looks.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    // The rank that copies a file opens it, and makes the target without a look at the name, also in directories found made.
    assert_eq!(looks.len(), 50);
    assert!(looks.values().all(|looks| *looks == 1), "{looks:?}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

#[test]
fn modes_without_a_are_those_of_one_process() {
    let dir = tree();
    fs::set_permissions(
        dir.path().join("a/b"),
        std::os::unix::fs::PermissionsExt::from_mode(0o507),
    )
    .unwrap();
    succeeds(dir.path(), &["-r", "a", "one"]);
    let ranks = ["1/3", "0/3", "2/3"].map(|shard| start(dir.path(), shard, &["-r", "a", "d"]));
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    let modes = |name: &str| {
        String::from_utf8(script(&dir.path().join(name), "find . -printf '%P %m\\n' | sort").stdout)
            .unwrap()
    };
    assert_eq!(modes("d"), modes("one"));
}

#[test]
fn the_share_of_a_rank_that_was_killed_is_taken_up() {
    let dir = tree();
    let words = ["-a", "--resume", "--verify", "a", "d"];
    for lost in [0, 1, 2] {
        let shard = |rank: u32| format!("{rank}/3");
        // Slow enough to be killed in the middle of the share.
        let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
        let mut victim = start(dir.path(), &shard(lost), &slow);
        let journal = dir.path().join(format!(".d.gush-shards/rank-{lost}.journal"));
        wait_for(&journal);
        while !fs::read_to_string(&journal).unwrap_or_default().contains("done ") {
            std::thread::sleep(Duration::from_millis(5));
        }
        let others: Vec<_> = (0..3)
            .filter(|rank| *rank != lost)
            .map(|rank| start(dir.path(), &shard(rank), &words))
            .collect();
        victim.kill().unwrap();
        victim.wait().unwrap();
        // What is done is not done again.
        let done = fs::read_to_string(&journal).unwrap();
        let (status, said) = end(start(dir.path(), &shard(lost), &words));
        assert_eq!(status, Some(0), "{said}");
        assert!(done.contains("done "), "{done}");
        for other in others {
            let (status, said) = end(other);
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{lost}");
        assert_eq!(names(dir.path()), ["a", "d"]);
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

/// Listing is all that is left of a file after the shares: rank 0 gives attributes to directories alone.
#[test]
fn rank_0_looks_at_each_file_of_another_once() {
    let dir = tree();
    fs::create_dir(dir.path().join("a/unique")).unwrap();
    (0..20).for_each(|file| {
        fs::write(dir.path().join(format!("a/unique/only-here-{file}")), "here").unwrap();
    });
    let log = dir.path().join("calls");
    let words = ["-a", "a", "d"];
    let other = start(dir.path(), "1/2", &words);
    let traced = strace(&[
        "-o",
        log.to_str().unwrap(),
        "-e",
        "trace=newfstatat,fstatat64,statx,openat,openat2",
    ]);
    let mut traced = match traced {
        Ok(traced) => traced,
        Err(reason) => {
            // Nobody else lets the other rank end.
            assert_eq!(end(start(dir.path(), "0/2", &words)).0, Some(0));
            assert_eq!(end(other).0, Some(0));
            return skipped(&reason);
        }
    };
    let output =
        traced.args(["cp", "--shard=0/2"]).args(words).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(end(other).0, Some(0));
    let calls = fs::read_to_string(&log).unwrap();
    let calls_about = |name: &str| -> Vec<&str> {
        calls.lines().filter(|line| line.contains(&format!("\"{name}\""))).collect()
    };
    let of_files: Vec<_> = (0..20).map(|file| calls_about(&format!("only-here-{file}"))).collect();
    let of_others: Vec<_> = of_files
        .iter()
        .filter(|calls| !calls.iter().any(|call| call.contains("O_CREAT")))
        .collect();
    assert!(!of_others.is_empty() && of_others.len() < of_files.len(), "{of_files:?}");
    assert!(of_others.iter().all(|calls| calls.len() == 1), "{of_others:?}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

#[test]
fn a_manifest_is_copied_when_every_share_is_whole() {
    let dir = tree();
    fs::write(dir.path().join("a/MANIFEST"), "all").unwrap();
    // Of each rank's files one cannot be copied.
    for rank in 0..2 {
        let shard = gush_tree_shard(rank, 2);
        let hindered = (0..20).find(|file| shard(&format!("e/f{file}"))).unwrap();
        fs::create_dir_all(dir.path().join(format!("d/e/f{hindered}/in the way"))).unwrap();
        let words = ["-aT", "--commit-last=MANIFEST", "--resume", "a", "d"];
        let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &words));
        let ended = ranks.map(end);
        let why = "a/MANIFEST: not copied: it comes last, and not everything else was copied";
        assert!(ended[0].1.contains(why), "{ended:?}");
        assert!(ended[0].1.contains("; 1 of them failed"), "{ended:?}");
        assert_eq!(ended[0].0, Some(1));
        assert_eq!(ended[1].0, Some(i32::from(rank == 1)), "{ended:?}");
        assert!(!dir.path().join("d/MANIFEST").exists());
        fs::remove_dir_all(dir.path().join(format!("d/e/f{hindered}"))).unwrap();
        let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &words));
        for (status, said) in ranks.map(end) {
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
        assert_eq!(names(dir.path()), ["a", "d"]);
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

/// Which files of a tree are a rank's, found out by a copy of empty files.
fn gush_tree_shard(rank: u32, ranks: u32) -> impl Fn(&str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/e")).unwrap();
    for file in 0..20 {
        fs::write(dir.path().join(format!("a/e/f{file}")), "").unwrap();
    }
    // The rank ends its share; rank 0 would wait for the others.
    let mut child = start(dir.path(), &format!("{rank}/{ranks}"), &["-r", "a", "d"]);
    wait_for(&dir.path().join(format!(".d.gush-shards/rank-{rank}.done")));
    child.kill().unwrap();
    child.wait().unwrap();
    move |name| dir.path().join("d").join(name).exists()
}

#[test]
fn the_scheduler_tells_the_rank() {
    let dir = tree();
    let pairs = [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"),
    ];
    for (rank_name, ranks_name) in pairs {
        let run = |rank: &str| {
            let mut command: Command = gush();
            command.env(rank_name, rank).env(ranks_name, "2").current_dir(dir.path());
            command.args(["cp", "-a", "--shard=auto", "a", "d"]).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        for child in ["1", "0"].map(run) {
            let (status, said) = end(child);
            assert_eq!(status, Some(0), "{rank_name}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{rank_name}");
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

#[test]
fn what_ranks_cannot_do_is_refused() {
    let dir = tree();
    for (words, why) in [
        (&["--shard=0/2", "a/f1", "d"][..], "--shard concerns trees"),
        (&["-r", "--shard=0/2", "a/f1", "d"], "not copied: ranks divide a tree"),
        (&["-r", "--shard=0/2", "--delete", "a", "d"], "--shard excludes --delete"),
        (&["-r", "--shard=0/2", "-i", "a", "d"], "--shard excludes -i"),
        (&["-r", "--shard=0/2", "--dry-run", "a", "d"], "--shard excludes --dry-run"),
        (&["-r", "--shard=0/2", "--parents", "a", "."], "--shard excludes --parents"),
        (&["-r", "--shard=0/2", "a", "a/b", "."], "--shard takes one SOURCE"),
        (&["-r", "--shard=2/2", "a", "d"], "invalid --shard '2/2': no rank 2 of 2"),
        (&["-r", "--shard=two", "a", "d"], "invalid --shard 'two': valid are auto and I/N"),
    ] {
        let said = fails(dir.path(), words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
    assert_eq!(names(dir.path()), ["a"]);
    // A rank that was interrupted goes on only when told so.
    let mut child = start(dir.path(), "0/2", &["-r", "a", "d"]);
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    let said = fails(dir.path(), &["-r", "--shard=0/2", "--resume", "a", "d"]);
    assert!(said.contains("another copy writes this journal"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    let said = fails(dir.path(), &["-r", "--shard=0/2", "a", "d"]);
    assert!(said.contains("an earlier copy by ranks was interrupted"), "{said}");
    let said = fails(dir.path(), &["-r", "--shard=0/3", "--resume", "a", "d"]);
    assert!(said.contains("the journal of another copy"), "{said}");
}

/// A tree with files that are worth dividing: one of data, one that is mostly holes, one that nobody may write to.
fn large_tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a");
    fs::create_dir_all(root.join("sub")).unwrap();
    // Large enough to be divided, and of an odd length, so that the last piece is a short one.
    fs::write(root.join("sub/data"), noise(68_000_001, 7)).unwrap();
    fs::write(root.join("small"), noise(1000, 8)).unwrap();
    let text = "cd a && truncate -s 70M holes && printf island | dd of=holes bs=1M seek=40 conv=notrunc 2>/dev/null &&
        cp sub/data guarded && chmod 444 guarded && cp --sparse=never small sub/small &&
        find . -depth -exec touch -h -d '2001-02-03 04:05:06.789' {} +";
    let output = script(dir.path(), text);
    assert!(output.status.success(), "{}", stderr(&output));
    dir
}

/// The files of pieces in the ranks' state: names, sizes, and times of the last write.
fn pieces(state: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(state).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let there = entry.metadata().unwrap();
        // Each has a symbolic link, which names it.
        if name.starts_with("parts-") && there.is_file() {
            found.push((name, there.len(), there.modified().unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn large_files_are_divided_among_the_ranks() {
    let dir = large_tree();
    let expected = state(&dir.path().join("a"));
    let shards = dir.path().join(".d.gush-shards");
    for words in [&["-a", "a", "d"][..], &["-a", "--verify", "--fsync", "a", "d"]] {
        for rank in ["2/3", "1/3"] {
            let (status, said) = end(start(dir.path(), rank, words));
            assert_eq!((status, said.as_str()), (Some(0), ""));
        }
        assert_eq!(pieces(&shards).len(), 3, "each file has pieces of these ranks");
        for name in ["holes", "guarded", "sub/data"] {
            assert!(!dir.path().join("d").join(name).exists(), "{name} has its place too early");
        }
        let (status, said) = end(start(dir.path(), "0/3", words));
        assert_eq!(status, Some(0), "{said}");
        assert!(said.starts_with("gush: cp: 3 ranks: 5 files, "), "{said}");
        assert_eq!(state(&dir.path().join("d")), expected, "{words:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
        let blocks = |tree: &str| {
            let told = fs::metadata(dir.path().join(tree).join("holes")).unwrap();
            std::os::unix::fs::MetadataExt::blocks(&told)
        };
        assert!(blocks("d") <= blocks("a") + 64, "holes were filled: {}", blocks("d"));
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

#[test]
fn modes_of_divided_files_are_those_of_one_process() {
    let dir = large_tree();
    let text =
        "umask 027; mkdir one two; cp -r a one; chmod 2755 two; for d in two; do mkdir $d/a; done";
    assert!(script(dir.path(), text).status.success());
    let ranks = ["1/2", "0/2"].map(|rank| {
        let mut command = Command::new("bash");
        let words = [
            "-c",
            "umask 027; exec \"$@\"",
            "bash",
            env!("CARGO_BIN_EXE_gush"),
            "cp",
            "-r",
            "--shard",
            rank,
        ];
        command.args(words).args(["-T", "a", "three"]).current_dir(dir.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    let modes = |tree: &str| {
        let text = "find . -printf '%P %m %U %G\\n' | sort";
        String::from_utf8(script(&dir.path().join(tree), text).stdout).unwrap()
    };
    assert_eq!(modes("three"), modes("one/a"));
    // Below a directory that hands on its group, a file is made where it stays.
    for rank in ["1/2", "0/2"] {
        let child = start(dir.path(), rank, &["-r", "-T", "a", "two"]);
        if rank == "0/2" {
            assert_eq!(end(child).0, Some(0));
        } else {
            assert_eq!(end(child).0, Some(0));
            let divided = pieces(&dir.path().join(".two.gush-shards")).len();
            assert_eq!(divided, 0, "in a directory with the bit and the one that takes it over");
        }
    }
}

#[test]
fn a_rank_started_again_copies_only_the_pieces_that_are_missing() {
    let dir = large_tree();
    let shards = dir.path().join(".d.gush-shards");
    let words = ["-a", "--resume", "a", "d"];
    // Rank 1 first: it ends by itself, while rank 0 would wait.
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    let before = pieces(&shards);
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    assert_eq!(pieces(&shards), before, "a piece was written again");
    // A rank that failed, and whose journal lacks a piece: the file gets no place until the rank is started again.
    let journal = shards.join("rank-1.journal");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&journal, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let report = shards.join("rank-1.done");
    let told = fs::read_to_string(&report).unwrap();
    fs::write(&report, told.replace(" 1 end", " 0 end")).unwrap();
    let (status, said) = end(start(dir.path(), "0/2", &words));
    assert_eq!(status, Some(1), "{said}");
    let absent = ["holes", "guarded", "sub/data"];
    let absent = absent.iter().filter(|name| !dir.path().join("d").join(name).exists()).count();
    assert_eq!(absent, 1, "the file whose piece is missing");
    let ranks = ["1/2", "0/2"].map(|rank| start(dir.path(), rank, &words));
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

#[test]
fn a_large_source_that_changes_between_the_ranks_is_copied_whole() {
    let dir = large_tree();
    let words = ["-a", "a", "d"];
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    let grown = [noise(68_000_001, 9), noise(5, 9)].concat();
    fs::write(dir.path().join("a/sub/data"), grown).unwrap();
    let (status, said) = end(start(dir.path(), "0/2", &words));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"], "no piece is left");
}

/// Two ranks one after the other, and what each said.
fn both(dir: &Path, words: &[&str]) -> [(Option<i32>, String); 2] {
    ["1/2", "0/2"].map(|rank| end(start(dir, rank, words)))
}

#[test]
fn pieces_count_for_the_file_that_got_them_and_for_no_later_one() {
    for removed in ["rm -rf d", "rm -rf d .d.gush-shards/parts-*", "rm -f .d.gush-shards/parts-*-*"]
    {
        let dir = large_tree();
        fs::write(dir.path().join("a/obstacle"), "a file").unwrap();
        fs::create_dir_all(dir.path().join("d/obstacle")).unwrap();
        let words = ["-a", "-T", "--resume", "a", "d"];
        let failed = both(dir.path(), &words);
        assert!(failed.iter().any(|(status, _)| *status == Some(1)), "{failed:?}");
        let output = script(dir.path(), &format!("{removed}; rm -rf d"));
        assert!(output.status.success(), "{}", stderr(&output));
        for (status, said) in both(dir.path(), &words) {
            assert_eq!(status, Some(0), "{removed}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{removed}");
        assert_eq!(names(dir.path()), ["a", "d"], "{removed}");
    }
}

#[test]
fn a_divided_file_whose_pieces_are_removed_before_the_end_is_copied_whole() {
    let dir = large_tree();
    let shards = dir.path().join(".d.gush-shards");
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&shards.join("rank-0.done"));
    let told = fs::read_to_string(shards.join("rank-0.done")).unwrap();
    let words: Vec<&str> = told.split(' ').collect();
    let ["share", "0", "2", "5", "3", files, _, "1", "end\n"] = words[..] else {
        panic!("{told}");
    };
    let others = 5 - files.parse::<u64>().unwrap();
    // The other rank reports, and nothing of any piece is left.
    for (name, _, _) in pieces(&shards) {
        let link = name.rsplit_once('-').unwrap().0;
        fs::remove_file(shards.join(link)).unwrap();
        fs::remove_file(shards.join(&name)).unwrap();
    }
    fs::write(shards.join("new"), format!("share 1 2 5 3 {others} 0 1 end\n")).unwrap();
    // Renamed into place, as a rank reports: the waiting rank must not see half a line.
    fs::rename(shards.join("new"), shards.join("rank-1.done")).unwrap();
    let (status, said) = end(first);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

#[test]
fn a_large_source_that_becomes_small_between_the_ranks_is_copied() {
    for order in [["0/2", "1/2"], ["1/2", "0/2"]] {
        let dir = large_tree();
        let words = ["-a", "a", "d"];
        let first = start(dir.path(), order[0], &words);
        // Rank 0 waits for the other once its share is done.
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{}.done", &order[0][..1])));
        for name in ["holes", "guarded", "sub/data"] {
            let file =
                fs::File::options().write(true).open(dir.path().join("a").join(name)).unwrap();
            file.set_len(10_000_000).unwrap();
        }
        for child in [start(dir.path(), order[1], &words), first] {
            let (status, said) = end(child);
            assert_eq!(status, Some(0), "{order:?}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{order:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
    }
}

#[test]
fn a_divided_file_below_another_mount_is_copied_whole() {
    let dir = large_tree();
    let text = "mkdir -p d/sub store && mount --bind store d/sub && for rank in 1 0; do
        \"$1\" cp -a -T --shard $rank/2 a d || exit; done; cmp a/sub/data d/sub/data && mountpoint -q d/sub";
    let output = Command::new("unshare")
        .args(["-m", "bash", "-c", text, "bash", env!("CARGO_BIN_EXE_gush")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    if stderr(&output).contains("unshare failed") || stderr(&output).contains("mount: ") {
        return skipped(&format!("no mounts of this test's own: {}", stderr(&output)));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(dir.path()), ["a", "d", "store"]);
    assert_eq!(names(&dir.path().join("store")), names(&dir.path().join("a/sub")));
}

#[test]
fn a_divided_file_that_grows_before_it_gets_its_place_is_copied_whole() {
    let dir = large_tree();
    let big = dir.path().join("a/sub/data");
    // The last walk opens the file after a look at the size.
    let delay = ["-P", "data", "-e", "trace=openat,openat2"];
    let inject = ["-e", "inject=openat,openat2:delay_enter=3000000"];
    let mut traced = match strace(&[&delay[..], &inject].concat()) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    let words = ["-a", "a", "d"];
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    traced.args(["cp", "--shard", "0/2"]).args(words).current_dir(dir.path());
    let tracer = traced.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    // The open is held up for 3 s: the file grows between the look at its size and the open.
    std::thread::sleep(Duration::from_millis(700));
    let more = noise(5_000_000, 77);
    std::io::Write::write_all(&mut fs::File::options().append(true).open(&big).unwrap(), &more)
        .unwrap();
    let (status, said) = end(tracer);
    let copied = fs::read(dir.path().join("d/sub/data")).unwrap();
    let source = fs::read(&big).unwrap();
    assert!(source.starts_with(&copied) || copied == source, "bytes that no source had: {said}");
    assert!(status == Some(0) || !said.is_empty(), "{said}");
}

/// Ranks expect names to be free, and look only where one is not: a link is none that is free.
#[test]
fn ranks_write_through_links_to_files_as_one_process_does() {
    let all: [(&[&str], bool); 7] = [
        (&["-RT"], false),
        (&["-aT"], false),
        (&["-RT", "-f"], false),
        (&["-RT", "--atomic"], false),
        (&["-RT", "-n"], false),
        (&["-RT"], true),
        (&["-RT", "-n"], true),
    ];
    for (options, is_posix) in all {
        let outcome = |shards: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::create_dir_all(at("src/d")).unwrap();
            fs::create_dir_all(at("dst/d")).unwrap();
            fs::write(at("src/d/t"), "new\n").unwrap();
            symlink("tt", at("dst/d/t")).unwrap();
            fs::write(at("dst/d/tt"), "a long old content that must go\n").unwrap();
            let start = |shard: &&str| {
                let mut command = gush();
                command.arg("cp").args(options).envs(is_posix.then_some(("POSIXLY_CORRECT", "1")));
                if !shard.is_empty() {
                    command.arg(format!("--shard={shard}"));
                }
                command.args(["src", "dst"]).current_dir(dir.path()).stdin(Stdio::null());
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let ranks: Vec<_> = shards.iter().map(start).collect();
            let worst = ranks.into_iter().map(|rank| end(rank).0.expect("no signal")).max();
            let read = |name: &str| fs::read_to_string(at(name)).unwrap();
            (worst, fs::read_link(at("dst/d/t")).ok(), ["dst/d/t", "dst/d/tt"].map(read))
        };
        assert_eq!(outcome(&["0/2", "1/2"]), outcome(&[""]), "{options:?} {is_posix}");
    }
}
