//! Lines: a figure over a quantity, one line a series, named at the last point.

use super::markup::{Html, each, html, numbered};
use super::number::{around, figure};
use super::scale::{Scale, Tick};
use crate::stats::Estimate;

/// A series before drawing.
#[derive(Debug)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug)]
pub struct Point {
    pub x: f64,
    /// The text below the axis.
    pub x_text: String,
    pub estimate: Estimate,
    /// More facts.
    pub about: String,
}

/// A series with its places: in percent, from the top left.
struct Drawn {
    name: String,
    /// The number of the colour, dash and mark.
    look: usize,
    marks: Vec<Mark>,
    /// The height of the series' name.
    label_y: f64,
}

struct Mark {
    x: f64,
    y: f64,
    /// The places of the lower and of the upper end.
    interval: Option<[f64; 2]>,
    said: String,
}

/// How many looks the style sheet has.
pub const LOOKS: usize = 14;

/// Names closer than this would overlap, in percent of the height.
const NAME_HEIGHT: f64 = 4.6;

/// Names below the axis closer than this would overlap, in percent of the width.
const NAME_WIDTH: f64 = 9.0;

/// Draws `series`, which the script makes walkable by the arrow keys; x is logarithmic, y too if `logarithmic`.
pub fn drawn(series: &[Series], unit: &str, x_label: &str, logarithmic: bool) -> Html {
    let values = series.iter().flat_map(|series| &series.points);
    let values = values.flat_map(|point| point.estimate.shown());
    let y = if logarithmic { Scale::logarithmic(values) } else { Scale::linear(values) };
    let x_ticks = x_ticks(series);
    let all = placed(series, unit, &x_ticks, y);
    let look = |one: &Drawn| {
        html!(
            r##"<span class="series s{look}"><svg width="30" height="14" aria-hidden="true"><line x1="0" x2="30" y1="7" y2="7"/><use href="#m{look}" x="15" y="7"/></svg>{name}</span>"##,
            look = one.look,
            name = one.name,
        )
    };
    html!(
        r#"<div class="lines" data-lines>
<p class="axis-name">{unit}</p>
<div class="plot">
<svg width="100%" height="380" tabindex="0" role="img" aria-label="Lines: {unit} by {what}. The arrow keys go from point to point; the table has them all.">
{y_ticks}{x_ticks}{series}</svg>
</div>
<p class="axis-name x">{x_label}</p>
<p class="legend keys">
{keys}</p>
<p class="readout" aria-live="polite"></p>
</div>
"#,
        unit = unit,
        what = x_label.to_lowercase(),
        y_ticks = each(y.ticks(), |tick| html!(
            r#"<line class="grid" x1="0" x2="100%" y1="{at}%" y2="{at}%"/><text class="y" x="0" dx="-8" y="{at}%" dy="4">{text}</text>"#,
            at = round(100.0 - tick.at),
            text = tick.text,
        )),
        x_ticks = numbered(thinned(x_ticks), |index, tick| html!(
            r#"<line class="tick" x1="{at}%" x2="{at}%" y1="100%" y2="100%"/><text class="x{second}" x="{at}%" y="100%" dy="20">{text}</text>"#,
            at = tick.at,
            second = if index % 2 == 1 { " second" } else { "" },
            text = tick.text,
        )),
        series = each(&all, line),
        x_label = x_label,
        keys = each(&all, look),
    )
}

fn placed(series: &[Series], unit: &str, x_ticks: &[Tick], y: Scale) -> Vec<Drawn> {
    let place = |point: &Point| {
        x_ticks.iter().find(|tick| tick.text == point.x_text).map_or(0.0, |tick| tick.at)
    };
    // The y of SVG grows downwards.
    let top = |value: f64| round(100.0 - y.at(value));
    let drawn = |(index, series): (usize, &Series)| {
        let mark = |point: &Point| Mark {
            x: place(point),
            y: top(point.estimate.value),
            interval: point.estimate.interval.map(|ends| [top(ends.low), top(ends.high)]),
            said: said(series, point, unit),
        };
        let marks: Vec<Mark> = series.points.iter().map(mark).collect();
        let label_y = marks.last().map_or(50.0, |mark| mark.y);
        Drawn { name: series.name.clone(), look: index % LOOKS, label_y, marks }
    };
    let mut all: Vec<Drawn> = series.iter().enumerate().map(drawn).collect();
    spread(&mut all);
    all
}

