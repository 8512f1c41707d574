//! The store keeps every run, and leaves a damaged file alone.

use gush_test as _;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use gush_lab::model::{Run, Sample};
use gush_lab::store::{Store, StoreError};
use gush_lab::transfer;
use proptest::prelude::*;
use rustix::fs::FlockOperation;
use tempfile::TempDir;

fn runs() -> Vec<Run> {
    transfer::parse(include_bytes!("data/export.json")).unwrap()
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    // Directories that are not there yet: the store makes them.
    let path = dir.path().join("deep/er/lab.jsonl");
    (dir, path)
}

#[test]
fn a_run_comes_back_as_it_was() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    for run in runs() {
        assert!(store.insert(&run).unwrap());
        assert!(!store.insert(&run).unwrap(), "a second time changes nothing");
        assert_eq!(store.run(&run.id).unwrap(), run);
    }
    assert_eq!(store.runs().unwrap(), runs());
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
        let seen = Store::read(&path).unwrap().run(&whole.id).unwrap();
        assert_eq!((seen.samples.len(), seen.finished), (index + 1, None));
    }
    recording.end(&whole).unwrap();
    assert_eq!(Store::read(&path).unwrap().run(&whole.id).unwrap(), whole);
}

#[test]
fn a_run_exported_while_it_ran_is_completed_by_a_later_export() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    let whole = runs().remove(0);
    let part = Run { finished: None, samples: whole.samples[..7].to_vec(), ..whole.clone() };
    assert!(store.insert(&part).unwrap());
    assert!(store.insert(&whole).unwrap());
    assert_eq!(store.run(&whole.id).unwrap(), whole);
    assert!(!store.insert(&part).unwrap(), "an older state takes nothing away");
    assert_eq!(store.run(&whole.id).unwrap(), whole);
}

#[test]
fn another_run_of_the_same_name_is_refused() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    let mine = runs().remove(0);
    store.insert(&mine).unwrap();
    let mut theirs = mine.clone();
    theirs.samples[3].measured.gib_per_s = Some(9999.0);
    let refused = store.insert(&theirs).unwrap_err();
    assert!(matches!(refused, StoreError::Contradiction(_)), "{refused}");
    assert_eq!(store.run(&mine.id).unwrap(), mine);
}

#[test]
fn runs_are_found_by_id_by_its_start_and_from_the_end() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    assert!(store.find("last").unwrap_err().to_string().contains("no runs yet"));
    let runs = runs();
    // The order is that of time, not of coming.
    for run in runs.iter().rev() {
        store.insert(run).unwrap();
    }
    for (word, index) in
        [("last", 1), ("last~0", 1), ("last~1", 0), ("20261120", 0), (runs[1].id.as_str(), 1)]
    {
        assert_eq!(store.find(word).unwrap(), runs[index].id, "{word}");
    }
    let why = |word: &str| store.find(word).unwrap_err().to_string();
    assert!(why("2026").contains("could be 2 runs"), "{}", why("2026"));
    assert!(why("nope").contains("unknown run 'nope'"));
    for word in ["last~2", "last~18446744073709551615"] {
        assert!(why(word).contains("before the first of 2 runs"), "{}", why(word));
    }
    for word in ["last~-1", "last~x", "last~", "last~99999999999999999999"] {
        assert!(why(word).contains("last~1 is the one before the last"), "{}", why(word));
    }
}

