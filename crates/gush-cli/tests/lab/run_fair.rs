//! `gush lab run` compares like with like: the same input for all, the same work, and no answer
//! that is wrong.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::gush;
use serde_json::Value;
use tempfile::TempDir;

/// `gush lab run` in `dir`, with files there and without storing the run.
fn lab(dir: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = gush();
    command.args(["lab", "run", "--no-store", "--dir", "."]).args(words).current_dir(dir);
    ended(&mut command)
}

fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_input_that_a_command_renames_comes_back() {
    let dir = TempDir::new().unwrap();
    let [file, tree] = ["mine.txt", "tree"].map(|name| dir.path().join(name));
    fs::write(&file, "precious\n").unwrap();
    fs::create_dir_all(tree.join("x")).unwrap();
    fs::write(tree.join("x/y"), "a").unwrap();
    for (input, copy) in [("./mine.txt", "cp {in} {out}"), ("./tree", "cp -r {in} {out}")] {
        let words = ["--input", input, "-r", "2", copy, "mv {in} {out}"];
        let (status, _, said) = lab(dir.path(), &words);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("it changed the input, and was moved back, so nothing"), "{said}");
        assert_eq!(fs::read(&file).unwrap(), b"precious\n");
        assert_eq!(fs::read(tree.join("x/y")).unwrap(), b"a");
        // The commands' own files are kept, too: parts of the input may be among them.
        let kept = names(dir.path()).into_iter().find(|name| name.starts_with("gush-lab-kept-"));
        let kept = kept.expect("files are kept");
        assert!(said.contains(&kept), "{said}");
        fs::remove_dir_all(dir.path().join(kept)).unwrap();
        assert_eq!(names(dir.path()), ["mine.txt", "tree"]);
    }
}

#[test]
fn parts_of_an_input_that_a_command_moves_away_are_kept() {
    let dir = TempDir::new().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/part"), "precious\n").unwrap();
    let words = ["--input", "./tree", "-r", "2", "ls {in}", "mv {in}/sub {dir}"];
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(1), "{said}");
    let kept = names(dir.path()).into_iter().find(|name| name.starts_with("gush-lab-kept-"));
    let part = dir.path().join(kept.expect("files are kept")).join("dir-2/sub/part");
    assert_eq!(fs::read(part).unwrap(), b"precious\n");
}

#[test]
fn a_change_deep_inside_of_the_input_is_seen() {
    let dir = TempDir::new().unwrap();
    let deep = dir.path().join("tree/sub/file");
    fs::create_dir_all(deep.parent().unwrap()).unwrap();
    fs::write(&deep, "a\n").unwrap();
    let reader = "cat {in}/sub/file";
    let grower = "sh -c 'cat {in}/sub/file; echo b >>{in}/sub/file'";
    let words = ["--input", "./tree", "-r", "3", reader, grower];
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("it changed the input"), "{said}");
    // Without a warm-up the rounds are over by the time anybody looks.
    let (status, _, said) =
        lab(dir.path(), &[&["-w", "0", "--output", "pipe"], &words[..]].concat());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("changed"), "{said}");
    // A command of the user's that makes the input anew may do so.
    let anew = ["--prepare", "sh -c 'echo a >{in}/sub/file'"];
    let (status, _, said) = lab(dir.path(), &[&anew, &words[..]].concat());
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_name_in_quotes_is_the_same_path_for_a_shell() {
    let dir = TempDir::new().unwrap();
    let input = dir.path().join("it's a dir/a file");
    fs::create_dir_all(input.parent().unwrap()).unwrap();
    fs::write(&input, "hello\n").unwrap();
    let words = [
        "--input",
        "./it's a dir/a file",
        "-r",
        "2",
        "cat {in} | cat >{out}",
        "cat \"{in}\" | cat >\"{out}\"",
        "cat '{in}' | cat >'{out}'",
        "x=\"$(cat \"{in}\")\"; echo \"$x\" >{out}",
    ];
    let (status, out, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        out.contains("Every output was compared: 6 bytes") && out.contains("equal to the input"),
        "{out}"
    );
}

