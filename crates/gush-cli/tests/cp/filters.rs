//! `gush cp -r` with a part of a tree: `--exclude`, `--include`, `--filter-from`, `--gitignore`; `--dry-run`, `--checksum`,
//! `--update=changed`, `--on-error`, `--commit-last`.

use std::ffi::OsStr;
use std::fs;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::cp::{cp, fails, script, stderr, stdout, succeeds};
use crate::common::{copied_gush, gush, nobody, skipped, strace};

fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

/// The paths below a directory, files and directories.
fn below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

const FILES: [&str; 7] =
    ["a/main.c", "a/main.o", "a/keep.o", "a/src/b.o", "a/src/b.c", "a/out/x", "a/src/out/y"];

#[test]
fn the_first_rule_that_fits_decides() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--exclude=*.o"], &["main.c", "out", "out/x", "src", "src/b.c", "src/out", "src/out/y"]),
        (
            &["--include=keep.o", "--exclude=*.o", "--exclude=/out"],
            &["keep.o", "main.c", "src", "src/b.c", "src/out", "src/out/y"],
        ),
        (&["--exclude=*.o", "--include=keep.o", "--exclude=out/"], &["main.c", "src", "src/b.c"]),
        (&["--exclude=src/*.c", "--exclude=*.o", "--exclude=out"], &["main.c", "src"]),
        (&["--exclude=main.c/", "--exclude=src", "--exclude=out", "--exclude=*.o"], &["main.c"]),
        (&["--exclude=*"], &[]),
    ];
    for (options, expected) in cases {
        let dir = tree(&FILES);
        succeeds(dir.path(), &[&["-r"], options, &["a", "d"]].concat());
        assert_eq!(below(&dir.path().join("d")), expected, "{options:?}");
    }
}

#[test]
fn rules_of_a_file_stand_where_the_file_is_named() {
    let dir = tree(&FILES);
    fs::write(dir.path().join("rules"), "# objects\n\n+ keep.o\n- *.o\nout\n").unwrap();
    succeeds(dir.path(), &["-r", "--exclude=keep.o", "--filter-from=rules", "a", "d"]);
    assert_eq!(below(&dir.path().join("d")), ["main.c", "src", "src/b.c"]);
    succeeds(dir.path(), &["-r", "--filter-from=rules", "--exclude=keep.o", "a", "e"]);
    assert_eq!(below(&dir.path().join("e")), ["keep.o", "main.c", "src", "src/b.c"]);
    let said = fails(dir.path(), &["-r", "--filter-from=missing", "a", "f"]);
    assert!(said.starts_with("gush: cp: --filter-from missing: No such file"), "{said}");
    let said = fails(dir.path(), &["-r", "--exclude=[z-a]", "a", "f"]);
    assert!(said.starts_with("gush: cp: invalid --exclude '[z-a]': invalid range"), "{said}");
    for option in ["--exclude=[", "--include=a[b", "--commit-last=[", "--exclude=[!]"] {
        let (name, pattern) = option.split_once('=').unwrap();
        let said = fails(dir.path(), &["-r", option, "a", "f"]);
        let told = format!("gush: cp: invalid {name} '{pattern}': unclosed character class");
        assert!(said.starts_with(&told), "{said}");
    }
    fs::write(dir.path().join("rules"), "x\n+ [\n").unwrap();
    let said = fails(dir.path(), &["-r", "--filter-from=rules", "a", "f"]);
    let told = "gush: cp: invalid pattern of --filter-from rules: '[': unclosed character class";
    assert!(said.starts_with(told), "{said}");
    let said = fails(dir.path(), &["--exclude=x", "a/main.c", "f"]);
    assert!(said.contains("concern trees: -r copies trees"), "{said}");
    assert!(!dir.path().join("f").exists());
}