/// A store with the runs of the export, and its bytes.
fn filled() -> (TempDir, PathBuf, Vec<u8>) {
    let (dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    for run in runs() {
        store.insert(&run).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    (dir, path, bytes)
}

/// Where the lines of a file begin.
fn starts(text: &[u8]) -> Vec<usize> {
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    [0].into_iter()
        .chain(newlines.map(|(at, _)| at + 1))
        .take_while(|at| *at < text.len())
        .collect()
}

fn torn_of(path: &Path) -> PathBuf {
    path.with_file_name("lab.jsonl.torn")
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let (_dir, path, whole) = filled();
    let garbage = b"not a store at all, but long enough to be looked at".repeat(40);
    let mut torn = whole.clone();
    torn[100..4096].fill(0xA5);
    let mut lines = starts(&whole).into_iter();
    let (_header, first, second) = (lines.next(), lines.next().unwrap(), lines.next().unwrap());
    let without_newline = [&whole[..second - 1], &whole[second..]].concat();
    // A million brackets: a parser that recurses would overflow its stack.
    let deep = [&whole[..first], &b"[".repeat(1 << 20), b"\n".as_slice()].concat();
    let stray = br#"{"taken":{"run":"x\u001b","sample":{"suite":"pipe","case":"c","round":1}}}"#;
    let stray = [&whole[..first], stray, b"\n".as_slice()].concat();
    for damaged in [&garbage, &torn, &without_newline, &deep, &stray] {
        fs::write(&path, damaged).unwrap();
        let said = match Store::open(&path).and_then(|store| store.runs()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("a damaged file was believed"),
        };
        assert!(said.contains("lab.jsonl: ") && said.contains("left as it is"), "{said}");
        assert!(!said.contains(char::is_control), "{said}");
        assert!(Store::read(&path).is_err());
        let run = Run { id: "new".into(), ..runs().remove(0) };
        assert!(Store::open(&path).and_then(|store| store.begin(&run)).is_err());
        assert!(fs::read(&path).unwrap() == *damaged, "it was written to");
        assert!(!torn_of(&path).exists());
    }
}

#[test]
fn a_line_that_is_damaged_is_named() {
    let (_dir, path, mut text) = filled();
    text.extend(b"{\"taken\":7}\n");
    fs::write(&path, text).unwrap();
    let said = Store::read(&path).unwrap_err().to_string();
    assert!(said.contains("line 4 cannot be understood: invalid type: integer `7`"), "{said}");
}

#[test]
fn a_newer_store_and_foreign_files_are_refused_and_left_as_they_are() {
    let (_dir, path) = place();
    drop(Store::open(&path).unwrap());
    for (content, why) in [
        ("{\"format\":\"gush-lab-store\",\"version\":7,\"more\":1}\n", "a newer gush (version 7"),
        ("SQLite format 3\0\u{10}\0\u{1}\u{1}", "is not a store of runs"),
        ("{\"format\":\"gush-lab-runs\",\"version\":1,\"runs\":[]}\n", "is not a store of runs"),
        ("{\"format\":\"gush-lab-stores", "is not a store of runs"),
        ("\n", "is not a store of runs"),
    ] {
        fs::write(&path, content).unwrap();
        for opened in [Store::open(&path), Store::read(&path)] {
            let said = opened.unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("name another file with --db"), "{said}");
        }
        assert!(fs::read(&path).unwrap() == content.as_bytes());
    }
}

#[test]
fn a_writer_killed_at_any_byte_loses_its_line_alone_and_the_rest_is_kept() {
    let (_dir, path) = place();
    let [first, second] = runs().try_into().unwrap();
    Store::open(&path).unwrap().insert(&first).unwrap();
    let mut recording = Store::open(&path).unwrap().begin(&second).unwrap();
    recording.add(&second.samples[0]).unwrap();
    drop(recording);
    let text = fs::read(&path).unwrap();
    let lines = starts(&text);
    let [0, whole, begun, taken] = lines[..] else { panic!("{lines:?}") };
    let last = Run { id: "after".into(), ..first.clone() };
    // Every byte of the header and of a sample; of two long lines some.
    for cut in (1..whole).chain((whole..taken).step_by(199)).chain(taken..text.len()) {
        fs::write(&path, &text[..cut]).unwrap();
        let good = &text[..*lines.iter().rfind(|start| **start <= cut).unwrap()];
        let torn = &text[good.len()..cut];
        let left = match Store::read(&path) {
            Ok(store) => {
                let notices = store.notices();
                assert_eq!(notices.len(), usize::from(!torn.is_empty()), "{cut}: {notices:?}");
                let reported = format!("{} bytes are left out", torn.len());
                assert!(notices.iter().all(|notice| notice.contains(&reported)), "{notices:?}");
                store.runs().unwrap()
            }
            Err(error) => {
                assert!(cut < whole && error.to_string().contains("no runs yet"), "{cut}: {error}");
                Vec::new()
            }
        };
        assert_eq!(
            left.len(),
            [whole, begun, taken].partition_point(|start| *start <= cut).saturating_sub(1)
        );
        assert_eq!(
            left.iter().map(|run| run.samples.len()).max(),
            (!left.is_empty()).then_some(20),
            "{cut}"
        );
        assert_eq!(fs::read(&path).unwrap().len(), cut, "a reader wrote");

        let mut store = Store::open(&path).unwrap();
        assert!(store.insert(&last).unwrap());
        assert_eq!(store.runs().unwrap().len(), left.len() + 1, "{cut}");
        assert_eq!(store.run("after").unwrap(), last);
        if torn.is_empty() {
            assert!(store.notices().is_empty() && !torn_of(&path).exists(), "{cut}");
        } else {
            assert!(store.notices()[0].contains("lab.jsonl.torn"), "{cut}");
            assert_eq!(fs::read(torn_of(&path)).unwrap(), [torn, b"\n"].concat(), "{cut}");
            fs::remove_file(torn_of(&path)).unwrap();
        }
        let mended = fs::read(&path).unwrap();
        assert!(mended.starts_with(good) && mended.ends_with(b"\n"), "{cut}");
    }
}

#[test]
fn a_line_torn_by_another_process_during_a_run_is_kept() {
    let (_dir, path) = place();
    let whole = runs().remove(0);
    let begun = Run { finished: None, samples: Vec::new(), ..whole.clone() };
    let mut recording = Store::open(&path).unwrap().begin(&begun).unwrap();
    for sample in &whole.samples {
        let mut other = fs::OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(b"{\"taken\":{\"run\":\"other").unwrap();
        recording.add(sample).unwrap();
    }
    let store = recording.end(&whole).unwrap();
    assert_eq!(store.notices().len(), whole.samples.len());
    assert_eq!(store.run(&whole.id).unwrap(), whole);
    let torn = fs::read_to_string(torn_of(&path)).unwrap();
    assert_eq!(torn, "{\"taken\":{\"run\":\"other\n".repeat(whole.samples.len()));
}

#[test]
fn a_reader_never_joins_the_halves_of_two_lines() {
    let (_dir, path, text) = filled();
    let start = *starts(&text).last().unwrap();
    let (before, line) = text.split_at(start);
    for cut in (1..line.len()).step_by(97) {
        // One writer is at its line, gives it up because the disk is full, and another writes a
        // longer one.
        fs::write(&path, [before, &line[..cut]].concat()).unwrap();
        let store = Store::read(&path).unwrap();
        assert_eq!(store.runs().unwrap().len(), 1);
        fs::write(&path, before).unwrap();
        assert_eq!(store.runs().unwrap().len(), 1);
        fs::write(&path, [before, b"{\"forgotten\":\"nobody\"}\n", line].concat()).unwrap();
        assert_eq!(store.run(&runs()[1].id).unwrap(), runs()[1]);
    }
}

#[test]
fn a_line_that_is_not_understood_is_read_again_once_nobody_writes() {
    let (_dir, path, text) = filled();
    let line = *starts(&text).last().unwrap();
    for _ in 0..10 {
        let writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        rustix::fs::flock(&writer, FlockOperation::LockExclusive).unwrap();
        // A reader can see a line of which one page is new and the next one old.
        writer.write_all_at(b"half and half", line as u64).unwrap();
        let (started, has_started) = mpsc::channel();
        let path = path.clone();
        let reading = thread::spawn(move || {
            started.send(()).unwrap();
            Store::read(&path).and_then(|store| store.runs()).map(|runs| runs.len())
        });
        has_started.recv().unwrap();
        thread::yield_now();
        writer.write_all_at(&text[line..], line as u64).unwrap();
        rustix::fs::flock(&writer, FlockOperation::Unlock).unwrap();
        assert_eq!(reading.join().unwrap().unwrap(), 2);
    }
}

#[test]
fn a_forgotten_run_is_gone() {
    let (_dir, path) = place();
    let [first, second] = runs().try_into().unwrap();
    Store::open(&path).unwrap().insert(&first).unwrap();
    let begun = Run { finished: None, samples: Vec::new(), ..second };
    let recording = Store::open(&path).unwrap().begin(&begun).unwrap();
    let reader = Store::read(&path).unwrap();
    assert_eq!(reader.find("last").unwrap(), begun.id);
    let store = recording.forget().unwrap();
    for store in [&store, &reader, &Store::read(&path).unwrap()] {
        assert!(store.run(&begun.id).is_err());
        assert_eq!(store.find("last").unwrap(), first.id);
    }
    assert!(store.begin(&begun).is_ok(), "its name is free again");
}

#[test]
fn a_run_whose_name_is_taken_does_not_begin() {
    let (_dir, path) = place();
    let run = runs().remove(0);
    let recording = Store::open(&path).unwrap().begin(&run).unwrap();
    let refused = Store::open(&path).unwrap().begin(&run).unwrap_err();
    assert!(refused.to_string().contains("another run is called"), "{refused}");
    recording.end(&run).unwrap();
}

#[test]
fn no_text_breaks_out_of_its_line() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    let mut run = runs().remove(0);
    let line = "\"}}\n{\"forgotten\":\"20261120-080000-0001\"}\r\n\u{2028}\u{85}\0\\";
    run.command = vec![line.to_owned()];
    run.machine.facts.insert(line.to_owned(), line.to_owned());
    run.samples[0].case = line.to_owned();
    run.samples[0].measured = run.samples[0].measured.clone().with(line, line);
    store.insert(&run).unwrap();
    assert_eq!(Store::read(&path).unwrap().run(&run.id).unwrap(), run);
    assert_eq!(starts(&fs::read(&path).unwrap()).len(), 2);
}

