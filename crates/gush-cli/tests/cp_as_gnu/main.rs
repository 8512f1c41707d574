//! `gush cp` and GNU cp side by side: the same command in two equal directories must leave the same
//! files, print the same lines and end with the same status.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod crossed;
mod messages;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cases::{Case, DATA, LINKING, METADATA, PLAIN, REPLACING, TREES, VARYING};
use common::as_gnu::agree;
use common::{gnu, gush, nobody, not_applicable, skipped};
use crossed::{DIFFERENCES, OPTIONS, SENTENCES, SITUATIONS, Situation};

#[test]
fn naming_is_gnus() {
    compare_all(PLAIN);
}

#[test]
fn replacing_is_gnus() {
    compare_all(REPLACING);
}

#[test]
fn links_and_special_files_are_gnus() {
    compare_all(LINKING);
}

#[test]
fn metadata_is_gnus() {
    compare_all(METADATA);
}

#[test]
fn data_and_holes_are_gnus() {
    compare_all(DATA);
}

#[test]
fn trees_are_gnus() {
    compare_all(TREES);
}

#[test]
fn every_situation_with_every_set_of_options_is_gnus() {
    let cases = cross(SITUATIONS, OPTIONS, None, &[]);
    assert!(cases.is_none_or(|cases| cases > 2000), "{cases:?}");
}

#[test]
fn every_tree_with_every_set_of_options_is_gnus() {
    let cases = cross(crossed::TREES, OPTIONS, None, &[]);
    assert!(cases.is_none_or(|cases| cases > 600), "{cases:?}");
}

#[test]
fn what_nobody_may_not_is_gnus() {
    match nobody() {
        Ok(user) => drop(cross(crossed::AS_NOBODY, OPTIONS, Some(user), &[])),
        Err(why) => skipped(&why),
    }
}

#[test]
fn writing_through_dangling_links_where_posix_is_asked_for_is_gnus() {
    let dangling = |(title, ..): &&Situation| title.contains("dangling");
    let situations: Vec<_> = SITUATIONS.iter().filter(dangling).copied().collect();
    cross(&situations, OPTIONS, None, &[("POSIXLY_CORRECT", "1")]);
}

#[test]
fn holes_and_clones_of_every_layout_are_gnus() {
    cross(crossed::LAYOUTS, crossed::HOLES, None, &[]);
}

/// The part of the cases of a day: one of so many neighbours, and each situation and each set of
/// options.
const NEIGHBOURS: usize = 12;

