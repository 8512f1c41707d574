//! `gush cp` and GNU cp side by side: the same command in two equal directories must leave the same
//! files, print the same lines and end with the same status.

mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{gnu, gush, skipped};

/// A title, a shell script that makes the files, and the arguments of cp.
type Case = (&'static str, &'static str, &'static [&'static str]);

const PLAIN: &[Case] = &[
    ("file to new name", "echo a >a", &["a", "b"]),
    ("file onto file", "echo a >a; echo long >b; chmod 751 b", &["a", "b"]),
    ("file into directory", "echo a >a; mkdir d", &["-v", "a", "d"]),
    ("files into directory", "echo a >a; echo b >b; mkdir d", &["-v", "a", "b", "d"]),
    ("-t", "echo a >a; echo b >b; mkdir d", &["-v", "-t", "d", "a", "b"]),
    ("-t missing", "echo a >a", &["-t", "d", "a"]),
    ("-T onto a directory", "echo a >a; mkdir d", &["-T", "a", "d"]),
    ("-T", "echo a >a; echo b >b", &["-T", "a", "b"]),
    ("a directory is in the way", "echo a >a; mkdir -p d/a", &["a", "d"]),
    ("several onto a file", "touch a b c", &["a", "b", "c"]),
    ("several onto nothing", "touch a b", &["a", "b", "c"]),
    ("missing source goes on", "echo b >b; mkdir d", &["a", "b", "d"]),
    ("no operand", "", &[]),
    ("one operand", "touch a", &["a"]),
    ("target with a slash", "echo a >a", &["a", "b/"]),
    ("target in no directory", "echo a >a", &["a", "d/b"]),
    ("target behind a file", "touch a b", &["a", "b/c"]),
    ("source with a slash", "echo a >a", &["a/", "b"]),
    ("strip slashes", "echo a >a; mkdir d", &["-v", "--strip-trailing-slashes", "a//", "d"]),
    ("parents", "mkdir -p x/y d; chmod 750 x; echo a >x/y/a", &["-v", "--parents", "x/y/a", "d"]),
    (
        "parents -p",
        "mkdir -p x/y d; chmod 510 x/y; echo a >x/y/a; touch -d 2001-01-01 x x/y x/y/a",
        &["-p", "--parents", "x/y/a", "d"],
    ),
    ("parents again", "mkdir -p x/y d/x/y; echo a >x/y/a", &["-v", "--parents", "x/y/a", "d"]),
    (
        "parents half there",
        "mkdir -p x/y d/x; chmod 700 x; echo a >x/y/a",
        &["-p", "--parents", "x/y/a", "d"],
    ),
    ("parents with dots", "mkdir -p x/y d; echo a >x/a", &["-v", "--parents", "./x/y/../a", "d"]),
    ("parents behind a file", "mkdir -p x d; touch d/x x/a", &["--parents", "x/a", "d"]),
    ("parents need a directory", "touch a", &["--parents", "a", "b"]),
    ("directory source", "mkdir d; touch a; mkdir e", &["-v", "d", "a", "e"]),
    ("directory over file", "mkdir d; touch a", &["d", "a"]),
    (
        "names of every sort",
        r#"mkdir d; touch "it's" 'a b' "$(printf 'n\nl')" "$(printf '\377\376')" é "$(printf "q\001'")""#,
        &["-v", "it's", "a b", "n\nl", "é", "q\u{1}'", "d"],
    ),
    ("empty name", "touch a", &["", "b"]),
    ("dash dash", "echo a >-a", &["--", "-a", "b"]),
    ("short options together", "echo a >a; touch -d 2001-01-01 a", &["-vpf", "a", "b"]),
    ("long options shortened", "echo a >a", &["--verb", "a", "b"]),
    ("unknown option", "touch a", &["--nonsense", "a", "b"]),
    ("-t and -T", "touch a; mkdir d", &["-T", "-t", "d", "a"]),
    ("-T with three", "touch a b c", &["-T", "a", "b", "c"]),
    ("two -t", "touch a; mkdir d e", &["-t", "d", "-t", "e", "a"]),
    ("copy of an empty file", ": >a; echo b >b", &["a", "b"]),
    (
        "attributes only to new",
        "echo a >a; chmod 640 a; touch -d 2001-01-01 a",
        &["--attributes-only", "-p", "a", "b"],
    ),
    (
        "attributes only onto old",
        "echo a >a; chmod 640 a; echo b >b",
        &["--attributes-only", "--preserve=mode", "a", "b"],
    ),
    ("proc file", "", &["/proc/sys/kernel/ostype", "b"]),
    ("proc file without seeking", "", &["/proc/version", "b"]),
    ("sysfs file", "", &["/sys/kernel/mm/transparent_hugepage/enabled", "b"]),
    ("to /dev/null", "echo a >a", &["a", "/dev/null"]),
    ("to /dev/full", "echo a >a", &["a", "/dev/full"]),
    ("from /dev/null", "", &["/dev/null", "b"]),
];

