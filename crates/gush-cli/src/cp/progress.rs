//! The progress bar, or progress lines without a terminal.
//!
//! A tree has one line for all files, since several are copied at once.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use gush::Progress;
use gush_text::{plural, quote, rounded_bytes};
use gush_tree::{Census, TreeCounts};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use super::settings::When;
use crate::console::{self, Console};

/// A shorter copy needs no bar.
pub const SHOWN_AFTER: Duration = Duration::from_millis(500);
/// The interval of drawings.
const DRAWN_EVERY: Duration = Duration::from_millis(50);
/// The interval of lines in a log.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows the progress of a copy.
#[derive(Debug)]
pub struct Display {
    kind: Kind,
    /// Quoted only when shown, which is once in hundreds of small files.
    source: PathBuf,
    /// The sums over all files, from the first tree on.
    sums: Option<Sums>,
    /// The number and bytes of all files.
    census: Option<Arc<Census>>,
}

#[derive(Debug)]
struct Sums {
    files: u64,
    bytes: u64,
    /// Files that are done without a byte moved, and their sizes.
    unmoved: (u64, u64),
    /// The current entry of each thread, and its bytes that are not in the sums yet.
    under_way: HashMap<ThreadId, UnderWay>,
    began: Instant,
    drawn: Option<Instant>,
}

/// The progress of a thread that is not in the sums yet.
#[derive(Debug, Default)]
struct UnderWay {
    /// Of files that have ended since; without them the sum would decrease.
    ended_bytes: u64,
    /// Of the current file.
    bytes: u64,
    /// The current entry.
    source: PathBuf,
}

fn set_path(path: &mut PathBuf, to: &Path) {
    // Reuses the memory: this can happen for every file.
    path.as_mut_os_string().clear();
    path.as_mut_os_string().push(to);
}

impl Sums {
    fn new() -> Self {
        Self {
            files: 0,
            bytes: 0,
            unmoved: (0, 0),
            under_way: HashMap::new(),
            began: Instant::now(),
            drawn: None,
        }
    }

    /// Adds what this thread has done.
    fn add(&mut self, counts: &TreeCounts) {
        if let Some(under_way) = self.under_way.get_mut(&thread::current().id()) {
            (under_way.ended_bytes, under_way.bytes) = (0, 0);
        }
        self.files += counts.files;
        self.bytes += counts.bytes;
        self.unmoved.0 += counts.unmoved_files;
        self.unmoved.1 += counts.unmoved_bytes;
    }

    /// Sets the current entry of this thread.
    fn is_at(&mut self, source: &Path) {
        let under_way = self.under_way.entry(thread::current().id()).or_default();
        set_path(&mut under_way.source, source);
    }

    /// Sets the bytes of this thread's current entry, and returns the entry.
    fn show(&mut self, bytes: u64) -> &Path {
        let under_way = self.under_way.entry(thread::current().id()).or_default();
        // Fewer bytes than before are those of another file.
        if bytes < under_way.bytes {
            under_way.ended_bytes += under_way.bytes;
        }
        under_way.bytes = bytes;
        &under_way.source
    }

    fn bytes(&self) -> u64 {
        // Include partial files, or a single large file would show no progress.
        let under_way = self.under_way.values().map(|it| it.ended_bytes + it.bytes);
        self.bytes + under_way.sum::<u64>()
    }

