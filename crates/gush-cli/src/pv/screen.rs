//! Standard error: lines of progress that replace each other, and messages between them.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

use rustix::process::getpgrp;
use rustix::stdio::stderr as stderr_fd;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::args::PvArgs;
use super::cursor::CursorLine;
use crate::console::Console;

/// How progress is shown.
#[derive(Debug)]
enum Mode {
    Nothing,
    /// Each reading on a separate line.
    Lines,
    /// Each line replaces the previous one.
    Over,
    /// On a line that the cursor is moved to (`-c`).
    CursorLine(CursorLine),
}

#[derive(Debug)]
pub struct Screen {
    mode: Mode,
    console: Console,
    is_terminal: bool,
    /// Shown even without a terminal.
    is_forced: bool,
    /// The columns of the current line, if it has not ended.
    open_columns: Option<usize>,
    /// The terminal has saved its earlier title.
    has_title: bool,
    /// The lines of the current block; the cursor is on the first.
    block_lines: usize,
}

impl Screen {
    pub fn new(options: &PvArgs, console: &Console) -> Self {
        let (display, is_terminal) = (&options.display, stderr().is_terminal());
        let mode = match is_terminal {
            _ if display.quiet => Mode::Nothing,
            _ if display.numeric || options.json => Mode::Lines,
            false if !options.force => Mode::Nothing,
            // Without a reserved line, as without -c.
            true if display.cursor => CursorLine::take().map_or(Mode::Over, Mode::CursorLine),
            _ => Mode::Over,
        };
        Self {
            mode,
            console: console.clone(),
            is_terminal,
            is_forced: options.force,
            open_columns: None,
            has_title: false,
            block_lines: 0,
        }
    }

    /// Whether anything is shown.
    pub fn is_used(&self) -> bool {
        !matches!(self.mode, Mode::Nothing)
    }

    /// Whether this process may write now: a background process leaves the terminal to others. A
    /// terminal of another session has no background.
    fn is_ours(&self) -> bool {
        !self.is_terminal || tcgetpgrp(stderr_fd()).map_or(true, |group| group == getpgrp())
    }

    /// Shows `line` in place of the previous one.
    pub fn show(&mut self, line: &str) {
        if !self.is_ours() {
            return;
        }
        let columns = gush_text::width(line);
        match &self.mode {
            Mode::Nothing => {}
            Mode::Lines => put(format_args!("{line}\n")),
            Mode::Over => {
                let before = self.open_columns.replace(columns).unwrap_or(0);
                // Blanks over the rest of a longer line work on every terminal, unlike an escape
                // sequence.
                let blanks = " ".repeat(before.saturating_sub(columns));
                // One write, so that no other program's output gets into the line.
                put(format_args!("{line}{blanks}\r"));
            }
            Mode::CursorLine(cursor) => cursor.show(line),
        }
    }

    /// Shows `lines`, the last of them on a low terminal, in place of the previous block; none
    /// removes it.
    pub fn show_block(&mut self, lines: &[String]) {
        if !self.is_ours() {
            return;
        }
        match &self.mode {
            Mode::Nothing => {}
            Mode::Lines => put(lines.iter().map(|line| format!("{line}\n")).collect::<String>()),
            Mode::Over | Mode::CursorLine(_) => {
                let rows = tcgetwinsize(stderr_fd()).map_or(25, |size| usize::from(size.ws_row));
                let lines = &within(lines, rows.max(2) - 1);
                // Empty the lines that a shorter block no longer has.
                let height = lines.len().max(self.block_lines);
                let line = |at: usize| lines.get(at).map_or("", String::as_str);
                let mut text: Vec<String> =
                    (0..height).map(|at| format!("{}\x1b[K", line(at))).collect();
                // Back to the top, where the next block is drawn.
                if let (Some(last), Some(up @ 1..)) = (text.last_mut(), height.checked_sub(1)) {
                    last.push_str(&format!("\r\x1b[{up}A"));
                }
                put(text.join("\r\n") + "\r");
                self.block_lines = lines.len();
            }
        }
    }

    /// Sets the window title, which [`Self::close`] restores (XTWINOPS of xterm's control
    /// sequences).
    pub fn show_title(&mut self, text: &str) {
        if !(self.is_terminal || self.is_forced) || !self.is_ours() {
            return;
        }
        let keeps = self.is_terminal && !std::mem::replace(&mut self.has_title, true);
        // Save once: a second time would save our own title.
        let keep = if keeps { "\x1b[22;2t" } else { "" };
        put(format_args!("{keep}\x1b]2;{text}\x1b\\"));
    }

    /// Writes a message on a separate line.
    pub fn say(&mut self, what: impl Display) {
        self.close();
        self.console.say(what);
    }

    /// Writes `line` without a prefix, on a separate line.
    pub fn print(&mut self, line: impl Display) {
        self.close();
        put(format_args!("{line}\n"));
    }

    /// Ends the display, and gives up the line of `-c`.
    pub fn leave(&mut self) {
        self.close();
        self.mode = Mode::Nothing;
    }

    /// Ends the current line, or removes the block, and restores the window title.
    pub fn close(&mut self) {
        if std::mem::take(&mut self.has_title) {
            put("\x1b[23;2t");
        }
        if self.block_lines > 0 {
            self.show_block(&[]);
        }
        if self.open_columns.take().is_some() {
            put(format_args!("\n"));
        }
    }
}

/// At most so many lines: a block as high as the terminal would scroll. The last ones are kept,
/// which say what follows from the others.
fn within(lines: &[String], most: usize) -> Vec<String> {
    let Some(hidden) = lines.len().checked_sub(most).filter(|&over| over > 0) else {
        return lines.to_vec();
    };
    let note = format!("({} more lines need a higher terminal)", hidden + 1);
    std::iter::once(note).chain(lines[hidden + 1..].iter().cloned()).collect()
}

/// Writes to standard error. A failure is ignored, as it cannot be reported.
pub fn put(text: impl Display) {
    let _ = stderr().lock().write_all(text.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_low_terminal_shows_the_end_of_a_block() {
        let lines: Vec<String> = (1..=5).map(|line| line.to_string()).collect();
        assert_eq!(super::within(&lines, 5), lines);
        assert_eq!(super::within(&lines, 3), ["(3 more lines need a higher terminal)", "4", "5"]);
        assert_eq!(super::within(&lines, 1), ["(5 more lines need a higher terminal)"]);
    }
}
