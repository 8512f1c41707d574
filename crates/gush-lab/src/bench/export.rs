//! Summaries for other programs: Markdown, and CSV and JSON with the fields of hyperfine.
//!
//! Fields that hyperfine 1.20 has are there under its names and in the same units (seconds, bytes);
//! more come after them, counters under the names of hyperfine 2.0.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::show::{self, Unit};
use super::summary::{Figure, Summary};
use crate::cases::distinct;
use crate::csv;
use crate::stats::{self, Estimate, Interval};

/// The table of the terminal in Markdown; the name of a failed contender is followed by the reason.
pub fn markdown(summaries: &[Summary], unit: Option<Unit>) -> String {
    let (heads, rows) = show::cells(summaries, unit);
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = [vec!["contender".to_owned()], heads.iter().map(|head| plain(head)).collect()];
    let heads = heads.concat();
    let rule = format!("|:---|{}\n", "---:|".repeat(heads.len() - 1));
    let mut text = row(heads) + &rule;
    for (one, cells) in summaries.iter().zip(rows) {
        let out = one.failure.as_ref().map_or_else(String::new, |why| format!(" (out: {why})"));
        text += &row([vec![code(&one.label) + &plain(&out)], cells].concat());
    }
    match show::brackets(summaries) {
        note if note.is_empty() => text,
        note => text + "\n" + &note,
    }
}

/// Code in Markdown, in a longer fence where the text has backticks.
fn code(text: &str) -> String {
    let fence = if text.contains('`') { "``" } else { "`" };
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", text.replace('|', "\\|"))
}

fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Always in seconds. The first columns are hyperfine's:
/// `command,mean,stddev,median,user,system,min,max`, where `user` and `system` are means, and
/// `parameter_NAME` for each parameter.
pub fn csv(summaries: &[Summary]) -> String {
    let figures = summaries.iter().flat_map(|one| &one.figures);
    let figures = distinct(figures.map(|figure| figure.printed.name.as_str()));
    let parameters = summaries.iter().flat_map(|one| &one.parameters);
    let mut parameters = distinct(parameters.map(|(name, _)| name.as_str()));
    parameters.sort_unstable();
    let mut text = String::from("command,mean,stddev,median,user,system,min,max");
    for name in &parameters {
        text += &format!(",{}", csv::field(&format!("parameter_{name}")));
    }
    text += ",median_low,median_high,times_first,times_first_low,times_first_high,memory_bytes,gib_per_s,samples,\
             failure";
    for name in &figures {
        text += &format!(",{},{}", csv::field(name), csv::field(&format!("{name}_times_first")));
    }
    let counted = summaries.iter().flat_map(|one| &one.counts);
    let counters = distinct(counted.map(|&(name, ..)| name));
    for name in &counters {
        text += &format!(",{name}");
    }
    text.push('\n');
    for one in summaries {
        let figure = |value: f64| format!("{value:.9}");
        let maybe = |value: Option<f64>| value.map(figure).unwrap_or_default();
        let times = one.compared().times_first;
        let whole = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let value = |name: &&str| {
            let own = one.parameters.iter().find(|(own, _)| own == name);
            own.map(|(_, value)| csv::field(value)).unwrap_or_default()
        };
        let hyperfines = [
            csv::field(&one.label),
            figure(one.mean_s),
            maybe(one.deviation_s),
            figure(one.seconds.median.value),
            figure(one.mean_user_s),
            figure(one.mean_system_s),
            figure(one.range_s[0]),
            figure(one.range_s[1]),
        ];
        let others = [
            maybe(one.seconds.median.interval.map(|around| around.low)),
            maybe(one.seconds.median.interval.map(|around| around.high)),
            maybe(times.map(|times| times.value)),
            maybe(times.and_then(|times| times.interval).map(|around| around.low)),
            maybe(times.and_then(|times| times.interval).map(|around| around.high)),
            whole(one.peak_bytes),
            maybe(one.gib_per_s),
            one.seconds.rounds.len().to_string(),
            csv::field(one.failure.as_deref().unwrap_or_default()),
        ];
        let fields = hyperfines.into_iter().chain(parameters.iter().map(value)).chain(others);
        text += &fields.collect::<Vec<_>>().join(",");
        for name in &figures {
            let own = one.figures.iter().find(|figure| figure.printed.name == *name);
            let times = own.and_then(|own| own.times_first).map(|times| times.value);
            text += &format!(",{},{}", maybe(own.map(|own| own.median.value)), maybe(times));
        }
        for name in &counters {
            let own = one.counts.iter().find(|(own, ..)| own == name);
            let median = own.and_then(|(.., counts)| stats::middle(counts));
            text += &format!(",{}", median.map_or_else(String::new, |count| format!("{count:.0}")));
        }
        text.push('\n');
    }
    text
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    command: &'a str,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    memory_usage_byte: &'a [u64],
    #[serde(flatten)]
    counts: BTreeMap<&'a str, &'a [f64]>,
    exit_codes: Vec<i64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    parameters: Map<String, Value>,
    median_interval: Option<[f64; 2]>,
    times_first: Option<f64>,
    times_first_interval: Option<[f64; 2]>,
    peak_bytes: Option<u64>,
    gib_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    figures: Map<String, Value>,
    failure: Option<&'a str>,
}

