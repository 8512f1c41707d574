//! Bars: one measured figure per row, with its interval, samples, and the published figure.

use super::html::{axis, rules};
use super::markup::{Html, each, html, when};
use super::number::{self, around, figure};
use super::page::{Body, Cell, Figure, Table, Tone, numbers, words};
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
    Figure::new(caption).with("Bars", body(unit, bars, limits)).with("Table", Body::Table(table))
}

/// The bars on a linear scale, or on a logarithmic one where the shortest could not be seen.
pub fn body(unit: &str, bars: &[Bar], limits: &[Limit]) -> Body {
    let own = bars.iter().flat_map(|bar| bar.estimate.shown());
    let published = bars.iter().filter_map(|bar| bar.published).flat_map(|(a, b)| [a, b]);
    let values = own.chain(published).chain(limits.iter().map(|limit| limit.value));
    let ends = |(a, b): (f64, f64), value: f64| (value.min(a), value.max(b));
    let (min, max) = values.clone().fold((f64::INFINITY, 0.0), ends);
    let is_wide = max > 200.0 * min;
    let scale = if is_wide { Scale::logarithmic(values) } else { Scale::linear(values) };
    Body::Drawn(drawn(unit, bars, limits, scale))
}

fn drawn(unit: &str, bars: &[Bar], limits: &[Limit], scale: Scale) -> Html {
    let limit = |limit: &Limit| Tick {
        at: scale.at(limit.value),
        text: format!("{}: {}", limit.text, figure(limit.value)),
    };
    let limits: Vec<Tick> = limits.iter().map(limit).collect();
    let lines = html!("{}{}", rules("grid", &scale.ticks()), rules("limit", &limits));
    html!(
        "<div class=\"bars\">\n{}{}<ul>\n{}</ul>\n</div>\n",
        legend(bars, &limits),
        axis(&scale.ticks(), unit),
        each(bars, |bar| row(bar, unit, &lines, scale)),
    )
}

/// The meanings of bars and lines, where there is more than one kind.
fn legend(bars: &[Bar], limits: &[Tick]) -> Html {
    let has_published = bars.iter().any(|bar| bar.published.is_some());
    let has_unsound = bars.iter().any(|bar| bar.sound == Some(false));
    when(has_published || has_unsound || !limits.is_empty(), || {
        html!(
            r#"<p class="legend">
<span><svg width="26" height="12" aria-hidden="true"><rect class="bar" y="1" width="26" height="10"/></svg>{plain}</span>
{unsound}{published}{limits}</p>
"#,
            plain = if has_unsound { "sound" } else { "measured here" },
            unsound = when(has_unsound, || html!(
                r#"<span><svg width="26" height="12" aria-hidden="true"><rect class="bar unsound" x=".5" y="1.5" width="25" height="9"/></svg>not sound</span>"#
            )),
            published = when(has_published, || html!(
                r#"<span><svg width="26" height="12" aria-hidden="true"><rect class="published" x=".5" y="3.5" width="25" height="5"/></svg>published</span>"#
            )),
            limits = each(limits, |limit| html!(
                r#"<span><svg width="26" height="12" aria-hidden="true"><line class="limit" x1="13" x2="13" y1="0" y2="12"/></svg>{}</span>"#,
                limit.text
            )),
        )
    })
}

/// A bar over `lines`, between its name and its figures.
fn row(bar: &Bar, unit: &str, lines: &Html, scale: Scale) -> Html {
    html!(
        r#"<li class="row">
<span class="name"><code>{name}</code>{about}</span>
<svg class="track" width="100%" height="40" aria-hidden="true" focusable="false">
{lines}{bar}
</svg>
<span class="value"><b>{value}</b> <span class="sr">{unit}</span>{interval}{also}</span>
</li>
"#,
        name = bar.name,
        about = when(!bar.about.is_empty(), || html!("<small>{}</small>", bar.about)),
        lines = lines,
        bar = track(bar, scale),
        value = figure(bar.estimate.value),
        unit = unit,
        interval = when(bar.estimate.interval.is_some(), || html!(
            "<span class=\"sr\">, interval</span> <small>{}</small>",
            around(bar.estimate)
        )),
        also = also(bar),
    )
}

/// The bar itself; higher up where the published figure is below.
fn track(bar: &Bar, scale: Scale) -> Html {
    let (top, middle): (usize, usize) = if bar.published.is_some() { (7, 15) } else { (12, 20) };
    let Estimate { value, interval } = bar.estimate;
    let spread = |Interval { low, high }| {
        html!(
            r#"<g class="spread" transform="translate(0 {middle})"><line x1="{low}%" x2="{high}%"/><line x1="{low}%" x2="{low}%" y1="-4" y2="4"/><line x1="{high}%" x2="{high}%" y1="-4" y2="4"/></g>
"#,
            middle = middle,
            low = scale.at(low),
            high = scale.at(high),
        )
    };
    html!(
        r#"<rect class="bar{unsound}" x="0" y="{top}" width="{to}%" height="16"/>
{published}{spread}{dots}"#,
        unsound = if bar.sound == Some(false) { " unsound" } else { "" },
        top = top,
        to = scale.at(value),
        published = bar.published.map_or_else(Html::default, |(_, to)| html!(
            "<rect class=\"published\" x=\"0\" y=\"26\" width=\"{}%\" height=\"7\"/>",
            scale.at(to)
        )),
        spread = interval.map_or_else(Html::default, spread),
        dots = html!(
            r#"<g class="dots" transform="translate(0 {middle})">{dots}</g>"#,
            middle = middle,
            dots =
                each(&bar.samples, |one| html!("<circle cx=\"{}%\" r=\"1.7\"/>", scale.at(*one))),
        ),
    )
}

/// Whether the way is sound, and the published figure.
fn also(bar: &Bar) -> Html {
    let sound = bar.sound.map_or_else(Html::default, |is_sound| {
        let (class, word) = if is_sound { ("sound", "sound") } else { ("unsound", "not sound") };
        html!("<span class=\"{}\">{}</span>", class, word)
    });
    let has_published = bar.published.is_some();
    let published = when(has_published, || html!(" <small>published {}</small>", published(bar)));
    when(bar.sound.is_some() || has_published, || {
        html!("<span class=\"also\">{}{}</span>", sound, published)
    })
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