#[test]
fn a_link_to_the_input_is_no_copy() {
    let dir = TempDir::new().unwrap();
    let links = [
        ("ln -s {in} {out}", "a symbolic link"),
        ("ln {in} {out}", "the input itself, by another name"),
    ];
    for (link, what) in links {
        let words = ["--input", "64K", "-r", "2", "cp {in} {out}", link];
        let (status, _, said) = lab(dir.path(), &words);
        assert_eq!(status, Some(1), "{said}");
        assert!(
            said.contains(&format!("{link}: its {{out}} is {what}: nothing was written")),
            "{said}"
        );
        let (status, ..) = lab(dir.path(), &[&words[..], &["--no-compare"]].concat());
        assert_eq!(status, Some(0));
    }
}

#[test]
fn work_that_nobody_checks_is_no_rival_of_files() {
    let dir = TempDir::new().unwrap();
    // Whoever sees /dev/null does nothing, as tar(1) and grep(1) do.
    let seer = dir.path().join("seer");
    let script = "#!/bin/sh\n[ \"$(readlink /proc/$$/fd/1)\" = /dev/null ] && exit 7\ncat \"$1\"\n";
    gush_test::executable(&seer, script);
    let words = ["--input", "64K", "-r", "3", "cp {in} {out}", "./seer {in}"];
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("some commands write {out} and others do not"), "{said}");
    let (status, out, said) = lab(dir.path(), &[&words[..], &["--output", "check"]].concat());
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("Every output was compared: 65536 bytes"), "{out}");
    // Each run is compared, not one.
    let flaky = "sh -c 'test -e {dir}/ran || cat {in}; : >{dir}/ran'";
    let words = [&words[..5], &[flaky, "--output", "check"]].concat();
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("0 bytes instead of 65536"), "{said}");
    // Whoever sees both outputs can compare them.
    for (first, second, is_reported) in [
        ("null", "null", true),
        ("null", "inherit", true),
        ("inherit", "null", true),
        ("inherit", "inherit", false),
    ] {
        let own = ["--output", first, "--output", second, "-r", "1", "seq 10", "seq 11"];
        let (_, out, said) = lab(dir.path(), &own);
        let is_there = out.contains("No output was compared (--output check");
        assert_eq!(is_there, is_reported, "{first} {second}: {out}{said}");
    }
}

#[test]
fn runs_that_failed_are_counted_next_to_their_figures() {
    let dir = TempDir::new().unwrap();
    let killed = "sh -c 'kill -9 $$'";
    let (status, out, said) = lab(dir.path(), &["-r", "3", "-i", "sleep 0.01", "false", killed]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("\nfalse failed in 3 of 3 rounds: status 1\n"), "{out}");
    assert!(out.contains(&format!("\n{killed} failed in 3 of 3 rounds: signal 9\n")), "{out}");
    assert!(!out.contains("sleep 0.01 failed"), "{out}");
}

/// The store of `dir`, and runs kept there.
fn stored(dir: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    ended(gush().arg("lab").args(words).args(["--db", "runs"]).current_dir(dir))
}

#[test]
fn other_circumstances_are_another_case() {
    let dir = TempDir::new().unwrap();
    let base = ["run", "--dir", ".", "-r", "2", "--input", "4K"];
    let pairs: [(&[&str], &[&str], &str); 5] = [
        (&["cat {in}"], &["--output", "pipe", "cat {in}"], "output: null → pipe"),
        (
            &["--output", "check", "cat {in}"],
            &["--output", "check", "--expect", "{in}", "cat {in}"],
            "expect: none → {in}",
        ),
        (&["cat {in}"], &["-i", "cat {in}"], "ignore_failure: false → true"),
        (&["cat {in}"], &["--stdin", "cat {in}"], "stdin: false → true"),
        (
            &["--set", "t=cat", "{t} {in}"],
            &["--set", "t=true", "{t} {in}"],
            "variable t: cat → true",
        ),
    ];
    for (first, second, difference) in pairs {
        let _ = fs::remove_dir_all(dir.path().join("runs"));
        for words in [first, second] {
            let (status, _, said) = stored(dir.path(), &[&base[..], words].concat());
            assert_eq!(status, Some(0), "{said}");
        }
        let (status, out, _) = stored(dir.path(), &["compare", "last~1", "last"]);
        assert_eq!(status, Some(1), "{out}");
        assert!(out.contains(&format!("is not the same in both: {difference}")), "{out}");
    }
}