fn line(series: &Drawn) -> Html {
    html!(
        r#"<g class="series s{look}">
<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" overflow="visible"><polyline points="{points}"/></svg>
{marks}<text class="end" x="100%" dx="12" y="{label_y}%" dy="4">{name}</text>
</g>
"#,
        look = series.look,
        points = polyline(series.marks.iter().map(|mark| (mark.x, mark.y))),
        marks = each(&series.marks, |Mark { x, y, interval, said }| html!(
            r##"{around}<use href="#m{look}" x="{x}%" y="{y}%" data-said="{said}"/>"##,
            around = interval.map_or_else(Html::default, |[low, high]| html!(
                "<line class=\"spread\" x1=\"{x}%\" x2=\"{x}%\" y1=\"{low}%\" y2=\"{high}%\"/>",
                x = x,
                low = low,
                high = high,
            )),
            x = x,
            y = y,
            look = series.look,
            said = said,
        )),
        label_y = series.label_y,
        name = series.name,
    )
}

/// Points as SVG has them.
pub fn polyline(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

fn said(series: &Series, point: &Point, unit: &str) -> String {
    let Point { x_text, estimate, about, .. } = point;
    let mut said = format!("{}, {x_text}: {} {unit}", series.name, figure(estimate.value));
    if estimate.interval.is_some() {
        said += &format!(" ({})", around(*estimate));
    }
    if !about.is_empty() {
        said.push_str("; ");
        said.push_str(about);
    }
    said
}

/// One tick for each x there is, a logarithm apart.
fn x_ticks(series: &[Series]) -> Vec<Tick> {
    let mut all: Vec<(f64, &str)> = series
        .iter()
        .flat_map(|series| &series.points)
        // Sizes double from point to point: on a logarithm they stand evenly.
        .map(|point| (point.x.max(1.0).log2(), point.x_text.as_str()))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.dedup_by(|a, b| a.1 == b.1);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    let (from, width) = (first.0, last.0 - first.0);
    let at = |x: f64| if width > 0.0 { round((x - from) / width * 100.0) } else { 50.0 };
    all.iter().map(|(x, text)| Tick { at: at(*x), text: (*text).to_owned() }).collect()
}

/// Leaves out names that would run into the one before; the last one stays.
fn thinned(mut ticks: Vec<Tick>) -> Vec<Tick> {
    // The last tick always stays, since it names the largest size measured.
    let Some(last) = ticks.pop() else { return ticks };
    let mut kept: Vec<Tick> = Vec::new();
    for tick in ticks {
        let room = kept.last().is_none_or(|before| tick.at - before.at >= NAME_WIDTH);
        if room && last.at - tick.at >= NAME_WIDTH {
            kept.push(tick);
        }
    }
    kept.push(last);
    kept
}

/// Moves names apart, as little as needed: down from the top, then up from the bottom.
fn spread(series: &mut [Drawn]) {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| series[*a].label_y.total_cmp(&series[*b].label_y));
    let mut least = 0.0;
    for &index in &order {
        series[index].label_y = series[index].label_y.max(least);
        least = series[index].label_y + NAME_HEIGHT;
    }
    let mut most = 100.0;
    // And back from the bottom: the first pass may have pushed the last names out of the picture.
    for &index in order.iter().rev() {
        series[index].label_y = round(series[index].label_y.min(most));
        most = series[index].label_y - NAME_HEIGHT;
    }
}

fn round(percent: f64) -> f64 {
    // Two digits are finer than a screen's dots, and keep the page small.
    (percent * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, medians: &[f64]) -> Series {
        let points = medians.iter().enumerate().map(|(index, median)| Point {
            x: 4096.0 * (1 << index) as f64,
            x_text: format!("{} KiB", 4 << index),
            estimate: Estimate { value: *median, interval: None },
            about: String::new(),
        });
        Series { name: name.to_owned(), points: points.collect() }
    }

    #[test]
    fn names_at_the_ends_of_lines_do_not_overlap() {
        let all: Vec<Series> = (0..10)
            .map(|index| series(&index.to_string(), &[1.0, 2.0 + f64::from(index) / 1e3]))
            .collect();
        let lines = placed(&all, "GiB/s", &x_ticks(&all), Scale::linear([2.01].into_iter()));
        let mut places: Vec<f64> = lines.iter().map(|series| series.label_y).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > NAME_HEIGHT - 0.1), "{places:?}");
        assert!(places.iter().all(|place| (0.0..=100.0).contains(place)), "{places:?}");
    }

    #[test]
    fn a_single_size_stands_in_the_middle() {
        let lines = drawn(&[series("one", &[3.0])], "GiB/s", "size", true);
        assert!(lines.0.contains("<polyline points=\"50,52.29\"/>"), "{lines:?}");
    }
}
