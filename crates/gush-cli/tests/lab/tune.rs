//! `gush tune` from a user's view. Times are never asserted: only the profile, the messages and the files left behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{gush, skipped};
use tempfile::TempDir;

/// Tunes for a second in a new directory; none where profiles do not know the file system.
fn tune(dir: &Path, args: &[&str]) -> Option<Output> {
    let probe = tempfile::tempfile_in(dir).unwrap();
    if gush::Endpoint::of(&probe).unwrap().local_file_system().is_none() {
        crate::common::not_applicable("the file system of temporary files has no name in profiles");
        return None;
    }
    let mut command = gush();
    command.env("XDG_CONFIG_HOME", dir.join("config")).current_dir(dir).arg("tune").args(args);
    if !args.iter().any(|arg| arg.starts_with("--seconds")) {
        command.arg("--seconds=1");
    }
    Some(command.output().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_profile_is_written_where_the_engine_looks_and_the_engine_takes_it() {
    let dir = TempDir::new().unwrap();
    let Some(output) = tune(dir.path(), &[]) else { return };
    assert!(output.status.success(), "{output:?}");
    let path = dir.path().join("config/gush/profile.toml");
    let profile = gush::Profile::load(&path).expect("a profile");
    assert_eq!(profile.notes(), [] as [&str; 0]);
    assert!(text(&output.stdout).contains(&format!("wrote {}: ", path.display())));
    assert!(text(&output.stdout).contains("socket to socket, 48 MiB"), "{output:?}");
    let written = fs::read_to_string(&path).unwrap();
    let kernel = gush::Host::here().kernel;
    assert!(written.starts_with("# What gush measured") && written.contains(&kernel), "{written}");
    assert_eq!(names(dir.path()), ["config"]);
    assert_eq!(names(&dir.path().join("config/gush")), ["profile.toml"]);
}

#[test]
fn a_dry_run_shows_the_profile_and_writes_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(output) = tune(dir.path(), &["--dry-run"]) else { return };
    assert!(output.status.success(), "{output:?}");
    let (told, profile) = text(&output.stdout).split_once("not written:\n\n").map_or_else(
        || panic!("{output:?}"),
        |(told, profile)| (told.to_owned(), profile.to_owned()),
    );
    assert!(told.contains("pipe to pipe"));
    assert!(profile.parse::<gush::Profile>().is_ok(), "{profile}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn scripts_get_one_object() {
    let dir = TempDir::new().unwrap();
    let output = dir.path().join("mine.toml");
    let path = output.to_str().unwrap();
    let Some(output) = tune(dir.path(), &["--json", "--output", path]) else { return };
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["written"], path);
    assert_eq!(record["profile"], fs::read_to_string(path).unwrap());
    for key in ["question", "source", "target", "bytes", "at_least_bytes", "table", "changed"] {
        assert!(!record["answers"][0][key].is_null(), "{key}: {record}");
    }
    assert_eq!(record["messages"].as_array().unwrap().len(), 6);
}

#[test]
fn a_check_tells_of_every_choice_that_the_profile_changes() {
    let dir = TempDir::new().unwrap();
    let host = gush::Host::here();
    let path = dir.path().join("profile.toml");
    let profile = format!(
        "format = 1\n[machine]\nkernel = {:?}\nprocessor = {:?}\nprocessors = {}\n[[rule]]\n\
         source = 'pipe'\ntarget = 'socket'\nmethods = ['read-write']\nbuffer_bytes = 65536\n",
        host.kernel, host.processor, host.processors
    );
    fs::write(&path, &profile).unwrap();
    let path_text = path.to_str().unwrap();
    let Some(output) = tune(dir.path(), &["--check", "--output", path_text]) else { return };
    let told = text(&output.stdout);
    assert!(
        told.contains("splice -> rule 1, pipe to socket: read-write, buffer 64 KiB: "),
        "{told}"
    );
    assert!(told.contains("pipe to pipe, 48 MiB") && told.contains("the profile changes nothing"));
    assert!(told.contains("\npipe to socket, 128 KiB, a trickle "), "{told}");
    assert!(told.contains("the profile changes 2: "), "{told}");
    assert_eq!(fs::read_to_string(&path).unwrap(), profile);
    // Success means that nothing is surely slower, and so it is told.
    assert_eq!(output.status.success(), told.contains(" 0 slower, "), "{told}");
}

#[test]
fn a_check_needs_a_profile_for_this_machine() {
    let dir = TempDir::new().unwrap();
    let Some(missing) = tune(dir.path(), &["--check"]) else { return };
    assert!(text(&missing.stderr).contains("there is no profile "), "{missing:?}");
    assert!(text(&missing.stderr).contains("gush tune makes one"));
    fs::write(dir.path().join("old.toml"), "format = 0").unwrap();
    let old = tune(dir.path(), &["--check", "--output", "old.toml"]).unwrap();
    assert!(text(&old.stderr).contains("old.toml is not used: it has format 0"), "{old:?}");
    assert!(!missing.status.success() && !old.status.success());
}

#[test]
fn a_place_that_takes_no_profile_is_told_before_anything_is_measured() {
    let dir = TempDir::new().unwrap();
    for (output, said) in [
        ("/proc/gush/profile.toml", "the profile cannot be written into /proc/gush (another place"),
        (".", "is a directory: name a file"),
    ] {
        let args = ["--seconds=60", "--output", output];
        let Some(refused) = tune(dir.path(), &args) else { return };
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(said), "{refused:?}");
        assert!(refused.stdout.is_empty());
    }
    let Some(nowhere) = tune(dir.path(), &["--dir", "missing"]) else { return };
    assert!(text(&nowhere.stderr).contains("cannot make a file in missing: No such file"));
    assert!(nowhere.stdout.is_empty());
    let procfs = tune(dir.path(), &["--dir", "/proc"]).unwrap();
    assert!(text(&procfs.stderr).contains("cannot make a file in /proc: "), "{procfs:?}");
    assert!(procfs.stdout.is_empty());
}

