//! A line of progress: the segments of a format, filled in and fitted to the columns.

use std::time::{Duration, SystemTime};

use gush_process::{LocalTime, local_time};

use super::args::Display;
use super::bar::{self, Progress};
use super::figures::{Unit, clock};
use super::format::{self, Segment};
use super::inspect::Tail;
use super::meter::{Reading, SPANS};
use super::values::Style;

/// How progress is shown.
#[derive(Clone, Debug)]
pub struct Layout {
    segments: Vec<Segment>,
    pub unit: Unit,
    style: Style,
    name: Option<String>,
    gauge: bool,
    /// The segments are those of `--format`.
    has_format: bool,
}

/// The facts about a transfer that its layout depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject {
    /// Lines are counted instead of bytes.
    pub counts_lines: bool,
    /// The size is known.
    pub is_sized: bool,
    /// The output of a command is shown, too.
    pub has_out: bool,
}

/// The content of a line besides the reading.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// How full the output pipe is, in percent.
    pub buffer_percent: Option<u32>,
    /// The last bytes and the last line.
    pub tail: Tail,
    /// Rates of the last minute, the oldest first; none where nothing was measured.
    pub row: [Option<f64>; SPANS],
    /// The output of a command.
    pub out: Option<Reading>,
}

impl Layout {
    pub fn new(display: &Display, subject: Subject) -> Self {
        let segments = match &display.format {
            Some(format) => format::parse(format),
            None => default_parts(display, subject),
        };
        let unit = display.unit(subject.counts_lines);
        let (style, gauge) = (display.bar_style.unwrap_or_default(), display.gauge);
        let has_format = display.format.is_some();
        Self { segments, unit, style, name: display.name.clone(), gauge, has_format }
    }