const REPLACING: &[Case] = &[
    ("same file", "echo a >a", &["a", "a"]),
    ("same file by another spelling", "echo a >a", &["a", "./a"]),
    ("same file in its directory", "echo a >a", &["a", "."]),
    ("same file by hard link", "echo a >a; ln a b", &["a", "b"]),
    ("same file by symbolic link", "echo a >a; ln -s a b", &["a", "b"]),
    ("same file from symbolic link", "echo a >a; ln -s a b", &["b", "a"]),
    ("same file, two links", "echo a >a; ln -s a b; ln -s a c", &["b", "c"]),
    ("same file, -f", "echo a >a; ln a b", &["-f", "a", "b"]),
    ("same file, remove hard link", "echo a >a; ln a b", &["--remove-destination", "-v", "a", "b"]),
    (
        "same file, remove symbolic link",
        "echo a >a; ln -s a b",
        &["--remove-destination", "a", "b"],
    ),
    ("same file, remove itself", "echo a >a", &["--remove-destination", "a", "a"]),
    ("same file, -b", "echo a >a", &["-b", "a", "a"]),
    ("same file, -bf", "echo a >a", &["-bf", "-v", "a", "a"]),
    ("same file, -b by hard link", "echo a >a; ln a b", &["-b", "a", "b"]),
    ("same file, -b by symbolic link", "echo a >a; ln -s a b", &["-b", "a", "b"]),
    ("same file, -b from symbolic link", "echo a >a; ln -s a b", &["-b", "b", "a"]),
    ("same file, -l", "echo a >a; ln a b", &["-l", "a", "b"]),
    ("same file, -P links", "echo a >a; ln -s a b; ln b c", &["-P", "b", "c"]),
    ("same file, -P itself", "echo a >a; ln -s a b", &["-P", "b", "b"]),
    ("same file, -P onto the end", "echo a >a; ln -s a b", &["-P", "b", "a"]),
    ("same file, -d onto the link", "echo a >a; ln -s a b", &["-d", "a", "b"]),
    ("same file, -s", "echo a >a", &["-s", "a", "a"]),
    ("-n", "echo a >a; echo b >b", &["-n", "-v", "a", "b"]),
    ("-n to new", "echo a >a", &["-nv", "a", "b"]),
    ("-i no", "echo a >a; echo b >b", &["-i", "-n", "a", "b"]),
    ("-n then -i, no answer, new", "echo a >a", &["-n", "-i", "a", "b"]),
    ("-u newer", "echo a >a; echo b >b; touch -d 2001-01-01 a", &["-u", "-v", "a", "b"]),
    ("-u older", "echo a >a; echo b >b; touch -d 2001-01-01 b", &["-u", "-v", "a", "b"]),
    ("-u same time", "echo a >a; echo b >b; touch -d 2001-01-01 a b", &["-u", "a", "b"]),
    ("-u missing", "echo a >a", &["-uv", "a", "b"]),
    ("-f on read-only", "echo a >a; echo b >b; chmod 0 b", &["-fv", "a", "b"]),
    ("remove first", "echo a >a; echo b >b; ln b c", &["--remove-destination", "-v", "a", "b"]),
    ("-b", "echo a >a; echo b >b", &["-b", "-v", "a", "b"]),
    ("-b twice", "echo a >a; echo b >b; echo c >b~", &["-bv", "a", "b"]),
    ("-b existing is numbered", "echo a >a; echo b >b; echo c >b.~7~", &["-bv", "a", "b"]),
    ("numbered", "echo a >a; echo b >b", &["--backup=numbered", "-v", "a", "b"]),
    (
        "numbered t",
        "echo a >a; echo b >b; touch b.~1~ b.~9~ b.~10~",
        &["--backup=t", "-v", "a", "b"],
    ),
    ("simple", "echo a >a; echo b >b; touch b.~1~", &["--backup=simple", "-v", "a", "b"]),
    ("none", "echo a >a; echo b >b", &["--backup=none", "-v", "a", "b"]),
    ("backup abbreviated", "echo a >a; echo b >b", &["--backup=nu", "-v", "a", "b"]),
    ("backup ambiguous", "echo a >a; echo b >b", &["--backup=n", "a", "b"]),
    ("backup invalid", "echo a >a; echo b >b", &["--backup=x", "a", "b"]),
    ("suffix", "echo a >a; echo b >b", &["-S", ".old", "-v", "a", "b"]),
    ("suffix with a slash", "echo a >a; echo b >b", &["-S", "/x", "-v", "a", "b"]),
    ("backup in a directory", "echo a >a; mkdir d; echo b >d/a", &["-bv", "a", "d"]),
    ("backup of a link", "echo a >a; echo b >b; ln -s b c", &["-bv", "a", "c"]),
    ("backup would destroy the source", "echo a >a; echo b >a~", &["--backup=simple", "a~", "a"]),
    ("backup and -n", "touch a b", &["-b", "-n", "a", "b"]),
    ("backup undone", "echo b >b; mkfifo p; chmod 600 b", &["-b", "-v", "/proc/self/mem", "b"]),
    ("dangling target", "echo a >a; ln -s nowhere b", &["a", "b"]),
    ("dangling target -f", "echo a >a; ln -s nowhere b", &["-f", "a", "b"]),
    ("dangling target removed", "echo a >a; ln -s nowhere b", &["--remove-destination", "a", "b"]),
    ("dangling in a directory", "echo a >a; mkdir d; ln -s nowhere d/a", &["a", "d"]),
    ("loop as target", "echo a >a; ln -s b b", &["a", "b"]),
    ("loop as target -f", "echo a >a; ln -s b b", &["-f", "-v", "a", "b"]),
    ("through a link", "echo a >a; echo b >b; ln -s b c", &["a", "c"]),
    ("two of one name", "mkdir x y d; echo a >x/f; echo b >y/f", &["-v", "x/f", "y/f", "d"]),
    (
        "two of one name, numbered",
        "mkdir x y d; echo a >x/f; echo b >y/f",
        &["--backup=numbered", "x/f", "y/f", "d"],
    ),
    ("one source twice", "echo a >a; mkdir d", &["-v", "a", "a", "d"]),
    (
        "link then file of one name",
        "mkdir x y d; ln -s /nowhere x/f; echo b >y/f",
        &["-P", "x/f", "y/f", "d"],
    ),
];

