//! The store keeps every run in a file of its own, and leaves a damaged file alone.

use gush_test as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;

use gush_lab::model::{Run, Sample};
use gush_lab::store::{Store, StoreError};
use gush_lab::transfer;
use proptest::prelude::*;
use tempfile::TempDir;

fn runs() -> Vec<Run> {
    transfer::parse(include_bytes!("data/export.json")).unwrap()
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    // Directories that are not there yet: the store makes them.
    let path = dir.path().join("deep/er/runs");
    (dir, path)
}

/// A store with the runs of the export.
fn filled() -> (TempDir, PathBuf) {
    let (dir, path) = place();
    let store = Store::open(&path).unwrap();
    for run in runs() {
        store.insert(&run).unwrap();
    }
    (dir, path)
}

fn file_of(path: &Path, run: &Run) -> PathBuf {
    path.join(format!("{}.jsonl", run.id))
}

fn listed(path: &Path) -> Vec<Result<Run, StoreError>> {
    Store::read(path).runs().unwrap().collect()
}

fn all(path: &Path) -> Vec<Run> {
    listed(path).into_iter().map(Result::unwrap).collect()
}

#[test]
fn a_run_comes_back_as_it_was() {
    let (_dir, path) = place();
    let store = Store::open(&path).unwrap();
    for run in runs() {
        assert!(store.insert(&run).unwrap());
        assert!(!store.insert(&run).unwrap(), "a second time changes nothing");
        assert_eq!(store.find(&run.id).unwrap(), run);
    }
    assert_eq!(all(&path), runs());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "a file for each");
}

#[test]
fn samples_are_there_before_the_run_ends() {
    let (_dir, path) = place();
    let whole = runs().remove(0);
    let begun = Run { finished: None, samples: Vec::new(), ..whole.clone() };
    let mut recording = Store::open(&path).unwrap().begin(&begun).unwrap();
    for (index, sample) in whole.samples.iter().enumerate() {
        recording.add(sample).unwrap();
        // By a second reader, as `gush lab history` does during a run.
        let seen = Store::read(&path).find(&whole.id).unwrap();
        assert_eq!((seen.samples.len(), seen.finished), (index + 1, None));
    }
    recording.end(&whole).unwrap();
    assert_eq!(all(&path), [whole]);
}

#[test]
fn a_run_exported_while_it_ran_is_completed_by_a_later_export() {
    let (_dir, path) = place();
    let store = Store::open(&path).unwrap();
    let whole = runs().remove(0);
    let part = Run { finished: None, samples: whole.samples[..7].to_vec(), ..whole.clone() };
    assert!(store.insert(&part).unwrap());
    assert_eq!(store.find(&whole.id).unwrap(), part);
    assert!(store.insert(&whole).unwrap());
    assert_eq!(store.find(&whole.id).unwrap(), whole);
    assert!(!store.insert(&part).unwrap(), "an older state takes nothing away");
    assert_eq!(store.find(&whole.id).unwrap(), whole);
}

#[test]
fn another_run_of_the_same_name_is_refused() {
    let (_dir, path) = filled();
    let mine = runs().remove(0);
    let mut theirs = mine.clone();
    theirs.samples[3].measured.gib_per_s = Some(9999.0);
    let store = Store::open(&path).unwrap();
    for refused in [store.insert(&theirs).unwrap_err(), store.begin(&theirs).unwrap_err()] {
        assert!(matches!(refused, StoreError::Contradiction(_)), "{refused}");
    }
    assert_eq!(all(&path), runs());
}