    /// The same layout under another name, which comes first unless the format has a place for it.
    pub fn named(&self, name: String) -> Self {
        let mut layout = Self { name: Some(name), ..self.clone() };
        if !layout.segments.contains(&Segment::Name) {
            layout.segments.splice(0..0, [Segment::Name, Segment::Text(" ".to_owned())]);
        }
        layout
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The number of last bytes that are shown.
    pub fn last_bytes(&self) -> usize {
        let wanted = |segment: &Segment| match segment {
            Segment::LastWritten(bytes) => *bytes,
            _ => 0,
        };
        self.segments.iter().map(wanted).max().unwrap_or(0)
    }

    pub fn has_last_line(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::LastLine(_)))
    }

    /// The line of `--numeric`: that of the format, if there is one, with bare numbers.
    pub fn numbers(
        &self,
        reading: &Reading,
        extras: &Extras,
        display: &Display,
        columns: usize,
    ) -> String {
        if self.has_format {
            return self.fitted(
                columns,
                |segment| match self.number(segment, reading) {
                    Some(number) => Piece::Fixed(number, 0),
                    None => self.piece(segment, reading, extras),
                },
                reading,
                extras,
            );
        }
        let wanted = [
            (display.timer, Segment::Timer),
            (display.bytes, Segment::Amount),
            (display.rate, Segment::Rate),
            (!display.bytes && !display.rate, Segment::Percent),
        ];
        let segments = wanted.iter().filter(|(wanted, _)| *wanted);
        let numbers = segments.filter_map(|(_, segment)| self.number(segment, reading));
        numbers.collect::<Vec<_>>().join(" ")
    }

    /// A figure without unit and blanks; none if the segment is no figure.
    fn number(&self, segment: &Segment, reading: &Reading) -> Option<String> {
        let bits = if self.unit.bits { 8 } else { 1 };
        Some(match segment {
            Segment::Timer => format!("{:.4}", reading.elapsed.as_secs_f64()),
            Segment::Amount => reading.count.saturating_mul(bits).to_string(),
            Segment::Rate => format!("{:.4}", reading.rate * bits as f64),
            Segment::Average => format!("{:.4}", reading.average * bits as f64),
            // As in pv, also for a gauge.
            Segment::Percent => match share(reading) {
                Progress::Percent(percent) => format!("{percent:.0}"),
                Progress::Swing(at) => at.to_string(),
            },
            _ => return None,
        })
    }

    /// The line in at most `columns`.
    pub fn line(&self, reading: &Reading, extras: &Extras, columns: usize) -> String {
        self.fitted(columns, |segment| self.piece(segment, reading, extras), reading, extras)
    }

    /// Joins the segments; wide ones share the columns that the others leave.
    fn fitted(
        &self,
        columns: usize,
        piece_of: impl Fn(&Segment) -> Piece,
        reading: &Reading,
        extras: &Extras,
    ) -> String {
        let mut pieces = Vec::with_capacity(self.segments.len());
        let mut used = 0;
        for segment in &self.segments {
            let piece = piece_of(segment);
            if let Piece::Fixed(_, width) = piece {
                // One that does not fit ends the line; names and text are skipped alone, so that
                // figures stay.
                if used + width > columns {
                    match segment {
                        Segment::Text(_) | Segment::Name => continue,
                        _ => break,
                    }
                }
                used += width;
            }
            pieces.push((segment, piece));
        }
        let is_wide = |piece: &Piece| matches!(piece, Piece::Wide);
        let mut wide = pieces.iter().filter(|(_, piece)| is_wide(piece)).count();
        let mut left = columns - used;
        let mut line = String::new();
        // Reset colours at the end of the line.
        let colour = pieces.iter().rev().find_map(|(segment, _)| match segment {
            Segment::Colour(codes) if !codes.is_empty() => Some(codes.as_str()),
            _ => None,
        });
        let reset = if colour.is_some_and(|codes| codes != "0") { "\x1b[m" } else { "" };
        for (segment, piece) in pieces {
            match piece {
                Piece::Fixed(text, _) => line.push_str(&text),
                Piece::Wide => {
                    let share = left / wide;
                    (left, wide) = (left - share, wide - 1);
                    line.push_str(&self.wide(segment, reading, extras, share));
                }
            }
        }
        line + reset
    }

    fn piece(&self, segment: &Segment, reading: &Reading, extras: &Extras) -> Piece {
        let unit = self.unit;
        let text = match segment {
            Segment::Colour(codes) if codes.is_empty() => return Piece::Fixed(String::new(), 0),
            Segment::Colour(codes) => return Piece::Fixed(format!("\x1b[{codes}m"), 0),
            Segment::LastLine(None) | Segment::Bar(None) | Segment::BareBar(_, None) => {
                return Piece::Wide;
            }
            Segment::Bar(Some(columns)) | Segment::BareBar(_, Some(columns)) => {
                self.wide(segment, reading, extras, *columns)
            }
            // As in pv, without the blank or slash before the figure after a bar.
            Segment::Percent => self.after_bar(reading).chars().skip(1).collect(),
            Segment::Text(text) => text.clone(),
            Segment::Timer => clock(reading.elapsed),
            // A transfer of unknown size has no known end.
            Segment::Eta | Segment::EtaClock if reading.expected.is_none() => String::new(),
            Segment::Eta => eta(reading),
            Segment::EtaClock => eta_clock(reading),
            Segment::Rate => unit.rate(reading.rate),
            Segment::Average => unit.average(reading.average),
            Segment::Amount => unit.amount(reading.count as f64),
            Segment::Buffer => match extras.buffer_percent {
                Some(percent) => format!("{{{percent:3}%}}"),
                None => "{----}".to_owned(),
            },
            Segment::LastWritten(bytes) => extras.tail.last(*bytes),
            Segment::LastLine(Some(columns)) => extras.tail.last_line(*columns),
            Segment::Name => match &self.name {
                Some(name) => {
                    let blanks = 9_usize.saturating_sub(gush_text::width(name));
                    format!("{}{name}:", " ".repeat(blanks))
                }
                None => String::new(),
            },
            Segment::Sparkline => sparkline(&extras.row),
            Segment::OutAmount => {
                extras.out.as_ref().map_or(String::new(), |out| unit.amount(out.count as f64))
            }
            Segment::OutRate => {
                extras.out.as_ref().map_or(String::new(), |out| unit.rate(out.rate))
            }
            Segment::Ratio => {
                // As in pv, the output is 0 without a command.
                ratio(reading.count, extras.out.as_ref().map_or(0, |out| out.count))
            }
        };
        let width = gush_text::width(&text);
        Piece::Fixed(text, width)
    }

    fn wide(
        &self,
        segment: &Segment,
        reading: &Reading,
        extras: &Extras,
        columns: usize,
    ) -> String {
        match segment {
            Segment::Bar(_) => {
                let number = self.after_bar(reading);
                bar::bar(self.progress(reading), &number, self.style, columns)
            }
            Segment::BareBar(style, _) => {
                bar::bare(self.progress(reading), style.unwrap_or(self.style), columns)
            }
            _ => extras.tail.last_line(columns),
        }
    }

    fn progress(&self, reading: &Reading) -> Progress {
        match reading.most_rate {
            _ if !self.is_gauge(reading) => share(reading),
            most if most > 0.0 => Progress::Percent(reading.rate * 100.0 / most),
            _ => Progress::Percent(0.0),
        }
    }

    fn is_gauge(&self, reading: &Reading) -> bool {
        self.gauge && reading.expected.is_none()
    }

    /// The figure after the bar: the percentage, or the highest rate of a gauge, where it is full.
    fn after_bar(&self, reading: &Reading) -> String {
        match self.is_gauge(reading) {
            true => format!("/{}/s", self.unit.amount(reading.most_rate)),
            false => bar::number(share(reading)),
        }
    }
}

