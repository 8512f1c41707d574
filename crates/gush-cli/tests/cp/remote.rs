//! `gush cp SOURCE HOST:DEST`, with a remote shell that runs the command on this machine.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::cp::{fails, names, script, stderr, stdout, succeeds, with_mounts};
use crate::common::{noise, skipped};

/// `$C` copies to host `h`: like ssh, its shell takes the host first.
pub fn remote(dir: &Path, text: &str) -> Output {
    script(dir, &format!("{SHELL}{text}"))
}

/// The same with mounts that nobody else sees, on `m`.
pub fn remote_with_mounts(dir: &Path, text: &str) -> Option<Output> {
    with_mounts(dir, &format!("{SHELL}{text}"))
}

const SHELL: &str = "printf '#!/bin/sh\\nshift\\nexec \"$@\"\\n' >shell; chmod +x shell
    C=\"$G cp --rsh ./shell --remote-gush $G\"\n";

/// A remote shell `hold` that passes 1 MiB in either direction, and no more until `$UNTIL`
/// succeeds. Each start of it adds a line to `started`.
pub const HOLD: &str = r#"cat >hold <<'END'
#!/usr/bin/python3
import os, subprocess, sys, threading, time
with open("started", "a") as started: started.write("\n")
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def passes(source, target):
    passed_bytes = 0
    while data := os.read(source, 65536):
        while passed_bytes > 1 << 20 and subprocess.call(os.environ["UNTIL"], shell=True):
            time.sleep(0.02)
        while data: data = data[os.write(target, data):]
        passed_bytes += 65536
    os.close(target)
threading.Thread(target=passes, args=(0, child.stdin.fileno()), daemon=True).start()
passes(child.stdout.fileno(), 1)
sys.exit(child.wait())
END
chmod +x hold; H="$G cp --rsh ./hold --remote-gush $G"
"#;

pub fn remote_succeeds(dir: &Path, text: &str) -> Output {
    let output = remote(dir, text);
    assert!(output.status.success() && stderr(&output).is_empty(), "{text}: {output:?}");
    output
}

const TREE: &str = "mkdir -p s/d/e s/empty; echo one >s/a; ln s/a s/d/b; ln -s ../no s/d/l
    mkfifo s/p; head -c 9000000 /dev/urandom >s/big; truncate -s 20M s/hole
    printf x | dd of=s/hole bs=1 seek=10000000 conv=notrunc 2>/dev/null; truncate -s 3M s/void
    printf z >\"$(printf 's/n\\351')\"; touch -d '2001-02-03 04:05:06.123456789' s/d s/a; chmod 2751 s/d\n";

#[test]
fn a_tree_arrives_with_all_its_metadata() {
    for streams in ["", "--streams 1", "--streams 4", "--streams 3 --compress"] {
        a_tree_arrives_by(&format!("$C -a --verify {streams} s h:t"));
    }
}

/// `copy` makes `t` of `s`.
pub fn a_tree_arrives_by(copy: &str) {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        &format!(
            "{TREE}
            setfattr -n user.k -v v s/a; setfacl -m u:1234:r s/big; setfacl -d -m g:55:rx s/d
            [ $(id -u) != 0 ] || {{ chown 1001:1002 s/d s/big; chmod 4711 s/big; mknod s/null c 1 3; }}
            chmod 0 s/empty
            {copy}
            look() {{ (cd $1; find . -printf '%P %M %n %U %G %s %T@ %l %b\\n' | sort
                getfacl -Rnp .; find . ! -type l -exec getfattr -hd {{}} +
                find . -type f -exec cksum {{}} + | sort) >$1.look; }}
            look s; look t; diff s.look t.look; chmod 700 s/empty t/empty"
        ),
    );
    assert_eq!(stdout(&output), "");
    let looked = fs::read(dir.path().join("t.look")).unwrap();
    assert!(String::from_utf8_lossy(&looked).contains("user.k"));
}

#[test]
fn the_target_is_named_as_in_a_local_copy() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir -p s/d there u v; echo 1 >s/d/f; echo 2 >g; ln -s g l
        $C -r s h:new; $C -r s h:there; $C -rT s h:exact; $C -rT s h:exact
        $C -rf s g h:u; $C -t h:v -P g l; $C l h:followed; $C s/d/f h:",
    );
    for path in ["new/d/f", "there/s/d/f", "exact/d/f", "u/s/d/f", "u/g", "v/g", "f"] {
        assert!(dir.path().join(path).is_file(), "{path}");
    }
    assert!(!dir.path().join("exact/s").exists());
    assert!(dir.path().join("v/l").is_symlink() && !dir.path().join("followed").is_symlink());
    // A colon after the first slash is part of a local name.
    fs::write(dir.path().join("x"), "local").unwrap();
    succeeds(dir.path(), &["x", "./a:b"]);
    assert_eq!(fs::read(dir.path().join("a:b")).unwrap(), b"local");
}

