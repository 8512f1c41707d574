//! The words of a command line: shortened, in any order, wrong; and pages that nobody can read.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::cp::{cp, fails, names, script, stderr, succeeds, with_files};
use crate::common::{gush, gush_as};

const PAGES: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "cp"],
    &["generate", "man"],
    &["generate", "completions", "bash"],
    &["cp", "--help"],
    &["cp", "--version"],
    &["cat", "--help"],
    &["cat", "--version"],
    &["pipe", "--help"],
    &["pipe", "read", "--help"],
    &["tune", "--help"],
    &["link", "--help"],
    &["link", "--version"],
    &["doctor", "--help"],
    &["lab", "--help"],
    &["lab", "copy", "--help"],
    &["lab", "help", "copy"],
    &["doctor", "--json", "."],
    &["lab", "once", "memory", "--way", "read-1", "--bytes", "65536"],
];

#[test]
fn what_cannot_be_printed_is_an_error_whatever_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for page in PAGES {
        let words = page.join(" ");
        let said = stderr(&script(
            dir.path(),
            &format!("XDG_DATA_HOME=$PWD \"$G\" {words} >&- || echo status $? >&2"),
        ));
        assert!(said.ends_with("status 1\n"), "gush {words}: {said}");
        assert!(said.contains("write error: Bad file descriptor\n"), "gush {words}: {said}");
    }
}

#[test]
fn a_beginning_of_gnus_option_is_that_option_whatever_gush_adds() {
    for (short, long) in [
        ("--pre=mode", "--preserve=mode"),
        ("--pres=mo", "--preserve=mode"),
        ("--no-p=mode", "--no-preserve=mode"),
        ("--verb", "--verbose"),
        ("--li", "--link"),
        ("--i", "--interactive"),
        ("--par", "--parents"),
    ] {
        // With a file at the target, --interactive asks; below a directory, --parents makes it
        // anew.
        for target in ["d/other", "d/a"] {
            let results: Vec<_> = [short, long]
                .iter()
                .map(|option| {
                    let dir = with_files(&[]);
                    for name in ["s", "d"] {
                        fs::create_dir(dir.path().join(name)).unwrap();
                    }
                    fs::write(dir.path().join("s/a"), "new").unwrap();
                    fs::write(dir.path().join(target), "old").unwrap();
                    let output = cp(dir.path(), &[option, "s/a", "d"]);
                    let links = fs::metadata(dir.path().join("s/a")).unwrap().nlink();
                    let written = fs::read_to_string(dir.path().join("d/a")).ok();
                    (
                        output.status.code(),
                        output.stdout.clone(),
                        stderr(&output),
                        names(&dir.path().join("d")),
                        (links, written),
                    )
                })
                .collect();
            assert_eq!(results[0], results[1], "{short}");
            if target == "d/other" {
                assert_eq!(results[0].0, Some(0), "{short}: {}", results[0].2);
            }
        }
    }
}

#[test]
fn an_ambiguous_beginning_is_reported_with_what_it_may_mean() {
    let dir = with_files(&[("a", b"a")]);
    assert_eq!(
        fails(dir.path(), &["--ver", "a", "b"]),
        "gush: cp: option '--ver' is ambiguous; possibilities: '--verify' '--verbose' '--version'\n\
         Try 'gush cp --help' for more information.\n"
    );
    let output = gush_as("cat", dir.path()).args(["--show", "a"]).output().unwrap();
    assert_eq!(
        stderr(&output),
        "cat: option '--show' is ambiguous; possibilities: '--show-all' '--show-ends' '--show-tabs' \
         '--show-nonprinting'\nTry 'cat --help' for more information.\n"
    );
    assert_eq!(names(dir.path()), ["a", "cat"]);
}

