//! The state of this process in /proc/self/status: filters on system calls.

use super::finding::Finding;
use crate::procfs::field_in;

/// The lines that matter (proc_pid_status(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    seccomp_mode: Option<u32>,
    seccomp_filters: Option<u32>,
}

impl Status {
    pub(super) fn own() -> Self {
        Self::parse(&std::fs::read("/proc/self/status").unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Self {
        let number = |name| field_in(text, name)?.parse().ok();
        Self { seccomp_mode: number("Seccomp"), seccomp_filters: number("Seccomp_filters") }
    }

    /// Is there a filter that may deny calls?
    pub(super) fn is_filtered(&self) -> bool {
        self.seccomp_mode == Some(2)
    }

    pub(super) fn seccomp(&self) -> Finding {
        const TOPIC: &str = "seccomp";
        match (self.seccomp_mode, self.seccomp_filters) {
            (Some(0), _) => Finding::fine(
                TOPIC,
                "no filter on system calls",
                "calls that fail do so for the kernel's own reasons",
            ),
            (Some(_), filters) => {
                let count = filters.map_or("a".to_owned(), |count| count.to_string());
                let noun =
                    if filters.is_none_or(|count| count == 1) { "filter" } else { "filters" };
                Finding::limited(
                    TOPIC,
                    format!("{count} {noun} on system calls, as in containers and sandboxes"),
                    "calls may be denied that the kernel has; those above show which",
                )
                .remedy(
                    "Docker, Podman: --security-opt seccomp=PROFILE.json with the denied calls allowed; \
                     systemd: SystemCallFilter=",
                )
            }
            (None, _) => Finding::unknown(
                TOPIC,
                "/proc/self/status does not say whether there are filters",
                "a denied call looks like a missing one",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::Condition;

    #[test]
    fn filters_are_read() {
        let text = b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let status = Status::parse(text);
        assert!(status.is_filtered());
        assert_eq!(status.seccomp().state, Condition::Limited);
        assert!(status.seccomp().fact.starts_with("1 filter on"));
    }

    #[test]
    fn an_empty_status_is_unknown() {
        assert_eq!(Status::parse(b"").seccomp().state, Condition::Unknown);
    }
}