#[test]
fn compare_judges_the_last_run_by_the_one_before() {
    let dir = TempDir::new().unwrap();
    let run = |commands: &[&str]| {
        let (status, _, said) =
            stored(dir.path(), &[&["run", "-r", "1", "-w", "0"], commands].concat());
        assert_eq!(status, Some(0), "{said}");
    };
    run(&["true"]);
    let (status, _, said) = stored(dir.path(), &["compare"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("'last~1' is before the first run"), "{said}");
    run(&["true 3"]);
    let (status, _, said) = stored(dir.path(), &["compare"]);
    assert_eq!(status, Some(1));
    assert!(
        said.contains("have no case in common that measured the same: name two runs"),
        "{said}"
    );
    run(&["true"]);
    let (status, out, said) = stored(dir.path(), &["compare", "last~2", "--json"]);
    assert_eq!(status, Some(0), "{said}");
    let both: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(both["cases"][0]["case"], "true");
}

#[test]
fn who_is_out_has_no_figure_anywhere() {
    let dir = TempDir::new().unwrap();
    // Right in the warm-up and two rounds, and wrong in the third.
    let late = dir.path().join("late");
    let script = "#!/bin/sh\necho >>\"$3/ran\"\n[ $(wc -l <\"$3/ran\") -le 3 ] && cp \"$1\" \"$2\" || echo >\"$2\"\n";
    gush_test::executable(&late, script);
    for _ in 0..2 {
        let words = [
            "run",
            "--dir",
            ".",
            "-r",
            "6",
            "--input",
            "64K",
            "--report",
            "page.html",
            "cp {in} {out}",
            "./late {in} {out} {dir}",
        ];
        let (status, out, said) = stored(dir.path(), &words);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("wrong output: it differs"), "{said}");
        let row = out.lines().find(|line| line.starts_with("./late ")).expect(&out);
        assert!(row.ends_with("  OUT"), "{out}");
    }
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    // The download of the run, at the end, has all samples.
    let text = page.split("<section id=\"samples\"").next().unwrap();
    let said = "./late {in} {out} {dir}</code> is left out: wrong output: it differs from that of cp {in} {out}";
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("times ("), "a contender that is out is compared with nobody");
    let (_, out, _) = stored(dir.path(), &["history", "last", "--json"]);
    let run: Value = serde_json::from_str(&out).unwrap();
    let cases: Vec<&Value> =
        run["figures"].as_array().unwrap().iter().map(|one| &one["case"]).collect();
    assert_eq!(cases, ["cp {in} {out}"]);
    let (status, out, _) = stored(dir.path(), &["compare"]);
    assert_eq!(status, Some(0), "{out}");
    assert!(out.contains("not compared: run ./late {in} {out} {dir} is left out in "), "{out}");
    assert!(!out.contains("\nrun ./late"), "{out}");
}

#[test]
fn a_page_shows_commands_without_bytes_by_their_time() {
    let dir = TempDir::new().unwrap();
    let words = ["--report", "page.html", "-r", "2", "sleep 0.2"];
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(0), "{said}");
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let captions = ["Time of a run, less is better", "Processor time of a run, less is better"];
    let [time, processor_time] = captions.map(|caption| {
        let (_, figure) = page.split_once(caption).unwrap_or_else(|| panic!("no {caption}"));
        let (_, value) = figure.split_once("<span class=\"value\"><b>").unwrap();
        value.split_once('<').unwrap().0.parse::<f64>().unwrap()
    });
    // A program that sleeps uses the processor for a part of its time.
    assert!(time >= 0.2 && processor_time < time, "{time} {processor_time}");
}

#[test]
fn a_setup_makes_files_for_its_own_contender() {
    let dir = TempDir::new().unwrap();
    let setup = "echo 'echo {x}' >{dir}/program";
    let words = ["-r", "2", "-L", "x", "1,22", "-s", setup, "--output", "check", "--no-compare"];
    let json = dir.path().join("all.json");
    let (status, out, said) =
        lab(dir.path(), &[&words[..], &["--export-json", "all.json", "sh {dir}/program"]].concat());
    assert_eq!(status, Some(0), "{said}");
    assert!(
        out.contains("sh {dir}/program, x=1 ") && out.contains("sh {dir}/program, x=22 "),
        "{out}"
    );
    assert!(json.exists());
    let words = [
        "-r",
        "2",
        "-w",
        "0",
        "-L",
        "x",
        "1,22",
        "-s",
        setup,
        "sh -c 'test $(sh {dir}/program) = {x}'",
    ];
    let (status, _, said) = lab(dir.path(), &words);
    assert_eq!(status, Some(0), "each contender finds the program of its own setup: {said}");
}

