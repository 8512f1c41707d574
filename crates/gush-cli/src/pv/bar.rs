//! The bar: how much is done, or that something moves.

use super::options::Style;

/// How far the bar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Percent of the known size, more than 100 where more came.
    Percent(f64),
    /// Nobody knows the size: a mark swings between the ends, from 0 to 199 and around.
    Swing(u32),
}

/// The fewest columns between the brackets of a bar that swings.
const MARK: &str = "<=>";

/// The bar in at most `columns`, brackets included, and the percentage `with_number`; nothing where no bar fits.
pub fn bar(progress: Progress, style: Style, with_number: bool, columns: usize) -> String {
    match progress {
        Progress::Percent(percent) => {
            let number = if with_number { number(percent) } else { String::new() };
            let Some(inner) = columns.checked_sub(2 + number.len()) else { return String::new() };
            format!("[{}]{number}", filled(percent, style, inner))
        }
        Progress::Swing(at) => {
            let Some(inner) = columns.checked_sub(2).filter(|&inner| inner >= MARK.len()) else {
                return String::new();
            };
            format!("[{}]", swinging(at, inner))
        }
    }
}

/// The percentage behind the bar: ` 33%`.
pub fn number(percent: f64) -> String {
    format!(" {:2}%", percent as u64)
}

/// The text between the brackets, `inner` columns wide.
fn filled(percent: f64, style: Style, inner: usize) -> String {
    let percent = (percent as u64) as f64;
    let share = (percent / 100.0).clamp(0.0, 1.0);
    match style {
        Style::Plain => {
            // The arrow leaves the bar once more than everything has come.
            let before = ((percent * inner as f64 / 100.0) as usize).saturating_sub(1);
            let arrow = if before < inner { ">" } else { "" };
            format!("{:inner$}", "=".repeat(before.min(inner)) + if inner > 0 { arrow } else { "" })
        }
        Style::Block => cells(share, inner, &["█"]),
        Style::Granular => cells(share, inner, &["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"]),
        Style::Shaded => {
            let full = cells(share, inner, &["░", "▒", "▓", "█"]);
            full.trim_end_matches(' ').to_owned()
                + &"░".repeat(inner - full.trim_end().chars().count())
        }
    }
}

/// Full cells, then one that is partly full, then empty ones. The last of `steps` is a full cell.
fn cells(share: f64, inner: usize, steps: &[&str]) -> String {
    let parts = (share * (inner * steps.len()) as f64) as usize;
    let (full, part) = (parts / steps.len(), parts % steps.len());
    let part = if part > 0 { steps[part - 1] } else { "" };
    let used = full + usize::from(!part.is_empty());
    steps[steps.len() - 1].repeat(full) + part + &" ".repeat(inner - used)
}

fn swinging(at: u32, inner: usize) -> String {
    let way = if at > 100 { 200_u32.saturating_sub(at) } else { at };
    let room = inner - MARK.len();
    let before = room * way as usize / 100;
    format!("{:inner$}", " ".repeat(before) + MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_bar_is_pvs() {
        for (percent, columns, text) in [
            (0.0, 20, "[>             ]  0%"),
            (9.0, 20, "[>             ]  9%"),
            (50.0, 20, "[======>       ] 50%"),
            (99.0, 20, "[============> ] 99%"),
            (100.0, 20, "[============>] 100%"),
            (150.0, 20, "[=============] 150%"),
            (33.9, 30, "[======>                 ] 33%"),
            (100.0, 9, "[=>] 100%"),
            (101.0, 13, "[=====>] 101%"),
            (50.0, 6, "[] 50%"),
        ] {
            assert_eq!(bar(Progress::Percent(percent), Style::Plain, true, columns), text);
        }
        assert_eq!(bar(Progress::Swing(12), Style::Plain, true, 14), "[ <=>        ]");
        assert_eq!(bar(Progress::Swing(199), Style::Plain, true, 14), "[<=>         ]");
        assert_eq!(bar(Progress::Swing(100), Style::Plain, true, 14), "[         <=>]");
    }

    #[test]
    fn other_styles_fill_cells() {
        let half = |style| bar(Progress::Percent(55.0), style, true, 16);
        assert_eq!(half(Style::Block), "[█████     ] 55%");
        assert_eq!(half(Style::Granular), "[█████▌    ] 55%");
        assert_eq!(half(Style::Shaded), "[█████▒░░░░] 55%");
    }

    proptest! {
        #[test]
        fn a_bar_is_as_wide_as_asked_for_or_nothing(
            percent in 0.0_f64..2000.0, swing in 0_u32..200, columns in 0_usize..300, style in 0_usize..4
        ) {
            let style = [Style::Plain, Style::Block, Style::Granular, Style::Shaded][style];
            for progress in [Progress::Percent(percent), Progress::Swing(swing)] {
                let width = bar(progress, style, true, columns).chars().count();
                prop_assert!(width == 0 || width == columns, "{width} of {columns}");
            }
        }
    }
}
