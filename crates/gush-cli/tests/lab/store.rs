//! Runs are kept, judged and carried elsewhere; and the messages when they cannot be.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{gush, skipped};
use serde_json::Value;
use tempfile::TempDir;

const EXPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gush-lab/tests/data/export.json");

/// `gush lab` with `words`, the data under `home`.
fn lab(home: &Path, words: &[&str]) -> Command {
    let mut command = gush();
    command.arg("lab").args(words).env("XDG_DATA_HOME", home);
    command
}

/// The output of a command that has to succeed.
fn ok(home: &Path, words: &[&str]) -> String {
    let output = lab(home, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    text(&output.stdout)
}

/// The complaint of a command that has to fail.
fn fails(home: &Path, words: &[&str]) -> String {
    let output = lab(home, words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SHORT: [&str; 7] = ["pipe", "--only", "write-read", "--bytes", "1M", "--rounds", "3"];

/// Figures came, though the run is not stored.
fn measured_without_a_store(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("write-read"), "{output:?}");
    text(&output.stderr)
}

fn store_of(home: &Path) -> PathBuf {
    home.join("gush/runs")
}

fn home_with_runs() -> TempDir {
    let home = TempDir::new().unwrap();
    ok(home.path(), &["import", EXPORT]);
    home
}

fn agrees_with_golden(shown: &str, golden: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&path, shown).unwrap();
    }
    let agreed = fs::read_to_string(&path).unwrap_or_default();
    assert!(shown == agreed, "{} differs from:\n{shown}", path.display());
}

#[test]
fn a_run_is_kept_with_its_machine_and_every_sample() {
    let home = TempDir::new().unwrap();
    ok(home.path(), &SHORT);
    let listed: Value = serde_json::from_str(&ok(home.path(), &["history", "--json"])).unwrap();
    assert_eq!(
        (listed[0]["state"].as_str(), listed[0]["samples"].as_u64()),
        (Some("whole"), Some(3))
    );
    let shown: Value =
        serde_json::from_str(&ok(home.path(), &["history", "last", "--json"])).unwrap();
    assert!(shown["machine"]["facts"]["kernel"].is_string(), "{shown}");
    let median = &shown["figures"][0]["median"];
    assert!(median["value"].is_f64() && median.get("low").is_none(), "of three samples: {shown}");
    assert_eq!(ok(home.path(), &["export", "last", "--csv"]).lines().count(), 4);
}

#[test]
fn a_run_that_is_not_to_be_kept_is_kept_nowhere() {
    let home = TempDir::new().unwrap();
    let mut words = SHORT.to_vec();
    words.extend(["--no-store", "--json"]);
    let printed = ok(home.path(), &words);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    assert!(fails(home.path(), &["history"]).contains("no runs yet"));
    // What was printed can be kept later, here or elsewhere.
    fs::write(home.path().join("run.json"), printed).unwrap();
    ok(home.path(), &["import", home.path().join("run.json").to_str().unwrap()]);
    assert_eq!(ok(home.path(), &["history"]).lines().count(), 2);
}

#[test]
fn the_history_distinguishes_two_runs_of_commands() {
    let home = TempDir::new().unwrap();
    ok(home.path(), &["run", "--runs", "1", "true", "echo 'two words'"]);
    ok(home.path(), &["run", "--runs", "1", "true", "echo a\necho b"]);
    let history = ok(home.path(), &["history"]);
    let lines: Vec<&str> = history.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "a line for each: {history}");
    assert!(
        lines[0].ends_with(r#"gush lab run --runs 1 true "echo 'two words'""#),
        "as a shell would take it: {history}"
    );
    assert!(lines[1].ends_with("gush lab run --runs 1 true 'echo a echo b'"), "{history}");
}

#[test]
fn exports_and_what_is_said_of_them_are_as_agreed() {
    let home = home_with_runs();
    assert_eq!(ok(home.path(), &["export"]), fs::read_to_string(EXPORT).unwrap());
    agrees_with_golden(&ok(home.path(), &["export", "--csv"]), "lab-export.csv");
    agrees_with_golden(&ok(home.path(), &["history"]), "lab-history-shown.txt");
    agrees_with_golden(&ok(home.path(), &["history", "last~1"]), "lab-history-run.txt");
    let compared = ok(home.path(), &["compare", "last~1", "last"]);
    for (case, verdict) in [
        ("pipe write-read", "faster"),
        ("pipe huge-splice-busy", "slower"),
        ("pipe reservoir-splice", "cannot tell"),
    ] {
        let line = compared.lines().find(|line| line.starts_with(case)).unwrap();
        assert!(line.ends_with(verdict), "{compared}");
    }
    agrees_with_golden(&compared, "lab-compare-shown.txt");
    agrees_with_golden(
        &ok(home.path(), &["compare", "last~1", "last", "--json"]),
        "lab-compare.json",
    );
}

