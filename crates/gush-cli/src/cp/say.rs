//! Messages during copies: GNU's `-v` and `--debug` lines, questions, warnings.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use gush::{Choice, Control, Errno, Holes, MethodName, Progress, Report, Side, hint_for};
use gush_text::{plural, quote};
use gush_tree::{
    Action, Census, CopyOptions, Done, Error, Events, Question, Reflink, Share, TreeCounts,
};

use serde::Serialize;

use super::json::{Record, Removed, Warnings};
use super::progress;
use super::settings::{Messages, Settings};
use super::shard;
use crate::console::{Console, DENIED, write_out};

/// Reports the copies.
#[derive(Debug)]
pub struct Reporter<'a> {
    console: &'a Console,
    messages: &'a Messages,
    options: &'a CopyOptions,
    asks_as: String,
    display: progress::Display,
    warnings: Warnings,
    /// The failures to list at the end, if requested.
    failures: Vec<String>,
    /// The files that are copied whole, and their bytes.
    copied: (usize, u64),
    /// The remedies that were said.
    remedies: Vec<&'static str>,
    /// Lines on standard output would collide with the display.
    out_is_terminal: bool,
    /// Standard output failed: the copies go on, and the exit status is 1.
    out_failed: bool,
}

impl<'a> Reporter<'a> {
    pub fn new(as_name: &str, console: &'a Console, settings: &'a Settings) -> Self {
        let Settings { messages, options, .. } = settings;
        Self {
            options,
            asks_as: as_name.replace(' ', ": "),
            console,
            messages,
            display: progress::Display::new(messages.progress, console),
            warnings: Warnings::default(),
            failures: Vec::new(),
            copied: (0, 0),
            remedies: Vec::new(),
            out_is_terminal: io::stdout().is_terminal(),
            out_failed: false,
        }
    }

    pub fn shows_progress(&self) -> bool {
        self.display.is_wanted()
    }

    pub fn expect(&mut self, census: Arc<Census>) {
        self.display.expect(census);
    }

    /// Shows sums over all that is copied, whatever the operands are.
    pub fn sum_up(&mut self) {
        self.display.begin_tree();
    }

    /// Reports the end of a copy; returns whether the file is complete. `seconds` is unknown for
    /// the entries of a tree.
    pub fn ended(
        &mut self,
        (source, target): (&Path, &Path),
        seconds: Option<f64>,
        result: &Result<Done, Error>,
    ) -> bool {
        let report = result.as_ref().ok().and_then(|done| done.report.as_ref());
        let unmoved_bytes = result.as_ref().ok().and_then(|done| done.unmoved_bytes);
        self.display.end(report.map(|report| report.bytes), unmoved_bytes);
        self.report((source, target), seconds, result);
        result.as_ref().is_ok_and(|done| done.complete)
    }

    fn report(
        &mut self,
        (source, target): (&Path, &Path),
        seconds: Option<f64>,
        result: &Result<Done, Error>,
    ) {
        if let Err(error) = result
            && !error.is_declined()
        {
            self.failed(error);
        }
        if let Ok(done) = result {
            let what = match done.action {
                Action::Skipped if self.messages.debug => {
                    Some(self.unless_dry("skipped", "would skip"))
                }
                Action::Attributes if self.messages.verbose && done.complete => {
                    Some(self.unless_dry("updated attributes of", "would update attributes of"))
                }
                _ => None,
            };
            if let Some(what) = what {
                self.line(format_args!("{what} {}", quote::always(target)));
            }
            if done.action == Action::Copied && done.complete {
                self.copied.0 += 1;
                self.copied.1 += done.report.as_ref().map_or(0, |report| report.bytes);
            }
            if let Some(report) = &done.report {
                self.explain(source, report, done);
            }
        }
        if self.messages.json {
            let warnings = match seconds {
                // An operand is reported when all threads of its tree have ended.
                Some(_) => self.warnings.take_all(),
                None => self.warnings.take(),
            };
            let mut record = Record::new((source, target), seconds, warnings, result);
            record.dry_run = self.messages.dry_run;
            self.write_record(&record);
        }
    }

    fn write_record(&mut self, record: &impl Serialize) {
        let text = serde_json::to_string(record);
        let text = text.unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
        self.write_out(text.as_bytes());
    }

    /// How many files a copy that was broken off has left whole.
    pub fn copied(&self) -> String {
        match self.copied {
            (0, _) => "what has arrived whole stays".into(),
            (files, bytes) => {
                let (has, stays) = if files == 1 { ("has", "stays") } else { ("have", "stay") };
                let (files, bytes) = (plural(files, "file"), plural(bytes as usize, "byte"));
                format!("{files} of {bytes} {has} arrived whole and {stays}")
            }
        }
    }

    /// `true` if all lines could be written.
    pub fn finish(mut self) -> bool {
        self.display.finish();
        if !self.failures.is_empty() {
            let failures = plural(self.failures.len(), "failure");
            self.console.say(format_args!("{failures} in all:"));
            self.failures.iter().for_each(|failure| self.console.say(failure));
        }
        !self.out_failed
    }

