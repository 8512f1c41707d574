//! What memory gives: the limit that everything else stands beside.

use crate::report::bars::{self, Bar};
use crate::report::data::{Case, Data, Suite};
use crate::report::estimate::Estimate;
use crate::report::number::{figure, plural, times_between};
use crate::report::page::Section;
use crate::report::published;

const SUITE: &str = "memory";

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let bars: Vec<Bar> = suite.cases.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    Some(Section {
        id: SUITE,
        title: "Memory: the physical limit".to_owned(),
        said: said(suite),
        figures: vec![bars::figure_of("Sequential memory bandwidth", "GiB/s", &bars, &[])],
        notes: vec![
            "What moves bytes by copying them reads and writes memory at least once, unless they stay in a \
             cache. What moves references is not bound by this. The published figure is that of `sysbench \
             memory` on the machine of the published ladder."
                .to_owned(),
        ],
    })
}

fn bar(case: &Case<'_>) -> Option<Bar> {
    let processors = case.number("processors");
    let published = is_read(case) && processors == Some(1);
    let about = processors.map(|n| plural(usize::try_from(n).unwrap_or(usize::MAX), "processor"));
    Some(Bar {
        about: about.unwrap_or_default(),
        published: published.then_some((published::MEMORY_READ, published::MEMORY_READ)),
        ..Bar::new(case.name, case.speed()?.clone())
    })
}

fn is_read(case: &Case<'_>) -> bool {
    case.text("operation") == Some("read")
}

/// What one processor reads in a second, in GiB.
pub fn one_reads<'d>(data: &'d Data<'_>) -> Option<&'d Estimate> {
    find(data.suite(SUITE)?, "read", |processors| processors == 1)
}

fn find<'s>(
    suite: &'s Suite<'_>,
    operation: &str,
    processors: impl Fn(u64) -> bool,
) -> Option<&'s Estimate> {
    let wanted = |case: &&Case<'_>| {
        case.text("operation") == Some(operation)
            && case.number("processors").is_some_and(&processors)
    };
    suite.cases.iter().find(wanted)?.speed()
}

fn said(suite: &Suite<'_>) -> Vec<String> {
    let one = |operation| find(suite, operation, |processors| processors == 1);
    let mut said = Vec::new();
    if let (Some(read), Some(copy)) = (one("read"), one("copy")) {
        said.push(format!(
            "One processor reads {} GiB/s from memory and copies {} GiB/s: no single thread that copies each \
             byte once gets past that.",
            figure(read.median),
            figure(copy.median)
        ));
    }
    if let (Some(one), Some(all)) = (one("read"), find(suite, "read", |processors| processors > 1))
    {
        said.push(match all.times(one) {
            Some(ratio) if ratio.value > 1.0 => format!(
                "All processors together read {} GiB/s, {} what one does.",
                figure(all.median),
                times_between(ratio)
            ),
            _ => "All processors together read no more than one.".to_owned(),
        });
    }
    said
}
