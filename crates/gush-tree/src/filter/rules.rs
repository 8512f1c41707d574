//! Lines of rules, as of a `.gitignore` file: the last one that fits decides.
//!
//! `ignore` takes lines of text. In a line that is no text, each byte that belongs to no character becomes a placeholder; globset makes
//! a regular expression of the line, and there each placeholder becomes its byte again. In globset brackets may fit a slash, as in
//! `[!a]`, and in git they never do: such lines become regular expressions, too.

use std::path::Path;

use globset::GlobBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use std::os::unix::ffi::OsStrExt;

/// The placeholder of the byte 0 would be this character, of the last private plane.
const PLACEHOLDERS: u32 = 0x10_ff00;

fn placeholder(byte: u8) -> char {
    char::from_u32(PLACEHOLDERS + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn is_placeholder(letter: char) -> bool {
    (0x80..=0xff).contains(&u32::from(letter).wrapping_sub(PLACEHOLDERS))
}

/// The line as text; `None` if it has a placeholder beside such bytes, where nobody could tell one from the other.
pub(super) fn as_text(line: &[u8]) -> Option<(String, bool)> {
    if let Ok(text) = std::str::from_utf8(line) {
        return Some((text.to_owned(), true));
    }
    let mut text = String::with_capacity(line.len() + 16);
    for chunk in line.utf8_chunks() {
        if chunk.valid().contains(is_placeholder) {
            return None;
        }
        text += chunk.valid();
        text.extend(chunk.invalid().iter().copied().map(placeholder));
    }
    Some((text, false))
}

/// A regular expression of globset, in which each placeholder is its byte again.
fn with_bytes(regex: &str) -> String {
    // The placeholders begin with two of these (UTF-8), and globset writes each byte beyond ASCII so.
    const STARTS: [(&str, u8); 2] = [(r"\xf4\x8f\xbe\x", 0), (r"\xf4\x8f\xbf\x", 0x40)];
    let mut out = regex.to_owned();
    for (start, above) in STARTS {
        let mut parts = out.split(start);
        let mut written = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
            match byte {
                Some(byte) => written += &format!(r"\x{:02x}{}", byte + above, &part[2..]),
                None => written += &format!("{start}{part}"),
            }
        }
        out = written;
    }
    out
}

/// May a bracket of the line fit a slash? It may if it is negated, holds the slash, or has a range around the slash.
fn may_fit_slash(line: &str) -> bool {
    let is_around = |range: &[u8]| range[1] == b'-' && range[0] <= b'/' && b'/' <= range[2];
    let is_negated = line.contains("[!") || line.contains("[^");
    // From the first bracket to the last one may be several, which the regular expression serves as well.
    let brackets = line.find('[').zip(line.rfind(']')).and_then(|(from, to)| line.get(from..to));
    let has_slash = brackets.is_some_and(|brackets| brackets.contains('/'));
    line.contains('[') && (is_negated || has_slash || line.as_bytes().windows(3).any(is_around))
}

/// A regular expression of globset in which no bracket fits a slash (`dowild` of git's wildmatch.c).
fn without_slashes(regex: &str) -> String {
    let (mut out, mut letters) = (String::with_capacity(regex.len()), regex.chars());
    let mut is_in_brackets = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                out.push(letter);
                out.extend(letters.next());
            }
            '[' if letters.as_str().starts_with('^') => {
                letters.next();
                out += "[^/";
            }
            '[' => {
                is_in_brackets = true;
                out += "[[";
            }
            ']' if is_in_brackets => {
                is_in_brackets = false;
                out += "]&&[^/]]";
            }
            other => out.push(other),
        }
    }
    out
}

/// A line that `ignore` does not take, or understands in another way.
#[derive(Clone, Debug)]
struct Odd {
    regex: Regex,
    includes: bool,
    only_directories: bool,
}