#[test]
fn gitignore_files_leave_out_what_git_leaves_out() {
    let dir = tree(&[
        "a/x.log",
        "a/b/x.log",
        "a/b/keep.log",
        "a/b/t/f",
        "a/t/f",
        "a/b/c/z.tmp",
        "a/z.tmp",
    ]);
    fs::write(dir.path().join("a/.gitignore"), "# logs\n*.log\n/t/\n").unwrap();
    fs::write(dir.path().join("a/b/.gitignore"), "!keep.log\n*.tmp\n").unwrap();
    succeeds(dir.path(), &["-r", "--gitignore", "a", "d"]);
    let expected =
        [".gitignore", "b", "b/.gitignore", "b/c", "b/keep.log", "b/t", "b/t/f", "z.tmp"];
    assert_eq!(below(&dir.path().join("d")), expected);
}

#[test]
fn a_byte_order_mark_belongs_to_no_rule() {
    let dir = tree(&["a/x", "a/y", "a/\u{feff}y"]);
    let rules = "\u{feff}x\n\u{feff}y\n";
    fs::write(dir.path().join("a/.gitignore"), rules).unwrap();
    fs::write(dir.path().join("rules"), rules).unwrap();
    for (filter, to) in [("--gitignore", "b"), ("--filter-from=rules", "c")] {
        succeeds(dir.path(), &["-r", filter, "a", to]);
        assert_eq!(below(&dir.path().join(to)), [".gitignore", "y"], "{filter}");
    }
}

const NAMES: [&str; 20] = [
    "a", "b", "ab", "x.log", "y.tmp", "keep.log", "t", "[z]", "q ", " p", "é", "A", "d.d", "-",
    "#h", "!n", "b\\c", "*s", "{a,b}", "7",
];

const RULES: [&str; 60] = [
    "*.log",
    "!keep.log",
    "/t/",
    "t",
    "t/",
    "**/a",
    "a/**",
    "a/**/b",
    "/a",
    "a/b",
    "!a/b",
    "*.t?p",
    "[ab]",
    "[!a]",
    "\\#h",
    "\\!n",
    "#c",
    "q\\ ",
    "q ",
    "*",
    "!*/",
    "/*",
    "!/a",
    "**",
    "b\\\\c",
    "é",
    "?",
    "**/t/**",
    "a/*/b",
    "\\*s",
    "[[]z]",
    "ab/",
    "!ab",
    "  ",
    "[[:alpha:]]",
    "[^[:punct:]]",
    "[[:digit:]]",
    "a**b",
    "*/",
    "**/",
    "[^b]",
    "!a/",
    "b/*",
    "!b/keep.log",
    "[",
    "[]",
    "\\",
    "{a,b}",
    "*}",
    "**a",
    "a/",
    "A",
    "[a\\-t]",
    "[\\]t]",
    "[!\\]]",
    "[a-\\t]",
    "[t-a]",
    "t\t",
    "q\\  ",
    "[\\^\\!]",
];

/// A tree of random names with random rules; the directories come before what is in them.
fn random_rules(root: &Path, mut random: u64) {
    let mut below = |most: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % most as u64) as usize
    };
    let mut dirs = vec![root.to_path_buf()];
    for _ in 0..5 + below(20) {
        let path = dirs[below(dirs.len())].join(NAMES[below(NAMES.len())]);
        if path.exists() {
            continue;
        }
        match below(2) {
            0 => fs::write(path, "").unwrap(),
            _ => {
                fs::create_dir(&path).unwrap();
                dirs.push(path);
            }
        }
    }
    for dir in dirs {
        let end = ["\n", "\n", "\n", "\r\n"][below(4)];
        let lines = below(4) + usize::from(dir == root);
        if lines > 0 {
            let rules: String =
                (0..lines).map(|_| RULES[below(RULES.len())].to_owned() + end).collect();
            fs::write(dir.join(".gitignore"), rules).unwrap();
        }
    }
}

