//! A look as lines of text: a line for each stage and each pipe, and the verdict.

use std::time::Duration;

use gush_text::{start_of, without_controls, wrapped};

use super::super::figures::{Unit, clock};
use super::look::{EdgeLook, FileLook, Look, StageLook};

const BAR_COLUMNS: usize = 20;
/// The bar of a terminal that has not all figures.
const SHORT_BAR_COLUMNS: usize = 8;
/// The figures of a stage, with their columns.
const FIGURES: [(&str, usize); 4] = [("CPU", 5), ("IN/s", 7), ("OUT/s", 7), ("TOTAL", 7)];
/// The places of the figures that a narrow terminal leaves out, the first one first.
const LEFT_OUT: [usize; 3] = [3, 1, 0];
/// PID, STATE with the blanks around it, and as much of COMMAND as says which it is.
const OTHER_COLUMNS: usize = 8 + 2 + 14 + 1 + 8;

/// The lines of a terminal with this many columns.
pub fn lines(look: &Look, unit: Unit, columns: usize) -> Vec<String> {
    let kept = kept(columns);
    let bar_columns = if kept == [true; 4] { BAR_COLUMNS } else { SHORT_BAR_COLUMNS };
    let mut lines =
        vec![row("PID", FIGURES.map(|(name, _)| name.to_owned()), kept, "STATE", "COMMAND")];
    for (place, stage) in look.stages.iter().enumerate() {
        let is_found = look.verdict.pid == Some(stage.pid);
        lines.push(stage_line(stage, unit, kept, is_found));
        lines.extend(stage.file.as_ref().map(|file| file_line(file, unit)));
        let next = look.stages.get(place + 1).map(|next| next.pid);
        let own = look.edges.iter().filter(|edge| match edge.writers.last() {
            Some(writer) => *writer == stage.pid,
            None => edge.readers.first() == Some(&stage.pid),
        });
        lines.extend(own.map(|edge| edge_line(edge, unit, bar_columns, (stage.pid, next))));
    }
    for pid in &look.hidden {
        lines.push(format!(
            "{pid:>8} of the same group, belongs to another user: only root can inspect it"
        ));
    }
    let verdict = &look.verdict;
    let head = if verdict.certain { "holds up the others" } else { "not certain" };
    let mut sentences = vec![format!("{head}: {}", verdict.what)];
    sentences.extend(verdict.because.as_ref().map(|because| format!("because {because}")));
    sentences.extend(verdict.remedy.as_ref().map(|remedy| format!("try: {remedy}")));
    // In as many lines as it takes: a sentence's end matters as much as its beginning.
    lines.extend(sentences.iter().flat_map(|sentence| wrapped(sentence, columns)));
    let fitted = |line: &String| start_of(&without_controls(line), columns).to_owned();
    lines.iter().map(fitted).collect()
}

/// Which figures fit.
fn kept(columns: usize) -> [bool; 4] {
    let mut kept = [true; 4];
    let mut wanted = OTHER_COLUMNS + FIGURES.iter().map(|(_, width)| 1 + width).sum::<usize>();
    for place in LEFT_OUT {
        if wanted > columns {
            kept[place] = false;
            wanted -= 1 + FIGURES[place].1;
        }
    }
    kept
}

fn row(pid: &str, figures: [String; 4], kept: [bool; 4], state: &str, command: &str) -> String {
    let cells = figures.iter().zip(FIGURES).zip(kept).filter(|(_, is_kept)| *is_kept);
    let cells = cells.map(|((text, (_, width)), _)| format!(" {text:>width$}"));
    format!("{pid:>8}{}  {state:<14} {command}", cells.collect::<String>())
}

/// The PID of the stage that holds the others up, or 0, and of each pipe the percentage of its
/// capacity that is filled, or - where it is unknown.
pub fn numbers(look: &Look) -> String {
    let mut words = vec![look.verdict.pid.unwrap_or(0).to_string()];
    let filled = |edge: &EdgeLook| {
        let (bytes, capacity) = (edge.fill_bytes?, edge.capacity_bytes?);
        Some((bytes * 100 / capacity.max(1)).to_string())
    };
    words.extend(look.edges.iter().map(|edge| filled(edge).unwrap_or_else(|| "-".to_owned())));
    words.join(" ")
}

fn stage_line(stage: &StageLook, unit: Unit, kept: [bool; 4], is_found: bool) -> String {
    let mark = if is_found { ">" } else { "" };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| unit.amount(rate));
    let total = stage.bytes_out.filter(|bytes| *bytes > 0).or(stage.bytes_in);
    let state = stage
        .states
        .first()
        .map_or_else(String::new, |first| format!("{} {:.0}%", first.state, first.share * 100.0));
    let inside =
        stage.inner_pid.map_or_else(String::new, |pid| format!(" (in a container: {pid})"));
    let figures = [
        format!("{:.0}%", stage.processors * 100.0),
        rate(stage.rate_in),
        rate(stage.rate_out),
        rate(total.map(|bytes| bytes as f64)),
    ];
    let pid = format!("{mark}{}", stage.pid);
    row(&pid, figures, kept, &state, &format!("{}{inside}", stage.command))
}

fn file_line(file: &FileLook, unit: Unit) -> String {
    let size = file.size_bytes.map(|size| format!(" of {}", amount(unit, size)));
    let percent = file.percent.map(|percent| format!(", {percent:.0}%"));
    let left = file.left_seconds.map(|left| {
        format!(", ETA {}", clock(Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)))
    });
    format!(
        "{:>9}{}{}{}{} in {}",
        "",
        amount(unit, file.position),
        size.unwrap_or_default(),
        percent.unwrap_or_default(),
        left.unwrap_or_default(),
        file.path
    )
}