const LINKING: &[Case] = &[
    ("-l", "echo a >a", &["-l", "-v", "a", "b"]),
    ("-l onto existing", "echo a >a; echo b >b", &["-l", "a", "b"]),
    ("-lf onto existing", "echo a >a; echo b >b", &["-lf", "a", "b"]),
    ("-l --remove-destination", "echo a >a; echo b >b", &["-l", "--remove-destination", "a", "b"]),
    ("-l of a link", "echo a >a; ln -s a b", &["-l", "b", "c"]),
    ("-lP of a link", "echo a >a; ln -s a b", &["-lP", "b", "c"]),
    ("-s", "echo a >a", &["-s", "-v", "a", "b"]),
    ("-s into a directory", "echo a >a; mkdir d", &["-s", "a", "d"]),
    ("-s absolute", "mkdir d", &["-s", "/etc/passwd", "d"]),
    ("-s onto existing", "echo a >a; echo b >b", &["-s", "a", "b"]),
    ("-sf onto existing", "echo a >a; echo b >b", &["-sf", "a", "b"]),
    ("-s onto a link", "echo a >a; ln -s x b", &["-sf", "a", "b"]),
    ("-l and -s", "touch a", &["-l", "-s", "a", "b"]),
    ("-P of a link", "ln -s x a", &["-P", "-v", "a", "b"]),
    ("-P of a file", "echo a >a", &["-P", "a", "b"]),
    ("-P onto existing", "ln -s x a; echo b >b", &["-Pv", "a", "b"]),
    ("-P onto a link", "ln -s x a; ln -s y b", &["-P", "a", "b"]),
    ("-L of a link", "echo a >a; ln -s a b", &["-L", "b", "c"]),
    ("-H of a link", "echo a >a; ln -s a b", &["-H", "b", "c"]),
    ("-R of a link", "echo a >a; ln -s a b", &["-R", "b", "c"]),
    ("-RL of a link", "echo a >a; ln -s a b", &["-RL", "b", "c"]),
    ("last of -P -L", "echo a >a; ln -s a b", &["-P", "-L", "b", "c"]),
    ("-a of a link", "ln -s x a; touch -h -d 2001-01-01 a", &["-a", "a", "b"]),
    ("-L of a dangling link", "ln -s x a", &["-L", "a", "b"]),
    ("-d keeps hard links", "echo a >a; ln a b; mkdir d", &["-d", "-v", "a", "b", "d"]),
    ("links preserved", "echo a >a; ln a b; mkdir d", &["--preserve=links", "a", "b", "d"]),
    (
        "links not preserved",
        "echo a >a; ln a b; mkdir d",
        &["-a", "--no-preserve=links", "a", "b", "d"],
    ),
    (
        "-H links through a symbolic link",
        "echo a >a; ln -s a b; mkdir d",
        &["-H", "--preserve=links", "a", "b", "d"],
    ),
    (
        "preserving links unlinks",
        "echo a >a; mkdir d; echo x >d/a; ln d/a d/b",
        &["--preserve=links", "-v", "a", "d"],
    ),
    ("-R of a fifo", "mkfifo -m 640 p", &["-R", "-v", "p", "q"]),
    ("-a of a fifo", "mkfifo -m 640 p; touch -d 2001-01-01 p", &["-a", "p", "q"]),
    ("-R of a fifo onto a file", "mkfifo p; echo q >q", &["-R", "p", "q"]),
    ("-R of a device", "", &["-R", "/dev/null", "q"]),
    ("-R --copy-contents", "", &["-R", "--copy-contents", "/dev/null", "q"]),
];

