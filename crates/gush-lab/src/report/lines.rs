//! Lines: a figure over a quantity, one line a series, named at the last point.

use super::number::{figure, range};
use super::scale::{Scale, Tick};

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
    pub low: f64,
    pub median: f64,
    pub high: f64,
    /// More facts.
    pub about: String,
}

/// Lines as they are drawn: places in percent, from the top left.
#[derive(Debug)]
pub struct Lines {
    pub unit: &'static str,
    pub x_label: &'static str,
    pub y_ticks: Vec<Tick>,
    pub x_ticks: Vec<Tick>,
    pub series: Vec<Drawn>,
}

#[derive(Debug)]
pub struct Drawn {
    pub name: String,
    /// The number of the colour, dash and mark.
    pub look: usize,
    pub points: String,
    pub marks: Vec<Mark>,
    /// The height of the series' name.
    pub label_y: f64,
}

#[derive(Debug)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    pub said: String,
}

/// How many looks the style sheet has.
pub const LOOKS: usize = 14;

/// Names closer than this would overlap, in percent of the height.
const NAME_HEIGHT: f64 = 4.6;

/// Names below the axis closer than this would overlap, in percent of the width.
const NAME_WIDTH: f64 = 9.0;

/// Draws `series`; x is logarithmic, y too if `logarithmic`.
pub fn drawn(
    series: &[Series],
    unit: &'static str,
    x_label: &'static str,
    logarithmic: bool,
) -> Lines {
    let points = || series.iter().flat_map(|series| &series.points);
    let values = points().flat_map(|point| [point.low, point.high]);
    let y = if logarithmic { Scale::logarithmic(values) } else { Scale::linear(values) };
    let x_ticks = x_ticks(series);
    let place = |point: &Point| {
        x_ticks.iter().find(|tick| tick.text == point.x_text).map_or(0.0, |tick| tick.at)
    };
    // The y of SVG grows downwards.
    let top = |value: f64| round(100.0 - y.at(value));
    let mut drawn: Vec<Drawn> = series
        .iter()
        .enumerate()
        .map(|(index, series)| {
            let marks: Vec<Mark> = series
                .points
                .iter()
                .map(|point| Mark {
                    x: place(point),
                    y: top(point.median),
                    low: top(point.low),
                    high: top(point.high),
                    said: said(series, point, unit),
                })
                .collect();
            Drawn {
                name: series.name.clone(),
                look: index % LOOKS,
                points: polyline(marks.iter().map(|mark| (mark.x, mark.y))),
                label_y: marks.last().map_or(50.0, |mark| mark.y),
                marks,
            }
        })
        .collect();
    spread(&mut drawn);
    let y_ticks = y.ticks().into_iter().map(|tick| Tick { at: round(100.0 - tick.at), ..tick });
    Lines { unit, x_label, y_ticks: y_ticks.collect(), x_ticks: thinned(x_ticks), series: drawn }
}

/// Points as SVG has them.
pub fn polyline(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

fn said(series: &Series, point: &Point, unit: &str) -> String {
    let Point { x_text, low, median, high, about, .. } = point;
    let mut said =
        format!("{}, {x_text}: {} {unit} ({})", series.name, figure(*median), range(*low, *high));
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
            low: *median,
            median: *median,
            high: *median,
            about: String::new(),
        });
        Series { name: name.to_owned(), points: points.collect() }
    }

    #[test]
    fn names_at_the_ends_of_lines_do_not_overlap() {
        let all: Vec<Series> = (0..10)
            .map(|index| series(&index.to_string(), &[1.0, 2.0 + f64::from(index) / 1e3]))
            .collect();
        let lines = drawn(&all, "GiB/s", "size", false);
        let mut places: Vec<f64> = lines.series.iter().map(|series| series.label_y).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > NAME_HEIGHT - 0.1), "{places:?}");
        assert!(places.iter().all(|place| (0.0..=100.0).contains(place)), "{places:?}");
    }

    #[test]
    fn a_single_size_stands_in_the_middle() {
        let lines = drawn(&[series("one", &[3.0])], "GiB/s", "size", true);
        assert_eq!(lines.series[0].points, "50,52.29");
    }
}
