//! The output of `gush cp`: messages, questions, JSON, progress, --debug.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::cp::{cp, script, with_files, with_mounts};
use crate::common::{gush, gush_as, noise, skipped};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn messages_name_the_path_what_failed_and_the_os_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    let _full = gush_test::device("full", dir.path());
    for (arguments, message) in [
        (["no", "b"], "cannot stat 'no': No such file or directory"),
        (["a", "a"], "'a' and 'a' are the same file"),
        (
            ["a", "no/b"],
            "cannot create regular file 'no/b': No such file or directory (mkdir -p 'no' makes the directory)",
        ),
        (
            ["a", "dangling/b"],
            "cannot create regular file 'dangling/b': No such file or directory\n",
        ),
        (
            ["a", "no/b/"],
            "cannot create regular file 'no/b/': No such file or directory (mkdir -p 'no/b/' makes the directory)",
        ),
        (
            ["a", "b/"],
            "cannot create regular file 'b/': Not a directory (it does not exist: mkdir -p 'b/' makes the directory)",
        ),
        (["a", "a/"], "cannot stat 'a/': Not a directory\n"),
        (["a", "dangling/"], "cannot create regular file 'dangling/': Not a directory\n"),
        (["a", "a/b"], "cannot stat 'a/b': Not a directory"),
        (["d", "b"], "-r not specified; omitting directory 'd'"),
        (
            ["a", "dangling"],
            "not writing through dangling symlink 'dangling' \
             (--remove-destination replaces the link)",
        ),
        (
            ["a", "full"],
            "error writing 'full': No space left on device (write failed on the target after 0",
        ),
    ] {
        let output = cp(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = stderr(&output);
        assert!(said.starts_with(&format!("gush: cp: {message}")), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let said = stderr(&cp(dir.path(), &["-r", "d", "no/b/"]));
    assert!(
        said.ends_with("No such file or directory (mkdir -p 'no' makes the directory)\n"),
        "{said}"
    );
}

#[test]
fn a_full_disk_is_the_targets_and_no_refusal_of_the_method() {
    let dir = with_files(&[("big", &noise(3 << 20, 4))]);
    let mut text = "mount -t tmpfs -o size=1m none m".to_owned();
    for method in ["mmap-copy", "read-mmap"] {
        text += &format!(
            "; \"$G\" cp --method {method} big m/new; echo old >m/old; \"$G\" cp --method {method} big m/old; rm m/*"
        );
    }
    let Some(output) = with_mounts(dir.path(), &text) else { return };
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 4, "{said}");
    for line in said.lines() {
        assert!(line.starts_with("gush: cp: m/new: ") || line.starts_with("gush: cp: m/old: "));
        assert!(line.contains("No space left on device (the target is full: free some"), "{said}");
        assert!(!line.contains("refused") && !line.contains("another method"), "{said}");
    }
}

#[test]
fn a_refusal_names_both_files() {
    let dir = with_files(&[("a", &noise(1 << 20, 4))]);
    let text = "mount -t tmpfs none m; \"$G\" cp --reflink=always a m/b";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    let said = stderr(&output);
    assert!(said.starts_with("gush: cp: failed to clone 'm/b' from 'a': "), "{said}");
}

#[test]
fn atomic_reports_that_the_directory_is_in_the_way() {
    let dir = with_files(&[]);
    let text = r#"
        chmod 755 . && mkdir nop sticky && chmod 1777 sticky && echo x >a && echo x >nop/t && echo x >sticky/t
        chmod 666 nop/t sticky/t && cp "$G" gush && chmod 755 gush || exit 99
        setpriv --reuid 65534 --regid 65534 --clear-groups true || { echo no other user; exit; }
        for target in nop/t sticky/t nop/new; do
            setpriv --reuid 65534 --regid 65534 --clear-groups ./gush cp --atomic a $target
        done"#;
    let output = script(dir.path(), text);
    if !output.stdout.is_empty() {
        return skipped(&format!("another user: {}", stderr(&output)));
    }
    let in_place = "; without --atomic the file is written in place";
    let nop = "the directory 'nop' must be writable";
    let sticky = "the directory 'sticky' is sticky: who does not own the file cannot replace it";
    assert_eq!(
        stderr(&output),
        format!(
            "gush: cp: cannot create regular file 'nop/t': Permission denied ({nop}{in_place})\n\
             gush: cp: cannot create regular file 'sticky/t': Operation not permitted ({sticky}{in_place})\n\
             gush: cp: cannot create regular file 'nop/new': Permission denied ({nop})\n"
        )
    );
}

#[test]
fn called_as_cp_it_speaks_as_cp() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        gush_as("cp", dir.path()).args(["no", "b"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(stderr(&output), "cp: cannot stat 'no': No such file or directory\n");
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let output = cp(dir.path(), &["-dp", "no", "sub", "b", "d"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).lines().count(), 2);
    assert_eq!(fs::read(dir.path().join("d/b")).unwrap(), b"b");
}

#[test]
fn interactive_asks_and_only_yes_replaces() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    for (answer, content, status) in [
        ("y\n", "new", 0),
        ("Yes\n", "new", 0),
        ("n\n", "old", 1),
        ("", "old", 1),
        ("\n", "old", 1),
    ] {
        fs::write(dir.path().join("b"), "old").unwrap();
        let mut child = gush()
            .args(["cp", "-n", "-i", "a", "b"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(stderr(&output), "gush: cp: overwrite 'b'? ");
        assert_eq!(output.status.code(), Some(status), "{answer:?}");
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), content, "{answer:?}");
    }
}

#[test]
fn update_none_fail_fails_and_update_none_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    fs::write(dir.path().join("b"), "old").unwrap();
    let output = cp(dir.path(), &["--update=none", "--debug", "a", "b"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"skipped 'b'\n");
    let output = cp(dir.path(), &["--update=none-fail", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "gush: cp: not replacing 'b'\n");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"old");
    assert!(cp(dir.path(), &["--update=all", "a", "b"]).status.success());
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
}

#[test]
fn json_is_one_object_a_file_with_its_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    fs::write(dir.path().join("c"), "c").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let output = cp(dir.path(), &["--json", "-v", "a", "no", "c", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let records = json(&output);
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["source"], "a");
    assert_eq!(records[0]["target"], "d/a");
    assert_eq!(records[0]["action"], "copied");
    assert_eq!(records[0]["bytes"], 5);
    assert!(records[0]["seconds"].is_f64());
    assert!(records[0]["method"].is_string());
    assert!(records[0]["error"].is_null());
    assert_eq!(records[1]["action"], "failed");
    assert_eq!(records[1]["error"]["errno"], 2);
    assert_eq!(records[1]["error"]["what"], "cannot stat");
    assert_eq!(records[1]["error"]["path"], "no");
    assert_eq!(records[2]["action"], "copied");
    let fields: Vec<_> = records[0].as_object().unwrap().keys().cloned().collect();
    let mut wanted = [
        "source",
        "target",
        "action",
        "bytes",
        "hole_bytes",
        "seconds",
        "method",
        "methods",
        "fallbacks",
        "verified",
        "blake3",
        "backup",
        "warnings",
        "error",
    ];
    wanted.sort_unstable();
    assert_eq!(fields, wanted);
}

#[test]
fn records_and_a_copy_do_not_share_standard_output() {
    let dir = with_files(&[("a", b"wanted"), ("b", b"old")]);
    std::fs::create_dir(dir.path().join("d")).unwrap();
    for text in [
        "\"$G\" cp --json a /dev/stdout | cat",
        "\"$G\" cp --json a /dev/fd/1 >out",
        "\"$G\" cp --json a b >>b",
        "\"$G\" cp --json a d >d/a",
    ] {
        let output = script(dir.path(), &format!("set -o pipefail; {text}"));
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(stdout(&output), "", "{text}");
        assert!(stderr(&output).contains("is standard output, which --json"), "{output:?}");
    }
    assert_eq!(std::fs::read(dir.path().join("b")).unwrap(), b"old");
    let null = script(dir.path(), "\"$G\" cp --json a /dev/null >/dev/null");
    assert!(null.status.success(), "{null:?}");
}

#[test]
fn json_reports_fallbacks_with_their_errno_and_bytes_before_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    let _full = gush_test::device("full", dir.path());
    let record = &json(&cp(dir.path(), &["--json", "a", "full"]))[0];
    assert_eq!(record["error"]["errno"], 28);
    assert_eq!(record["error"]["delivered_bytes"], 0);
    let record = &json(&cp(dir.path(), &["--json", "a", "b"]))[0];
    let tmp = rustix::fs::statfs(dir.path()).unwrap();
    const EXT: i64 = 0xEF53;
    if tmp.f_type != EXT {
        return crate::common::not_applicable("only ext file systems are known to refuse reflinks");
    }
    assert_eq!(record["fallbacks"][0]["method"], "reflink");
    assert_eq!(record["fallbacks"][0]["errno"], 95);
    assert_eq!(record["fallbacks"][0]["errno_name"], "EOPNOTSUPP");
}