proptest! {
    /// Whatever bytes of a store are changed: the answer is runs or a sentence, and a file that is
    /// not understood is not changed.
    #[test]
    fn a_changed_file_is_understood_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_dir, path, mut text) = filled();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text.truncate(cut.index(text.len()) + 1);
        fs::write(&path, &text).unwrap();
        if let Ok(store) = Store::read(&path) {
            for run in store.runs().into_iter().flatten() {
                let _ = store.run(&run.id);
            }
        }
        prop_assert!(fs::read(&path).unwrap() == text, "a reader wrote");
        let run = Run { id: "new".into(), ..runs().remove(0) };
        match Store::open(&path).and_then(|mut store| store.insert(&run)) {
            Ok(is_new) => prop_assert!(is_new && Store::read(&path).unwrap().run("new").unwrap() == run),
            Err(error) => {
                // A torn line may have been set aside before the damage in the midst was found.
                let now = fs::read(&path).unwrap();
                prop_assert!(text.starts_with(&now), "{}", error);
                prop_assert!(now == text || torn_of(&path).exists(), "{}", error);
            }
        }
    }
}

#[test]
fn many_writers_at_once_lose_nothing() {
    const WRITERS: u16 = 8;
    let (_dir, path) = place();
    let whole = runs().remove(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let run = Run { id: format!("w-{writer}"), ..whole.clone() };
            let path = &path;
            scope.spawn(move || {
                // The first of them makes the file while the others open it.
                let mut recording = Store::open(path).unwrap().begin(&run).unwrap();
                run.samples.iter().for_each(|sample| recording.add(sample).unwrap());
                recording.end(&run).unwrap();
            });
        }
    });
    let store = Store::read(&path).unwrap();
    for writer in 0..WRITERS {
        let id = format!("w-{writer}");
        assert_eq!(store.run(&id).unwrap().samples, whole.samples, "{id}");
    }
}