impl Odd {
    /// As `GitignoreBuilder::add_line` reads the line, which is no comment and ends with no blank.
    fn read(line: &str) -> Result<Option<Self>, String> {
        let (includes, line) = match line.strip_prefix('!') {
            Some(line) => (true, line),
            None => (false, line),
        };
        let line = match line.strip_prefix('\\') {
            Some(rest) if !includes && rest.starts_with(['!', '#']) => rest,
            _ => line,
        };
        let (is_absolute, line) = match line.strip_prefix('/') {
            Some(line) => (true, line),
            None => (false, line),
        };
        let (only_directories, line) = match line.strip_suffix('/') {
            Some(line) => (true, line.strip_suffix('\\').unwrap_or(line)),
            None => (false, line),
        };
        if line.is_empty() {
            return Ok(None);
        }
        let mut glob = line.to_owned();
        if !is_absolute && !glob.contains('/') {
            glob.insert_str(0, "**/");
        }
        if glob.ends_with("/**") {
            glob += "/*";
        }
        let glob = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            // A bracket that is never closed fits nothing.
            .allow_unclosed_class(false)
            .build()
            .map_err(|error| error.kind().to_string())?;
        // As globset compiles it.
        let syntax = syntax::Config::new().utf8(false).dot_matches_new_line(true);
        let config = Regex::config().utf8_empty(false);
        let regex = Regex::builder()
            .syntax(syntax)
            .configure(config)
            .build(&with_bytes(&without_slashes(glob.regex())))
            .map_err(|error| error.to_string())?;
        Ok(Some(Self { regex, includes, only_directories }))
    }

    fn fits(&self, path: &Path, is_directory: bool) -> bool {
        (is_directory || !self.only_directories) && self.regex.is_match(path.as_os_str().as_bytes())
    }
}

#[derive(Clone, Debug)]
enum Part {
    Text(Gitignore),
    Odd(Odd),
}

/// Rules, in the order of their lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<Part>);

impl Rules {
    /// Does the last rule that fits exclude the entry? `None` if no rule fits.
    pub(super) fn excludes(&self, path: &Path, is_directory: bool) -> Option<bool> {
        self.0.iter().rev().find_map(|part| match part {
            Part::Text(rules) => {
                let matched = rules.matched(path, is_directory);
                (!matched.is_none()).then(|| matched.is_ignore())
            }
            Part::Odd(rule) => rule.fits(path, is_directory).then_some(!rule.includes),
        })
    }
}