const METADATA: &[Case] = &[
    ("umask", "umask 027; echo a >a; chmod 777 a", &["a", "b"]),
    ("set-id bits are not copied", "echo a >a; chmod 6755 a", &["a", "b"]),
    ("-p", "echo a >a; chmod 4751 a; touch -d '2001-01-01 1:2:3.456' a", &["-p", "a", "b"]),
    (
        "-p onto existing",
        "echo a >a; chmod 604 a; touch -d 2001-01-01 a; echo b >b; chmod 777 b",
        &["-p", "a", "b"],
    ),
    ("-p with an owner", "echo a >a; chown 12:34 a; chmod 6711 a", &["-p", "a", "b"]),
    (
        "ownership only",
        "echo a >a; chown 12:34 a; chmod 6777 a",
        &["--preserve=ownership", "a", "b"],
    ),
    (
        "ownership onto existing",
        "echo a >a; chown 12:34 a; echo b >b; chmod 4755 b",
        &["--preserve=ownership", "a", "b"],
    ),
    (
        "timestamps only",
        "echo a >a; chmod 600 a; touch -d 2001-01-01 a",
        &["--preserve=timestamps", "a", "b"],
    ),
    ("mode only", "echo a >a; chmod 600 a; touch -d 2001-01-01 a", &["--preserve=mode", "a", "b"]),
    ("no mode", "echo a >a; chmod 700 a", &["--no-preserve=mode", "a", "b"]),
    (
        "no mode onto existing",
        "echo a >a; echo b >b; chmod 711 b",
        &["--no-preserve=mode", "a", "b"],
    ),
    (
        "-p without mode",
        "echo a >a; chmod 700 a; touch -d 2001-01-01 a",
        &["-p", "--no-preserve=mode", "a", "b"],
    ),
    (
        "-a without ownership",
        "echo a >a; chown 12:34 a; chmod 700 a",
        &["-a", "--no-preserve=ownership", "a", "b"],
    ),
    ("all", "echo a >a; chown 12:34 a; touch -d 2001-01-01 a", &["--preserve=all", "a", "b"]),
    (
        "a list",
        "echo a >a; chown 12:34 a; touch -d 2001-01-01 a",
        &["--preserve=mode,timestamps", "a", "b"],
    ),
    ("a list abbreviated", "echo a >a; touch -d 2001-01-01 a", &["--preserve=t,m", "a", "b"]),
    ("a wrong list", "echo a >a", &["--preserve=mode,nonsense", "a", "b"]),
    ("xattr", "echo a >a; setfattr -n user.x -v y a", &["--preserve=xattr", "a", "b"]),
    ("xattr by -a", "echo a >a; setfattr -n user.x -v y a", &["-a", "a", "b"]),
    ("xattr not by -p", "echo a >a; setfattr -n user.x -v y a", &["-p", "a", "b"]),
    (
        "xattr of a read-only file",
        "echo a >a; setfattr -n user.x -v y a; chmod 400 a",
        &["-a", "a", "b"],
    ),
    (
        "xattr onto existing",
        "echo a >a; setfattr -n user.x -v y a; echo b >b; setfattr -n user.z -v z b",
        &["-a", "a", "b"],
    ),
    (
        "xattr refused by tmpfs-like target",
        "echo a >a; setfattr -n trusted.x -v y a",
        &["-a", "a", "b"],
    ),
    ("access list", "echo a >a; setfacl -m u:12:rwx a", &["-p", "a", "b"]),
    ("access list not without -p", "echo a >a; setfacl -m u:12:rwx a", &["a", "b"]),
    ("access list onto another", "echo a >a; echo b >b; setfacl -m u:12:rwx b", &["-p", "a", "b"]),
    (
        "default access list",
        "echo a >a; mkdir d; setfacl -d -m u:12:rwx d; chmod 640 a",
        &["a", "d"],
    ),
    (
        "default access list -p",
        "echo a >a; mkdir d; setfacl -d -m u:12:rwx d; chmod 640 a",
        &["-p", "a", "d"],
    ),
    ("context", "echo a >a", &["--preserve=context", "a", "b"]),
    ("-Z", "echo a >a", &["-Z", "a", "b"]),
    ("--context=X", "echo a >a", &["--context=X", "a", "b"]),
];

