//! The commands of the README and of docs/*.md work as written, from a fresh clone, and the
//! README's figures are those that were stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::skipped;
use gush_lab::model::{Described, Measured, Run};
use gush_lab::stats::{Estimate, Interval};
use gush_test::Port;
use serde::Deserialize;
use tempfile::TempDir;

const RUN: &str = "cargo run --release --";
/// The alias of `.cargo/config.toml` for the program with every command.
const RUN_FULL: &str = "cargo gush";
const TEST: &str = "cargo test --workspace --no-fail-fast";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks fenced as plain `sh`; blocks that a reader is not to run at once are fenced otherwise
/// (`sh no-run`, `console`).
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```sh" {
            let block: Vec<_> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            blocks.push(block.join("\n"));
        } else if line.trim_start().starts_with("```") {
            lines.by_ref().find(|line| line.trim() == "```");
        }
    }
    blocks
}

fn readme() -> Option<String> {
    let readme = fs::read_to_string(repository().join("README.md"));
    if readme.is_err() {
        skipped("there is no README.md here");
    }
    readme.ok()
}

/// The README and docs/*.md: each with the name that a failure prints.
fn documents() -> Vec<(String, String)> {
    let pages = fs::read_dir(repository().join("docs")).into_iter().flatten();
    let mut pages: Vec<PathBuf> = pages
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    pages.sort();
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let pages = pages.iter().map(|path| (named(path), fs::read_to_string(path).unwrap()));
    readme().map(|readme| ("README.md".to_owned(), readme)).into_iter().chain(pages).collect()
}

#[test]
fn the_commands_of_the_documents_work() {
    let documents = documents();
    if documents.is_empty() {
        return;
    }
    let clone = TempDir::new().unwrap();
    for entry in fs::read_dir(repository()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), clone.path().join(entry.file_name())).unwrap();
        }
    }
    // Cargo has made it when it runs the first command.
    fs::create_dir(clone.path().join("target")).unwrap();
    let before = top_names(clone.path());
    let data = TempDir::new().unwrap();
    let programs = TempDir::new().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gush"), programs.path().join("gush")).unwrap();
    let path =
        format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap_or_default());

    // Somebody may listen at the documents' own.
    let ports: Vec<_> = (9000..9010).map(|number| (number, Port::reserve())).collect();
    let with_free_ports = |line: String| {
        ports.iter().fold(line, |line, (number, port)| {
            line.replace(&format!(":{number}"), &format!(":{}", port.number()))
        })
    };
    let mut ran = BTreeSet::new();
    for (document, block) in documents
        .iter()
        .flat_map(|(name, text)| blocks(text).into_iter().map(move |block| (name, block)))
    {
        ran.insert(document.as_str());
        // The tests are running already, and the program is built.
        let script: String = block
            .lines()
            .filter(|line| !line.starts_with(TEST))
            .map(|line| with_free_ports(line.replace(RUN, "gush").replace(RUN_FULL, "gush") + "\n"))
            .collect();
        // What a failing block leaves in the background would hold its output open.
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n{script}");
        // A reader may try a block twice; those of the lab take long, and leave nothing.
        let times = if block.contains(" lab ") || block.contains(" pipe ") { 1 } else { 2 };
        for _ in 0..times {
            let output = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &script])
                .current_dir(clone.path())
                .env("PATH", &path)
                .env("XDG_DATA_HOME", data.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{document}:\n{block}\n{said}");
        }
    }
    for document in ["README.md", "use.md", "link.md", "lab.md"] {
        assert!(ran.contains(document), "{document} has no block that ran");
    }
    // Beside what .gitignore names, the commands leave nothing in the clone.
    for name in top_names(clone.path()).difference(&before) {
        assert!(name.ends_with(".copy") || name == "target", "{name} is left untracked");
    }
}

fn top_names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_readme_names_the_two_commands_that_do_everything() {
    let Some(readme) = readme() else { return };
    let blocks = blocks(&readme);
    let has = |command: &str| {
        blocks.iter().flat_map(|block| block.lines()).any(|line| line.starts_with(command))
    };
    assert!(has(&format!("{RUN} cp ")), "no block has `{RUN} cp SRC DST`");
    assert!(has(TEST), "no block has `{TEST}`");
    assert!(has(RUN_FULL), "no block has `{RUN_FULL}`");
    let aliases = fs::read_to_string(repository().join(".cargo/config.toml")).unwrap();
    let full = "\n[alias]\ngush = \"run --release --features full --\"\n";
    assert!(aliases.contains(full), "`{RUN_FULL}` is no alias for the program with every command");
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let ci = fs::read_to_string(repository().join(".ci/run")).unwrap();
    let runs = |line: &str| line.strip_prefix("bounded ") == Some(TEST);
    assert!(ci.lines().any(runs), ".ci/run does not run `{TEST}`");
}

/// Where the README's figures come from: docs/figures.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    names: Vec<String>,
    figure: Vec<Source>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    says: String,
    /// The command of the stored run.
    by: String,
    run: String,
    case: String,
    /// The case that the other is divided by, round by round.
    next_to: Option<String>,
    /// `wall_s`, or the name of a figure that the commands print; else the compared one.
    figure: Option<String>,
}