#[test]
fn a_file_that_another_process_is_making_is_no_stranger() {
    for _ in 0..40 {
        let (_dir, path) = place();
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| Store::open(&path).unwrap());
            }
        });
    }
}

#[test]
fn a_store_that_is_removed_while_a_run_is_made_is_reported() {
    let (_dir, path) = place();
    let run = runs().remove(0);
    let mut recording = Store::open(&path).unwrap().begin(&run).unwrap();
    recording.add(&run.samples[0]).unwrap();
    fs::remove_file(&path).unwrap();
    let said = recording.add(&run.samples[0]).unwrap_err().to_string();
    assert!(said.contains("the store was removed meanwhile (start again"), "{said}");
    assert!(Store::open(&path).unwrap().runs().unwrap().is_empty());
}

#[test]
fn a_store_that_is_removed_while_it_is_opened_is_made_anew() {
    let (_dir, path) = place();
    drop(Store::open(&path).unwrap());
    let maker = fs::File::open(&path).unwrap();
    rustix::fs::flock(&maker, FlockOperation::LockExclusive).unwrap();
    let name = fs::canonicalize(&path).unwrap();
    let opens = || {
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|one| fs::read_link(one.path()).is_ok_and(|file| file == name)).count()
    };
    thread::scope(|scope| {
        let opening = scope.spawn(|| Store::open(&path));
        // It has the file, and waits for the lock.
        while opens() < 2 && !opening.is_finished() {
            thread::yield_now();
        }
        fs::remove_file(&path).unwrap();
        rustix::fs::flock(&maker, FlockOperation::Unlock).unwrap();
        assert!(opening.join().unwrap().unwrap().runs().unwrap().is_empty());
    });
    assert!(Store::read(&path).unwrap().runs().unwrap().is_empty(), "the new file has a name");
}

