//! Compares gush with GNU's tools: a message of gush is GNU's, and may end with a note in brackets.
//! A table has the few sentences that differ.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::cp::{names, stderr};
use super::{gnu, skipped};

/// A sentence of GNU's and gush's sentence for the same fault; `%x` is a name or an error in both.
pub type Sentence = (&'static str, &'static str);

/// One of GNU's programs next to gush, called by the same name and as a command of gush.
pub struct Side {
    pub program: &'static str,
    /// The program's name in the lines of shell, after a `$`.
    pub variable: &'static str,
    /// Shell that makes the files.
    pub files: &'static str,
    pub sentences: &'static [Sentence],
}

/// The answer, and of each file the name, the mode and the content.
type Outcome = (Output, Vec<(String, u32, Vec<u8>)>);

impl Side {
    /// Each line of shell, run in two equal directories, must print the same bytes, leave the same
    /// files, end with the same status, and say the same in gush's words.
    pub fn agrees_on(&self, lines: &[&str]) {
        let theirs = match gnu(self.program) {
            Ok(theirs) => theirs,
            Err(why) => return skipped(&why),
        };
        let programs = tempfile::tempdir().unwrap();
        let ours = programs.path().join(self.program);
        // By the tool's own name gush takes its command line and begins its messages with it.
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gush"), &ours).unwrap();
        let ours = ours.to_str().unwrap().to_owned();
        let command = format!("{} {}", env!("CARGO_BIN_EXE_gush"), self.program);
        let differences: Vec<_> = [ours, command]
            .iter()
            .flat_map(|ours| lines.iter().filter_map(|line| self.difference(line, &theirs, ours)))
            .collect();
        let (number, all) = (differences.len(), 2 * lines.len());
        assert!(differences.is_empty(), "{number} of {all}:\n{}", differences.join("\n"));
    }

    fn difference(&self, line: &str, theirs: &Path, ours: &str) -> Option<String> {
        let theirs = theirs.to_str().unwrap();
        // A command of gush begins its messages with "gush: cat:", and misuse names "gush cat".
        let words = |output: &Output, program: &str| {
            ["gush: ", "gush "]
                .iter()
                .fold(stderr(output).replace(program, self.program), |text, prefix| {
                    text.replace(&format!("{prefix}{}", self.program), self.program)
                })
        };
        let ((their, their_files), (our, our_files)) =
            (self.run(line, theirs), self.run(line, ours));
        let (their_words, our_words) = (words(&their, theirs), words(&our, ours));
        // Version and help are each program's own.
        let prints = !line.contains("--vers") && !line.contains("--help");
        let same = their.status.code() == our.status.code()
            && (!prints || their.stdout == our.stdout)
            && their_files == our_files;
        let agreed = agree(self.sentences, &their_words, &our_words);
        if same && agreed.is_ok() {
            return None;
        }
        let said = |output: &Output, words: &str| {
            let shown = String::from_utf8_lossy(&output.stdout);
            let shown: String = shown.chars().take(60).collect();
            format!("{:?} {shown:?} {words:?}", output.status.code())
        };
        let (theirs, ours) = (said(&their, &their_words), said(&our, &our_words));
        let files = if their_files == our_files { "" } else { " (other files)" };
        Some(format!("{line}{files}\n  GNU  {theirs}\n  gush {ours}\n  {agreed:?}"))
    }

    fn run(&self, line: &str, program: &str) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("bash")
            // The tester's own umask would show in every mode.
            .args(["-c", &format!("umask 022\n{}\n{line}", self.files)])
            .current_dir(dir.path())
            .env(self.variable, program)
            .env("LC_ALL", "C.UTF-8")
            // Both programs would change their rules with it.
            .env_remove("POSIXLY_CORRECT")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let is_file = |name: &String| dir.path().join(name).is_file();
        let content = |name: &String| match is_file(name) {
            true => std::fs::read(dir.path().join(name)).unwrap_or_default(),
            // A FIFO would be waited for.
            false => Vec::new(),
        };
        let mode = |name: &String| dir.path().join(name).symlink_metadata().unwrap().mode();
        let files = names(dir.path())
            .into_iter()
            .map(|name| (name.clone(), mode(&name), content(&name)))
            .collect();
        (output, files)
    }
}

/// Do both say the same, line by line?
///
/// # Errors
/// The first two lines that do not.
pub fn agree(table: &[Sentence], gnu: &str, gush: &str) -> Result<(), String> {
    let (gnu, gush): (Vec<_>, Vec<_>) = (gnu.lines().collect(), gush.lines().collect());
    if gnu.len() != gush.len() {
        return Err(format!("{} lines and {}", gnu.len(), gush.len()));
    }
    for (theirs, ours) in gnu.into_iter().zip(gush) {
        // What follows in brackets is gush's own: how far it got, and a remedy.
        let is_own = |rest: &str| rest.starts_with(" (") && rest.ends_with(')');
        let is_theirs =
            ours.strip_prefix(theirs).is_some_and(|rest| rest.is_empty() || is_own(rest));
        let said = |&(theirs_pattern, ours_pattern): &Sentence| {
            let Some(names) = bind(theirs_pattern, theirs, &HashMap::new()) else { return false };
            let bare = ours
                .strip_suffix(')')
                .and_then(|line| line.rsplit_once(" ("))
                .map(|(bare, _)| bare);
            [Some(ours), bare]
                .into_iter()
                .flatten()
                .any(|line| bind(ours_pattern, line, &names).is_some())
        };
        if !is_theirs && !table.iter().any(said) {
            return Err(format!("'{theirs}' and '{ours}'"));
        }
    }
    Ok(())
}

/// The names in `line`, if the line follows `pattern` and no name is another than in `known`.
fn bind<'l>(
    pattern: &str,
    line: &'l str,
    known: &HashMap<char, &'l str>,
) -> Option<HashMap<char, &'l str>> {
    let mut names = known.clone();
    let mut parts = pattern.split('%');
    let mut rest = line.strip_prefix(parts.next()?)?;
    for part in parts {
        let name = part.chars().next()?;
        let literal = &part[name.len_utf8()..];
        let end = if literal.is_empty() { rest.len() } else { rest.find(literal)? };
        let value = &rest[..end];
        if *names.entry(name).or_insert(value) != value {
            return None;
        }
        rest = &rest[end + literal.len()..];
    }
    rest.is_empty().then_some(names)
}

#[test]
fn sentences_agree_only_about_the_same_names() {
    let table = [("cp: cannot overwrite '%a'", "cp: cannot overwrite '%a' with '%b'")];
    let said = |gnu: &str, gush: &str| agree(&table, gnu, gush).is_ok();
    let stat = "cp: cannot stat 'x': No such file";
    assert!(said(stat, stat) && said(stat, &format!("{stat} (look for it)")));
    for ours in ["cp: cannot stat 'y': No such file", "cp: cannot stat 'x': Loop", ""] {
        assert!(!said(stat, ours), "{ours}");
    }
    assert!(!said(stat, &format!("{stat} look")));
    assert!(said("cp: cannot overwrite 'x'", "cp: cannot overwrite 'x' with 'y' (why)"));
    assert!(!said("cp: cannot overwrite 'x'", "cp: cannot overwrite 'y' with 'x'"));
}
