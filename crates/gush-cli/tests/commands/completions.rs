//! What the Tab key offers, in real shells.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use gush_test as _;
use tempfile::TempDir;

use crate::common::gush;

/// Calls the function as readline does, which takes a `=` for a word by itself.
const BASH: &str = r#"
source "$1"
line=$2
COMP_WORDS=()
for word in ${line//=/ = }; do COMP_WORDS+=("$word"); done
last=
if [[ $line != *= ]]; then
    [[ $line != *" " ]] || COMP_WORDS+=("")
    last=${COMP_WORDS[-1]}
fi
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
compopt() { :; }
_gush gush "$last" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// In a terminal: the line editor of zsh completes nothing without one.
const ZSH: &str = r#"
zmodload zsh/zpty
cd ${1:h}
rm -f found
print -r -- '
PROMPT=
LISTMAX=100000
fpath=($PWD $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    typeset -a found
    builtin compadd -A found "$@"
    (( $#found == 0 )) || print -rl -- $found >>found
    builtin compadd "$@"
}
comppostfuncs=(exit)
' >start
zpty shell zsh -f -i
zpty -w shell 'source ./start; print rea""dy'
zpty -r -m shell answer '*ready*'
zpty -w -n shell "$2"$'\t'
while zpty -r shell answer; do :; done
[[ ! -e found ]] || cat found
"#;

const FISH: &str = r#"
source $argv[1]
cd (dirname $argv[1])
complete -C$argv[2]
"#;

struct Shell {
    name: &'static str,
    script: &'static str,
    args: &'static [&'static str],
    dir: TempDir,
}

impl Shell {
    /// The shell with the completions of the program; `None` where it is not installed.
    fn new(
        name: &'static str,
        script: &'static str,
        args: &'static [&'static str],
    ) -> Option<Self> {
        if Command::new(name).arg("--version").output().is_err() {
            gush_test::skipped(&format!("{name} is not installed"));
            return None;
        }
        let dir = TempDir::new().expect("a directory");
        let output = gush().args(["generate", "completions", name]).output().expect("start");
        assert!(output.status.success(), "{output:?}");
        fs::write(dir.path().join("_gush"), output.stdout).expect("write");
        fs::write(dir.path().join("afile"), "").expect("write");
        Some(Self { name, script, args, dir })
    }

    fn all() -> Vec<Self> {
        let bash = Self::new("bash", BASH, &["--norc", "-c"]);
        let zsh = Self::new("zsh", ZSH, &["-f", "-c"]);
        // Unlike the others, it does not take the next argument for its own name.
        let fish = Self::new("fish", FISH, &["--no-config", "-c"]);
        [bash, zsh, fish].into_iter().flatten().collect()
    }

    /// What the shell offers at the end of a line, without descriptions and `--option=`.
    fn offers(&self, line: &str) -> BTreeSet<String> {
        let home: &Path = self.dir.path();
        let mut command = Command::new(self.name);
        command.args(self.args).arg(self.script);
        if self.name != "fish" {
            command.arg(self.name);
        }
        let output = command
            .arg(home.join("_gush"))
            .arg(line)
            .env("HOME", home)
            .env("TERM", "dumb")
            .current_dir(home)
            .output()
            .expect("start");
        let text = String::from_utf8_lossy(&output.stdout);
        let word = line.rsplit(' ').next().unwrap_or_default();
        let before = word.find('=').map_or("", |at| &word[..=at]);
        let offered = text.lines().filter_map(|line| {
            let found = line.split('\t').next()?;
            Some(found.strip_prefix(before).unwrap_or(found).to_owned())
        });
        offered.filter(|found| !found.is_empty()).collect()
    }
}

fn set(words: &str) -> BTreeSet<String> {
    words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn values_are_completed_in_every_shell() {
    let methods = "auto reflink copy-file-range sendfile splice vmsplice mmap-write mmap-copy read-mmap read-write direct uring";
    let cases = [
        ("gush cp --reflink=", "auto always never"),
        ("gush cp --reflink=a", "auto always"),
        ("gush cp --sparse=", "auto always never"),
        ("gush cp --sparse ", "auto always never"),
        ("gush cp --update=n", "none none-fail"),
        ("gush cp --method=", methods),
        ("gush cp --method ", methods),
        ("gush cp -r --method=re", "reflink read-mmap read-write"),
        ("gush cp --preserve=x", "xattr"),
        ("gush cat --method=s", "sendfile splice"),
        ("gush link --progress=", "auto always never"),
        ("gush tee --output-error=", "warn warn-nopipe exit exit-nopipe"),
        ("gush generate completions ", "bash elvish fish powershell zsh"),
        ("gush generate completions f", "fish"),
        ("gush help c", "cp cat"),
    ];
    for shell in Shell::all() {
        for (line, expected) in cases {
            let mut offered = shell.offers(line);
            // Options may stand before an operand, and bash names them there.
            offered.retain(|word| !word.starts_with('-'));
            assert_eq!(offered, set(expected), "{}: {line}", shell.name);
        }
        let commands = shell.offers("gush help ");
        assert!(
            commands.contains("cp") && commands.contains("link"),
            "{}: {commands:?}",
            shell.name
        );
    }
}

#[test]
fn an_optional_value_is_not_the_next_word() {
    for shell in Shell::all() {
        for line in ["gush cp --reflink ", "gush cp -u ", "gush cp --backup "] {
            let offered = shell.offers(line);
            for value in ["always", "older", "simple"] {
                assert!(!offered.contains(value), "{}: {line}: {offered:?}", shell.name);
            }
        }
        for (line, option) in [("gush cp --refl", "--reflink"), ("gush cp --upd", "--update")] {
            assert!(
                shell.offers(line).iter().any(|word| word.trim_end_matches('=') == option),
                "{}: {line}",
                shell.name
            );
        }
    }
}