#[test]
fn names_that_are_no_text_survive_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let odd = OsStr::from_bytes(b"\xff\xfe.txt");
    fs::write(dir.path().join(odd), "odd").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let run = |options: &[&str]| {
        gush().arg("cp").args(options).arg(odd).arg("d").current_dir(dir.path()).output().unwrap()
    };
    let output = run(&["--json", "--atomic"]);
    assert!(output.status.success());
    assert_eq!(fs::read(dir.path().join("d").join(odd)).unwrap(), b"odd");
    let record = &json(&output)[0];
    assert_eq!(record["source_bytes"], "fffe2e747874");
    assert_eq!(record["target_bytes"], "642ffffe2e747874");
    assert!(record.get("backup_bytes").is_none(), "{record}");
    let record = &json(&run(&["--json", "--backup=simple"]))[0];
    assert_eq!(record["backup_bytes"], "642ffffe2e7478747e");
    assert_eq!(run(&["-v"]).stdout, b"''$'\\377\\376''.txt' -> 'd/'$'\\377\\376''.txt'\n");
    let output = gush().arg("cp").arg(odd).arg(odd).current_dir(dir.path()).output().unwrap();
    assert!(stderr(&output).contains(r"''$'\377\376''.txt'"), "{}", stderr(&output));
    let above = OsStr::from_bytes(b"\xff");
    fs::create_dir(dir.path().join(above)).unwrap();
    fs::write(dir.path().join(above).join("f"), "odd").unwrap();
    let mut command = gush();
    command.args(["cp", "-v", "--parents"]).arg(Path::new(above).join("f")).arg("d");
    let output = command.current_dir(dir.path()).output().unwrap();
    let lines = b"\xff -> d/\xff\n''$'\\377''/f' -> 'd/'$'\\377''/f'\n";
    assert_eq!(output.stdout, lines, "{}", stderr(&output));
}

