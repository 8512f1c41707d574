//! `gush cp` while somebody else changes names during the copy: a file not asked for is never
//! touched.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use crate::common::cp::{stderr, with_files};
use crate::common::{skipped, strace};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Runs cp; when `made` has appeared, a link to `victim` takes the name of `made` while cp is held
/// up in `call`.
fn swapping(
    dir: &Path,
    call: &str,
    made: &str,
    victim: &str,
    arguments: &[&str],
) -> Option<String> {
    // Long enough for a busy machine, too, to come to the swap meanwhile.
    let delay = format!("inject={call}:delay_exit=4000000");
    let mut command = match strace(&["-e", &format!("trace={call}"), "-e", &delay]) {
        Ok(command) => command,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    command.arg("cp").args(arguments).current_dir(dir).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let made = dir.join(made);
    while fs::symlink_metadata(&made).is_err() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended, and {} was not made",
            made.display()
        );
        std::thread::yield_now();
    }
    fs::rename(&made, made.with_extension("moved")).unwrap();
    std::os::unix::fs::symlink(dir.join(victim), &made).unwrap();
    Some(stderr(&child.wait_with_output().unwrap()))
}

#[test]
fn a_link_that_takes_a_new_fifos_name_leads_to_no_other_file() {
    let dir = with_files(&[("victim", b"")]);
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(at("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(at("p")).status();
    assert!(made.unwrap().success());
    let before = fs::metadata(at("victim")).unwrap();
    let Some(said) = swapping(dir.path(), "mknodat", "q", "victim", &["-a", "p", "q"]) else {
        return;
    };
    let expected = "gush: cp: q: got no attributes: another file took the name after the copy\n";
    assert_eq!(said, expected);
    let after = fs::metadata(at("victim")).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o600);
    assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
}

#[test]
fn a_link_that_takes_a_new_directorys_name_leads_to_no_other_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["x", "d", "victim"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("x/a"), "a\n").unwrap();
    fs::set_permissions(at("x"), fs::Permissions::from_mode(0o577)).unwrap();
    fs::set_permissions(at("victim"), fs::Permissions::from_mode(0o750)).unwrap();
    let arguments = ["-p", "--parents", "x/a", "d"];
    let Some(said) = swapping(dir.path(), "mkdirat", "d/x", "victim", &arguments) else { return };
    assert!(said.starts_with("gush: cp: cannot open the new directory 'd/x': "), "{said}");
    assert_eq!(mode(&at("victim")), 0o750);
    assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
}

#[test]
fn a_numbered_backup_takes_its_name_in_one_step_on_every_file_system() {
    // No RENAME_NOREPLACE; then no hard links either.
    for (denied, taken_by) in [
        (&["renameat2:error=EINVAL"][..], "linkat("),
        (&["renameat2:error=EINVAL", "linkat:error=EPERM"], "O_EXCL"),
    ] {
        let dir = with_files(&[("a", b"new"), ("b", b"old")]);
        let at = |name: &str| dir.path().join(name);
        let mut options = vec!["-o".to_owned(), at("log").display().to_string()];
        options.extend(["-e".into(), "trace=%file".into()]);
        options.extend(denied.iter().flat_map(|denied| ["-e".into(), format!("inject={denied}")]));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut command = match strace(&options) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        command.args(["cp", "--backup=numbered", "a", "b"]).current_dir(dir.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{denied:?}: {}", stderr(&output));
        assert_eq!(fs::read(at("b.~1~")).unwrap(), b"old");
        assert_eq!(fs::read(at("b")).unwrap(), b"new");
        let log = fs::read_to_string(at("log")).unwrap();
        let named: Vec<&str> = log.lines().filter(|line| line.contains("b.~1~")).collect();
        let calls = |call: &str| named.iter().filter(|line| line.contains(call)).count();
        assert_eq!(calls("stat("), 0, "looked at before it was taken: {named:#?}");
        assert!(calls(taken_by) >= 1, "{named:#?}");
    }
}

#[test]
fn the_umask_is_never_changed() {
    for arguments in [
        &["--no-preserve=mode", "a", "b"][..],
        &["--preserve=ownership", "a", "c"],
        &["-p", "--parents", "x/a", "d"],
    ] {
        let dir = with_files(&[("a", b"a")]);
        for name in ["x", "d"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("x/a"), "a").unwrap();
        let log = dir.path().join("log");
        let mut command = match strace(&["-o", log.to_str().unwrap(), "-e", "trace=umask"]) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        let output = command.arg("cp").args(arguments).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let log = fs::read_to_string(&log).unwrap();
        assert!(!log.contains("umask("), "{arguments:?}: {log}");
    }
}
