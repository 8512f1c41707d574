//! Five ways on four pairs, as an experiment of 2007 printed them (Linux 2.6.23), with that experiment's marks beside.

use super::view::{Cell, Cells};
use super::{Kind, Way};
use gush_text::table::{self, Column, numbers, words};

/// A way, and the success in 2007 on each pair of [`PAIRS`]. Between files and sockets `splice` goes
/// through a pipe, and `vmsplice` gives the pages away.
pub(super) const ROWS: &[(&str, [bool; 4])] = &[
    ("read-write", [true, true, true, true]),
    ("sendfile", [false, true, false, false]),
    ("splice-direct", [false, false, false, false]),
    ("splice", [true, true, false, false]),
    ("vmsplice", [true, true, true, true]),
];

/// Source and target: is the side a socket?
pub(super) const PAIRS: &[(&str, bool, bool)] = &[
    ("file→file", false, false),
    ("file→socket", false, true),
    ("socket→file", true, false),
    ("socket→socket", true, true),
];

/// The kinds that can stand for its file, the likeliest first.
const FILES: &[Kind] =
    &[Kind::File, Kind::Ext4, Kind::Xfs, Kind::Btrfs, Kind::Overlay, Kind::Tmpfs];

/// The kind that is the file here.
pub(super) fn file_among(has: impl Fn(Kind) -> bool) -> Option<Kind> {
    FILES.iter().copied().find(|&kind| has(kind))
}

/// The kind that is the file in `cells`.
pub(super) fn file_of(cells: &Cells<'_>) -> Option<Kind> {
    file_among(|kind| cells.kinds.contains(&kind))
}

/// Is this a cell of the table, where files are of this kind?
pub(super) fn has(way: Way, source: Kind, target: Kind, file: Kind) -> bool {
    let is_end = |kind| kind == file || kind == Kind::Tcp;
    ROWS.iter().any(|(name, _)| *name == way.name()) && is_end(source) && is_end(target)
}

/// A way with the success in 2007 and the cell on each pair of [`PAIRS`].
pub(super) type Row<'c, 'a> = (&'static str, Vec<(bool, Option<&'c Cell<'a>>)>);

/// The rows of ways that were tried.
pub(super) fn rows<'c, 'a>(cells: &'c Cells<'a>, file: Kind) -> Vec<Row<'c, 'a>> {
    let end = |is_socket: bool| if is_socket { Kind::Tcp } else { file };
    let row = |&(way, then): &(&'static str, [bool; 4])| -> Row<'c, 'a> {
        let cell = |&(_, from, to): &(&str, bool, bool)| cells.get(way, end(from), end(to));
        (way, then.into_iter().zip(PAIRS.iter().map(cell)).collect())
    };
    let is_tried = |(_, cells): &Row<'c, 'a>| cells.iter().any(|(_, cell)| cell.is_some());
    ROWS.iter().map(row).filter(is_tried).collect()
}

/// The costs of a way on a pair.
pub(super) struct Timed {
    pub(super) pair: &'static str,
    pub(super) way: &'static str,
    /// Elapsed seconds, and those of the moving thread in user space and in the kernel.
    pub(super) seconds: [f64; 3],
    /// The processor's share of the elapsed time, in percent.
    pub(super) share: f64,
    pub(super) gib_per_s: f64,
}

/// The costs of each way that was timed, pair by pair.
pub(super) fn timed(rows: &[Row<'_, '_>]) -> Vec<Timed> {
    let of_pair = |(place, &(pair, ..)): (usize, &(&'static str, bool, bool))| -> Vec<Timed> {
        let of_way = |(way, cells): &Row<'_, '_>| {
            let cell = cells[place].1?;
            let wall_s = cell.median(|one| one.wall_s)?;
            let (user_s, system_s) =
                (cell.median(|one| one.user_s)?, cell.median(|one| one.system_s)?);
            let share = 100.0 * (user_s + system_s) / wall_s.max(1e-9);
            let seconds = [wall_s, user_s, system_s];
            Some(Timed { pair, way, seconds, share, gib_per_s: cell.speed()? })
        };
        rows.iter().filter_map(of_way).collect()
    };
    PAIRS.iter().enumerate().flat_map(of_pair).collect()
}

/// The table as text; nothing where no cell of it was tried.
pub(super) fn table(cells: &Cells<'_>) -> String {
    let Some((file, rows)) = file_of(cells).map(|file| (file, rows(cells, file))) else {
        return String::new();
    };
    if rows.is_empty() {
        return String::new();
    }
    let columns: Vec<Column> =
        [words("")].into_iter().chain(PAIRS.iter().map(|(name, ..)| words(*name))).collect();
    let row = |(way, cells): &Row<'_, '_>| {
        let marks = cells.iter().map(|(then, now)| {
            let now = now.map_or(" ".to_owned(), |cell| match cell.told() {
                told if told.works() => mark(true).to_owned(),
                told => format!("{} {}", mark(false), told.word()),
            });
            format!("{} {now}", mark(*then))
        });
        [(*way).to_owned()].into_iter().chain(marks).collect()
    };
    let text = format!(
        "Five ways, four pairs: files on {file}, sockets TCP. First Linux 2.6.23 (2007), then this kernel\n\n{}",
        indented(&columns, &rows.iter().map(row).collect::<Vec<_>>())
    );
    text + "\n  ✓ works, bytes verified   – does not (in 2007: EINVAL)\n" + &times(&rows)
}

fn mark(works: bool) -> &'static str {
    if works { "✓" } else { "–" }
}

/// The cost of each way, if measured.
fn times(rows: &[Row<'_, '_>]) -> String {
    let timed = timed(rows);
    if timed.is_empty() {
        return String::new();
    }
    let row = |Timed { pair, way, seconds, share, gib_per_s }: &Timed| {
        let seconds = seconds.map(|seconds| format!("{seconds:.3}"));
        let words = [pair, way].map(|word| (*word).to_owned());
        let rest = [format!("{share:.0}%"), format!("{gib_per_s:.2}")];
        words.into_iter().chain(seconds).chain(rest).collect()
    };
    let columns: Vec<Column> = (["pair", "way"].map(words).into_iter())
        .chain(["elapsed s", "user s", "system s", "CPU", "GiB/s"].map(numbers))
        .collect();
    format!(
        "\n{}\n  user and system: of the moving thread alone; feeding and draining the sockets is not in it\n",
        indented(&columns, &timed.iter().map(row).collect::<Vec<_>>())
    )
}

fn indented(columns: &[Column], rows: &[Vec<String>]) -> String {
    table::lines(columns, rows).into_iter().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_the_table_exists() {
        for (name, _) in ROWS {
            assert!(name.parse::<Way>().is_ok(), "{name}");
        }
    }

    #[test]
    fn it_has_twenty_cells() {
        let count = Way::all()
            .into_iter()
            .flat_map(|way| {
                Kind::ALL.iter().flat_map(move |&from| {
                    Kind::ALL.iter().filter(move |&&to| has(way, from, to, Kind::Ext4))
                })
            })
            .count();
        assert_eq!(count, 20);
    }
}