#[test]
fn a_profile_with_rules_outlives_a_tuning_that_had_no_time() {
    let dir = TempDir::new().unwrap();
    let host = gush::Host::here();
    // It is for this machine, and has a rule.
    let profile = format!(
        "format = 1\n[machine]\nkernel = {:?}\nprocessor = {:?}\nprocessors = {}\n[[rule]]\n\
         source = 'pipe'\ntarget = 'socket'\nmethods = ['read-write']\nbuffer_bytes = 65536\n",
        host.kernel, host.processor, host.processors
    );
    fs::write(dir.path().join("mine.toml"), &profile).unwrap();
    let Some(output) = tune(dir.path(), &["--output", "mine.toml"]) else { return };
    let now = fs::read_to_string(dir.path().join("mine.toml")).unwrap();
    // In one second a rule may be found after all: it takes the place of the old ones.
    if output.status.success() {
        assert!(now.contains("[[rule]]"), "{output:?}");
        return;
    }
    assert_eq!(now, profile);
    assert!(text(&output.stderr).contains("mine.toml keeps the rules that it has: "), "{output:?}");
    assert_eq!(names(dir.path()), ["mine.toml"]);
}

#[test]
fn a_full_disk_leaves_the_old_profile() {
    let dir = TempDir::new().unwrap();
    let script = "mount -t tmpfs -o size=8k none small && echo old > small/profile.toml && \
                  { head -c 1M /dev/zero > small/fill; } 2>/dev/null; \
                  \"$0\" tune --seconds 1 --output small/profile.toml; echo status $?; \
                  cat small/profile.toml; ls -A small";
    fs::create_dir(dir.path().join("small")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_gush")])
        .current_dir(dir.path())
        .output();
    let mounted = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "none", "small"])
        .current_dir(dir.path())
        .output();
    if !mounted.as_ref().is_ok_and(|mounted| mounted.status.success()) {
        return skipped(&format!("no mount namespace of one's own: {mounted:?}"));
    }
    let output = output.expect("unshare runs");
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    if said.contains("file system that profiles do not speak of") {
        return crate::common::not_applicable(
            "the file system of temporary files has no name in profiles",
        );
    }
    assert!(said.contains("cannot write small/profile.toml: No space left on device"), "{said}");
    assert!(told.ends_with("status 1\nold\nfill\nprofile.toml\n"), "{told}");
}

#[test]
fn an_interrupt_writes_nothing_and_leaves_nothing() {
    use rustix::fs::inotify;
    let dir = TempDir::new().unwrap();
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    if let Err(errno) = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::RUSR) {
        return skipped(&format!("no files without a name where temporary files are: {errno}"));
    }
    // A file with a name is left by a signal in some moment, even if this test's signal comes in another.
    let names_made = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&names_made, dir.path(), inotify::WatchFlags::CREATE).unwrap();
    let mut child = gush()
        .args(["tune", "--seconds=60", "--output", "profile.toml"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It measures by files without a name in the directory: there is something to be left.
    let descriptors = format!("/proc/{}/fd", child.id());
    let has_files = || {
        let links = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .any(|to| to.starts_with(dir.path()))
    };
    while !has_files() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it made a file");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // The signal itself ends it; a shell shows the same number for both.
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(2) || status.code() == Some(130), "{status:?}");
    assert!(names(dir.path()).is_empty());
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut names_made = inotify::Reader::new(names_made, &mut buffer);
    assert!(names_made.next().is_err(), "a file had a name for a while");
}

#[test]
fn more_than_a_minute_is_refused() {
    for seconds in ["0", "61", "-1", "x"] {
        let output = gush().args(["tune", &format!("--seconds={seconds}")]).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("invalid --seconds '{seconds}'")), "{said}");
    }
}
