//! The ladder of the pipe speed test beside the published one.

use super::code;
use crate::report::bars::{self, Bar, Limit};
use crate::report::data::{Case, Data, Suite};
use crate::report::estimate::Estimate;
use crate::report::number::{bytes, figure, times_between};
use crate::report::page::Section;
use crate::report::published;

const SUITE: &str = "pipe";
const PUBLISHED: &str = "The published rungs";
const OWN: &str = "Beside and above them";

/// Case, and who does what in it.
const ABOUT: &[(&str, &str)] = &[
    ("write-read", "write → read"),
    ("vmsplice-read", "vmsplice → read"),
    ("vmsplice-splice", "vmsplice → splice"),
    ("vmsplice-splice-untouched", "vmsplice, untouched → splice"),
    ("huge-splice", "vmsplice, huge pages → splice"),
    ("huge-splice-busy", "the same, both spinning"),
    ("same-buffer-busy", "the same, one buffer for both halves"),
    ("write-read-busy", "write → read, both spinning"),
    ("fresh-splice", "new pages, given away → splice"),
    ("fresh-read", "new pages, given away → read"),
    ("socket-splice", "a Unix socket's fat slots → splice"),
    ("socket-read", "a Unix socket's fat slots → read"),
    ("reservoir-splice", "constant data, teed → splice"),
    ("reservoir-read", "constant data, teed → read"),
];

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let bars: Vec<Bar> = suite.cases.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    let limits: Vec<Limit> = super::memory::one_reads(data)
        .map(|read| Limit { value: read.median, text: "memory, read by one processor".to_owned() })
        .into_iter()
        .collect();
    let figure = bars::figure_of("Pipe throughput by technique", "GiB/s", &bars, &limits);
    Some(Section {
        id: SUITE,
        title: "Pipes, rung by rung".to_owned(),
        said: said(suite),
        figures: vec![figure],
        notes: vec![
            "A bar is the median of the rounds, its whisker the interval (95 %, by resampling; of fewer \
             than six rounds none is that sure), each dot a sample. Published figures are those of F. Mazzoli, “How fast are Linux pipes anyway?”, on an i7-8550U with Linux \
             5.17: another machine, another kernel; compare the shape of the ladder, not its height."
                .to_owned(),
            "**Sound** means: what was written arrives, whatever a reader does with it. The published \
             technique writes again into memory that a reader may still hold."
                .to_owned(),
        ],
    })
}

fn bar(case: &Case<'_>) -> Option<Bar> {
    let published = published::PIPE.iter().find(|(name, ..)| *name == case.name);
    let rung = published.is_some() || case.name == "same-buffer-busy";
    let about = ABOUT.iter().find(|(name, _)| *name == case.name).map_or("", |(_, about)| about);
    let sizes = [("Buffer", "buffer_bytes"), ("Pipe", "pipe_bytes")];
    let facts = sizes
        .iter()
        .filter_map(|(label, fact)| Some(((*label).to_owned(), bytes(case.number(fact)?))))
        .collect();
    Some(Bar {
        about: about.to_owned(),
        group: if rung { PUBLISHED } else { OWN },
        published: published.map(|(_, from, to)| (*from, *to)),
        sound: case.is("sound"),
        apart: case.name.starts_with("reservoir"),
        facts,
        ..Bar::new(case.name, case.speed()?.clone())
    })
}

/// The fastest of the cases that `wanted` takes.
fn fastest<'s, 'a>(
    suite: &'s Suite<'a>,
    wanted: impl Fn(&Case<'a>) -> bool,
) -> Option<(&'a str, &'s Estimate)> {
    let cases = suite.cases.iter().filter(|case| wanted(case));
    let speeds = cases.filter_map(|case| Some((case.name, case.speed()?)));
    speeds.max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

/// Sound for any data, not only for constant data.
fn any_data(case: &Case<'_>) -> bool {
    case.is("sound") == Some(true) && !case.name.starts_with("reservoir")
}

/// The page's first sentences.
pub fn lead(data: &Data<'_>) -> Option<String> {
    let suite = data.suite(SUITE)?;
    let write = suite.speed("write-read")?;
    let (_, sound) = fastest(suite, any_data)?;
    let mut lead = format!(
        "On this machine, `write` into a pipe moves **{}**\u{a0}GiB/s. The fastest way that is sound moves **{}**",
        figure(write.median),
        figure(sound.median)
    );
    match fastest(suite, |case| case.name.starts_with("reservoir")) {
        Some((_, constant)) => {
            lead.push_str(&format!(", and constant data **{}**.", figure(constant.median)));
        }
        None => lead.push('.'),
    }
    Some(lead)
}

fn said(suite: &Suite<'_>) -> Vec<String> {
    let mut said = Vec::new();
    if let (Some(write), Some((name, sound))) =
        (suite.speed("write-read"), fastest(suite, any_data))
    {
        let speed = figure(write.median);
        said.push(match sound.times(write) {
            Some(ratio) if ratio.value > 1.0 => format!(
                "Here `write` into a pipe, both ends blocking, does {speed} GiB/s; the fastest sound way for \
                 any data, {}, does {}, which is {} as much.",
                code(name),
                figure(sound.median),
                times_between(ratio)
            ),
            _ => format!(
                "Here `write` into a pipe, both ends blocking, does {speed} GiB/s, and no sound way for any \
                 data was clearly faster."
            ),
        });
    }
    let unsound = fastest(suite, |case| case.is("sound") == Some(false));
    let constant = fastest(suite, |case| case.name.starts_with("reservoir"));
    if let (Some((name, unsound)), Some((reservoir, constant))) = (unsound, constant) {
        let beside = match constant.times(unsound) {
            Some(ratio) => format!("is sound and does {} that", times_between(ratio)),
            None => "is sound and cannot be told from it".to_owned(),
        };
        said.push(format!(
            "The fastest published technique, {}, does {} GiB/s and is not sound; constant data from {} {beside}.",
            code(name),
            figure(unsound.median),
            code(reservoir)
        ));
    }
    said
}
