//! Which entries of a tree are copied, by name: the user's rules, and the tree's own `.gitignore` files.

mod rules;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rules::{Builder, Rules};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::open;
use crate::place::Place;
use crate::quote;

/// Rules about the names in a tree, the first that fits decides. Without a rule that fits, an entry is copied.
///
/// A pattern reads as in a `.gitignore` file, from the tree's root: `*.o` fits in every directory, `/target` in the root
/// alone, `cache/` fits directories only, and `**` any number of directories. The whole of an excluded directory is left
/// out, and no rule brings a part of it back. Patterns and names are compared byte by byte, and may be no text.
///
/// ```
/// use std::path::Path;
/// use gush_tree::Filter;
///
/// let filter = Filter::new(&[(false, "/target"), (true, "keep.o"), (false, "*.o")])?;
/// assert!(filter.excludes(Path::new("target"), true));
/// assert!(!filter.excludes(Path::new("src/target"), true));
/// assert!(filter.excludes(Path::new("src/main.o"), false));
/// assert!(!filter.excludes(Path::new("src/keep.o"), false));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Arc<Rules>,
}

impl Filter {
    /// Reads rules: `true` includes, `false` excludes.
    ///
    /// # Errors
    /// The first pattern that cannot be read, and why.
    pub fn new<P: AsRef<OsStr>>(rules: &[(bool, P)]) -> Result<Self, String> {
        let mut builder = Builder::new();
        // There the last line that fits decides.
        for (includes, pattern) in rules.iter().rev() {
            let pattern = pattern.as_ref();
            let wrong = |why: String| format!("{}: {why}", quote::always(Path::new(pattern)));
            let Some((text, is_text)) = rules::as_text(pattern.as_bytes()) else {
                return Err(wrong("not valid UTF-8 beside characters of the last plane".into()));
            };
            // White space at the end is not the pattern's, as in a file.
            let text = if is_text { text.as_str() } else { text.trim_end() };
            let sign = if *includes { "!" } else { "" };
            let is_comment = !includes && text.starts_with(['#', '!']);
            let escape = if is_comment { "\\" } else { "" };
            builder.add(&format!("{sign}{escape}{text}"), is_text).map_err(wrong)?;
        }
        Ok(Self { rules: Arc::new(builder.build()?) })
    }

    /// Reads the lines of a file: `- PATTERN` or `PATTERN` excludes, `+ PATTERN` includes, `#` begins a comment.
    ///
    /// ```
    /// let rules = gush_tree::Filter::read_lines("# sources\n+ *.c\n- *.o\n\ntmp/\n".as_bytes()).unwrap();
    /// let expected = [(true, "*.c"), (false, "*.o"), (false, "tmp/")];
    /// assert_eq!(rules, expected.map(|(includes, pattern)| (includes, pattern.into())));
    /// ```
    ///
    /// # Errors
    /// Of the reader.
    pub fn read_lines(lines: impl BufRead) -> std::io::Result<Vec<(bool, OsString)>> {
        let mut rules = Vec::new();
        for (number, line) in lines.split(b'\n').enumerate() {
            let line = without_mark(number, line?);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let (includes, pattern) = match line {
                [b'+', b' ', pattern @ ..] => (true, pattern),
                [b'-', b' ', pattern @ ..] => (false, pattern),
                line => (false, line),
            };
            let is_blank = String::from_utf8_lossy(line).trim().is_empty();
            if !is_blank && !line.starts_with(b"#") {
                rules.push((includes, OsString::from_vec(pattern.to_vec())));
            }
        }
        Ok(rules)
    }

    /// Is the entry left out? `path` starts from the tree's root.
    #[must_use]
    pub fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        self.rules.excludes(path, is_directory).unwrap_or(false)
    }

    /// Is a file left out, by its own name or by that of a directory it is in?
    pub(crate) fn excludes_or_above(&self, file: &Path) -> bool {
        let mut above = file.ancestors().filter(|path| !path.as_os_str().is_empty());
        above.find_map(|path| self.rules.excludes(path, path != file)).unwrap_or(false)
    }
}