    /// Removes the display for messages on standard error.
    fn clear_display(&mut self) -> &'a Console {
        self.display.clear();
        self.console
    }

    fn failed(&mut self, error: &Error) {
        let text = self.with_remedy(error);
        self.clear_display().say(&text);
        if self.messages.lists_failures {
            self.failures.push(text);
        }
    }

    /// The message. A tree may fail in each file for one reason: its remedy comes once.
    fn with_remedy(&mut self, error: &Error) -> String {
        let text = error.to_string();
        let Some(errno) = error.io_error().and_then(Errno::from_io_error) else { return text };
        let is_denied = errno == Errno::ACCESS && error.hint().is_none();
        let remedy = match hint_for(Side::Target, errno) {
            None if is_denied && !self.console.is_gnu_name() => DENIED,
            Some(remedy) if error.hint().is_some_and(|hint| hint.ends_with(remedy)) => remedy,
            _ => return text,
        };
        let is_new = !self.remedies.contains(&remedy);
        self.remedies.extend(is_new.then_some(remedy));
        match text.strip_suffix(&format!("{remedy})")) {
            Some(before) if !is_new => match before.strip_suffix("; ") {
                Some(noted) => format!("{noted})"),
                None => before.trim_end_matches(" (").to_owned(),
            },
            None if is_new => format!("{text} ({remedy})"),
            _ => text,
        }
    }

    fn explain(&mut self, source: &Path, report: &Report, done: &Done) {
        if self.messages.debug {
            self.line(debug_line(self.options, report));
        }
        if self.messages.explain {
            let notes = unused_threads(self.options, report).into_iter().chain(verification(done));
            let console = self.clear_display();
            console.say_lines(source, report.explain());
            notes.for_each(|note| console.say_lines(source, note));
        }
    }

    /// The first text, or the second in a dry run.
    fn unless_dry(&self, done: &'static str, would_be: &'static str) -> &'static str {
        if self.messages.dry_run { would_be } else { done }
    }

    /// A line of `-v`: on standard output as in GNU cp, or on standard error with `--json`.
    fn line(&mut self, text: impl Display) {
        if self.messages.json {
            self.clear_display().print(format_args!("{text}\n"));
        } else {
            self.write_out(text.to_string().as_bytes());
        }
    }

    fn write_out(&mut self, line: &[u8]) {
        if self.out_is_terminal {
            self.display.clear();
        }
        if let Err(error) = write_out(&[line, b"\n"].concat())
            && !std::mem::replace(&mut self.out_failed, true)
        {
            self.clear_display().fail_output(&error);
        }
    }
}

impl Events for Reporter<'_> {
    fn enters_tree(&mut self, _source: &Path, _target: &Path) {
        self.display.begin_tree();
    }

    fn entry_ended(&mut self, source: &Path, target: &Path, result: &Result<Done, Error>) {
        self.report((source, target), None, result);
    }

    fn wants_entries(&self) -> bool {
        let Messages { verbose, explain, json, .. } = *self.messages;
        verbose || explain || json
    }

    fn expects(&mut self, files: u64, bytes: u64) {
        self.expect(Arc::new(Census::of(files, bytes)));
    }

    fn wants_counts(&self) -> bool {
        self.display.is_wanted()
    }

    fn counted(&mut self, counts: &TreeCounts, source: &Path) {
        self.display.count(counts, source);
    }

    fn starts(&mut self, source: &Path, target: &Path, backup: Option<&Path>) {
        self.display.begin(source);
        if self.messages.verbose {
            let (from, to) = (quote::always(source), quote::always(target));
            match backup {
                Some(backup) => {
                    let backup = quote::always(backup);
                    self.line(format_args!("{from} -> {to} (backup: {backup})"));
                }
                None => {
                    let copied = self.unless_dry("", "would copy ");
                    self.line(format_args!("{copied}{from} -> {to}"));
                }
            }
        }
    }

    fn made_directory(&mut self, source: &Path, target: &Path) {
        if !self.messages.verbose {
            return;
        }
        if self.messages.json {
            self.line(format_args!("{} -> {}", source.display(), target.display()));
        } else {
            // As GNU cp: without quotes.
            let [source, target] = [source, target].map(|path| path.as_os_str().as_bytes());
            self.write_out(&[source, b" -> ", target].concat());
        }
    }

    fn backup_undone(&mut self, backup: &Path, target: &Path) {
        if self.messages.verbose {
            let (from, to) = (quote::always(backup), quote::always(target));
            self.line(format_args!("{from} -> {to} (unbackup)"));
        }
    }

    fn removed(&mut self, target: &Path) {
        if self.messages.verbose {
            let removed = self.unless_dry("removed", "would remove");
            self.line(format_args!("{removed} {}", quote::always(target)));
        }
    }

    fn mirrored(&mut self, target: &Path, result: &Result<(), Error>) {
        match result {
            Ok(()) => self.removed(target),
            Err(error) => self.failed(error),
        }
        if self.messages.json {
            self.write_record(&Removed::new(target, self.messages.dry_run, result));
        }
    }

    fn waits_for_ranks(&mut self, ranks: &[u32]) {
        let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        self.clear_display().say(format_args!("waiting for {word} {}", ranks.join(", ")));
    }

    fn ranks_ended(&mut self, shares: &[Share]) {
        self.clear_display().say(shard::summary(shares));
    }

    fn warns(&mut self, warning: &Error) {
        self.clear_display().say(warning);
        if self.messages.json {
            self.warnings.add(warning);
        }
    }

    fn may_replace(&mut self, question: &Question<'_>) -> bool {
        let target = quote::always(question.target);
        let (bits, letters) = (question.mode_bits, mode_letters(question.mode_bits));
        let text = match (question.writable, question.replaces) {
            (true, _) => format!("overwrite {target}? "),
            (false, true) => format!("replace {target}, overriding mode {bits:04o} ({letters})? "),
            (false, false) => {
                format!("unwritable {target} (mode {bits:04o}, {letters}); try anyway? ")
            }
        };
        let question = format!("{}: {text}", self.asks_as);
        self.clear_display().print(question);
        let mut answer = Vec::new();
        // A missing or unreadable answer means no.
        let _ = io::stdin().lock().read_until(b'\n', &mut answer);
        matches!(answer.first(), Some(b'y' | b'Y'))
    }

    fn wants_progress(&self) -> bool {
        self.display.is_wanted()
    }

    fn progress(&mut self, progress: &Progress) -> Control {
        self.display.show(progress);
        Control::Continue
    }
}

