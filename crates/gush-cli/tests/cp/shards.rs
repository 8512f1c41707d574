//! `gush cp -r --shard`: one tree copied by several processes.

mod pieces;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::cp::{fails, names, script, stderr, succeeds};
use crate::common::{gush, nobody, noise, skipped, strace};

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

fn wait_until_gone(path: &Path) {
    while path.exists() {
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

/// For each name of a file, the ranks that make a call with the name, in their whole lives. Two ranks copy `a` to `d`.
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
    // Both have some: the rank that copies a file is the only one that ever names it, also when rank 0 completes the directories.
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
    // Where the numbers of this source do not last, that is the reason; they are not those of the rank that began in any case.
    assert!(said.contains("not copied: the ranks divide this tree by inode numbers"), "{said}");
}

/// On an overlay, the listing may tell other inode numbers than a look.
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

#[test]
fn modes_without_a_are_those_of_one_process() {
    let dir = tree();
    fs::set_permissions(
        dir.path().join("a/b"),
        std::os::unix::fs::PermissionsExt::from_mode(0o507),
    )
    .unwrap();
    let modes = |name: &str| {
        String::from_utf8(script(&dir.path().join(name), "find . -printf '%P %m\\n' | sort").stdout)
            .unwrap()
    };
    let sets: [(&[&str], &str); 2] = [(&["-r"], "r"), (&["-a", "--no-preserve=mode"], "fresh")];
    for (options, name) in sets {
        let [one, of_ranks] = ["one", "ranks"].map(|by| format!("{name}-{by}"));
        succeeds(dir.path(), &[options, &["a", &one]].concat());
        let words = [options, &["a", &of_ranks]].concat();
        let ranks = ["1/3", "0/3", "2/3"].map(|shard| start(dir.path(), shard, &words));
        for rank in ranks {
            let (status, said) = end(rank);
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(modes(&of_ranks), modes(&one), "{options:?}");
    }
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

#[test]
fn a_manifest_is_copied_when_every_share_is_whole() {
    let dir = tree();
    // One of them alone in a directory without subdirectories.
    for place in ["a/MANIFEST", "a/empty/MANIFEST"] {
        fs::write(dir.path().join(place), "all").unwrap();
    }
    // Of each rank's files one cannot be copied.
    for rank in 0..2 {
        let is_own = share_of(dir.path(), rank, 2);
        let hindered = (0..20).find(|file| is_own(&format!("e/f{file}"))).unwrap();
        fs::create_dir_all(dir.path().join(format!("d/e/f{hindered}/in the way"))).unwrap();
        let words = ["-aT", "--commit-last=MANIFEST", "--resume", "a", "d"];
        let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &words));
        let ended = ranks.map(end);
        let why = "a/MANIFEST: not copied: it comes last, and not everything else was copied";
        assert!(ended[0].1.contains(why), "{ended:?}");
        assert!(ended[0].1.contains("; 1 of them failed"), "{ended:?}");
        assert_eq!(ended[0].0, Some(1));
        assert_eq!(ended[1].0, Some(i32::from(rank == 1)), "{ended:?}");
        for place in ["d/MANIFEST", "d/empty/MANIFEST"] {
            assert!(!dir.path().join(place).exists(), "{place}");
        }
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

/// Which files of the tree `a` are a rank's, found out by a copy of its share alone.
fn share_of(dir: &Path, rank: u32, ranks: u32) -> impl Fn(&str) -> bool + use<> {
    let mut child = start(dir, &format!("{rank}/{ranks}"), &["-r", "a", "probe"]);
    let state = dir.join(".probe.gush-shards");
    wait_for(&state.join(format!("rank-{rank}.journal")));
    wait_until_gone(&state.join(format!("rank-{rank}.walks")));
    // The rank has copied its share, and would wait for the others.
    child.kill().unwrap();
    child.wait().unwrap();
    let copied = script(&dir.join("probe"), "find . ! -type d -printf '%P\n'").stdout;
    let copied = String::from_utf8(copied).unwrap();
    fs::remove_dir_all(state).unwrap();
    fs::remove_dir_all(dir.join("probe")).unwrap();
    move |name| copied.lines().any(|line| line == name)
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
    // Also a rank that the others have not: it would have no journal to be refused by.
    for rank in ["0/3", "2/3"] {
        let said = fails(dir.path(), &["-r", &format!("--shard={rank}"), "--resume", "a", "d"]);
        assert!(said.contains("2 ranks have begun this copy, and this is one of 3"), "{said}");
        assert!(said.contains("go on with 2 ranks and --resume, or remove '.d.gush-shards'"));
    }
    let said = fails(dir.path(), &["-r", "--resume", "a", "d"]);
    assert!(said.contains("not copied: several ranks have begun this copy"), "{said}");
    assert!(said.contains("go on with --shard and --resume, or remove '.d.gush-shards'"), "{said}");
    let said = fails(dir.path(), &["-r", "--resume", "-T", "a", "d"]);
    assert!(said.contains("not copied: several ranks have begun this copy"), "{said}");
    assert_eq!(names(dir.path()), [".d.gush-shards", "a", "d"]);
    assert!(!dir.path().join("d/a").exists());
    // Who goes on with nothing may copy beside the ranks' state.
    succeeds(dir.path(), &["-r", "-T", "a", "d"]);
}

/// After the shares rank 0 looks for directories.
#[test]
fn rank_0_lists_a_directory_without_subdirectories_once() {
    let dir = tree();
    let kind = String::from_utf8(script(dir.path(), "stat -f -c %t .").stdout).unwrap();
    // ext4, tmpfs, xfs and f2fs tell by a directory's names whether others are below.
    if !["ef53", "1021994", "58465342", "f2f52010"].contains(&kind.trim()) {
        return skipped(&format!("a file system of type {kind} counts no subdirectories"));
    }
    let log = dir.path().join("calls");
    let mut traced = match strace(&["-y", "-o", log.to_str().unwrap(), "-e", "trace=getdents64"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let other = start(dir.path(), "1/2", &["-a", "a", "d"]);
    traced.args(["cp", "-a", "--shard=0/2", "a", "d"]).current_dir(dir.path());
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(end(other).0, Some(0));
    let calls = fs::read_to_string(&log).unwrap();
    let listed = |name: &str| calls.matches(&format!("{name}>")).count();
    // One call for the names, and one for the end.
    assert_eq!([listed("/a/b/c/d"), listed("/a/b/c"), listed("/a/empty")], [2, 4, 2], "{calls}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

/// A link to a directory counts for no name of the directory that has the link.
#[test]
fn a_directory_behind_a_link_gets_its_mode_and_time_from_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "mkdir -p a/leaf t/in && echo x >t/in/f && ln -s ../../t a/leaf/l && chmod 750 t t/in &&
        find t a -depth -exec touch -h -d 2001-02-03 {} +";
    let output = script(dir.path(), text);
    assert!(output.status.success(), "{}", stderr(&output));
    for (status, said) in both(dir.path(), &["-aL", "a", "d"]) {
        assert_eq!(status, Some(0), "{said}");
    }
    succeeds(dir.path(), &["-aL", "a", "one"]);
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("one")));
    assert!(state(&dir.path().join("d")).0.contains("leaf/l/in d 750 "));
}

/// Rank 0 looked at the root when there was no subdirectory.
#[test]
fn a_subdirectory_that_only_a_later_rank_has_seen_gets_its_mode_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let (a, d) = (dir.path().join("a"), dir.path().join("d"));
    fs::create_dir(&a).unwrap();
    fs::write(a.join("f"), "x").unwrap();
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    fs::create_dir(a.join("sub")).unwrap();
    assert_eq!(end(start(dir.path(), "1/2", &["-a", "a", "d"])).0, Some(0));
    assert_eq!(end(first).0, Some(0));
    let of = |root: &Path| {
        let meta = fs::metadata(root.join("sub")).unwrap();
        (meta.permissions().mode(), meta.modified().unwrap())
    };
    assert_eq!(of(&d), of(&a));
}

/// Rank 0 would go on without the share.
#[test]
fn a_rank_that_is_started_again_takes_its_report_back() {
    let dir = tree();
    let is_own = share_of(dir.path(), 1, 2);
    let own = (0..20).map(|file| format!("e/f{file}")).find(|file| is_own(file)).unwrap();
    let words = ["-a", "--resume", "a", "d"];
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    let report = dir.path().join(".d.gush-shards/rank-1.done");
    assert!(report.exists());
    fs::write(dir.path().join("a").join(own), noise(1 << 20, 11)).unwrap();
    let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
    let mut again = start(dir.path(), "1/2", &slow);
    while report.exists() {
        assert!(again.try_wait().unwrap().is_none(), "the report stayed until the next one");
        std::thread::sleep(Duration::from_millis(5));
    }
    again.kill().unwrap();
    again.wait().unwrap();
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// A rank that takes rank and launch from `variables`.
fn launch(dir: &Path, variables: [Variables<'_>; 2]) -> Child {
    let mut command: Command = gush();
    command.args(["cp", "-aT", "--resume", "--shard=auto", "a", "d"]).current_dir(dir);
    command.envs(variables.concat()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A tree that rank 1 of 2 has not copied whole: so says the report that an earlier launch left.
fn with_report_of(variables: [Variables<'_>; 2]) -> tempfile::TempDir {
    let dir = tree();
    let is_own = share_of(dir.path(), 1, 2);
    let hindered = (0..20).find(|file| is_own(&format!("e/f{file}"))).unwrap();
    let hindrance = dir.path().join(format!("d/e/f{hindered}"));
    fs::create_dir_all(hindrance.join("in the way")).unwrap();
    let (status, said) = end(launch(dir.path(), variables));
    assert_eq!(status, Some(1), "{said}");
    assert!(dir.path().join(".d.gush-shards/rank-1.done").exists(), "{said}");
    fs::remove_dir_all(hindrance).unwrap();
    dir
}

const SLURM: [Variables<'_>; 2] = [
    &[("SLURM_NTASKS", "2"), ("SLURM_PROCID", "0")],
    &[("SLURM_NTASKS", "2"), ("SLURM_PROCID", "1")],
];
const OPEN_MPI: [Variables<'_>; 2] = [
    &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")],
    &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")],
];
const STEP: Variables<'_> = &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];

/// A report of an earlier launch is there until its rank has begun again, which may be after rank 0 looks.
#[test]
fn rank_0_waits_for_ranks_that_the_same_launch_starts_again() {
    let requeued = [STEP, &[("SLURM_RESTART_COUNT", "1")]].concat();
    let launches: [(_, Variables<'_>, Variables<'_>); 3] = [
        (SLURM, STEP, &requeued),
        (SLURM, STEP, &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")]),
        (OPEN_MPI, &[("PMIX_NAMESPACE", "1234")], &[("PMIX_NAMESPACE", "1235")]),
    ];
    let started = launches.map(|(ranks, earlier, launched)| {
        let dir = with_report_of([ranks[1], earlier]);
        let first = launch(dir.path(), [ranks[0], launched]);
        (dir, first, [ranks[1], launched])
    });
    for (dir, mut first, other) in started {
        let mut messages = BufReader::new(first.stderr.take().unwrap());
        let mut said = String::new();
        messages.read_line(&mut said).unwrap();
        assert_eq!(said, "gush: cp: waiting for rank 1\n", "{other:?}");
        let (status, said) = end(launch(dir.path(), other));
        assert_eq!(status, Some(0), "{other:?}: {said}");
        let mut said = String::new();
        messages.read_to_string(&mut said).unwrap();
        assert_eq!(first.wait().unwrap().code(), Some(0), "{other:?}: {said}");
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{other:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
    }
}

/// Where one of the two knows no launch, nothing tells an old report from a new one.
#[test]
fn a_report_counts_where_rank_0_or_its_rank_knows_no_launch() {
    let pmi: [Variables<'_>; 2] =
        [&[("PMI_SIZE", "2"), ("PMI_RANK", "0")], &[("PMI_SIZE", "2"), ("PMI_RANK", "1")]];
    let cases: [([Variables<'_>; 2], [Variables<'_>; 2]); 3] = [
        // Rank 0 is lost, and started again by hand.
        ([SLURM[1], STEP], [pmi[0], &[]]),
        // Rank 1 was, and rank 0 is of a launch.
        ([pmi[1], &[]], [SLURM[0], STEP]),
        // The launcher names none.
        ([pmi[1], STEP], [pmi[0], &[("SLURM_JOB_ID", "8"), ("SLURM_STEP_ID", "0")]]),
    ];
    for (reported, rank_0) in cases {
        let dir = with_report_of(reported);
        let (status, said) = end(launch(dir.path(), rank_0));
        assert_eq!(status, Some(1), "{reported:?}: {said}");
        assert!(said.contains("; 1 of them failed"), "{reported:?}: {said}");
    }
}

/// mpirun and srun hand Ctrl-C on to all ranks; all are to be started again.
#[test]
fn a_rank_that_is_interrupted_says_how_to_go_on() {
    let dir = tree();
    let words = ["-aT", "--resume", "a", "d"];
    let slow = [&["--limit=20K", "--threads=1"][..], &words].concat();
    let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &slow));
    for (rank, (child, signal)) in ranks.into_iter().zip([Signal::INT, Signal::TERM]).enumerate() {
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{rank}.journal")));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{}", stderr(&output));
        let how = "to go on, start all 2 ranks again, with --resume";
        let said = format!("gush: cp: rank {rank} of 2 was interrupted: {how}\n");
        assert_eq!(stderr(&output), said);
    }
    let ranks = [0, 1].map(|rank| start(dir.path(), &format!("{rank}/2"), &words));
    for (status, said) in ranks.map(end) {
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

#[test]
fn a_rank_whose_messages_nobody_reads_dies_of_a_signal_at_once() {
    let dir = tree();
    let (_unread, mut full) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&full).unwrap();
    rustix::fs::fcntl_setfl(&full, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&full, flags).unwrap();
    let mut command = gush();
    command.args(["cp", "-a", "--shard=1/2", "--limit=20K", "a", "d"]).current_dir(dir.path());
    let mut child = command.stderr(full).spawn().unwrap();
    wait_for(&dir.path().join(".d.gush-shards/rank-1.journal"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

/// The state says which files are done: another user's could say so of files that are not.
#[test]
fn a_state_of_another_user_is_refused() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tree();
    let shards = dir.path().join(".d.gush-shards");
    fs::create_dir(&shards).unwrap();
    std::os::unix::fs::chown(&shards, Some(user), None).unwrap();
    let said = fails(dir.path(), &["-a", "--shard=1/2", "a", "d"]);
    let what = "no state of ranks: not a directory of this user";
    assert_eq!(said, format!("gush: cp: .d.gush-shards: {what}\n"));
    assert_eq!(names(&shards), [""; 0]);
}

/// A file may be in nobody's share: no success, and nothing that vouches for all files.
#[test]
fn ranks_that_saw_other_files_than_they_shared_have_not_copied_the_tree() {
    let dir = tree();
    fs::write(dir.path().join("a/MANIFEST"), "all").unwrap();
    let shards = dir.path().join(".d.gush-shards");
    let words = ["-aT", "--commit-last=MANIFEST", "--resume", "a", "d"];
    let first = start(dir.path(), "0/2", &words);
    wait_for(&shards.join("rank-0.done"));
    let told = fs::read_to_string(shards.join("rank-0.done")).unwrap();
    let [all, own]: [u64; 2] =
        std::array::from_fn(|at| told.split(' ').nth(3 + at).unwrap().parse().unwrap());
    // The other rank says that it has all but one of the files that rank 0 has seen.
    let text = format!("share 1 2 {all} {} 0 50 0 1 end\n", all.wrapping_sub(own).wrapping_sub(7));
    fs::write(shards.join("new"), text).unwrap();
    fs::rename(shards.join("new"), shards.join("rank-1.done")).unwrap();
    let (status, said) = end(first);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("a: changed while being copied: the ranks saw different files"),
        "{said}"
    );
    assert!(said.contains("a/MANIFEST: not copied"), "{said}");
    assert!(!dir.path().join("d/MANIFEST").exists());
    for (status, said) in both(dir.path(), &words) {
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

/// Two ranks, and what each said.
fn both(dir: &Path, words: &[&str]) -> [(Option<i32>, String); 2] {
    ["1/2", "0/2"].map(|rank| start(dir, rank, words)).map(end)
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

#[test]
fn ranks_copy_to_a_target_with_the_longest_name() {
    let dir = tempfile::tempdir().unwrap();
    let target = "n".repeat(255);
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("a/file"), "content").unwrap();
    let ranks = ["0/2", "1/2"].map(|shard| start(dir.path(), shard, &["-a", "-T", "a", &target]));
    for (status, said) in ranks.map(end) {
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(fs::read(dir.path().join(&target).join("file")).unwrap(), b"content");
    assert_eq!(names(dir.path()), ["a", &target]);
}