#[test]
fn runs_are_found_by_id_by_its_start_and_from_the_end() {
    let (_dir, path) = place();
    let store = Store::open(&path).unwrap();
    assert!(store.find("last").unwrap_err().to_string().contains("no runs yet"));
    let runs = runs();
    // The order is that of time, not of coming.
    for run in runs.iter().rev() {
        store.insert(run).unwrap();
    }
    for (word, index) in
        [("last", 1), ("last~0", 1), ("last~1", 0), ("20261120", 0), (runs[1].id.as_str(), 1)]
    {
        assert_eq!(store.find(word).unwrap(), runs[index], "{word}");
    }
    let why = |word: &str| store.find(word).unwrap_err().to_string();
    assert!(why("2026").contains("could be 2 runs"), "{}", why("2026"));
    assert!(why("nope").contains("unknown run 'nope'"));
    for word in ["last~2", "last~18446744073709551615"] {
        assert!(why(word).contains("before the first run"), "{}", why(word));
    }
    for word in ["last~-1", "last~x", "last~", "last~99999999999999999999"] {
        assert!(why(word).contains("last~1 is the one before the last"), "{}", why(word));
    }
    // An id may be the beginning of another one.
    let longer = Run { id: runs[0].id.clone() + "-few", ..runs[0].clone() };
    store.insert(&longer).unwrap();
    assert_eq!(store.find(&runs[0].id).unwrap(), runs[0]);
}

#[test]
fn runs_of_one_second_are_in_the_order_in_which_they_began() {
    let (_dir, path) = place();
    let store = Store::open(&path).unwrap();
    let run = |id: &str, started: &str| Run {
        id: format!("20261121-144355-{id}"),
        started: started.parse().unwrap(),
        ..Run::default()
    };
    let [second, third, first] = [
        run("1111", "2026-11-21T14:43:55.5Z"),
        run("2222", "2026-11-21T14:43:55.9Z"),
        run("3333", "2026-11-21T14:43:55.1Z"),
    ];
    for run in [&second, &third, &first] {
        store.insert(run).unwrap();
    }
    assert_eq!(all(&path), [&first, &second, &third].map(Clone::clone));
    assert_eq!(store.find("last").unwrap(), third);
    assert_eq!(store.find("last~2").unwrap(), first);
}

