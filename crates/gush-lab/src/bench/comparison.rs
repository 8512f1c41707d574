//! A comparison: the commands, and how they are compared. Options, code and TOML fill the same
//! structure.
//!
//! ```toml
//! [variables]                         # {NAME} in commands; --set NAME=VALUE replaces a value
//! uutils = "target/uutils/bin/cat"
//!
//! [[comparison]]
//! name = "counted"
//! about = "a file to wc -c"
//! input = "1G"
//!
//! [[comparison.contender]]
//! name = "GNU"
//! command = "cat {in} | wc -c"
//!
//! [[comparison.contender]]
//! name = "uutils"
//! command = "{uutils} {in} | wc -c"
//! needs = ["{uutils}"]                # a program that is looked for first
//! optional = true                     # left out without it, and no failure
//!
//! [[comparison.aim]]
//! contender = "uutils"
//! rivals = ["GNU"]                    # the fastest of these that was measured
//! times = 1.5                         # at least so many times as fast
//! ```
//!
//! A comparison whose commands print figures, as the last line of JSON on standard output, names
//! them; the first is compared instead of the time, and an aim may name another:
//!
//! ```toml
//! [[comparison.figure]]
//! name = "median_us"                  # {"median_us": 41.5}
//! unit = "µs"
//! less_is_better = true
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gush_text::{plural, size_bytes};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Ignored, Input, Output, Parameter, Shell, Summary, parameter};
use crate::Error;
use crate::model::Printed;
use crate::stats;

/// The contenders of a comparison, and the manner of comparing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Comparison {
    /// The name in a file; empty elsewhere.
    pub name: String,
    /// The subject, in a few words.
    pub about: String,
    /// The name of the file without its ending.
    #[serde(skip)]
    pub file: String,
    /// The commands. The others are measured against the first.
    #[serde(rename = "contender")]
    pub entries: Vec<Entry>,
    /// Parameters: a command that names some becomes a contender for every choice of their values.
    #[serde(deserialize_with = "parameter::of_map")]
    pub parameters: Vec<Parameter>,
    /// This program: the value of `{gush}` unless a variable has that name.
    #[serde(skip)]
    pub gush: Option<PathBuf>,
    /// Values for more names. Labels leave the names as they are.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
    /// Where files are made, if not in the working directory.
    pub dir: Option<PathBuf>,
    /// The input, which replaces `{in}`.
    pub input: Option<Input>,
    /// The bytes that a command moves, if they are not the input's.
    #[serde(deserialize_with = "size")]
    pub bytes: Option<u64>,
    /// Variables of the environment, for commands and what runs around them: `A=1 B="2 3"`.
    pub env: Option<String>,
    /// Runs once for each contender, before all rounds.
    pub setup: Option<String>,
    /// Runs before each run of a command.
    pub prepare: Option<String>,
    /// Runs after each run of a command.
    pub conclude: Option<String>,
    /// Runs once for each contender, after all rounds.
    pub cleanup: Option<String>,
    pub shell: Shell,
    /// Runs of each contender before the first round, by default one; at least one of the contender
    /// whose output is the expected one.
    pub warmup: Option<u32>,
    /// The number of rounds, if it is fixed.
    pub runs: Option<u32>,
    /// How often a sample runs the command, by default once; `prepare` and `conclude` each time.
    pub repeat: Option<u32>,
    /// The failures despite which a command is measured.
    #[serde(rename = "ignore_failure")]
    pub ignored: Ignored,
    pub output: Output,
    /// The processor's counters are read.
    #[serde(rename = "counters")]
    pub counts: bool,
    /// Standard input is the input, instead of nothing.
    #[serde(rename = "stdin")]
    pub is_input_piped: bool,
    /// `{out}` of the run before is not removed.
    #[serde(rename = "keep_out")]
    pub keeps_output: bool,
    #[serde(rename = "no_compare")]
    pub ignores_output: bool,
    /// The right output: a file or directory, or `{in}`. Without it, the first contender's output.
    #[serde(rename = "expect")]
    pub expected: Option<String>,
    /// Figures that the commands print, of which the first is compared instead of the time. Of
    /// several runs of a sample the mean counts.
    #[serde(rename = "figure", deserialize_with = "figures")]
    pub figures: Vec<Printed>,
    #[serde(rename = "aim")]
    pub aims: Vec<Aim>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The command, with names in braces.
    pub command: String,
    /// The contender's name, with names of parameters in braces; without a name, the command.
    pub name: Option<String>,
    /// Runs before each run of the command, in the place of the comparison's own.
    pub prepare: Option<String>,
    /// Runs after each run of the command, in the place of the comparison's own.
    pub conclude: Option<String>,
    /// Variables of the environment, in the place of the comparison's own.
    pub env: Option<String>,
    /// Where the standard output of the command goes, in the place of the comparison's own.
    pub output: Option<Output>,
    /// Programs that the command needs besides the program started.
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default, rename = "optional")]
    pub is_optional: bool,
}

