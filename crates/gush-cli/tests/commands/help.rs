//! Help texts as they were agreed on. `GUSH_BLESS=1 cargo test help` writes them anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{gush, gush_as, skipped};
use tempfile::TempDir;

fn agrees_with_golden(args: &[&str], golden: &str) {
    let output = gush().args(args).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("GUSH_BLESS").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let agreed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shown == agreed,
        "{} differs from what `gush {}` shows:\n{shown}",
        path.display(),
        args.join(" ")
    );
}

#[test]
fn help_of_gush_is_as_agreed() {
    agrees_with_golden(&["--help"], "gush.txt");
}

#[test]
fn help_of_cp_is_as_agreed() {
    agrees_with_golden(&["cp", "--help"], "cp.txt");
}

#[test]
fn help_of_cat_is_as_agreed() {
    agrees_with_golden(&["cat", "--help"], "cat.txt");
}

#[test]
fn help_of_pv_is_as_agreed() {
    agrees_with_golden(&["pv", "--help"], "pv.txt");
}

#[test]
fn help_of_tee_and_yes_is_as_agreed() {
    agrees_with_golden(&["tee", "--help"], "tee.txt");
    agrees_with_golden(&["yes", "--help"], "yes.txt");
}

#[test]
fn help_of_pipe_is_as_agreed() {
    agrees_with_golden(&["pipe", "--help"], "pipe.txt");
    agrees_with_golden(&["pipe", "write", "--help"], "pipe-write.txt");
    agrees_with_golden(&["pipe", "read", "--help"], "pipe-read.txt");
}

#[test]
fn help_of_lab_is_as_agreed() {
    agrees_with_golden(&["lab", "--help"], "lab.txt");
    let help = gush().args(["lab", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    // A description that is continued stands farther to the right.
    let listed = commands.lines().take_while(|line| !line.is_empty());
    let listed = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = listed.filter(|name| !["", "help"].contains(name)).collect();
    assert!(names.contains(&"pipe") && names.contains(&"run"), "{names:?}");
    for name in names {
        agrees_with_golden(&["lab", name, "--help"], &format!("lab-{name}.txt"));
    }
}

#[test]
fn help_of_tune_is_as_agreed() {
    agrees_with_golden(&["tune", "--help"], "tune.txt");
}

#[test]
fn help_of_doctor_is_as_agreed() {
    agrees_with_golden(&["doctor", "--help"], "doctor.txt");
}

#[test]
fn help_of_link_is_as_agreed() {
    agrees_with_golden(&["link", "--help"], "link.txt");
    agrees_with_golden(&["socat", "--help"], "socat.txt");
}

#[test]
fn help_can_be_asked_for_by_command() {
    for command in ["cat", "cp", "pv", "tee", "yes", "pipe", "lab", "tune", "link"] {
        let long = gush().args(["help", command]).output().unwrap();
        let text = String::from_utf8(long.stdout).unwrap();
        assert!(long.status.success() && text.contains("Usage: "), "{text}");
    }
}

#[test]
fn called_by_a_familiar_name_it_is_that_command() {
    let dir = TempDir::new().unwrap();
    for name in ["cat", "cp", "pv", "tee", "yes"] {
        let help = gush_as(name, dir.path()).arg("--help").output().unwrap();
        assert!(String::from_utf8(help.stdout).unwrap().contains(&format!("Usage: {name} ")));
        let version = gush_as(name, dir.path()).arg("--version").output().unwrap();
        let expected = format!("{name} (gush) {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);
    }
}

#[test]
fn version_names_the_package() {
    let output = gush().arg("--version").output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("gush {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn nothing_asked_is_misuse() {
    let output = gush().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: gush <COMMAND>"));
    let output = gush().arg("nope").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("gush: unknown command 'nope'; ")
    );
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    for args in [
        &["--help"][..],
        &["cat", "--help"],
        &["generate", "man"],
        &["generate", "completions", "bash"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = gush().args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with("write error: No space left on device\n"), "{args:?}: {said}");
    }
}

/// As man(1) sets it: the encoding first, all warnings.
#[test]
fn every_command_has_a_manual_page_that_groff_sets_without_a_warning() {
    let dir = TempDir::new().unwrap();
    let output = gush().args(["generate", "man"]).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let pages: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() >= 28, "{} pages", pages.len());
    for page in pages {
        let set =
            Command::new("groff").args(["-Kutf8", "-man", "-ww", "-Tutf8"]).arg(&page).output();
        let Ok(set) = set else { return skipped("no groff") };
        let said = String::from_utf8_lossy(&set.stderr);
        assert!(set.status.success() && said.is_empty(), "{}: {said}", page.display());
        assert!(!set.stdout.is_empty(), "{}", page.display());
    }
}

#[test]
fn manual_pages_name_every_option_that_help_names_also_by_its_other_name() {
    let dir = TempDir::new().unwrap();
    let output = gush().args(["generate", "man"]).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in fs::read_dir(dir.path()).unwrap() {
        let page = page.unwrap().path();
        // gush-lab-run.1 is the page of `gush lab run`.
        let words = page.file_stem().unwrap().to_str().unwrap().split('-').skip(1);
        let help = gush().args(words).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let help = help.as_str();
        let set = fs::read_to_string(&page).unwrap().replace("\\-", "-").replace("\\fR", "");
        let options = help
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
            .filter(|word| word.strip_prefix("--").is_some_and(|name| !name.is_empty()));
        let remarks =
            ["[alias", "[default: ", "[possible values: "].into_iter().flat_map(|begin| {
                help.match_indices(begin)
                    .map(move |(at, _)| help[at..].split_inclusive(']').next().unwrap())
            });
        for word in options.chain(remarks) {
            assert!(set.contains(word), "{}: {word}", page.display());
        }
    }
}

#[test]
fn manual_pages_and_completions_come_from_the_same_definitions() {
    let dir = TempDir::new().unwrap();
    let output = gush().args(["generate", "man"]).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in
        ["gush.1", "gush-cat.1", "gush-cp.1", "gush-pipe-write.1", "gush-lab-pipe.1", "gush-link.1"]
    {
        assert!(fs::read_to_string(dir.path().join(page)).unwrap().contains(".SH NAME"), "{page}");
    }
    assert!(fs::read_to_string(dir.path().join("gush-cat.1")).unwrap().contains("squeeze"));
    for shell in ["bash", "zsh", "fish"] {
        let output = gush().args(["generate", "completions", shell]).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains("squeeze-blank"), "{shell}");
    }
}
