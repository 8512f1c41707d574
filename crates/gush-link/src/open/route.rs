//! Datagrams with the local address that they were sent to (IP_PKTINFO, ip(7)): answers leave from
//! there, where a socket of all addresses would let the kernel choose another.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrLike, SockaddrStorage, sendmsg,
    setsockopt,
};
use rustix::io::Errno;
use rustix::net::{getsockname, sockopt};

use super::ancillary::{self, Fact};
use super::connect::socket_like;

/// The sender of a datagram, and the local address that it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub sender: SocketAddr,
    /// `None` if the kernel has to choose, as for answers to multicasts.
    pub local: Option<IpAddr>,
}

impl Route {
    /// Makes the kernel report the local addresses of datagrams from here on.
    pub fn ask_for_locals(socket: &impl AsFd) {
        // IPv6 sockets may receive both kinds of datagrams.
        let _ = setsockopt(socket, Ipv4PacketInfo, &true);
        let _ = setsockopt(socket, Ipv6RecvPacketInfo, &true);
    }

    /// Receives or peeks at a datagram; no route if the sender has no Internet address. `facts`
    /// gets what the kernel reports.
    pub fn receive(
        socket: BorrowedFd<'_>,
        room: &mut [u8],
        flags: MsgFlags,
        facts: Option<&mut Vec<Fact>>,
    ) -> Result<(usize, Option<Self>), Errno> {
        ancillary::receive(socket, room, flags, |message| {
            if let Some(facts) = facts {
                *facts = ancillary::facts(message);
            }
            let sender = message.address.as_ref().and_then(internet);
            (message.bytes, sender.map(|sender| Self { sender, local: local(message) }))
        })
    }

    /// Sends an answer.
    pub fn answer(&self, socket: BorrowedFd<'_>, datagram: &[u8]) -> Result<(), Errno> {
        let (v4, v6);
        let local = match self.local {
            None => None,
            Some(IpAddr::V4(ip)) => {
                let own = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
                let none = libc::in_addr { s_addr: 0 };
                v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: own, ipi_addr: none };
                Some(ControlMessage::Ipv4PacketInfo(&v4))
            }
            Some(IpAddr::V6(ip)) => {
                let own = libc::in6_addr { s6_addr: ip.octets() };
                v6 = libc::in6_pktinfo { ipi6_addr: own, ipi6_ifindex: 0 };
                Some(ControlMessage::Ipv6PacketInfo(&v6))
            }
        };
        let to = SockaddrStorage::from(self.sender);
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::MSG_NOSIGNAL);
        let sent = sendmsg(fd, &[IoSlice::new(datagram)], local.as_slice(), flags, Some(&to));
        sent.map(drop).map_err(of_nix)
    }

    /// A second socket of the port of `wildcard`, bound to this route's local address and connected
    /// to the sender. What came before stays with `wildcard`.
    pub fn second_socket(&self, wildcard: &OwnedFd) -> Result<OwnedFd, Errno> {
        let port = SocketAddr::try_from(getsockname(wildcard)?)?.port();
        let own = socket_like(wildcard, &self.sender)?;
        let local = match (self.local.ok_or(Errno::ADDRNOTAVAIL)?, self.sender) {
            (IpAddr::V4(ip), SocketAddr::V6(_)) => {
                sockopt::set_ipv6_v6only(&own, false)?;
                ip.to_ipv6_mapped().into()
            }
            (ip, _) => ip,
        };
        // The kernel doubles what is set (socket(7)).
        let (received, sent) = (
            sockopt::socket_recv_buffer_size(wildcard)? / 2,
            sockopt::socket_send_buffer_size(wildcard)? / 2,
        );
        sockopt::set_socket_recv_buffer_size(&own, received)?;
        sockopt::set_socket_send_buffer_size(&own, sent)?;
        let is_shared = sockopt::socket_reuseaddr(wildcard)?;
        for socket in [wildcard, &own] {
            sockopt::set_socket_reuseaddr(socket, true)?;
        }
        let bound = rustix::net::bind(&own, &SocketAddr::new(local, port));
        // The socket may be shared with another process.
        sockopt::set_socket_reuseaddr(wildcard, is_shared)?;
        bound?;
        rustix::net::connect(&own, &self.sender)?;
        Ok(own)
    }

    /// Would answers leave from another address than the datagram came to, once `socket` is
    /// connected to the sender?
    pub fn is_lost_by_connecting(&self, socket: BorrowedFd<'_>) -> bool {
        let ip_of = |socket: BorrowedFd<'_>| {
            SocketAddr::try_from(getsockname(socket).ok()?).ok().map(|address| address.ip())
        };
        if !ip_of(socket).is_some_and(|ip| ip.is_unspecified()) {
            return false;
        }
        let chosen = || {
            let other = socket_like(socket, &self.sender).ok()?;
            rustix::net::connect(&other, &self.sender).ok()?;
            ip_of(other.as_fd())
        };
        let chosen = chosen().map(|ip| ip.to_canonical());
        self.local.is_some_and(|local| chosen.is_some_and(|chosen| chosen != local.to_canonical()))
    }
}

/// The local address of a datagram, from which an answer should come.
fn local(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<IpAddr> {
    let mut local = None;
    for info in message.cmsgs().into_iter().flatten() {
        match info {
            // For a broadcast or multicast, the address that an answer should come from (ip(7)).
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                local = Some(IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()));
                break;
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                local = Some(IpAddr::from(info.ipi6_addr.s6_addr));
            }
            _ => {}
        }
    }
    // A link-local address would need an interface.
    local.filter(|ip| match ip {
        IpAddr::V4(_) => !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unicast_link_local(),
    })
}

pub(super) fn internet(address: &SockaddrStorage) -> Option<SocketAddr> {
    match address.family()? {
        nix::sys::socket::AddressFamily::Inet => {
            Some(SocketAddr::V4((*address.as_sockaddr_in()?).into()))
        }
        _ => Some(SocketAddr::V6((*address.as_sockaddr_in6()?).into())),
    }
}

fn of_nix(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}
