//! `gush cp -r --shard`: one tree copied by several processes.

mod directories;
mod division;
mod launches;
mod pieces;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::cp::{Closable, fails, names, remove_tree, script, stderr, succeeds};
use crate::common::{copied_gush, gush, nobody, noise, skipped};

/// A tree with each kind of entry that a copy keeps.
fn tree() -> Closable {
    let dir = Closable(tempfile::tempdir().unwrap());
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

/// Everything that find prints of a tree, its files' contents, and which names are one file.
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
        remove_tree(&dir.path().join("d"));
    }
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
        let why = "not copying 'a/MANIFEST': it is committed last, and other entries failed";
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
        remove_tree(&dir.path().join("d"));
    }
}

#[test]
fn a_manifest_with_other_names_is_linked_to_what_the_ranks_have_copied() {
    let dir = tree();
    let root = dir.path().join("a");
    // So many that each rank has copied some of them.
    for number in 0..12 {
        let name = ["", "b", "empty"][number % 3];
        let manifest = root.join(name).join(format!("MANIFEST{number}"));
        fs::hard_link(root.join(format!("e/f{number}")), manifest).unwrap();
    }
    // Both names come last.
    fs::write(root.join("empty/MANIFEST"), "alone").unwrap();
    fs::hard_link(root.join("empty/MANIFEST"), root.join("b/c/MANIFEST")).unwrap();
    for (ranks, rule) in [(2, None), (3, None), (2, Some("paths")), (3, Some("paths"))] {
        if let Some(rule) = rule {
            fs::create_dir(dir.path().join(".d.gush-shards")).unwrap();
            symlink(rule, dir.path().join(".d.gush-shards/rule")).unwrap();
        }
        let words = ["-a", "--commit-last=MANIFEST*", "a", "d"];
        let ranks = (0..ranks).map(|rank| start(dir.path(), &format!("{rank}/{ranks}"), &words));
        for (status, said) in ranks.collect::<Vec<_>>().into_iter().map(end) {
            assert_eq!(status, Some(0), "{said}");
        }
        let [copy, source] = ["d", "a"].map(|name| state(&dir.path().join(name)));
        assert_eq!(copy, source, "{rule:?}");
        remove_tree(&dir.path().join("d"));
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
    remove_tree(&dir.join("probe"));
    move |name| copied.lines().any(|line| line == name)
}

#[test]
fn what_ranks_cannot_do_is_refused() {
    let dir = tree();
    for (words, why) in [
        (&["--shard=0/2", "a/f1", "d"][..], "--shard requires -r"),
        (&["-r", "--shard=0/2", "a/f1", "d"], "not copying 'a/f1': ranks divide a tree"),
        (&["-r", "--shard=0/2", "--delete", "a", "d"], "--shard cannot be used with --delete"),
        (&["-r", "--shard=0/2", "-i", "a", "d"], "--shard cannot be used with -i"),
        (&["-r", "--shard=0/2", "--dry-run", "a", "d"], "--shard cannot be used with --dry-run"),
        (&["-r", "--shard=0/2", "--parents", "a", "."], "--shard cannot be used with --parents"),
        (&["-r", "--shard=0/2", "a", "a/b", "."], "--shard takes one SOURCE"),
        (&["-r", "--shard=2/2", "a", "d"], "invalid --shard '2/2': no rank 2 of 2"),
        (&["-r", "--shard=two", "a", "d"], "invalid --shard 'two': expected auto or I/N"),
    ] {
        let said = fails(dir.path(), words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
    assert_eq!(names(dir.path()), ["a"]);
    // A rank that was interrupted resumes only with --resume.
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
    assert!(said.contains("not copying 'd': several ranks have begun this copy"), "{said}");
    assert!(said.contains("go on with --shard and --resume, or remove '.d.gush-shards'"), "{said}");
    let said = fails(dir.path(), &["-r", "--resume", "-T", "a", "d"]);
    assert!(said.contains("not copying 'd': several ranks have begun this copy"), "{said}");
    assert_eq!(names(dir.path()), [".d.gush-shards", "a", "d"]);
    assert!(!dir.path().join("d/a").exists());
    // A copy that does not resume may run next to the ranks' state.
    succeeds(dir.path(), &["-r", "-T", "a", "d"]);
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

/// Its mode cannot be changed, and need not be: the copy lacks its attributes alone.
#[test]
fn ranks_copy_into_a_directory_of_another_user_that_they_may_change() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tempfile::tempdir().unwrap();
    let program = copied_gush(dir.path());
    let text = format!(
        "chmod 777 . && mkdir -p a/d t/d && touch a/d/1 a/d/2 a/d/3 a/d/4 &&
        chown -R {user}:{user} a t && chown 0:{user} t/d && chmod 570 t/d"
    );
    assert!(script(dir.path(), &text).status.success());
    let warning = "gush: cp: preserving times for 't/d': Operation not permitted";
    for (rank, status, said) in [("1/2", 0, ""), ("0/2", 1, warning)] {
        let mut command = Command::new(&program);
        command.args(["cp", "-aT", "--shard", rank, "a", "t"]).uid(user).gid(user);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{rank}: {}", stderr(&output));
        assert!(stderr(&output).starts_with(said), "{rank}: {}", stderr(&output));
    }
    assert_eq!(names(&dir.path().join("t/d")).len(), 4);
    let bits = fs::metadata(dir.path().join("t/d")).unwrap().permissions().mode();
    assert_eq!(bits & 0o7777, 0o570);
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
    let reported = fs::read_to_string(shards.join("rank-0.done")).unwrap();
    let [all, own]: [u64; 2] =
        std::array::from_fn(|at| reported.split(' ').nth(3 + at).unwrap().parse().unwrap());
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
    assert!(said.contains("not copying 'a/MANIFEST'"), "{said}");
    assert!(!dir.path().join("d/MANIFEST").exists());
    for (status, said) in both(dir.path(), &words) {
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

/// What came after the first rank's walk is in nobody's share, where that is the first rank's.
#[test]
fn ranks_between_which_the_source_grew_have_not_copied_the_tree() {
    // By numbers of inodes, where the file system has lasting ones, or by paths.
    for options in ["-aT", "-RT"] {
        let dir = tree();
        let words = [options, "--resume", "a", "d"];
        let first = start(dir.path(), "0/2", &words);
        wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
        for number in 0..40 {
            fs::write(dir.path().join(format!("a/late{number}")), "late").unwrap();
        }
        let (status, said) = end(start(dir.path(), "1/2", &words));
        assert_eq!(status, Some(0), "{said}");
        let (status, said) = end(first);
        assert_eq!(status, Some(1), "{options}: {said}");
        let what = "a: changed while being copied: the ranks saw different files";
        assert!(said.contains(what), "{options}: {said}");
        for (status, said) in both(dir.path(), &words) {
            assert_eq!(status, Some(0), "{said}");
        }
        let copied = |side: &str| names(&dir.path().join(side));
        assert_eq!(copied("d"), copied("a"), "{options}");
    }
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
