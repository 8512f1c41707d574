//! Every situation with every set of options: the files present beforehand, and the words of cp.

use crate::common::as_gnu::Sentence;

/// A title, a shell script that makes the files, and the operands.
pub type Situation = (&'static str, &'static str, &'static [&'static str]);

pub const SITUATIONS: &[Situation] = &[
    ("new name", "echo a >a", &["a", "b"]),
    ("onto a file", "echo a >a; echo old >b; chmod 640 b; touch -d 2001-01-01 b", &["a", "b"]),
    ("onto a newer file", "echo a >a; echo old >b; touch -d 2001-01-01 a", &["a", "b"]),
    ("onto a file with two names", "echo a >a; echo old >b; ln b c", &["a", "b"]),
    ("onto itself", "echo a >a", &["a", "a"]),
    ("onto itself by another spelling", "echo a >a", &["a", "./a"]),
    ("onto itself in its directory", "mkdir d; echo a >d/a", &["d/a", "d"]),
    ("onto its hard link", "echo a >a; ln a b", &["a", "b"]),
    ("onto a link to it", "echo a >a; ln -s a b", &["a", "b"]),
    ("from a link onto its end", "echo a >a; ln -s a b", &["b", "a"]),
    ("onto another link to it", "echo a >a; ln -s a b; ln -s a c", &["b", "c"]),
    ("onto a hard link of the link", "echo a >a; ln -s a b; ln b c", &["b", "c"]),
    ("from a link onto a hard link of its end", "echo a >a; ln a c; ln -s a b", &["b", "c"]),
    ("from a link onto itself", "echo a >a; ln -s a b", &["b", "b"]),
    ("onto a link to a hard link of it", "echo a >a; ln a c; ln -s c b", &["a", "b"]),
    ("through a link", "echo a >a; echo old >c; ln -s c b", &["a", "b"]),
    ("from a link", "echo a >a; ln -s a l", &["l", "b"]),
    ("from a link through a link", "echo a >a; ln -s a l; echo old >c; ln -s c b", &["l", "b"]),
    ("from a dangling link", "ln -s nowhere a", &["a", "b"]),
    ("from a dangling link onto a file", "ln -s nowhere a; echo old >b", &["a", "b"]),
    ("from a dangling link onto itself", "ln -s nowhere a", &["a", "a"]),
    ("onto a dangling link", "echo a >a; ln -s nowhere b", &["a", "b"]),
    ("onto a link dangling in no directory", "echo a >a; ln -s no/where b", &["a", "b"]),
    ("from one dangling link onto another", "ln -s x a; ln -s y b", &["a", "b"]),
    ("onto a loop", "echo a >a; ln -s b b", &["a", "b"]),
    ("from a loop", "ln -s a a", &["a", "b"]),
    ("into a directory", "echo a >a; mkdir d", &["a", "d"]),
    ("into a directory, onto a file", "echo a >a; mkdir d; echo old >d/a", &["a", "d"]),
    ("into a directory, onto a dangling link", "echo a >a; mkdir d; ln -s x d/a", &["a", "d"]),
    ("into a directory, onto a link to it", "echo a >a; mkdir d; ln -s ../a d/a", &["a", "d"]),
    ("into a linked directory", "echo a >a; mkdir d; ln -s d l", &["a", "l"]),
    ("onto a directory", "echo a >a; mkdir -p d/a", &["a", "d"]),
    ("with a slash after the target", "echo a >a; echo old >b", &["a", "b/"]),
    ("into no directory", "echo a >a", &["a", "no/b"]),
    ("from nothing", "echo old >b", &["a", "b"]),
    ("from a simple backup", "echo a >a; echo b >a~", &["a~", "a"]),
    ("from a link to a simple backup", "echo a >a; echo b >a~; ln -s a~ c", &["c", "a"]),
    ("from a file with the suffix", "echo a >a; echo b >a.x", &["a.x", "a"]),
    ("from a numbered backup", "echo a >a; echo b >a.~1~", &["a.~1~", "a"]),
    ("onto its simple backup", "echo a >a; echo b >a~", &["a", "a~"]),
    (
        "from below, --parents",
        "mkdir -p x/y d; echo a >x/y/a; chmod 710 x",
        &["--parents", "x/y/a", "d"],
    ),
    ("two into a directory", "echo a >a; echo b >b; mkdir d; echo old >d/a", &["a", "b", "d"]),
    ("two of one name", "mkdir x y d; echo 1 >x/a; echo 2 >y/a", &["x/a", "y/a", "d"]),
    ("two names of one file", "echo a >a; ln a b; mkdir d", &["a", "b", "d"]),
    ("a FIFO", "mkfifo -m 640 a; echo old >b", &["-R", "a", "b"]),
    ("onto a FIFO", "echo a >a; mkfifo b", &["-R", "--remove-destination", "a", "b"]),
];

