//! Five ways on four pairs, as an experiment of 2007 printed them (Linux 2.6.23), with its marks.

use super::view::{self, Cells};
use super::{Kind, Method};
use crate::report::page::{Cell, Table};
use gush_text::table::{self, Column, numbers, words};

/// A method, and the success in 2007 on each pair of [`PAIRS`]. Between files and sockets `splice`
/// goes through a pipe, and `vmsplice` gives the pages away.
const ROWS: &[(&str, [bool; 4])] = &[
    ("read-write", [true, true, true, true]),
    ("sendfile", [false, true, false, false]),
    ("splice-direct", [false, false, false, false]),
    ("splice", [true, true, false, false]),
    ("vmsplice", [true, true, true, true]),
];

/// Source and target: is the side a socket?
const PAIRS: &[(&str, bool, bool)] = &[
    ("file→file", false, false),
    ("file→socket", false, true),
    ("socket→file", true, false),
    ("socket→socket", true, true),
];

/// The kinds that can be its file, the likeliest first.
const FILES: &[Kind] =
    &[Kind::File, Kind::Ext4, Kind::Xfs, Kind::Btrfs, Kind::Overlay, Kind::Tmpfs];

/// The kind that is the file here.
pub(super) fn file_among(has: impl Fn(Kind) -> bool) -> Option<Kind> {
    FILES.iter().copied().find(|&kind| has(kind))
}

pub(super) fn file_of(cells: &Cells<'_>) -> Option<Kind> {
    file_among(|kind| cells.kinds.contains(&kind))
}

/// Is this a cell of the table, where files are of this kind?
pub(super) fn has(method: Method, source: Kind, target: Kind, file: Kind) -> bool {
    let is_end = |kind| kind == file || kind == Kind::Tcp;
    ROWS.iter().any(|(name, _)| *name == method.name()) && is_end(source) && is_end(target)
}

/// A method with the success in 2007 and the cell on each pair of [`PAIRS`].
type MethodRow<'c, 'a> = (&'static str, Vec<(bool, Option<&'c view::Cell<'a>>)>);

/// The rows of methods that were tried.
fn rows<'c, 'a>(cells: &'c Cells<'a>, file: Kind) -> Vec<MethodRow<'c, 'a>> {
    let end = |is_socket: bool| if is_socket { Kind::Tcp } else { file };
    let row = |&(method, then): &(&'static str, [bool; 4])| -> MethodRow<'c, 'a> {
        let cell = |&(_, from, to): &(&str, bool, bool)| cells.get(method, end(from), end(to));
        (method, then.into_iter().zip(PAIRS.iter().map(cell)).collect())
    };
    let is_tried = |(_, cells): &MethodRow<'c, 'a>| cells.iter().any(|(_, cell)| cell.is_some());
    ROWS.iter().map(row).filter(is_tried).collect()
}

/// The tables of what works and of what it costs, each with a note, as far as cells of them were
/// tried.
pub(super) fn tables(cells: &Cells<'_>) -> Vec<(Table, &'static str)> {
    let Some(file) = file_of(cells) else { return Vec::new() };
    let rows = rows(cells, file);
    let tables = [works(&rows, file), costs(&rows)];
    tables.into_iter().filter(|(table, _)| !table.rows.is_empty()).collect()
}

fn works(rows: &[MethodRow<'_, '_>], file: Kind) -> (Table, &'static str) {
    let row = |(method, cells): &MethodRow<'_, '_>| {
        let marks = cells.iter().map(|(then, now)| {
            let now = now.map_or(" ".to_owned(), |cell| match cell.works() {
                true => mark(true).to_owned(),
                false => format!("{} {}", mark(false), cell.word()),
            });
            format!("{} {now}", mark(*then))
        });
        [(*method).to_owned()].into_iter().chain(marks).map(Cell::from).collect()
    };
    let caption = format!(
        "Five ways, four pairs: files on {file}, sockets TCP. First Linux 2.6.23 (2007), then this kernel"
    );
    let columns = [words("way")].into_iter().chain(PAIRS.iter().map(|(name, ..)| words(*name)));
    let columns: Vec<Column> = columns.collect();
    let table = Table { rows: rows.iter().map(row).collect(), ..Table::new(caption, &columns) };
    (table, "✓ works, bytes verified   – does not (in 2007: EINVAL)")
}

/// Elapsed seconds, those of the moving thread, and its share of a processor, pair by pair.
fn costs(rows: &[MethodRow<'_, '_>]) -> (Table, &'static str) {
    let of_pair = |(place, &(pair, ..)): (usize, &(&'static str, bool, bool))| -> Vec<_> {
        let of_method = |(method, cells): &MethodRow<'_, '_>| {
            let cell = cells[place].1?;
            let wall_s = cell.median(|one| one.wall_s)?;
            let (user_s, system_s) =
                (cell.median(|one| one.user_s)?, cell.median(|one| one.system_s)?);
            let share = 100.0 * (user_s + system_s) / wall_s.max(1e-9);
            let seconds = [wall_s, user_s, system_s].map(|seconds| format!("{seconds:.3}"));
            let rest = [format!("{share:.0} %"), format!("{:.2}", cell.speed()?)];
            let names = [pair, method].map(str::to_owned);
            Some(names.into_iter().chain(seconds).chain(rest).map(Cell::from).collect())
        };
        rows.iter().filter_map(of_method).collect()
    };
    let columns = ["pair", "way"].map(words).into_iter();
    let columns = columns.chain(["elapsed s", "user s", "system s", "CPU", "GiB/s"].map(numbers));
    let columns: Vec<Column> = columns.collect();
    let rows = PAIRS.iter().enumerate().flat_map(of_pair).collect();
    let table = Table { rows, ..Table::new("The five ways in time", &columns) };
    (
        table,
        "user and system: of the moving thread alone; feeding and draining the sockets is not in it",
    )
}

/// The tables as text; nothing where no cell of them was tried.
pub(super) fn text(cells: &Cells<'_>) -> String {
    let text = |(Table { caption, columns, rows, .. }, note): (Table, &str)| {
        let row = |row: Vec<Cell>| row.into_iter().map(|cell| cell.text).collect();
        let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
        let lines = table::lines(&columns, &rows).into_iter().chain([note.to_owned()]);
        let lines: String = lines.map(|line| format!("  {line}\n")).collect();
        format!("{caption}\n\n{lines}")
    };
    tables(cells).into_iter().map(text).collect::<Vec<_>>().join("\n")
}

fn mark(works: bool) -> &'static str {
    if works { "✓" } else { "–" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_table_exists() {
        for (name, _) in ROWS {
            assert!(name.parse::<Method>().is_ok(), "{name}");
        }
    }

    #[test]
    fn it_has_twenty_cells() {
        let count = Method::all()
            .into_iter()
            .flat_map(|method| {
                Kind::ALL.iter().flat_map(move |&from| {
                    Kind::ALL.iter().filter(move |&&to| has(method, from, to, Kind::Ext4))
                })
            })
            .count();
        assert_eq!(count, 20);
    }
}
