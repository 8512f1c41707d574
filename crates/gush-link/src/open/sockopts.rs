//! Options of sockets of the Internet that the kernel keeps as a number.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use socket2::SockRef;

use super::ancillary;
use super::error::OpenError;
use crate::address::{Opt, OptionSet};

type Set<V> = fn(&SockRef<'_>, bool, V) -> io::Result<()>;

// The second parameter: is the socket of IPv4?
const FLAGS: &[(Opt, Set<bool>)] = &[
    (Opt::ReusePort, |socket, _, on| socket.set_reuse_port(on)),
    (Opt::Freebind, |socket, is_v4, on| match is_v4 {
        true => socket.set_freebind_v4(on),
        false => socket.set_freebind_v6(on),
    }),
    (Opt::Transparent, |socket, is_v4, on| match is_v4 {
        true => socket.set_ip_transparent_v4(on),
        false => socket.set_ip_transparent_v6(on),
    }),
    (Opt::Broadcast, |socket, _, on| socket.set_broadcast(on)),
    (Opt::MulticastLoop, |socket, is_v4, on| match is_v4 {
        true => socket.set_multicast_loop_v4(on),
        false => socket.set_multicast_loop_v6(on),
    }),
];
const NUMBERS: &[(Opt, Set<u32>)] = &[
    (Opt::Ttl, |socket, is_v4, hops| match is_v4 {
        true => socket.set_ttl_v4(hops),
        false => socket.set_unicast_hops_v6(hops),
    }),
    (Opt::Tos, |socket, is_v4, class| match is_v4 {
        true => socket.set_tos_v4(class),
        false => socket.set_tclass_v6(class),
    }),
    (Opt::Priority, |socket, _, priority| socket.set_priority(priority)),
    (Opt::MulticastTtl, |socket, is_v4, hops| match is_v4 {
        true => socket.set_multicast_ttl_v4(hops),
        false => socket.set_multicast_hops_v6(hops),
    }),
    (Opt::MaxSegment, |socket, _, bytes| socket.set_tcp_mss(bytes)),
];

/// Sets what the options say; before bind(2), which some of them concern.
pub(super) fn set(fd: &OwnedFd, is_v4: bool, options: &OptionSet) -> Result<(), OpenError> {
    let socket = SockRef::from(fd);
    each(FLAGS, &socket, is_v4, |option| options.flag(option))?;
    each(NUMBERS, &socket, is_v4, |option| options.count(option))?;
    if options.is_on(Opt::Ancillary) {
        // The kernel notes these of a datagram when it comes.
        ancillary::ask(fd);
    }
    match options.text(Opt::Device) {
        Some(name) => socket.bind_device(Some(name.as_bytes())).map_err(failure(Opt::Device)),
        None => Ok(()),
    }
}

pub(super) fn failure(option: Opt) -> impl Fn(io::Error) -> OpenError {
    move |error| {
        let remedy = Errno::from_io_error(&error).and_then(|errno| remedy(option, errno));
        OpenError::new(format!("set {}", option.name()), error).hinted_by(remedy)
    }
}

pub(super) fn remedy(option: Opt, errno: Errno) -> Option<&'static str> {
    Some(match (option, errno) {
        (Opt::Device | Opt::MulticastInterface, Errno::NODEV) => {
            "`ip link` shows the interfaces of this machine"
        }
        // TCP_MIN_MSS and MAX_TCP_WINDOW of net/tcp.h.
        (Opt::MaxSegment, Errno::INVAL) => "it goes from 88 to 32767",
        (Opt::Transparent, Errno::PERM) => "it is for root, or CAP_NET_RAW",
        (Opt::SocketOption, Errno::PERM) => "it is for root, or a capability of capabilities(7)",
        (Opt::Priority, Errno::PERM) => "those above 6 are for root, or CAP_NET_ADMIN",
        _ => return None,
    })
}

fn each<V>(
    rows: &[(Opt, Set<V>)],
    socket: &SockRef<'_>,
    is_v4: bool,
    value: impl Fn(Opt) -> Option<V>,
) -> Result<(), OpenError> {
    rows.iter().try_for_each(|(option, set)| match value(*option) {
        Some(value) => set(socket, is_v4, value).map_err(failure(*option)),
        None => Ok(()),
    })
}