/// One JSON document, always in seconds: `{"results": [{"command", "mean", "stddev", "median",
/// …}]}`.
pub fn json(summaries: &[Summary]) -> String {
    fn ends(of: Estimate) -> Option<[f64; 2]> {
        of.interval.map(|Interval { low, high }| [low, high])
    }
    fn one(summary: &Summary) -> One<'_> {
        let times = summary.compared().times_first;
        let parameter = |(name, value): &(String, String)| (name.clone(), value.clone().into());
        let figure = |Figure { printed, rounds, median, times_first }: &Figure| {
            let values: Vec<f64> = rounds.iter().map(|&(_, value)| value).collect();
            let value = json!({
                "unit": printed.unit,
                "less_is_better": printed.less_is_better,
                "values": values,
                "median": median.value,
                "median_interval": ends(*median),
                "times_first": times_first.map(|times| times.value),
                "times_first_interval": times_first.and_then(ends),
            });
            (printed.name.clone(), value)
        };
        One {
            command: &summary.label,
            mean: summary.mean_s,
            stddev: summary.deviation_s,
            median: summary.seconds.median.value,
            user: summary.mean_user_s,
            system: summary.mean_system_s,
            min: summary.range_s[0],
            max: summary.range_s[1],
            times: summary.seconds.rounds.iter().map(|&(_, seconds)| seconds).collect(),
            memory_usage_byte: &summary.peaks_bytes,
            counts: summary.counts.iter().map(|(name, _, counts)| (*name, &counts[..])).collect(),
            exit_codes: summary.ends.iter().map(|end| end.shell_status()).collect(),
            parameters: summary.parameters.iter().map(parameter).collect(),
            median_interval: ends(summary.seconds.median),
            times_first: times.map(|times| times.value),
            times_first_interval: times.and_then(ends),
            peak_bytes: summary.peak_bytes,
            gib_per_s: summary.gib_per_s,
            figures: summary.figures.iter().map(figure).collect(),
            failure: summary.failure.as_deref(),
        }
    }
    let results = Results { results: summaries.iter().map(one).collect() };
    let mut text = serde_json::to_string_pretty(&results).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{judged, samples};
    use super::*;

    #[test]
    fn names_with_bars_quotes_and_commas_stay_in_their_cells() {
        let summaries = judged(&samples("cat a | wc -c, \"b\"", &[0.5; 5]));
        assert!(markdown(&summaries, None).contains("\n| `cat a \\| wc -c, \"b\"` | 500.00 ms |"));
        let csv = csv(&summaries);
        let row = csv.lines().nth(1).unwrap();
        assert!(row.starts_with("\"cat a | wc -c, \"\"b\"\"\",0.500000000,0.000000000,"), "{row}");
    }

    #[test]
    fn each_figure_is_under_its_own_name() {
        let all = [
            samples("a", &[0.2, 0.22, 0.18, 0.2, 0.21]),
            samples("b", &[0.1, 0.13, 0.09, 0.12, 0.08]),
        ];
        let mut summaries = judged(&all.concat());
        (summaries[1].mean_user_s, summaries[1].mean_system_s) = (0.25, 0.5);
        let one = &summaries[1];
        let times = one.seconds.times_first.unwrap();
        let [median, ratio] = [one.seconds.median, times].map(|of| of.interval.unwrap());
        assert!(ratio.low < ratio.high);
        let json: Value = serde_json::from_str(&json(&summaries)).unwrap();
        let csv = csv(&summaries);
        let (header, row) = (csv.lines().next().unwrap(), csv.lines().nth(2).unwrap());
        let field = |name: &str| -> f64 {
            let place = header.split(',').position(|own| own == name).expect("a column");
            row.split(',').nth(place).unwrap().parse().unwrap()
        };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-8;
        let known = [
            ("user", 0.25),
            ("system", 0.5),
            ("min", 0.08),
            ("max", 0.13),
            ("median", 0.1),
            ("mean", 0.104),
        ];
        for (name, value) in known {
            assert!(near(field(name), value), "{name}: {}", field(name));
            assert!(near(json["results"][1][name].as_f64().unwrap(), value), "{name}");
        }
        let intervals =
            [("median", [median.low, median.high]), ("times_first", [ratio.low, ratio.high])];
        for (name, [low, high]) in intervals {
            assert!(near(field(&format!("{name}_low")), low), "{name}");
            assert!(near(field(&format!("{name}_high")), high), "{name}");
            assert_eq!(
                json["results"][1][format!("{name}_interval")],
                serde_json::json!([low, high])
            );
        }
    }

    #[test]
    fn tables_have_user_and_system_time() {
        let mut summaries = judged(&samples("a", &[0.2; 5]));
        (summaries[0].user_s, summaries[0].system_s) = (0.25, 0.5);
        summaries[0].processor_s = 0.75;
        let text = markdown(&summaries, None);
        assert!(text.contains("| processor | user | system |"), "{text}");
        assert!(text.contains("| 750.00 ms | 250.00 ms | 500.00 ms |"), "{text}");
    }

    #[test]
    fn hyperfines_fields_are_there() {
        let all = [samples("a", &[0.2; 5]), samples("b", &[0.1; 5])].concat();
        let json: Value = serde_json::from_str(&json(&judged(&all))).unwrap();
        let second = &json["results"][1];
        for field in ["mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(second[field].is_number(), "{field}");
        }
        assert_eq!(second["times"].as_array().unwrap().len(), 5);
        assert_eq!(second["exit_codes"], serde_json::json!([0, 0, 0, 0, 0]));
        assert_eq!(second["times_first"], 2.0);
        assert_eq!(json["results"][0]["times_first"], Value::Null);
    }
}
