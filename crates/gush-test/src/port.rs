//! A TCP port that is a test's alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port of 127.0.0.1 at which nobody listens, until somebody does who gets its number.
///
/// The socket is bound and does not listen. So the kernel refuses every connection, and gives the
/// port to nobody who asks for any port. A server that sets SO_REUSEADDR (socket(7)), as most do,
/// can listen there all the same.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    _held: OwnedFd,
}

impl Port {
    /// # Panics
    /// Where 127.0.0.1 has no port left.
    #[must_use]
    pub fn reserve() -> Self {
        // No program that a test starts is to have the socket, too.
        let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
        let held = socket_with(AddressFamily::INET, kind, flags, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&held, true).expect("SO_REUSEADDR");
        bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let address = getsockname(&held).expect("an address").try_into().expect("one of IPv4");
        Self { address, _held: held }
    }

    /// The port's number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn place(&self) -> String {
        self.address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_and_can_be_listened_at() {
        let port = Port::reserve();
        let refused = TcpStream::connect(port.place()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(port.place()).unwrap();
        let client = TcpStream::connect(port.place()).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    }

    #[test]
    fn no_program_inherits_a_reserved_port() {
        let port = Port::reserve();
        let flags = rustix::io::fcntl_getfd(&port._held).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn nobody_else_gets_a_reserved_port() {
        let reserved: Vec<_> = (0..200).map(|_| Port::reserve()).collect();
        let any = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_reserved = |number: u16| reserved.iter().any(|port| port.number() == number);
        assert!(!(0..5000).any(|_| is_reserved(any())));
    }
}
