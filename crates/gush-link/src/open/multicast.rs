//! Multicast: the groups and the interface of a socket of datagrams.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use nix::net::if_::if_nametoindex;
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{InterfaceIndexOrAddress, SockRef};

use super::error::OpenError;
use super::sockopts::failure;
use crate::address::{Opt, OptionSet};

/// Sets the interface of groups, and joins one.
pub(super) fn set(fd: &OwnedFd, options: &OptionSet) -> Result<(), OpenError> {
    let socket = SockRef::from(fd);
    let is_v4 = socket.domain().is_ok_and(|domain| domain == socket2::Domain::IPV4);
    if let Some(name) = options.text(Opt::MulticastInterface) {
        let interface = interface(name).map_err(failure(Opt::MulticastInterface))?;
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
        set.map_err(failure(Opt::MulticastInterface))?;
    }
    if let Some(text) = options.text(Opt::Membership) {
        join(&socket, text).map_err(failure(Opt::Membership)).map_err(|error| {
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