/// Runs every set of options in every situation, as `user` if that is not this process's; returns
/// how many cases there are. Every day a sample of them is run.
fn cross(
    situations: &[Situation],
    options: &[&[&str]],
    user: Option<u32>,
    environment: &[(&str, &str)],
) -> Option<usize> {
    let cp = match gnu("cp") {
        Ok(cp) => cp,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    if let Some(other) = other_version(&cp) {
        not_applicable(&format!("the sentences and differences are GNU cp 9.1's, this is {other}"));
        return None;
    }
    let programs = tempfile::tempdir().unwrap();
    let copied = common::copied_gush(programs.path());
    let run = |mut command: Command, template: &Path, words: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let copied = Command::new(&cp).arg("-aT").args([template, dir.path()]).status();
        assert!(copied.unwrap().success());
        command.args(words).current_dir(dir.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C.UTF-8").envs(environment.to_vec());
        for name in ["VERSION_CONTROL", "SIMPLE_BACKUP_SUFFIX"] {
            command.env_remove(name);
        }
        if environment.is_empty() {
            command.env_remove("POSIXLY_CORRECT");
        }
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        (command.output().unwrap(), tree_of(dir.path(), false))
    };
    let is_known = |title: &str, set: &[&str]| {
        let is_row = |(option, situation, _): &(&str, &str, &str)| {
            *set == [*option] && title.contains(situation)
        };
        DIFFERENCES.iter().any(is_row)
    };
    let cases: Vec<(&str, &[&str])> = situations
        .iter()
        .flat_map(|(title, ..)| options.iter().map(move |set| (*title, *set)))
        .filter(|(title, set)| !is_known(title, set))
        .collect();
    let number = cases.len();
    let numbered: Vec<_> = cases.into_iter().enumerate().collect();
    let cases = gush_test::sampled(numbered, "cases", |(at, (title, set))| {
        vec![(*title).to_owned(), set.join(" "), (at / NEIGHBOURS).to_string()]
    });
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (title, script, operands) in situations {
        let template = tempfile::tempdir().unwrap();
        if script.contains("mknod")
            && gush_test::device("null", tempfile::tempdir().unwrap().path()).is_symlink()
        {
            skipped(&format!("{title}: no permission to make a device"));
            continue;
        }
        let script = format!(
            "set -e; umask 022; chmod 755 .; {script}
             find . -newermt 2010-01-01 -exec touch -h -d 2010-01-01 {{}} +"
        );
        let made = Command::new("bash").args(["-c", &script]).current_dir(template.path()).status();
        assert!(made.unwrap().success(), "{title}");
        let is_tree = operands.contains(&"-R");
        let sets = cases.iter().filter(|(_, (of, _))| of == title).map(|(_, (_, set))| set);
        for set in sets {
            let words = [*set, &["-v"], operands].concat();
            compared += 1;
            let (theirs, their_tree) = run(Command::new(&cp), template.path(), &words);
            let mut command = Command::new(&copied);
            command.arg("cp");
            let (ours, our_tree) = run(command, template.path(), &words);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (their_words, our_words) = (
                text(&theirs.stderr).replace(cp.to_str().unwrap(), "cp"),
                text(&ours.stderr).replace("gush: cp:", "cp:").replace("gush cp", "cp"),
            );
            // Who declines ends with 1 since GNU cp 9.2.
            let declined = their_words.ends_with("? ");
            let same = (declined || theirs.status.code() == ours.status.code())
                && lines(&theirs.stdout, is_tree) == lines(&ours.stdout, is_tree)
                && their_tree == our_tree;
            let agreed = match is_tree {
                true => agree_in_any_order(&their_words, &our_words),
                false => agree(SENTENCES, &their_words, &our_words),
            };
            if !same || agreed.is_err() {
                wrong.push(format!(
                    "{title}: cp {}\n  GNU  {theirs:?}\n       {their_tree:?}\n  gush {ours:?}\n       {our_tree:?}\n  {agreed:?}",
                    words.join(" ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n\n{}", wrong.len(), wrong.join("\n"));
    Some(number)
}

/// Each sentence of GNU's has one of gush's: the entries of a directory come in the order in which
/// the file system has them, which is another one in each copy of the tree.
fn agree_in_any_order(theirs: &str, ours: &str) -> Result<(), String> {
    let mut left: Vec<&str> = ours.lines().collect();
    for line in theirs.lines() {
        let found = left.iter().position(|ours| agree(SENTENCES, line, ours).is_ok());
        left.swap_remove(found.ok_or_else(|| format!("'{line}' and none of {left:?}"))?);
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{left:?} too")) }
}

fn compare_all(cases: &[Case]) {
    let cp = match gnu("cp") {
        Ok(cp) => cp,
        Err(why) => return skipped(&why),
    };
    let other = other_version(&cp);
    let mut wrong = Vec::new();
    for case in cases {
        if let (Some(other), Some((_, why))) = (&other, VARYING.iter().find(|row| row.0 == case.0))
        {
            not_applicable(&format!("{}: {why}, and this is {other}", case.0));
            continue;
        }
        if let Some(tool) = missing_tool(case.1) {
            skipped(&format!("{}: no {tool}, or no permission", case.0));
            continue;
        }
        if let Err(difference) = compare(&cp, case) {
            wrong.push(format!("{}: cp {}\n{difference}", case.0, case.2.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The version of a GNU cp that is not 9.1.
fn other_version(cp: &Path) -> Option<String> {
    let said = Command::new(cp).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let version = said.lines().next()?.rsplit(' ').next()?;
    (version != "9.1").then(|| version.to_owned())
}

/// The first program that a script needs and this machine lacks.
fn missing_tool(script: &str) -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    ["setfattr", "setfacl", "chown", "mknod", "setcap", "python3"].into_iter().find(|tool| {
        script.contains(tool) && (!is_root || Command::new(tool).arg("--version").output().is_err())
    })
}

fn compare(cp: &Path, (title, script, arguments): &Case) -> Result<(), String> {
    let (theirs, their_tree) = run(Command::new(cp), script, arguments);
    let mut command = gush();
    command.arg("cp");
    let (ours, our_tree) = run(command, script, arguments);
    let mut difference = String::new();
    let mut expect = |what: &str, theirs: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
        let (theirs, ours) = (format!("{theirs:?}"), format!("{ours:?}"));
        if theirs != ours {
            difference += &format!("  {what}:\n    GNU  {theirs}\n    gush {ours}\n");
        }
    };
    expect("status", &theirs.status.code(), &ours.status.code());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_tree = TREES.iter().any(|(tree, ..)| title == tree);
    expect("stdout", &lines(&theirs.stdout, is_tree), &lines(&ours.stdout, is_tree));
    expect("stderr is empty", &theirs.stderr.is_empty(), &ours.stderr.is_empty());
    let names: std::collections::BTreeSet<_> = their_tree.keys().chain(our_tree.keys()).collect();
    for name in names {
        expect(&name.display().to_string(), &their_tree.get(name), &our_tree.get(name));
    }
    if difference.is_empty() {
        return Ok(());
    }
    difference +=
        &format!("  GNU said  {}  gush said {}", text(&theirs.stderr), text(&ours.stderr));
    Err(difference)
}

/// The lines of a tree come in any order.
fn lines(output: &[u8], is_tree: bool) -> Vec<String> {
    let mut lines: Vec<_> =
        String::from_utf8_lossy(output).split_inclusive('\n').map(str::to_owned).collect();
    if is_tree {
        lines.sort();
    }
    lines
}

fn run(
    mut command: Command,
    script: &str,
    arguments: &[&str],
) -> (Output, BTreeMap<PathBuf, String>) {
    let dir = tempfile::tempdir().unwrap();
    // Both must start from the very same times, and the umask must be the script's last one.
    let script = format!(
        "set -e\numask 022\n{script}\nfind . -newermt 2010-01-01 -exec touch -h -d 2010-01-01 {{}} +\nexec \"$@\""
    );
    let program = command.get_program().to_owned();
    let first: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, "bash"]).arg(program).args(first).args(arguments);
    shell.current_dir(dir.path()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    for name in ["VERSION_CONTROL", "SIMPLE_BACKUP_SUFFIX", "POSIXLY_CORRECT"] {
        shell.env_remove(name);
    }
    command = shell;
    let output = command.output().unwrap();
    (output, tree(dir.path()))
}

/// Every file below `root` and all properties of the file that must be equal.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    tree_of(root, true)
}

/// As [`tree`], without looking for attributes where nothing made any.
fn tree_of(root: &Path, with_attributes: bool) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut by_inode = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        let mut entries: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            let about = std::fs::symlink_metadata(&path).unwrap();
            let first = by_inode.entry(about.ino()).or_insert_with(|| name.clone()).clone();
            let kind = about.file_type();
            let content = if kind.is_file() {
                format!(
                    "{} bytes, blake3 {}",
                    about.len(),
                    blake3::hash(&std::fs::read(&path).unwrap())
                )
            } else if kind.is_symlink() {
                format!("-> {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_char_device() || kind.is_block_device() {
                format!("device {}", about.rdev())
            } else {
                String::new()
            };
            // What was written just now has a time of now, which only -p keeps from differing.
            let old = about.mtime() < 1_500_000_000;
            let time = old.then(|| (about.mtime(), about.mtime_nsec()));
            let holes = kind.is_file() && about.len() > 65536 && about.blocks() * 512 < about.len();
            found.insert(
                name,
                format!(
                    "{:o} {}:{} links {} as {} mtime {time:?} holes {holes} {content} {}",
                    about.mode(),
                    about.uid(),
                    about.gid(),
                    about.nlink(),
                    first.display(),
                    if with_attributes { attributes(&path) } else { String::new() },
                ),
            );
            if kind.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

fn attributes(path: &Path) -> String {
    let dump = Command::new("getfattr")
        .args(["-h", "-d", "-m", "-", "-e", "hex", "--absolute-names"])
        .arg(path)
        .output();
    let text = dump.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().filter(|line| !line.starts_with('#')).collect()
}
