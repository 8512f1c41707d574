//! The report as a file: its content, its omissions, and the same bytes from the same runs.

use std::fs;
use std::path::Path;

use crate::common::{one, runs};
use gush_lab::model::{Attachment, Described, Failure, Measured, Printed, Run, Sample, Warning};
use gush_lab::report;

/// Without the files inside the page, which are tested by themselves.
fn readable(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find(";base64,") {
        let (before, after) = rest.split_at(start + ";base64,".len());
        text.push_str(before);
        text.push('…');
        rest = &after[after.find('"').unwrap_or(after.len())..];
    }
    // An element a line: a difference can be read.
    (text + rest).replace("><", ">\n<")
}

#[test]
fn a_stored_run_gives_the_golden_page() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report.html");
    let page = readable(&report::html(&runs()));
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&golden, &page).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap();
    let differs = page.lines().zip(expected.lines()).find(|(page, golden)| page != golden);
    assert!(page == expected, "GUSH_BLESS=1 makes it anew; the first difference: {differs:#?}");
}

#[test]
fn the_order_of_runs_and_runs_given_twice_change_nothing() {
    let mut shuffled = runs();
    shuffled.reverse();
    shuffled.extend(runs());
    assert_eq!(report::html(&shuffled), report::html(&runs()));
}

#[test]
fn every_section_is_there_and_linked() {
    let page = report::html(&runs());
    for id in [
        "pipe",
        "copy",
        "calls",
        "matrix",
        "memory",
        "pages",
        "other",
        "history",
        "explained",
        "machine",
        "samples",
    ] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "no section {id}");
        assert!(page.contains(&format!("<a href=\"#{id}\">")), "no link to {id}");
    }
}

#[test]
fn suites_that_were_not_run_are_absent() {
    let mut run = one();
    run.samples.retain(|sample| sample.suite == "memory");
    run.attachments.clear();
    let page = report::html(&[run]);
    assert!(page.contains("<section id=\"memory\""));
    for id in ["pipe", "copy", "calls", "matrix", "pages", "other", "history"] {
        assert!(!page.contains(&format!("<section id=\"{id}\"")), "section {id} without samples");
    }
}

#[test]
fn the_top_has_the_rounds_of_the_figures_shown() {
    let mut older = one();
    older.samples.retain(|sample| sample.suite == "memory");
    let mut newer = older.clone();
    let more = older.samples.clone();
    older.samples.extend((1..=40).flat_map(|round| {
        more.iter().map(move |sample| Sample { round: round + 100, ..sample.clone() })
    }));
    newer.id = format!("{}-newer", newer.id);
    newer.started += std::time::Duration::from_secs(60);
    let byline = |runs: &[Run]| {
        let page = report::html(runs);
        page.split_once("<p class=\"byline\">").unwrap().1.split_once("</p>").unwrap().0.to_owned()
    };
    let rounds =
        |text: &str| text.split(" · ").find(|part| part.contains("round")).unwrap().to_owned();
    let alone = rounds(&byline(std::slice::from_ref(&newer)));
    assert_eq!(
        rounds(&byline(&[older, newer])),
        alone,
        "the older run has more rounds, and no figure"
    );
}

#[test]
fn figures_stand_next_to_the_published_ones() {
    let page = report::html(&runs());
    for published in ["3.50–3.70", "12.7", "32.8", "25.0", "51.0", "62.5–65.0"] {
        assert!(page.contains(&format!("published {published}<")), "{published} is missing");
    }
    assert!(page.contains("<td class=\"bad\">NO</td>"), "what is not sound is named in words");
}