#[test]
fn random_gitignore_files_leave_out_what_git_leaves_out() {
    let git = |dir: &Path, words: &[&str]| {
        let mut git = std::process::Command::new("git");
        // No rules of this user's.
        git.env("HOME", dir).env("XDG_CONFIG_HOME", dir).env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("GIT_DIR", dir.join("repository")).env("GIT_WORK_TREE", dir.join("a"));
        git.args(words).current_dir(dir.join("a")).output()
    };
    for seed in 1..=40_u64 {
        let dir = tree(&["a/f"]);
        random_rules(&dir.path().join("a"), seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if let Err(why) = git(dir.path(), &["init", "--quiet"]) {
            return crate::common::skipped(&format!("git: {why}"));
        }
        let listed =
            git(dir.path(), &["ls-files", "-z", "--others", "--exclude-standard"]).unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let mut expected: Vec<_> = String::from_utf8(listed.stdout)
            .unwrap()
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        expected.sort();
        succeeds(dir.path(), &["-r", "--gitignore", "a", "d"]);
        // git knows no directories.
        let copy = dir.path().join("d");
        let found: Vec<_> =
            below(&copy).into_iter().filter(|name| copy.join(name).is_file()).collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// `x[!a]y` is about names such as `xby`, and not about `y` in a directory `x`, which would be missing in the copy.
#[test]
fn a_bracket_fits_no_slash() {
    let dir = tree(&["a/x/y", "a/xby", "a/xay"]);
    succeeds(dir.path(), &["-r", "--exclude=x[!a]y", "a", "d"]);
    assert_eq!(below(&dir.path().join("d")), ["x", "x/y", "xay"]);
    fs::write(dir.path().join("a/.gitignore"), "x[^a]y\n").unwrap();
    succeeds(dir.path(), &["-r", "--gitignore", "a", "e"]);
    assert_eq!(below(&dir.path().join("e")), [".gitignore", "x", "x/y", "xay"]);
}

#[test]
fn an_excluded_pattern_is_neither_a_comment_nor_an_included_one() {
    let dir = tree(&["a/#x", "a/!x", "a/x"]);
    succeeds(dir.path(), &["-r", "--exclude=#x", "--exclude=!x", "a", "d"]);
    assert_eq!(below(&dir.path().join("d")), ["x"]);
}

#[test]
fn patterns_and_names_that_are_no_text_fit_by_their_bytes() {
    let dir = tree(&["a/cafe", "a/cafes", "a/b/x"]);
    let odd = OsStr::from_bytes(b"caf\xe9");
    for place in ["a", "a/b"] {
        fs::write(dir.path().join(place).join(odd), "odd").unwrap();
    }
    let copied = |options: &[&OsStr]| {
        let mut command = gush();
        command.args(["cp", "-r"]).args(options).args(["a", "d"]);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let found = [Path::new("d").join(odd), Path::new("d/b").join(odd)];
        let found = found.map(|path| dir.path().join(path).exists());
        let others = ["cafe", "cafes", "b/x"].map(|name| dir.path().join("d").join(name).exists());
        fs::remove_dir_all(dir.path().join("d")).unwrap();
        (found, others)
    };
    let word = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    assert_eq!(copied(&[word(b"--exclude=caf\xe9")]), ([false; 2], [true; 3]));
    assert_eq!(copied(&[word(b"--exclude=/caf\xe9")]), ([false, true], [true; 3]));
    assert_eq!(copied(&[word(b"--exclude=/caf\xe9 ")]), ([false, true], [true; 3]));
    assert_eq!(copied(&[word(b"--exclude=caf?")]), ([false; 2], [false, true, true]));
    let rules = [word(b"--include=/caf\xe9"), word(b"--exclude=[c]*")];
    assert_eq!(copied(&rules), ([true, false], [false, false, true]));
    fs::write(dir.path().join("rules"), b"+ /b/caf\xe9\n- caf[\xe8-\xea]\n").unwrap();
    assert_eq!(copied(&[word(b"--filter-from=rules")]), ([false, true], [true; 3]));
    assert_eq!(copied(&[word(b"--commit-last=caf\xe9")]), ([true; 2], [true; 3]));
    fs::write(dir.path().join("a/.gitignore"), b"caf\xe9\n!/b/c*\n").unwrap();
    assert_eq!(copied(&[word(b"--gitignore")]), ([false, true], [true; 3]));
}

#[test]
fn a_pattern_that_fits_no_name_is_refused() {
    let dir = tree(&["a/f"]);
    for option in ["--exclude", "--include", "--commit-last"] {
        for pattern in ["", "/", " ", "//"] {
            let said = fails(dir.path(), &["-r", &format!("{option}={pattern}"), "a", "d"]);
            let told = format!("gush: cp: invalid {option} '{pattern}': fits no name\n");
            assert!(said.starts_with(&told), "{said}");
        }
    }
    assert!(!dir.path().join("d").exists());
}

#[test]
fn a_dry_run_tells_all_and_changes_nothing() {
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
    for options in
        [&["-a"][..], &["-a", "--delete"], &["-a", "--remove-destination"], &["-ab"], &["-au"]]
    {
        let output = succeeds(dir.path(), &[options, &["--dry-run", "a", "d"]].concat());
        let mut said: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
        said.sort();
        // No word of a dry run passes for a deed.
        assert!(said.iter().all(|line| line.starts_with("would ")), "{options:?}: {said:?}");
        if options == ["-a", "--delete"] {
            let expected = [
                "would copy 'a/b' -> 'd/a/b'",
                "would copy 'a/b/g' -> 'd/a/b/g'",
                "would copy 'a/b/h' -> 'd/a/b/h'",
                "would copy 'a/f' -> 'd/a/f'",
                "would copy 'a/l' -> 'd/a/l'",
                "would remove 'd/a/old'",
            ];
            assert_eq!(said, expected);
        }
        assert_eq!((state("a"), state("d")), before, "{options:?}");
    }
    let output = succeeds(dir.path(), &["-a", "--dry-run", "--json", "a", "new"]);
    assert!(!dir.path().join("new").exists());
    let mut told: Vec<(String, String)> = stdout(&output)
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(record["dry_run"], true);
            let text = |name: &str| record[name].as_str().unwrap().to_owned();
            (text("target"), text("action"))
        })
        .collect();
    told.sort();
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["new", "new/b", "new/b/g", "new/b/h", "new/f", "new/l"]);
    let linked = told.iter().filter(|(_, action)| action == "hard-linked").count();
    assert_eq!(linked, 1);
    succeeds(dir.path(), &["--dry-run", "a/f", "alone"]);
    succeeds(dir.path(), &["--dry-run", "--parents", "a/b/g", "d"]);
    assert_eq!((state("a"), state("d")), before);
    assert!(!dir.path().join("alone").exists());
}