#[test]
fn an_unknown_option_is_reported_in_gnus_words() {
    let dir = with_files(&[("a", b"a")]);
    let help = "Try 'gush cp --help' for more information.\n";
    for (words, wrong) in [
        (&["-h"][..], "invalid option -- 'h'"),
        (&["--nope", "a", "b"], "unrecognized option '--nope'"),
        (&["--verbose=x", "a", "b"], "option '--verbose' doesn't allow an argument"),
        (&["a", "b", "-S"], "option requires an argument -- 'S'"),
        (&["a", "b", "--suffix"], "option '--suffix' requires an argument"),
    ] {
        assert_eq!(fails(dir.path(), words), format!("gush: cp: {wrong}\n{help}"), "{words:?}");
    }
}

#[test]
fn an_unknown_method_is_reported_with_the_nearest_one() {
    let dir = with_files(&[("a", b"a")]);
    for (word, name) in
        [("SPLICE", "splice"), ("copy_file_range", "copy-file-range"), ("spice", "splice")]
    {
        let said = fails(dir.path(), &["--method", word, "a", "b"]);
        assert!(said.contains(&format!("; did you mean '{name}'?\n")), "{said}");
    }
    let said = fails(dir.path(), &["--method", "x", "a", "b"]);
    assert!(!said.contains("did you mean"), "{said}");
    for number in ["-1", "x", "1.5", ""] {
        let said = fails(dir.path(), &["--threads", number, "a", "b"]);
        assert!(said.contains("write a whole number from 0 to 1024"), "{said}");
    }
}

