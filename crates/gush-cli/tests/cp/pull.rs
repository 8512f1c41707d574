//! `gush cp HOST:SOURCE DEST`, with a remote shell that runs the command on this machine.

use std::fs;

use crate::common::cp::{fails, names, stderr, stdout};
use crate::common::skipped;
use crate::remote::{
    a_tree_arrives_by, decides_as_a_local_copy, remote, remote_succeeds, remote_with_mounts,
};

#[test]
fn a_tree_comes_with_all_its_metadata() {
    for streams in ["", "--streams 1", "--streams 4", "--streams 3 --compress"] {
        a_tree_arrives_by(&format!("$C -a --verify {streams} h:s t"));
    }
}

#[test]
fn a_copy_from_another_machine_decides_as_a_local_one() {
    decides_as_a_local_copy("h:s v");
}

#[test]
fn the_target_of_a_pull_is_named_as_in_a_local_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir -p s/d there u v w home; echo 1 >s/d/f; echo 2 >g; ln -s g l; mkdir x; echo x >x/g
        $C -r h:s new; $C -rv h:s/ there; $C -rT h:s exact; $C -rT h:s exact; $C -v h:s/d/f named
        $C -rv h:s/d/ h:g u; $C -t v -P h:g h:l; $C h:l followed; cd s; C=${C/.\\//../}
        $C -r h:. ../w; export HOME=$PWD/../x; $C 'h:~/g' ../home",
    );
    for path in
        ["new/d/f", "there/s/d/f", "exact/d/f", "u/d/f", "u/g", "v/g", "w/d/f", "home/g", "named"]
    {
        assert!(dir.path().join(path).is_file(), "{path}");
    }
    assert!(!dir.path().join("exact/s").exists());
    assert!(dir.path().join("v/l").is_symlink() && !dir.path().join("followed").is_symlink());
    let said = stdout(&output);
    for line in
        ["'h:s/d' -> 'there/s/d'", "'h:s/d/f' -> 'named'", "'h:s/d/f' -> 'u/d/f'", "'h:g' -> 'u/g'"]
    {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

/// A later operand has the same names.
#[test]
fn a_link_to_a_file_that_was_replaced_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    for copy in ["h:x/s h:y/s h:x/z t", "x/s y/s x/z h:t"] {
        remote_succeeds(
            dir.path(),
            &format!(
                "rm -rf x y t; mkdir -p x/s y/s x/z t; echo x >x/s/f; echo y >y/s/f
                ln x/s/f x/z/l; $C -a {copy}; cat t/s/f t/z/l >said"
            ),
        );
        assert_eq!(fs::read_to_string(dir.path().join("said")).unwrap(), "y\nx\n", "{copy}");
    }
}

/// As `..` does, it names a directory that is there.
#[test]
fn a_dot_at_the_end_of_the_target_is_the_directory_itself() {
    let dir = tempfile::tempdir().unwrap();
    for (source, target) in [("", "h:"), ("h:", "")] {
        let output = remote(
            dir.path(),
            &format!(
                "rm -rf s real lnk; mkdir s real; echo f >s/f; ln -s f s/l; ln -s real lnk
                $C -aT {source}s/l {target}lnk/. 2>/dev/null; echo $?; $C -aT {source}s {target}lnk/.
                $C {source}s/f {target}nn/. 2>/dev/null; echo $?; ls -d lnk/f nn; readlink lnk"
            ),
        );
        assert_eq!(stdout(&output), "1\n1\nlnk/f\nreal\n", "{target}: {output:?}");
    }
}

#[test]
fn what_fails_at_the_sender_is_shown_here() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir t; mkfifo p; echo f >f; esc=$(printf 'e\\033[2Jc')
        $C h:/proc/version h:/dev/null h:p h:missing \"h:$esc\" h:f t; echo $?
        $C -r --json h:missing t/new; echo $?",
    );
    let (said, records) = (stderr(&output), stdout(&output));
    for part in [
        "cp: h: '/proc/version' could not be read: its size is 0, and it has content",
        "cp: h: '/dev/null' is a special file",
        "cp: h: 'p' is a special file",
        "cp: h: cannot stat 'missing': No such file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\x1b'), "{said}");
    assert!(records.starts_with("1\n") && records.ends_with("\n1\n"), "{records}");
    let json = r#"{"source":"h:missing","target":"t/new","#;
    assert!(records.contains(json) && records.contains("cannot stat 'missing'"), "{records}");
    assert_eq!(names(&dir.path().join("t")), ["f"]);
}

#[test]
fn a_source_that_changes_meanwhile_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "head -c 3M /dev/zero >f
        # More follows than the pipe holds.
        printf '#!/bin/sh\nshift\n\"$@\" | { head -c 100000; echo >>f; cat; }\n' >shell; $C h:f t; echo $?",
    );
    assert_eq!(stdout(&output), "0\n");
    let said = stderr(&output);
    assert!(said.contains("h: warning: 'f' changed while it was being copied"), "{said}");
}

