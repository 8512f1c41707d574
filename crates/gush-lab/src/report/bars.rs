//! Bars: one measured figure a row, with interval, samples, and a published figure beside it.

use super::estimate::Estimate;
use super::number::{self, figure, plural, range};
use super::page::{Body, Cell, Figure, Table, Tone, numbers, words};
use super::scale::{Scale, Tick};

/// The content of a row.
#[derive(Debug)]
pub struct Bar {
    pub name: String,
    /// In a few words, below the name.
    pub about: String,
    pub estimate: Estimate,
    /// The published figure, from … to.
    pub published: Option<(f64, f64)>,
    /// Told by text and pattern; nothing is told where soundness does not apply.
    pub sound: Option<bool>,
    /// More facts: name and value.
    pub facts: Vec<(String, String)>,
}

impl Bar {
    pub fn new(name: impl Into<String>, estimate: Estimate) -> Self {
        Self {
            name: name.into(),
            about: String::new(),
            estimate,
            published: None,
            sound: None,
            facts: Vec::new(),
        }
    }
}

/// A figure that nothing can pass, or that is worth a line through all bars.
#[derive(Clone, Debug)]
pub struct Limit {
    pub value: f64,
    pub text: String,
}

/// Bars as they are drawn: places in percent.
#[derive(Debug)]
pub struct Bars {
    pub unit: &'static str,
    pub ticks: Vec<Tick>,
    pub limits: Vec<Tick>,
    pub rows: Vec<Row>,
    pub published: bool,
    pub unsound: bool,
}

#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub about: String,
    pub to: f64,
    pub low: f64,
    pub high: f64,
    pub dots: Vec<f64>,
    pub published_to: Option<f64>,
    pub published: String,
    pub value: String,
    pub interval: String,
    pub sound: Option<bool>,
    pub facts: Vec<(String, String)>,
}

/// A figure of bars with a table; both kinds of axis, the more telling one first.
pub fn figure_of(
    caption: impl Into<String>,
    unit: &'static str,
    bars: &[Bar],
    limits: &[Limit],
) -> Figure {
    let caption = caption.into();
    let values = || {
        let own = bars.iter().flat_map(|bar| [bar.estimate.low, bar.estimate.high]);
        let published = bars.iter().filter_map(|bar| bar.published).flat_map(|(a, b)| [a, b]);
        own.chain(published).chain(limits.iter().map(|limit| limit.value))
    };
    let ends = |(a, b): (f64, f64), value: f64| (value.min(a), value.max(b));
    let (least, most) = values().fold((f64::INFINITY, 0.0), ends);
    let logarithmic = Scale::logarithmic(values());
    let logarithmic = ("Logarithmic", Body::Bars(drawn(unit, bars, limits, logarithmic)));
    let linear = ("Linear", Body::Bars(drawn(unit, bars, limits, Scale::linear(values()))));
    // A short bar that cannot be seen is worse than a long one that looks too short.
    let (first, second) =
        if most > 200.0 * least { (logarithmic, linear) } else { (linear, logarithmic) };
    let table = table(&caption, unit, bars);
    Figure::new(caption)
        .with(first.0, first.1)
        .with(second.0, second.1)
        .with("Table", Body::Table(table))
}

fn drawn(unit: &'static str, bars: &[Bar], limits: &[Limit], scale: Scale) -> Bars {
    let row = |bar: &Bar| Row {
        name: bar.name.clone(),
        about: bar.about.clone(),
        to: scale.at(bar.estimate.median),
        low: scale.at(bar.estimate.low),
        high: scale.at(bar.estimate.high),
        dots: bar.estimate.samples.iter().map(|sample| scale.at(*sample)).collect(),
        published_to: bar.published.map(|(_, to)| scale.at(to)),
        published: published(bar),
        value: figure(bar.estimate.median),
        interval: range(bar.estimate.low, bar.estimate.high),
        sound: bar.sound,
        facts: facts(bar),
    };
    let limit = |limit: &Limit| Tick {
        at: scale.at(limit.value),
        text: format!("{}: {}", limit.text, figure(limit.value)),
    };
    let rows: Vec<Row> = bars.iter().map(row).collect();
    Bars {
        unit,
        ticks: scale.ticks(),
        limits: limits.iter().map(limit).collect(),
        rows,
        published: bars.iter().any(|bar| bar.published.is_some()),
        unsound: bars.iter().any(|bar| bar.sound == Some(false)),
    }
}

fn published(bar: &Bar) -> String {
    match bar.published {
        Some((from, to)) if from < to => format!("{}–{}", figure(from), figure(to)),
        Some((_, to)) => figure(to),
        None => String::new(),
    }
}

/// The text shown when a bar is pointed at.
fn facts(bar: &Bar) -> Vec<(String, String)> {
    // More would fill the note beside a bar.
    const SHOWN: usize = 12;
    let samples = &bar.estimate.samples;
    let mut text: Vec<String> = samples.iter().take(SHOWN).map(|sample| figure(*sample)).collect();
    if samples.len() > SHOWN {
        text.push("…".to_owned());
    }
    let mut facts = vec![(plural(samples.len(), "sample"), text.join("\u{2002}"))];
    facts.extend(bar.facts.iter().cloned());
    facts
}

fn table(caption: &str, unit: &str, bars: &[Bar]) -> Table {
    let has_published = bars.iter().any(|bar| bar.published.is_some());
    let has_sound = bars.iter().any(|bar| bar.sound.is_some());
    let mut facts: Vec<&str> = Vec::new();
    for (name, _) in bars.iter().flat_map(|bar| &bar.facts) {
        if !facts.contains(&name.as_str()) {
            facts.push(name);
        }
    }
    let mut columns = vec![
        words("Case"),
        numbers(format!("Median, {unit}")),
        numbers("Interval"),
        numbers("Samples"),
    ];
    if has_published {
        columns.push(numbers("Published"));
    }
    if has_sound {
        columns.push(words("Sound"));
    }
    columns.extend(facts.iter().map(|name| words(*name)));
    let mut table = Table::new(caption, &columns);
    for bar in bars {
        let mut row = vec![
            Cell::code(&bar.name).small(&bar.about),
            figure(bar.estimate.median).into(),
            range(bar.estimate.low, bar.estimate.high).into(),
            number::count(bar.estimate.samples.len() as u64).into(),
        ];
        if has_published {
            row.push(match bar.published {
                Some(_) => published(bar).into(),
                None => Cell::absent(),
            });
        }
        if has_sound {
            row.push(match bar.sound {
                Some(true) => Cell::toned("yes", Tone::Good),
                Some(false) => Cell::toned("NO", Tone::Bad),
                None => Cell::absent(),
            });
        }
        for name in &facts {
            let fact = bar.facts.iter().find(|(own, _)| own == name);
            row.push(fact.map_or_else(Cell::absent, |(_, text)| text.as_str().into()));
        }
        table.rows.push(row);
    }
    table
}
