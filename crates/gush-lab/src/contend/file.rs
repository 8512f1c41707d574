//! Case files: comparisons written down as TOML, to be run again.
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
//! beside = ["GNU"]                    # the fastest of these that was measured
//! times = 1.5                         # at least so many times as fast
//! ```
//!
//! A comparison whose commands print figures of their own, as the last line of JSON on standard output, names them; the first is
//! compared instead of the time, and an aim may name another:
//!
//! ```toml
//! [[comparison.figure]]
//! name = "median_us"                  # {"median_us": 41.5}
//! unit = "µs"
//! less_is_better = true
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Comparison, Entry, Ignored, Input, Output, Parameter, Shell, Standing};
use crate::Error;
use crate::model::Printed;
use crate::stats;

/// The content of a case file.
#[derive(Debug)]
pub struct CaseFile {
    /// The comparisons, in order.
    pub blocks: Vec<Block>,
}

/// One comparison of a case file.
#[derive(Debug)]
pub struct Block {
    /// The comparison's name.
    pub name: String,
    /// The subject of the comparison, in a few words.
    pub about: String,
    /// The comparison, without the parts that only the caller knows.
    pub comparison: Comparison,
    /// The number of rounds, if the file says so.
    pub runs: Option<u32>,
    /// The aims.
    pub aims: Vec<Aim>,
}

/// How fast a contender is to be beside others.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// The contender.
    pub contender: String,
    /// The others: the fastest of them counts.
    pub beside: Vec<String>,
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
    comparison: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    about: String,
    input: Option<String>,
    bytes: Option<String>,
    dir: Option<PathBuf>,
    #[serde(default)]
    parameters: BTreeMap<String, Vec<String>>,
    setup: Option<String>,
    prepare: Option<String>,
    conclude: Option<String>,
    cleanup: Option<String>,
    shell: Option<String>,
    warmup: Option<u32>,
    runs: Option<u32>,
    repeat: Option<u32>,
    #[serde(default)]
    stdin: bool,
    #[serde(default)]
    keep_out: bool,
    #[serde(default)]
    no_compare: bool,
    #[serde(default)]
    ignore_failure: bool,
    output: Option<String>,
    expect: Option<String>,
    contender: Vec<Entry>,
    #[serde(default)]
    aim: Vec<Aim>,
    #[serde(default)]
    figure: Vec<WrittenFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFigure {
    name: String,
    unit: String,
    #[serde(default)]
    less_is_better: bool,
}

impl CaseFile {
    /// Reads the text of a case file called `stem`; `size_of` reads sizes as the user writes them.
    ///
    /// # Errors
    /// [`Error::Refused`] with the place of the text that cannot be understood.
    ///
    /// ```
    /// use gush_lab::contend::{CaseFile, Input};
    /// let text = "[[comparison]]\nname = 'one'\ninput = '7'\n[[comparison.contender]]\ncommand = 'cp {in} {out}'\n";
    /// let size_of = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    /// let file = CaseFile::read("copies", text, &size_of)?;
    /// assert_eq!(file.blocks[0].comparison.suite, "copies/one");
    /// assert_eq!(file.blocks[0].comparison.input, Some(Input::Bytes(7)));
    /// # Ok::<(), gush_lab::Error>(())
    /// ```
    pub fn read(
        stem: &str,
        text: &str,
        size_of: &dyn Fn(&str) -> Result<u64, String>,
    ) -> Result<Self, Error> {
        let Document { variables, comparison } = toml::from_str(text)
            .map_err(|error| Error::refused(format!("cannot be understood: {error}")))?;
        let block = |written| Block::of(stem, written, &variables, size_of);
        let blocks = comparison.into_iter().map(block).collect::<Result<Vec<Block>, Error>>()?;
        for (place, block) in blocks.iter().enumerate() {
            if blocks[..place].iter().any(|other| other.name == block.name) {
                return Err(Error::refused(format!("two comparisons are called {}", block.name)));
            }
        }
        Ok(Self { blocks })
    }
}

