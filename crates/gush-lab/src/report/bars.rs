//! Bars: one measured figure per row, with its interval, samples, and the published figure.

use maud::{Markup, html};

use super::html::{axis, rules};
use super::number::{self, around, figure};
use super::page::{Cell, Figure, Table, Tone, numbers, words};
use super::scale::{Scale, Tick};
use crate::cases::distinct;
use crate::stats::{Estimate, Interval};

#[derive(Debug)]
pub struct Bar {
    pub name: String,
    /// In a few words, below the name.
    pub about: String,
    pub estimate: Estimate,
    /// In the order in which they were taken.
    pub samples: Vec<f64>,
    /// The published figure, from … to.
    pub published: Option<(f64, f64)>,
    /// Shown by text and pattern; `None` where soundness does not apply.
    pub sound: Option<bool>,
    pub facts: Vec<(String, String)>,
}

impl Bar {
    pub fn new(name: impl Into<String>, estimate: Estimate, samples: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            about: String::new(),
            estimate,
            samples,
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

/// Bars, and a table of the same.
pub fn figure_of(caption: impl Into<String>, unit: &str, bars: &[Bar], limits: &[Limit]) -> Figure {
    let caption = caption.into();
    let table = table(&caption, unit, bars);
    Figure::new(caption).with("Bars", drawn(unit, bars, limits)).with_table("Table", &table)
}

/// The bars on a linear scale, or on a logarithmic one where the shortest could not be seen.
pub fn drawn(unit: &str, bars: &[Bar], limits: &[Limit]) -> Markup {
    let own = bars.iter().flat_map(|bar| bar.estimate.shown());
    let published = bars.iter().filter_map(|bar| bar.published).flat_map(|(a, b)| [a, b]);
    let values = own.chain(published).chain(limits.iter().map(|limit| limit.value));
    let ends = |(a, b): (f64, f64), value: f64| (value.min(a), value.max(b));
    let (min, max) = values.clone().fold((f64::INFINITY, 0.0), ends);
    let is_wide = max > 200.0 * min;
    let scale = if is_wide { Scale::logarithmic(values) } else { Scale::linear(values) };
    let limit = |limit: &Limit| Tick {
        at: scale.at(limit.value),
        text: format!("{}: {}", limit.text, figure(limit.value)),
    };
    let limits: Vec<Tick> = limits.iter().map(limit).collect();
    let ticks = scale.ticks();
    let lines = html! { (rules("grid", &ticks)) (rules("limit", &limits)) };
    html! {
        div.bars {
            (legend(bars, &limits))
            (axis(&ticks, unit))
            ul { @for bar in bars { (row(bar, unit, &lines, scale)) } }
        }
    }
}

/// The meanings of bars and lines, where there is more than one kind.
fn legend(bars: &[Bar], limits: &[Tick]) -> Markup {
    let has_published = bars.iter().any(|bar| bar.published.is_some());
    let has_unsound = bars.iter().any(|bar| bar.sound == Some(false));
    let key = |mark: Markup, text: &str| {
        html! { span { svg width="26" height="12" aria-hidden="true" { (mark) } (text) } }
    };
    let measured = if has_unsound { "sound" } else { "measured here" };
    html! {
        @if has_published || has_unsound || !limits.is_empty() {
            p.legend {
                (key(html! { rect.bar y="1" width="26" height="10" {} }, measured))
                @if has_unsound {
                    (key(html! { rect.bar.unsound x=".5" y="1.5" width="25" height="9" {} }, "not sound"))
                }
                @if has_published {
                    (key(html! { rect.published x=".5" y="3.5" width="25" height="5" {} }, "published"))
                }
                @for limit in limits {
                    (key(html! { line.limit x1="13" x2="13" y1="0" y2="12" {} }, &limit.text))
                }
            }
        }
    }
}

/// A bar over `lines`, between its name and its figures.
fn row(bar: &Bar, unit: &str, lines: &Markup, scale: Scale) -> Markup {
    html! {
        li.row {
            span.name { code { (bar.name) } @if !bar.about.is_empty() { small { (bar.about) } } }
            svg.track width="100%" height="40" aria-hidden="true" focusable="false" {
                (lines)
                (track(bar, scale))
            }
            span.value {
                b { (figure(bar.estimate.value)) } " " span.sr { (unit) }
                @if bar.estimate.interval.is_some() {
                    span.sr { ", interval" } " " small { (around(bar.estimate)) }
                }
                (also(bar))
            }
        }
    }
}

/// The bar itself; higher up where the published figure is below.
fn track(bar: &Bar, scale: Scale) -> Markup {
    let (top, middle) = if bar.published.is_some() { (7, 15) } else { (12, 20) };
    let place = |value: f64| format!("{}%", scale.at(value));
    let down = format!("translate(0 {middle})");
    html! {
        rect.bar.unsound[bar.sound == Some(false)] x="0" y=(top) width=(place(bar.estimate.value)) height="16" {}
        @if let Some((_, to)) = bar.published { rect.published x="0" y="26" width=(place(to)) height="7" {} }
        @if let Some(Interval { low, high }) = bar.estimate.interval {
            @let (low, high) = (place(low), place(high));
            g.spread transform=(down) {
                line x1=(low) x2=(high) {}
                @for end in [low, high] { line x1=(end) x2=(end) y1="-4" y2="4" {} }
            }
        }
        g.dots transform=(down) { @for one in &bar.samples { circle cx=(place(*one)) r="1.7" {} } }
    }
}

/// Whether the way is sound, and the published figure.
fn also(bar: &Bar) -> Markup {
    html! {
        @if bar.sound.is_some() || bar.published.is_some() {
            span.also {
                @match bar.sound {
                    Some(true) => span.sound { "sound" },
                    Some(false) => span.unsound { "not sound" },
                    None => {},
                }
                @if bar.published.is_some() { " " small { "published " (published(bar)) } }
            }
        }
    }
}

fn published(bar: &Bar) -> String {
    match bar.published {
        Some((from, to)) if from < to => format!("{}–{}", figure(from), figure(to)),
        Some((_, to)) => figure(to),
        None => String::new(),
    }
}

fn table(caption: &str, unit: &str, bars: &[Bar]) -> Table {
    let has_published = bars.iter().any(|bar| bar.published.is_some());
    let has_sound = bars.iter().any(|bar| bar.sound.is_some());
    let facts = distinct(bars.iter().flat_map(|bar| &bar.facts).map(|(name, _)| name.as_str()));
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
            figure(bar.estimate.value).into(),
            around(bar.estimate).into(),
            number::count(bar.samples.len() as u64).into(),
        ];
        if has_published {
            row.push(match bar.published {
                Some(_) => published(bar).into(),
                None => Cell::absent(),
            });
        }
        if has_sound {
            row.push(match bar.sound {
                Some(true) => Cell::toned("yes", Tone::GOOD),
                Some(false) => Cell::toned("NO", Tone::BAD),
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