#[test]
fn a_dry_run_promises_nothing_that_the_copy_refuses() {
    let cases: [(&[&str], &str); 13] = [
        (&["-r", "a", "missing/d"], "missing/d: cannot make directory: No such file"),
        (&["a/f", "missing/d"], "missing/d: cannot create: No such file"),
        (&["a/f", "missing/"], "missing/: cannot create: Not a directory"),
        (&["a/f", "dangling"], "dangling: not written through a dangling symbolic link"),
        (&["-s", "/etc/hostname", "missing/d"], "missing/d: cannot create"),
        (&["-l", "a/f", "old"], "old: cannot create"),
        (&["-l", "--atomic", "a/f", "old"], "old: cannot create"),
        (&["-b", "old~", "old"], "backing up 'old' might destroy source; 'old~' not copied"),
        (&["-b", "--atomic", "old~", "old"], "backing up 'old' might destroy source"),
        (&["-r", "a", "old/d"], "Not a directory"),
        (&["--parents", "a/b/g", "p"], "p/a: exists but is not a directory"),
        (&["-r", "--parents", "a/b", "p"], "p/a: exists but is not a directory"),
        (&["--parents", "a/nothing", "t"], "a/nothing: cannot stat"),
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
        &["-r", "a", "new"],
        &["-r", "a", "new/"],
        &["-r", "a/b/..", "t"],
    ] {
        succeeds(dir.path(), &[&["--dry-run"], words].concat());
        assert_eq!(below(dir.path()), before, "{words:?}");
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
fn a_dry_run_tells_what_its_user_may_not_do() {
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
            command.env("GUSH_NO_PROFILE", "1").stdin(Stdio::null());
            let output = command.output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(status),
                "{dry:?} {words:?}: {}",
                stderr(&output)
            );
            let mut told: Vec<_> = stderr(&output).lines().map(str::to_owned).collect();
            told.sort();
            if !is_word_for_word {
                // `gush: cp: PATH: WHAT: REASON (HINT)`
                for line in &mut told {
                    let parts: Vec<_> = line.split(" (").next().unwrap().split(": ").collect();
                    *line = format!("{}: {}", parts[2], parts.last().unwrap());
                }
            }
            told
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
            command.env("LC_ALL", "C.UTF-8").env("GUSH_NO_PROFILE", "1").stdin(Stdio::null());
            command.current_dir(dir.path()).uid(user).gid(user).output().unwrap()
        };
        let before = state();
        let rehearsed = run(" --dry-run");
        assert_eq!(state(), before, "{make}; {words}");
        let copied = run("");
        let told = format!("{make}; {words}: {}{}", stdout(&rehearsed), stderr(&rehearsed));
        assert_eq!(copied.status.code(), Some(status), "{told}{}", stderr(&copied));
        assert_eq!(rehearsed.status.code(), Some(status), "{told}{}", stderr(&copied));
        match status == 1 {
            true => assert_eq!(stderr(&rehearsed), stderr(&copied), "{make}; {words}"),
            false => assert!(stdout(&rehearsed).contains("would "), "{told}"),
        }
        let doubts = stderr(&rehearsed).contains("d/gone: cannot be listed");
        assert_eq!(doubts, make.contains("gone") && status == 0, "{told}");
    }
}

