//! Exports read back as they were written; what is none is refused with a sentence.

use gush_lab::csv;
use gush_lab::model::Run;
use gush_lab::transfer::{self, TransferError};
use gush_test as _;
use proptest::prelude::*;
use serde_json::{Value, json};

const EXPORT: &[u8] = include_bytes!("data/export.json");

fn refused(text: impl AsRef<[u8]>) -> String {
    transfer::parse(text.as_ref()).expect_err("it was believed").to_string()
}

/// The stored export with one thing changed.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut document: Value = serde_json::from_slice(EXPORT).unwrap();
    change(&mut document);
    document.to_string()
}

#[test]
fn an_export_reads_back_as_it_was() {
    let runs = transfer::parse(EXPORT).unwrap();
    assert_eq!(transfer::parse(transfer::json(&runs).as_bytes()).unwrap(), runs);
}

#[test]
fn what_a_later_gush_added_is_no_hindrance() {
    let text = changed(|document| {
        document["made_by"] = json!("a later gush");
        document["runs"][0]["colour"] = json!("blue");
        document["runs"][0]["samples"][0]["energy_j"] = json!(1.5);
    });
    assert_eq!(transfer::parse(text.as_bytes()).unwrap(), transfer::parse(EXPORT).unwrap());
}

#[test]
fn a_newer_form_is_refused_with_a_sentence() {
    // Its runs may look like anything.
    let text = json!({"format": "gush-lab-runs", "version": 2, "runs": "elsewhere"}).to_string();
    let error = transfer::parse(text.as_bytes()).unwrap_err();
    assert!(matches!(error, TransferError::Newer { found: 2 }));
    assert!(error.to_string().contains("update gush"), "{error}");
}

#[test]
fn garbage_is_refused_with_a_sentence() {
    let deep = "[".repeat(200_000);
    let deep_fact =
        format!(r#"{{"format":"gush-lab-runs","version":1,"runs":[{{"x":{}"#, "[".repeat(100_000));
    for garbage in ["", "{", "null", "[]", "\u{0}", "case,round", deep.as_str(), deep_fact.as_str()]
    {
        let said = refused(garbage);
        assert!(said.starts_with("is not an export of gush lab"), "{said}");
    }
    assert!(refused(&EXPORT[..EXPORT.len() / 2]).contains("it ends in the middle of line"));
    assert!(refused("{\n# Title\n}").ends_with("line 2 is not JSON"));
    let lacking = refused("{\n\"format\": \"gush-lab-runs\"\n}");
    assert!(lacking.contains("line 3 lacks a field of an export"), "{lacking}");
    assert!(refused([0xFF, 0xFE, 0x00]).starts_with("is not an export"));
    let other = json!({"format": "\u{1b}[31mother", "version": 1, "runs": []}).to_string();
    assert!(!refused(&other).contains('\u{1b}'), "the terminal's colours are no message's");
}

#[test]
fn names_and_figures_that_would_do_harm_are_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 10] = [
        ("not a share from 0 to 1", |run| run["others"] = json!(7)),
        ("cannot be a run's id", |run| run["id"] = json!("")),
        ("cannot be a run's id", |run| run["id"] = json!("last~1")),
        ("cannot be a run's id", |run| run["id"] = json!("../../etc/passwd")),
        ("cannot be a name", |run| run["samples"][0]["case"] = json!("two\nlines")),
        ("cannot be a name", |run| run["samples"][0]["suite"] = json!("")),
        ("control characters", |run| {
            run["machine"]["facts"]["host"] = json!("\u{1b}]0;title\u{7}")
        }),
        ("control characters", |run| run["samples"][1]["facts"]["x"] = json!(["\u{1b}[2J"])),
        ("impossible figure", |run| run["samples"][0]["gib_per_s"] = json!(-1)),
        ("impossible figure", |run| run["samples"][0]["bytes"] = json!(u64::MAX)),
    ];
    for (why, change) in changes {
        let said = refused(changed(|document| change(&mut document["runs"][1])));
        assert!(said.contains(why), "{why}: {said}");
        assert!(!said.contains(char::is_control), "{said:?}");
    }
    let text = String::from_utf8_lossy(EXPORT).replace("\"round\": 1,", "\"round\": 1e999,");
    assert!(refused(text).starts_with("is not an export"));
}

#[test]
fn rows_have_as_many_fields_as_the_header() {
    let runs = transfer::parse(EXPORT).unwrap();
    let columns = csv::HEADER.split(',').count();
    let of_run = |run: &Run| -> Vec<String> {
        let rows = csv::Rows::of(run);
        run.samples.iter().map(|sample| rows.row(sample)).collect()
    };
    let rows: Vec<String> = runs.iter().flat_map(of_run).collect();
    assert_eq!(rows.len(), runs.iter().map(|run| run.samples.len()).sum::<usize>());
    for row in rows {
        // A comma inside quotes is no border; a doubled quote opens and closes at once.
        let mut quoted = false;
        let fields = 1 + row
            .chars()
            .filter(|&c| {
                quoted ^= c == '"';
                c == ',' && !quoted
            })
            .count();
        assert_eq!(fields, columns, "{row}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = transfer::parse(&bytes);
    }

    #[test]
    fn no_flipped_byte_makes_the_reader_panic(place in 0..EXPORT.len(), byte in any::<u8>()) {
        let mut text = EXPORT.to_vec();
        text[place] = byte;
        let _: Result<Vec<Run>, _> = transfer::parse(&text);
    }
}
