//! The store keeps what it was given, and leaves alone what it cannot read.

use gush_test as _;
use std::fs;
use std::path::PathBuf;
use std::thread;

use gush_lab::model::{Run, Sample};
use gush_lab::store::{Store, StoreError};
use gush_lab::transfer;
use tempfile::TempDir;

fn runs() -> Vec<Run> {
    transfer::parse(include_bytes!("data/export.json")).unwrap()
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("deep/er/lab.sqlite3");
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
    let entries = store.runs().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!((entries[0].samples, entries[0].suites.join(" ")), (20, "copy pipe".to_owned()));
}

#[test]
fn samples_are_there_before_the_run_ends() {
    let (_dir, path) = place();
    let whole = runs().remove(0);
    let begun = Run { finished: None, samples: Vec::new(), ..whole.clone() };
    let mut recording = Store::open(&path).unwrap().begin(&begun).unwrap();
    for (index, sample) in whole.samples.iter().enumerate() {
        recording.add(sample).unwrap();
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
    assert!(why("nope").contains("no run is called 'nope'"));
    for word in ["last~2", "last~18446744073709551615"] {
        assert!(why(word).contains("before the first of 2 runs"), "{}", why(word));
    }
    for word in ["last~-1", "last~x", "last~", "last~99999999999999999999"] {
        assert!(why(word).contains("last~1 is the one before the last"), "{}", why(word));
    }
}

#[test]
fn a_damaged_file_is_refused_and_left_as_it_is() {
    let (_dir, path) = place();
    let mut store = Store::open(&path).unwrap();
    for run in runs() {
        store.insert(&run).unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let garbage = b"not a database at all, but long enough to be looked at".repeat(40);
    let mut torn = whole.clone();
    torn[100..4096].fill(0xA5);
    for damaged in [&garbage, &torn] {
        fs::write(&path, damaged).unwrap();
        let said = match Store::open(&path).and_then(|store| store.runs()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("a damaged file was believed"),
        };
        assert!(said.contains("lab.sqlite3") && said.contains("left as it is"), "{said}");
        assert!(Store::read(&path).and_then(|store| store.runs()).is_err());
        assert!(fs::read(&path).unwrap() == *damaged, "it was written to");
    }
}

#[test]
fn a_newer_store_and_a_foreign_database_are_refused_and_left_as_they_are() {
    let (_dir, path) = place();
    drop(Store::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 7).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    for opened in [Store::open(&path), Store::read(&path)] {
        let said = opened.unwrap_err().to_string();
        assert!(said.contains("a newer gush (version 7") && said.contains("update gush"), "{said}");
    }
    assert!(fs::read(&path).unwrap() == before);

    let foreign = path.with_file_name("bookmarks.sqlite");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE bookmarks (address TEXT)").unwrap();
    drop(connection);
    let before = fs::read(&foreign).unwrap();
    let said = Store::open(&foreign).unwrap_err().to_string();
    assert!(said.contains("another program's database"), "{said}");
    assert!(fs::read(&foreign).unwrap() == before);
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
fn an_empty_file_has_no_runs_yet() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("lab.sqlite3");
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
    // As on a read-only medium, no other file can be made beside this one: the name would be too long.
    let long = path.with_file_name("x".repeat(254));
    fs::rename(&path, &long).unwrap();
    assert_eq!(Store::read(&long).unwrap().run(&run.id).unwrap(), run);
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