/// The permissions as `ls -l` shows them, without the type.
fn mode_letters(bits: u32) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut letters = String::new();
    for (group, (special_bit, with, without)) in special.into_iter().enumerate() {
        let rwx = bits >> (6 - 3 * group);
        letters.push(if rwx & 4 != 0 { 'r' } else { '-' });
        letters.push(if rwx & 2 != 0 { 'w' } else { '-' });
        letters.push(match (bits & special_bit != 0, rwx & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// The line of `--debug` as in GNU cp 9.9, from the engine's report.
fn debug_line(options: &CopyOptions, report: &Report) -> String {
    let moving = &options.moving;
    let used = |name| report.methods.iter().find(|used| used.name == name);
    let is_cloned = used(MethodName::Reflink).is_some_and(|used| used.bytes == report.bytes);
    let moved_bytes: u64 = report.methods.iter().map(|used| used.bytes).sum();
    // Holes found by SEEK_HOLE are moved by no method.
    let (has_data, has_holes) = (moved_bytes > 0, report.bytes > moved_bytes);
    let is_auto = moving.choice == Choice::Auto;
    let has_threads = report.methods.iter().any(|used| used.threads > 1);
    let is_offloaded = used(MethodName::CopyFileRange).is_some_and(|used| used.bytes > 0);
    let offload = match moving.reflink {
        _ if is_offloaded => "yes",
        _ if is_cloned || has_holes && !has_data => "unknown",
        Reflink::Never => "avoided",
        _ if moving.holes == Holes::Make || !is_auto || has_threads => "avoided",
        _ if has_data => "unsupported",
        _ => "unknown",
    };
    let reflink = match moving.reflink {
        _ if is_cloned => "yes",
        Reflink::Never => "no",
        _ if !is_auto => "no",
        _ => "unsupported",
    };
    let sparse = match moving.holes {
        _ if is_cloned => "unknown",
        Holes::Make if has_holes && has_data => "SEEK_HOLE + zeros",
        _ if has_holes => "SEEK_HOLE",
        Holes::Make => "zeros",
        // The file system's SEEK_HOLE is not trusted.
        _ if report.hole_bytes > 0 => "zeros",
        _ => "no",
    };
    format!("copy offload: {offload}, reflink: {reflink}, sparse detection: {sparse}")
}

/// A note if several threads were requested and one did all the work.
fn unused_threads(options: &CopyOptions, report: &Report) -> Option<String> {
    let wanted = options.moving.threads;
    let used = report.methods.iter().map(|used| used.threads).max()?;
    (wanted > 1 && used <= 1).then(|| {
        let name = report.main_method().filter(|name| !name.is_parallel());
        let why = name.map_or(
            "the file is too small, or its bytes must be moved in order".to_owned(),
            |name| format!("{name} is single-threaded"),
        );
        format!("--threads {wanted} had no effect: {why}")
    })
}

/// The result of `--verify`.
fn verification(done: &Done) -> Option<String> {
    done.verified.then(|| match done.digest {
        Some(digest) => format!("verified: read back, blake3 {digest}"),
        None => "verified: read back and compared with the source".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_ls_shows_them() {
        assert_eq!(mode_letters(0o444), "r--r--r--");
        assert_eq!(mode_letters(0o7755), "rwsr-sr-t");
        assert_eq!(mode_letters(0o7000), "--S--S--T");
    }
}