#[test]
fn debug_and_explain_print_what_really_happened() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    let output = cp(dir.path(), &["--debug", "--explain", "a", "b"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    assert_eq!(first, "'a' -> 'b'");
    assert!(second.starts_with("copy offload: ") && second.contains(", reflink: "), "{text}");
    assert!(stderr(&output).contains("picked "), "{}", stderr(&output));
}

/// The words of GNU cp 9.9 on a file system that shares no blocks.
#[test]
fn debug_uses_the_words_of_gnu() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("data", "yes, unsupported, no"),
        ("empty", "unknown, unsupported, no"),
        ("hole", "unknown, unsupported, SEEK_HOLE"),
        ("both", "yes, unsupported, SEEK_HOLE"),
        ("/proc/version", "unsupported, unsupported, no"),
        ("--sparse=always data", "avoided, unsupported, zeros"),
        ("--sparse=always empty", "avoided, unsupported, zeros"),
        ("--sparse=always hole", "unknown, unsupported, SEEK_HOLE"),
        ("--sparse=always both", "avoided, unsupported, SEEK_HOLE + zeros"),
        ("--sparse=always /proc/version", "avoided, unsupported, zeros"),
        ("--sparse=never data", "avoided, no, no"),
        ("--sparse=never hole", "unknown, no, SEEK_HOLE"),
        ("--sparse=never both", "avoided, no, SEEK_HOLE"),
        ("--reflink=never empty", "avoided, no, no"),
        ("--reflink=never hole", "unknown, no, SEEK_HOLE"),
        ("--reflink=never both", "avoided, no, SEEK_HOLE"),
        ("--method=read-write data", "avoided, no, no"),
    ];
    let copies = cases.map(|(words, _)| format!("$G cp --debug {words} copy | tail -n 1\n"));
    let text = format!(
        "mount -t tmpfs none m && cd m && echo data >data && >empty && truncate -s 1M hole &&
        truncate -s 1M both && echo data >>both && {}",
        copies.join("rm copy\n")
    );
    let Some(output) = with_mounts(dir.path(), &text) else { return };
    let lines = cases.map(|(words, expected)| {
        let [offload, reflink, sparse] = expected.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{words}: {expected}")
        };
        format!("copy offload: {offload}, reflink: {reflink}, sparse detection: {sparse}\n")
    });
    assert_eq!(stdout(&output), lines.concat(), "{}", stderr(&output));
}

