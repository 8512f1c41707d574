//! The state of this process in /proc/self/status: capabilities, and filters on system calls.

use super::finding::Finding;
use crate::procfs::field_in;

/// The lines that matter (proc_pid_status(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    effective_capabilities: u64,
    seccomp_mode: Option<u32>,
    seccomp_filters: Option<u32>,
}

/// Numbers of capabilities (`include/uapi/linux/capability.h`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Capability {
    SysAdmin = 21,
    Perfmon = 38,
}

impl Status {
    pub(super) fn own() -> Self {
        Self::parse(&std::fs::read("/proc/self/status").unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Self {
        let number = |name| field_in(text, name)?.parse().ok();
        let capabilities = field_in(text, "CapEff");
        Self {
            effective_capabilities: capabilities
                .and_then(|text| u64::from_str_radix(&text, 16).ok())
                .unwrap_or(0),
            seccomp_mode: number("Seccomp"),
            seccomp_filters: number("Seccomp_filters"),
        }
    }

    pub(super) fn has(&self, capability: Capability) -> bool {
        self.effective_capabilities >> (capability as u32) & 1 == 1
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
    fn capabilities_and_filters_are_read() {
        let text = b"Name:\tx\nCapEff:\t0000004000200000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let status = Status::parse(text);
        assert!(status.has(Capability::SysAdmin) && status.has(Capability::Perfmon));
        assert!(status.is_filtered());
        assert_eq!(status.seccomp().state, Condition::Limited);
        assert!(status.seccomp().fact.starts_with("1 filter on"));
    }

    #[test]
    fn an_empty_status_is_unknown() {
        assert_eq!(Status::parse(b"").seccomp().state, Condition::Unknown);
    }
}
