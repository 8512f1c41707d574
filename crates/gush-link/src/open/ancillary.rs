//! What the kernel reports of a datagram next to its bytes (cmsg(3)): for the log, and as variables
//! for programs, under the names that socat gives them.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, UNIX_EPOCH};

use libc::{c_int, in_addr};
use nix::net::if_::if_indextoname;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, recvmsg};
use nix::sys::time::TimeVal;
use rustix::io::Errno;

use super::environment::as_socat;

/// The options that make the kernel report (ip(7), ipv6(7), socket(7)). A socket of IPv4 lacks
/// those of IPv6.
const ASKED: [(c_int, c_int); 8] = [
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::IPPROTO_IP, libc::IP_RECVOPTS),
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

/// The variables of all facts.
pub(super) const VARIABLES: [&str; 11] = [
    "SOCAT_TIMESTAMP",
    "SOCAT_IP_TTL",
    "SOCAT_IP_TOS",
    "SOCAT_IP_OPTIONS",
    "SOCAT_IP_IF",
    "SOCAT_IP_LOCADDR",
    "SOCAT_IP_DSTADDR",
    "SOCAT_IPV6_IF",
    "SOCAT_IPV6_DSTADDR",
    "SOCAT_IPV6_HOPLIMIT",
    "SOCAT_IPV6_TCLASS",
];

/// One fact about a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    message: &'static str,
    name: &'static str,
    pub variable: &'static str,
    pub value: String,
}

impl Fact {
    pub fn log(&self) {
        tracing::info!("ancillary message: {}: {}={}", self.message, self.name, self.value);
    }
}

/// Makes the kernel report.
pub(super) fn ask(socket: &impl AsFd) {
    for (level, name) in ASKED {
        let _ = gush::set_socket_option(socket, level, name, &1_i32.to_ne_bytes());
    }
}

/// Receives a datagram with all that the kernel reports of it, and calls `with` with that.
pub(super) fn receive<R>(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: MsgFlags,
    with: impl FnOnce(&RecvMsg<'_, '_, SockaddrStorage>) -> R,
) -> Result<R, Errno> {
    // An IP header has 40 bytes of options at most (RFC 791).
    let mut space = nix::cmsg_space!(
        TimeVal,
        c_int,
        c_int,
        c_int,
        [u8; 40],
        libc::in_pktinfo,
        libc::in6_pktinfo
    );
    let mut room = [IoSliceMut::new(room)];
    let received = recvmsg(socket.as_raw_fd(), &mut room, Some(&mut space), flags);
    received.map(|message| with(&message)).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// The facts about a datagram.
pub(super) fn facts(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Vec<Fact> {
    message.cmsgs().into_iter().flatten().flat_map(of_message).collect()
}

fn of_message(message: ControlMessageOwned) -> Vec<Fact> {
    let fact = |message, name, variable, value| Fact { message, name, variable, value };
    let one = |message, name, variable, value| vec![fact(message, name, variable, value)];
    match message {
        ControlMessageOwned::ScmTimestamp(time) => {
            one("SCM_TIMESTAMP", "timestamp", "SOCAT_TIMESTAMP", timestamp(time))
        }
        ControlMessageOwned::Ipv4Ttl(hops) => {
            one("IP_TTL", "ttl", "SOCAT_IP_TTL", hops.to_string())
        }
        ControlMessageOwned::Ipv4Tos(tos) => one("IP_TOS", "tos", "SOCAT_IP_TOS", tos.to_string()),
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            let ip = |ip: in_addr| Ipv4Addr::from(ip.s_addr.to_ne_bytes()).to_string();
            let interface = interface(info.ipi_ifindex.unsigned_abs());
            vec![
                fact("IP_PKTINFO", "if", "SOCAT_IP_IF", interface),
                fact("IP_PKTINFO", "locaddr", "SOCAT_IP_LOCADDR", ip(info.ipi_spec_dst)),
                fact("IP_PKTINFO", "dstaddr", "SOCAT_IP_DSTADDR", ip(info.ipi_addr)),
            ]
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let ip = as_socat(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
            vec![
                fact("IPV6_PKTINFO", "dstaddr", "SOCAT_IPV6_DSTADDR", ip),
                fact("IPV6_PKTINFO", "if", "SOCAT_IPV6_IF", interface(info.ipi6_ifindex)),
            ]
        }
        ControlMessageOwned::Ipv6HopLimit(hops) => {
            one("IPV6_HOPLIMIT", "hoplimit", "SOCAT_IPV6_HOPLIMIT", hops.to_string())
        }
        ControlMessageOwned::Ipv6TClass(class) => {
            one("IPV6_TCLASS", "tclass", "SOCAT_IPV6_TCLASS", format!("x{class:08x}"))
        }
        ControlMessageOwned::Unknown(other)
            if other.cmsg_header.cmsg_level == libc::IPPROTO_IP
                && other.cmsg_header.cmsg_type == libc::IP_RECVOPTS =>
        {
            let digits: String =
                other.data_bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            one("IP_OPTIONS", "options", "SOCAT_IP_OPTIONS", format!("x{digits}"))
        }
        _ => Vec::new(),
    }
}

fn interface(index: u32) -> String {
    if_indextoname(index).map_or_else(|_| index.to_string(), |name| name.to_string_lossy().into())
}

/// As by ctime(3), with microseconds.
fn timestamp(time: TimeVal) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // The first day of each month as a day of the week, in a year that begins in March (Sakamoto).
    const OFFSETS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let since = Duration::from_secs(time.tv_sec().unsigned_abs());
    let Some(at) = gush_process::local_time(UNIX_EPOCH + since) else { return String::new() };
    let month = usize::from(at.month - 1);
    let year = at.year - i64::from(month < 2);
    let days = year + year / 4 - year / 100 + year / 400 + OFFSETS[month] + i64::from(at.day);
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {}, {:06} usecs",
        DAYS[usize::try_from(days % 7).unwrap_or(0)],
        MONTHS[month],
        at.day,
        at.hour,
        at.minute,
        at.second,
        at.year,
        time.tv_usec()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gush-test sets the time zone to UTC before main.
    #[test]
    fn a_time_is_written_as_by_ctime() {
        for (seconds, text) in [
            (1_709_251_199, "Thu Feb 29 23:59:59 2024, 000042 usecs"),
            (1_767_225_600, "Thu Jan  1 00:00:00 2026, 000042 usecs"),
            (0, "Thu Jan  1 00:00:00 1970, 000042 usecs"),
        ] {
            assert_eq!(timestamp(TimeVal::new(seconds, 42)), text);
        }
    }
}
