//! `gush cp --dry-run`: reports the copy without a change, and refuses what the copy would refuse.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::cp::{below, cp, fails, script, stderr, stdout, succeeds, tree, with_mounts};
use crate::common::{copied_gush, gush, nobody, skipped};

#[test]
fn a_dry_run_reports_a_target_that_goes_before_its_copy() {
    let dir = tree(&["f", "d/f"]);
    for (run, line) in [("--dry-run", "would remove 'd/f'\n"), ("-v", "removed 'd/f'\n")] {
        let output = succeeds(dir.path(), &["--remove-destination", run, "f", "d"]);
        assert!(stdout(&output).contains(line), "{run}: {}", stdout(&output));
    }
}

#[test]
fn a_dry_run_finds_the_files_that_a_mount_keeps() {
    let dir = tree(&["a/f", "a/k/f", "d/f", "d/gone/f", "d/k", "d/z", "o"]);
    let script = "for file in f gone/f k z; do mount --bind o d/$file || exit; done
        for dry in --dry-run ''; do $G cp -rT --delete $dry a d 2>&1 | sort; done; umount d/*";
    let Some(output) = with_mounts(dir.path(), script) else { return };
    let said = stdout(&output);
    for name in ["d/gone/f", "d/k", "d/z"] {
        let line = format!("cannot remove '{name}': Device or resource busy");
        assert_eq!(said.matches(&line).count(), 2, "{name}: {output:?}");
    }
    assert!(!said.contains("would remove"), "{output:?}");
}

#[test]
fn a_dry_run_reports_all_and_changes_nothing() {
    let dir = tree(&["a/f", "a/b/g", "d/a/f", "d/a/old"]);
    symlink("f", dir.path().join("a/l")).unwrap();
    fs::hard_link(dir.path().join("a/f"), dir.path().join("a/b/h")).unwrap();
    let state = |name: &str| {
        let root = dir.path().join(name);
        below(&root)
            .iter()
            .map(|name| {
                let about = fs::symlink_metadata(root.join(name)).unwrap();
                (name.clone(), about.ino(), about.ctime(), about.ctime_nsec())
            })
            .collect::<Vec<_>>()
    };
    let before = (state("a"), state("d"));
    let mirror = ["-a", "--delete", "--threads=1"];
    let threaded_mirror = ["-a", "--delete", "--threads=4"];
    let others = [&["-a"][..], &["-a", "--remove-destination"], &["-ab"], &["-au"]];
    for options in [&mirror[..], &threaded_mirror].into_iter().chain(others) {
        let output = succeeds(dir.path(), &[options, &["--dry-run", "a", "d"]].concat());
        let mut said: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
        said.sort();
        // No word of a dry run passes for a deed.
        assert!(said.iter().all(|line| line.starts_with("would ")), "{options:?}: {said:?}");
        if options == mirror || options == threaded_mirror {
            // Of several threads, any name of a file may be the first. The others become links, for
            // which what is there is removed.
            let removed = "would remove 'd/a/f'";
            said.retain(|line| options == mirror || line != removed);
            let expected = [
                "would copy 'a/b' -> 'd/a/b'",
                "would copy 'a/b/g' -> 'd/a/b/g'",
                "would copy 'a/b/h' -> 'd/a/b/h'",
                "would copy 'a/f' -> 'd/a/f'",
                "would copy 'a/l' -> 'd/a/l'",
                "would remove 'd/a/old'",
            ];
            assert_eq!(said, expected, "{options:?}");
        }
        assert_eq!((state("a"), state("d")), before, "{options:?}");
    }
    let output = succeeds(dir.path(), &["-a", "--dry-run", "--json", "a", "new"]);
    assert!(!dir.path().join("new").exists());
    let mut reported: Vec<(String, String)> = stdout(&output)
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(record["dry_run"], true);
            let text = |name: &str| record[name].as_str().unwrap().to_owned();
            (text("target"), text("action"))
        })
        .collect();
    reported.sort();
    let names: Vec<_> = reported.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["new", "new/b", "new/b/g", "new/b/h", "new/f", "new/l"]);
    let linked = reported.iter().filter(|(_, action)| action == "hard-linked").count();
    assert_eq!(linked, 1);
    succeeds(dir.path(), &["--dry-run", "a/f", "alone"]);
    succeeds(dir.path(), &["--dry-run", "--parents", "a/b/g", "d"]);
    assert_eq!((state("a"), state("d")), before);
    assert!(!dir.path().join("alone").exists());
}

#[test]
fn a_dry_run_promises_nothing_that_the_copy_refuses() {
    let cases: [(&[&str], &str); 13] = [
        (&["-r", "a", "missing/d"], "cannot create directory 'missing/d': No such file"),
        (&["a/f", "missing/d"], "cannot create regular file 'missing/d': No such file"),
        (&["a/f", "missing/"], "cannot create regular file 'missing/': Not a directory"),
        (&["a/f", "dangling"], "not writing through dangling symlink 'dangling'"),
        (&["-s", "/etc/hostname", "missing/d"], "cannot create symbolic link 'missing/d' to"),
        (&["-l", "a/f", "old"], "cannot create hard link 'old' to 'a/f'"),
        (&["-l", "--atomic", "a/f", "old"], "cannot create hard link 'old' to 'a/f'"),
        (&["-b", "old~", "old"], "backing up 'old' might destroy source; 'old~' not copied"),
        (&["-b", "--atomic", "old~", "old"], "backing up 'old' might destroy source"),
        (&["-r", "a", "old/d"], "Not a directory"),
        (&["--parents", "a/b/g", "p"], "'p/a' exists but is not a directory"),
        (&["-r", "--parents", "a/b", "p"], "'p/a' exists but is not a directory"),
        (&["--parents", "a/nothing", "t"], "cannot stat 'a/nothing'"),
    ];
    for (words, why) in cases {
        let dir = tree(&["a/f", "a/b/g", "old", "old~", "p/a", "t/x"]);
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        let before = below(dir.path());
        let output = cp(dir.path(), &[&["--dry-run"], words].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
        assert!(!stdout(&output).contains("would"), "{words:?}: {}", stdout(&output));
        assert_eq!(below(dir.path()), before, "{words:?}");
        fails(dir.path(), words);
    }
    let dir = tree(&["a/f", "a/b/g", "t/x", "old"]);
    symlink("f", dir.path().join("a/l")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    let before = below(dir.path());
    for words in [
        &["-f", "-l", "a/f", "old"][..],
        &["-b", "-l", "a/f", "old"],
        &["-P", "a/l", "old"],
        &["-b", "a/f", "old"],
        &["--parents", "a/b/g", "t"],
        &["-r", "--parents", "a/b", "t"],
        &["-r", "--parents", "a/b/.", "t"],
        &["-r", "a", "new"],
        &["-r", "a", "new/"],
        &["-r", "a/b/..", "t"],
    ] {
        succeeds(dir.path(), &[&["--dry-run"], words].concat());
        assert_eq!(below(dir.path()), before, "{words:?}");
        let copied = tree(&["a/f", "a/b/g", "t/x", "old"]);
        symlink("f", copied.path().join("a/l")).unwrap();
        succeeds(copied.path(), words);
    }
    // As the copy, which POSIX lets write through the link.
    for dry in [&["--dry-run"][..], &[]] {
        let mut command = gush();
        command.arg("cp").args(dry).args(["a/f", "dangling"]).env("POSIXLY_CORRECT", "1");
        let output = command.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{dry:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_to_string(dir.path().join("nowhere")).unwrap(), "a/f");
}

#[test]
fn a_dry_run_reports_what_its_user_may_not_do() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let programs = tempfile::tempdir().unwrap();
    let mode = |path: &Path, bits| fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
    let gush = copied_gush(programs.path());
    // Word for word where a dry run and the copy do the same; else the path and the reason.
    let same: [&[&str]; 9] = [
        &["-rT", "a", "d"],
        &["-r", "a", "new"],
        &["-rTf", "a", "d"],
        &["a/closed", "new"],
        &["a/closed", "d/f"],
        &["a/f", "d/locked"],
        &["--atomic", "a/f", "d/locked"],
        &["a/f", "shut/new"],
        &["-r", "a", "shut/new"],
    ];
    let alike: [&[&str]; 7] = [
        &["-l", "a/f", "shut/new"],
        &["-b", "a/f", "shut/f"],
        &["--atomic", "a/f", "shut/f"],
        &["--atomic", "-f", "a/f", "shut/f"],
        &["--atomic", "a/f", "shut/new"],
        &["--remove-destination", "a/f", "shut/f"],
        &["-f", "a/f", "shut/locked"],
    ];
    let well: [&[&str]; 6] = [
        &["a/f", "shut/f"],
        &["-f", "a/f", "shut/f"],
        &["-f", "a/f", "d/locked"],
        &["-b", "a/f", "d/locked"],
        &["--atomic", "-f", "a/f", "d/locked"],
        &["--atomic", "-b", "a/f", "d/locked"],
    ];
    let cases = [(&same[..], 1, true), (&alike, 1, false), (&well, 0, false)];
    for (words, status, is_word_for_word) in cases
        .into_iter()
        .flat_map(|(all, status, whole)| all.iter().map(move |w| (w, status, whole)))
    {
        let dir =
            tree(&["a/closed", "a/f", "d/f", "d/closed", "d/locked", "shut/f", "shut/locked"]);
        let owner = user.to_string();
        let owned = Command::new("chown").args(["-R", &owner]).arg(dir.path()).status();
        assert!(owned.unwrap().success());
        for (name, bits) in [("a/closed", 0), ("d/locked", 0o444), ("shut/locked", 0o444)] {
            mode(&dir.path().join(name), bits);
        }
        mode(&dir.path().join("shut"), 0o555);
        let run = |dry: &[&str]| {
            let mut command = Command::new(&gush);
            command.arg("cp").args(dry).args(*words).current_dir(dir.path()).uid(user).gid(user);
            command.stdin(Stdio::null());
            let output = command.output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(status),
                "{dry:?} {words:?}: {}",
                stderr(&output)
            );
            let mut reported: Vec<_> = stderr(&output).lines().map(str::to_owned).collect();
            reported.sort();
            if !is_word_for_word {
                // `gush: cp: PATH: WHAT: REASON (HINT)`
                for line in &mut reported {
                    let parts: Vec<_> = line.split(" (").next().unwrap().split(": ").collect();
                    *line = format!("{}: {}", parts[2], parts.last().unwrap());
                }
            }
            reported
        };
        assert_eq!(run(&["--dry-run"]), run(&[]), "{words:?}");
    }
}

#[test]
fn a_dry_run_asks_what_the_copy_would_need() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    // Made by root, and copied by another user: the status of both runs.
    let cases = [
        ("mkdir d; echo o >d/f; chmod 555 d", "$cp -f src d/f", 0),
        ("mkdir d; echo o >d/f; chmod 444 d/f; chmod 555 d", "$cp -f src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 444 d/f", "$cp -f src d/f", 0),
        ("mkdir d; echo o >d/f; chmod 444 d/f; chmod 1777 d", "$cp -f src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 444 d/f; chmod 1777 d", "$cp src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 555 d", "$cp --remove-destination src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 555 d", "$cp --atomic --remove-destination src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 555 d", "$cp -b src d/f", 1),
        ("mkdir s d; echo n >s/f; echo o >d/f; chmod 555 d", "$cp -rfT s d", 0),
        ("mkdir d; echo o >f; ln -s ../f d/l; chmod 555 d", "$cp --atomic src d/l", 0),
        ("mkdir d; echo o >d/f; ln -s d/f l; chmod 555 d", "$cp --atomic src l", 1),
        ("mkdir d; echo o >d/f; ln -s d/f l; chmod 555 d", "$cp --atomic -f src l", 1),
        ("mkdir d; echo o >d/f; chmod 444 d/f", "$cp --atomic src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 444 d/f", "$cp --atomic -f src d/f", 0),
        ("mkdir d; echo o >d/f; chmod 1777 d", "$cp --atomic src d/f", 1),
        ("mkdir d; chmod 555 d", "$cp --atomic src d/f", 1),
        ("mkfifo p", "$cp --atomic src p", 1),
        ("mkfifo p", "$cp --verify src p", 1),
        ("mkdir d; ln -s ../m d/k; ln -s k d/l; chmod 555 d", "POSIXLY_CORRECT=1 $cp src d/l", 0),
        ("mkdir d; ln -s d/m l; chmod 555 d", "POSIXLY_CORRECT=1 $cp src l", 1),
        ("ln -s m l", "POSIXLY_CORRECT=1 $cp --atomic src l", 1),
        ("mkdir -p s d/gone; chmod 000 d/gone", "$cp -rT --delete s d", 0),
        ("mkdir -p s d/a/gone; chmod 000 d/a/gone; chmod 555 d/a", "$cp -rT --delete s d", 1),
        ("mkdir -p s d/gone; chmod 000 d/gone; chmod 555 d", "$cp -rT --delete s d", 1),
        ("mkdir -p s d/full; echo >d/full/x; chmod 555 d/full", "$cp -rT --delete s d", 1),
        ("mkdir -p s d/full; echo >d/full/x; chmod 1777 d/full", "$cp -rT --delete s d", 1),
        ("mkdir -p s d; echo >d/x; chmod 555 d", "$cp -rT --delete s d", 1),
        // Links and special files, which nobody writes in place.
        ("mkdir d; echo o >d/f", "$cp -l src d/f", 1),
        ("mkdir d; echo o >d/f", "$cp -s $PWD/src d/f", 1),
        ("mkdir d; chmod 666 src; echo o >d/f; chmod 555 d", "$cp -lf src d/f", 1),
        ("mkdir d; echo o >d/f; chmod 555 d", "$cp -sf $PWD/src d/f", 1),
        ("mkdir d; echo o >d/f", "$cp -sf $PWD/src d/f", 0),
        ("mkdir d; chmod 666 src; chmod 555 d", "$cp -l src d/f", 1),
        ("mkdir d; chmod 555 d", "$cp -s $PWD/src d/f", 1),
        ("mkdir d", "$cp -s src d/f", 1),
        ("mkdir d", "$cp -sf src d/f", 1),
        ("mkdir s; echo n >s/f", "$cp -rs s d", 1),
        ("ln -s /proc/sys/kernel/ostype other", "$cp -lL other f", 1),
        ("mkdir d; ln -s q l; chmod 555 d", "$cp -P l d/f", 1),
        ("mkdir d; ln -s q l; echo o >d/f", "$cp -P --attributes-only l d/f", 1),
        ("mkdir d; ln -s q l; echo o >d/f; chmod 555 d", "$cp -Pf --attributes-only l d/f", 1),
        ("mkdir d; ln -s q l; echo o >d/f; chmod 555 d", "$cp -P --atomic l d/f", 1),
        ("mkdir d; mkfifo p; chmod 555 d", "$cp -r p d/f", 1),
        ("mkfifo p", "$cp -r p no/.", 1),
        ("mkdir s", "$cp -r s no/.", 1),
        ("mkdir d; mkfifo p; echo o >d/f", "$cp -rL p d/f", 1),
        ("mkdir d; mkfifo p; echo o >d/f; chmod 555 d", "$cp -r --atomic p d/f", 1),
        (
            "mkdir -p d/f; echo >d/f/x; mkdir s; echo n >s/f; chmod 555 d/f",
            "$cp -rT --delete s d",
            1,
        ),
    ];
    let programs = tempfile::tempdir().unwrap();
    let gush = copied_gush(programs.path());
    for (make, words, status) in cases {
        let dir = tree(&["src"]);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let made = script(dir.path(), &format!("umask 0; {make}"));
        assert!(made.status.success(), "{make}: {}", stderr(&made));
        let state = || stdout(&script(dir.path(), "find . -printf '%p %m %s %T@ %l\\n' | sort"));
        let run = |dry: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", words]).env("cp", format!("{} cp{dry}", gush.display()));
            command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
            command.current_dir(dir.path()).uid(user).gid(user).output().unwrap()
        };
        let before = state();
        let rehearsed = run(" --dry-run");
        assert_eq!(state(), before, "{make}; {words}");
        let copied = run("");
        let reported = format!("{make}; {words}: {}{}", stdout(&rehearsed), stderr(&rehearsed));
        assert_eq!(copied.status.code(), Some(status), "{reported}{}", stderr(&copied));
        assert_eq!(rehearsed.status.code(), Some(status), "{reported}{}", stderr(&copied));
        match status == 1 {
            true => assert_eq!(stderr(&rehearsed), stderr(&copied), "{make}; {words}"),
            false => assert!(stdout(&rehearsed).contains("would "), "{reported}"),
        }
        let doubts = stderr(&rehearsed).contains("cannot list 'd/gone'");
        assert_eq!(doubts, make.contains("gone") && status == 0, "{reported}");
    }
}

/// A target that becomes a name of an earlier copy goes in the words of the copy.
#[test]
fn a_name_that_becomes_a_link_is_said_to_be_removed() {
    for options in ["-a", "-a --checksum", "-au", "-a --remove-destination", "-ab", "-a --atomic"] {
        let dir = tempfile::tempdir().unwrap();
        let output = script(
            dir.path(),
            &format!(
                "make() {{ rm -rf s t; mkdir s t; echo a >s/a; ln s/a s/b; echo bb >t/a; echo b >t/b
                    touch -d @1 t/a t/b; }}
                make; $G cp -Tv --threads 1 {options} --dry-run s t | sed 's/would remove/removed/;s/would copy //' >dry
                $G cp -Tv --threads 1 {options} s t | sed 's/ (backup.*//' >real; grep -c removed real; diff dry real
                grep -cE \"^'s/[ab]' -> 't/[ab]'$\" real"
            ),
        );
        let removed = stdout(&output);
        let expected = if options == "-ab" { "0\n2\n" } else { "1\n2\n" };
        let expected = if options.contains("remove-d") { "2\n2\n" } else { expected };
        assert_eq!(removed, expected, "{options}: {output:?}");
    }
}
