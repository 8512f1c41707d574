//! Whether the kernel's work can be profiled: by trying, if perf is installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::finding::Finding;
use super::status::{Capability, Status};
use crate::bench::found;

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(super) fn profiling(status: &Status) -> Finding {
    const TOPIC: &str = "perf";
    let level = fs::read_to_string(PARANOID).map(|text| text.trim().to_owned());
    let level = level.unwrap_or_else(|_| "absent".to_owned());
    let may = status.has(Capability::Perfmon) || status.has(Capability::SysAdmin);
    let state = format!(
        "perf_event_paranoid is {level}, and this process {} CAP_PERFMON",
        if may { "has" } else { "lacks" }
    );
    let without = "figures come without the kernel functions that cause them";
    let Some(program) = found(Path::new("perf")) else {
        return Finding::absent(TOPIC, format!("perf is not installed; {state}"), without)
            .remedy("Debian: apt install linux-perf; Fedora: dnf install perf; Ubuntu: apt install linux-tools-generic");
    };
    let tried = Command::new(&program)
        .args(["stat", "-x,", "-e", "cpu-clock:k", "--", "true"])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        // With two pipes the standard library panics if a filter denies ioctl.
        .stdout(Stdio::null())
        .output();
    let shown = program.display();
    match tried {
        Ok(output) if output.status.success() && !says_unsupported(&output.stderr) => Finding::fine(
            TOPIC,
            format!("{shown} can observe the kernel; {state}"),
            "the lab can name the kernel functions that cause a figure",
        ),
        Ok(_) => Finding::absent(TOPIC, format!("{shown} may not observe the kernel; {state}"), without)
            .remedy("as root: sysctl kernel.perf_event_paranoid=1; or setcap cap_perfmon+ep on perf; in a container: --cap-add PERFMON, and a profile that allows perf_event_open"),
        Err(error) => Finding::absent(TOPIC, format!("{shown} does not start: {error}; {state}"), without),
    }
}

/// perf ends well although no event could be counted.
fn says_unsupported(stderr: &[u8]) -> bool {
    let said = String::from_utf8_lossy(stderr);
    said.contains("<not supported>") || said.contains("<not counted>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_nothing_is_not_taken_for_success() {
        assert!(says_unsupported(b"<not supported>,,cpu-clock:k,0,100.00,,"));
        assert!(!says_unsupported(b"0.31,msec,cpu-clock:k,310000,100.00,0.5,CPUs utilized"));
    }
}
