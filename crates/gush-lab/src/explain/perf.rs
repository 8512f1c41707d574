//! Recording with `perf`, where allowed; elsewhere the remedy.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::switch;
use crate::runner::children::{self, Running};
use crate::{Error, procfs};

/// Quietly, and without a copy of each program and library in the user's `~/.debug`
/// (perf-buildid-cache(1)).
const RECORD: [&str; 3] = ["record", "-q", "--no-buildid-cache"];
/// A prime, so that nothing periodic is always met at the same place.
const SAMPLES_PER_S: &str = "1999";

/// The output of a recorded command, and the samples as `perf script` prints them.
#[derive(Clone, Debug)]
pub struct PerfOutput {
    pub stdout: Vec<u8>,
    pub script: Vec<u8>,
}

/// Runs a command under `perf record` and prints the samples of the measurements alone, between
/// which perf rests.
pub fn record(program: &Path, words: &[impl AsRef<OsStr>]) -> Result<PerfOutput, Error> {
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
    // Files: a pipe has no end while what perf started holds it, also when perf is killed.
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| dir.path().join(name));
    let failed = |error| Error::failed("cannot keep the output of perf", error);
    command.stdin(Stdio::null()).stdout(File::create(&stdout).map_err(failed)?);
    command.stderr(File::create(&stderr).map_err(failed)?);
    if !children::start(&mut command)?.finish()?.status.success() {
        let said = fs::read(&stderr).map_err(failed)?;
        return Err(Error::refused(without_prefix(&last_line(&said)).to_owned()));
    }
    let mut script = Command::new("perf");
    script.args(["script", "-i"]).arg(&data);
    script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let printed = children::start(&mut script)?.finish()?;
    if !printed.status.success() {
        return Err(Error::refused(format!("perf script failed: {}", last_line(&printed.stderr))));
    }
    Ok(PerfOutput { stdout: fs::read(&stdout).map_err(failed)?, script: printed.stdout })
}

/// Why the kernel cannot be recorded, and what helps.
#[derive(Debug)]
pub(crate) struct Obstacle {
    pub(crate) fact: String,
    pub(crate) remedy: Option<String>,
}

impl Obstacle {
    fn new(fact: impl Into<String>) -> Self {
        Self { fact: fact.into(), remedy: None }
    }

    fn remedy(self, remedy: &str) -> Self {
        Self { remedy: Some(remedy.to_owned()), ..self }
    }
}

impl From<Obstacle> for Error {
    fn from(Obstacle { fact, remedy }: Obstacle) -> Self {
        Self::refused(remedy.map_or(fact.clone(), |remedy| format!("{fact}: {remedy}")))
    }
}

/// Tries to record the kernel for a moment.
pub(crate) fn may_record() -> Result<(), Obstacle> {
    let mut probe = Command::new("perf");
    // Tried on `true`: the settings alone do not say whether a container may.
    probe.args(RECORD).args(["-e", "cpu-clock:k", "-g", "-o", "/dev/null", "--", "true"]);
    // With two pipes the standard library panics if a filter denies ioctl.
    probe.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = children::start(&mut probe).and_then(Running::finish);
    let output = output.map_err(|error| match error.io_error().map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) => Obstacle::new("perf is not installed").remedy(
            "the package is linux-perf (Debian), linux-tools-$(uname -r) (Ubuntu), or perf (Fedora, \
             Arch, openSUSE, Alpine)",
        ),
        _ => Obstacle::new(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(obstacle(&said, paranoid().as_deref(), rustix::process::geteuid().is_root()))
}

/// The level of the setting that says who may profile; none where the kernel counts no events.
pub(crate) fn paranoid() -> Option<String> {
    procfs::line("/proc/sys/kernel/perf_event_paranoid")
}

/// The reason why perf did not record, and the remedy.
fn obstacle(said: &str, paranoid: Option<&str>, is_root: bool) -> Obstacle {
    // perf has words and no status for the reason.
    let refused = ["perf_event_paranoid", "Permission", "permitted", "No permission", "EACCES"];
    if said.contains("perf not found for kernel") || said.contains("You may need to install") {
        return Obstacle::new("the perf that is installed is not this kernel's")
            .remedy("install linux-tools-$(uname -r) (Ubuntu) or linux-perf (Debian)");
    }
    let Some(paranoid) = paranoid else {
        let fact = "this kernel cannot count events (CONFIG_PERF_EVENTS), so it cannot be profiled";
        return Obstacle::new(fact);
    };
    if !refused.iter().any(|words| said.contains(words)) {
        return Obstacle::new(format!("perf cannot record here: {}", last_line(said.as_bytes())));
    }
    const CONTAINER: &str =
        "start it with --cap-add PERFMON and a seccomp profile that allows perf_event_open";
    match is_root {
        true => {
            Obstacle::new("root may not profile the kernel in this container").remedy(CONTAINER)
        }
        false => Obstacle::new("this user may not profile the kernel").remedy(&format!(
            "run it as root, or have root run 'sysctl kernel.perf_event_paranoid=1 \
             kernel.kptr_restrict=0' (the first is {paranoid} now), or 'setcap \
             cap_perfmon,cap_syslog+ep' on the perf program; a container needs more: {CONTAINER}"
        )),
    }
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
        let explained =
            |said, paranoid, is_root| Error::from(obstacle(said, paranoid, is_root)).to_string();
        let denied = "Error:\nNo permission to enable cpu-clock:k event.\n\nConsider adjusting \
                      /proc/sys/kernel/perf_event_paranoid setting";
        for remedy in ["sysctl kernel.perf_event_paranoid=1", "2 now", "--cap-add PERFMON"] {
            assert!(explained(denied, Some("2"), false).contains(remedy));
        }
        assert!(explained(denied, Some("2"), true).contains("--cap-add PERFMON"));
        let ubuntu = "WARNING: perf not found for kernel 6.8.0-31\n\n  You may need to install";
        assert!(explained(ubuntu, Some("4"), true).contains("linux-tools-$(uname -r)"));
        assert!(explained("", None, true).contains("CONFIG_PERF_EVENTS"));
        assert_eq!(explained("a\nodd\n\n", Some("1"), true), "perf cannot record here: odd");
    }
}
