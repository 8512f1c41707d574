//! `--delete`: what a mirror on the other machine keeps and removes.

use super::{remote, remote_with_mounts};
use crate::common::cp::{stderr, stdout};

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

/// It is a part of the source, read or not, whichever name it has in the target.
#[test]
fn a_mirror_spares_what_is_mounted_in_its_source() {
    for copy in ["$G cp -aT --delete s d", "$C -aT --delete s h:d", "$C -aT --delete h:s d"] {
        for (of, options, spared, ended) in [
            ("d/x", "", "d/other/s d/x/deep/g d/x/f", "1"),
            ("d/x/deep", "", "d/other/s d/x/deep/g", "1"),
            // The source has this directory, too, without what is in it.
            ("d/other", "", "d/other/o d/other/s", "1"),
            ("d/x", "--exclude /sub", "d/other/s d/x/deep/g d/x/f", "1"),
            // Nothing of the target is copied into itself, and what it has too much goes.
            ("d", "--exclude /sub", "d/other/s", "0"),
            ("d", "", "d/other/s", "1"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let output = remote_with_mounts(
                dir.path(),
                &format!(
                    "mkdir -p s/other s/sub d/x/deep d/gone d/other; echo f >d/x/f; echo g >d/x/deep/g
                    echo o >d/gone/o; echo o >d/other/o; echo s >s/other/s
                    mount --bind {of} s/sub; {copy} {options}; echo $?; umount s/sub
                    find d -path d/sub -prune -o -type f -print | sort | xargs"
                ),
            );
            let Some(output) = output else { return };
            let kept = format!("{ended}\n{spared}\n");
            assert_eq!(stdout(&output), kept, "{copy} {options} {of}: {output:?}");
            let is_named = stderr(&output).contains("is the source or holds the source");
            assert_eq!(is_named, of != "d" && ended == "1", "{copy} {of}: {output:?}");
        }
    }
}

/// Without a name of the boot neither side knows the files of the other again.
#[test]
fn a_mirror_removes_nothing_where_proc_does_not_name_the_boot() {
    for operands in ["s h:t", "h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote_with_mounts(
            dir.path(),
            &format!(
                "mkdir -p s/m t/x; echo f >t/x/f; echo a >s/a; mount --bind t/x s/m
                mount -t tmpfs none /proc/sys/kernel/random
                $C -aT --delete {operands}; echo $?; cat t/x/f t/a"
            ),
        );
        let Some(output) = output else { return };
        assert_eq!(stdout(&output), "1\nf\na\n", "{operands}: {output:?}");
    }
}

/// `-x` leaves out what is mounted in the source, which is not removed for that.
#[test]
fn a_mirror_of_one_file_system_spares_what_is_mounted_in_its_source() {
    for operands in ["$G cp -aTx --delete s m/t", "$C -aTx --delete s h:m/t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote_with_mounts(
            dir.path(),
            &format!(
                "mount -t tmpfs none m; mkdir -p m/t/old m/t/gone s/m; echo p >m/t/old/f
                mount --bind m/t/old s/m; {operands}; echo $?; ls m/t; cat m/t/old/f"
            ),
        );
        let Some(output) = output else { return };
        assert_eq!(stdout(&output), "1\nm\nold\np\n", "{operands}: {output:?}");
        let why = "'m/t/old' is the source or holds the source";
        assert!(stderr(&output).contains(why), "{operands}: {output:?}");
    }
}

/// A file can be mounted, too. What is not mounted goes.
#[test]
fn a_mirror_spares_a_file_that_is_mounted_in_its_source() {
    for copy in ["$G cp -aT --delete s t", "$C -aT --delete s h:t", "$C -aT --delete h:s t"] {
        for file in ["t/y", "t/old/y"] {
            for dry in ["", "--dry-run"] {
                let dir = tempfile::tempdir().unwrap();
                let output = remote_with_mounts(
                    dir.path(),
                    &format!(
                        "mkdir -p s t/old; echo y | tee t/y t/old/y >t/z; touch s/x
                        mount --bind {file} s/x; {copy} {dry} >said; echo $?; umount s/x; cat {file}
                        grep -c 'remove.*t/z' said; find t -name '[yz]' | wc -l"
                    ),
                );
                let Some(output) = output else { return };
                let expected = if dry.is_empty() { "1\ny\n0\n1\n" } else { "1\ny\n1\n3\n" };
                assert_eq!(stdout(&output), expected, "{copy} {file} {dry}: {output:?}");
                let why = format!("'{file}' is the source or holds the source");
                assert!(stderr(&output).contains(&why), "{copy} {file} {dry}: {output:?}");
            }
        }
    }
}

