//! Broadcast and multicast: the options of sockets of datagrams about many receivers.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use nix::net::if_::if_nametoindex;
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{InterfaceIndexOrAddress, SockRef};

use super::error::OpenError;
use crate::address::{Opt, Options};

/// Sets what the options say about many receivers.
pub(super) fn set(fd: &OwnedFd, options: &Options) -> Result<(), OpenError> {
    let fail = |option: Opt| {
        move |error: std::io::Error| OpenError::new(format!("set {}", option.name()), error)
    };
    let socket = SockRef::from(fd);
    let is_v4 = socket.domain().is_ok_and(|domain| domain == socket2::Domain::IPV4);
    if let Some(on) = options.flag(Opt::Broadcast) {
        socket.set_broadcast(on).map_err(fail(Opt::Broadcast))?;
    }
    if let Some(on) = options.flag(Opt::MulticastLoop) {
        let set = match is_v4 {
            true => socket.set_multicast_loop_v4(on),
            false => socket.set_multicast_loop_v6(on),
        };
        set.map_err(fail(Opt::MulticastLoop))?;
    }
    if let Some(hops) = options.count(Opt::MulticastTtl) {
        let set = match is_v4 {
            true => socket.set_multicast_ttl_v4(hops),
            false => socket.set_multicast_hops_v6(hops),
        };
        set.map_err(fail(Opt::MulticastTtl))?;
    }
    if let Some(name) = options.text(Opt::MulticastInterface) {
        let interface = interface(name).map_err(fail(Opt::MulticastInterface))?;
        let set = match (is_v4, interface) {
            (true, InterfaceIndexOrAddress::Address(address)) => {
                socket.set_multicast_if_v4(&address)
            }
            (true, InterfaceIndexOrAddress::Index(index)) => {
                sockopt::set_ip_multicast_if_with_ifindex(
                    fd,
                    &Ipv4Addr::UNSPECIFIED,
                    &Ipv4Addr::UNSPECIFIED,
                    index,
                )
                .map_err(Into::into)
            }
            (false, InterfaceIndexOrAddress::Index(index)) => socket.set_multicast_if_v6(index),
            (false, InterfaceIndexOrAddress::Address(_)) => Err(Errno::INVAL.into()),
        };
        set.map_err(fail(Opt::MulticastInterface))?;
    }
    if let Some(text) = options.text(Opt::Membership) {
        join(&socket, text).map_err(fail(Opt::Membership)).map_err(|error| {
            error.hinted("membership=GROUP:INTERFACE names a group and the interface's name, number or address, such as 224.0.0.251:eth0")
        })?;
    }
    Ok(())
}

/// Joins the group of `GROUP[:INTERFACE]`.
fn join(socket: &SockRef<'_>, text: &str) -> std::io::Result<()> {
    let (group, name) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((group, rest)) => (group, rest.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(group, name)| (group, Some(name))),
    };
    let interface = match name {
        Some(name) => interface(name)?,
        None => InterfaceIndexOrAddress::Index(0),
    };
    match (group.parse().map_err(|_| Errno::INVAL)?, interface) {
        (IpAddr::V4(group), interface) => socket.join_multicast_v4_n(&group, &interface),
        (IpAddr::V6(group), InterfaceIndexOrAddress::Index(index)) => {
            socket.join_multicast_v6(&group, index)
        }
        (IpAddr::V6(_), InterfaceIndexOrAddress::Address(_)) => Err(Errno::INVAL.into()),
    }
}

/// An interface by its address, number or name.
fn interface(text: &str) -> std::io::Result<InterfaceIndexOrAddress> {
    if let Ok(address) = text.parse() {
        return Ok(InterfaceIndexOrAddress::Address(address));
    }
    let index = match text.parse() {
        Ok(index) => index,
        Err(_) => if_nametoindex(text)?,
    };
    Ok(InterfaceIndexOrAddress::Index(index))
}
