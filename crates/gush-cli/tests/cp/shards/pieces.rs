//! Pieces of large files, which several ranks copy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{both, end, start, state, wait_for, wait_until_gone};
use crate::common::cp::{names, script, stderr};
use crate::common::{copied_gush, nobody, noise, skipped, strace, words_of};

/// A tree with files that are worth dividing: one of data, one that is mostly holes, one that
/// nobody may write to.
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
        if name.starts_with("parts-") && there.is_file() && !name.ends_with(".claims") {
            found.push((name, there.len(), there.modified().unwrap()));
        }
    }
    found.sort();
    found
}

/// The large files that were announced: the path of each, and the ranks that have claimed the
/// pieces.
fn announced(state: &Path) -> Vec<(String, Vec<Option<u32>>)> {
    let tables = fs::read_dir(state).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut tables: Vec<_> =
        tables.filter(|path| path.extension().is_some_and(|end| end == "claims")).collect();
    tables.sort();
    let mut all = Vec::new();
    // One that is being removed is none.
    for bytes in tables.iter().filter_map(|table| fs::read(table).ok()) {
        let Some(head) = bytes.iter().position(|byte| *byte == 0) else { continue };
        let (entries, _) = bytes[head + 1..].as_chunks::<4>();
        let path = String::from_utf8_lossy(&bytes[..head]).split_once(' ').unwrap().1.to_owned();
        let ranks = entries.iter().map(|of| u32::from_le_bytes(*of).checked_sub(1)).collect();
        all.push((path, ranks));
    }
    all
}

fn claims(state: &Path) -> Vec<Vec<Option<u32>>> {
    announced(state).into_iter().map(|(_, ranks)| ranks).collect()
}

#[test]
fn large_files_are_divided_among_the_ranks() {
    let dir = large_tree();
    let expected = state(&dir.path().join("a"));
    let shards = dir.path().join(".d.gush-shards");
    for words in [&["-a", "a", "d"][..], &["-a", "--verify", "--fsync", "a", "d"]] {
        let others = ["2/3", "1/3"].map(|rank| start(dir.path(), rank, words));
        for other in others {
            let (status, said) = end(other);
            assert_eq!((status, said.as_str()), (Some(0), ""));
        }
        // All pieces that could be taken were.
        assert!(claims(&shards).iter().flatten().all(Option::is_some), "{:?}", claims(&shards));
        for name in ["holes", "guarded", "sub/data"] {
            assert!(!dir.path().join("d").join(name).exists(), "{name} has its place too early");
        }
        let (status, said) = end(start(dir.path(), "0/3", words));
        assert_eq!(status, Some(0), "{said}");
        assert!(said.starts_with("gush: cp: 3 ranks: 5 files, 200 MiB"), "{said}");
        assert_eq!(state(&dir.path().join("d")), expected, "{words:?}");
        assert_eq!(names(dir.path()), ["a", "d"]);
        let blocks = |tree: &str| {
            let reported = fs::metadata(dir.path().join(tree).join("holes")).unwrap();
            std::os::unix::fs::MetadataExt::blocks(&reported)
        };
        assert!(blocks("d") <= blocks("a") + 64, "holes were filled: {}", blocks("d"));
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
}

/// A rank that has nothing left waits for one that is still on its way to a large file.
#[test]
fn pieces_of_a_file_announced_late_are_taken_by_ranks_that_were_done() {
    for (slow, fast) in [(0, 1), (1, 0)] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/large"), noise(100_000_001, 5)).unwrap();
        let shards = dir.path().join(".d.gush-shards");
        // What announces is the making of a symbolic link, and each claim is a lock.
        let late = ["-e", "trace=symlinkat,flock", "-e", "inject=symlinkat:delay_enter=1500000"];
        let slowly = ["-e", "inject=flock:delay_enter=100000"];
        let mut traced = match strace(&[&late[..], &slowly].concat()) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["cp", "-a", &format!("--shard={slow}/2"), "a", "d"]).current_dir(dir.path());
        let mut slow = traced.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let quick = start(dir.path(), &format!("{fast}/2"), &["-a", "a", "d"]);
        // Another name keeps the table, which rank 0 removes at its end.
        let kept = dir.path().join("kept");
        fs::create_dir(&kept).unwrap();
        while claims(&kept).is_empty() {
            let mut there = fs::read_dir(&shards).into_iter().flatten().flatten();
            if let Some(table) =
                there.find(|file| file.path().extension() == Some("claims".as_ref()))
            {
                let _ = fs::hard_link(table.path(), kept.join("table.claims"));
            }
            assert!(slow.try_wait().unwrap().is_none(), "no table was seen");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut reported = String::new();
        for rank in [slow, quick] {
            let (status, said) = end(rank);
            assert_eq!(status, Some(0), "{said}");
            reported += &said;
        }
        // Also of the pieces that rank 0 took while it waited.
        assert!(reported.contains("gush: cp: 2 ranks: 1 files, 95.4 MiB"), "{reported}");
        let table: Vec<_> = claims(&kept).into_iter().flatten().collect();
        assert!(!table.is_empty() && table.iter().all(Option::is_some), "{table:?}");
        fs::remove_dir_all(kept).unwrap();
        // Either this rank announced the file, or it waited for the one that did.
        assert!(table.contains(&Some(fast)), "{fast}: {table:?}");
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
        assert_eq!(names(dir.path()), ["a", "d"]);
    }
}