/// Of each pair of operands a local copy and one to or from another machine make the same tree, and
/// print the same lines.
#[test]
fn a_copy_takes_the_names_that_a_local_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "C=\"$G cp --rsh $PWD/shell --remote-gush $G\"; O=$PWD/o
        mkdir -p a/in/d a/in/e o; echo 1 >a/in/f; echo 2 >a/in/d/g; ln -s d a/in/l; touch -d 2020-01-01 a/in
        try() {
            for how in local push pull; do
                rm -rf o/*; mkdir -p o/there/q; touch -d 2021-01-01 o/there; cd $1
                case $how in
                    local) $G cp -av --json $3 $2 $4;;
                    push) $C -av --json $3 $2 h:$4;;
                    pull) $C -av --json $3 h:$2 $4;;
                esac >$O.out 2>$O.err; status=$?; echo $status >>$O.out; cd $OLDPWD
                [ $how$status != local0 ] || [ -z \"$(find o -type f)\" ] || echo copied
                (sed 's/,\"action.*//;s,h:,,g;s,/\"$,\",' o.out; sed -En 's,h:,,g; /->|removed/p' o.err
                    cd o; find . -printf '%P %y %M %TY\n') | sort >o.$how
                cmp -s o.local o.$how || { echo $how $*; diff o.local o.$how; cat o.err; }
            done
        }
        for source in . d/.. ../in/. .. f l; do for target in new there/; do
            for options in '' '-T --delete'; do try a/in $source \"$options\" ../../o/$target; done
        done; done
        for source in a/in a/in/.; do for options in '' -T '-T --delete'; do
            try o/there ../../$source \"$options\" .
        done; done",
    );
    // In 25 of 30 cases there is a file: one source is a link, and `-T` cannot make `there/` a
    // file.
    assert_eq!((stdout(&output), stderr(&output)), ("copied\n".repeat(25), String::new()));
}

#[test]
fn a_tilde_is_the_home_directory_of_the_other_machine() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir home; export HOME=$PWD/home; echo h >of; $C of h:~/as; $C of 'h:~'; $C of 'h:./~'",
    );
    assert_eq!(names(&dir.path().join("home")), ["as", "of"]);
    assert!(dir.path().join("~").is_file());
}

#[test]
fn entries_that_fail_are_named_and_the_others_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/in s/way t/s/way t/s; echo 1 >s/a; echo 2 >s/in/b; echo 3 >s/in/c; echo 4 >s/way/d
        rm -r t/s/way; echo guard >t/s/way; mkdir t/s/a; $C -r s missing h:t",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["t/s/a'", "cannot overwrite non-directory 't/s/way'", "cannot stat 'missing'"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("t/s/in/c")).unwrap(), "3\n");
    assert_eq!(fs::read_to_string(dir.path().join("t/s/way")).unwrap(), "guard\n");
}

#[test]
fn what_a_local_copy_would_not_overwrite_stays() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir x y t; echo x >x/a; echo y >y/a; mkfifo t/p; echo p >x/p; $C x/a y/a x/p h:t",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["'y/a' is not copied", "h: cannot replace 't/p': a special file has the name"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("t/a")).unwrap(), "x\n");
    assert!(!dir.path().join("t/p").is_file());
}

#[test]
fn directories_that_were_left_do_not_use_up_the_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir s; for i in $(seq 400); do mkdir s/d$i; echo >s/d$i/f; ln s/d$i/f s/d$i/g; done
        ulimit -n 330; $C -a s h:t; [ $(find t -links 2 -type f | wc -l) = 800 ]",
    );
}

#[test]
fn the_name_of_a_directory_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "echo a >a; mkdir s; $C -r s h:made/ && $C a h:new/; $C -T a h:made/; $C -T a h:.; $C -T a h:/",
    );
    let why = [
        "gush: cp: h: cannot create regular file 'new/': Not a directory (mkdir -p 'new/' makes the directory)",
        "gush: cp: h: cannot overwrite directory 'made' with non-directory",
        "gush: cp: h: cannot overwrite directory '.' with non-directory",
        "gush: cp: h: cannot overwrite directory '/' with non-directory",
    ];
    assert_eq!(stderr(&output).lines().collect::<Vec<_>>(), why);
    assert!(dir.path().join("made").is_dir() && !dir.path().join("new").exists());
}

#[test]
fn directories_that_may_not_be_searched_do_not_end_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir -p s/a s/no/in s/list/in s/z; for d in a no list z; do echo $d >s/$d/f; done
        chmod 0 s/no; chmod 444 s/list; chmod 777 .
        setpriv --reuid=65534 --regid=65534 --clear-groups $C -r s h:t; echo $?
        cat t/a/f t/z/f; ls t",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    let said = stderr(&output);
    assert_eq!(stdout(&output), "1\na\nz\na\nlist\nno\nz\n", "{said}");
    for part in ["cannot access 's/no': Permission denied", "'s/list/f': Permission denied"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn sources_whose_content_is_not_sent_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(dir.path(), "mkdir t; mkfifo p; $C /proc/version /dev/null p h:t");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "'/proc/version' could not be read: its size is 0, and it has content",
        "'/dev/null' is a special file",
        "'p' is a special file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(names(&dir.path().join("t")), [""; 0]);
}

/// As those of `.` merge with other operands, in their order.
#[test]
fn the_content_of_a_directory_is_next_to_other_operands() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p a/d b l p u; for i in $(seq 300); do echo a >a/d/f$i; done; cp -r a/d b; echo b >b/d/f7
        cp -a a/. b/. b/d l; $C -a --streams 3 a/. b/. b/d h:p && diff -r l p
        $C -a h:a/. h:b/. h:b/d u && diff -r l u && echo same",
    );
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