/// Where it is not known what is mounted in the source: without /proc, with a path that readlink(2)
/// does not report, and below a mount.
#[test]
fn a_mirror_removes_nothing_where_mounts_are_not_known() {
    let long =
        "top=$PWD; for level in $(seq 20); do mkdir $(printf %0250d 1); cd $(printf %0250d 1); done
        mkdir s; echo x >s/x";
    for copy in ["$G cp -aT --delete s $top/t", "$C -aT --delete s h:$top/t"] {
        for (unknown, is_known) in [
            ("mount -t tmpfs none /proc; top=.", false),
            ("mkdir u; mv s u; top=$PWD; cd u; mount -t tmpfs none $top/u", false),
            (long, false),
            ("top=.", true),
        ] {
            let copy = copy.replace("./shell", "$top/shell");
            let dir = tempfile::tempdir().unwrap();
            let output = remote_with_mounts(
                dir.path(),
                &format!(
                    "C=\"$G cp --rsh $PWD/shell --remote-gush $G\"; mkdir s t; echo x >s/x; echo y >t/y; mkdir t/old
                    {unknown}; {copy}; echo $?; ls $top/t"
                ),
            );
            let Some(output) = output else { return };
            let expected = if is_known { "0\nx\n" } else { "1\nold\nx\ny\n" };
            assert_eq!(stdout(&output), expected, "{copy} {unknown}: {output:?}");
            let is_named =
                stderr(&output).contains("may be mounted in the source: its mounts cannot be read");
            assert_eq!(is_named, !is_known, "{copy} {unknown}: {output:?}");
        }
    }
}

/// A mount that nobody reaches is no part of the source. Where others may reach it, or a copy does
/// so from below a cover, nothing is removed.
#[test]
fn a_mirror_removes_nothing_that_a_mount_in_its_source_may_hold() {
    let as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    for copy in ["$G cp -aT --delete $s t", "$C -aT --delete $s h:t", "$C -aT --delete h:$s t"] {
        for (mounts, run, is_spared) in [
            ("mount --bind t/x s/p/d; mount -t tmpfs none s/p", "", false),
            ("mount --bind t/x s/p/d; mount -t tmpfs none $PWD/s; s=/proc/self/fd/7", "", true),
            ("mount --bind t/x s/p/d; chmod 0 s/p", as_nobody, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let copy = copy.replace("$G", "./gush");
            let output = remote_with_mounts(
                dir.path(),
                &format!(
                    "cp $G gush; G=./gush; mkdir -p s/p/d t/x; echo f >t/x/f; echo a >s/a; chown -R 65534 s t
                    chmod 777 .; C=\"$G cp --rsh ./shell --remote-gush $G\"; s=s; exec 7<s
                    {mounts}; {run} {copy}; echo $?; cat t/x/f"
                ),
            );
            let Some(output) = output else { return };
            let is_kept = stdout(&output).ends_with("\nf\n");
            assert_eq!(is_kept, is_spared, "{copy} {mounts}: {output:?}");
            assert_eq!(
                stdout(&output).starts_with("1\n"),
                is_spared,
                "{copy} {mounts}: {output:?}"
            );
        }
    }
}

/// Any name of a file may be the first; what has one of them goes.
#[test]
fn a_dry_run_reports_what_makes_way_for_each_name_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; echo f >s/a; ln s/a s/b
        for way in 's h:t' 'h:s t'; do
            mkdir -p t/a t/b; $C -aTv --delete --dry-run $way | sed 's/would remove/removed/;s/would copy //' >dry
            $C -aTv --delete $way >run; grep -c removed run; diff <(sort dry) <(sort run); rm -r t
        done",
    );
    assert_eq!(stdout(&output), "2\n2\n", "{output:?}");
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
        for rule in --update=changed -u --resume --checksum; do
            cp -a s t; $C -aT --delete $rule -v s h:t; $C -aT --delete $rule -v h:s t
            [ $rule = --resume ] || $G cp -aT --delete $rule -v s t; rm -r t
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
