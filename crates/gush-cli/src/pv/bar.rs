//! The progress bar.

use super::values::Style;

/// How far the bar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Percent of the known size; more than 100 if more came.
    Percent(f64),
    /// The size is unknown: a mark swings between the ends, from 0 to 199 and around.
    Swing(u32),
}

/// The mark of a bar that swings.
const MARK: &str = "<=>";

/// The fewest columns of a bar with sides.
const FEWEST_COLUMNS: usize = 6;

/// The bar in at most `columns`, in brackets and followed by `number`; empty if no bar fits.
pub fn bar(progress: Progress, number: &str, style: Style, columns: usize) -> String {
    let inner = columns.checked_sub(2 + number.len()).filter(|_| columns >= FEWEST_COLUMNS);
    inner.map_or_else(String::new, |inner| format!("[{}]{number}", bare(progress, style, inner)))
}

/// The bar alone, `columns` wide.
pub fn bare(progress: Progress, style: Style, columns: usize) -> String {
    match progress {
        Progress::Percent(percent) => filled(percent, style, columns),
        Progress::Swing(at) => swinging(at, columns),
    }
}

/// The percentage after the bar: `  33%`; empty if the size is unknown.
pub fn number(progress: Progress) -> String {
    match progress {
        Progress::Percent(percent) => format!(" {:3}%", percent as u64),
        Progress::Swing(_) => String::new(),
    }
}

/// The text between the brackets, `inner` columns wide.
fn filled(percent: f64, style: Style, inner: usize) -> String {
    let share = (percent / 100.0).clamp(0.0, 1.0);
    match style {
        Style::Plain => {
            // Beyond 100 % the arrow leaves the bar.
            let before = ((percent * inner as f64 / 100.0) as usize).saturating_sub(1);
            let arrow = if before < inner { ">" } else { "" };
            format!("{:inner$}", "=".repeat(before.min(inner)) + if inner > 0 { arrow } else { "" })
        }
        Style::Block => cells(share, inner, &["█"]),
        Style::Granular => cells(share, inner, &["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"]),
        Style::Shaded => {
            let full = cells(share, inner, &["▒", "▓", "█"]);
            full.replace(' ', "░")
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
    let Some(room) = inner.checked_sub(MARK.len()) else { return " ".repeat(inner) };
    let before = room * way as usize / 100;
    format!("{:inner$}", " ".repeat(before) + MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_number(progress: Progress, style: Style, columns: usize) -> String {
        bar(progress, &number(progress), style, columns)
    }

    #[test]
    fn a_plain_bar_is_pvs() {
        let bar = with_number;
        for (percent, columns, text) in [
            (0.0, 20, "[>            ]   0%"),
            (9.0, 20, "[>            ]   9%"),
            (50.0, 20, "[=====>       ]  50%"),
            (99.0, 20, "[===========> ]  99%"),
            (100.0, 20, "[============>] 100%"),
            (150.0, 20, "[=============] 150%"),
            (33.9, 30, "[======>                ]  33%"),
            (100.0, 9, "[=>] 100%"),
            (101.0, 13, "[=====>] 101%"),
            (50.0, 7, "[]  50%"),
            (50.0, 6, ""),
        ] {
            assert_eq!(bar(Progress::Percent(percent), Style::Plain, columns), text);
        }
        assert_eq!(bar(Progress::Swing(12), Style::Plain, 14), "[ <=>        ]");
        assert_eq!(bar(Progress::Swing(199), Style::Plain, 14), "[<=>         ]");
        assert_eq!(bar(Progress::Swing(100), Style::Plain, 14), "[         <=>]");
        assert_eq!(bar(Progress::Swing(100), Style::Plain, 5), "");
    }

    #[test]
    fn other_styles_fill_cells() {
        let half = |style| with_number(Progress::Percent(55.0), style, 17);
        assert_eq!(half(Style::Block), "[█████     ]  55%");
        assert_eq!(half(Style::Granular), "[█████▌    ]  55%");
        assert_eq!(half(Style::Shaded), "[█████▒░░░░]  55%");
        assert_eq!(bare(Progress::Percent(100.0 / 3.0), Style::Granular, 13), "████▎        ");
    }

    proptest! {
        #[test]
        fn a_bar_is_as_wide_as_asked_for_or_nothing(
            percent in 0.0_f64..2000.0, swing in 0_u32..200, columns in 0_usize..300, style in 0_usize..4
        ) {
            let style = [Style::Plain, Style::Block, Style::Granular, Style::Shaded][style];
            for progress in [Progress::Percent(percent), Progress::Swing(swing)] {
                let width = with_number(progress, style, columns).chars().count();
                prop_assert!(width == 0 || width == columns, "{width} of {columns}");
                prop_assert_eq!(bare(progress, style, columns).chars().count(), columns);
            }
        }
    }
}