const DATA: &[Case] = &[
    ("sparse kept", "truncate -s 1M a; echo x >>a; truncate -s 3M a", &["a", "b"]),
    ("sparse always", "head -c 1M /dev/zero >a; echo x >>a", &["--sparse=always", "a", "b"]),
    ("sparse never", "truncate -s 1M a; echo x >>a", &["--sparse=never", "a", "b"]),
    (
        "sparse always over old data",
        "head -c 1M /dev/zero >a; seq 300000 >b",
        &["--sparse=always", "a", "b"],
    ),
    ("all hole", "truncate -s 5M a", &["a", "b"]),
    ("sparse abbreviated", "echo a >a", &["--sparse=ne", "a", "b"]),
    ("sparse invalid", "echo a >a", &["--sparse=sometimes", "a", "b"]),
    ("reflink auto", "seq 100000 >a", &["--reflink=auto", "a", "b"]),
    ("reflink never", "seq 100000 >a", &["--reflink=never", "a", "b"]),
    ("reflink always onto existing", "seq 100 >a; echo b >b", &["--reflink", "a", "b"]),
    ("reflink and sparse", "echo a >a", &["--reflink=always", "--sparse=always", "a", "b"]),
    ("shorter onto longer", "echo a >a; seq 100000 >b", &["a", "b"]),
    ("odd size", "seq 300000 | head -c 1234567 >a", &["a", "b"]),
];

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