impl Block {
    fn of(
        stem: &str,
        written: Written,
        variables: &BTreeMap<String, String>,
        size_of: &dyn Fn(&str) -> Result<u64, String>,
    ) -> Result<Self, Error> {
        let Written { name, about, runs, .. } = written;
        let wrong = |why: String| Error::refused(format!("comparison {name}: {why}"));
        let size = |text: String| size_of(&text).map_err(wrong);
        let parameters = written
            .parameters
            .into_iter()
            .map(|(own, values)| Parameter::of(&own, values))
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(error.told()))?;
        let entries = written.contender;
        for aim in &written.aim {
            let is_there =
                |label: &&String| entries.iter().any(|entry| entry.name.as_ref() == Some(*label));
            if let Some(nobody) =
                [&aim.contender].into_iter().chain(&aim.beside).find(|label| !is_there(label))
            {
                return Err(wrong(format!("an aim names '{nobody}', and no contender does")));
            }
            let is_printed = |name: &&String| written.figure.iter().any(|one| one.name == **name);
            if let Some(name) = aim.figure.as_ref().filter(|name| !is_printed(name)) {
                return Err(wrong(format!("an aim names the figure '{name}', which is none")));
            }
        }
        let usual = Comparison::default();
        let shell = written.shell.as_deref().map_or(Ok(Shell::Auto), Shell::read);
        let shell = shell.map_err(|error| wrong(error.told()))?;
        let output = written.output.as_deref().map_or(Ok(Output::Null), Output::read);
        let output = output.map_err(|error| wrong(error.told()))?;
        let comparison = Comparison {
            suite: format!("{stem}/{name}"),
            entries,
            parameters,
            variables: variables.clone(),
            dir: written.dir.unwrap_or_default(),
            // A text that is no size is a path.
            input: written
                .input
                .map(|text| size_of(&text).map_or_else(|_| Input::Path(text.into()), Input::Bytes)),
            bytes: written.bytes.map(size).transpose()?,
            setup: written.setup,
            prepare: written.prepare,
            conclude: written.conclude,
            cleanup: written.cleanup,
            shell,
            warmups: written.warmup.unwrap_or(usual.warmups),
            repeat: written.repeat.unwrap_or(usual.repeat),
            ignored: if written.ignore_failure { Ignored::All } else { Ignored::None },
            output,
            is_input_piped: written.stdin,
            keeps_output: written.keep_out,
            ignores_output: written.no_compare,
            expected: written.expect,
            figures: written.figure.into_iter().map(Printed::from).collect(),
            ..usual
        };
        Ok(Self { name, about, comparison, runs, aims: written.aim })
    }
}

impl From<WrittenFigure> for Printed {
    fn from(WrittenFigure { name, unit, less_is_better }: WrittenFigure) -> Self {
        Self { name, unit, less_is_better }
    }
}

impl Aim {
    /// Whether the standings reach the aim, as a sentence; `None` where one side was not measured.
    #[must_use]
    pub fn told(&self, standings: &[Standing]) -> Option<String> {
        let name = self.figure.as_deref();
        let measured =
            |label: &str| standings.iter().find(|one| one.label == label && one.failure.is_none());
        let own = measured(&self.contender)?;
        let rivals = self.beside.iter().filter_map(|label| measured(label));
        let costs = rivals.filter_map(|one| Some((one, one.figure(name)?.cost(|_| true))));
        let (rival, _) = costs.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let mine = own.figure(name)?;
        let pairs = mine.pairs(rival.figure(name)?, |_| true);
        let times = stats::paired_ratio(&pairs)?;
        let sure = match times.interval {
            None => format!("in {} round(s), too few to be sure", pairs.len()),
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
    use super::super::standing::tests::{judged, samples};
    use super::*;

    fn read(text: &str) -> Result<CaseFile, Error> {
        CaseFile::read("file", text, &|text| {
            text.parse().map_err(|_| format!("'{text}' is no size"))
        })
    }

    fn refusal(text: &str) -> String {
        read(text).map(drop).unwrap_err().told()
    }

    const ONE: &str = "[[comparison]]\nname = 'one'\ninput = '7'\n";

    #[test]
    fn what_cannot_be_understood_is_told_with_its_place() {
        assert!(refusal("[[comparison]]\nnaem = 'x'").contains("naem"));
        let entry = "[[comparison.contender]]\ncommand = 'true'\nname = 'a'\n";
        let twice = format!("{ONE}{entry}{ONE}{entry}");
        assert_eq!(refusal(&twice), "two comparisons are called one");
        let aim = "[[comparison.aim]]\ncontender = 'a'\nbeside = ['b']\ntimes = 2\n";
        assert!(refusal(&format!("{ONE}{entry}{aim}")).contains("an aim names 'b'"));
        assert!(refusal(&format!("{ONE}bytes = 'many'\n{entry}")).contains("'many' is no size"));
    }

    #[test]
    fn an_input_that_is_no_size_is_a_path() {
        let text = "[[comparison]]\nname = 'one'\ninput = './x'\n[[comparison.contender]]\ncommand = 'cat {in}'";
        let block = read(text).unwrap().blocks.remove(0);
        assert_eq!(block.comparison.input, Some(Input::Path("./x".into())));
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
            let Comparison { entries, output: of_all, .. } =
                read(&own(text)).unwrap().blocks.remove(0).comparison;
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
            beside: vec!["slow".into(), "fast".into(), "gone".into()],
            times: 1.5,
            figure: None,
        };
        let all =
            [samples("slow", &[4.0; 6]), samples("fast", &[2.0; 6]), samples("own", &[1.0; 6])]
                .concat();
        let told = aim.told(&judged(&all)).unwrap();
        assert!(told.contains("as fast as fast: 2.000 (") && told.ends_with("reached"), "{told}");
        let missed = Aim { times: 2.5, ..aim.clone() }.told(&judged(&all)).unwrap();
        assert!(missed.ends_with("MISSED"), "{missed}");
        assert_eq!(aim.told(&judged(&samples("own", &[1.0; 6]))), None);
        let few = [samples("fast", &[2.0; 2]), samples("own", &[1.0; 2])].concat();
        let told = aim.told(&judged(&few)).unwrap();
        assert!(told.ends_with("2.000 (in 2 round(s), too few to be sure), reached"), "{told}");
    }
}
