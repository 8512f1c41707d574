//! Dots: the same case measured in several places, one mark a place on one line.

use super::estimate::Estimate;
use super::lines::LOOKS;
use super::number::{figure, range};
use super::page::Body;
use super::scale::{Scale, Tick};

/// Dots as they are drawn: places in percent.
#[derive(Debug)]
pub struct Dots {
    pub unit: &'static str,
    pub ticks: Vec<Tick>,
    /// The meanings of the marks.
    pub keys: Vec<Key>,
    pub rows: Vec<Row>,
}

#[derive(Debug)]
pub struct Key {
    pub look: usize,
    pub name: String,
}

#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub marks: Vec<Mark>,
}

#[derive(Debug)]
pub struct Mark {
    pub look: usize,
    pub at: f64,
    pub low: f64,
    pub high: f64,
    pub value: String,
    pub key: String,
    pub interval: String,
}

/// Draws each case's estimate under each key.
pub fn drawn(
    unit: &'static str,
    keys: &[String],
    rows: &[(String, Vec<Option<Estimate>>)],
    logarithmic: bool,
) -> Body {
    let values = rows
        .iter()
        .flat_map(|(_, estimates)| estimates.iter().flatten())
        .flat_map(|estimate| [estimate.low, estimate.high]);
    let scale = if logarithmic { Scale::logarithmic(values) } else { Scale::linear(values) };
    let mark = |(index, estimate): (usize, &Estimate)| Mark {
        look: index % LOOKS,
        at: scale.at(estimate.median),
        low: scale.at(estimate.low),
        high: scale.at(estimate.high),
        value: figure(estimate.median),
        key: keys[index].clone(),
        interval: range(estimate.low, estimate.high),
    };
    let row = |(name, estimates): &(String, Vec<Option<Estimate>>)| Row {
        name: name.clone(),
        marks: estimates
            .iter()
            .enumerate()
            .filter_map(|(index, estimate)| Some(mark((index, estimate.as_ref()?))))
            .collect(),
    };
    let key = |(index, name): (usize, &String)| Key { look: index % LOOKS, name: name.clone() };
    Body::Dots(Dots {
        unit,
        ticks: scale.ticks(),
        keys: keys.iter().enumerate().map(key).collect(),
        rows: rows.iter().map(row).collect(),
    })
}
