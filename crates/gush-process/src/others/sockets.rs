//! Pairs of connected sockets on this machine, from sock_diag(7): /proc/net has no peers.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// The other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The inode of the other socket.
    pub inode: u64,
    /// Whether it is a Unix socket; else it is of TCP.
    pub is_unix: bool,
    /// Bytes that have arrived and that nobody has read yet.
    pub unread_bytes: u64,
    /// Bytes that were written and that the other end has not acknowledged, or not read.
    pub unsent_bytes: u64,
}

/// The connected Unix and TCP sockets whose other ends are in this network namespace, by inode.
///
/// # Errors
/// Those of netlink(7): a filter may deny the socket.
pub fn peers() -> io::Result<HashMap<u64, Peer>> {
    let mut peers = HashMap::new();
    for (inode, peer, unread, unsent) in dump(&unix_request())?.iter().filter_map(|m| unix(m)) {
        let peer = Peer {
            inode: peer,
            is_unix: true,
            unread_bytes: unread.into(),
            unsent_bytes: unsent.into(),
        };
        peers.insert(inode, peer);
    }
    let mut tcp = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        tcp.extend(dump(&inet_request(family))?.iter().filter_map(|message| inet(message)));
    }
    let at: HashMap<_, _> =
        tcp.iter().map(|socket| (socket.addresses, socket.peer.inode)).collect();
    for Inet { addresses: (own, other), peer } in &tcp {
        if let Some(&inode) = at.get(&(*other, *own)) {
            peers.insert(peer.inode, Peer { inode, ..*peer });
        }
    }
    Ok(peers)
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const HEADER_BYTES: usize = 16;
const DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// The payloads of the kernel's answers to a request.
fn dump(request: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let socket: OwnedFd = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let length = u32::try_from(HEADER_BYTES + request.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut payloads = Vec::new();
    let mut answer = vec![0; 64 << 10];
    loop {
        let (bytes, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        let mut rest = &answer[..bytes];
        while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
            let length = length as usize;
            if kind == DONE || length < HEADER_BYTES || length > rest.len() {
                return Ok(payloads);
            }
            if kind == ERROR {
                let errno = u32_at(rest, HEADER_BYTES).unwrap_or_default() as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            payloads.push(rest[HEADER_BYTES..length].to_vec());
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

const TCP_ESTABLISHED: u32 = 1;
const TCP_FIN_WAIT1: u32 = 4;
const TCP_FIN_WAIT2: u32 = 5;
const TCP_CLOSE_WAIT: u32 = 8;

/// `struct unix_diag_req` of <linux/unix_diag.h>: all connected sockets, with peer and queues.
fn unix_request() -> Vec<u8> {
    const SHOW_PEER: u32 = 4;
    const SHOW_RQLEN: u32 = 16;
    let mut request = vec![AddressFamily::UNIX.as_raw() as u8, 0, 0, 0];
    request.extend((1_u32 << TCP_ESTABLISHED).to_ne_bytes());
    request.extend([0; 4]);
    request.extend((SHOW_PEER | SHOW_RQLEN).to_ne_bytes());
    request.extend([0xff; 8]);
    request
}

/// Inode, inode of the peer, unread and unsent bytes from a `struct unix_diag_msg`.
fn unix(message: &[u8]) -> Option<(u64, u64, u32, u32)> {
    const UNIX_DIAG_PEER: u16 = 2;
    const UNIX_DIAG_RQLEN: u16 = 4;
    let inode = u32_at(message, 4)?;
    let (mut peer, mut queues) = (None, (0, 0));
    let mut attributes = message.get(16..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        match kind {
            UNIX_DIAG_PEER => peer = u32_at(attributes, 4),
            UNIX_DIAG_RQLEN => queues = (u32_at(attributes, 4)?, u32_at(attributes, 8)?),
            _ => {}
        }
        let next = usize::from(length.max(4)).next_multiple_of(4);
        attributes = attributes.get(next..).unwrap_or_default();
    }
    Some((inode.into(), peer?.into(), queues.0, queues.1))
}

/// `struct inet_diag_req_v2` of <linux/inet_diag.h>: all connected TCP sockets.
fn inet_request(family: AddressFamily) -> Vec<u8> {
    const IPPROTO_TCP: u8 = 6;
    let states = [TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_CLOSE_WAIT];
    let states: u32 = states.iter().map(|state| 1 << state).sum();
    let mut request = vec![family.as_raw() as u8, IPPROTO_TCP, 0, 0];
    request.extend(states.to_ne_bytes());
    request.extend([0; 48]);
    request
}

struct Inet {
    /// Of this end, and of the other.
    addresses: (SocketAddr, SocketAddr),
    /// With the inode of this end.
    peer: Peer,
}

/// From a `struct inet_diag_msg`.
fn inet(message: &[u8]) -> Option<Inet> {
    let is_v4 = u16::from(*message.first()?) == AddressFamily::INET.as_raw();
    let port = |at| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| {
        let bytes: [u8; 16] = message.get(at..at + 16)?.try_into().ok()?;
        Some(match is_v4 {
            true => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
            // An IPv6 socket with an IPv4 peer has mapped addresses, and its peer has not.
            false => Ipv6Addr::from(bytes).to_canonical(),
        })
    };
    let own = SocketAddr::new(address(8)?, port(4)?);
    let other = SocketAddr::new(address(24)?, port(6)?);
    let peer = Peer {
        inode: u32_at(message, 68)?.into(),
        is_unix: false,
        unread_bytes: u32_at(message, 56)?.into(),
        unsent_bytes: u32_at(message, 60)?.into(),
    };
    Some(Inet { addresses: (own, other), peer })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn inode(socket: impl AsFd) -> u64 {
        rustix::fs::fstat(socket).unwrap().st_ino
    }

    #[test]
    fn the_ends_of_a_connection_know_each_other_and_what_is_queued() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        one.write_all(&[7; 100]).unwrap();
        client.write_all(&[7; 200]).unwrap();
        // Arrival over the loopback device is not bound to the end of the write.
        server.peek(&mut [0; 200]).unwrap();
        let peers = peers().unwrap();
        let peer = |socket: u64| peers[&socket];
        assert_eq!(peer(inode(&one)).inode, inode(&other));
        assert_eq!(
            (peer(inode(&other)).inode, peer(inode(&other)).unread_bytes),
            (inode(&one), 100)
        );
        assert_eq!(peer(inode(&client)).inode, inode(&server));
        assert_eq!(
            (peer(inode(&server)).inode, peer(inode(&server)).unread_bytes),
            (inode(&client), 200)
        );
    }
}