/// One line says what has failed, on which machine, and what to do.
#[test]
fn a_failed_start_is_one_line_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let mkdir = "(mkdir -p 'no/such' makes the directory)\n";
    for (words, said) in [
        (
            "$C -r s h:no/such/t",
            format!("h: cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C -r h:s no/such/t",
            format!("cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C -rt h:no/such s",
            format!("h: cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C h:s/f s/l",
            "'s/l' is a symbolic link, which a copy between machines would replace: name \
            what it leads to, or remove it\n"
                .into(),
        ),
        (
            "$G cp --rsh false a:b t",
            "a: false ended with exit status: 1 before gush answered ('a:b' is also \
            a local file, written './a:b')\n"
                .into(),
        ),
        (
            "$G cp --rsh ./none s/f a:b",
            "cannot start ./none: No such file or directory (there is no such file, or no such \
            program in PATH; --rsh names another program; 'a:b' is also a local file, written \
            './a:b')\n"
                .into(),
        ),
        (
            "$G cp --rsh 'echo hi;' s/f h:t",
            "h: no gush answers there: it sent 'hi; h gush serve-tree' (the \
            shell's start-up files there must print nothing)\n"
                .into(),
        ),
    ] {
        let output = remote(
            dir.path(),
            &format!("mkdir -p s; touch s/f a:b; ln -sf f s/l; {words}; [ $? = 1 ]"),
        );
        assert!(output.status.success(), "{words}: {output:?}");
        assert_eq!(stderr(&output), format!("gush: cp: {said}"), "{words}");
    }
}

/// By what the kernel knows of the machine and of each directory, not by names.
#[test]
fn a_tree_is_not_copied_into_itself_through_a_host_that_is_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let into = |to: &str| format!("cannot copy a directory into itself, '{to}'");
    let same = |to: &str| format!("'{to}' and its source are the same file");
    for (operands, why) in [
        ("-r d h:d/sub", into("d/sub/d")),
        ("-r d h:d/sub/new", into("d/sub/new")),
        ("-r h:d d/sub", into("d/sub/d")),
        ("-r h:alias/. d/sub", into("d/sub/.")),
        ("-r . h:d/sub/new", into("d/sub/new")),
        ("-rT d h:d", same("d")),
        ("-aT --delete d h:alias/../d", same("alias/../d")),
        ("-rT h:d d", same("d")),
        (
            "-aT --delete d/sub h:d",
            "cannot mirror to 'd', which the source is in: it would be removed".into(),
        ),
        ("d/f h:d", same("d/f")),
        ("-u d/f h:alias/sub/../f", String::new()),
        ("-T h:d/f alias/f", same("alias/f")),
    ] {
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p d/sub; echo f >d/f; ln -sfn d alias; find d -printf '%P %i %T@\n' >before
                $C {operands}; echo $?; find d -printf '%P %i %T@\n' | diff before -"
            ),
        );
        let said = stderr(&output);
        let status = if why.is_empty() { "0\n" } else { "1\n" };
        assert_eq!(stdout(&output), status, "{operands}: {output:?}");
        assert!(said.contains(&why) && said.lines().count() < 2, "{operands}: {said}");
    }
}

/// The way up from a bind mount does not lead to where its directory is.
#[test]
fn a_mirror_through_a_host_spares_a_source_that_is_mounted_from_its_target() {
    for copy in ["$C -aT --delete --exclude /only m h:d", "$C -aT --delete --exclude /only h:m d"] {
        for bind in ["d/sub", "d/up/sub"] {
            let dir = tempfile::tempdir().unwrap();
            let output = remote_with_mounts(
                dir.path(),
                &format!(
                    "mkdir -p {bind}/sub/deep; echo f >{bind}/f; echo o >{bind}/only
                    echo g >{bind}/sub/deep/g; mount --bind {bind} m; {copy}; echo $?; umount m
                    find {bind} -type f | sort"
                ),
            );
            let Some(output) = output else { return };
            let (said, why) = (stdout(&output), stderr(&output));
            for kept in ["f", "only", "sub/deep/g"] {
                assert!(said.contains(&format!("{bind}/{kept}\n")), "{copy} {bind}: {output:?}");
            }
            assert!(said.starts_with("1\n"), "{copy} {bind}: {output:?}");
            assert!(why.contains("is the source or holds the source"), "{copy} {bind}: {why}");
        }
    }
}

/// sshd gives its children a socket, from which data goes through a pipe of the receiver.
#[test]
fn a_full_disk_fails_one_file_and_the_others_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_with_mounts(
        dir.path(),
        "mount -t tmpfs -o size=4M none m; mkdir -p s/d; head -c 12M /dev/urandom >s/big; echo d >s/d/e
        cat >shell <<'END'
#!/usr/bin/python3
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
child = subprocess.Popen(sys.argv[2:], stdin=theirs)
theirs.close()
while data := os.read(0, 65536):
    ours.sendall(data)
ours.close()
sys.exit(child.wait())
END
        $C -r --json s h:m >records; echo $?; cat m/s/d/e; ls m/s; grep failed records",
    );
    let Some(output) = output else { return };
    let (said, out) = (stderr(&output), stdout(&output));
    let Some(record) = out.strip_prefix("1\nd\nd\n") else { panic!("{output:?}") };
    // What programs read is what the user does.
    for part in ["\"errno\":28", "\"hint\":\"the target is full: free some"] {
        assert!(record.contains(part), "{record}");
    }
    let bytes = said.split_once("(after ").and_then(|(_, rest)| rest.split_once(" bytes"));
    let delivered = format!("\"delivered_bytes\":{}", bytes.unwrap().0);
    assert!(record.contains(&delivered), "{delivered}: {record}");
    let why = "h: error writing 'm/s/big': No space left on device (after ";
    assert!(said.contains(why) && said.contains("bytes; the target is full: free some"), "{said}");
}

