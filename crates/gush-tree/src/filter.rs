//! Which entries of a tree are copied, by name: the user's rules, and the tree's own `.gitignore`
//! files. Patterns are git's, parsed and matched by gitoxide.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use gix_ignore::glob::{Pattern, pattern::Case, wildmatch};
use gush_text::quote;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::open;
use crate::place::Place;
use crate::tree::path::TreePath;

/// Rules about the names in a tree, the first that fits decides. Without a rule that fits, an entry
/// is copied.
///
/// A pattern reads as in a `.gitignore` file, from the tree's root: `*.o` fits in every directory,
/// `/target` in the root alone, `cache/` fits directories only, and `**` any number of directories.
/// The whole of an excluded directory is left out, and no rule brings a part of it back. Patterns
/// and names are compared byte by byte and need not be UTF-8.
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
    /// As they were given.
    given: Arc<[(bool, Vec<u8>)]>,
}

impl Filter {
    /// Reads rules: `true` includes, `false` excludes.
    ///
    /// # Errors
    /// The first pattern that can match no name: an empty one, or one with an unclosed bracket.
    pub fn new<P: AsRef<OsStr>>(rules: &[(bool, P)]) -> Result<Self, String> {
        let parse = |(includes, pattern): &(bool, P)| {
            let pattern = pattern.as_ref();
            let refused = |why| format!("{}: {why}", quote::always(Path::new(pattern)));
            // An escaped sign is a literal one: only `includes` negates.
            let mut line = if *includes { b"!".to_vec() } else { b"\\".to_vec() };
            let text = without_last_blanks(pattern.as_bytes());
            let is_sign = text.starts_with(b"!") || text.starts_with(b"#");
            let skipped = usize::from(!includes && !is_sign);
            line.extend_from_slice(text);
            // git lets such a line match nothing, and what a typing error meant to exclude would be
            // copied.
            if has_unclosed_bracket(text) {
                return Err(refused("unclosed bracket (write \\[ for the character)"));
            }
            Pattern::from_bytes(&line[skipped..]).ok_or_else(|| refused("matches no name"))
        };
        // In a list of lines the last match decides.
        let patterns = rules.iter().rev().map(parse).collect::<Result<_, String>>()?;
        let given = rules
            .iter()
            .map(|(includes, pattern)| (*includes, pattern.as_ref().as_bytes().to_vec()));
        Ok(Self { rules: Arc::new(Rules(patterns)), given: given.collect() })
    }

    /// The rules from which another process makes the same filter.
    #[must_use]
    pub fn rules(&self) -> &[(bool, Vec<u8>)] {
        &self.given
    }

    /// Reads the lines of a file: `- PATTERN` or `PATTERN` excludes, `+ PATTERN` includes, `#`
    /// begins a comment.
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

/// Patterns in the order of their lines: the last one that matches decides.
#[derive(Clone, Debug)]
struct Rules(Vec<Pattern>);

impl Rules {
    /// Whether the entry is excluded; `None` if no pattern matches.
    fn excludes(&self, path: &Path, is_directory: bool) -> Option<bool> {
        let path = path.as_os_str().as_bytes();
        let name_start = path.iter().rposition(|&byte| byte == b'/').map(|slash| slash + 1);
        let matches = |pattern: &&Pattern| {
            let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
            let (path, is_directory) = (path.into(), Some(is_directory));
            pattern.matches_repo_relative_path(
                path,
                name_start,
                is_directory,
                Case::Sensitive,
                mode,
            )
        };
        self.0.iter().rev().find(matches).map(|pattern| !pattern.is_negative())
    }
}

/// Whether a bracket expression never ends, read as git's wildmatch.c does.
fn has_unclosed_bracket(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter().copied().peekable();
    let mut is_open = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'[' if !is_open => {
                is_open = true;
                bytes.next_if(|sign| b"!^".contains(sign));
                // In the first place a closing bracket is a literal one.
                bytes.next_if_eq(&b']');
            }
            // A named class has its own closing bracket.
            b'[' if bytes.next_if_eq(&b':').is_some() => {
                bytes.by_ref().find(|&byte| byte == b']');
            }
            b']' => is_open = false,
            _ => {}
        }
    }
    is_open
}