#[test]
fn records_name_the_target_of_what_the_other_side_could_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir -p s/d/e there; echo f >s/d/e/f; chmod 0 s/d/e/f; chmod 777 . there
        for target in new there; do
            setpriv --reuid=65534 --regid=65534 --clear-groups $C -r --json h:s $target
        done | grep -o '\"target\":\"[^\"]*/f\"'",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    let wanted = "\"target\":\"new/d/e/f\"\n\"target\":\"there/s/d/e/f\"\n";
    assert_eq!(stdout(&output), wanted, "{output:?}");
}

#[test]
fn directories_that_may_not_be_searched_there_do_not_end_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir -p s/a s/no/in s/list/in s/z o; for d in a no list z; do echo $d >s/$d/f; done
        chmod 0 s/no; chmod 444 s/list; chmod 777 . o; chmod 0 s/z/f; echo k >s/z/k
        setpriv --reuid=65534 --regid=65534 --clear-groups $C -r h:s h:s/no o; echo $?
        cat o/s/a/f o/s/z/k; ls o o/s/z",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    let said = stderr(&output);
    assert_eq!(stdout(&output), "1\na\nk\no:\nno\ns\n\no/s/z:\nk\n", "{said}");
    for part in [
        "h: cannot access 's/no': Permission denied",
        "'s/list/f': Permission denied",
        "cannot open 's/z/f' for reading: Permission denied",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn operands_of_which_no_pull_can_be_made_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    for (operands, why) in [
        (&["h:a", "a", "."][..], "some sources are on another machine"),
        (&["h:a", "i:a", "."], "the sources are on several machines"),
        (&["h:a", "h:b"], "cannot both be on another machine"),
        (&["h:", "."], "names no source"),
        (&["-b", "h:a", "."], "--backup is not served"),
        (&["h:a", "h:b", "none"], "target 'none': No such file"),
        (&["h:a", "/dev/null"], "'/dev/null' is a special file"),
        (&["--", "-oProxyCommand=x:t", "."], "cannot start with '-'"),
    ] {
        let said = fails(dir.path(), &[&["--rsh", "touch"], operands].concat());
        assert!(said.contains(why), "{operands:?}: {said}");
    }
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn what_comes_from_another_machine_is_shown_as_in_a_local_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "C=\"$G cp --rsh $PWD/shell --remote-gush $G\"; mkdir -p s/d in; echo >s/d/x; cd in
        for target in .. . ../new; do $G cp -rvT ../s $target; $C -rvT h:../s $target; done | sed -n 's,h:,,;/d.x/p' | sort | uniq -c
        $C --json h:none . 2>/dev/null",
    );
    let said = stdout(&output);
    assert!(said.contains("'../s/d/x' -> '../d/x'") && !said.contains("    1 '"), "{output:?}");
    // The number is that of the other machine.
    assert!(said.contains("\"errno\":2,"), "{output:?}");
}

/// The connection is cut in the middle of a large file and of small ones.
#[test]
fn a_pull_that_was_cut_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; head -c 60M /dev/urandom >s/big; for i in $(seq 200); do echo $i >s/d/f$i; done
        printf '#!/bin/sh\nshift\n\"$@\" 2>/dev/null | { stdbuf -o0 head -c $CUT; kill $$; }\n' >cut
        printf '#!/bin/sh\nshift\n\"$@\" | tee -a sent\n' >count; chmod +x cut count
        for CUT in 1000 10000000 20000000 20000000; do
            export CUT; timeout 60 $G cp -aT --resume --streams 1 --rsh ./cut --remote-gush $G h:s t 2>/dev/null && echo whole
        done
        $G cp -aT --resume --rsh ./count --remote-gush $G h:s t || exit
        diff -r s t && echo same; ls -A . t | grep gush; stat -c %s sent; rm sent
        $G cp -aT --resume --rsh ./count --remote-gush $G h:s t; stat -c %s sent; ls -A | grep gush
        diff -r s t && echo same",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let &["same", second, third, "same"] = &lines[..] else { panic!("{output:?}") };
    let [second, third] = [second, third].map(|text| text.parse::<u64>().unwrap());
    // 63 MB of data, of which 50 MB came before; ranges of 256 KiB that were cut come again.
    assert!((12_500_000..16_000_000).contains(&second), "{second}");
    assert!(third < 100_000, "{third}");
}

/// One side is killed in the middle of a large file, while the line stands still.
#[test]
fn a_pull_of_which_a_side_was_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; head -c 60M /dev/urandom >s/big; echo small >s/d/f; mkfifo never
        cat >stuck <<'END'
