//! Five ways on four pairs, as an experiment of 2007 printed them (Linux 2.6.23), with that experiment's marks beside.

use std::fmt::Write;

use super::view::Told;
use super::{Kind, Way};
use crate::model::Measured;

/// A way, and the success in 2007 on each pair of [`PAIRS`].
pub(crate) const ROWS: &[(&str, [bool; 4])] = &[
    ("read-write", [true, true, true, true]),
    ("sendfile", [false, true, false, false]),
    ("splice-direct", [false, false, false, false]),
    ("splice-pipe", [true, true, false, false]),
    ("vmsplice-gift", [true, true, true, true]),
];

/// Source and target: is the side a socket?
pub(crate) const PAIRS: &[(&str, bool, bool)] = &[
    ("file→file", false, false),
    ("file→socket", false, true),
    ("socket→file", true, false),
    ("socket→socket", true, true),
];

/// The kinds that can stand for its file, the likeliest first.
const FILES: &[Kind] =
    &[Kind::File, Kind::Ext4, Kind::Xfs, Kind::Btrfs, Kind::Overlay, Kind::Tmpfs];

/// The kind that is the file here.
pub(crate) fn file_among(has: impl Fn(Kind) -> bool) -> Option<Kind> {
    FILES.iter().copied().find(|&kind| has(kind))
}

/// Is this a cell of the table, where files are of this kind?
pub(super) fn has(way: Way, source: Kind, target: Kind, file: Kind) -> bool {
    let is_end = |kind| kind == file || kind == Kind::Tcp;
    ROWS.iter().any(|(name, _)| *name == way.name()) && is_end(source) && is_end(target)
}

/// The table, of cells found by way, source and target; nothing where none was tried.
pub(super) fn table<'a>(
    file: Kind,
    find: impl Fn(&'static str, Kind, Kind) -> Option<&'a Measured>,
) -> String {
    let end = |is_socket| if is_socket { Kind::Tcp } else { file };
    let cell =
        |way: &'static str, &(_, from, to): &(&str, bool, bool)| find(way, end(from), end(to));
    if !ROWS.iter().any(|(way, _)| PAIRS.iter().any(|pair| cell(way, pair).is_some())) {
        return String::new();
    }
    let mut text = format!(
        "Five ways, four pairs: files on {file}, sockets TCP. First Linux 2.6.23 (2007), then this kernel\n\n"
    );
    text.push_str(&format!("  {:14}", ""));
    for (name, ..) in PAIRS {
        text.push_str(&format!("  {name:14}"));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (way, in_2007) in ROWS {
        text.push_str(&format!("  {way:14}"));
        for (pair, then) in PAIRS.iter().zip(in_2007) {
            let then = mark(*then);
            let now = cell(way, pair).map_or(" ".to_owned(), |measured| {
                let told = Told::of(measured);
                if told.works() {
                    mark(true).to_owned()
                } else {
                    format!("{} {}", mark(false), told.word())
                }
            });
            text.push_str(&format!("  {:14}", format!("{then} {now}")));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str("\n  ✓ works, bytes verified   – does not (in 2007: EINVAL)\n");
    text.push_str(&times(&cell));
    text
}

fn mark(works: bool) -> &'static str {
    if works { "✓" } else { "–" }
}

/// The cost of each way, if measured: elapsed, user and system seconds, the processor's share.
fn times<'a>(cell: &impl Fn(&'static str, &(&str, bool, bool)) -> Option<&'a Measured>) -> String {
    let mut text = String::new();
    for pair in PAIRS {
        for (way, _) in ROWS {
            let Some(measured) = cell(way, pair) else { continue };
            let (Some(wall_s), Some(user_s), Some(system_s), Some(speed)) =
                (measured.wall_s, measured.user_s, measured.system_s, measured.gib_per_s)
            else {
                continue;
            };
            if text.is_empty() {
                // Writing into a `String` cannot fail, here and below.
                let _ = writeln!(
                    text,
                    "\n  {:14}  {:14}  {:>9}  {:>8}  {:>8}  {:>5}  {:>7}",
                    "pair", "way", "elapsed s", "user s", "system s", "CPU", "GiB/s"
                );
            }
            let share = 100.0 * (user_s + system_s) / wall_s.max(1e-9);
            let _ = writeln!(
                text,
                "  {:14}  {way:14}  {wall_s:9.3}  {user_s:8.3}  {system_s:8.3}  {share:4.0}%  {speed:7.2}",
                pair.0
            );
        }
    }
    if !text.is_empty() {
        text.push_str("\n  user and system: of the moving thread alone; feeding and draining the sockets is not in it\n");
    }
    text
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