#[test]
fn manual_pages_go_into_a_directory() {
    let dir = with_files(&[("a", b"a")]);
    let output = gush().args(["generate", "man", "a"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(
        stderr(&output),
        "gush: generate: man: a: cannot write the manual pages: Not a directory\n"
    );
}

#[test]
fn a_value_may_begin_with_a_dash() {
    let dir = with_files(&[("a", b"a"), ("b", b"b")]);
    succeeds(dir.path(), &["-S", "-old", "a", "b"]);
    succeeds(dir.path(), &["--suffix", "--older", "a", "b"]);
    succeeds(dir.path(), &["-S=x", "a", "b"]);
    assert_eq!(names(dir.path()), ["a", "b", "b--older", "b-old", "b=x"]);
}

#[test]
fn options_after_operands_are_operands_where_posix_is_asked_for() {
    let dir = with_files(&[("a", b"a\n")]);
    let posix = |words: &[&str]| {
        gush().args(words).env("POSIXLY_CORRECT", "1").current_dir(dir.path()).output().unwrap()
    };
    let output = posix(&["cp", "a", "b", "-v"]);
    assert_eq!(stderr(&output), "gush: cp: target '-v': No such file or directory\n");
    assert_eq!(names(dir.path()), ["a"]);
    assert!(posix(&["cp", "-v", "a", "b"]).status.success());
    let output = posix(&["cat", "a", "-n"]);
    assert_eq!(output.stdout, b"a\n");
    assert_eq!(stderr(&output), "gush: cat: -n: No such file or directory\n");
}

#[test]
fn every_option_that_takes_a_size_takes_a_fraction_of_a_unit() {
    let commands = [
        "cp --limit=SIZE a b",
        "cp --limit=SIZE/s a b",
        "cp --buffer-size=SIZE a b",
        "cp --pipe-size=SIZE a b",
        "cat --limit=SIZE a",
        "cat --buffer-size=SIZE a",
        "cat --pipe-size=SIZE a",
        "pv -q --size=SIZE a",
        "pv -q --rate-limit=SIZE a",
        "pv -q --buffer-size=SIZE a",
        "pv -q --error-skip-block=SIZE a",
        "pv -q --skip=SIZE a",
        "pv -q --seek=SIZE a >b",
        "tee --buffer=SIZE b <a",
        "tee --buffer-size=SIZE b <a",
        "tee --pipe-size=SIZE b <a",
        "link -u --limit=SIZE file:a null:",
        "link -u file:a,seek=SIZE null:",
        "pipe write --buffer-size=SIZE --pipe-size=SIZE --bytes=SIZE | cat",
        "pipe read --buffer-size=SIZE --bytes=SIZE <a",
        "lab once memory --way read-1 --bytes SIZE",
        "lab run --no-store --runs 1 --input SIZE 'cat {in}'",
    ];
    gush_test::side_by_side(commands, |command| {
        let dir = with_files(&[("a", &[b'a'; 200_000])]);
        let run = |size| {
            let command = command.replace("SIZE", size);
            script(dir.path(), &format!("set -o pipefail; \"$G\" {command} >out"))
        };
        let output = run("128.5K");
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        assert!(!run("128.5X").status.success(), "{command} takes 128.5X");
    });
    let dir = with_files(&[("a", b"a")]);
    let said = fails(dir.path(), &["--limit", "1.5", "a", "b"]);
    assert!(said.contains("a number of bytes has no fraction"), "{said}");
}

#[test]
fn a_wrong_word_of_any_kind_is_answered_by_the_nearest_or_by_all() {
    for (words, near, known) in [
        (&["WORD"][..], ("caat", "cat"), "generate, cp, "),
        (&["cp", "--method=WORD", "a", "b"], ("spice", "splice"), "auto, "),
        (&["cat", "--method=WORD", "a"], ("spice", "splice"), "auto, "),
        (&["tee", "--method=WORD", "a"], ("spice", "splice"), "auto, "),
        (&["link", "--stats=WORD", "null:", "null:"], ("jsno", "json"), "text, json"),
        (&["lab", "WORD"], ("matrxi", "matrix"), ""),
        (&["lab", "pipe", "--only", "WORD"], ("write-raed", "write-read"), "write-read, "),
        (&["lab", "matrix", "--pairs", "WORD:tcp"], ("pipee", "pipe"), "file, "),
        (&["lab", "explain", "WORD:x"], ("pip", "pipe"), "pipe, "),
        (&["pipe", "write", "--pattern", "WORD"], ("countr", "counter"), "constant, "),
    ] {
        let said = |word: &str| {
            let words = words.iter().map(|text| text.replace("WORD", word));
            stderr(&gush().args(words).output().unwrap())
        };
        let (wrong, name) = near;
        let answer = said(wrong);
        let wanted = format!("; did you mean '{name}'?\n");
        assert!(answer.contains(&wanted), "{words:?}: {answer}");
        let answer = said("zzzzzz");
        let wanted = format!("; choose from {known}");
        assert!(answer.contains(&wanted), "{words:?}: {answer}");
    }
}

#[test]
fn a_wrong_word_of_a_part_points_at_the_help_of_that_part() {
    for (words, reported) in [
        (&["pipe"][..], "gush: pipe: a command is missing: write, read\nTry 'gush pipe --help'"),
        (
            &["lab", "run", "--min-benchmarkng-time", "1", "true"],
            "gush: lab: run: unrecognized option '--min-benchmarkng-time'\n",
        ),
        (&["lab", "run", "--min-rusn", "1", "true"], "did you mean '--min-runs'?\n"),
        (&["link", "--speak-fr", "x", "-", "-"], "unrecognized option '--speak-fr'\n"),
        (
            &["pipe", "write", "--frob"],
            "gush: pipe: write: unrecognized option '--frob'\nTry 'gush pipe write --help'",
        ),
        (&["tune", "--frob"], "gush: tune: unrecognized option '--frob'\nTry 'gush tune --help'"),
        (&["lab", "pipe", "--frob"], "Try 'gush lab pipe --help'"),
        (&["lab", "--bogus"], "gush: lab: unrecognized option '--bogus'\n"),
        (
            &["lab", "pipe", "--only", "write-raed"],
            "unknown case 'write-raed'; did you mean 'write-read'?\n",
        ),
        (
            &["generate"],
            "gush: generate: a command is missing: man, completions\nTry 'gush generate --help'",
        ),
        (&["generate", "man", "a", "b"], "Try 'gush generate man --help'"),
    ] {
        let said = stderr(&gush().args(words).output().unwrap());
        assert!(said.contains(reported), "{words:?}: {said}");
    }
}