fn text_of(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `text` in one line.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The section of a Markdown text whose heading, of the second level, begins with `heading`.
fn section<'t>(markdown: &'t str, heading: &str) -> &'t str {
    let begins = format!("\n## {heading}");
    let start = markdown.find(&begins).unwrap_or_else(|| panic!("no section '{heading}'"));
    let rest = &markdown[start + begins.len()..];
    rest.split("\n## ").next().unwrap_or(rest)
}

/// The words with a digit in `text`, without code, and without the `known` phrases.
fn unexplained(text: &str, known: &[&str]) -> Vec<String> {
    let code = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let left = [text, &code]
        .map(|text| known.iter().fold(text.to_owned(), |text, known| text.replace(known, " ")));
    // A phrase may have code in it, and code may hold digits: a digit left in both is unexplained.
    let words = |text: &str| -> Vec<String> {
        let words =
            text.split_whitespace().filter(|word| word.contains(|c: char| c.is_ascii_digit()));
        words.map(str::to_owned).collect()
    };
    let outside_code = words(&left[1]);
    words(&left[0]).into_iter().filter(|word| outside_code.contains(word)).collect()
}

#[test]
fn a_figure_without_a_source_is_found() {
    assert_eq!(unexplained("a `b 7` takes 1.5 of c, and 1 GiB", &["1 GiB"]), ["1.5"]);
    assert_eq!(unexplained("0.06; 0.015 with `cat`", &["0.06; 0.015 with"]), [""; 0]);
}

#[test]
fn every_figure_of_the_readme_has_its_command_and_agrees_with_what_was_stored() {
    let Some(readme) = readme() else { return };
    let sources: Sources = toml::from_str(&text_of("docs/figures.toml")).unwrap();
    let figures = unwrapped(section(&readme, "Figures"));
    let says = sources.figure.iter().map(|figure| figure.says.as_str());
    let known: Vec<&str> = says.chain(sources.names.iter().map(String::as_str)).collect();
    for phrase in &known {
        assert!(figures.contains(phrase), "docs/figures.toml: the README does not say '{phrase}'");
    }
    assert_eq!(
        unexplained(&figures, &known),
        [""; 0],
        "figures without an entry in docs/figures.toml"
    );

    let stored = ["docs/report.json", "docs/figures.json"];
    let stored = stored.map(|path| gush_lab::transfer::parse(text_of(path).as_bytes()).unwrap());
    let runs: Vec<Run> = stored.into_iter().flatten().collect();
    let mut wrong = Vec::new();
    for source in &sources.figure {
        let Source { says, by, run, .. } = source;
        assert!(is_there(by), "{says}: '{by}' measures nothing");
        assert!(figures.contains(&format!("`{by}`")), "{says}: the README does not name '{by}'");
        let run = runs.iter().find(|known| known.id == *run);
        let run = run.unwrap_or_else(|| panic!("{says}: the run is not stored"));
        assert_eq!(run.command.join(" "), *by, "{says}: by another command");
        if !is_gush_over_peer(source, is_less_better(source, run)) {
            wrong.push(format!("{says}: not what gush takes divided by what its peer takes"));
        }
        let stored = stored_value(source, run);
        if let Err(why) = is_reported(says, stored) {
            wrong.push(format!("{says}: {why}"));
        }
        // A reader takes 0.97 for a difference: such a ratio is next to its interval.
        let holds_one = stored.interval.is_some_and(|ends| (ends.low..=ends.high).contains(&1.0));
        let is_near_one = NEAR_ONE.contains(&stored.value) || holds_one;
        if source.next_to.is_some() && is_near_one && numbers(says).len() < 3 {
            wrong.push(format!("{says}: near 1 and without its interval, {}", stored.around(2)));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Ratios that are given with their intervals.
const NEAR_ONE: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// The case of a stored run that `source` means.
fn described<'r>(source: &Source, run: &'r Run, case: &str) -> &'r Described {
    let Source { says, by, .. } = source;
    // One comparison of a file, or one suite, is meant: the one whose name `--only` has, if the
    // command has that.
    let only = by.split_once("--only ").map(|(_, rest)| rest.split(' ').next().unwrap());
    let is_meant = |suite: &str| only.is_none_or(|only| suite.ends_with(&format!("/{only}")));
    let described = run.cases.iter().find(|known| known.case == case && is_meant(&known.suite));
    described.unwrap_or_else(|| panic!("{says}: the run has no case {case}"))
}

/// Is the figure that `source` names a cost, such as a time, and no rate?
fn is_less_better(source: &Source, run: &Run) -> bool {
    let printed = &described(source, run, &source.case).printed;
    let found = match source.figure.as_deref() {
        Some("wall_s") => return true,
        Some(name) => printed.iter().find(|printed| printed.name == name),
        None => printed.first(),
    };
    // Without a printed figure the compared one is GiB/s.
    found.is_some_and(|printed| printed.less_is_better)
}

/// Is a quotient what gush takes divided by what the peer takes? Of two rates it is the peer's
/// divided by gush's.
fn is_gush_over_peer(source: &Source, less_is_better: bool) -> bool {
    let Some(next_to) = &source.next_to else { return true };
    let is_gush = |case: &str| case.split([' ', ',']).next() == Some("gush");
    let (gush, peer) =
        if less_is_better { (&source.case, next_to) } else { (next_to, &source.case) };
    is_gush(gush) && !is_gush(peer)
}

#[test]
fn a_quotient_upside_down_is_found() {
    let quotient = |case: &str, next_to: &str| Source {
        says: String::new(),
        by: String::new(),
        run: String::new(),
        case: case.to_owned(),
        next_to: Some(next_to.to_owned()),
        figure: None,
    };
    let (ours, theirs) = (quotient("gush cp", "GNU cp"), quotient("GNU cp", "gush cp"));
    assert!(is_gush_over_peer(&ours, true) && !is_gush_over_peer(&theirs, true), "times");
    assert!(is_gush_over_peer(&theirs, false) && !is_gush_over_peer(&ours, false), "rates");
    assert!(!is_gush_over_peer(&quotient("gush cp", "gush cat"), true), "no peer");
}

/// The figure of a stored run that `source` names.
fn stored_value(source: &Source, run: &Run) -> Estimate {
    let Source { says, case, figure, .. } = source;
    let values = |case: &str| -> Vec<(u32, f64)> {
        let described = described(source, run, case);
        let own = run
            .samples
            .iter()
            .filter(|sample| (&sample.suite, &sample.case) == (&described.suite, &described.case));
        let compared = described.printed.first().map(|printed| printed.name.as_str());
        let value = |measured: &Measured| match figure.as_deref().or(compared) {
            None => measured.gib_per_s,
            Some("wall_s") => measured.wall_s,
            Some(name) => measured.facts.get(&format!("printed {name}"))?.as_f64(),
        };
        own.filter_map(|sample| Some((sample.round, value(&sample.measured)?))).collect()
    };
    let own = values(case);
    let Some(next_to) = &source.next_to else {
        let own: Vec<f64> = own.into_iter().map(|(_, value)| value).collect();
        return gush_lab::stats::median(&own).unwrap_or_else(|| panic!("{says}: no figure"));
    };
    let others: BTreeMap<u32, f64> = values(next_to).into_iter().collect();
    let pairs: Vec<(f64, f64)> =
        own.into_iter().filter_map(|(round, value)| Some((value, *others.get(&round)?))).collect();
    gush_lab::stats::paired_ratio(&pairs).unwrap_or_else(|| panic!("{says}: no ratio"))
}

/// The numbers in `text`.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && !".,".contains(c));
    let number = |word: &str| {
        let word = word.trim_matches(['.', ',']).replace(',', "");
        word.parse::<f64>().is_ok().then_some(word)
    };
    words.filter_map(number).collect()
}