    /// `totals` are the files and bytes to copy, if known.
    fn text(&self, name: &str, totals: Option<(u64, u64)>) -> String {
        let bytes = self.bytes();
        // At least a millisecond, to avoid an absurd first rate.
        let seconds = self.began.elapsed().as_secs_f64().max(1e-3);
        let rate = bytes as f64 / seconds;
        let shown_rate = rounded_bytes(rate as u64);
        // Files that needed no copy are done, but do not count for the rate.
        let (files, done) = (self.files + self.unmoved.0, bytes + self.unmoved.1);
        let Some((all_files, all_bytes)) = totals else {
            let (files, bytes) = (plural(self.files as usize, "file"), rounded_bytes(bytes));
            return format!("{files}, {bytes}, {shown_rate}/s: {name}");
        };
        let (part, all, pace) = match all_bytes {
            // A tree may have only empty files.
            0 => (files, all_files, self.files as f64 / seconds),
            _ => (done, all_bytes, rate),
        };
        // The tree may have grown since the census.
        let percent = (u128::from(part) * 100 / u128::from(all.max(1))).min(100);
        // Bounded, since a duration of too many seconds panics.
        let left_seconds = (all.saturating_sub(part) as f64 / pace.max(1.0)).min(1e9);
        let left = HumanDuration(Duration::from_secs_f64(left_seconds));
        // Until a file is done, the time left is unknown.
        let left = if pace > 0.0 { format!(", {left:#} left") } else { String::new() };
        let (done, all_bytes) = (rounded_bytes(done), rounded_bytes(all_bytes));
        let of = format!("{files} of {all_files} files, {done} of {all_bytes}");
        format!("{percent}%, {of}, {shown_rate}/s{left}: {name}")
    }
}

#[derive(Debug)]
enum Kind {
    Nothing,
    Bar(Option<ProgressBar>),
    Lines { console: Console, last: Option<Instant> },
}