/// How fast a contender should be, compared with others.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    pub contender: String,
    /// The others: the fastest of them counts.
    pub rivals: Vec<String>,
    /// At least so many times as fast, or as good by the figure.
    pub times: f64,
    /// The figure that the commands print, if it is not the compared one.
    pub figure: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    variables: BTreeMap<String, String>,
    comparison: Vec<Comparison>,
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size_bytes(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// Figures in which an unknown word is an error: a misspelt `less_is_better` would turn the winner
/// around. A stored run may have words of a newer gush.
fn figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Printed>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Figure {
        name: String,
        unit: String,
        #[serde(default)]
        less_is_better: bool,
    }
    let figures = Vec::deserialize(deserializer)?.into_iter();
    let figure = |Figure { name, unit, less_is_better }| Printed { name, unit, less_is_better };
    Ok(figures.map(figure).collect())
}

impl Comparison {
    /// Reads the comparisons in the text of a file called `stem`.
    pub fn read(stem: &str, text: &str) -> Result<Vec<Self>, Error> {
        let Document { variables, comparison: mut all } = toml::from_str(text)
            .map_err(|error| Error::refused(format!("cannot be understood: {error}")))?;
        for place in 0..all.len() {
            let (before, rest) = all.split_at_mut(place);
            let one = &mut rest[0];
            if one.name.is_empty() {
                return Err(Error::refused("a comparison has no name"));
            }
            if before.iter().any(|other| other.name == one.name) {
                return Err(Error::refused(format!("two comparisons are called {}", one.name)));
            }
            if let Some(why) = one.wrong_aim() {
                return Err(Error::refused(format!("comparison {}: {why}", one.name)));
            }
            one.file = stem.to_owned();
            one.variables.clone_from(&variables);
        }
        Ok(all)
    }

    /// Why an aim is about nothing, if one is.
    fn wrong_aim(&self) -> Option<String> {
        let is_there =
            |label: &&String| self.entries.iter().any(|entry| entry.name.as_ref() == Some(*label));
        let is_printed = |name: &&String| self.figures.iter().any(|one| one.name == **name);
        self.aims.iter().find_map(|aim| {
            let nobody = [&aim.contender].into_iter().chain(&aim.rivals).find(|one| !is_there(one));
            let none = aim.figure.as_ref().filter(|name| !is_printed(name));
            nobody.map(|label| format!("an aim names '{label}', and no contender does")).or_else(
                || none.map(|name| format!("an aim names the figure '{name}', which is none")),
            )
        })
    }

    /// The suite's name in the stored run.
    pub fn suite(&self) -> String {
        if self.file.is_empty() { "run".to_owned() } else { format!("{}/{}", self.file, self.name) }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("."))
    }

    /// How often a sample runs the command.
    pub(super) fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(1).max(1)
    }
}

