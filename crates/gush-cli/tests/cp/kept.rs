//! What is unchanged stays, and its attributes are brought up to date: `--checksum`,
//! `--update=changed`, between machines too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::cp::{script, stderr, stdout};
use crate::common::{nobody, skipped, strace};
use crate::remote::remote;

/// May files get capabilities here?
fn capabilities() -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let tried = script(dir.path(), "touch f; setcap cap_net_raw+ep f && getcap f");
    match stdout(&tried).contains("cap_net_raw") {
        true => Ok(()),
        false => Err(format!("needs setcap and getcap (libcap2-bin): {}", stderr(&tried).trim())),
    }
}

/// One entry of each kind in `s`, `t` as its copy, and then other attributes in `s`. `look` prints
/// all attributes but the time of access.
const CHANGED: &str = r#"
    mkdir -p s/d; echo f >s/f; echo g >s/d/g; ln -s to s/l; mkfifo s/p; echo x >s/x; echo c >s/c
    echo m >s/m; setfattr -n user.k -v old s/x; setfacl -m u:1234:rw s/c s/d
    touch -hd '2001-02-03 04:05:06.123456789' s/f s/d/g s/l s/p s/x s/c s/m
    $G cp -a s t || exit 9
    look() { (cd $1; find . -printf '%P %M %U %G %T@ %l\n' | sort; getfacl -Rnp .
        find . ! -type l -exec getfattr -hd {} +) >look.$1; }
    inodes() { (cd t; find . -printf '%P %i\n' | sort); }
    chmod 600 s/f; chmod 440 s/d/g; chmod 600 s/p; chmod 700 s/d
    setfattr -n user.k -v new s/x; setfattr -n user.more -v 1 s/x; chmod 400 s/x
    setfacl -b s/c; chmod 604 s/c; setfacl -m u:77:r s/m
    [ $(id -u) != 0 ] || { chown -h 5:6 s/l s/p s/d/g; chmod 6711 s/d/g; mknod s/n c 1 3
        $G cp -a s/n t; chown 7:8 s/n; chmod 640 s/n; }
"#;

/// `$N` runs a program as a user without privileges.
const NOBODY: &str = "N='setpriv --reuid 65534 --regid 65534 --clear-groups';";

/// What a script prints that must not fail.
fn says(dir: &Path, text: &str) -> String {
    let output = script(dir, text);
    assert!(output.status.success() && stderr(&output).is_empty(), "{text}: {output:?}");
    stdout(&output)
}

/// `copy` brings `t` up to date.
fn brings_up_to_date(copy: &str) {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "{CHANGED} inodes >before
        {copy} || exit 8
        look s; look t; diff look.s look.t; inodes | diff before -"
    );
    let output = remote(dir.path(), &text);
    assert!(output.status.success() && stderr(&output).is_empty(), "{copy}: {output:?}");
    assert_eq!(stdout(&output), "", "{copy}");
}

#[test]
fn unchanged_entries_of_each_kind_get_the_attributes_of_the_source() {
    for options in ["--update=changed", "--delete --update=changed", "--update=changed --threads 1"]
    {
        brings_up_to_date(&format!("$G cp -aT {options} s t"));
        brings_up_to_date(&format!("$C -aT {options} s h:t").replace("--threads 1", "--streams 1"));
        brings_up_to_date(&format!("$C -aT {options} h:s t").replace("--threads 1", "--streams 1"));
    }
    brings_up_to_date("$C -aT --resume s h:t");
    brings_up_to_date("$C -aT --resume h:s t");
    // Special files have no content to compare, and are made anew.
    for copy in ["$G cp -aT --checksum s t", "$C -aT --checksum s h:t", "$C -aT --checksum h:s t"] {
        brings_up_to_date(&format!("rm -f s/[pn] t/[pn]; inodes >before; {copy}"));
    }
}

#[test]
fn times_follow_where_the_bytes_are_equal() {
    for copy in ["$G cp -aT --checksum s t", "$C -aT --checksum s h:t"] {
        brings_up_to_date(&format!(
            "rm -f s/[pn] t/[pn]; touch -hd @987654321.5 s/f s/l s/c; inodes >before; {copy}"
        ));
    }
}