/// GNU cp asks for a clone whatever `--sparse=always` says (copy.c), and so makes no holes there.
#[test]
fn a_sparse_copy_is_a_clone_where_the_file_system_can_clone() {
    for (mkfs, size) in [("mkfs.btrfs -q", "120M"), ("mkfs.xfs -q", "320M")] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "truncate -s {size} image && {mkfs} image >&2 && mount -o loop image m || exit 99
            cd m && truncate -s 1M both && echo data >>both && echo data >old && truncate -s 2M old
            for words in '--sparse=always' '--sparse=always --reflink=never' '--sparse=always -T'; do
                case $words in *-T) copy=old;; *) copy=new;; esac
                $G cp --debug $words both $copy | tail -n 1 && cmp both $copy || status=1
                rm $copy
            done
            cd .. && umount m
            exit ${{status-0}}"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        if output.status.code() == Some(99) {
            skipped(&format!("{mkfs}: {}", stderr(&output)));
            continue;
        }
        assert!(output.status.success(), "{mkfs}: {output:?}");
        let cloned = "copy offload: unknown, reflink: yes, sparse detection: unknown\n";
        let copied = "copy offload: avoided, reflink: no, sparse detection: SEEK_HOLE + zeros\n";
        assert_eq!(stdout(&output), [cloned, copied, cloned].concat(), "{mkfs}");
    }
}

#[test]
fn explain_names_the_file_in_each_line_and_reports_what_was_not_followed() {
    let dir = with_files(&[("a", &noise(100_000, 3))]);
    fs::File::create(dir.path().join("holes")).unwrap().set_len(50 << 20).unwrap();
    let said = stderr(&cp(dir.path(), &["--explain", "--verify", "--threads=2", "a", "b"]));
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines.len() > 3 && lines.iter().all(|line| line.starts_with("gush: cp: a: ")),
        "{said}"
    );
    assert!(said.contains("a: --threads 2 had no effect: "), "{said}");
    assert!(said.contains("a: verified: read back, blake3 "), "{said}");
    let said = stderr(&cp(dir.path(), &["--explain", "holes", "b"]));
    assert!(!said.contains("holes kept") || said.contains("moved 0 bytes in"), "{said}");
    let said =
        stderr(&cp(dir.path(), &["--explain", "--threads=1", "--method=sendfile", "a", "b"]));
    assert!(said.contains("1 step;") && !said.contains("--threads"), "{said}");
}

#[test]
fn progress_shows_only_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; 3000]).unwrap();
    for quiet in ["--progress", "--progress=never"] {
        assert_eq!(stderr(&cp(dir.path(), &[quiet, "--limit=6000", "a", "b"])), "", "{quiet}");
    }
    let said = stderr(&cp(dir.path(), &["--progress=always", "--limit=1000", "a", "b"]));
    assert!(said.starts_with("gush: cp: a: ") && said.lines().count() > 1, "{said}");
    for words in [&["--limit=1000"][..], &[]] {
        let said = stderr(&cp(dir.path(), &[&["--progress=always", "a", "b"], words].concat()));
        assert!(said.ends_with("a: 2.93 KiB of 2.93 KiB, 100%\n"), "{said}");
    }
}

/// What a terminal of so many columns is shown by `gush cp WORDS`; `None` where there is no
/// script(1), which is reported.
fn on_terminal(dir: &Path, columns: usize, words: &str) -> Option<String> {
    let gush = env!("CARGO_BIN_EXE_gush");
    let command = format!("stty rows 24 cols {columns}; '{gush}' cp {words}");
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(dir)
        // Without it no bar is drawn on any terminal.
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => {
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{words}: {shown:?}");
            Some(shown)
        }
        Err(why) => {
            skipped(&format!("script: {why}"));
            None
        }
    }
}

