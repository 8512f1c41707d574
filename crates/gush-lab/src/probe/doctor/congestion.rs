//! TCP's congestion control (tcp(7)): whether packets are paced, on loopback too.

use super::finding::Finding;
use crate::procfs;

const TOPIC: &str = "tcp-congestion";
const CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The congestion control that sockets of this network namespace begin with.
pub(super) fn control() -> Finding {
    of(procfs::line(CONTROL).as_deref())
}

fn of(name: Option<&str>) -> Finding {
    match name {
        None => Finding::unknown(
            TOPIC,
            format!("the congestion control is unknown ({CONTROL})"),
            "with bbr, sockets on loopback move about a quarter of what they can",
        ),
        // bbr_init of net/ipv4/tcp_bbr.c sets SK_PACING_NEEDED, which no route and no device takes
        // back.
        Some(name) if name.starts_with("bbr") => Finding::limited(
            TOPIC,
            format!("TCP begins with {name}, which paces packets by a timer ({CONTROL})"),
            "on loopback, too: relays and sockets there move about a quarter of what they can, whatever \
             program moves the bytes",
        )
        .remedy(
            "as root: sysctl net.ipv4.tcp_congestion_control=cubic; or for measurements reno, which every \
             network namespace may have (ip netns, unshare -n)",
        ),
        Some(name) => Finding::fine(
            TOPIC,
            format!("TCP begins with {name} ({CONTROL})"),
            "packets on loopback are not paced",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::Condition;

    #[test]
    fn only_what_paces_loopback_needs_a_remedy() {
        for (name, state) in [
            (Some("bbr"), Condition::Limited),
            (Some("bbr3"), Condition::Limited),
            (Some("cubic"), Condition::Fine),
            (Some("reno"), Condition::Fine),
            (None, Condition::Unknown),
        ] {
            let finding = of(name);
            assert_eq!(finding.state, state, "{finding:?}");
            assert_eq!(finding.remedy.is_some(), state == Condition::Limited, "{finding:?}");
        }
    }
}