#[test]
fn a_damaged_file_is_refused_left_as_it_is_and_concerns_its_run_only() {
    let (_dir, path) = filled();
    let [first, second] = runs().try_into().unwrap();
    let file = file_of(&path, &second);
    let whole = fs::read(&file).unwrap();
    let end_of_first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut overwritten = whole.clone();
    overwritten[100..4096].fill(0xA5);
    let with = |line: &[u8]| [&whole[..end_of_first], line, b"\n"].concat();
    let header = |header: &str| [header.as_bytes(), b"\n", &whole[end_of_first..]].concat();
    let newer = r#"{"format":"gush-lab-run","version":7,"more":1}"#;
    for (damaged, why) in [
        (b"once upon a time there was a database".to_vec(), "line 1 cannot be understood"),
        (vec![0; 8192], "line 1 cannot be understood"),
        (b"\n".to_vec(), "line 1 cannot be understood"),
        (overwritten, "line 1 cannot be understood"),
        (whole[end_of_first..].to_vec(), "line 1 cannot be understood: missing field `format`"),
        // Two lines made one.
        ([&whole[..end_of_first - 1], &whole[end_of_first..]].concat(), "line 1 cannot be"),
        (header(r#"{"format":"gush-lab-runs","version":1,"runs":[]}"#), "is not a run of gush lab"),
        (header(newer), "a newer gush (version 7"),
        (with(br#"{"sample":7}"#), "line 2 cannot be understood: invalid type: integer `7`"),
        (with(br#"{"sa\u001bmple":7}"#), "line 2 cannot be understood: unknown variant"),
        // A million brackets: a parser that recurses would overflow its stack.
        (with(&b"[".repeat(1 << 20)), "line 2 cannot be understood"),
    ] {
        fs::write(&file, &damaged).unwrap();
        let store = Store::open(&path).unwrap();
        let said = store.find(&second.id).unwrap_err().to_string();
        assert!(said.contains(&format!("{}.jsonl: ", second.id)) && said.contains(why), "{said}");
        assert_eq!(store.find("last").unwrap_err().to_string(), said);
        assert_eq!(store.insert(&second).unwrap_err().to_string(), said);
        let mut listed = listed(&path).into_iter();
        assert_eq!(listed.next().unwrap().unwrap(), first);
        assert_eq!(listed.next().unwrap().unwrap_err().to_string(), said);
        assert_eq!(store.find("last~1").unwrap(), first);
        assert!(store.begin(&second).is_err());
        assert!(fs::read(&file).unwrap() == damaged, "it was written to");
    }
}

#[test]
fn a_writer_killed_at_any_byte_loses_its_line_alone() {
    let (_dir, path) = filled();
    let [first, second] = runs().try_into().unwrap();
    let file = file_of(&path, &second);
    let text = fs::read(&file).unwrap();
    let ends: Vec<usize> = (1..=text.len()).filter(|&end| text[end - 1] == b'\n').collect();
    assert_eq!(ends.len(), second.samples.len() + 2);
    let begun = ends[0];
    // Of the long first line some bytes, of the others every one.
    for cut in (0..begun).step_by(97).chain(begun..text.len()) {
        fs::write(&file, &text[..cut]).unwrap();
        let store = Store::read(&path);
        if cut < begun {
            assert_eq!(all(&path), std::slice::from_ref(&first), "{cut}");
            assert_eq!(store.find("last").unwrap(), first, "{cut}");
            assert!(store.find(&second.id).unwrap_err().to_string().contains("unknown run"));
            continue;
        }
        let samples = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let left = store.find("last").unwrap();
        assert_eq!(
            (left.id, left.samples),
            (second.id.clone(), second.samples[..samples].to_vec())
        );
    }
}

#[test]
fn a_forgotten_run_is_gone() {
    let (_dir, path) = place();
    let [first, second] = runs().try_into().unwrap();
    Store::open(&path).unwrap().insert(&first).unwrap();
    let begun = Run { finished: None, samples: Vec::new(), ..second };
    let recording = Store::open(&path).unwrap().begin(&begun).unwrap();
    assert_eq!(Store::read(&path).find("last").unwrap().id, begun.id);
    let store = recording.forget().unwrap();
    assert_eq!(all(&path), [first]);
    assert!(store.begin(&begun).is_ok(), "its name is free again");
}

#[test]
fn a_run_that_is_removed_while_it_is_made_is_reported() {
    let (_dir, path) = place();
    let run = runs().remove(0);
    let recording = Store::open(&path).unwrap().begin(&run).unwrap();
    fs::remove_dir_all(&path).unwrap();
    let said = recording.end(&run).unwrap_err().to_string();
    assert!(said.contains("cannot store the run: No such file or directory"), "{said}");
}

#[test]
fn no_text_breaks_out_of_its_line() {
    let (_dir, path) = place();
    let store = Store::open(&path).unwrap();
    let mut run = runs().remove(0);
    let line = "\"}}\n{\"ended\":{}}\r\n\u{2028}\u{85}\0\\";
    run.command = vec![line.to_owned()];
    run.machine.facts.insert(line.to_owned(), line.to_owned());
    run.samples[0].case = line.to_owned();
    run.samples[0].measured = run.samples[0].measured.clone().with(line, line);
    store.insert(&run).unwrap();
    assert_eq!(all(&path), std::slice::from_ref(&run));
    let text = fs::read_to_string(file_of(&path, &run)).unwrap();
    assert_eq!(text.lines().count(), run.samples.len() + 2);
}

/// The bytes of a run's file.
static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (_dir, path) = filled();
    fs::read(file_of(&path, &runs()[1])).unwrap()
});

proptest! {
    /// Whatever bytes of a file are changed: the answer is a run or a sentence, and nothing is
    /// written.
    #[test]
    fn a_changed_file_is_understood_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("run.jsonl");
        let mut text = TEXT.clone();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text.truncate(cut.index(text.len()) + 1);
        fs::write(&file, &text).unwrap();
        let listed = listed(dir.path());
        prop_assert!(listed.len() <= 1);
        prop_assert_eq!(Store::read(dir.path()).find("run").ok(), listed.into_iter().flatten().next());
        prop_assert!(fs::read(&file).unwrap() == text, "a reader wrote");
    }
}

#[test]
fn many_writers_at_once_lose_nothing() {
    const WRITERS: u16 = 8;
    let (_dir, path) = place();
    let whole = runs().remove(0);
    let run = |writer: u16| Run { id: format!("w-{writer}"), ..whole.clone() };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (run, path) = (run(writer), &path);
            scope.spawn(move || {
                // The first of them makes the directory while the others open it.
                let mut recording = Store::open(path).unwrap().begin(&run).unwrap();
                run.samples.iter().for_each(|sample| recording.add(sample).unwrap());
                recording.end(&run).unwrap();
            });
        }
    });
    assert_eq!(all(&path), (0..WRITERS).map(run).collect::<Vec<_>>());
}