#[test]
fn a_full_disk_has_as_many_bytes_as_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("big"), noise(3 << 20, 1)).unwrap();
    for options in ["--streams 1", "--streams 3", "--compress"] {
        let output = remote_with_mounts(
            dir.path(),
            &format!("mount -t tmpfs -o size=2M none m; $C {options} --json big h:m/big"),
        );
        let Some(output) = output else { return };
        let (said, record) = (stderr(&output), stdout(&output));
        assert!(said.contains(" (after 2097152 bytes; the target is full"), "{options}: {said}");
        for part in ["\"bytes\":2097152", "\"delivered_bytes\":2097152"] {
            assert!(record.contains(part), "{options}: {record}");
        }
    }
}

#[test]
fn what_the_filters_leave_out_is_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir -p s/skip s/keep; echo '*.log' >s/.gitignore; touch s/a.o s/b.c s/c.log s/skip/d s/keep/e
        $C -rv --exclude '*.o' --exclude skip/ --gitignore s h:t | sort
        $C -r --json --limit 1M s/b.c h:j",
    );
    assert_eq!(names(&dir.path().join("t")), [".gitignore", "b.c", "keep"]);
    let said = stdout(&output);
    assert!(said.contains("'s/keep/e' -> 'h:t/keep/e'"), "{said}");
    assert!(said.contains(r#"{"source":"s/b.c","target":"h:j","action":"copied""#), "{said}");
}

#[test]
fn an_option_that_a_remote_copy_lacks_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    for option in ["-b", "-L", "--fsync", "-l", "-i", "--shard=0/2", "--parents"] {
        let said = fails(dir.path(), &["-r", "--rsh", "touch", option, "a", "h:t"]);
        assert!(said.contains("is not served in a copy to or from another"), "{option}: {said}");
        assert!(!said.contains("./NAME"), "{option}: {said}");
    }
    let said = fails(dir.path(), &["-b", "a", "h:t"]);
    assert!(said.contains("(a local file with a colon in its name is written ./NAME)"), "{said}");
    let said = fails(dir.path(), &["-r", "--rsh", "touch", "--resume", "a", "h:t"]);
    assert!(said.contains("requires -T or -t"), "{said}");
    for (words, why) in [
        (&["h:t"][..], "missing destination file operand after 'h:t'"),
        (&["-T", "a", "a", "h:t"], "extra operand 'h:t'"),
        (&["-T", "-t", "h:t", "a"], "cannot combine --target-directory"),
    ] {
        let said = fails(dir.path(), &[&["--rsh", "touch"], words].concat());
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let said = fails(dir.path(), &["--numeric-ids", "a", "b"]);
    assert!(said.contains("--numeric-ids requires HOST:SOURCE or HOST:DEST"), "{said}");
    let said = fails(dir.path(), &["--rsh", "touch", "a", "b"]);
    assert!(said.contains("--rsh requires HOST:SOURCE or HOST:DEST"), "{said}");
    let said = fails(dir.path(), &["--rsh", "touch", "a", "-t", "-oProxyCommand=x:t"]);
    assert!(said.contains("cannot start with '-'"), "{said}");
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn by_the_name_of_cp_no_other_machine_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        "ln -s $G cp; echo a >a; ./cp --rsh touch a h:t; ./cp a h:u; ./cp --help | grep -c HOST",
    );
    assert!(stderr(&output).contains("--rsh"), "{output:?}");
    assert_eq!(stdout(&output), "0\n");
    assert_eq!(names(dir.path()), ["a", "cp", "h:u"]);
}

#[test]
fn a_failed_remote_shell_and_a_talking_login_shell_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    let said = fails(dir.path(), &["--rsh", "false", "a", "h:t"]);
    assert!(said.contains("h: false ended with exit status: 1"), "{said}");
    let said = fails(dir.path(), &["--rsh", "echo welcome to a friendly shell;", "a", "h:t"]);
    assert!(said.contains("it sent 'welcome to a friendly shell"), "{said}");
    let said = fails(dir.path(), &["--rsh", "./none", "a", "h:t"]);
    let remedy =
        " (there is no such file, or no such program in PATH; --rsh names another program)";
    assert!(said.contains("cannot start ./none: No such file") && said.contains(remedy), "{said}");
}

#[test]
fn a_receiver_killed_half_way_leaves_no_half_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; truncate -s 1G s/big; printf x | dd of=s/big bs=1 seek=5 conv=notrunc 2>/dev/null
        fallocate -l 64M s/big2
        printf '#!/bin/sh\\nshift\\nstdbuf -o0 head -c 300000 | \"$@\"\\n' >shell
        timeout 60 $C -r --streams 1 s h:t",
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for name in names(&dir.path().join("t")) {
        let [sent, made] = ["s", "t"].map(|side| dir.path().join(side).join(&name));
        assert_eq!(made.metadata().unwrap().len(), sent.metadata().unwrap().len(), "{name}");
    }
}

