//! `-x`: progress in the titles of the window and of the process.

use serde::{Deserialize, Serialize};

use super::args::Display;
use super::line::{Layout, Subject};
use super::screen::Screen;

/// The value of `--extra-display`: `PLACE[,PLACE][:FORMAT]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    window: bool,
    process: bool,
    /// The format of the usual display if none.
    format: Option<String>,
}

impl Extra {
    /// # Errors
    /// The valid places.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (places, format) = match text.split_once(':') {
            Some((places, format)) => (places, Some(format.to_owned())),
            None => (text, None),
        };
        let mut extra = Self { format, ..Self::default() };
        for word in places.split(',') {
            match word {
                "windowtitle" | "window" => extra.window = true,
                "processtitle" | "proctitle" | "process" | "proc" => extra.process = true,
                _ => return Err("expected windowtitle or processtitle"),
            }
        }
        Ok(extra)
    }

    /// The layout of the titles, given that of the usual display.
    pub fn layout(&self, display: &Display, layout: &Layout) -> Layout {
        match &self.format {
            None => layout.clone(),
            Some(format) => {
                let display = Display { format: Some(format.clone()), ..display.clone() };
                let counts_lines = layout.unit.lines;
                Layout::new(&display, Subject { counts_lines, ..Subject::default() })
            }
        }
    }

    /// Puts `line` into the titles.
    pub fn show(&self, line: &str, screen: &mut Screen) {
        let text = plain(line);
        if self.window {
            screen.show_title(&text);
        }
        if self.process {
            gush_process::set_title(&format!("pv: {text}"));
        }
    }
}

/// `line` without colours, and without other control characters, which could end a title.
fn plain(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    let text = pieces
        .fold(first, |text, piece| text + piece.split_once('m').map_or(piece, |(_, rest)| rest));
    text.trim_end().replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_may_have_a_format() {
        let extra = |window, process, format: Option<&str>| {
            Ok(Extra { window, process, format: format.map(str::to_owned) })
        };
        assert_eq!(Extra::parse("windowtitle"), extra(true, false, None));
        assert_eq!(Extra::parse("process,window:%b:%t"), extra(true, true, Some("%b:%t")));
        assert_eq!(Extra::parse("proctitle:"), extra(false, true, Some("")));
        for odd in ["", "title", "window,", ":%b"] {
            assert!(Extra::parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn nothing_ends_a_title_but_its_end() {
        assert_eq!(plain("\x1b[31m5 B\x1b[0m \u{7}x\x1b\\  "), "5 B \u{fffd}x\u{fffd}\\");
    }
}
