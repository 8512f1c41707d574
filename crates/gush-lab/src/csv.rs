//! Samples as comma-separated values (RFC 4180): one form for all suites, whose own figures are in
//! the last column as JSON.

use serde_json::Value;

use crate::model::{Run, Sample};

/// The first row.
pub const HEADER: &str = "run,started,machine,host,processor,kernel,gush,suite,case,round,gib_per_s,wall_s,user_s,system_s,bytes,facts";

/// The rows of one run, in the columns of [`HEADER`], without the ends of the lines.
#[derive(Debug)]
pub struct Rows {
    /// The columns that are the same in all rows.
    head: String,
}

impl Rows {
    pub fn of(run: &Run) -> Self {
        let fact = |name: &str| run.machine.facts.get(name).map_or("", String::as_str);
        let started = run.started.to_string();
        let [host, processor, kernel] = ["host", "processor", "kernel"].map(fact);
        let head =
            [&*run.id, &*started, &*run.machine.id, host, processor, kernel, &*run.gush].map(field);
        Self { head: head.join(",") }
    }

    pub fn row(&self, Sample { suite, case, round, measured }: &Sample) -> String {
        let figures = [measured.gib_per_s, measured.wall_s, measured.user_s, measured.system_s];
        let figures = figures
            .map(|figure| figure.map_or_else(String::new, |figure| format!("{figure:.6}")))
            .join(",");
        let facts = Value::from_iter(measured.facts.clone()).to_string();
        let [suite, case, facts] = [suite, case, &facts].map(|text| field(text));
        format!("{},{suite},{case},{round},{figures},{},{facts}", self.head, measured.bytes)
    }
}

/// `text` as one field: quoted where a comma, a quote or a line's end would break the row.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