#[test]
fn sentences_follow_the_samples() {
    let pair = |write: [f64; 5], fresh: [f64; 5], sound: bool| {
        let case = |case: &str, speeds: [f64; 5], sound: bool| {
            let sample = |(round, speed): (u32, f64)| {
                let measured =
                    gush_lab::model::Measured { gib_per_s: Some(speed), ..Default::default() };
                Sample {
                    suite: "pipe".into(),
                    case: case.into(),
                    round,
                    measured: measured.with("sound", sound),
                }
            };
            (1..).zip(speeds).map(sample).collect::<Vec<_>>()
        };
        let samples =
            [case("write-read-busy", write, true), case("fresh-read", fresh, sound)].concat();
        let described = |name| Described::new("pipe", name).group("Both spinning");
        let cases = vec![
            described("write-read-busy"),
            described("fresh-read").does("new pages").against("write-read-busy"),
        ];
        report::html(&[Run { samples, cases, ..one_without_samples() }])
    };
    let (slow, fast) = ([1.0, 1.1, 0.9, 1.0, 1.0], [9.0, 9.1, 9.2, 8.9, 9.0]);
    let clear = pair(slow, fast, true);
    let gain =
        "<code>fresh-read</code> (new pages) does <strong>9.00</strong> GiB/s, 9.00\u{a0}times (";
    assert_eq!(clear.matches(gain).count(), 2, "headline and section: {clear}");
    assert!(clear.contains("what <code>write-read-busy</code> does"), "{clear}");
    let doubtful = pair([1.0, 9.0, 0.9, 1.0, 8.0], [2.0, 1.1, 9.2, 0.9, 7.0], true);
    assert!(
        doubtful.contains("Both spinning: nothing was clearly faster than its measure."),
        "{doubtful}"
    );
    let unsound = pair(slow, fast, false);
    assert!(!unsound.contains(gain), "no headline for what is not sound: {unsound}");
    assert!(
        unsound.contains("does 9.00 GiB/s and is not sound: the hostile reader saw bytes change."),
        "{unsound}"
    );
    assert!(unsound.contains("nothing that is sound was clearly faster"), "{unsound}");
}

/// A headline compares like with like: a gain over a case of another group is none of it.
#[test]
fn no_headline_compares_a_group_with_another() {
    let mut run = one();
    for case in run.cases.iter_mut().filter(|case| case.suite == "pipe") {
        case.group = format!("alone: {}", case.case);
    }
    run.samples.retain(|sample| sample.suite == "pipe");
    let page = report::html(&[run]);
    let headline = &page[page.find("<h1>").unwrap()..page.find("</h1>").unwrap()];
    assert!(!headline.contains("times"), "{headline}");
}

#[test]
fn a_later_run_of_less_latency_is_faster_on_the_page() {
    let run = |id: &str, micros: f64| {
        let printed =
            Printed { name: "median_us".into(), unit: "µs".into(), less_is_better: true };
        let sample = |(round, case, value): (u32, &str, f64)| Sample {
            suite: "relay/pingpong".into(),
            case: case.into(),
            round,
            measured: Measured::default().with(&printed.fact(), value),
        };
        let both = (1..=6).flat_map(|round| [(round, "slow", 90.0), (round, "own", micros)]);
        let described = |case| Described {
            printed: vec![printed.clone()],
            ..Described::new("relay/pingpong", case).against("slow")
        };
        let mut run = one_without_samples();
        run.machine.facts.remove("virtualisation");
        (run.id, run.others) = (id.into(), None);
        run.started += std::time::Duration::from_secs(if id == "later" { 60 } else { 0 });
        run.samples = both.map(sample).collect();
        run.cases = vec![described("slow"), described("own")];
        run
    };
    let page = report::html(&[run("first", 45.0), run("later", 30.0)]);
    assert!(page.contains("median_us, less is better"), "no figure of latencies");
    assert!(
        page.contains(">3.00\u{a0}times (") && page.contains(") slow</td>"),
        "a third is three times as good"
    );
    let course = page.rsplit("in each run, µs").next().expect("a history");
    assert!(course.contains(">faster<") && !course.contains(">slower<"), "{course}");
}

fn one_without_samples() -> Run {
    Run { samples: Vec::new(), attachments: Vec::new(), failures: Vec::new(), ..one() }
}