impl Kind {
    fn is_wanted(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

impl Display {
    pub fn new(when: When, console: &Console) -> Self {
        let on_terminal = when != When::Never && stderr().is_terminal();
        let kind = match when {
            _ if on_terminal => Kind::Bar(None),
            When::Always => Kind::Lines { console: console.clone(), last: None },
            When::Auto | When::Never => Kind::Nothing,
        };
        Self { kind, source: PathBuf::new(), sums: None, census: None }
    }

    pub fn is_wanted(&self) -> bool {
        self.kind.is_wanted()
    }

    /// Shows how much is left, once the census is complete.
    pub fn expect(&mut self, census: Arc<Census>) {
        self.census = Some(census);
    }

    /// Shows sums from now on, for a tree.
    pub fn begin_tree(&mut self) {
        self.sums.get_or_insert_with(Sums::new);
    }

    fn name(&self) -> String {
        quote::if_needed(&self.source).to_string()
    }

    fn set_name(&mut self, source: &Path) {
        set_path(&mut self.source, source);
        if let Some(sums) = &mut self.sums {
            sums.is_at(source);
        }
    }

    /// Adds what this thread has done of a tree, and shows its current entry.
    pub fn count(&mut self, counts: &TreeCounts, source: &Path) {
        self.set_name(source);
        if let Some(sums) = &mut self.sums {
            sums.add(counts);
        }
        self.show_sums();
    }

    /// Starts another file.
    pub fn begin(&mut self, source: &Path) {
        if self.is_wanted() {
            self.set_name(source);
        }
        if let Kind::Lines { last, .. } = &mut self.kind
            && self.sums.is_none()
        {
            *last = None;
        }
    }

    /// Ends a file that was copied, needed no copy, or failed. The bar is removed, so that messages
    /// can follow.
    pub fn end(&mut self, done_bytes: Option<u64>, unmoved_bytes: Option<u64>) {
        if let Some(sums) = &mut self.sums {
            if self.kind.is_wanted() {
                let mut counts = TreeCounts::default();
                counts.files = done_bytes.is_some().into();
                counts.bytes = done_bytes.unwrap_or(0);
                counts.unmoved_files = unmoved_bytes.is_some().into();
                counts.unmoved_bytes = unmoved_bytes.unwrap_or(0);
                sums.add(&counts);
                self.show_sums();
            }
            return;
        }
        match &mut self.kind {
            Kind::Nothing => {}
            Kind::Bar(bar) => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }
            Kind::Lines { console, .. } => {
                if let Some(bytes) = done_bytes.map(rounded_bytes) {
                    let name = quote::if_needed(&self.source);
                    console.say(format_args!("{name}: {bytes} of {bytes}, 100%"));
                }
            }
        }
    }

    /// Removes the bar, so that a message can be printed.
    pub fn clear(&mut self) {
        if let Kind::Bar(bar) = &mut self.kind
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }

    /// Ends the display.
    pub fn finish(&mut self) {
        self.clear();
        if let (Kind::Lines { console, .. }, Some(sums)) = (&self.kind, &self.sums) {
            console.say(sums.text("done", None));
        }
    }

    fn show_sums(&mut self) {
        let Some(sums) = &mut self.sums else { return };
        let (after, every) = match &self.kind {
            Kind::Nothing => return,
            Kind::Bar(_) => (SHOWN_AFTER, DRAWN_EVERY),
            Kind::Lines { .. } => (LINE_EVERY, LINE_EVERY),
        };
        let now = Instant::now();
        let is_due = match sums.drawn {
            Some(drawn) => now.duration_since(drawn) >= every,
            None => now.duration_since(sums.began) >= after,
        };
        if !is_due {
            return;
        }
        sums.drawn = Some(now);
        let text = sums.text(
            &quote::if_needed(&self.source).to_string(),
            self.census.as_ref().and_then(|census| census.totals()),
        );
        match &mut self.kind {
            Kind::Nothing => {}
            Kind::Bar(bar) => {
                let bar = bar.get_or_insert_with(|| {
                    let style = ProgressStyle::with_template("{msg}");
                    ProgressBar::no_length()
                        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                });
                bar.set_message(gush_text::shortened(&text, console::columns()));
            }
            Kind::Lines { console, .. } => console.say(text),
        }
    }

    /// Shows the progress of this thread in a tree. The entry shown last may be done already.
    fn show_in_tree(&mut self, bytes: u64) {
        let Some(sums) = &mut self.sums else { return };
        let source = sums.show(bytes);
        if !source.as_os_str().is_empty() {
            set_path(&mut self.source, source);
        }
        self.show_sums();
    }

    pub fn show(&mut self, progress: &Progress) {
        if self.sums.is_some() {
            return self.show_in_tree(progress.bytes);
        }
        let name = self.name();
        match &mut self.kind {
            Kind::Nothing => {}
            Kind::Bar(bar) if bar.is_some() || progress.elapsed >= SHOWN_AFTER => {
                let bar = bar.get_or_insert_with(|| new_bar(&name, progress));
                bar.set_position(progress.bytes);
            }
            Kind::Bar(_) => {}
            Kind::Lines { console, last } => {
                if last.map_or(progress.elapsed, |last| last.elapsed()) >= LINE_EVERY {
                    *last = Some(Instant::now());
                    console.say(line(&name, progress));
                }
            }
        }
    }
}

/// The maximum width of `100% 1023 GiB of 1023 GiB, 1023 MiB/s, 365d left`.
const FIGURES_COLUMNS: usize = 49;
/// The shortest useful bar, with brackets.
const BAR_COLUMNS: usize = 12;

fn new_bar(name: &str, progress: &Progress) -> ProgressBar {
    let columns = console::columns();
    // On a narrow terminal the name keeps a third, and figures are left out.
    let name_columns = columns.saturating_sub(FIGURES_COLUMNS).max(columns / 3);
    let name = gush_text::shortened(name, name_columns);
    let bar_fits = gush_text::width(&name) + 1 + FIGURES_COLUMNS + BAR_COLUMNS <= columns;
    let (bar, template) = match progress.expected_bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            match (bar_fits, name_columns + FIGURES_COLUMNS <= columns) {
                (true, _) => {
                    "{prefix} [{wide_bar}] {percent}% {bytes} of {total_bytes}, {rate}, {left} left"
                }
                (false, true) => {
                    "{prefix} {percent}% {bytes} of {total_bytes}, {rate}, {left} left"
                }
                (false, false) => "{prefix} {percent}%",
            },
        ),
        None => (ProgressBar::no_length(), "{prefix} {bytes}, {rate}, {elapsed}"),
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("bytes", |state: &ProgressState, out: &mut dyn Write| {
        write_bytes(Some(state.pos()), out);
    });
    let style = style.with_key("total_bytes", |state: &ProgressState, out: &mut dyn Write| {
        write_bytes(state.len(), out);
    });
    bar.with_style(style.with_key("rate", write_rate).with_key("left", write_left))
        .with_prefix(name)
        .with_elapsed(progress.elapsed)
}

