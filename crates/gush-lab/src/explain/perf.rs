//! Recording with `perf`, where allowed; elsewhere the remedy.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::switch;
use crate::Error;
use crate::runner::children;

/// Quietly, and without a copy of each program and library in the user's `~/.debug`
/// (perf-buildid-cache(1)).
const RECORD: [&str; 3] = ["record", "-q", "--no-buildid-cache"];
/// A prime, so that nothing periodic is always met at the same place.
const SAMPLES_PER_S: &str = "1999";

/// The output of a recorded command, and the samples as `perf script` prints them.
#[derive(Clone, Debug)]
pub struct Recording {
    pub stdout: Vec<u8>,
    pub script: Vec<u8>,
}

/// Runs a command under `perf record` and prints the samples of the measurements alone, between
/// which perf rests.
pub fn record(program: &Path, words: &[impl AsRef<OsStr>]) -> Result<Recording, Error> {
    may_record()?;
    let dir =
        tempfile::tempdir().map_err(|error| Error::failed("no temporary directory", error))?;
    let data = dir.path().join("perf.data");
    let mut command = Command::new("perf");
    // cpu-clock and no hardware counter: virtual machines have none; a delay of -1 waits for the
    // switch.
    command.args(RECORD).args(["-e", "cpu-clock", "-F", SAMPLES_PER_S, "-g", "--delay=-1"]);
    command.arg(switch::make(dir.path())?).arg("-o").arg(&data);
    command.arg("--").arg(program).args(words);
    let (name, value) = switch::environment(dir.path());
    command.env(name, value);
    let ran = run(&mut command)?;
    if !ran.status.success() {
        return Err(Error::refused(without_prefix(&last_line(&ran.stderr)).to_owned()));
    }
    let mut script = Command::new("perf");
    script.args(["script", "-i"]).arg(&data);
    let printed = run(&mut script)?;
    if !printed.status.success() {
        return Err(Error::refused(format!("perf script failed: {}", last_line(&printed.stderr))));
    }
    Ok(Recording { stdout: ran.stdout, script: printed.stdout })
}

/// Tries to record the kernel for a moment.
fn may_record() -> Result<(), Error> {
    let mut probe = Command::new("perf");
    // Tried on `true`: the settings alone do not say whether a container may.
    probe.args(RECORD).args(["-e", "cpu-clock:k", "-g", "-o", "/dev/null", "--", "true"]);
    let output = run(&mut probe)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::refused(remedy(&said, paranoid().as_deref(), rustix::process::geteuid().is_root())))
}

fn paranoid() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    Some(text.trim().to_owned())
}

/// The reason why perf did not record, and the remedy.
fn remedy(said: &str, paranoid: Option<&str>, is_root: bool) -> String {
    // perf has words and no status for the reason.
    let refused = ["perf_event_paranoid", "Permission", "permitted", "No permission", "EACCES"];
    if said.contains("perf not found for kernel") || said.contains("You may need to install") {
        return "the perf that is installed is not this kernel's: install linux-tools-$(uname -r) \
                (Ubuntu) or linux-perf (Debian)"
            .to_owned();
    }
    let Some(paranoid) = paranoid else {
        return "this kernel cannot count events (CONFIG_PERF_EVENTS): it cannot be profiled"
            .to_owned();
    };
    if !refused.iter().any(|words| said.contains(words)) {
        return format!("perf cannot record here: {}", last_line(said.as_bytes()));
    }
    match is_root {
        true => {
            "root may not profile the kernel in this container: start it with --cap-add PERFMON \
                 and a seccomp profile that allows perf_event_open"
                .to_owned()
        }
        false => format!(
            "this user may not profile the kernel (kernel.perf_event_paranoid is {paranoid}): run it as \
             root, or have root run 'sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0', or \
             'setcap cap_perfmon,cap_syslog+ep' on the perf program"
        ),
    }
}

fn run(command: &mut Command) -> Result<Output, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = children::start(command).map_err(|error| match error.io_error() {
        Some(cause) if cause.kind() == io::ErrorKind::NotFound => Error::refused(
            "perf is not installed: the package is linux-perf (Debian), linux-tools-$(uname -r) \
             (Ubuntu), or perf (Fedora, Arch, openSUSE, Alpine)",
        ),
        _ => error,
    })?;
    started.finish()
}

/// The sentence alone of a message of this program: `gush: lab: pipe: unknown case 'x'`.
fn without_prefix(line: &str) -> &str {
    let mut rest = line;
    for name in ["gush", "lab"] {
        match rest.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
            Some(after) => rest = after,
            None => return line,
        }
    }
    rest
}

fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    // After the reason, a message about options names the help, and a run has its warnings.
    let is_aside = |line: &str| line.starts_with("Try '") || line.contains(": warning: ");
    let is_reason = |line: &&str| !line.trim().is_empty() && !is_aside(line);
    let line = text.lines().rev().find(is_reason).unwrap_or("nothing was said");
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_suite_has_one_prefix() {
        assert_eq!(without_prefix("gush: lab: pipe: no case"), "pipe: no case");
        assert_eq!(without_prefix("Segmentation fault"), "Segmentation fault");
    }

    #[test]
    fn the_reason_is_reported_and_not_the_hint_after_it() {
        let said = "gush: lab: invalid --bytes '0': must be more than zero\nTry 'gush lab pipe --help' for more information.\n";
        let line = last_line(said.as_bytes());
        assert_eq!(without_prefix(&line), "invalid --bytes '0': must be more than zero");
        let said = "gush: lab: copy: no room\ngush: lab: copy: warning: fewer than 5 samples, of 1 of 1 cases\n";
        assert_eq!(without_prefix(&last_line(said.as_bytes())), "copy: no room");
    }

    #[test]
    fn every_obstacle_has_a_remedy() {
        let denied = "Error:\nNo permission to enable cpu-clock:k event.\n\nConsider adjusting \
                      /proc/sys/kernel/perf_event_paranoid setting";
        assert!(remedy(denied, Some("2"), false).contains("kernel.perf_event_paranoid is 2"));
        assert!(remedy(denied, Some("2"), false).contains("sysctl kernel.perf_event_paranoid=1"));
        assert!(remedy(denied, Some("2"), true).contains("--cap-add PERFMON"));
        let ubuntu = "WARNING: perf not found for kernel 6.8.0-31\n\n  You may need to install";
        assert!(remedy(ubuntu, Some("4"), true).contains("linux-tools-$(uname -r)"));
        assert!(remedy("", None, true).contains("CONFIG_PERF_EVENTS"));
        assert_eq!(remedy("a\nodd\n\n", Some("1"), true), "perf cannot record here: odd");
    }
}
