//! The user's profile, in use by the moving commands.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{gush, gush_as, noise, skipped};
use tempfile::TempDir;

/// A home with a profile whose rules are these, for this machine unless another kernel is named.
fn home(kernel: Option<&str>, rules: &str) -> TempDir {
    let home = TempDir::new().unwrap();
    let host = gush::Host::here();
    let text = format!(
        "format = 1\n[machine]\nkernel = {:?}\nprocessor = {:?}\nprocessors = {}\n{rules}",
        kernel.unwrap_or(&host.kernel),
        host.processor,
        host.processors
    );
    write_profile(home.path(), &text);
    home
}

fn write_profile(home: &Path, text: &str) {
    fs::create_dir_all(home.join("gush")).unwrap();
    fs::write(home.join("gush/profile.toml"), text).unwrap();
    fs::write(home.join("source"), noise(100_000, 3)).unwrap();
}

/// The command run by a user with that home.
fn at_home(mut command: Command, home: &Path, args: &[&str]) -> Output {
    command.env_remove("GUSH_NO_PROFILE").env("XDG_CONFIG_HOME", home);
    command.args(args).current_dir(home).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// From a file into a pipe the table would splice.
const READ_WRITE: &str =
    "[[rule]]\nsource = 'file'\ntarget = 'pipe'\nmethods = ['read-write']\nbuffer_bytes = 8192\n";

#[test]
fn cat_uses_the_profile_and_says_so() {
    let home = home(None, READ_WRITE);
    let output = at_home(gush(), home.path(), &["cat", "--explain", "--json", "source"]);
    assert_eq!(output.stdout, noise(100_000, 3));
    let said = said(&output);
    assert!(said.contains("profile: rule 1, file to pipe: read-write, buffer 8 KiB"), "{said}");
    assert!(said.contains("picked read-write: 100000 bytes"), "{said}");
    assert!(said.contains("\"profile\":[\"rule 1, file to pipe: read-write, buffer 8 KiB\"]"));
}

#[test]
fn a_filter_that_denies_uname_stops_no_move() {
    const UNAME: &str = if cfg!(target_arch = "x86_64") { "63" } else { "160" };
    let home = home(None, READ_WRITE);
    let launcher = match crate::common::denier(home.path()) {
        Ok(launcher) => launcher,
        Err(why) => return skipped(&why),
    };
    let mut command = Command::new(launcher);
    command.args(["1", UNAME, env!("CARGO_BIN_EXE_gush")]);
    let output = at_home(command, home.path(), &["cat", "--explain", "source"]);
    assert_eq!(output.stdout, noise(100_000, 3), "{:?}", String::from_utf8_lossy(&output.stderr));
    assert!(said(&output).contains("profile: rule 1"), "{output:?}");
}

#[test]
fn a_profile_can_be_ignored_by_option_and_by_environment() {
    let home = home(None, READ_WRITE);
    let by_option = at_home(gush(), home.path(), &["cat", "--explain", "--no-profile", "source"]);
    let mut command = gush();
    command.env("XDG_CONFIG_HOME", home.path()).current_dir(home.path());
    let by_environment = command.args(["cat", "--explain", "source"]).output().unwrap();
    for output in [by_option, by_environment] {
        let said = said(&output);
        assert!(said.contains("picked splice") && !said.contains("profile"), "{said}");
    }
}

#[test]
fn a_profile_of_another_kernel_is_not_used_and_that_is_said() {
    let home = home(Some("2.6.23"), READ_WRITE);
    let output = at_home(gush_as("cat", home.path()), home.path(), &["--explain", "source"]);
    let said = said(&output);
    assert!(said.contains("picked splice"), "{said}");
    assert!(
        said.contains("profile.toml is not used: it was made for kernel \"2.6.23\", and this is"),
        "{said}"
    );
    let quiet = at_home(gush(), home.path(), &["cat", "source"]);
    assert_eq!(quiet.stdout, noise(100_000, 3));
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn cp_leaves_a_rule_for_another_file_system_alone() {
    let probe = tempfile::tempfile().unwrap();
    let Some(here) = gush::Endpoint::of(&probe).unwrap().local_file_system() else {
        return crate::common::not_applicable(
            "the file system of temporary files has no name in profiles",
        );
    };
    let other = if here == "xfs" { "ext4" } else { "xfs" };
    for (source, target, fits) in [(other, here, false), (here, other, false), (here, here, true)] {
        let rules = format!(
            "[[rule]]\nsource = 'file'\ntarget = 'file'\nsource_file_system = '{source}'\n\
             target_file_system = '{target}'\nmethods = ['sendfile']\n"
        );
        let home = home(None, &rules);
        let words = ["cp", "--explain", "--reflink=never", "source", "copy"];
        let output = at_home(gush(), home.path(), &words);
        assert_eq!(said(&output).contains("profile: rule 1"), fits, "{output:?}");
    }
}

#[test]
fn cp_uses_the_profile_where_it_names_the_file_system() {
    let probe = tempfile::tempfile().unwrap();
    let Some(system) = gush::Endpoint::of(&probe).unwrap().local_file_system() else {
        return crate::common::not_applicable(
            "the file system of temporary files has no name in profiles",
        );
    };
    let rules = format!(
        "[[rule]]\nsource = 'file'\ntarget = 'file'\nsource_file_system = '{system}'\n\
         target_file_system = '{system}'\nsame_device = true\nmethods = ['sendfile']\n"
    );
    let home = home(None, &rules);
    let copy = |options: &[&str]| {
        let mut args = vec!["cp", "--explain", "--json"];
        args.extend(options);
        args.extend(["source", "copy"]);
        let output = at_home(gush(), home.path(), &args);
        assert_eq!(fs::read(home.path().join("copy")).unwrap(), noise(100_000, 3));
        (said(&output), String::from_utf8(output.stdout).unwrap())
    };
    let (said, json) = copy(&["--reflink=never"]);
    assert!(said.contains("picked sendfile") && said.contains("profile: rule 1"), "{said}");
    assert!(json.contains("\"profile\":[\"rule 1, file to file on "), "{json}");
    let (said, json) = copy(&["--no-profile"]);
    assert!(!said.contains("profile") && !json.contains("profile"), "{said}{json}");
    let (said, _) = copy(&["--method=read-write"]);
    assert!(!said.contains("profile"), "{said}");
}

#[test]
fn no_garbled_profile_makes_a_copy_fail() {
    for garbled in ["", "format = 9", "format = 1\n[machine]\n", "\u{1b}[2J[[", "rule = 'x'"] {
        let home = TempDir::new().unwrap();
        write_profile(home.path(), garbled);
        let output = at_home(gush(), home.path(), &["cp", "--explain", "source", "copy"]);
        let said = said(&output);
        assert!(said.contains("profile.toml is not used: "), "{garbled:?}: {said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert_eq!(fs::read(home.path().join("copy")).unwrap(), noise(100_000, 3));
    }
}

#[test]
fn beginnings_of_no_preserve_are_still_its_own() {
    let home = home(None, "");
    for beginning in ["--no-p=mode", "--no-pr=mode", "--no-pre=mode"] {
        let output = at_home(gush(), home.path(), &["cp", beginning, "source", "copy"]);
        assert!(output.status.success(), "{beginning}: {output:?}");
    }
}

#[test]
fn link_takes_the_size_of_short_messages_and_says_so() {
    let home = home(None, "");
    let text = fs::read_to_string(home.path().join("gush/profile.toml")).unwrap();
    let with_size = text.replacen("format = 1\n", "format = 1\nsmall_message_bytes = 8192\n", 1);
    write_profile(home.path(), &with_size);
    let link = |more: &[&str]| {
        let words = ["link", "-u", "--explain", "source", "file:copy,create,trunc"];
        let output = at_home(gush(), home.path(), &[&words[..], more].concat());
        assert_eq!(fs::read(home.path().join("copy")).unwrap(), noise(100_000, 3));
        said(&output)
    };
    let told = "profile: messages up to 8192 bytes are read and written";
    assert!(link(&[]).contains(told));
    assert!(!link(&["--no-profile"]).contains("profile"));
    assert!(
        !link(&["--method", "read-write"]).contains("profile"),
        "a named method is used as it is"
    );
    write_profile(home.path(), &with_size.replacen("kernel = \"", "kernel = \"0", 1));
    let other = link(&[]);
    assert!(other.contains("profile.toml is not used: it was made for kernel \"0"), "{other}");
}