/// With as many digits as `printed` has.
fn rounded_as(value: f64, printed: &str) -> String {
    let digits = printed.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{value:.digits$}")
}

/// Does `says` give the stored figure, digit by digit: alone, or with the ends of its interval?
fn is_reported(says: &str, stored: Estimate) -> Result<(), String> {
    let printed = numbers(says);
    let expected = match printed.len() {
        1 => vec![stored.value],
        3 => {
            let Interval { low, high } = stored.interval.ok_or("too few rounds for an interval")?;
            vec![stored.value, low, high]
        }
        _ => return Err("neither a figure nor a figure with its interval".to_owned()),
    };
    let expected: Vec<String> =
        expected.iter().zip(&printed).map(|(value, text)| rounded_as(*value, text)).collect();
    if expected == printed { Ok(()) } else { Err(format!("the stored run has {expected:?}")) }
}

#[test]
fn a_figure_is_held_against_its_run_digit_by_digit() {
    let interval = Some(Interval { low: 0.196, high: 0.3 });
    let is_right = |says: &str| is_reported(says, Estimate { value: 0.25, interval }).is_ok();
    assert!(is_right("0.25 of GNU's") && is_right("**0.250** (0.196 to 0.30)"));
    assert!(
        !is_right("0.24 of GNU's") && !is_right("0.3 of GNU's"),
        "another figure, another rounding"
    );
    assert!(
        !is_right("0.25 (0.20 to 0.31)") && !is_right("0.25 (0.19 to 0.30)"),
        "another interval"
    );
    assert!(!is_right("1/4 of GNU's") && !is_right("0.25 to 0.30") && !is_right("GNU's"));
}

/// Is there something that the command runs?
fn is_there(command: &str) -> bool {
    let words: Vec<&str> = command.split(' ').collect();
    let after = |option: &str| words.iter().skip_while(|word| **word != option).nth(1).copied();
    match words[..] {
        ["gush", "lab", "run", file, ..] => {
            let text = text_of(file);
            after("--only").is_none_or(|name| text.contains(&format!("\nname = \"{name}\"\n")))
        }
        ["gush", "lab", suite, ..] => gush_lab::suite::named(suite).is_some(),
        _ => false,
    }
}