#[test]
fn only_what_changed_is_copied() {
    let dir = tree(&["a/same", "a/bytes", "a/time", "a/size"]);
    let at = |name: &str| dir.path().join(name);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    succeeds(dir.path(), &["-a", "a", "d"]);
    fs::write(at("d/bytes"), "A/BYTES").unwrap();
    fs::write(at("d/size"), "longer").unwrap();
    fs::write(at("d/size"), "much longer").unwrap();
    for name in ["same", "bytes", "size"] {
        for root in ["a", "d"] {
            fs::File::options()
                .write(true)
                .open(at(root).join(name))
                .unwrap()
                .set_modified(then)
                .unwrap();
        }
    }
    fs::File::options().write(true).open(at("d/time")).unwrap().set_modified(then).unwrap();
    let copied = |options: &[&str]| {
        let output = succeeds(dir.path(), &[&["-rvT", "--dry-run"], options, &["a", "d"]].concat());
        let told = stdout(&output);
        let mut said: Vec<_> =
            told.lines().map(|line| line.replacen("would copy ", "", 1)).collect();
        said.sort();
        said
    };
    assert_eq!(copied(&["--update=changed"]), ["'a/size' -> 'd/size'", "'a/time' -> 'd/time'"]);
    assert_eq!(copied(&["--checksum"]), ["'a/bytes' -> 'd/bytes'", "'a/size' -> 'd/size'"]);
    succeeds(dir.path(), &["-rT", "--checksum", "a", "d"]);
    assert_eq!(fs::read_to_string(at("d/bytes")).unwrap(), "a/bytes");
    assert!(copied(&["--checksum"]).is_empty());
    let said = fails(dir.path(), &["-r", "--checksum", "-u", "a", "d"]);
    assert!(said.contains("--checksum decides"), "{said}");
}

