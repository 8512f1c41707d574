//! The parts of a page; figures and tables are drawn already where they are in a figure.

use maud::Markup;

use super::html;
use super::number::{around, figure};
use crate::stats::Estimate;
pub use gush_text::table::{Column, numbers, words};

#[derive(Debug)]
pub struct Page {
    /// Above everything, in large type. Sentences may mark `code` and **weight**.
    pub lead: String,
    pub byline: String,
    pub warnings: Vec<Warning>,
    pub sections: Vec<Section>,
    /// The address of the runs as JSON, which is in the page.
    pub runs_href: Option<String>,
}

/// Facts with the same remedy.
#[derive(Debug, PartialEq)]
pub struct Warning {
    pub facts: Vec<Fact>,
    pub remedy: String,
}

/// A sentence without full stop.
#[derive(Debug, PartialEq)]
pub struct Fact {
    pub head: String,
    /// Particulars, from the colon on.
    pub rest: String,
    /// The suites whose figures are doubtful, where the page has figures of several runs.
    pub of: String,
}

/// A heading with the content below.
#[derive(Debug, Default)]
pub struct Section {
    /// The fragment of links to this section.
    pub id: &'static str,
    pub title: String,
    pub said: Vec<String>,
    pub figures: Vec<Figure>,
    /// In small type, below.
    pub notes: Vec<String>,
}

/// Something to look at, in one or more views between which the reader switches.
#[derive(Debug)]
pub struct Figure {
    pub caption: String,
    /// Each with its label.
    pub views: Vec<(String, Markup)>,
    /// Print every view, since a reader of paper cannot switch.
    pub print_all: bool,
}

impl Figure {
    pub fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), views: Vec::new(), print_all: false }
    }

    pub fn with(mut self, label: impl Into<String>, body: Markup) -> Self {
        self.views.push((label.into(), body));
        self
    }

    pub fn with_table(self, label: impl Into<String>, table: &Table) -> Self {
        let body = html::table(table, &self.caption);
        self.with(label, body)
    }

    /// A table that needs no other view.
    pub fn of_table(table: &Table) -> Self {
        Self::new(table.caption.clone()).with_table("", table)
    }
}

/// A table; the first cell of a row is the row's heading.
#[derive(Debug, Default)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// A grid of short marks: narrow columns.
    pub grid: bool,
}

impl Table {
    pub fn new(caption: impl Into<String>, columns: &[Column]) -> Self {
        Self { caption: caption.into(), columns: columns.to_vec(), ..Self::default() }
    }
}

/// The look of a cell, a class in the style sheet; the text says the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tone(pub &'static str);

impl Tone {
    pub const PLAIN: Self = Self("plain");
    pub const CODE: Self = Self("code");
    pub const GOOD: Self = Self("good");
    pub const BAD: Self = Self("bad");
    pub const REFUSED: Self = Self("refused");
    pub const ABSENT: Self = Self("absent");

    /// The level of `share`, from 0 to 1: a heat map has five, from few to many.
    pub fn heat(share: f64) -> Self {
        Self(match share {
            s if s > 0.8 => "h5",
            s if s > 0.6 => "h4",
            s if s > 0.4 => "h3",
            s if s > 0.2 => "h2",
            _ => "h1",
        })
    }
}

impl Default for Tone {
    fn default() -> Self {
        Self::PLAIN
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
    /// In small type, below the text.
    pub small: String,
}

impl Cell {
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone, ..Self::default() }
    }

    pub fn code(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::CODE)
    }

    /// A figure with its interval below.
    pub fn of(estimate: Option<Estimate>) -> Self {
        let cell = |estimate: Estimate| Self::from(figure(estimate.value)).small(around(estimate));
        estimate.map_or_else(Self::absent, cell)
    }

    pub fn absent() -> Self {
        Self::toned("–", Tone::ABSENT)
    }

    pub fn small(self, small: impl Into<String>) -> Self {
        Self { small: small.into(), ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::PLAIN)
    }
}
