//! `gush cp` and GNU cp side by side: the same command in two equal directories must leave the same
//! files, print the same lines and end with the same status.

mod cases;
#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cases::{Case, DATA, LINKING, METADATA, PLAIN, REPLACING};
use common::{gnu, gush, skipped};

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

fn compare_all(cases: &[Case]) {
    let cp = match gnu("cp") {
        Ok(cp) => cp,
        Err(why) => return skipped(&why),
    };
    let mut wrong = Vec::new();
    for case in cases {
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

/// The first program that a script needs and this machine lacks.
fn missing_tool(script: &str) -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    ["setfattr", "setfacl", "chown"].into_iter().find(|tool| {
        script.contains(tool) && (!is_root || Command::new(tool).arg("--version").output().is_err())
    })
}

fn compare(cp: &Path, (_, script, arguments): &Case) -> Result<(), String> {
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
    expect("stdout", &text(&theirs.stdout), &text(&ours.stdout));
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

/// Every file below `root` and all that must be equal about it.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
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
            } else if kind.is_char_device() {
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
                    attributes(&path),
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