#[test]
fn a_cleanup_that_fails_is_a_failure() {
    let dir = TempDir::new().unwrap();
    let (status, _, said) = lab(dir.path(), &["-r", "1", "-c", "false", "true"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("cleanup 'false' ended with status 1"), "{said}");
}

#[test]
fn a_fifo_is_no_standard_input() {
    let dir = TempDir::new().unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let (status, _, said) = lab(dir.path(), &["-r", "1", "--stdin", "--input", "./fifo", "cat"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("the input is a FIFO, and opening it blocks"), "{said}");
}

#[test]
fn a_pipe_without_a_name_is_no_input() {
    let dir = TempDir::new().unwrap();
    let mut command = crate::run::lab(dir.path());
    command.args(["--input", "/dev/stdin", "cat {in}"]).stdin(Stdio::piped());
    let (status, _, said) = ended(&mut command);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("'/dev/stdin' is a pipe, whose bytes come once"), "{said}");
}

#[test]
fn a_command_that_asks_the_terminal_is_out() {
    let dir = TempDir::new().unwrap();
    let ask = "sh -c 'read answer </dev/tty'";
    // script(1) gives the program a terminal of its own.
    for words in [format!("\"{ask}\" true"), format!("--prepare \"{ask}\" true")] {
        let gush = env!("CARGO_BIN_EXE_gush");
        let line = format!("{gush} lab run --no-store --dir . -r 1 -w 0 {words}");
        let Output { stdout, .. } = Command::new("timeout")
            .args(["60", "script", "-qec", &line, "/dev/null"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&stdout);
        assert!(said.contains("it was stopped, because it asks the terminal"), "{said}");
    }
}

#[test]
fn a_directory_of_the_users_is_not_taken_for_one_that_was_left() {
    let dir = TempDir::new().unwrap();
    let [mine, left] = [".gush-lab-notes", ".gush-lab-abcdef"].map(|name| dir.path().join(name));
    for path in [&mine, &left] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), "text").unwrap();
    }
    fs::write(left.join(".made-by-gush-lab"), "").unwrap();
    for path in [&mine, &left] {
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(300);
        fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let (status, _, said) = lab(dir.path(), &["-r", "1", "-w", "0", "true"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(mine.join("file").exists() && !left.exists());
}

#[test]
fn the_page_follows_the_same_case_only() {
    let dir = TempDir::new().unwrap();
    let run = |size: &str| {
        let words = [
            "run",
            "--dir",
            ".",
            "-r",
            "2",
            "--input",
            size,
            "--report",
            "page.html",
            "cp {in} {out}",
            "dd if={in} of={out}",
        ];
        let (status, _, said) = stored(dir.path(), &words);
        assert_eq!(status, Some(0), "{said}");
        fs::read_to_string(dir.path().join("page.html")).unwrap()
    };
    run("64K");
    assert!(!run("128K").contains("run by run"), "two sizes are two cases");
    assert!(run("64K").contains("run by run"));
}

#[test]
fn standard_output_goes_where_asked() {
    let dir = TempDir::new().unwrap();
    let looks = "sh -c 'to=$(readlink /proc/$$/fd/1); echo $to >kinds'";
    for (word, kind) in [("null", "/dev/null"), ("pipe", "pipe:"), ("check", "/.gush-lab-")] {
        let words = ["-r", "1", "-w", "0", "--no-compare", "--output", word, looks];
        let (status, _, said) = lab(dir.path(), &words);
        assert_eq!(status, Some(0), "{said}");
        let kinds = fs::read_to_string(dir.path().join("kinds")).unwrap();
        assert!(kinds.lines().all(|one| one.contains(kind)), "{word}: {kinds}");
    }
}

#[test]
fn an_output_that_is_kept_is_there_in_the_next_run() {
    let dir = TempDir::new().unwrap();
    let counts = "sh -c 'echo run >>{out}; wc -l <{out} >count'";
    for (words, runs) in [(&["--keep-out"][..], "3"), (&[], "1")] {
        let all = [&["-r", "3", "-w", "0", "--no-compare"], words, &[counts]].concat();
        let (status, _, said) = lab(dir.path(), &all);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(fs::read_to_string(dir.path().join("count")).unwrap().trim(), runs);
    }
}