/// The reason alone: the pattern in the message of `ignore` begins with our sign for inclusion.
fn reason(error: ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err,
        ignore::Error::WithLineNumber { err, .. } | ignore::Error::WithPath { err, .. } => {
            reason(*err)
        }
        other => other.to_string(),
    }
}

/// The `.gitignore` files from the tree's root to one directory.
#[derive(Debug)]
pub(crate) struct GitIgnored {
    above: Option<Arc<GitIgnored>>,
    /// The length of the directory's path from the root.
    path_bytes: usize,
    rules: Rules,
}

impl GitIgnored {
    /// Reads the `.gitignore` of a directory whose path from the root has so many bytes. As git: a symbolic link is not
    /// followed, and a line that cannot be read is passed over.
    ///
    /// # Errors
    /// If the file is there and cannot be read: nobody knows what it leaves out.
    pub(crate) fn read(
        above: Option<&Arc<Self>>,
        dir: BorrowedFd<'_>,
        (shown, path_bytes): (&Path, usize),
    ) -> Result<Option<Arc<Self>>, Error> {
        const NAME: &str = ".gitignore";
        let shown = shown.join(NAME);
        let place = Place::below(dir, Path::new(NAME), &shown);
        let failed = |errno| open::not_opened(&place, "cannot read", errno);
        let file = match place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(above.cloned()),
            Err(errno) => return Err(failed(errno)),
        };
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        if !is_file {
            return Ok(above.cloned());
        }
        let mut builder = Builder::new();
        for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
            let line = line.map_err(|error| Error::io(&shown, "cannot read", error))?;
            let line = without_mark(number, line);
            if let Some((text, is_text)) = rules::as_text(&line)
                && let Some(text) = for_globset(&text)
            {
                let _ = builder.add(&text, is_text);
            }
        }
        let Ok(rules) = builder.build() else { return Ok(above.cloned()) };
        Ok(Some(Arc::new(Self { above: above.cloned(), path_bytes, rules })))
    }

    /// Is the entry left out? The nearest file that has a rule about it decides.
    pub(crate) fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        let mut at = Some(self);
        while let Some(dir) = at {
            if let Some(excludes) = dir.rules.excludes(dir.below(path), is_directory) {
                return excludes;
            }
            at = dir.above.as_deref();
        }
        false
    }

    fn below<'p>(&self, path: &'p Path) -> &'p Path {
        let below = path.as_os_str().as_bytes().get(self.path_bytes..).unwrap_or_default();
        Path::new(OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below)))
    }
}

/// A line without the byte order mark that some editors write at the beginning of a file. git passes over the mark.
fn without_mark(number: usize, mut line: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if number == 0 && line.starts_with(MARK) {
        line.drain(..MARK.len());
    }
    line
}

/// Classes of characters in the brackets of a pattern (glob(7)), without the slash, which no pattern for a name fits.
const CLASSES: [(&str, &str); 12] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("blank", " \t"),
    ("cntrl", "\u{1}-\u{1f}\u{7f}"),
    ("digit", "0-9"),
    ("graph", "0-~!-."),
    ("lower", "a-z"),
    ("print", "0-~ -."),
    ("punct", ":-@!-.[-`{-~"),
    ("space", " \t-\r"),
    ("upper", "A-Z"),
    ("xdigit", "0-9A-Fa-f"),
];