/// Lines on their way to [`Rules`].
pub(super) struct Builder {
    done: Vec<Part>,
    lines: GitignoreBuilder,
    has_lines: bool,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { done: Vec::new(), lines: Self::lines(), has_lines: false }
    }

    fn lines() -> GitignoreBuilder {
        let mut lines = GitignoreBuilder::new("");
        lines.allow_unclosed_class(false);
        lines
    }

    /// Adds a line of text, or one with placeholders.
    pub(super) fn add(&mut self, line: &str, is_text: bool) -> Result<(), String> {
        if is_text && !may_fit_slash(line) {
            self.has_lines = true;
            return self.lines.add_line(None, line).map(drop).map_err(super::reason);
        }
        if line.starts_with('#') {
            return Ok(());
        }
        if let Some(odd) = Odd::read(line)? {
            self.finish_lines()?;
            self.done.push(Part::Odd(odd));
        }
        Ok(())
    }

    fn finish_lines(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.has_lines) {
            let lines = std::mem::replace(&mut self.lines, Self::lines());
            self.done.push(Part::Text(lines.build().map_err(super::reason)?));
        }
        Ok(())
    }

    pub(super) fn build(mut self) -> Result<Rules, String> {
        self.finish_lines()?;
        Ok(Rules(self.done))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_line_that_is_no_text_reads_as_any_other() {
        let cases: [(&[u8], &[u8], bool, bool); 22] = [
            (b"caf\xe9", b"caf\xe9", false, true),
            (b"caf\xe9", b"a/b/caf\xe9", false, true),
            (b"caf\xe9", b"caf\xe8", false, false),
            (b"caf\xe9", b"xcaf\xe9", false, false),
            (b"/caf\xe9", b"caf\xe9", false, true),
            (b"/caf\xe9", b"a/caf\xe9", false, false),
            (b"a/caf\xe9", b"a/caf\xe9", false, true),
            (b"a/caf\xe9", b"b/a/caf\xe9", false, false),
            (b"caf\xe9/", b"caf\xe9", false, false),
            (b"caf\xe9/", b"caf\xe9", true, true),
            (b"\xe9*", b"\xe9xyz", false, true),
            (b"\xe9*", b"\xe9/z", false, false),
            (b"\xe9?", b"\xe9\xff", false, true),
            (b"\xe9?", b"\xe9", false, false),
            (b"[\xe0-\xe9]x", b"\xe5x", false, true),
            (b"[\xe0-\xe9]x", b"\xeax", false, false),
            (b"[!\xe9]x", b"\xeax", false, true),
            (b"[!\xe9]x", b"\xe9x", false, false),
            (b"**/\xe9/**", b"a/\xe9/b/c", false, true),
            (b"\xc3\xa9\xe9", b"\xc3\xa9\xe9", false, true),
            (b"a/**/\xbf", b"a/b/c/\xbf", false, true),
            (b"\\#\x80", b"#\x80", false, true),
        ];
        for (line, path, is_directory, fits) in cases {
            let (text, is_text) = as_text(line).unwrap();
            assert!(!is_text, "{line:?}");
            let mut builder = Builder::new();
            builder.add(&text, is_text).unwrap();
            let rules = builder.build().unwrap();
            let path = Path::new(OsStr::from_bytes(path));
            let decided = rules.excludes(path, is_directory);
            assert_eq!(decided, fits.then_some(true), "{line:?} {path:?} {is_directory}");
        }
    }

    #[test]
    fn no_bracket_fits_a_slash() {
        for (line, fits, does_not) in [
            ("x[!a]y", "xby", "x/y"),
            ("x[^a]y", "b/xby", "x/y"),
            ("x[+-9]y", "x.y", "x/y"),
            ("/d/[!a]y", "d/by", "d//y"),
            ("x[!]]y", "xby", "x/y"),
            ("x[]!]y", "x]y", "x/y"),
            ("x[+-9]\\[[!b]y", "x0[ay", "x/[ay"),
            ("x[\\!-0]y", "x#y", "x/y"),
            ("/x[b/]y", "xby", "x/y"),
            ("/x[]/]y", "x]y", "x/y"),
            ("/[xz]/[b]y", "x/by", "x//y"),
        ] {
            let mut builder = Builder::new();
            builder.add(line, true).unwrap();
            let rules = builder.build().unwrap();
            assert_eq!(rules.excludes(Path::new(fits), false), Some(true), "{line} {fits}");
            assert_eq!(rules.excludes(Path::new(does_not), false), None, "{line} {does_not}");
        }
    }

    #[test]
    fn the_last_line_that_fits_decides_text_or_not() {
        let decide = |lines: &[&[u8]], path: &[u8]| {
            let mut builder = Builder::new();
            for line in lines {
                let (text, is_text) = as_text(line).unwrap();
                builder.add(&text, is_text).unwrap();
            }
            builder.build().unwrap().excludes(Path::new(OsStr::from_bytes(path)), false)
        };
        assert_eq!(decide(&[b"*", b"!\xe9", b"\xe9b"], b"\xe9"), Some(false));
        assert_eq!(decide(&[b"*", b"!\xe9", b"\xe9b"], b"\xe9b"), Some(true));
        assert_eq!(decide(&[b"!\xe9", b"*"], b"\xe9"), Some(true));
        assert_eq!(decide(&[b"\xe9", b"x"], b"y"), None);
        assert_eq!(decide(&[b"#\xe9", b"/\xe9/"], b"#\xe9"), None);
        // A placeholder of the user's own.
        assert!(as_text("\u{10ffe9}".as_bytes()).is_some_and(|(_, is_text)| is_text));
        assert!(as_text(b"\xe9\xf4\x8f\xbf\xa9").is_none());
    }
}