impl Aim {
    /// Whether the summaries reach the aim, as a sentence; `None` where one side was not measured.
    pub fn verdict(&self, summaries: &[Summary]) -> Option<String> {
        let name = self.figure.as_deref();
        let measured =
            |label: &str| summaries.iter().find(|one| one.label == label && one.failure.is_none());
        let own = measured(&self.contender)?;
        let all = self.rivals.iter().filter_map(|label| measured(label));
        let costs = all.filter_map(|one| Some((one, one.figure(name)?.cost(|_| true))));
        let (rival, _) = costs.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let mine = own.figure(name)?;
        let pairs = mine.pairs(rival.figure(name)?, |_| true);
        let times = stats::paired_ratio(&pairs)?;
        let sure = match times.interval {
            None => format!("in {}, too few to be sure", plural(pairs.len(), "round")),
            Some(_) => format!("95 %: {}", times.around(3)),
        };
        let said = if times.value >= self.times { "reached" } else { "MISSED" };
        let (how, by) = mine.words();
        Some(format!(
            "aim: {} at least {} times as {how} as {}{by}: {:.3} ({sure}), {said}",
            own.label, self.times, rival.label, times.value
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{judged, samples};
    use super::*;

    fn read(text: &str) -> Result<Vec<Comparison>, Error> {
        Comparison::read("file", text)
    }

    fn refusal(text: &str) -> String {
        read(text).map(drop).unwrap_err().to_string()
    }

    const ONE: &str = "[[comparison]]\nname = 'one'\ninput = '7'\n";

    #[test]
    fn what_cannot_be_understood_is_reported_with_its_place() {
        assert!(refusal("[[comparison]]\nnaem = 'x'").contains("naem"));
        let entry = "[[comparison.contender]]\ncommand = 'true'\nname = 'a'\n";
        let twice = format!("{ONE}{entry}{ONE}{entry}");
        assert_eq!(refusal(&twice), "two comparisons are called one");
        assert_eq!(refusal(&format!("[[comparison]]\n{entry}")), "a comparison has no name");
        let figure = "[[comparison.figure]]\nname = 'us'\nunit = 'µs'\nles_is_better = true\n";
        assert!(refusal(&format!("{ONE}{entry}{figure}")).contains("les_is_better"));
        let aim = "[[comparison.aim]]\ncontender = 'a'\nrivals = ['b']\ntimes = 2\n";
        assert!(refusal(&format!("{ONE}{entry}{aim}")).contains("an aim names 'b'"));
        let unknown = refusal(&format!("{ONE}{entry}{}", aim.replace("rivals", "peers")));
        assert!(unknown.contains("peers") && unknown.contains("rivals"), "{unknown}");
        let many = refusal(&format!("{ONE}bytes = 'many'\n{entry}"));
        assert!(many.contains("line 4") && many.contains("not a size"), "{many}");
    }

    #[test]
    fn an_input_that_is_no_size_is_a_path() {
        let text = "[[comparison]]\nname = 'one'\ninput = './x'\n[[comparison.contender]]\ncommand = 'cat {in}'";
        assert_eq!(read(text).unwrap()[0].input, Some(Input::Path("./x".into())));
    }

    #[test]
    fn a_contender_may_have_an_output_of_its_own() {
        let entry = "output = 'pipe'\n[[comparison.contender]]\ncommand = 'true'\n";
        let own = |output: &str| format!("{ONE}{entry}{output}");
        for (text, output) in [
            ("", None),
            ("output = 'check'", Some(Output::Check)),
            ("output = 'null'", Some(Output::Null)),
            ("output = './nul'", Some(Output::File("./nul".into()))),
        ] {
            let Comparison { entries, output: of_all, .. } = read(&own(text)).unwrap().remove(0);
            assert_eq!((&entries[0].output, of_all), (&output, Output::Pipe), "{text}");
        }
        let said = refusal(&own("output = 'nul'"));
        assert!(
            said.contains("line 7") && said.contains("'nul' is none of null, pipe, "),
            "{said}"
        );
    }

    #[test]
    fn an_aim_is_held_against_the_fastest_rival_that_was_measured() {
        let aim = Aim {
            contender: "own".into(),
            rivals: vec!["slow".into(), "fast".into(), "gone".into()],
            times: 1.5,
            figure: None,
        };
        let all =
            [samples("slow", &[4.0; 6]), samples("fast", &[2.0; 6]), samples("own", &[1.0; 6])]
                .concat();
        let verdict = aim.verdict(&judged(&all)).unwrap();
        assert!(
            verdict.contains("as fast as fast: 2.000 (") && verdict.ends_with("reached"),
            "{verdict}"
        );
        let missed = Aim { times: 2.5, ..aim.clone() }.verdict(&judged(&all)).unwrap();
        assert!(missed.ends_with("MISSED"), "{missed}");
        assert_eq!(aim.verdict(&judged(&samples("own", &[1.0; 6]))), None);
        let few = [samples("fast", &[2.0; 2]), samples("own", &[1.0; 2])].concat();
        let verdict = aim.verdict(&judged(&few)).unwrap();
        assert!(verdict.ends_with("2.000 (in 2 rounds, too few to be sure), reached"), "{verdict}");
    }
}