/// By a true sshd of this machine, with keys of its own.
#[test]
fn ssh_carries_a_copy_in_either_direction() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        "[ -x /usr/sbin/sshd ] && [ $(id -u) = 0 ] && command -v ssh ssh-keygen >/dev/null || { echo lacks; exit 0; }
        umask 077; for key in host user; do ssh-keygen -qt ed25519 -N '' -f $key; done
        mkdir -p /run/sshd; chmod 755 .
        set -- -o HostKey=$PWD/host -o AuthorizedKeysFile=$PWD/user.pub -o StrictModes=no -o UsePAM=no
        mkdir s; echo one >s/a; head -c 3000000 /dev/urandom >s/b
        copy() { $G cp -a --rsh \"ssh -F none -i $PWD/user -o StrictHostKeyChecking=no \\
            -o UserKnownHostsFile=$PWD/known -o LogLevel=ERROR \\
            -o 'ProxyCommand=/usr/sbin/sshd -i -f /dev/null $options'\" --remote-gush $G \"$@\" 2>&1; }
        options=$*; copy s root@h:$PWD/t; copy root@h:$PWD/s u
        diff -r s t && diff -r s u && echo same",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, ssh and sshd (openssh-server)");
    }
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

#[test]
fn a_shell_that_prints_a_greeting_or_reads_nothing_is_ended_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, said) in [
        ("echo Welcome to this machine; exec sleep 600", "it sent 'Welcome to this mach"),
        ("exec false", "exit status: 1 before gush answered\n"),
        ("exec no-such-gush", "exit status: 127 before gush answered (is gush installed there?"),
        // The greeting of gush, then an end; nothing is read, and a write waits for room.
        ("$G serve-tree </dev/null; exec >&-; exec sleep 600", "before the copy was complete"),
        ("$G serve-tree </dev/null; exec <&-; exec sleep 600", "connection lost while sending"),
    ] {
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p s; head -c 9000000 /dev/urandom >s/f
                printf '#!/bin/sh\nG=%s\n{shell}\n' $G >other; chmod +x other
                timeout 60 $G cp -r --rsh ./other s h:t"
            ),
        );
        assert_eq!(output.status.code(), Some(1), "{shell}: {output:?}");
        assert!(stderr(&output).contains(said), "{shell}: {output:?}");
    }
}