#[test]
fn other_files_in_the_directory_are_no_runs() {
    let (_dir, path) = filled();
    for name in ["last~1.jsonl", "a b.jsonl", ".jsonl", "notes.txt", "20261121.jsonl.7.tmp"] {
        fs::write(path.join(name), "something").unwrap();
    }
    assert_eq!(all(&path), runs());
    // A copy is a run of its own.
    let first = &runs()[0];
    fs::copy(file_of(&path, first), path.join("copy.jsonl")).unwrap();
    assert_eq!(
        Store::read(&path).find("last").unwrap(),
        Run { id: "copy".into(), ..first.clone() }
    );
}

#[test]
fn a_file_is_no_store() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("lab.jsonl");
    fs::write(&file, "").unwrap();
    for said in [
        Store::open(&file).unwrap_err().to_string(),
        Store::read(&file).find("last").unwrap_err().to_string(),
        Store::read(&file).runs().err().unwrap().to_string(),
    ] {
        assert!(
            said.ends_with("lab.jsonl: is not a directory: name a directory with --db"),
            "{said}"
        );
    }
}

#[test]
fn a_store_that_may_not_be_written_is_read_and_the_refusal_says_what_to_do() {
    let (_dir, path) = filled();
    let [first, second] = runs().try_into().unwrap();
    let may =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    may(&path, 0o555);
    gush_test::without_privilege(|| {
        assert_eq!(all(&path), runs());
        for path in [path.clone(), path.join("deeper")] {
            let said = Store::open(&path).unwrap_err().to_string();
            assert!(said.contains("Permission denied (") && said.contains("--no-store"), "{said}");
        }
    });
    may(&path, 0o755);
    // A file that may not be read is its own run's matter.
    may(&file_of(&path, &second), 0);
    gush_test::without_privilege(|| {
        let mut listed = listed(&path).into_iter();
        assert_eq!(listed.next().unwrap().unwrap(), first);
        let said = listed.next().unwrap().unwrap_err().to_string();
        assert!(said.contains("cannot read the store: Permission denied"), "{said}");
    });
}

#[test]
fn figures_and_facts_of_every_kind_survive() {
    let (_dir, path) = place();
    let mut run = runs().remove(0);
    let mut odd: Sample = run.samples[0].clone();
    odd.measured.gib_per_s = Some(1e-300);
    odd.measured.wall_s = Some(0.1 + 0.2);
    odd.measured.bytes = i64::MAX as u64;
    odd.measured =
        odd.measured.with("nested", serde_json::json!({"a": [1, null, "ü"], "b": 1.5e300}));
    run.samples.push(odd);
    Store::open(&path).unwrap().insert(&run).unwrap();
    assert_eq!(all(&path), [run]);
}