#[test]
fn failures_are_listed_at_the_end_and_the_first_one_may_end_all() {
    let files = ["a/b", "a/c", "z", "d/a/b/in the way", "d/a/c/in the way"];
    let dir = tree(&files);
    let output = cp(dir.path(), &["-r", "--on-error=continue", "a", "z", "d"]);
    let said = stderr(&output);
    let mut failed: Vec<_> = said.lines().collect();
    assert_eq!(failed[2], "gush: cp: 2 failures in all:", "{said}");
    failed.sort_unstable();
    assert_eq!(failed.len(), 5);
    assert!(failed[1].contains("cannot overwrite directory") && failed[1] == failed[2], "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("d/z")).unwrap(), "z");
    fs::remove_file(dir.path().join("d/z")).unwrap();
    let output = cp(dir.path(), &["-r", "--on-error=stop", "a", "z", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("1 failure in all:"), "{said}");
    assert!(!dir.path().join("d/z").exists());
}

#[test]
fn a_copy_that_stops_gives_its_directories_their_attributes() {
    let dir = tree(&["a/b/1/f", "a/b/2/f", "a/b/3/f", "a/b/4/f"]);
    // A file cannot take the place of a directory, whichever subdirectory comes first.
    for number in 1..=4 {
        fs::create_dir_all(dir.path().join(format!("d/b/{number}/f"))).unwrap();
    }
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["a/b", "a"] {
        fs::File::open(dir.path().join(name)).unwrap().set_modified(then).unwrap();
    }
    let said = fails(dir.path(), &["-aT", "--threads=1", "--on-error=stop", "a", "d"]);
    assert!(said.contains("1 failure in all:"), "{said}");
    for name in ["d/b", "d"] {
        let about = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(about.modified().unwrap(), then, "{name}");
    }
}

#[test]
fn a_copy_that_stops_in_a_file_gives_its_new_directories_their_modes() {
    // Directories without a right that the copy needs, and with one that a directory under way withholds. In whichever comes first, the file
    // grows beyond the limit: also root's write fails then.
    let make = "umask 0; mkdir -p a/1/x a/2/x a/3/x; for n in 1 2 3; do head -c 64K /dev/zero >a/$n/x/f; done; \
                chmod 577 a/?/x; chmod 557 a/?; chmod 575 a";
    for options in ["-r", "-a", "-r --atomic", "-r --threads=1", "-r --no-preserve=mode"] {
        let dir = tempfile::tempdir().unwrap();
        let copy = format!("trap '' XFSZ; ulimit -f 8; \"$G\" cp {options} --on-error=stop a d");
        // At last so that an ordinary user can remove them.
        let modes = "find d -type d -printf '%m %p\\n'; chmod -R u+w .";
        let output = script(dir.path(), &format!("{make}; {copy}; echo $?; {modes}"));
        let (told, said) = (stdout(&output), stderr(&output));
        assert!(said.contains("File too large") && told.starts_with("1\n"), "{options}: {said}");
        let mut made = 0;
        for line in told.lines().skip(1) {
            let expected = match line.split('/').count() {
                _ if options.contains("no-preserve") => "777",
                1 => "575",
                2 => "557",
                _ => "577",
            };
            assert!(line.starts_with(expected), "{options}: {line}\n{said}");
            made += 1;
        }
        assert!(made >= 3, "{options}: {told}{said}");
    }
}

#[test]
fn a_manifest_comes_when_all_else_is_there() {
    let dir = tree(&["a/MANIFEST", "a/b/f", "a/c/d/g", "a/z", "a/b/MANIFEST"]);
    for threads in ["--threads=1", "--threads=4"] {
        let options = ["-rT", threads, "--commit-last=/MANIFEST", "--json", "a", "d"];
        let output = succeeds(dir.path(), &options);
        let told: Vec<serde_json::Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let place = |name: &str| told.iter().position(|record| record["source"] == name).unwrap();
        for name in ["a/b/f", "a/b", "a/c/d/g", "a/c/d", "a/c", "a/z", "a/b/MANIFEST"] {
            assert!(place(name) < place("a/MANIFEST"), "{threads} {name}");
        }
        assert_eq!(below(&dir.path().join("a")), below(&dir.path().join("d")));
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    let why = "not copied: it comes last, and not everything else was copied";
    assert!(said.contains(&format!("a/MANIFEST: {why}\n")), "{said}");
    assert_eq!(
        below(&dir.path().join("d")),
        ["b", "b/f", "c", "c/d", "c/d/g", "z", "z/in the way"]
    );
    // An older one vouches for files that may be replaced by now.
    fs::write(dir.path().join("d/MANIFEST"), "old").unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=MANIFEST", "a", "d"]);
    assert!(
        said.contains(&format!("a/MANIFEST: {why} ('d/MANIFEST' is an older one)\n")),
        "{said}"
    );
    assert!(said.contains(&format!("a/b/MANIFEST: {why}\n")), "{said}");
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

#[test]
fn what_is_in_a_directory_that_comes_last_comes_last() {
    let dir = tree(&["a/b/f", "a/meta/f", "a/meta/x/g", "a/z"]);
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    let said = fails(dir.path(), &["-rT", "--commit-last=meta/", "a", "d"]);
    for name in ["a/meta/f", "a/meta/x/g"] {
        assert!(said.contains(&format!("{name}: not copied: it comes last")), "{said}");
    }
    assert_eq!(below(&dir.path().join("d")), ["b", "b/f", "meta", "meta/x", "z", "z/in the way"]);
    // A file of that name is no directory.
    let dir = tree(&["a/meta", "a/z"]);
    fs::create_dir_all(dir.path().join("d/z/in the way")).unwrap();
    fails(dir.path(), &["-rT", "--commit-last=meta/", "a", "d"]);
    assert_eq!(below(&dir.path().join("d")), ["meta", "z", "z/in the way"]);
}

#[test]
fn every_directory_that_waits_is_on_stable_storage_before_the_first_manifest() {
    let dir = tree(&["a/b/MANIFEST", "a/c/MANIFEST", "a/d/e/MANIFEST"]);
    for name in ["b", "c", "d/e"] {
        fs::create_dir(dir.path().join("a").join(name).join("empty")).unwrap();
    }
    let mut traced = match strace(&["-y", "-o", "calls", "-e", "trace=openat,linkat,fsync"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let options = ["cp", "-r", "--threads=1", "--commit-last=MANIFEST", "a", "t"];
    let output = traced.args(options).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let is_made = |call: &str| call.contains("\"MANIFEST\"") && call.contains("linkat(");
    let before: Vec<_> = calls.lines().take_while(|call| !is_made(call)).collect();
    assert!(before.len() < calls.lines().count(), "{calls}");
    for name in ["t", "t/b", "t/c", "t/d", "t/d/e"] {
        let is_synced =
            |call: &&str| call.contains("fsync(") && call.contains(&format!("/{name}>"));
        assert!(before.iter().any(is_synced), "{name}: {calls}");
    }
}

#[test]
fn all_else_is_on_stable_storage_before_the_manifest_is_made() {
    let dir = tree(&["a/MANIFEST", "a/b/f", "a/c/g", "a/z"]);
    let mut traced = match strace(&["-o", "calls", "-e", "trace=openat,linkat,fsync"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let options = ["cp", "-r", "--threads=1", "--commit-last=MANIFEST", "a", "d"];
    let output = traced.args(options).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let is_made = |call: &str| call.contains("\"MANIFEST\"") && call.contains("linkat(");
    let before: Vec<_> = calls.lines().take_while(|call| !is_made(call)).collect();
    assert!(before.len() < calls.lines().count(), "{calls}");
    let synced = before.iter().filter(|call| call.contains("fsync(")).count();
    // Three files and their directories, the two directories that are complete, and the root.
    const FEWEST: usize = 3 + 3 + 2 + 1;
    assert!(synced >= FEWEST, "{calls}");
    assert!(before.iter().filter(|call| call.contains("O_CREAT")).count() >= 3, "{calls}");
}
