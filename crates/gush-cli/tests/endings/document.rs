//! The table of `docs/endings.md`, made from the table of this program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::endings::{ENDINGS, LeftOut, pairs};
use crate::kinds::KINDS;
use crate::model::{Arrives, Outcome};
use crate::script::Saw;

const BEGIN: &str = "<!-- made by crates/gush-cli/tests/endings: begin -->\n";
const END: &str = "<!-- made by crates/gush-cli/tests/endings: end -->\n";

fn seen(saw: Saw) -> &'static str {
    match saw {
        Saw::Nothing => "nothing",
        Saw::End => "end",
        Saw::Cut => "end without close_notify",
        Saw::Reset => "reset",
        Saw::Terminated => "SIGTERM",
        Saw::Death => "death",
    }
}

/// The kinds of a set, in the order of their table.
fn names(found: &[&'static str]) -> String {
    let all: Vec<_> =
        KINDS.iter().map(|kind| kind.name).filter(|name| found.contains(name)).collect();
    all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

fn made() -> String {
    let mut text =
        String::from("| kind | its peer learns of an end by | of a failure by |\n|---|---|---|\n");
    for kind in &KINDS {
        let (end, failure) = (seen(kind.of_end), seen(kind.of_failure));
        let _ = writeln!(text, "| `{}` | {end} | {failure} |", kind.name);
    }
    text += "\n| what happens | to a side of kind | the other | its bytes | the other sees | the side itself sees | exit status | `ended` | cells |\n";
    text += "|---|---|---|---|---|---|---|---|---|\n";
    let mut left_out: BTreeMap<LeftOut, usize> = BTreeMap::new();
    let mut count = 0;
    for ending in &ENDINGS {
        let mut groups: BTreeMap<Outcome, (Vec<_>, Vec<_>, usize)> = BTreeMap::new();
        for (pair, rule) in pairs(ending) {
            match rule {
                Some(rule) => *left_out.entry(rule).or_default() += 1,
                None => {
                    let group = groups.entry((ending.outcome)(&pair)).or_default();
                    group.0.push(pair.ender.name);
                    group.1.push(pair.other.name);
                    group.2 += 1;
                    count += 1;
                }
            }
        }
        for (outcome, (enders, others, cells)) in groups {
            let Outcome { arrives, other_learns, ender_learns, status, ended } = outcome;
            let bytes = match arrives {
                Arrives::All => "all",
                Arrives::Prefix => "a part",
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {bytes} | {} | {} | {} | `{ended}` | {cells} |",
                ending.words,
                names(&enders),
                names(&others),
                other_learns.words(),
                ender_learns.words(),
                status.words(),
            );
        }
    }
    let out: usize = left_out.values().sum();
    let _ =
        writeln!(text, "\n{count} cells; {out} are left out, each by the first rule that holds:\n");
    for (rule, cells) in left_out {
        let _ = writeln!(text, "- {rule}: {cells}");
    }
    text
}

pub fn agrees() -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/endings.md");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the table's begin is missing")?;
    let (table, after) = rest.split_once(END).ok_or("the table's end is missing")?;
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", made())).unwrap();
        return Ok(());
    }
    match table == made() {
        true => Ok(()),
        false => Err(format!("docs/endings.md differs from:\n{}", made())),
    }
}
