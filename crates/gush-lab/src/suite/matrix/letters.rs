//! Marks of a grid: a letter an errno, a figure a speed, and the meanings of the marks.

use super::view::{Cell, Cells};

/// A letter for each errno.
const LETTERS: &[(&str, &str)] = &[
    ("EINVAL", "I"),
    ("EXDEV", "X"),
    ("EOPNOTSUPP", "O"),
    ("EBADF", "B"),
    ("ENOSPC", "S"),
    ("EPERM", "P"),
    ("EACCES", "A"),
    ("ENOSYS", "N"),
    ("EMSGSIZE", "M"),
    ("ESPIPE", "K"),
    ("ENODEV", "V"),
    ("ENOTTY", "T"),
    ("EIO", "E"),
    ("EFAULT", "F"),
    ("refused", "·"),
    ("false-end", "0"),
    ("wrong", "W!"),
    ("hangs", "H!"),
    ("absent", "-"),
];

/// The letters that a run has used.
#[derive(Default)]
pub(super) struct Letters {
    used: Vec<(String, String)>,
}

impl Letters {
    /// The mark in a cell of a grid.
    pub(super) fn mark(&mut self, cell: &Cell<'_>) -> String {
        let facts = cell.facts();
        if facts.works() {
            return cell.speed().map(figure).unwrap_or_else(|| "✓".to_owned());
        }
        self.letter(facts.word())
    }

    fn letter(&mut self, word: &str) -> String {
        if let Some((_, letter)) = self.used.iter().find(|(used, _)| used == word) {
            return letter.clone();
        }
        let known = LETTERS.iter().find(|(name, _)| *name == word).map(|(_, letter)| *letter);
        let letter = match known {
            Some(letter) => letter.to_owned(),
            // Those without a letter of their own are numbered.
            None => {
                let strange =
                    self.used.iter().filter(|(_, letter)| letter.starts_with('e')).count();
                format!("e{}", strange + 1)
            }
        };
        self.used.push((word.to_owned(), letter.clone()));
        letter
    }

    /// The meanings of the marks and of the columns' names.
    pub(super) fn legend(&self, cells: &Cells<'_>) -> String {
        if cells.cells.is_empty() {
            return String::new();
        }
        let timed = cells.cells.values().any(|cell| cell.speed().is_some());
        let mut entries = vec!["✓ works, bytes verified (into zero and null: counted)".to_owned()];
        if timed {
            entries.push("a figure: works, GiB/s".to_owned());
            entries.push("✓ then: too few bytes, or UDP, which loses them at speed".to_owned());
        }
        entries.extend(self.used.iter().map(|(word, letter)| match word.as_str() {
            "refused" => "· a rule of gush's own says no".to_owned(),
            "false-end" => "0 answers 0 although there are bytes".to_owned(),
            "absent" => "- cannot be had here".to_owned(),
            "wrong" => "W! the wrong bytes arrived".to_owned(),
            word => format!("{letter} {word}"),
        }));
        let columns = cells.kinds.iter().filter(|kind| kind.short() != kind.name());
        let columns = columns.map(|kind| format!("{} {kind}", kind.short()));
        format!("Legend\n{}{}", wrapped(entries), wrapped(columns))
    }
}

/// In lines of less than 100 columns.
fn wrapped(entries: impl IntoIterator<Item = String>) -> String {
    let mut lines = vec![String::new()];
    for entry in entries {
        let last = lines.last_mut().expect("never empty");
        if last.is_empty() || last.chars().count() + entry.chars().count() > 92 {
            lines.push(format!("  {entry}"));
        } else {
            *last += &format!("   {entry}");
        }
    }
    lines[1..].iter().map(|line| format!("{line}\n")).collect()
}

/// A speed in three characters.
fn figure(gib_per_s: f64) -> String {
    match gib_per_s {
        speed if speed >= 9.95 => format!("{speed:.0}"),
        speed if speed >= 0.995 => format!("{speed:.1}"),
        // .42 for 0.42: a cell is three letters wide.
        speed => format!("{speed:.2}").trim_start_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_fit_three_characters() {
        for (speed, shown) in [
            (123.4, "123"),
            (10.0, "10"),
            (9.96, "10"),
            (4.12, "4.1"),
            (0.996, "1.0"),
            (0.5, ".50"),
            (0.001, ".00"),
        ] {
            assert_eq!(figure(speed), shown);
        }
    }
}
