//! Marks of a grid, and their meanings.

use super::view::{Cell, Cells};

pub(super) const REFUSED_BY_KERNEL: &str = "–";

/// The mark in a cell of a grid.
pub(super) fn mark(cell: &Cell<'_>) -> String {
    match (cell.works(), cell.speed(), cell.word()) {
        (true, Some(speed), _) => figure(speed),
        (true, None, _) => "✓".to_owned(),
        (false, _, "refused") => "·".to_owned(),
        (false, _, "absent") => String::new(),
        (false, _, "wrong" | "hangs") => "!".to_owned(),
        (false, ..) => REFUSED_BY_KERNEL.to_owned(),
    }
}

/// The meanings of the marks and of the columns' names.
pub(super) fn legend(cells: &Cells<'_>) -> String {
    if cells.cells.is_empty() {
        return String::new();
    }
    let mut entries = vec![
        "✓ works, bytes verified (into zero and null: counted)",
        "– the kernel refuses, as below each grid (--json has the errno of each cell)",
        "· a rule of gush itself refuses",
        "! the wrong bytes arrived, or it did not end",
    ];
    if cells.cells.values().any(|cell| cell.speed().is_some()) {
        entries.push("a figure: works, GiB/s");
        entries.push("✓ then: too few bytes, or UDP, which loses them at speed");
    }
    let columns = cells.kinds.iter().filter(|kind| kind.short() != kind.name());
    let columns = columns.map(|kind| format!("{} {kind}", kind.short()));
    format!("Legend\n{}{}", wrapped(entries.into_iter().map(str::to_owned)), wrapped(columns))
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