/// A source, and a target of an earlier state: files that are equal, older, newer, longer, of other
/// bytes, of another kind, and some that the source lacks.
const TWO_STATES: &str = "umask 022; mkdir -p s/d/e s/kind s/empty t/s/d/e t/s/only/deep t/s/kind t/s/skip s/skip
    for f in same older newer longer other d/same d/e/new; do echo $f >s/$f; done
    touch -d '2020-01-01' s/*; touch -d '2020-01-01' s/d/same
    for f in same older newer d/same; do cp -p s/$f t/s/$f; done; echo longer still >t/s/longer
    echo reh_o | cut -c1-5 >t/s/other; touch -d '2020-01-01' t/s/other t/s/longer
    touch -d '2019-01-01' t/s/older; touch -d '2021-01-01' t/s/newer
    echo file >s/kind/file; mkdir t/s/kind/file; echo in >t/s/kind/file/in; mkdir s/kind/dir; echo x >s/kind/dir/x
    echo dir >t/s/kind/dir; ln -s same s/link; ln -s elsewhere t/s/link; ln -s one s/kind/link
    ln -s one t/s/kind/link; mkfifo s/fifo; echo no fifo >t/s/fifo
    echo a >s/names; ln s/names s/d/names; echo b >t/s/names; echo b >t/s/d/names; ln s/same s/d/again
    touch -d '2030-01-01' t/s/names t/s/d/names
    echo gone >t/s/only/deep/f; echo gone >t/s/d/gone; echo keep >t/s/d/keep.o; echo keep >t/s/skip/k
    echo no >s/skip/n; echo obj >s/d/e/y.o; echo '*.o' >s/d/.gitignore; echo /skip >s/.gitignore
    ln -s two s/hard; ln s/hard s/d/hard; ln -s two t/s/hard; touch -hd 2020-01-01 s/hard t/s/hard; ln s/fifo s/d/fifo; : >s/void; ln s/void s/d/void
    truncate -s 3M s/holes t/s/holes; for side in s t/s; do printf $side | dd of=$side/holes bs=1 seek=2M conv=notrunc status=none; done
    setfattr -n user.k -v v s/newer s/d s/same || exit 99; setfattr -n user.k -v old t/s/d t/s/older t/s/same; setfattr -n user.l -v old t/s/d
    setfacl -m u:1234:r s/older || exit 99; setfacl -d -m g:55:rx s/kind; chmod 600 s/same t/s/same; chmod 640 s/older
    touch -d '2018-01-01' s/d s/kind s; touch -d '2017-01-01' t/s/d t/s/empty\n";

/// What a tree is, with times where they are kept.
const LOOK: &str = "look() { (cd $1; find . -printf '%P %M %n %U %G %l\n' | sort
        [ $2 = r ] || find . -printf '%P %T@\n' | sort; find . ! -type d -printf '%P %s %b\n' | sort
        for get in 'getfacl -np' 'getfattr -hd'; do find . ! -type l -print0 | sort -z | xargs -0 $get; done
        find . -type f -exec cksum {} + | sort) >$1.look; }\n";

/// Options that decide what becomes of [`TWO_STATES`].
const DECISIONS: [&str; 15] = [
    "-a",
    "-r",
    "-au",
    "-an",
    "-rn",
    "-a --update=none-fail",
    "-a --update=changed",
    "-a --checksum",
    "-r --checksum",
    "-a --delete",
    "-a --delete --update=changed",
    "-a --delete --checksum --exclude *.o --exclude skip/",
    "-r --delete --include keep.o --exclude *.o",
    "-a --delete --gitignore",
    "-a --update=changed --verify",
];

#[test]
fn a_copy_to_another_machine_decides_as_a_local_one() {
    decides_as_a_local_copy("s h:v");
}

/// Both copies say and do the same, also when they only say what they would do.
pub fn decides_as_a_local_copy(operands: &str) {
    let mut differ = Vec::new();
    // Names of this machine have no host, and messages about the other one begin with it.
    let (local, local_messages) = match operands {
        "s h:v" => ("s,'h:v,'u,g", "s,cp: h: ,cp: ,;s,'v\\([/']\\),'u\\1,g"),
        _ => ("s,'h:s,'s,g;s,'v\\([/']\\),'u\\1,g", ""),
    };
    for options in DECISIONS {
        for dry in ["", "--dry-run"] {
            let dir = tempfile::tempdir().unwrap();
            let output = remote(
                dir.path(),
                &format!(
                    "set -f; {TWO_STATES}{LOOK}
                    cp -a t u; cp -a t v
                    # With several threads any name of a file may be the first.
                    $G cp -v --threads=1 {options} {dry} s u >u.out 2>u.err; echo $? >>u.out
                    $C -v {options} {dry} {operands} >v.out 2>v.err; echo $? >>v.out
                    o='{options}'; look u ${{o:1:1}}; look v ${{o:1:1}}; diff u.look v.look
                    # A local copy removes a link or special file before it makes the new one.
                    sed \"{local}\" v.out | sort >v.said
                    grep -vE \"^(removed|would remove) 'u/s/(d/)?(fifo|link|kind/link|names|same|hard)'\" u.out | sort >u.said
                    diff u.said v.said; sed \"{local};{local_messages}\" v.err | sort >v.err2
                    sed \"s, with \\(non-\\)\\?directory 's/.*, with \\1directory,\" u.err | sort >u.err2
                    diff u.err2 v.err2; grep -q user.k u.look && echo looked"
                ),
            );
            if output.status.code() == Some(99) {
                return skipped(&format!("no attributes or ACLs: {}", stderr(&output)));
            }
            if stdout(&output) != "looked\n" {
                differ.push(format!("{options} {dry}: {}{}", stdout(&output), stderr(&output)));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// The connection is cut, or the receiver killed, in the middle of a large file and of small ones.
#[test]
fn a_copy_that_was_cut_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; head -c 60M /dev/urandom >s/big; for i in $(seq 200); do echo $i >s/d/f$i; done
        truncate -s 40M s/holes; head -c 5M /dev/urandom | dd of=s/holes bs=1M seek=20 conv=notrunc status=none
        printf '#!/bin/sh\nshift\nstdbuf -o0 head -c $CUT | \"$@\"\n' >cut
        printf '#!/bin/sh\nshift\ntee -a sent | \"$@\"\n' >count; chmod +x cut count
        for CUT in 1000 10000000 20000000 20000000; do
            export CUT; timeout 60 $G cp -aT --resume --streams 1 --rsh ./cut --remote-gush $G s h:t 2>/dev/null && echo whole
        done
        $G cp -aT --resume --streams 2 --rsh ./count --remote-gush $G s h:t || exit
        diff -r s t && echo same; ls -A . t | grep gush; stat -c %s sent; rm sent
        $G cp -aT --resume --rsh ./count --remote-gush $G s h:t; stat -c %s sent; ls -A | grep gush
        diff -r s t && echo same",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let &["same", second, third, "same"] = &lines[..] else { panic!("{output:?}") };
    let [second, third] = [second, third].map(|text| text.parse::<u64>().unwrap());
    // 65 MiB of data, of which 50 MB arrived before; ranges of 256 KiB that were cut come again.
    assert!((18_000_000..20_500_000).contains(&second), "{second}");
    assert!(third < 100_000, "{third}");
}

/// Text on the line is less than the files have, noise is not more, and the copies are equal.
#[test]
fn data_is_compressed_on_the_line_alone() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; seq 1000000 >s/text; for i in $(seq 200); do seq 2000 >s/d/f$i; done
        truncate -s 40M s/hole; seq 100000 >>s/hole; head -c 2M /dev/urandom >s/noise
        printf '#!/bin/sh\nshift\ntee -a sent | \"$@\"\n' >count
        printf '#!/bin/sh\nshift\nstdbuf -o0 head -c 2500000 | \"$@\"\n' >cut; chmod +x count cut
        copy() { timeout 60 $G cp -aT --compress --remote-gush $G \"$@\" s h:t; }
        copy --verify --streams 1 --limit 1G --rsh ./count && diff -r s t && stat -c %s sent
        [ $(stat -c %b t/hole) -lt 8000 ] && rm -r t sent
        copy --resume --streams 1 --rsh ./cut 2>/dev/null; copy --resume --rsh ./count; diff -r s t && echo same",
    );
    let said = stdout(&output);
    let Some((sent, "same\n")) = said.split_once('\n') else { panic!("{output:?}") };
    // 9 MB of text, of which zstd leaves less than a third, and 2 MiB of noise. Whether compression
    // pays is not measured before 12 MiB.
    assert!((2_100_000..6_000_000).contains(&sent.parse().unwrap()), "{sent}");
}

/// No file of such a copy gets the time of its source, by which it would be found to be complete.
#[test]
fn a_resumed_copy_that_does_not_keep_times_warns() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; touch s/a; $C -rT --resume s h:t; echo >&2
        for option in -p --preserve=timestamps; do $C -rT --resume $option s h:t; done",
    );
    let said = stderr(&output);
    assert!(said.contains("all files are sent again\n\n"), "{said}");
    assert!(said.ends_with("again\n\n"), "{said}");
}

/// The source has a file with the name under which the receiver would keep parts of another one.
#[test]
fn a_file_named_as_the_parts_of_another_is_copied_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir s; for name in img a; do
            head -c 20M /dev/urandom >s/$name; echo note >s/.$name.gush-partial
        done; echo small >s/small; : >s/.small.gush-partial
        for streams in 1 4; do for way in 's h:' 'h:s '; do for round in 1 2 3; do
            $C -aT --resume --streams $streams ${way}t; diff -r s t; touch s/a s/small
        done; rm -r t; done; done",
    );
    assert_eq!(stdout(&output), "", "{output:?}");
}

/// Another source of the same size is not mixed with what has come of the old one.
#[test]
fn a_source_that_changed_meanwhile_is_sent_anew() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; head -c 30M /dev/urandom >s/big
        printf '#!/bin/sh\nshift\nstdbuf -o0 head -c 20000000 | \"$@\"\n' >cut; chmod +x cut
        timeout 60 $G cp -aT --resume --streams 1 --rsh ./cut --remote-gush $G s h:t 2>/dev/null && echo whole
        ls -A t; head -c 30M /dev/urandom >s/big; $C -aT --resume s h:t; diff -r s t && ls -A t",
    );
    assert_eq!(stdout(&output), ".big.gush-partial\nbig\n", "{output:?}");
}

/// What a rule of `--update` keeps is not removed by a mirror; a device with another number is
/// replaced.
#[test]
fn a_mirror_keeps_special_files_and_links_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; mkfifo s/fifo; ln -s x s/link; echo a >s/file
        mknod s/null c 1 3 2>/dev/null || touch s/null
        for rule in --update=changed -u --resume; do
            cp -a s t; $C -aT --delete $rule -v s h:t; $C -aT --delete $rule -v h:s t; rm -r t
        done
        cp -a s t; rm t/null; mknod t/null c 1 5 2>/dev/null || echo other >t/null
        touch -r s/null t/null; cp -a t u
        $C -aT --delete --update=changed s h:t; diff <(stat -c '%F %t %T' s/null t/null) <(stat -c '%F %t %T' s/null s/null)
        $G cp -aT --delete --update=changed s u; cmp <(stat -c %t%T u/null) <(stat -c %t%T s/null)",
    );
    assert_eq!(stdout(&output), "", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

/// The mount's own entries are not the source's: a mirror knows nothing of them.
#[test]
fn a_mirror_of_one_file_system_removes_nothing_below_another() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_with_mounts(
        dir.path(),
        "mkdir -p s/m t/m; mount -t tmpfs none s/m
        echo keep >t/m/precious; echo gone >t/gone; $C -aTx --delete s h:t; ls t t/m",
    );
    let Some(output) = output else { return };
    assert_eq!(stdout(&output), "t:\nm\n\nt/m:\nprecious\n", "{output:?}");
}

/// Hard links of empty files: all is on the first stream, and other workers write there.
#[test]
fn questions_on_several_streams_are_all_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; for i in $(seq 300); do : >s/a$i; ln s/a$i s/b$i; done
        for option in --update --resume; do
            timeout 60 $C -aT $option --streams 4 s h:t$option || echo failed; diff -r s t$option
        done; find t--resume -links 2 -type f | wc -l",
    );
    assert_eq!(stdout(&output), "600\n", "{output:?}");
}

/// Before a file is complete, its bytes count, and what they are of: lines in a log come each
/// second.
#[test]
fn the_progress_of_one_file_is_shown_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let copy = "$C --streams 1 --limit 4M --progress=always";
    for operands in ["s h:t", "h:s t"] {
        let output =
            remote(dir.path(), &format!("head -c 12M /dev/urandom >s; {copy} {operands}; cmp s t"));
        let said = stderr(&output);
        let lines = said.lines().filter(|line| line.contains("0 of 1 files, ")).count();
        assert!(lines > 0 && said.contains(" of 12 MiB, "), "{output:?}");
        let last = said.lines().last();
        assert!(last.is_some_and(|line| line.contains("1 file, 12 MiB, ")), "{output:?}");
        assert_eq!(stdout(&output), "");
    }
}

/// The first connection, to or from the other machine, is enough.
#[test]
fn a_connection_that_cannot_be_had_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; for i in $(seq 300); do echo $i >s/$i; done; head -c 9M /dev/urandom >s/big
        printf '#!/bin/sh\nshift\necho >>started; mkdir one 2>/dev/null || exit 1; exec \"$@\"\n' >once; chmod +x once
        for way in 's h:t' 'h:s u'; do
            # The copy lasts until the others have failed.
            $G cp -aT --limit 4M --streams 3 --rsh ./once --remote-gush $G $way || echo failed
            rmdir one; wc -l <started; rm started
        done; diff -r s t && diff -r s u && echo same",
    );
    assert_eq!(stdout(&output), "3\n3\nsame\n", "{output:?}");
    let said = stderr(&output);
    assert_eq!(said.matches("the copy goes on with a stream less").count(), 4, "{said}");
}

/// Only the start of a second connection lets the first one go on.
#[test]
fn a_connection_that_is_slower_than_the_sender_is_not_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        &format!(
            "{HOLD} mkdir s; for i in $(seq 9); do head -c 5M /dev/urandom >s/$i; done
            export UNTIL='[ $(wc -l <started) -gt 1 ]'
            timeout 60 $H -r s h:t; timeout 60 $H -r h:s u; diff -r s t && diff -r s u && echo same"
        ),
    );
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

/// What fits through the first connection needs no other. Where much is to be sent, the others do
/// not wait for the first one, which here answers when they are started.
#[test]
fn a_copy_starts_as_many_connections_as_it_is_worth() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s l/d; echo a >s/a; head -c 65M /dev/urandom >l/d/large
        printf '#!/bin/sh\nshift\necho >>started; exec \"$@\"\n' >count
        printf '#!/bin/sh\n[ $1 != -oBatchMode=yes ] || shift\nshift\necho >>started; ! mkdir one 2>/dev/null ||
            until [ $(wc -l <started) = 4 ]; do sleep 0.02; done; exec \"$@\"\n' >ssh; chmod +x count ssh
        for way in 's h:t' 'h:s u'; do
            $G cp -r --rsh ./count --remote-gush $G $way || echo failed; wc -l <started; rm started
        done
        timeout 60 $G cp -r --rsh ./ssh --remote-gush $G l h:v || echo failed; wc -l <started
        diff -r s t && diff -r s u && diff -r l v && echo same",
    );
    assert_eq!(stdout(&output), "1\n1\n4\nsame\n", "{output:?}");
}

/// The login of the first connection lets in those after it, as with ControlMaster and a host key
/// to be confirmed: those that were started before have failed, without a word.
#[test]
fn connections_that_fail_before_the_first_login_are_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        &format!(
            "{HOLD} cat >ssh <<'END'
#!/bin/sh
case $1 in
    -oBatchMode=yes) shift; [ -e in ] || {{ echo >>failed; echo no login >&2; exit 255; }};;
    *) until [ $(wc -l <failed) = 3 ]; do sleep 0.02; done; : >in;;
esac
exec ./hold \"$@\"
END
            chmod +x ssh; : >failed; mkdir s; head -c 65M /dev/urandom >s/large
            export UNTIL='[ $(wc -l <started) = 4 ]'
            timeout 60 $G cp -r --rsh ./ssh --remote-gush $G s h:t && diff -r s t && wc -l <failed"
        ),
    );
    assert_eq!((stdout(&output), stderr(&output)), ("3\n".into(), String::new()));
}

/// Such as a further connection that comes when the copy has ended.
#[test]
fn a_server_whose_other_side_is_gone_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "$G serve-tree </dev/null >/dev/null || exit
        exec 3> >(:); wait $!; $G serve-tree </dev/zero >&3",
    );
}

/// sshd has closed the error stream by then.
#[test]
fn a_receiver_whose_messages_nobody_reads_ends() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkfifo read; (exec 3<read; sleep 0.2; exec 3<&-; sleep 1; echo junk) | timeout 20 $G serve-tree 2>read
        status=${PIPESTATUS[1]}; echo; echo $status",
    );
    let status = stdout(&output);
    let status = status.lines().last().unwrap_or_default();
    // By SIGPIPE, as a message that nobody reads ends it, or by its own status.
    assert!(matches!(status, "141" | "1"), "{output:?}");
}

/// A failed entry leaves the copy to be resumed, not to be copied into.
#[test]
fn a_copy_with_a_failed_entry_is_resumed_by_the_same_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; echo a >s/a; echo b >s/b; mkfifo s/p; chmod 0 s/b
        run() { setpriv --reuid=65534 --regid=65534 --clear-groups $C \"$@\"; }
        [ $(id -u) = 0 ] || { echo lacks; exit 0; }
        chmod 777 .; run -rT --resume s h:t; echo $?; chmod 644 s/b; run -rT --resume s h:t; echo $?
        ls t",
    );
    if stdout(&output).contains("lacks") {
        return skipped("needs root, to become another user");
    }
    assert_eq!(stdout(&output), "1\n0\na\nb\np\n", "{output:?}");
}

#[test]
fn few_descriptors_are_enough_for_many_questions() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir s e d; for i in $(seq 800); do mkdir s/d$i; echo >s/d$i/f; echo >e/f$i; done
        ln -s e link; ulimit -n 400; $C -a --update s h:t; diff -r s t; $C -aT --resume --streams 3 s h:u; diff -r s u
        $C -a --update e/* h:d; diff -r e d; mkdir x; $C -r --update s link/f1 h:x; cmp e/f1 x/f1",
    );
}

#[test]
fn a_link_that_is_named_as_the_target_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "echo f >f; echo real >real; ln -s real link; $C f h:link; echo $?; cat real; readlink link
        $C h:f link; echo $?; cat real; $C h:f ''; echo $?",
    );
    assert_eq!(stdout(&output), "1\nreal\nreal\n1\nreal\n1\n", "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("'link' is a symbolic link") && said.contains("no name"), "{said}");
}

/// The walk waits for room, and no answer comes for a file that is wanted and cannot be read.
#[test]
fn files_that_cannot_be_read_do_not_stop_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir s; (cd s; touch $(seq 6000); chmod 0 *); chmod 777 .
        printf '#!/bin/sh\nshift\n{ sleep 1; cat; } | \"$@\"\n' >late; chmod +x late
        timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups \
            $G cp -r --update=changed --rsh ./late --remote-gush $G s h:t; echo $?",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    assert_eq!(stdout(&output), "1\n");
    assert_eq!(stderr(&output).lines().count(), 6000);
}
