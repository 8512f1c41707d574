//! Standard error: lines of progress over each other, and messages between them.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

use rustix::process::getpgrp;
use rustix::stdio::stderr as stderr_fd;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::slot::Slot;
use crate::talk::{self, Talker};

/// How progress is put on the screen.
#[derive(Debug)]
enum Way {
    Nothing,
    /// Each reading on a separate line.
    Lines,
    /// Each line over the one before.
    Over,
    /// In a line that the cursor is moved to.
    Slot(Slot),
}

/// Standard error, as the display uses that descriptor.
#[derive(Debug)]
pub struct Screen {
    way: Way,
    talker: Talker,
    is_terminal: bool,
    /// Shown even where no terminal is.
    is_forced: bool,
    /// The columns of the line that is not ended yet.
    open_columns: Option<usize>,
    /// The terminal keeps the title of before.
    has_title: bool,
    /// The lines of a block, which the cursor is on top of.
    block_lines: usize,
}

/// The options for the screen.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    pub quiet: bool,
    pub numeric: bool,
    pub force: bool,
    pub cursor: bool,
}

impl Screen {
    pub fn new(wishes: Wishes, talker: &Talker) -> Self {
        let is_terminal = stderr().is_terminal();
        let way = match wishes {
            Wishes { quiet: true, .. } => Way::Nothing,
            Wishes { numeric: true, .. } => Way::Lines,
            _ if !is_terminal && !wishes.force => Way::Nothing,
            // Without a place of its own the line is drawn as without -c.
            Wishes { cursor: true, .. } if is_terminal => Slot::take().map_or(Way::Over, Way::Slot),
            _ => Way::Over,
        };
        Self {
            way,
            talker: talker.clone(),
            is_terminal,
            is_forced: wishes.force,
            open_columns: None,
            has_title: false,
            block_lines: 0,
        }
    }

    /// Will anything be shown?
    pub fn is_used(&self) -> bool {
        !matches!(self.way, Way::Nothing)
    }

    /// The columns of the terminal; 80 without one.
    pub fn columns(&self) -> usize {
        talk::columns()
    }

    /// May something be written now? A program in the background leaves the terminal to others; a terminal of another
    /// session has no background.
    fn is_ours(&self) -> bool {
        !self.is_terminal || tcgetpgrp(stderr_fd()).map_or(true, |group| group == getpgrp())
    }

    /// Shows `line` in the place of the line before.
    pub fn show(&mut self, line: &str) {
        if !self.is_ours() {
            return;
        }
        let columns = gush_text::width(line);
        match &self.way {
            Way::Nothing => {}
            Way::Lines => put(format_args!("{line}\n")),
            Way::Over => {
                let before = self.open_columns.replace(columns).unwrap_or(0);
                // Blanks over the rest of the longer line before; unlike an escape sequence every terminal knows them.
                let blanks = " ".repeat(before.saturating_sub(columns));
                // One write for the whole line: another program's output cannot come into the middle.
                put(format_args!("{line}{blanks}\r"));
            }
            Way::Slot(slot) => slot.show(line),
        }
    }

    /// Shows `lines` in the place of the block before: as many as the terminal has rows, and none to remove the block.
    pub fn show_block(&mut self, lines: &[String]) {
        if !self.is_ours() {
            return;
        }
        match &self.way {
            Way::Nothing => {}
            Way::Lines => put(lines.iter().map(|line| format!("{line}\n")).collect::<String>()),
            Way::Over | Way::Slot(_) => {
                let rows = tcgetwinsize(stderr_fd()).map_or(25, |size| usize::from(size.ws_row));
                // A block as high as the terminal would scroll, and the cursor would miss its top.
                let lines = &lines[..lines.len().min(rows.max(2) - 1)];
                // Lines that the shorter block no longer has are emptied.
                let height = lines.len().max(self.block_lines);
                let line = |at: usize| lines.get(at).map_or("", String::as_str);
                let mut text: Vec<String> =
                    (0..height).map(|at| format!("{}\x1b[K", line(at))).collect();
                // Back to the top, so that the next block is drawn over this one.
                if let (Some(last), Some(up @ 1..)) = (text.last_mut(), height.checked_sub(1)) {
                    last.push_str(&format!("\r\x1b[{up}A"));
                }
                put(text.join("\r\n") + "\r");
                self.block_lines = lines.len();
            }
        }
    }

    /// Gives the window a title, which [`Self::close`] takes back (XTWINOPS of xterm's control sequences).
    pub fn show_title(&mut self, text: &str) {
        if !(self.is_terminal || self.is_forced) || !self.is_ours() {
            return;
        }
        let keeps = self.is_terminal && !std::mem::replace(&mut self.has_title, true);
        // Kept once: a second time would keep our own title.
        let keep = if keeps { "\x1b[22;2t" } else { "" };
        put(format_args!("{keep}\x1b]2;{text}\x1b\\"));
    }

    /// Writes a message on a separate line.
    pub fn say(&mut self, what: impl Display) {
        self.close();
        self.talker.say(what);
    }

    /// Writes `line` without a prefix, on a separate line.
    pub fn print(&mut self, line: impl Display) {
        self.close();
        put(format_args!("{line}\n"));
    }

    /// Shows nothing more, and leaves the line among those of several `pv -c` to others.
    pub fn leave(&mut self) {
        self.close();
        self.way = Way::Nothing;
    }

    /// Ends the line of progress, if one is open, or removes the block, and gives the window back the earlier title.
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

/// Writes to standard error at once. A failure is ignored, because nowhere is left to report it.
pub fn put(text: impl Display) {
    let _ = stderr().lock().write_all(text.to_string().as_bytes());
}
