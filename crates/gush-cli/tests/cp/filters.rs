//! `gush cp -r` with a part of a tree: `--exclude`, `--include`, `--filter-from`, `--gitignore`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::cp::{below, fails, stderr, succeeds, tree};
use crate::common::gush;

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
    for option in ["--exclude=[", "--include=a[b", "--commit-last=[", "--exclude=[!]"] {
        let (name, pattern) = option.split_once('=').unwrap();
        let said = fails(dir.path(), &["-r", option, "a", "f"]);
        let reported = format!("gush: cp: invalid {name} '{pattern}': unclosed bracket");
        assert!(said.starts_with(&reported), "{said}");
    }
    fs::write(dir.path().join("rules"), "x\n+ [\n").unwrap();
    let said = fails(dir.path(), &["-r", "--filter-from=rules", "a", "f"]);
    let reported = "gush: cp: invalid pattern of --filter-from rules: '[': unclosed bracket";
    assert!(said.starts_with(reported), "{said}");
    let said = fails(dir.path(), &["--exclude=x", "a/main.c", "f"]);
    assert!(said.contains("require -r"), "{said}");
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

const RULES: [&str; 68] = [
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
    "**//",
    "/**//",
    "***/b",
    "a/***",
    "[[:foo:]]",
    "[^b[:foo:]]",
    "*[/]*",
    "**[/]**",
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
    for seed in 1..=60_u64 {
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

/// `x[!a]y` is about names such as `xby`, and not about `y` in a directory `x`, which would be
/// missing in the copy.
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
            let reported = format!("gush: cp: invalid {option} '{pattern}': matches no name\n");
            assert!(said.starts_with(&reported), "{said}");
        }
    }
    assert!(!dir.path().join("d").exists());
}