#[test]
fn pieces_of_a_rank_that_was_killed_are_its_own_when_it_is_started_again() {
    for (lost, other) in [(0, 1), (1, 0)] {
        let dir = large_tree();
        let shards = dir.path().join(".d.gush-shards");
        let words = ["-a", "--resume", "a", "d"];
        let shard = |rank: u32| format!("{rank}/2");
        // So slow that a piece takes seconds.
        let slow = [&["--limit=2M", "--threads=1"][..], &words].concat();
        let mut victim = start(dir.path(), &shard(lost), &slow);
        wait_for(&shards.join(format!("rank-{lost}.journal")));
        wait_until_gone(&shards.join(format!("rank-{lost}.walks")));
        let is_owner = !claims(&shards).is_empty();
        while is_owner && !claims(&shards).iter().flatten().any(Option::is_some) {
            std::thread::sleep(Duration::from_millis(5));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let left = announced(&shards);
        let mut second = start(dir.path(), &shard(other), &words);
        // Nobody waits for the one that was lost but rank 0, which reports all the same.
        wait_for(&shards.join(format!("rank-{other}.done")));
        let now: BTreeMap<_, _> = announced(&shards).into_iter().collect();
        for (path, before) in &left {
            for (before, now) in before.iter().zip(&now[path]) {
                assert_eq!(*before == Some(lost), *now == Some(lost), "{path}: {left:?} {now:?}");
            }
        }
        assert!(!dir.path().join("d/guarded").exists());
        if other != 0 {
            assert_eq!(second.wait().unwrap().code(), Some(0));
        }
        let (status, said) = end(start(dir.path(), &shard(lost), &words));
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(end(second).0, Some(0));
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{lost}");
        assert_eq!(names(dir.path()), ["a", "d"]);
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
    let shards = dir.path().join(".two.gush-shards");
    let first = start(dir.path(), "0/2", &["-r", "-T", "a", "two"]);
    wait_for(&shards.join("rank-0.done"));
    let second = start(dir.path(), "1/2", &["-r", "-T", "a", "two"]);
    while !shards.join("rank-1.done").exists() && shards.exists() {
        assert_eq!(
            pieces(&shards).len(),
            0,
            "in a directory with the bit, or one that took it over"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!([end(first).0, end(second).0], [Some(0); 2]);
}

#[test]
fn a_rank_started_again_copies_only_the_pieces_that_are_missing() {
    let words = ["-a", "--resume", "a", "d"];
    let mut dir = large_tree();
    let mut files = 0;
    loop {
        let shards = dir.path().join(".d.gush-shards");
        // Rank 0 waits for the other, and is lost.
        let mut first = start(dir.path(), "0/2", &words);
        wait_for(&shards.join("rank-0.done"));
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
        if claims(&shards).iter().flatten().any(|of| *of == Some(1)) {
            break;
        }
        // Inode numbers made all large files those of rank 0, which has taken all pieces.
        dir = large_tree();
        files += 1;
        for file in 0..files {
            let large = fs::File::create(dir.path().join(format!("a/more-{file}"))).unwrap();
            large.set_len(70_000_000).unwrap();
        }
    }
    let shards = dir.path().join(".d.gush-shards");
    let before = pieces(&shards);
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    assert_eq!(pieces(&shards), before, "a piece was written again");
    // A rank that failed, and whose journal lacks a piece: the file gets no place until the rank is
    // started again.
    let journal = shards.join("rank-1.journal");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&journal, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let report = shards.join("rank-1.done");
    let reported = fs::read_to_string(&report).unwrap();
    fs::write(&report, reported.replace(" 1 end", " 0 end")).unwrap();
    let (status, said) = end(start(dir.path(), "0/2", &words));
    assert_eq!(status, Some(1), "{said}");
    let all = script(&dir.path().join("a"), "find . -size +60M -printf '%P\n'").stdout;
    let all = String::from_utf8(all).unwrap();
    let absent = all.lines().filter(|name| !dir.path().join("d").join(name).exists()).count();
    assert_eq!((absent, all.lines().count()), (1, 3 + files), "the file whose piece is missing");
    let ranks = ["1/2", "0/2"].map(|rank| start(dir.path(), rank, &words));
    for rank in ranks {
        let (status, said) = end(rank);
        assert_eq!(status, Some(0), "{said}");
    }
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

/// The calls of both ranks that `options` trace, one rank after the other, with what each said;
/// `Err` without strace.
fn traced(dir: &Path, options: &[&str], words: &[&str]) -> Result<[(String, String); 2], String> {
    let ranks: [Result<_, String>; 2] = ["1/2", "0/2"].map(|rank| {
        let calls = dir.join("calls");
        let mut traced = strace(&[&["-o", calls.to_str().unwrap()], options].concat())?;
        traced.arg("cp").arg(format!("--shard={rank}")).args(words).current_dir(dir);
        let output = traced.output().unwrap();
        Ok((fs::read_to_string(calls).unwrap(), stderr(&output)))
    });
    let [one, zero] = ranks;
    Ok([one?, zero?])
}

/// Root may write to any file, others only where the mode allows that.
#[test]
fn pieces_of_a_file_that_nobody_may_write_to_are_copied_by_who_is_not_root() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = large_tree();
    let program = copied_gush(dir.path());
    let output = script(dir.path(), &format!("chmod 777 . && chown -R {user}:{user} a"));
    assert!(output.status.success(), "{}", stderr(&output));
    let ranks = ["1/2", "0/2"].map(|rank| {
        let mut command = Command::new(&program);
        command.args(["cp", "-r", "--shard", rank, "a", "d"]).uid(user).gid(user);
        command.current_dir(dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for (status, said) in ranks.map(end) {
        assert_eq!(status, Some(0), "{said}");
    }
    let output = script(dir.path(), "diff -r a d && stat -c %a d/guarded");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "444\n");
}

/// Without -a no mode is kept, and directories may give their files modes by a list.
#[test]
fn large_files_are_divided_whether_or_not_attributes_are_kept() {
    let list = "mkdir -p d/a && setfacl -d -m u:12:rw d/a";
    for (prepare, words, divided) in [
        ("true", &["-r", "--resume", "-T", "a", "d/a"][..], &["data"][..]),
        ("true", &["-a", "--resume", "-T", "a", "d/a"], &["data"]),
        (list, &["-r", "--resume", "-T", "a", "d/a"], &[]),
    ] {
        let dir = one_large_file();
        // A byte less than 64 MiB: too small to be divided.
        let less = fs::File::create(dir.path().join("a/less")).unwrap();
        less.set_len((64 << 20) - 1).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let prepared = script(dir.path(), prepare);
        if !prepared.status.success() {
            return skipped(&format!("no access lists here: {}", stderr(&prepared).trim()));
        }
        let shards = dir.path().join("d/.a.gush-shards");
        let mut first = start(dir.path(), "0/2", words);
        wait_for(&shards.join("rank-0.done"));
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(end(start(dir.path(), "1/2", words)).0, Some(0));
        let paths: Vec<_> = announced(&shards).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, divided, "{prepare} {words:?}");
        let (status, said) = end(start(dir.path(), "0/2", words));
        assert_eq!(status, Some(0), "{said}");
        let output = script(dir.path(), "cmp a/data d/a/data");
        assert!(output.status.success(), "{}", stderr(&output));
        let lists = script(dir.path(), "getfacl -cp d/a/data | grep -c user:12:");
        assert_eq!(lists.status.success(), prepare == list);
    }
}

/// A name among several is linked by one rank, and a source is watched by one process.
#[test]
fn large_files_with_several_names_or_with_stable_are_not_divided() {
    for (text, option) in [("ln a/data a/again", "--resume"), ("true", "--stable")] {
        let dir = one_large_file();
        assert!(script(dir.path(), text).status.success());
        let shards = dir.path().join(".d.gush-shards");
        let words = ["-a", "--resume", option, "a", "d"];
        // Rank 0 would remove the state at its end.
        let mut first = start(dir.path(), "0/2", &words);
        wait_for(&shards.join("rank-0.done"));
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
        assert_eq!(announced(&shards), [], "{option}");
        let (status, said) = end(start(dir.path(), "0/2", &words));
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    }
}

#[test]
fn a_link_of_the_state_that_leads_out_of_it_is_not_followed() {
    let dir = one_large_file();
    let shards = dir.path().join(".d.gush-shards");
    let words = ["-a", "--resume", "a", "d"];
    assert_eq!(end(start(dir.path(), "1/2", &words)).0, Some(0));
    let mut waits = start(dir.path(), "0/2", &[&["--limit=1K"], &words[..]].concat());
    while announced(&shards).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    waits.kill().unwrap();
    waits.wait().unwrap();
    let in_state = names(&shards);
    let link = in_state.iter().find(|name| name.len() == "parts-".len() + 32).unwrap();
    let table = in_state.iter().find(|name| name.ends_with(".claims")).unwrap();
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    // As if its pieces were all still to be had.
    let mut claims = fs::read(shards.join(table)).unwrap();
    let head = claims.iter().position(|byte| *byte == 0).unwrap();
    claims[head..].fill(0);
    fs::write(dir.path().join("precious.claims"), claims).unwrap();
    fs::remove_file(shards.join(link)).unwrap();
    symlink("../precious", shards.join(link)).unwrap();
    let (status, said) = end(start(dir.path(), "0/2", &words));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(fs::read(precious).unwrap(), b"precious");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d", "precious", "precious.claims"]);
}

/// A tree with a large file of data, and nothing else.
fn one_large_file() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("a/data"), noise(68_000_001, 7)).unwrap();
    dir
}

/// A piece is copied by one thread: others of this rank copy other pieces, and `--threads` is for
/// all of them.
#[test]
fn a_rank_copies_pieces_on_as_many_threads_as_requested() {
    for threads in [1, 2, 3] {
        let option = format!("--threads={threads}");
        let words = ["-a", &option, "--method=read-write", "a", "d"];
        let started = |dir: &Path| {
            let [one, zero] = traced(dir, &["-e", "trace=clone,clone3"], &words)?;
            assert_eq!(state(&dir.join("d")), state(&dir.join("a")), "{}{}", one.1, zero.1);
            // The strace of a call that another thread interrupts has two lines.
            let is_call = |call: &&str| call.contains("clone") && !call.contains("resumed>");
            Ok::<_, String>([one, zero].map(|(calls, _)| calls.lines().filter(is_call).count()))
        };
        let dir = one_large_file();
        let of_pieces = match started(dir.path()) {
            Ok(started) => started,
            Err(why) => return skipped(&why),
        };
        let small = tempfile::tempdir().unwrap();
        fs::create_dir(small.path().join("a")).unwrap();
        let of_every_rank = started(small.path()).unwrap();
        // A rank that came too late for any piece has started nobody for them.
        let for_pieces = [0, 1].map(|rank| of_pieces[rank] - of_every_rank[rank]);
        assert_eq!(for_pieces.into_iter().max(), Some(threads - 1), "{for_pieces:?}");
    }
}

#[test]
fn pieces_and_reports_are_on_stable_storage_before_anybody_relies_on_them() {
    let dir = one_large_file();
    let options = ["-y", "-s", "4096", "-e", "trace=fsync,fdatasync,write,renameat,renameat2"];
    let words = ["-a", "--threads=1", "--fsync", "a", "d"];
    let ranks = match traced(dir.path(), &options, &words) {
        Ok(ranks) => ranks,
        Err(why) => return skipped(&why),
    };
    let mut pieces = 0;
    for (calls, said) in &ranks {
        let (mut synced, mut noted, mut reported) = (0, 0, None);
        // Until the whole file gets its place.
        for call in calls.lines().take_while(|call| !call.contains("\"parts-")) {
            if call.contains("fdatasync(") && call.contains("/parts-") {
                synced += 1;
            }
            if call.contains("write(") && call.contains(".journal>") {
                noted += call.matches("done ").count();
                assert!(noted <= synced, "a piece is noted first: {calls}");
            }
            if call.contains("fsync(") && call.contains(".new>") {
                reported = Some(false);
            }
            if call.contains("renameat") && call.contains(".done\"") {
                assert_eq!(reported, Some(false), "the report is not on storage: {calls}");
                reported = Some(true);
            }
        }
        assert_eq!(reported, Some(true), "{said}{calls}");
        pieces += noted;
    }
    // 68 MB in pieces of 16 MiB.
    assert_eq!(pieces, 5, "{ranks:?}");
}

/// The first read of a piece fails: the rank says so, though nothing would be wrong with the file
/// copied once more.
#[test]
fn a_rank_reports_a_piece_that_failed() {
    let dir = one_large_file();
    let source = dir.path().join("a/data");
    let calls = "inject=copy_file_range:error=EIO:when=1";
    let options = ["-P", source.to_str().unwrap(), "-e", calls];
    // By name: where blocks can be shared, nothing else would make this call.
    let words = ["-a", "--threads=1", "--method=copy-file-range", "a", "d"];
    let ranks = match traced(dir.path(), &options, &words) {
        Ok(ranks) => ranks,
        Err(why) => return skipped(&why),
    };
    for (_, said) in ranks.iter().filter(|(calls, _)| calls.contains("EIO")) {
        assert!(said.contains("data': "), "{said}");
        assert!(said.contains(&words_of(rustix::io::Errno::IO)), "{said}");
    }
    assert!(ranks.iter().any(|(calls, _)| calls.contains("EIO")), "{ranks:?}");
    assert!(!dir.path().join("d/data").exists());
}

#[test]
fn the_first_piece_that_fails_may_end_the_share() {
    let dir = tempfile::tempdir().unwrap();
    let text = "mkdir a && for n in 1 2 3 4; do truncate -s 70M a/$n && for at in 1 20 40 60; do
        printf x | dd of=a/$n bs=1M seek=$at conv=notrunc 2>/dev/null; done; done";
    assert!(script(dir.path(), text).status.success());
    let calls = ["-e", "trace=copy_file_range"];
    let inject = ["-e", "inject=copy_file_range:error=EIO:when=1"];
    let words = ["-a", "--on-error=stop", "--threads=1", "--method=copy-file-range", "a", "d"];
    let ranks = match traced(dir.path(), &[calls, inject].concat(), &words) {
        Ok(ranks) => ranks,
        Err(why) => return skipped(&why),
    };
    let count = |(calls, _): &(String, String)| calls.matches("copy_file_range(").count();
    // Rank 0 comes to pieces in any case.
    assert!(count(&ranks[0]) <= 1 && count(&ranks[1]) == 1, "{ranks:?}");
}

#[test]
fn a_large_source_that_changes_between_the_ranks_is_copied_whole() {
    for order in [["0/2", "1/2"], ["1/2", "0/2"]] {
        let dir = large_tree();
        let words = ["-a", "a", "d"];
        let first = start(dir.path(), order[0], &words);
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{}.done", &order[0][..1])));
        let grown = [noise(68_000_001, 9), noise(5, 9)].concat();
        fs::write(dir.path().join("a/sub/data"), grown).unwrap();
        for child in [start(dir.path(), order[1], &words), first] {
            let (status, said) = end(child);
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
        assert_eq!(names(dir.path()), ["a", "d"], "no piece is left");
    }
}

/// A large file that rank 0 does not find any more is no success: one process would have copied it,
/// or said the same.
#[test]
fn a_large_source_that_vanishes_after_it_was_announced_is_reported() {
    for (gone, why) in [("large-*", "No such file"), ("sub", "directories of large files are gone")]
    {
        let dir = tempfile::tempdir().unwrap();
        let text = "mkdir -p a/sub && truncate -s 70M a/large-{1..8} a/sub/large-{1..8}";
        assert!(script(dir.path(), text).status.success());
        let shards = dir.path().join(".d.gush-shards");
        let first = start(dir.path(), "0/2", &["-a", "-T", "a", "d"]);
        wait_for(&shards.join("rank-0.done"));
        let reported = fs::read_to_string(shards.join("rank-0.done")).unwrap();
        let [all, own]: [u64; 2] =
            std::array::from_fn(|at| reported.split(' ').nth(3 + at).unwrap().parse().unwrap());
        let missing =
            announced(&shards).into_iter().filter(|(path, _)| path.starts_with(&gone[..3]));
        let is_one_missing = missing.count() > 0;
        assert!(script(dir.path(), &format!("rm -r a/{gone}")).status.success());
        // As if the other rank had copied its own before.
        let text = format!("share 1 2 {all} {} 0 0 0 1 end\n", all.wrapping_sub(own));
        fs::write(shards.join("new"), text).unwrap();
        fs::rename(shards.join("new"), shards.join("rank-1.done")).unwrap();
        let (status, said) = end(first);
        // Inode numbers say which of them are rank 0's: none at all by a chance of 1 in 256.
        assert_eq!(status, Some(i32::from(is_one_missing)), "{gone}: {said}");
        assert_eq!(said.contains(why), is_one_missing, "{gone}: {said}");
        // Reported once: a copy that resumes does not look for the file again.
        for (status, said) in both(dir.path(), &["-a", "-T", "--resume", "a", "d"]) {
            assert_eq!(status, Some(0), "{gone}: {said}");
        }
        assert_eq!(names(dir.path()), ["a", "d"], "{gone}");
    }
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
        // Who goes on reports anew: rank 0 would fail by an old report before the rank could mend
        // it.
        let left = names(&dir.path().join(".d.gush-shards"));
        assert!(left.iter().all(|name| !name.ends_with(".done")), "{left:?}");
        let output = script(dir.path(), &format!("{removed}; rm -rf d"));
        assert!(output.status.success(), "{}", stderr(&output));
        for (status, said) in both(dir.path(), &words) {
            assert_eq!(status, Some(0), "{removed}: {said}");
        }
        assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")), "{removed}");
        assert_eq!(names(dir.path()), ["a", "d"], "{removed}");
    }
}

/// A rank that ends a piece with a hole in a shorter file sets the file's length, and would cut off
/// what another rank writes after it at this moment.
#[test]
fn a_file_of_pieces_has_its_whole_size_before_anybody_takes_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = "mkdir a && for n in {1..4}; do truncate -s 90M a/f$n; printf end >>a/f$n; done";
    assert!(script(dir.path(), text).status.success());
    let shards = dir.path().join(".d.gush-shards");
    let words = ["-a", "--limit=1K", "a", "d"];
    let mut ranks = ["0/2", "1/2"].map(|rank| start(dir.path(), rank, &words));
    while announced(&shards).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    for rank in &mut ranks {
        rank.kill().unwrap();
        rank.wait().unwrap();
    }
    let sizes: Vec<u64> = fs::read_dir(&shards)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "claims"))
        .map(|table| fs::metadata(table.with_extension("")).unwrap().len())
        .collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size == (90 << 20) + 3), "{sizes:?}");
}

