//! Trees arrive whole, whatever they are made of, and with few descriptors.

use std::fs;

use super::{remote, remote_succeeds};
use crate::common::cp::{names, stderr, stdout};
use crate::common::skipped;

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
            chmod 500 s/empty
            [ $(id -u) != 0 ] ||
                {{ chown 1001:1002 s/d s/big; chmod 4711 s/big; mknod s/null c 1 3; chmod 0 s/empty; }}
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
fn directories_that_were_left_do_not_use_up_the_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir s; for i in $(seq 400); do mkdir s/d$i; echo >s/d$i/f; ln s/d$i/f s/d$i/g; done
        ulimit -n 330; $C -a s h:t; [ $(find t -links 2 -type f | wc -l) = 800 ]",
    );
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