/// Without the blanks that align a column.
fn amount(unit: Unit, bytes: u64) -> String {
    unit.amount(bytes as f64).trim_start().replace("  ", " ")
}

/// The writers and readers are named unless they are the `rows` around the line, the lower of which
/// the last one lacks.
fn edge_line(edge: &EdgeLook, unit: Unit, bar_columns: usize, rows: (i32, Option<i32>)) -> String {
    let filled = match (edge.fill_bytes, edge.capacity_bytes) {
        (Some(bytes), Some(capacity)) => {
            let share = bytes as f64 / capacity.max(1) as f64;
            let columns = ((share * bar_columns as f64).round() as usize).min(bar_columns);
            let bar = "#".repeat(columns);
            format!("[{bar:-<bar_columns$}] {} of {}", amount(unit, bytes), amount(unit, capacity))
        }
        (Some(bytes), None) => format!("connection, {} queued", amount(unit, bytes)),
        _ => "pipe that cannot be inspected".to_owned(),
    };
    let shares = match (edge.fill_bytes, edge.full + edge.empty > 0.0) {
        (None, false) => String::new(),
        _ => format!(", full {:.0}%, empty {:.0}%", edge.full * 100.0, edge.empty * 100.0),
    };
    let pids = |pids: &[i32]| pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let writers = match &edge.writers[..] {
        [] => ", writer unseen".to_owned(),
        [writer] if *writer == rows.0 => String::new(),
        writers => format!(", from {}", pids(writers)),
    };
    let readers = match &edge.readers[..] {
        [] => ", reader unseen".to_owned(),
        _ if edge.writers.is_empty() => String::new(),
        [reader] if Some(*reader) == rows.1 => String::new(),
        readers => format!(", to {}", pids(readers)),
    };
    format!("{:>9}{filled}{shares}{writers}{readers}", "")
}

#[cfg(test)]
mod tests {
    use super::super::look::{StateLook, VerdictLook};
    use super::*;

    fn look() -> Look {
        let stage = |pid, command: &str, state, file| StageLook {
            pid,
            inner_pid: None,
            command: command.to_owned(),
            processors: 0.98,
            states: vec![StateLook { state, share: 0.75 }],
            bytes_in: Some(0),
            bytes_out: Some(2 << 20),
            rate_in: None,
            rate_out: Some(1024.0),
            file,
        };
        let file = FileLook {
            path: "/tmp/a\u{1b}[1m".to_owned(),
            position: 1 << 20,
            size_bytes: Some(4 << 20),
            percent: Some(25.0),
            left_seconds: Some(61.2),
        };
        let edge = |writer, reader, fill, capacity| EdgeLook {
            name: "pipe:[1]".to_owned(),
            writers: vec![writer],
            readers: vec![reader],
            fill_bytes: fill,
            capacity_bytes: capacity,
            full: 0.5,
            empty: 0.25,
        };
        Look {
            elapsed_seconds: 1.0,
            stages: vec![
                stage(10, "cat a", "output", Some(file)),
                stage(11, "tee", "computes", None),
                stage(12, &"x".repeat(99), "input", None),
            ],
            edges: vec![
                edge(10, 11, Some(32768), Some(65536)),
                edge(10, 12, None, None),
                EdgeLook { writers: vec![13, 11], ..edge(11, 12, Some(7), None) },
            ],
            hidden: vec![13],
            verdict: VerdictLook {
                certain: true,
                pid: Some(11),
                what: "tee (11) computes".to_owned(),
                because: Some("it does".to_owned()),
                remedy: None,
            },
        }
    }

    #[test]
    fn a_look_fits_the_terminal_and_marks_the_stage_that_holds_up_the_others() {
        let lines = lines(&look(), Unit::default(), 80);
        let expected = [
            "     PID   CPU    IN/s   OUT/s   TOTAL  STATE          COMMAND",
            "      10   98%       - 1.00KiB 2.00MiB  output 75%     cat a",
            "         1.00MiB of 4.00MiB, 25%, ETA 0:01:01 in /tmp/a",
            "         [##########----------] 32.0KiB of 64.0KiB, full 50%, empty 25%",
            "         pipe that cannot be inspected, full 50%, empty 25%, to 12",
            "     >11   98%       - 1.00KiB 2.00MiB  computes 75%   tee",
            "         connection, 7.00 B queued, full 50%, empty 25%, from 13, 11",
            "      12   98%       - 1.00KiB 2.00MiB  input 75%      xxxxx",
            "      13 of the same group, belongs to another user: only root can inspect it",
            "holds up the others: tee (11) computes",
            "because it does",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:#?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line:?} {expected:?}");
            assert!(gush_text::width(line) <= 80 && !line.contains('\u{1b}'), "{line:?}");
        }
        assert_eq!(numbers(&look()), "11 50 - -");
    }

    #[test]
    fn a_narrow_terminal_shows_states_and_commands() {
        let lines = lines(&look(), Unit::default(), 40);
        let expected = [
            "     PID   OUT/s  STATE          COMMAND",
            "      10 1.00KiB  output 75%     cat a",
            "         1.00MiB of 4.00MiB, 25%, ETA 0:",
            "         [####----] 32.0KiB of 64.0KiB, ",
        ];
        assert_eq!(lines[..4], expected);
    }

    #[test]
    fn a_narrow_terminal_shows_the_whole_verdict() {
        let mut look = look();
        look.verdict.remedy = Some("a larger -S and --parallel sort on more processors".to_owned());
        let lines = lines(&look, Unit::default(), 40);
        let verdict = &lines[lines.len() - 4..];
        let expected = [
            "holds up the others: tee (11) computes",
            "because it does",
            "try: a larger -S and --parallel sort on",
            "more processors",
        ];
        assert_eq!(verdict, expected);
    }
}