/// The share that has arrived.
fn share(reading: &Reading) -> Progress {
    reading.percent().map_or(Progress::Swing(reading.swing), Progress::Percent)
}

enum Piece {
    /// A text and its width in columns.
    Fixed(String, usize),
    /// As wide as the room left.
    Wide,
}

/// The segments of the display switches, in pv's order, with spaces between them.
fn default_parts(display: &Display, subject: Subject) -> Vec<Segment> {
    let Subject { is_sized, has_out, .. } = subject;
    let any = display.progress
        || display.timer
        || display.eta
        || display.fineta
        || display.rate
        || display.average_rate
        || display.bytes
        || display.buffer_percent
        || display.last_written.is_some();
    let bar = Segment::Bar(None);
    let wanted = [
        (display.name.is_some(), Segment::Name),
        (display.bytes || !any, Segment::Amount),
        (display.buffer_percent, Segment::Buffer),
        (display.timer || !any, Segment::Timer),
        (display.rate || !any, Segment::Rate),
        (display.average_rate, Segment::Average),
        (display.progress || !any, bar),
        ((display.eta || !any) && is_sized, Segment::Eta),
        (display.fineta && is_sized, Segment::EtaClock),
        (display.last_written.is_some(), Segment::LastWritten(display.last_written.unwrap_or(0))),
        (has_out, Segment::Text("->".to_owned())),
        (has_out, Segment::OutAmount),
        (has_out, Segment::OutRate),
        (has_out, Segment::Ratio),
    ];
    let mut segments = Vec::new();
    for segment in wanted.into_iter().filter_map(|(wanted, segment)| wanted.then_some(segment)) {
        if !segments.is_empty() {
            segments.push(Segment::Text(" ".to_owned()));
        }
        segments.push(segment);
    }
    segments
}

/// The time left. At the end blanks of the same width keep the rest in place.
fn eta(reading: &Reading) -> String {
    let text = match reading.left() {
        Some(left) => format!("ETA {}", clock(left)),
        None => "ETA -:--:--".to_owned(),
    };
    if reading.ended { " ".repeat(text.len()) } else { text }
}

/// The time of completion; with the date, if it is more than six hours away.
fn eta_clock(reading: &Reading) -> String {
    let then = reading.left().and_then(|left| SystemTime::now().checked_add(left));
    // A year of five digits would shift the rest.
    let then = then.and_then(local_time).filter(|then| then.year <= 9999);
    let (Some(left), Some(then)) = (reading.left(), then) else {
        return "FIN --:--:--".to_owned();
    };
    let LocalTime { year, month, day, hour, minute, second } = then;
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    match left > Duration::from_secs(6 * 3600) {
        true => format!("FIN {year}-{month:02}-{day:02} {clock}"),
        false => format!("FIN {clock}"),
    }
}