#[test]
fn what_is_equal_is_not_touched() {
    for (copy, sign) in [("$G cp", ""), ("$C", "h:")] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "{CHANGED} rm -f s/[pn] t/[pn]; ln s/f s/d/h
            entries() {{ grep / | grep -v \"^'s/d' -> \"; }}
            state() {{ (cd t; find . ! -type d -printf '%P %C@\\n' | sort); }}
            {copy} -aT --checksum s {sign}t || exit 8
            state >before; {copy} -aTv --checksum s {sign}t | entries
            {copy} -aTv --update=changed s {sign}t | entries; state | diff before -"
        );
        let output = remote(dir.path(), &text);
        assert_eq!((stdout(&output), stderr(&output)), Default::default(), "{copy}");
    }
}

#[test]
fn a_rehearsal_and_the_copy_name_what_gets_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let changed = "mkdir s; echo f >s/f; echo g >s/g; $G cp -a s t; chmod 600 s/f; chmod 644 t/f";
    for (copy, sign) in [("$G cp", ""), ("$C", "h:")] {
        let text = format!(
            "rm -rf s t; {changed}
            {copy} -aT --checksum --dry-run -v s {sign}t | grep -v '^would copy .s. -'
            {copy} -aT --checksum --dry-run --json s {sign}t | grep -o '\"source\":\"s/.*dry_run'
            stat -c %a t/f
            {copy} -aT --checksum -v s {sign}t | grep -v '^.s. -'; stat -c %a t/f
            chmod 640 s/f; {copy} -aT --checksum --json s {sign}t | grep -o '\"action\":\"[as].*'"
        );
        let output = remote(dir.path(), &text);
        let said = stdout(&output).replace("h:t", "t");
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[0], "would update attributes of 't/f'", "{output:?}");
        let mut records = [lines[1], lines[2]];
        records.sort_unstable();
        let record = |name: &str, action: &str| {
            format!(
                "\"source\":\"s/{name}\",\"target\":\"t/{name}\",\"action\":\"{action}\",\"dry_run"
            )
        };
        assert_eq!(records, [record("f", "attributes"), record("g", "skipped")]);
        assert_eq!(lines[3..6], ["644", "updated attributes of 't/f'", "600"], "{said}");
        let rest = lines[6..].join("\n");
        assert!(rest.contains("\"action\":\"attributes\",\"bytes\":0,"), "{rest}");
        assert!(rest.contains("\"action\":\"skipped\""), "{rest}");
    }
}

/// The rules that keep what is newer or there at all, and the copies that preserve nothing.
#[test]
fn other_rules_leave_what_they_keep() {
    let dir = tempfile::tempdir().unwrap();
    for options in [
        "-a -u",
        "-a -n",
        "-a --update=none",
        "-r --checksum",
        "-r --update=changed",
        "--preserve=timestamps,links -r --checksum",
        "-al --update=changed",
    ] {
        for copy in [format!("$G cp {options} -T s t"), format!("$C {options} -T s h:t")] {
            if copy.contains("$C -al") {
                continue;
            }
            let text = format!(
                "rm -rf s t; mkdir s; echo f >s/f; $G cp -a s t; chmod 640 s/f; chmod 604 t/f
                setfattr -n user.k -v v s/f; stat -c %Z t/f >before
                {copy}; stat -c %Z t/f | diff before -; stat -c %a t/f; getfattr t/f"
            );
            let output = remote(dir.path(), &text);
            assert_eq!(
                (stdout(&output), stderr(&output)),
                ("604\n".into(), String::new()),
                "{copy}"
            );
        }
    }
}

/// Attributes belong to a file and not to its name: another name of the target shows them, too.
#[test]
fn a_file_with_other_names_becomes_a_separate_one() {
    for copy in ["$G cp -aT --checksum s t", "$C -aT --checksum s h:t", "$C -aT --checksum h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir s; echo f >s/f; echo same >s/same; $G cp -a s t
                ln t/f earlier; ln t/same earlier.same; chmod 600 s/f; {copy} || exit 1"
            ),
        );
        assert!(output.status.success(), "{output:?}");
        let look = |name: &str| fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!((look("t/f").mode() & 0o777, look("t/f").nlink()), (0o600, 1), "{copy}");
        assert_eq!(look("earlier").mode() & 0o777, 0o644, "{copy}");
        assert_eq!(look("t/same").nlink(), 2, "{copy}");
    }
}