/// The line without its trailing blanks that no backslash escapes, as of git's
/// trim_trailing_spaces: a tab is part of the pattern.
fn without_last_blanks(line: &[u8]) -> &[u8] {
    let mut kept_bytes = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            kept_bytes = at;
        }
    }
    line.get(..kept_bytes).unwrap_or(line)
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
    /// The rules in a directory with the lines of this `.gitignore`, or with none. As in git, a
    /// line that is no pattern is skipped.
    pub(crate) fn new(
        above: Option<&Arc<Self>>,
        lines: Option<&[u8]>,
        path: &TreePath,
    ) -> Option<Arc<Self>> {
        let Some(lines) = lines else { return above.cloned() };
        let path_bytes = path.below_root().as_os_str().len();
        let rules = Rules(gix_ignore::parse(lines, false).map(|(pattern, ..)| pattern).collect());
        Some(Arc::new(Self { above: above.cloned(), path_bytes, rules }))
    }

    /// The `.gitignore` of a directory, if it has one. As in git, a symbolic link is not followed.
    ///
    /// # Errors
    /// If the file is there and cannot be read: nobody knows what it leaves out.
    pub(crate) fn lines(dir: BorrowedFd<'_>, shown: &Path) -> Result<Option<Vec<u8>>, Error> {
        const NAME: &str = ".gitignore";
        let shown = shown.join(NAME);
        let place = Place::below(dir, Path::new(NAME), &shown);
        let failed = |errno| open::not_opened(&place, "cannot read {}", errno);
        let mut file = match place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        if !is_file {
            return Ok(None);
        }
        let mut lines = Vec::new();
        file.read_to_end(&mut lines).map_err(|error| Error::io(&shown, "cannot read {}", error))?;
        Ok(Some(lines))
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

/// A line without the byte order mark that some editors write at the beginning of a file. git
/// passes over the mark.
fn without_mark(number: usize, mut line: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if number == 0 && line.starts_with(MARK) {
        line.drain(..MARK.len());
    }
    line
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
    fn patterns_match_bytes_that_are_not_utf8() {
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
        for (line, path, is_directory, matches) in cases {
            let filter = Filter::new(&[(false, OsStr::from_bytes(line))]).unwrap();
            let path = Path::new(OsStr::from_bytes(path));
            let found = filter.excludes(path, is_directory);
            assert_eq!(found, matches, "{line:?} {path:?} {is_directory}");
        }
    }

    #[test]
    fn no_bracket_matches_a_slash() {
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
            let filter = Filter::new(&[(false, line)]).unwrap();
            assert!(filter.excludes(Path::new(fits), false), "{line} {fits}");
            assert!(!filter.excludes(Path::new(does_not), false), "{line} {does_not}");
        }
    }

    #[test]
    fn signs_and_blanks_of_a_pattern_are_literal_where_escaped() {
        for (pattern, path, matches) in [
            ("!x", "!x", true),
            ("#x", "#x", true),
            ("\\!x", "!x", true),
            ("\\#x", "#x", true),
            ("\\$x", "$x", true),
            ("$x", "$x", true),
            ("x ", "x", true),
            ("x\\ ", "x ", true),
            ("x\\\\ ", "x\\", true),
            ("x\t", "x\t", true),
            ("x\t ", "x", false),
            ("x\ny", "x\ny", true),
            ("{a,b}", "{a,b}", true),
            ("{a,b}", "a", false),
        ] {
            let filter = Filter::new(&[(false, pattern)]).unwrap();
            assert_eq!(filter.excludes(Path::new(path), false), matches, "{pattern:?} {path:?}");
        }
        for pattern in ["[", "a[b", "[]", "[!]", "[^]", "x[\\]", "[a][", "[[:alpha:]", "\\\\["] {
            assert!(Filter::new(&[(false, pattern)]).is_err(), "{pattern}");
        }
        for pattern in ["[]]", "[!]a]", "x[\\]]", "[[:alpha:]]", "\\[", "[[]z]", "]"] {
            assert!(Filter::new(&[(false, pattern)]).is_ok(), "{pattern}");
        }
        assert!(Filter::new(&[(true, "")]).is_err());
        assert!(Filter::new(&[(false, " ")]).is_err());
    }
}