/// The ratio of input to output: `3.407:1`, `1:2.5`.
fn ratio(count: u64, out: u64) -> String {
    let (count, out) = (count as f64, out as f64);
    match count.min(out) > 0.0 {
        false => "-:-".to_owned(),
        true if count >= out => format!("{}:1", four_digits(count / out)),
        true => format!("1:{}", four_digits(out / count)),
    }
}

/// Four significant digits without trailing zeros, as in pv; a whole number from 1000 on.
fn four_digits(value: f64) -> String {
    let decimals = match value {
        _ if value < 9.9995 => 3,
        _ if value < 99.995 => 2,
        _ if value < 999.95 => 1,
        _ => return format!("{value:.0}"),
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rates as bars of eight heights, relative to the highest.
fn sparkline(row: &[Option<f64>]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = row.iter().flatten().copied().fold(0.0, f64::max);
    let height = |rate: &Option<f64>| match rate {
        None => ' ',
        Some(rate) if most > 0.0 => HEIGHTS[((rate / most * 8.0) as usize).min(7)],
        Some(_) => HEIGHTS[0],
    };
    row.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::super::args::read_words;
    use super::*;

    fn display(words: &[&str]) -> Display {
        read_words(words).display
    }

    fn reading(count: u64, expected: Option<u64>) -> Reading {
        let elapsed = Duration::from_secs(2);
        let rate = count as f64 / 2.0;
        Reading {
            count,
            expected,
            elapsed,
            rate,
            average: rate,
            most_rate: rate,
            swing: 2,
            ended: false,
        }
    }

    fn line(words: &[&str], reading: &Reading, columns: usize) -> String {
        let subject = Subject { is_sized: reading.expected.is_some(), ..Subject::default() };
        let layout = Layout::new(&display(words), subject);
        layout.line(reading, &Extras::default(), columns)
    }

    #[test]
    fn the_default_is_pvs() {
        let half = reading(1 << 20, Some(3 << 20));
        let shown = "1.00MiB 0:00:02 [ 512KiB/s] [=======>                ]  33% ETA 0:00:04";
        assert_eq!(line(&[], &half, 71), shown);
        let unknown = reading(1 << 20, None);
        assert_eq!(line(&[], &unknown, 50), "1.00MiB 0:00:02 [ 512KiB/s] [<=>                 ]");
        assert_eq!(
            line(&["-peraT", "-N", "foo"], &half, 70),
            "      foo: {----} [ 512KiB/s] ( 512KiB/s) [==>      ]  33% ETA 0:00:04"
        );
        let ended = Reading { ended: true, ..half };
        assert_eq!(line(&["-be"], &ended, 80), "1.00MiB            ");
    }

    #[test]
    fn what_has_no_room_ends_the_line() {
        let half = reading(1 << 20, Some(3 << 20));
        assert_eq!(line(&[], &half, 20), "1.00MiB 0:00:02 ");
        assert_eq!(line(&[], &half, 1), "");
        // A name that does not fit hides no figure.
        let named = line(&["-b", "-N", "a name that is wide"], &reading(42, None), 12);
        assert_eq!(named.trim(), "42.0  B");
    }

    #[test]
    fn a_format_is_filled_in() {
        let half = reading(1 << 20, Some(2 << 20));
        assert_eq!(line(&["-F", "%b of it, %t%%"], &half, 80), "1.00MiB of it, 0:00:02%");
        assert_eq!(line(&["-F", "<%{progress-amount-only}>"], &half, 80), "< 50%>");
        assert_eq!(
            line(&["-F", "%{progress-bar-only}|%{bar-block}"], &half, 17),
            "===>    |████    "
        );
        assert_eq!(
            line(&["-F", "%15p|%4{bar-block}|%6L|"], &half, 80),
            "[===>    ]  50%|██  |      |"
        );
        assert_eq!(
            line(&["-F", "%{sgr:red}%t%{sgr:reset}%p"], &half, 22),
            "\x1b[31m0:00:02\x1b[0m[===>    ]  50%"
        );
    }

    #[test]
    fn the_time_of_arrival_has_a_date_where_that_is_far() {
        let soon = reading(1 << 20, Some(2 << 20));
        assert_eq!(line(&["-I"], &soon, 80).len(), "FIN 01:02:03".len());
        let delayed = reading(1, Some(1 << 30));
        assert_eq!(line(&["-I"], &delayed, 80).len(), "FIN 2026-01-02 03:04:05".len());
        assert_eq!(line(&["-Ie"], &reading(0, Some(1)), 80), "ETA -:--:-- FIN --:--:--");
    }

    #[test]
    fn colours_end_with_the_line() {
        let half = reading(1 << 20, Some(2 << 20));
        assert_eq!(line(&["-F", "%{sgr:red}%t"], &half, 80), "\x1b[31m0:00:02\x1b[m");
        assert_eq!(
            line(&["-F", "%{sgr:bold,red}%t %b%{sgr:reset}"], &half, 9),
            "\x1b[1;31m0:00:02 \x1b[m"
        );
    }

    #[test]
    fn what_a_command_makes_of_it_has_a_ratio() {
        let subject = Subject { has_out: true, ..Subject::default() };
        let layout = Layout::new(&display(&["-b"]), subject);
        let (whole, out) = (reading(3 << 20, None), reading(1 << 20, None));
        let extras = Extras { out: Some(out), ..Extras::default() };
        let shown = "3.00MiB -> 1.00MiB [ 512KiB/s] 3:1";
        assert_eq!(layout.line(&whole, &extras, 80), shown);
        // As pv 1.11 prints ratios up to 9999.
        for (count, out, text) in [
            (2, 5, "1:2.5"),
            (0, 5, "-:-"),
            (7, 7, "1:1"),
            (163_840, 100_000, "1.638:1"),
            (1_766_685, 65_536, "26.96:1"),
            (100, 1, "100:1"),
            (1, 12_345, "1:12345"),
        ] {
            assert_eq!(ratio(count, out), text);
        }
    }

    #[test]
    fn a_name_comes_first_unless_the_format_has_a_place_for_it() {
        let half = reading(1 << 20, Some(2 << 20));
        let named = |words: &[&str]| {
            let subject = Subject { is_sized: true, ..Subject::default() };
            let layout = Layout::new(&display(words), subject).named("   3:x".to_owned());
            layout.line(&half, &Extras::default(), 40)
        };
        assert_eq!(named(&["-b"]), "      3:x: 1.00MiB");
        assert_eq!(named(&["-F", "%b %N"]), "1.00MiB       3:x:");
    }

    #[test]
    fn rates_are_a_row_of_bars() {
        assert_eq!(sparkline(&[None, Some(0.0), Some(5.0), Some(10.0)]), " ▁▅█");
        assert_eq!(sparkline(&[Some(0.0)]), "▁");
    }

    #[test]
    fn a_gauge_shows_the_rate_as_a_part_of_the_highest() {
        let reading = Reading { most_rate: 2.0 * f64::from(1 << 19), ..reading(1 << 20, None) };
        assert_eq!(line(&["-pg"], &reading, 17), "[=>   ]/1.00MiB/s");
        assert_eq!(line(&["-8pg"], &reading, 20), "[===>    ]/8.00Mib/s");
        let layout = ["-g", "-F", "%{progress-amount-only}|%6{bar-plain}|"];
        assert_eq!(line(&layout, &reading, 20), "1.00MiB/s|==>   |");
        let nothing = Reading { rate: 0.0, most_rate: 0.0, ..reading };
        assert_eq!(line(&["-pg"], &nothing, 17), "[>    ]/0.00  B/s");
        let layout = Layout::new(&display(&["-ng"]), Subject::default());
        let extras = Extras::default();
        assert_eq!(layout.numbers(&nothing, &extras, &Display::default(), 80), "2");
    }

    #[test]
    fn more_than_was_expected_is_no_time_left_and_at_most_a_thousandfold() {
        let more = reading(3000, Some(1));
        assert_eq!(line(&["-pe"], &more, 30), "[========] 100000% ETA 0:00:00");
        let ended = Reading { ended: true, ..more };
        assert_eq!(line(&["-pe"], &ended, 30), "[========] 100000%            ");
    }
}
