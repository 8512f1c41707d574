//! The output of `gush tune`: a line for each question once answered, then the conclusions.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use gush_lab::stats::Verdict;
use gush_lab::tune::{Answer, Checked, Comparison, Findings};
use gush_text::quote;
use serde_json::{Value, json};

use super::super::screen;
use crate::talk::Talker;

/// The width of most questions: `file on ext4 to file on tmpfs, 256 MiB`, and a little more.
const WIDTH: usize = 40;

/// Standard output for the account, standard error for progress.
pub struct Screen {
    screen: screen::Screen,
    json: bool,
}

impl Screen {
    pub fn new(talker: &Talker, json: bool) -> Self {
        let mut screen = screen::Screen::new(talker.clone(), 0);
        if json {
            screen.tables_to_stderr();
        }
        Self { screen, json }
    }

    /// Shows one answered question.
    pub fn answer(&mut self, answer: &Answer) {
        let question = &answer.question;
        let what = match (answer.change(), &answer.best, &answer.skipped) {
            (Some((setting, compared)), ..) => {
                let only = match answer.narrowed {
                    true => format!(" (only {})", answer.class()),
                    false => String::new(),
                };
                format!("{} -> {setting}{only}: {}", answer.table, figures(&compared))
            }
            (None, _, Some(why)) => format!("{} stays: {why}", answer.table),
            (None, Some((setting, compared)), None) => {
                format!("{} stays; next {setting}: {}", answer.table, figures(compared))
            }
            (None, None, None) => format!("{} stays", answer.table),
        };
        self.account(&format!("{question:WIDTH$} {what}"));
    }

    /// Shows the conclusions from all answers.
    pub fn findings(&mut self, findings: &Findings, profile: &str, written: Option<&Path>) {
        let changes = findings.answers.iter().filter(|answer| answer.change().is_some()).count();
        if self.json {
            let answers: Vec<Value> = findings.answers.iter().map(answer_record).collect();
            let record = json!({
                "made": findings.made,
                "answers": answers,
                "messages": findings.messages,
                "small_message_bytes": findings.small_message_bytes(),
                "changes": changes,
                "profile": profile,
                "written": written.map(Path::to_string_lossy),
            });
            return self.print(&record.to_string());
        }
        if let Some(bytes) = findings.small_message_bytes() {
            self.print(&format!(
                "messages between sockets up to {bytes} bytes are no slower when copied"
            ));
        }
        let rules = match changes {
            0 if findings.had_no_time() => {
                "no rule: there was too little time to answer any question (more --seconds)"
                    .to_owned()
            }
            0 => "no rule: nothing is surely faster here than the table".to_owned(),
            1 => "1 rule".to_owned(),
            _ => format!("{changes} rules"),
        };
        match written {
            Some(path) => self.print(&format!("wrote {}: {rules}", quote::if_needed(path))),
            None => self.print(&format!("{rules}; not written:\n\n{}", profile.trim_end())),
        }
    }

    /// Shows one compared choice.
    pub fn checked(&mut self, checked: &Checked) {
        let Checked { question, without, with, comparison } = checked;
        let what = match (with, comparison) {
            (None, _) => "the profile changes nothing".to_owned(),
            (Some(rule), None) => format!("{without} -> {rule}: no time was left"),
            (Some(rule), Some(compared)) => {
                format!("{without} -> {rule}: {}: {}", figures(compared), compared.verdict)
            }
        };
        self.account(&format!("{question:WIDTH$} {what}"));
    }

    /// Shows the totals of all compared choices.
    pub fn check(&mut self, checked: &[Checked]) {
        let verdicts = |wanted| {
            let verdict =
                |checked: &&Checked| checked.comparison.map(|compared| compared.verdict) == wanted;
            checked.iter().filter(|checked| checked.with.is_some()).filter(verdict).count()
        };
        let [faster, slower, unclear] =
            [Verdict::Faster, Verdict::Slower, Verdict::CannotTell].map(Some).map(verdicts);
        let (unmeasured, all) = (verdicts(None), checked.len());
        if self.json {
            let choices: Vec<Value> = checked.iter().map(checked_record).collect();
            let record = json!({
                "choices": choices,
                "faster": faster,
                "slower": slower,
                "cannot_tell": unclear,
                "not_measured": unmeasured,
            });
            return self.print(&record.to_string());
        }
        let changed = faster + slower + unclear + unmeasured;
        self.print(&format!(
            "of {all} choices the profile changes {changed}: {faster} faster, {slower} slower, {unclear} \
             cannot be told apart, {unmeasured} not measured"
        ));
    }

    /// A line of the account: on standard output, or on a terminal's standard error if standard output is for
    /// JSON.
    fn account(&mut self, line: &str) {
        if !self.json || io::stderr().is_terminal() {
            self.screen.show(line);
        }
    }

    fn print(&mut self, line: &str) {
        self.screen.print(line);
    }

    /// `otherwise`, unless standard output failed.
    pub fn status(self, otherwise: ExitCode) -> ExitCode {
        self.screen.ended().err().unwrap_or(otherwise)
    }
}

fn figures(compared: &Comparison) -> String {
    let Comparison {
        before_gib_per_s: before,
        after_gib_per_s: after,
        ratio,
        processor,
        rounds,
        ..
    } = compared;
    let work = processor.map_or_else(String::new, |processor| {
        format!(", {:.2} of the processor time", processor.value.recip())
    });
    format!(
        "{before:.2} -> {after:.2} GiB/s, {:.2} times [{}]{work}, {rounds} rounds",
        ratio.value,
        ratio.around(2)
    )
}

fn answer_record(answer: &Answer) -> Value {
    let mut record = json!({
        "question": answer.question,
        "source": answer.source,
        "target": answer.target,
        "bytes": answer.bytes,
        "at_least_bytes": answer.at_least_bytes,
        "below_bytes": answer.below_bytes,
        "table": answer.table,
        "narrowed": answer.narrowed,
        "best": null,
        "changed": answer.change().is_some(),
        "skipped": answer.skipped,
    });
    if let Some((setting, compared)) = &answer.best {
        record["best"] = json!({
            "method": setting.method.as_str(),
            "buffer_bytes": setting.buffer_bytes,
            "pipe_bytes": setting.pipe_bytes,
            "threads": setting.threads,
            "spin_us": setting.spin_us,
            "comparison": comparison_record(compared),
        });
    }
    record
}

fn checked_record(checked: &Checked) -> Value {
    json!({
        "question": checked.question,
        "without": checked.without,
        "with": checked.with,
        "comparison": checked.comparison.as_ref().map(comparison_record),
    })
}

fn comparison_record(compared: &Comparison) -> Value {
    json!({
        "before_gib_per_s": compared.before_gib_per_s,
        "after_gib_per_s": compared.after_gib_per_s,
        "ratio": compared.ratio.value,
        "low": compared.ratio.interval.map(|around| around.low),
        "high": compared.ratio.interval.map(|around| around.high),
        "processor_ratio": compared.processor.map(|processor| processor.value),
        "rounds": compared.rounds,
        "verdict": compared.verdict,
    })
}