/// A line of a `.gitignore` in the words of `globset`, which has alternatives in braces, as git has not, and lacks git's classes of characters. `None` of a
/// line that fits nothing: without a name, with a bracket that is never closed or names no class, or with a backslash or two slashes at its end.
fn for_globset(line: &str) -> Option<String> {
    // As git: a line may end as on Windows.
    let line = without_last_blanks(line.strip_suffix('\r').unwrap_or(line));
    let name = line.strip_prefix('!').unwrap_or(line);
    let name = name.strip_suffix('/').unwrap_or(name);
    let last_backslashes = name.len() - name.trim_end_matches('\\').len();
    // No path ends in the slash that is left of two.
    if name.is_empty() || name.ends_with('/') || last_backslashes % 2 == 1 {
        return None;
    }
    let mut rest = line;
    let mut words = String::with_capacity(rest.len());
    while let Some(first) = rest.chars().next() {
        let is_last_word =
            rest.trim_start().is_empty() || rest.trim_start_matches('\\').trim_start().is_empty();
        let (taken, written) = match first {
            // The crate would take white space at the end away.
            blank if blank.is_whitespace() && is_last_word => {
                (blank.len_utf8(), format!("[{blank}]"))
            }
            '\\' if rest[1..].starts_with(char::is_whitespace) && is_last_word => {
                let blank = rest[1..].chars().next().unwrap_or(' ');
                (1 + blank.len_utf8(), format!("[{blank}]"))
            }
            // The crate takes a backslash before the last slash away.
            '\\' if rest[1..].starts_with('\\') => (2, "[\\]".to_owned()),
            '\\' => {
                let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
                (1 + escaped, rest[..1 + escaped].to_owned())
            }
            // More than two stars are two.
            '*' => {
                let stars = rest.len() - rest.trim_start_matches('*').len();
                (stars, "*".repeat(stars.min(2)))
            }
            '{' | '}' => (1, format!("\\{first}")),
            '[' => bracket(rest)?,
            other => (other.len_utf8(), other.to_string()),
        };
        words += &written;
        rest = &rest[taken..];
    }
    Some(words)
}

/// A line without the blanks at its end that no backslash precedes (`trim_trailing_spaces` of git's dir.c).
fn without_last_blanks(line: &str) -> &str {
    let (mut end, mut letters) = (0, line.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            ' ' => {}
            '\\' => match letters.next() {
                Some((at, escaped)) => end = at + escaped.len_utf8(),
                None => return line,
            },
            other => end = at + other.len_utf8(),
        }
    }
    &line[..end]
}

/// The name of the class at the start of `text`, a part of a bracket expression, and the length with its marks; `Some(None)` where none begins. `None` where the
/// bracket is never closed.
fn class_at(text: &str) -> Option<Option<(&str, usize)>> {
    const MARKS_BYTES: usize = "[::]".len();
    let Some(rest) = text.strip_prefix("[:") else { return Some(None) };
    // As git: without a colon before the next bracket the first one stands for itself.
    let name = rest[..rest.find(']')?].strip_suffix(':');
    Some(name.map(|name| (name, name.len() + MARKS_BYTES)))
}