pub const TREES: &[Situation] = &[
    ("a directory without -R", "mkdir a; echo a >a/f", &["a", "b"]),
    ("a tree", "mkdir -p a/b; echo a >a/b/f; ln -s f a/b/l", &["-R", "a", "d"]),
    (
        "a tree onto a tree",
        "mkdir -p a/b d/a/b; echo a >a/b/f; echo old >d/a/b/f; chmod 700 d/a/b",
        &["-R", "a", "d"],
    ),
    ("a tree onto a file", "mkdir a; echo a >a/f; echo old >b", &["-R", "a", "b"]),
    ("a tree onto a link", "mkdir a d; echo a >a/f; ln -s d b", &["-R", "-T", "a", "b"]),
    ("a tree with a file for a directory", "mkdir -p a/b d/a; touch d/a/b", &["-R", "a", "d"]),
    ("a tree with a directory for a file", "mkdir -p a d/a/b; touch a/b", &["-R", "a", "d"]),
    ("a tree onto itself", "mkdir a; echo a >a/f", &["-R", "-T", "a", "a"]),
    ("a tree below a link", "mkdir -p x/a d; echo a >x/a/f; ln -s x l", &["-R", "l/a", "d"]),
    ("a linked tree", "mkdir -p x d; echo a >x/f; ln -s x l", &["-R", "l", "d"]),
    ("a tree with a FIFO", "mkdir -p a d; mkfifo -m 640 a/p; chmod 710 a", &["-R", "a", "d"]),
    (
        "a tree onto a link within",
        "mkdir -p a d/a; echo a >a/f; echo old >d/a/g; ln -s g d/a/f",
        &["-R", "a", "d"],
    ),
];

/// Run without privileges.
pub const AS_NOBODY: &[Situation] = &[
    (
        "a read-only target",
        "echo a >a; echo old >b; chmod 400 b; chown -R 65534:65534 .",
        &["a", "b"],
    ),
    (
        "a target without permissions",
        "echo a >a; echo old >b; chmod 0 b; chown -R 65534:65534 .",
        &["a", "b"],
    ),
    (
        "a write-only target",
        "echo a >a; echo old >b; chmod 200 b; chown -R 65534:65534 .",
        &["a", "b"],
    ),
    (
        "an unreadable source",
        "echo a >a; echo old >b; chmod 0 a; chown -R 65534:65534 .",
        &["a", "b"],
    ),
    ("another's target", "echo a >a; echo old >b; chown 65534:65534 . a", &["a", "b"]),
    (
        "another's writable target",
        "echo a >a; echo old >b; chmod 666 b; chown 65534:65534 . a",
        &["a", "b"],
    ),
    ("another's source", "echo a >a; chmod 4755 a; chown 65534:65534 .", &["a", "b"]),
    (
        "another's source onto one's own",
        "echo a >a; echo old >b; chown 65534:65534 . b",
        &["a", "b"],
    ),
    ("a closed directory", "echo a >a; mkdir d; chmod 555 d; chown -R 65534:65534 .", &["a", "d"]),
    (
        "a file in a closed directory",
        "echo a >a; mkdir d; echo old >d/a; chmod 555 d; chown -R 65534:65534 .",
        &["a", "d"],
    ),
    (
        "an unsearchable directory",
        "echo a >a; mkdir d; echo old >d/a; chmod 0 d; chown -R 65534:65534 .",
        &["a", "d"],
    ),
    (
        "another's file in a sticky directory",
        "echo a >a; mkdir d; echo old >d/a; chmod 1777 d; chown 65534:65534 . a",
        &["a", "d"],
    ),
];

pub const OPTIONS: &[&[&str]] = &[
    &[],
    &["-f"],
    &["-n"],
    &["-i"],
    &["-fi"],
    &["-u"],
    &["-b"],
    &["-bf"],
    &["-bu"],
    &["-bi"],
    &["-b", "-S", ".x"],
    &["-S", ".x"],
    &["--backup=numbered"],
    &["--backup=existing"],
    &["--backup=none"],
    &["-bn"],
    &["--remove-destination"],
    &["--remove-destination", "-f"],
    &["--remove-destination", "-b"],
    &["--remove-destination", "-u"],
    &["--remove-destination", "-P"],
    &["-T"],
    &["-Tb"],
    &["-P"],
    &["-Pf"],
    &["-Pb"],
    &["-Pu"],
    &["-d"],
    &["-db"],
    &["-L"],
    &["-H"],
    &["-l"],
    &["-lf"],
    &["-lb"],
    &["-ln"],
    &["-lu"],
    &["-li"],
    &["-lP"],
    &["-lPf"],
    &["-lL"],
    &["-l", "--remove-destination"],
    &["-s"],
    &["-sf"],
    &["-sb"],
    &["-sn"],
    &["-s", "--remove-destination"],
    &["-a"],
    &["-ab"],
    &["-au"],
    &["-p"],
    &["--preserve=links"],
    &["-R"],
    &["--attributes-only"],
    &["--attributes-only", "-f"],
    &["--attributes-only", "-P"],
    &["--attributes-only", "--remove-destination"],
    &["--sparse=always"],
    &["--reflink=auto"],
];