#[test]
fn a_divided_file_whose_pieces_are_removed_before_the_end_is_copied_whole() {
    let dir = large_tree();
    let shards = dir.path().join(".d.gush-shards");
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&shards.join("rank-0.done"));
    let reported = fs::read_to_string(shards.join("rank-0.done")).unwrap();
    let words: Vec<&str> = reported.split(' ').collect();
    let ["share", "0", "2", all, own, divided, files, _, "1", "end\n"] = words[..] else {
        panic!("{reported}");
    };
    let [all, own, divided, files] =
        [all, own, divided, files].map(|text| text.parse::<u64>().unwrap());
    let (others, others_own) = (5 - files, all.wrapping_sub(own));
    // The other rank reports, and nothing of any piece is left.
    for (name, _, _) in pieces(&shards) {
        let link = name.rsplit_once('-').unwrap().0;
        fs::remove_file(shards.join(link)).unwrap();
        fs::remove_file(shards.join(&name)).unwrap();
        fs::remove_file(shards.join(name + ".claims")).unwrap();
    }
    let divided = 3 - divided;
    let text = format!("share 1 2 {all} {others_own} {divided} {others} 0 1 end\n");
    fs::write(shards.join("new"), text).unwrap();
    // Renamed into place, as a rank reports: the waiting rank must not see half a line.
    fs::rename(shards.join("new"), shards.join("rank-1.done")).unwrap();
    let (status, said) = end(first);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