#!/bin/sh
shift
sh -c 'echo $$ >sender; exec \"$@\"' - \"$@\" | { stdbuf -o0 head -c 30000000; echo >half; cat never; }
END
        printf '#!/bin/sh\nshift\n\"$@\" | tee -a sent\n' >count; chmod +x stuck count
        waits() { timeout 60 bash -c \"until $1; do sleep 0.05; done\" || echo late; }
        for killed in sender receiver; do
            rm -rf half sent t
            timeout 60 $G cp -aT --resume --streams 1 --rsh ./stuck --remote-gush $G h:s t 2>/dev/null & receiver=$!
            waits '[ -e half ]'; sender=$(cat sender)
            case $killed in
                sender) kill -9 $sender;;
                receiver) kill -9 $(pgrep -P $receiver); waits \"! kill -0 $sender 2>/dev/null\";;
            esac
            : <>never; wait $receiver && echo whole; ls -A t
            $G cp -aT --resume --rsh ./count --remote-gush $G h:s t || exit
            diff -r s t && echo same; ls -A t | grep gush; stat -c %s sent
        done",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 8, "{output:?}");
    for lines in lines.chunks(4) {
        let [".big.gush-partial", "d", "same", sent] = lines else { panic!("{output:?}") };
        // Of 63 MB of data 30 MB came before; what is in a pipe and a range of 256 KiB comes again.
        assert!((32_000_000..36_000_000).contains(&sent.parse().unwrap()), "{sent}");
    }
}

/// Each side knows the user by another number.
#[test]
fn owners_come_by_name_or_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_with_mounts(
        dir.path(),
        "for side in here:4321 there:1234; do
            { echo root:x:0:0::/:/bin/sh; echo alice:x:${side#*:}:0::/:/bin/sh; } >${side%:*}
        done
        mount --bind here /etc/passwd; echo f >s; chown 1234:0 s
        cat >shell <<'END'
#!/bin/sh
shift
exec unshare -m sh -c 'mount --bind there /etc/passwd; exec \"$@\"' - \"$@\"
END
        $C -a h:s by-name; $C -a --numeric-ids h:s by-number; stat -c %u by-name by-number",
    );
    let Some(output) = output else { return };
    assert_eq!(stdout(&output), "4321\n1234\n", "{output:?}");
}

#[test]
fn options_of_the_line_hold_in_a_pull() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir s; seq 1000000 >s/text; echo 2 >s/b
        printf '#!/bin/sh\nshift\n\"$@\" | tee sent\n' >shell
        $C -r --compress --streams 1 h:s t; stat -c %s sent; diff -r s t
        begun=$(date +%s%N); $C --limit 4M --streams 1 h:s/text limited; echo $(( $(date +%s%N) - begun ))
        $C -r --json h:s j | grep -v '^{\"files\"' | sort",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let [sent, limited_ns, records @ ..] = &lines[..] else { panic!("{output:?}") };
    // 7 MB of text, of which zstd leaves less than a third.
    assert!(sent.parse::<u64>().unwrap() < 3_000_000, "{sent}");
    assert!(limited_ns.parse::<u64>().unwrap() > 1_000_000_000, "{limited_ns}");
    for (source, target) in [("h:s/b", "j/b"), ("h:s/text", "j/text")] {
        let start = format!(r#"{{"source":"{source}","target":"{target}","action":"copied""#);
        assert!(records.iter().any(|record| record.starts_with(&start)), "{start}: {said}");
    }
}

/// Three seconds' worth of files: the rate is shown before the end.
#[test]
fn the_progress_of_a_pull_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; for i in $(seq 12); do head -c 512K /dev/zero >s/$i; done
        $C -r --progress=always --limit 2M h:s t 2>err; echo $?; tr '\\r' '\\n' <err | grep -c \"B/s: 'h:s/\"
        tail -n 1 err",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let ["0", shown, last] = lines[..] else { panic!("{output:?}") };
    assert!(shown.parse::<u32>().unwrap() > 0 && last.contains("cp: 12 files, 6 MiB, "), "{said}");
}

/// The line swaps bytes of a file's data, which only its hash shows.
#[test]
fn bytes_that_change_on_the_line_are_noticed_by_verify() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s t; echo needle >s/f; echo other >s/g
        cat >shell <<'END'
#!/usr/bin/python3
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
while data := os.read(child.stdout.fileno(), 65536):
    os.write(1, data.replace(b'needle', b'nettle'))
sys.exit(child.wait())
END
        $C --verify h:s/f h:s/g t; echo $?; ls t; $C --verify --json h:s/g u; $C --verify --json h:s/f v",
    );
    let (said, shown) = (stderr(&output), stdout(&output));
    assert!(said.contains("verification of 't/f' failed: blake3 "), "{said}");
    let Some(json) = shown.strip_prefix("1\ng\n") else { panic!("{output:?}") };
    assert!(json.contains(r#""verified":true"#), "{json}");
    assert!(json.contains(r#""what":"verification failed: blake3 "#), "{json}");
}