/// The widest row that a terminal of so many columns is asked to show.
fn widest_row(columns: usize, name: &str) -> Option<usize> {
    let dir = with_files(&[(name, &noise(3 << 20, 9))]);
    let words = format!("--progress --limit=2M '{name}' b");
    let shown = on_terminal(dir.path(), columns, &words)?;
    assert!(shown.contains('%'), "{shown:?}");
    // What stands between two commands of the terminal, or two line ends, is on one row.
    let rows = shown.split(['\r', '\n', '\x1b']).map(|row| match row.strip_prefix('[') {
        Some(row) => {
            row.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').chars().skip(1).count()
        }
        None => row.chars().count(),
    });
    rows.max()
}

#[test]
fn progress_fits_the_terminal() {
    for (columns, name) in [
        (80, "a"),
        (80, "a name as long as films have them (2026) [2160p].mkv"),
        (120, "a name as long as films have them (2026) [2160p].mkv"),
        (40, "a name as long as films have them (2026) [2160p].mkv"),
        (20, "a"),
    ] {
        let Some(widest) = widest_row(columns, name) else { return };
        assert!(widest <= columns, "{widest} of {columns}: {name}");
    }
}

#[test]
fn progress_draws_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; 2000]).unwrap();
    let Some(shown) = on_terminal(dir.path(), 80, "--progress --limit=1000 a b") else { return };
    assert!(shown.contains('%'), "{shown}");
}

#[test]
fn lines_about_files_and_progress_have_rows_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(dir.path().join("a").join(name), noise(2 << 20, 1)).unwrap();
    }
    let words = "-rv --threads=1 --progress --limit=4M a b";
    let Some(shown) = on_terminal(dir.path(), 100, words) else { return };
    let rows: Vec<_> = shown.split(['\r', '\n', '\x1b']).collect();
    // On a busy machine the files are counted only while they are copied.
    let shows_part = |row: &&str| row.contains("%, ") && row.contains(" of 3 files");
    assert!(rows.iter().any(shows_part), "{shown:?}");
    let lines: Vec<_> = rows.iter().filter(|row| row.contains(" -> ")).collect();
    assert!(lines.len() == 4 && lines.iter().all(|row| !row.contains('%')), "{lines:?}");
}

#[test]
fn a_full_standard_output_is_a_failure_but_the_copy_is_made() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        gush().args(["cp", "-v", "a", "b"]).current_dir(dir.path()).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "gush: cp: write error: No space left on device\n");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"x");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let output = cp(dir.path(), &["--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    for option in ["--atomic", "--reflink", "--backup", "--preserve", "--method"] {
        assert!(text.contains(option), "{option}");
    }
    let output = cp(dir.path(), &["--version"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains(env!("CARGO_PKG_VERSION")));
}

/// The names of all fields, also of objects in fields.
fn fields(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, inner) in object {
                found.insert(name.clone());
                fields(inner, found);
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|inner| fields(inner, found)),
        _ => {}
    }
}

#[test]
fn each_field_of_a_record_is_explained() {
    let dir = with_files(&[("a", b"some bytes")]);
    let odd = OsStr::from_bytes(b"odd\xff");
    fs::create_dir_all(dir.path().join("s")).unwrap();
    fs::create_dir_all(dir.path().join("t")).unwrap();
    fs::write(dir.path().join("s").join(odd), "odd").unwrap();
    fs::write(dir.path().join("t").join(odd), "old").unwrap();
    fs::write(dir.path().join("t/gone"), "gone").unwrap();
    let mut found = BTreeSet::new();
    for words in [
        &["--verify", "a", "b"][..],
        &["--dry-run", "a", "b"],
        &["missing", "b"],
        &["-rTb", "s", "t"],
        &["-rT", "--delete", "s", "t"],
    ] {
        let mut command = gush();
        let output = command.args(["cp", "--json"]).args(words).current_dir(dir.path()).output();
        for line in stdout(&output.unwrap()).lines() {
            fields(&serde_json::from_str(line).unwrap(), &mut found);
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use.md");
    let reported = fs::read_to_string(path).unwrap();
    let reported =
        reported.split("## The records of").nth(1).unwrap().split("\n## ").next().unwrap();
    assert!(found.len() > 20 && found.contains("backup_bytes"), "{found:?}");
    for field in found {
        assert!(
            reported.contains(&format!("`{field}`")),
            "{field} is not explained in docs/use.md"
        );
    }
}