#[test]
fn an_empty_file_has_no_runs_yet() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("lab.jsonl");
    fs::write(&path, "").unwrap();
    let said = Store::read(&path).unwrap_err().to_string();
    assert!(said.ends_with("no runs yet: gush lab, or gush lab import, makes the first"), "{said}");
}

#[test]
fn a_store_on_a_medium_that_cannot_be_written_can_be_read() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    let run = runs().remove(0);
    store.insert(&run).unwrap();
    drop(store);
    // As on a read-only medium, no other file can be made next to this one: the name would be too
    // long.
    let long = path.with_file_name("x".repeat(254));
    fs::rename(&path, &long).unwrap();
    assert_eq!(Store::read(&long).unwrap().run(&run.id).unwrap(), run);
}

#[test]
fn a_store_that_may_not_be_written_is_read_and_the_refusal_says_what_to_do() {
    let (_dir, path, text) = filled();
    let directory = path.parent().unwrap();
    let may =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    may(&path, 0o444);
    may(directory, 0o555);
    gush_test::without_privilege(|| {
        assert_eq!(Store::read(&path).unwrap().runs().unwrap().len(), 2);
        for path in [path.clone(), directory.join("another"), directory.join("deeper/another")] {
            let said = Store::open(&path).unwrap_err().to_string();
            assert!(said.contains("Permission denied (") && said.contains("--no-store"), "{said}");
        }
        // A torn line is reported, although it cannot be set aside.
        may(&path, 0o644);
        fs::write(&path, &text[..text.len() - 1]).unwrap();
        assert!(Store::read(&path).unwrap().notices()[0].contains("left out"));
        let said = Store::open(&path).unwrap_err().to_string();
        assert!(said.contains("cannot bring the store in order: Permission denied"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), &text[..text.len() - 1]);
    });
    may(directory, 0o755);
}

#[test]
fn figures_and_facts_of_every_kind_survive() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    let mut run = runs().remove(0);
    let mut odd: Sample = run.samples[0].clone();
    odd.measured.gib_per_s = Some(1e-300);
    odd.measured.wall_s = Some(0.1 + 0.2);
    odd.measured.bytes = i64::MAX as u64;
    odd.measured =
        odd.measured.with("nested", serde_json::json!({"a": [1, null, "ü"], "b": 1.5e300}));
    run.samples.push(odd);
    store.insert(&run).unwrap();
    assert_eq!(store.run(&run.id).unwrap(), run);
}