#[test]
fn names_of_one_file_get_their_attributes_together() {
    for copy in ["$G cp -aT --checksum s t", "$C -aT --checksum s h:t", "$C -aT --checksum h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        // `y` of one file and `c` of the other have been linked to each other in `t`.
        let output = remote(
            dir.path(),
            &format!(
                "mkdir s; echo same | tee s/a s/c s/m >/dev/null; ln s/a s/b; ln s/c s/d
                for n in a b c d m; do touch -d @1 s/$n; done; $G cp -a s t; ln -f t/c t/b; ln -f t/a t/d
                chmod 600 s/a; chmod 640 s/c; chmod 604 s/m; {copy}; {copy} -v
                stat -c '%a %h' t/*"
            ),
        );
        assert!(output.status.success(), "{output:?}");
        let said = stdout(&output);
        assert!(said.ends_with("600 2\n600 2\n640 2\n640 2\n604 1\n"), "{copy}: {said}");
    }
}

/// A target with several names is copied anew, since a name outside the copy may show its
/// attributes, too.
#[test]
fn names_outside_the_copy_keep_their_attributes() {
    for program in ["$G cp -aT", "$G cp -aT --atomic", "$G cp -aT --threads=1"] {
        for update in ["changed", "all --checksum"] {
            let dir = tempfile::tempdir().unwrap();
            let output = script(
                dir.path(),
                &format!(
                    "mkdir -p s/d s/e t; echo x >s/d/c; ln s/d/c s/e/b; cp -a s/. t; ln t/d/c out
                    chmod 600 s/d/c; {program} --update={update} s t
                    stat -c '%a %h' out t/d/c t/e/b"
                ),
            );
            let expected = ("644 1\n600 2\n600 2\n".to_owned(), String::new());
            assert_eq!((stdout(&output), stderr(&output)), expected, "{program} {update}");
        }
    }
    for operands in ["s h:t", "h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p s/d s/e t; echo x >s/d/c; ln s/d/c s/e/b; cp -a s/. t; ln t/d/c out
                chmod 600 s/d/c; $C -aT --update=changed {operands}; stat -c '%a %h' out t/d/c t/e/b"
            ),
        );
        let expected = ("644 1\n600 2\n600 2\n".to_owned(), String::new());
        assert_eq!((stdout(&output), stderr(&output)), expected, "{operands}");
    }
}

/// Two files have changed names with each other: both arrive, with new content.
#[test]
fn files_that_changed_names_are_copied() {
    for copy in ["$G cp --threads=1", "$G cp", "$C"] {
        for operands in ["s t", "s h:t", "h:s t"] {
            if operands.contains(':') != copy.starts_with("$C") {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let output = remote(
                dir.path(),
                &format!(
                    "w() {{ echo $2 >$1; chmod $3 $1; touch -d @$4 $1; }}; mkdir -p s/d t/d
                    w s/b x 644 2; ln s/b s/d/a; w s/a y 600 1; ln s/a s/d/b
                    w t/b z 644 2; w t/a z 644 2; ln t/a t/d/a
                    {copy} -aT --update=changed {operands}; echo $?
                    stat -c '%a %h' t/a t/b t/d/a t/d/b; cat t/a t/d/b; cmp t/b t/d/a"
                ),
            );
            let expected = "0\n600 2\n644 2\n644 2\n600 2\ny\ny\n";
            assert_eq!(stdout(&output), expected, "{copy} {operands}: {output:?}");
        }
    }
}

/// A kept file of the target whose name becomes a link to another copy is free for its other name.
#[test]
fn a_file_whose_name_became_a_link_is_written_by_its_other_name() {
    for (copy, sign) in [("$G cp --threads=1", ""), ("$C", "h:")] {
        let dir = tempfile::tempdir().unwrap();
        // The file system decides in which order the names come.
        let output = remote(
            dir.path(),
            &format!(
                "w() {{ echo $2 >$1; touch -d @$3 $1; }}
                for x in a b c d e f g h; do for first in 1 2; do
                    rm -rf s t; mkdir s t; [ $first = 1 ] || w s/$x y 1
                    w s/1$x x 2; ln s/1$x s/2$x; [ $first = 2 ] || w s/$x y 1
                    w t/1$x x 2; w t/2$x x 2; ln t/$first$x t/$x
                    {copy} -aT --update=changed s {sign}t
                    [ \"`stat -c %h t/1$x t/2$x t/$x; cat t/$x`\" = '2
2
1
y' ] || ls -li s t
                done; done"
            ),
        );
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()), "{copy}");
    }
}

/// Links that were made at once have one time.
#[test]
fn a_link_with_another_text_is_copied_though_its_time_is_the_same() {
    for (copy, operands) in [("$G cp", "s t"), ("$C", "s h:t"), ("$C", "h:s t")] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir s t; ln -s ../b s/a; ln -s a t/a; ln -s same s/l; ln -s same t/l
                touch -h -d @5 s/* t/*; stat -c %i t/l >before
                {copy} -aT --update=changed {operands}; readlink t/a; stat -c %i t/l | cmp - before"
            ),
        );
        assert_eq!((stdout(&output), stderr(&output)), ("../b\n".into(), String::new()), "{copy}");
    }
}

/// The first of two names of a file is replaced, the last one is written to.
#[test]
fn a_dry_run_counts_the_names_that_would_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let said = says(
        dir.path(),
        "mkdir s t; echo 1 >s/a; echo 22 >s/b; echo 3 >t/a; ln t/a t/b
        copied() { $G cp -rTv --delete --threads=1 $1 s t; }
        copied --dry-run | sed 's/would remove/removed/; s/would copy //' >dry; cat dry
        copied | cmp - dry",
    );
    assert_eq!(said.lines().count(), 3, "{said}");
}

/// Names that are links to each other on both sides, with equal bytes and with others.
#[test]
fn unchanged_links_are_no_copies() {
    for (copy, sign) in [("$G cp", ""), ("$C", "h:")] {
        let dir = tempfile::tempdir().unwrap();
        let said = stdout(&remote(
            dir.path(),
            &format!(
                "mkdir s; echo a >s/a; ln s/a s/b; ln s/a s/c; $G cp -a s t; rm t/c; echo a >t/c
                copied() {{ {copy} -aTv --checksum $1 s {sign}t | grep -c \"s/.' -> \"; }}
                {copy} -aT --checksum s {sign}t; stat -c %h t/c; copied --dry-run; copied
                echo b >s/a; copied --dry-run; copied; stat -c %h t/c; cat t/b; copied"
            ),
        ));
        assert_eq!(said, "3\n0\n0\n3\n3\n3\nb\n0\n", "{copy}");
    }
}

/// Two names of the target lead to one file, which cannot have the attributes of both sources.
#[test]
fn one_file_gets_the_attributes_of_one_source() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        "mkdir s t; for f in s/a s/b t/a; do echo same >$f; done; ln -s a t/b
        chmod 600 s/a; chmod 640 s/b; $G cp -rT --preserve=mode --checksum s t; echo $?
        stat -Lc %a t/a; chmod 600 s/b; chmod 600 t/a; $G cp -rT --preserve=mode --checksum s t; echo $?",
    );
    let (said, why) = (stdout(&output), stderr(&output));
    assert!(["1\n600\n0\n", "1\n640\n0\n"].contains(&said.as_str()), "{output:?}");
    assert!(why.contains("not writing to 't/") && why.lines().count() == 1, "{why}");
}

/// As with a copy of one file, which writes through hard links.
#[test]
fn an_operand_with_other_names_stays_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let said = says(
        dir.path(),
        "echo f >f; cp -p f t; ln t other; chmod 600 f; $G cp -p --checksum f t; stat -c '%a %h' other
        chmod 640 f; $G cp -p --checksum --atomic f t; stat -c '%a %h' other t",
    );
    assert_eq!(said, "600 2\n600 1\n640 1\n");
}

/// A chown takes set-user-ID bits and capabilities, and a mode without write permission refuses
/// attributes.
#[test]
fn attributes_are_set_in_an_order_that_loses_none() {
    if let Err(why) = nobody().and_then(|_| capabilities()) {
        return skipped(&why);
    }
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        &format!(
            "{NOBODY} cp $G gush && chmod 755 . gush && mkdir s && echo x >s/x && echo y >s/y && $G cp -a s t
            chown 65534 . s s/* t t/*; chmod 444 s/x t/x; setfattr -n user.k -v v s/x
            $N ./gush cp -aT --checksum s t || exit 2; stat -c %a t/x; getfattr --only-values -n user.k t/x
            $N ./gush cp -rT --preserve=xattr --checksum s t || exit 3
            chmod 444 t/x; setfattr -n user.k -v w s/x
            $N ./gush cp -rT --preserve=xattr --checksum s t || exit 4; stat -c %a t/x
            chown 7:8 s/y; chmod 4755 s/y; $G cp -aT --checksum s t || exit 5; stat -c '%u:%g %a' t/y
            setcap cap_net_raw+ep t/y && $G cp -aT --checksum s t && getcap t/y
            setcap cap_net_raw+ep s/y && chown 1:1 t/y && $G cp -aT --checksum s t && getcap t/y"
        ),
    );
    assert_eq!(stderr(&output), "");
    assert_eq!(stdout(&output), "444\nv444\n7:8 4755\nt/y cap_net_raw=ep\n");
}

/// Root's files in the source of a user: what the user cannot set is not tried again and again.
#[test]
fn a_user_gets_what_a_user_can_set() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        &format!(
            "{NOBODY} cp $G gush && chmod 755 . gush && mkdir s t && echo x >s/x && chmod 4755 s/x && chown 65534 t
            $N ./gush cp -aT s t || exit 2; stat -c '%u %a' t/x; stat -c %Z t/x >before
            $N ./gush cp -aTv --checksum s t | grep x; stat -c %Z t/x | diff before -
            chmod 4744 s/x; $N ./gush cp -aTv --checksum s t | grep x; stat -c '%u %a' t/x
            chown 1 t/x; chmod 600 t/x; $N ./gush cp -aT --update=changed s t 2>why; echo $?; cat why
            stat -c '%u %a' t/x"
        ),
    );
    assert_eq!(stderr(&output), "");
    assert_eq!(
        stdout(&output),
        "65534 755\nupdated attributes of 't/x'\n65534 744\n1\n\
         gush: cp: preserving permissions for 't/x': Operation not permitted\n1 600\n"
    );
}

/// A user who is no member of the group cannot set its bit, nor capabilities: a second run says
/// nothing and touches nothing.
#[test]
fn what_a_user_cannot_set_is_set_by_no_later_run() {
    if let Err(why) = nobody().and_then(|_| capabilities()) {
        return skipped(&why);
    }
    for user in ["", "$N"] {
        for (copy, takes_attributes) in [
            ("$C -aT", false),
            ("$C -rT --preserve=mode,timestamps,xattr", true),
            ("$C -rT --preserve=mode,timestamps", false),
        ] {
            for operands in ["s t", "s h:t", "h:s t"] {
                let dir = tempfile::tempdir().unwrap();
                let copy = match operands {
                    "s t" => copy.replace("$C", "./gush cp"),
                    _ => copy.to_owned(),
                };
                let output = remote(
                    dir.path(),
                    &format!(
                        "{NOBODY} cp $G gush; mkdir s t; echo x >s/x; echo y >s/y; ln s/y s/z
                        chmod 2777 t; chown 65534:1234 . t s s/*; chmod 2755 s/x s/y; setcap cap_net_raw+ep s/x
                        {user} {copy} {operands} 2>first; (cd t; find . ! -type d -printf '%P %C@ %m\n' | sort) >before
                        for run in --dry-run ''; do for by in --update=changed --checksum; do
                            {user} {copy} $by $run -v {operands} 2>why | grep /; cat why
                        done; done; (cd t; find . ! -type d -printf '%P %C@ %m\n' | sort) | diff before -"
                    ),
                );
                let said = stdout(&output);
                // With `--preserve=xattr` it is a failure that the user is to know.
                let why =
                    "setting attribute 'security.capability' for 't/x': Operation not permitted";
                let failures = if takes_attributes && !user.is_empty() { 2 } else { 0 };
                let case = format!("{user} {copy} {operands}: {output:?}");
                assert_eq!(said.matches(why).count(), failures, "{case}");
                assert_eq!(said.is_empty(), failures == 0, "{case}");
                let is_expected = |line: &str| {
                    line.contains(why) || line.starts_with("would update attributes of ")
                };
                assert!(said.lines().all(is_expected), "{case}");
            }
        }
    }
}

/// As GNU cp, which removes none. With `--preserve=xattr` it is a failure that the user is to know.
#[test]
fn a_capability_that_a_user_cannot_remove_stays_without_a_word() {
    if let Err(why) = nobody().and_then(|_| capabilities()) {
        return skipped(&why);
    }
    for (user, preserve, said) in [
        ("$N", "-a", "0\ncap_net_raw=ep\n"),
        ("$N", "-r --preserve=mode,timestamps,xattr", "1\ncap_net_raw=ep\n"),
        ("", "-a", "updated attributes of 't/x'\n0\n"),
    ] {
        for by in ["--update=changed", "--checksum"] {
            let dir = tempfile::tempdir().unwrap();
            let output = script(
                dir.path(),
                &format!(
                    "{NOBODY} cp $G gush; mkdir s t; echo x >s/x; cp -p s/x t; chown -R 65534:65534 . s t
                    setcap cap_net_raw+ep t/x || exit; touch -r s/x t/x
                    {user} ./gush cp -T {preserve} {by} -v s t; echo $?; getcap t/x | cut -d ' ' -f 2"
                ),
            );
            assert_eq!(stdout(&output), said, "{user} {preserve} {by}: {output:?}");
            let is_named = stderr(&output).contains("removing attribute 'security.capability'");
            assert_eq!(is_named, said.starts_with('1'), "{user} {preserve} {by}: {output:?}");
        }
    }
}

#[test]
fn what_cannot_be_set_is_a_failure_between_machines_too() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    for copy in ["-aT --update=changed s h:t", "-aT --update=changed h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "{NOBODY} mkdir s t; echo x >s/x; cp -p s/x t; chmod 600 t/x; chown 1 t/x
                chown 65534 . s t; $N $C {copy}; echo $?; stat -c '%u %a' t/x"
            ),
        );
        assert_eq!(stdout(&output), "1\n1 600\n", "{copy}: {output:?}");
        let why = stderr(&output);
        assert!(why.contains("preserving permissions for 't/x': Operation not permitted"), "{why}");
    }
}

/// For programs as for the user: the record of what is incomplete has the reason.
#[test]
fn what_cannot_be_set_is_the_error_of_the_record() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    for (copy, target, errno) in [
        ("./gush cp -aT --json --update=changed s t", "t", "1"),
        ("$C -aT --json --update=changed s h:t", "h:t", "null"),
        ("$C -aT --json --update=changed h:s t", "t", "1"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "{NOBODY} cp $G gush; mkdir -p s/d t/d; echo x >s/x; echo y >s/y
                chmod 700 s/d; touch -d @1 s/d; cp -p s/x s/y t; chmod 600 t/x; chown 1 t/x t/d
                chown 65534 . s s/d t t/y; $N {copy} | grep '/[xyd]\"'"
            ),
        );
        let said = stdout(&output);
        let records: Vec<serde_json::Value> =
            said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |name: &str| {
            let name = format!("{target}/{name}");
            records.iter().find(|record| record["target"] == *name).expect(&name)
        };
        let (failed, kept) = (of("x"), of("y"));
        assert_eq!(failed["action"], "failed", "{copy}: {said}");
        assert_eq!(failed["error"]["path"], *format!("{target}/x"), "{said}");
        assert_eq!(failed["error"]["errno"].to_string(), errno, "{said}");
        assert!(of("d")["error"].is_object(), "{copy}: {said}");
        assert!(kept["error"].is_null() && kept["action"] == "skipped", "{copy}: {said}");
    }
}

/// Its content stays, which is what a backup or an answer would be about.
#[test]
fn attributes_are_set_without_a_question_or_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    for option in ["-b", "--backup=numbered", "-i"] {
        let said = says(
            dir.path(),
            &format!(
                "rm -rf s t; mkdir s; echo f >s/f; cp -a s t; chmod 600 s/f
                echo n | $G cp -aT {option} --checksum -v s t; stat -c %a t/f; ls -A t
                echo g >s/f; echo n | $G cp -aT {option} --checksum s t 2>/dev/null; cat t/f
                [ -e t/f~ ] && cat t/f~; [ -e t/f.~1~ ] && cat t/f.~1~; ls -A t | wc -l"
            ),
        );
        let copied = if option == "-i" { "f\n1\n" } else { "g\nf\n2\n" };
        assert_eq!(said, format!("updated attributes of 't/f'\n600\nf\n{copied}"), "{option}");
    }
}

#[test]
fn an_operand_gets_attributes_too() {
    let dir = tempfile::tempdir().unwrap();
    for copy in
        ["$G cp -p --checksum f t", "$C -p --checksum f h:t", "$G cp -p --update=changed f g d"]
    {
        let output = remote(
            dir.path(),
            &format!(
                "rm -rf f g d t; echo f >f; echo g >g; mkdir d; cp -p f t; cp -p f g d; chmod 600 f
                {copy} || exit 1; stat -c %a t d/f | sort | head -n 1"
            ),
        );
        assert_eq!(stdout(&output), "600\n", "{copy}: {output:?}");
    }
}

/// The journal knows a file by its state; of one with several names the change time is no part of
/// it.
#[test]
fn a_resumed_copy_sets_attributes_that_were_changed_since() {
    let dir = tempfile::tempdir().unwrap();
    let said = says(
        dir.path(),
        r#"mkdir s; for n in a b c; do echo $n >s/$n; setfattr -n user.k -v v s/$n; done; ln s/c s/d
        : >s/way; mkdir -p t/way; $G cp -aT --resume s t 2>/dev/null && exit 1; rmdir t/way
        chmod 600 t/a; setfattr -n user.k -v w t/b; setfattr -n user.k -v w t/c
        $G cp -aT --resume s t || exit 2
        stat -c %a t/a; for n in b c d; do getfattr --only-values -n user.k t/$n; done"#,
    );
    assert_eq!(said, "644\nvvv");
}

/// Of a directory that is there nothing is kept but what is below it.
#[test]
fn directories_of_a_mirror_get_their_attributes() {
    for copy in ["$G cp -aT --delete s t", "$C -aT --delete s h:t", "$C -aT --delete h:s t"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p s/d; echo f >s/d/f; $G cp -a s t; chmod 750 s/d; setfacl -m u:9:r s/d
                touch -d @12345 s/d; {copy} --update=changed || exit 1
                stat -c '%a %Y' t/d; getfacl -nc t/d | grep 9:"
            ),
        );
        assert_eq!(stdout(&output), "750 12345\nuser:9:r--\n", "{copy}: {output:?}");
    }
}

#[test]
fn ranks_bring_attributes_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    let said = says(
        dir.path(),
        "mkdir s; for n in 1 2 3 4 5 6 7 8; do echo $n >s/$n; done; $G cp -a s t; chmod 600 s/*
        $G cp -aT --shard 1/2 --update=changed s t & $G cp -aT --shard 0/2 --update=changed s t 2>why
        a=$?; wait $!; b=$?; echo $a $b; stat -c %a t/* | sort -u",
    );
    assert_eq!(said, "0 0\n600\n");
}

/// A manifest that comes last may vouch for them.
#[test]
fn attributes_set_on_what_stays_are_synced() {
    let dir = tempfile::tempdir().unwrap();
    says(
        dir.path(),
        "mkdir s; echo f >s/f; ln -s f s/l; $G cp -a s t; chmod 400 s/f; touch -hd @1 s/l",
    );
    let calls = "trace=chmod,fchmodat,utimensat,fsync,syncfs";
    let mut traced = match strace(&["-y", "-o", "calls", "-e", calls]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    traced.args(["cp", "-aT", "--fsync", "--checksum", "s", "t"]).current_dir(dir.path());
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let last = |call: &str, on: &str| {
        let is_one = |(_, line): &(usize, &str)| line.contains(call) && line.contains(on);
        calls.lines().enumerate().filter(is_one).last().map(|(number, _)| number)
    };
    assert!(last("chmod", "0400").is_some() && last("utimensat(", "/t/l>").is_some(), "{calls}");
    assert!(last("chmod", "0400") < last("fsync(", "/t/f>"), "{calls}");
    assert!(last("utimensat(", "/t/l>") < last("syncfs(", ""), "{calls}");
}

/// Without its list the mask would be the rights of the owning group, until the mode is set.
#[test]
fn an_access_list_goes_together_with_the_rights_that_it_gave() {
    let dir = tempfile::tempdir().unwrap();
    for options in [&["-p", "--checksum"][..], &["-p"]] {
        says(dir.path(), "echo f >s; chmod 600 s; cp -p s t; setfacl -m u:9:rwx t; stat -c %a t");
        let mut traced = match strace(&["-e", "inject=chmod,fchmod,fchmodat:error=EPERM"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output =
            traced.arg("cp").args(options).args(["s", "t"]).current_dir(dir.path()).output();
        let output = output.unwrap();
        assert!(stderr(&output).contains("preserving permissions for 't'"), "{output:?}");
        let said = says(dir.path(), "stat -c %a t; getfacl -nc t | grep -c 9:; rm s t");
        assert_eq!(said, "600\n0\n", "{options:?}");
    }
}