#[test]
fn no_run_and_a_run_without_samples_make_a_page() {
    for (runs, says) in [
        (vec![], "No run was given"),
        (vec![one_without_samples()], "1 run with 0 samples."),
        (
            vec![Run { interrupted: true, finished: None, ..one_without_samples() }],
            "was interrupted",
        ),
        (vec![Run { finished: None, ..one_without_samples() }], "did not come to its end"),
    ] {
        let page = report::html(&runs);
        assert!(page.contains(says), "{says}: {page}");
        assert!(page.ends_with("</html>\n") || page.ends_with("</html>"));
    }
}

const HOSTILE: &str = "</style></script><script>alert(1)</script>\"'><img src=http://x.example/y onerror=alert(2)>`**";

#[test]
fn warnings_with_one_remedy_are_reported_together() {
    let mut first = one_without_samples();
    let mut second = Run { id: "later".into(), ..one_without_samples() };
    for (run, suite, load) in [(&mut first, "memory", 80), (&mut second, "pages", 90)] {
        run.samples.push(Sample { suite: suite.into(), ..one().samples[0].clone() });
        run.warnings = vec![
            Warning::new("others were at work", "stop them"),
            Warning::new(format!("they took a share: {load} %"), "stop them"),
        ];
    }
    let page = report::html(&[first, second]);
    assert!(page.contains(
        "<li><strong>Others were at work</strong> <small>(memory, pages)</small>. \
         They took a share: 80 % <small>(memory)</small>. \
         They took a share: 90 % <small>(pages)</small>. Stop them.</li>"
    ));
}

#[test]
fn what_an_import_brings_is_text() {
    let mut run = one();
    for sample in &mut run.samples {
        sample.case = format!("{HOSTILE}{}", sample.case);
        for (_, fact) in sample.measured.facts.iter_mut().filter(|(_, fact)| fact.is_string()) {
            *fact = format!("{HOSTILE}{}", fact.as_str().unwrap()).into();
        }
    }
    for case in &mut run.cases {
        case.case = format!("{HOSTILE}{}", case.case);
        case.baseline = case.baseline.take().map(|name| format!("{HOSTILE}{name}"));
        case.does = HOSTILE.into();
        case.group = HOSTILE.into();
        if let Some(published) = &mut case.published {
            published.source = HOSTILE.into();
        }
    }
    run.samples.push(Sample { suite: HOSTILE.into(), ..run.samples[0].clone() });
    run.command.push(HOSTILE.into());
    run.gush = HOSTILE.into();
    run.id = HOSTILE.into();
    run.machine.id = HOSTILE.into();
    run.machine.facts.insert(HOSTILE.into(), HOSTILE.into());
    run.machine.facts.insert("processor".into(), HOSTILE.into());
    run.warnings.push(Warning { fact: HOSTILE.into(), remedy: HOSTILE.into() });
    run.failures.push(Failure {
        suite: HOSTILE.into(),
        case: HOSTILE.into(),
        error: HOSTILE.into(),
    });
    for media_type in ["image/svg+xml", HOSTILE] {
        run.attachments.push(Attachment {
            suite: HOSTILE.into(),
            case: HOSTILE.into(),
            title: HOSTILE.into(),
            media_type: media_type.into(),
            text: HOSTILE.into(),
        });
    }
    let page = report::html(&[run, one()]);
    let plain = report::html(&[one()]);
    for tag in ["<script", "<style", "<img", "<meta", "<link", "<iframe"] {
        let more = if tag == "<img" { 1 } else { 0 };
        assert_eq!(page.matches(tag).count(), plain.matches(tag).count() + more, "{tag}");
    }
    assert!(!page.contains("onerror=alert(2)>`") && !page.contains("<img src=http"));
}