#[test]
fn few_samples_have_no_interval_in_history_and_compare() {
    let home = home_with_runs();
    let mut runs: Value = serde_json::from_str(&ok(home.path(), &["export"])).unwrap();
    let has_interval = |words: &[&str]| {
        let shown = ok(home.path(), words);
        let lines = shown.lines().filter(|line| line.contains(" … ")).count();
        (lines > 0, shown.contains("fewer than 5 samples"))
    };
    assert_eq!(has_interval(&["history", "last"]), (true, false));
    for run in runs["runs"].as_array_mut().unwrap() {
        run["id"] = format!("{}-few", run["id"].as_str().unwrap()).into();
        run["samples"].as_array_mut().unwrap().retain(|one| one["round"].as_u64() < Some(5));
    }
    let few = home.path().join("few.json");
    fs::write(&few, runs.to_string()).unwrap();
    ok(home.path(), &["import", few.to_str().unwrap()]);
    let ids: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(has_interval(&["history", ids[1]]), (false, true));
    assert_eq!(has_interval(&["compare", ids[0], ids[1]]), (false, true));
}

#[test]
fn importing_again_changes_nothing_and_newer_or_garbled_exports_are_refused() {
    let home = home_with_runs();
    let again = lab(home.path(), &["import", EXPORT]).output().unwrap();
    assert!(again.status.success());
    assert!(text(&again.stderr).contains("0 new runs, 2 already present"), "{again:?}");
    let file = home.path().join("odd.json");
    let odd = file.to_str().unwrap();
    for (content, why) in [
        (r#"{"format":"gush-lab-runs","version":9,"runs":[]}"#, "a newer gush (version 9"),
        ("PNG\u{0}", "is not an export of gush lab"),
    ] {
        fs::write(&file, content).unwrap();
        let said = fails(home.path(), &["import", odd]);
        assert!(said.contains("odd.json: ") && said.contains(why), "{said}");
    }
    assert!(fails(home.path(), &["import", "/nowhere.json"]).contains("No such file"));
    assert_eq!(ok(home.path(), &["export"]), fs::read_to_string(EXPORT).unwrap());
}

#[test]
fn words_that_mean_no_run_are_explained() {
    let home = home_with_runs();
    assert!(fails(home.path(), &["history", "20"]).contains("could be 2 runs"));
    assert!(fails(home.path(), &["compare", "last", "last~7"]).contains("before the first run"));
    assert!(fails(home.path(), &["history", "last~x"]).contains("last~1 is the one before"));
    assert!(fails(home.path(), &["import", "/proc"]).ends_with("cannot read: Is a directory\n"));
    assert!(fails(home.path(), &["export", "nope"]).contains("gush lab history lists them"));
}

#[test]
fn a_killed_run_leaves_a_readable_store_with_its_samples() {
    let home = home_with_runs();
    let mut killed = lab(home.path(), &["pipe", "--only", "write-read", "--bytes", "1M", "--csv"])
        .args(["--rounds", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows = BufReader::new(killed.stdout.take().unwrap()).lines().take(6).count();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let listed: Value = serde_json::from_str(&ok(home.path(), &["history", "--json"])).unwrap();
    let run = &listed[2];
    assert_eq!(run["state"], "unfinished");
    // Of the rows, one is the header; a sample is stored right after it is printed.
    assert!(run["samples"].as_u64().unwrap() >= rows as u64 - 2, "{run}");
    ok(home.path(), &SHORT);
    assert_eq!(ok(home.path(), &["history"]).lines().count(), 5);
}

#[test]
fn two_runs_at_once_lose_nothing() {
    let home = TempDir::new().unwrap();
    let mut words = SHORT.to_vec();
    words[6] = "20";
    let both = [(); 2].map(|()| {
        lab(home.path(), &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for mut run in both {
        let mut said = String::new();
        run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(run.wait().unwrap().success() && !said.contains("not stored"), "{said}");
    }
    let listed: Value = serde_json::from_str(&ok(home.path(), &["history", "--json"])).unwrap();
    let samples: Vec<_> =
        listed.as_array().unwrap().iter().map(|run| run["samples"].as_u64().unwrap()).collect();
    assert_eq!(samples, [20, 20]);
}

#[test]
fn a_damaged_file_concerns_its_run_only() {
    let home = home_with_runs();
    let before = ok(home.path(), &["export", "20261120"]);
    let damaged = store_of(home.path()).join("20261121-090000-0002.jsonl");
    fs::write(&damaged, "once upon a time there was a database").unwrap();
    for (words, lines) in [(&["history"][..], 2), (&["export"], before.lines().count())] {
        let output = lab(home.path(), words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "not all is there: {output:?}");
        assert_eq!(text(&output.stdout).lines().count(), lines, "{words:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("0002.jsonl: line 1 cannot be understood"), "{words:?}: {said}");
    }
    for words in [&["history", "last"][..], &["compare", "last~1", "last"], &["import", EXPORT]] {
        assert!(fails(home.path(), words).contains("0002.jsonl: "), "{words:?}");
    }
    assert_eq!(ok(home.path(), &["export", "last~1"]), before);
    let output = lab(home.path(), &SHORT).output().unwrap();
    assert!(output.status.success() && text(&output.stderr).contains("stored as "), "{output:?}");
    assert_eq!(fs::read(&damaged).unwrap(), b"once upon a time there was a database");
    let dir = store_of(home.path());
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    let exported = fs::read_to_string(EXPORT).unwrap();
    let id = exported.split('"').find(|word| word.starts_with("202611")).unwrap();
    // A FIFO would be waited for.
    let fifo = dir.join(format!("{id}.jsonl"));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let said = fails(home.path(), &["import", EXPORT]);
    assert!(
        said.contains("other runs were taken") && said.contains("not a regular file"),
        "{said}"
    );
}

#[test]
fn a_file_or_device_is_no_store_and_nothing_is_left() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("lab.jsonl");
    fs::write(&file, "").unwrap();
    let device = gush_test::device("full", home.path());
    for path in [&*device, &file] {
        let path = path.to_str().unwrap();
        let reported = format!("{path}: is not a directory: name a directory with --db");
        let explain = ["explain", "pipe:write-read", "--db", path];
        let command = ["run", "--runs", "1", "true", "--db", path];
        let suite = [&SHORT[..], &["--db", path]].concat();
        let tour = ["--only", "memory", "--db", path];
        let import = ["import", EXPORT, "--db", path];
        let history = ["history", "--db", path];
        for words in [&explain[..], &command, &suite, &tour, &import, &history] {
            let said = fails(home.path(), words);
            assert!(said.contains(&reported) && !said.contains("warning: "), "{words:?}: {said}");
        }
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "a temporary file remains");
}

#[test]
fn an_odd_name_of_a_store_does_not_reach_the_terminal() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("a\x1b[31mb");
    let said = fails(home.path(), &["history", "--db", path.to_str().unwrap()]);
    assert!(said.contains("/a\u{fffd}[31mb: no runs yet"), "{said:?}");
}

#[test]
fn a_run_of_no_bytes_is_refused() {
    let home = TempDir::new().unwrap();
    let said = fails(home.path(), &["pipe", "--bytes", "0", "--rounds", "1"]);
    assert!(said.contains("invalid --bytes '0': must be more than zero"), "{said}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_report_of_no_runs_is_refused() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("none.json"), r#"{"format":"gush-lab-runs","version":1,"runs":[]}"#)
        .unwrap();
    let none = home.path().join("none.json");
    for words in [&["report"][..], &["report", none.to_str().unwrap()]] {
        assert!(fails(home.path(), words).contains("no runs yet"), "{words:?}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "a page was written");
}

#[test]
fn a_home_that_cannot_be_written_is_reported_and_measuring_goes_on() {
    // Nobody, root included, makes directories there.
    let output = lab(Path::new("/proc/self/home"), &SHORT).output().unwrap();
    let said = measured_without_a_store(&output);
    assert!(said.contains("this run is not stored: /proc/self/home/gush/runs: "), "{said}");
    assert!(said.contains("--db") && said.contains("--no-store"), "{said}");
    let mut homeless = lab(Path::new("not/absolute"), &SHORT);
    let said = measured_without_a_store(&homeless.env_remove("HOME").output().unwrap());
    assert!(said.contains("neither XDG_DATA_HOME nor HOME is set"), "{said}");
}

#[test]
fn a_full_disk_is_reported_once_and_earlier_runs_stay() {
    let home = TempDir::new().unwrap();
    // The store is on a file system of its own, in a mount namespace that ends with the script.
    let script = r#"set -e
        mount -t tmpfs -o size=64k none "$1"
        "$2" lab import "$3"
        status=0
        "$2" lab pipe --only write-read --bytes 64K --rounds 600 || status=$?
        echo "status $status"
        "$2" lab pipe --only write-read --bytes 64K --rounds 2 --db "$1"/gush/runs || status=$?
        echo "named: status $status"
        "$2" lab export --csv | head -3
    "#;
    let small = home.path().join("small");
    fs::create_dir(&small).unwrap();
    let one = home.path().join("one.json");
    let mut export: Value = serde_json::from_str(&fs::read_to_string(EXPORT).unwrap()).unwrap();
    export["runs"].as_array_mut().unwrap().truncate(1);
    export["runs"][0]["samples"].as_array_mut().unwrap().truncate(2);
    fs::write(&one, export.to_string()).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([small.as_os_str(), env!("CARGO_BIN_EXE_gush").as_ref(), one.as_os_str()])
        .env("XDG_DATA_HOME", &small)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) if !text(&output.stderr).contains("new runs") => {
            return skipped(&format!("no file system of its own: {}", text(&output.stderr)));
        }
        Ok(output) => output,
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("from here on this run is not stored (its first "), "{said}");
    assert_eq!(said.matches("not stored").count(), 2, "{said}");
    assert!(said.contains("make room"), "{said}");
    assert!(shown.contains("write-read") && shown.contains("\nstatus 0\n"), "{shown}");
    // Somebody who names the store wants the run to be there.
    assert!(shown.contains("named: status 1\n"), "{shown}");
    assert!(shown.contains("20261120-080000-0001,2026-11-20T08:00:00Z"), "{shown}\n{said}");
}

/// With no room at all, and with room for some samples, on file systems in a mount namespace that
/// ends with the script.
#[test]
fn a_new_store_without_room_says_so_and_keeps_its_samples() {
    let home = TempDir::new().unwrap();
    let script = r#"
        for rest in 0 1; do
            mount -t tmpfs -o size=16k none "$1" || exit 9
            head -c $((16384 - rest * 4096)) /dev/zero >"$1/fill"
            "$2" lab run -r 50 -w 0 --dir "$3" --db "$1/runs" true
            echo "rest $rest: status $?: $(ls "$1/runs" | wc -l)"
            umount "$1"
        done
    "#;
    let small = home.path().join("small");
    fs::create_dir(&small).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([small.as_os_str(), env!("CARGO_BIN_EXE_gush").as_ref(), home.path().as_os_str()])
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) if !matches!(output.status.code(), Some(1 | 9)) => output,
        Ok(output) => {
            return skipped(&format!("no file system of its own: {}", text(&output.stderr)));
        }
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    let reported = |beginning: &str| {
        let line = said.lines().find(|line| line.contains(beginning));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        let why = ".jsonl: cannot store the run: No space left on device (what was stored before is kept: make room";
        assert!(line.contains(why), "{line}");
    };
    reported("run: this run is not stored: ");
    assert!(shown.contains("rest 0: status 1: 0\n"), "{shown}\n{said}");
    // Samples that were stored stay, and the message says how many there are.
    reported("from here on this run is not stored (its first ");
    assert!(shown.contains("rest 1: status 1: 1\n"), "{shown}\n{said}");
}

/// Room for the begin of a run and some of its samples, by the limit on file sizes: the message
/// says how many are in the file.
#[test]
fn a_store_that_is_full_reports_how_many_samples_it_has() {
    let home = TempDir::new().unwrap();
    let place = |name: &str| home.path().join(name).into_os_string().into_string().unwrap();
    // Long lines, next to which nothing else in the file matters: the file's size gives the number
    // of samples.
    let command = format!("true {}", "x".repeat(40_000));
    let block = |name: &str, runs: u32| {
        let contender = format!("[[comparison.contender]]\ncommand = '{command}'\n");
        format!("[[comparison]]\nname = '{name}'\nruns = {runs}\n{contender}")
    };
    // Of two comparisons, so that the second begins with the samples of the first in the file.
    fs::write(place("two.toml"), block("first", 1) + &block("second", 2)).unwrap();
    // A last line without its newline counts for nothing.
    let samples_in =
        |text: &str| text.matches("\n{\"sample\":").count() - usize::from(!text.ends_with('\n'));
    let run = |limit: &str, name: &str| {
        // dash(1) and bash(1) as sh count in units of 512 bytes.
        let script = "trap '' XFSZ; ulimit -f $1; shift; exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", limit, env!("CARGO_BIN_EXE_gush"), "lab", "run"]);
        shell.args(["-w", "0", "--dir", &place(""), "--db", &place(name), &place("two.toml")]);
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let file = fs::read_dir(place(name)).unwrap().next().unwrap().unwrap().path();
        let stored = fs::read_to_string(file).unwrap();
        (output.status.code(), text(&output.stderr), stored)
    };
    let (status, said, whole) = run("unlimited", "whole");
    assert_eq!((status, samples_in(&whole)), (Some(0), 3), "{said}");
    let lines: Vec<usize> = whole.lines().map(str::len).collect();
    let (begun, sample) = (lines[0], lines[1]);
    for (count, known) in
        ["none of its samples is", "its first sample is", "its first 2 samples are"]
            .into_iter()
            .enumerate()
    {
        let limit = (begun + count * sample + sample / 2) / 512;
        let (status, said, stored) = run(&limit.to_string(), &count.to_string());
        assert_eq!((status, samples_in(&stored)), (Some(1), count), "{said}");
        let reported = format!("from here on this run is not stored ({known}): ");
        assert!(said.contains(&reported), "{count}: {said}");
    }
}

/// An export of `count` runs, whose ids begin with `prefix`.
fn export_of(home: &Path, prefix: &str, count: usize) -> PathBuf {
    let mut export: Value = serde_json::from_str(&fs::read_to_string(EXPORT).unwrap()).unwrap();
    let run = export["runs"][0].clone();
    let named = |index: usize| {
        let mut run = run.clone();
        run["id"] = format!("{prefix}-{index:03}").into();
        run
    };
    export["runs"] = (0..count).map(named).collect();
    let path = home.join(format!("{prefix}.json"));
    fs::write(&path, export.to_string()).unwrap();
    path
}

fn ids(home: &Path) -> Vec<String> {
    let listed: Value = serde_json::from_str(&ok(home, &["history", "--json"])).unwrap();
    let runs = listed.as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_imports_at_once_lose_nothing() {
    let home = TempDir::new().unwrap();
    let both = ["one", "two"].map(|prefix| {
        let file = export_of(home.path(), prefix, 100);
        let mut import = lab(home.path(), &["import", file.to_str().unwrap()]);
        import.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for import in both {
        let output = import.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stderr).contains("100 new runs, 0 already present"), "{output:?}");
    }
    let expected = ["one", "two"]
        .iter()
        .flat_map(|prefix| (0..100).map(move |index| format!("{prefix}-{index:03}")));
    assert_eq!(ids(home.path()), expected.collect::<Vec<_>>());
}

#[test]
fn an_import_killed_anywhere_is_completed_by_the_next() {
    let whole = TempDir::new().unwrap();
    let file = export_of(whole.path(), "run", 60);
    let words = ["import", file.to_str().unwrap()];
    ok(whole.path(), &words);
    for part in 1..8 {
        let home = TempDir::new().unwrap();
        let mut import = lab(home.path(), &words).stderr(Stdio::null()).spawn().unwrap();
        let is_written = || {
            let there = fs::read_dir(store_of(home.path()));
            there.is_ok_and(|there| there.count() > 60 * part / 8)
        };
        while !is_written() && import.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        import.kill().unwrap();
        import.wait().unwrap();
        let found = lab(home.path(), &["history"]).output().unwrap();
        assert!(found.status.success(), "{found:?}");
        ok(home.path(), &words);
        assert_eq!(ok(home.path(), &["export"]), ok(whole.path(), &["export"]));
    }
}