/// The bytes of a bracket expression at the start of `text`, and the same expression for globset, which knows neither backslashes nor
/// names of classes there. The steps are those of `dowild` of git's wildmatch.c.
fn bracket(text: &str) -> Option<(usize, String)> {
    let mut at = 1;
    let is_negated = text[at..].starts_with(['!', '^']);
    at += usize::from(is_negated);
    let (mut ranges, mut single, mut before) = (String::new(), BTreeSet::new(), None);
    let first = at;
    loop {
        let rest = &text[at..];
        let mut letters = rest.chars();
        let next = letters.next()?;
        // At the first place it stands for itself.
        if next == ']' && at > first {
            at += 1;
            break;
        }
        let (mut taken, mut now) = (next.len_utf8(), None);
        if next == '\\' {
            let escaped = letters.next()?;
            taken += escaped.len_utf8();
            single.insert(escaped);
            now = Some(escaped);
        } else if let (Some(least), '-') = (before, next)
            && let Some(most) = letters.next().filter(|&most| most != ']')
        {
            let most = if most == '\\' { letters.next()? } else { most };
            taken = rest.len() - letters.as_str().len();
            if least < most {
                ranges += &format!("{least}-{most}");
            }
        } else if let Some((name, class_bytes)) = class_at(rest)? {
            let (_, characters) = CLASSES.iter().find(|(known, _)| *known == name)?;
            ranges += characters;
            taken = class_bytes;
        } else {
            single.insert(next);
            now = Some(next);
        }
        (at, before) = (at + taken, now);
    }
    // In globset ] stands for itself at the first place, - at the first and the last, and ! and ^ at none that is the first.
    let is_odd = |letter: &char| "]-!^".contains(*letter);
    let plain: String = single.iter().filter(|letter| !is_odd(letter)).collect();
    let has =
        |letter: char| if single.contains(&letter) { letter.to_string() } else { String::new() };
    let not = if is_negated { "!" } else { "" };
    let [close, minus, bang, caret] = [']', '-', '!', '^'].map(has);
    let starts_badly = !is_negated && close.is_empty() && plain.is_empty() && ranges.is_empty();
    let written = match (starts_badly, &*minus, &*bang, &*caret) {
        (true, "", "!", "^") => "{\\!,\\^}".to_owned(),
        (true, "", one, other) => format!("\\{one}{other}"),
        (true, ..) => format!("[-{bang}{caret}]"),
        (false, ..) => format!("[{not}{close}{ranges}{plain}{bang}{caret}{minus}]"),
    };
    Some((at, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_on_a_file_comes_before_those_on_the_directories_above() {
        let rules = [(true, "a/keep"), (false, "a/"), (true, "a/b/"), (false, "x"), (false, "y/")];
        let filter = Filter::new(&rules).unwrap();
        for (file, is_excluded) in [
            ("a/keep", false),
            ("a/other", true),
            ("a/b/f", false),
            ("a/b/x", true),
            // A file of that name is no directory.
            ("y", false),
            ("y/f", true),
            ("y/b/f", true),
            ("f", false),
        ] {
            assert_eq!(filter.excludes_or_above(Path::new(file)), is_excluded, "{file}");
        }
    }

    #[test]
    fn lines_of_git_become_those_of_globset() {
        for (git, globset) in [
            ("*.log", "*.log"),
            ("{a,b}", "\\{a,b\\}"),
            ("[{]", "[{]"),
            ("\\{\\[[:alpha:]", "\\{\\[[:ahlp]"),
            ("\\[", "\\["),
            ("\\\\/", "[\\]/"),
            ("a[[:digit:]x]b", "a[0-9x]b"),
            ("[^[:space:]]", "[! \t-\r]"),
            ("[]a]", "[]a]"),
            ("q\\ \r", "q[ ]"),
            ("q  ", "q"),
            ("q\\   ", "q[ ]"),
            ("q\t", "q[\t]"),
            ("f[a\\-z]", "f[az-]"),
            ("w[\\w]w", "w[w]w"),
            ("x[\\]]y", "x[]]y"),
            ("k[!\\]]k", "k[!]]k"),
            ("[b-\\d]", "[b-db]"),
            ("[z-a]", "[z]"),
            ("***/a", "**/a"),
            ("a****", "a**"),
            ("\\***", "\\***"),
            ("[[:]a]", "[:[]a]"),
            ("[[:a]", "[:[a]"),
            ("[!^]", "[!^]"),
            ("[\\^]", "\\^"),
            ("[\\^!]", "{\\!,\\^}"),
            ("[\\^-]", "[-^]"),
        ] {
            assert_eq!(for_globset(git).as_deref(), Some(globset), "{git}");
        }
        let never_closed = ["[", "a[b", "[]", "[!]", "![", "x[\\]", "[a][", "[[:alpha:]"];
        let no_name = ["!", "/", "!/", "\\/", "a\\", "a\\\\\\/", "!\r"];
        let no_class = ["[[:foo:]]", "[^a[::]]", "[a[:Alpha:]]"];
        let two_slashes = ["**//", "/**//", "a//", "!**//"];
        let odd = [&no_name[..], &no_class, &two_slashes].concat();
        for line in never_closed.into_iter().chain(odd) {
            assert_eq!(for_globset(line), None, "{line}");
        }
    }
}