/// Rank 0, started again, takes what has its name for whole.
#[test]
fn a_file_that_rank_0_copies_whole_has_no_name_before_it_is() {
    let dir = one_large_file();
    let shards = dir.path().join(".d.gush-shards");
    let mut first = start(dir.path(), "0/2", &["-a", "--limit=40M", "a", "d"]);
    wait_for(&shards.join("rank-0.done"));
    let reported = fs::read_to_string(shards.join("rank-0.done")).unwrap();
    let words: Vec<&str> = reported.split(' ').collect();
    let [all, own, divided, files] = [3, 4, 5, 6].map(|at| words[at].parse::<u64>().unwrap());
    // As if the other rank had announced and copied the rest, and somebody had removed all pieces.
    for name in names(&shards).iter().filter(|name| name.starts_with("parts-")) {
        fs::remove_file(shards.join(name)).unwrap();
    }
    let (others_own, divided, files) = (all.wrapping_sub(own), 1 - divided, 1 - files);
    let text = format!("share 1 2 {all} {others_own} {divided} {files} 0 1 end\n");
    fs::write(shards.join("new"), text).unwrap();
    fs::rename(shards.join("new"), shards.join("rank-1.done")).unwrap();
    let copy = dir.path().join("d/data");
    while !copy.exists() {
        assert!(first.try_wait().unwrap().is_none(), "no copy was seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    let has_all = fs::read(&copy).unwrap() == fs::read(dir.path().join("a/data")).unwrap();
    let (status, said) = end(first);
    assert_eq!(status, Some(0), "{said}");
    assert!(has_all, "a part had the name");
}

#[test]
fn a_large_source_that_becomes_small_between_the_ranks_is_copied() {
    for order in [["0/2", "1/2"], ["1/2", "0/2"]] {
        let dir = large_tree();
        let words = ["-a", "a", "d"];
        let first = start(dir.path(), order[0], &words);
        // Rank 0 waits for the other once its share is done.
        wait_for(&dir.path().join(format!(".d.gush-shards/rank-{}.done", &order[0][..1])));
        let text = "cd a && chmod u+w guarded && truncate -s 10000000 holes guarded sub/data &&
            chmod u-w guarded";
        let output = script(dir.path(), text);
        assert!(output.status.success(), "{}", stderr(&output));
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