#[test]
fn no_address_outside_the_page_is_in_it() {
    let page = readable(&report::html(&runs()));
    for attribute in ["src=\"", "href=\"", "url("] {
        for (at, _) in page.match_indices(attribute) {
            let target = &page[at + attribute.len()..];
            assert!(
                target.starts_with('#') || target.starts_with("data:"),
                "{attribute}{}",
                &target[..40.min(target.len())]
            );
        }
    }
    assert!(!page.contains("@import") && !page.contains("style=\""));
    assert!(page.contains("content=\"default-src 'none';"));
    assert!(!page.contains("<script"), "the policy has no place for one");
}

#[test]
fn every_chart_has_its_table() {
    let page = report::html(&runs());
    for figure in page.split("<figure").skip(1) {
        let figure = &figure[..figure.find("</figure>").unwrap()];
        assert!(!figure.contains("class=\"bars") || figure.contains("<table"), "{figure}");
    }
    for table in page.split("<table").skip(1) {
        let table = &table[..table.find("</table>").unwrap()];
        assert!(table.contains("<caption") && table.contains("scope=\"col\""), "{table}");
        assert_eq!(table.matches("<tr>").count() - 1, table.matches("scope=\"row\"").count());
    }
}

#[test]
fn odd_figures_break_nothing() {
    let mut run = one();
    for (index, sample) in run.samples.iter_mut().enumerate() {
        let odd = [0.0, -1.0, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
        sample.measured.gib_per_s = Some(odd[index % odd.len()]);
        for fact in ["buffer_bytes", "size_bytes", "works", "method", "syscalls", "ns_per_page"] {
            if index % 3 == 0 {
                sample
                    .measured
                    .facts
                    .insert(fact.to_owned(), serde_json::json!([u64::MAX, null, -1]));
            }
        }
    }
    let page = report::html(&[run]);
    assert!(!page.contains("NaN%") && !page.contains("inf%"), "{page}");
}

#[test]
fn a_page_that_cannot_be_written_says_why_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/report.html");
    let error = report::write(&[], &path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the report cannot be written to {}: No such file or directory", path.display())
    );
    let taken = dir.path().join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(report::write(&[], &taken).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_leaves_the_older_report() {
    if !Path::new("/dev/full").exists() {
        return crate::common::skipped("no /dev/full here");
    }
    let devices = tempfile::tempdir().unwrap();
    let full = gush_test::device("full", devices.path());
    let reported = report::write(&[], &full).unwrap_err().to_string();
    assert!(
        reported.contains(": No space left on device (") && reported.contains("`df -i`"),
        "{reported}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    report::write(&runs(), &path).unwrap();
    report::write(&[], &path).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("No run was given"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_history_leaves_undecided_what_others_can_have_done() {
    let run = |second: i64, speed: f64, others: f64| {
        let sample = |round: u32| Sample {
            suite: "memory".into(),
            case: "copy-1".into(),
            round,
            measured: gush_lab::model::Measured { gib_per_s: Some(speed), ..Default::default() },
        };
        Run {
            id: format!("run-{second}"),
            started: jiff::Timestamp::from_second(second).unwrap(),
            others: Some(others),
            samples: (1..=5).map(sample).collect(),
            ..Run::default()
        }
    };
    let verdict = |speed: f64, others: f64| {
        let page = report::html(&[run(1, 4.0, 0.01), run(2, speed, others)]);
        let (_, history) = page.split_once("<section id=\"history\"").unwrap();
        let (history, _) = history.split_once("</section>").unwrap();
        ["faster</td>", "slower</td>", "cannot tell</td>"].map(|word| history.contains(word))
    };
    assert_eq!(verdict(3.0, 0.02), [false, true, false]);
    assert_eq!(verdict(3.0, 0.3), [false, false, true], "a third less could be the others'");
    assert_eq!(verdict(2.0, 0.3), [false, true, false], "half of it could not");
    assert_eq!(verdict(6.0, 0.02), [true, false, false]);
}

#[test]
fn the_largest_gain_is_reported_by_rounds_that_did_not_choose_it() {
    let said = |lucky: [f64; 9]| {
        let cases = [("measure", [1.0; 9]), ("lucky", lucky), ("steady", [2.0; 9])];
        let samples = cases.iter().flat_map(|(case, speeds)| {
            (1..).zip(speeds).map(|(round, &speed)| Sample {
                suite: "pipe".into(),
                case: (*case).into(),
                round,
                measured: Measured { gib_per_s: Some(speed), ..Measured::default() },
            })
        });
        let described = ["measure", "lucky", "steady"];
        let run = Run {
            id: "one".into(),
            cases: described.map(|case| Described::new("pipe", case).against("measure")).to_vec(),
            samples: samples.collect(),
            ..Run::default()
        };
        gush_lab::report::conclusions(&[run]).remove(0).replace('\u{a0}', " ")
    };
    let fell = said([9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert!(fell.contains("steady does 2.00 GiB/s, 2.00 times"), "{fell}");
    assert!(fell.contains("confirmed by rounds that did not choose it"), "{fell}");
    let held = said([9.0, 9.0, 9.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]);
    assert!(
        held.contains("lucky does 3.00 GiB/s, 3.00 times"),
        "not the nine times of the first: {held}"
    );
}

/// A case that failed early, or was left out of the later rounds by an earlier version.
#[test]
fn a_case_with_few_samples_leaves_the_choice_of_the_others_to_their_first_rounds() {
    let cases = [
        ("measure", &[1.0; 9][..]),
        ("ended", &[9.0]),
        ("lucky", &[9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("steady", &[2.0; 9]),
    ];
    let samples = cases.iter().flat_map(|(case, speeds)| {
        (1..).zip(*speeds).map(|(round, &speed)| Sample {
            suite: "pipe".into(),
            case: (*case).into(),
            round,
            measured: Measured { gib_per_s: Some(speed), ..Measured::default() },
        })
    });
    let run = Run {
        id: "one".into(),
        cases: cases.map(|(case, _)| Described::new("pipe", case).against("measure")).to_vec(),
        samples: samples.collect(),
        ..Run::default()
    };
    let said = report::conclusions(&[run]).remove(0).replace('\u{a0}', " ");
    assert!(said.contains("steady does 2.00 GiB/s, 2.00 times"), "{said}");
    assert!(said.contains("confirmed by rounds that did not choose it"), "{said}");
}

#[test]
fn the_five_ways_stand_with_their_times_and_slips_with_their_corrections() {
    let cell = Measured {
        wall_s: Some(2.0),
        user_s: Some(0.1),
        system_s: Some(0.4),
        gib_per_s: Some(1.5),
        ..Measured::default()
    };
    let cell = cell.with("method", "read-write").with("source", "file").with("target", "tcp");
    let copy = Measured { gib_per_s: Some(1.0), ..Measured::default() }
        .with("size_bytes", 512 << 20)
        .with("syscalls", serde_json::json!({ "read": 8194, "write": 8192 }))
        .with("syscalls_published", serde_json::json!({ "read": 8194, "write": 8192 }))
        .with("syscalls_printed", "printed: read=4098;write=4096, the calls of blocks of 128 KiB");
    let sample = |suite: &str, case: &str, measured| Sample {
        suite: suite.into(),
        case: case.into(),
        round: 1,
        measured,
    };
    let samples =
        vec![sample("matrix", "one", cell.with("works", true)), sample("copy", "two@512M", copy)];
    let page = report::html(&[Run { id: "one".into(), samples, ..Run::default() }]);
    let at = page.find("The five ways in time").expect("a table");
    let row = &page[at..][page[at..].find("file→socket").expect("a row")..];
    let row = &row[..row.find("</tr>").expect("its end")];
    for figure in ["2.000", "0.100", "0.400", "25 %", "1.50"] {
        assert!(row.contains(figure), "{figure}: {row}");
    }
    assert!(page.contains("printed: read=4098;write=4096, the calls of blocks of 128 KiB"));
}