/// The messages of GNU cp 9.1, and those of gush.
pub const SENTENCES: &[Sentence] = &[
    // gush names the source, too.
    (
        "cp: cannot overwrite directory '%a' with non-directory",
        "cp: cannot overwrite directory '%a' with non-directory '%b'",
    ),
    (
        "cp: backing up '%a' might destroy source;  '%b' not copied",
        "cp: backing up '%a' might destroy source; '%b' not copied",
    ),
    // gush has GNU cp 9.5's --update=none-fail.
    (
        "cp: options --backup and --no-clobber are mutually exclusive",
        "cp: --backup is mutually exclusive with -n or --update=none-fail",
    ),
];

/// Words, in a situation (every one, if empty), where gush means to differ, and why.
pub const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("-li", "itself", "nothing is replaced, so nothing is asked"),
    ("-li", "hard link", "nothing is replaced, so nothing is asked"),
    ("-li", "onto its end", "nothing is replaced, so nothing is asked"),
    ("-li", "hard link of its end", "nothing is replaced, so nothing is asked"),
    ("-fi", "onto a loop", "the loop is replaced, so that is asked"),
];

/// Where a file's zeros and holes are.
pub const LAYOUTS: &[Situation] = &[
    ("zeros", "head -c 1M /dev/zero >a", &["a", "b"]),
    ("a hole", "truncate -s 1M a", &["a", "b"]),
    ("a hole first", "truncate -s 1M a; echo x >>a", &["a", "b"]),
    ("a hole last", "echo x >a; truncate -s 1M a", &["a", "b"]),
    ("a hole between", "seq 20000 >a; truncate -s 1M a; seq 20000 >>a", &["a", "b"]),
    ("zeros between", "(seq 20000; head -c 300K /dev/zero; seq 20000) >a", &["a", "b"]),
    ("few zeros", "head -c 300 /dev/zero >a", &["a", "b"]),
    ("an odd number of zeros", "(echo x; head -c 200001 /dev/zero; echo y) >a", &["a", "b"]),
    ("nothing", ": >a", &["a", "b"]),
    ("reserved space", "fallocate -l 1M a", &["a", "b"]),
    ("zeros onto a longer file", "head -c 1M /dev/zero >a; seq 300000 >b", &["a", "b"]),
    (
        "a hole between onto a longer file",
        "seq 9 >a; truncate -s 1M a; seq 9 >>a; seq 300000 >b",
        &["a", "b"],
    ),
    ("nothing onto a file", ": >a; seq 300000 >b", &["a", "b"]),
    ("zeros through a link", "head -c 1M /dev/zero >a; seq 300000 >c; ln -s c b", &["a", "b"]),
    // A device of the case's own: -p, -b and --remove-destination change or replace it.
    ("zeros onto a device", "head -c 1M /dev/zero >a; mknod -m 666 null c 1 3", &["a", "null"]),
    ("a made-up file", ":", &["/proc/version", "b"]),
];

/// `--reflink=always` alone is not among them: where nothing can be cloned, GNU cp leaves an empty
/// file, and gush keeps the file that was there before.
pub const HOLES: &[&[&str]] = &[
    &["--sparse=auto"],
    &["--sparse=always"],
    &["--sparse=never"],
    &["--sparse=al"],
    &["--sparse=auto", "--reflink=auto"],
    &["--sparse=always", "--reflink=auto"],
    &["--sparse=never", "--reflink=auto"],
    &["--sparse=auto", "--reflink=never"],
    &["--sparse=always", "--reflink=never"],
    &["--sparse=never", "--reflink=never"],
    &["--sparse=always", "--reflink=always"],
    &["--sparse=never", "--reflink"],
    &["--sparse=always", "-p"],
    &["--sparse=always", "-b"],
    &["--sparse=always", "--remove-destination"],
    &["--sparse=always", "--attributes-only"],
    &["--sparse=never", "--attributes-only"],
    &["--sparse=always", "--sparse=never"],
    &["--sparse=never", "--sparse=always"],
    &["--reflink=never"],
];
