//! Suites that this page knows nothing about: those of a newer version, or of somebody's own.

use super::{KNOWN, code};
use crate::report::bars::{self, Bar};
use crate::report::data::Data;
use crate::report::page::{Figure, Section};

pub fn section(data: &Data<'_>) -> Option<Section> {
    let figures: Vec<Figure> = data
        .suites()
        .into_iter()
        .filter(|suite| !KNOWN.contains(suite))
        .filter_map(|name| figure(data, name))
        .collect();
    (!figures.is_empty()).then(|| Section {
        id: "other",
        title: "Other suites".to_owned(),
        figures,
        ..Section::default()
    })
}

fn figure(data: &Data<'_>, name: &str) -> Option<Figure> {
    let suite = data.suite(name)?;
    let bars: Vec<Bar> = suite
        .cases
        .iter()
        .filter_map(|case| Some(Bar::new(case.name, case.speed()?.clone())))
        .collect();
    (!bars.is_empty()).then(|| bars::figure_of(code(name), "GiB/s", &bars, &[]))
}