/// The mean rate since the start of the copy. The bar's own estimate would attribute earlier bytes
/// to the moment of the first drawing.
fn bytes_per_second(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)
}

fn write_bytes(bytes: Option<u64>, out: &mut dyn Write) {
    // On failure the bar is left out, here and below.
    let _ = out.write_str(&rounded_bytes(bytes.unwrap_or(0)));
}

fn write_rate(state: &ProgressState, out: &mut dyn Write) {
    let _ = write!(out, "{}/s", rounded_bytes(bytes_per_second(state) as u64));
}

fn write_left(state: &ProgressState, out: &mut dyn Write) {
    let left_bytes = state.len().unwrap_or(0).saturating_sub(state.pos());
    let seconds = left_bytes as f64 / bytes_per_second(state).max(1.0);
    let _ = write!(out, "{:#}", HumanDuration(Duration::from_secs_f64(seconds.min(1e9))));
}

fn line(name: &str, progress: &Progress) -> String {
    let moved = rounded_bytes(progress.bytes);
    match progress.expected_bytes {
        Some(all) if all > 0 => {
            let percent = progress.bytes.saturating_mul(100) / all;
            format!("{name}: {moved} of {}, {percent}%", rounded_bytes(all))
        }
        _ => format!("{name}: {moved}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_tree_never_goes_back_before_a_thread_counts() {
        let mut sums = Sums::new();
        let mut last_bytes = 0;
        // Three files, which the thread counts together.
        for bytes in [10, 70, 5, 60, 40] {
            sums.show(bytes);
            assert!(sums.bytes() >= last_bytes, "{} after {last_bytes}", sums.bytes());
            last_bytes = sums.bytes();
        }
        let mut counts = TreeCounts::default();
        (counts.files, counts.bytes) = (3, 170);
        sums.add(&counts);
        assert_eq!((last_bytes, sums.bytes()), (170, 170));
        sums.show(1);
        assert_eq!(sums.bytes(), 171);
    }

    #[test]
    fn a_large_file_is_named_while_it_moves_whatever_other_threads_report() {
        let kind = Kind::Nothing;
        let mut display = Display { kind, source: PathBuf::new(), sums: None, census: None };
        display.begin_tree();
        display.count(&TreeCounts::default(), Path::new("large"));
        display.show_in_tree(1);
        thread::scope(|scope| {
            scope.spawn(|| display.count(&TreeCounts::default(), Path::new("small")));
        });
        assert_eq!(display.source, Path::new("small"));
        display.show_in_tree(2);
        assert_eq!(display.source, Path::new("large"));
        // After the tree, the operand is shown.
        display.set_name(Path::new("alone"));
        display.show_in_tree(3);
        assert_eq!(display.source, Path::new("alone"));
    }

    #[test]
    fn the_line_of_a_tree_shows_how_much_is_left_once_that_is_known() {
        let mut sums = Sums::new();
        (sums.files, sums.bytes, sums.unmoved) = (3, 412, (2, 512));
        sums.show(100);
        let text = sums.text("name", None);
        assert!(text.starts_with("3 files, 512 B, ") && text.ends_with("/s: name"), "{text}");
        let text = sums.text("name", Some((6, 2048)));
        assert!(text.starts_with("50%, 5 of 6 files, 1 KiB of 2 KiB, "), "{text}");
        assert!(text.ends_with(" left: name"), "{text}");
        // A file grew after it was counted.
        assert!(sums.text("name", Some((1, 0))).starts_with("100%, 5 of 1 files"));
        // No file is done.
        (sums.files, sums.unmoved) = (0, (0, 0));
        let text = sums.text("name", Some((10, 0)));
        assert!(text.starts_with("0%, 0 of 10 files, 512 B of 0 B, "), "{text}");
        assert!(text.ends_with("/s: name"), "{text}");
        (sums.files, sums.unmoved) = (3, (2, 512));
        // Nothing but empty files.
        assert!(sums.text("name", Some((20, 0))).starts_with("25%, 5 of 20 files"));
    }
}
